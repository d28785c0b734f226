//! Subscriptions that a contradiction stops though they take no part in it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::explain::api_text;
use crate::solver::{Constraint, ConstraintRef, VariableId};
use crate::universe::Universe;
use crate::variables::{Cause, Subject, Variables};

/// Subscriptions that are resolved together with a contradiction because of one thing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bystanders {
    /// Their names, in order.
    pub subscriptions: Vec<String>,
    /// What ties them to it, such as `package disk`.
    pub link: String,
}

/// Subscriptions among `members` that are not in the core: what keeps each from being served by itself, and of the others what
/// ties them to the core.
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

/// The constraint that says that a Subscription asks for something that is not there.
fn invalid(variables: &Variables<'_>, subscription: VariableId) -> Option<ConstraintRef> {
    let places = 0..variables.instance.constraints(subscription).len();
    let mut references = places.map(|constraint| ConstraintRef {
        variable: subscription,
        constraint,
    });
    references.find(|&reference| matches!(variables.cause(reference), Cause::SubscriptionInvalid { .. }))
}

/// For each variable the next one on a shortest way to the core.
fn towards_core(
    variables: &Variables<'_>,
    members: &[VariableId],
    core: &BTreeSet<VariableId>,
) -> BTreeMap<VariableId, VariableId> {
    let mut neighbours: BTreeMap<VariableId, Vec<VariableId>> = BTreeMap::new();
    for &member in members {
        for constraint in variables.instance.constraints(member) {
            let others: &[VariableId] = match constraint {
                Constraint::Mandatory | Constraint::Prohibited => &[],
                Constraint::Dependency(others) | Constraint::AtMost(_, others) => others,
                Constraint::Conflict(other) => std::slice::from_ref(other),
            };
            for &other in others {
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

/// The rule nearest to the core on the way there from `start`, or else the bundle.
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
    // What may be there once tells more than who would be there.
    rule.or(bundle).unwrap_or_else(|| "the same bundles".to_owned())
}
