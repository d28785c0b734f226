//! Installs real operators whose images are unavailable, and predicts the results.
//!
//! # Expected flow
//! A [`catalog::Catalog`] returns the bundles that a Subscription walks through, and [`bundle::Bundle`] reads them.
//! [`expectation::derive`] returns the expected status of each bundle's ClusterServiceVersion, InstallPlan or Subscription.
//! [`stand_in::plan`] gives every operator image a stand-in. A [`journey::Journey`] then follows one Subscription by the observed
//! state of the cluster, and [`table`] prints the expected and the observed results.
//!
//! # Guarantees
//! - Expectations are derived from the bundle, the OperatorGroup and the cluster's own version and node, never from a run.
//! - A bundle whose result depends on anything else is rejected with the reason, see [`expectation::Unpredictable`].

pub mod bundle;
pub mod catalog;
pub mod expectation;
pub mod journey;
pub mod pods;
pub mod stand_in;
pub mod table;
