//! Groups and namespaces that a change triggers, field by field.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Namespace;
use kube::core::PartialObjectMeta;
use olm_api::v1alpha1::ClusterServiceVersion;
use olm_runtime::store::Change;
use serde_json::{Value, json};

use crate::{
    namespace, operator_group,
    test_env::{csv, decode, group},
};

fn edited<K: serde::de::DeserializeOwned>(before: &Value, change: impl FnOnce(&mut Value)) -> Change<K> {
    let mut after = before.clone();
    change(&mut after);
    Change::Applied {
        old: Some(Arc::new(decode(before.clone()))),
        new: Arc::new(decode(after)),
    }
}

#[test]
fn what_a_member_provides_its_phase_and_its_end_are_news_to_its_group() {
    let groups = [Arc::new(decode(group("ns", "og", &[])))];
    let before = csv("a", "");
    let woken =
        |change: &Change<ClusterServiceVersion>| operator_group::triggers::by_csv(change, &groups).len();
    assert_eq!(woken(&edited(&before, |_| {})), 0);
    assert_eq!(
        woken(&edited(&before, |csv| csv["spec"]["customresourcedefinitions"] =
            json!({}))),
        1
    );
    assert_eq!(
        woken(&edited(&before, |csv| csv["status"] = json!({"phase": "Failed"}))),
        1
    );
    assert_eq!(
        woken(&edited(&before, |csv| {
            csv["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        })),
        1
    );
}

#[test]
fn labels_of_a_namespace_are_news_to_it() {
    let before = json!({"metadata": {"name": "ns", "labels": {"a": "b"}}});
    let is_woken =
        |change: &Change<PartialObjectMeta<Namespace>>| namespace::triggers::by_namespace(change).is_some();
    assert!(!is_woken(&edited(&before, |_| {})));
    assert!(is_woken(&edited(
        &before,
        |namespace| namespace["metadata"]["labels"] = json!({})
    )));
}
