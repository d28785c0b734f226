//! Flags of `ui`.

use clap::Args as ClapArgs;

use super::ClusterArgs;

/// `ui`
#[derive(Debug, ClapArgs)]
pub(crate) struct UiArgs {
    /// Begin with the operators of all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub all_namespaces: bool,
    /// Port of 127.0.0.1 to serve on; 0 is any that is free
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub port: u16,
    #[command(flatten)]
    pub cluster: ClusterArgs,
}
