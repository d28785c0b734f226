//! Fields of objects that the API does not define.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Fields, NOTHING, field_table};

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

/// Fields every object has. The spec of each kind has a table of its own, and statuses are not checked.
static OBJECT: Fields = Fields {
    named: &[
        ("apiVersion", &NOTHING),
        ("kind", &NOTHING),
        ("metadata", &METADATA),
        ("spec", &NOTHING),
        ("status", &NOTHING),
    ],
    each: None,
};

/// Fields of `metadata` of every object.
static METADATA: Fields = Fields {
    named: &[
        ("annotations", &NOTHING),
        ("creationTimestamp", &NOTHING),
        ("deletionGracePeriodSeconds", &NOTHING),
        ("deletionTimestamp", &NOTHING),
        ("finalizers", &NOTHING),
        ("generateName", &NOTHING),
        ("generation", &NOTHING),
        ("labels", &NOTHING),
        ("managedFields", &NOTHING),
        ("name", &NOTHING),
        ("namespace", &NOTHING),
        ("ownerReferences", &NOTHING),
        ("resourceVersion", &NOTHING),
        ("selfLink", &NOTHING),
        ("uid", &NOTHING),
    ],
    each: None,
};

/// Fields of `spec` whose content is not checked: clusters know more of Deployments and Pods than any one version of their
/// schemas.
const OF_KUBERNETES: [&str; 3] = ["install", "config", "grpcPodConfig"];

/// Returns the unknown fields of an object, each once: of the object, of its `metadata` and of its `spec`. Empty for other kinds
/// than CatalogSource, ClusterServiceVersion, OperatorGroup and Subscription.
pub fn unknown_fields(object: &Value) -> Vec<UnknownField> {
    let spec = match object["kind"].as_str() {
        Some("CatalogSource") => &field_table::CATALOG_SOURCE,
        Some("ClusterServiceVersion") => &field_table::CLUSTER_SERVICE_VERSION,
        Some("OperatorGroup") => &field_table::OPERATOR_GROUP,
        Some("Subscription") => &field_table::SUBSCRIPTION,
        _ => return Vec::new(),
    };
    let mut found = BTreeSet::new();
    collect(object, &OBJECT, "", &mut found);
    if let Value::Object(mut members) = object["spec"].clone() {
        members.retain(|name, _| !OF_KUBERNETES.contains(&name.as_str()));
        collect(&Value::Object(members), spec, "spec.", &mut found);
    }
    found.into_iter().collect()
}

fn collect(value: &Value, fields: &Fields, inside: &str, found: &mut BTreeSet<UnknownField>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                match fields.get(name).or(fields.each) {
                    Some(below) => collect(member, below, &format!("{inside}{name}."), found),
                    // The table has no names for it, as for the keys of a map.
                    None if fields.named.is_empty() => {}
                    None => {
                        found.insert(UnknownField {
                            inside: inside.to_owned(),
                            name: name.clone(),
                            known: fields.named.iter().map(|(name, _)| (*name).to_owned()).collect(),
                        });
                    }
                }
            }
        }
        Value::Array(items) => {
            if let Some(each) = fields.each {
                items.iter().for_each(|item| collect(item, each, inside, found));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
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
        let subscription = json!({"kind": "Subscription", "spec": {"chanel": "a", "config": {"any": 1}}});
        assert_eq!(told(&subscription), ["spec.chanel"]);
        let catalog = json!({"kind": "CatalogSource", "spec": {"grpcPodConfig": {"any": 1}, "updateStrategy": {"poll": 1}}});
        assert_eq!(told(&catalog), ["spec.updateStrategy.poll"]);
        assert_eq!(told(&json!({"kind": "Pod", "any": 1})), [""; 0]);
    }
}
