//! CustomResourceDefinitions: how one that exists is changed, and when that would lose data.

use std::collections::BTreeSet;

use olm_api::v1alpha1::StepStatus;
use olm_api::{hash, labels};
use serde_json::{Value, json};

use super::conversion_ca;
use super::step_write::with_metadata_of;
use crate::object;

/// Why a CustomResourceDefinition cannot be changed into a new form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CrdUpgradeError {
    /// Objects may be stored in a version that the new form does not know: the API server could not read them any more.
    #[error(
        "risk of data loss updating \"{crd}\": new CRD removes version {version} that is listed as a stored version on the existing CRD"
    )]
    StoredVersionRemoved {
        /// The CustomResourceDefinition.
        crd: String,
        /// The version that would go.
        version: String,
    },
    /// Another operator of the cluster may use a version that the new form does not know.
    #[error(
        "not allowing CRD ({crd}) update with multiple owners: new CRD removes version {version} that is served by the existing CRD, \
         and {owners} other ClusterServiceVersion(s) of the cluster own it"
    )]
    ServedVersionRemoved {
        /// The CustomResourceDefinition.
        crd: String,
        /// The version that would go.
        version: String,
        /// How many others own it.
        owners: usize,
    },
    /// A custom resource does not fit the new schema: it could not be changed any more.
    #[error(
        "error validating existing CRs against new CRD's schema for \"{crd}\": error validating {kind} \"{resource}\": \
         updated validation is too restrictive: {fields}"
    )]
    Misfit {
        /// The CustomResourceDefinition.
        crd: String,
        /// Group, version and kind, in upstream's form.
        kind: String,
        /// Namespace, if any, and name.
        resource: String,
        /// The fields, and what the schema asks for.
        fields: String,
    },
    /// Whether the custom resources fit cannot be found out.
    #[error("error validating existing CRs against new CRD's schema for \"{crd}\": {cause}")]
    Unread {
        /// The CustomResourceDefinition.
        crd: String,
        /// Why.
        cause: String,
    },
}

impl CrdUpgradeError {
    /// Whether it does not pass by itself.
    pub(crate) fn is_lasting(&self) -> bool {
        !matches!(self, Self::Unread { .. })
    }
}

/// Whether the API of a CustomResourceDefinition is served: names accepted and established.
pub fn is_established(crd: &Value) -> bool {
    let conditions = crd
        .pointer("/status/conditions")
        .and_then(Value::as_array)
        .map_or(&[][..], Vec::as_slice);
    ["Established", "NamesAccepted"].iter().all(|wanted| {
        conditions.iter().any(|condition| {
            condition.get("type").and_then(Value::as_str) == Some(wanted)
                && condition.get("status").and_then(Value::as_str) == Some("True")
        })
    })
}

/// What the API server says of a definition that it does not serve, if it has said why: in the first moments it has not looked.
pub(crate) fn why_not_established(crd: &Value) -> Option<&str> {
    let conditions = crd.pointer("/status/conditions")?.as_array()?;
    fn text<'a>(condition: &'a Value, field: &str) -> &'a str {
        condition.get(field).and_then(Value::as_str).unwrap_or_default()
    }
    let refused = conditions
        .iter()
        .filter(|condition| matches!(text(condition, "type"), "NamesAccepted" | "Established"))
        .find(|condition| {
            text(condition, "status") == "False"
                && !matches!(text(condition, "reason"), "Installing" | "NotAccepted")
        })?;
    refused
        .get("message")
        .and_then(Value::as_str)
        .filter(|message| !message.is_empty())
}

/// Whether carrying a step out changes the definition that is there: one that the step made itself is only waited for, and one
/// that is on its way out is made anew.
pub(crate) fn is_upgraded(status: &StepStatus, current: &Value) -> bool {
    *status != StepStatus::WaitingForApi && object::metadata_text(current, "deletionTimestamp").is_none()
}

/// Checks that every version objects may be stored in stays part of the definition; being served is not needed.
///
/// # Errors
/// [`CrdUpgradeError::StoredVersionRemoved`] with the first version that would go.
pub fn check_stored_versions(current: &Value, wanted: &Value) -> Result<(), CrdUpgradeError> {
    let kept = version_names(wanted);
    let stored = current
        .pointer("/status/storedVersions")
        .and_then(Value::as_array);
    match stored
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .find(|version| !kept.contains(version))
    {
        Some(version) => Err(CrdUpgradeError::StoredVersionRemoved {
            crd: object::name(wanted).to_owned(),
            version: version.to_owned(),
        }),
        None => Ok(()),
    }
}

/// Checks that a definition which others own, too, keeps every version that is served now: they may use it.
///
/// # Errors
/// [`CrdUpgradeError::ServedVersionRemoved`] with the first version that would go.
pub(crate) fn check_served_versions(
    current: &Value,
    wanted: &Value,
    owners: usize,
) -> Result<(), CrdUpgradeError> {
    if owners == 0 {
        return Ok(());
    }
    let kept = version_names(wanted);
    let mut served = served_versions(current).filter_map(version_name);
    match served.find(|version| !kept.contains(version)) {
        Some(version) => Err(CrdUpgradeError::ServedVersionRemoved {
            crd: object::name(wanted).to_owned(),
            version: version.to_owned(),
            owners,
        }),
        None => Ok(()),
    }
}

fn versions(crd: &Value) -> impl Iterator<Item = &Value> {
    let versions = crd.pointer("/spec/versions").and_then(Value::as_array);
    versions.into_iter().flatten()
}

fn version_name(version: &Value) -> Option<&str> {
    version.get("name").and_then(Value::as_str)
}

fn version_names(crd: &Value) -> BTreeSet<&str> {
    let old_form = crd.pointer("/spec/version").and_then(Value::as_str);
    versions(crd).filter_map(version_name).chain(old_form).collect()
}

fn served_versions(crd: &Value) -> impl Iterator<Item = &Value> {
    versions(crd).filter(|version| version.get("served") == Some(&Value::Bool(true)))
}

/// Name and schema of each version that is served.
pub(crate) fn schemas(crd: &Value) -> Vec<(&str, &Value)> {
    let schema = |version| Value::pointer(version, "/schema/openAPIV3Schema").unwrap_or(&Value::Null);
    served_versions(crd)
        .filter_map(|version| Some((version_name(version)?, schema(version))))
        .collect()
}

/// The versions that are served before and after and whose schema asks for something else, with the new schema.
pub(crate) fn changed_schemas(current: &Value, wanted: &Value) -> Vec<(String, Value)> {
    let before = schemas(current);
    let mut changed = Vec::new();
    for (name, new) in schemas(wanted) {
        let Some((_, old)) = before.iter().find(|(old, _)| *old == name) else {
            continue;
        };
        // Without a schema everything fits.
        if new.is_object() && !asks_the_same(old, new) {
            changed.push((name.to_owned(), new.clone()));
        }
    }
    changed
}

/// Whether two schemas ask for the same, whatever they say about it.
fn asks_the_same(old: &Value, new: &Value) -> bool {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            let fields: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            fields
                .into_iter()
                .filter(|field| !is_told_only(field))
                .all(|field| {
                    match (field.as_str(), old.get(field), new.get(field)) {
                        // Keys of it are names of fields, which may be called like anything.
                        ("properties", Some(Value::Object(old)), Some(Value::Object(new))) => {
                            old.len() == new.len()
                                && old.iter().all(|(name, old)| {
                                    new.get(name).is_some_and(|new| asks_the_same(old, new))
                                })
                        }
                        ("default" | "enum", old, new) => old == new,
                        (_, Some(old), Some(new)) => asks_the_same(old, new),
                        (_, Some(only), None) | (_, None, Some(only)) => is_default(field, only),
                        (_, None, None) => true,
                    }
                })
        }
        (Value::Array(old), Value::Array(new)) => {
            old.len() == new.len() && old.iter().zip(new).all(|(old, new)| asks_the_same(old, new))
        }
        _ => old == new,
    }
}

/// Fields of a schema that objects are not held against here.
fn is_told_only(field: &str) -> bool {
    matches!(
        field,
        "description" | "title" | "example" | "externalDocs" | "format" | "x-kubernetes-validations"
    )
}

/// Whether a webhook converts between the definition's versions.
pub(crate) fn is_converted_by_webhook(crd: &Value) -> bool {
    crd.pointer("/spec/conversion/strategy").and_then(Value::as_str) == Some("Webhook")
}

/// `namespace/name` of every ClusterServiceVersion a CustomResourceDefinition says it came with.
pub fn installed_alongside(crd: &Value) -> impl Iterator<Item = &str> {
    object::metadata_entries(crd, "annotations")
        .filter(|(key, _)| key.starts_with(labels::INSTALLED_ALONGSIDE_PREFIX))
        .map(|(_, value)| value)
}

/// Notes on a CustomResourceDefinition that it came with this ClusterServiceVersion. Without namespace or name there is nothing
/// to note.
pub fn note_installed_alongside(crd: &mut Value, namespace: &str, csv: &str) {
    if namespace.is_empty() || csv.is_empty() {
        return;
    }
    let value = format!("{namespace}/{csv}");
    let key = format!(
        "{}{:016x}",
        labels::INSTALLED_ALONGSIDE_PREFIX,
        hash::fnv1a64(value.as_bytes())
    );
    object::metadata_map_mut(crd, "annotations").insert(key, value.into());
}

/// The existing definition changed into the new one: spec as in `wanted`, but with what API server and others added where
/// `wanted` says nothing (conversion CA, defaulted names); labels and annotations united; notes of ClusterServiceVersions
/// that are gone removed. `is_alive` answers for `namespace/name`.
///
/// With `converted` a living ClusterServiceVersion serves the conversion between the definition's versions: then it stays as
/// it is, whatever `wanted` says. Without it objects stored in another version could not be read from that moment on. A
/// definition that no webhook converts has nothing to keep.
pub fn merged(current: &Value, wanted: &Value, is_alive: impl Fn(&str) -> bool, converted: bool) -> Value {
    let mut merged = with_metadata_of(current, wanted);
    if let Some(Value::Object(annotations)) = merged.pointer_mut("/metadata/annotations") {
        // The plan's own ClusterServiceVersion counts although it may not exist yet.
        let own: BTreeSet<&str> = installed_alongside(wanted).collect();
        annotations.retain(|key, value| {
            let noted = value.as_str().unwrap_or_default();
            !key.starts_with(labels::INSTALLED_ALONGSIDE_PREFIX) || own.contains(noted) || is_alive(noted)
        });
    }
    let nothing = Value::Null;
    let spec_of = |crd: &'_ Value| crd.get("spec").cloned().unwrap_or_default();
    let mut spec = merged_spec(&spec_of(current), &spec_of(wanted));
    // Also one that an earlier plan, or upstream, left there.
    conversion_ca::drop_unusable(&mut spec);
    let conversion = current.pointer("/spec/conversion").unwrap_or(&nothing);
    if converted && conversion_namespace(current).is_some() {
        object::set(&mut spec, "conversion", conversion.clone());
    }
    object::set(&mut merged, "spec", spec);
    merged
}

/// The namespace of the service that converts the definition's objects; none when no webhook behind a service does.
pub(crate) fn conversion_namespace(crd: &Value) -> Option<&str> {
    let conversion = crd.pointer("/spec/conversion")?;
    if conversion.get("strategy").and_then(Value::as_str) != Some("Webhook") {
        return None;
    }
    conversion
        .pointer("/webhook/clientConfig/service/namespace")
        .and_then(Value::as_str)
}

fn merged_spec(current: &Value, wanted: &Value) -> Value {
    let (Value::Object(current), Value::Object(wanted)) = (current, wanted) else {
        return wanted.clone();
    };
    let mut spec = wanted.clone();
    // Fields that mean the same as no value make no conversion.
    let conversion = wanted
        .get("conversion")
        .filter(|conversion| !is_same(conversion, &json!({})));
    if conversion.is_none() {
        spec.remove("conversion");
    }
    if let Some(current) = current.get("conversion") {
        spec.insert("conversion".to_owned(), merged_conversion(current, conversion));
    }
    if let Some(names) = current.get("names") {
        spec.insert("names".to_owned(), merged_names(names, wanted.get("names")));
    }
    // What the API server stores differs from the file in defaults and in empty values; that is no change.
    for (field, value) in current {
        let wanted = spec.get(field).unwrap_or(&Value::Null);
        if is_same(value, wanted) {
            spec.insert(field.clone(), value.clone());
        }
    }
    // Also what holds only empty values: kept, it would be a change as long as the field is not stored, and none afterwards.
    let is_absent = |field: &str, value: &Value| {
        object::is_empty(value)
            || is_same(value, &json!({}))
            || (field == "preserveUnknownFields" && *value == json!(false))
    };
    spec.retain(|field, value| !is_absent(field, value));
    Value::Object(spec)
}

fn merged_conversion(current: &Value, wanted: Option<&Value>) -> Value {
    let Some(wanted) = wanted.filter(|wanted| !object::is_empty(wanted)) else {
        return json!({ "strategy": "None" });
    };
    let mut conversion = wanted.clone();
    // Whoever serves the webhook's certificate injects its CA here.
    let ca = current.pointer("/webhook/clientConfig/caBundle");
    if let (Some(ca), Some(config)) = (
        ca,
        conversion
            .pointer_mut("/webhook/clientConfig")
            .and_then(Value::as_object_mut),
    ) {
        config.entry("caBundle").or_insert(ca.clone());
    }
    conversion
}

/// The API server fills in what is left out of the names. Names that are no object are not touched.
fn merged_names(current: &Value, wanted: Option<&Value>) -> Value {
    let mut names = wanted.cloned().unwrap_or_else(|| json!({}));
    for field in ["listKind", "singular"] {
        if let Some(value) = current
            .get(field)
            .filter(|_| names.get(field).is_none_or(object::is_empty))
        {
            object::set(&mut names, field, value.clone());
        }
    }
    names
}

/// Equal apart from what the API server leaves out or fills in. When in doubt two values are different: the write that follows
/// changes nothing then, while a missed difference would.
fn is_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            keys.into_iter().all(|key| match (a.get(key), b.get(key)) {
                (Some(a), Some(b)) => is_same(a, b),
                (Some(only), None) | (None, Some(only)) => is_default(key, only),
                (None, None) => true,
            })
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b))
        }
        _ => a == b,
    }
}

/// Values that mean the same as no value. An empty object is none of them: `subresources.status: {}` means a lot.
fn is_default(field: &str, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty() && field != "default",
        Value::String(text) => (text.is_empty() && field != "default") || (field == "path" && text == "/"),
        Value::Number(number) => field == "port" && number.as_i64() == Some(443),
        Value::Bool(_) | Value::Object(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use olm_runtime::plan::merge_patch;

    use super::*;

    fn stored(versions: &[&str]) -> Value {
        json!({"metadata": {"name": "demos.example.com"}, "status": {"storedVersions": versions}})
    }

    fn defined(versions: &[(&str, bool)]) -> Value {
        let versions: Vec<_> = versions
            .iter()
            .map(|(name, served)| json!({"name": name, "served": served}))
            .collect();
        json!({"metadata": {"name": "demos.example.com"}, "spec": {"versions": versions}})
    }

    #[test]
    #[allow(clippy::type_complexity)] // A table.
    fn a_stored_version_must_stay_defined() {
        let rows: [(&[&str], &[(&str, bool)], Option<&str>); 5] = [
            (&["v1"], &[("v1", true)], None),
            (&["v1"], &[("v1", false), ("v2", true)], None),
            (&["v1alpha1", "v1"], &[("v1", true)], Some("v1alpha1")),
            (&["v1"], &[("v2", true)], Some("v1")),
            (&[], &[("v2", true)], None),
        ];
        for (before, after, removed) in rows {
            let found = check_stored_versions(&stored(before), &defined(after));
            assert_eq!(
                found.err(),
                removed.map(|version| CrdUpgradeError::StoredVersionRemoved {
                    crd: "demos.example.com".to_owned(),
                    version: version.to_owned(),
                }),
                "{before:?} {after:?}"
            );
        }
        insta::assert_snapshot!(
            check_stored_versions(&stored(&["v1"]), &defined(&[("v2", true)])).unwrap_err(),
            @r#"risk of data loss updating "demos.example.com": new CRD removes version v1 that is listed as a stored version on the existing CRD"#
        );
    }

    #[test]
    #[allow(clippy::type_complexity)] // A table.
    fn crd_002_a_served_version_of_several_owners_stays() {
        let rows: [(usize, &[(&str, bool)], Option<&str>); 5] = [
            (0, &[("v2", true)], None),
            (1, &[("v2", true)], Some("v1")),
            (1, &[("v1", true), ("v2", true)], None),
            (1, &[("v1", false), ("v2", true)], None),
            (2, &[], Some("v1")),
        ];
        let current = defined(&[("v1", true), ("v1beta1", false)]);
        for (owners, after, removed) in rows {
            let found = check_served_versions(&current, &defined(after), owners);
            let expected = removed.map(|version| CrdUpgradeError::ServedVersionRemoved {
                crd: "demos.example.com".to_owned(),
                version: version.to_owned(),
                owners,
            });
            assert_eq!(found.err(), expected, "{owners} {after:?}");
        }
    }

    #[test]
    fn only_a_schema_that_asks_for_something_else_is_a_change() {
        let crd = |served: bool, schema: Value| json!({"spec": {"versions": [{"name": "v1", "served": served, "schema": {"openAPIV3Schema": schema}}]}});
        let old = json!({"type": "object", "description": "old", "properties": {
            "description": {"type": "string", "description": "old"}, "a": {"type": "integer", "required": []}}});
        let edited = |edit: &dyn Fn(&mut Value)| {
            let mut new = old.clone();
            edit(&mut new);
            new
        };
        let rows = [
            (old.clone(), false),
            (edited(&|new| new["description"] = "new".into()), false),
            (
                edited(&|new| new["properties"]["description"]["description"] = "new".into()),
                false,
            ),
            (
                edited(&|new| new["properties"]["a"] = json!({"type": "integer"})),
                false,
            ),
            (
                edited(&|new| new["properties"]["description"]["type"] = "integer".into()),
                true,
            ),
            (edited(&|new| new["properties"]["a"]["minimum"] = 1.into()), true),
            (edited(&|new| new["properties"]["a"]["default"] = "".into()), true),
            (
                edited(&|new| new["properties"]["b"] = json!({"type": "string"})),
                true,
            ),
            (edited(&|new| new["required"] = json!(["a"])), true),
            (Value::Null, false),
        ];
        for (new, is_change) in rows {
            let found = changed_schemas(&crd(true, old.clone()), &crd(true, new.clone()));
            assert_eq!(!found.is_empty(), is_change, "{new}");
            // A version that is not served before and after has nobody to be held against it.
            assert!(changed_schemas(&crd(false, old.clone()), &crd(true, new.clone())).is_empty());
            assert!(changed_schemas(&crd(true, old.clone()), &crd(false, new)).is_empty());
        }
    }

    /// The key is the one found in a real cluster.
    #[test]
    fn crd_notes_the_csv_it_came_with() {
        let mut crd = json!({"metadata": {"name": "x"}});
        note_installed_alongside(&mut crd, "golden", "demo.v1.0.0");
        assert_eq!(
            crd["metadata"]["annotations"],
            json!({"operatorframework.io/installed-alongside-7f358681829f3b85": "golden/demo.v1.0.0"})
        );
        note_installed_alongside(&mut crd, "", "demo.v1.0.0");
        note_installed_alongside(&mut crd, "golden", "");
        assert_eq!(
            installed_alongside(&crd).collect::<Vec<_>>(),
            ["golden/demo.v1.0.0"]
        );
    }

    /// A second plan adds its note, those of vanished ClusterServiceVersions go.
    #[test]
    fn notes_of_vanished_csvs_are_dropped() {
        let mut current =
            json!({"metadata": {"name": "x", "annotations": {"foreign": "kept"}}, "spec": {"group": "g"}});
        note_installed_alongside(&mut current, "a", "alive.v1");
        note_installed_alongside(&mut current, "a", "gone.v1");
        let mut wanted = json!({"metadata": {"name": "x"}, "spec": {"group": "g"}});
        note_installed_alongside(&mut wanted, "b", "new.v1");
        let merged = merged(&current, &wanted, |csv| csv == "a/alive.v1", false);
        assert_eq!(
            installed_alongside(&merged).collect::<BTreeSet<_>>(),
            BTreeSet::from(["a/alive.v1", "b/new.v1"])
        );
        assert_eq!(merged["metadata"]["annotations"]["foreign"], "kept");
    }

    /// What an API server stores for a definition is no difference to it.
    #[test]
    fn defaults_of_the_api_server_are_no_change() {
        let current = json!({"spec": {
            "group": "example.com", "scope": "Namespaced", "conversion": {"strategy": "None"},
            "names": {"kind": "Demo", "plural": "demos", "listKind": "DemoList", "singular": "demo"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}});
        let wanted = json!({"spec": {
            "group": "example.com", "scope": "Namespaced", "preserveUnknownFields": false,
            "names": {"kind": "Demo", "plural": "demos"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "description": "", "required": []}}}]}});
        assert_eq!(
            merge_patch(&current, &merged(&current, &wanted, |_| true, false)),
            None
        );
    }

    #[test]
    fn a_conversion_that_says_nothing_is_none_at_once() {
        for said in [
            json!({"strategy": []}),
            json!({"strategy": ""}),
            json!({}),
            json!(null),
        ] {
            let wanted = json!({"spec": {"group": "g", "conversion": said}});
            for stored in [json!({}), json!({"strategy": "None"}), json!(null)] {
                let current = json!({"spec": {"group": "g", "conversion": stored}});
                let once = merged(&current, &wanted, |_| true, false);
                let twice = merged(&once, &wanted, |_| true, false);
                assert_eq!(merge_patch(&once, &twice), None, "{current} {wanted}");
            }
        }
    }

    /// Found by fuzzing: what was dropped as empty came back as a change in the next round.
    #[test]
    fn a_field_of_empty_values_is_absent_at_once() {
        for names in [
            json!({"": ""}),
            json!({"plural": null}),
            json!({"shortNames": []}),
        ] {
            let wanted = json!({"spec": {"group": "g", "names": names}});
            for stored in [json!({}), json!(null), json!({"": ""})] {
                let current = json!({"spec": {"group": "g", "names": stored}});
                let once = merged(&current, &wanted, |_| true, false);
                let twice = merged(&once, &wanted, |_| true, false);
                assert_eq!(merge_patch(&once, &twice), None, "{current} {wanted}");
            }
        }
        let status = json!({"spec": {"group": "g", "subresources": {"status": {}}}});
        let none = json!({"spec": {"group": "g"}});
        assert_eq!(
            merged(&none, &status, |_| true, false)["spec"],
            status["spec"],
            "an empty object inside means something"
        );
    }

    /// An injected CA survives an upgrade, a conversion that is no longer wanted does not.
    #[test]
    fn injected_conversion_ca_survives() {
        let current = json!({"spec": {"conversion": {"strategy": "Webhook", "webhook": {
            "conversionReviewVersions": ["v1"], "clientConfig": {"caBundle": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCkFBQUEKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=", "service": {"name": "s", "namespace": "n", "path": "/", "port": 443}}}}}});
        let wanted = json!({"spec": {"conversion": {"strategy": "Webhook", "webhook": {
            "conversionReviewVersions": ["v1"], "clientConfig": {"service": {"name": "s", "namespace": "n"}}}}}});
        assert_eq!(
            merge_patch(&current, &merged(&current, &wanted, |_| true, false)),
            None
        );
        let without = json!({"spec": {"group": "g"}});
        assert_eq!(
            merged(&current, &without, |_| true, false)["spec"]["conversion"],
            json!({"strategy": "None"})
        );
    }

    /// A bundle's definition says nothing of conversion, or none: while an operator serves it, it stays.
    #[test]
    fn a_conversion_that_an_operator_serves_stays() {
        let served = json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"],
            "clientConfig": {"caBundle": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCkFBQUEKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=", "service": {"name": "demo-service", "namespace": "n", "port": 443}}}});
        let current = json!({"spec": {"group": "g", "conversion": served}});
        for wanted in [
            json!({"spec": {"group": "g"}}),
            json!({"spec": {"group": "g", "conversion": {"strategy": "None"}}}),
            json!({"spec": {"group": "g", "conversion": {"strategy": "Webhook", "webhook": {
                "conversionReviewVersions": ["v1"], "clientConfig": {"service": {"name": "placeholder", "namespace": "system"}}}}}}),
        ] {
            let kept = merged(&current, &wanted, |_| true, true);
            assert_eq!(merge_patch(&current, &kept), None, "{wanted}");
            assert!(merge_patch(&current, &merged(&current, &wanted, |_| true, false)).is_some());
        }
        let none = json!({"spec": {"group": "g"}});
        assert_eq!(merge_patch(&none, &merged(&none, &none, |_| true, true)), None);
        // A default is nothing that somebody serves: the first webhook of a definition must not be kept out by it.
        let default = json!({"spec": {"group": "g", "conversion": {"strategy": "None"}}});
        let wanted = json!({"spec": {"group": "g", "conversion": served}});
        assert_eq!(
            merged(&default, &wanted, |_| true, true)["spec"]["conversion"],
            served
        );
    }

    /// What an author wrote in the wrong shape is for the API server to refuse, and for nobody to fall over.
    #[test]
    fn definitions_of_any_shape_are_merged() {
        let shapes = [
            json!("x"),
            json!(1),
            json!([]),
            json!(null),
            json!({}),
            json!({"listKind": 1}),
        ];
        for field in ["names", "conversion", "versions"] {
            for shape in &shapes {
                for current in [
                    json!({"spec": {"names": {"listKind": "L", "singular": "s"}, "conversion": {"strategy": "None"}}}),
                    json!({"spec": {field: shape}}),
                    json!({"spec": shape, "metadata": shape}),
                    shape.clone(),
                ] {
                    let wanted = json!({"spec": {field: shape}});
                    for converted in [false, true] {
                        merged(&current, &wanted, |_| true, converted);
                        merged(
                            &current,
                            &json!({"spec": shape, "metadata": shape}),
                            |_| true,
                            converted,
                        );
                    }
                }
            }
        }
        let current = json!({"spec": {"names": {"listKind": "L"}}});
        let merged = merged(&current, &json!({"spec": {"names": "x"}}), |_| true, false);
        assert_eq!(merged["spec"]["names"], "x");
    }

    #[test]
    fn a_new_version_is_the_only_change() {
        let version = |name: &str, storage: bool| json!({"name": name, "served": true, "storage": storage});
        let current = json!({"spec": {"group": "g", "versions": [version("v1", true)]}});
        let wanted = json!({"spec": {"group": "g", "versions": [version("v1", false), version("v2", true)]}});
        assert_eq!(
            merge_patch(&current, &merged(&current, &wanted, |_| true, false)),
            Some(json!({"spec": {"versions": [version("v1", false), version("v2", true)]}}))
        );
    }

    /// An empty object can be the whole point of a change.
    #[test]
    fn a_new_status_subresource_is_a_change() {
        let crd = |subresources: Value| json!({"spec": {"group": "g", "versions": [{"name": "v1", "subresources": subresources}]}});
        let (current, wanted) = (crd(json!({"scale": {}})), crd(json!({"scale": {}, "status": {}})));
        assert!(merge_patch(&current, &merged(&current, &wanted, |_| true, false)).is_some());
    }

    #[test]
    fn a_definition_is_served_when_both_conditions_are_true() {
        let crd = |established: &str, accepted: &str| json!({"status": {"conditions": [{"type": "Established", "status": established}, {"type": "NamesAccepted", "status": accepted}]}});
        assert!(is_established(&crd("True", "True")));
        assert!(!is_established(&crd("True", "False")));
        assert!(!is_established(&crd("False", "True")));
        assert!(!is_established(&json!({})));
    }
}
