//! `opm generate`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand, ValueHint};

use super::Format;
use super::offered::migration_levels;

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
    #[arg(value_hint = ValueHint::DirPath)]
    pub directory: PathBuf,
    /// Image of each bundle. Variables: {{.Package}}, {{.Name}} and {{.Version}}
    #[arg(long, value_name = "TEMPLATE", default_value = "", hide_default_value = true)]
    pub image_ref_template: String,
    /// Name of the last migration to run, after all that stand before it [default: none]
    #[arg(long, value_name = "LEVEL", value_parser = migration_levels())]
    pub migrate_level: Option<String>,
    /// Output format
    #[arg(short = 'o', long, default_value = "json")]
    pub output: Format,
}

/// `opm generate dockerfile`
#[derive(Debug, ClapArgs)]
pub(crate) struct DockerfileArgs {
    /// Directory of the catalog
    #[arg(value_name = "CATALOG_DIR", value_hint = ValueHint::DirPath)]
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

/// Default image with opm for Dockerfiles.
pub(crate) const OPM_IMAGE: &str = "quay.io/operator-framework/opm:latest";
