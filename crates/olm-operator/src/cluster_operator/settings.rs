//! Subjects of the reports, from the command line.

use kube::ResourceExt;
use olm_api::{labels, v1alpha1::ClusterServiceVersion};

/// ClusterOperators that get reports. The default is none.
#[derive(Debug, Clone, Default)]
pub struct ReportSettings {
    /// Name of the ClusterOperator for OLM; empty for none.
    pub olm: String,
    /// Name of the ClusterOperator for package-server; empty for none.
    pub package_server: String,
    /// Namespace that OLM itself is installed in.
    pub namespace: String,
    /// Version of the cluster's release; empty if it is not configured.
    pub release: String,
}

impl ReportSettings {
    /// Name of the ClusterOperator for OLM.
    pub(crate) fn olm(&self) -> Option<&str> {
        Some(self.olm.as_str()).filter(|name| !name.is_empty())
    }

    /// Name of the ClusterOperator for package-server; `None` if it has the name of OLM's, which already has
    /// a writer.
    pub(crate) fn package_server(&self) -> Option<&str> {
        let name = Some(self.package_server.as_str());
        name.filter(|name| !name.is_empty() && *name != self.olm)
    }

    /// Names of all ClusterOperators with reports.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.olm().into_iter().chain(self.package_server())
    }

    /// True when the ClusterOperator of package-server reports this ClusterServiceVersion. Other namespaces
    /// are excluded, because any user who can write a ClusterServiceVersion there could otherwise report for
    /// the cluster.
    pub(crate) fn is_of_package_server(&self, csv: &ClusterServiceVersion) -> bool {
        let named = csv.labels().get(labels::CLUSTER_OPERATOR);
        csv.namespace().unwrap_or_default() == self.namespace
            && named.is_some_and(|name| Some(name.as_str()) == self.package_server())
    }
}
