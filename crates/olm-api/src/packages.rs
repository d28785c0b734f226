//! `packages.operators.coreos.com/v1`: PackageManifest, served by the package-server, never stored.

mod package_manifest;

pub use package_manifest::*;

/// Group of the API that the package-server serves.
pub const GROUP: &str = "packages.operators.coreos.com";
/// Version of the API.
pub const VERSION: &str = "v1";
/// The only kind.
pub const KIND: &str = "PackageManifest";
/// Kind of its lists.
pub const LIST_KIND: &str = "PackageManifestList";
/// Plural resource name.
pub const RESOURCE: &str = "packagemanifests";
/// Singular resource name.
pub const SINGULAR: &str = "packagemanifest";
/// Subresource for the icon of a package.
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
