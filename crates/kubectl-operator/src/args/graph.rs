//! Flags of `graph`.

use clap::builder::NonEmptyStringValueParser;
use clap::{Args as ClapArgs, ValueEnum};

use super::ConnectionArgs;

/// `graph`
#[derive(Debug, ClapArgs)]
pub(crate) struct GraphArgs {
    /// Package to draw the upgrade graph of
    #[arg(value_name = "PACKAGE", value_parser = NonEmptyStringValueParser::new())]
    pub package: String,
    /// CatalogSource of the package, as NAME or NAMESPACE/NAME [default: the Subscription's, or the only one with the package]
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub catalog: Option<String>,
    /// Draw only this channel
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub channel: Option<String>,
    /// Output format
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = Drawing::Text)]
    pub output: Drawing,
    /// Namespace of the global catalogs, which all namespaces may use [default: detected, else olm]
    #[arg(long, value_name = "NAMESPACE")]
    pub global_catalog_namespace: Option<String>,
    #[command(flatten)]
    pub connection: ConnectionArgs,
}

/// How a graph is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Drawing {
    /// Text
    Text,
    /// Self-contained image
    Svg,
    /// JSON with all data
    Json,
}
