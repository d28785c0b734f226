//! Intended writes of a controller, as plain values.
//!
//! A [`Plan`] has a stable text form (its `Display`), so a test can compare a fixture with the plan's text. Nothing here accesses a
//! cluster.

mod patch;
mod secret;

use std::{fmt, time::Duration};

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
/// Treatment of dependents when an object is deleted.
pub use kube::api::PropagationPolicy as Propagation;
use kube::{Resource, core::ApiResource};
use serde_json::Value;

pub use self::{
    patch::{merge_patch, status_of, status_patch, to_value},
    secret::SecretData,
};
use crate::outcome::Outcome;

/// Object that an [`Action`] writes.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    /// Group, version, kind and plural.
    pub api: ApiResource,
    /// Namespace, `None` for cluster-scoped objects.
    pub namespace: Option<String>,
    /// Name; empty if the server generates one.
    pub name: String,
}

impl Target {
    /// Returns the target of a namespaced object of a type known at compile time.
    pub fn of<K: Resource<DynamicType = ()>>(namespace: &str, name: &str) -> Self {
        Self {
            api: ApiResource::erase::<K>(&()),
            namespace: Some(namespace.to_owned()),
            name: name.to_owned(),
        }
    }

    /// Returns the target of a cluster-scoped object of a type known at compile time.
    pub fn cluster<K: Resource<DynamicType = ()>>(name: &str) -> Self {
        Self {
            api: ApiResource::erase::<K>(&()),
            namespace: None,
            name: name.to_owned(),
        }
    }

    /// Returns the target of an object that was read.
    pub fn of_object<K: Resource<DynamicType = ()>>(object: &K) -> Self {
        let metadata = object.meta();
        let name = metadata.name.as_deref().unwrap_or_default();
        Self::dynamic(ApiResource::erase::<K>(&()), metadata.namespace.as_deref(), name)
    }

    /// Returns the target of an object of a type found by discovery.
    pub fn dynamic(api: ApiResource, namespace: Option<&str>, name: &str) -> Self {
        Self {
            api,
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
        }
    }

    /// Returns the path of the collection in the API server, without a trailing slash.
    pub fn collection_path(&self) -> String {
        let root = if self.api.group.is_empty() {
            "/api"
        } else {
            "/apis"
        };
        match &self.namespace {
            Some(ns) => format!(
                "{root}/{}/namespaces/{ns}/{}",
                self.api.api_version, self.api.plural
            ),
            None => format!("{root}/{}/{}", self.api.api_version, self.api.plural),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.api.kind)?;
        match &self.namespace {
            Some(ns) => write!(f, "{ns}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// Account that a write uses.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Identity {
    /// The operator's own account.
    #[default]
    Operator,
    /// A tenant's ServiceAccount, by impersonation (OperatorGroup `spec.serviceAccountName`).
    ServiceAccount {
        /// Namespace of the account.
        namespace: String,
        /// Name of the account.
        name: String,
    },
    /// A ServiceAccount that a user named, by impersonation (ClusterExtension `spec.serviceAccount`). The write has no mark of OLM, so it
    /// must not set guarded labels.
    Unmarked {
        /// Namespace of the account.
        namespace: String,
        /// Name of the account.
        name: String,
    },
}

/// Behaviour of [`Action::Create`] if the object already exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exists {
    /// Report [`FailureClass::AlreadyExists`](crate::outcome::FailureClass::AlreadyExists).
    Fail,
    /// Keep it unchanged and report [`Outcome::Kept`].
    Keep,
}

/// Preconditions of a patch or a deletion, checked by the API server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Guard {
    /// The object must still have this uid. An object recreated with the same name is not changed.
    pub uid: Option<String>,
    /// The object must still have this resourceVersion.
    pub resource_version: Option<String>,
}

impl Guard {
    /// Returns the precondition that the object is still the same; it may have changed.
    pub fn of_uid(uid: Option<String>) -> Self {
        Self {
            uid,
            resource_version: None,
        }
    }

    /// Returns the preconditions that the object is still the same and unchanged, for example because a list is replaced as a whole.
    pub fn of(metadata: &ObjectMeta) -> Self {
        Self {
            uid: metadata.uid.clone(),
            resource_version: metadata.resource_version.clone(),
        }
    }
}

/// One write.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Forced server-side apply, for objects that we own completely.
    Apply {
        /// The object.
        target: Target,
        /// Full desired form, of a Secret without the data.
        object: Value,
        /// Data of a Secret.
        data: Option<SecretData>,
        /// Field manager: `binary/controller`, or a name that users know from upstream.
        manager: &'static str,
        /// Account to write as.
        identity: Identity,
    },
    /// Create; the target's name may be empty if `metadata.generateName` is set.
    Create {
        /// The object.
        target: Target,
        /// Full form.
        object: Value,
        /// Behaviour if it already exists.
        exists: Exists,
        /// Account to write as.
        identity: Identity,
    },
    /// JSON merge patch.
    Patch {
        /// The object.
        target: Target,
        /// The merge patch.
        patch: Value,
        /// `Some("status")` for the status subresource.
        subresource: Option<&'static str>,
        /// Preconditions.
        guard: Guard,
        /// Account to write as.
        identity: Identity,
    },
    /// Replaces the whole object or its subresource, whatever its content; for objects of which only a digest is known.
    Replace {
        /// The object.
        target: Target,
        /// Full form, with the uid and the `resourceVersion` to replace; any other version is a conflict.
        object: Value,
        /// `Some("status")` for the status subresource.
        subresource: Option<&'static str>,
        /// Account to write as.
        identity: Identity,
    },
    /// Delete; a missing object counts as done.
    Delete {
        /// The object.
        target: Target,
        /// Preconditions.
        guard: Guard,
        /// Grace period in seconds.
        grace_seconds: Option<u32>,
        /// Treatment of dependents.
        propagation: Propagation,
        /// Account to write as.
        identity: Identity,
    },
}

impl Action {
    /// Returns the object that the action writes.
    pub fn target(&self) -> &Target {
        self.place().0
    }

    /// Returns the account that the action uses.
    pub fn identity(&self) -> &Identity {
        self.place().1
    }

    fn place(&self) -> (&Target, &Identity) {
        match self {
            Self::Apply { target, identity, .. }
            | Self::Create { target, identity, .. }
            | Self::Patch { target, identity, .. }
            | Self::Replace { target, identity, .. }
            | Self::Delete { target, identity, .. } => (target, identity),
        }
    }

    /// Returns the action with another account.
    #[must_use]
    pub fn by(mut self, who: Identity) -> Self {
        match &mut self {
            Self::Apply { identity, .. }
            | Self::Create { identity, .. }
            | Self::Patch { identity, .. }
            | Self::Replace { identity, .. }
            | Self::Delete { identity, .. } => *identity = who,
        }
        self
    }

    /// Returns the verb, as in labels of metrics.
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Apply { .. } => "apply",
            Self::Create { .. } => "create",
            Self::Patch { .. } => "patch",
            Self::Replace { .. } => "replace",
            Self::Delete { .. } => "delete",
        }
    }

    /// Returns the action without its payload, for logs and failure messages.
    pub fn brief(&self) -> String {
        let (verb, target) = (self.verb(), self.target());
        match self.subresource() {
            Some(sub) => format!("{verb} {sub} of {target}"),
            None => format!("{verb} {target}{}", self.generate_name()),
        }
    }

    /// Returns the subresource that is written; `None` for the object itself.
    pub fn subresource(&self) -> Option<&'static str> {
        match self {
            Self::Patch { subresource, .. } | Self::Replace { subresource, .. } => *subresource,
            Self::Apply { .. } | Self::Create { .. } | Self::Delete { .. } => None,
        }
    }

    /// Returns `generateName` of an object that is created without a name; else empty.
    fn generate_name(&self) -> &str {
        match self {
            Self::Create { target, object, .. } if target.name.is_empty() => object
                .pointer("/metadata/generateName")
                .and_then(Value::as_str)
                .unwrap_or_default(),
            _ => "",
        }
    }

    /// Creates an object as the operator; an existing one is kept.
    pub fn create_or_keep(target: Target, object: Value) -> Self {
        Self::Create {
            target,
            object,
            exists: Exists::Keep,
            identity: Identity::Operator,
        }
    }

    /// Forced server-side apply as the operator.
    pub fn apply(target: Target, object: Value, manager: &'static str) -> Self {
        Self::Apply {
            target,
            object,
            data: None,
            manager,
            identity: Identity::Operator,
        }
    }

    /// Merge patch of the main resource as the operator.
    pub fn patch(target: Target, patch: Value, guard: Guard) -> Self {
        Self::Patch {
            target,
            patch,
            subresource: None,
            guard,
            identity: Identity::Operator,
        }
    }

    /// Restricts a patch or a deletion to this `resourceVersion`; other actions are unchanged.
    #[must_use]
    pub fn only_at(mut self, version: Option<String>) -> Self {
        if let Self::Patch { guard, .. } | Self::Delete { guard, .. } = &mut self {
            guard.resource_version = version;
        }
        self
    }

    /// Deletes an object as the operator, only if the uid still matches.
    pub fn delete(target: Target, uid: Option<String>) -> Self {
        Self::Delete {
            target,
            guard: Guard::of_uid(uid),
            grace_seconds: None,
            propagation: Propagation::Background,
            identity: Identity::Operator,
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}{}", self.verb(), self.target(), self.generate_name())?;
        match self {
            Self::Create {
                exists: Exists::Keep, ..
            } => f.write_str(" (keep)")?,
            Self::Patch {
                subresource, patch, ..
            } => {
                if let Some(sub) = subresource {
                    write!(f, " {sub}")?;
                }
                write!(f, " {patch}")?;
            }
            Self::Replace {
                subresource: Some(sub),
                ..
            } => write!(f, " {sub}")?,
            Self::Delete {
                propagation: Propagation::Orphan,
                ..
            } => f.write_str(" (its dependents stay)")?,
            Self::Replace { .. } | Self::Apply { .. } | Self::Create { .. } | Self::Delete { .. } => {}
        }
        if let Identity::ServiceAccount { namespace, name } | Identity::Unmarked { namespace, name } =
            self.identity()
        {
            write!(f, " as {namespace}/{name}")?;
        }
        Ok(())
    }
}

/// Event to send after the writes of a reconcile.
#[derive(Debug, Clone, PartialEq)]
pub struct EventDraft {
    /// Object that the event is about.
    pub regarding: ObjectReference,
    /// Type `Warning` instead of `Normal`.
    pub warning: bool,
    /// PascalCase reason.
    pub reason: String,
    /// Text for users.
    pub message: String,
}

impl EventDraft {
    /// Creates a warning about an object; `reason` is PascalCase.
    pub fn warning(regarding: ObjectReference, reason: &str, message: impl Into<String>) -> Self {
        Self {
            regarding,
            warning: true,
            reason: reason.to_owned(),
            message: message.into(),
        }
    }
}

/// Time of the next reconcile of the key without a watch event.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Requeue {
    /// No requeue; wait for a change.
    #[default]
    AwaitChange,
    /// Requeue after a delay, for deadlines.
    After {
        /// Time until the requeue.
        delay: Duration,
        /// Reason for the requeue.
        reason: &'static str,
    },
}

impl Requeue {
    /// Returns a requeue after `delay`; `reason` is for the log.
    pub const fn after(delay: Duration, reason: &'static str) -> Self {
        Self::After { delay, reason }
    }

    /// Returns the requeue after some seconds; none without a number, or if it is not positive.
    pub fn after_seconds(seconds: Option<i64>, reason: &'static str) -> Self {
        let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
        match seconds.filter(|seconds| *seconds > 0) {
            Some(seconds) => Self::after(Duration::from_secs(seconds), reason),
            None => Self::AwaitChange,
        }
    }

    /// Returns the earlier of the two.
    pub fn sooner(self, other: Self) -> Self {
        match (self, other) {
            (Self::AwaitChange, next) | (next, Self::AwaitChange) => next,
            (Self::After { delay: a, .. }, Self::After { delay: b, .. }) => {
                if a <= b {
                    self
                } else {
                    other
                }
            }
        }
    }
}

/// Writes and events of one reconcile. Actions run in order. The first [`independent`](Plan::independent) ones do not affect each other;
/// the others stop at their first failure.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// The writes, in order.
    pub actions: Vec<Action>,
    /// Number of writes, from the first on, whose failure stops neither each other nor later writes.
    pub independent: usize,
    /// Events to send after the writes.
    pub events: Vec<EventDraft>,
    /// Requeue of the key.
    pub requeue: Requeue,
}

impl Plan {
    /// Returns a plan of writes that stops at the first failure.
    pub fn of(actions: Vec<Action>) -> Self {
        Self {
            actions,
            ..Self::default()
        }
    }

    /// True if there are no writes and no events.
    pub fn is_empty(&self) -> bool {
        self.actions.is_empty() && self.events.is_empty()
    }

    /// True if the next action is to be attempted, given the results of the earlier ones.
    pub fn goes_on_after(&self, results: &[Outcome]) -> bool {
        !results
            .iter()
            .skip(self.independent)
            .any(|outcome| matches!(outcome, Outcome::Failed(_)))
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for action in &self.actions {
            writeln!(f, "{action}")?;
        }
        for event in &self.events {
            let kind = if event.warning { "warning" } else { "event" };
            writeln!(f, "{kind} {}: {}", event.reason, event.message)?;
        }
        if let Requeue::After { delay, reason } = self.requeue {
            writeln!(f, "again in {delay:?}: {reason}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
