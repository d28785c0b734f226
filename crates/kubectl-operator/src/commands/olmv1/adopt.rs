//! `olmv1 adopt`: a Subscription with its ClusterServiceVersion becomes a ClusterExtension, and its pods run on.
//!
//! The first revision of the extension takes over the objects, which the ClusterServiceVersion owns without being their controller.
//! The ClusterServiceVersion is deleted when every object has the new controller. The garbage collector and `olm-operator` then leave
//! them alone.

mod decide;
mod fields;
mod objects;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs::remove_file;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use kube::{Api, ResourceExt as _};
use olm_api::extension_v1::{CatalogFilter, ClusterExtension};
use olm_api::v1::OperatorGroup;
use olm_api::v1alpha1::{ClusterServiceVersion, Subscription};
use olm_api::v2::OperatorCondition;
use operator_controller::apply::object::ObjectId;
use operator_controller::render::Bundle;
use operator_controller::resolve::Catalog;
use serde_json::{Value, json};

use self::decide::{AdoptedObject, Adoption, Fate, Situation, way_back};
use self::objects::{Kinds, fate, is_adopted, template_changes, title};
use super::follow;
use super::plan::{of_extension, read};
use crate::args::olmv1::AdoptArgs;
use crate::args::shared::{WaitArgs, quoted};
use crate::cluster::Cluster;
use crate::commands::rollback::save_new;
use crate::groups::Group;
use crate::operators::Gathered;
use crate::reader::{api, get, is_unserved, list, list_cluster};
use crate::terminal::plain;
use crate::watch::{Screen, are_gone};
use crate::{Verdict, gather, printer, writer};

/// Default time to wait for each step.
const STEP_TIME: Duration = Duration::from_secs(300);

/// What was found.
struct Found {
    adoption: Adoption,
    subscription: Subscription,
    csv: ClusterServiceVersion,
    /// Objects of the extension.
    wanted: Vec<Value>,
    /// Deployments that are adopted.
    deployments: Vec<Value>,
}

/// Shows what is done and what is in the way, and does it with `--yes`.
///
/// # Errors
/// There is no such operator, a request to the API server fails, or a step does not complete in time.
pub(super) async fn run(args: &AdoptArgs) -> anyhow::Result<Verdict> {
    let cluster = Cluster::connect(&args.connection).await?;
    let catalogd = args.catalogd_namespace.as_deref();
    let catalogs = async |filter: &CatalogFilter| read::catalogs(&cluster, filter, catalogd).await;
    let found = Box::pin(look(&cluster, args, &catalogs, &read::bundle)).await?;
    match args.output {
        Some(format) => printer::document(&found.adoption, format)?,
        None => printer::data(&found.adoption.text())?,
    }
    if !found.adoption.blockers.is_empty() {
        return Ok(Verdict::Unresolved);
    }
    if !args.yes {
        printer::progress("nothing was changed; use --yes to adopt it");
        return Ok(Verdict::Fine);
    }
    let wait = args.wait.or(STEP_TIME);
    let file = file(&found.adoption);
    let mut screen = Screen::stderr();
    Box::pin(begin(&cluster, &found, &wait, &file, &mut screen)).await?;
    Box::pin(finish(&cluster, &found, &wait, &file, &mut screen)).await?;
    Ok(Verdict::Fine)
}

/// Determines what is done. `catalogs` reads the catalogs with the package, and `pull` the bundle in an image.
async fn look(
    cluster: &Cluster,
    args: &AdoptArgs,
    catalogs: &impl AsyncFn(&CatalogFilter) -> anyhow::Result<Vec<Catalog>>,
    pull: &impl AsyncFn(&str) -> Result<Bundle, String>,
) -> anyhow::Result<Found> {
    let (client, namespace) = (&cluster.client, cluster.namespace.as_str());
    let extensions = list_cluster::<ClusterExtension>(client, "").await;
    let extensions = extensions.map_err(|error| match is_unserved(&error) {
        true => error.context("the cluster has no ClusterExtensions; install OLM v1 first"),
        false => error,
    })?;
    // Operators of all namespaces may depend on this one.
    let gathered = gather::operators(client, None).await?;
    let (subscription, csv) = installed(&gathered, namespace, &args.subscription)?;
    let operator = gathered.find(namespace, &subscription.name_any(), &cluster.commands)?;
    let chain = gathered.chain(&operator);
    let others: Vec<&ClusterServiceVersion> = gathered
        .csvs
        .values()
        .filter(|other| !chain.iter().any(|own| own.uid() == other.uid()))
        .collect();
    let groups = list::<OperatorGroup>(client, Some(namespace), "").await?;
    let groups: Vec<Group> = groups.iter().map(Group::from).collect();
    let condition = get::<OperatorCondition>(client, namespace, &csv.name_any()).await?;
    let situation = Situation {
        subscription,
        csv,
        chain: &chain,
        others: &others,
        groups: &groups,
        extensions: &extensions,
        condition: condition.as_ref(),
    };
    let name = args.name.clone().unwrap_or_else(|| subscription.name_any());
    let extension = situation.extension(&name)?;
    let planned = Box::pin(of_extension(cluster, &extension, catalogs, pull));
    let (plan, objects) = planned.await?;
    let unread = objects.as_ref().err().cloned();
    let mut found = Found {
        adoption: Adoption {
            namespace: namespace.to_owned(),
            subscription: subscription.name_any(),
            csv: csv.name_any(),
            extension,
            objects: Vec::new(),
            restarts: Vec::new(),
            blockers: situation.blockers(&name),
            notes: gathered
                .notes()
                .chain(situation.account_note())
                .chain(plan.notes)
                .collect(),
        },
        subscription: subscription.clone(),
        csv: csv.clone(),
        wanted: objects.unwrap_or_default(),
        deployments: Vec::new(),
    };
    let adoption = &mut found.adoption;
    adoption.blockers.extend(plan.problems);
    adoption.blockers.extend(unread);
    let chosen = plan.chosen.filter(|chosen| chosen.name != adoption.csv);
    adoption.blockers.extend(chosen.map(|chosen| {
        format!(
            "the ClusterCatalogs have {} in place of {}, which runs",
            chosen.name, adoption.csv
        )
    }));
    add_objects(cluster, &mut found).await?;
    let adoption = &mut found.adoption;
    if !adoption.restarts.is_empty() && !args.accept_restart {
        adoption
            .blockers
            .push("pods would restart; use --accept-restart if that is acceptable".to_owned());
    }
    adoption.notes.push(format!(
        "OperatorGroups of namespace {namespace} are kept; delete them if no other operator needs them"
    ));
    Ok(found)
}

/// Returns the Subscription of this name, and the ClusterServiceVersion that it has installed.
fn installed<'a>(
    gathered: &'a Gathered,
    namespace: &str,
    name: &str,
) -> anyhow::Result<(&'a Subscription, &'a ClusterServiceVersion)> {
    let subscription = gathered
        .subscription(namespace, name)
        .ok_or_else(|| anyhow!("namespace {namespace} has no Subscription {}", plain(name)))?;
    let status = subscription.status.as_ref();
    let csv = status.and_then(|status| status.installed_csv.as_ref());
    let csv = csv.and_then(|csv| gathered.csvs.get(&(namespace.to_owned(), csv.clone())));
    let csv = csv.ok_or_else(|| anyhow!("Subscription {} has nothing installed", plain(name)))?;
    Ok((subscription, csv))
}

/// Adds what happens to each object, and the restarts of pods.
async fn add_objects(cluster: &Cluster, found: &mut Found) -> anyhow::Result<()> {
    let adoption = &mut found.adoption;
    let kinds = Kinds::of(cluster);
    for wanted in &found.wanted {
        let id = ObjectId::of(wanted);
        let live = kinds.find(wanted).await?;
        let fate = match fate(wanted, live.as_ref(), &found.csv) {
            Ok(fate) => fate,
            Err(blocker) => {
                adoption.blockers.push(blocker);
                continue;
            }
        };
        if let Some(live) = live.filter(|_| is_deployment(&id)) {
            match kinds.applied(wanted, &live).await {
                Ok(applied) => add_changes(adoption, &title(&id), &live, &applied),
                Err(error) => adoption.blockers.push(format!("{error:#}")),
            }
            found.deployments.push(live);
        }
        adoption.objects.push(AdoptedObject {
            kind: id.kind,
            namespace: id.namespace,
            name: id.name,
            fate,
        });
    }
    let has_workload = adoption
        .objects
        .iter()
        .any(|object| object.kind == "Deployment" && object.fate == Fate::Adopt);
    if !found.wanted.is_empty() && adoption.blockers.is_empty() && !has_workload {
        adoption
            .blockers
            .push("no Deployment of the bundle runs, so there is nothing to adopt".to_owned());
    }
    Ok(())
}

/// Adds what changes now in the pods of a Deployment, and that more changes later.
fn add_changes(adoption: &mut Adoption, title: &str, live: &Value, applied: &Value) {
    let now = template_changes(live, applied);
    if !now.is_empty() {
        adoption.restarts.push(format!("of {title}: {}", now.join(", ")));
    }
    adoption.notes.push(format!(
        "the next repair or upgrade of {title} removes what only OLM v0 sets in its pods, so they restart then"
    ));
}

fn is_deployment(id: &ObjectId) -> bool {
    id.group == "apps" && id.kind == "Deployment"
}

/// Returns the file with the way back.
fn file(adoption: &Adoption) -> PathBuf {
    let (namespace, subscription) = (&adoption.namespace, &adoption.subscription);
    PathBuf::from(format!("adopt-{namespace}-{subscription}.yaml"))
}

/// Writes the way back to a new file that only the user can read.
fn save(found: &Found, file: &Path) -> anyhow::Result<()> {
    let text = way_back(&found.subscription, &found.adoption, &file.display().to_string())?;
    save_new(file, &text).with_context(|| {
        format!(
            "cannot save the way back in {}, so nothing was changed; if the file exists, it belongs to an earlier adoption; move it",
            file.display()
        )
    })
}

/// Creates the extension, and waits until it is installed. Until then nothing is deleted.
///
/// # Errors
/// The extension cannot be created, or is not installed in time.
async fn begin<W: Write>(
    cluster: &Cluster,
    found: &Found,
    wait: &WaitArgs,
    file: &Path,
    screen: &mut Screen<W>,
) -> anyhow::Result<()> {
    let extension = &found.adoption.extension;
    let extensions = Api::<ClusterExtension>::all(cluster.client.clone());
    save(found, file)?;
    let created = match writer::create(&extensions, extension).await {
        Ok(Some(created)) => created,
        Ok(None) => {
            // Nothing has changed.
            let _ = remove_file(file);
            bail!("{} already exists", writer::subject(extension));
        }
        // It may have been created although there was no answer.
        Err(error) => return Err(error.context(incomplete(cluster, found, file))),
    };
    printer::progress(&format!("{} created", writer::subject(&created)));
    // An upgrade must not begin meanwhile.
    if !found.subscription.spec.is_manual() {
        let subscriptions = api::<Subscription>(&cluster.client, Some(&cluster.namespace));
        let manual = json!({"spec": {"installPlanApproval": "Manual"}});
        let held = writer::merge(&subscriptions, &found.subscription, manual).await;
        held.with_context(|| incomplete(cluster, found, file))?;
    }
    let followed = follow(cluster, &created, wait, screen).await;
    followed
        .with_context(|| incomplete(cluster, found, file))?
        .map_err(|waits| anyhow!("{}; {}", waits.text, incomplete(cluster, found, file)))?;
    Ok(())
}

/// Returns the state after an error before anything is deleted, and how to go on.
fn incomplete(cluster: &Cluster, found: &Found, file: &Path) -> String {
    let adoption = &found.adoption;
    format!(
        "the adoption is incomplete, and nothing was deleted: if `{}` says Installed, complete it with `kubectl delete subscription/{} csv/{} {}`, else undo it with the steps in {}; do not delete the ClusterExtension in another way",
        cluster.suggest_for_cluster("olmv1 status {}", &[&adoption.extension.name_any()]),
        quoted(&adoption.subscription),
        quoted(&adoption.csv),
        cluster.commands.flags(Some(&cluster.namespace)),
        file.display()
    )
}

/// Checks that the extension controls all objects, passes their fields to it, deletes the Subscription and the ClusterServiceVersion,
/// and reports restarts.
///
/// # Errors
/// An object has another controller or cannot be changed, an upgrade has begun, or the deletion is not finished in time.
async fn finish<W: Write>(
    cluster: &Cluster,
    found: &Found,
    wait: &WaitArgs,
    file: &Path,
    screen: &mut Screen<W>,
) -> anyhow::Result<()> {
    let checked = Box::pin(check(cluster, found)).await;
    checked.with_context(|| {
        format!(
            "the adoption stopped, and nothing was deleted; undo it with the steps in {}",
            file.display()
        )
    })?;
    let kinds = Kinds::of(cluster);
    for wanted in &found.wanted {
        let passed = Box::pin(kinds.pass_fields(wanted)).await;
        passed.with_context(|| incomplete(cluster, found, file))?;
    }
    let (client, namespace) = (&cluster.client, cluster.namespace.as_str());
    writer::delete(&api::<Subscription>(client, Some(namespace)), &found.subscription).await?;
    printer::progress(&format!("{} deleted", writer::subject(&found.subscription)));
    let subject = writer::subject(&found.csv);
    let csvs = api::<ClusterServiceVersion>(client, Some(namespace));
    let deleted = writer::delete(&csvs, &found.csv).await;
    deleted.with_context(|| {
        format!("the extension has all objects; to complete the adoption delete {subject}")
    })?;
    if !are_gone(&[(csvs, &found.csv, subject.clone())], "deletion", wait, screen).await? {
        bail!(
            "the extension has the objects, but deletion of {subject} timed out after {} s; it continues in the background",
            wait.timeout().as_secs()
        );
    }
    printer::progress(&format!("{subject} deleted"));
    report(cluster, found, file).await
}

/// Checks that the ClusterServiceVersion can be deleted without its objects.
async fn check(cluster: &Cluster, found: &Found) -> anyhow::Result<()> {
    let (client, namespace) = (&cluster.client, cluster.namespace.as_str());
    let csvs = list::<ClusterServiceVersion>(client, Some(namespace), &gather::originals()).await?;
    let name = found.adoption.csv.as_str();
    if let Some(next) = csvs.iter().find(|csv| csv.spec.replaces() == Some(name)) {
        bail!("{name} is being upgraded to {}", next.name_any());
    }
    let extension = found.adoption.extension.name_any();
    let kinds = Kinds::of(cluster);
    for wanted in &found.wanted {
        let live = kinds.find(wanted).await?;
        if live.is_none_or(|live| !is_adopted(&live, &extension)) {
            bail!(
                "{} is not controlled by ClusterExtension {extension}",
                title(&ObjectId::of(wanted))
            );
        }
    }
    Ok(())
}

/// Reports whether pods were restarted, and how the version is unpinned.
async fn report(cluster: &Cluster, found: &Found, file: &Path) -> anyhow::Result<()> {
    let kinds = Kinds::of(cluster);
    let mut restarted = BTreeMap::new();
    for before in &found.deployments {
        let now = kinds.find(before).await?.unwrap_or_default();
        let mut fields = template_changes(before, &now);
        if before["metadata"]["uid"] != now["metadata"]["uid"] {
            fields.push("it was created again".to_owned());
        }
        if !fields.is_empty() {
            restarted.insert(title(&ObjectId::of(before)), fields.join(", "));
        }
    }
    for (deployment, fields) in &restarted {
        printer::warning(&format!("pods of {deployment} restarted: {fields}"));
    }
    let (name, version) = (
        found.adoption.extension.name_any(),
        found.csv.spec.version.as_deref(),
    );
    let range = format!(">={}", version.unwrap_or_default());
    let unpin = "olmv1 update extension {} --version {}";
    printer::progress(&format!(
        "ClusterExtension {name} has the operator{}. It stays at this version; to allow newer ones use `{}`. The way back is in {}",
        match restarted.is_empty() {
            true => ", whose pods were not restarted",
            false => "",
        },
        cluster.suggest_for_cluster(unpin, &[&name, &range]),
        file.display()
    ));
    Ok(())
}
