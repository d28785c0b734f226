//! `operators.coreos.com/v1`: OperatorGroup, Operator, OLMConfig.

mod olm_config;
mod operator;
mod operator_group;

/// `apiVersion` of these kinds.
pub const API_VERSION: &str = "operators.coreos.com/v1";

pub use olm_config::*;
pub use operator::*;
pub use operator_group::*;
