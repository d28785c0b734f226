//! Replaces a Deployment whose selector changes. Kubernetes allows no change of a selector, so such an
//! upgrade would be refused forever.
//!
//! # Expected flow
//! 1. The ReplicaSets of the old Deployment are marked as this ClusterServiceVersion's.
//! 2. The Deployment is deleted without its ReplicaSets, so its pods keep running.
//! 3. The new Deployment is then missing and is applied as in any install.
//! 4. Once it is available, the marked ReplicaSets are deleted, and the old pods with them.
//!
//! If the author asks for strategy `Recreate`, the old pods are deleted first instead.
//!
//! # Guarantees
//! - Every step follows from objects alone, so a restarted process resumes at any point. The objects are: an
//!   old Deployment, one being deleted, none, or marked ReplicaSets without a controller.
//! - Marked ReplicaSets are also owned by this ClusterServiceVersion, so they never outlive it.
//! - Only Deployments proved to be OLM's are replaced. The proof is the owner labels and an owner reference
//!   to this ClusterServiceVersion or to one it replaces.

use std::collections::BTreeSet;

use k8s_openapi::{
    api::apps::v1::{Deployment, ReplicaSet},
    apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta},
};
use kube::{ResourceExt, core::Selector};
use olm_runtime::plan::{Action, Guard, Identity, Propagation, Target};
use serde_json::json;

use crate::{
    csv::{deployment::Built, install, observed::Observed, rbac, replacement},
    owner,
};

/// A Deployment to be replaced, or being deleted.
#[derive(Debug)]
pub(crate) struct Changeover<'a> {
    pub(crate) old: &'a Deployment,
    new: Built,
}

/// Returns the Deployments to be replaced, in the order of the strategy.
pub(crate) fn pending(observed: &Observed) -> Vec<Changeover<'_>> {
    let all = install::wanted(observed).into_iter();
    all.filter_map(|new| {
        let name = &new.wanted.name;
        let old = observed.deployments.get(name).or(observed.inherited.get(name))?;
        let changes = !is_same_selector(selector(old), selector(&new.deployment));
        (changes && is_ours(observed, old)).then_some(Changeover { old, new })
    })
    .collect()
}

impl Changeover<'_> {
    /// True while the old one is being deleted.
    pub(crate) fn is_leaving(&self) -> bool {
        self.old.metadata.deletion_timestamp.is_some()
    }

    /// True when the author wants no old and new pods at the same time.
    fn recreates(&self) -> bool {
        let strategy = self
            .new
            .deployment
            .spec
            .as_ref()
            .and_then(|spec| spec.strategy.as_ref());
        strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("Recreate")
    }

    /// True when the ReplicaSets of the old Deployment must be read before it is deleted.
    pub(crate) fn needs_replica_sets(&self) -> bool {
        !self.is_leaving() && !self.recreates()
    }

    /// Message for users about the current step.
    pub(crate) fn message(&self) -> String {
        let pods = if self.recreates() {
            "the old pods stop first because its strategy is Recreate"
        } else {
            "the old pods run until the new ones are available"
        };
        format!(
            "installing: replacing deployment {} because its selector changes from {} to {} and selectors are immutable; {pods}",
            self.old.name_any(),
            printed(selector(self.old)),
            printed(selector(&self.new.deployment)),
        )
    }

    /// Returns the writes that delete the old Deployment; empty while it is being deleted, or before its
    /// ReplicaSets are known.
    pub(crate) fn actions(&self, observed: &Observed) -> Vec<Action> {
        if self.is_leaving() {
            return Vec::new();
        }
        let mut actions = Vec::new();
        let mut propagation = Propagation::Foreground;
        if !self.recreates() {
            let Some(replica_sets) = &observed.replica_sets else {
                return Vec::new();
            };
            let of_old = replica_sets
                .iter()
                .filter(|found| controller(found) == self.old.metadata.uid.as_ref());
            actions.extend(
                of_old
                    .filter(|found| !is_marked(observed, found))
                    .map(|found| mark(observed, found)),
            );
            propagation = Propagation::Orphan;
        }
        actions.push(Action::Delete {
            target: Target::of::<Deployment>(observed.namespace(), &self.old.name_any()),
            guard: Guard::of_uid(self.old.uid()),
            grace_seconds: None,
            propagation,
            identity: rbac::identity(observed),
        });
        actions
    }
}

/// Returns the deletions of ReplicaSets that earlier changeovers left; called when the install is healthy.
pub(crate) fn clean_up(observed: &Observed) -> Vec<Action> {
    let left = observed.left_behind.iter();
    left.map(|(name, uid)| {
        Action::delete(
            Target::of::<ReplicaSet>(observed.namespace(), name),
            Some(uid.clone()),
        )
    })
    .collect()
}

/// True for a ReplicaSet that a changeover of this ClusterServiceVersion marked and that no Deployment has
/// adopted since.
pub(crate) fn is_left_behind(metadata: &ObjectMeta) -> bool {
    metadata.deletion_timestamp.is_none() && controller(metadata).is_none()
}

fn selector(deployment: &Deployment) -> Option<&LabelSelector> {
    deployment.spec.as_ref().map(|spec| &spec.selector)
}

/// Compares selectors as the API server does: an empty list or map equals a missing one.
fn is_same_selector(a: Option<&LabelSelector>, b: Option<&LabelSelector>) -> bool {
    let parts = |selector: Option<&LabelSelector>| {
        let selector = selector.cloned().unwrap_or_default();
        let labels = selector.match_labels.unwrap_or_default();
        let expressions = selector.match_expressions.unwrap_or_default().into_iter();
        let expressions: Vec<_> = expressions
            .map(|one| (one.key, one.operator, one.values.unwrap_or_default()))
            .collect();
        (labels, expressions)
    };
    parts(a) == parts(b)
}

fn printed(selector: Option<&LabelSelector>) -> String {
    let parsed = Selector::try_from(selector.cloned().unwrap_or_default());
    parsed.map_or_else(|_| "an invalid one".to_owned(), |parsed| parsed.to_string())
}

/// True when OLM demonstrably created a Deployment for this ClusterServiceVersion or for one that it
/// replaces.
fn is_ours(observed: &Observed, live: &Deployment) -> bool {
    let Some(labelled) = owner::labelled(&live.metadata) else {
        return false;
    };
    let own = observed.name();
    let mut family: BTreeSet<&str> = replacement::ancestors(own, observed.replaces(), &observed.siblings);
    family.insert(own);
    let uid_of = |name: &str| {
        let mut siblings = observed.siblings.iter();
        let found = siblings.find(|found| replacement::name_of(found) == name)?;
        found.metadata.uid.as_ref()
    };
    labelled.namespace == observed.namespace()
        && family.contains(labelled.name.as_str())
        && owner::references(&live.metadata).any(|found| {
            found.name == labelled.name && (found.name == own || uid_of(&found.name) == Some(&found.uid))
        })
}

fn is_marked(observed: &Observed, replica_set: &ObjectMeta) -> bool {
    owner::is_labelled(replica_set, observed.namespace(), observed.name())
        && owner::references(replica_set).any(|owner| owner.uid == observed.uid())
}

/// Uid of the object that controls another one.
fn controller(metadata: &ObjectMeta) -> Option<&String> {
    owner::controller(metadata).map(|owner| &owner.uid)
}

/// Adds the labels that identify the ReplicaSet later, and an owner besides its Deployment. The write is made
/// with OLM's own rights, because it grants nothing.
fn mark(observed: &Observed, replica_set: &ObjectMeta) -> Action {
    let mut owners = replica_set.owner_references.clone().unwrap_or_default();
    owners.retain(|owner| owner.uid != observed.uid());
    owners.push(owner::reference(&observed.csv));
    Action::Patch {
        target: Target::of::<ReplicaSet>(
            observed.namespace(),
            replica_set.name.as_deref().unwrap_or_default(),
        ),
        patch: json!({"metadata": {"labels": owner::labels(&observed.csv), "ownerReferences": owners}}),
        subresource: None,
        guard: Guard::of(replica_set),
        identity: Identity::Operator,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn adopted_and_deleted_objects_are_not_left_behind() {
        let of = |value: Value| -> ObjectMeta { serde_json::from_value(value).unwrap() };
        let owner = |controller: bool| json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "u", "controller": controller});
        assert!(is_left_behind(&of(json!({"ownerReferences": [owner(false)]}))));
        assert!(!is_left_behind(&of(json!({"ownerReferences": [owner(true)]}))));
        assert!(!is_left_behind(&of(
            json!({"deletionTimestamp": "2026-01-01T00:00:00Z"})
        )));
    }

    #[test]
    fn selectors_are_compared_as_the_api_server_does() {
        let of = |value: Value| -> LabelSelector { serde_json::from_value(value).unwrap() };
        let same = |a: Value, b: Value| is_same_selector(Some(&of(a)), Some(&of(b)));
        assert!(same(
            json!({"matchLabels": {"a": "b"}}),
            json!({"matchLabels": {"a": "b"}, "matchExpressions": []})
        ));
        assert!(!same(
            json!({"matchLabels": {"a": "b"}}),
            json!({"matchLabels": {"a": "b", "c": "d"}})
        ));
        let exists = json!({"matchExpressions": [{"key": "a", "operator": "Exists"}]});
        let exists_too = json!({"matchExpressions": [{"key": "a", "operator": "Exists", "values": []}]});
        assert!(same(exists.clone(), exists_too));
        assert!(!same(exists, json!({})));
    }
}
