//! An object in its wanted state, and its comparison with the live one.

use std::fmt;

use olm_api::{embedded::drop_nulls, labels};
use olm_runtime::plan::Target;
use serde_json::{Map, Value, json};

/// The only list in which others may have entries, too.
const OWNER_REFERENCES: &str = "ownerReferences";
/// Map whose meaning changes with an additional key: the selector of a Service's pods.
const SELECTOR: &str = "selector";
/// Selectors of webhooks. A platform may add to them, as AKS does for all webhooks; the wanted entries still
/// apply.
const WEBHOOK_SELECTORS: [&str; 2] = ["namespaceSelector", "objectSelector"];
/// Lists whose entries an apply distinguishes by these fields: entries of others with another key remain.
const KEYED: [(&str, &[&str]); 2] = [("ports", &["port", "protocol"]), ("webhooks", &["name"])];

/// The wanted state of an object. Fields that are not in it belong to the API server or to others.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Component {
    pub(crate) target: Target,
    pub(crate) object: Value,
}

impl Component {
    /// Creates the wanted state `object` of a target; fields that are `null` count as absent.
    pub(crate) fn new(target: Target, mut object: Value) -> Self {
        drop_nulls(&mut object);
        Self { target, object }
    }

    /// Removes the owner, for an object of others that is not deleted with the ClusterServiceVersion.
    pub(crate) fn without_owner(mut self) -> Self {
        if let Some(metadata) = self.object["metadata"].as_object_mut() {
            metadata.remove(OWNER_REFERENCES);
        }
        self
    }

    /// Returns the problem of the live object, for users; `None` when it matches.
    pub(crate) fn problem(&self, live: Option<&Value>) -> Option<String> {
        let Some(live) = live else {
            return Some(format!("{self} is missing"));
        };
        difference(&self.object, live).map(|field| format!("{self} was changed at {field}"))
    }
}

/// Returns a merge patch for a list in which others added or changed entries that an apply would keep
/// beside ours. `None` if there is none.
pub(crate) fn shortening(wanted: &Value, live: &Value) -> Option<Value> {
    let (ports, webhooks) = (&wanted["spec"]["ports"], &wanted["webhooks"]);
    if has_stranger("ports", ports, &live["spec"]["ports"]) {
        return Some(json!({"spec": {"ports": ports}}));
    }
    has_stranger("webhooks", webhooks, &live["webhooks"]).then(|| json!({"webhooks": webhooks}))
}

/// True when an entry of `live` has a key that no wanted entry has, or calls a URL where the wanted one calls
/// a Service. The API server refuses either beside ours.
fn has_stranger(list: &str, wanted: &Value, live: &Value) -> bool {
    let Some((_, keys)) = KEYED.iter().find(|(name, _)| *name == list) else {
        return false;
    };
    let (Some(wanted), Some(live)) = (wanted.as_array(), live.as_array()) else {
        return false;
    };
    live.iter().any(|live| {
        let counterpart = wanted.iter().find(|wanted| is_counterpart(keys, wanted, live));
        counterpart.is_none_or(|wanted| {
            let url = "/clientConfig/url";
            live.pointer(url).is_some() && wanted.pointer(url).is_none()
        })
    })
}

fn is_counterpart(keys: &[&str], one: &Value, other: &Value) -> bool {
    keys.iter().all(|key| one[*key] == other[*key])
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.target.fmt(f)
    }
}

/// Returns the path of the first field of `wanted` that differs in `live`. Additional fields and entries of
/// `live` are no difference, because others would add them again.
fn difference(wanted: &Value, live: &Value) -> Option<String> {
    match (wanted, live) {
        (Value::Object(wanted), _) => wanted.iter().find_map(|(key, value)| {
            if labels::operator_of_component(key).is_some() {
                // Removing a component label does not affect the object itself; the adoption controller
                // restores it.
                return None;
            }
            let found = live.get(key).unwrap_or(&Value::Null);
            let rest = if key == OWNER_REFERENCES {
                (!is_owned(value, found)).then(String::new)
            } else if matches!(key.as_str(), "apiVersion" | "kind") && found.is_null() {
                // Items of a list have no type of their own.
                None
            } else if key == SELECTOR {
                (normal(value) != normal(found)).then(String::new)
            } else if WEBHOOK_SELECTORS.contains(&key.as_str()) {
                let wanted = normal(value);
                let is_more = wanted.is_null() || difference(&wanted, &normal(found)).is_none();
                (!is_more).then(String::new)
            } else if let (Value::Array(wanted), Value::Array(live)) = (value, found) {
                difference_of_lists(key, wanted, live)
            } else {
                difference(value, found)
            }?;
            Some(if rest.is_empty() {
                key.clone()
            } else {
                format!("{key}.{rest}")
            })
        }),
        (Value::Array(wanted), Value::Null) if wanted.is_empty() => None,
        _ => (wanted != live).then(String::new),
    }
}

/// Compares the list `name`: each wanted entry must exist, identified by its key if it has one.
fn difference_of_lists(name: &str, wanted: &[Value], live: &[Value]) -> Option<String> {
    let keys = KEYED
        .iter()
        .find(|(list, _)| *list == name)
        .map(|(_, keys)| *keys);
    wanted.iter().enumerate().find_map(|(index, entry)| {
        let counterpart = match keys {
            Some(keys) => live.iter().find(|live| is_counterpart(keys, entry, live)),
            None if live.iter().any(|live| difference(entry, live).is_none()) => return None,
            None => live.get(index),
        };
        let Some(live) = counterpart else {
            return Some(index.to_string());
        };
        let rest = difference(entry, live)?;
        Some(match rest.as_str() {
            "" => index.to_string(),
            rest => format!("{index}.{rest}"),
        })
    })
}

/// Removes empty lists and maps, which are equivalent to absent ones.
fn normal(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().map(|(key, value)| (key.clone(), normal(value)));
            let fields: Map<String, Value> = fields.filter(|(_, value)| !value.is_null()).collect();
            if fields.is_empty() {
                Value::Null
            } else {
                Value::Object(fields)
            }
        }
        Value::Array(items) if items.is_empty() => Value::Null,
        other => other.clone(),
    }
}

fn is_owned(wanted: &Value, live: &Value) -> bool {
    let uids = |list: &Value| -> Vec<Value> {
        let all = list.as_array().into_iter().flatten();
        all.map(|owner| owner["uid"].clone()).collect()
    };
    let found = uids(live);
    uids(wanted).iter().all(|uid| found.contains(uid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_with_added_items_is_replaced() {
        let wanted = json!({"metadata": {"ownerReferences": []}, "webhooks": [{"name": "a"}]});
        let more =
            json!({"metadata": {"ownerReferences": [1]}, "webhooks": [{"name": "a", "x": 1}, {"name": "b"}]});
        assert_eq!(
            shortening(&wanted, &more),
            Some(json!({"webhooks": [{"name": "a"}]}))
        );
        assert_eq!(shortening(&wanted, &wanted), None);
        assert_eq!(shortening(&wanted, &json!({})), None);
    }

    /// An apply would keep the changed entry beside ours, and the API server refuses both together.
    #[test]
    fn a_list_in_which_an_entry_got_another_key_is_set_whole() {
        let port = |port: u16| json!({"name": "443", "port": port, "protocol": "TCP"});
        let service = |port: Value| json!({"spec": {"ports": [port]}});
        let wanted = service(port(443));
        assert_eq!(shortening(&wanted, &service(port(9999))), Some(wanted.clone()));
        let mut other = port(443);
        other["targetPort"] = json!(1);
        assert_eq!(
            shortening(&wanted, &service(other.clone())),
            None,
            "an apply sets it"
        );
        other["protocol"] = json!("UDP");
        assert_eq!(shortening(&wanted, &service(other)), Some(wanted));
        let webhook =
            |name: &str, config: Value| json!({"webhooks": [{"name": name, "clientConfig": config}]});
        let wanted = webhook("a", json!({"service": {"name": "s"}}));
        let cases = [
            (webhook("b", json!({"service": {"name": "s"}})), true),
            (webhook("a", json!({"url": "https://u"})), true),
            (webhook("a", json!({"service": {"name": "t"}})), false),
        ];
        for (live, is_set) in cases {
            assert_eq!(
                shortening(&wanted, &live),
                is_set.then(|| wanted.clone()),
                "{live}"
            );
        }
    }

    /// Platforms add to objects in their clusters, and add again after each removal.
    #[test]
    fn what_others_add_is_no_difference() {
        let ours = json!({"key": "a", "operator": "Exists"});
        let theirs = json!({"key": "b", "operator": "NotIn", "values": ["x"]});
        let webhook = |name: &str, expressions: Value| json!({"name": name, "operations": ["CREATE"], "namespaceSelector": {"matchExpressions": expressions}});
        let wanted = json!({"webhooks": [webhook("w", json!([ours]))]});
        let check = |live: Value, expected: Option<&str>| {
            let live = json!({ "webhooks": live });
            assert_eq!(difference(&wanted, &live).as_deref(), expected, "{live}");
        };
        check(json!([webhook("w", json!([theirs, ours]))]), None);
        check(
            json!([webhook("x", json!([])), webhook("w", json!([ours, theirs]))]),
            None,
        );
        check(
            json!([webhook("w", json!([theirs]))]),
            Some("webhooks.0.namespaceSelector"),
        );
        check(json!([webhook("x", json!([ours]))]), Some("webhooks.0"));
        let mut more = webhook("w", json!([ours]));
        more["operations"] = json!(["UPDATE", "CREATE"]);
        check(json!([more]), None);
        more["operations"] = json!(["UPDATE"]);
        check(json!([more]), Some("webhooks.0.operations.0"));
        let all = json!({"namespaceSelector": {}});
        let added = json!({"namespaceSelector": {"matchExpressions": [theirs]}});
        assert_eq!(difference(&all, &added), None);
        let ports = |ports: Value| json!({ "ports": ports });
        let (one, other) = (
            json!({"port": 443, "protocol": "TCP"}),
            json!({"port": 1, "protocol": "TCP"}),
        );
        assert_eq!(
            difference(&ports(json!([one])), &ports(json!([other, one]))),
            None
        );
    }

    #[test]
    fn only_explicit_values_count() {
        let wanted = json!({"kind": "K", "metadata": {"labels": {"a": "1", "operators.coreos.com/demo.ns": ""}, "ownerReferences": [{"uid": "u"}]},
            "list": [{"x": 1}], "none": [], "empty": {}, "spec": {"selector": {"a": "1"}, "objectSelector": {}}});
        let cases = [
            (
                json!({"metadata": {"labels": {"a": "1", "b": "2"}, "ownerReferences": [{"uid": "t"}, {"uid": "u", "name": "n"}]},
                "list": [{"x": 1, "default": true}], "more": 1, "spec": {"selector": {"a": "1"}}}),
                None,
            ),
            (
                json!({"list": [{"x": 1}], "metadata": {"labels": {"a": "1"}, "ownerReferences": [{"uid": "u"}]},
                "spec": {"selector": {"a": "1", "b": "2"}}}),
                Some("spec.selector"),
            ),
            (json!({}), Some("list")),
            (json!({"list": [{"x": 2}]}), Some("list.0.x")),
            (json!({"list": []}), Some("list.0")),
            (json!({"list": [{"x": 1}]}), Some("metadata.labels.a")),
            (
                json!({"list": [{"x": 1}], "metadata": {"labels": {"a": "2"}}}),
                Some("metadata.labels.a"),
            ),
            (
                json!({"list": [{"x": 1}], "metadata": {"labels": {"a": "1"}, "ownerReferences": [{"uid": "t"}]}}),
                Some("metadata.ownerReferences"),
            ),
        ];
        for (live, expected) in cases {
            assert_eq!(difference(&wanted, &live).as_deref(), expected, "{live}");
        }
    }
}
