//! What tests outside of this crate (`tests/fuzz.rs`, `olm-testing`'s `both_operators`) and the bench of contents
//! (`examples/catalog_memory.rs`) drive the controllers with; nothing else may use it. The modules are named as those they stand for.

#![allow(missing_docs, reason = "documented where they are defined")]

pub use crate::bundle_unpack::UnpackError;
pub use crate::bundle_unpack::content::{BundleFile, UnpackedBundle, read_files};
pub use crate::bundle_unpack::unpacker::BundleSource;
pub use crate::catalog_source::connection::{ConnectionState, Connections, Endpoint};
pub use crate::grpc_catalog_reader::GrpcCatalogReader;
pub use crate::manifest::{BundleImageReference, Manifest};
pub use crate::snapshots::{CatalogReader, ContentState, Snapshots};
pub use olm_registry::connection::{Dial, Dialled};

pub mod annotation {
    pub use crate::annotation::*;
}

pub mod object {
    pub use crate::object::{kind, map_mut, name};
}

pub mod bundle_unpack {
    pub use crate::bundle_unpack::config_map::decode;
    pub use crate::bundle_unpack::preflight::check;
}

pub mod catalog_source {
    pub use crate::catalog_source::address::shown_address;
    pub use crate::catalog_source::decide::decide;
    pub use crate::catalog_source::image_template::resolve_template;
    pub use crate::catalog_source::observed::Observed;
    pub use crate::catalog_source::pod::PodSettings;
    pub use crate::catalog_source::polling::schedule;
    pub use crate::catalog_source::source::parse_source;
    pub use crate::catalog_source::status::compose;
    pub use crate::stores::config_maps::ConfigMapState;
}

pub mod install_plan {
    pub use crate::install_plan::custom_resources::{CheckRequest, CheckState};
    pub use crate::install_plan::decide::decide;
    pub use crate::install_plan::observe::{NoObject, Observed, Reads, observe};
    pub use crate::install_plan::status::status;
    pub use crate::install_plan::steps::plan_steps;
    pub use crate::pruning::prune;
}

pub mod crd_upgrade {
    pub use crate::install_plan::crd_upgrade::{
        check_stored_versions, installed_alongside, is_established, merged, note_installed_alongside,
    };
}

pub mod resolution {
    pub use crate::resolution::cluster_fit::{Cluster, obstacles};
    pub use crate::resolution::group_settings::read;
    pub use crate::resolution::input::{installed_csv, resolver_subscription};
}

pub mod subscription {
    pub use crate::subscription::{
        Facts, NamespaceState, ResolutionOutcome, compose, is_worth_writing, settle,
    };
}
