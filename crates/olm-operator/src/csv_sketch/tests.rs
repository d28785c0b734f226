use serde_json::{Value, json};

use super::*;
use crate::test_env::{csv, decode};

/// The demo with these labels, annotations and status.
fn object(namespace: &str, labels: Value, annotations: Value, status: Value) -> Value {
    let mut csv = csv("a", "");
    csv["metadata"]["namespace"] = json!(namespace);
    csv["metadata"]["labels"] = labels;
    csv["metadata"]["annotations"] = annotations;
    csv["status"] = status;
    csv
}

fn sketch(object: Value) -> CsvSketch {
    CsvSketch::of(decode(object))
}

fn original() -> Value {
    object(
        "ns",
        json!({"olm.managed": "true", "operators.coreos.com/demo.ns": ""}),
        json!({"capabilities": "Basic Install", "olm.operatorGroup": "og", "olm.operatorNamespace": "ns",
            "olm.targetNamespaces": "", "kubectl.kubernetes.io/last-applied-configuration": "{}"}),
        json!({"phase": "Succeeded", "reason": "InstallSucceeded", "message": "done", "lastTransitionTime": "2026-01-01T00:00:00Z",
            "conditions": [{"phase": "Succeeded", "reason": "InstallSucceeded"}]}),
    )
}

fn copy() -> Value {
    object(
        "far",
        json!({"olm.managed": "true", "olm.copiedFrom": "ns"}),
        json!({"capabilities": "Basic Install", "olm.operatorGroup": "og", "olm.operatorNamespace": "ns"}),
        json!({"phase": "Succeeded", "reason": "Copied",
            "message": "The operator is running in ns but is managing this namespace", "lastTransitionTime": "2026-01-01T00:00:00Z",
            "conditions": [{"phase": "Succeeded", "reason": "InstallSucceeded"}]}),
    )
}

#[test]
fn copy_002_copy_003_an_original_and_its_copy_agree() {
    let (original, copy) = (sketch(original()), sketch(copy()));
    assert_eq!((original.content, original.status), (copy.content, copy.status));
    assert_eq!(
        copy.role,
        Role::Copy(Copied {
            from: "ns".into(),
            is_proven: true
        })
    );
}

#[test]
fn every_part_of_a_copy_counts() {
    let table = [
        ("/metadata/labels", json!({"olm.copiedFrom": "ns"}), true, false),
        ("/metadata/annotations/more", json!("x"), true, false),
        (
            "/metadata/annotations/olm.targetNamespaces",
            json!(""),
            true,
            false,
        ),
        ("/spec/displayName", json!("Forged"), true, false),
        ("/spec/install/spec/deployments", json!([]), true, false),
        ("/spec/unknown", json!(1), true, false),
        ("/status/phase", json!("Failed"), false, true),
        ("/status/message", json!("forged"), false, true),
        ("/status/requirementStatus", json!([]), false, true),
        ("/metadata/generation", json!(7), false, false),
        ("/metadata/resourceVersion", json!("7"), false, false),
        ("/metadata/finalizers", json!(["theirs"]), false, false),
    ];
    let before = sketch(copy());
    for (pointer, value, content, status) in table {
        let mut object = copy();
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        object.pointer_mut(parent).unwrap()[field] = value;
        let after = sketch(object);
        assert_eq!(after.content != before.content, content, "{pointer}");
        assert_eq!(after.status != before.status, status, "{pointer}");
    }
}

#[test]
fn what_passes_for_a_copy_and_what_is_proven_to_be_one() {
    let copied = |from: &str, is_proven: bool| Some((from.to_owned(), is_proven));
    let marked = json!({"olm.copiedFrom": "ns"});
    let from = |namespace: &str| json!({"olm.operatorNamespace": namespace});
    let says_copied = json!({"phase": "Succeeded", "reason": "Copied"});
    let says_other = json!({"phase": "Succeeded", "reason": "InstallSucceeded"});
    let table = [
        ("a copy", &marked, from("ns"), &says_copied, copied("ns", true)),
        (
            "one without a status yet",
            &marked,
            from("ns"),
            &Value::Null,
            copied("ns", true),
        ),
        (
            "the label alone",
            &marked,
            json!({}),
            &Value::Null,
            copied("ns", false),
        ),
        (
            "another annotation",
            &marked,
            from("other"),
            &Value::Null,
            copied("ns", false),
        ),
        (
            "a status of its own",
            &marked,
            from("ns"),
            &says_other,
            copied("ns", false),
        ),
        (
            "its label was taken off",
            &json!({}),
            from("ns"),
            &says_copied,
            copied("ns", true),
        ),
        ("its own namespace", &json!({}), from("far"), &says_copied, None),
        ("pasted", &json!({}), from("ns"), &Value::Null, None),
        ("an original", &json!({}), from("far"), &says_other, None),
    ];
    for (what, labels, annotations, status, expected) in table {
        let mut object = object("far", labels.clone(), annotations, status.clone());
        let found = sketch(object.clone());
        let found = found
            .copied()
            .map(|copied| (copied.from.to_string(), copied.is_proven));
        assert_eq!(found, expected, "{what}");
        object["metadata"]["finalizers"] = json!(["operators.coreos.com/csv-cleanup"]);
        assert!(
            sketch(object).original().is_some(),
            "{what}, with OLM's finalizer"
        );
    }
}

#[test]
fn stages_of_an_original() {
    let table = [
        (Value::Null, Stage::Unseen),
        (
            json!({"phase": "Pending", "reason": "RequirementsNotMet"}),
            Stage::Moving,
        ),
        (
            json!({"phase": "Installing", "reason": "InstallWaiting"}),
            Stage::Moving,
        ),
        (
            json!({"phase": "Replacing", "reason": "BeingReplaced"}),
            Stage::Moving,
        ),
        (
            json!({"phase": "Succeeded", "reason": "InstallSucceeded"}),
            Stage::Resting,
        ),
        (
            json!({"phase": "Failed", "reason": "ComponentUnhealthy"}),
            Stage::Resting,
        ),
        (
            json!({"phase": "Failed", "reason": "NoOperatorGroup"}),
            Stage::Unfit,
        ),
        (
            json!({"phase": "Failed", "reason": "UnsupportedOperatorGroup"}),
            Stage::Unfit,
        ),
        (
            json!({"phase": "Failed", "reason": "InterOperatorGroupOwnerConflict"}),
            Stage::Rival,
        ),
    ];
    for (status, stage) in table {
        let found = sketch(object("ns", json!({}), json!({}), status.clone()));
        assert_eq!(found.original().unwrap().stage, stage, "{status}");
    }
}
