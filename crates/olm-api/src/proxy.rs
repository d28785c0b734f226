//! Cluster-wide proxy settings, as on OpenShift: `proxies.config.openshift.io`, object `cluster`.

use serde::Deserialize;

/// Group of the kind.
pub const GROUP: &str = "config.openshift.io";
/// Version of the kind.
pub const VERSION: &str = "v1";
/// Kind of the object.
pub const KIND: &str = "Proxy";
/// Name of the CustomResourceDefinition.
pub const DEFINITION: &str = "proxies.config.openshift.io";
/// Name of the only object that is used.
pub const NAME: &str = "cluster";

/// Environment variables of containers, in the order of [`ProxyStatus::values`].
pub const VARIABLES: [&str; 3] = ["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"];

/// Effective proxy settings; the cluster derives them from the spec.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProxyStatus {
    /// URL for HTTP; empty for none.
    pub http_proxy: Option<String>,
    /// URL for HTTPS; empty for none.
    pub https_proxy: Option<String>,
    /// Hosts that are reached without the proxy, separated by commas.
    pub no_proxy: Option<String>,
}

impl ProxyStatus {
    /// Returns the values of [`VARIABLES`] that are set.
    pub fn values(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let values = [&self.http_proxy, &self.https_proxy, &self.no_proxy];
        VARIABLES
            .into_iter()
            .zip(values)
            .filter_map(|(name, value)| Some((name, value.as_deref().filter(|value| !value.is_empty())?)))
    }
}
