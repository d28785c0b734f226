//! How objects are read: nulls, missing parts and objects written by people.
//!
//! Rule (API field map, section 13): `null` is accepted for every optional field and for lists, and means "not there".

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

/// Lets a struct that carries `#[serde(remote = "Self")]` be absent or `null`: both read as its default.
///
/// A custom resource's generated root has a mandatory `spec`, and serde hands a field that is missing altogether only to
/// types that ask for an option.
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

/// An object could not be read.
#[derive(Debug, thiserror::Error)]
#[error("failed to decode {object}: field `{path}`: {reason}")]
pub struct DecodeError {
    /// `Kind` and name of the object as far as they could be read.
    pub object: String,
    /// Path of the field that does not fit, `.` for the whole.
    pub path: String,
    /// What does not fit.
    pub reason: String,
}

/// Decodes an object as people write it into manifests, e.g. a ClusterServiceVersion from a bundle.
///
/// Labels and annotations whose value is `null` read as empty text, as they always have in clusters; everything else is
/// what plain deserialization does.
///
/// # Errors
/// [`DecodeError`] names object, field and what is wrong with it.
pub fn decode_manifest<T: DeserializeOwned>(mut manifest: Value) -> Result<T, DecodeError> {
    if let Some(metadata) = manifest.get_mut("metadata") {
        empty_text_for_nulls(metadata);
    }
    decode_at(&manifest, &describe(&manifest))
}

/// Decodes `value`, telling `object` and the path inside `value` when it does not fit.
pub(crate) fn decode_at<T: DeserializeOwned>(value: &Value, object: &str) -> Result<T, DecodeError> {
    serde_path_to_error::deserialize(value).map_err(|error| DecodeError {
        object: object.to_owned(),
        path: error.path().to_string(),
        reason: error.into_inner().to_string(),
    })
}

fn empty_text_for_nulls(metadata: &mut Value) {
    for field in ["labels", "annotations"] {
        if let Some(Value::Object(entries)) = metadata.get_mut(field) {
            for value in entries.values_mut().filter(|value| value.is_null()) {
                *value = Value::String(String::new());
            }
        }
    }
}

fn describe(manifest: &Value) -> String {
    let text = |pointer| manifest.pointer(pointer).and_then(Value::as_str).unwrap_or("?");
    format!("{} `{}`", text("/kind"), text("/metadata/name"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1alpha1::ClusterServiceVersion;
    use serde_json::json;

    #[test]
    fn null_annotations_read_as_empty_text() {
        let csv: ClusterServiceVersion = decode_manifest(json!({
            "apiVersion": "operators.coreos.com/v1alpha1",
            "kind": "ClusterServiceVersion",
            "metadata": {"name": "a.v1", "annotations": {"createdAt": null}, "creationTimestamp": null},
            "spec": {"displayName": "A", "install": {"strategy": "deployment"}},
        }))
        .unwrap();
        assert_eq!(csv.metadata.annotations.unwrap()["createdAt"], "");
    }

    #[test]
    fn error_names_object_field_and_cause() {
        let error = decode_manifest::<ClusterServiceVersion>(json!({
            "kind": "ClusterServiceVersion",
            "metadata": {"name": "a.v1"},
            "spec": {"displayName": "A", "installModes": [{"type": "OwnNamespace", "supported": "yes"}]},
        }))
        .unwrap_err();
        assert_eq!(
            error.to_string(),
            "failed to decode ClusterServiceVersion `a.v1`: field `spec.installModes[0].supported`: \
             invalid type: string \"yes\", expected a boolean"
        );
    }
}
