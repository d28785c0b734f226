//! The objects of a plan's steps, from the sources that their manifests name.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::ResourceExt;
use olm_api::manifest::mend_rbac_manifest;
use olm_api::v1alpha1::{InstallPlan, Step};
use olm_runtime::error::ObserveError;
use olm_runtime::isolation;
use olm_runtime::plan::Target;
use serde_json::{Value, json};

use super::Reads;
use crate::bundle_unpack::config_map;
use crate::install_plan::execution::StepError;
use crate::install_plan::steps::{Projection, bundle_objects, find_object};
use crate::manifest::{BundleImageReference, ConfigMapReference, Manifest};
use crate::object;

/// Reason why a step has no object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoObject {
    /// Its bundle is being fetched.
    Fetching {
        /// Message for users.
        message: String,
        /// Time for which this is not reported yet.
        debounce: Option<Duration>,
    },
    /// It is unavailable.
    Broken(StepError),
}

impl NoObject {
    pub(crate) fn lasting(message: String) -> Self {
        Self::Broken(StepError::lasting(message))
    }
}

/// Objects of bundles, kept for the length of one observation: all steps of a bundle have the same manifest text.
#[derive(Default)]
pub(super) struct Contents {
    by_manifest: BTreeMap<String, Result<Vec<Value>, NoObject>>,
}

impl Contents {
    /// The object of a step, or why there is none.
    pub(super) async fn find_object(
        &mut self,
        reads: &impl Reads,
        plan: &InstallPlan,
        step: &Step,
    ) -> Result<Result<Value, NoObject>, ObserveError> {
        let resource = &step.resource;
        let text = resource.manifest.as_deref().unwrap_or_default();
        let unreadable = |cause: &str| {
            Ok(Err(NoObject::lasting(format!(
                "error parsing step manifest: {}: {cause}",
                resource.name
            ))))
        };
        if resource.name.is_empty() {
            return unreadable("the step has no object name");
        }
        let manifest = match Manifest::parse(text) {
            Err(error) => return unreadable(&error.to_string()),
            // A pull secret's content is not in the plan at all.
            Ok(Manifest::Inline(_)) if resource.kind == "Secret" => {
                return read_pull_secret(reads, step).await;
            }
            Ok(Manifest::Inline(mut object @ Value::Object(_))) => {
                mend_rbac_manifest(&mut object);
                return Ok(Ok(object));
            }
            Ok(Manifest::Inline(_)) => return unreadable("not an object"),
            Ok(reference) => reference,
        };
        let of_step = |objects: &Result<Vec<Value>, NoObject>| match objects {
            Ok(objects) => find_object(objects, resource).cloned().ok_or_else(|| {
                let (kind, name, bundle) = (&resource.kind, &resource.name, &step.resolving);
                NoObject::lasting(format!(
                    "couldn't find unpacked step for {kind} {name} in the bundle of {bundle}"
                ))
            }),
            Err(none) => Err(none.clone()),
        };
        if let Some(objects) = self.by_manifest.get(text) {
            return Ok(of_step(objects));
        }
        let objects = read_objects(reads, plan, &manifest).await?;
        let object = of_step(&objects);
        self.by_manifest.insert(text.to_owned(), objects);
        Ok(object)
    }
}

/// The objects of the bundle a manifest refers to, or why there are none.
async fn read_objects(
    reads: &impl Reads,
    plan: &InstallPlan,
    manifest: &Manifest,
) -> Result<Result<Vec<Value>, NoObject>, ObserveError> {
    let namespace = plan.namespace().unwrap_or_default();
    match manifest {
        Manifest::Inline(_) => Ok(Ok(Vec::new())),
        Manifest::BundleImage(reference) => Ok(read_image(reads, plan, reference, &namespace).await),
        Manifest::ConfigMap(reference) => {
            let (from, name) = (&reference.namespace, &reference.name);
            if *from != namespace && *from != reads.global_namespace() {
                // Authors of a plan must not use OLM to read objects that they may not read.
                return Ok(Err(NoObject::lasting(format!(
                    "configmap {from}/{name} cannot be used from namespace {namespace}"
                ))));
            }
            let found = reads
                .get(&Target::of::<ConfigMap>(&reference.namespace, &reference.name))
                .await?;
            let reference = reference.clone();
            let read = move || read_config_map(found, &reference, &namespace);
            Ok(isolation::blocking_in_round(read).await)
        }
    }
}

async fn read_image(
    reads: &impl Reads,
    plan: &InstallPlan,
    reference: &BundleImageReference,
    namespace: &str,
) -> Result<Vec<Value>, NoObject> {
    let lookups = plan
        .status
        .as_ref()
        .map_or(&[][..], |status| &status.bundle_lookups);
    // The lookup has what the resolver decided about the bundle; without it an upgrade would lose its predecessor.
    let Some(lookup) = lookups
        .iter()
        .find(|lookup| lookup.identifier == reference.identifier)
    else {
        return Err(NoObject::lasting(format!(
            "couldn't find the bundle lookup of {} in status.bundleLookups of the InstallPlan; delete the InstallPlan and OLM creates a new one",
            reference.identifier
        )));
    };
    let bundle = reads.bundle(reference, plan).await?;
    let properties = lookup.properties.as_deref().unwrap_or_default();
    let projection = Projection {
        namespace,
        replaces: &lookup.replaces,
        properties,
    };
    bundle_objects(bundle, &projection).map_err(|error| {
        NoObject::lasting(format!(
            "error calculating steps for ref {}: {error}",
            reference.image
        ))
    })
}

fn read_config_map(
    found: Option<Value>,
    reference: &ConfigMapReference,
    namespace: &str,
) -> Result<Vec<Value>, NoObject> {
    let ConfigMapReference {
        name,
        namespace: from,
        replaces,
        properties,
        ..
    } = reference;
    let failed =
        |what: &str, cause: String| NoObject::lasting(format!("error {what} for ref {from}/{name}: {cause}"));
    let Some(found) = found else {
        return Err(failed(
            "finding unpacked bundle configmap",
            format!("configmaps \"{name}\" not found"),
        ));
    };
    let bundle = config_map::decode(&found)
        .map_err(|error| failed("loading unpacked bundle configmap", error.to_string()))?;
    let projection = Projection {
        namespace,
        replaces,
        properties,
    };
    bundle_objects(bundle, &projection).map_err(|error| failed("calculating steps", error))
}

/// The object of a `Secret` step: type and data of the secret of that name in the global catalog namespace.
async fn read_pull_secret(reads: &impl Reads, step: &Step) -> Result<Result<Value, NoObject>, ObserveError> {
    let name = &step.resource.name;
    let Some(source) = reads
        .get(&Target::of::<Secret>(reads.global_namespace(), name))
        .await?
    else {
        let message = format!("secret {name} does not exist - secrets \"{name}\" not found");
        return Ok(Err(NoObject::lasting(message)));
    };
    let mut copy = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name } });
    for field in ["type", "data"] {
        if let Some(value) = source.get(field) {
            object::set(&mut copy, field, value.clone());
        }
    }
    Ok(Ok(copy))
}
