//! Errors of reading objects.

use std::io;

use olm_fbc::yaml;

/// Objects cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ObjectsError {
    /// A file cannot be read.
    #[error("cannot read {file}")]
    File {
        /// Its path, or `stdin`.
        file: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A file is not YAML or JSON.
    #[error("{file}")]
    Syntax {
        /// Its path, or `stdin`.
        file: String,
        /// The fault and its line.
        #[source]
        source: yaml::Error,
    },
    /// An object does not match its kind's schema.
    #[error("{object}: field `{field}`: {cause}")]
    Object {
        /// Its kind, namespace and name.
        object: String,
        /// The field, `.` for the whole.
        field: String,
        /// The fault.
        cause: String,
    },
    /// A document is not an object.
    #[error("{0} is not a Kubernetes object: it has no kind")]
    NoKind(String),
    /// A document is part of a catalog.
    #[error(
        "{0} is part of a catalog, not a Kubernetes object: pass the catalog's directory instead of a file of it"
    )]
    Blob(String),
    /// An object has no name.
    #[error("{kind} in {origin} has no name: set metadata.name")]
    NoName {
        /// Its kind.
        kind: String,
        /// Its position.
        origin: String,
    },
    /// There is nothing to plan for.
    #[error("the objects contain no Subscription; a plan needs the Subscriptions of a namespace")]
    NoSubscription,
    /// There is nothing to plan for in the requested namespace, nor in another.
    #[error(
        "no Subscription in namespace {0}, and none in another namespace of these objects: choose another namespace with --namespace"
    )]
    NoneInNamespace(String),
    /// It is not clear which namespace is meant.
    #[error("the objects have subscriptions in namespaces {0}: choose one with --namespace")]
    SeveralNamespaces(String),
    /// The namespace has no Subscription.
    #[error("no Subscription in namespace {namespace}: there are some in {known}")]
    NotInNamespace {
        /// The requested namespace.
        namespace: String,
        /// Namespaces with Subscriptions.
        known: String,
    },
}
