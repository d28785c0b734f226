//! `olmv1 plan`: shows what OLM would do with a ClusterExtension, existing or new. The choice, the objects and the checks are those of
//! `operator-controller`. Nothing is written.

pub(super) mod changes;
pub(super) mod read;
#[cfg(test)]
mod tests;
mod text;

use anyhow::{anyhow, bail};
use kube::ResourceExt as _;
use olm_api::extension_v1::{CatalogFilter, ClusterExtension, ClusterObjectSet};
use olm_api::labels;
use olm_fbc::schema::schemas;
use operator_controller::apply::crd_safety::{CrdUpgrade, check_upgrades, definitions};
use operator_controller::apply::phase::Phase;
use operator_controller::apply::revisions::DesiredRevision;
use operator_controller::cluster_extension::choose::{LONGEST_NAME, active};
use operator_controller::render::{Bundle, Endpoint, Options, endpoints, render};
use operator_controller::resolve::{Catalog, Chosen, Request, Resolution};
use serde_json::Value;

use self::text::{Plan, sort};
use super::extensions;
use crate::args::olmv1::PlanExtensionArgs;
use crate::cluster::Cluster;
use crate::reader::{get_cluster, has_namespace, is_forbidden};
use crate::terminal::plain;
use crate::{Verdict, printer};

/// Prints the plan.
///
/// # Errors
/// The extension, its catalogs or its revisions cannot be read, or the flags do not fit it.
pub(super) async fn run(args: &PlanExtensionArgs) -> anyhow::Result<Verdict> {
    let cluster = Cluster::connect(&args.connection).await?;
    let catalogd = args.catalogd_namespace.as_deref();
    let catalogs = async |filter: &CatalogFilter| read::catalogs(&cluster, filter, catalogd).await;
    let plan = Box::pin(plan(&cluster, args, &catalogs, &read::bundle)).await?;
    match args.output {
        Some(format) => printer::document(&plan, format)?,
        None => printer::data(&plan.text())?,
    }
    Ok(Verdict::when(plan.problems.is_empty()))
}

/// Returns the plan. `catalogs` reads the catalogs with the wanted package, and `pull` the bundle in an image.
///
/// # Errors
/// As [`run`].
async fn plan(
    cluster: &Cluster,
    args: &PlanExtensionArgs,
    catalogs: &impl AsyncFn(&CatalogFilter) -> anyhow::Result<Vec<Catalog>>,
    pull: &impl AsyncFn(&str) -> Result<Bundle, String>,
) -> anyhow::Result<Plan> {
    let extension = wanted(cluster, args).await?;
    let planned = Box::pin(of_extension(cluster, &extension, catalogs, pull));
    let (mut plan, objects) = planned.await?;
    plan.notes.extend(objects.err());
    Ok(plan)
}

/// Returns the plan for an extension, and the objects of the chosen bundle, or why they are unknown. There are none if OLM refuses the
/// bundle, or can choose none. `catalogs` and `pull` are those of [`plan()`].
///
/// # Errors
/// The catalogs, the revisions or the namespace cannot be read.
pub(super) async fn of_extension(
    cluster: &Cluster,
    extension: &ClusterExtension,
    catalogs: &impl AsyncFn(&CatalogFilter) -> anyhow::Result<Vec<Catalog>>,
    pull: &impl AsyncFn(&str) -> Result<Bundle, String>,
) -> anyhow::Result<(Plan, Result<Vec<Value>, String>)> {
    let filter = extension.spec.source.catalog.clone().unwrap_or_default();
    let revisions = read::revisions(cluster, extension).await?;
    let active = active(extension, &revisions);
    // OLM without revisions reports the installed bundle in the status only.
    let told = of_status(extension).filter(|_| revisions.is_empty());
    let installed = active.installed.map(|set| Chosen::of_revision(set)).or(told);
    let rollout = active.rollout(&filter);
    let is_rollout = rollout.is_some();
    let choice = match rollout {
        Some(rollout) => rollout,
        None => {
            let catalogs = catalogs(&filter).await?;
            let openshift = read::openshift(cluster).await;
            let request = Request {
                filter: &filter,
                installed: installed.as_ref(),
                openshift: openshift.as_ref(),
                is_by_semver: labels::is_true(extension.annotations(), labels::SEMVER_UPGRADES),
            };
            active.choose(&request, &catalogs)
        }
    };
    let mut plan = Plan {
        extension: extension.name_any(),
        namespace: extension.spec.namespace.clone(),
        package: filter.package_name.clone(),
        installed: installed.clone(),
        is_rollout,
        ..Plan::default()
    };
    add_choice(&mut plan, &choice);
    add_obstacles(&mut plan, cluster, extension).await?;
    let Ok(chosen) = &choice.outcome else {
        return Ok((plan, Ok(Vec::new())));
    };
    let unread = match chosen.image.as_str() {
        "" => "its image is not known here".to_owned(),
        image => match pull(image).await {
            Ok(bundle) => {
                let current = active.installed.or(active.rolling_out.last().copied());
                let wanted = Wanted {
                    extension,
                    chosen,
                    bundle: &bundle,
                    is_installed: installed.is_some(),
                };
                let objects = add_changes(&mut plan, cluster, &wanted, current.map(|set| &**set)).await;
                return Ok((plan, Ok(objects)));
            }
            Err(error) => format!("its image {image} cannot be read from here: {error}"),
        },
    };
    // The controller has read the bundle.
    plan.problems
        .extend(extensions::refused_configuration(extension, &chosen.refusal("")));
    let unread = format!("the changes by {} are unknown, because {unread}", chosen.name);
    Ok((plan, Err(unread)))
}

/// Returns the extension with the fields of the flags.
async fn wanted(cluster: &Cluster, args: &PlanExtensionArgs) -> anyhow::Result<ClusterExtension> {
    let name = plain(&args.name);
    let Some(mut extension) = get_cluster::<ClusterExtension>(&cluster.client, &args.name).await? else {
        let package = args.package_name.as_deref().ok_or_else(|| {
            anyhow!("the cluster has no ClusterExtension {name}; to plan a new one, use --package-name")
        })?;
        let namespace = args.connection.namespace.as_deref();
        return extensions::of_package(&args.name, namespace, package, &args.fields);
    };
    let catalog = extension.spec.source.catalog.as_ref();
    let package = catalog
        .map(|catalog| catalog.package_name.as_str())
        .unwrap_or_default();
    let namespace = extension.spec.namespace.as_str();
    for (flag, given, fixed) in [
        ("--package-name", &args.package_name, package),
        ("--namespace", &args.connection.namespace, namespace),
    ] {
        if given
            .as_deref()
            .is_some_and(|given| !given.is_empty() && given != fixed)
        {
            bail!(
                "ClusterExtension {name} exists with {flag} {}, which cannot be changed; omit the flag, or plan another name",
                plain(fixed)
            );
        }
    }
    extensions::change(&mut extension, &args.fields, false)?;
    Ok(extension)
}

/// Returns the bundle that the status names as installed.
fn of_status(extension: &ClusterExtension) -> Option<Chosen> {
    let install = extension.status.as_ref()?.install.as_ref()?;
    let catalog = extension.spec.source.catalog.as_ref()?;
    Some(Chosen {
        name: install.bundle.name.clone(),
        version: install.bundle.version.clone(),
        package: catalog.package_name.clone(),
        ..Chosen::default()
    })
}

/// Adds the chosen bundle and the other candidates, or why there is none.
fn add_choice(plan: &mut Plan, choice: &Resolution) {
    plan.candidates.clone_from(&choice.candidates);
    sort(&mut plan.candidates);
    plan.unused_catalogs.clone_from(&choice.unused_catalogs);
    match &choice.outcome {
        Ok(chosen) => plan.chosen = Some(chosen.clone()),
        Err(error) => plan.problems.push(error.clone()),
    }
    let chosen = choice.outcome.as_ref().ok();
    for entry in choice.deprecations.iter().flatten() {
        let reference = &entry.reference;
        let is_chosen = chosen.is_some_and(|chosen| chosen.name == reference.name);
        let what = match reference.schema.as_str() {
            schemas::PACKAGE => "the package",
            schemas::BUNDLE if is_chosen => reference.name.as_str(),
            _ => continue,
        };
        plan.notes
            .push(format!("{what} is deprecated: {}", entry.message));
    }
}

/// Adds what stops OLM whatever it chooses.
async fn add_obstacles(
    plan: &mut Plan,
    cluster: &Cluster,
    extension: &ClusterExtension,
) -> anyhow::Result<()> {
    let name = extension.name_any();
    if name.len() > LONGEST_NAME {
        let text = format!("the name of the ClusterExtension has more than {LONGEST_NAME} characters");
        plan.problems.push(text);
    }
    if extension.metadata.deletion_timestamp.is_some() {
        plan.problems
            .push("the ClusterExtension is being deleted".to_owned());
    }
    let namespace = &extension.spec.namespace;
    match has_namespace(&cluster.client, namespace).await {
        Ok(true) => {}
        Ok(false) => plan.problems.push(format!(
            "namespace {namespace} does not exist; create it with `kubectl create namespace`"
        )),
        Err(error) if is_forbidden(&error) => plan.notes.push(format!("{error:#}")),
        Err(error) => return Err(error),
    }
    Ok(())
}

/// What OLM would install.
struct Wanted<'a> {
    extension: &'a ClusterExtension,
    chosen: &'a Chosen,
    bundle: &'a Bundle,
    /// True if another or the same version is installed.
    is_installed: bool,
}

/// Adds the changes of the objects, or why OLM refuses the bundle. Returns the objects.
async fn add_changes(
    plan: &mut Plan,
    cluster: &Cluster,
    wanted: &Wanted<'_>,
    current: Option<&ClusterObjectSet>,
) -> Vec<Value> {
    let namespace = wanted.extension.spec.namespace.as_str();
    let endpoints = endpoints(wanted.bundle, namespace);
    let Some(phases) = phases(plan, cluster, wanted, &endpoints).await else {
        return Vec::new();
    };
    let old = match current {
        Some(set) => read::objects(cluster, set).await.map_err(|error| {
            format!(
                "the objects of ClusterObjectSet {} are unknown: {error:#}",
                set.name_any()
            )
        }),
        None if wanted.is_installed => Err("OLM has no ClusterObjectSet of the installed bundle".to_owned()),
        None => Ok(Vec::new()),
    };
    let (old, against) = match old {
        Ok(old) => (old, current.map(|set| set.name_any())),
        Err(unknown) => {
            plan.notes
                .push(format!("{unknown}; the changes are those of a new installation"));
            (Vec::new(), None)
        }
    };
    let new: Vec<Value> = phases.into_iter().flat_map(|phase| phase.objects).collect();
    let (changes, unknown) = changes::compare(&old, &new, namespace, &endpoints);
    plan.changes = Some(changes::Changes { against, ..changes });
    plan.notes.extend(unknown);
    new
}

/// Returns the objects of a revision of the bundle. If OLM refuses the bundle, or a definition of it, the reason is added as a problem.
async fn phases(
    plan: &mut Plan,
    cluster: &Cluster,
    wanted: &Wanted<'_>,
    endpoints: &[Endpoint],
) -> Option<Vec<Phase>> {
    let certificates = read::certificates(cluster, endpoints).await;
    let options = Options {
        namespace: wanted.extension.spec.namespace.as_str(),
        config: wanted.extension.spec.inline_config(),
        certificates: &certificates,
    };
    let objects = match render(wanted.bundle, &options) {
        Ok(objects) => objects,
        Err(error) => {
            let refusal = wanted.chosen.refusal(&error.to_string());
            plan.problems
                .push(extensions::with_way_out(wanted.extension, &refusal));
            return None;
        }
    };
    let name = wanted.extension.name_any();
    let annotations = [
        (labels::EXTENSION_BUNDLE_VERSION, &wanted.chosen.version),
        (labels::EXTENSION_PACKAGE_NAME, &wanted.chosen.package),
    ];
    let annotations = annotations.into_iter();
    let desired = DesiredRevision {
        extension: &name,
        extension_uid: wanted.extension.metadata.uid.as_deref().unwrap_or_default(),
        annotations: annotations
            .map(|(key, value)| (key.to_owned(), value.clone()))
            .collect(),
        objects,
        adopts: false,
        progress_deadline_minutes: None,
        system_namespace: "",
        has_secrets: true,
    };
    let phases = desired.phases();
    add_definitions(plan, cluster, wanted, &phases).await;
    Some(phases)
}

/// Adds what OLM has against the definitions of a bundle.
async fn add_definitions(plan: &mut Plan, cluster: &Cluster, wanted: &Wanted<'_>, phases: &[Phase]) {
    let own = wanted.extension.name_any();
    let annotations = wanted.extension.annotations();
    let is_adopting = annotations.contains_key(labels::EXTENSION_ADOPTS);
    let mut upgrades: Vec<CrdUpgrade<'_>> = Vec::new();
    for new in definitions(phases) {
        let name = new["metadata"]["name"].as_str().unwrap_or_default();
        let old = match read::definition(cluster, name).await {
            Ok(Some(old)) => old,
            Ok(None) => continue,
            Err(error) => {
                plan.notes
                    .push(format!("{error:#}; whether its change is safe is unknown"));
                continue;
            }
        };
        let is_own = old["metadata"]["labels"][labels::EXTENSION_OWNER_NAME] == own.as_str();
        // What an adopting extension finds is checked by `olmv1 adopt`.
        if !is_own && !is_adopting {
            plan.problems.push(format!(
                "CustomResourceDefinition {name} exists already and is not of this ClusterExtension, so OLM would report a collision"
            ));
        }
        upgrades.push(CrdUpgrade { old, new });
    }
    if wanted.extension.spec.checks_crd_upgrades()
        && let Err(error) = check_upgrades(&upgrades)
    {
        plan.problems.push(wanted.chosen.refusal(&error));
    }
}
