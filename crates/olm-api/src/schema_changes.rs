//! Changes of a schema that custom resources notice. Pure.

use std::collections::BTreeSet;

use serde_json::Value;

/// Maximum number of fields of a kind of change.
const FIELDS: usize = 200;

/// Fields of a schema, by path.
#[derive(Debug, Default)]
pub struct SchemaChanges {
    /// Fields that the schema no longer has, the outermost of each.
    pub removed: Vec<String>,
    /// Fields that become required and have no default.
    pub required: Vec<String>,
}

impl SchemaChanges {
    /// Adds the changes of one schema. `path` is the prefix of all names.
    pub fn add(&mut self, old: &Value, new: &Value, path: &str) {
        let separator = if path.ends_with(' ') { "" } else { "." };
        let before = required(old);
        for name in required(new).difference(&before) {
            let has_default = property(new, name).is_some_and(|field| field.get("default").is_some());
            if !has_default && self.required.len() < FIELDS {
                self.required.push(format!("{path}{separator}{name}"));
            }
        }
        let keeps_unknown = new.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true));
        let properties = old.get("properties").and_then(Value::as_object);
        for (name, inner) in properties.into_iter().flatten() {
            let path = format!("{path}{separator}{name}");
            match property(new, name) {
                Some(new) => self.add(inner, new, &path),
                None if !keeps_unknown && self.removed.len() < FIELDS => self.removed.push(path),
                None => {}
            }
        }
        for (field, sign) in [("items", "[]"), ("additionalProperties", "[*]")] {
            if let (Some(old), Some(new)) = (old.get(field), new.get(field)) {
                self.add(old, new, &format!("{path}{sign}"));
            }
        }
    }
}

fn property<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    schema.get("properties")?.get(name)
}

fn required(schema: &Value) -> BTreeSet<&str> {
    let names = schema.get("required").and_then(Value::as_array);
    names.into_iter().flatten().filter_map(Value::as_str).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_that_go_or_become_required_are_named_by_path() {
        let spec = |spec: Value| json!({"type": "object", "properties": {"spec": spec}});
        let text = json!({"type": "string"});
        let fields = json!({"a": text, "b": text});
        let list = |item: Value| spec(json!({"properties": {"list": {"items": item}}}));
        for (old, new, removed, required) in [
            (
                spec(json!({"properties": fields})),
                spec(json!({"properties": fields, "required": ["a"]})),
                vec![],
                vec!["v1: spec.a"],
            ),
            (
                spec(json!({"properties": fields, "required": ["a"]})),
                spec(json!({"properties": {"a": text}, "required": ["a"]})),
                vec!["v1: spec.b"],
                vec![],
            ),
            // A new field, too, and one with a default, which the API server fills in.
            (
                spec(json!({"properties": {"a": text}})),
                spec(json!({"properties": {"a": {"default": "x"}, "c": text}, "required": ["a", "c"]})),
                vec![],
                vec!["v1: spec.c"],
            ),
            // A required field of an optional new object asks nothing of old resources.
            (
                spec(json!({"properties": {"a": text}})),
                spec(json!({"properties": {"a": text, "c": {"properties": {"d": text}, "required": ["d"]}}})),
                vec![],
                vec![],
            ),
            (
                list(json!({"properties": fields})),
                list(json!({"properties": {"a": text}, "required": ["a"]})),
                vec!["v1: spec.list[].b"],
                vec!["v1: spec.list[].a"],
            ),
            (
                spec(json!({"properties": fields})),
                spec(json!({"x-kubernetes-preserve-unknown-fields": true, "required": ["a"]})),
                vec![],
                vec!["v1: spec.a"],
            ),
        ] {
            let mut changes = SchemaChanges::default();
            changes.add(&old, &new, "v1: ");
            assert_eq!(
                (changes.removed, changes.required),
                (owned(removed), owned(required)),
                "{new}"
            );
        }
    }

    fn owned(names: Vec<&str>) -> Vec<String> {
        names.into_iter().map(str::to_owned).collect()
    }
}
