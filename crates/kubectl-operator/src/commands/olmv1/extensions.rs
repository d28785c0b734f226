//! `olmv1 install extension`, `update extension`, and how ClusterExtensions are listed.

use anyhow::{anyhow, bail};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::{Api, ResourceExt as _};
use olm_api::condition::{self, cluster_extension};
use olm_api::extension_v1::{
    BundleMetadata, CatalogFilter, ClusterExtension, ClusterExtensionSource, ClusterExtensionSpec,
    CrdUpgradeSafetyEnforcement, ExtensionSourceType, ServiceAccountReference, UpgradeConstraintPolicy,
};
use olm_api::selector;
use serde_json::json;

use super::{Columns, Managed, change_labels, current, find, follow, new_labels, report, since, status_of};
use crate::args::olmv1::{ExtensionFields, InstallExtensionArgs, UpdateExtensionArgs};
use crate::args::shared::{UPSTREAM_TIMEOUT, slice};
use crate::cluster::Cluster;
use crate::operators::Node;
use crate::terminal::Mark;
use crate::watch::{Outcome, Screen};
use crate::{Verdict, writer};

/// Namespace that upstream's plugin installs in by default.
const DEFAULT_NAMESPACE: &str = "olmv1-system";
/// Part of the controller's text for a configuration that does not fit the bundle.
const INVALID_CONFIGURATION: &str = "invalid ClusterExtension configuration: ";
/// Part of the controller's text for a bundle that needs the namespace to watch.
const NO_WATCH_NAMESPACE: &str = "required field \"watchNamespace\" is missing";

/// Creates an extension and waits until it is installed. An extension that is not installed in time is kept, as in upstream's
/// plugin: deleting it would delete its definitions, and upstream's OLM v1 deletes all their custom resources with them.
///
/// # Errors
/// The extension cannot be created, or is not installed in time.
pub(super) async fn install(args: &InstallExtensionArgs) -> anyhow::Result<Verdict> {
    let extension = new(args)?;
    let cluster = Cluster::connect(&args.write.connection).await?;
    let wait = args.wait.or(UPSTREAM_TIMEOUT);
    super::create(&cluster, &extension, &wait, None, &args.write).await
}

/// Builds the extension from the flags.
pub(super) fn new(args: &InstallExtensionArgs) -> anyhow::Result<ClusterExtension> {
    let namespace = args.write.connection.namespace.as_deref();
    let mut extension = of_package(&args.name, namespace, &args.package_name, &args.fields)?;
    extension.spec.service_account = args.service_account.clone().map(|name| ServiceAccountReference {
        name: Some(name),
        ..ServiceAccountReference::default()
    });
    Ok(extension)
}

/// Returns a new extension of a package, in a namespace or the default one.
pub(super) fn of_package(
    name: &str,
    namespace: Option<&str>,
    package: &str,
    fields: &ExtensionFields,
) -> anyhow::Result<ClusterExtension> {
    let namespace = namespace.filter(|namespace| !namespace.is_empty());
    let spec = ClusterExtensionSpec {
        namespace: namespace.unwrap_or(DEFAULT_NAMESPACE).to_owned(),
        source: source(package, None),
        ..ClusterExtensionSpec::default()
    };
    let mut extension = ClusterExtension::new(name, spec);
    change(&mut extension, fields, false)?;
    extension.metadata.labels = new_labels(&fields.labels);
    Ok(extension)
}

/// Returns the source of a package, or of one version of it.
pub(super) fn source(package: &str, version: Option<String>) -> ClusterExtensionSource {
    ClusterExtensionSource {
        source_type: ExtensionSourceType::Catalog,
        catalog: Some(CatalogFilter {
            package_name: package.to_owned(),
            version,
            ..CatalogFilter::default()
        }),
        ..ClusterExtensionSource::default()
    }
}

fn catalog_selector(fields: &ExtensionFields) -> anyhow::Result<Option<LabelSelector>> {
    let text = fields.catalog_selector.as_deref();
    let text = text.filter(|text| !text.is_empty());
    text.map(|text| {
        selector::parse_field(text).map_err(|cause| anyhow!("invalid --catalog-selector {text:?}: {cause}"))
    })
    .transpose()
}

/// Updates fields of an extension and waits until it is installed.
///
/// # Errors
/// There is no such extension, nothing would change, or the extension is not installed in time.
pub(super) async fn update(args: &UpdateExtensionArgs) -> anyhow::Result<Verdict> {
    let cluster = Cluster::connect(&args.write.connection).await?;
    let mut extension = find::<ClusterExtension>(&cluster, &args.name).await?;
    let before = extension.clone();
    change(&mut extension, &args.fields, !args.unset.ignore_unset)?;
    if extension == before {
        bail!(
            "{} has these fields already, so it was not updated; print them with `{}`",
            writer::subject(&extension),
            cluster.suggest_for_cluster("olmv1 get extension {} -o yaml", &[&args.name])
        );
    }
    let api = Api::<ClusterExtension>::all(cluster.client.clone());
    let mut updated = writer::replace(args.write.is_dry_run(), &api, &extension).await?;
    if !args.write.is_dry_run() {
        let wait = args.wait.or(UPSTREAM_TIMEOUT);
        let followed = follow(&cluster, &updated, &wait, &mut Screen::stderr()).await?;
        updated = followed.map_err(|waits| {
            let status = cluster.suggest_for_cluster("olmv1 status {}", &[&args.name]);
            let text = waits.text;
            match waits.is_on_its_way {
                true => anyhow!(
                    "{text}; the update is kept, follow it with `{status}` or use --timeout to wait longer"
                ),
                false => {
                    anyhow!("{text}; the update is kept; correct what the message names, and see `{status}`")
                }
            }
        })?;
    }
    report(&[updated], "updated", &args.write)?;
    Ok(Verdict::Fine)
}

/// Sets the fields of an extension from the flags. With `is_reset`, those without a flag get their defaults.
pub(super) fn change(
    extension: &mut ClusterExtension,
    fields: &ExtensionFields,
    is_reset: bool,
) -> anyhow::Result<()> {
    let name = extension.name_any();
    change_labels(&mut extension.metadata.labels, &fields.labels);
    let spec = &mut extension.spec;
    let Some(catalog) = &mut spec.source.catalog else {
        bail!(
            "ClusterExtension {name}: the source type {} is not known to this version of the plugin; use `kubectl edit`",
            spec.source.source_type
        );
    };
    // An empty flag counts as absent.
    let version = fields.version.clone().filter(|version| !version.is_empty());
    if is_reset || version.is_some() {
        catalog.version = version;
    }
    let channels = slice(&fields.channels);
    if is_reset || !channels.is_empty() {
        catalog.channels = channels.into();
    }
    let selector = catalog_selector(fields)?;
    if is_reset || selector.is_some() {
        catalog.selector = selector;
    }
    if is_reset || fields.upgrade_constraint_policy.is_some() {
        let policy = fields.upgrade_constraint_policy.clone();
        catalog.upgrade_constraint_policy = Some(policy.unwrap_or(UpgradeConstraintPolicy::CatalogProvided));
    }
    match &fields.crd_upgrade_safety_enforcement {
        Some(enforcement) => {
            let install = spec.install.get_or_insert_default();
            let safety = &mut install.preflight.get_or_insert_default().crd_upgrade_safety;
            safety.enforcement = enforcement.clone();
        }
        // Without the field the check is strict.
        None if is_reset => {
            let install = spec.install.as_mut();
            if let Some(preflight) = install.and_then(|install| install.preflight.as_mut()) {
                preflight.crd_upgrade_safety.enforcement = CrdUpgradeSafetyEnforcement::Strict;
            }
        }
        None => {}
    }
    Ok(())
}

/// Returns a text of the controller, with the way out if a configuration does not fit the bundle.
pub(super) fn with_way_out(extension: &ClusterExtension, text: &str) -> String {
    let name = extension.name_any();
    if text.contains(NO_WATCH_NAMESPACE) {
        let inline = json!({"watchNamespace": extension.spec.namespace});
        let change = json!({"spec": {"config": {"configType": "Inline", "inline": inline}}});
        return format!(
            "{text}; set spec.config.inline.watchNamespace to the namespace that the operator should watch, for example: \
             kubectl patch clusterextension {name} --type merge -p '{change}'"
        );
    }
    match text.contains(INVALID_CONFIGURATION) {
        true => format!(
            "{text}; correct the field below spec.config.inline: kubectl edit clusterextension {name}"
        ),
        false => text.to_owned(),
    }
}

/// Returns why OLM refuses the configuration for a bundle, as text that begins with `about`, by the status of the extension.
pub(super) fn refused_configuration(extension: &ClusterExtension, about: &str) -> Option<String> {
    let progressing = extension.condition(cluster_extension::PROGRESSING);
    let progressing = current(progressing, extension.metadata.generation)?;
    let is_refused = progressing.reason == cluster_extension::INVALID_CONFIGURATION
        && progressing.message.starts_with(about);
    is_refused.then(|| with_way_out(extension, &progressing.message))
}

/// Returns the installed bundle; an empty one if there is none.
fn bundle(extension: &ClusterExtension) -> BundleMetadata {
    let install = extension
        .status
        .as_ref()
        .and_then(|status| status.install.as_ref());
    install.map(|install| install.bundle.clone()).unwrap_or_default()
}

impl Managed for ClusterExtension {
    const WORD: &'static str = "extension";
    const COLUMNS: Columns<Self> = &[
        ("NAME", |extension, _| extension.name_any()),
        ("INSTALLED BUNDLE", |extension, _| bundle(extension).name),
        ("VERSION", |extension, _| bundle(extension).version),
        ("SOURCE TYPE", |extension, _| {
            extension.spec.source.source_type.to_string()
        }),
        ("INSTALLED", |extension, _| {
            status_of(extension.condition(cluster_extension::INSTALLED))
        }),
        ("PROGRESSING", |extension, _| {
            status_of(extension.condition(cluster_extension::PROGRESSING))
        }),
        ("AGE", |extension, now| {
            since(now, extension.metadata.creation_timestamp.as_ref())
        }),
    ];
    const CONSEQUENCE: &'static str = " with everything installed; upstream's OLM v1 also deletes all custom resources of its kinds, this one keeps them";
    const SHOWN_BY: &'static str = "olmv1 status {}";

    fn sort(objects: &mut [Self]) {
        objects.sort_by_cached_key(|extension| extension.name_any());
    }

    fn progress(&self) -> (Node, Outcome) {
        let generation = self.metadata.generation;
        let installed = current(self.condition(cluster_extension::INSTALLED), generation);
        let progressing = current(self.condition(cluster_extension::PROGRESSING), generation);
        let is_installed = installed.is_some_and(|installed| installed.status == condition::TRUE);
        let has_succeeded =
            progressing.is_none_or(|progressing| progressing.reason == cluster_extension::SUCCEEDED);
        let (mark, outcome) = match progressing {
            _ if is_installed && has_succeeded => (Mark::Fine, Outcome::Done),
            Some(progressing) if progressing.status == condition::FALSE => (Mark::Bad, Outcome::Over),
            _ => (Mark::Waits, Outcome::Waits),
        };
        let state = match (outcome, progressing) {
            (Outcome::Done, _) => "Installed",
            (_, Some(progressing)) => progressing.reason.as_str(),
            (_, None) => "New",
        };
        let mut node = Node::new("ClusterExtension", &self.name_any(), mark, state);
        let cause = progressing.filter(|_| !has_succeeded).or(installed);
        node.message = match outcome {
            Outcome::Done => bundle(self).name,
            _ => cause.map_or_else(
                || "waiting for operator-controller to process it".to_owned(),
                |cause| with_way_out(self, &cause.message),
            ),
        };
        (node, outcome)
    }
}
