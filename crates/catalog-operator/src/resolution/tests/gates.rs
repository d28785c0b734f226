//! What holds of gates whatever is drawn: components with and without policies, Manual or not, together or apart.

use std::collections::BTreeSet;

use jiff::Timestamp;
use olm_api::labels;
use olm_resolver::explain::EVENT_LIMIT;
use olm_runtime::plan::Action;
use olm_testing::properties::config;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::decide::decide;
use super::super::gate;
use super::super::observed::{Observed, PolicyFacts, Progress, Served};
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
                is_unsettled: false,
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

/// The plans that a round creates.
fn created(observed: &Observed) -> Vec<Value> {
    let (plan, _) = decide(observed, None, now());
    let created = plan.actions.into_iter().filter_map(|action| match action {
        Action::Create { object, .. } => Some(object),
        _ => None,
    });
    created.collect()
}

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

proptest! {
    #![proptest_config(config(500))]

    #[test]
    fn without_a_policy_there_is_one_plan_of_all_as_upstream(manual in vec(any::<bool>(), 1..6)) {
        let drawn: Vec<(usize, bool)> = manual.iter().map(|&manual| (0, manual)).collect();
        let plans = created(&namespace(&drawn, false));
        prop_assert_eq!(plans.len(), 1);
        let plan = &plans[0];
        let names: Vec<String> = (0..drawn.len()).map(|index| format!("s{index}.v2")).collect();
        let waits = manual.contains(&true);
        prop_assert_eq!(&plan["spec"], &json!({
            "clusterServiceVersionNames": names, "generation": 1,
            "approval": if waits { "Manual" } else { "Automatic" }, "approved": !waits,
        }));
        prop_assert!(plan["metadata"]["annotations"].is_null());
    }

    #[test]
    fn a_plan_has_what_waits_for_nothing_or_for_a_user_or_what_one_waits_for(
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
        let plans = created(&observed);
        let (mut planned, mut generations) = (0, BTreeSet::new());
        for plan in &plans {
            let names: BTreeSet<&str> =
                plan["spec"]["clusterServiceVersionNames"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
            let of = |index: usize| names.contains(format!("s{index}.v2").as_str());
            let first = (0..drawn.len()).find(|&index| of(index)).unwrap();
            let alone = !["", "manual"].contains(&keeps(&drawn[first]));
            for (index, row) in drawn.iter().enumerate() {
                let expected = if alone { index == first } else { keeps(row) == keeps(&drawn[first]) };
                prop_assert_eq!(of(index), expected, "{:?} {}", drawn, plan);
            }
            let open = keeps(&drawn[first]).is_empty();
            prop_assert_eq!(&plan["spec"]["approved"], &json!(open));
            let marked = plan["metadata"]["annotations"][labels::UPGRADE_WAITS].is_string();
            prop_assert_eq!(marked, !open && keeps(&drawn[first]) != "manual");
            // What may begin at once comes first, and alone.
            prop_assert_eq!(open, drawn.iter().any(|row| keeps(row).is_empty()));
            prop_assert!(!open || plans.len() == 1);
            planned += names.len();
            generations.insert(plan["spec"]["generation"].as_i64());
        }
        prop_assert_eq!(generations.len(), plans.len());
        let open = drawn.iter().filter(|row| keeps(row).is_empty()).count();
        prop_assert_eq!(planned, if open > 0 { open } else { drawn.len() });
    }
}

/// Nobody's wait is another's, also where the annotations are the same.
#[test]
fn what_waits_by_policy_is_told_apart() {
    let observed = namespace(
        &[(1, false), (0, false), (1, false), (4, false), (0, false)],
        false,
    );
    let Progress::Resolved { components, .. } = &observed.progress else {
        panic!("it is resolved");
    };
    let groups = gate::group(
        &observed,
        components.iter().collect(),
        |component| component,
        now(),
    );
    let told = groups.iter().map(|(gate, members)| {
        let names = members.iter().flat_map(|member| &member.subscriptions);
        let names: Vec<&str> = names.map(String::as_str).collect();
        format!("{}: {:?}", names.join(" "), gate.text(names[0], "install-x"))
    });
    insta::assert_snapshot!(told.collect::<Vec<_>>().join("\n"), @r#"
    s1 s4: None
    s0: Some("waiting by policy: the maintenance window opens at 2026-01-03T02:00:00+00:00: annotation operatorframework.io/upgrade-window: \"Sat 02:00 4h\" of Subscription s0")
    s2: Some("waiting by policy: the maintenance window opens at 2026-01-03T02:00:00+00:00: annotation operatorframework.io/upgrade-window: \"Sat 02:00 4h\" of Subscription s2")
    s3: Some("waiting by policy: s3.v2 is not a patch release after s3.v1: annotation operatorframework.io/upgrade-approve: \"patch\" of Subscription s3")
    "#);
}

/// Ten that are tied together: each is told what it asks for itself, and how many more there are, within the bounds of a text.
#[test]
fn what_a_subscription_asks_for_itself_is_told_first() {
    let observed = namespace(&[(1, false); 10], false);
    let Progress::Resolved { components, .. } = &observed.progress else {
        panic!("it is resolved");
    };
    let mut tied = components[0].clone();
    for component in &components[1..] {
        tied.subscriptions.extend(component.subscriptions.clone());
        tied.served.extend(component.served.clone());
    }
    let gate = gate::of_component(&observed, &tied, now());
    for index in 0..10 {
        let told = gate.text(&format!("s{index}"), "install-x").unwrap();
        let (first, _) = told.split_once("; ").unwrap();
        assert!(first.ends_with(&format!(" of Subscription s{index}")), "{told}");
        let of_all = told.matches(" of Subscription ").count();
        assert!(
            told.ends_with(&format!("; and {} more of InstallPlan install-x", 10 - of_all)),
            "{told}"
        );
        assert!(told.len() <= EVENT_LIMIT, "{}", told.len());
    }
}
