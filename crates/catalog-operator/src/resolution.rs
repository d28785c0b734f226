//! Resolution of namespaces: from Subscriptions, catalogs and installed operators to InstallPlans, and the status of
//! Subscriptions.
//!
//! # Expected flow
//! A reconcile looks at one namespace as a whole. Subscriptions that have no plan on its way are put to the resolver
//! together with the installed ClusterServiceVersions and the contents of the catalogs in reach. The bundles of the
//! solution are unpacked; when those of a component are there, an InstallPlan with all its steps is created, and the
//! Subscriptions it moves on are made to refer to it. The same reconcile composes and writes the status of every
//! Subscription that changed, see [`crate::subscription`] for why there is no other writer.
//!
//! # Guarantees
//! - An input is resolved once: while nothing of it changes, what it came to is kept.
//! - At most one plan is made for a resolution, also when the process ends between any two writes.
//! - A component that cannot be resolved or unpacked does not hold up the others; its Subscriptions say why, the others do not.
//! - A catalog that is only starting is waited for in silence.
//!
//! # Errors
//! Any reason that prevents the resolution of a namespace is a condition of its Subscriptions, even if upstream only logs it:
//! missing or several OperatorGroups, annotations that are no duration, a plan that the API server refuses.
//!
//! Rules: `docs/reference/resolution.md`.

pub(crate) mod approver;
pub(crate) mod choices;
pub(crate) mod cluster_fit;
pub(crate) mod components;
pub(crate) mod decide;
pub(crate) mod group_settings;
pub(crate) mod input;
pub(crate) mod memory;
pub(crate) mod observed;
pub(crate) mod outcome;
pub(crate) mod plan_object;
pub(crate) mod reconciler;
pub(crate) mod resolved;
pub(crate) mod runtime_constraints;
pub(crate) mod status;
pub(crate) mod triggers;
pub(crate) mod unpacking;

pub(crate) use reconciler::ResolutionReconciler;

#[cfg(test)]
mod tests;
