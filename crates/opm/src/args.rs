//! Flags as types. Names, short forms and defaults are upstream's where its `opm` has the flag.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum, ValueHint};
use clap_complete::Shell;

mod bundle;
mod generate;
mod image;
mod offered;
mod pflag;
mod plan;
mod serve;
mod serve_configmap;
mod template;

pub(crate) use pflag::{parse, usage_error};

pub(crate) use bundle::{
    BundleBuildArgs, BundleCommand, BundleExtractArgs, BundleGenerateArgs, BundleUnpackArgs,
    BundleValidateArgs,
};
pub(crate) use generate::{DockerfileArgs, GenerateCatalogArgs, GenerateCommand, OPM_IMAGE};
pub(crate) use image::{CatalogImageArgs, ImageArgs, ImageCommand};
pub(crate) use plan::{PlanArgs, PlanFormat};
pub(crate) use serve::{DEFAULT_TERMINATION_LOG, ServeArgs};
pub(crate) use serve_configmap::ServeConfigMapArgs;
pub(crate) use template::{ConvertTemplateCommand, RenderTemplateArgs, TemplateFormat};

use offered::{lint_rules, migration_levels, validation_formats};

/// Heading of the flags that every command has.
const GLOBAL: &str = "Global options";

/// Help text: configuration of registries, in the order in which it is read.
const REGISTRIES: &str = "\
Registries, as podman and skopeo reach them:
  mirrors       registries.conf: $CONTAINERS_REGISTRIES_CONF, else ~/.config/containers,
                else /etc/containers; each with the files of registries.conf.d
  certificates  certs.d/HOST in ~/.config/containers, /etc/containers or /etc/docker: the first
  policy        policy.json in ~/.config/containers, else in /etc/containers: what it rejects is
                not pulled; signatures are not verified
  credentials   $REGISTRY_AUTH_FILE, else config.json in $DOCKER_CONFIG or ~/.docker; then
                containers/auth.json in $XDG_RUNTIME_DIR (else /run/containers/UID/auth.json) and
                in $XDG_CONFIG_HOME or ~/.config; config.json; ~/.dockercfg; and the credential
                helpers that these name
  layers        are held in $OLM_CACHE_DIR/images, else in $TMPDIR, while they are pulled
--registry-config takes the place of registries.conf and certs.d. With --use-http or
--skip-tls-verify a registry may have any certificate, or speak plain HTTP where it speaks no
HTTPS.";

/// CLI for catalogs of operators: make, check and serve file-based catalogs.
#[derive(Debug, Parser)]
#[command(name = "opm", version, disable_help_subcommand = false, max_term_width = 100, after_long_help = REGISTRIES)]
pub(crate) struct Args {
    /// Flags of every command.
    #[command(flatten)]
    pub global: GlobalArgs,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

impl Args {
    /// With what the letters mean that flags of every command have in one alone.
    fn with_short_flags(mut self) -> Self {
        if let Command::Alpha(AlphaCommand::Bundle(BundleCommand::Unpack(unpack))) = &self.command {
            self.global.debug |= unpack.short_debug;
            self.global.skip_tls |= unpack.short_skip_tls;
        }
        self
    }
}

/// Flags of every command.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct GlobalArgs {
    /// Skip TLS certificate verification for container image registries
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub skip_tls_verify: bool,
    /// Use plain HTTP for container image registries
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub use_http: bool,
    /// Deprecated: as --use-http
    #[arg(long, global = true, hide = true)]
    pub skip_tls: bool,
    /// Folder of hosts.toml files, as containerd reads it, that names mirrors and plain HTTP registries
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "DIR", env = "OPM_REGISTRY_CONFIG", hide_env_values = true)]
    pub registry_config: Option<PathBuf>,
    /// Log more
    #[arg(long, global = true, hide = true)]
    pub debug: bool,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Generate various artifacts for file-based catalogs
    #[command(subcommand)]
    Generate(GenerateCommand),
    /// Draw the upgrade graph of a package, with deprecated and unreachable bundles marked
    Graph(GraphArgs),
    /// Generate an olm.package declarative config blob
    Init(InitArgs),
    /// Tell what validates but will hurt
    ///
    /// Looks for versions without upgrade path, a default channel without the newest version, CRDs of removed APIs,
    /// missing related images, icons that cannot be shown, misspelt names and more. Exit code 1 if there is anything to
    /// tell. What does not even validate is told, too.
    Lint(LintArgs),
    /// Migrate a file-based catalog to a new file-based catalog applying optional migrations
    ///
    /// The catalog may be a container image or a directory; a new directory with one file a package is written. The JSON
    /// files are streams of objects, as opm and jq read them.
    Migrate(MigrateArgs),
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
    /// Serve the catalog of a ConfigMap via gRPC
    ///
    /// The keys customResourceDefinitions, clusterServiceVersions and packages are read from files of a directory, as a
    /// volume has them. This is what the pods of CatalogSources of the type configmap run.
    #[command(name = "serve-configmap", hide = true)]
    ServeConfigMap(ServeConfigMapArgs),
    /// Tell what OLM would install for the objects of a namespace, step by step, without a cluster
    ///
    /// The plan follows the channels of all Subscriptions to their heads, or to --target. Exit codes: 0 for a plan of
    /// everything asked for, 2 for one without what cannot be resolved, 1 if no plan can be made.
    Plan(PlanArgs),
    /// Validate the file-based catalog in a directory
    Validate(ValidateArgs),
    /// Run an alpha subcommand: these may change or go away
    #[command(subcommand)]
    Alpha(AlphaCommand),
    /// Generate the autocompletion script for a shell
    Completion {
        /// The shell
        shell: Shell,
        /// Leave descriptions out, where the shell shows them
        #[arg(long, hide = true)]
        no_descriptions: bool,
    },
    /// Print the opm version
    Version,
}

/// How documents are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// JSON documents, one after the other
    Json,
    /// YAML documents, each after `---`
    Yaml,
}

/// `opm init`
#[derive(Debug, ClapArgs)]
pub(crate) struct InitArgs {
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
pub(crate) struct RenderArgs {
    /// catalog-image | catalog-directory | bundle-image | bundle-directory
    #[arg(required = true, value_name = "SOURCE", value_hint = ValueHint::AnyPath)]
    pub sources: Vec<String>,
    /// When bundle image reference information is unavailable, populate it with this template (may change without notice)
    #[arg(long, value_name = "TEMPLATE")]
    pub alpha_image_ref_template: Option<String>,
    /// Perform all available schema migrations on the rendered catalog
    #[arg(long, conflicts_with = "migrate_level")]
    pub migrate: bool,
    /// Name of the last migration to run, after all that stand before it [default: none]
    #[arg(long, value_name = "LEVEL", value_parser = migration_levels())]
    pub migrate_level: Option<String>,
    /// Output format
    #[arg(short = 'o', long, default_value = "json")]
    pub output: Format,
}

/// `opm migrate`
#[derive(Debug, ClapArgs)]
pub(crate) struct MigrateArgs {
    /// Catalog image or directory
    #[arg(value_name = "CATALOG", value_hint = ValueHint::AnyPath)]
    pub catalog: String,
    /// Directory to write to; it must be empty or not exist
    #[arg(value_name = "OUTPUT_DIR", value_hint = ValueHint::DirPath)]
    pub output_dir: PathBuf,
    /// Name of the last migration to run, after all that stand before it [default: none]
    #[arg(long, value_name = "LEVEL", value_parser = migration_levels())]
    pub migrate_level: Option<String>,
    /// Output format
    #[arg(short = 'o', long, default_value = "json")]
    pub output: Format,
}

/// `opm graph`
#[derive(Debug, ClapArgs)]
pub(crate) struct GraphArgs {
    /// Catalog image or directory
    #[arg(value_name = "CATALOG", value_hint = ValueHint::AnyPath)]
    pub catalog: String,
    /// The package
    pub package: String,
    /// Only this channel
    #[arg(short = 'c', long)]
    pub channel: Option<String>,
    /// Output format
    #[arg(short = 'o', long, default_value = "svg")]
    pub output: GraphFormat,
}

/// How a graph is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum GraphFormat {
    /// A picture
    Svg,
    /// For Graphviz
    Dot,
}

/// `opm lint`
#[derive(Debug, ClapArgs)]
pub(crate) struct LintArgs {
    /// Directory of the catalog
    #[arg(value_hint = ValueHint::DirPath)]
    pub directory: PathBuf,
    /// Rules to leave out, divided by commas
    #[arg(long, value_name = "RULE", value_delimiter = ',', value_parser = lint_rules())]
    pub allow: Vec<String>,
    /// Output format; without it one finding a line
    #[arg(short = 'o', long)]
    pub output: Option<Format>,
}

/// `opm validate`
#[derive(Debug, ClapArgs)]
pub(crate) struct ValidateArgs {
    /// Directory of the catalog
    #[arg(value_hint = ValueHint::DirPath)]
    pub directory: PathBuf,
    /// Output format for validation results; without it faults go to stderr
    #[arg(
        short = 'o',
        long,
        value_name = "FORMAT",
        default_value = "",
        hide_default_value = true,
        value_parser = validation_formats()
    )]
    pub output: String,
}

/// `opm alpha`
#[derive(Debug, Subcommand)]
pub(crate) enum AlphaCommand {
    /// Operator bundle commands
    #[command(subcommand)]
    Bundle(BundleCommand),
    /// Convert existing FBC to a supported template type
    #[command(subcommand)]
    ConvertTemplate(ConvertTemplateCommand),
    /// Make images of bundles and catalogs without a container engine
    #[command(subcommand)]
    Image(ImageCommand),
    /// List contents of a catalog, for people to read
    #[command(subcommand)]
    List(ListCommand),
    /// Generate a mermaid view of the upgrade graphs of a catalog
    RenderGraph(RenderGraphArgs),
    /// Render a catalog template
    ///
    /// The template's type is one of basic, semver and substitutes; without it the schema of the template decides. Without
    /// a file, or with '-', the template is read from standard input.
    RenderTemplate(RenderTemplateArgs),
}

/// `opm alpha list`
#[derive(Debug, Subcommand)]
pub(crate) enum ListCommand {
    /// List packages in a catalog
    Packages {
        /// Catalog image or directory
        #[arg(value_name = "CATALOG", value_hint = ValueHint::AnyPath)]
        catalog: String,
    },
    /// List package channels in a catalog
    Channels(ListArgs),
    /// List package bundles in a catalog
    ///
    /// Bundles that are in several channels are listed once for each.
    Bundles(ListArgs),
}

/// `opm alpha list channels|bundles`
#[derive(Debug, ClapArgs)]
pub(crate) struct ListArgs {
    /// Catalog image or directory
    #[arg(value_name = "CATALOG", value_hint = ValueHint::AnyPath)]
    pub catalog: String,
    /// Only this package
    pub package: Option<String>,
}

/// `opm alpha render-graph`
#[derive(Debug, ClapArgs)]
pub(crate) struct RenderGraphArgs {
    /// Catalog images or directories
    #[arg(required = true, value_name = "CATALOG", value_hint = ValueHint::AnyPath)]
    pub catalogs: Vec<String>,
    /// The bundle to take as the lower bound of the graph; default is to include all
    #[arg(long, value_name = "BUNDLE", default_value = "", hide_default_value = true)]
    pub minimum_edge: String,
    /// Only this package
    #[arg(
        short = 'p',
        long,
        value_name = "PACKAGE",
        default_value = "",
        hide_default_value = true
    )]
    pub package_name: String,
    /// Mark what OLM v0 skips
    #[arg(long)]
    pub draw_v0_semantics: bool,
}

#[cfg(test)]
mod tests;
