//! What is resolved: objects of the cluster as the resolver takes them. Pure.

pub(crate) use olm_resolver::installed::mark_replaced;
pub use olm_resolver::objects::{installed_csv, resolver_subscription};
use olm_resolver::{CatalogKey, InstalledCsv, OperatorGroup, Subscription};

use crate::snapshots::ContentId;

/// Everything a resolution depends on. Two equal inputs come to the same.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ResolutionInput {
    /// All Subscriptions.
    pub subscriptions: Vec<Subscription>,
    /// All ClusterServiceVersions.
    pub installed: Vec<InstalledCsv>,
    /// The OperatorGroup.
    pub operator_group: OperatorGroup,
    /// The catalogs, with priority and content or why there is none.
    pub catalogs: Vec<(CatalogKey, i32, Result<ContentId, String>)>,
    /// Whether anything is to be resolved; else only deprecations are looked up.
    pub resolve: bool,
}
