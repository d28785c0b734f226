//! Core Kubernetes objects inside ours, kept as written.

use std::marker::PhantomData;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::decode::{DecodeError, decode_at};

/// A core Kubernetes type inside one of ours, kept as the JSON it came as and decoded to `T` on demand.
///
/// There are two reasons. A Deployment spec that does not decode must be an error in the status of one ClusterServiceVersion, not
/// of the list it was read with. And a field of a newer Kubernetes than ours must survive a read-modify-write.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent, bound = "")]
pub struct Embedded<T> {
    raw: Value,
    typed: PhantomData<fn() -> T>,
}

impl<T> Embedded<T> {
    /// Wraps JSON as it is; it is checked only when it is decoded.
    pub fn from_raw(raw: Value) -> Self {
        Self {
            raw,
            typed: PhantomData,
        }
    }

    /// Returns the JSON as it came.
    pub fn raw(&self) -> &Value {
        &self.raw
    }
}

impl<T: DeserializeOwned> Embedded<T> {
    /// Decodes to the core type. `object` names the decoded object in the error: "deployment `manager`".
    ///
    /// A `null` anywhere is read as absent, and in labels, annotations and similar maps as empty text.
    ///
    /// # Errors
    /// [`DecodeError`] with `object` and the path of the field that does not fit.
    pub fn decode(&self, object: &str) -> Result<T, DecodeError> {
        let mut value = self.raw.clone();
        drop_nulls(&mut value);
        decode_at(&value, object)
    }
}

impl<T: Serialize> Embedded<T> {
    /// Encodes a core type.
    ///
    /// # Errors
    /// If `typed` has no JSON form, which happens for no core type.
    pub fn encode(typed: &T) -> Result<Self, serde_json::Error> {
        serde_json::to_value(typed).map(Self::from_raw)
    }
}

/// Decodes every item of a list; errors name `object` and the index.
///
/// # Errors
/// The first item that does not decode.
pub fn decode_all<T: DeserializeOwned>(items: &[Embedded<T>], object: &str) -> Result<Vec<T>, DecodeError> {
    items
        .iter()
        .enumerate()
        .map(|(index, item)| item.decode(&format!("{object}[{index}]")))
        .collect()
}

/// Removes object members that are `null`. Nulls in lists stay: removing one would move its neighbours.
pub fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

impl<T> Default for Embedded<T> {
    fn default() -> Self {
        Self::from_raw(Value::Object(serde_json::Map::new()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::apps::v1::DeploymentSpec;
    use k8s_openapi::api::core::v1::ResourceRequirements;
    use serde_json::json;

    #[test]
    fn keeps_what_the_type_does_not_know() {
        let raw = json!({"limits": {"cpu": 1}, "fromTheFuture": [null]});
        let embedded: Embedded<ResourceRequirements> = serde_json::from_value(raw.clone()).unwrap();
        assert_eq!(
            embedded.decode("resources").unwrap().limits.unwrap()["cpu"].0,
            "1"
        );
        assert_eq!(serde_json::to_value(&embedded).unwrap(), raw);
    }

    #[test]
    fn null_members_are_absent() {
        let raw =
            json!({"replicas": null, "selector": {"matchLabels": {"a": null}}, "template": {"spec": null}});
        let spec = Embedded::<DeploymentSpec>::from_raw(raw)
            .decode("deployment `manager`")
            .unwrap();
        assert_eq!(spec.replicas, None);
        assert_eq!(spec.template.spec, None);
    }

    #[test]
    fn error_names_object_and_path() {
        let raw = json!({"template": {"spec": {"containers": [{"name": "a", "env": [{"name": "N", "value": 1}]}]}}});
        let error = Embedded::<DeploymentSpec>::from_raw(raw)
            .decode("deployment `manager`")
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "failed to decode deployment `manager`: field `template.spec.containers[0].env[0].value`: \
             invalid type: integer `1`, expected a string"
        );
    }
}
