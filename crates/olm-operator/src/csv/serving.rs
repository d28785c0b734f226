//! The parts of what a ClusterServiceVersion serves with: certificates, Services, and the webhooks and APIServices that lead there.
//! Each says how its object should be; what is done about it stands in [`crate::csv::install::serving`].

pub(crate) mod api_service;
pub(crate) mod bundle;
pub(crate) mod certificate;
pub(crate) mod component;
pub(crate) mod conversion;
pub(crate) mod delegation;
pub(crate) mod endpoint;
pub(crate) mod found;
pub(crate) mod objects;
pub(crate) mod pod;
pub(crate) mod rules;
pub(crate) mod webhook;
