//! Decoding of fields: nulls, missing parts, and errors that name object and path.
//!
//! `null` is accepted for every optional field and for lists, and means absent.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Reads a required field: `null` gives the type's default, as an absent field does through `#[serde(default)]`.
pub(crate) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

/// Reads an optional text that users, and examples, also write as a number.
pub(crate) fn text_or_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(match Option::<Value>::deserialize(deserializer)? {
        Some(Value::Number(number)) => Some(number.to_string()),
        Some(other) => Some(String::deserialize(other).map_err(serde::de::Error::custom)?),
        None => None,
    })
}

/// Allows a struct with `#[serde(remote = "Self")]` to be absent or `null`: both read as its default.
///
/// A custom resource's generated root has a mandatory `spec`. For a missing field serde calls only types that deserialize an
/// option.
macro_rules! absent_means_default {
    ($name:ident) => {
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Present($name);
                impl<'de> serde::Deserialize<'de> for Present {
                    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                        $name::deserialize(deserializer).map(Present)
                    }
                }
                let present = <Option<Present> as serde::Deserialize>::deserialize(deserializer)?;
                Ok(present.map_or_else($name::default, |present| present.0))
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                $name::serialize(self, serializer)
            }
        }
    };
}
pub(crate) use absent_means_default;

/// Error: an object could not be decoded.
#[derive(Debug, thiserror::Error)]
#[error("failed to decode {object}: field `{path}`: {reason}")]
pub struct DecodeError {
    /// `Kind` and name of the object as far as they could be read.
    pub object: String,
    /// Path of the field that does not decode, `.` for the whole object.
    pub path: String,
    /// Description of the mismatch.
    pub reason: String,
}

/// Decodes `value`; the error names `object` and the path inside `value`.
pub(crate) fn decode_at<T: DeserializeOwned>(value: &Value, object: &str) -> Result<T, DecodeError> {
    serde_path_to_error::deserialize(value).map_err(|error| DecodeError {
        object: object.to_owned(),
        path: error.path().to_string(),
        reason: error.into_inner().to_string(),
    })
}
