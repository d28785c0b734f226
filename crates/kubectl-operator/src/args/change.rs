//! `install`, `upgrade` and `uninstall`.

use clap::builder::NonEmptyStringValueParser;
use clap::{Args as ClapArgs, ValueEnum};
use olm_api::v1alpha1::{Approval, InstallModeType};

use super::shared::WaitArgs;
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
    /// CatalogSource to take it from, as NAME or NAMESPACE/NAME; needed where several have the package
    #[arg(long, value_name = "CATALOG", value_parser = NonEmptyStringValueParser::new())]
    pub catalog: Option<String>,
    /// Channel to follow [default: the package's default channel]
    #[arg(long, value_name = "CHANNEL", value_parser = NonEmptyStringValueParser::new())]
    pub channel: Option<String>,
    /// Version to begin with, or the name of its ClusterServiceVersion [default: the head of the channel]
    #[arg(long, value_name = "VERSION", value_parser = NonEmptyStringValueParser::new())]
    pub version: Option<String>,
    /// Who approves plans [default: Manual with --version, so that it stays there, else Automatic]
    #[arg(long, value_enum, value_name = "APPROVAL", ignore_case = true)]
    pub approval: Option<WhoApproves>,
    /// Create the namespace if it is not there
    #[arg(long)]
    pub create_namespace: bool,
    /// Create an OperatorGroup if the namespace has none [default mode: OwnNamespace, if the package supports it]
    #[arg(long, value_enum, value_name = "MODE", num_args = 0..=1, require_equals = true, ignore_case = true,
        default_missing_value = "package")]
    pub create_operator_group: Option<GroupMode>,
    /// Namespace that the OperatorGroup is to target, for SingleNamespace and MultiNamespace; may be repeated
    #[arg(long, value_name = "NAMESPACE", requires = "create_operator_group", value_parser = NonEmptyStringValueParser::new())]
    pub target_namespace: Vec<String>,
    /// Namespace whose catalogs every namespace may use
    #[arg(long, value_name = "NAMESPACE", default_value = "olm")]
    pub global_catalog_namespace: String,
    /// Show how it goes on until the operator is ready, or --timeout is over
    #[arg(short, long)]
    pub watch: bool,
    #[command(flatten)]
    pub wait: WaitArgs,
    #[command(flatten)]
    pub connection: ConnectionArgs,
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

/// Which namespaces an operator is to watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum GroupMode {
    /// OwnNamespace, if the package supports it
    #[value(name = "package", hide = true)]
    Package,
    /// The one it is installed in
    #[value(name = "OwnNamespace")]
    OwnNamespace,
    /// One other
    #[value(name = "SingleNamespace")]
    SingleNamespace,
    /// Several
    #[value(name = "MultiNamespace")]
    MultiNamespace,
    /// All
    #[value(name = "AllNamespaces")]
    AllNamespaces,
}

impl GroupMode {
    /// The install mode; none where the package says.
    pub(crate) fn mode(self) -> Option<InstallModeType> {
        match self {
            Self::Package => None,
            Self::OwnNamespace => Some(InstallModeType::OwnNamespace),
            Self::SingleNamespace => Some(InstallModeType::SingleNamespace),
            Self::MultiNamespace => Some(InstallModeType::MultiNamespace),
            Self::AllNamespaces => Some(InstallModeType::AllNamespaces),
        }
    }
}

/// `upgrade`
#[derive(Debug, ClapArgs)]
pub(crate) struct UpgradeArgs {
    #[command(flatten)]
    pub approve: ApproveArgs,
    /// Show how it goes on until the operator is ready, or --timeout is over
    #[arg(short, long)]
    pub watch: bool,
    #[command(flatten)]
    pub wait: WaitArgs,
}

/// `uninstall`
#[derive(Debug, ClapArgs)]
pub(crate) struct UninstallArgs {
    /// Subscription to delete with what it installed, or a ClusterServiceVersion without one
    #[arg(value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub name: String,
    /// CustomResourceDefinition of the operator to delete, too, with all its objects in all namespaces; may be repeated
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub delete_crd: Vec<String>,
    /// Have OLM delete the custom resources that the operator says are to be cleaned up (spec.cleanup.enabled); needed with --yes where
    /// there are any
    #[arg(long)]
    pub allow_cleanup: bool,
    /// Uninstall without asking
    #[arg(short, long)]
    pub yes: bool,
    #[command(flatten)]
    pub wait: WaitArgs,
    #[command(flatten)]
    pub connection: ConnectionArgs,
}
