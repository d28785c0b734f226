//! What holds of gates whatever is drawn: components with and without policies, Manual or not, together or apart.

use std::collections::BTreeSet;

use jiff::Timestamp;
use olm_api::labels;
use olm_runtime::plan::Action;
use olm_testing::properties::config;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::decide::decide;
use super::super::gate;
use super::super::observed::{Observed, PolicyFacts, Preview, Served};
use super::decisions::{observed, ready, subscription};
use crate::upgrade_policy::{InstalledVersion, UpgradePolicy};

/// A Thursday.
const NOW: &str = "2026-01-01T00:00:00Z";

/// Annotations that a Subscription may have; the first is none.
const POLICIES: [Option<(&str, &str)>; 6] = [
    None,
    Some((labels::UPGRADE_WINDOW, "Sat 02:00 4h")),
    Some((labels::UPGRADE_WINDOW, "Sun 02:00 4h")),
    Some((labels::UPGRADE_WINDOW, "Thu 00:00 4h")),
    Some((labels::UPGRADE_APPROVE, "patch")),
    Some((labels::UPGRADE_APPROVE, "nonsense")),
];

/// One component for each policy and word; each upgrades from 1.0.0 to 2.0.0.
fn namespace(drawn: &[(usize, bool)], separate: bool) -> Observed {
    let name = |index: usize| format!("s{index}");
    let (mut subscriptions, mut components) = (Vec::new(), Vec::new());
    let mut policies = Vec::new();
    for (index, &(policy, manual)) in drawn.iter().enumerate() {
        let mut object = (*subscription(&name(index), None)).clone();
        object.spec.install_plan_approval = manual.then_some(olm_api::v1alpha1::Approval::Manual);
        subscriptions.push(object.into());
        let csv = format!("{}.v2", name(index));
        let mut component = ready(&name(index), &csv);
        component.served.push(Served {
            subscription: name(index),
            csv,
            version: "2.0.0".parse().ok(),
        });
        components.push(component);
        let annotations = POLICIES[policy]
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        policies.extend(
            UpgradePolicy::read(&name(index), &annotations.collect()).map(|policy| PolicyFacts {
                subscription: name(index),
                policy,
                installed: Some(InstalledVersion {
                    csv: format!("{}.v1", name(index)),
                    version: "1.0.0".parse().ok(),
                }),
                failed: false,
            }),
        );
    }
    Observed {
        policies: policies
            .into_iter()
            .map(|facts| (facts.subscription.clone(), facts))
            .collect(),
        separate_approval: separate,
        ..observed(subscriptions, &[], components)
    }
}

/// The plan that a round creates.
fn created(observed: &Observed) -> Value {
    let (plan, _) = decide(observed, None, now());
    let mut created = plan.actions.into_iter().filter_map(|action| match action {
        Action::Create { object, .. } => Some(object),
        _ => None,
    });
    let first = created.next().unwrap();
    assert!(created.next().is_none());
    first
}

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

proptest! {
    #![proptest_config(config(500))]

    #[test]
    fn without_a_policy_there_is_one_plan_of_all_as_upstream(manual in vec(any::<bool>(), 1..6)) {
        let drawn: Vec<(usize, bool)> = manual.iter().map(|&manual| (0, manual)).collect();
        let plan = created(&namespace(&drawn, false));
        let names: Vec<String> = (0..drawn.len()).map(|index| format!("s{index}.v2")).collect();
        let waits = manual.contains(&true);
        prop_assert_eq!(&plan["spec"], &json!({
            "clusterServiceVersionNames": names, "generation": 1,
            "approval": if waits { "Manual" } else { "Automatic" }, "approved": !waits,
        }));
        prop_assert!(plan["metadata"]["annotations"].is_null());
    }

    #[test]
    fn a_plan_has_components_of_one_gate_and_all_of_them(
        drawn in vec((0..POLICIES.len(), prop::bool::weighted(0.2)), 1..8),
        separate in any::<bool>(),
    ) {
        let observed = namespace(&drawn, separate);
        let any_manual = drawn.iter().any(|(_, manual)| *manual);
        // Said again in plain words: a window that is open, and no policy, keep nothing.
        let keeps = |&(policy, manual): &(usize, bool)| match (any_manual && (manual || !separate), policy) {
            (true, _) => "manual",
            (false, 0 | 3) => "",
            (false, policy) => POLICIES[policy].unwrap().1,
        };
        let plan = created(&observed);
        let names: BTreeSet<&str> =
            plan["spec"]["clusterServiceVersionNames"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
        let of = |index: usize| names.contains(format!("s{index}.v2").as_str());
        let first = (0..drawn.len()).find(|&index| of(index)).unwrap();
        for (index, row) in drawn.iter().enumerate() {
            prop_assert_eq!(of(index), keeps(row) == keeps(&drawn[first]), "{:?} {}", drawn, plan);
        }
        let open = keeps(&drawn[first]).is_empty();
        prop_assert_eq!(&plan["spec"]["approved"], &json!(open));
        let marked = plan["metadata"]["annotations"][labels::UPGRADE_WAITS].is_string();
        prop_assert_eq!(marked, !open && keeps(&drawn[first]) != "manual");
        // What may begin at once comes first.
        prop_assert_eq!(open, drawn.iter().any(|row| keeps(row).is_empty()));
    }
}

/// Everybody of a group is kept by the same, so that what ends the wait of one ends that of all.
#[test]
fn a_group_waits_for_what_each_of_it_waits_for() {
    let observed = namespace(&[(1, false), (1, false), (4, false)], false);
    let super::super::observed::Progress::Resolved { components, .. } = &observed.progress else {
        panic!("it is resolved");
    };
    let groups = gate::group(
        &observed,
        components.iter().collect(),
        |component| component,
        now(),
    );
    let texts: Vec<String> = groups.iter().map(|(gate, _)| gate.text().unwrap()).collect();
    insta::assert_snapshot!(texts.join("\n"), @r#"
    waits by policy: s2.v2 is no patch release after s2.v1: annotation operatorframework.io/upgrade-approve: "patch" of Subscription s2
    waits by policy: the maintenance window opens at 2026-01-03T02:00:00+00:00: annotation operatorframework.io/upgrade-window: "Sat 02:00 4h" of Subscription s0; the maintenance window opens at 2026-01-03T02:00:00+00:00: annotation operatorframework.io/upgrade-window: "Sat 02:00 4h" of Subscription s1
    "#);
}

/// A window may open between the look at what a plan will change and the plan.
#[test]
fn a_preview_stands_on_the_plan_that_it_is_about() {
    // The last one waits for nothing.
    for (policy, names, expected) in [
        (4, ["s0.v2"], json!("{}")),
        (4, ["another.v2"], Value::Null),
        (0, ["s0.v2"], Value::Null),
    ] {
        let mut observed = namespace(&[(policy, false)], false);
        observed.preview = Some(Preview {
            csv_names: names.map(str::to_owned).to_vec(),
            text: "{}".to_owned(),
        });
        let annotations = &created(&observed)["metadata"]["annotations"];
        assert_eq!(annotations[labels::PLAN_PREVIEW], expected);
        assert_eq!(annotations[labels::UPGRADE_WAITS].is_string(), policy != 0);
    }
}
