//! Flags of `list` and `status`.

use clap::builder::NonEmptyStringValueParser;
use clap::{ArgAction, Args as ClapArgs};

use super::ConnectionArgs;
use super::shared::{Document, ListFormat, WaitArgs, boolean};

/// `list` and `catalog list`
#[derive(Debug, ClapArgs)]
pub(crate) struct ListArgs {
    /// List all namespaces
    #[arg(short = 'A', long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false",
        hide_default_value = true, value_name = "BOOL", value_parser = boolean, action = ArgAction::Set)]
    pub all_namespaces: bool,
    /// Output format [default: a table]
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    pub output: Option<ListFormat>,
    #[command(flatten)]
    pub connection: ConnectionArgs,
}

/// `status`
#[derive(Debug, ClapArgs)]
#[command(mut_arg("timeout", |arg| arg.help("Maximum time to wait with --watch, such as 90s or 5m; 0 means no limit [default: 10m]")))]
pub(crate) struct StatusArgs {
    /// Subscription, or a ClusterServiceVersion without one [default: all operators of the namespace]
    #[arg(value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub name: Option<String>,
    /// Show the operators of all namespaces
    #[arg(short = 'A', long, conflicts_with_all = ["namespace", "name"])]
    pub all_namespaces: bool,
    /// Wait until everything is ready, for at most --timeout
    #[arg(short, long, visible_alias = "wait")]
    pub watch: bool,
    #[command(flatten)]
    pub wait: WaitArgs,
    /// Output format [default: a tree]
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    pub output: Option<Document>,
    #[command(flatten)]
    pub connection: ConnectionArgs,
}

/// `list-operands`
#[derive(Debug, ClapArgs)]
pub(crate) struct OperandsArgs {
    /// Package or its Subscription
    #[arg(value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub name: String,
    /// Output format [default: a table]
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    pub output: Option<Document>,
    #[command(flatten)]
    pub connection: ConnectionArgs,
}
