//! Flags of `rights`.

use clap::Args as ClapArgs;
use clap::builder::NonEmptyStringValueParser;

use super::ConnectionArgs;
use super::shared::Document;

/// `rights`
#[derive(Debug, ClapArgs)]
pub(crate) struct RightsArgs {
    /// Package to install
    #[arg(value_name = "PACKAGE", value_parser = NonEmptyStringValueParser::new())]
    pub package: String,
    /// Channel of the version [default: the default channel of the package]
    #[arg(short, long, value_name = "CHANNEL", value_parser = NonEmptyStringValueParser::new())]
    pub channel: Option<String>,
    /// Version, or the name of its ClusterServiceVersion [default: the channel head]
    #[arg(short, long, value_name = "VERSION", value_parser = NonEmptyStringValueParser::new())]
    pub version: Option<String>,
    /// CatalogSource of the package, as NAME or NAMESPACE/NAME [default: the Subscription's, or the only one with the package]
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub catalog: Option<String>,
    /// Output format; JSON is one List
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = Document::Yaml)]
    pub output: Document,
    /// Namespace of the global catalogs, which all namespaces may use [default: detected, else olm]
    #[arg(long, value_name = "NAMESPACE")]
    pub global_catalog_namespace: Option<String>,
    #[command(flatten)]
    pub connection: ConnectionArgs,
}
