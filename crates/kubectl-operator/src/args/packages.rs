//! Flags of `list-available` and `describe`.

use clap::builder::NonEmptyStringValueParser;
use clap::{ArgAction, Args as ClapArgs};

use super::ConnectionArgs;
use super::shared::{Document, ListFormat, boolean};

/// `list-available`
#[derive(Debug, ClapArgs)]
pub(crate) struct AvailableArgs {
    /// Package to list the channels and versions of [default: list all packages]
    #[arg(value_name = "PACKAGE", value_parser = NonEmptyStringValueParser::new())]
    pub package: Option<String>,
    /// Same as PACKAGE
    #[arg(long = "package", value_name = "PACKAGE", conflicts_with = "package", value_parser = NonEmptyStringValueParser::new())]
    pub named: Option<String>,
    /// List the packages of all catalogs of the cluster
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub all_namespaces: bool,
    /// List only this CatalogSource, as NAME or NAMESPACE/NAME
    #[arg(short, long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub catalog: Option<String>,
    /// Output format [default: a table]
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    pub output: Option<ListFormat>,
    #[command(flatten)]
    pub connection: ConnectionArgs,
}

impl AvailableArgs {
    /// Returns the package to list, given as argument or as flag.
    pub(crate) fn package(&self) -> Option<&str> {
        self.package.as_deref().or(self.named.as_deref())
    }
}

/// `describe`
#[derive(Debug, ClapArgs)]
pub(crate) struct DescribeArgs {
    /// Package to describe
    #[arg(value_name = "PACKAGE", value_parser = NonEmptyStringValueParser::new())]
    pub package: String,
    /// Use only this CatalogSource, as NAME or NAMESPACE/NAME
    #[arg(short, long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub catalog: Option<String>,
    /// Channel to describe [default: the default channel of the package]
    #[arg(short = 'C', long, value_name = "NAME")]
    pub channel: Option<String>,
    /// Print the whole description, not only its beginning
    #[arg(short = 'L', long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false",
        hide_default_value = true, value_name = "BOOL", value_parser = boolean, action = ArgAction::Set)]
    pub with_long_description: bool,
    /// Output format [default: text]
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    pub output: Option<Document>,
    #[command(flatten)]
    pub connection: ConnectionArgs,
}
