//! Flags of `ui`.

use clap::Args as ClapArgs;

use super::ClusterArgs;
use super::shared::whole;

/// `ui`
#[derive(Debug, ClapArgs)]
pub(crate) struct UiArgs {
    /// Start with the operators of all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub all_namespaces: bool,
    /// Port on 127.0.0.1; 0 selects a free port
    #[arg(long, value_name = "PORT", default_value_t = 0,
        value_parser = |text: &str| whole::<u16>(text, "a port from 0 to 65535"))]
    pub port: u16,
    #[command(flatten)]
    pub cluster: ClusterArgs,
}
