//! Splits a solution into independent components, so that an unavailable bundle delays only its own component.

use std::collections::{BTreeMap, BTreeSet};

use olm_resolver::{DisjointSets, Operator, Solution, SubscriptionUpdate};

/// Bundles that go together because one requires another or one Subscription chose them, and that move a Subscription.
#[derive(Debug, Clone)]
pub(crate) struct Component {
    /// The bundles, by name.
    pub operators: Vec<Operator>,
    /// Subscriptions that move on; never empty.
    pub updates: Vec<SubscriptionUpdate>,
}

impl Component {
    /// Subscriptions that any bundle of the component is for.
    pub(crate) fn subscriptions(&self) -> BTreeSet<&str> {
        let served = self
            .operators
            .iter()
            .flat_map(|operator| &operator.subscriptions)
            .map(String::as_str);
        served
            .chain(self.updates.iter().map(|update| update.subscription.as_str()))
            .collect()
    }
}

/// Splits `solution`. Bundles that move no Subscription are left out, with the whole component: they are in a plan already, or were
/// removed by hand, and are not installed again (as upstream).
pub(crate) fn split(solution: &Solution) -> Vec<Component> {
    let operators = &solution.operators;
    let mut sets = DisjointSets::new(operators.len());
    let mut by_name: BTreeMap<&str, usize> = BTreeMap::new();
    let mut by_subscription: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, operator) in operators.iter().enumerate() {
        sets.join(*by_name.entry(&operator.entry.name).or_insert(index), index);
        for subscription in &operator.subscriptions {
            sets.join(*by_subscription.entry(subscription).or_insert(index), index);
        }
    }
    for (index, operator) in operators.iter().enumerate() {
        for holder in &operator.required_by {
            if let Some(holder) = by_name.get(holder.as_str()) {
                sets.join(*holder, index);
            }
        }
    }
    // The first bundle leads, so components come in the order of theirs.
    let mut components: BTreeMap<usize, Component> = BTreeMap::new();
    for (index, operator) in operators.iter().enumerate() {
        let component = components.entry(sets.root(index)).or_insert_with(|| Component {
            operators: Vec::new(),
            updates: Vec::new(),
        });
        let own = |update: &&SubscriptionUpdate| {
            operator.subscriptions.contains(&update.subscription)
                && *update.current_csv == *operator.entry.name
        };
        component
            .updates
            .extend(solution.updates.iter().filter(own).cloned());
        component.operators.push(operator.clone());
    }
    components
        .into_values()
        .filter(|component| !component.updates.is_empty())
        .collect()
}
