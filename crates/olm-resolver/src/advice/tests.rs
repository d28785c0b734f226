use super::*;

fn fix(changes: Vec<Change>, harm: Harm) -> Fix {
    Fix { changes, harm }
}

fn unsubscribe(name: &str) -> Change {
    Change::RemoveSubscription {
        subscription: name.to_owned(),
        csv: None,
    }
}

#[test]
fn what_is_cut_and_what_was_not_tried_is_told() {
    let mut advice = Advice {
        fixes: vec![fix(vec![unsubscribe("a")], Harm::None)],
        more: 3,
        is_stuck: false,
        untried: 0,
    };
    assert_eq!(
        advice.lines("ns"),
        [
            "to resolve: delete subscription a in namespace ns, if it is not needed",
            "… 3 more changes of this kind would do"
        ]
    );
    advice = Advice {
        is_stuck: true,
        ..Advice::default()
    };
    assert_eq!(
        advice.lines("ns"),
        ["no single change helps, and no two together"]
    );
    advice.untried = 7;
    assert_eq!(
        advice.lines("ns"),
        ["no change was found that helps; 7 of the possible ones were not tried"]
    );
}

#[test]
fn a_pair_is_one_way_out_and_marked_with_what_it_destroys() {
    let csv = Change::RemoveCsv {
        csv: "old.v1".to_owned(),
    };
    let advice = Advice {
        fixes: vec![fix(vec![unsubscribe("a"), csv], Harm::Destroys)],
        ..Advice::default()
    };
    assert_eq!(
        advice.lines("ns"),
        [
            "no single change helps; these two together do",
            "to resolve: delete subscription a in namespace ns, if it is not needed; and delete clusterserviceversion old.v1 in \
             namespace ns, if it is not needed [destroys what runs: old.v1]"
        ]
    );
}
