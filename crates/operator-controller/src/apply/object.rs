//! Identity and owners of an object whose kind is known only at run time.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use olm_api::labels;
use olm_runtime::plan::{Action, Guard, Target};
use serde_json::{Value, json};

/// Group, version, kind, namespace and name of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId {
    /// Group; empty for the core group.
    pub group: String,
    /// Version.
    pub version: String,
    /// Kind.
    pub kind: String,
    /// Namespace; empty for a cluster-scoped object.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl ObjectId {
    /// Returns the identity in a manifest. Missing fields are empty.
    pub fn of(object: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let api_version = text(&object["apiVersion"]);
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version.as_str()));
        Self {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: text(&object["kind"]),
            namespace: text(&object["metadata"]["namespace"]),
            name: text(&object["metadata"]["name"]),
        }
    }

    /// Returns the form in errors, for example `apps/v1, Kind=Deployment ns/name`.
    pub(super) fn reference(&self) -> String {
        format!(
            "{}/{}, Kind={} {}/{}",
            self.group, self.version, self.kind, self.namespace, self.name
        )
    }

    /// Returns the form in conditions, for example `Object Deployment.apps/v1 ns/name`.
    pub(super) fn title(&self) -> String {
        let group = if self.group.is_empty() { "" } else { "/" };
        format!(
            "Object {}.{}{group}{} {}/{}",
            self.kind, self.group, self.version, self.namespace, self.name
        )
    }
}

/// True for a CustomResourceDefinition.
pub(super) fn is_definition(id: &ObjectId) -> bool {
    id.group == "apiextensions.k8s.io" && id.kind == "CustomResourceDefinition"
}

/// Returns the patch that replaces the finalizers of an object by others. It fails if the object has changed since it was read, because
/// finalizers of others may have been added.
pub(crate) fn replace_finalizers(target: Target, metadata: &ObjectMeta, finalizers: &[String]) -> Action {
    let guard = Guard::of(metadata);
    Action::patch(target, json!({"metadata": {"finalizers": finalizers}}), guard)
}

/// Returns the owner references of an object. Those that cannot be read are left out.
pub(super) fn owners(object: &Value) -> Vec<OwnerReference> {
    let owners = object["metadata"]["ownerReferences"].as_array();
    owners
        .into_iter()
        .flatten()
        .filter_map(|owner| serde_json::from_value(owner.clone()).ok())
        .collect()
}

/// Returns the number of the revision that applied an object last; 0 if none did.
pub(super) fn revision_of(object: &Value) -> i64 {
    let revision = object["metadata"]["annotations"][labels::REVISION].as_str();
    revision.and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// Returns `uid` or `resourceVersion` of an object.
pub(super) fn metadata_text(object: &Value, field: &str) -> Option<String> {
    object["metadata"][field].as_str().map(str::to_owned)
}

/// True if an object is being deleted.
pub(super) fn is_deleting(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

/// True if an object that was applied as `wanted` may look like `live`. The API server sets defaults, so that `live` may have more
/// fields, but not more items in a list.
pub(super) fn contains(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (_, Value::Null) => true,
        (Value::Object(live), Value::Object(wanted)) => wanted
            .iter()
            .all(|(field, wanted)| contains(live.get(field).unwrap_or(&Value::Null), wanted)),
        (Value::Array(live), Value::Array(wanted)) => {
            let mut pairs = live.iter().zip(wanted);
            live.len() == wanted.len() && pairs.all(|(live, wanted)| contains(live, wanted))
        }
        // The API server drops empty values.
        (Value::Null, Value::Object(wanted)) => wanted.is_empty(),
        (Value::Null, Value::Array(wanted)) => wanted.is_empty(),
        (live, wanted) => live == wanted,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn defaults_are_no_difference_and_other_values_are() {
        let rows = [
            (json!({"a": 1, "b": 2}), json!({"a": 1}), true),
            (
                json!({"a": 1}),
                json!({"a": 1, "b": null, "c": {}, "d": []}),
                true,
            ),
            (json!({"a": 1}), json!({"a": 1, "b": 2}), false),
            (json!([{"a": 1, "b": 2}]), json!([{"a": 1}]), true),
            (json!([{"a": 1}, {"a": 2}]), json!([{"a": 1}]), false),
            (json!("1"), json!(1), false),
        ];
        for (live, wanted, expected) in rows {
            assert_eq!(contains(&live, &wanted), expected, "{live} {wanted}");
        }
    }

    #[test]
    fn objects_are_named_as_upstream_does() {
        let rows = [
            (
                json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": "ns", "name": "a"}}),
                "apps/v1, Kind=Deployment ns/a",
                "Object Deployment.apps/v1 ns/a",
            ),
            (
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}),
                "/v1, Kind=Namespace /a",
                "Object Namespace.v1 /a",
            ),
        ];
        for (object, reference, title) in rows {
            let id = ObjectId::of(&object);
            assert_eq!((id.reference().as_str(), id.title().as_str()), (reference, title));
        }
    }
}
