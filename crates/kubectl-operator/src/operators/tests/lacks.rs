//! What a ClusterServiceVersion or the next version lacks.

use super::*;
use crate::operators::cause::next_unread;
use olm_api::v1alpha1::Subscription;

/// Returns what `status` prints about a version with this row among its requirements, and about its plan.
fn with_row(row: &Value, plan_phase: &str, has_subscription: bool) -> String {
    let mut csv = csv("2.0.0", "Pending", "one or more requirements couldn't be found");
    csv["spec"]["customresourcedefinitions"] =
        json!({"owned": [{"name": "etcds.example.com", "kind": "Etcd", "version": "v1"}]});
    csv["status"]["requirementStatus"] = json!([row]);
    let status = json!({"installedCSV": "etcd.v2.0.0", "currentCSV": "etcd.v2.0.0",
        "installPlanRef": {"name": "install-1", "namespace": "shop"}});
    let subscription = has_subscription.then(|| subscription("db", &status));
    let plan = has_subscription.then(|| plan("install-1", plan_phase, true));
    let (_, text) = one([csv].into_iter().chain(subscription).chain(plan));
    text
}

fn row(kind: &str, name: &str, status: &str) -> Value {
    json!({"group": "g", "version": "v1", "kind": kind, "name": name, "status": status})
}

/// Otherwise what is missing can be provided, or the plan still creates it.
#[test]
fn only_a_lost_definition_of_the_operator_itself_is_restored_by_installing_again() {
    let lost = row("CustomResourceDefinition", "etcds.example.com", "NotPresent");
    let again = "OLM does not restore a definition of the operator itself";
    assert!(with_row(&lost, "Complete", true).contains(again));
    for (row, phase, has_subscription) in [
        (
            row("ServiceAccount", "etcds.example.com", "NotPresent"),
            "Complete",
            true,
        ),
        (
            row("CustomResourceDefinition", "others.example.com", "NotPresent"),
            "Complete",
            true,
        ),
        (
            row(
                "CustomResourceDefinition",
                "etcds.example.com",
                "PresentNotSatisfied",
            ),
            "Complete",
            true,
        ),
        (lost.clone(), "Installing", true),
        (lost.clone(), "Complete", false),
    ] {
        let text = with_row(&row, phase, has_subscription);
        assert!(!text.contains(again), "{row} {phase} {has_subscription}: {text}");
    }
}

#[test]
fn the_next_version_is_unread_while_its_bundle_is_or_cannot_be_unpacked() {
    let of = |type_: &str, status: &str| -> Subscription {
        let conditions = json!([{"type": type_, "status": status, "message": "cannot pull x"}]);
        typed(subscription("db", &json!({"conditions": conditions})))
    };
    for (type_, status, expected) in [
        ("BundleUnpackFailed", "True", Some("cannot pull x")),
        ("BundleUnpacking", "True", Some("cannot pull x")),
        ("BundleUnpacking", "False", None),
        ("ResolutionFailed", "True", None),
    ] {
        assert_eq!(next_unread(&of(type_, status)), expected, "{type_} {status}");
    }
}
