//! Flags of `catalog`.

use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use olm_api::v1alpha1::SecurityContextConfig;

use super::ConnectionArgs;
use super::look::ListArgs;
use super::shared::{Format, WaitArgs, duration};

/// `catalog`
#[derive(Debug, Subcommand)]
pub(crate) enum CatalogCommand {
    /// Add a catalog image, and wait until it is served
    ///
    /// Creates a CatalogSource and shows what it waits for until its state is READY. If that takes longer than --timeout (1m), the CatalogSource is
    /// deleted again; with --keep it stays. Catalogs of the global namespace (mostly olm) can be used in every namespace, others in their own.
    ///
    /// Exit codes: 0 if the catalog is READY, 1 if it cannot be added or is not READY in time.
    #[command(after_help = "Examples:\n  \
        kubectl operator catalog add mine registry.example/catalog:v1 -n olm\n  \
        kubectl operator catalog add mine registry.example/catalog:v1 --poll-interval 30m --secret pull-secret\n  \
        kubectl operator catalog add mine registry.example/catalog:v1 --timeout 5m --keep -o json")]
    Add(AddArgs),
    /// List catalogs with their images and states
    ///
    /// Exit codes: 0 for a list, also an empty one, 1 if it cannot be had.
    #[command(
        visible_alias = "ls",
        after_help = "Examples:\n  \
        kubectl operator catalog list -A\n  \
        kubectl operator catalog list -n olm -o wide"
    )]
    List(ListArgs),
    /// Remove a catalog, after naming the Subscriptions that use it
    ///
    /// What is installed stays as it is, but gets no newer versions. A terminal is asked; elsewhere it is removed at once. The command waits until it
    /// is gone.
    ///
    /// Exit codes: 0 if it is removed, 2 if the answer was no, 1 if it cannot be, or is not gone in time.
    #[command(
        visible_alias = "rm",
        after_help = "Examples:\n  \
        kubectl operator catalog remove mine -n olm                 # name its users, ask, remove\n  \
        kubectl operator catalog remove mine -n olm --dry-run      # name its users only"
    )]
    Remove(RemoveArgs),
}

/// `catalog add`
#[derive(Debug, ClapArgs)]
pub(crate) struct AddArgs {
    /// Name of the CatalogSource
    #[arg(value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub name: String,
    /// Image of the catalog
    #[arg(value_name = "IMAGE", value_parser = NonEmptyStringValueParser::new())]
    pub image: String,
    /// Name for people
    #[arg(short, long, value_name = "TEXT")]
    pub display_name: Option<String>,
    /// Who publishes it
    #[arg(short, long, value_name = "TEXT")]
    pub publisher: Option<String>,
    /// Of catalogs that offer the same the one with the highest priority is taken
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    pub priority: Option<i64>,
    /// How often to look for a newer image behind the tag, such as 30m
    #[arg(long, value_name = "DURATION", value_parser = NonEmptyStringValueParser::new())]
    pub poll_interval: Option<String>,
    /// Pull secret of the namespace; may be repeated
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub secret: Vec<String>,
    /// How the catalog's pod is confined; legacy is for images that restricted does not run [default: OLM's]
    #[arg(long, value_enum)]
    pub security_context: Option<Confinement>,
    /// Keep the CatalogSource if it does not get READY in time
    #[arg(long)]
    pub keep: bool,
    /// How long deleting it again may take, where it does not get READY in time
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = duration)]
    pub cleanup_timeout: Duration,
    #[command(flatten)]
    pub wait: WaitArgs,
    /// How to print the catalog when it is READY [default: not at all]
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    pub output: Option<Format>,
    #[command(flatten)]
    pub connection: ConnectionArgs,
}

/// How a pod is confined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Confinement {
    /// As Kubernetes' Pod Security Standard of that name wants
    Restricted,
    /// Without a security context
    Legacy,
}

impl From<Confinement> for SecurityContextConfig {
    fn from(confinement: Confinement) -> Self {
        match confinement {
            Confinement::Restricted => Self::Restricted,
            Confinement::Legacy => Self::Legacy,
        }
    }
}

/// `catalog remove`
#[derive(Debug, ClapArgs)]
pub(crate) struct RemoveArgs {
    /// Name of the CatalogSource
    #[arg(value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub name: String,
    /// Show who uses it, and change nothing
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
