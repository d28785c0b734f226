//! Field owners of adopted objects. An apply removes only fields of its own entry in `managedFields`, so the fields that OLM v0 applied
//! pass to the extension. Pure.

use olm_api::labels;
use serde_json::{Value, json};

/// Field managers of OLM v0.
const MANAGERS: [&str; 4] = [
    labels::FIELD_MANAGER_CSV,
    labels::FIELD_MANAGER_PATCH,
    labels::FIELD_MANAGER_PLAN,
    labels::FIELD_MANAGER_UPSTREAM_CATALOG,
];

/// Returns the `managedFields` of an object with the fields of OLM v0 in the entry of the extension; `None` if nothing changes.
/// The next apply of the extension then removes the fields that only OLM v0 had set.
pub(super) fn passed_on(object: &Value) -> Option<Vec<Value>> {
    let entries = object["metadata"]["managedFields"].as_array()?;
    let own = entries.iter().find(|entry| is_of_extension(entry))?;
    let (old, kept): (Vec<&Value>, Vec<&Value>) = entries.iter().partition(|entry| is_old(entry, own));
    if old.is_empty() {
        return None;
    }
    let mut united = own.clone();
    for entry in old {
        unite(&mut united["fieldsV1"], &entry["fieldsV1"]);
    }
    let kept = kept.into_iter().map(|entry| match std::ptr::eq(entry, own) {
        true => united.clone(),
        false => entry.clone(),
    });
    Some(kept.collect())
}

fn is_of_extension(entry: &Value) -> bool {
    entry["manager"] == labels::EXTENSION_MANAGER && entry["operation"] == "Apply" && is_whole(entry)
}

/// Returns true for an entry of OLM v0. Fields of different API versions must not be mixed.
fn is_old(entry: &Value, own: &Value) -> bool {
    let manager = entry["manager"].as_str().unwrap_or_default();
    MANAGERS.contains(&manager) && is_whole(entry) && entry["apiVersion"] == own["apiVersion"]
}

/// Returns false for an entry of a subresource.
fn is_whole(entry: &Value) -> bool {
    entry["subresource"].as_str().unwrap_or_default().is_empty()
}

/// Adds fields, both as `fieldsV1`.
fn unite(fields: &mut Value, more: &Value) {
    if !fields.is_object() {
        *fields = json!({});
    }
    for (key, value) in more.as_object().into_iter().flatten() {
        unite(&mut fields[key.as_str()], value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(manager: &str, operation: &str, fields: &Value) -> Value {
        json!({"manager": manager, "operation": operation, "apiVersion": "apps/v1", "time": "2026-01-01T00:00:00Z",
            "fieldsType": "FieldsV1", "fieldsV1": fields})
    }

    fn object(entries: &[Value]) -> Value {
        json!({"metadata": {"managedFields": entries}})
    }

    #[test]
    fn fields_of_olm_v0_pass_to_the_extension_and_those_of_others_stay() {
        let extension = |fields: Value| entry("olm.operatorframework.io", "Apply", &fields);
        let theirs = entry("kubectl-edit", "Update", &json!({"f:spec": {"f:paused": {}}}));
        let mut status = entry("olm", "Update", &json!({"f:status": {}}));
        status["subresource"] = json!("status");
        let mut beta = entry("olm", "Update", &json!({"f:spec": {"f:b": {}}}));
        beta["apiVersion"] = json!("apps/v1beta1");
        let before = object(&[
            entry(
                "olm-operator/csv",
                "Apply",
                &json!({"f:spec": {"f:a": {"f:x": {}}, "f:c": {}}}),
            ),
            theirs.clone(),
            extension(json!({"f:spec": {"f:a": {".": {}, "f:y": {}}}})),
            entry("olm", "Update", &json!({"f:data": {"f:k": {}}})),
            entry(
                "catalog-operator/install-plan",
                "Apply",
                &json!({"f:spec": {"f:d": {}}}),
            ),
            entry("catalog", "Update", &json!({"f:spec": {"f:e": {}}})),
            status.clone(),
            beta.clone(),
        ]);
        let united = json!({"f:spec": {"f:a": {".": {}, "f:x": {}, "f:y": {}}, "f:c": {}, "f:d": {}, "f:e": {}},
            "f:data": {"f:k": {}}});
        let after = vec![theirs.clone(), extension(united), status, beta];
        assert_eq!(passed_on(&before), Some(after.clone()));
        for unchanged in [
            object(&after),
            object(&[entry("olm", "Update", &json!({"f:data": {}}))]),
            json!({}),
        ] {
            assert_eq!(passed_on(&unchanged), None, "{unchanged}");
        }
    }
}
