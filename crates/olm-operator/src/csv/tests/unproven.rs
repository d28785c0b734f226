//! Rights beyond the namespace: guards that hold even where the phases before them would have stopped already.

use olm_runtime::NamespacedName;
use serde_json::json;

use super::{installed, prepared_for};
use crate::{
    csv::rbac,
    world::{crd, csv},
};

#[test]
fn nothing_is_granted_without_a_proof_whatever_the_phase() {
    let mut world = prepared_for(&[]);
    world.by_hand = true;
    world.put(csv("a", ""));
    world.settle_for(5);
    let observed = world.observe(&NamespacedName::new("ns", "a")).unwrap();
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
    let mut world = prepared_for(&[]).with(csv("a", ""));
    world.settle_for(5);
    assert!(!world.names("ClusterRole").is_empty());
    let mut observed = world.observe(&NamespacedName::new("ns", "a")).unwrap();
    assert_eq!(rbac::revocations(&observed), []);
    observed.groups.clear();
    assert_eq!(rbac::revocations(&observed), []);
}

#[test]
fn a_group_lists_what_all_its_members_provide() {
    let mut world = installed();
    let mut other = csv("b", "");
    other["spec"]["customresourcedefinitions"] =
        json!({"owned": [{"name": "others.example.com", "version": "v1", "kind": "Other"}]});
    other["spec"]["install"]["spec"] = json!({"deployments": []});
    world.put(crd("others.example.com"));
    world.put(other);
    world.settle_for(5);
    let group = world.get("OperatorGroup", "ns", "og").unwrap();
    assert_eq!(
        group["metadata"]["annotations"]["olm.providedAPIs"],
        "Demo.v1.example.com,Other.v1.example.com"
    );
}
