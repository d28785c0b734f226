//! From a bundle to the steps of a plan: the ClusterServiceVersion, the bundle's other objects, and the RBAC its install
//! strategy asks for (`docs/reference/install-plans.md`).
//!
//! The same function runs twice: when the plan is made, for the list of steps, and when a step is carried out, for its object.
//! Whatever it does must therefore depend on nothing but bundle, lookup and namespace.

use go_compat::json::{self, Html};
use olm_api::labels;
use olm_api::manifest::decode_csv_manifest;
use olm_api::v1alpha1::{BundleLookup, Step, StepResource, StepStatus};
use olm_runtime::plan::to_value;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::step_rbac::rbac_objects;
use crate::bundle_unpack::UnpackedBundle;
use crate::manifest::BundleImageReference;
use crate::object;
use crate::step_kind::StepKind;

/// What the resolver adds to a bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Projection<'a> {
    /// Namespace of the plan.
    pub namespace: &'a str,
    /// Name of the ClusterServiceVersion that the bundle's one replaces, empty for none.
    pub replaces: &'a str,
    /// Properties of the catalog entry, JSON `{"properties":[…]}`; empty for none.
    pub properties: &'a str,
}

/// All objects of a bundle in the order in which they are applied: the ClusterServiceVersion, the other objects by file name,
/// RBAC.
///
/// # Errors
/// The bundle cannot be installed as it is; nothing but a new bundle helps.
pub(crate) fn bundle_objects(
    bundle: UnpackedBundle,
    projection: &Projection<'_>,
) -> Result<Vec<Value>, String> {
    let csv = projected_csv(bundle.csv, projection)?;
    let rbac = rbac_objects(&csv, projection.namespace)?;
    let others = bundle.objects.into_iter().map(|file| file.object);
    let mut objects: Vec<Value> = std::iter::once(csv).chain(others).chain(rbac).collect();
    objects.iter_mut().for_each(object::strip_server_fields);
    Ok(objects)
}

/// The steps of a plan for a bundle, all to do. ServiceAccounts and RBAC carry their objects, so that the plan can restore them
/// by itself and what it grants can be read in it (decision record 0015); the others refer into the bundle's image, or carry their
/// objects, too, where the catalog carries the bundle itself: then the lookup has no path.
///
/// # Errors
/// See [`bundle_objects`].
pub fn plan_steps(
    bundle: UnpackedBundle,
    lookup: &BundleLookup,
    namespace: &str,
) -> Result<Vec<Step>, String> {
    let catalog_name = lookup.catalog_source_ref.name.clone().unwrap_or_default();
    let catalog_namespace = lookup.catalog_source_ref.namespace.clone().unwrap_or_default();
    let projection = Projection {
        namespace,
        replaces: &lookup.replaces,
        properties: lookup.properties.as_deref().unwrap_or_default(),
    };
    let resolving = object::name(&bundle.csv).to_owned();
    let manifest = BundleImageReference::new(
        &bundle.image,
        &lookup.identifier,
        &catalog_name,
        &catalog_namespace,
    )
    .to_manifest();
    let step = |object: &Value| {
        let [group, version, kind, name] = identity(object).map(str::to_owned);
        let is_whole =
            lookup.path.is_empty() || StepKind::of(&kind).is_some_and(StepKind::is_account_or_rbac);
        let text = if is_whole {
            // With the line end that upstream's steps have.
            format!("{object}\n")
        } else {
            manifest.clone()
        };
        Step {
            resolving: resolving.clone(),
            resource: StepResource {
                source_name: catalog_name.clone(),
                source_namespace: catalog_namespace.clone(),
                manifest: Some(text),
                group,
                version,
                kind,
                name,
                ..StepResource::default()
            },
            status: StepStatus::Unknown,
            ..Step::default()
        }
    };
    Ok(bundle_objects(bundle, &projection)?.iter().map(step).collect())
}

/// The object of a bundle that a plan's step means: same group, version, kind and name.
pub(crate) fn find_object<'a>(objects: &'a [Value], resource: &StepResource) -> Option<&'a Value> {
    let wanted = [&resource.group, &resource.version, &resource.kind, &resource.name];
    objects
        .iter()
        .find(|object| identity(object) == wanted.map(String::as_str))
}

/// The ClusterServiceVersion as the plan's namespace gets it.
fn projected_csv(csv: Value, projection: &Projection<'_>) -> Result<Value, String> {
    let name = object::name(&csv).to_owned();
    // Through the type: authors leave out required texts and write field names with other capital letters, which the API
    // server would refuse or drop.
    let mut csv = to_value(&decode_csv_manifest(csv).map_err(|error| error.to_string())?);
    object::strip_server_fields(&mut csv);
    object::map_mut(&mut csv, "metadata").insert("namespace".to_owned(), projection.namespace.into());
    let spec = object::map_mut(&mut csv, "spec");
    if projection.replaces.is_empty() {
        spec.remove("replaces");
    } else {
        spec.insert("replaces".to_owned(), projection.replaces.into());
    }
    if let Some(properties) = properties_annotation(&name, projection.properties)? {
        object::metadata_map_mut(&mut csv, "annotations")
            .insert(labels::PROPERTIES.to_owned(), properties.into());
    }
    Ok(csv)
}

/// What the catalog knows of a bundle, as resolution writes it.
#[derive(Serialize, Deserialize)]
pub(crate) struct Properties<'a> {
    #[serde(borrow, default)]
    pub properties: Option<Vec<Property<'a>>>,
}

/// One property; its value goes through as it is written.
#[derive(Serialize, Deserialize)]
pub(crate) struct Property<'a> {
    #[serde(rename = "type")]
    pub type_: String,
    #[serde(borrow, default)]
    pub value: Option<&'a RawValue>,
}

/// Text of the properties annotation: type and value of each property, in the catalog's order.
fn properties_annotation(csv: &str, text: &str) -> Result<Option<String>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let broken =
        |error: serde_json::Error| format!("failed to load bundle properties for \"{csv}\": {error}");
    let parsed: Properties<'_> = serde_json::from_str(text).map_err(broken)?;
    if parsed.properties.as_ref().is_none_or(Vec::is_empty) {
        return Ok(None);
    }
    json::encode(&parsed, Html::Escaped).map(Some).map_err(broken)
}

/// What a step is known by: API group (empty for the core group), version, kind as plans name it (`BundleSecret` for a Secret), and name
/// (`generateName` of an object without one).
pub(crate) fn identity(object: &Value) -> [&str; 4] {
    let (group, version) = object::group_version(object::api_version(object));
    let kind = match object::kind(object) {
        // Plans use `Secret` for pull secrets to be copied.
        "Secret" => "BundleSecret",
        other => other,
    };
    [group, version, kind, object::name(object)]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn bundle(csv: Value) -> UnpackedBundle {
        UnpackedBundle {
            image: String::new(),
            csv,
            ..UnpackedBundle::default()
        }
    }

    fn objects(csv: Value, properties: &str) -> Result<Vec<Value>, String> {
        let projection = Projection {
            namespace: "ns",
            replaces: "",
            properties,
        };
        bundle_objects(bundle(csv), &projection)
    }

    #[test]
    fn csv_is_written_as_the_api_server_takes_it() {
        let csv = json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": {"name": "a.v1"},
            "spec": {
                "customresourcedefinitions": {"owned": [
                    {"name": "as.example.com", "version": "v1", "kind": "A", "resources": [{"kind": "Pod", "version": "v1"}]}
                ]},
                "install": {"strategy": "deployment", "spec": {"clusterpermissions": [
                    {"serviceAccountName": "a", "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}
                ]}}
            }
        });
        let objects = objects(csv, "").unwrap();
        let csv = &objects[0]["spec"];
        assert_eq!(
            csv["customresourcedefinitions"]["owned"][0]["resources"][0]["name"],
            ""
        );
        assert_eq!(
            csv["install"]["spec"]["clusterPermissions"][0]["serviceAccountName"],
            "a"
        );
        let kinds: Vec<&str> = objects.iter().map(object::kind).collect();
        assert!(kinds.contains(&"ClusterRole"), "{kinds:?}");
    }

    /// The values stand in the annotation as they stand in the catalog, in Go's escaping.
    #[test]
    fn properties_go_through_unchanged() {
        let text = r#"{"properties":[{"type":"b","value":{"z":1,"a":">=1"}},{"type":"a","value":"x"}]}"#;
        let expected = "{\"properties\":[{\"type\":\"b\",\"value\":{\"z\":1,\"a\":\"\\u003e=1\"}},{\"type\":\"a\",\"value\":\"x\"}]}";
        assert_eq!(
            properties_annotation("a.v1", text).unwrap().as_deref(),
            Some(expected)
        );
        for nothing in ["", "{}", r#"{"properties":null}"#, r#"{"properties":[]}"#] {
            assert_eq!(properties_annotation("a.v1", nothing), Ok(None));
        }
        let error = properties_annotation("a.v1", r#"{"properties":[{}]}"#).unwrap_err();
        insta::assert_snapshot!(error, @r#"failed to load bundle properties for "a.v1": missing field `type` at line 1 column 17"#);
    }

    #[test]
    fn what_the_catalog_says_replaces_what_the_author_wrote() {
        let csv = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
            "metadata": {"name": "a.v2", "namespace": "placeholder"}, "spec": {"replaces": "a.v0"}, "status": {"phase": "x"}});
        let csv = objects(csv, "").unwrap().remove(0);
        assert_eq!(csv["metadata"]["namespace"], "ns");
        assert!(csv["spec"].get("replaces").is_none() && csv.get("status").is_none());
    }
}
