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

/// A writer says who owns what: what those had who are no longer named goes to the first who is. (A real API server takes the fields as
/// they are written; whoever writes here hands over all that somebody had.)
pub(super) fn hand_over(entries: &[Value], managers: &mut Managers) {
    let name = |entry: &Value| {
        let how = if entry["operation"] == "Apply" {
            "apply"
        } else {
            "update"
        };
        Some(format!("{how}:{}", entry["manager"].as_str()?))
    };
    let named: Vec<String> = entries.iter().filter_map(name).collect();
    let Some(heir) = named.first() else {
        return;
    };
    let gone: Vec<String> = managers
        .keys()
        .filter(|known| !named.contains(known))
        .cloned()
        .collect();
    for known in gone {
        let (Some(owned), own) = (managers.remove(&known), managers.remove(heir)) else {
            continue;
        };
        managers.insert(heir.clone(), united(owned, own.unwrap_or(Value::Null), ""));
    }
}

/// What either sets; of a field that both set, what the second does.
fn united(one: Value, other: Value, path: &str) -> Value {
    match (one, other) {
        (Value::Object(mut one), Value::Object(other)) => {
            for (key, value) in other {
                let path = format!("{path}.{key}");
                let known = one.remove(&key).unwrap_or(Value::Null);
                one.insert(key, united(known, value, &path));
            }
            Value::Object(one)
        }
        (Value::Array(one), Value::Array(mut other)) => {
            let lists = Lists { native: true };
            if let Some(key) = lists.key(path).filter(|key| !key.is_empty()) {
                for item in one {
                    match other.iter_mut().find(|known| known[key] == item[key]) {
                        Some(known) => *known = united(item, known.take(), path),
                        None => other.push(item),
                    }
                }
            }
            Value::Array(other)
        }
        (one, Value::Null) => one,
        (_, other) => other,
    }
}
