//! CustomResourceDefinitions, generated from the types.
//!
//! The types are the only source: names, columns and scope come from their derive attributes, schemas from their fields,
//! descriptions from their doc comments. Additions for core Kubernetes types are in [`core_types`].

mod core_types;
mod structural;
mod unknown;

use kube_core::CustomResourceExt;
use kube_core::object::{HasSpec, HasStatus};
use schemars::JsonSchema;
use serde_json::{Map, Value, json};

pub use self::unknown::{UnknownField, unknown_fields};
use crate::{extension_v1, packages, v1, v1alpha1, v1alpha2, v2};

/// Kind of the definitions.
pub const KIND: &str = "CustomResourceDefinition";
/// `apiVersion` of definitions on Kubernetes 1.16 and later.
pub const API_VERSION: &str = "apiextensions.k8s.io/v1";
/// `apiVersion` of definitions that Kubernetes 1.22 and later reject.
pub const OLD_API_VERSION: &str = "apiextensions.k8s.io/v1beta1";
/// The version in [`API_VERSION`].
pub const VERSION: &str = "v1";
/// The version in [`OLD_API_VERSION`].
pub const OLD_VERSION: &str = "v1beta1";

/// Annotations of a definition that make deployment tools keep it on uninstall. Deleting it would delete every object of its
/// kind.
const KEPT: [(&str, &str); 2] = [
    ("helm.sh/resource-policy", "keep"),
    ("argocd.argoproj.io/sync-options", "Prune=false,Delete=false"),
];

/// A CustomResourceDefinition and the name of its file.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    /// Plural name of the kind; the file is `<name>.yaml`.
    pub name: String,
    /// The object, ready to be applied.
    pub manifest: Value,
}

/// Fields that are required at the root of an object.
#[derive(Clone, Copy)]
enum Root {
    /// `metadata` and `spec`.
    MetadataAndSpec,
    /// Only `metadata`.
    Metadata,
    /// No field.
    Free,
}

/// Returns the definitions of `operators.coreos.com`, sorted by name.
///
/// # Errors
/// If a type has no JSON schema of the form Kubernetes accepts; a defect of this crate, found by its tests.
pub fn definitions() -> Result<Vec<Definition>, serde_json::Error> {
    use Root::{Free, Metadata, MetadataAndSpec};
    use v1alpha1::{CatalogSource, ClusterServiceVersion, InstallPlan, Subscription};
    let group = "The namespaces that the operators installed in this namespace watch. A namespace with operators needs exactly one.";
    let condition = "Conditions that an operator reports, for example that it must not be upgraded now.";
    let mut definitions = vec![
        definition(vec![version::<CatalogSource>(
            MetadataAndSpec,
            "A catalog of operators that Subscriptions of its namespace, or of every namespace for a global catalog, can use.",
        )?]),
        definition(vec![version::<ClusterServiceVersion>(
            MetadataAndSpec,
            "One version of an operator: what it needs, what it provides, how it is installed, and its status.",
        )?]),
        definition(vec![version::<InstallPlan>(
            MetadataAndSpec,
            "The objects to apply for a set of operators, whether that may begin, and their status.",
        )?]),
        definition(vec![version::<v1::OLMConfig>(
            Metadata,
            "Settings of the lifecycle manager. Only the object called cluster counts.",
        )?]),
        definition(vec![
            version::<v1::OperatorCondition>(Metadata, condition)?,
            version::<v2::OperatorCondition>(Metadata, condition)?,
        ]),
        definition(vec![
            version::<v1::OperatorGroup>(Metadata, group)?,
            version::<v1alpha2::OperatorGroup>(Metadata, group)?,
        ]),
        definition(vec![version::<v1::Operator>(
            Free,
            "All objects that belong to one package installed in one namespace. The lifecycle manager creates and updates it.",
        )?]),
        definition(vec![version::<Subscription>(
            MetadataAndSpec,
            "Installs a package of a catalog and keeps its operator up to date along a channel.",
        )?]),
    ];
    definitions.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(definitions)
}

/// Returns the definitions of OLM v1, sorted by name; their files are under `manifests/crds-v1`. They are apart because a cluster
/// may have OLM v1 from elsewhere.
///
/// # Errors
/// As for [`definitions`].
pub fn v1_definitions() -> Result<Vec<Definition>, serde_json::Error> {
    use Root::{Free, MetadataAndSpec};
    use extension_v1::{ClusterCatalog, ClusterExtension, ClusterObjectSet};
    Ok(vec![
        definition(vec![version::<ClusterCatalog>(
            MetadataAndSpec,
            "A file-based catalog in an image, whose content is served in the cluster.",
        )?]),
        definition(vec![version::<ClusterExtension>(
            Free,
            "A package of a catalog, installed in the cluster and kept up to date.",
        )?]),
        definition(vec![version::<ClusterObjectSet>(
            Free,
            "The objects of one revision of a ClusterExtension, applied phase by phase.",
        )?]),
    ])
}

/// Returns the schema of a PackageManifest, which has no CustomResourceDefinition because it is not stored.
pub fn package_manifest_schema() -> Value {
    root_schema::<packages::PackageManifest>(
        Root::MetadataAndSpec,
        "A package of a catalog, with its channels and versions. Read only.",
    )
}

/// Merges single-version definitions of one kind into one definition; names are those of the first.
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
    for (mark, value) in KEPT {
        manifest["metadata"]["annotations"][mark] = value.into();
    }
    Definition { name, manifest }
}

/// Returns the definition with the single version that `K` describes.
fn version<K>(root: Root, about: &str) -> Result<Value, serde_json::Error>
where
    K: CustomResourceExt + HasSpec<Spec: JsonSchema> + HasStatus<Status: JsonSchema>,
{
    let mut manifest = serde_json::to_value(K::crd())?;
    if let Some(version) = manifest
        .pointer_mut("/spec/versions/0")
        .and_then(Value::as_object_mut)
    {
        version.insert(
            "schema".to_owned(),
            json!({"openAPIV3Schema": root_schema::<K>(root, about)}),
        );
        version.retain(|_, member| *member != json!([]));
    }
    Ok(manifest)
}

fn root_schema<K>(root: Root, about: &str) -> Value
where
    K: HasSpec<Spec: JsonSchema> + HasStatus<Status: JsonSchema>,
{
    let mut schema = Map::new();
    schema.insert("description".to_owned(), about.into());
    schema.insert(
        "properties".to_owned(),
        json!({
            "apiVersion": {"type": "string", "description": "Group and version of this form of the object."},
            "kind": {"type": "string", "description": "Kind of the object."},
            "metadata": {"type": "object"},
            "spec": structural::schema_of::<K::Spec>(),
            "status": structural::schema_of::<K::Status>(),
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
