//! Takes out of objects and texts what is nobody else's business. Pure.
//!
//! By place: contents of Secrets and ConfigMaps, values of whatever has a name and a value, as environment variables have, what follows a flag that
//! sounds like a secret, and all in fields that do. By form, in all texts: user info in URLs, tokens, keys, and what is assigned to a name that
//! sounds like a secret. A text that is JSON itself is taken as an object: manifests in plans and examples in annotations are.

mod names;
mod texts;

use std::collections::BTreeMap;

use olm_api::labels;
use olm_api::names::is_dns1123_subdomain;
use serde_json::{Map, Value};

use self::names::{is_reference, is_reference_with, is_secretive};
use self::texts::Forms;

/// What stands in place of what was taken out.
pub(super) const REDACTED: &str = "REDACTED";

/// Environment variables that operators have, and that tell how they were installed.
const HARMLESS: [&str; 9] = [
    "WATCH_NAMESPACE",
    "OPERATOR_NAME",
    "OPERATOR_NAMESPACE",
    "OPERATOR_CONDITION_NAME",
    "POD_NAME",
    "POD_NAMESPACE",
    "OLM_LOG",
    "RUST_LOG",
    "RELEASE_VERSION",
];
/// How the names of others begin.
const HARMLESS_PREFIX: &str = "RELATED_IMAGE_";
/// Objects inside of texts inside of objects.
const MAX_DEPTH: usize = 64;

/// Fields of something that has a name and a value.
const VALUES: [&str; 2] = ["value", "values"];

/// What was taken out, counted.
pub(super) struct Redactor {
    counts: BTreeMap<&'static str, usize>,
    forms: Forms,
}

impl Redactor {
    /// One that has taken out nothing.
    ///
    /// # Errors
    /// A pattern is wrong, which a test would have found.
    pub(super) fn new() -> anyhow::Result<Self> {
        Ok(Self {
            counts: BTreeMap::new(),
            forms: Forms::new()?,
        })
    }

    /// How often what was taken out.
    pub(super) fn counts(&self) -> &BTreeMap<&'static str, usize> {
        &self.counts
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    /// An object as others may see it.
    pub(super) fn object(&mut self, object: &mut Value) {
        self.value(object, 0);
    }

    /// What nobody needs, and what repeats all of the object as it was applied.
    fn metadata(&mut self, metadata: &mut Map<String, Value>) {
        if metadata.remove("managedFields").is_some() {
            self.count("managedFields");
        }
        let annotations = metadata.get_mut("annotations").and_then(Value::as_object_mut);
        if annotations
            .is_some_and(|annotations| annotations.remove(labels::LAST_APPLIED_CONFIGURATION).is_some())
        {
            self.count("last applied configurations");
        }
    }

    fn value(&mut self, value: &mut Value, depth: usize) {
        if depth > MAX_DEPTH {
            *value = REDACTED.into();
            return;
        }
        match value {
            Value::String(text) => *text = self.nested(text, depth),
            Value::Array(items) => self.items(items, depth),
            Value::Object(fields) => self.fields(fields, depth),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn fields(&mut self, fields: &mut Map<String, Value>, depth: usize) {
        if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
            self.metadata(metadata);
        }
        let kind = fields.get("kind").and_then(Value::as_str).unwrap_or_default();
        let kind = kind.to_owned();
        let is_given = is_given(fields);
        for (name, value) in fields.iter_mut() {
            match is_given && VALUES.iter().any(|known| name.eq_ignore_ascii_case(known)) {
                true => self.take(value, "values of environment variables and the like"),
                false => self.field(&kind, name, value, depth + 1),
            }
        }
    }

    fn field(&mut self, kind: &str, name: &str, value: &mut Value, depth: usize) {
        match (kind, name, &mut *value) {
            ("Secret", "data" | "stringData", contents) => self.take(contents, "contents of Secrets"),
            ("ConfigMap", "data" | "binaryData", Value::Object(entries)) => {
                for entry in entries.values_mut() {
                    let bytes = entry.as_str().map_or(0, str::len);
                    *entry = format!("{REDACTED}, {bytes} bytes").into();
                }
                self.count("contents of ConfigMaps");
            }
            // A manifest in a plan. Only what can be read can be known to hold nothing.
            ("Secret" | "BundleSecret" | "ConfigMap", "manifest", Value::String(text)) => {
                match serde_json::from_str::<Value>(text) {
                    Ok(mut manifest) => {
                        self.manifest(kind, &mut manifest, depth);
                        *text = manifest.to_string();
                    }
                    Err(_) => {
                        *value = REDACTED.into();
                        self.count("manifests that cannot be read");
                    }
                }
            }
            (_, _, value) if is_secretive(name) && !refers(name, value) => {
                self.take(value, "fields that sound like a secret");
            }
            _ => self.value(value, depth),
        }
    }

    /// The object that a step of a plan brings. The step says of which kind it is, whatever the object says.
    fn manifest(&mut self, kind: &str, manifest: &mut Value, depth: usize) {
        let kind = match kind {
            "BundleSecret" => "Secret",
            kind => kind,
        };
        if let Value::Object(fields) = &mut *manifest {
            for name in ["data", "stringData", "binaryData"] {
                if let Some(contents) = fields.get_mut(name) {
                    self.field(kind, name, contents, depth);
                }
            }
        }
        self.value(manifest, depth);
    }

    /// Takes out every value, and leaves what the fields are called and what is no more than yes or no.
    fn take(&mut self, value: &mut Value, what: &'static str) {
        // No recursion: whoever wrote it says how deep it is.
        let mut left = vec![value];
        while let Some(value) = left.pop() {
            match value {
                Value::Null | Value::Bool(_) => {}
                Value::String(text) if text.is_empty() => {}
                Value::String(_) | Value::Number(_) => {
                    *value = REDACTED.into();
                    self.count(what);
                }
                Value::Array(items) => left.extend(items),
                Value::Object(fields) => left.extend(fields.values_mut()),
            }
        }
    }

    /// Items of a list. It may be a command line: what follows a flag that sounds like a secret is one.
    fn items(&mut self, items: &mut [Value], depth: usize) {
        let mut is_next = false;
        for item in items {
            let Value::String(text) = item else {
                is_next = false;
                self.value(item, depth + 1);
                continue;
            };
            let follows = is_next;
            // A flag that takes no value is followed by another one, which may.
            is_next = text.starts_with('-') && !text.contains('=') && is_secretive(text);
            match text.split_once('=') {
                _ if follows => {
                    *text = REDACTED.to_owned();
                    self.count("arguments");
                }
                Some((flag, _)) if is_flag(flag) && is_secretive(flag) => {
                    *text = format!("{flag}={REDACTED}");
                    self.count("arguments");
                }
                _ => *text = self.nested(text, depth),
            }
        }
    }

    /// A text that may be an object itself.
    fn nested(&mut self, text: &str, depth: usize) -> String {
        let is_object = text.trim_start().starts_with(['{', '[']);
        match is_object.then(|| serde_json::from_str::<Value>(text)) {
            Some(Ok(mut value)) => {
                self.value(&mut value, depth + 1);
                value.to_string()
            }
            _ => self.text(text),
        }
    }

    /// A text without what looks like a secret.
    pub(super) fn text(&mut self, text: &str) -> String {
        let (text, found) = self.forms.text(text);
        self.found(found);
        text
    }

    /// The same of a log, or of a report: what is said in one line ends with it.
    pub(super) fn lines(&mut self, text: &str) -> String {
        let (text, found) = self.forms.log(text);
        self.found(found);
        text
    }

    fn found(&mut self, count: usize) {
        if count > 0 {
            *self.counts.entry("places in texts").or_default() += count;
        }
    }
}

/// Whether a word may be the name of something that is assigned: `--token=`, `TOKEN=`.
fn is_flag(word: &str) -> bool {
    word.chars()
        .all(|letter| letter.is_alphanumeric() || "._-".contains(letter))
}

/// Whether the value of something with a name and a value is to be taken out: variables, headers and parameters are such.
fn is_given(fields: &Map<String, Value>) -> bool {
    let text = |wanted: &str| {
        let mut all = fields.iter();
        let found = all.find(|(name, _)| name.eq_ignore_ascii_case(wanted));
        found.and_then(|(_, value)| value.as_str())
    };
    match (text("name"), text("key")) {
        (Some(name), _) => !HARMLESS.contains(&name) && !name.starts_with(HARMLESS_PREFIX),
        // Keys are of labels and taints, too.
        (None, Some(key)) => is_secretive(key),
        (None, None) => false,
    }
}

/// Whether this is no secret but says where one is.
fn refers(name: &str, value: &Value) -> bool {
    match value {
        Value::String(text) => is_reference(name) && is_dns1123_subdomain(text),
        Value::Array(items) => is_reference(name) && items.iter().all(|item| refers(name, item)),
        Value::Object(fields) => is_reference_with(name, fields.keys()),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}
