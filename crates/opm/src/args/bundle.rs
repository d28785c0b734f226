//! Flags of `opm alpha bundle`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

/// `opm alpha bundle`
#[derive(Debug, Subcommand)]
pub(crate) enum BundleCommand {
    /// Build operator bundle image
    ///
    /// Generates metadata and Dockerfile, then has a container engine build the image.
    Build(BundleBuildArgs),
    /// Extract the data in a bundle directory via ConfigMap
    ///
    /// The ConfigMap must exist. This is what a pod that unpacks a bundle runs.
    Extract(BundleExtractArgs),
    /// Generate operator bundle metadata and Dockerfile
    ///
    /// Package and channels that are not given are looked for in the package directory around the bundle.
    Generate(BundleGenerateArgs),
    /// Unpacks the content of an operator bundle
    Unpack(BundleUnpackArgs),
    /// Validate bundle image
    ///
    /// The image is pulled from its registry, without a container engine; a bundle directory is taken, too.
    Validate(BundleValidateArgs),
}

/// `opm alpha bundle generate`
#[derive(Debug, ClapArgs)]
pub(crate) struct BundleGenerateArgs {
    /// The directory where bundle manifests for a specific version are located
    #[arg(short = 'd', long, value_name = "DIR")]
    pub directory: PathBuf,
    /// The name of the package that bundle image belongs to
    #[arg(short = 'p', long, default_value = "", hide_default_value = true)]
    pub package: String,
    /// The list of channels that bundle image belongs to
    #[arg(short = 'c', long, default_value = "", hide_default_value = true)]
    pub channels: String,
    /// The default channel for the bundle image
    #[arg(short = 'e', long, default_value = "", hide_default_value = true)]
    pub default: String,
    /// Directory to write manifests and metadata to; default is beside the manifests
    #[arg(short = 'u', long, value_name = "DIR")]
    pub output_dir: Option<PathBuf>,
    /// Image to build the bundle image on
    #[arg(long, value_name = "IMAGE", default_value = "scratch")]
    pub base_image: String,
}

/// `opm alpha bundle build`
#[derive(Debug, ClapArgs)]
pub(crate) struct BundleBuildArgs {
    /// What is generated.
    #[command(flatten)]
    pub generate: BundleGenerateArgs,
    /// The image tag applied to the bundle image
    #[arg(short = 't', long)]
    pub tag: String,
    /// Tool to build container images. One of: [docker, podman, buildah]
    #[arg(short = 'b', long, value_name = "TOOL", default_value = "docker")]
    pub image_builder: String,
    /// To overwrite annotations.yaml locally if existed
    #[arg(short = 'o', long)]
    pub overwrite: bool,
}

/// `opm alpha bundle validate`
#[derive(Debug, ClapArgs)]
pub(crate) struct BundleValidateArgs {
    /// The path of a registry to pull from, image name and its tag that present the bundle image
    #[arg(short = 't', long)]
    pub tag: String,
    /// Accepted for compatibility: images are pulled without a container engine
    #[arg(short = 'b', long, value_name = "TOOL", default_value = "docker", hide = true)]
    pub image_builder: String,
    /// Optional validations to be run. One or more of: [operatorhub, bundle-objects]
    #[arg(short = 'o', long, value_delimiter = ',')]
    pub optional_validators: Vec<String>,
}

/// `opm alpha bundle extract`
#[derive(Debug, ClapArgs)]
pub(crate) struct BundleExtractArgs {
    /// Path to the directory that holds manifests/ and metadata/; it is put in front of them as it is
    #[arg(short = 'm', long, value_name = "DIR", default_value = "/")]
    pub manifestsdir: String,
    /// Name of the ConfigMap to write bundle data to
    #[arg(short = 'c', long, value_name = "NAME")]
    pub configmapname: String,
    /// Namespace of the ConfigMap
    #[arg(short = 'n', long, default_value = "openshift-operator-lifecycle-manager")]
    pub namespace: String,
    /// Maximum limit in bytes for total bundle data
    #[arg(short = 'l', long, value_name = "BYTES", default_value_t = 1 << 20)]
    pub datalimit: u64,
    /// Enable gzip compression of ConfigMap data
    #[arg(short = 'z', long)]
    pub gzip: bool,
    /// Path to kubeconfig file
    #[arg(short = 'k', long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
}

/// `opm alpha bundle unpack`
#[derive(Debug, ClapArgs)]
pub(crate) struct BundleUnpackArgs {
    /// Name and tag of the bundle image
    pub image: String,
    /// Directory in which to unpack operator bundle content
    #[arg(short = 'o', long, value_name = "DIR", default_value = "./")]
    pub out: PathBuf,
    /// Disable bundle validation
    #[arg(short = 'v', long)]
    pub skip_validation: bool,
    /// File path of a root CA to use when communicating with image registries
    #[arg(short = 'c', long, value_name = "FILE")]
    pub root_ca: Option<PathBuf>,
    /// --debug by the letter that it has in this command of upstream alone
    #[arg(short = 'd', hide = true)]
    pub short_debug: bool,
    /// --skip-tls, likewise
    #[arg(short = 's', hide = true)]
    pub short_skip_tls: bool,
}
