//! Criteria for an existing right and for a counterpart, field by field.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use olm_runtime::NamespacedName;
use serde_json::{Value, json};

use crate::{
    csv::{
        observe::stored::is_replica,
        observed::Rbac,
        rbac::is_held,
        strategy::{Scope, WantedRole},
    },
    test_env::decode,
};

fn wanted(scope: Scope) -> WantedRole {
    WantedRole {
        name: "r".into(),
        scope,
        service_account: "demo".into(),
        rules: decode(json!([rule()])),
    }
}

fn rule() -> Value {
    json!({"verbs": ["get"], "apiGroups": ["g"], "resources": ["r"], "resourceNames": ["n"]})
}

/// Returns whether a role and its binding, of both scopes, still match after a change.
fn held(scope: Scope, pointer: &str, value: Value) -> bool {
    let kind = match scope {
        Scope::Namespace => "Role",
        Scope::Cluster => "ClusterRole",
    };
    let mut both = json!({
        "role": {"metadata": {"namespace": "ns", "name": "r"}, "rules": [rule()]},
        "binding": {"metadata": {"namespace": "ns", "name": "r"},
            "roleRef": {"apiGroup": "", "kind": kind, "name": "r"},
            "subjects": [{"kind": "ServiceAccount", "name": "demo", "namespace": "ns"}]},
    });
    *both.pointer_mut(pointer).unwrap() = value;
    let (role, binding) = (both["role"].take(), both["binding"].take());
    let mut rbac = Rbac::default();
    match scope {
        Scope::Namespace => {
            rbac.roles = vec![Arc::new(decode(role))];
            rbac.role_bindings = vec![Arc::new(decode(binding))];
        }
        Scope::Cluster => {
            rbac.cluster_roles = vec![Arc::new(decode(role))];
            rbac.cluster_role_bindings = vec![Arc::new(decode(binding))];
        }
    }
    is_held(&wanted(scope), "ns", &rbac)
}

#[test]
fn a_right_is_held_with_exactly_these_rules_by_this_account() {
    for scope in [Scope::Namespace, Scope::Cluster] {
        assert!(held(scope, "/role/metadata/name", json!("r")), "{scope:?}");
        for (pointer, value) in [
            ("/role/rules/0/verbs", json!(["list"])),
            ("/role/rules/0/apiGroups", json!(["other"])),
            ("/role/rules/0/resources", json!(["other"])),
            ("/role/rules/0/resourceNames", json!(["other"])),
            ("/role/rules", json!([])),
            ("/role/rules", json!([rule(), rule()])),
            ("/role/metadata/name", json!("other")),
            ("/binding/roleRef/name", json!("other")),
            ("/binding/roleRef/kind", json!("Other")),
            ("/binding/subjects", json!([])),
            ("/binding/subjects/0/kind", json!("User")),
            ("/binding/subjects/0/name", json!("other")),
            ("/binding/subjects/0/namespace", json!("other")),
        ] {
            assert!(!held(scope, pointer, value), "{scope:?} {pointer}");
        }
    }
}

#[test]
fn a_counterpart_is_elsewhere_says_where_it_came_from_and_whose_it_is() {
    let csv = NamespacedName::new("ns", "a");
    let is_counterpart = |field: &str, value: &str| {
        let mut metadata = json!({"namespace": "far", "name": "r", "labels": {"olm.copiedFrom": "ns", "olm.owner": "a",
            "olm.owner.namespace": "ns", "olm.owner.kind": "ClusterServiceVersion"}});
        match field {
            "namespace" => metadata[field] = json!(value),
            label => metadata["labels"][label] = json!(value),
        }
        is_replica(&decode::<ObjectMeta>(metadata), &csv)
    };
    assert!(is_counterpart("namespace", "far"));
    assert!(!is_counterpart("namespace", "ns"));
    assert!(!is_counterpart("olm.copiedFrom", "other"));
    assert!(!is_counterpart("olm.owner", "other"));
    assert!(!is_counterpart("olm.owner.namespace", "other"));
    assert!(!is_counterpart("olm.owner.kind", "Other"));
}

/// A counterpart that upstream created: it belongs to the copy of its ClusterServiceVersion.
#[test]
fn a_counterpart_of_upstreams_is_known_by_the_copy_that_owns_it() {
    let csv = NamespacedName::new("ns", "a");
    let is_counterpart = |pointer: &str, value: &str| {
        let mut metadata = json!({"namespace": "far", "name": "r", "labels": {"olm.copiedFrom": "ns", "olm.owner": "a",
            "olm.owner.namespace": "far", "olm.owner.kind": "ClusterServiceVersion"},
            "ownerReferences": [{"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
                "name": "a", "uid": "copy"}]});
        *metadata.pointer_mut(pointer).unwrap() = json!(value);
        is_replica(&decode::<ObjectMeta>(metadata), &csv)
    };
    assert!(is_counterpart("/name", "r"));
    for (pointer, value) in [
        ("/namespace", "ns"),
        ("/labels/olm.copiedFrom", "other"),
        ("/labels/olm.owner", "other"),
        ("/labels/olm.owner.namespace", "other"),
        ("/labels/olm.owner.kind", "Other"),
        ("/ownerReferences/0/name", "other"),
        ("/ownerReferences/0/kind", "Other"),
    ] {
        assert!(!is_counterpart(pointer, value), "{pointer}");
    }
}
