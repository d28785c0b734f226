//! Subscriptions that a contradiction stops although they take no part in it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::explain::api_text;
use crate::solver::{ConstraintRef, VariableId};
use crate::universe::Universe;
use crate::variables::{Cause, Subject, Variables};

/// Subscriptions that one thing connects to a contradiction, so that they are resolved together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bystanders {
    /// Their names, in order.
    pub subscriptions: Vec<String>,
    /// Description of the connection, such as `package disk`.
    pub link: String,
}

/// Returns the connections of Subscriptions among `members` that are not in the core. Subscriptions that
/// cannot be served by themselves are returned as constraints instead.
pub(super) fn find(
    universe: &Universe<'_>,
    variables: &Variables<'_>,
    members: &[VariableId],
    core: &[ConstraintRef],
) -> (Vec<ConstraintRef>, Vec<Bystanders>) {
    let taking_part: BTreeSet<VariableId> = core.iter().map(|reference| reference.variable).collect();
    let concerned = members.iter().filter(|member| !taking_part.contains(*member));
    let mut waiting: Vec<(VariableId, &str)> = concerned
        .filter_map(|&member| match variables.subject(member) {
            Subject::Subscription(subscription) => Some((member, subscription.name.as_str())),
            _ => None,
        })
        .collect();
    let mut alone = Vec::new();
    waiting.retain(|&(member, _)| match invalid(variables, member) {
        Some(reference) => {
            alone.push(reference);
            false
        }
        None => true,
    });
    if waiting.is_empty() {
        return (alone, Vec::new());
    }
    waiting.sort_by_key(|(_, name)| *name);
    let towards = towards_core(variables, members, &taking_part);
    let mut by_link: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (member, name) in waiting {
        let link = link(universe, variables, member, &towards);
        by_link.entry(link).or_default().push(name.to_owned());
    }
    let bystanders = by_link
        .into_iter()
        .map(|(link, subscriptions)| Bystanders { subscriptions, link });
    (alone, bystanders.collect())
}

/// Returns the constraint of a Subscription that refers to something missing.
fn invalid(variables: &Variables<'_>, subscription: VariableId) -> Option<ConstraintRef> {
    let places = 0..variables.instance.constraints(subscription).len();
    let mut references = places.map(|constraint| ConstraintRef {
        variable: subscription,
        constraint,
    });
    references.find(|&reference| matches!(variables.cause(reference), Cause::SubscriptionInvalid(_)))
}

/// Maps each variable to the next one on a shortest path to the core.
fn towards_core(
    variables: &Variables<'_>,
    members: &[VariableId],
    core: &BTreeSet<VariableId>,
) -> BTreeMap<VariableId, VariableId> {
    let mut neighbours: BTreeMap<VariableId, Vec<VariableId>> = BTreeMap::new();
    for &member in members {
        for constraint in variables.instance.constraints(member) {
            for &other in constraint.named() {
                neighbours.entry(member).or_default().push(other);
                neighbours.entry(other).or_default().push(member);
            }
        }
    }
    let mut towards: BTreeMap<VariableId, VariableId> = core.iter().map(|&v| (v, v)).collect();
    let mut queue: VecDeque<VariableId> = core.iter().copied().collect();
    while let Some(variable) = queue.pop_front() {
        for &neighbour in neighbours.get(&variable).into_iter().flatten() {
            if let std::collections::btree_map::Entry::Vacant(place) = towards.entry(neighbour) {
                place.insert(variable);
                queue.push_back(neighbour);
            }
        }
    }
    towards
}

/// Returns the rule nearest to the core on the path from `start`, or else the bundle.
fn link(
    universe: &Universe<'_>,
    variables: &Variables<'_>,
    start: VariableId,
    towards: &BTreeMap<VariableId, VariableId>,
) -> String {
    let (mut current, mut bundle, mut rule) = (start, None, None);
    loop {
        match variables.subject(current) {
            Subject::Subscription(_) => {}
            Subject::Bundle(entry) => bundle = Some(universe.identifier(*entry).plain()),
            Subject::Api(api) => rule = Some(format!("API {}", api_text(api))),
            Subject::Package(package) => rule = Some(format!("package {package}")),
        }
        match towards.get(&current) {
            Some(&next) if next != current => current = next,
            _ => break,
        }
    }
    // A rule that only one may be present explains more than the names of the bundles.
    rule.or(bundle).unwrap_or_else(|| "the same bundles".to_owned())
}
