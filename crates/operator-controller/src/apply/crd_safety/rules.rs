//! Rules for one property of two schemas, with upstream's texts.

use std::collections::BTreeSet;

use go_compat::json::{Html, float, to_string};
use go_compat::quote;
use serde_json::Value;

use super::schema::Schema;

/// Forbidden change of a property.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    path: String,
    rule: &'static str,
    text: String,
}

impl Change {
    /// Returns the line of an error. `version` is the name of the version, or of two versions.
    pub(super) fn line(&self, version: &str) -> String {
        format!("{version}: {}: {}: {}", self.path, self.rule, self.text)
    }
}

/// Upper bounds. A new or a lower one is forbidden.
const MAXIMA: [&str; 4] = ["maximum", "maxItems", "maxLength", "maxProperties"];
/// Lower bounds. A new or a higher one is forbidden.
const MINIMA: [&str; 4] = ["minimum", "minItems", "minLength", "minProperties"];

/// Returns the forbidden changes of the property at `path`.
pub(super) fn compare(path: &str, old: &Schema, new: &Schema) -> Vec<Change> {
    let first = [("default", default(old, new)), ("enum", enumeration(old, new))];
    let maximum = |rule| bound(["maximum", "decreased"], rule, old, new, |old, new| new < old);
    let minimum = |rule| bound(["minimum", "increased"], rule, old, new, |old, new| new > old);
    let maxima = MAXIMA.map(|rule| (rule, maximum(rule)));
    let minima = MINIMA.map(|rule| (rule, minimum(rule)));
    let last = [
        ("required", required(old, new)),
        ("type", type_(old, new)),
        ("pattern", pattern(old, new)),
        ("nullable", nullable(old, new)),
        ("oneOf", one_of(old, new)),
        ("unhandled", unhandled(old, new)),
    ];
    let all = first.into_iter().chain(maxima).chain(minima).chain(last);
    all.filter_map(|(rule, text)| {
        Some(Change {
            path: path.to_owned(),
            rule,
            text: text?,
        })
    })
    .collect()
}

fn json(value: &Value) -> String {
    to_string(value, Html::Plain)
}

fn text<'a>(schema: &'a Schema, field: &str) -> &'a str {
    schema.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the items of a list field as JSON, sorted.
fn items(schema: &Schema, field: &str) -> BTreeSet<String> {
    let list = schema.get(field).and_then(Value::as_array);
    list.into_iter().flatten().map(json).collect()
}

fn default(old: &Schema, new: &Schema) -> Option<String> {
    let quoted = |value: &Value| quote(&json(value)).to_string();
    match (old.get("default"), new.get("default")) {
        (None, Some(new)) => Some(format!(
            "default added when there was none previously : {}",
            quoted(new)
        )),
        (Some(old), None) => Some(format!("default value removed : {}", quoted(old))),
        (Some(old), Some(new)) if old != new => Some(format!(
            "default value changed : {} -> {}",
            quoted(old),
            quoted(new)
        )),
        _ => None,
    }
}

/// Values may be added to an enum.
fn enumeration(old: &Schema, new: &Schema) -> Option<String> {
    let (old, new) = (items(old, "enum"), items(new, "enum"));
    if old.is_empty() && !new.is_empty() {
        let values = listed(new.iter());
        return Some(format!(
            "enum constraint added when there was none previously : {values}"
        ));
    }
    let removed = listed(old.difference(&new));
    (removed != "[]").then(|| format!("allowed enum values removed : {removed}"))
}

/// Returns values as Go prints a list of texts.
fn listed<'a>(values: impl Iterator<Item = &'a String>) -> String {
    let values: Vec<&str> = values.map(String::as_str).collect();
    format!("[{}]", values.join(" "))
}

fn number(schema: &Schema, field: &str) -> Option<f64> {
    schema.get(field).and_then(Value::as_f64)
}

/// Returns the text about a bound that is new, or narrower than the old one.
fn bound(
    [word, narrowed]: [&str; 2],
    field: &str,
    old: &Schema,
    new: &Schema,
    is_narrower: fn(f64, f64) -> bool,
) -> Option<String> {
    match (number(old, field), number(new, field)) {
        (None, Some(new)) => {
            let new = float(new);
            Some(format!(
                "{word} constraint added when there was none previously : {new}"
            ))
        }
        (Some(old), Some(new)) if is_narrower(old, new) => {
            Some(format!("{word} {narrowed} : {} -> {}", float(old), float(new)))
        }
        _ => None,
    }
}

fn required(old: &Schema, new: &Schema) -> Option<String> {
    let names = |schema: &Schema| -> BTreeSet<String> {
        let list = schema.get("required").and_then(Value::as_array);
        let names = list.into_iter().flatten().filter_map(Value::as_str);
        names.map(str::to_owned).collect()
    };
    let (old, new) = (names(old), names(new));
    let added = listed(new.difference(&old));
    (added != "[]").then(|| format!("new required fields: {added}"))
}

fn type_(old: &Schema, new: &Schema) -> Option<String> {
    let (old, new) = (text(old, "type"), text(new, "type"));
    (old != new).then(|| format!("type changed : {} -> {}", quote(old), quote(new)))
}

fn pattern(old: &Schema, new: &Schema) -> Option<String> {
    let (old, new) = (text(old, "pattern"), text(new, "pattern"));
    let what = match (old, new) {
        _ if old == new => return None,
        ("", _) => "added",
        (_, "") => "removed",
        _ => "changed",
    };
    Some(format!("pattern {what} : {} -> {}", quote(old), quote(new)))
}

fn nullable(old: &Schema, new: &Schema) -> Option<String> {
    let is_nullable = |schema: &Schema| schema.get("nullable") == Some(&Value::Bool(true));
    match (is_nullable(old), is_nullable(new)) {
        (false, true) => Some("nullable added : false -> true".to_owned()),
        (true, false) => Some("nullable removed : true -> false".to_owned()),
        _ => None,
    }
}

fn one_of(old: &Schema, new: &Schema) -> Option<String> {
    let (old, new) = (items(old, "oneOf"), items(new, "oneOf"));
    let text = if old.is_empty() && !new.is_empty() {
        "oneOf constraint added when there was none previously"
    } else if old.difference(&new).next().is_some() {
        "allowed oneOf schemas removed"
    } else if new.difference(&old).next().is_some() {
        "allowed oneOf schemas added"
    } else {
        return None;
    };
    Some(text.to_owned())
}

/// Go type of a field that no rule covers, which decides its text.
#[derive(Debug, Clone, Copy)]
enum GoType {
    Text,
    TextPointer,
    Bool,
    /// Pointer to a boolean or a number.
    Pointer,
    Complex,
}

/// Fields that no rule covers, in the order of upstream's text, with their names there.
const UNHANDLED: [(&str, &str, GoType); 26] = [
    ("id", "ID", GoType::Text),
    ("$schema", "Schema", GoType::Text),
    ("$ref", "Ref", GoType::TextPointer),
    ("format", "Format", GoType::Text),
    ("title", "Title", GoType::Text),
    ("exclusiveMaximum", "ExclusiveMaximum", GoType::Bool),
    ("exclusiveMinimum", "ExclusiveMinimum", GoType::Bool),
    ("uniqueItems", "UniqueItems", GoType::Bool),
    ("multipleOf", "MultipleOf", GoType::Pointer),
    ("allOf", "AllOf", GoType::Complex),
    ("anyOf", "AnyOf", GoType::Complex),
    ("not", "Not", GoType::Complex),
    ("additionalProperties", "AdditionalProperties", GoType::Complex),
    ("patternProperties", "PatternProperties", GoType::Complex),
    ("dependencies", "Dependencies", GoType::Complex),
    ("additionalItems", "AdditionalItems", GoType::Complex),
    ("definitions", "Definitions", GoType::Complex),
    ("externalDocs", "ExternalDocs", GoType::Complex),
    ("example", "Example", GoType::Complex),
    (
        "x-kubernetes-preserve-unknown-fields",
        "XPreserveUnknownFields",
        GoType::Pointer,
    ),
    (
        "x-kubernetes-embedded-resource",
        "XEmbeddedResource",
        GoType::Bool,
    ),
    ("x-kubernetes-int-or-string", "XIntOrString", GoType::Bool),
    ("x-kubernetes-list-map-keys", "XListMapKeys", GoType::Complex),
    ("x-kubernetes-list-type", "XListType", GoType::TextPointer),
    ("x-kubernetes-map-type", "XMapType", GoType::TextPointer),
    ("x-kubernetes-validations", "XValidations", GoType::Complex),
];

fn unhandled(old: &Schema, new: &Schema) -> Option<String> {
    let fields = UNHANDLED.iter();
    let changed: Vec<String> = fields
        .filter(|(field, ..)| old.get(*field) != new.get(*field))
        .map(|(field, name, of)| {
            let (before, after) = (shown(old.get(*field), *of), shown(new.get(*field), *of));
            let changed = if before == after { " (changed)" } else { "" };
            format!("{name} {before} -> {after}{changed}")
        })
        .collect();
    (!changed.is_empty()).then(|| format!("unhandled changes found ({})", changed.join("; ")))
}

fn shown(value: Option<&Value>, of: GoType) -> String {
    let Some(value) = value else {
        return match of {
            GoType::Text => "\"\"".to_owned(),
            GoType::Bool => "false".to_owned(),
            GoType::TextPointer | GoType::Pointer | GoType::Complex => "nil".to_owned(),
        };
    };
    match of {
        GoType::Text => quote(value.as_str().unwrap_or_default()).to_string(),
        GoType::TextPointer => format!("&{}", quote(value.as_str().unwrap_or_default())),
        GoType::Bool => json(value),
        GoType::Pointer => format!("&{}", json(value)),
        GoType::Complex => "<complex value>".to_owned(),
    }
}
