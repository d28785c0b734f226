//! Aggregated API of PackageManifests: the packages in a cluster's catalogs, read only, stored nowhere.
//!
//! # Data flow
//! CatalogSources name the registries. `catalogs` reads each of them and builds its packages, which `index`
//! serves. `serving` accepts connections; `api` authenticates and authorizes callers, and answers from the
//! index.
//!
//! **Invariant:** the last complete content is served until a newer one has been read whole. **Invariant:**
//! nothing is written to the cluster, apart from reviews that ask the API server about a caller.

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
mod readiness;
mod rendering;
mod request;
pub mod run;
mod selectors;
mod serving;
mod stores;
#[cfg(test)]
mod test_env;
