//! `metadata.managedFields` of the kinds whose field owners are read.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::apply::{Lists, Managers};

/// Time of the last write of each manager.
pub(super) type Times = BTreeMap<String, String>;

/// Returns the part of objects of this kind whose field owners are read.
pub(super) fn part_of(kind: &str) -> Option<&'static str> {
    match kind {
        "Deployment" | "Service" | "PodDisruptionBudget" => Some("spec"),
        "Secret" | "ConfigMap" => Some("data"),
        _ => None,
    }
}

/// Returns the owners of fields in this part of `object` and in its labels and annotations. Unlike on a real API server, fields that a
/// webhook changed have no owner.
pub(super) fn entries(managers: &Managers, times: &Times, object: &Value, part: &str) -> Vec<Value> {
    let entry = |(name, owned): (&String, &Value)| {
        let (how, manager) = name.split_once(':')?;
        let told = Told { part }.of(owned);
        let fields = fields(&told, object, "")?;
        let operation = if how == "apply" { "Apply" } else { "Update" };
        Some(
            json!({"manager": manager, "operation": operation, "apiVersion": object["apiVersion"],
            "time": times.get(name), "fieldsType": "FieldsV1", "fieldsV1": fields}),
        )
    };
    managers.iter().filter_map(entry).collect()
}

/// Selects the fields that are reported in `managedFields`.
struct Told<'a> {
    part: &'a str,
}

impl Told<'_> {
    const METADATA: [&'static str; 2] = ["labels", "annotations"];

    /// Returns the reported fields of `owned`.
    fn of(&self, owned: &Value) -> Value {
        let mut told = Map::new();
        if let Some(part) = owned.get(self.part) {
            told.insert(self.part.to_owned(), part.clone());
        }
        let fields = Self::METADATA.iter().filter_map(|field| {
            let value = owned["metadata"].get(field)?;
            Some(((*field).to_owned(), value.clone()))
        });
        told.insert("metadata".to_owned(), Value::Object(fields.collect()));
        Value::Object(told)
    }

    /// Returns the other fields of `owned`.
    fn rest(&self, mut owned: Value) -> Value {
        if let Some(fields) = owned.as_object_mut() {
            fields.remove(self.part);
        }
        if let Some(metadata) = owned.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.retain(|field, _| !Self::METADATA.contains(&field.as_str()));
        }
        owned
    }
}

/// Returns the part of `owned` that equals `live`, as `fieldsV1`.
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

/// Returns the managers after a client wrote `entries`. Managers without an entry own nothing, and the others own exactly the listed
/// fields of `object`. Fields that entries do not report (owner references, finalizers) keep their owners. Those of removed managers go
/// to the first entry.
pub(super) fn given(entries: &[Value], managers: &Managers, object: &Value, part: &str) -> Managers {
    let name = |entry: &Value| {
        let how = if entry["operation"] == "Apply" {
            "apply"
        } else {
            "update"
        };
        Some(format!("{how}:{}", entry["manager"].as_str()?))
    };
    let told = Told { part };
    let mut named = Managers::new();
    let mut heir = None;
    for (name, entry) in entries.iter().filter_map(|entry| Some((name(entry)?, entry))) {
        let rest = told.rest(managers.get(&name).cloned().unwrap_or(Value::Null));
        let fields = picked(&entry["fieldsV1"], object);
        named.insert(name.clone(), united(rest, fields, ""));
        heir.get_or_insert(name);
    }
    let gone = managers.iter().filter(|(name, _)| !named.contains_key(*name));
    let gone: Vec<Value> = gone.map(|(_, owned)| told.rest(owned.clone())).collect();
    if let Some(heir) = heir.and_then(|heir| named.get_mut(&heir)) {
        for rest in gone {
            *heir = united(rest, heir.take(), "");
        }
    }
    named
}

/// Returns the part of `object` that `fieldsV1` names; missing fields are left out.
fn picked(fields: &Value, object: &Value) -> Value {
    let Some(fields) = fields.as_object().filter(|fields| !fields.is_empty()) else {
        return object.clone();
    };
    let item = |key: &str, items: &[Value]| {
        let wanted: Value = serde_json::from_str(key).ok()?;
        let found = items.iter().find(|item| {
            let mut fields = wanted.as_object().into_iter().flatten();
            // Fields that the API server defaults are part of the key as well.
            fields
                .all(|(field, value)| item[field] == *value || (field == "protocol" && item[field].is_null()))
        });
        found.cloned()
    };
    match object {
        Value::Array(items) => {
            let children = fields.iter().filter_map(|(key, child)| {
                let key = key.strip_prefix("k:")?;
                let found = item(key, items)?;
                let mut own = match child
                    .as_object()
                    .is_some_and(|child| child.keys().all(|key| key == "."))
                {
                    true => json!({}),
                    false => picked(child, &found),
                };
                let names: Value = serde_json::from_str(key).ok()?;
                for (name, value) in names.as_object()? {
                    own[name] = value.clone();
                }
                Some(own)
            });
            Value::Array(children.collect())
        }
        Value::Object(live) => {
            let children = fields.iter().filter_map(|(key, child)| {
                let key = key.strip_prefix("f:")?;
                Some((key.to_owned(), picked(child, live.get(key)?)))
            });
            Value::Object(children.collect())
        }
        other => other.clone(),
    }
}

/// Merges the fields of both; the second wins for fields that both set.
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
