//! CustomResourceDefinitions, generated from the types.
//!
//! The types are the one source: names, columns and scope come from their derive attributes, schemas from their fields,
//! descriptions from their doc comments. What core Kubernetes types need on top is in [`core_types`].

mod core_types;
mod structural;

use kube_core::CustomResourceExt;
use schemars::JsonSchema;
use serde_json::{Map, Value, json};

use crate::{v1, v1alpha1, v1alpha2, v2};

/// A CustomResourceDefinition and the name of its file under `manifests/crds`.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    /// Plural name of the kind; the file is `<name>.yaml`.
    pub name: String,
    /// The object, ready to be applied.
    pub manifest: Value,
}

/// Fields that must be there at the root of an object.
#[derive(Clone, Copy)]
enum Root {
    /// `metadata` and `spec`.
    MetadataAndSpec,
    /// `metadata`.
    Metadata,
    /// Nothing, for a kind that only the lifecycle manager writes.
    Free,
}

/// All definitions, sorted by name.
///
/// # Errors
/// When a type has no JSON schema of the form Kubernetes takes; a defect of this crate, found by its tests.
pub fn definitions() -> Result<Vec<Definition>, serde_json::Error> {
    use Root::{Free, Metadata, MetadataAndSpec};
    let mut definitions = vec![
        definition(vec![version::<
            v1alpha1::CatalogSource,
            v1alpha1::CatalogSourceSpec,
            v1alpha1::CatalogSourceStatus,
        >(MetadataAndSpec)?]),
        definition(vec![version::<
            v1alpha1::ClusterServiceVersion,
            v1alpha1::ClusterServiceVersionSpec,
            v1alpha1::ClusterServiceVersionStatus,
        >(MetadataAndSpec)?]),
        definition(vec![version::<
            v1alpha1::InstallPlan,
            v1alpha1::InstallPlanSpec,
            v1alpha1::InstallPlanStatus,
        >(MetadataAndSpec)?]),
        definition(vec![version::<
            v1::OLMConfig,
            v1::OLMConfigSpec,
            v1::OLMConfigStatus,
        >(Metadata)?]),
        definition(vec![
            version::<v1::OperatorCondition, v1::OperatorConditionSpec, v1::OperatorConditionStatus>(
                Metadata,
            )?,
            version::<v2::OperatorCondition, v2::OperatorConditionSpec, v2::OperatorConditionStatus>(
                Metadata,
            )?,
        ]),
        definition(vec![
            version::<v1::OperatorGroup, v1::OperatorGroupSpec, v1::OperatorGroupStatus>(Metadata)?,
            version::<v1alpha2::OperatorGroup, v1alpha2::OperatorGroupSpec, v1alpha2::OperatorGroupStatus>(
                Metadata,
            )?,
        ]),
        definition(vec![
            version::<v1::Operator, v1::OperatorSpec, v1::OperatorStatus>(Free)?,
        ]),
        definition(vec![version::<
            v1alpha1::Subscription,
            v1alpha1::SubscriptionSpec,
            v1alpha1::SubscriptionStatus,
        >(MetadataAndSpec)?]),
    ];
    definitions.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(definitions)
}

/// The definition that serves several versions of one kind; names are those of the first.
fn definition(versions: Vec<Value>) -> Definition {
    let mut manifest = Value::Null;
    for mut single in versions {
        if manifest.is_null() {
            manifest = single;
        } else if let (Some(Value::Array(all)), Some(Value::Array(more))) = (
            manifest.pointer_mut("/spec/versions"),
            single.pointer_mut("/spec/versions"),
        ) {
            all.append(more);
        }
    }
    let text = |pointer| {
        manifest
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let (name, kind) = (text("/spec/names/plural"), text("/spec/names/kind"));
    if let Some(names) = manifest.pointer_mut("/spec/names") {
        names["listKind"] = format!("{kind}List").into();
    }
    Definition { name, manifest }
}

/// The definition with the one version that `K` is.
fn version<K: CustomResourceExt, S: JsonSchema, T: JsonSchema>(
    root: Root,
) -> Result<Value, serde_json::Error> {
    let mut manifest = serde_json::to_value(K::crd())?;
    if let Some(version) = manifest
        .pointer_mut("/spec/versions/0")
        .and_then(Value::as_object_mut)
    {
        version.insert(
            "schema".to_owned(),
            json!({"openAPIV3Schema": root_schema::<S, T>(root)}),
        );
        version.retain(|_, member| *member != json!([]));
    }
    Ok(manifest)
}

fn root_schema<S: JsonSchema, T: JsonSchema>(root: Root) -> Value {
    let mut schema = Map::new();
    schema.insert(
        "properties".to_owned(),
        json!({
            "apiVersion": {"type": "string", "description": "Group and version of this form of the object."},
            "kind": {"type": "string", "description": "Kind of the object."},
            "metadata": {"type": "object"},
            "spec": structural::schema_of::<S>(),
            "status": structural::schema_of::<T>(),
        }),
    );
    match root {
        Root::MetadataAndSpec => schema.insert("required".to_owned(), json!(["metadata", "spec"])),
        Root::Metadata => schema.insert("required".to_owned(), json!(["metadata"])),
        Root::Free => None,
    };
    schema.insert("type".to_owned(), "object".into());
    Value::Object(schema)
}
