//! Objects as users write them in manifests.

#[rustfmt::skip]
#[path = "manifest/generated/field_table.rs"]
mod field_table;
mod unknown;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

pub use self::unknown::{UnknownField, unknown_fields};
use crate::decode::{DecodeError, decode_at};
use crate::v1alpha1::ClusterServiceVersion;

/// Decodes an object as users write it in manifests. For a ClusterServiceVersion use [`decode_csv_manifest`].
///
/// Labels and annotations whose value is `null` read as empty text, as clusters have always read them. Everything else is plain
/// deserialization.
///
/// # Errors
/// [`DecodeError`] with the object, the field and the cause.
pub fn decode_manifest<T: DeserializeOwned>(mut manifest: Value) -> Result<T, DecodeError> {
    if let Some(metadata) = manifest.get_mut("metadata") {
        empty_text_for_nulls(metadata);
    }
    decode_at(&manifest, &describe(&manifest))
}

/// Decodes a ClusterServiceVersion as authors write it in bundles.
///
/// Works as [`decode_manifest`], and field names are case-insensitive, also inside Deployments and rules: `clusterpermissions` or
/// `MinKubeVersion`. Bundles have always been read this way, and real ones depend on it.
///
/// # Errors
/// [`DecodeError`] with the object, the field and the cause.
pub fn decode_csv_manifest(mut manifest: Value) -> Result<ClusterServiceVersion, DecodeError> {
    if let Some(spec) = manifest.get_mut("spec") {
        mend_field_names(spec, &field_table::CLUSTER_SERVICE_VERSION);
    }
    decode_manifest(manifest)
}

/// Corrects the case of field names of a Role, ClusterRole or binding, for example `apigroups`, as [`decode_csv_manifest`] does.
/// Other objects are not changed.
pub fn mend_rbac_manifest(manifest: &mut Value) {
    if matches!(
        manifest.get("kind").and_then(Value::as_str),
        Some("Role" | "ClusterRole" | "RoleBinding" | "ClusterRoleBinding")
    ) {
        mend_field_names(manifest, &RBAC);
    }
}

static NOTHING: Fields = Fields {
    named: &[],
    each: None,
};
/// Fields of the four kinds and of what is in them together, at any depth: no two differ only in case.
static RBAC: Fields = Fields {
    named: &[
        ("aggregationRule", &RBAC),
        ("apiGroup", &NOTHING),
        ("apiGroups", &NOTHING),
        ("apiVersion", &NOTHING),
        ("clusterRoleSelectors", &RBAC),
        ("key", &NOTHING),
        ("kind", &NOTHING),
        ("matchExpressions", &RBAC),
        ("matchLabels", &NOTHING),
        ("metadata", &NOTHING),
        ("name", &NOTHING),
        ("namespace", &NOTHING),
        ("nonResourceURLs", &NOTHING),
        ("operator", &NOTHING),
        ("resourceNames", &NOTHING),
        ("resources", &NOTHING),
        ("roleRef", &RBAC),
        ("rules", &RBAC),
        ("subjects", &RBAC),
        ("values", &NOTHING),
        ("verbs", &NOTHING),
    ],
    each: Some(&RBAC),
};

/// Field names of a value, as in the schema. The tables of specs are generated from `manifests/crds` by `cargo xtask gen`: the
/// schemas themselves would cost each process that decodes a manifest half a megabyte.
struct Fields {
    /// Names and their child fields, sorted by name.
    named: &'static [(&'static str, &'static Fields)],
    /// Fields of the items of a list, or of the values of a map.
    each: Option<&'static Fields>,
}

impl Fields {
    fn get(&self, name: &str) -> Option<&'static Fields> {
        let found = self.named.binary_search_by_key(&name, |(known, _)| known).ok()?;
        self.named.get(found).map(|(_, fields)| *fields)
    }
}

/// Renames members that differ from a field only in case, unless that field exists too.
fn mend_field_names(value: &mut Value, fields: &Fields) {
    match value {
        Value::Object(members) => {
            mend_members(members, fields);
            for (name, member) in members {
                if let Some(below) = fields.get(name).or(fields.each) {
                    mend_field_names(member, below);
                }
            }
        }
        Value::Array(items) => {
            if let Some(each) = fields.each {
                items.iter_mut().for_each(|item| mend_field_names(item, each));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn mend_members(members: &mut Map<String, Value>, fields: &Fields) {
    let unknown: Vec<String> = members
        .keys()
        .filter(|name| fields.get(name).is_none())
        .cloned()
        .collect();
    for name in unknown {
        let meant = fields
            .named
            .iter()
            .find(|(field, _)| field.eq_ignore_ascii_case(&name));
        if let Some((meant, _)) = meant
            && !members.contains_key(*meant)
            && let Some(member) = members.remove(&name)
        {
            members.insert((*meant).to_owned(), member);
        }
    }
}

fn empty_text_for_nulls(metadata: &mut Value) {
    for field in ["labels", "annotations"] {
        if let Some(Value::Object(entries)) = metadata.get_mut(field) {
            for value in entries.values_mut().filter(|value| value.is_null()) {
                *value = Value::String(String::new());
            }
        }
    }
}

fn describe(manifest: &Value) -> String {
    let text = |pointer| manifest.pointer(pointer).and_then(Value::as_str).unwrap_or("?");
    format!("{} `{}`", text("/kind"), text("/metadata/name"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn null_annotations_read_as_empty_text() {
        let csv: ClusterServiceVersion = decode_manifest(json!({
            "apiVersion": "operators.coreos.com/v1alpha1",
            "kind": "ClusterServiceVersion",
            "metadata": {"name": "a.v1", "annotations": {"createdAt": null}, "creationTimestamp": null},
            "spec": {"displayName": "A", "install": {"strategy": "deployment"}},
        }))
        .unwrap();
        assert_eq!(csv.metadata.annotations.unwrap()["createdAt"], "");
    }

    #[test]
    fn capital_letters_of_field_names_do_not_matter() {
        let csv = decode_csv_manifest(json!({
            "kind": "ClusterServiceVersion",
            "metadata": {"name": "a.v1"},
            "spec": {
                "MinKubeVersion": "1.16.0",
                "replaces": "a.v0",
                "Replaces": "ignored",
                "labels": {"Replaces": "kept"},
                "install": {"spec": {"clusterpermissions": [{
                    "serviceAccountName": "a",
                    "rules": [{"apigroups": [""], "verbs": ["get"]}],
                }]}},
            },
        }))
        .unwrap();
        assert_eq!(csv.spec.min_kube_version.as_deref(), Some("1.16.0"));
        assert_eq!(csv.spec.replaces(), Some("a.v0"));
        assert_eq!(csv.spec.extra.keys().collect::<Vec<_>>(), ["Replaces"]);
        assert_eq!(csv.spec.labels["Replaces"], "kept");
        let rules = csv.spec.install.cluster_permissions()[0].decode_rules().unwrap();
        assert_eq!(rules[0].api_groups.as_deref(), Some(&[String::new()][..]));
    }

    #[test]
    fn capital_letters_of_fields_of_roles_and_bindings_do_not_matter() {
        let mended = |mut manifest: Value| {
            mend_rbac_manifest(&mut manifest);
            manifest
        };
        let role = mended(
            json!({"kind": "ClusterRole", "metadata": {"Name": "x"}, "AggregationRule": {"clusterroleselectors": [
                {"matchlabels": {"A": "b"}, "MatchExpressions": [{"Key": "k", "values": ["V"]}]}]},
            "rules": [{"apigroups": ["G"], "RESOURCES": ["pods"], "nonresourceurls": [], "resourcenames": ["N"], "verbs": ["get"], "Verbs": ["*"]}]}),
        );
        let expected = json!({"kind": "ClusterRole", "metadata": {"Name": "x"}, "aggregationRule": {"clusterRoleSelectors": [
                {"matchLabels": {"A": "b"}, "matchExpressions": [{"key": "k", "values": ["V"]}]}]},
            "rules": [{"apiGroups": ["G"], "resources": ["pods"], "nonResourceURLs": [], "resourceNames": ["N"], "verbs": ["get"], "Verbs": ["*"]}]});
        assert_eq!(role, expected);
        let binding = json!({"kind": "RoleBinding", "roleref": {"apigroup": "g", "Kind": "Role", "name": "r"}, "Subjects": [{"Kind": "User", "apigroup": "g", "name": "u"}]});
        assert_eq!(
            mended(binding),
            json!({"kind": "RoleBinding", "roleRef": {"apiGroup": "g", "kind": "Role", "name": "r"}, "subjects": [{"kind": "User", "apiGroup": "g", "name": "u"}]})
        );
        let other = json!({"kind": "ConfigMap", "Rules": []});
        assert_eq!(mended(other.clone()), other);
    }

    #[test]
    fn error_names_object_field_and_cause() {
        let error = decode_manifest::<ClusterServiceVersion>(json!({
            "kind": "ClusterServiceVersion",
            "metadata": {"name": "a.v1"},
            "spec": {"displayName": "A", "installModes": [{"type": "OwnNamespace", "supported": "yes"}]},
        }))
        .unwrap_err();
        assert_eq!(
            error.to_string(),
            "failed to decode ClusterServiceVersion `a.v1`: field `spec.installModes[0].supported`: \
             invalid type: string \"yes\", expected a boolean"
        );
    }
}
