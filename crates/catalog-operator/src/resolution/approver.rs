//! Who approves a component's plan. Pure.
//!
//! Components with the same approver share a plan, so a component that waits by policy delays no other.

use std::collections::BTreeSet;

use kube::ResourceExt;

use super::observed::{ComponentProgress, Observed};
use crate::upgrade_policy::{has_policy, needs_user};

/// Who approves a plan.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Approver {
    /// Nobody: the plan is created approved.
    Nobody,
    /// The controller of upgrade policies, by those of these Subscriptions.
    Policies(BTreeSet<String>),
    /// A user.
    User,
}

impl Approver {
    /// Returns the approver of a component's plan. One `Manual` Subscription without a policy makes all plans of the namespace wait for
    /// a user, or only its own with separate approval.
    pub(crate) fn of(observed: &Observed, component: &ComponentProgress) -> Self {
        let is_concerned =
            |name: &String| !observed.separate_approval || component.subscriptions.contains(name);
        let mut subscriptions = observed.subscriptions.iter();
        if subscriptions.any(|found| needs_user(found) && is_concerned(&found.name_any())) {
            return Self::User;
        }
        let has_policy = |name: &&String| observed.subscription(name).is_some_and(|found| has_policy(found));
        let names = component.subscriptions.iter().filter(has_policy);
        let names: BTreeSet<String> = names.cloned().collect();
        if names.is_empty() {
            Self::Nobody
        } else {
            Self::Policies(names)
        }
    }
}
