//! Object fields looked up as Go's JSON decoder does it.

use serde_json::{Map, Value};

/// What kind of JSON a value is, for messages.
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

/// The value of `name`: an exact match, else one that differs in case only.
pub fn field<'a>(map: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    map.get(name).or_else(|| {
        map.iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    })
}

/// An object whose keys match without regard to case.
pub struct Fields<'a>(Option<&'a Map<String, Value>>);

impl<'a> Fields<'a> {
    /// The fields of an object; `null` counts as one without any.
    ///
    /// # Errors
    /// What stands there instead of an object.
    pub fn of(value: &'a Value) -> Result<Self, String> {
        match value {
            Value::Object(map) => Ok(Self(Some(map))),
            Value::Null => Ok(Self(None)),
            other => Err(format!("expected an object, found {}", kind_of(other))),
        }
    }

    /// As [`field`].
    pub fn get(&self, name: &str) -> Option<&'a Value> {
        field(self.0?, name)
    }

    /// Text, empty when absent or null.
    ///
    /// # Errors
    /// The field holds something else, which is named.
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
