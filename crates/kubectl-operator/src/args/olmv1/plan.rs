//! Flags of `olmv1 plan`.

use clap::Args as ClapArgs;
use clap::builder::NonEmptyStringValueParser;

use super::ExtensionFields;
use crate::args::ConnectionArgs;
use crate::args::shared::Document;

/// `olmv1 plan`
#[derive(Debug, ClapArgs)]
#[command(
    mut_arg("namespace", |arg| arg.help("Namespace to install a new ClusterExtension in [default: olmv1-system]")),
    mut_arg("labels", |arg| arg.hide(true))
)]
pub(crate) struct PlanExtensionArgs {
    /// Name of the ClusterExtension
    #[arg(value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub name: String,
    /// Package to install, if the ClusterExtension does not exist
    #[arg(short, long, value_name = "PACKAGE", value_parser = NonEmptyStringValueParser::new())]
    pub package_name: Option<String>,
    #[command(flatten)]
    pub fields: ExtensionFields,
    /// Namespace of catalogd [default: the one in the addresses of the catalogs]
    #[arg(long, value_name = "NAMESPACE", value_parser = NonEmptyStringValueParser::new())]
    pub catalogd_namespace: Option<String>,
    /// Output format of the whole plan [default: a summary]
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    pub output: Option<Document>,
    #[command(flatten)]
    pub connection: ConnectionArgs,
}
