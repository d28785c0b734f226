//! Maps changed objects to copies to reconcile. No I/O.
//!
//! The status of an OperatorGroup lists the namespaces to copy to. A copy elsewhere is found because it exists.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::{ResourceExt, core::PartialObjectMeta};
use olm_api::{
    install_mode::NAMESPACE_ALL,
    v1::{OLMConfig, OperatorGroup},
};
use olm_runtime::{NamespacedName, store::Change};

use crate::{
    copied_csv::{CopyKey, decide::targets, observe::settles_in},
    csv_sketch::Sketch,
    stores::Stores,
};

pub(crate) type Keys = BTreeSet<CopyKey>;

fn copy(from: &str, name: &str, to: &str) -> Option<CopyKey> {
    copy_of(&from.into(), &name.into(), to)
}

/// Key of another copy of the same original.
fn copy_of(from: &Arc<str>, name: &Arc<str>, to: &str) -> Option<CopyKey> {
    (**from != *to).then(|| CopyKey {
        from: Arc::clone(from),
        name: Arc::clone(name),
        to: to.into(),
    })
}

/// Returns the copies affected by a ClusterServiceVersion that is, was or replaces a copy. If it is deleted,
/// these are the copies of all originals with its name.
///
/// `originals` finds the namespaces with an original of a name.
pub(crate) fn by_copy(change: &Change<Sketch>, originals: impl FnOnce(&str) -> Vec<String>) -> Keys {
    let (namespace, name) = (change.object().namespace(), change.object().name());
    let sources = |sketch: &Sketch| sketch.copied().map(|copied| copied.from.clone());
    let mut keys: Keys = change
        .versions()
        .filter_map(|sketch| copy(&sources(sketch)?, name, namespace))
        .collect();
    let frees_the_name = match change {
        Change::Applied { old, new } => old.as_ref().is_some_and(|old| sources(old) != sources(new)),
        Change::Deleted { .. } => true,
    };
    if frees_the_name {
        let wanting = originals(name).into_iter();
        keys.extend(wanting.filter_map(|from| copy(&from, name, namespace)));
    }
    keys
}

/// Names of the ClusterServiceVersions of a namespace that are not copies. They are read from the store that
/// reports originals, so that the change reported last finds the rest.
pub(crate) fn originals_in(stores: &Stores, namespace: &str) -> Vec<String> {
    let all = stores.csv_sketches.list_in(namespace);
    let originals = all.iter().filter(|sketch| sketch.original().is_some());
    originals.map(|sketch| sketch.name().to_owned()).collect()
}

/// Returns the namespaces with a ClusterServiceVersion of this name that is not a copy.
pub(crate) fn originals_called(stores: &Stores, name: &str) -> Vec<String> {
    let is_original = |sketch: &Sketch| sketch.name() == name && sketch.original().is_some();
    let originals = stores.csv_sketches.list_where(is_original);
    originals
        .iter()
        .map(|sketch| sketch.namespace().to_owned())
        .collect()
}

/// Returns the copies that exist of an original, and those in the current targets of its OperatorGroup. Without
/// exactly one group there are no targets.
fn copies(stores: &Stores, original: &NamespacedName) -> Keys {
    let is_copy = |sketch: &Sketch| {
        let copied = sketch.copied();
        copied.is_some_and(|copied| *copied.from == *original.namespace) && sketch.name() == original.name
    };
    let existing = stores.csv_sketches.list_where(is_copy);
    let mut namespaces: BTreeSet<String> = existing
        .iter()
        .map(|sketch| sketch.namespace().to_owned())
        .collect();
    if let [group] = stores.groups.list_in(&original.namespace).as_slice() {
        for target in targets(group) {
            if target == NAMESPACE_ALL {
                let all = stores.namespaces.list();
                namespaces.extend(all.iter().map(|namespace| namespace.name_any()));
            } else {
                namespaces.insert(target.to_owned());
            }
        }
    }
    let (from, name) = (original.namespace.as_str().into(), original.name.as_str().into());
    let keys = namespaces.iter();
    keys.filter_map(|to| copy_of(&from, &name, to)).collect()
}

/// Returns the copies of all originals in a namespace.
fn copies_from(stores: &Stores, namespace: &str) -> Keys {
    let originals = originals_in(stores, namespace).into_iter();
    originals
        .flat_map(|name| copies(stores, &NamespacedName::new(namespace, name)))
        .collect()
}

/// Returns all copies of an original that was created, deleted or changed in what its copies show.
pub(crate) fn by_original(change: &Change<Sketch>, stores: &Stores) -> Keys {
    let is_original = change.versions().any(|sketch| sketch.original().is_some());
    if !is_original {
        return Keys::new();
    }
    if let Change::Applied { old: Some(old), new } = change
        && ***old == ***new
        && old.uid() == new.uid()
        && old.is_deleting() == new.is_deleting()
    {
        return Keys::new();
    }
    copies(stores, &change.object().key())
}

/// Delay of the copies that [`by_original`] triggers, so that an install does not trigger all of them in each
/// phase.
pub(crate) fn delay(change: &Change<Sketch>, now: Timestamp) -> Duration {
    match change {
        Change::Applied { new, .. } => settles_in(new, now).unwrap_or_default(),
        Change::Deleted { .. } => Duration::ZERO,
    }
}

/// Returns the copies of an OperatorGroup's members. Those in former targets exist.
pub(crate) fn by_group(change: &Change<OperatorGroup>, stores: &Stores) -> Keys {
    if let Change::Applied { old: Some(old), new } = change
        && old.spec == new.spec
        && targets(old).eq(targets(new))
        && old.metadata.uid == new.metadata.uid
    {
        return Keys::new();
    }
    copies_from(stores, &change.object().namespace().unwrap_or_default())
}

/// Returns the copies in a namespace that was created, deleted or is being deleted.
pub(crate) fn by_namespace(change: &Change<PartialObjectMeta<Namespace>>, stores: &Stores) -> Keys {
    if let Change::Applied { old: Some(old), new } = change
        && old.metadata.deletion_timestamp == new.metadata.deletion_timestamp
        && old.metadata.uid == new.metadata.uid
    {
        return Keys::new();
    }
    let name = change.object().name_any();
    let sources = sources(stores, |target| target == NAMESPACE_ALL || target == name);
    let keys = sources.iter().flat_map(|from| {
        let members = originals_in(stores, from);
        let keys = members.iter().filter_map(|member| copy(from, member, &name));
        keys.collect::<Vec<_>>()
    });
    keys.collect()
}

/// Returns all copies of operators for all namespaces when copying was enabled or disabled.
pub(crate) fn by_config(change: &Change<OLMConfig>, stores: &Stores) -> Keys {
    let is_off = |config: &Arc<OLMConfig>| config.spec.copied_csvs_are_disabled();
    if let Change::Applied { old: Some(old), new } = change
        && is_off(old) == is_off(new)
    {
        return Keys::new();
    }
    let sources = sources(stores, |target| target == NAMESPACE_ALL);
    let keys = sources.iter().flat_map(|from| copies_from(stores, from));
    keys.collect()
}

/// Returns the namespaces with an OperatorGroup that has such a target.
fn sources(stores: &Stores, is_meant: impl Fn(&str) -> bool) -> BTreeSet<String> {
    let groups = stores.groups.list_where(|group| targets(group).any(&is_meant));
    groups.iter().filter_map(|group| group.namespace()).collect()
}
