//! Flags of `catalog`.

use std::time::Duration;

use clap::builder::{NonEmptyStringValueParser, PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args as ClapArgs, Subcommand};
use olm_api::v1alpha1::SecurityContextConfig;

use super::ConnectionArgs;
use super::look::ListArgs;
use super::shared::{Format, WaitArgs, duration, duration_text, whole};

/// `catalog`
#[derive(Debug, Subcommand)]
pub(crate) enum CatalogCommand {
    /// Add a catalog from an image, and wait until it is ready
    ///
    /// The command creates a CatalogSource and shows what it waits for until its state is READY. If that takes longer than
    /// --timeout, the CatalogSource is deleted again, unless --keep is set. All namespaces can use the catalogs of the global
    /// namespace (usually olm); other catalogs serve their own namespace only.
    ///
    /// Exit codes: 0 if the catalog is READY, 1 on an error or if it is not READY in time.
    #[command(after_help = "Examples:\n  \
        kubectl operator catalog add mine registry.example/catalog:v1 -n olm\n  \
        kubectl operator catalog add mine registry.example/catalog:v1 --poll-interval 30m --secret pull-secret\n  \
        kubectl operator catalog add mine registry.example/catalog:v1 --timeout 5m --keep -o json")]
    Add(AddArgs),
    /// List catalogs with their images and states
    ///
    /// Exit codes: 0 if the list is printed, even if it is empty, 1 on an error.
    #[command(
        visible_alias = "ls",
        after_help = "Examples:\n  \
        kubectl operator catalog list -A\n  \
        kubectl operator catalog list -n olm -o wide"
    )]
    List(ListArgs),
    /// Remove a catalog, after listing the Subscriptions that use it
    ///
    /// Installed operators are kept but get no newer versions. On a terminal the command asks for confirmation; otherwise it
    /// removes the catalog at once. It waits until the CatalogSource is deleted.
    ///
    /// Exit codes: 0 if the catalog is removed, 2 if you decline, 1 on an error or if it is not deleted in time.
    #[command(
        visible_alias = "rm",
        after_help = "Examples:\n  \
        kubectl operator catalog remove mine -n olm                 # list its users, ask, remove\n  \
        kubectl operator catalog remove mine -n olm --dry-run      # only list its users"
    )]
    Remove(RemoveArgs),
}

/// `catalog add`
#[derive(Debug, ClapArgs)]
#[command(mut_arg("timeout", |arg| arg.help("Maximum time to wait until the catalog is READY, such as 90s or 5m; 0 means no limit [default: 1m]")))]
pub(crate) struct AddArgs {
    /// Name of the CatalogSource
    #[arg(value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub name: String,
    /// Image of the catalog
    #[arg(value_name = "IMAGE", value_parser = NonEmptyStringValueParser::new())]
    pub image: String,
    /// Display name
    #[arg(short, long, value_name = "TEXT")]
    pub display_name: Option<String>,
    /// Publisher
    #[arg(short, long, value_name = "TEXT")]
    pub publisher: Option<String>,
    /// Priority; if several catalogs offer a package, the one with the highest priority is used [default: 0]
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true,
        value_parser = |text: &str| whole::<i64>(text, "a whole number, such as -100 or 10"))]
    pub priority: Option<i64>,
    /// Interval to check the tag for a newer image, such as 30m [default: never]
    #[arg(long, value_name = "DURATION", value_parser = duration_text)]
    pub poll_interval: Option<String>,
    /// Name of a pull secret in the namespace; may be repeated
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub secret: Vec<String>,
    /// Security context of the catalog's pod; use legacy for images that do not run as restricted [default: chosen by OLM]
    #[arg(long, value_parser = confinement())]
    pub security_context: Option<SecurityContextConfig>,
    /// Keep the CatalogSource if it is not READY in time
    #[arg(long)]
    pub keep: bool,
    /// Maximum time to delete the CatalogSource if it is not READY in time
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = duration)]
    pub cleanup_timeout: Duration,
    #[command(flatten)]
    pub wait: WaitArgs,
    /// Output format of the catalog [default: only a confirmation]
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    pub output: Option<Format>,
    #[command(flatten)]
    pub connection: ConnectionArgs,
}

fn confinement() -> impl TypedValueParser<Value = SecurityContextConfig> {
    let words = PossibleValuesParser::new([
        PossibleValue::new("restricted").help("Meets the Pod Security Standard of that name"),
        PossibleValue::new("legacy").help("No security context"),
    ]);
    words.map(|word| SecurityContextConfig::from(word.as_str()))
}

/// `catalog remove`
#[derive(Debug, ClapArgs)]
#[command(mut_arg("timeout", |arg| arg.help("Maximum time to wait for the deletion, such as 90s or 5m; 0 means no limit [default: 1m]")))]
pub(crate) struct RemoveArgs {
    /// Name of the CatalogSource
    #[arg(value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub name: String,
    /// Only list the Subscriptions that use it; change nothing
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
