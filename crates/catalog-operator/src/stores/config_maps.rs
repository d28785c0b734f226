//! The ConfigMaps that catalogs are made of.
//!
//! The first write to such a ConfigMap gives it an owner and a label, by which it is watched. Until then it is read live. Its
//! owners and a hash are kept: the pod that serves a catalog reads the content.

use std::borrow::Cow;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Api, Client, ResourceExt as _};
use olm_api::config_map_catalog::{KEYS, content_hash};
use olm_api::labels;
use olm_runtime::NamespacedName;
use olm_runtime::discovery::deadline;
use olm_runtime::store::{Projected, Projection, Store, StoreSet, Watch};

/// State of the ConfigMap of a catalog.
#[derive(Debug, Clone, PartialEq)]
pub enum ConfigMapState {
    /// The catalog uses none.
    NotNamed,
    /// It is there.
    Found(Version),
    /// There is none of the name.
    Missing,
    /// It could not be read, for this reason.
    Unread(String),
}

/// One version of a ConfigMap, without its content.
#[derive(Debug, Clone, PartialEq)]
pub struct Version {
    /// Its uid.
    pub uid: String,
    /// Its `resourceVersion`.
    pub resource_version: String,
    /// Hash of the catalog in it: other changes of the ConfigMap do not restart its pod.
    pub content_hash: String,
    /// Its owners; `None` for a ConfigMap that has no key of a catalog.
    pub owners: Option<Vec<OwnerReference>>,
    /// True if it has the label by which it is watched.
    pub is_watched: bool,
}

impl Projection for Version {
    type Object = ConfigMap;

    fn of(object: ConfigMap) -> Self {
        let text = |key: &str| {
            let text = object.data.as_ref().and_then(|data| data.get(key));
            // A node makes files of both.
            let binary = || object.binary_data.as_ref().and_then(|data| data.get(key));
            let bytes = text.map(String::as_bytes);
            bytes
                .or_else(|| binary().map(|bytes| bytes.0.as_slice()))
                .map(Cow::Borrowed)
        };
        let is_catalog = KEYS.iter().any(|key| text(key).is_some());
        Self {
            uid: object.uid().unwrap_or_default(),
            resource_version: object.resource_version().unwrap_or_default(),
            is_watched: object.labels().contains_key(labels::CATALOG_SOURCE),
            content_hash: content_hash(text),
            owners: is_catalog.then(|| object.metadata.owner_references.unwrap_or_default()),
        }
    }
}

/// The ConfigMaps of catalogs; a clone is another handle to the same.
#[derive(Clone)]
pub(crate) struct ConfigMaps {
    client: Client,
    /// Those with the label.
    pub store: Store<Projected<Version>>,
}

impl ConfigMaps {
    /// Registers the watch in `set`.
    pub(crate) fn register(set: &mut StoreSet, client: &Client) -> Self {
        Self {
            client: client.clone(),
            store: set.add_projected(Watch::new(client).label_exists(labels::CATALOG_SOURCE)),
        }
    }

    /// Returns the state of a ConfigMap, from the store or, without the label, from the API server.
    pub(crate) async fn find(&self, key: &NamespacedName) -> ConfigMapState {
        if let Some(found) = self.store.get_key(key) {
            return ConfigMapState::Found(Version::clone(&found));
        }
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), &key.namespace);
        match deadline(&format!("ConfigMap {key}"), api.get_opt(&key.name)).await {
            Ok(None) => ConfigMapState::Missing,
            Ok(Some(found)) => ConfigMapState::Found(Version::of(found)),
            Err(error) => ConfigMapState::Unread(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn hash(fields: &Value) -> String {
        let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "annotations": {"a": "b"}}});
        object
            .as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        Version::of(serde_json::from_value(object).unwrap()).content_hash
    }

    #[test]
    fn only_the_catalog_counts() {
        let empty = hash(&json!({}));
        let some = hash(&json!({"data": {"packages": "x"}}));
        assert_ne!(some, empty);
        assert_eq!(hash(&json!({"data": {"packages": "x", "other": "y"}})), some);
        assert_eq!(hash(&json!({"data": {"other": "y"}})), empty);
        // The folder in the pod has files of both.
        assert_eq!(hash(&json!({"binaryData": {"packages": "eA=="}})), some);
        let file = content_hash(|key| (key == "packages").then_some(Cow::Borrowed(b"x".as_slice())));
        assert_eq!(some, file);
    }
}
