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

/// Returns the fields of the pod template that only OLM v0 has set, given a Deployment that the extension has applied.
pub(super) fn left_in_pods(applied: &Value) -> Vec<String> {
    let entries = applied["metadata"]["managedFields"].as_array();
    let own = entries.into_iter().flatten().find(|entry| is_of_extension(entry));
    let passed = passed_on(applied).unwrap_or_default();
    let all = passed.iter().find(|entry| is_of_extension(entry));
    let mut left = Vec::new();
    if let (Some(own), Some(all)) = (own, all) {
        add_missing(template(own), template(all), "template", &mut left);
    }
    left
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

fn template(entry: &Value) -> &Value {
    &entry["fieldsV1"]["f:spec"]["f:template"]
}

/// Adds the paths of `all` that `own` does not have.
fn add_missing(own: &Value, all: &Value, path: &str, missing: &mut Vec<String>) {
    for (key, value) in all.as_object().into_iter().flatten() {
        let path = match key.split_once(':') {
            Some(("f", field)) => format!("{path}.{field}"),
            Some((_, item)) => format!("{path}[{}]", item_name(item)),
            // It only says that the map or list exists.
            None => continue,
        };
        match own.get(key) {
            Some(own) => add_missing(own, value, &path, missing),
            None => missing.push(path),
        }
    }
}

/// Returns the values in the key of an item, such as its name.
fn item_name(item: &str) -> String {
    let keys: Value = serde_json::from_str(item).unwrap_or_default();
    let values = keys.as_object().into_iter().flatten();
    let values = values.map(|(_, value)| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    values.collect::<Vec<String>>().join(",")
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

    fn pods(template: &Value) -> Value {
        json!({"f:spec": {"f:template": template}})
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

    #[test]
    fn what_only_olm_v0_set_in_pods_is_named() {
        let both = json!({"k:{\"name\":\"A\"}": {".": {}, "f:name": {}}});
        let container = |env: &Value| json!({"f:spec": {"f:containers": {"k:{\"name\":\"manager\"}": {".": {}, "f:env": env}}}});
        let mut old_env = both.clone();
        old_env["k:{\"name\":\"OPERATOR_CONDITION_NAME\"}"] = json!({".": {}, "f:name": {}, "f:value": {}});
        let mut old = container(&old_env);
        old["f:metadata"] = json!({"f:annotations": {"f:olm.operatorGroup": {}, "f:a": {}}});
        let mut new = container(&both);
        new["f:metadata"] = json!({"f:annotations": {"f:a": {}}});
        let of = |manager: &str, template: &Value| entry(manager, "Apply", &pods(template));
        let own = of("olm.operatorframework.io", &new);
        let applied = object(&[of("olm-operator/csv", &old), own.clone()]);
        let mut left = left_in_pods(&applied);
        left.sort();
        assert_eq!(
            left,
            [
                "template.metadata.annotations.olm.operatorGroup",
                "template.spec.containers[manager].env[OPERATOR_CONDITION_NAME]"
            ]
        );
        for nothing in [
            object(&[of("olm-operator/csv", &new), own.clone()]),
            object(&[own]),
        ] {
            assert_eq!(left_in_pods(&nothing), [""; 0], "{nothing}");
        }
    }
}
