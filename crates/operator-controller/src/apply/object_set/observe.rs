//! Reads the objects of a revision, from its spec and its Secrets, and those in the cluster.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Secret;
use kube::core::ApiResource;
use olm_api::extension_v1::{
    ClusterObjectSet, ClusterObjectSetSpec, LifecycleState, ObjectSetObject, ObjectSetPhase,
    ObjectSourceReference, ObservedPhase,
};
use olm_runtime::NamespacedName;
use olm_runtime::discovery::ServedKind;
use olm_runtime::error::ObserveError;
use olm_runtime::plan::Target;
use serde_json::Value;

use super::decide::is_awaited;
use super::{ClusterObjectSets, Conclusion, Content, ReadObject, ReadPhase, has_succeeded};
use crate::apply::collision::protection_of;
use crate::apply::digest::phase_digest;
use crate::apply::managed::Secrets;
use crate::apply::object::ObjectId;
use crate::apply::packing::unpack;
use crate::apply::probe::check_probes;

/// Kinds of objects by group, version and kind; `None` for those that the cluster does not serve.
type Kinds = BTreeMap<(String, String, String), Option<ServedKind>>;

impl ClusterObjectSets {
    /// Reads the content of a revision that is not being deleted, and watches its objects. Objects of the phases behind one that is not
    /// ready are not read, unless the revision is archived.
    pub(super) async fn read(
        &self,
        key: &NamespacedName,
        set: &ClusterObjectSet,
    ) -> Result<Content, ObserveError> {
        let secrets = self.secrets(key, &set.spec).await?;
        let manifests = match resolve(&set.spec, &secrets, &self.system_namespace) {
            Ok(manifests) => manifests,
            Err(conclusion) => {
                self.managed.keep(key, Secrets::new());
                let names: Vec<NamespacedName> = secrets.into_keys().collect();
                self.managed.watch(key, &[], &names);
                return Ok(Content::Unread(conclusion));
            }
        };
        let kinds = self.kinds(&manifests).await?;
        let mut watched: Vec<ApiResource> = kinds.values().flatten().map(|kind| kind.api.clone()).collect();
        if !secrets.is_empty() {
            // Secrets of OLM's revisions bear the label, so that a Secret that is replaced is noticed.
            watched.push(ApiResource::erase::<Secret>(&()));
        }
        self.managed.watch(key, &watched, &[]);
        // They are large. During a rollout they are needed after each change of an object.
        let kept = if has_succeeded(set) {
            Secrets::new()
        } else {
            secrets
        };
        self.managed.keep(key, kept);
        let is_archived = set.spec.lifecycle_state == LifecycleState::Archived;
        let mut is_reached = true;
        let mut phases = Vec::with_capacity(manifests.len());
        for (phase, manifests) in set.spec.phases.iter().zip(manifests) {
            let observed = ObservedPhase {
                name: phase.name.clone(),
                digest: phase_digest(&phase.name, &manifests),
                ..ObservedPhase::default()
            };
            let mut objects = Vec::with_capacity(manifests.len());
            for (object, manifest) in phase.objects.iter().zip(manifests) {
                let id = ObjectId::of(&manifest);
                let served = kinds.get(&kind_key(&id)).and_then(Option::as_ref);
                let target = served.map(|served| target(served, &id));
                let current = match &target {
                    Some(target) if is_reached => {
                        let namespace = target.namespace.clone().unwrap_or_default();
                        let name = NamespacedName::new(namespace, id.name.as_str());
                        self.managed.find(key, &target.api, &name).await?
                    }
                    _ => None,
                };
                let live = current.as_ref().map(|current| &current.object);
                objects.push(ReadObject {
                    is_kept: Box::pin(self.is_kept_by_archive(set, &id, live)).await?,
                    protection: protection_of(&set.spec, phase, object),
                    id,
                    manifest,
                    target,
                    current,
                });
            }
            is_reached &= is_archived || !objects.iter().any(|object| is_awaited(set, object));
            phases.push(ReadPhase { observed, objects });
        }
        Ok(Content::Read(phases))
    }

    /// Reads the Secrets that a revision refers to.
    async fn secrets(
        &self,
        set: &NamespacedName,
        spec: &ClusterObjectSetSpec,
    ) -> Result<Secrets, ObserveError> {
        let objects = spec.phases.iter().flat_map(|phase| &phase.objects);
        let references = objects.filter_map(|object| object.reference.as_ref());
        let keys: BTreeSet<NamespacedName> = references
            .map(|reference| secret_key(reference, &self.system_namespace))
            .collect();
        let mut secrets = Secrets::new();
        for key in keys {
            let secret = self.managed.secret(set, &key).await?;
            secrets.insert(key, secret);
        }
        Ok(secrets)
    }

    async fn kinds(&self, phases: &[Vec<Value>]) -> Result<Kinds, ObserveError> {
        let mut kinds = Kinds::new();
        for object in phases.iter().flatten() {
            let key = kind_key(&ObjectId::of(object));
            if let Entry::Vacant(unknown) = kinds.entry(key) {
                let (group, version, kind) = unknown.key();
                let served = self.discovery.find_kind(group, version, kind).await?;
                unknown.insert(served);
            }
        }
        Ok(kinds)
    }
}

fn kind_key(id: &ObjectId) -> (String, String, String) {
    (id.group.clone(), id.version.clone(), id.kind.clone())
}

fn target(served: &ServedKind, id: &ObjectId) -> Target {
    let namespace = served.namespaced.then_some(id.namespace.as_str());
    // The API server refuses a namespaced object without a namespace.
    let namespace = namespace.filter(|namespace| !namespace.is_empty());
    Target::dynamic(served.api.clone(), namespace, &id.name)
}

fn secret_key(reference: &ObjectSourceReference, system_namespace: &str) -> NamespacedName {
    let namespace = reference
        .namespace
        .as_deref()
        .filter(|namespace| !namespace.is_empty());
    NamespacedName::new(namespace.unwrap_or(system_namespace), reference.name.as_str())
}

/// Returns the objects of each phase.
///
/// # Errors
/// The conclusion about a revision that cannot be applied: a Secret is not immutable, an object cannot be read, or a probe is not known.
fn resolve(
    spec: &ClusterObjectSetSpec,
    secrets: &Secrets,
    system_namespace: &str,
) -> Result<Vec<Vec<Value>>, Conclusion> {
    let is_mutable = |secret: &Secret| secret.immutable != Some(true);
    let mutable: Vec<String> = secrets
        .iter()
        .filter(|(_, secret)| secret.as_deref().is_some_and(is_mutable))
        .map(|(key, _)| key.to_string())
        .collect();
    if !mutable.is_empty() {
        return Err(Conclusion::Blocked(format!(
            "the following secrets are not immutable (referenced secrets must have immutable set to true): {}",
            mutable.join(", ")
        )));
    }
    check_probes(&spec.progression_probes).map_err(Conclusion::Retrying)?;
    let phases = spec.phases.iter().map(|phase| {
        let objects = phase.objects.iter();
        objects
            .map(|object| manifest(phase, object, secrets, system_namespace))
            .collect::<Result<Vec<Value>, String>>()
    });
    let phases: Result<Vec<_>, String> = phases.collect();
    phases.map_err(Conclusion::Retrying)
}

fn manifest(
    phase: &ObjectSetPhase,
    object: &ObjectSetObject,
    secrets: &Secrets,
    system_namespace: &str,
) -> Result<Value, String> {
    let phase = go_compat::quote(&phase.name);
    match (&object.object, &object.reference) {
        (Some(object), _) => Ok(object.clone()),
        (None, Some(reference)) => from_secret(reference, secrets, system_namespace)
            .map_err(|error| format!("resolving ref in phase {phase}: {error}")),
        (None, None) => Err(format!("object in phase {phase} has neither object nor ref")),
    }
}

fn from_secret(
    reference: &ObjectSourceReference,
    secrets: &Secrets,
    system_namespace: &str,
) -> Result<Value, String> {
    let key = secret_key(reference, system_namespace);
    let Some(secret) = secrets.get(&key).and_then(Option::as_ref) else {
        let name = go_compat::quote(&key.name);
        return Err(format!("getting Secret {key}: Secret {name} not found"));
    };
    let name = go_compat::quote(&reference.key);
    let data = secret.data.as_ref().and_then(|data| data.get(&reference.key));
    let Some(data) = data else {
        return Err(format!("key {name} not found in Secret {key}"));
    };
    unpack(&data.0, &reference.key, &key.to_string())
}
