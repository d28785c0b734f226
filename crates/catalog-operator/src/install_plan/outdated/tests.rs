use olm_api::plan_preview::{ObjectChange, PlanPreview, Verb};
use serde_json::{Value, json};

use super::*;
use crate::previewed::Sketch;
use crate::previewed::tests::sketch;
use crate::pruning;

fn step(kind: &str, name: &str) -> Value {
    json!({"resolving": "a.v1", "status": "Unknown", "resource": {"sourceName": "", "sourceNamespace": "",
        "group": "", "version": "v1", "kind": kind, "name": name}})
}

/// A plan of generation 2 that waits and is to make the ServiceAccount `demo`.
fn plan() -> Value {
    let preview = PlanPreview {
        version: VERSION,
        objects: vec![ObjectChange {
            verb: Verb::Create,
            kind: "ServiceAccount".to_owned(),
            name: "demo".to_owned(),
            ..ObjectChange::default()
        }],
        ..PlanPreview::default()
    };
    json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan",
        "metadata": {"name": "install-2", "namespace": "ns", "uid": "2", "resourceVersion": "7",
            "creationTimestamp": "2026-01-01T00:10:00Z",
            "annotations": {(labels::PLAN_PREVIEW): preview.to_annotation()}},
        "spec": {"clusterServiceVersionNames": ["a.v1"], "approval": "Manual", "approved": false, "generation": 2},
        "status": {"phase": "RequiresApproval", "catalogSources": [], "plan": [step("ServiceAccount", "demo")]}})
}

/// As the store has it.
fn stored(plan: Value) -> Arc<InstallPlan> {
    let mut plan: InstallPlan = serde_json::from_value(plan).unwrap();
    pruning::prune(&mut plan);
    Arc::new(plan)
}

fn names(plan: Value, plans: &[Arc<InstallPlan>]) -> Vec<String> {
    let followed = followed(&stored(plan), plans);
    followed.into_iter().map(|object| object.name).collect()
}

fn with(change: impl FnOnce(&mut Value)) -> Value {
    let mut plan = plan();
    change(&mut plan);
    plan
}

#[test]
fn only_a_plan_that_waits_and_is_not_marked_is_followed() {
    assert_eq!(names(plan(), &[]), ["demo"]);
    let others: [fn(&mut Value); 6] = [
        |plan| plan["metadata"]["annotations"][labels::UPGRADE_WAITS] = "".into(),
        |plan| plan["spec"]["approved"] = true.into(),
        |plan| plan["status"]["phase"] = "Installing".into(),
        |plan| plan["metadata"]["deletionTimestamp"] = "2026-01-01T00:11:00Z".into(),
        |plan| plan["metadata"]["annotations"][labels::PLAN_PREVIEW_OUTDATED] = "x".into(),
        |plan| plan["metadata"]["annotations"] = json!({}),
    ];
    for change in others {
        let plan = with(change);
        assert_eq!(names(plan.clone(), &[]), Vec::<String>::new(), "{plan}");
    }
}

/// Whoever may write plans may write an annotation.
#[test]
fn what_is_no_step_of_the_plan_is_not_followed() {
    for other in [step("ServiceAccount", "other"), step("Role", "demo")] {
        let plan = with(|plan| plan["status"]["plan"] = json!([other]));
        assert_eq!(names(plan, &[]), Vec::<String>::new());
    }
}

/// What a plan that was approved before brings while this one waits is no news to who approves.
#[test]
fn what_a_plan_that_is_carried_out_brings_does_not_count() {
    let other = |generation: i64, phase: &str, approved: bool, ended: &str| {
        stored(
            json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan",
            "metadata": {"name": "other", "namespace": "ns"},
            "spec": {"clusterServiceVersionNames": ["a.v0"], "approval": "Automatic", "approved": approved, "generation": generation},
            "status": {"phase": phase, "catalogSources": [], "plan": [step("ServiceAccount", "demo")],
                "conditions": [{"type": "Installed", "status": "True", "lastUpdateTime": ended}]}}),
        )
    };
    let (before, after) = ("2026-01-01T00:09:00Z", "2026-01-01T00:11:00Z");
    for (plan, counts) in [
        (other(1, "Installing", true, before), false),
        (other(1, "Complete", true, after), false),
        (other(1, "Failed", true, after), false),
        (other(1, "Complete", true, before), true),
        (other(1, "RequiresApproval", false, before), true),
        (other(1, "RequiresApproval", true, before), false),
        (other(2, "Installing", true, before), true),
        (other(3, "Installing", true, after), true),
    ] {
        assert_eq!(
            names(super::tests::plan(), &[Arc::clone(&plan)]).len() == 1,
            counts,
            "{plan:?}"
        );
    }
}

fn look(kind: StepKind, was_there: bool, first: Option<&Value>, now: Option<&Value>) -> Look {
    let sketch = |object: &Value| -> Sketch { sketch(object) };
    Look {
        object: PreviewedObject {
            kind,
            name: "demo".to_owned(),
            was_there,
        },
        first: first.map(sketch),
        now: now.map(sketch),
    }
}

fn config_map(of_a_csv: bool, value: &str) -> Value {
    let labels = if of_a_csv {
        json!({labels::OWNER_KIND: labels::OWNER_KIND_CSV})
    } else {
        json!({})
    };
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "demo", "labels": labels}, "data": {"key": value}})
}

fn texts(look: Look, is_limited: bool) -> Vec<String> {
    let changes = changes(&[look], "ns", is_limited);
    changes.iter().map(OutdatedObject::to_string).collect()
}

#[test]
fn what_came_went_or_changed_is_told() {
    let (one, two) = (config_map(true, "1"), config_map(true, "2"));
    let none = Vec::<String>::new();
    let of = |was_there, first, now| texts(look(StepKind::ConfigMap, was_there, first, now), false);
    assert_eq!(of(false, None, None), none);
    assert_eq!(
        of(false, None, Some(&one)),
        ["ConfigMap ns/demo, which it creates, is there by now"]
    );
    assert_eq!(
        of(false, Some(&one), Some(&one)).len(),
        1,
        "it came before the first look"
    );
    assert_eq!(of(true, Some(&one), Some(&one)), none);
    assert_eq!(
        of(true, Some(&one), Some(&two)),
        ["ConfigMap ns/demo, which it changes, is another by now (data.key)"]
    );
    assert_eq!(
        of(true, Some(&one), None),
        ["ConfigMap ns/demo, which it changes, is gone"]
    );
    assert_eq!(of(true, None, None).len(), 1, "it went before the first look");
    let definition = |version: &str| {
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "demo"}, "spec": {"versions": [{"name": version}]}})
    };
    let look = look(
        StepKind::CustomResourceDefinition,
        true,
        Some(&definition("v1")),
        Some(&definition("v2")),
    );
    assert_eq!(
        texts(look, false),
        ["CustomResourceDefinition demo, which it changes, is another by now (spec.versions)"]
    );
}

/// OLM reads everything, and who makes plans may not: by one plan after the other he could find out what stands there.
#[test]
fn of_what_is_not_compared_only_coming_and_going_is_told() {
    let of = |is_ours, is_limited| {
        let (one, two) = (config_map(is_ours, "1"), config_map(is_ours, "2"));
        let changed = texts(
            look(StepKind::ConfigMap, true, Some(&one), Some(&two)),
            is_limited,
        );
        let gone = texts(look(StepKind::ConfigMap, true, Some(&one), None), is_limited);
        (changed.len(), gone.len())
    };
    assert_eq!(of(true, false), (1, 1));
    assert_eq!(of(true, true), (0, 1), "the group names a ServiceAccount");
    assert_eq!(of(false, false), (0, 1), "it is somebody else's");
}

/// Who changes it could take its owner away first, or make it anew.
#[test]
fn what_has_another_owner_or_is_made_anew_is_another() {
    let made_anew = |of_a_csv| {
        let mut object = config_map(of_a_csv, "1");
        object["metadata"]["uid"] = "2".into();
        object
    };
    let text = "ConfigMap ns/demo, which it changes, is another by now";
    for (first, now) in [
        (config_map(true, "1"), config_map(false, "2")),
        (config_map(true, "1"), config_map(false, "1")),
        (config_map(false, "1"), config_map(true, "2")),
        (config_map(true, "1"), made_anew(true)),
        (config_map(false, "1"), made_anew(false)),
    ] {
        let told = |is_limited| {
            texts(
                look(StepKind::ConfigMap, true, Some(&first), Some(&now)),
                is_limited,
            )
        };
        assert_eq!(told(false), [text], "{first} {now}");
        assert_eq!(told(true), Vec::<String>::new(), "{first} {now}");
    }
    // A definition belongs to nobody.
    let definition = |labels: Value| {
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "demo", "labels": labels}})
    };
    let (first, now) = (
        definition(json!({})),
        definition(json!({labels::OWNER_KIND: labels::OWNER_KIND_CSV})),
    );
    let look = look(StepKind::CustomResourceDefinition, true, Some(&first), Some(&now));
    assert_eq!(texts(look, false), Vec::<String>::new());
}

#[test]
fn the_mark_is_bound_to_the_plan_as_it_was_looked_at() {
    let plan = stored(plan());
    let objects = changes(&[look(StepKind::Role, true, None, None)], "ns", false);
    let now: Timestamp = "2026-01-01T00:12:00Z".parse().unwrap();
    let Action::Patch {
        target,
        patch,
        guard,
        subresource,
        ..
    } = mark(&plan, &objects, now)
    else {
        panic!("a patch");
    };
    assert_eq!((target.name.as_str(), subresource), ("install-2", None));
    assert_eq!(
        (guard.uid.as_deref(), guard.resource_version.as_deref()),
        (Some("2"), Some("7"))
    );
    let text = patch["metadata"]["annotations"][labels::PLAN_PREVIEW_OUTDATED].as_str();
    let outdated = PreviewOutdated::from_annotation(text.unwrap()).unwrap();
    assert_eq!(
        (outdated.since.as_str(), outdated.objects),
        ("2026-01-01T00:12:00Z", objects.clone())
    );
    let event = event(&plan, &objects);
    assert_eq!(event.reason, "PreviewOutdated");
    assert!(
        event.message.ends_with("Role ns/demo, which it changes, is gone"),
        "{}",
        event.message
    );
}
