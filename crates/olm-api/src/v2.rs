//! `operators.coreos.com/v2`: OperatorCondition, the stored version.

mod operator_condition;

pub use operator_condition::*;
