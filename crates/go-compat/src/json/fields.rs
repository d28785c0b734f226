//! Looks up object fields as Go's JSON decoder does.

use serde_json::{Map, Value};

/// Returns the JSON type of a value, for messages.
pub fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Returns the value of `name`: an exact match, else one that differs only in case.
pub fn field<'a>(map: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    map.get(name).or_else(|| {
        map.iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    })
}

/// An object with case-insensitive keys.
pub struct Fields<'a>(Option<&'a Map<String, Value>>);

impl<'a> Fields<'a> {
    /// Returns the fields of an object; `null` counts as an object without fields.
    ///
    /// # Errors
    /// The JSON type of a value that is not an object.
    pub fn of(value: &'a Value) -> Result<Self, String> {
        match value {
            Value::Object(map) => Ok(Self(Some(map))),
            Value::Null => Ok(Self(None)),
            other => Err(format!("expected an object, found {}", kind_of(other))),
        }
    }

    /// Does the same as [`field`].
    pub fn get(&self, name: &str) -> Option<&'a Value> {
        field(self.0?, name)
    }

    /// Returns a text; empty if absent or null.
    ///
    /// # Errors
    /// The field has another JSON type, which the error names.
    pub fn text(&self, name: &str) -> Result<String, String> {
        match self.get(name) {
            None | Some(Value::Null) => Ok(String::new()),
            Some(Value::String(text)) => Ok(text.clone()),
            Some(other) => Err(format!(
                "field {name}: expected a string, found {}",
                kind_of(other)
            )),
        }
    }
}
