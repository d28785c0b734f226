//! `opm alpha image`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand, ValueHint};

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
    #[arg(value_hint = ValueHint::DirPath)]
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
