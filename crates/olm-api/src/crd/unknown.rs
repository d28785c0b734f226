//! Fields of objects that the API does not define.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde_json::{Map, Value};

/// A field that the API server would drop.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnknownField {
    /// Path of the parent of the field, such as `spec.`; empty for the object itself.
    pub inside: String,
    /// Name of the field.
    pub name: String,
    /// Names of the fields that the parent has.
    pub known: Vec<String>,
}

/// Fields every object has.
const OBJECT: [&str; 5] = ["apiVersion", "kind", "metadata", "spec", "status"];

/// Fields of `metadata` of every object.
const METADATA: [&str; 15] = [
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// Fields of `spec` whose content is not checked: clusters know more of Deployments and Pods than any one version of their
/// schemas.
const OF_KUBERNETES: [&str; 3] = ["install", "config", "grpcPodConfig"];

/// Schema of `spec` by kind.
static SPECS: LazyLock<BTreeMap<String, Value>> = LazyLock::new(|| {
    let definitions = super::definitions().unwrap_or_default();
    let specs = definitions.into_iter().filter_map(|definition| {
        let kind = definition
            .manifest
            .pointer("/spec/names/kind")?
            .as_str()?
            .to_owned();
        let version = definition.manifest.pointer("/spec/versions/0")?;
        let spec = version.pointer("/schema/openAPIV3Schema/properties/spec")?;
        Some((kind, spec.clone()))
    });
    specs.collect()
});

/// Returns the unknown fields of an object, each once: of the object, of its `metadata` and of its `spec`. Empty for kinds that
/// are not part of this API.
pub fn unknown_fields(object: &Value) -> Vec<UnknownField> {
    let Some(schema) = object["kind"].as_str().and_then(|kind| SPECS.get(kind)) else {
        return Vec::new();
    };
    let mut found = BTreeSet::new();
    among(object, "", &OBJECT, &mut found);
    among(&object["metadata"], "metadata.", &METADATA, &mut found);
    if let Value::Object(members) = &object["spec"] {
        let mut members = members.clone();
        for field in OF_KUBERNETES {
            members.remove(field);
        }
        by_schema(&Value::Object(members), schema, "spec.", &mut found);
    }
    found.into_iter().collect()
}

fn among(value: &Value, inside: &str, known: &[&str], found: &mut BTreeSet<UnknownField>) {
    let members = value.as_object().into_iter().flatten();
    found.extend(
        members
            .filter(|(name, _)| !known.contains(&name.as_str()))
            .map(|(name, _)| UnknownField {
                inside: inside.to_owned(),
                name: name.clone(),
                known: known.iter().map(|name| (*name).to_owned()).collect(),
            }),
    );
}

fn by_schema(value: &Value, schema: &Value, inside: &str, found: &mut BTreeSet<UnknownField>) {
    match value {
        Value::Object(members) => match &schema["properties"] {
            Value::Object(properties) => of_object(members, properties, schema, inside, found),
            _ => {
                for (name, member) in members {
                    let inside = format!("{inside}{name}.");
                    by_schema(member, &schema["additionalProperties"], &inside, found);
                }
            }
        },
        Value::Array(items) => {
            for item in items {
                by_schema(item, &schema["items"], inside, found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn of_object(
    members: &Map<String, Value>,
    properties: &Map<String, Value>,
    schema: &Value,
    inside: &str,
    found: &mut BTreeSet<UnknownField>,
) {
    let takes_more = schema["x-kubernetes-preserve-unknown-fields"] == true;
    for (name, member) in members {
        match properties.get(name) {
            Some(below) => by_schema(member, below, &format!("{inside}{name}."), found),
            None if takes_more => {}
            None => {
                found.insert(UnknownField {
                    inside: inside.to_owned(),
                    name: name.clone(),
                    known: properties.keys().cloned().collect(),
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::unknown_fields;

    fn told(object: &serde_json::Value) -> Vec<String> {
        let found = unknown_fields(object);
        found.iter().map(|f| format!("{}{}", f.inside, f.name)).collect()
    }

    #[test]
    fn fields_are_looked_for_in_the_object_its_metadata_and_its_spec() {
        let object = json!({
            "kind": "ClusterServiceVersion", "metdata": {},
            "metadata": {"name": "a", "namspace": "b", "labels": {"any": "c"}},
            "spec": {"verson": "1.0.0", "relatedImages": [{"nam": "a"}, {"nam": "b"}], "install": {"any": {}}},
            "status": {"any": 1},
        });
        assert_eq!(
            told(&object),
            [
                "metdata",
                "metadata.namspace",
                "spec.verson",
                "spec.relatedImages.nam"
            ]
        );
        let group = json!({"kind": "OperatorGroup", "spec": {"targetNamespace": ["a"], "selector": {"matchLabels": {"any": "b"}}}});
        assert_eq!(told(&group), ["spec.targetNamespace"]);
        assert_eq!(told(&json!({"kind": "Pod", "any": 1})), [""; 0]);
    }
}
