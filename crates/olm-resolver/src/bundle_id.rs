//! Identity of bundles in explanations.

use std::fmt;
use std::sync::Arc;

use crate::catalog::CatalogKey;

/// A bundle of a catalog, or an installed operator, as a party to a contradiction.
///
/// Prints as upstream's identifier, and is ordered by that text: upstream's messages list bundles in this
/// order.
///
/// Copies share their texts: a contradiction may name the same bundle thousands of times.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BundleId(Arc<Texts>);

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Texts {
    identifier: String,
    csv: String,
    place: String,
}

impl BundleId {
    /// Returns the identity of a bundle in a channel of a catalog: `catalog/namespace/channel/name`.
    pub(crate) fn of_catalog(catalog: &CatalogKey, channel: &str, csv: &str) -> Self {
        let CatalogKey { name, namespace } = catalog;
        Self(Arc::new(Texts {
            identifier: format!("{name}/{namespace}/{channel}/{csv}"),
            csv: csv.to_owned(),
            place: format!("channel {channel} of catalog {catalog}"),
        }))
    }

    /// Returns the identity of an installed ClusterServiceVersion: `@existing/namespace//name`.
    pub(crate) fn of_installed(namespace: &str, csv: &str) -> Self {
        Self(Arc::new(Texts {
            identifier: format!("@existing/{namespace}//{csv}"),
            csv: csv.to_owned(),
            place: "installed".to_owned(),
        }))
    }

    /// Returns the name of the ClusterServiceVersion.
    pub fn csv(&self) -> &str {
        &self.0.csv
    }

    /// Returns the name and, in brackets, the origin, as `etcd.v1.0.0 (channel stable of catalog olm/cat)`.
    pub fn plain(&self) -> String {
        format!("{} ({})", self.0.csv, self.0.place)
    }
}

impl fmt::Display for BundleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.identifier)
    }
}
