//! Flags of commands that change what is installed: `install`, `upgrade`, `uninstall`, `hold`, `unhold` and `rollback`.

use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{ArgAction, Args as ClapArgs, ValueEnum};
use olm_api::v1alpha1::Approval;

use super::shared::{WaitArgs, boolean, duration, slice};
use super::{ApproveArgs, ConnectionArgs};

/// `install`
#[derive(Debug, ClapArgs)]
#[command(mut_arg("timeout", |arg| arg.help("Maximum time to wait, such as 90s or 5m; 0 means no limit [default: 1m for the plan, 10m with --wait]")))]
pub(crate) struct InstallArgs {
    /// Package to install
    #[arg(value_name = "PACKAGE", value_parser = NonEmptyStringValueParser::new())]
    pub package: String,
    /// Name of the Subscription [default: the name of the package]
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub name: Option<String>,
    /// CatalogSource to install from, as NAME or NAMESPACE/NAME [default: the one that package-server prefers]
    #[arg(long, value_name = "CATALOG", value_parser = NonEmptyStringValueParser::new())]
    pub catalog: Option<String>,
    /// Channel to subscribe to [default: the default channel of the package]
    #[arg(short, long, value_name = "CHANNEL")]
    pub channel: Option<String>,
    /// Version to install first, or the name of its ClusterServiceVersion [default: the channel head]
    #[arg(short, long, value_name = "VERSION")]
    pub version: Option<String>,
    /// Approval of later versions; this command approves the first plan
    #[arg(short, long, value_enum, value_name = "APPROVAL", default_value_t = WhoApproves::Manual, ignore_case = true)]
    pub approval: WhoApproves,
    /// Create the namespace if it does not exist
    #[arg(long)]
    pub create_namespace: bool,
    /// Create an OperatorGroup if the namespace has none; it selects the namespaces of --watch
    #[arg(short = 'C', long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value = "false", hide_default_value = true, value_parser = boolean, action = ArgAction::Set)]
    pub create_operator_group: bool,
    /// Comma-separated namespaces for the operator to watch; may be repeated [default: all namespaces if the package supports it,
    /// else its own]
    #[arg(short, long, value_name = "NAMESPACES", alias = "target-namespace")]
    pub watch: Vec<String>,
    /// Namespace of the global catalogs, which all namespaces may use [default: detected, else olm]
    #[arg(long, value_name = "NAMESPACE")]
    pub global_catalog_namespace: Option<String>,
    /// Do not ask for confirmation
    #[arg(short, long)]
    pub yes: bool,
    /// Wait until the operator is ready, and show what it waits for [default: wait until its plan is complete]
    #[arg(id = "wait", long = "wait", conflicts_with = "no_wait")]
    pub until_ready: bool,
    /// Do not wait, and do not approve the first plan; use `approve` unless --approval is Automatic
    #[arg(long)]
    pub no_wait: bool,
    /// Has no effect; accepted for compatibility with upstream's plugin
    #[arg(long, value_name = "DURATION", value_parser = duration, hide = true)]
    pub cleanup_timeout: Option<Duration>,
    #[command(flatten)]
    pub wait: WaitArgs,
    #[command(flatten)]
    pub connection: ConnectionArgs,
}

impl InstallArgs {
    /// Returns the namespaces to watch.
    pub(crate) fn watched(&self) -> Vec<String> {
        slice(&self.watch)
    }
}

/// Who approves plans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum WhoApproves {
    /// OLM approves each plan at once
    #[value(name = "Automatic")]
    Automatic,
    /// A user approves each plan, see approve
    #[value(name = "Manual")]
    Manual,
}

impl From<WhoApproves> for Approval {
    fn from(who: WhoApproves) -> Self {
        match who {
            WhoApproves::Automatic => Self::Automatic,
            WhoApproves::Manual => Self::Manual,
        }
    }
}

/// `upgrade`
#[derive(Debug, ClapArgs)]
#[command(mut_arg("name", |arg| arg.help("Package, Subscription or InstallPlan to upgrade")))]
#[command(mut_arg("timeout", |arg| arg.help("Maximum time to wait, such as 90s or 5m; 0 means no limit [default: 1m for the plan, 10m with --wait]")))]
pub(crate) struct UpgradeArgs {
    #[command(flatten)]
    pub approve: ApproveArgs,
    /// Has no effect; accepted for compatibility with upstream's plugin. The Subscription selects the channel
    #[arg(short, long, value_name = "CHANNEL")]
    pub channel: Option<String>,
    /// Only show what would be approved; change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Wait until the operator is ready, and show what it waits for [default: wait until its plan is complete]
    #[arg(
        id = "wait",
        short = 'w',
        long = "wait",
        alias = "watch",
        conflicts_with = "no_wait"
    )]
    pub until_ready: bool,
    /// Return as soon as the plan is approved
    #[arg(long)]
    pub no_wait: bool,
    #[command(flatten)]
    pub wait: WaitArgs,
}

/// `uninstall`
#[derive(Debug, Default, ClapArgs)]
#[command(mut_arg("timeout", |arg| arg.help("Maximum time to wait for each deletion, such as 90s or 5m; 0 means no limit [default: 1m]")))]
pub(crate) struct UninstallArgs {
    /// Package or Subscription to uninstall, or a ClusterServiceVersion without a Subscription
    #[arg(value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub name: String,
    /// Handling of operands, the custom resources of the operator [default: abort, or ask on a terminal]
    #[arg(short = 's', long, value_enum, value_name = "STRATEGY")]
    pub operand_strategy: Option<OperandStrategy>,
    /// Delete everything that its Operator object lists, including CustomResourceDefinitions; implies --operand-strategy=delete
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false",
        hide_default_value = true, value_name = "BOOL", value_parser = boolean, action = ArgAction::Set)]
    pub delete_operator: bool,
    /// Delete the OperatorGroups of the namespace if no Subscription is left in it
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false",
        hide_default_value = true, value_name = "BOOL", value_parser = boolean, action = ArgAction::Set)]
    pub delete_operator_groups: bool,
    /// Comma-separated names of the OperatorGroups to delete; requires --delete-operator-groups [default: all of the namespace]
    #[arg(long, value_name = "NAMES")]
    pub delete_operator_group_names: Vec<String>,
    /// Same as --delete-operator --delete-operator-groups
    #[arg(short = 'X', long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false",
        hide_default_value = true, value_name = "BOOL", value_parser = boolean, action = ArgAction::Set)]
    pub delete_all: bool,
    /// CustomResourceDefinition of the operator to delete, with all its objects in all namespaces; may be repeated
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub delete_crd: Vec<String>,
    /// Only show what would be deleted and kept; change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Do not ask for confirmation
    #[arg(short, long)]
    pub yes: bool,
    #[command(flatten)]
    pub wait: WaitArgs,
    #[command(flatten)]
    pub connection: ConnectionArgs,
}

/// What happens to operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OperandStrategy {
    /// Delete nothing if there are operands
    Abort,
    /// Keep operands
    Ignore,
    /// Delete operands while the operator still runs
    Delete,
}

impl UninstallArgs {
    /// Returns true if everything that the Operator object lists is deleted.
    pub(crate) fn deletes_operator(&self) -> bool {
        self.delete_all || self.delete_operator
    }

    /// Returns true if OperatorGroups are deleted.
    pub(crate) fn deletes_groups(&self) -> bool {
        self.delete_all || self.delete_operator_groups
    }

    /// Returns the strategy for operands; `None` if no flag selects one.
    pub(crate) fn strategy(&self) -> Option<OperandStrategy> {
        match self.deletes_operator() {
            true => Some(OperandStrategy::Delete),
            false => self.operand_strategy,
        }
    }
}

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
