//! Installing real operators, whose images cannot be had, and knowing beforehand what must come of it.
//!
//! # Expected flow
//! A [`catalog::Catalog`] says which bundles a Subscription walks through, [`bundle::Bundle`] reads them, and
//! [`expectation::derive`] says of each what its ClusterServiceVersion, InstallPlan or Subscription must end up saying.
//! [`stand_in::plan`] gives every operator image a stand-in. A [`journey::Journey`] then follows one Subscription through
//! what is seen in the cluster, and [`table`] prints what was expected and what was seen.
//!
//! # Guarantees
//! - What is expected comes from the bundle, the OperatorGroup and the cluster's own version and node, never from a run.
//! - A bundle whose outcome depends on anything else is refused with the reason, see [`expectation::Unpredictable`].

pub mod bundle;
pub mod catalog;
pub mod expectation;
pub mod journey;
pub mod pods;
pub mod stand_in;
pub mod table;
