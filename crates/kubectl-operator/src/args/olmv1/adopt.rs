//! Flags of `olmv1 adopt`.

use clap::Args as ClapArgs;
use clap::builder::NonEmptyStringValueParser;

use crate::args::ConnectionArgs;
use crate::args::shared::{Document, WaitArgs};

/// `olmv1 adopt`
#[derive(Debug, ClapArgs)]
#[command(
    mut_arg("namespace", |arg| arg.help("Namespace of the Subscription")),
    mut_arg("timeout", |arg| arg.help("Maximum time to wait for each step, such as 90s or 5m; 0 means no limit [default: 5m]"))
)]
pub(crate) struct AdoptArgs {
    /// Name of the Subscription
    #[arg(value_name = "SUBSCRIPTION", value_parser = NonEmptyStringValueParser::new())]
    pub subscription: String,
    /// Name of the new ClusterExtension [default: the name of the Subscription]
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub name: Option<String>,
    /// Adopt the operator; without it the command only shows what it would do
    #[arg(short, long)]
    pub yes: bool,
    /// Adopt the operator even if its pods restart
    #[arg(long)]
    pub accept_restart: bool,
    /// Namespace of catalogd [default: the one in the addresses of the catalogs]
    #[arg(long, value_name = "NAMESPACE", value_parser = NonEmptyStringValueParser::new())]
    pub catalogd_namespace: Option<String>,
    /// Output format of what the command does [default: a summary]
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    pub output: Option<Document>,
    #[command(flatten)]
    pub wait: WaitArgs,
    #[command(flatten)]
    pub connection: ConnectionArgs,
}
