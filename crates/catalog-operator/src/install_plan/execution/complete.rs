//! Completes a step's object with everything that only the plan knows: type, name, namespace, labels and
//! owners.

use std::collections::BTreeSet;

use kube::ResourceExt;
use olm_api::labels;
use olm_api::v1alpha1::Step;
use serde_json::{Map, Value, json};

use super::StepError;
use crate::install_plan::observe::{KnownStep, Observed};
use crate::object;
use crate::step_kind::StepKind;

/// Returns the object as it must be in the cluster; `None` while its owner is still to be created by the same
/// plan. `label` makes it a component of its package's Operator.
///
/// Objects older than OLM belong to their creator. A plan may change them but adds no owner, so that they are
/// never garbage collected with a ClusterServiceVersion. A cluster-scoped object of a ClusterServiceVersion
/// in another namespace keeps its owner; otherwise it would be collected with the wrong one.
///
/// # Errors
/// An owner does not exist.
pub(super) fn complete(
    observed: &Observed,
    kind: StepKind,
    step: &Step,
    known: &KnownStep,
    label: Option<&str>,
) -> Result<Option<Value>, StepError> {
    let namespace = observed.namespace();
    let KnownStep {
        api,
        namespaced,
        current,
        ..
    } = known;
    let (namespaced, current) = (*namespaced, current.as_ref());
    let mut object = known.object.clone();
    object::strip_server_fields(&mut object);
    // Objects in plans may lack type and name (upstream's generated Subscriptions do). Bundles may contain an
    // older version of a kind than the one it is written with. The step determines both.
    object::set(&mut object, "apiVersion", api.api_version.clone().into());
    object::set(&mut object, "kind", api.kind.clone().into());
    let metadata = object::map_mut(&mut object, "metadata");
    metadata.insert("name".to_owned(), step.resource.name.clone().into());
    if namespaced {
        metadata.insert("namespace".to_owned(), namespace.clone().into());
    } else {
        metadata.remove("namespace");
    }
    let labels = object::metadata_map_mut(&mut object, "labels");
    labels.insert(labels::MANAGED.to_owned(), labels::TRUE.into());
    if kind.is_account_or_rbac() && kind != StepKind::ServiceAccount {
        keep_own_marks(labels, &step.resolving, &namespace);
    }
    match kind {
        StepKind::Subscription => {
            let annotations = object::metadata_map_mut(&mut object, "annotations");
            annotations.insert(
                labels::GENERATED_BY.to_owned(),
                observed.install_plan.name_any().into(),
            );
        }
        StepKind::BundleSecret => encode_string_data(&mut object),
        StepKind::ClusterServiceVersion => {
            // ClusterServiceVersions do not own each other. One that named itself would wait for itself.
            object::remove_csv_references(&mut object);
            add_membership(observed, &mut object);
        }
        _ => {}
    }
    let is_foreign = |current: &Value| {
        !object::is_of_a_csv(current) || !namespaced && !object::is_of_a_csv_in(current, &namespace)
    };
    if kind.has_owner() && current.is_some_and(is_foreign) {
        object::remove_csv_owner(&mut object);
        return Ok(Some(object));
    }
    if kind.is_component()
        && let Some(label) = label
    {
        object::metadata_map_mut(&mut object, "labels").insert(label.to_owned(), "".into());
    }
    if kind.has_owner() && !step.resolving.is_empty() && !namespaced {
        object::set_owner_labels(&mut object, &step.resolving, &namespace);
    }
    let Some(owners) = owners(observed, kind, step, &object, namespaced)? else {
        return Ok(None);
    };
    if !owners.is_empty() {
        object::map_mut(&mut object, "metadata").insert("ownerReferences".to_owned(), owners.into());
    }
    Ok(Some(object))
}

/// Owner labels of RBAC determine its replication to other namespaces, and admission lets only OLM set them.
/// A bundle must not use them to assign its object to another operator.
fn keep_own_marks(labels: &mut Map<String, Value>, csv: &str, namespace: &str) {
    let own = [
        (labels::OWNER, csv),
        (labels::OWNER_NAMESPACE, namespace),
        (labels::OWNER_KIND, labels::OWNER_KIND_CSV),
    ];
    let is_own = own
        .iter()
        .all(|(label, value)| labels.get(*label).is_some_and(|found| found == value));
    let is_kept = |label: &str| is_own && own.iter().any(|(known, _)| *known == label);
    labels.retain(|label, _| !labels::is_guarded(label) || is_kept(label));
}

/// Adds what olm-operator would write first on a new ClusterServiceVersion: its OperatorGroup and its
/// finalizer. It maintains both later, so only certain values are set here.
fn add_membership(observed: &Observed, object: &mut Value) {
    let [group] = observed.operator_groups.as_slice() else {
        return;
    };
    let targets: BTreeSet<&str> = group
        .status
        .iter()
        .flat_map(|status| status.namespaces.iter())
        .map(String::as_str)
        .collect();
    if targets.is_empty() || group.metadata.deletion_timestamp.is_some() {
        return;
    }
    let targets: Vec<&str> = targets.into_iter().collect();
    let annotations = object::metadata_map_mut(object, "annotations");
    for (key, value) in [
        (labels::OPERATOR_GROUP, group.name_any()),
        (labels::OPERATOR_NAMESPACE, observed.namespace()),
        (labels::TARGET_NAMESPACES, targets.join(",")),
    ] {
        annotations.insert(key.to_owned(), value.into());
    }
    let metadata = object::map_mut(object, "metadata");
    metadata.insert("finalizers".to_owned(), json!([labels::FINALIZER_CSV_CLEANUP]));
}

/// Returns the owner references, with the uids of the ClusterServiceVersions they name.
fn owners(
    observed: &Observed,
    kind: StepKind,
    step: &Step,
    object: &Value,
    namespaced: bool,
) -> Result<Option<Vec<Value>>, StepError> {
    let mut owners = object::owner_references(object).to_vec();
    let is_resolving = |owner: &Value| object::is_csv_reference(owner) && owner["name"] == *step.resolving;
    let is_owned = kind.has_owner() && namespaced && !step.resolving.is_empty();
    if is_owned && !owners.iter().any(is_resolving) {
        owners.push(object::csv_owner_reference(&step.resolving, ""));
    }
    for owner in owners.iter_mut().filter(|owner| object::is_csv_reference(owner)) {
        let name = owner.get("name").and_then(Value::as_str).unwrap_or_default();
        match observed.find_csv(name).and_then(|csv| csv.uid()) {
            Some(uid) => object::set(owner, "uid", uid.into()),
            None if observed.creates_csv(name) => return Ok(None),
            None => {
                return Err(StepError::lasting(format!(
                    "error generating ownerrefs for {}: {}: clusterserviceversions.operators.coreos.com \"{name}\" not found",
                    step.resource.kind.to_lowercase(),
                    step.resource.name
                )));
            }
        }
    }
    Ok(Some(owners))
}

/// Moves `stringData`, which is write-only, to `data`, so that it can be compared with the stored Secret.
pub(in crate::install_plan) fn encode_string_data(secret: &mut Value) {
    let Some(Value::Object(text)) = secret.as_object_mut().and_then(|map| map.remove("stringData")) else {
        return;
    };
    let data = object::map_mut(secret, "data");
    for (key, value) in text {
        let bytes = k8s_openapi::ByteString(value.as_str().unwrap_or_default().as_bytes().to_vec());
        data.insert(key, olm_runtime::plan::to_value(&bytes));
    }
}
