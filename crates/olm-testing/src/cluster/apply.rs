//! Field ownership and server-side apply.
//!
//! The fields of a manager are stored as the part of the object it set. A field whose value another manager changed is no longer its own.
//! Fields that a manager applied before and no longer applies are removed, unless another manager set them as well.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Fields set by each manager. Names of managers that applied start with `apply:`, others with `update:`.
pub(super) type Managers = BTreeMap<String, Value>;

/// Returns the object after `manager` applied `wanted` with force.
pub(super) fn applied(
    live: &Value,
    wanted: &Value,
    manager: &str,
    managers: &mut Managers,
    native: bool,
) -> Value {
    let name = format!("apply:{manager}");
    let before = managers.remove(&name).unwrap_or(Value::Null);
    let mut result = live.clone();
    let others: Vec<&Value> = managers.values().collect();
    let lists = Lists { native };
    lists.prune(&mut result, &before, Some(wanted), &others, "");
    lists.set(&mut result, wanted, "");
    let mut owned = wanted.clone();
    if let Some(fields) = owned.as_object_mut() {
        fields.remove("apiVersion");
        fields.remove("kind");
    }
    managers.insert(name, owned);
    disown(managers, &result);
    result
}

/// Records that `manager` changed `old` to `new` other than by apply. With `by_item` it owns only the changed items of lists of named
/// items.
pub(super) fn updated(old: &Value, new: &Value, manager: &str, managers: &mut Managers, by_item: bool) {
    disown(managers, new);
    if let Some(changed) = changed(old, new, "", by_item) {
        let owned = managers.entry(format!("update:{manager}")).or_insert(Value::Null);
        crate::patch::merge(owned, &changed);
    }
}

/// Returns the part of `new` that differs from `old`.
fn changed(old: &Value, new: &Value, path: &str, by_item: bool) -> Option<Value> {
    if old == new {
        return None;
    }
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            let fields: Map<String, Value> = new
                .iter()
                .filter_map(|(key, value)| {
                    let old = old.get(key).unwrap_or(&Value::Null);
                    let path = format!("{path}.{key}");
                    Some((key.clone(), changed(old, value, &path, by_item)?))
                })
                .collect();
            (!fields.is_empty()).then_some(Value::Object(fields))
        }
        (Value::Array(old), Value::Array(new)) if by_item => {
            let lists = Lists { native: true };
            let Some(key) = lists.key(path).filter(|key| !key.is_empty()) else {
                return Some(Value::Array(new.clone()));
            };
            let of_item = |item: &Value| {
                let before = old.iter().find(|other| other[key] == item[key]);
                let mut fields = changed(before.unwrap_or(&Value::Null), item, path, by_item)?;
                fields[key] = item[key].clone();
                Some(fields)
            };
            let items: Vec<Value> = new.iter().filter_map(of_item).collect();
            (!items.is_empty()).then_some(Value::Array(items))
        }
        _ => Some(new.clone()),
    }
}

fn disown(managers: &mut Managers, live: &Value) {
    for owned in managers.values_mut() {
        keep_equal(owned, live);
    }
}

/// Removes from `owned` what differs in `live`. Lists are compared as a whole.
fn keep_equal(owned: &mut Value, live: &Value) -> bool {
    match (owned, live) {
        (Value::Object(owned), Value::Object(live)) => {
            owned.retain(|key, value| live.get(key).is_some_and(|live| keep_equal(value, live)));
            true
        }
        (Value::Array(owned), Value::Array(live)) => owned
            .iter()
            .any(|item| live.iter().any(|other| same_item(item, other))),
        (owned, live) => owned == live,
    }
}

/// True if two items of a list are about the same thing.
fn same_item(one: &Value, other: &Value) -> bool {
    one == other
        || ["name", "uid", "type"]
            .iter()
            .any(|key| one.get(key).is_some() && one.get(key) == other.get(key))
}

/// Rules for merging lists.
pub(super) struct Lists {
    /// True for types of Kubernetes itself, whose lists of named items are merged by key.
    pub(super) native: bool,
}

impl Lists {
    /// Returns the key of a list's items; `None` for lists that are replaced as a whole, empty for sets.
    pub(super) fn key(&self, path: &str) -> Option<&'static str> {
        match path {
            ".metadata.ownerReferences" => return Some("uid"),
            ".metadata.finalizers" => return Some(""),
            _ if !self.native => return None,
            _ => {}
        }
        match path.rsplit('.').next().unwrap_or_default() {
            "containers"
            | "initContainers"
            | "ephemeralContainers"
            | "env"
            | "volumes"
            | "imagePullSecrets"
            | "webhooks" => Some("name"),
            "volumeMounts" => Some("mountPath"),
            "ports" => Some(if path.contains("containers") {
                "containerPort"
            } else {
                "port"
            }),
            "conditions" => Some("type"),
            _ => None,
        }
    }

    /// Removes what is in `before`, but neither in `wanted` nor in any of `others`.
    fn prune(&self, live: &mut Value, before: &Value, wanted: Option<&Value>, others: &[&Value], path: &str) {
        match before {
            Value::Object(before) => {
                let Some(fields) = live.as_object_mut() else {
                    return;
                };
                for (key, owned) in before {
                    let wanted = wanted.and_then(|wanted| wanted.get(key));
                    let others: Vec<&Value> = others.iter().filter_map(|other| other.get(key)).collect();
                    let Some(found) = fields.get_mut(key) else {
                        continue;
                    };
                    let path = format!("{path}.{key}");
                    let nested = owned.is_object() || (owned.is_array() && self.key(&path).is_some());
                    if nested {
                        self.prune(found, owned, wanted, &others, &path);
                    }
                    let empty = found.as_object().is_some_and(Map::is_empty)
                        || found.as_array().is_some_and(Vec::is_empty);
                    if wanted.is_none() && others.is_empty() && (!nested || empty) {
                        fields.remove(key);
                    }
                }
            }
            Value::Array(before) => {
                let (Some(items), Some(key)) = (live.as_array_mut(), self.key(path)) else {
                    return;
                };
                let same = |one: &Value, other: &Value| identity(one, key) == identity(other, key);
                let holds = |list: &&Value, item: &Value| {
                    list.as_array()
                        .is_some_and(|list| list.iter().any(|other| same(other, item)))
                };
                items.retain(|item| {
                    let was = before.iter().any(|other| same(other, item));
                    !was || wanted.as_ref().is_some_and(|list| holds(list, item))
                        || others.iter().any(|list| holds(list, item))
                });
                for item in items {
                    let find = |list: &Value| {
                        list.as_array()
                            .and_then(|list| list.iter().find(|other| same(other, item)).cloned())
                    };
                    let was = before.iter().find(|other| same(other, item)).cloned();
                    let now = wanted.and_then(find);
                    if let (Some(was), Some(now)) = (was, now) {
                        self.prune(item, &was, Some(&now), &[], &format!("{path}[]"));
                    }
                }
            }
            _ => {}
        }
    }

    /// Sets the fields of `wanted`.
    fn set(&self, live: &mut Value, wanted: &Value, path: &str) {
        match wanted {
            Value::Object(wanted) => {
                if !live.is_object() {
                    *live = Value::Object(Map::new());
                }
                let Some(fields) = live.as_object_mut() else {
                    return;
                };
                for (key, value) in wanted {
                    if value.is_null() {
                        fields.remove(key);
                        continue;
                    }
                    let found = fields.entry(key).or_insert(Value::Null);
                    self.set(found, value, &format!("{path}.{key}"));
                }
            }
            Value::Array(wanted) => {
                let (Some(items), Some(key)) = (live.as_array_mut(), self.key(path)) else {
                    *live = Value::Array(wanted.clone());
                    return;
                };
                // Wanted items are in their given order; items of others stay in front of the same items.
                let same = |one: &Value, other: &Value| identity(one, key) == identity(other, key);
                let mut merged = Vec::new();
                let mut others = items
                    .iter()
                    .map(|item| (item.clone(), wanted.iter().any(|other| same(other, item))))
                    .peekable();
                for item in wanted {
                    while let Some((other, _)) = others.next_if(|(_, is_wanted)| !is_wanted) {
                        merged.push(other);
                    }
                    others.next_if(|(other, _)| same(other, item));
                    let found = items.iter().find(|other| same(other, item)).cloned();
                    let mut found = found.unwrap_or(Value::Null);
                    match found.is_null() {
                        true => found = item.clone(),
                        false => self.set(&mut found, item, &format!("{path}[]")),
                    }
                    merged.push(found);
                }
                merged.extend(others.filter(|(_, is_wanted)| !is_wanted).map(|(other, _)| other));
                *items = merged;
            }
            other => *live = other.clone(),
        }
    }
}

fn identity<'a>(item: &'a Value, key: &str) -> &'a Value {
    if key.is_empty() { item } else { &item[key] }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_manager_no_longer_applies_goes_unless_another_set_it() {
        let mut managers = Managers::new();
        let first = applied(
            &json!({}),
            &json!({"metadata": {"labels": {"a": "1", "b": "1"}}}),
            "m",
            &mut managers,
            true,
        );
        let mut by_hand = first.clone();
        by_hand["metadata"]["labels"]["c"] = json!("1");
        updated(&first, &by_hand, "kubectl", &mut managers, false);
        let second = applied(
            &by_hand,
            &json!({"metadata": {"labels": {"b": "2"}}}),
            "m",
            &mut managers,
            true,
        );
        assert_eq!(second, json!({"metadata": {"labels": {"b": "2", "c": "1"}}}));
        let other = applied(
            &second,
            &json!({"metadata": {"labels": {"b": "2"}}}),
            "n",
            &mut managers,
            true,
        );
        let third = applied(&other, &json!({}), "m", &mut managers, true);
        assert_eq!(
            third,
            json!({"metadata": {"labels": {"b": "2", "c": "1"}}}),
            "b is n's, too"
        );
        let fourth = applied(&third, &json!({}), "n", &mut managers, true);
        assert_eq!(fourth, json!({"metadata": {"labels": {"c": "1"}}}));
    }

    #[test]
    fn a_field_changed_by_hand_is_taken_back_and_then_goes_with_its_manager() {
        let mut managers = Managers::new();
        let first = applied(&json!({}), &json!({"rules": [1]}), "m", &mut managers, true);
        let by_hand = json!({"rules": [2]});
        updated(&first, &by_hand, "kubectl", &mut managers, false);
        assert_eq!(
            applied(&by_hand, &json!({"other": 1}), "m", &mut managers.clone(), true),
            json!({"rules": [2], "other": 1})
        );
        let back = applied(&by_hand, &json!({"rules": [1]}), "m", &mut managers, true);
        assert_eq!(back, json!({"rules": [1]}));
        assert_eq!(applied(&back, &json!({}), "m", &mut managers, true), json!({}));
    }

    #[test]
    fn lists_of_named_things_are_merged_by_name_and_others_replaced() {
        let mut managers = Managers::new();
        let live = json!({"spec": {"containers": [{"name": "injected"}], "args": ["x"]}});
        let wanted = json!({"spec": {"containers": [{"name": "c", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "1"}]}], "args": ["y"]}});
        let first = applied(&live, &wanted, "m", &mut managers, true);
        assert_eq!(first["spec"]["args"], json!(["y"]));
        assert_eq!(first["spec"]["containers"].as_array().map(Vec::len), Some(2));
        let fewer = json!({"spec": {"containers": [{"name": "c", "env": [{"name": "B", "value": "2"}]}]}});
        let second = applied(&first, &fewer, "m", &mut managers, true);
        assert_eq!(
            second["spec"]["containers"],
            json!([{"name": "injected"}, {"name": "c", "env": [{"name": "B", "value": "2"}]}])
        );
        let names = |list: &Value| {
            list.as_array()
                .unwrap()
                .iter()
                .map(|item| item["name"].clone())
                .collect::<Value>()
        };
        let all = json!({"spec": {"containers": [{"name": "b"}, {"name": "c"}, {"name": "d"}]}});
        let third = applied(&second, &all, "m", &mut managers, true);
        assert_eq!(
            names(&third["spec"]["containers"]),
            json!(["injected", "b", "c", "d"])
        );
        let mut managers = Managers::new();
        let replaced = applied(&live, &wanted, "m", &mut managers, false);
        assert_eq!(replaced["spec"]["containers"].as_array().map(Vec::len), Some(1));
    }
}
