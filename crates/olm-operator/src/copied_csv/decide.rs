//! Decides whether a copy is created, updated or deleted. No I/O.

use olm_api::{install_mode::NAMESPACE_ALL, v1::OperatorGroup, v1alpha1::ClusterServiceVersion};
use olm_runtime::plan::{Action, Plan, Requeue, Target};

use crate::{
    copied_csv::Observed,
    csv_sketch::{Original, Sketch, Stage},
    operator_group::targets::Selection,
};

/// Relation of the operators of a namespace to another namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Unknown for now: there is no OperatorGroup, there are several, or the only one has no targets in its
    /// status.
    Unknown,
    /// They work there, as in all namespaces.
    Everywhere,
    /// They work there.
    Named,
    /// They do not work there.
    Outside,
}

/// Requirement of an original for its copy in a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    /// The copy must exist and match the original.
    Make,
    /// If the copy exists it must match the original.
    Follow,
    /// No write for now.
    Rest,
    /// The copy must not exist.
    Collect,
}

/// The only write, if any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deed {
    Nothing,
    Create,
    /// Update of labels, annotations and spec.
    Content,
    Status,
    Delete,
}

/// Returns a plan of at most one write. A write of the copy triggers another reconcile, which writes the
/// status.
pub(crate) fn decide(observed: &Observed) -> Plan {
    let deed = deed(observed);
    let mut plan = Plan::default();
    match (deed, &observed.there, observed.settles_in) {
        (Deed::Nothing, ..) => {}
        (Deed::Delete, Some(copy), _) => plan.actions.push(delete(copy)),
        (_, _, Some(delay)) => {
            plan.requeue = Requeue::after(delay, "phase change of the original expected");
        }
        (deed, there, None) => {
            let write = observed.content.as_ref().and_then(|content| match (deed, there) {
                (Deed::Create, _) => Some(content.create(&observed.key.to)),
                (Deed::Content, Some(copy)) => Some(content.replace(copy)),
                (Deed::Status, Some(copy)) => Some(content.replace_status(copy)),
                _ => None,
            });
            plan.actions.extend(write);
        }
    }
    plan
}

/// Returns the needed write, without regard to how long the original has been in its phase.
pub(crate) fn deed(observed: &Observed) -> Deed {
    if !observed.namespace_takes {
        // The copy is deleted together with its namespace.
        return Deed::Nothing;
    }
    let wish = wish(observed);
    let Some(there) = &observed.there else {
        return if wish == Wish::Make {
            Deed::Create
        } else {
            Deed::Nothing
        };
    };
    let Some(copied) = there.copied().filter(|copied| *copied.from == *observed.key.from) else {
        // The name is taken by an operator that is installed there, or by the copy of another original.
        return Deed::Nothing;
    };
    match (wish, &observed.original) {
        _ if there.is_deleting() => Deed::Nothing,
        (Wish::Collect, _) if copied.is_proven => Deed::Delete,
        (Wish::Make | Wish::Follow, Some(original)) => difference(original, there),
        _ => Deed::Nothing,
    }
}

fn difference(original: &Sketch, copy: &Sketch) -> Deed {
    // A webhook of the cluster may change each write, so that the content never matches; the status is still
    // updated.
    if original.status != copy.status {
        Deed::Status
    } else if original.content != copy.content {
        Deed::Content
    } else {
        Deed::Nothing
    }
}

fn wish(observed: &Observed) -> Wish {
    let found = observed.original.as_ref();
    let Some((sketch, original)) = found.and_then(|sketch| Some((sketch, sketch.original()?))) else {
        return Wish::Collect;
    };
    let reach = reach(&observed.groups, &observed.key.to);
    match (reach, original.stage) {
        (Reach::Outside, _) | (_, Stage::Rival) => Wish::Collect,
        (Reach::Everywhere, _) if observed.is_switched_off => Wish::Collect,
        (_, Stage::Unseen) => Wish::Rest,
        (Reach::Unknown, _) | (_, Stage::Unfit) => Wish::Follow,
        // A copy shows that its original is being deleted, but no new copies are created then.
        _ if sketch.is_deleting() => Wish::Follow,
        _ if is_member(original, &observed.groups, &observed.key.from) => Wish::Make,
        _ => Wish::Rest,
    }
}

/// True when the annotations that a copy inherits name the group of the original.
fn is_member(original: &Original, groups: &[impl AsRef<OperatorGroup>], namespace: &str) -> bool {
    let names = groups.iter().map(|group| group.as_ref().metadata.name.as_ref());
    names.eq([original.group.as_ref()]) && original.group_namespace.as_deref() == Some(namespace)
}

/// Returns whether operators under these groups work in namespace `to`. `groups` are all groups of their
/// namespace.
pub(crate) fn reach(groups: &[impl AsRef<OperatorGroup>], to: &str) -> Reach {
    let group = match groups {
        [group] => group.as_ref(),
        // A group may be recreated at any moment, and deleting a copy deletes the objects it owns.
        _ => return Reach::Unknown,
    };
    let selects_by_label = match Selection::read(&group.spec) {
        Ok(selection) => matches!(selection, Selection::Labels(_)),
        Err(_) => return Reach::Unknown,
    };
    match targets(group).next() {
        Some(NAMESPACE_ALL) => Reach::Everywhere,
        Some(_) if targets(group).any(|target| target == to) => Reach::Named,
        // Only a selector may select nothing. Any other group has targets as soon as it is reconciled.
        None if !selects_by_label => Reach::Unknown,
        _ => Reach::Outside,
    }
}

/// Returns the namespaces that a group targets; `""` for all.
pub(crate) fn targets(group: &OperatorGroup) -> impl Iterator<Item = &str> {
    let namespaces = group.status.iter().flat_map(|status| &status.namespaces);
    namespaces.map(String::as_str)
}

fn delete(copy: &Sketch) -> Action {
    let target = Target::of::<ClusterServiceVersion>(copy.namespace(), copy.name());
    Action::delete(target, copy.uid())
}
