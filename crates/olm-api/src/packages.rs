//! `packages.operators.coreos.com/v1`: PackageManifest, served by the package-server, never stored.

mod package_manifest;

pub use package_manifest::*;

/// Group of what the package-server serves.
pub const GROUP: &str = "packages.operators.coreos.com";
/// Its version.
pub const VERSION: &str = "v1";
/// The one kind.
pub const KIND: &str = "PackageManifest";
/// Lists of it.
pub const LIST_KIND: &str = "PackageManifestList";
/// Its resource.
pub const RESOURCE: &str = "packagemanifests";
/// The same of one.
pub const SINGULAR: &str = "packagemanifest";
/// The picture of a package, which is a resource of its own.
pub const ICON: &str = "icon";

#[cfg(test)]
mod tests {
    use kube_core::Resource as _;

    use super::*;

    #[test]
    fn the_names_are_those_of_the_type() {
        assert_eq!(PackageManifest::group(&()), GROUP);
        assert_eq!(PackageManifest::version(&()), VERSION);
        assert_eq!(PackageManifest::kind(&()), KIND);
        assert_eq!(PackageManifest::plural(&()), RESOURCE);
        assert_eq!(format!("{KIND}List"), LIST_KIND);
    }
}
