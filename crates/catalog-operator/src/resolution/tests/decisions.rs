//! Single decisions that no complete flow reaches.

use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt;
use olm_api::v1alpha1::{Approval, InstallPlan, Subscription};
use olm_fbc::entry::EntryProperty;
use olm_resolver::SubscriptionUpdate;
use olm_runtime::plan::Action;
use serde_json::{Value, json};

use super::super::decide::decide;
use super::super::observed::{Bundles, ComponentProgress, Observed, Progress, ReadyBundles};
use super::super::plan_object::{last_generation, properties_text};
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
        progress: Progress {
            components,
            ..Progress::default()
        },
        ..Observed::default()
    }
}

/// The writes of a reconcile as text; a creation with its generation.
fn writes(observed: &Observed) -> Vec<String> {
    let (plan, _) = decide(observed, None);
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

/// Plans of a namespace that count for what is wanted now.
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
    // A user wrote it: its name was not generated here.
    let mut written = made();
    written["metadata"]["generateName"] = Value::Null;
    assert_eq!(found(written, Some(2)), ["create 4"]);
    // Not owned by all Subscriptions that move.
    let both = || vec![subscription("demo", None), subscription("other", None)];
    let half = {
        let mut plan = plan("demo.v1", 3, "Installing", &["demo"]);
        plan["spec"]["clusterServiceVersionNames"] = json!(["demo.v1", "other.v1"]);
        plan
    };
    let components = vec![ready("demo", "demo.v1"), ready("other", "other.v1")];
    assert_eq!(writes(&observed(both(), &[half], components)), ["create 4"]);
}

/// A user, or a webhook, may have changed whether it waits: its status follows that.
#[test]
fn a_plan_is_adopted_whatever_its_approval() {
    for (approval, approved) in [("Automatic", true), ("Manual", false), ("Manual", true)] {
        for manual in [false, true] {
            let mut plan = plan("demo.v1", 3, "", &["demo"]);
            plan["spec"]["approval"] = json!(approval);
            plan["spec"]["approved"] = json!(approved);
            let mut demo = (*subscription("demo", Some(2))).clone();
            demo.spec.install_plan_approval = manual.then_some(Approval::Manual);
            let components = vec![ready("demo", "demo.v1")];
            let found = observed(vec![demo.into()], std::slice::from_ref(&plan), components);
            assert_eq!(writes(&found), ["status of install-3"], "{manual} {plan}");
        }
    }
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
