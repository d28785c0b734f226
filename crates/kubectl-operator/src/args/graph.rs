//! Flags of `graph`.

use clap::builder::NonEmptyStringValueParser;
use clap::{Args as ClapArgs, ValueEnum};

use super::ConnectionArgs;

/// `graph`
#[derive(Debug, ClapArgs)]
pub(crate) struct GraphArgs {
    /// Package whose upgrades to draw
    #[arg(value_name = "PACKAGE", value_parser = NonEmptyStringValueParser::new())]
    pub package: String,
    /// CatalogSource that offers it, NAME or NAMESPACE/NAME [default: that of the Subscription, or the only one that offers it]
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub catalog: Option<String>,
    /// Only this channel
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub channel: Option<String>,
    /// How to draw it
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = Drawing::Text)]
    pub output: Drawing,
    /// Namespace whose catalogs every namespace may use [default: that of OLM's own catalogs, else olm]
    #[arg(long, value_name = "NAMESPACE")]
    pub global_catalog_namespace: Option<String>,
    #[command(flatten)]
    pub connection: ConnectionArgs,
}

/// How a graph is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Drawing {
    /// Line by line, for people
    Text,
    /// A picture that needs no other file
    Svg,
    /// One JSON document with everything
    Json,
}
