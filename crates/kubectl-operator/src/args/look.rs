//! Flags of commands that only read.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{ArgAction, Args as ClapArgs, ValueEnum, ValueHint};

use super::shared::{Document, Format, ListFormat, WaitArgs, boolean, duration, whole};
use super::{ClusterArgs, ConnectionArgs};

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

/// `doctor`
#[derive(Debug, ClapArgs)]
pub(crate) struct DoctorArgs {
    /// Check all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub all_namespaces: bool,
    /// Check instead whether this OLM can replace upstream's OLM in the cluster, and what would change
    ///
    /// Checks all namespaces: the OLM that runs and its flags, ClusterServiceVersions and InstallPlans in progress, catalogs,
    /// versions in which objects are stored, and edited Deployments. The last line is the verdict; with errors OLM cannot be
    /// replaced yet. The command only reads. See docs/guides/move-from-upstream.md for the migration
    #[arg(long, conflicts_with = "namespace")]
    pub migration: bool,
    /// Output format; wide also lists the checks that found nothing [default: text]
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    pub output: Option<Format>,
    #[command(flatten)]
    pub reads: ReadArgs,
    #[command(flatten)]
    pub connection: ConnectionArgs,
}

/// What commands that read a whole cluster take.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct ReadArgs {
    /// Namespace of the global catalogs, which all namespaces may use [default: detected, else olm]
    #[arg(long, value_name = "NAMESPACE")]
    pub global_catalog_namespace: Option<String>,
    /// Namespace in which OLM runs [default: the namespace of catalog-operator]
    #[arg(long, value_name = "NAMESPACE")]
    pub olm_namespace: Option<String>,
    /// Maximum time for all reads, such as 90s or 5m; 0 means no limit. The rest is reported as not checked
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration)]
    pub timeout: Duration,
}

/// `support-bundle`
#[derive(Debug, ClapArgs)]
pub(crate) struct SupportBundleArgs {
    /// Collect data of all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub all_namespaces: bool,
    /// File to write, in gzipped tar format
    #[arg(short, long, value_name = "FILE", default_value = "olm-support-bundle.tar.gz", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,
    /// Overwrite an existing file
    #[arg(long)]
    pub force: bool,
    /// Add the logs of OLM's own pods; nothing is removed from them
    #[arg(long)]
    pub logs: bool,
    #[command(flatten)]
    pub reads: ReadArgs,
    #[command(flatten)]
    pub connection: ConnectionArgs,
}

/// `ui`
#[derive(Debug, ClapArgs)]
pub(crate) struct UiArgs {
    /// Start with the operators of all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub all_namespaces: bool,
    /// Port on 127.0.0.1; 0 selects a free port
    #[arg(long, value_name = "PORT", default_value_t = 0,
        value_parser = |text: &str| whole::<u16>(text, "a port from 0 to 65535"))]
    pub port: u16,
    #[command(flatten)]
    pub cluster: ClusterArgs,
}
