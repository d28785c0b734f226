//! Flags of `install`, `upgrade` and `uninstall`.

use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{ArgAction, Args as ClapArgs, ValueEnum};
use olm_api::v1alpha1::Approval;

use super::shared::{WaitArgs, boolean, duration, slice};
use super::{ApproveArgs, ConnectionArgs};

/// `install`
#[derive(Debug, ClapArgs)]
pub(crate) struct InstallArgs {
    /// Package to install
    #[arg(value_name = "PACKAGE", value_parser = NonEmptyStringValueParser::new())]
    pub package: String,
    /// Name of the Subscription [default: that of the package]
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub name: Option<String>,
    /// CatalogSource to take it from, as NAME or NAMESPACE/NAME [default: the one that package-server prefers]
    #[arg(long, value_name = "CATALOG", value_parser = NonEmptyStringValueParser::new())]
    pub catalog: Option<String>,
    /// Channel to follow [default: the package's default channel, also when that becomes another]
    #[arg(short, long, value_name = "CHANNEL")]
    pub channel: Option<String>,
    /// Version to begin with, or the name of its ClusterServiceVersion [default: the head of the channel]
    #[arg(short, long, value_name = "VERSION")]
    pub version: Option<String>,
    /// Who approves the plans of later versions; the first one is approved by this command
    #[arg(short, long, value_enum, value_name = "APPROVAL", default_value_t = WhoApproves::Manual, ignore_case = true)]
    pub approval: WhoApproves,
    /// Create the namespace if it is not there
    #[arg(long)]
    pub create_namespace: bool,
    /// Create an OperatorGroup if the namespace has none: for --watch, or all namespaces, or its own, whichever the package supports first
    #[arg(short = 'C', long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value = "false", hide_default_value = true, value_parser = boolean, action = ArgAction::Set)]
    pub create_operator_group: bool,
    /// Namespaces that the operator is to watch, with commas between them; may be repeated [default: all, or its own]
    #[arg(short, long, value_name = "NAMESPACES", alias = "target-namespace")]
    pub watch: Vec<String>,
    /// Namespace whose catalogs every namespace may use [default: that of OLM's own catalogs, else olm]
    #[arg(long, value_name = "NAMESPACE")]
    pub global_catalog_namespace: Option<String>,
    /// Do not ask for confirmation
    #[arg(short, long)]
    pub yes: bool,
    /// Wait until the operator is ready, not only until its plan is carried out; show what it waits for
    #[arg(id = "wait", long = "wait", conflicts_with = "no_wait")]
    pub until_ready: bool,
    /// Create the Subscription and return; the first plan is left to `approve` unless --approval is Automatic
    #[arg(long)]
    pub no_wait: bool,
    /// Accepted as upstream's plugin does, and without a meaning there, too
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
    /// OLM, at once
    #[value(name = "Automatic")]
    Automatic,
    /// Somebody, see approve
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
pub(crate) struct UpgradeArgs {
    #[command(flatten)]
    pub approve: ApproveArgs,
    /// Accepted as upstream's plugin does, and without an effect there, too: the channel is that of the Subscription
    #[arg(short, long, value_name = "CHANNEL")]
    pub channel: Option<String>,
    /// Show what would be approved, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Wait until the operator is ready, not only until its plan is carried out; show what it waits for
    #[arg(
        id = "wait",
        short = 'w',
        long = "wait",
        alias = "watch",
        conflicts_with = "no_wait"
    )]
    pub until_ready: bool,
    /// Return once the plan is approved
    #[arg(long)]
    pub no_wait: bool,
    #[command(flatten)]
    pub wait: WaitArgs,
}

/// `uninstall`
#[derive(Debug, ClapArgs)]
pub(crate) struct UninstallArgs {
    /// Package or Subscription to delete with what it installed, or a ClusterServiceVersion without one
    #[arg(value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub name: String,
    /// What happens to operands, the custom resources of the operator [default: abort; a terminal is asked whether they may stay]
    #[arg(short = 's', long, value_enum, value_name = "STRATEGY")]
    pub operand_strategy: Option<OperandStrategy>,
    /// Delete everything that its Operator object lists, CustomResourceDefinitions included; implies --operand-strategy=delete
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false",
        hide_default_value = true, value_name = "BOOL", value_parser = boolean, action = ArgAction::Set)]
    pub delete_operator: bool,
    /// Delete the OperatorGroups of the namespace if no Subscription is left there
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false",
        hide_default_value = true, value_name = "BOOL", value_parser = boolean, action = ArgAction::Set)]
    pub delete_operator_groups: bool,
    /// Only OperatorGroups of these names, with commas between them (with --delete-operator-groups)
    #[arg(long, value_name = "NAMES")]
    pub delete_operator_group_names: Vec<String>,
    /// The same as --delete-operator --delete-operator-groups
    #[arg(short = 'X', long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false",
        hide_default_value = true, value_name = "BOOL", value_parser = boolean, action = ArgAction::Set)]
    pub delete_all: bool,
    /// CustomResourceDefinition of the operator to delete, too, with all its objects in all namespaces; may be repeated
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub delete_crd: Vec<String>,
    /// Show what would go and what would stay, and change nothing
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
    /// Nothing is deleted at all where there are some
    Abort,
    /// They stay
    Ignore,
    /// They are deleted while the operator still runs
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
