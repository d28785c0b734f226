//! Aggregated API of PackageManifests: what the catalogs of a cluster offer, read only, stored nowhere.
//!
//! # Data flow
//! CatalogSources say where registries are; `catalogs` reads each and makes its packages, which `index` holds as they are served.
//! `serving` takes requests, `api` finds out who asks and whether they may, and answers from the index.
//!
//! **Invariant:** what was read last is served until something else was read whole.
//! **Invariant:** nothing is written to the cluster; the API server is asked who somebody is and what they may do.

mod age;
mod api;
mod api_status;
pub mod args;
mod catalogs;
mod certificates;
mod discovery;
mod front_proxy;
mod index;
mod json;
mod limits;
mod media_type;
mod metrics;
mod openapi;
mod package_manifest;
mod pages;
pub mod program;
mod readiness;
mod rendering;
mod request;
pub mod run;
mod selectors;
mod serving;
mod stores;
#[cfg(test)]
mod test_env;
