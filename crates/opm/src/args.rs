//! Flags as typed. Names, short forms and defaults are those of upstream's `opm` where it has them.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use crate::commands::plan::PlanArgs;

mod bundle;
mod pflag;

pub(crate) use pflag::{parse, upstream_text};

pub(crate) use bundle::{
    BundleBuildArgs, BundleCommand, BundleExtractArgs, BundleGenerateArgs, BundleUnpackArgs,
    BundleValidateArgs,
};

/// Heading of the flags that every command has.
const GLOBAL: &str = "Global options";

/// CLI for catalogs of operators: make, check and serve file-based catalogs.
#[derive(Debug, Parser)]
#[command(name = "opm", version, disable_help_subcommand = false, max_term_width = 100)]
pub(crate) struct Args {
    /// Flags of every command.
    #[command(flatten)]
    pub global: GlobalArgs,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
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
    /// missing related images, icons that cannot be shown and more. Exit code 1 if there is anything to tell.
    Lint(LintArgs),
    /// Migrate a file-based catalog to a new file-based catalog applying optional migrations
    ///
    /// The catalog may be a container image or a directory; a new directory with one file a package is written. The JSON
    /// files are streams of objects, as opm and jq read them.
    #[command(after_help = MIGRATIONS)]
    Migrate(MigrateArgs),
    /// Generate a stream of file-based catalog objects from catalogs and bundles
    ///
    /// Sources are catalog images, catalog directories, bundle images and bundle directories. Where a source does not
    /// carry an image reference (bundle directories), --alpha-image-ref-template makes one. Variables: {{.Package}},
    /// {{.Name}} (the name of the ClusterServiceVersion) and {{.Version}}.
    #[command(after_help = MIGRATIONS)]
    Render(RenderArgs),
    /// Serve a file-based catalog via gRPC
    ///
    /// The catalog is loaded at startup. Later changes to its files are not served.
    Serve(ServeArgs),
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

/// Help on migrations.
pub(crate) const MIGRATIONS: &str = "Migrations, of which all up to the chosen level run:
  none                           do nothing
  bundle-object-to-csv-metadata  migrates bundles' \"olm.bundle.object\" to \"olm.csv.metadata\"
  all                            all of these";

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
    #[arg(required = true, value_name = "SOURCE")]
    pub sources: Vec<String>,
    /// When bundle image reference information is unavailable, populate it with this template (may change without notice)
    #[arg(long, value_name = "TEMPLATE")]
    pub alpha_image_ref_template: Option<String>,
    /// Perform all available schema migrations on the rendered catalog
    #[arg(long, conflicts_with = "migrate_level")]
    pub migrate: bool,
    /// Name of the last migration to run (default: none)
    #[arg(long, value_name = "LEVEL")]
    pub migrate_level: Option<String>,
    /// Output format
    #[arg(short = 'o', long, default_value = "json")]
    pub output: Format,
}

/// `opm migrate`
#[derive(Debug, ClapArgs)]
pub(crate) struct MigrateArgs {
    /// Catalog image or directory
    #[arg(value_name = "CATALOG")]
    pub catalog: String,
    /// Directory to write to; it must be empty or not exist
    #[arg(value_name = "OUTPUT_DIR")]
    pub output_dir: PathBuf,
    /// Name of the last migration to run (default: none)
    #[arg(long, value_name = "LEVEL")]
    pub migrate_level: Option<String>,
    /// Output format
    #[arg(short = 'o', long, default_value = "json")]
    pub output: Format,
}

/// `opm generate`
#[derive(Debug, Subcommand)]
pub(crate) enum GenerateCommand {
    /// Make a catalog from a directory of bundles
    ///
    /// Each directory below is a package: bundle directories, and a package.json with the package's name, default
    /// channel and, for each channel, its entries (name, replaces, skips, skipRange). The catalog goes to stdout.
    Catalog(GenerateCatalogArgs),
    /// Generate a Dockerfile for a file-based catalog
    ///
    /// The file is <CATALOG_DIR>.Dockerfile, beside the directory; if it exists the command fails. Of an extra label given
    /// twice the last value counts.
    Dockerfile(DockerfileArgs),
}

/// `opm generate catalog`
#[derive(Debug, ClapArgs)]
pub(crate) struct GenerateCatalogArgs {
    /// Directory of a package, or of several
    pub directory: PathBuf,
    /// Image of each bundle. Variables: {{.Package}}, {{.Name}} and {{.Version}}
    #[arg(long, value_name = "TEMPLATE", default_value = "", hide_default_value = true)]
    pub image_ref_template: String,
    /// Name of the last migration to run (default: none)
    #[arg(long, value_name = "LEVEL")]
    pub migrate_level: Option<String>,
    /// Output format
    #[arg(short = 'o', long, default_value = "json")]
    pub output: Format,
}

/// `opm generate dockerfile`
#[derive(Debug, ClapArgs)]
pub(crate) struct DockerfileArgs {
    /// Directory of the catalog
    #[arg(value_name = "CATALOG_DIR")]
    pub directory: PathBuf,
    /// Image base to use to build catalog
    #[arg(short = 'i', long, value_name = "IMAGE", default_value = OPM_IMAGE)]
    pub base_image: String,
    /// Image to use as a build stage
    #[arg(short = 'b', long, value_name = "IMAGE")]
    pub builder_image: Option<String>,
    /// Deprecated: sets both images
    #[arg(long, value_name = "IMAGE", hide = true, conflicts_with = "base_image")]
    pub binary_image: Option<String>,
    /// Extra labels to include in the generated Dockerfile, of the form key=value
    ///
    /// Several may stand in one value, divided by commas; one that has commas itself is put in quotes.
    #[arg(short = 'l', long, value_name = "LABELS")]
    pub extra_labels: Vec<String>,
}

/// Image with opm that Dockerfiles build on unless told otherwise.
pub(crate) const OPM_IMAGE: &str = "quay.io/operator-framework/opm:latest";

/// `opm graph`
#[derive(Debug, ClapArgs)]
pub(crate) struct GraphArgs {
    /// Catalog image or directory
    #[arg(value_name = "CATALOG")]
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
    /// For documents in Markdown
    Mermaid,
}

/// `opm lint`
#[derive(Debug, ClapArgs)]
pub(crate) struct LintArgs {
    /// Directory of the catalog
    pub directory: PathBuf,
    /// Rules to leave out
    #[arg(long, value_name = "RULE", value_delimiter = ',')]
    pub allow: Vec<String>,
    /// Output format; without it one finding a line
    #[arg(short = 'o', long)]
    pub output: Option<Format>,
}

/// `opm validate`
#[derive(Debug, ClapArgs)]
pub(crate) struct ValidateArgs {
    /// Directory of the catalog
    pub directory: PathBuf,
    /// Output format for validation results (json, yaml); without it faults go to stderr
    #[arg(
        short = 'o',
        long,
        value_name = "FORMAT",
        default_value = "",
        hide_default_value = true
    )]
    pub output: String,
}

/// Where Kubernetes reads why a container ended.
pub(crate) const DEFAULT_TERMINATION_LOG: &str = "/dev/termination-log";

/// `opm serve`
#[derive(Debug, ClapArgs)]
pub(crate) struct ServeArgs {
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
    /// With --cache-only, also write the cache in the layout that upstream's opm starts from; =false leaves it out, for
    /// images that only this program serves [default: true]
    #[arg(
        long,
        num_args = 0..=1,
        require_equals = true,
        default_value = "true",
        default_missing_value = "true",
        value_name = "BOOL",
        hide_default_value = true,
        action = clap::ArgAction::Set
    )]
    pub cache_upstream: bool,
    /// Path to a container termination log file
    #[arg(
        short = 't',
        long,
        value_name = "FILE",
        default_value = DEFAULT_TERMINATION_LOG
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
    #[command(after_help = MIGRATIONS)]
    RenderTemplate(RenderTemplateArgs),
}

/// `opm alpha list`
#[derive(Debug, Subcommand)]
pub(crate) enum ListCommand {
    /// List packages in a catalog
    Packages {
        /// Catalog image or directory
        #[arg(value_name = "CATALOG")]
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
    #[arg(value_name = "CATALOG")]
    pub catalog: String,
    /// Only this package
    pub package: Option<String>,
}

/// `opm alpha render-graph`
#[derive(Debug, ClapArgs)]
pub(crate) struct RenderGraphArgs {
    /// Catalog images or directories
    #[arg(required = true, value_name = "CATALOG")]
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

/// `opm alpha render-template`
#[derive(Debug, ClapArgs)]
pub(crate) struct RenderTemplateArgs {
    /// Type of the template
    #[arg(value_name = "TYPE")]
    pub kind: Option<String>,
    /// The template
    pub file: Option<String>,
    /// Name of the last migration to run (default: none)
    #[arg(long, value_name = "LEVEL")]
    pub migrate_level: Option<String>,
    /// Output format
    #[arg(short = 'o', long, default_value = "json")]
    pub output: TemplateFormat,
}

/// How a rendered template is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TemplateFormat {
    /// JSON documents, one after the other
    Json,
    /// YAML documents, each after `---`
    Yaml,
    /// The upgrade graph
    Mermaid,
}

/// `opm alpha convert-template`
#[derive(Debug, Subcommand)]
pub(crate) enum ConvertTemplateCommand {
    /// Generate a basic template from existing FBC
    Basic(ConvertTemplateArgs),
    /// Generate a substitutes template from existing FBC
    Substitutes(ConvertTemplateArgs),
}

/// `opm alpha convert-template basic|substitutes`
#[derive(Debug, ClapArgs)]
pub(crate) struct ConvertTemplateArgs {
    /// The catalog file; standard input without it or with '-'
    pub file: Option<String>,
    /// Output format
    #[arg(short = 'o', long, default_value = "json")]
    pub output: Format,
}

/// `opm alpha image`
#[derive(Debug, Subcommand)]
pub(crate) enum ImageCommand {
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
pub(crate) struct ImageArgs {
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
pub(crate) struct CatalogImageArgs {
    /// What both kinds of images need.
    #[command(flatten)]
    pub image: ImageArgs,
    /// Image file with opm to put the catalog on; without it an image is made around this very program
    #[arg(long, value_name = "FILE")]
    pub opm_image: Option<PathBuf>,
    /// Also put the cache in that upstream's opm starts from; =false leaves it out [default: true]
    #[arg(
        long,
        num_args = 0..=1,
        require_equals = true,
        default_value = "true",
        default_missing_value = "true",
        value_name = "BOOL",
        hide_default_value = true,
        action = clap::ArgAction::Set
    )]
    pub cache_upstream: bool,
}

#[cfg(test)]
mod tests {
    use clap::{Command as ClapCommand, CommandFactory as _};

    use super::*;

    /// A flag of upstream's help: short form, name, default.
    fn flag(line: &str) -> Option<(Option<char>, String, Option<String>)> {
        let line = line.trim_start();
        let (short, line) = match line.strip_prefix('-')?.strip_prefix('-') {
            Some(_) => (None, line),
            None => (line.chars().nth(1), line.get(2..)?.strip_prefix(", ")?),
        };
        let name = line.strip_prefix("--")?.split_whitespace().next()?.to_owned();
        let default = line
            .rsplit_once("(default \"")
            .map(|(_, rest)| rest.trim_end_matches(')').trim_end_matches('"').to_owned());
        Some((short, name, default))
    }

    fn command(path: &[&str]) -> ClapCommand {
        let mut command = Args::command();
        command.build();
        for name in path {
            command = command.find_subcommand(name).expect("command").clone();
        }
        command
    }

    /// Every flag and default of the recorded help texts is there; scripts go on working.
    #[test]
    fn flags_are_upstreams() {
        let mut count = 0;
        for (file, path) in [
            ("help", &[][..]),
            ("help-alpha-convert-template", &["alpha", "convert-template"]),
            ("help-alpha-list-channels", &["alpha", "list", "channels"]),
            ("help-alpha-render-graph", &["alpha", "render-graph"]),
            ("help-alpha-render-template", &["alpha", "render-template"]),
            ("help-generate-dockerfile", &["generate", "dockerfile"]),
            ("help-init", &["init"]),
            ("help-migrate", &["migrate"]),
            ("help-render", &["render"]),
            ("help-serve", &["serve"]),
            ("help-validate", &["validate"]),
        ] {
            let Some(path_of_file) = olm_testing::shared::shared_path(&format!("golden/opm/{file}.txt"))
            else {
                return;
            };
            let help = std::fs::read_to_string(path_of_file).expect("help");
            let command = command(path);
            for (short, name, default) in help.lines().filter_map(flag) {
                count += 1;
                let found = command
                    .get_arguments()
                    .find(|argument| argument.get_long() == Some(name.as_str()))
                    .unwrap_or_else(|| panic!("{path:?} lacks --{name}"));
                assert_eq!(found.get_short(), short, "{path:?} --{name}");
                // What another flag's value stands in for has no default of its own here.
                if let Some(default) = default.filter(|_| name != "builder-image") {
                    let ours: Vec<_> = found
                        .get_default_values()
                        .iter()
                        .map(|value| value.to_string_lossy())
                        .collect();
                    assert!(
                        ours == [default.as_str()] || name == "pprof-addr",
                        "{path:?} --{name}: {ours:?}"
                    );
                }
            }
            for line in help
                .lines()
                .skip_while(|line| !line.starts_with("Available Commands"))
            {
                let Some(name) = line
                    .strip_prefix("  ")
                    .and_then(|line| line.split_whitespace().next())
                else {
                    continue;
                };
                if !name.starts_with('-') && line.starts_with("  ") && !line.starts_with("   ") {
                    assert!(command.find_subcommand(name).is_some(), "{path:?} lacks {name}");
                }
            }
        }
        assert!(count > 40, "only {count} flags were looked at");
    }
}
