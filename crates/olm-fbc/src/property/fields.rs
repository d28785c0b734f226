//! Object fields looked up as Go's JSON decoder does it.

use serde_json::{Map, Value};

/// What kind of JSON a value is, for messages.
pub fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// An object whose keys match without regard to case.
pub struct Fields<'a>(Option<&'a Map<String, Value>>);

impl<'a> Fields<'a> {
    /// `null` counts as an object without fields.
    pub fn of(value: &'a Value) -> Result<Self, String> {
        match value {
            Value::Object(map) => Ok(Self(Some(map))),
            Value::Null => Ok(Self(None)),
            other => Err(format!("expected an object, found {}", json_kind(other))),
        }
    }

    /// The value of `name`: an exact match, else one that differs in case only.
    pub fn get(&self, name: &str) -> Option<&'a Value> {
        let map = self.0?;
        map.get(name).or_else(|| {
            map.iter()
                .find(|(key, _)| key.eq_ignore_ascii_case(name))
                .map(|(_, value)| value)
        })
    }

    /// Text, empty when absent or null.
    pub fn text(&self, name: &str) -> Result<String, String> {
        match self.get(name) {
            None | Some(Value::Null) => Ok(String::new()),
            Some(Value::String(text)) => Ok(text.clone()),
            Some(other) => Err(format!(
                "field {name}: expected a string, found {}",
                json_kind(other)
            )),
        }
    }
}
