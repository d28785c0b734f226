//! Object of a list or watch that may not be decodable. One such object is reported and skipped; it never stops the watch.
//!
//! As kube's `DeserializeGuard`, but read through [`serde_json::Value`], by which objects are decoded elsewhere, too. So the code that
//! decodes a kind exists once in the program, which makes 2 MB of it, and an object is not copied in order to be decoded.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::de::{Deserialize, DeserializeOwned, Deserializer};
use serde_json::Value;

/// An object, or what is known of one that cannot be decoded.
#[derive(Debug, Clone)]
pub(super) struct Guarded<K>(pub(super) Result<K, Invalid>);

/// An object that cannot be decoded.
#[derive(Debug, Clone)]
pub(super) struct Invalid {
    pub(super) metadata: ObjectMeta,
    pub(super) error: String,
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Guarded<K> {
    /// # Errors
    /// If it is no JSON object with readable metadata.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let error = match K::deserialize(&value) {
            Ok(object) => return Ok(Self(Ok(object))),
            Err(error) => error.to_string(),
        };
        let metadata = match value.get("metadata") {
            Some(metadata) => ObjectMeta::deserialize(metadata).map_err(serde::de::Error::custom)?,
            None => ObjectMeta::default(),
        };
        Ok(Self(Err(Invalid { metadata, error })))
    }
}

impl<K: Resource> Resource for Guarded<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(of: &Self::DynamicType) -> Cow<'_, str> {
        K::kind(of)
    }
    fn group(of: &Self::DynamicType) -> Cow<'_, str> {
        K::group(of)
    }
    fn version(of: &Self::DynamicType) -> Cow<'_, str> {
        K::version(of)
    }
    fn plural(of: &Self::DynamicType) -> Cow<'_, str> {
        K::plural(of)
    }
    fn meta(&self) -> &ObjectMeta {
        self.0.as_ref().map_or_else(|invalid| &invalid.metadata, K::meta)
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0
            .as_mut()
            .map_or_else(|invalid| &mut invalid.metadata, K::meta_mut)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_that_cannot_be_decoded_keeps_its_metadata() {
        let pod = json!({"metadata": {"name": "a", "namespace": "b"}, "spec": {"containers": "none"}});
        let pod: Guarded<Pod> = serde_json::from_value(pod).unwrap();
        assert_eq!(pod.meta().name.as_deref(), Some("a"));
        assert!(pod.0.unwrap_err().error.contains("invalid type: string"));
        let without: Guarded<Pod> = serde_json::from_value(json!({"spec": {"containers": 1}})).unwrap();
        assert_eq!(without.meta(), &ObjectMeta::default());
        let pod: Guarded<Pod> = serde_json::from_value(json!({"metadata": {"name": "a"}})).unwrap();
        assert_eq!(pod.0.unwrap().metadata.name.as_deref(), Some("a"));
    }
}
