//! The Namespace controller: labels each target namespace with the uid of each OperatorGroup that targets it.
//!
//! Webhooks select namespaces by these labels. Groups that target all namespaces add no label
//! (`docs/reference/operator-groups.md`).

pub(crate) mod triggers;

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{Namespace, ObjectReference};
use kube::{ResourceExt, core::PartialObjectMeta};
use olm_api::{
    labels::{OPERATOR_GROUP_UID_PREFIX, operator_group_uid_label},
    v1::OperatorGroup,
};
use olm_runtime::{
    NamespacedName, Timestamp,
    driver::Reconciler,
    error::ObserveError,
    event::regarding,
    plan::{Action, Guard, Plan, Target},
};
use serde_json::{Value, json};

use crate::{operator_group::is_all, stores::Stores};

/// A namespace and the groups that target it.
#[derive(Debug, Clone)]
pub(crate) struct Observed {
    pub(crate) namespace: Arc<PartialObjectMeta<Namespace>>,
    /// Uids of the groups that target it by name.
    pub(crate) group_uids: Vec<String>,
}

pub(crate) struct Namespaces(pub(crate) Stores);

#[async_trait]
impl Reconciler for Namespaces {
    type Key = NamespacedName;
    type Observed = Observed;
    type Verdict = ();
    type Memory = ();

    const NAME: &'static str = "namespace";

    fn regarding(&self, key: &NamespacedName) -> Option<ObjectReference> {
        regarding(&self.0.namespaces, key)
    }

    async fn observe(&self, key: &NamespacedName) -> Result<Option<Observed>, ObserveError> {
        Ok(observe(&self.0, key))
    }

    fn decide(observed: &Observed, _: Option<&()>, _now: Timestamp) -> (Plan, ()) {
        (decide(observed), ())
    }
}

/// Reads only stores.
pub(crate) fn observe(stores: &Stores, key: &NamespacedName) -> Option<Observed> {
    let namespace = stores.namespaces.get_key(key)?;
    let groups = stores.groups.list();
    let targeting = groups.iter().filter(|group| targets_by_name(group, &key.name));
    Some(Observed {
        namespace,
        group_uids: targeting.filter_map(|group| group.uid()).collect(),
    })
}

/// True when the group's status names the namespace.
pub(crate) fn targets_by_name(group: &OperatorGroup, namespace: &str) -> bool {
    targeted(group).any(|target| target == namespace)
}

/// The namespaces a group targets by name.
pub(crate) fn targeted(group: &OperatorGroup) -> impl Iterator<Item = &String> {
    let targets = group.status.as_ref().map_or(&[][..], |status| &status.namespaces);
    targets.iter().filter(move |_| !is_all(targets.iter()))
}

/// Sets missing labels and removes those of groups that do not target the namespace; other labels remain.
pub(crate) fn decide(observed: &Observed) -> Plan {
    if observed.namespace.metadata.deletion_timestamp.is_some() {
        return Plan::default();
    }
    let wanted: Vec<String> = observed
        .group_uids
        .iter()
        .map(|uid| operator_group_uid_label(uid))
        .collect();
    let present = observed.namespace.labels();
    let stale = present
        .keys()
        .filter(|key| key.starts_with(OPERATOR_GROUP_UID_PREFIX) && !wanted.contains(key))
        .map(|key| (key.clone(), Value::Null));
    let missing = wanted
        .iter()
        .filter(|key| !present.contains_key(*key))
        .map(|key| (key.clone(), json!("")));
    let changes: BTreeMap<String, Value> = stale.chain(missing).collect();
    if changes.is_empty() {
        return Plan::default();
    }
    let patch = Action::patch(
        Target::cluster::<Namespace>(&observed.namespace.name_any()),
        json!({"metadata": {"labels": changes}}),
        Guard::of_uid(observed.namespace.uid()),
    );
    Plan::of(vec![patch])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(present: &[&str], uids: &[&str]) -> Observed {
        let labels: BTreeMap<&str, &str> = present.iter().map(|key| (*key, "")).collect();
        let namespace =
            serde_json::from_value(json!({"metadata": {"name": "ns", "labels": labels}})).unwrap();
        Observed {
            namespace: Arc::new(namespace),
            group_uids: uids.iter().map(|uid| (*uid).to_owned()).collect(),
        }
    }

    #[test]
    fn labels_follow_the_groups_and_foreign_ones_stay() {
        let plan = decide(&observed(&["olm.operatorgroup.uid/old", "team"], &["new"]));
        insta::assert_snapshot!(plan, @r#"patch Namespace ns {"metadata":{"labels":{"olm.operatorgroup.uid/new":"","olm.operatorgroup.uid/old":null}}}"#);
    }

    #[test]
    fn a_namespace_in_sync_is_not_written() {
        assert!(
            decide(&observed(
                &["olm.operatorgroup.uid/a", "olm.operatorgroup.uid/b"],
                &["a", "b"]
            ))
            .is_empty()
        );
        assert!(decide(&observed(&["team"], &[])).is_empty());
    }

    #[test]
    fn a_namespace_on_its_way_out_is_left_alone() {
        let mut going = observed(&[], &["a"]);
        assert_eq!(decide(&going).actions.len(), 1);
        going.namespace = serde_json::from_value(
            json!({"metadata": {"name": "ns", "deletionTimestamp": "2026-01-01T00:00:00Z"}}),
        )
        .map(Arc::new)
        .unwrap();
        assert!(decide(&going).is_empty());
    }

    #[test]
    fn a_group_of_all_namespaces_targets_none_by_name() {
        let group = |namespaces: Value| -> OperatorGroup {
            serde_json::from_value(
                json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
                "metadata": {"name": "og"}, "status": {"namespaces": namespaces, "lastUpdated": null}}),
            )
            .unwrap()
        };
        assert_eq!(targeted(&group(json!([""]))).count(), 0);
        assert!(targets_by_name(&group(json!(["a", "b"])), "b"));
    }
}
