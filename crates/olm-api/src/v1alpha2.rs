//! `operators.coreos.com/v1alpha2`: OperatorGroup as served to old clients.

mod operator_group;

pub use operator_group::*;
