//! The ClusterExtension controller: chooses a bundle, and makes a revision of it if the newest one is of another.
//!
//! # Expected flow
//! `observe` reads the package from the catalogs, and lets [`choose`] name a bundle. If the newest revision was not made from it, the
//! bundle is pulled and rendered, and compared with the revision. `decide` creates the next revision, whose objects the ClusterObjectSet
//! controller applies. `status` reports the revisions.
//!
//! # Guarantees
//! - While the newest revision is of the chosen bundle and configuration, nothing is pulled or rendered, unless a Secret of it is missing
//!   or its certificates are due.
//! - A revision that is being rolled out is finished before the next one, unless it is stuck or its version is no longer wanted.
//! - Nothing is written if a definition of the bundle would break stored objects, unless the extension allows it.
//! - Nothing is written while the ServiceAccount of the extension lacks a right that the bundle needs.

mod account;
mod certificates;
pub mod choose;
mod observe;
mod revision;
mod rights;
mod status;
#[cfg(test)]
mod test_env;
#[cfg(test)]
mod tests;
pub mod triggers;

use std::sync::Arc;

use async_trait::async_trait;
use go_compat::semver::Version;
use k8s_openapi::api::core::v1::{ObjectReference, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::PartialObjectMeta;
use kube::{Client, ResourceExt as _};
use olm_api::extension_v1::{ClusterCatalog, ClusterExtension, ClusterObjectSet};
use olm_api::labels;
use olm_fbc::schema::DeprecationEntry;
use olm_runtime::discovery::Discovery;
use olm_runtime::driver::{Reconciler, StatusUpdate};
use olm_runtime::error::ObserveError;
use olm_runtime::event::regarding;
use olm_runtime::outcome::Outcomes;
use olm_runtime::plan::{Action, Guard, Plan, Target};
use olm_runtime::review::Reviewer;
use olm_runtime::store::{Index, Store};
use olm_runtime::{NamespacedName, Timestamp, clock};
use serde_json::json;

use crate::apply::object::replace_finalizers;
use crate::apply::revisions::{RevisionDecision, own_secrets};
use crate::bundle_images::BundleImages;
use crate::catalog_content::CatalogContents;
use crate::reads::Reads;
use crate::render::Bundle;
use crate::resolve::PackageContent;

/// Finalizers that upstream's program sets. Nothing needs them here: owner references delete the revisions.
const OBSOLETE_FINALIZERS: [&str; 2] = [
    "olm.operatorframework.io/cleanup-unpack-cache",
    "olm.operatorframework.io/cleanup-contentmanager-cache",
];

/// Name of a ClusterCatalog, and of a package.
type PackageKey = (String, String);

/// The controller of ClusterExtensions.
pub struct ClusterExtensions {
    /// All ClusterExtensions.
    extensions: Store<ClusterExtension>,
    /// All ClusterCatalogs.
    catalogs: Store<ClusterCatalog>,
    /// All ClusterObjectSets by the extension they belong to.
    revisions: Index<ClusterObjectSet>,
    /// Secrets with objects of revisions.
    secrets: Store<PartialObjectMeta<Secret>>,
    sources: Sources,
    /// Packages that were read; `None` for those that the catalog does not have.
    packages: Reads<PackageKey, Option<Arc<PackageContent>>>,
    /// Bundles by image, until their revision is made.
    bundles: Reads<String, Arc<Bundle>>,
    client: Client,
    discovery: Discovery,
    /// Namespace of the Secrets of revisions.
    system_namespace: Arc<str>,
}

/// What the controller reads besides the cluster.
pub struct Sources {
    /// Contents of catalogs.
    pub contents: Arc<dyn CatalogContents>,
    /// Images of bundles.
    pub images: Arc<dyn BundleImages>,
    /// Version of OpenShift that the cluster runs; `None` elsewhere.
    pub openshift: Option<Version>,
    /// Answers questions about rights of accounts.
    pub reviewer: Arc<dyn Reviewer>,
    /// True if `spec.serviceAccount` has no effect.
    pub ignores_accounts: bool,
}

/// An extension, and the input of decisions about it.
#[derive(Debug, Clone)]
pub struct Observed {
    extension: Arc<ClusterExtension>,
    /// All revisions.
    revisions: Vec<Arc<ClusterObjectSet>>,
    /// Secrets with their objects.
    secrets: Vec<Arc<PartialObjectMeta<Secret>>>,
    /// Deprecations of the package; `None` if no catalog was read.
    deprecations: Option<Vec<DeprecationEntry>>,
    step: Step,
}

/// Progress of the extension.
#[derive(Debug, Clone)]
enum Step {
    /// It is being deleted.
    Deleted,
    /// A catalog or a bundle is being read. The extension is reconciled again afterwards.
    Reading,
    /// No bundle was chosen, or there is no revision of it.
    Refused(Refusal),
    /// The newest revision is of the chosen bundle, or it is to be.
    Revision(RevisionDecision),
}

/// Reason why an extension makes no progress.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Refusal {
    text: String,
    /// The configuration does not fit the bundle: only a user can help.
    is_configuration: bool,
    /// The same attempt may succeed later, and no change wakes the extension.
    is_repeated: bool,
}

#[async_trait]
impl Reconciler for ClusterExtensions {
    type Key = NamespacedName;
    type Observed = Observed;
    /// The failures before this reconcile.
    type Verdict = Option<u32>;
    /// Number of attempts that failed since the last success, less one.
    type Memory = u32;

    const NAME: &'static str = "cluster-extension";

    fn regarding(&self, key: &NamespacedName) -> Option<ObjectReference> {
        regarding(&self.extensions, key)
    }

    async fn observe(&self, key: &NamespacedName) -> Result<Option<Observed>, ObserveError> {
        let Some(extension) = self.extensions.get_key(key) else {
            return Ok(None);
        };
        Box::pin(self.read(key, extension)).await.map(Some)
    }

    fn unobserved(&self, key: &NamespacedName, error: &ObserveError) -> Option<Action> {
        let extension = self.extensions.get_key(key)?;
        status::unobserved(&extension, &error.to_string(), clock::now())
    }

    fn decide(observed: &Observed, memory: Option<&u32>, _now: Timestamp) -> (Plan, Option<u32>) {
        (decide(observed), memory.copied())
    }

    fn status(
        observed: &Observed,
        failures: Option<u32>,
        outcomes: &Outcomes,
        now: Timestamp,
    ) -> StatusUpdate<u32> {
        status::status(observed, failures, outcomes, now)
    }
}

/// Returns the writes: of the next revision, and of the owners of its Secrets.
fn decide(observed: &Observed) -> Plan {
    let mut plan = Plan::default();
    match &observed.step {
        Step::Deleted => {
            plan.actions
                .extend(without_obsolete_finalizers(&observed.extension));
            return plan;
        }
        Step::Revision(RevisionDecision { actions, .. }) => {
            plan.actions.extend(delete_abandoned_secrets(observed, actions));
            plan.actions.extend(actions.iter().cloned());
        }
        Step::Reading | Step::Refused(_) => {}
    }
    for revision in &observed.revisions {
        let name = revision.name_any();
        let is_of = |secret: &&Arc<PartialObjectMeta<Secret>>| {
            secret.labels().get(labels::REVISION_NAME) == Some(&name)
        };
        let secrets = observed.secrets.iter().filter(is_of);
        let secrets: Vec<_> = secrets.map(|secret| secret.metadata.clone()).collect();
        plan.actions.extend(own_secrets(revision, &secrets));
        plan.actions
            .extend(deletion_annotation(&observed.extension, revision));
    }
    plan
}

/// Returns the deletions of Secrets of revisions that were never made, because admission refused them or the process was killed, besides
/// those that `actions` write. A repeated attempt has other Secrets if OLM issues the certificates.
fn delete_abandoned_secrets(observed: &Observed, actions: &[Action]) -> Vec<Action> {
    let uid = observed.extension.metadata.uid.as_deref();
    let is_abandoned = |secret: &&Arc<PartialObjectMeta<Secret>>| {
        let revision = secret.labels().get(labels::REVISION_NAME);
        let mut owners = secret.metadata.owner_references.iter().flatten();
        owners.any(|owner| Some(owner.uid.as_str()) == uid)
            && observed
                .revisions
                .iter()
                .all(|made| Some(&made.name_any()) != revision)
            && actions
                .iter()
                .all(|action| action.target().name != secret.name_any())
    };
    let abandoned = observed.secrets.iter().filter(is_abandoned);
    let delete = |secret: &Arc<PartialObjectMeta<Secret>>| {
        Action::delete(Target::of_object(secret.as_ref()), secret.metadata.uid.clone())
    };
    abandoned.map(delete).collect()
}

/// Returns the patch that copies the annotation about custom resources to a revision, which outlives the extension.
fn deletion_annotation(extension: &ClusterExtension, revision: &ClusterObjectSet) -> Option<Action> {
    let key = labels::DELETE_CUSTOM_RESOURCES;
    let wanted = labels::is_true(extension.annotations(), key);
    let is_own = |owner: &OwnerReference| Some(&owner.uid) == extension.metadata.uid.as_ref();
    if labels::is_true(revision.annotations(), key) == wanted
        || revision.metadata.deletion_timestamp.is_some()
        || !revision.owner_references().iter().any(is_own)
    {
        return None;
    }
    let guard = Guard {
        resource_version: None,
        ..Guard::of(&revision.metadata)
    };
    let patch = json!({"metadata": {"annotations": {key: wanted.then_some(labels::TRUE)}}});
    Some(Action::patch(Target::of_object(revision), patch, guard))
}

/// Returns the patch that removes the finalizers of upstream's program from an extension that is being deleted.
fn without_obsolete_finalizers(extension: &ClusterExtension) -> Option<Action> {
    let mut finalizers = extension.metadata.finalizers.clone()?;
    let before = finalizers.len();
    finalizers.retain(|finalizer| !OBSOLETE_FINALIZERS.contains(&finalizer.as_str()));
    if finalizers.len() == before {
        return None;
    }
    let target = Target::cluster::<ClusterExtension>(&extension.name_any());
    Some(replace_finalizers(target, &extension.metadata, &finalizers))
}
