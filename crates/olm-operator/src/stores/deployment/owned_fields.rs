//! Finds the fields of a spec that are ours, from the `fieldsV1` of our apply.
//!
//! The API server removes a field from our entry as soon as others remove it or change its value. Only hashes
//! of the fields are kept, a few bytes each; the wanted spec lists the expected ones.

use std::{
    collections::BTreeSet,
    hash::{DefaultHasher, Hash, Hasher},
};

use serde_json::{Map, Value, json};

use super::OF_OTHERS;

/// Length of a hash as text, in characters.
const DIGITS: usize = 8;

/// Keys that identify the items of a list, unless the list is atomic.
const KEYS: [&[&str]; 6] = [
    &["name"],
    &["containerPort", "protocol"],
    &["mountPath"],
    &["devicePath"],
    &["ip"],
    &["topologyKey", "whenUnsatisfiable"],
];

/// Marker in `fieldsV1` for a list item itself, beside its fields; an atomic item has none.
const ITSELF: &str = ".";

/// Returns a summary of `fieldsV1` of one or several managers: the hashes of all fields with a value, and of all list items; with
/// `with_parents` also of what contains these.
pub(super) fn sketch<'a>(fields: impl IntoIterator<Item = &'a Value>, with_parents: bool) -> String {
    let mut found = BTreeSet::new();
    for fields in fields {
        collect(fields, with_parents, &mut Vec::new(), &mut found);
    }
    found.into_iter().collect()
}

fn collect(fields: &Value, with_parents: bool, path: &mut Vec<String>, found: &mut BTreeSet<String>) {
    let Some(children) = fields.as_object() else {
        return;
    };
    if (with_parents || children.is_empty()) && !path.is_empty() {
        found.insert(hash(path));
    }
    for (key, child) in children {
        path.push(canonical(key));
        collect(child, with_parents, path, found);
        path.pop();
    }
}

/// Sorts the key fields of an item, because the server may return them in any order.
fn canonical(segment: &str) -> String {
    let key = segment.strip_prefix("k:");
    let key = key.and_then(|key| serde_json::from_str::<Map<String, Value>>(key).ok());
    key.map_or_else(|| segment.to_owned(), item_segment)
}

fn item_segment(key: Map<String, Value>) -> String {
    format!("k:{}", Value::Object(key))
}

fn hash(path: &[String]) -> String {
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    format!("{:0DIGITS$x}", hasher.finish() & u64::from(u32::MAX))
}

/// Returns the paths of fields that `spec` sets but that are not in the summary `sketch`. Fields that others may set are skipped. A field
/// that is set to nothing (`false`, 0, an empty text) is only lost if it is in `others`, the summary of what other managers set.
pub(super) fn lost(spec: &Value, sketch: &str, others: &str) -> Vec<String> {
    let mut search = Search {
        owned: hashes(sketch),
        others: hashes(others),
        path: Vec::new(),
        lost: Vec::new(),
    };
    search.visit(spec, "");
    search.lost
}

fn hashes(sketch: &str) -> BTreeSet<&str> {
    let hashes = sketch.as_bytes().chunks(DIGITS);
    hashes.filter_map(|hash| str::from_utf8(hash).ok()).collect()
}

struct Search<'a> {
    owned: BTreeSet<&'a str>,
    others: BTreeSet<&'a str>,
    /// Current path, with the names of `fieldsV1`.
    path: Vec<String>,
    lost: Vec<String>,
}

impl Search<'_> {
    /// Visits the value at `told`, a path for users.
    fn visit(&mut self, value: &Value, told: &str) {
        if self.is_of_others() || self.owns() {
            return;
        }
        if says_nothing(value) {
            if self.others.contains(hash(&self.path).as_str()) {
                self.lost.push(told.to_owned());
            }
            return;
        }
        match value {
            Value::Object(fields) => self.visit_fields(fields, told),
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.visit_item(item, index, told);
                }
            }
            _ => self.lost.push(told.to_owned()),
        }
    }

    fn visit_fields(&mut self, fields: &Map<String, Value>, told: &str) {
        let dot = if told.is_empty() { "" } else { "." };
        for (key, value) in fields {
            self.path.push(format!("f:{key}"));
            self.visit(value, &format!("{told}{dot}{key}"));
            self.path.pop();
        }
    }

    fn visit_item(&mut self, item: &Value, index: usize, told: &str) {
        let name = item["name"].as_str();
        let told = format!(
            "{told}[{}]",
            name.map_or_else(|| index.to_string(), str::to_owned)
        );
        let keyed = KEYS
            .iter()
            .filter_map(|key| item_key(item, key))
            .map(item_segment);
        for segment in keyed.chain([format!("v:{item}")]) {
            self.path.push(segment);
            let is_whole = self.owns();
            let is_owned = is_whole || self.owns_field(ITSELF);
            if let (true, false, Some(fields)) = (is_owned, is_whole, item.as_object()) {
                self.visit_fields(fields, &told);
            }
            self.path.pop();
            if is_owned {
                return;
            }
        }
        self.lost.push(told);
    }

    fn owns(&self) -> bool {
        self.owned.contains(hash(&self.path).as_str())
    }

    fn owns_field(&mut self, field: &str) -> bool {
        self.path.push(field.to_owned());
        let owns = self.owns();
        self.path.pop();
        owns
    }

    fn is_of_others(&self) -> bool {
        OF_OTHERS.iter().any(|others| *others == self.path)
    }
}

/// Returns the key of the list item for these fields; `None` if it lacks a field without a default.
fn item_key(item: &Value, fields: &[&str]) -> Option<Map<String, Value>> {
    let value = |field: &str| match item.get(field) {
        None if field == "protocol" => Some(json!("TCP")),
        found => found.cloned(),
    };
    fields
        .iter()
        .map(|field| Some(((*field).to_owned(), value(field)?)))
        .collect()
}

/// The API server does not store such a value, and API servers differ in whether it counts as set.
fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(value) => value.as_f64() == Some(0.0),
        Value::String(value) => value.is_empty(),
        Value::Array(value) => value.is_empty(),
        Value::Object(value) => value.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> Value {
        json!({"replicas": 2, "strategy": {}, "selector": {"matchLabels": {"app": "demo"}},
            "template": {"metadata": {"annotations": {"a": "1", "empty": ""}}, "spec": {
                "hostNetwork": false, "nodeSelector": {"os": "linux"}, "tolerations": [{"key": "x"}],
                "containers": [{"name": "c", "image": "i", "args": ["--x"], "livenessProbe": {"httpGet": {"path": "/", "port": 1}},
                    "env": [{"name": "A", "value": "1"}], "ports": [{"containerPort": 80}],
                    "volumeMounts": [{"name": "v", "mountPath": "/v"}], "resources": {"limits": {"cpu": "1000m"}}}],
                "imagePullSecrets": [{"name": "p"}], "volumes": [{"name": "v", "emptyDir": {}}]}}})
    }

    /// Fields as an API server reports them.
    fn fields() -> Value {
        json!({"f:replicas": {}, "f:strategy": {}, "f:selector": {},
            "f:template": {"f:metadata": {"f:annotations": {"f:a": {}, "f:empty": {}}}, "f:spec": {
                "f:hostNetwork": {}, "f:nodeSelector": {}, "f:tolerations": {},
                "f:containers": {"k:{\"name\":\"c\"}": {".": {}, "f:name": {}, "f:image": {}, "f:args": {},
                    "f:livenessProbe": {"f:httpGet": {"f:path": {}, "f:port": {}}},
                    "f:env": {"k:{\"name\":\"A\"}": {".": {}, "f:name": {}, "f:value": {}}},
                    "f:ports": {"k:{\"protocol\":\"TCP\",\"containerPort\":80}": {".": {}, "f:containerPort": {}}},
                    "f:volumeMounts": {"k:{\"mountPath\":\"/v\"}": {".": {}, "f:name": {}, "f:mountPath": {}}},
                    "f:resources": {"f:limits": {"f:cpu": {}}}}},
                "f:imagePullSecrets": {"k:{\"name\":\"p\"}": {}}, "f:volumes": {"k:{\"name\":\"v\"}": {".": {}, "f:name": {}, "f:emptyDir": {}}}}}})
    }

    /// Returns the fields that are lost when this part of `fieldsV1` is removed.
    fn lost_without(pointer: &str) -> Vec<String> {
        let mut fields = fields();
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        let parent = fields.pointer_mut(parent).unwrap().as_object_mut().unwrap();
        assert!(parent.remove(&key.replace("~1", "/")).is_some(), "{pointer}");
        lost(&spec(), &sketch([&fields], false), "")
    }

    #[test]
    fn what_was_applied_is_owned() {
        assert_eq!(lost(&spec(), &sketch([&fields()], false), ""), [""; 0]);
    }

    #[test]
    fn what_others_took_away_or_over_is_reported_by_its_path() {
        let container = "/f:template/f:spec/f:containers/k:{\"name\":\"c\"}";
        let in_container = |field: &str| format!("{container}{field}");
        let cases = [
            ("/f:template/f:spec/f:containers".to_owned(), "[c]"),
            (in_container("/f:image"), "[c].image"),
            (in_container("/f:args"), "[c].args[0]"),
            (in_container("/f:livenessProbe"), "[c].livenessProbe.httpGet.path"),
            (in_container("/f:env"), "[c].env[A]"),
            (
                in_container("/f:env/k:{\"name\":\"A\"}/f:value"),
                "[c].env[A].value",
            ),
            (in_container("/f:ports"), "[c].ports[0]"),
            (in_container("/f:volumeMounts"), "[c].volumeMounts[v]"),
            (in_container("/f:resources"), "[c].resources.limits.cpu"),
        ];
        for (pointer, expected) in cases {
            let expected = format!("template.spec.containers{expected}");
            assert_eq!(lost_without(&pointer).first(), Some(&expected), "{pointer}");
        }
        let lost = lost_without("/f:template/f:spec/f:imagePullSecrets");
        assert_eq!(lost, ["template.spec.imagePullSecrets[p]"]);
        let lost = lost_without("/f:template/f:spec/f:nodeSelector");
        assert_eq!(lost, ["template.spec.nodeSelector.os"]);
        assert!(!super::lost(&spec(), "", "").is_empty(), "nothing is ours");
    }

    #[test]
    fn replicas_and_empty_fields_are_no_loss() {
        for field in [
            "/f:replicas",
            "/f:strategy",
            "/f:template/f:metadata/f:annotations/f:empty",
            "/f:template/f:spec/f:hostNetwork",
        ] {
            assert_eq!(lost_without(field), [""; 0], "{field}");
        }
    }

    #[test]
    fn what_is_set_to_nothing_is_lost_to_who_sets_it() {
        let others = json!({"f:template": {"f:metadata": {"f:annotations": {"f:empty": {}}},
            "f:spec": {"f:hostNetwork": {}, "f:dnsPolicy": {}}}, "f:replicas": {}});
        let others = sketch([&others], true);
        assert_eq!(
            lost(&spec(), &sketch([&fields()], false), &others),
            [""; 0],
            "both may set it"
        );
        let mut ours = fields();
        let without = |fields: &mut Value, pointer: &str, key: &str| {
            let parent = fields.pointer_mut(pointer).unwrap().as_object_mut().unwrap();
            assert!(parent.remove(key).is_some());
        };
        without(&mut ours, "/f:template/f:spec", "f:hostNetwork");
        without(&mut ours, "/f:template/f:metadata/f:annotations", "f:empty");
        without(&mut ours, "", "f:strategy");
        assert_eq!(
            lost(&spec(), &sketch([&ours], false), &others),
            ["template.metadata.annotations.empty", "template.spec.hostNetwork"]
        );
    }
}
