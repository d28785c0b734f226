//! `kubectl operator olmv1`: manages ClusterCatalogs and ClusterExtensions, with the commands of upstream's plugin.

mod adopt;
mod catalogs;
mod extensions;
mod plan;
mod search;
mod status;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use anyhow::{anyhow, bail};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::serde::Serialize;
use kube::{Api, ResourceExt as _};
use olm_api::condition::cluster_extension;
use olm_api::extension_v1::{API_VERSION, ClusterCatalog, ClusterExtension};
use serde_json::{Value, json};

use super::within;
use crate::args::olmv1::{
    CreateCommand, DeleteArgs, DeleteCommand, GetArgs, GetCommand, InstallCommand, Olmv1Command,
    SearchCommand, UpdateCommand, WriteArgs,
};
use crate::args::shared::{Document, UPSTREAM_TIMEOUT, WaitArgs};
use crate::cluster::Cluster;
use crate::confirm::unless_refused;
use crate::operators::Node;
use crate::reader::{ClusterKind, get_cluster, list_cluster};
use crate::table::Table;
use crate::terminal::{age, now, plain};
use crate::watch::{self, Outcome, Screen};
use crate::{Verdict, printer, writer};

/// Runs an `olmv1` command. `limit` is for commands that only read.
///
/// # Errors
/// Objects of the cluster cannot be read or written, or the command does not apply to them.
pub(crate) async fn run(command: &Olmv1Command, limit: Option<Duration>) -> anyhow::Result<Verdict> {
    match command {
        Olmv1Command::Adopt(args) => adopt::run(args).await,
        Olmv1Command::Create(CreateCommand::Catalog(args)) => catalogs::create(args).await,
        Olmv1Command::Delete(DeleteCommand::Catalog(args)) => delete::<ClusterCatalog>(args).await,
        Olmv1Command::Delete(DeleteCommand::Extension(args)) => delete::<ClusterExtension>(args).await,
        Olmv1Command::Get(GetCommand::Catalog(args)) => within(limit, get::<ClusterCatalog>(args)).await,
        Olmv1Command::Get(GetCommand::Extension(args)) => within(limit, get::<ClusterExtension>(args)).await,
        Olmv1Command::Install(InstallCommand::Extension(args)) => extensions::install(args).await,
        Olmv1Command::Plan(args) => within(limit, plan::run(args)).await,
        Olmv1Command::Search(SearchCommand::Catalog(args)) => search::run(args).await,
        Olmv1Command::Status(args) => within(limit, status::run(args)).await,
        Olmv1Command::Update(UpdateCommand::Catalog(args)) => catalogs::update(args).await,
        Olmv1Command::Update(UpdateCommand::Extension(args)) => extensions::update(args).await,
    }
}

/// Names of columns, with the cell of an object at a time.
pub(super) type Columns<K> = &'static [(&'static str, fn(&K, Timestamp) -> String)];

/// A kind that the commands manage.
pub(super) trait Managed: ClusterKind + Serialize + 'static {
    /// Word for the kind in commands and confirmations; its plural ends in s.
    const WORD: &'static str;
    /// Columns of the table.
    const COLUMNS: Columns<Self>;
    /// Warning before objects of the kind are deleted; empty for none.
    const CONSEQUENCE: &'static str;
    /// Command that shows one object.
    const SHOWN_BY: &'static str;

    /// Sorts objects for a list.
    fn sort(objects: &mut [Self]);

    /// Returns the object without those below it, and the outcome of waiting until it is served or installed.
    fn progress(&self) -> (Node, Outcome);
}

// === create and update ===

/// Creates an object and waits until it is ready. An object that does not become ready is deleted again within the cleanup time;
/// without one it is kept.
async fn create<K: Managed>(
    cluster: &Cluster,
    object: &K,
    wait: &WaitArgs,
    cleanup_timeout: Option<Duration>,
    write: &WriteArgs,
) -> anyhow::Result<Verdict> {
    let api = Api::<K>::all(cluster.client.clone());
    let Some(created) = writer::create_in(write.is_dry_run(), &api, object).await? else {
        let name = object.name_any();
        bail!(
            "{} already exists; choose another name, or change it with `{}`",
            writer::subject(object),
            cluster.suggest_for_cluster(&format!("olmv1 update {} {{}}", K::WORD), &[&name])
        );
    };
    let mut ready = created.clone();
    if !write.is_dry_run() {
        printer::progress(&format!("{} created", writer::subject(object)));
        ready = match follow(cluster, &created, wait, &mut Screen::stderr()).await {
            Ok(Ok(ready)) => ready,
            Ok(Err(waits)) => {
                return Err(match cleanup_timeout {
                    Some(limit) => clean_up(cluster, &created, limit, &waits).await,
                    None => kept(cluster, &created, &waits.text),
                });
            }
            // The object may be ready although it cannot be read.
            Err(error) => return Err(kept(cluster, &created, &format!("{error:#}"))),
        };
    }
    report(&[ready], "created", write)?;
    Ok(Verdict::Fine)
}

/// What an object that is not ready waits for.
#[derive(Debug)]
struct Unready {
    /// The object and the message of its condition.
    text: String,
    /// True if more time may help: no attempt has failed.
    is_on_its_way: bool,
}

/// Waits until an object is ready. Returns it, or what it still waits for.
async fn follow<K: Managed, W: Write>(
    cluster: &Cluster,
    object: &K,
    wait: &WaitArgs,
    screen: &mut Screen<W>,
) -> anyhow::Result<Result<K, Unready>> {
    let (name, mut last) = (object.name_any(), None);
    let watched = watch::follow(screen, wait.limit(), async || {
        let found = get_cluster::<K>(&cluster.client, &name).await?;
        let found = found.ok_or_else(|| anyhow!("{} was deleted meanwhile", writer::subject(object)))?;
        let (node, outcome) = found.progress();
        last = Some(found);
        Ok((vec![node], outcome))
    })
    .await?;
    let is_retrying = watched
        .nodes
        .iter()
        .any(|node| node.state == cluster_extension::RETRYING);
    Ok(match (watched.shortfall(wait), last) {
        (None, Some(ready)) => Ok(ready),
        (text, _) => Err(Unready {
            text: text.unwrap_or_default(),
            is_on_its_way: watched.outcome == Outcome::Waits && !is_retrying,
        }),
    })
}

/// Returns the error to report for an object that is not known to be ready and is kept.
fn kept<K: Managed>(cluster: &Cluster, object: &K, cause: &str) -> anyhow::Error {
    let show = cluster.suggest_for_cluster(K::SHOWN_BY, &[&object.name_any()]);
    anyhow!("{cause}; this command deleted nothing, see `{show}`")
}

/// Deletes an object that did not become ready, as upstream's plugin does. Returns the error to report.
async fn clean_up<K: Managed>(
    cluster: &Cluster,
    object: &K,
    limit: Duration,
    waits: &Unready,
) -> anyhow::Error {
    let remedy = match waits.is_on_its_way {
        true => "use --timeout to wait longer",
        false => "correct what the message names, and create it again",
    };
    let form = format!("olmv1 delete {} {{}}", K::WORD);
    let remove = cluster.suggest_for_cluster(&form, &[&object.name_any()]);
    let api = Api::<K>::all(cluster.client.clone());
    writer::clean_up(&api, object, limit, [&waits.text, remedy, &remove]).await
}

/// Prints a confirmation for each object, or the objects if a format is requested.
fn report<K: Managed>(objects: &[K], done: &str, write: &WriteArgs) -> anyhow::Result<()> {
    if let Some(format) = write.output {
        return document(objects, format);
    }
    let suffix = if write.is_dry_run() { " (dry run)" } else { "" };
    let lines = objects
        .iter()
        .map(|object| format!("{} {:?} {done}{suffix}\n", K::WORD, object.name_any()));
    printer::data(&lines.collect::<String>())
}

/// Prints one object, or several as a list, as upstream's plugin does. Fields about field managers are left out.
fn document<K: Managed>(objects: &[K], format: Document) -> anyhow::Result<()> {
    printer::document(&listed(objects)?, format)
}

fn listed<K: Managed>(objects: &[K]) -> anyhow::Result<Value> {
    let mut items = Vec::new();
    for object in objects {
        let mut item = serde_json::to_value(object)?;
        if let Some(metadata) = item["metadata"].as_object_mut() {
            metadata.remove("managedFields");
        }
        items.push(item);
    }
    Ok(match items.len() {
        1 => items.remove(0),
        _ => json!({"apiVersion": API_VERSION, "kind": format!("{}List", K::kind(&())), "items": items}),
    })
}

/// Returns the labels of a new object, on which an empty value removes nothing.
fn new_labels(given: &[(String, String)]) -> Option<BTreeMap<String, String>> {
    (!given.is_empty()).then(|| given.iter().cloned().collect())
}

/// Sets and removes labels; an empty value removes one.
fn change_labels(labels: &mut Option<BTreeMap<String, String>>, given: &[(String, String)]) {
    if given.is_empty() {
        return;
    }
    let changed = labels.get_or_insert_default();
    for (key, value) in given {
        match value.is_empty() {
            true => changed.remove(key),
            false => changed.insert(key.clone(), value.clone()),
        };
    }
    if changed.is_empty() {
        *labels = None;
    }
}

// === get ===

async fn get<K: Managed>(args: &GetArgs) -> anyhow::Result<Verdict> {
    let cluster = Cluster::connect(&args.connection).await?;
    let objects = found::<K>(&cluster, args).await?;
    match args.output {
        Some(format) => document(&objects, format)?,
        None if objects.is_empty() => printer::progress("No resources found"),
        None => printer::data(&table(&objects, now()))?,
    }
    Ok(Verdict::Fine)
}

async fn found<K: Managed>(cluster: &Cluster, args: &GetArgs) -> anyhow::Result<Vec<K>> {
    if let Some(name) = &args.name {
        return Ok(vec![find(cluster, name).await?]);
    }
    let mut objects =
        list_cluster::<K>(&cluster.client, args.selector.as_deref().unwrap_or_default()).await?;
    K::sort(&mut objects);
    Ok(objects)
}

/// Returns the object of this name.
///
/// # Errors
/// There is none, or it cannot be read.
async fn find<K: Managed>(cluster: &Cluster, name: &str) -> anyhow::Result<K> {
    let found = get_cluster::<K>(&cluster.client, name).await?;
    found.ok_or_else(|| {
        let form = format!("olmv1 get {}s", K::WORD);
        anyhow!(
            "the cluster has no {} {}; list all with `{}`",
            K::kind(&()),
            plain(name),
            cluster.suggest_for_cluster(&form, &[])
        )
    })
}

fn table<K: Managed>(objects: &[K], now: Timestamp) -> String {
    let mut table = Table::new(K::COLUMNS.iter().map(|(name, _)| *name));
    for object in objects {
        table.row(K::COLUMNS.iter().map(|(_, cell)| cell(object, now)));
    }
    table.text()
}

/// Returns the time since then as text; empty for `None`.
fn since(now: Timestamp, then: Option<&Time>) -> String {
    then.map(|then| age(now, then.0)).unwrap_or_default()
}

/// Returns the status of a condition, as upstream's plugin prints it.
fn status_of(found: Option<&Condition>) -> String {
    found.map_or_else(|| "Unknown".to_owned(), |found| found.status.clone())
}

/// Returns a condition unless it is about an older generation of its object.
fn current(found: Option<&Condition>, generation: Option<i64>) -> Option<&Condition> {
    found.filter(|found| found.observed_generation.or(generation) >= generation)
}

// === delete ===

async fn delete<K: Managed>(args: &DeleteArgs) -> anyhow::Result<Verdict> {
    check_selection::<K>(args)?;
    let cluster = Cluster::connect(&args.write.connection).await?;
    delete_selected::<K>(&cluster, args, &mut |question: &str| {
        unless_refused(question, args.yes)
    })
    .await
}

/// Checks that either a name or `--all` is given.
fn check_selection<K: Managed>(args: &DeleteArgs) -> anyhow::Result<()> {
    match (&args.name, args.all) {
        (Some(_), true) => bail!("cannot specify both --all and a name"),
        (None, false) => bail!(
            "nothing to delete: give a name, or use --all for all {}",
            K::plural(&())
        ),
        _ => Ok(()),
    }
}

/// Deletes the selected objects one after the other if `answer` returns true for the question.
async fn delete_selected<K: Managed>(
    cluster: &Cluster,
    args: &DeleteArgs,
    answer: &mut dyn FnMut(&str) -> anyhow::Result<bool>,
) -> anyhow::Result<Verdict> {
    let objects = match &args.name {
        Some(name) => vec![find::<K>(cluster, name).await?],
        None => list_cluster::<K>(&cluster.client, "").await?,
    };
    if objects.is_empty() {
        bail!("no resources found: the cluster has no {}", K::plural(&()));
    }
    if !args.write.is_dry_run() && !answer(&question(&objects))? {
        printer::progress("Nothing was deleted.");
        return Ok(Verdict::Unresolved);
    }
    let (mut deleted, mut failures) = (Vec::new(), Vec::new());
    for object in objects {
        match delete_one(cluster, &object, args).await {
            Ok(()) => deleted.push(object),
            Err(error) => failures.push(format!("{error:#}")),
        }
    }
    if !deleted.is_empty() {
        report(&deleted, "deleted", &args.write)?;
    }
    if !failures.is_empty() {
        bail!("{}", failures.join("; "));
    }
    Ok(Verdict::Fine)
}

fn question<K: Managed>(objects: &[K]) -> String {
    let names: Vec<String> = objects.iter().map(|object| plain(&object.name_any())).collect();
    format!("Delete {} {}{}?", K::kind(&()), names.join(", "), K::CONSEQUENCE)
}

/// Deletes an object and waits until it is gone.
async fn delete_one<K: Managed>(cluster: &Cluster, object: &K, args: &DeleteArgs) -> anyhow::Result<()> {
    let api = Api::<K>::all(cluster.client.clone());
    let subject = writer::subject(object);
    writer::delete_named(args.write.is_dry_run(), &api, object, &subject).await?;
    if args.write.is_dry_run() {
        return Ok(());
    }
    watch::is_gone(api, object, &args.wait.or(UPSTREAM_TIMEOUT)).await
}
