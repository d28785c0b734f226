//! Changes of existing CustomResourceDefinitions, and checks that they lose no data.

use std::collections::BTreeSet;

use olm_api::v1alpha1::StepStatus;
use olm_api::{hash, labels};
use serde_json::{Value, json};

use super::conversion_ca;
use super::execution::{ErrorClass, StepError};
use super::step_write::with_metadata_of;
use crate::object;

/// Whether the API of a CustomResourceDefinition is served: names accepted and established.
pub fn is_established(crd: &Value) -> bool {
    SERVED.iter().all(|wanted| {
        conditions_of_serving(crd)
            .any(|condition| text(condition, "type") == *wanted && text(condition, "status") == "True")
    })
}

/// The API server's reason for not serving a definition; `None` until it has processed the definition.
pub(crate) fn why_not_established(crd: &Value) -> Option<&str> {
    let refused = conditions_of_serving(crd).find(|condition| {
        text(condition, "status") == "False"
            && !matches!(text(condition, "reason"), "Installing" | "NotAccepted")
    })?;
    Some(text(refused, "message")).filter(|message| !message.is_empty())
}

/// Conditions that are all true of a definition that is served.
const SERVED: [&str; 2] = ["Established", "NamesAccepted"];

fn conditions_of_serving(crd: &Value) -> impl Iterator<Item = &Value> {
    let conditions = crd.pointer("/status/conditions").and_then(Value::as_array);
    let conditions = conditions.into_iter().flatten();
    conditions.filter(|condition| SERVED.contains(&text(condition, "type")))
}

fn text<'a>(condition: &'a Value, field: &str) -> &'a str {
    condition.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// True if executing a step changes the existing definition. A definition that the step created is only waited for, and one that is
/// being deleted is created again.
pub(crate) fn is_upgraded(status: &StepStatus, current: &Value) -> bool {
    *status != StepStatus::WaitingForApi && object::metadata_text(current, "deletionTimestamp").is_none()
}

/// Checks that every version objects may be stored in stays part of the definition; being served is not needed.
///
/// # Errors
/// With the first version that would be removed: the API server could no longer read objects stored in it.
pub fn check_stored_versions(current: &Value, wanted: &Value) -> Result<(), StepError> {
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
        Some(version) => Err(StepError {
            message: format!(
                "risk of data loss updating \"{}\": new CRD removes version {version} that is listed as a stored version on the existing CRD; {}",
                object::name(wanted),
                pruning_of_stored_versions(current, wanted)
            ),
            class: ErrorClass::ForPeople,
        }),
        None => Ok(()),
    }
}

/// The commands after which every object is stored in one version that both forms have.
fn pruning_of_stored_versions(current: &Value, wanted: &Value) -> String {
    let defined = version_names(current);
    let is_storage = |version: &&Value| version.get("storage") == Some(&Value::Bool(true));
    let wanted_storage = versions(wanted).find(is_storage).and_then(version_name);
    let kept = wanted_storage
        .into_iter()
        .chain(version_names(wanted))
        .find(|version| defined.contains(version));
    let (Some(kept), crd) = (kept, object::name(wanted)) else {
        return "the existing CRD defines no version of the new one; the operator needs an intermediate release that has both"
            .to_owned();
    };
    let storage = versions(current).find(is_storage).and_then(version_name);
    let switch = match storage == Some(kept) {
        true => String::new(),
        false => {
            let edits = versions(current).enumerate().map(|(index, version)| {
                let value = version_name(version) == Some(kept);
                json!({"op": "add", "path": format!("/spec/versions/{index}/storage"), "value": value})
            });
            let edits = Value::Array(edits.collect());
            format!("kubectl patch crd {crd} --type json -p '{edits}'; ")
        }
    };
    let stored = json!({"status": {"storedVersions": [kept]}});
    format!(
        "to continue, store all objects in {kept}: {switch}kubectl get {crd} -A -o yaml | kubectl replace \
         -f -; kubectl patch crd {crd} --subresource status --type merge -p '{stored}'"
    )
}

/// Checks that a definition which others own, too, keeps every version that is served now: they may use it.
///
/// # Errors
/// With the first version that would be removed.
pub(crate) fn check_served_versions(current: &Value, wanted: &Value, owners: usize) -> Result<(), StepError> {
    if owners == 0 {
        return Ok(());
    }
    let kept = version_names(wanted);
    let mut served = served_versions(current).filter_map(version_name);
    match served.find(|version| !kept.contains(version)) {
        Some(version) => Err(StepError::lasting(format!(
            "not allowing CRD ({}) update with multiple owners: new CRD removes version {version} that is \
             served by the existing CRD, and {owners} other ClusterServiceVersion(s) own it",
            object::name(wanted)
        ))),
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
    versions(crd).filter(|version| is_served(version))
}

fn is_served(version: &Value) -> bool {
    version.get("served") == Some(&Value::Bool(true))
}

/// Name and schema of each version that is served.
pub(crate) fn schemas(crd: &Value) -> Vec<(&str, &Value)> {
    let schema = |version| Value::pointer(version, "/schema/openAPIV3Schema").unwrap_or(&Value::Null);
    served_versions(crd)
        .filter_map(|version| Some((version_name(version)?, schema(version))))
        .collect()
}

/// Returns whether the versions of two definitions differ in nothing but the schemas of served ones. Those that `is_named` do not
/// count.
pub(crate) fn differ_in_schemas_only(one: &Value, other: &Value, is_named: impl Fn(&str) -> bool) -> bool {
    let frames = |crd: &Value| -> Value {
        let frames = versions(crd).filter_map(|version| {
            let name = version_name(version).filter(|name| !is_named(name))?;
            // A schema may be large, so it is not copied.
            let fields = version.as_object()?.iter();
            let kept = fields.filter(|(field, _)| !is_served(version) || *field != "schema");
            let frame: Value = kept
                .map(|(field, value)| (field.clone(), value.clone()))
                .collect();
            Some((name, frame))
        });
        frames.collect()
    };
    is_same(&frames(one), &frames(other))
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
        if new.is_object() && demands(old) != demands(new) {
            changed.push((name.to_owned(), new.clone()));
        }
    }
    changed
}

/// The requirements of a schema, without descriptions and without values that mean the same as none.
fn demands(schema: &Value) -> Value {
    let fields = match schema {
        Value::Object(fields) => fields,
        Value::Array(items) => return items.iter().map(demands).collect(),
        other => return other.clone(),
    };
    let asking = fields
        .iter()
        .filter(|(field, value)| !is_descriptive(field) && !is_default(field, value));
    let asking = asking.map(|(field, value)| {
        let value = match (field.as_str(), value) {
            // Keys of it are names of fields, which may be called like anything.
            ("properties", Value::Object(properties)) => {
                let properties = properties.iter();
                properties.map(|(name, of)| (name.clone(), demands(of))).collect()
            }
            ("default" | "enum", value) => value.clone(),
            (_, value) => demands(value),
        };
        (field.clone(), value)
    });
    asking.collect()
}

/// Fields of a schema that this check does not compare with objects.
fn is_descriptive(field: &str) -> bool {
    matches!(
        field,
        "description" | "title" | "example" | "externalDocs" | "format" | "x-kubernetes-validations"
    )
}

/// Whether a webhook converts between the definition's versions.
pub(crate) fn is_converted_by_webhook(crd: &Value) -> bool {
    crd.pointer("/spec/conversion/strategy").and_then(Value::as_str) == Some("Webhook")
}

/// `namespace/name` of every ClusterServiceVersion that is annotated as the origin of a CustomResourceDefinition.
pub fn installed_alongside(crd: &Value) -> impl Iterator<Item = &str> {
    object::metadata_entries(crd, "annotations")
        .filter(|(key, _)| key.starts_with(labels::INSTALLED_ALONGSIDE_PREFIX))
        .map(|(_, value)| value)
}

/// Annotates a CustomResourceDefinition with this ClusterServiceVersion as its origin. Without namespace or name there is no
/// annotation.
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
/// With `converted`, an existing ClusterServiceVersion serves the conversion between the definition's versions, so the conversion
/// stays unchanged, whatever `wanted` contains. Without the conversion, objects stored in another version would become unreadable.
/// A definition without a conversion webhook has nothing to keep.
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
    // Also an unusable one that an earlier plan, or upstream, wrote.
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
    // Also fields with only empty values: keeping them would be a change as long as the field is not stored, and none afterwards.
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
    // The server of the webhook injects its CA here.
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

/// Equal apart from what the API server leaves out or fills in.
fn is_same(one: &Value, other: &Value) -> bool {
    object::is_same(one, other, is_default)
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
mod tests;
