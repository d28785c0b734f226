//! Takes out of objects and texts what is nobody else's business. Pure.
//!
//! By place: contents of Secrets and ConfigMaps, values of environment variables, what follows a flag that sounds like a secret, fields that do. By
//! form, in all texts: user info in URLs, tokens, keys, and what is assigned to a name that sounds like a secret. A text that is JSON
//! itself is taken as an object: manifests in plans and examples in annotations are.

use std::collections::BTreeMap;

use olm_api::labels;
use regex::{Captures, Regex};
use serde_json::{Map, Value};

/// What stands in place of what was taken out.
pub(super) const REDACTED: &str = "REDACTED";

/// Parts of names that sound like a secret.
const SECRETIVE: [&str; 15] = [
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "secret",
    "token",
    "credential",
    "apikey",
    "api_key",
    "api-key",
    "accesskey",
    "access_key",
    "privatekey",
    "private_key",
    "authorization",
];
/// Names of fields that sound so and hold the name of an object.
const REFERENCES: [&str; 4] = ["secretname", "secrets", "imagepullsecrets", "serviceaccounttoken"];
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

/// What was taken out, counted.
pub(super) struct Redactor {
    counts: BTreeMap<&'static str, usize>,
    forms: Vec<(Regex, &'static str)>,
}

impl Redactor {
    /// One that has taken out nothing.
    ///
    /// # Errors
    /// A pattern is wrong, which a test would have found.
    pub(super) fn new() -> anyhow::Result<Self> {
        let names = r"password|passwd|passphrase|pwd|secret|token|credential|api[_-]?key|access[_-]?key|private[_-]?key";
        let value = r#"(?:\\*"(?:[^"\\]|\\[^"])*\\*"|'[^']*'|[^\s"',;&}\]]+)"#;
        let forms = [
            (
                r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z)"
                    .to_owned(),
                REDACTED,
            ),
            (
                r#"(?i)\b([a-z][a-z0-9+.-]*://)[^\s/?#"'<>]*@"#.to_owned(),
                "${1}REDACTED@",
            ),
            (
                r"(?i)\b(bearer|basic)\s+[a-z0-9._~+/=-]{6,}".to_owned(),
                "${1} REDACTED",
            ),
            (r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_.-]+".to_owned(), REDACTED),
            (
                format!(r#"(?i)([\w.-]*(?:{names})[\w.-]*\\*["']?\s*[:=]\s*){value}"#),
                "${1}REDACTED",
            ),
            (
                format!(r#"(?i)(\bauth\\*["']?\s*[:=]\s*){value}"#),
                "${1}REDACTED",
            ),
        ];
        let forms = forms
            .into_iter()
            .map(|(form, with)| Ok((Regex::new(&form)?, with)));
        Ok(Self {
            counts: BTreeMap::new(),
            forms: forms.collect::<anyhow::Result<_>>()?,
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
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item, depth + 1)),
            Value::Object(fields) => {
                if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
                    self.metadata(metadata);
                }
                let kind = fields
                    .get("kind")
                    .and_then(Value::as_str)
                    .unwrap_or_default()
                    .to_owned();
                for (name, value) in fields.iter_mut() {
                    self.field(&kind, name, value, depth + 1);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn field(&mut self, kind: &str, name: &str, value: &mut Value, depth: usize) {
        match (kind, name, &mut *value) {
            ("Secret", "data" | "stringData", Value::Object(entries)) => {
                entries.values_mut().for_each(|entry| *entry = REDACTED.into());
                self.count("contents of Secrets");
            }
            ("ConfigMap", "data" | "binaryData", Value::Object(entries)) => {
                for entry in entries.values_mut() {
                    let bytes = entry.as_str().map_or(0, str::len);
                    *entry = format!("{REDACTED}, {bytes} bytes").into();
                }
                self.count("contents of ConfigMaps");
            }
            // A manifest in a plan. Only what can be read can be known to hold nothing.
            ("Secret" | "ConfigMap", "manifest", Value::String(text)) => {
                match serde_json::from_str::<Value>(text) {
                    Ok(mut manifest) => {
                        if let Some(fields) = manifest.as_object_mut() {
                            // What it says it is decides; what the step says decides where it says nothing.
                            fields.entry("kind").or_insert_with(|| kind.into());
                        }
                        self.value(&mut manifest, depth);
                        *text = manifest.to_string();
                    }
                    Err(_) => *value = self.taken("manifests that cannot be read"),
                }
            }
            (_, "env", Value::Array(variables)) => variables
                .iter_mut()
                .for_each(|variable| self.variable(variable, depth)),
            (_, "args" | "command", Value::Array(words)) => self.words(words),
            (_, _, Value::String(text)) if !text.is_empty() && is_secretive(name) => {
                *value = self.taken("fields that sound like a secret");
            }
            (_, _, Value::Array(items)) if is_secretive(name) => {
                for item in items {
                    match item {
                        Value::String(_) => *item = self.taken("fields that sound like a secret"),
                        item => self.value(item, depth),
                    }
                }
            }
            _ => self.value(value, depth),
        }
    }

    fn taken(&mut self, what: &'static str) -> Value {
        self.count(what);
        REDACTED.into()
    }

    fn variable(&mut self, variable: &mut Value, depth: usize) {
        let name = variable["name"].as_str().unwrap_or_default();
        let is_harmless = HARMLESS.contains(&name) || name.starts_with(HARMLESS_PREFIX);
        if let Some(Value::String(text)) = variable.get("value")
            && !text.is_empty()
            && !is_harmless
        {
            variable["value"] = self.taken("values of environment variables");
        }
        self.value(variable, depth);
    }

    /// Words of a command line: what follows a flag that sounds like a secret is one.
    fn words(&mut self, words: &mut [Value]) {
        let mut is_next = false;
        for word in words {
            let Value::String(text) = word else {
                continue;
            };
            let follows = std::mem::take(&mut is_next) && !text.starts_with("--");
            if follows {
                *text = REDACTED.to_owned();
                self.count("arguments");
                continue;
            }
            match text.split_once('=') {
                Some((flag, _)) if flag.starts_with('-') && is_secretive(flag) => {
                    *text = format!("{flag}={REDACTED}");
                    self.count("arguments");
                }
                _ => {
                    is_next = text.starts_with('-') && is_secretive(text);
                    *text = self.text(text);
                }
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
        let mut text = text.to_owned();
        let mut found = 0;
        for (form, with) in &self.forms {
            let replaced = form.replace_all(&text, |captures: &Captures<'_>| {
                found += 1;
                let mut to = String::new();
                captures.expand(with, &mut to);
                to
            });
            if let std::borrow::Cow::Owned(replaced) = replaced {
                text = replaced;
            }
        }
        if found > 0 {
            *self.counts.entry("places in texts").or_default() += found;
        }
        text
    }
}

fn is_secretive(name: &str) -> bool {
    let name = name.to_lowercase();
    !REFERENCES.contains(&name.as_str()) && SECRETIVE.iter().any(|part| name.contains(part))
}
