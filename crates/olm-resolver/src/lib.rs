//! Operator resolution: a problem in, a solution or an explanation out. No clock, no randomness, no IO; only
//! [`objects::read_file`] and [`RuntimeConstraint::read_file`] read a file, for the commands that get one.
//!
//! ```text
//! Problem ──▶ universe ──▶ variables ──▶ solver ──▶ Solution       what to install
//!             what there   constraints   one part ╲
//!             is to choose and causes    at a time ▶ Explanation    why a part cannot be resolved
//! ```
//!
//! [`resolve()`] is the one entry point. The answer depends on the content of the [`problem::Problem`] only,
//! not on the order of its parts. The rules are those of `docs/reference/resolution.md`.

pub mod advice;
mod bundle_id;
pub mod catalog;
pub mod cel;
pub mod chain;
pub mod cluster_fit;
mod disjoint_sets;
pub mod entry;
mod enumeration;
pub mod explain;
pub mod hold;
pub mod installed;
pub mod objects;
mod one_line;
pub mod plan;
pub mod policy;
pub mod predicate;
pub mod problem;
pub mod requirement;
mod resolve;
pub mod runtime_constraint;
mod simulate;
pub mod solution;
pub mod solver;
mod universe;
mod variables;
mod work;

pub use advice::{Advice, Advisor, Change, ChangeKind, FailedUpgrade, Fix, Harm};
pub use bundle_id::BundleId;
pub use catalog::{Catalog, CatalogKey, Snapshot};
pub use disjoint_sets::DisjointSets;
pub use explain::{Explanation, Failure, Hints, Lack, Reason, Tree};
pub use problem::{InstalledCsv, OperatorGroup, Problem, Subscription};
pub use resolve::{Resolution, ResolveError, resolve};
pub use runtime_constraint::RuntimeConstraint;
pub use solution::{Operator, Solution, SubscriptionUpdate};
pub use work::{MAX_PROOF, MAX_WORK, Work};
