//! Reads an object field by field and keeps the remaining fields.

use go_compat::json::{self, kind_of};
use serde_json::{Map, Value};

use super::Unquoted;
use crate::base64;

/// An object being read. Field names match case-insensitively.
pub(super) struct FieldReader {
    map: Map<String, Value>,
}

impl FieldReader {
    pub(super) fn new(map: Map<String, Value>) -> Self {
        Self { map }
    }

    /// Returns any JSON; null if absent.
    pub(super) fn any(&mut self, name: &str) -> Value {
        if let Some(value) = self.map.remove(name) {
            return value;
        }
        let mut keys = self.map.keys();
        let key = keys.find(|key| key.eq_ignore_ascii_case(name)).cloned();
        key.and_then(|key| self.map.remove(&key)).unwrap_or_default()
    }

    /// Returns a text; empty if absent or null.
    pub(super) fn text(&mut self, name: &str) -> Result<String, FieldError> {
        match self.any(name) {
            Value::Null => Ok(String::new()),
            Value::String(text) => Ok(text),
            other => Err(mismatch(name, "a string", &other)),
        }
    }

    /// Returns true if there is such a field.
    pub(super) fn has(&self, name: &str) -> bool {
        json::field(&self.map, name).is_some()
    }

    /// Returns bytes as base64, in canonical form: line breaks are dropped.
    pub(super) fn base64(&mut self, name: &str) -> Result<String, FieldError> {
        let bytes = base64::decode(&self.text(name)?).map_err(|reason| format!("{name}: {reason}"))?;
        Ok(base64::encode(bytes))
    }

    /// Returns a list of texts.
    pub(super) fn texts(&mut self, name: &str) -> Result<Vec<String>, FieldError> {
        self.items(name)?
            .into_iter()
            .enumerate()
            .map(|(index, item)| match item {
                Value::Null => Ok(String::new()),
                Value::String(text) => Ok(text),
                other => Err(mismatch(&format!("{name}[{index}]"), "a string", &other)),
            })
            .collect()
    }

    /// Returns a list of objects.
    pub(super) fn list<T>(
        &mut self,
        name: &str,
        read: impl Fn(&mut FieldReader) -> Result<T, FieldError>,
    ) -> Result<Vec<T>, FieldError> {
        self.items(name)?
            .into_iter()
            .enumerate()
            .map(|(index, item)| {
                let at = format!("{name}[{index}]");
                match item {
                    Value::Null => read(&mut FieldReader::new(Map::new())),
                    Value::Object(map) => read(&mut FieldReader::new(map)).map_err(|error| error.within(&at)),
                    other => Err(mismatch(&at, "an object", &other)),
                }
            })
            .collect()
    }

    /// Returns an object; `None` if absent or null.
    pub(super) fn object<T>(
        &mut self,
        name: &str,
        read: impl Fn(&mut FieldReader) -> Result<T, FieldError>,
    ) -> Result<Option<T>, FieldError> {
        match self.any(name) {
            Value::Null => Ok(None),
            Value::Object(map) => read(&mut FieldReader::new(map))
                .map(Some)
                .map_err(|error| error.within(name)),
            other => Err(mismatch(name, "an object", &other)),
        }
    }

    fn items(&mut self, name: &str) -> Result<Vec<Value>, FieldError> {
        match self.any(name) {
            Value::Null => Ok(Vec::new()),
            Value::Array(items) => Ok(items),
            other => Err(mismatch(name, "an array", &other)),
        }
    }

    /// Returns the fields that have not been read.
    pub(super) fn rest(&mut self) -> Map<String, Value> {
        std::mem::take(&mut self.map)
    }
}

/// Error: an object cannot be read.
pub(super) struct FieldError {
    /// Path of the field, expected and found shape.
    pub(super) reason: String,
    /// Text that was written without quotes.
    pub(super) unquoted: Option<Unquoted>,
}

impl FieldError {
    fn within(mut self, place: &str) -> Self {
        self.reason = format!("{place}.{}", self.reason);
        self
    }
}

impl From<String> for FieldError {
    fn from(reason: String) -> Self {
        Self {
            reason,
            unquoted: None,
        }
    }
}

fn mismatch(name: &str, expected: &str, found: &Value) -> FieldError {
    FieldError {
        reason: format!("{name}: expected {expected}, found {}", kind_of(found)),
        unquoted: (expected == "a string")
            .then(|| Unquoted::of(name, found))
            .flatten(),
    }
}
