//! Attributes of a request that has to be authorized.

use std::borrow::Cow;

use serde::Serialize;

/// Attributes of an access review.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub enum Attributes {
    /// Request for a resource.
    Resource {
        /// Verb.
        verb: Cow<'static, str>,
        /// API group of the resource.
        group: Cow<'static, str>,
        /// Version of the group.
        version: &'static str,
        /// Namespace; empty for all namespaces.
        namespace: String,
        /// Plural name.
        resource: String,
        /// Subresource; empty for the resource itself.
        subresource: String,
        /// Name of the object; empty for all.
        name: String,
    },
    /// Request for a path.
    Path {
        /// HTTP method in lower case.
        verb: String,
        /// The path.
        path: String,
    },
}
