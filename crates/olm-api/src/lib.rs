//! Types, labels, conditions and API keys of the Operator Lifecycle Manager APIs.

pub mod condition;
pub mod labels;
