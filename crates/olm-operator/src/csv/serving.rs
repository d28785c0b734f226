//! The serving objects of a ClusterServiceVersion: certificates, Services, and the webhooks and APIServices
//! that lead there. Each module describes the wanted state of its object; [`crate::csv::install::serving`]
//! contains the writes.

pub(crate) mod api_service;
pub(crate) mod bundle;
pub(crate) mod component;
pub(crate) mod conversion;
pub(crate) mod delegation;
pub(crate) mod endpoint;
pub(crate) mod found;
pub(crate) mod objects;
pub(crate) mod pod;
pub(crate) mod rules;
pub(crate) mod webhook;

pub(crate) use olm_runtime::certificate;
