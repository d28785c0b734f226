//! Whether an object fits a structural schema, as the API server sees it: defaults are filled in first, and fields that the
//! schema does not know are no fault, as they are dropped.
//!
//! Not looked at: rules in CEL, formats, and what an embedded object must have. Where in doubt an object fits.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;

use regex::{Regex, RegexBuilder};
use serde_json::{Map, Value};

/// Maximum number of faults that are reported for one object.
const MAX_REPORTED: usize = 5;
/// Maximum memory of a compiled pattern; a larger one is not checked.
const PATTERN_BYTES: usize = 128 * 1024;
/// Maximum number of steps for one object: checked parts of the schema and the object, and defaults. Definitions are checked before
/// any right of the plan's author counts, so the publisher of a catalog could otherwise multiply the lists of an object by the
/// defaults of a schema until no memory is left, for all namespaces.
const WORK: usize = 1_000_000;
/// Maximum number of compiled patterns of a schema; the others are not checked. A bundle may contain tens of thousands.
const MOST_PATTERNS: usize = 500;

/// A schema, ready to be used many times.
pub(crate) struct StructuralSchema {
    root: Value,
    /// Compiled patterns; none for those that this implementation does not understand.
    patterns: BTreeMap<String, Option<Regex>>,
}

/// One step into an object.
#[derive(Clone, Copy)]
enum Segment<'a> {
    Field(&'a str),
    Index(usize),
    /// A key that the schema does not name: it is content.
    AnyKey,
}

/// Consumes this many of the remaining steps. Returns false, and leaves none, if there are not enough.
fn take(work: &mut usize, steps: usize) -> bool {
    let left = work.checked_sub(steps);
    *work = left.unwrap_or(0);
    left.is_some()
}

/// Current place of a check, and its findings: fields, with `*` for keys that the schema does not name, and their requirements.
/// Values are not reported, because readers of the plan may not be allowed to read the object.
struct Walk<'a> {
    path: Vec<Segment<'a>>,
    misfits: Vec<String>,
    /// Steps that are left.
    work: usize,
}

impl<'a> Walk<'a> {
    fn at(&mut self, segment: Segment<'a>, check: impl FnOnce(&mut Self)) {
        self.path.push(segment);
        check(self);
        self.path.pop();
    }

    fn misfit(&mut self, wanted: impl fmt::Display) {
        if self.misfits.len() >= MAX_REPORTED {
            return;
        }
        let mut field = String::new();
        for segment in &self.path {
            match segment {
                Segment::Field(name) if field.is_empty() => field.push_str(name),
                Segment::Field(name) => field = format!("{field}.{name}"),
                Segment::Index(index) => field = format!("{field}[{index}]"),
                Segment::AnyKey => field.push_str("[*]"),
            }
        }
        if field.is_empty() {
            "the object".clone_into(&mut field);
        }
        self.misfits.push(format!("{field}: {wanted}"));
    }
}

impl StructuralSchema {
    /// The schema of a version, its `openAPIV3Schema`.
    pub(crate) fn new(root: Value) -> Self {
        let mut patterns = BTreeMap::new();
        compile_patterns(&root, &mut patterns);
        Self { root, patterns }
    }

    /// What of an object does not fit, the first few: the field, and what the schema asks for.
    pub(crate) fn misfits(&self, mut object: Value) -> Vec<String> {
        let mut walk = Walk {
            path: Vec::new(),
            misfits: Vec::new(),
            work: WORK,
        };
        fill_defaults(&self.root, &mut object, &mut walk.work);
        self.check(&self.root, &object, &mut walk);
        if walk.work > 0 {
            return walk.misfits;
        }
        // It is unknown whether it fits, and the author of the schema must not profit from that.
        vec!["the object: is too complex to be validated".to_owned()]
    }

    fn fits<'a>(&'a self, schema: &'a Value, value: &Value, walk: &mut Walk<'a>) -> bool {
        let others = std::mem::take(&mut walk.misfits);
        self.check(schema, value, walk);
        std::mem::replace(&mut walk.misfits, others).is_empty()
    }

    fn check<'a>(&'a self, schema: &'a Value, value: &Value, walk: &mut Walk<'a>) {
        let Some(schema) = schema.as_object().filter(|_| walk.misfits.len() < MAX_REPORTED) else {
            return;
        };
        if !take(&mut walk.work, 1 + steps_of(value)) {
            return;
        }
        let kind = schema.get("type").and_then(Value::as_str);
        if value.is_null() && (is_set(schema, "nullable") || kind.is_none()) {
            return;
        }
        match kind {
            Some(kind) if !is_of_type(value, kind) => {
                return walk.misfit(format!("must be of type {kind}, not {}", type_of(value)));
            }
            None if is_set(schema, "x-kubernetes-int-or-string")
                && !is_of_type(value, "integer")
                && !value.is_string() =>
            {
                return walk.misfit(format!("must be an integer or a string, not {}", type_of(value)));
            }
            _ => {}
        }
        if let Some(Value::Array(known)) = schema.get("enum")
            && take(&mut walk.work, known.len())
            && !known.iter().any(|known| is_equal(known, value))
        {
            walk.misfit("must be one of the values in enum");
        }
        match value {
            Value::String(text) => self.check_text(schema, text, walk),
            Value::Number(number) => check_number(schema, number.as_f64().unwrap_or_default(), walk),
            Value::Array(items) => self.check_items(schema, items, walk),
            Value::Object(fields) => self.check_fields(schema, fields, walk),
            Value::Null | Value::Bool(_) => {}
        }
        self.check_junctors(schema, value, walk);
    }

    fn check_text(&self, schema: &Map<String, Value>, text: &str, walk: &mut Walk<'_>) {
        let length = text.chars().count();
        check_count(schema, "Length", "characters", length, walk);
        let pattern = schema.get("pattern").and_then(Value::as_str);
        let compiled = pattern.and_then(|pattern| self.patterns.get(pattern)?.as_ref());
        if compiled.is_some_and(|compiled| !compiled.is_match(text)) {
            walk.misfit(format!("must match '{}'", pattern.unwrap_or_default()));
        }
    }

    fn check_items<'a>(&'a self, schema: &'a Map<String, Value>, items: &[Value], walk: &mut Walk<'a>) {
        check_count(schema, "Items", "items", items.len(), walk);
        if let Some(of_item) = schema.get("items") {
            for (index, item) in items.iter().enumerate() {
                walk.at(Segment::Index(index), |walk| self.check(of_item, item, walk));
            }
        }
    }

    fn check_fields<'a>(
        &'a self,
        schema: &'a Map<String, Value>,
        fields: &Map<String, Value>,
        walk: &mut Walk<'a>,
    ) {
        check_count(schema, "Properties", "properties", fields.len(), walk);
        let required = schema.get("required").and_then(Value::as_array);
        let known = schema.get("properties").and_then(Value::as_object);
        let names = required.map_or(0, Vec::len) + known.map_or(0, Map::len);
        if !take(&mut walk.work, names) {
            return;
        }
        for name in texts(schema.get("required")).filter(|name| !fields.contains_key(*name)) {
            walk.at(Segment::Field(name), |walk| walk.misfit("is required"));
        }
        for (name, of_field) in known.into_iter().flatten() {
            if let Some(value) = fields.get(name) {
                walk.at(Segment::Field(name), |walk| self.check(of_field, value, walk));
            }
        }
        if let Some(of_others @ Value::Object(_)) = schema.get("additionalProperties") {
            let others = fields.iter().filter(|(name, _)| !is_known(known, name));
            for (_, value) in others {
                walk.at(Segment::AnyKey, |walk| self.check(of_others, value, walk));
            }
        }
    }

    fn check_junctors<'a>(&'a self, schema: &'a Map<String, Value>, value: &Value, walk: &mut Walk<'a>) {
        let list = |name: &str| schema.get(name).and_then(Value::as_array);
        for part in list("allOf").into_iter().flatten() {
            self.check(part, value, walk);
        }
        if let Some(forms) = list("anyOf")
            && !forms.iter().any(|form| self.fits(form, value, walk))
        {
            walk.misfit("must match a schema in anyOf");
        }
        if let Some(forms) = list("oneOf")
            && forms.iter().filter(|form| self.fits(form, value, walk)).count() != 1
        {
            walk.misfit("must match exactly one schema in oneOf");
        }
        if let Some(form) = schema.get("not")
            && self.fits(form, value, walk)
        {
            walk.misfit("must not match the schema in not");
        }
    }
}

/// `min…` and `max…` of a count.
fn check_count(schema: &Map<String, Value>, of: &str, unit: &str, count: usize, walk: &mut Walk<'_>) {
    let bound = |which: &str| schema.get(&format!("{which}{of}")).and_then(Value::as_u64);
    let count = u64::try_from(count).unwrap_or(u64::MAX);
    if let Some(least) = bound("min").filter(|least| count < *least) {
        walk.misfit(format!("must have at least {least} {unit}"));
    }
    if let Some(most) = bound("max").filter(|most| count > *most) {
        walk.misfit(format!("must have at most {most} {unit}"));
    }
}

fn check_number(schema: &Map<String, Value>, number: f64, walk: &mut Walk<'_>) {
    let bound = |name: &str| schema.get(name).and_then(Value::as_f64);
    let rows = [
        ("minimum", "exclusiveMinimum", "greater", Ordering::Less),
        ("maximum", "exclusiveMaximum", "less", Ordering::Greater),
    ];
    for (name, exclusive, word, beyond) in rows {
        let Some(limit) = bound(name) else { continue };
        let is_exclusive = is_set(schema, exclusive);
        let order = number.partial_cmp(&limit);
        if order == Some(beyond) || (is_exclusive && order == Some(Ordering::Equal)) {
            let than = if is_exclusive { "" } else { " or equal to" };
            walk.misfit(format!("must be {word} than{than} {limit}"));
        }
    }
    if let Some(factor) = bound("multipleOf").filter(|factor| *factor > 0.0) {
        let times = number / factor;
        // Quotients of decimal fractions are rarely whole in binary.
        if (times - times.round()).abs() > 1e-9 * times.abs().max(1.0) {
            walk.misfit(format!("must be a multiple of {factor}"));
        }
    }
}

/// What the API server does before it looks at an object: fields that are `null` and may not be go, and defaults come. In lists
/// `null` stays.
fn fill_defaults(schema: &Value, value: &mut Value, work: &mut usize) {
    if !take(work, 1) {
        return;
    }
    match value {
        Value::Object(fields) => {
            let known = schema.get("properties").and_then(Value::as_object);
            if !take(work, known.map_or(0, Map::len)) {
                return;
            }
            for (name, of_field) in known.into_iter().flatten() {
                if fields.get(name).is_some_and(|value| is_dropped(of_field, value)) {
                    fields.remove(name);
                }
                let default = of_field.get("default").filter(|_| !fields.contains_key(name));
                if let Some(default) = default.filter(|default| take(work, size_of(default))) {
                    fields.insert(name.clone(), default.clone());
                }
                if let Some(value) = fields.get_mut(name) {
                    fill_defaults(of_field, value, work);
                }
            }
            if let Some(of_others @ Value::Object(_)) = schema.get("additionalProperties") {
                fields.retain(|name, value| is_known(known, name) || !is_dropped(of_others, value));
                let others = fields.iter_mut().filter(|(name, _)| !is_known(known, name));
                others.for_each(|(_, value)| fill_defaults(of_others, value, work));
            }
        }
        Value::Array(items) => {
            if let Some(of_item) = schema.get("items") {
                items
                    .iter_mut()
                    .for_each(|item| fill_defaults(of_item, item, work));
            }
        }
        _ => {}
    }
}

fn is_dropped(schema: &Value, value: &Value) -> bool {
    value.is_null() && schema.get("nullable") != Some(&Value::Bool(true))
}

/// Steps for looking at a text, or at the names of an object.
fn steps_of(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() / 64,
        Value::Object(fields) => fields.len(),
        _ => 0,
    }
}

/// Steps for a copy of a value.
fn size_of(value: &Value) -> usize {
    match value {
        Value::String(text) => 1 + text.len() / 16,
        Value::Array(items) => 1 + items.iter().map(size_of).sum::<usize>(),
        Value::Object(fields) => {
            let sizes = fields
                .iter()
                .map(|(name, value)| 1 + name.len() / 16 + size_of(value));
            1 + sizes.sum::<usize>()
        }
        _ => 1,
    }
}

fn compile_patterns(schema: &Value, patterns: &mut BTreeMap<String, Option<Regex>>) {
    match schema {
        Value::Object(fields) => {
            if let Some(Value::String(pattern)) = fields.get("pattern")
                && patterns.len() < MOST_PATTERNS
                && !patterns.contains_key(pattern)
            {
                let compiled = RegexBuilder::new(pattern).size_limit(PATTERN_BYTES).build();
                patterns.insert(pattern.clone(), compiled.ok());
            }
            fields
                .values()
                .for_each(|inner| compile_patterns(inner, patterns));
        }
        Value::Array(items) => items.iter().for_each(|inner| compile_patterns(inner, patterns)),
        _ => {}
    }
}

fn is_set(schema: &Map<String, Value>, name: &str) -> bool {
    schema.get(name) == Some(&Value::Bool(true))
}

fn is_known(properties: Option<&Map<String, Value>>, name: &str) -> bool {
    properties.is_some_and(|properties| properties.contains_key(name))
}

fn texts(list: Option<&Value>) -> impl Iterator<Item = &str> {
    let list = list.and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str)
}

fn is_of_type(value: &Value, kind: &str) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "number" => value.is_number(),
        "integer" => {
            value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0)
        }
        _ => true,
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Bool(_) => "boolean",
        Value::Number(_) if is_of_type(value, "integer") => "integer",
        other => go_compat::json::kind_of(other),
    }
}

/// Equal, whole numbers however they are written.
fn is_equal(a: &Value, b: &Value) -> bool {
    a == b || (a.is_number() && b.is_number() && a.as_f64() == b.as_f64())
}

#[cfg(test)]
mod tests;
