//! What is resolved: objects of the cluster as the resolver takes them. Pure.

pub(crate) use olm_resolver::installed::mark_replaced;
pub use olm_resolver::objects::{installed_csv, resolver_subscription};
use olm_resolver::{CatalogKey, InstalledCsv, OperatorGroup, Subscription};

use crate::snapshots::Content;

/// Everything a resolution depends on. Two equal inputs come to the same.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ResolutionInput {
    /// All Subscriptions.
    pub subscriptions: Vec<Subscription>,
    /// All ClusterServiceVersions.
    pub installed: Vec<InstalledCsv>,
    /// The OperatorGroup.
    pub operator_group: OperatorGroup,
    /// The catalogs.
    pub catalogs: Vec<CatalogInput>,
    /// Whether anything is to be resolved; else only deprecations are looked up.
    pub resolve: bool,
}

/// A catalog, with its content.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CatalogInput {
    /// Which one.
    pub key: CatalogKey,
    /// Its priority.
    pub priority: i32,
    /// Its content, or why nothing can be installed from it now.
    pub content: Result<Content, String>,
    /// What it had when it could last be read, if nothing can be installed from it: that is told.
    pub last: Option<Content>,
}
