//! Flags as typed. Names, short forms and defaults are those of upstream's `opm` where it has them.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

/// Heading of the flags that every command has.
const GLOBAL: &str = "Global options";

/// CLI for catalogs of operators: make, check and serve file-based catalogs.
#[derive(Debug, Parser)]
#[command(name = "opm", version, disable_help_subcommand = false, max_term_width = 100)]
pub struct Args {
    /// Flags of every command.
    #[command(flatten)]
    pub global: GlobalArgs,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Flags of every command.
#[derive(Debug, Clone, ClapArgs)]
pub struct GlobalArgs {
    /// Skip TLS certificate verification for container image registries
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub skip_tls_verify: bool,
    /// Use plain HTTP for container image registries
    #[arg(long, global = true, help_heading = GLOBAL, alias = "skip-tls")]
    pub use_http: bool,
    /// Folder of hosts.toml files, as containerd reads it, that names mirrors and plain HTTP registries
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "DIR", env = "OPM_REGISTRY_CONFIG", hide_env_values = true)]
    pub registry_config: Option<PathBuf>,
    /// Log more
    #[arg(long, global = true, hide = true)]
    pub debug: bool,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Generate an olm.package declarative config blob
    Init(InitArgs),
    /// Generate a stream of file-based catalog objects from catalogs and bundles
    ///
    /// Sources are catalog images, catalog directories, bundle images and bundle directories. Where a source does not
    /// carry an image reference (bundle directories), --alpha-image-ref-template makes one. Variables: {{.Package}},
    /// {{.Name}} (the name of the ClusterServiceVersion) and {{.Version}}.
    Render(RenderArgs),
    /// Serve a file-based catalog via gRPC
    ///
    /// The catalog is loaded at startup. Later changes to its files are not served.
    Serve(ServeArgs),
    /// Validate the file-based catalog in a directory
    Validate(ValidateArgs),
    /// Commands that may change or go away
    #[command(subcommand)]
    Alpha(AlphaCommand),
    /// Generate the autocompletion script for a shell
    Completion {
        /// The shell
        shell: Shell,
    },
    /// Print the opm version
    Version,
}

/// How documents are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// JSON documents, one after the other
    Json,
    /// YAML documents, each after `---`
    Yaml,
}

/// `opm init`
#[derive(Debug, ClapArgs)]
pub struct InitArgs {
    /// Name of the package
    pub package: String,
    /// The channel that subscriptions will default to if unspecified
    #[arg(short = 'c', long, default_value = "", hide_default_value = true)]
    pub default_channel: String,
    /// Path to the operator's README.md (or other documentation)
    #[arg(short = 'd', long, value_name = "FILE")]
    pub description: Option<PathBuf>,
    /// Path to package's icon
    #[arg(short = 'i', long, value_name = "FILE")]
    pub icon: Option<PathBuf>,
    /// Output format
    #[arg(short = 'o', long, default_value = "json")]
    pub output: Format,
}

/// `opm render`
#[derive(Debug, ClapArgs)]
pub struct RenderArgs {
    /// catalog-image | catalog-directory | bundle-image | bundle-directory
    #[arg(required = true, value_name = "SOURCE")]
    pub sources: Vec<String>,
    /// When bundle image reference information is unavailable, populate it with this template (may change without notice)
    #[arg(long, value_name = "TEMPLATE")]
    pub alpha_image_ref_template: Option<String>,
    /// Output format
    #[arg(short = 'o', long, default_value = "json")]
    pub output: Format,
}

/// `opm validate`
#[derive(Debug, ClapArgs)]
pub struct ValidateArgs {
    /// Directory of the catalog
    pub directory: PathBuf,
    /// Output format for validation results
    #[arg(short = 'o', long)]
    pub output: Option<Format>,
}

/// `opm serve`
#[derive(Debug, ClapArgs)]
pub struct ServeArgs {
    /// Directory of the catalog
    pub source_path: PathBuf,
    /// Port number to serve on
    #[arg(short = 'p', long, default_value = "50051")]
    pub port: u16,
    /// If set, sync and persist server cache directory
    #[arg(long, value_name = "DIR")]
    pub cache_dir: Option<PathBuf>,
    /// Sync the serve cache and exit without serving
    #[arg(long)]
    pub cache_only: bool,
    /// Exit with error if cache is not present or has been invalidated [default: true when --cache-dir is set and
    /// --cache-only is not]
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    pub cache_enforce_integrity: Option<bool>,
    /// Path to a container termination log file
    #[arg(
        short = 't',
        long,
        value_name = "FILE",
        default_value = "/dev/termination-log"
    )]
    pub termination_log: PathBuf,
    /// Accepted for compatibility; this program has no profiling endpoint
    #[arg(
        long,
        value_name = "ADDR",
        default_value = "",
        hide_default_value = true,
        hide = true
    )]
    pub pprof_addr: String,
    /// Accepted for compatibility; this program has no profiling endpoint
    #[arg(long, hide = true)]
    pub pprof_capture_profiles: bool,
}

/// `opm alpha`
#[derive(Debug, Subcommand)]
pub enum AlphaCommand {
    /// Make images of bundles and catalogs without a container engine
    #[command(subcommand)]
    Image(ImageCommand),
}

/// `opm alpha image`
#[derive(Debug, Subcommand)]
pub enum ImageCommand {
    /// Make the image of a bundle directory (manifests/ and metadata/)
    ///
    /// The same files give the same digest every time. The file is an OCI layout in a tar archive.
    Bundle(ImageArgs),
    /// Make the image of a catalog directory, with a cache to start from at once
    ///
    /// The catalog is validated first. It lies in /configs, its cache in /tmp/cache; containers run `opm serve`.
    Catalog(CatalogImageArgs),
    /// Push an image file to a registry
    Push {
        /// OCI layout tar, as made by the other commands
        file: PathBuf,
        /// Name and tag to push to
        reference: String,
    },
}

/// What both kinds of images need.
#[derive(Debug, ClapArgs)]
pub struct ImageArgs {
    /// Directory of the bundle or catalog
    pub directory: PathBuf,
    /// Name and tag of the image
    #[arg(short = 't', long, value_name = "REF")]
    pub tag: String,
    /// File to write
    #[arg(short = 'o', long, value_name = "FILE", required_unless_present = "push")]
    pub output: Option<PathBuf>,
    /// Push the image to the registry in its name
    #[arg(long)]
    pub push: bool,
}

/// `opm alpha image catalog`
#[derive(Debug, ClapArgs)]
pub struct CatalogImageArgs {
    /// What both kinds of images need.
    #[command(flatten)]
    pub image: ImageArgs,
    /// Image file with opm to put the catalog on; without it an image is made around this very program
    #[arg(long, value_name = "FILE")]
    pub opm_image: Option<PathBuf>,
}
