//! What is resolved: objects of the cluster as the resolver takes them. Pure.

pub(crate) use olm_resolver::installed::mark_replaced;
pub use olm_resolver::objects::{installed_csv, resolver_subscription};
use olm_resolver::{CatalogKey, InstalledCsv, OperatorGroup, Subscription};

use crate::snapshots::Content;

/// All inputs of a resolution. Two equal inputs have equal results.
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
    /// True if there is anything to resolve; otherwise only deprecations are looked up.
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
    /// Its last readable content, if nothing can be installed from the catalog now: it is only reported.
    pub last: Option<Content>,
}
