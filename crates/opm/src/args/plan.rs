//! `opm plan`.

use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args as ClapArgs, ValueEnum};
use olm_resolver::cluster_fit::KubernetesVersion;

/// `opm plan`
#[derive(Debug, ClapArgs)]
pub(crate) struct PlanArgs {
    /// Catalog directories, and files of objects (as with --filename)
    ///
    /// A directory stands for every catalog the objects name. To plan with several, write NAMESPACE/NAME=DIRECTORY for each.
    #[arg(value_name = "CATALOG | FILE", required = true)]
    pub inputs: Vec<String>,
    /// File with Subscriptions, ClusterServiceVersions, OperatorGroups and CatalogSources; - is stdin
    #[arg(short, long, value_name = "FILE")]
    pub filename: Vec<PathBuf>,
    /// Namespace to plan for; may be left out when only one has Subscriptions
    #[arg(short, long)]
    pub namespace: Option<String>,
    /// Namespace whose catalogs every namespace may use [default: that of the catalogs named by the objects, else olm]
    #[arg(long, value_name = "NAMESPACE")]
    pub global_catalog_namespace: Option<String>,
    /// File that RUNTIME_CONSTRAINTS of catalog-operator names, if it does: what every bundle has to meet
    #[arg(long, value_name = "FILE")]
    pub runtime_constraints: Option<PathBuf>,
    /// How to get to this version (or ClusterServiceVersion) instead of where the channel leads
    #[arg(long, value_name = "VERSION", value_parser = NonEmptyStringValueParser::new())]
    pub target: Option<String>,
    /// Subscription that --target is about; may be left out when only one package has that version
    #[arg(long, value_name = "NAME", requires = "target")]
    pub subscription: Option<String>,
    /// Look ahead no further than so many steps; 1 is what the next resolution does
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true, conflicts_with = "target", value_parser = clap::value_parser!(u16).range(1..))]
    pub steps: Option<u16>,
    /// Version of the cluster's Kubernetes, such as 1.34.1, to tell what needs a newer one
    #[arg(long, value_name = "VERSION")]
    pub kube_version: Option<KubernetesVersion>,
    /// How to print the plan
    #[arg(short, long, value_enum, default_value_t = PlanFormat::Text)]
    pub output: PlanFormat,
}

/// How a plan is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PlanFormat {
    /// Step by step, for people
    Text,
    /// One JSON document, described by docs/reference/plan.schema.json
    Json,
}
