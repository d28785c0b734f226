//! Stores of projections, which are computed while an object is decoded.
//!
//! A watch decodes a list page of a hundred complete objects before any part can be dropped. Here the projection runs within the decoding
//! of each object. So of each page only the projections stay in memory, with the names, uid and version that a store and its listeners
//! need.

use std::borrow::Cow;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::num::NonZeroU64;
use std::ops::Deref;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::PartialObjectMeta;
use serde::de::{Deserialize, DeserializeOwned, Deserializer};
use serde_json::{Value, json};

use super::Stored;
use crate::NamespacedName;
use crate::change::{Object, ObjectState};
use crate::isolation;
use crate::uid::Uid;

/// Part that a reader keeps of each object of a kind.
pub trait Projection: Clone + Debug + Send + Sync + 'static {
    /// Type that is decoded; [`PartialObjectMeta`] to receive only metadata, [`DynamicObject`](kube::core::DynamicObject) for kinds known
    /// only at run time.
    type Object: Resource + Clone + Debug + DeserializeOwned + Send;

    /// Returns the part of `object` that is kept. A panic makes the object unreadable and is reported on it.
    fn of(object: Self::Object) -> Self;
}

/// Keeps only the existence of an object, for users that need changes and the list of names.
#[derive(Debug, Clone)]
pub struct Presence<K>(PhantomData<fn() -> K>);

impl<K: Stored> Projection for Presence<K> {
    type Object = PartialObjectMeta<K>;

    fn of(_: PartialObjectMeta<K>) -> Self {
        Self(PhantomData)
    }
}

/// Projection of one object with its identity. A cluster can have tens of thousands of a kind, so each byte counts.
#[derive(Debug, Clone)]
pub struct Projected<P> {
    /// Concatenated namespace and name.
    names: Box<str>,
    /// Length of the namespace in bytes.
    namespace: u32,
    is_deleting: bool,
    uid: Option<Uid>,
    /// Versions start at one.
    version: Option<NonZeroU64>,
    value: P,
}

impl<P: Projection> Projected<P> {
    /// Projects `object`, as the store of a test would have it.
    pub fn from_object(object: P::Object) -> Self {
        let metadata = needed(object.meta());
        Self::new(&metadata, P::of(object))
    }
}

impl<P> Projected<P> {
    fn new(metadata: &ObjectMeta, value: P) -> Self {
        let state = ObjectState::of(metadata);
        Self {
            names: [state.namespace, state.name].concat().into(),
            namespace: u32::try_from(state.namespace.len()).unwrap_or(u32::MAX),
            is_deleting: state.is_deleting,
            version: state.version.and_then(NonZeroU64::new),
            uid: state.uid,
            value,
        }
    }

    /// Returns namespace and name of the object.
    pub fn key(&self) -> NamespacedName {
        NamespacedName::new(self.namespace(), self.name())
    }

    /// Returns the namespace of the object; empty if it is cluster-scoped.
    pub fn namespace(&self) -> &str {
        self.both().0
    }

    /// Returns the name of the object.
    pub fn name(&self) -> &str {
        self.both().1
    }

    fn both(&self) -> (&str, &str) {
        let end = usize::try_from(self.namespace).unwrap_or(usize::MAX);
        self.names.split_at_checked(end).unwrap_or(("", &self.names))
    }

    /// Returns the object's uid, for the guard of a write.
    pub fn uid(&self) -> Option<String> {
        self.uid.as_ref().map(Uid::to_string)
    }

    /// True if the object is being deleted.
    pub fn is_deleting(&self) -> bool {
        self.is_deleting
    }

    /// Returns the object's `resourceVersion`, for the guard of a write.
    pub fn resource_version(&self) -> Option<String> {
        self.version.map(|version| version.to_string())
    }
}

impl<P> Deref for Projected<P> {
    type Target = P;

    fn deref(&self) -> &P {
        &self.value
    }
}

impl<P> Object for Projected<P> {
    fn names(&self) -> (&str, &str) {
        self.both()
    }

    fn state(&self) -> ObjectState<'_> {
        let (namespace, name) = self.both();
        ObjectState {
            namespace,
            name,
            uid: self.uid.clone(),
            version: self.version.map(NonZeroU64::get),
            is_deleting: self.is_deleting,
        }
    }
}

/// Keeps the whole object.
#[derive(Debug, Clone)]
pub(super) struct Whole<K>(pub(super) K);

impl<K: Stored> Projection for Whole<K> {
    type Object = K;

    fn of(object: K) -> Self {
        Self(object)
    }
}

/// Decoded object of a watch: the metadata for selection and versions, and the projection or its error. One that cannot be decoded is
/// reported and skipped; it never stops the watch.
///
/// It is read through [`Value`], by which objects are decoded elsewhere, too. So the code that decodes a kind exists once in the program,
/// which makes 2 MB of it, and an object is not copied in order to be decoded.
#[derive(Debug, Clone)]
pub(super) struct Item<P> {
    metadata: ObjectMeta,
    pub(super) value: Result<P, String>,
}

impl<P: Projection> Item<P> {
    /// Decodes an object that a write returned; `None` if it is no object.
    pub(super) fn of_written(value: &Value) -> Option<Self> {
        if P::Object::metadata_api() {
            // Only the metadata is copied, because a definition may be a MiB.
            let metadata = json!({ "metadata": value.get("metadata")? });
            return Self::of_json(&metadata).ok();
        }
        Self::of_json(value).ok()
    }

    /// # Errors
    /// If it is no JSON object with readable metadata.
    fn of_json(json: &Value) -> Result<Self, serde_json::Error> {
        match P::Object::deserialize(json) {
            Ok(object) => {
                let metadata = needed(object.meta());
                let value = isolation::catch(|| P::of(object));
                let value = value.map_err(|panicked| panicked.to_string());
                Ok(Self { metadata, value })
            }
            Err(error) => {
                let metadata = json.get("metadata").map(ObjectMeta::deserialize);
                Ok(Self {
                    metadata: metadata.transpose()?.unwrap_or_default(),
                    value: Err(error.to_string()),
                })
            }
        }
    }

    /// Returns the projection with its identity.
    ///
    /// # Errors
    /// If the object cannot be parsed as its type, or the projection panicked.
    pub(super) fn projected(self) -> Result<Projected<P>, String> {
        let value = self.value?;
        Ok(Projected::new(&self.metadata, value))
    }
}

impl<'de, P: Projection> Deserialize<'de> for Item<P> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::of_json(&Value::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// Returns the metadata that the watcher and the requirements of a watch use.
fn needed(metadata: &ObjectMeta) -> ObjectMeta {
    ObjectMeta {
        namespace: metadata.namespace.clone(),
        name: metadata.name.clone(),
        uid: metadata.uid.clone(),
        resource_version: metadata.resource_version.clone(),
        deletion_timestamp: metadata.deletion_timestamp.clone(),
        labels: metadata.labels.clone(),
        finalizers: metadata.finalizers.clone(),
        ..ObjectMeta::default()
    }
}

impl<P: Projection> Resource for Item<P> {
    type DynamicType = <P::Object as Resource>::DynamicType;
    type Scope = <P::Object as Resource>::Scope;

    fn kind(of: &Self::DynamicType) -> Cow<'_, str> {
        P::Object::kind(of)
    }
    fn group(of: &Self::DynamicType) -> Cow<'_, str> {
        P::Object::group(of)
    }
    fn version(of: &Self::DynamicType) -> Cow<'_, str> {
        P::Object::version(of)
    }
    fn plural(of: &Self::DynamicType) -> Cow<'_, str> {
        P::Object::plural(of)
    }
    fn metadata_api() -> bool {
        P::Object::metadata_api()
    }
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;

    use super::*;

    #[test]
    fn an_object_that_cannot_be_decoded_keeps_its_metadata() {
        let item = |pod: Value| serde_json::from_value::<Item<Whole<Pod>>>(pod).unwrap();
        let pod = item(json!({"metadata": {"name": "a", "namespace": "b"}, "spec": {"containers": "none"}}));
        assert_eq!(pod.meta().name.as_deref(), Some("a"));
        assert!(pod.value.unwrap_err().contains("invalid type: string"));
        let without = item(json!({"spec": {"containers": 1}}));
        assert_eq!(without.meta(), &ObjectMeta::default());
        let pod = item(json!({"metadata": {"name": "a"}}));
        assert_eq!(pod.value.unwrap().0.metadata.name.as_deref(), Some("a"));
    }
}
