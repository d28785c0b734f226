//! Names of the CustomResourceDefinition kind.

/// Kind of the definitions.
pub const KIND: &str = "CustomResourceDefinition";
/// `apiVersion` of definitions on Kubernetes 1.16 and later.
pub const API_VERSION: &str = "apiextensions.k8s.io/v1";
/// `apiVersion` of definitions that Kubernetes 1.22 and later reject.
pub const OLD_API_VERSION: &str = "apiextensions.k8s.io/v1beta1";
/// The version in [`API_VERSION`].
pub const VERSION: &str = "v1";
/// The version in [`OLD_API_VERSION`].
pub const OLD_VERSION: &str = "v1beta1";
