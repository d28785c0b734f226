use super::*;
use crate::problem::OperatorGroup;

fn csv(name: &str, replaces: &str, phase: &str) -> InstalledCsv {
    InstalledCsv {
        name: name.into(),
        replaces: replaces.into(),
        phase: phase.into(),
        version: "1.2.3".into(),
        ..InstalledCsv::default()
    }
}

fn owner(name: &str, package: &str, installed: &str) -> Subscription {
    Subscription {
        name: name.into(),
        package: package.into(),
        installed_csv: installed.into(),
        ..Subscription::default()
    }
}

/// Returns the names of the entries, or the error.
fn check(fail_forward: bool, subscriptions: &[Subscription], installed: &[InstalledCsv]) -> String {
    let problem = Problem {
        namespace: "ns".into(),
        subscriptions: subscriptions.to_vec(),
        installed: installed.to_vec(),
        operator_group: OperatorGroup {
            fail_forward,
            ..OperatorGroup::default()
        },
        ..Problem::default()
    };
    match entries(&problem, &Readings::default(), &Work::default()) {
        Ok(entries) => entries.iter().map(|e| &*e.name).collect::<Vec<_>>().join(" "),
        Err(error) => error.to_string(),
    }
}

#[test]
fn fail_forward_leaves_out_what_the_failed_one_replaces() {
    let chain = [
        csv("v1", "", "Replacing"),
        csv("v2", "v1", "Replacing"),
        csv("v3", "v2", "Failed"),
    ];
    assert_eq!(check(false, &[owner("s", "p", "v3")], &chain), "v2 v1 v3");
    assert_eq!(check(true, &[owner("s", "p", "v3")], &chain), "v3");
    assert_eq!(check(true, &[], &[csv("v1", "", "Failed")]), "v1");
    let ends_well = [csv("v1", "", "Replacing"), csv("v2", "v1", "Succeeded")];
    assert_eq!(check(true, &[], &ends_well), "v2 v1");
}

#[test]
fn what_was_replaced_does_not_count_while_it_is_deleted() {
    for phase in ["Replacing", "Deleting"] {
        let chain = [csv("v1", "", phase), csv("v2", "v1", "Succeeded")];
        assert_eq!(check(false, &[owner("s", "p", "v2")], &chain), "v2", "{phase}");
    }
    let beside = [csv("v1", "", "Succeeded"), csv("v2", "v1", "Pending")];
    assert_eq!(check(false, &[owner("s", "p", "v2")], &beside), "v1 v2");
}

#[test]
fn fail_forward_refuses_chains_it_does_not_understand() {
    let broken = [
        csv("v1", "", "Replacing"),
        csv("v2", "v1", "Failed"),
        csv("v3", "v2", "Failed"),
    ];
    assert_eq!(
        check(true, &[], &broken),
        "csv ns/v2 in phase Failed instead of Replacing"
    );
    let circle = [csv("v1", "v2", "Replacing"), csv("v2", "v1", "Replacing")];
    assert_eq!(check(true, &[], &circle), "csv ns/v1 has already been seen");
}

#[test]
fn a_version_being_replaced_by_a_healthy_one_no_longer_counts() {
    let upgrade = [csv("v1", "", "Replacing"), csv("v2", "v1", "Installing")];
    assert_eq!(check(false, &[owner("s", "p", "v2")], &upgrade), "v2");
    assert_eq!(check(false, &[], &upgrade), "v2 v1", "nobody answers for v2");
    let circle = [csv("v1", "v2", "Replacing"), csv("v2", "v1", "Replacing")];
    assert_eq!(check(false, &[owner("s", "p", "v2")], &circle), "v1 v2");
}

#[test]
fn copies_are_left_out() {
    assert_eq!(
        check(
            false,
            &[],
            &[InstalledCsv {
                copied: true,
                ..csv("v1", "", "")
            }]
        ),
        ""
    );
}

#[test]
fn the_package_is_inferred_from_subscriptions_that_agree() {
    let package = |subscriptions: &[Subscription], version: &str| {
        let installed = vec![InstalledCsv {
            version: version.into(),
            ..csv("a", "", "")
        }];
        let problem = Problem {
            subscriptions: subscriptions.to_vec(),
            installed,
            ..Problem::default()
        };
        let entries = entries(&problem, &Readings::default(), &Work::default()).unwrap();
        entries[0]
            .properties
            .iter()
            .map(|p| format!("{} {}", p.kind, p.value))
            .collect::<Vec<_>>()
            .join(" ")
    };
    let inferred = r#"olm.package {"packageName":"x","version":"1.2.3"}"#;
    assert_eq!(package(&[owner("s", "x", "a")], "1.2.3"), inferred);
    assert_eq!(
        package(&[owner("s", "x", "a"), owner("t", "x", "a")], "1.2.3"),
        inferred
    );
    assert_eq!(
        package(&[owner("s", "x", "a")], ""),
        r#"olm.package {"packageName":"x","version":""}"#
    );
    assert_eq!(package(&[], "1.2.3"), "");
    assert_eq!(package(&[owner("s", "x", "b")], "1.2.3"), "");
    assert_eq!(package(&[owner("s", "", "a")], "1.2.3"), "");
    assert_eq!(
        package(&[owner("s", "x", "a"), owner("t", "y", "a")], "1.2.3"),
        ""
    );
}

#[test]
fn the_annotation_replaces_everything_derived() {
    let read = |annotation: &str| {
        let api = Gvk {
            group: "g".into(),
            version: "v1".into(),
            kind: "K".into(),
        };
        let installed = vec![InstalledCsv {
            properties: Some(annotation.into()),
            owned: vec![api],
            ..csv("a", "", "")
        }];
        let subscriptions = vec![owner("s", "x", "a")];
        entries(
            &Problem {
                installed,
                subscriptions,
                ..Problem::default()
            },
            &Readings::default(),
            &Work::default(),
        )
        .map(|entries| {
            entries[0]
                .properties
                .iter()
                .map(|p| p.value.to_string())
                .collect::<Vec<_>>()
                .join(" ")
        })
    };
    assert_eq!(read("{}"), Ok(String::new()));
    assert_eq!(read(r#"{"properties":[]}"#), Ok(String::new()));
    assert_eq!(
        read(r#"{"properties":[{"type":"t","value":"x > y"}]}"#),
        Ok(r#""x > y""#.into())
    );
    for bad in ["", "]", r#"{"properties":1}"#, r#"{"properties":["x"]}"#] {
        assert!(
            read(bad).is_err_and(|error| error.text.starts_with("failed to retrieve properties of csv")),
            "{bad}"
        );
    }
}

#[test]
fn an_annotation_is_read_once_however_often_a_problem_is_copied() {
    let annotation = r#"{"properties":[{"type":"olm.label.required","value":{"label":"l"}}]}"#;
    let problem = Problem {
        installed: vec![InstalledCsv {
            properties: Some(annotation.into()),
            ..csv("a", "", "")
        }],
        ..Problem::default()
    };
    let (readings, work) = (Readings::new(&problem), Work::default());
    let first = entries(&problem, &readings, &work).unwrap().remove(0);
    let once = work.done();
    let again = entries(&problem.clone(), &readings, &work).unwrap().remove(0);
    assert!(Arc::ptr_eq(&first.properties, &again.properties));
    let requirement = |entry: &Entry| Arc::as_ptr(&entry.requirements().unwrap()[0]);
    assert_eq!(requirement(&first), requirement(&again));
    assert!(work.done() < 2 * once, "{} after {once}", work.done());
}

#[test]
fn only_predecessors_of_what_a_subscription_has_are_marked() {
    let mut installed = [
        csv("a.v1", "", "Succeeded"),
        csv("a.v2", "a.v1", "Pending"),
        csv("b.v1", "", "Succeeded"),
        csv("b.v2", "b.v1", "Succeeded"),
        csv("c.v1", "", "Deleting"),
        csv("c.v2", "c.v1", "Succeeded"),
    ];
    let has = |csv: &str| Subscription {
        installed_csv: csv.to_owned(),
        ..Default::default()
    };
    mark_replaced(&mut installed, &[has("a.v2"), has("c.v2")]);
    let phases: Vec<&str> = installed.iter().map(|csv| csv.phase.as_str()).collect();
    assert_eq!(
        phases,
        [
            "Replacing",
            "Pending",
            "Succeeded",
            "Succeeded",
            "Deleting",
            "Succeeded"
        ]
    );
}
