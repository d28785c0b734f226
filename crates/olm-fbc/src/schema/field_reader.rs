//! Taking an object apart field by field; what is left over is kept.

use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::{DecodeError, Engine as _, alphabet};
use go_compat::json::kind_of;
use serde_json::{Map, Value};

/// Padded, and bits that encode nothing may have any value, as Go's decoder has it.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

/// An object being read. Field names match without regard to case.
pub(super) struct FieldReader {
    map: Map<String, Value>,
}

impl FieldReader {
    pub(super) fn new(map: Map<String, Value>) -> Self {
        Self { map }
    }

    fn field(&mut self, name: &str) -> Value {
        if let Some(value) = self.map.remove(name) {
            return value;
        }
        let Some(key) = self
            .map
            .keys()
            .find(|key| key.eq_ignore_ascii_case(name))
            .cloned()
        else {
            return Value::Null;
        };
        self.map.remove(&key).unwrap_or_default()
    }

    /// Any JSON, null when absent.
    pub(super) fn any(&mut self, name: &str) -> Value {
        self.field(name)
    }

    /// Text, empty when absent or null.
    pub(super) fn text(&mut self, name: &str) -> Result<String, String> {
        match self.field(name) {
            Value::Null => Ok(String::new()),
            Value::String(text) => Ok(text),
            other => Err(mismatch(name, "a string", &other)),
        }
    }

    /// Whether there is such a field.
    pub(super) fn has(&self, name: &str) -> bool {
        self.map.contains_key(name) || self.map.keys().any(|key| key.eq_ignore_ascii_case(name))
    }

    /// Bytes as base64, in the one form that encoding them gives: line breaks are dropped.
    pub(super) fn base64(&mut self, name: &str) -> Result<String, String> {
        let mut text = self.text(name)?;
        text.retain(|char| char != '\n' && char != '\r');
        let bytes = BASE64.decode(&text).map_err(|error| {
            let at = match error {
                DecodeError::InvalidByte(at, _) | DecodeError::InvalidLastSymbol(at, _) => at,
                DecodeError::InvalidLength(_) | DecodeError::InvalidPadding => text.len(),
            };
            format!("{name}: illegal base64 data at input byte {at}")
        })?;
        Ok(BASE64.encode(bytes))
    }

    /// A list of texts.
    pub(super) fn texts(&mut self, name: &str) -> Result<Vec<String>, String> {
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

    /// A list of objects.
    pub(super) fn list<T>(
        &mut self,
        name: &str,
        read: impl Fn(&mut FieldReader) -> Result<T, String>,
    ) -> Result<Vec<T>, String> {
        self.items(name)?
            .into_iter()
            .enumerate()
            .map(|(index, item)| {
                let at = format!("{name}[{index}]");
                match item {
                    Value::Null => read(&mut FieldReader::new(Map::new())),
                    Value::Object(map) => {
                        read(&mut FieldReader::new(map)).map_err(|reason| format!("{at}.{reason}"))
                    }
                    other => Err(mismatch(&at, "an object", &other)),
                }
            })
            .collect()
    }

    /// An object, `None` when absent or null.
    pub(super) fn object<T>(
        &mut self,
        name: &str,
        read: impl Fn(&mut FieldReader) -> Result<T, String>,
    ) -> Result<Option<T>, String> {
        match self.field(name) {
            Value::Null => Ok(None),
            Value::Object(map) => read(&mut FieldReader::new(map))
                .map(Some)
                .map_err(|reason| format!("{name}.{reason}")),
            other => Err(mismatch(name, "an object", &other)),
        }
    }

    fn items(&mut self, name: &str) -> Result<Vec<Value>, String> {
        match self.field(name) {
            Value::Null => Ok(Vec::new()),
            Value::Array(items) => Ok(items),
            other => Err(mismatch(name, "an array", &other)),
        }
    }

    /// Fields not taken so far.
    pub(super) fn rest(&mut self) -> Map<String, Value> {
        std::mem::take(&mut self.map)
    }
}

fn mismatch(name: &str, expected: &str, found: &Value) -> String {
    format!("{name}: expected {expected}, found {}", kind_of(found))
}
