//! Flags of `olmv1`.

mod adopt;
mod plan;

use std::time::Duration;

use clap::builder::{NonEmptyStringValueParser, PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Args as ClapArgs, Subcommand, ValueEnum};
use go_compat::masterminds::Range;
use olm_api::extension_v1::{CrdUpgradeSafetyEnforcement, UpgradeConstraintPolicy};

pub(crate) use self::adopt::AdoptArgs;
pub(crate) use self::plan::PlanExtensionArgs;
use super::ConnectionArgs;
use super::shared::{Document, WaitArgs, boolean, duration, whole};

/// `olmv1`
#[derive(Debug, Subcommand)]
pub(crate) enum Olmv1Command {
    /// Turn a Subscription with its operator into a ClusterExtension, without a restart
    ///
    /// The ClusterExtension installs the version that runs, takes over its objects, and replaces the Subscription and the
    /// ClusterServiceVersion, which are deleted at the end. Without --yes nothing is changed: the command shows which objects are
    /// taken over, whether pods would restart, and everything that is in the way. CustomResourceDefinitions and custom resources are
    /// kept. The Subscription and the commands that lead back to it are saved in adopt-NAMESPACE-SUBSCRIPTION.yaml.
    ///
    /// Exit codes: 0 if the operator can be adopted or was, 2 if something is in the way, 1 on an error.
    #[command(after_help = "Examples:\n  \
        kubectl operator olmv1 adopt etcd -n shop                   # what would be done, and what is in the way\n  \
        kubectl operator olmv1 adopt etcd -n shop --yes\n  \
        kubectl operator olmv1 adopt etcd -n shop --name etcd-shop --yes --accept-restart\n  \
        kubectl operator olmv1 adopt etcd -n shop -o json | jq -r '.blockers[]'")]
    Adopt(AdoptArgs),
    /// Create a ClusterCatalog
    #[command(
        subcommand,
        after_help = "Examples:\n  \
        kubectl operator olmv1 create catalog community registry.example/catalog:latest"
    )]
    Create(CreateCommand),
    /// Delete ClusterCatalogs or ClusterExtensions
    #[command(
        subcommand,
        after_help = "Examples:\n  \
        kubectl operator olmv1 delete extension etcd\n  \
        kubectl operator olmv1 delete catalog community"
    )]
    Delete(DeleteCommand),
    /// List ClusterCatalogs or ClusterExtensions
    #[command(
        subcommand,
        after_help = "Examples:\n  \
        kubectl operator olmv1 get extensions\n  \
        kubectl operator olmv1 get catalog community -o yaml"
    )]
    Get(GetCommand),
    /// Install a ClusterExtension
    #[command(
        subcommand,
        after_help = "Examples:\n  \
        kubectl operator olmv1 install extension etcd --package-name etcd -n shop"
    )]
    Install(InstallCommand),
    /// Show what OLM would do with a ClusterExtension
    ///
    /// The command shows which version of which catalog OLM would choose, and why not another one. If it can pull the bundle image
    /// from here, it also shows which objects, images and permissions would change. NAME may be a ClusterExtension that exists, as
    /// it is or with other fields, or a new one with --package-name. Nothing is written.
    ///
    /// Exit codes: 0 if OLM would install or keep a version, 2 if it could not, 1 on an error.
    #[command(after_help = "Examples:\n  \
        kubectl operator olmv1 plan etcd                        # what OLM would do now\n  \
        kubectl operator olmv1 plan etcd --version 1.2.0        # what it would do with another version\n  \
        kubectl operator olmv1 plan etcd -p etcd -n shop        # what a new ClusterExtension would install\n  \
        kubectl operator olmv1 plan etcd -o json | jq -r '.candidates[] | .bundle, .ruledOut[]'")]
    Plan(PlanExtensionArgs),
    /// Search the packages of ClusterCatalogs
    #[command(
        subcommand,
        after_help = "Examples:\n  \
        kubectl operator olmv1 search catalog --package etcd --list-versions"
    )]
    Search(SearchCommand),
    /// Show a ClusterExtension as a tree, with its conditions and revisions
    ///
    /// Revisions are the ClusterObjectSets of the extension, the newest first; clusters without them show the extension alone.
    /// Below a revision are its conditions; the text of Available names the objects whose probes fail. A deprecation is shown if
    /// there is one, and does not count as not ready.
    ///
    /// Exit codes: 0 if everything is ready, 2 if something is not, 1 on an error or if there is no such extension.
    #[command(after_help = "Examples:\n  \
        kubectl operator olmv1 status etcd\n  \
        kubectl operator olmv1 status etcd -o json | jq -r .message")]
    Status(StatusArgs),
    /// Update a ClusterCatalog or a ClusterExtension
    #[command(
        subcommand,
        after_help = "Examples:\n  \
        kubectl operator olmv1 update extension etcd --version '>=1.2, <2.0'\n  \
        kubectl operator olmv1 update catalog community --priority 10"
    )]
    Update(UpdateCommand),
}

/// `olmv1 create`
#[derive(Debug, Subcommand)]
pub(crate) enum CreateCommand {
    /// Create a ClusterCatalog, and wait until it is served
    ///
    /// The command shows what it waits for until the condition Serving is True, or False with --available=false. If that takes
    /// longer than --timeout, or cannot happen, the ClusterCatalog is deleted again. It is kept if it cannot be read.
    ///
    /// Exit codes: 0 if the catalog is served, 1 on an error or if it is not served in time.
    #[command(
        visible_alias = "catalogs",
        after_help = "Examples:\n  \
        kubectl operator olmv1 create catalog community registry.example/catalog:latest\n  \
        kubectl operator olmv1 create catalog community registry.example/catalog:latest --source-poll-interval-minutes 10\n  \
        kubectl operator olmv1 create catalog mine registry.example/mine:v1 --priority 10 --labels team=shop,stage=test\n  \
        kubectl operator olmv1 create catalog mine registry.example/mine:v1 --dry-run All -o yaml"
    )]
    Catalog(CreateCatalogArgs),
}

/// `olmv1 delete`
#[derive(Debug, Subcommand)]
pub(crate) enum DeleteCommand {
    /// Delete a ClusterCatalog or all of them, and wait until they are deleted
    ///
    /// Installed extensions are kept but get no newer versions. On a terminal the command asks for confirmation.
    ///
    /// Exit codes: 0 if the catalogs are deleted, 2 if you decline, 1 on an error or if they are not deleted in time.
    #[command(
        visible_alias = "catalogs",
        after_help = "Examples:\n  \
        kubectl operator olmv1 delete catalog community\n  \
        kubectl operator olmv1 delete catalogs --all --yes\n  \
        kubectl operator olmv1 delete catalog community --dry-run All"
    )]
    Catalog(DeleteArgs),
    /// Delete a ClusterExtension or all of them with what they installed, and wait until they are deleted
    ///
    /// CustomResourceDefinitions that have custom resources stay, and so do these. Upstream's OLM v1 deletes all custom resources of their
    /// kinds, in all namespaces. On a terminal the command asks for confirmation.
    ///
    /// Exit codes: 0 if the extensions are deleted, 2 if you decline, 1 on an error or if they are not deleted in time.
    #[command(
        visible_alias = "extensions",
        after_help = "Examples:\n  \
        kubectl operator olmv1 delete extension etcd\n  \
        kubectl operator olmv1 delete extensions --all --yes --timeout 5m\n  \
        kubectl operator olmv1 delete extension etcd --dry-run All"
    )]
    Extension(DeleteArgs),
}

/// `olmv1 get`
#[derive(Debug, Subcommand)]
pub(crate) enum GetCommand {
    /// List ClusterCatalogs, the available ones and higher priorities first
    ///
    /// Exit codes: 0 if the list is printed, even if it is empty, 1 on an error or if there is no catalog of that name.
    #[command(
        visible_alias = "catalogs",
        after_help = "Examples:\n  \
        kubectl operator olmv1 get catalogs\n  \
        kubectl operator olmv1 get catalogs -l team=shop\n  \
        kubectl operator olmv1 get catalog community -o json | jq -r .status.resolvedSource.image.ref"
    )]
    Catalog(GetArgs),
    /// List ClusterExtensions with their installed bundles
    ///
    /// Exit codes: 0 if the list is printed, even if it is empty, 1 on an error or if there is no extension of that name.
    #[command(
        visible_alias = "extensions",
        after_help = "Examples:\n  \
        kubectl operator olmv1 get extensions\n  \
        kubectl operator olmv1 get extension etcd -o yaml"
    )]
    Extension(GetArgs),
}

/// `olmv1 install`
#[derive(Debug, Subcommand)]
pub(crate) enum InstallCommand {
    /// Create a ClusterExtension for a package, and wait until it is installed
    ///
    /// NAME is the name of the ClusterExtension. The namespace must exist. The command shows what it waits for until the condition
    /// Installed is True and Progressing has the reason Succeeded. If that takes longer than --timeout, or cannot happen, the
    /// command fails, and the ClusterExtension is kept.
    ///
    /// No flag sets spec.config. An operator that does not support all namespaces needs spec.config.inline.watchNamespace, which
    /// you can set as in the last example, also after the command has failed.
    ///
    /// Exit codes: 0 if the extension is installed, 1 on an error or if it is not installed in time.
    #[command(
        visible_alias = "extensions",
        after_help = "Examples:\n  \
        kubectl operator olmv1 install extension etcd --package-name etcd -n shop\n  \
        kubectl operator olmv1 install extension etcd -p etcd -n shop --channels stable --version '>=1.2, <2.0' --timeout 5m\n  \
        kubectl operator olmv1 install extension etcd -p etcd -n shop --catalog-selector 'team in (shop, web)'\n  \
        kubectl operator olmv1 install extension etcd -p etcd -n shop --dry-run All -o yaml\n  \
        kubectl patch clusterextension etcd --type merge -p \\\n      \
            '{\"spec\":{\"config\":{\"configType\":\"Inline\",\"inline\":{\"watchNamespace\":\"shop\"}}}}'"
    )]
    Extension(InstallExtensionArgs),
}

/// `olmv1 search`
#[derive(Debug, Subcommand)]
pub(crate) enum SearchCommand {
    /// Search the packages of served ClusterCatalogs, with their channels or versions
    ///
    /// The command reads the contents of catalogs through the API server, which passes the requests on to catalogd. It needs the
    /// permission to get services/proxy in the namespace of catalogd. -o json and -o yaml print the documents of the catalogs.
    ///
    /// Exit codes: 0 if the list is printed, even if it is empty, 1 on an error or if no catalog has the package.
    #[command(
        visible_alias = "catalogs",
        after_help = "Examples:\n  \
        kubectl operator olmv1 search catalog\n  \
        kubectl operator olmv1 search catalog --package etcd --list-versions\n  \
        kubectl operator olmv1 search catalog --catalog community --package etcd -o json | jq -r .schema"
    )]
    Catalog(SearchArgs),
}

/// `olmv1 update`
#[derive(Debug, Subcommand)]
pub(crate) enum UpdateCommand {
    /// Update fields of a ClusterCatalog
    ///
    /// Fields without a flag are kept; --ignore-unset=false sets them to their defaults instead. The command does not wait until
    /// new content is served.
    ///
    /// Exit codes: 0 if the catalog is updated, 1 on an error or if there is no catalog of that name.
    #[command(
        visible_alias = "catalogs",
        after_help = "Examples:\n  \
        kubectl operator olmv1 update catalog community --image registry.example/catalog:v2\n  \
        kubectl operator olmv1 update catalog community --priority -5 --labels stage=test,old=\n  \
        kubectl operator olmv1 update catalog community --available=false    # remove its content from the cluster\n  \
        kubectl operator olmv1 update catalog community --source-poll-interval-minutes 0"
    )]
    Catalog(UpdateCatalogArgs),
    /// Update fields of a ClusterExtension, and wait until it is installed
    ///
    /// Fields without a flag are kept; --ignore-unset=false sets them to their defaults instead. The command shows what it waits
    /// for until the condition Installed is True and Progressing has the reason Succeeded for the new fields.
    ///
    /// No flag sets spec.config. Its field spec.config.inline.watchNamespace is set as in the last example.
    ///
    /// Exit codes: 0 if the extension is updated, 1 on an error, if nothing would change, or if it is not installed in time.
    #[command(
        visible_alias = "extensions",
        after_help = "Examples:\n  \
        kubectl operator olmv1 update extension etcd --version 1.2.x\n  \
        kubectl operator olmv1 update extension etcd --channels stable,beta --timeout 5m\n  \
        kubectl operator olmv1 update extension etcd --version 1.0.0 --upgrade-constraint-policy SelfCertified\n  \
        kubectl patch clusterextension etcd --type merge -p \\\n      \
            '{\"spec\":{\"config\":{\"configType\":\"Inline\",\"inline\":{\"watchNamespace\":\"shop\"}}}}'"
    )]
    Extension(UpdateExtensionArgs),
}

/// What is not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DryRun {
    /// The API server checks the request and writes nothing
    #[value(name = "All")]
    All,
}

/// Flags of commands that write one object.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct WriteArgs {
    /// Have the API server check the request without writing it
    #[arg(long, value_enum, value_name = "STRATEGY")]
    pub dry_run: Option<DryRun>,
    /// Output format of the object, usually with --dry-run [default: only a confirmation]
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    pub output: Option<Document>,
    #[command(flatten)]
    pub connection: ConnectionArgs,
}

impl WriteArgs {
    /// Returns true if nothing is written.
    pub(crate) fn is_dry_run(&self) -> bool {
        self.dry_run.is_some()
    }
}

/// Fields of a catalog.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct CatalogFields {
    /// Priority; if several catalogs offer a package, the one with the highest priority is used [default: 0]
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true,
        value_parser = |text: &str| whole::<i32>(text, "a whole number, such as -100 or 10"))]
    pub priority: Option<i32>,
    /// True to serve the content, false to remove it from the cluster [default for new catalogs: true]
    #[arg(long, value_name = "BOOL", value_parser = boolean)]
    pub available: Option<bool>,
    /// Minutes between two checks of the image's tag for new content; 0 or -1 means never. Not for images by digest
    #[arg(long, value_name = "MINUTES", allow_negative_numbers = true, value_parser = minutes)]
    pub source_poll_interval_minutes: Option<i32>,
    /// Comma-separated labels as KEY=VALUE; an empty value removes a label; may be repeated
    #[arg(long, value_name = "LABELS", value_delimiter = ',', value_parser = label)]
    pub labels: Vec<(String, String)>,
}

/// Fields of an extension.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct ExtensionFields {
    /// Comma-separated channels whose versions may be installed; may be repeated [default: all channels]
    #[arg(short, long, value_name = "CHANNELS")]
    pub channels: Vec<String>,
    /// Version, or range of versions, that may be installed, such as 1.2.x or '>=1.2, <2.0' [default: all versions]
    #[arg(short, long, value_name = "VERSION", value_parser = version_range)]
    pub version: Option<String>,
    /// Comma-separated labels as KEY=VALUE; an empty value removes a label; may be repeated
    #[arg(long, value_name = "LABELS", value_delimiter = ',', value_parser = label)]
    pub labels: Vec<(String, String)>,
    /// Whether a changed CustomResourceDefinition is checked before an upgrade [default: Strict]
    #[arg(long, value_name = "POLICY", value_parser = enforcement())]
    pub crd_upgrade_safety_enforcement: Option<CrdUpgradeSafetyEnforcement>,
    /// Versions that may follow the installed one [default: CatalogProvided]
    #[arg(long, value_name = "POLICY", value_parser = constraint_policy())]
    pub upgrade_constraint_policy: Option<UpgradeConstraintPolicy>,
    /// Label selector for the catalogs to install from, such as 'team=shop,stage in (test, prod)' [default: all catalogs]
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub catalog_selector: Option<String>,
}

/// Flag of updates for fields without a flag.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct UnsetArgs {
    /// Keep fields without a flag; false sets them to their defaults
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value = "true", value_parser = boolean, action = ArgAction::Set)]
    pub ignore_unset: bool,
}

/// `olmv1 create catalog`
#[derive(Debug, ClapArgs)]
#[command(mut_arg("timeout", |arg| arg.help("Maximum time to wait until the catalog is served, such as 90s or 5m; 0 means no limit [default: 1m]")))]
pub(crate) struct CreateCatalogArgs {
    /// Name of the ClusterCatalog
    #[arg(value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub name: String,
    /// Image of the catalog, with registry and with tag or digest
    #[arg(value_name = "IMAGE", value_parser = NonEmptyStringValueParser::new())]
    pub source: String,
    #[command(flatten)]
    pub fields: CatalogFields,
    /// Has no effect, as in upstream's plugin; the image is the second argument
    #[arg(long, value_name = "IMAGE", hide = true)]
    pub image: Option<String>,
    /// Maximum time to delete the ClusterCatalog if it is not served in time
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = duration)]
    pub cleanup_timeout: Duration,
    #[command(flatten)]
    pub wait: WaitArgs,
    #[command(flatten)]
    pub write: WriteArgs,
}

/// `olmv1 update catalog`
#[derive(Debug, ClapArgs)]
pub(crate) struct UpdateCatalogArgs {
    /// Name of the ClusterCatalog
    #[arg(value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub name: String,
    /// Image of the catalog, with registry and with tag or digest [default: the current image]
    #[arg(long, value_name = "IMAGE", value_parser = NonEmptyStringValueParser::new())]
    pub image: Option<String>,
    #[command(flatten)]
    pub fields: CatalogFields,
    #[command(flatten)]
    pub unset: UnsetArgs,
    #[command(flatten)]
    pub write: WriteArgs,
}

/// `olmv1 install extension`
#[derive(Debug, ClapArgs)]
#[command(
    mut_arg("namespace", |arg| arg.help("Namespace to install in; it must exist [default: olmv1-system]")),
    mut_arg("timeout", |arg| arg.help("Maximum time to wait until the extension is installed, such as 90s or 5m; 0 means no limit [default: 1m]"))
)]
pub(crate) struct InstallExtensionArgs {
    /// Name of the ClusterExtension
    #[arg(value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub name: String,
    /// Package to install
    #[arg(short, long, value_name = "PACKAGE", required = true, value_parser = NonEmptyStringValueParser::new())]
    pub package_name: String,
    #[command(flatten)]
    pub fields: ExtensionFields,
    /// ServiceAccount in the namespace that the bundle is installed as; without it, OLM's. Upstream's OLM v1 ignores it, and old
    /// versions need one
    #[arg(short, long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub service_account: Option<String>,
    /// Has no effect: a ClusterExtension that is not installed in time is kept
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = duration, hide = true)]
    pub cleanup_timeout: Duration,
    #[command(flatten)]
    pub wait: WaitArgs,
    #[command(flatten)]
    pub write: WriteArgs,
}

/// `olmv1 update extension`
#[derive(Debug, ClapArgs)]
#[command(mut_arg("timeout", |arg| arg.help("Maximum time to wait until the extension is installed, such as 90s or 5m; 0 means no limit [default: 1m]")))]
pub(crate) struct UpdateExtensionArgs {
    /// Name of the ClusterExtension
    #[arg(value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub name: String,
    #[command(flatten)]
    pub fields: ExtensionFields,
    #[command(flatten)]
    pub unset: UnsetArgs,
    #[command(flatten)]
    pub wait: WaitArgs,
    #[command(flatten)]
    pub write: WriteArgs,
}

/// `olmv1 delete catalog` and `olmv1 delete extension`
#[derive(Debug, ClapArgs)]
#[command(mut_arg("timeout", |arg| arg.help("Maximum time to wait for each deletion, such as 90s or 5m; 0 means no limit [default: 1m]")))]
pub(crate) struct DeleteArgs {
    /// Name of the object; all of its kind with --all
    #[arg(value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub name: Option<String>,
    /// Delete all objects of the kind
    #[arg(short, long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false",
        hide_default_value = true, value_name = "BOOL", value_parser = boolean, action = ArgAction::Set)]
    pub all: bool,
    /// Do not ask for confirmation
    #[arg(short, long)]
    pub yes: bool,
    #[command(flatten)]
    pub wait: WaitArgs,
    #[command(flatten)]
    pub write: WriteArgs,
}

/// `olmv1 get catalog` and `olmv1 get extension`
#[derive(Debug, ClapArgs)]
pub(crate) struct GetArgs {
    /// Name of the object [default: all objects of the kind]
    #[arg(value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub name: Option<String>,
    /// Label selector, such as 'team=shop,stage in (test, prod)'; has no effect with NAME
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub selector: Option<String>,
    /// Output format; of several objects a list [default: a table]
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    pub output: Option<Document>,
    #[command(flatten)]
    pub connection: ConnectionArgs,
}

/// `olmv1 search catalog`
#[derive(Debug, ClapArgs)]
#[command(mut_arg("timeout", |arg| arg.help("Maximum time to read the catalogs, such as 90s or 5m; 0 means no limit [default: 5m]")))]
pub(crate) struct SearchArgs {
    /// ClusterCatalog to search [default: all that are served]
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub catalog: Option<String>,
    /// List the versions of each package instead of its channels
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false",
        hide_default_value = true, value_name = "BOOL", value_parser = boolean, action = ArgAction::Set)]
    pub list_versions: bool,
    /// Package to search for [default: all packages]
    #[arg(long, value_name = "PACKAGE")]
    pub package: Option<String>,
    /// Namespace of catalogd [default: the one in the address of the catalog]
    #[arg(long, value_name = "NAMESPACE", value_parser = NonEmptyStringValueParser::new())]
    pub catalogd_namespace: Option<String>,
    /// Label selector for the catalogs to search; has no effect with --catalog
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub selector: Option<String>,
    /// Output format of the documents [default: a table]
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    pub output: Option<Document>,
    #[command(flatten)]
    pub wait: WaitArgs,
    #[command(flatten)]
    pub connection: ConnectionArgs,
}

/// `olmv1 status`
#[derive(Debug, ClapArgs)]
pub(crate) struct StatusArgs {
    /// Name of the ClusterExtension
    #[arg(value_name = "EXTENSION", value_parser = NonEmptyStringValueParser::new())]
    pub name: String,
    /// Output format [default: a tree]
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    pub output: Option<Document>,
    #[command(flatten)]
    pub connection: ConnectionArgs,
}

fn enforcement() -> impl TypedValueParser<Value = CrdUpgradeSafetyEnforcement> {
    let words = PossibleValuesParser::new([
        PossibleValue::new("Strict")
            .help("An upgrade that could break stored objects or clients is not done"),
        PossibleValue::new("None").help("Nothing is checked"),
    ]);
    words.map(|word| CrdUpgradeSafetyEnforcement::from(word.as_str()))
}

fn constraint_policy() -> impl TypedValueParser<Value = UpgradeConstraintPolicy> {
    let words = PossibleValuesParser::new([
        PossibleValue::new("CatalogProvided").help("Only the successors that the catalog names"),
        PossibleValue::new("SelfCertified").help("Any version, also older ones"),
    ]);
    words.map(|word| UpgradeConstraintPolicy::from(word.as_str()))
}

/// Parses `--source-poll-interval-minutes`.
fn minutes(text: &str) -> Result<i32, String> {
    let expected = "a number of minutes; 0 or -1 means never";
    match whole::<i32>(text, expected)? {
        ..-1 => Err(format!("expected {expected}")),
        minutes => Ok(minutes),
    }
}

/// Parses one label.
fn label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text
        .split_once('=')
        .filter(|(key, _)| !key.is_empty())
        .ok_or("expected KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

/// Checks a range of versions by the grammar that OLM reads it by. Empty text is the absence of a range.
fn version_range(text: &str) -> Result<String, String> {
    if !text.is_empty() {
        let range = Range::parse(text);
        range.map_err(|error| format!("{error}; expected for example 1.2.x or '>=1.2, <2.0'"))?;
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests;
