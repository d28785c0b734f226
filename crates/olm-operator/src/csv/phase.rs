//! The phases, under a shorter name.

pub use olm_api::v1alpha1::ClusterServiceVersionPhase as Phase;
