//! Flags of `hold`, `unhold` and `rollback`.

use clap::Args as ClapArgs;
use clap::builder::NonEmptyStringValueParser;

use super::ConnectionArgs;
use super::shared::WaitArgs;

/// `hold`
#[derive(Debug, ClapArgs)]
pub(crate) struct HoldArgs {
    /// Package or its Subscription
    #[arg(value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub name: String,
    /// Range of versions that may be installed, such as '>=1.2.0 <2.0.0' [default: the installed version only]
    #[arg(long, value_name = "RANGE", value_parser = NonEmptyStringValueParser::new())]
    pub range: Option<String>,
    #[command(flatten)]
    pub connection: ConnectionArgs,
}

/// `unhold`
#[derive(Debug, ClapArgs)]
pub(crate) struct UnholdArgs {
    /// Package or its Subscription
    #[arg(value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub name: String,
    #[command(flatten)]
    pub connection: ConnectionArgs,
}

/// `rollback`
#[derive(Debug, ClapArgs)]
#[command(mut_arg("timeout", |arg| arg.help("Maximum time to wait for each step, such as 90s or 5m; 0 means no limit [default: 10m]")))]
pub(crate) struct RollbackArgs {
    /// Package or its Subscription
    #[arg(value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub name: String,
    /// Version to go back to, or the name of its ClusterServiceVersion [default: the version that ran before]
    #[arg(long, value_name = "VERSION", value_parser = NonEmptyStringValueParser::new())]
    pub to: Option<String>,
    /// Only show what would be done; change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Do not ask for confirmation; data that may be lost needs --accept-data-loss, too
    #[arg(short, long)]
    pub yes: bool,
    /// Accept that custom resources lose fields that the CustomResourceDefinitions of the older version lack
    #[arg(long)]
    pub accept_data_loss: bool,
    /// Has no effect: the command always waits until the operator is ready
    #[arg(id = "wait", long = "wait", hide = true)]
    pub until_ready: bool,
    #[command(flatten)]
    pub wait: WaitArgs,
    #[command(flatten)]
    pub connection: ConnectionArgs,
}
