//! Keys of objects in stores and queues.

use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::core::GroupVersionKind;
use kube::{Resource, ResourceExt};

/// Namespace and name of an object; the namespace is empty for cluster-scoped objects.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamespacedName {
    /// Namespace, empty for a cluster-scoped object.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
}

impl NamespacedName {
    /// Key of a namespaced object.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// Key of a cluster-scoped object.
    pub fn cluster(name: impl Into<String>) -> Self {
        Self {
            namespace: String::new(),
            name: name.into(),
        }
    }

    /// Key of `object`.
    pub fn from_object(object: &impl ResourceExt) -> Self {
        Self {
            namespace: object.namespace().unwrap_or_default(),
            name: object.name_any(),
        }
    }

    /// Keys of `objects`, as stores return them.
    pub fn of_all<'a, K: Resource + 'a, C: FromIterator<Self>>(
        objects: impl IntoIterator<Item = &'a Arc<K>>,
    ) -> C {
        objects
            .into_iter()
            .map(|object| Self::from_object(&**object))
            .collect()
    }
}

/// Returns a reference to an object for an Event about it. Without `uid` the Event is found by name only.
pub fn reference<K: Resource<DynamicType = ()>>(
    key: &NamespacedName,
    uid: Option<String>,
) -> ObjectReference {
    reference_of_kind(&kind_of::<K>(), key, uid)
}

/// Like [`reference()`], for a kind known only at run time.
pub fn reference_of_kind(
    kind: &GroupVersionKind,
    key: &NamespacedName,
    uid: Option<String>,
) -> ObjectReference {
    ObjectReference {
        api_version: Some(kind.api_version()),
        kind: Some(kind.kind.clone()),
        name: Some(key.name.clone()),
        namespace: (!key.namespace.is_empty()).then(|| key.namespace.clone()),
        uid,
        ..ObjectReference::default()
    }
}

/// Returns group, version and kind of a type.
pub(crate) fn kind_of<K: Resource<DynamicType = ()>>() -> GroupVersionKind {
    GroupVersionKind::gvk(&K::group(&()), &K::version(&()), &K::kind(&()))
}

/// True if the text can be a name in the path of a request. Manifests of users may contain any name. A text with a space, a slash or a
/// question mark is never the name of an object.
pub fn is_path_segment(name: &str) -> bool {
    const SPECIAL: &[u8] = b"/?#%\"<>\\^`{|}";
    let plain = |byte: u8| byte.is_ascii_graphic() && !SPECIAL.contains(&byte);
    !matches!(name, "" | "." | "..") && name.bytes().all(plain)
}

impl fmt::Display for NamespacedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            f.write_str(&self.name)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_stand_in_a_path_is_a_name() {
        for name in ["demo", "system:aggregate-to-view", "v1.example.com", "a_b~c"] {
            assert!(is_path_segment(name), "{name}");
        }
        for name in [
            "", ".", "..", "a b", "a/b", "a?b", "a#b", "a%2fb", "\u{e4}", "a\n",
        ] {
            assert!(!is_path_segment(name), "{name}");
        }
    }
}
