//! The ClusterObjectSet controller: applies the objects of a revision phase by phase, and keeps them.
//!
//! # Expected flow
//! `observe` reads the objects of the revision, and those in the cluster. `decide` applies what is missing or differs. Both stop
//! behind the first phase whose probes do not pass yet. `status` probes the objects as the API server returned them.
//!
//! # Guarantees
//! - A phase is applied after all probes of the phase before have passed.
//! - An object that another client controls is never changed, unless the collision protection allows it.
//! - An object is applied again after another client has changed it, except for its status and for metadata that the revision does not
//!   set. So the change is reverted, and fields that only other managers have set stay.
//! - Objects of an archived revision are deleted from the last phase to the first, except those that another revision controls.
//! - A definition that has custom resources is not deleted with its revision, unless an annotation asks for it (`definitions`).
//! - Objects are written as the ServiceAccount that the revision names, if it names one.
//!
//! # Memory
//! Whether an object still is what was applied cannot be seen in it: the API server sets defaults and normalizes values. So the driver
//! keeps a fingerprint of each object. After a restart of the process the fields of the manifest are compared instead. A value that the
//! API server has normalized is then applied once more, which changes nothing.
//!
//! Secrets with the objects are kept during a rollout only, because they are large.

mod decide;
mod definitions;
mod observe;
mod status;
mod teardown;
#[cfg(test)]
mod tests;
pub mod triggers;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Client, ResourceExt as _};
use olm_api::condition::{TRUE, cluster_object_set as words};
use olm_api::extension_v1::{ClusterObjectSet, CollisionProtection, LifecycleState, ObservedPhase};
use olm_api::labels;
use olm_runtime::discovery::Discovery;
use olm_runtime::driver::{Reconciler, StatusUpdate};
use olm_runtime::error::ObserveError;
use olm_runtime::event::regarding;
use olm_runtime::outcome::Outcomes;
use olm_runtime::plan::{Action, Identity, Plan, Target};
use olm_runtime::store::{Projected, Store};
use olm_runtime::{NamespacedName, Timestamp, clock};
use serde_json::Value;
use tokio::sync::OnceCell;

use self::definitions::Definition;
use super::managed::{Fingerprint, ManagedObject, ManagedObjects};
use super::object::ObjectId;

/// Finalizer of revisions that are active.
pub const FINALIZER: &str = "olm.operatorframework.io/teardown";

/// The controller of ClusterObjectSets.
pub struct ClusterObjectSets {
    /// All ClusterObjectSets.
    pub sets: Store<ClusterObjectSet>,
    /// Their objects.
    pub managed: ManagedObjects,
    /// Kinds that the cluster serves.
    pub discovery: Discovery,
    /// Namespace of Secrets that are referred to without one.
    pub system_namespace: Arc<str>,
    /// Reads definitions and custom resources.
    pub client: Client,
    /// Uid of the second owner of definitions; `None` if the cluster does not have it.
    pub anchor: OnceCell<Option<Arc<str>>>,
}

/// A revision, and the input of decisions about it.
#[derive(Debug, Clone)]
pub struct Observed {
    set: Arc<ClusterObjectSet>,
    /// Other active revisions of the same extension.
    siblings: Vec<Arc<ClusterObjectSet>>,
    content: Content,
    /// Uid of the second owner of definitions.
    anchor: Option<Arc<str>>,
}

/// Objects of a revision.
#[derive(Debug, Clone)]
enum Content {
    /// They do not matter, or cannot be read.
    Unread(Conclusion),
    /// The revision is being deleted: definitions that it controls.
    Deleted(Vec<Definition>),
    /// All objects are known.
    Read(Vec<ReadPhase>),
}

/// A phase with its objects.
#[derive(Debug, Clone)]
struct ReadPhase {
    /// Name and digest.
    observed: ObservedPhase,
    objects: Vec<ReadObject>,
}

/// An object of a revision.
#[derive(Debug, Clone)]
struct ReadObject {
    id: ObjectId,
    /// The object as the revision has it.
    manifest: Value,
    protection: CollisionProtection,
    /// Place in the API server; `None` if the cluster does not serve the kind.
    target: Option<Target>,
    /// The object in the cluster; `None` if it does not exist, or if its phase is not reached yet.
    current: Option<Arc<Projected<ManagedObject>>>,
    /// True if the revision is archived, and this is a definition that it controls and that has custom resources.
    is_kept: bool,
}

/// State of an object since it was applied.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Known {
    /// It was applied, and had this `resourceVersion` and generation then. Not every kind has generations.
    Applied {
        version: Option<String>,
        generation: Option<i64>,
    },
    /// It was seen unchanged since, with this fingerprint.
    Seen(Fingerprint),
}

/// Objects that were applied.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Memory(BTreeMap<ObjectId, Known>);

/// Conclusions of `decide`.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    conclusion: Conclusion,
    memory: Memory,
}

#[derive(Debug, Clone, PartialEq)]
enum Conclusion {
    /// The status does not change.
    Nothing,
    /// Reason `Blocked`, with its message.
    Blocked(String),
    /// Reason `Retrying`, with its message.
    Retrying(String),
    /// The revision is archived. True if none of its objects is left.
    Archived { is_done: bool },
    /// The revision is rolled out: the states of the objects of each phase that was reached.
    Rollout {
        phases: Vec<Vec<State>>,
        is_complete: bool,
    },
}

/// State of an object of a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// It is as it was applied.
    Settled,
    /// A newer revision controls it.
    Left,
    /// The action with this index applies it.
    Applied(usize),
    /// It must not be changed.
    Collision,
    /// The cluster does not serve its kind.
    Unserved,
}

#[async_trait]
impl Reconciler for ClusterObjectSets {
    type Key = NamespacedName;
    type Observed = Observed;
    type Verdict = Verdict;
    type Memory = Memory;

    const NAME: &'static str = "cluster-object-set";

    fn regarding(&self, key: &NamespacedName) -> Option<ObjectReference> {
        regarding(&self.sets, key)
    }

    async fn observe(&self, key: &NamespacedName) -> Result<Option<Observed>, ObserveError> {
        let Some(set) = self.sets.get_key(key) else {
            self.managed.forget(key);
            return Ok(None);
        };
        let siblings = self.sets.list_where(|other| is_sibling(&set, other));
        let content = if is_finished(&set) {
            self.managed.forget(key);
            if has_finalizer(&set) {
                Content::Deleted(Box::pin(self.definitions(&set)).await?)
            } else {
                Content::Unread(Conclusion::Nothing)
            }
        } else {
            Box::pin(self.read(key, &set)).await?
        };
        let anchor = match &content {
            Content::Unread(_) => None,
            Content::Deleted(_) | Content::Read(_) => Box::pin(self.anchor()).await?,
        };
        Ok(Some(Observed {
            set,
            siblings,
            content,
            anchor,
        }))
    }

    fn unobserved(&self, key: &NamespacedName, error: &ObserveError) -> Option<Action> {
        let set = self.sets.get_key(key)?;
        status::unobserved(&set, &error.to_string(), clock::now())
    }

    fn decide(observed: &Observed, memory: Option<&Memory>, _now: Timestamp) -> (Plan, Verdict) {
        decide::decide(observed, memory)
    }

    fn status(
        observed: &Observed,
        verdict: Verdict,
        outcomes: &Outcomes,
        now: Timestamp,
    ) -> StatusUpdate<Memory> {
        status::status(observed, verdict, outcomes, now)
    }
}

/// True if `other` is another active revision of the same extension. A set without the label of an extension has none.
fn is_sibling(set: &ClusterObjectSet, other: &ClusterObjectSet) -> bool {
    let owner = set.labels().get(labels::EXTENSION_OWNER_NAME);
    owner.is_some()
        && other.labels().get(labels::EXTENSION_OWNER_NAME) == owner
        && other.name_any() != set.name_any()
        && other.spec.lifecycle_state != LifecycleState::Archived
        && other.metadata.deletion_timestamp.is_none()
}

/// True if the objects of the revision do not matter any more. The garbage collector removes those of a deleted one, but not definitions.
fn is_finished(set: &ClusterObjectSet) -> bool {
    set.metadata.deletion_timestamp.is_some() || (is_reported_archived(set) && !has_finalizer(set))
}

fn has_finalizer(set: &ClusterObjectSet) -> bool {
    set.finalizers().iter().any(|finalizer| finalizer == FINALIZER)
}

/// Returns the account that the objects of a revision are written as. Only OLM and administrators write ClusterObjectSets.
fn identity(set: &ClusterObjectSet) -> Identity {
    let annotation = |key: &str| set.annotations().get(key).filter(|value| !value.is_empty());
    let namespace = annotation(labels::SERVICE_ACCOUNT_NAMESPACE);
    match namespace.zip(annotation(labels::SERVICE_ACCOUNT_NAME)) {
        Some((namespace, name)) => Identity::Unmarked {
            namespace: namespace.clone(),
            name: name.clone(),
        },
        None => Identity::Operator,
    }
}

/// True if the status says that the revision was torn down.
fn is_reported_archived(set: &ClusterObjectSet) -> bool {
    let progressing = set.condition(words::PROGRESSING);
    progressing.is_some_and(|found| found.reason == words::ARCHIVED)
}

/// True if the revision was rolled out once.
pub(super) fn has_succeeded(set: &ClusterObjectSet) -> bool {
    let succeeded = set.condition(words::SUCCEEDED);
    succeeded.is_some_and(|found| found.status == TRUE)
}
