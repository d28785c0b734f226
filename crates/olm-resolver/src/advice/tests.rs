use std::sync::Arc;

use go_compat::semver::Version;
use olm_fbc::entry::{BundleEntry, EntryProperty};

use super::*;
use crate::catalog::{Catalog, CatalogKey, Snapshot};
use crate::problem::Subscription;
use crate::resolve::{resolve, resolve_within};

fn fix(change: Change, harm: Harm) -> Fix {
    Fix { change, harm }
}

fn unsubscribe(name: &str) -> Change {
    Change::new(ChangeKind::RemoveSubscription, Some(name))
}

#[test]
fn what_is_cut_and_what_was_not_tried_is_reported() {
    let mut advice = Advice {
        fixes: vec![fix(unsubscribe("a"), Harm::None)],
        more: 3,
        ..Advice::default()
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
    assert_eq!(advice.lines("ns"), ["no single change helps"]);
    (advice.tried, advice.untried) = (3, 7);
    assert_eq!(
        advice.lines("ns"),
        ["found no change that helps; tried 3 of 10 possible changes before the work limit"]
    );
    advice.is_stuck = false;
    assert_eq!(
        advice.lines("ns"),
        ["tried 3 of 10 possible changes before the work limit"]
    );
}

#[test]
fn a_fix_is_marked_with_what_it_destroys() {
    let csv = Change {
        csv: Some("old.v1".to_owned()),
        ..Change::new(ChangeKind::RemoveCsv, None)
    };
    let advice = Advice {
        fixes: vec![fix(csv, Harm::Destroys)],
        ..Advice::default()
    };
    assert_eq!(
        advice.lines("ns"),
        [
            "to resolve: delete clusterserviceversion old.v1 in namespace ns, if it is not needed [destroys what runs: old.v1]"
        ]
    );
}

/// Returns Subscriptions to one package each, whose bundles all need something missing. Each package has ten
/// channels of `length` bundles beside the followed one.
fn failing_to_channels_of(length: usize, subscriptions: usize) -> Problem {
    let key = CatalogKey {
        name: "cat".to_owned(),
        namespace: "ns".to_owned(),
    };
    let missing: Arc<[EntryProperty]> = [EntryProperty::new(
        "olm.label.required",
        r#"{"label":"nobody has it"}"#,
    )]
    .into();
    let places = (0..subscriptions).flat_map(|package| {
        (0..11).flat_map(move |channel| {
            let entries = if channel == 0 { 1 } else { length };
            (0..entries).map(move |number| (package, channel, number))
        })
    });
    let entries = places.map(|(package, channel, number)| BundleEntry {
        name: format!("p{package}-{channel}.v{number}").into(),
        package: format!("p{package}").into(),
        channel: format!("c{channel}").into(),
        version: Some(Version::new(number as u64, 0, 0)),
        replaces: (number > 0).then(|| format!("p{package}-{channel}.v{}", number - 1).into()),
        properties: Arc::clone(&missing),
        ..BundleEntry::default()
    });
    let subscription = |number: usize| Subscription {
        name: format!("s{number}"),
        package: format!("p{number}"),
        channel: "c0".to_owned(),
        catalog: key.clone(),
        ..Subscription::default()
    };
    Problem {
        namespace: "ns".to_owned(),
        subscriptions: (0..subscriptions).map(subscription).collect(),
        catalogs: vec![Catalog {
            key: key.clone(),
            priority: 0,
            content: Ok(Arc::new(Snapshot::new(entries))),
        }],
        ..Problem::default()
    }
}

fn advised(problem: &Problem, shared: usize) -> Vec<Advice> {
    let failures = resolve(problem).unwrap().failures;
    let advisor = Advisor::within(problem, &failures, shared);
    let advice = failures.iter().map(|failure| advisor.advise(failure));
    advice.collect()
}

#[test]
fn a_trial_costs_what_it_looks_at_and_not_what_asks_for_it() {
    let [small] = advised(&failing_to_channels_of(3, 1), 5_000).try_into().unwrap();
    assert_eq!((small.tried, small.untried), (11, 0));
    let [large] = advised(&failing_to_channels_of(300, 1), 5_000)
        .try_into()
        .unwrap();
    assert_eq!(large.tried + large.untried, 11);
    // A channel has 300 entries, each a bundle with one constraint.
    assert!(
        large.tried > 1 && large.tried * 900 < 5_000 + 900,
        "{}",
        large.tried
    );
    let told = format!(
        "tried {} of 11 possible changes before the work limit",
        large.tried
    );
    assert_eq!(large.lines("ns").last(), Some(&told));
}

#[test]
fn no_trial_takes_more_than_is_left_however_long_the_channel() {
    // The followed channel has one entry, so the length of the others is not known in advance.
    let [advice] = advised(&failing_to_channels_of(20_000, 1), 6_000)
        .try_into()
        .unwrap();
    assert_eq!((advice.tried, advice.untried), (0, 11));
}

#[test]
fn all_failures_of_a_namespace_share_what_their_trials_look_at() {
    let all = advised(&failing_to_channels_of(300, 20), 50_000);
    let tried: usize = all.iter().map(|advice| advice.tried).sum();
    let untried: usize = all.iter().map(|advice| advice.untried).sum();
    assert_eq!(tried + untried, 20 * 11);
    // Each has some work, and all together do not exceed the limit.
    assert!(all.iter().all(|advice| advice.tried > 0), "{all:?}");
    assert!(tried < 20 + 50_000 / 900, "{tried}");
}

#[test]
fn a_namespace_that_takes_too_much_work_is_reported() {
    let problem = failing_to_channels_of(300, 10);
    let resolved = |limit| resolve_within(&problem, &Readings::default(), &Work::within(limit));
    assert_eq!(resolved(10_000).unwrap().failures.len(), 10);
    let error = go_compat::error_chain(&resolved(50).unwrap_err());
    assert_eq!(
        error,
        "resolve namespace ns: solve constraints: more than 50 entries, bundles and constraints are reachable, so the search stopped"
    );
}
