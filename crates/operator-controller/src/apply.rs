//! Applying of bundles: revisions of a ClusterExtension and their objects.
//!
//! [`revisions`] decides whether an extension needs a new revision, and [`object_set`] applies the objects of each revision. The other
//! modules are the pure rules of both.

mod collision;
pub mod crd_safety;
mod digest;
pub mod managed;
pub mod object;
pub mod object_set;
pub mod packing;
pub mod phase;
mod probe;
pub mod revisions;
#[cfg(test)]
mod test_env;
mod validation;
