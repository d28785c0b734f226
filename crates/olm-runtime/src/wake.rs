//! Cause of a requeue: the object that changed, and whether the change requests something new.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use kube::core::GroupVersionKind;

use crate::change::{Change, Object};
use crate::key::NamespacedName;

/// Identity of an object of any kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId {
    /// API group, empty for the core group.
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Namespace and name.
    pub key: NamespacedName,
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.key)
    }
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<ObjectId>>> = const { RefCell::new(None) };
}

/// While this exists, keys that this thread adds to queues are requeued because of one change.
pub(crate) struct Cause {
    outer: Option<Arc<ObjectId>>,
}

impl Drop for Cause {
    fn drop(&mut self) {
        CURRENT.set(self.outer.take());
    }
}

/// Sets the cause while the listeners of a store of `kind` are called.
pub(crate) fn because_of<T: Object>(kind: &GroupVersionKind, change: &Change<T>) -> Cause {
    let wanted = is_request(change).then(|| {
        Arc::new(ObjectId {
            group: kind.group.clone(),
            kind: kind.kind.clone(),
            key: change.object().state().key(),
        })
    });
    Cause {
        outer: CURRENT.replace(wanted),
    }
}

/// Returns the object whose change causes the requeue, if the change requests something new. `None` for status changes and for requeues
/// without an object.
pub(crate) fn requested_by() -> Option<Arc<ObjectId>> {
    CURRENT.with_borrow(Clone::clone)
}

/// True if a change requests something new: an object was created, deleted or got another spec. Statuses and annotations that controllers
/// exchange are answers, which could loop forever. Changes of kinds without a generation always count.
fn is_request<T: Object>(change: &Change<T>) -> bool {
    let Change::Applied { old: Some(old), new } = change else {
        return true;
    };
    let (old, new) = (old.state(), new.state());
    old.uid != new.uid
        || old.is_deleting != new.is_deleting
        || old.generation != new.generation
        || new.generation.is_none()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn deployment(uid: &str, generation: Option<i64>) -> Arc<Deployment> {
        let mut object = Deployment::default();
        object.metadata.name = Some("a".to_owned());
        object.metadata.uid = Some(uid.to_owned());
        object.metadata.generation = generation;
        Arc::new(object)
    }

    #[test]
    fn a_status_is_no_request() {
        let applied = |old: Option<Arc<Deployment>>, new| is_request(&Change::Applied { old, new });
        let known = || Some(deployment("1", Some(1)));
        assert!(!applied(known(), deployment("1", Some(1))));
        assert!(applied(None, deployment("1", Some(1))));
        assert!(applied(known(), deployment("1", Some(2))));
        assert!(applied(known(), deployment("2", Some(1))));
        assert!(applied(Some(deployment("1", None)), deployment("1", None)));
        let mut leaving = Deployment::clone(&deployment("1", Some(1)));
        leaving.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        assert!(applied(known(), Arc::new(leaving)));
        let old = deployment("1", Some(1));
        assert!(is_request(&Change::Deleted { old }));
    }

    #[test]
    fn a_cause_ends_with_its_listeners() {
        let change = Change::Applied {
            old: None,
            new: deployment("1", Some(1)),
        };
        let kind = GroupVersionKind::gvk("apps", "v1", "Deployment");
        let cause = because_of(&kind, &change);
        assert_eq!(requested_by().unwrap().to_string(), "Deployment a");
        drop(cause);
        assert_eq!(requested_by(), None);
    }
}
