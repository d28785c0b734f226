//! Stores of what a reader makes of an object while it is decoded.
//!
//! A watch decodes what it is sent before anybody can drop a part of it: a page of a list is a hundred whole objects. Here the
//! reader's function runs within the decoding of each object, so that of a page only what it returned is there, and besides it
//! what a store and its listeners need: names, uid, version.

use std::borrow::Cow;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::num::{NonZeroI64, NonZeroU64};
use std::ops::Deref;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::{DeserializeGuard, PartialObjectMeta};
use serde::de::{Deserialize, DeserializeOwned, Deserializer};
use serde_json::{Value, json};

use super::Stored;
use crate::NamespacedName;
use crate::change::{Object, ObjectState};
use crate::isolation;
use crate::uid::Uid;

/// What a reader keeps of each object of a kind.
pub trait Projection: Clone + Debug + Send + Sync + 'static {
    /// The object as it is decoded; [`PartialObjectMeta`] to be sent no more than metadata,
    /// [`DynamicObject`](kube::core::DynamicObject) for kinds that are known at run time only.
    type Object: Resource + Clone + Debug + DeserializeOwned + Send;

    /// Takes out of `object` what is kept. A panic in here makes the object unreadable and is told on it.
    fn of(object: Self::Object) -> Self;
}

/// Nothing but that the object is there: for who only has to hear of changes and to know which objects there are.
#[derive(Debug, Clone)]
pub struct Presence<K>(PhantomData<fn() -> K>);

impl<K: Stored> Projection for Presence<K> {
    type Object = PartialObjectMeta<K>;

    fn of(_: PartialObjectMeta<K>) -> Self {
        Self(PhantomData)
    }
}

/// What is kept of one object. A cluster can have tens of thousands of a kind, so that each byte in here counts.
#[derive(Debug, Clone)]
pub struct Projected<P> {
    /// Namespace and name, one behind the other.
    names: Box<str>,
    /// Bytes of the namespace.
    namespace: u32,
    is_deleting: bool,
    uid: Option<Uid>,
    /// The server begins to count at one, here and with generations.
    version: Option<NonZeroU64>,
    generation: Option<NonZeroI64>,
    value: P,
}

impl<P: Projection> Projected<P> {
    /// What is kept of `object`, as the store of a test would have it.
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
            generation: state.generation.and_then(NonZeroI64::new),
            uid: state.uid,
            value,
        }
    }

    /// Namespace and name of the object.
    pub fn key(&self) -> NamespacedName {
        NamespacedName::new(self.namespace(), self.name())
    }

    /// Namespace of the object, empty when it is cluster-scoped.
    pub fn namespace(&self) -> &str {
        self.both().0
    }

    /// Name of the object.
    pub fn name(&self) -> &str {
        self.both().1
    }

    fn both(&self) -> (&str, &str) {
        let end = usize::try_from(self.namespace).unwrap_or(usize::MAX);
        self.names.split_at_checked(end).unwrap_or(("", &self.names))
    }

    /// The object's uid, for the guard of a write.
    pub fn uid(&self) -> Option<String> {
        self.uid.as_ref().map(Uid::to_string)
    }

    /// True when the object is on its way out.
    pub fn is_deleting(&self) -> bool {
        self.is_deleting
    }

    /// The object's `resourceVersion`, for the guard of a write.
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
            generation: self.generation.map(NonZeroI64::get),
            is_deleting: self.is_deleting,
        }
    }
}

/// An object as its watch decodes it: what selects it and tells its versions, and what the projection made of it or why it
/// could not.
#[derive(Debug, Clone)]
pub(super) struct Item<P> {
    metadata: ObjectMeta,
    value: Result<P, String>,
}

impl<P: Projection> Item<P> {
    /// What is kept of an object that a write returned; none where that is not readable.
    pub(super) fn read(value: &Value) -> Option<Projected<P>> {
        if P::Object::metadata_api() {
            // A definition of a MiB would be copied several times, for its name.
            let metadata = json!({ "metadata": value.get("metadata")? });
            return Self::deserialize(metadata).ok()?.projected().ok();
        }
        Self::deserialize(value).ok()?.projected().ok()
    }

    /// # Errors
    /// When the object does not fit its type, or the projection panicked.
    pub(super) fn projected(self) -> Result<Projected<P>, String> {
        let value = self.value?;
        Ok(Projected::new(&self.metadata, value))
    }
}

impl<'de, P: Projection> Deserialize<'de> for Item<P>
where
    P::Object: Deserialize<'de>,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // One object that does not fit its type is reported and skipped, it never stops the watch.
        let guard = DeserializeGuard::<P::Object>::deserialize(deserializer)?;
        Ok(match guard.0 {
            Ok(object) => Self {
                metadata: needed(object.meta()),
                value: isolation::catch(|| P::of(object)).map_err(|panicked| panicked.to_string()),
            },
            Err(invalid) => Self {
                metadata: needed(&invalid.metadata),
                value: Err(invalid.error),
            },
        })
    }
}

/// What the watcher and the requirements of a watch look at.
fn needed(metadata: &ObjectMeta) -> ObjectMeta {
    ObjectMeta {
        namespace: metadata.namespace.clone(),
        name: metadata.name.clone(),
        uid: metadata.uid.clone(),
        resource_version: metadata.resource_version.clone(),
        generation: metadata.generation,
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
