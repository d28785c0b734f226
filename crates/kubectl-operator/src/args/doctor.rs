//! Flags of `doctor`.

use std::time::Duration;

use clap::Args as ClapArgs;

use super::ConnectionArgs;
use super::shared::{Format, duration};
use crate::global::Found;

/// `doctor`
#[derive(Debug, ClapArgs)]
pub(crate) struct DoctorArgs {
    /// Look at all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub all_namespaces: bool,
    /// Ask instead whether this OLM can take the place of upstream's, which runs here, and what would change
    ///
    /// Looks at all namespaces: whose OLM runs and by which flags, ClusterServiceVersions and InstallPlans that are on their way, catalogs,
    /// versions in which objects are stored, Deployments that somebody edited, certificates that end. The last line is the verdict:
    /// with errors it is "not yet". Nothing is written. How to move: docs/guides/move-from-upstream.md
    #[arg(long, conflicts_with = "namespace")]
    pub migration: bool,
    /// How to print what was found; wide names what is fine, too [default: for people]
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    pub output: Option<Format>,
    #[command(flatten)]
    pub reads: ReadArgs,
    #[command(flatten)]
    pub connection: ConnectionArgs,
}

/// Namespaces of OLM: the chart's values `namespace` and `catalog_namespace`, which are usually the same.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OlmNamespaces<'a> {
    /// Namespace in which OLM's programs run.
    pub olm: &'a str,
    /// Namespace whose catalogs every namespace may use.
    pub catalogs: &'a str,
}

impl ReadArgs {
    /// Returns OLM's namespaces: those of the flags, else those found in the cluster.
    pub fn namespaces<'a>(&'a self, found: &'a Found) -> OlmNamespaces<'a> {
        let catalogs = found.catalogs.as_str();
        OlmNamespaces {
            olm: self
                .olm_namespace
                .as_deref()
                .or(found.olm.as_deref())
                .unwrap_or(catalogs),
            catalogs,
        }
    }
}

/// What commands that read a whole cluster take.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct ReadArgs {
    /// Namespace whose catalogs every namespace may use [default: that of OLM's own catalogs, else olm]
    #[arg(long, value_name = "NAMESPACE")]
    pub global_catalog_namespace: Option<String>,
    /// Namespace in which OLM itself runs [default: that of catalog-operator]
    #[arg(long, value_name = "NAMESPACE")]
    pub olm_namespace: Option<String>,
    /// How long all reads may take, such as 90s or 5m; 0 waits forever. What was not read by then is told as not checked
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration)]
    pub timeout: Duration,
}
