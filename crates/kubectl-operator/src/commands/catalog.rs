//! `kubectl operator catalog`: adds CatalogSources for images, lists and removes them.

#[cfg(test)]
mod tests;

use std::io::Write;

use anyhow::{anyhow, bail};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use olm_api::condition::catalog_source as condition;
use olm_api::labels;
use olm_api::names::MAX_SERVICE_NAME;
use olm_api::v1alpha1::{
    CatalogSource, CatalogSourceSpec, GrpcPodConfig, RegistryPoll, SourceType, Subscription, UpdateStrategy,
};
use serde::Serialize;
use serde_json::json;

use crate::args::catalog::{AddArgs, CatalogCommand, RemoveArgs};
use crate::args::look::ListArgs;
use crate::args::shared::{ListFormat, UPSTREAM_TIMEOUT, WaitArgs};
use crate::cluster::Cluster;
use crate::confirm::unless_refused;
use crate::operators::{Node, pod_node};
use crate::reader::{api, get, is_forbidden, list, list_names, list_readable, place, require_namespace};
use crate::table;
use crate::terminal::{Mark, plain};
use crate::watch::{self, Outcome, Screen};
use crate::{Verdict, printer, writer};

/// Runs a `catalog` command.
///
/// # Errors
/// Objects of the cluster cannot be read or written.
pub(crate) async fn run(command: &CatalogCommand) -> anyhow::Result<Verdict> {
    match command {
        CatalogCommand::Add(args) => add(args).await,
        CatalogCommand::List(args) => list_catalogs(args).await,
        CatalogCommand::Remove(args) => remove(args).await,
    }
}

// === add ===

async fn add(args: &AddArgs) -> anyhow::Result<Verdict> {
    check_name(&args.name)?;
    let cluster = Cluster::connect(&args.connection).await?;
    let source = source(args, &cluster.namespace);
    let source = create(&cluster, &source).await?;
    let name = &args.name;
    printer::progress(&format!("CatalogSource {}/{name} created", cluster.namespace));
    let wait = args.wait.or(UPSTREAM_TIMEOUT);
    if let Some(waits) = follow(&cluster, &source, &wait, &mut Screen::stderr()).await? {
        return Err(not_ready(&cluster, args, &source, &wait, &waits).await);
    }
    match args.output {
        Some(format) => {
            let found = get::<CatalogSource>(&cluster.client, &cluster.namespace, &args.name).await?;
            let rows: Vec<Row> = found.iter().map(row).collect();
            match format.document() {
                Some(format) => printer::document(&json!({"catalogs": rows}), format)?,
                None => printer::data(&table(&rows, false, true))?,
            }
        }
        None => printer::data(&format!("created catalogsource {name:?}\n"))?,
    }
    Ok(Verdict::Fine)
}

/// Deletes a catalog that did not become ready in time, as upstream's plugin does, unless `--keep` is set. Returns the error to
/// report.
async fn not_ready(
    cluster: &Cluster,
    args: &AddArgs,
    source: &CatalogSource,
    wait: &WaitArgs,
    waits: &str,
) -> anyhow::Error {
    let (name, seconds) = (args.name.as_str(), wait.timeout().as_secs());
    let failure = format!(
        "CatalogSource {name} not {} after {seconds} s: {waits}",
        condition::READY
    );
    let remove = cluster.suggest("catalog remove {}", &[name]);
    if args.keep {
        return anyhow!("{failure}; the CatalogSource was kept, remove it with `{remove}`");
    }
    let api = api(&cluster.client, Some(&cluster.namespace));
    let remedy = "use --keep to keep it or --timeout to wait longer";
    writer::clean_up(&api, source, args.cleanup_timeout, [&failure, remedy, &remove]).await
}

/// The API server accepts longer names, but OLM cannot serve such a catalog.
fn check_name(name: &str) -> anyhow::Result<()> {
    if name.len() > MAX_SERVICE_NAME {
        bail!(
            "cannot add CatalogSource {name}: its name is used as a label value and as the name of a Service, which are limited to \
             {MAX_SERVICE_NAME} characters, but has {}; choose a shorter name",
            name.len()
        );
    }
    Ok(())
}

/// Builds the CatalogSource from the flags.
fn source(args: &AddArgs, namespace: &str) -> CatalogSource {
    let spec = CatalogSourceSpec {
        source_type: SourceType::Grpc,
        image: Some(args.image.clone()),
        display_name: args.display_name.clone(),
        publisher: args.publisher.clone(),
        priority: args.priority,
        secrets: args.secret.clone().into(),
        update_strategy: args.poll_interval.clone().map(|interval| UpdateStrategy {
            registry_poll: Some(RegistryPoll {
                interval: Some(interval),
                ..RegistryPoll::default()
            }),
            ..UpdateStrategy::default()
        }),
        grpc_pod_config: args.security_context.clone().map(|confinement| GrpcPodConfig {
            security_context_config: Some(confinement),
            ..GrpcPodConfig::default()
        }),
        ..CatalogSourceSpec::default()
    };
    let mut source = CatalogSource::new(&args.name, spec);
    source.metadata.namespace = Some(namespace.to_owned());
    source
}

/// Creates a catalog, and returns it.
async fn create(cluster: &Cluster, source: &CatalogSource) -> anyhow::Result<CatalogSource> {
    let client = &cluster.client;
    let (namespace, name) = (source.namespace().unwrap_or_default(), source.name_any());
    if let Some(created) = writer::create(&api(client, Some(&namespace)), source).await? {
        return Ok(created);
    }
    let there = get::<CatalogSource>(client, &namespace, &name).await?;
    let image = there.and_then(|there| there.spec.image).unwrap_or_default();
    bail!(
        "CatalogSource {name} already exists in namespace {namespace}, with image {image:?}; choose another name, or `{}`",
        cluster.suggest("catalog remove {}", &[&name])
    )
}

/// Waits until a catalog is READY. Returns what it still waits for if the time limit is reached.
async fn follow<W: Write>(
    cluster: &Cluster,
    source: &CatalogSource,
    wait: &WaitArgs,
    screen: &mut Screen<W>,
) -> anyhow::Result<Option<String>> {
    let client = &cluster.client;
    let (namespace, name) = (source.namespace().unwrap_or_default(), source.name_any());
    let watched = watch::follow(screen, wait.limit(), async || {
        let found = get::<CatalogSource>(client, &namespace, &name).await?;
        let found = found
            .ok_or_else(|| anyhow!("CatalogSource {name} in namespace {namespace} was deleted meanwhile"))?;
        let selector = format!("{}={name}", labels::CATALOG_SOURCE);
        // Users without permission to list pods can still wait.
        let pods = match list::<Pod>(client, Some(&namespace), &selector).await {
            Ok(pods) => Some(pods),
            Err(error) if is_forbidden(&error) => None,
            Err(error) => return Err(error),
        };
        let node = tree(&found, pods.as_deref());
        let outcome = match node.mark {
            Mark::Fine => Outcome::Done,
            _ => Outcome::Waits,
        };
        Ok((vec![node], outcome))
    })
    .await?;
    Ok((watched.outcome != Outcome::Done).then(|| watched.waits_for()))
}

/// Returns the tree of a catalog and its pods; `pods` is `None` if they may not be read.
fn tree(source: &CatalogSource, pods: Option<&[Pod]>) -> Node {
    let row = row(source);
    let is_ready = row.state == condition::READY;
    let state = match row.state.as_str() {
        "" => "New",
        state => state,
    };
    let mark = if is_ready { Mark::Fine } else { Mark::Waits };
    let mut node = Node::new("CatalogSource", &row.name, mark, state);
    node.namespace = row.namespace;
    if !is_ready {
        node.objects = pods.into_iter().flatten().map(pod_node).collect();
        let mut causes = node.objects.iter().map(|pod| pod.message.as_str());
        let is_told = causes.any(|cause| !cause.is_empty() && row.message.contains(cause));
        node.message = match row.message.as_str() {
            "" if pods.is_some_and(<[Pod]>::is_empty) => "waiting for OLM to create its pod".to_owned(),
            "" => "waiting for its server".to_owned(),
            // The pod's own line has the cause.
            _ if is_told => "waiting for its pod".to_owned(),
            message => message.to_owned(),
        };
    }
    node
}

// === list ===

/// The columns for one catalog.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) display_name: String,
    pub(super) publisher: String,
    /// grpc, configmap or internal.
    pub(super) source_type: String,
    /// Image, address or ConfigMap.
    pub(super) source: String,
    pub(super) priority: i64,
    /// State of the connection; empty before there is one.
    pub(super) state: String,
    pub(super) message: String,
}

impl Row {
    /// Returns the mark of the catalog. One that is READY with a problem serves what it has, but not what is newer.
    pub(super) fn mark(&self) -> Mark {
        match self.state.as_str() {
            condition::READY if self.message.is_empty() => Mark::Fine,
            condition::READY | condition::CONNECTING | condition::IDLE => Mark::Waits,
            "" if self.message.is_empty() => Mark::Waits,
            _ => Mark::Bad,
        }
    }
}

pub(super) fn row(source: &CatalogSource) -> Row {
    let (spec, status) = (&source.spec, source.status.as_ref());
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let connection = status.and_then(|status| status.connection_state.as_ref());
    Row {
        namespace: source.namespace().unwrap_or_default(),
        name: source.name_any(),
        display_name: text(&spec.display_name),
        publisher: text(&spec.publisher),
        source_type: spec.source_type.as_str().to_owned(),
        source: [&spec.image, &spec.address, &spec.config_map]
            .into_iter()
            .flatten()
            .find(|source| !source.is_empty())
            .cloned()
            .unwrap_or_default(),
        priority: spec.priority.unwrap_or_default(),
        state: connection
            .map(|state| state.last_observed_state.clone())
            .unwrap_or_default(),
        message: message(source),
    }
}

/// Returns true if the catalog responded to the last request.
pub(super) fn is_ready(source: &CatalogSource) -> bool {
    row(source).state == condition::READY
}

/// Returns the problems that a catalog reports in its status; empty if there are none. A catalog may be READY all the same.
pub(crate) fn message(source: &CatalogSource) -> String {
    let status = source.status.as_ref();
    let own = status.and_then(|status| status.message.clone());
    let conditions = status.into_iter().flat_map(|status| status.conditions.iter());
    let broken = conditions.filter(|found| found.status == olm_api::condition::FALSE);
    let all = own.into_iter().chain(broken.map(|found| found.message.clone()));
    let messages: Vec<String> = all.filter(|message| !message.is_empty()).collect();
    distinct_messages(&messages).join("; ")
}

/// Returns the messages that no other message contains or repeats.
fn distinct_messages(messages: &[String]) -> Vec<&str> {
    let is_repeated = |at: usize, message: &str| {
        let mut others = messages.iter().enumerate();
        others.any(|(other, text)| text.contains(message) && (text != message || other < at))
    };
    let all = messages.iter().map(String::as_str).enumerate();
    all.filter(|(at, message)| !is_repeated(*at, message))
        .map(|(_, message)| message)
        .collect()
}

async fn list_catalogs(args: &ListArgs) -> anyhow::Result<Verdict> {
    let cluster = Cluster::connect(&args.connection).await?;
    let namespace = (!args.all_namespaces).then_some(cluster.namespace.as_str());
    let (sources, unreadable) = list_readable::<CatalogSource>(&cluster.client, namespace, "").await?;
    for object in &unreadable {
        printer::warning(&format!("{}; skipped", object.text));
    }
    let rows: Vec<Row> = sources.iter().map(row).collect();
    if let Some(namespace) = namespace
        && rows.is_empty()
        && unreadable.is_empty()
    {
        require_namespace(&cluster.client, namespace).await?;
    }
    match args.output.and_then(ListFormat::document) {
        Some(format) => printer::document(&json!({"catalogs": rows}), format)?,
        None if rows.is_empty() => {
            let more = match namespace {
                Some(_) => format!(
                    "; use `{}` for all namespaces",
                    cluster.commands.suggest("catalog list", &[], None)
                ),
                None => String::new(),
            };
            printer::progress(&format!("No catalogs found in {}{more}.", place(namespace)));
        }
        None if args.output == Some(ListFormat::Name) => {
            let resource = "catalogsource.operators.coreos.com";
            let named = rows.iter().map(|row| (resource, row.name.as_str()));
            printer::data(&table::names(named))?;
        }
        None => {
            let is_wide = args.output == Some(ListFormat::Wide);
            printer::data(&table(&rows, args.all_namespaces, is_wide))?;
        }
    }
    Ok(Verdict::Fine)
}

fn table(rows: &[Row], with_namespace: bool, is_wide: bool) -> String {
    table::of(
        rows,
        &[
            (with_namespace, "NAMESPACE", &|row| row.namespace.clone()),
            (true, "NAME", &|row| row.name.clone()),
            (true, "DISPLAY", &|row| row.display_name.clone()),
            (true, "TYPE", &|row| row.source_type.clone()),
            (true, "PUBLISHER", &|row| row.publisher.clone()),
            (true, "STATE", &|row| row.state.clone()),
            (is_wide, "SOURCE", &|row| row.source.clone()),
            (is_wide, "PRIORITY", &|row| row.priority.to_string()),
            (is_wide, "MESSAGE", &|row| row.message.clone()),
        ],
    )
}

// === remove ===

async fn remove(args: &RemoveArgs) -> anyhow::Result<Verdict> {
    let cluster = Cluster::connect(&args.connection).await?;
    let mut answer = |text: &str, name: &str| {
        printer::data(text)?;
        match args.dry_run {
            true => Ok(false),
            false => unless_refused(&format!("Remove CatalogSource {name}?"), args.yes),
        }
    };
    let removed = remove_one(&cluster, &args.name, &mut answer).await?;
    if args.dry_run {
        return Ok(Verdict::Fine);
    }
    let name = &args.name;
    let Some(source) = removed else {
        printer::progress(&format!("CatalogSource {}/{name} not deleted", cluster.namespace));
        return Ok(Verdict::Unresolved);
    };
    let api = api(&cluster.client, Some(&cluster.namespace));
    watch::is_gone(api, &source, &args.wait.or(UPSTREAM_TIMEOUT)).await?;
    printer::data(&format!("catalogsource {name:?} removed\n"))?;
    Ok(Verdict::Fine)
}

/// Removes a catalog if `answer` returns true for the list of its users. Returns the deleted object.
async fn remove_one(
    cluster: &Cluster,
    name: &str,
    answer: &mut dyn FnMut(&str, &str) -> anyhow::Result<bool>,
) -> anyhow::Result<Option<CatalogSource>> {
    let (client, namespace) = (&cluster.client, cluster.namespace.as_str());
    let Some(source) = get::<CatalogSource>(client, namespace, name).await? else {
        let names = list_names::<CatalogSource>(client, namespace).await?;
        let known = match names.is_empty() {
            true => format!(
                "none; list all with `{}`",
                cluster.commands.suggest("catalog list", &[], None)
            ),
            false => names.join(", "),
        };
        bail!(
            "namespace {namespace} has no CatalogSource {}; it has {known}",
            name
        );
    };
    let mut doubts = Vec::new();
    let (subscriptions, unreadable) = match list_readable::<Subscription>(client, None, "").await {
        Ok(found) => found,
        Err(error) => {
            doubts.push(format!(
                "Subscriptions of other namespaces are unknown: {error:#}"
            ));
            list_readable(client, Some(namespace), "").await?
        }
    };
    let unread = unreadable
        .iter()
        .map(|object| format!("{}; it may use the catalog", object.text));
    doubts.extend(unread);
    let users = users(&subscriptions, namespace, name);
    if !answer(&users_text(&source, &users, &doubts), name)? {
        return Ok(None);
    }
    writer::delete(&api(client, Some(namespace)), &source).await?;
    Ok(Some(source))
}

/// Describes the Subscriptions that use the catalog.
fn users(subscriptions: &[Subscription], namespace: &str, name: &str) -> Vec<String> {
    let of_catalog = subscriptions.iter().filter(|subscription| {
        subscription.spec.source == name && subscription.spec.source_namespace == namespace
    });
    let texts = of_catalog.map(|subscription| {
        let status = subscription.status.as_ref();
        let installed = status.and_then(|status| status.installed_csv.as_deref());
        format!(
            "Subscription {}/{}, package {}, {} installed",
            subscription.namespace().unwrap_or_default(),
            subscription.name_any(),
            subscription.spec.name,
            installed.unwrap_or("nothing"),
        )
    });
    texts.collect()
}

fn users_text(source: &CatalogSource, users: &[String], doubts: &[String]) -> String {
    let what = writer::subject(source);
    let mut text = match users.len() {
        0 if doubts.is_empty() => format!("no Subscription uses {what}\n"),
        0 => format!("no readable Subscription uses {what}\n"),
        _ => format!("{what} is in use; these operators stay installed but get no upgrades:\n"),
    };
    for user in users {
        text.push_str(&format!("  {}\n", plain(user)));
    }
    for doubt in doubts {
        text.push_str(&format!("note: {}\n", plain(doubt)));
    }
    text
}
