//! Rights beyond the namespace: guards that hold even where the phases before them would have stopped already.

use olm_runtime::NamespacedName;
use serde_json::json;

use super::{installed, prepared_for};
use crate::{
    csv::rbac,
    test_env::{crd, csv},
};

#[test]
fn nothing_is_granted_without_a_proof_whatever_the_phase() {
    let mut env = prepared_for(&[]);
    env.by_hand = true;
    env.put(csv("a", ""));
    env.settle_for(5);
    let observed = env.observe(&NamespacedName::new("ns", "a")).unwrap();
    let roles = &observed.strategy.as_ref().unwrap().roles;
    assert!(
        roles
            .iter()
            .any(|role| !rbac::lacking(&observed, role).is_empty())
    );
    assert_eq!(rbac::grants(&observed), []);
}

#[test]
fn without_a_group_nothing_is_taken_back_by_an_install() {
    let mut env = prepared_for(&[]).with(csv("a", ""));
    env.settle_for(5);
    assert!(!env.cluster_roles().is_empty());
    let mut observed = env.observe(&NamespacedName::new("ns", "a")).unwrap();
    assert_eq!(rbac::revocations(&observed), []);
    observed.groups.clear();
    assert_eq!(rbac::revocations(&observed), []);
}

#[test]
fn ogx_006_a_group_lists_what_all_its_members_provide() {
    let mut env = installed();
    let mut other = csv("b", "");
    other["spec"]["customresourcedefinitions"] =
        json!({"owned": [{"name": "others.example.com", "version": "v1", "kind": "Other"}]});
    other["spec"]["install"]["spec"] = json!({"deployments": []});
    env.put(crd("others.example.com"));
    env.put(other);
    env.settle_for(5);
    let group = env.get("OperatorGroup", "ns", "og").unwrap();
    assert_eq!(
        group["metadata"]["annotations"]["olm.providedAPIs"],
        "Demo.v1.example.com,Other.v1.example.com"
    );
}
