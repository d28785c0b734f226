//! Changes of a schema that custom resources notice. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// Most fields of each kind that are named.
const FIELDS: usize = 200;

/// Fields of a schema, by path.
#[derive(Debug, Default)]
pub struct SchemaChanges {
    /// Fields that the schema did not have, the outermost of each.
    pub added: Vec<String>,
    /// Fields that the schema no longer has, the outermost of each.
    pub removed: Vec<String>,
    /// Fields that become required and have no default.
    pub required: Vec<String>,
    /// True if something else changes, too, or there are too many fields to name.
    pub has_more: bool,
}

/// Parts of a schema whose changes are named by field.
const NAMED: [&str; 4] = ["properties", "required", "items", "additionalProperties"];

impl SchemaChanges {
    /// Adds the changes from one schema to another; a missing one, `null`, keeps all. `path` is the prefix of all names.
    pub fn add(&mut self, old: &Value, new: &Value, path: &str) {
        if !old.is_object() || !new.is_object() {
            self.has_more |= old != new;
        }
        if new.is_null() {
            return;
        }
        self.has_more |= rest(old) != rest(new);
        let separator = if path.ends_with(' ') { "" } else { "." };
        let named = |name: &str| format!("{path}{separator}{name}");
        let (before, after) = (required(old), required(new));
        let mut no_longer = before.difference(&after);
        self.has_more |= no_longer.any(|name| property(new, name).is_some());
        for name in after.difference(&before) {
            let has_default = property(new, name).is_some_and(|field| field.get("default").is_some());
            match has_default {
                true => self.has_more |= property(old, name).is_some(),
                false => keep(&mut self.required, &mut self.has_more, named(name)),
            }
        }
        let keeps_unknown = new.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true));
        for (name, inner) in properties(old) {
            match property(new, name) {
                Some(new) => self.add(inner, new, &named(name)),
                None if keeps_unknown => self.has_more = true,
                None => keep(&mut self.removed, &mut self.has_more, named(name)),
            }
        }
        for (name, _) in properties(new).filter(|(name, _)| property(old, name).is_none()) {
            keep(&mut self.added, &mut self.has_more, named(name));
        }
        for (field, sign) in [("items", "[]"), ("additionalProperties", "[*]")] {
            match (old.get(field), new.get(field)) {
                (Some(old), Some(new)) => self.add(old, new, &format!("{path}{sign}")),
                (old, new) => self.has_more |= old != new,
            }
        }
    }
}

/// Adds a field to names unless there are too many.
fn keep(names: &mut Vec<String>, has_more: &mut bool, name: String) {
    match names.len() < FIELDS {
        true => names.push(name),
        false => *has_more = true,
    }
}

/// Returns the parts of a schema whose changes are not named.
fn rest(schema: &Value) -> BTreeMap<&String, &Value> {
    let parts = schema.as_object().into_iter().flatten();
    parts
        .filter(|(part, _)| !NAMED.contains(&part.as_str()))
        .collect()
}

fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    let properties = schema.get("properties").and_then(Value::as_object);
    properties.into_iter().flatten()
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

    #[test]
    fn new_fields_are_named_and_what_has_no_name_is_noticed() {
        let spec = |spec: Value| json!({"type": "object", "properties": {"spec": spec}});
        let text = json!({"type": "string"});
        let old = spec(json!({"properties": {"a": text}, "required": ["a"]}));
        for (new, added, has_more) in [
            (old.clone(), vec![], false),
            (
                spec(
                    json!({"properties": {"a": text, "size": {"properties": {"x": text}}}, "required": ["a"]}),
                ),
                vec!["v1: spec.size"],
                false,
            ),
            (
                spec(json!({"properties": {"a": text, "b": {"default": "x"}}, "required": ["a", "b"]})),
                vec!["v1: spec.b"],
                false,
            ),
            (
                spec(json!({"properties": {"a": {"type": "integer"}, "b": text}, "required": ["a"]})),
                vec!["v1: spec.b"],
                true,
            ),
            (spec(json!({"properties": {"a": text}})), vec![], true),
            (
                spec(json!({"properties": {"a": text}, "required": ["a"], "maxProperties": 3})),
                vec![],
                true,
            ),
            (json!(null), vec![], true),
        ] {
            let mut changes = SchemaChanges::default();
            changes.add(&old, &new, "v1: ");
            assert_eq!(
                (changes.added, changes.has_more),
                (owned(added), has_more),
                "{new}"
            );
        }
    }

    fn owned(names: Vec<&str>) -> Vec<String> {
        names.into_iter().map(str::to_owned).collect()
    }
}
