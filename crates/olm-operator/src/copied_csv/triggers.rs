//! Maps changed objects to copies to reconcile. No I/O.
//!
//! The status of an OperatorGroup lists the namespaces to copy to. Each change of it names the former and the
//! current targets. So a search for copies in other namespaces is only needed for originals without exactly
//! one group.

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

/// Lookups that `by_original` needs.
pub(crate) trait Places {
    /// The OperatorGroups of a namespace.
    fn groups_in(&self, namespace: &str) -> Vec<Arc<OperatorGroup>>;
    /// Names of all namespaces.
    fn namespaces(&self) -> Vec<String>;
    /// Namespaces with an object that is taken for a copy of this original.
    fn copies_of(&self, original: &NamespacedName) -> Vec<String>;
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

impl Places for Stores {
    fn groups_in(&self, namespace: &str) -> Vec<Arc<OperatorGroup>> {
        self.groups.list_in(namespace)
    }

    fn namespaces(&self) -> Vec<String> {
        let all = self.namespaces.list();
        all.iter().map(|namespace| namespace.name_any()).collect()
    }

    fn copies_of(&self, original: &NamespacedName) -> Vec<String> {
        let is_copy = |sketch: &Sketch| {
            let copied = sketch
                .copied()
                .filter(|copied| *copied.from == *original.namespace);
            copied.is_some() && sketch.name() == original.name
        };
        let copies = self.csv_sketches.list_where(is_copy);
        copies
            .iter()
            .map(|sketch| sketch.namespace().to_owned())
            .collect()
    }
}

/// Returns all copies of an original that was created, deleted or changed in what its copies show.
pub(crate) fn by_original(change: &Change<Sketch>, places: &impl Places) -> Keys {
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
    let original = change.object().key();
    let found = match places.groups_in(&original.namespace).as_slice() {
        [group] => expanded(targets(group), places),
        _ => places.copies_of(&original).into_iter().collect(),
    };
    keys_of(&original.namespace, &original.name, &found)
}

/// Delay of the copies that [`by_original`] triggers, so that an install does not trigger all of them in each
/// phase.
pub(crate) fn delay(change: &Change<Sketch>, now: Timestamp) -> Duration {
    match change {
        Change::Applied { new, .. } => settles_in(new, now).unwrap_or_default(),
        Change::Deleted { .. } => Duration::ZERO,
    }
}

fn expanded<'a>(targets: impl Iterator<Item = &'a str>, places: &impl Places) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for target in targets {
        if target == NAMESPACE_ALL {
            return places.namespaces().into_iter().collect();
        }
        names.insert(target.to_owned());
    }
    names
}

fn keys_of(from: &str, name: &str, namespaces: &BTreeSet<String>) -> Keys {
    let (from, name) = (from.into(), name.into());
    let keys = namespaces.iter();
    keys.filter_map(|to| copy_of(&from, &name, to)).collect()
}

/// Returns the copies of an OperatorGroup's members in its former and current targets.
pub(crate) fn by_group(change: &Change<OperatorGroup>, members: &[String], places: &impl Places) -> Keys {
    if let Change::Applied { old: Some(old), new } = change
        && old.spec == new.spec
        && targets(old).eq(targets(new))
        && old.metadata.uid == new.metadata.uid
    {
        return Keys::new();
    }
    let namespaces = expanded(change.versions().flat_map(|group| targets(group)), places);
    let from = change.object().namespace().unwrap_or_default();
    // A group with its first targets may replace a group with more targets, whose copies were kept.
    let is_first = matches!(change, Change::Applied { old: Some(old), .. } if targets(old).next().is_none());
    let keys = members.iter().flat_map(|name| {
        let mut keys = keys_of(&from, name, &namespaces);
        if is_first {
            let kept = places.copies_of(&NamespacedName::new(from.as_str(), name.as_str()));
            keys.extend(keys_of(&from, name, &kept.into_iter().collect()));
        }
        keys
    });
    keys.collect()
}

/// Returns the copies in a namespace that was created, deleted or is being deleted.
pub(crate) fn by_namespace(
    change: &Change<PartialObjectMeta<Namespace>>,
    groups: &[Arc<OperatorGroup>],
    members: impl Fn(&str) -> Vec<String>,
) -> Keys {
    if let Change::Applied { old: Some(old), new } = change
        && old.metadata.deletion_timestamp == new.metadata.deletion_timestamp
        && old.metadata.uid == new.metadata.uid
    {
        return Keys::new();
    }
    let name = change.object().name_any();
    let is_target =
        |group: &OperatorGroup| targets(group).any(|target| target == NAMESPACE_ALL || target == name);
    let sources: BTreeSet<String> = groups
        .iter()
        .filter(|group| is_target(group))
        .filter_map(|group| group.namespace())
        .collect();
    let keys = sources.iter().flat_map(|from| {
        let members = members(from);
        let keys = members.iter().filter_map(|member| copy(from, member, &name));
        keys.collect::<Vec<_>>()
    });
    keys.collect()
}

/// Returns all copies of operators for all namespaces when copying was enabled or disabled.
pub(crate) fn by_config(
    change: &Change<OLMConfig>,
    groups: &[Arc<OperatorGroup>],
    members: impl Fn(&str) -> Vec<String>,
    places: &impl Places,
) -> Keys {
    let is_off = |config: &Arc<OLMConfig>| config.spec.copied_csvs_are_disabled();
    if let Change::Applied { old: Some(old), new } = change
        && is_off(old) == is_off(new)
    {
        return Keys::new();
    }
    let namespaces = expanded([NAMESPACE_ALL].into_iter(), places);
    let global = groups
        .iter()
        .filter(|group| targets(group).any(|target| target == NAMESPACE_ALL));
    let keys = global.filter_map(|group| group.namespace()).flat_map(|from| {
        let members = members(&from);
        let keys = members.iter().map(|member| keys_of(&from, member, &namespaces));
        keys.flatten().collect::<Vec<_>>()
    });
    keys.collect()
}
