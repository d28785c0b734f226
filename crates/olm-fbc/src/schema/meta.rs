//! The fields by which a document of any schema is found.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{BlobError, Unquoted};
use crate::did_you_mean::did_you_mean;

/// Maximum number of characters of an object in a message: enough to recognise it.
const EXCERPT_CHARS: usize = 100;

/// Schema, package and name of a document. Package and name are those it has at its top, and may be empty: a package has its name
/// only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// Name of the schema; never empty.
    pub schema: String,
    /// Package that it belongs to.
    pub package: String,
    /// Its name.
    pub name: String,
}

impl Meta {
    /// Reads the fields of a document, which may have any schema and any other fields.
    ///
    /// # Errors
    /// Not an object, no schema, keys that clash, or a value that is not a string.
    pub fn of(document: &Value) -> Result<Self, BlobError> {
        let map = match document {
            Value::Object(map) => map,
            Value::Null => {
                return Err(BlobError::NoSchema {
                    object: String::new(),
                    misspelt: None,
                    is_manifest: false,
                });
            }
            other => return Err(BlobError::NotAnObject(go_compat::json::kind_of(other))),
        };
        check_keys(map)?;
        let meta = Self {
            schema: meta_key(map, "schema")?,
            package: meta_key(map, "package")?,
            name: meta_key(map, "name")?,
        };
        if meta.schema.is_empty() {
            return Err(BlobError::NoSchema {
                object: excerpt(map),
                is_manifest: is_manifest(map),
                misspelt: map
                    .keys()
                    .find(|key| did_you_mean(key, ["schema"]).is_some())
                    .cloned(),
            });
        }
        Ok(meta)
    }
}

/// Returns the first characters of an object as text.
fn excerpt(map: &Map<String, Value>) -> String {
    let text = serde_json::to_string(map).unwrap_or_default();
    match text.char_indices().nth(EXCERPT_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn is_manifest(map: &Map<String, Value>) -> bool {
    let has = |key: &str| map.get(key).is_some_and(Value::is_string);
    has("apiVersion") && has("kind")
}

/// Checks that no two keys of a document differ only in case.
fn check_keys(map: &Map<String, Value>) -> Result<(), BlobError> {
    let mut spellings: BTreeMap<String, Vec<&String>> = BTreeMap::new();
    for key in map.keys() {
        spellings.entry(key.to_lowercase()).or_default().push(key);
    }
    match spellings.into_iter().find(|(_, keys)| keys.len() > 1) {
        None => Ok(()),
        Some((key, keys)) => Err(BlobError::DuplicateKeys {
            key,
            keys: keys.into_iter().cloned().collect(),
        }),
    }
}

/// Reads a field that, unlike others, must not be null.
fn meta_key(map: &Map<String, Value>, key: &'static str) -> Result<String, BlobError> {
    match map.iter().find(|(name, _)| name.eq_ignore_ascii_case(key)) {
        None => Ok(String::new()),
        Some((_, Value::String(text))) => Ok(text.clone()),
        Some((_, other)) => Err(BlobError::NotText {
            key,
            found: go_compat::json::kind_of(other),
            unquoted: Unquoted::of(key, other),
        }),
    }
}
