//! Flags of `doctor`.

use std::time::Duration;

use clap::Args as ClapArgs;

use super::ConnectionArgs;
use super::shared::{Format, duration};
use crate::global::Found;

/// `doctor`
#[derive(Debug, ClapArgs)]
pub(crate) struct DoctorArgs {
    /// Check all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub all_namespaces: bool,
    /// Check instead whether this OLM can replace upstream's OLM in the cluster, and what would change
    ///
    /// Checks all namespaces: the OLM that runs and its flags, ClusterServiceVersions and InstallPlans in progress, catalogs,
    /// versions in which objects are stored, edited Deployments, and certificates that expire. The last line is the verdict; with
    /// errors OLM cannot be replaced yet. The command only reads. See docs/guides/move-from-upstream.md for the migration
    #[arg(long, conflicts_with = "namespace")]
    pub migration: bool,
    /// Output format; wide also lists the checks that found nothing [default: text]
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
    /// Namespace of the global catalogs, which all namespaces may use [default: detected, else olm]
    #[arg(long, value_name = "NAMESPACE")]
    pub global_catalog_namespace: Option<String>,
    /// Namespace in which OLM runs [default: the namespace of catalog-operator]
    #[arg(long, value_name = "NAMESPACE")]
    pub olm_namespace: Option<String>,
    /// Maximum time for all reads, such as 90s or 5m; 0 means no limit. The rest is reported as not checked
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration)]
    pub timeout: Duration,
}
