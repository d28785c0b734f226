//! What has to be allowed for a request to be answered.

use serde::Serialize;

/// What an API server is asked whether somebody may do it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub enum Attributes {
    /// Something with a resource.
    Resource {
        /// What.
        verb: &'static str,
        /// API group of the resource.
        group: &'static str,
        /// Version of the group.
        version: &'static str,
        /// Empty for all namespaces.
        namespace: String,
        /// Plural name.
        resource: String,
        /// Part of the resource, or empty.
        subresource: String,
        /// One object, or empty.
        name: String,
    },
    /// Something with a path.
    Path {
        /// The method in small letters.
        verb: String,
        /// The path.
        path: String,
    },
}
