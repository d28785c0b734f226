//! Aggregated API of PackageManifests: what the catalogs of a cluster offer, read only, stored nowhere.
//!
//! # Data flow
//! CatalogSources say where registries are; `catalogs` reads each and makes its packages, which `index` holds as they are served.
//! `serving` takes requests, `api` finds out who asks and whether they may, and answers from the index.
//!
//! **Invariant:** what was read last is served until something else was read whole.
//! **Invariant:** nothing is written to the cluster; the API server is asked who somebody is and what they may do.

pub mod age;
pub mod api;
pub mod args;
pub mod attributes;
pub mod catalogs;
pub mod certificates;
pub mod discovery;
pub mod failure;
pub mod front_proxy;
pub mod index;
mod json;
pub mod kube_reviewer;
pub mod limits;
pub mod media_type;
mod metrics;
pub mod openapi;
pub mod package_manifest;
pub mod pages;
pub mod readiness;
pub mod rendering;
pub mod request;
pub mod reviews;
pub mod run;
pub mod selectors;
pub mod serving;
mod stores;
#[cfg(test)]
mod test_env;
pub mod user;
