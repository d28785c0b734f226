//! Flags of `list` and `status`.

use clap::builder::NonEmptyStringValueParser;
use clap::{ArgAction, Args as ClapArgs};

use super::ConnectionArgs;
use super::shared::{Document, Format, WaitArgs, boolean};

/// `list` and `catalog list`
#[derive(Debug, ClapArgs)]
pub(crate) struct ListArgs {
    /// Of all namespaces
    #[arg(short = 'A', long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false",
        hide_default_value = true, value_name = "BOOL", value_parser = boolean, action = ArgAction::Set)]
    pub all_namespaces: bool,
    /// How to print them [default: a table]
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    pub output: Option<Format>,
    #[command(flatten)]
    pub connection: ConnectionArgs,
}

/// `status`
#[derive(Debug, ClapArgs)]
pub(crate) struct StatusArgs {
    /// Subscription to look at, or a ClusterServiceVersion without one; all of the namespace if left out
    #[arg(value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub name: Option<String>,
    /// Operators of all namespaces
    #[arg(short = 'A', long, conflicts_with_all = ["namespace", "name"])]
    pub all_namespaces: bool,
    /// Look again until everything is ready, or --timeout is over
    #[arg(short, long)]
    pub watch: bool,
    #[command(flatten)]
    pub wait: WaitArgs,
    /// How to print the state [default: a tree]
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    pub output: Option<Document>,
    #[command(flatten)]
    pub connection: ConnectionArgs,
}

/// `list-operands`
#[derive(Debug, ClapArgs)]
pub(crate) struct OperandsArgs {
    /// Package, or its Subscription
    #[arg(value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub name: String,
    /// How to print them [default: a table]
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    pub output: Option<Document>,
    #[command(flatten)]
    pub connection: ConnectionArgs,
}
