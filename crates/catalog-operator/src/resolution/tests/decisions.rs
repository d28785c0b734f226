//! Single decisions that no whole way reaches.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt;
use olm_api::labels;
use olm_api::v1alpha1::{Approval, InstallPlan, Subscription};
use olm_fbc::entry::EntryProperty;
use olm_resolver::SubscriptionUpdate;
use olm_runtime::outcome::{Outcome, outcomes_for_tests};
use olm_runtime::plan::{Action, Plan};
use serde_json::{Value, json};

use super::super::decide::decide;
use super::super::memory::Memory;
use super::super::observed::{Bundles, ComponentProgress, Observed, Progress, ReadyBundles};
use super::super::plan_object::{Terms, last_generation, properties_text};
use super::super::status;
use crate::subscription::NamespaceState;

/// The text upstream left in a golden plan: compact, values as the catalog has them, characters escaped as Go does.
#[test]
fn properties_are_written_as_upstream_does() {
    let properties = [
        EntryProperty::new(
            "olm.gvk",
            r#"{"group": "example.com", "kind": "Demo", "version": "v1"}"#,
        ),
        EntryProperty::new("olm.package", r#"{"packageName":"demo","version":"1.0.0"}"#),
    ];
    assert_eq!(
        properties_text(&properties),
        r#"{"properties":[{"type":"olm.gvk","value":{"group":"example.com","kind":"Demo","version":"v1"}},{"type":"olm.package","value":{"packageName":"demo","version":"1.0.0"}}]}"#
    );
    let odd = [
        EntryProperty::new("range", "\">=1.0.0 \\\" <2\""),
        EntryProperty::new("number", " 1.50 "),
        EntryProperty::new("list", "[1, 2 ,\t3]"),
        EntryProperty::new("broken", "]"),
    ];
    assert_eq!(
        properties_text(&odd),
        r#"{"properties":[{"type":"range","value":"\u003e=1.0.0 \" \u003c2"},{"type":"number","value":1.50},{"type":"list","value":[1,2,3]}]}"#
    );
    assert_eq!(properties_text(&[]), "{}");
}

pub(super) fn subscription(name: &str, generation: Option<i64>) -> Arc<Subscription> {
    let object = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
        "metadata": {"name": name, "namespace": "ns", "uid": format!("uid of {name}")},
        "spec": {"name": name, "source": "cat", "sourceNamespace": "ns"},
        "status": {"lastUpdated": null, "installPlanGeneration": generation}});
    Arc::new(serde_json::from_value(object).unwrap())
}

/// A plan of one ClusterServiceVersion, made here for these Subscriptions; without a phase nobody has adopted it.
fn plan(csv: &str, generation: i64, phase: &str, owners: &[&str]) -> Value {
    let owners: Vec<Value> = owners
        .iter()
        .map(|owner| {
            json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription", "name": owner,
                "uid": format!("uid of {owner}")})
        })
        .collect();
    let name = format!("install-{generation}");
    let mut plan = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan",
        "metadata": {"name": name, "namespace": "ns", "uid": name, "generateName": "install-", "ownerReferences": owners},
        "spec": {"clusterServiceVersionNames": [csv], "approval": "Automatic", "approved": true, "generation": generation}});
    if !phase.is_empty() {
        plan["status"] = json!({"phase": phase, "catalogSources": []});
    }
    plan
}

pub(super) fn ready(subscription: &str, csv: &str) -> ComponentProgress {
    ComponentProgress {
        subscriptions: vec![subscription.to_owned()],
        updates: vec![SubscriptionUpdate {
            subscription: subscription.to_owned(),
            current_csv: csv.to_owned(),
        }],
        bundles: Bundles::Ready(ReadyBundles {
            csv_names: vec![csv.to_owned()],
            ..ReadyBundles::default()
        }),
    }
}

pub(super) fn observed(
    subscriptions: Vec<Arc<Subscription>>,
    plans: &[Value],
    components: Vec<ComponentProgress>,
) -> Observed {
    let plans: Vec<Arc<InstallPlan>> = plans
        .iter()
        .map(|plan| Arc::new(serde_json::from_value(plan.clone()).unwrap()))
        .collect();
    Observed {
        namespace: "ns".to_owned(),
        last_generation: last_generation(&plans, &subscriptions),
        namespace_state: NamespaceState {
            plans: plans.into_iter().map(|plan| (plan.name_any(), plan)).collect(),
            ..NamespaceState::default()
        },
        subscriptions,
        progress: Progress::Resolved {
            failures: Vec::new(),
            components,
            catalogs_pending: false,
            reading: None,
        },
        ..Observed::default()
    }
}

/// What a round writes, in words; a creation with its generation.
fn writes(observed: &Observed) -> Vec<String> {
    let (plan, _) = decide(observed, None);
    in_words(&plan)
}

fn in_words(plan: &Plan) -> Vec<String> {
    let words = plan.actions.iter().map(|action| match action {
        Action::Create { object, .. } => format!("create {}", object["spec"]["generation"]),
        Action::Patch { target, .. } => format!("status of {}", target.name),
        Action::Delete { target, .. } => format!("delete {}", target.name),
        other => format!("{other:?}"),
    });
    words.collect()
}

#[test]
fn generations_rise_above_all_that_were_given() {
    let demo = |generation| vec![subscription("demo", generation)];
    let component = || vec![ready("demo", "demo.v1")];
    assert_eq!(writes(&observed(demo(None), &[], component())), ["create 1"]);
    assert_eq!(writes(&observed(demo(Some(4)), &[], component())), ["create 5"]);
    let older = plan("other.v1", 7, "Complete", &["demo"]);
    assert_eq!(
        writes(&observed(demo(Some(4)), &[older], component())),
        ["create 8"]
    );
    let strangers = plan("other.v1", 7, "Complete", &["somebody"]);
    assert_eq!(
        writes(&observed(demo(Some(4)), &[strangers], component())),
        ["create 5"]
    );
}

#[test]
fn what_is_fetched_holds_the_plan_of_all() {
    let mut fetched = ready("other", "other.v1");
    fetched.bundles = Bundles::Unpacking {
        message: String::new(),
        debounce: Some(Duration::from_secs(1)),
    };
    let subscriptions = || vec![subscription("demo", None), subscription("other", None)];
    let gathering = observed(
        subscriptions(),
        &[],
        vec![ready("demo", "demo.v1"), fetched.clone()],
    );
    assert_eq!(writes(&gathering), Vec::<String>::new());
    if let Bundles::Unpacking { debounce, .. } = &mut fetched.bundles {
        *debounce = None;
    }
    let late = observed(subscriptions(), &[], vec![ready("demo", "demo.v1"), fetched]);
    assert_eq!(writes(&late), ["create 1"]);
}

/// Of the plans of a namespace, those that stand for what is wanted now.
#[test]
fn a_plan_is_adopted_by_those_it_was_made_for() {
    let demo = |generation| vec![subscription("demo", generation)];
    let component = || vec![ready("demo", "demo.v1")];
    let found = |plan: Value, generation| writes(&observed(demo(generation), &[plan], component()));
    let made = || plan("demo.v1", 3, "", &["demo"]);
    assert_eq!(found(made(), Some(2)), ["status of install-3"]);
    let mut versioned = made();
    versioned["metadata"]["resourceVersion"] = json!("77");
    let (written, _) = decide(&observed(demo(Some(2)), &[versioned], component()), None);
    assert!(
        matches!(&written.actions[..], [Action::Patch { guard, .. }] if guard.resource_version.as_deref() == Some("77")),
        "a plan that was carried out meanwhile does not begin anew"
    );
    assert_eq!(
        found(plan("demo.v1", 3, "Installing", &["demo"]), Some(2)),
        Vec::<String>::new()
    );
    // The one it had.
    let had = plan("demo.v1", 3, "Complete", &["demo"]);
    assert_eq!(found(had, Some(3)), ["create 4"]);
    let failed = plan("demo.v1", 3, "Failed", &["demo"]);
    assert_eq!(found(failed, Some(2)), ["create 4"]);
    // Somebody wrote it: its name was not generated here.
    let mut written = made();
    written["metadata"]["generateName"] = Value::Null;
    assert_eq!(found(written, Some(2)), ["create 4"]);
    // Not of all who move.
    let both = || vec![subscription("demo", None), subscription("other", None)];
    let half = {
        let mut plan = plan("demo.v1", 3, "Installing", &["demo"]);
        plan["spec"]["clusterServiceVersionNames"] = json!(["demo.v1", "other.v1"]);
        plan
    };
    let components = vec![ready("demo", "demo.v1"), ready("other", "other.v1")];
    assert_eq!(writes(&observed(both(), &[half], components)), ["create 4"]);
}

/// Made just before somebody said Manual, or set a policy: it is made anew as it is to be now. A user who approved it has decided.
#[test]
fn a_plan_that_was_made_for_another_gate_is_not_adopted() {
    let made = |approval: &str, approved: bool, mark: Value| {
        let mut plan = plan("demo.v1", 3, "", &["demo"]);
        plan["spec"]["approval"] = json!(approval);
        plan["spec"]["approved"] = json!(approved);
        if mark.is_string() {
            plan["metadata"]["annotations"] = json!({labels::UPGRADE_WAITS: mark});
        }
        plan
    };
    let none = || Value::Null;
    let (anew, adopted) = (vec!["delete install-3", "create 4"], vec!["status of install-3"]);
    for (plan, manual, expected) in [
        (made("Automatic", true, none()), false, &adopted),
        (made("Automatic", true, none()), true, &anew),
        (made("Manual", false, none()), true, &adopted),
        (made("Manual", false, none()), false, &adopted),
        (made("Manual", false, json!("")), true, &adopted),
        (made("Manual", true, none()), true, &adopted),
        (made("Manual", true, json!("")), false, &adopted),
    ] {
        let mut demo = (*subscription("demo", Some(2))).clone();
        demo.spec.install_plan_approval = manual.then_some(Approval::Manual);
        let found = observed(
            vec![demo.into()],
            std::slice::from_ref(&plan),
            vec![ready("demo", "demo.v1")],
        );
        assert_eq!(&writes(&found), expected, "{manual} {plan}");
    }
}

/// What a webhook makes of it is taken, as it would make the same of another one; not where something else is wanted since.
#[test]
fn a_plan_that_is_changed_on_its_way_in_is_taken_for_what_was_asked_for() {
    let with_terms = |approval: &str, approved: bool, phase: &str| {
        let mut plan = plan("demo.v1", 3, phase, &["demo"]);
        plan["spec"]["approval"] = json!(approval);
        plan["spec"]["approved"] = json!(approved);
        plan
    };
    let asked = |manual: bool| {
        let plan = if manual {
            with_terms("Manual", false, "")
        } else {
            with_terms("Automatic", true, "")
        };
        Terms::of(&serde_json::from_value(plan).unwrap())
    };
    let mut demo = (*subscription("demo", Some(2))).clone();
    demo.spec.install_plan_approval = Some(Approval::Manual);
    let demo = Arc::new(demo);
    for (was_manual, phase, expected, told) in [
        (true, "", "status of install-3", 1),
        (false, "", "delete install-3, create 4", 0),
        // It is no news any more, and nothing is left of it.
        (true, "Installing", "", 0),
    ] {
        let plans = [with_terms("Automatic", true, phase)];
        let found = observed(vec![Arc::clone(&demo)], &plans, vec![ready("demo", "demo.v1")]);
        let memory = Memory {
            rewritten: [("install-3".to_owned(), asked(was_manual))].into(),
            ..Memory::default()
        };
        let (written, verdict) = decide(&found, Some(&memory));
        assert_eq!(in_words(&written).join(", "), expected, "{was_manual} {phase}");
        assert_eq!(written.events.len(), told, "{was_manual} {phase}");
        assert_eq!(verdict.last.rewritten.is_empty(), !phase.is_empty());
    }
}

/// Whoever approves it before it is adopted changes nothing on its way in.
#[test]
fn a_plan_that_a_user_approves_at_once_is_not_told_as_rewritten() {
    let mut demo = (*subscription("demo", Some(2))).clone();
    demo.spec.install_plan_approval = Some(Approval::Manual);
    let with = |plans: &[Value]| {
        let component = ready("demo", "demo.v1");
        observed(vec![Arc::new(demo.clone())], plans, vec![component])
    };
    let mut made = plan("demo.v1", 3, "", &["demo"]);
    made["spec"]["approval"] = json!("Manual");
    made["spec"]["approved"] = json!(false);
    let (written, verdict) = decide(&with(&[]), None);
    assert_eq!(in_words(&written), ["create 3"]);
    let outcomes = outcomes_for_tests(vec![Outcome::Done(Arc::new(made.clone()))]);
    let memory = status::status(&with(&[]), verdict, &outcomes, Timestamp::UNIX_EPOCH).memory;
    made["spec"]["approved"] = json!(true);
    let (written, _) = decide(&with(&[made]), memory.as_ref());
    assert_eq!(in_words(&written), ["status of install-3"]);
    assert_eq!(written.events, []);
}

/// Six plans that are over, five of which must stay.
#[test]
fn a_plan_that_is_adopted_is_no_surplus() {
    let mut plans = vec![plan("demo.v1", 3, "Complete", &["demo"])];
    plans.extend((11..16).map(|generation| plan("other.v1", generation, "Complete", &["demo"])));
    let rows = [
        (vec![ready("demo", "demo.v1")], vec![]),
        (Vec::new(), vec!["delete install-3"]),
    ];
    for (components, expected) in rows {
        let observed = observed(vec![subscription("demo", None)], &plans, components);
        assert_eq!(writes(&observed), expected);
    }
}
