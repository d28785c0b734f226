//! `doctor`

use std::time::Duration;

use clap::Args as ClapArgs;

use super::ConnectionArgs;
use super::shared::{Format, duration};

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

/// What commands that read a whole cluster take.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct ReadArgs {
    /// Namespace whose catalogs every namespace may use, and in which OLM is looked for
    #[arg(long, value_name = "NAMESPACE", default_value = "olm")]
    pub global_catalog_namespace: String,
    /// How long all reads may take, such as 90s or 5m; 0 is for ever. What was not read by then is told as not checked
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration)]
    pub timeout: Duration,
}
