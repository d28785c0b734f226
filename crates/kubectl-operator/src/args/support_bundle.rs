//! Flags of `support-bundle`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueHint};

use super::ConnectionArgs;
use super::doctor::ReadArgs;

/// `support-bundle`
#[derive(Debug, ClapArgs)]
pub(crate) struct SupportBundleArgs {
    /// Collect data of all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub all_namespaces: bool,
    /// File to write, in gzipped tar format
    #[arg(short, long, value_name = "FILE", default_value = "olm-support-bundle.tar.gz", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,
    /// Overwrite an existing file
    #[arg(long)]
    pub force: bool,
    /// Add the logs of OLM's own pods; nothing is removed from them
    #[arg(long)]
    pub logs: bool,
    #[command(flatten)]
    pub reads: ReadArgs,
    #[command(flatten)]
    pub connection: ConnectionArgs,
}
