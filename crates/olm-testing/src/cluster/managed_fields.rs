//! `metadata.managedFields` of Deployments and Secrets, the kinds of which somebody reads who set what.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::apply::{Lists, Managers};

/// When each manager last wrote.
pub(super) type Times = BTreeMap<String, String>;

/// The part of an object of this kind of which somebody reads who set what.
pub(super) fn part_of(kind: &str) -> Option<&'static str> {
    match kind {
        "Deployment" => Some("spec"),
        "Secret" => Some("data"),
        _ => None,
    }
}

/// Who owns what in this part of `object`. Unlike on a real API server, nobody owns what a webhook made something else of.
pub(super) fn entries(managers: &Managers, times: &Times, object: &Value, part: &str) -> Vec<Value> {
    let entry = |(name, owned): (&String, &Value)| {
        let (how, manager) = name.split_once(':')?;
        let fields = fields(&owned[part], &object[part], &format!(".{part}"))?;
        let operation = if how == "apply" { "Apply" } else { "Update" };
        Some(
            json!({"manager": manager, "operation": operation, "apiVersion": object["apiVersion"],
            "time": times.get(name),
            "fieldsType": "FieldsV1", "fieldsV1": {format!("f:{part}"): fields}}),
        )
    };
    managers.iter().filter_map(entry).collect()
}

/// The part of `owned` that is so in `live`, as `fieldsV1`.
fn fields(owned: &Value, live: &Value, path: &str) -> Option<Value> {
    match (owned, live) {
        (Value::Object(owned), Value::Object(live)) if !owned.is_empty() => {
            let child = |(key, value): (&String, &Value)| {
                let found = fields(value, live.get(key)?, &format!("{path}.{key}"))?;
                Some((format!("f:{key}"), found))
            };
            let children: Map<String, Value> = owned.iter().filter_map(child).collect();
            (!children.is_empty()).then_some(Value::Object(children))
        }
        (Value::Array(owned), Value::Array(live)) => {
            let lists = Lists { native: true };
            let Some(key) = lists.key(path) else {
                return (owned == live).then(|| json!({}));
            };
            let child = |item: &Value| {
                let found = live.iter().find(|other| other[key] == item[key])?;
                let mut child = fields(item, found, path).unwrap_or_else(|| json!({}));
                child["."] = json!({});
                let mut named = json!({key: item[key]});
                if key == "containerPort" {
                    let protocol = item.get("protocol").cloned();
                    named["protocol"] = protocol.unwrap_or_else(|| json!("TCP"));
                }
                Some((format!("k:{named}"), child))
            };
            let children: Map<String, Value> = owned.iter().filter_map(child).collect();
            (!children.is_empty()).then_some(Value::Object(children))
        }
        (owned, live) => (owned == live).then(|| json!({})),
    }
}
