//! What the reports are about, as the command line says.

use kube::ResourceExt;
use olm_api::{labels, v1alpha1::ClusterServiceVersion};

/// Which ClusterOperators are reported to. The default reports to none.
#[derive(Debug, Clone, Default)]
pub struct ReportSettings {
    /// Name of the one for OLM; empty for none.
    pub olm: String,
    /// Name of the one for package-server; empty for none.
    pub package_server: String,
    /// Namespace that OLM itself is installed in.
    pub namespace: String,
    /// Version of the cluster's release; empty where nobody said so.
    pub release: String,
}

impl ReportSettings {
    /// Name of the ClusterOperator for OLM.
    pub(crate) fn olm(&self) -> Option<&str> {
        Some(self.olm.as_str()).filter(|name| !name.is_empty())
    }

    /// Name of the ClusterOperator for package-server. One that bears the name of OLM's has one writer, too.
    pub(crate) fn package_server(&self) -> Option<&str> {
        let name = Some(self.package_server.as_str());
        name.filter(|name| !name.is_empty() && *name != self.olm)
    }

    /// Names of all.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.olm().into_iter().chain(self.package_server())
    }

    /// Whether it is reported on in the ClusterOperator for package-server. Those of other namespaces are not: whoever may write one
    /// could speak for the cluster.
    pub(crate) fn is_of_package_server(&self, csv: &ClusterServiceVersion) -> bool {
        let named = csv.labels().get(labels::CLUSTER_OPERATOR);
        csv.namespace().unwrap_or_default() == self.namespace
            && named.is_some_and(|name| Some(name.as_str()) == self.package_server())
    }
}
