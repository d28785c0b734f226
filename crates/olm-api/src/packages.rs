//! `packages.operators.coreos.com/v1`: PackageManifest, served by the package-server, never stored.

mod package_manifest;

pub use package_manifest::*;
