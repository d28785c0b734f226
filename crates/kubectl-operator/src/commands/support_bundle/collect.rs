//! Reads the content of a bundle. Secrets are never requested.

use std::fmt::Debug;

use anyhow::{Context as _, bail};
use futures::{AsyncRead, AsyncReadExt as _};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Pod};
use k8s_openapi::serde::de::DeserializeOwned;
use kube::api::{ApiResource, DynamicObject, ListParams, LogParams};
use kube::core::Selector;
use kube::{Api, Resource};
use olm_api::extension_v1::{ClusterCatalog, ClusterExtension, ClusterObjectSet};
use olm_api::labels;
use olm_api::v1::{OLMConfig, Operator, OperatorGroup};
use olm_api::v1alpha1::{CatalogSource, ClusterServiceVersion, InstallPlan, Subscription};
use olm_api::v2::OperatorCondition;
use serde_json::{Value, json};

use super::archive::Archive;
use super::logs::{LINES, MAX_LOG, MAX_LOGS, MAX_READ, Tail};
use super::redact::redact;
use super::shares::Shares;
use crate::args::doctor::OlmNamespaces;
use crate::command_line::CommandLine;
use crate::commands::doctor::{PROGRAMS, Reader, diagnose, observe};
use crate::gather;
use crate::operators::{Node, lines};
use crate::reader::{answer, get, is_unserved, place};
use crate::terminal::Colours;
use crate::turns::in_turn;

/// Page size of lists. Each object may have 1.5 MB.
const PAGE: u32 = 50;
/// Maximum number of pages per list.
const MAX_PAGES: usize = 400;
/// Maximum number of objects per kind.
const MAX_OBJECTS: usize = 5000;
/// Maximum number of namespaces named whose objects were dropped.
const MAX_NAMED: usize = 10;
/// Maximum number of Deployments whose pods are read, and of ConfigMaps.
const MAX_ASKED: usize = 200;

/// Returns the places to list: all namespaces, or the given one and those of OLM, each once.
fn places<'a>(namespace: Option<&'a str>, own: OlmNamespaces<'a>) -> Vec<Option<&'a str>> {
    let mut places = vec![namespace];
    if namespace.is_some() {
        for place in [Some(own.catalogs), Some(own.olm)] {
            if !places.contains(&place) {
                places.push(place);
            }
        }
    }
    places
}

/// Reads all parts into the archive and records those that cannot be read. The most useful parts come first, because space is
/// limited. A namespace with too many objects only loses objects of its own.
pub(super) async fn collect(
    reader: &Reader<'_>,
    namespace: Option<&str>,
    own: OlmNamespaces<'_>,
    with_logs: bool,
    archive: &mut Archive,
) {
    versions(reader, namespace, own, archive).await;
    let mut olm = objects::<Deployment>(reader, archive, &[Some(own.olm)], PROGRAMS).await;
    // Users who may create Deployments can set these labels, so other namespaces count only if OLM's has none.
    if olm.is_empty() && namespace.is_none() {
        olm = objects::<Deployment>(reader, archive, &[None], PROGRAMS).await;
    }
    let of_olm = pods(reader, archive, &olm).await;
    if with_logs {
        logs(reader, archive, &of_olm).await;
    }
    reports(&reader.half(), namespace, own, archive).await;
    let places = places(namespace, own);
    let originals = gather::originals();
    kind::<CatalogSource>(reader, archive, &places, "").await;
    kind::<Subscription>(reader, archive, &places, "").await;
    kind::<InstallPlan>(reader, archive, &places, "").await;
    kind::<ClusterServiceVersion>(reader, archive, &places, &originals).await;
    kind::<OperatorGroup>(reader, archive, &places, "").await;
    kind::<OperatorCondition>(reader, archive, &places, "").await;
    kind::<Operator>(reader, archive, &[None], "").await;
    kind::<OLMConfig>(reader, archive, &[None], "").await;
    of_v1::<ClusterCatalog>(reader, archive).await;
    of_v1::<ClusterExtension>(reader, archive).await;
    of_v1::<ClusterObjectSet>(reader, archive).await;
    let jobs = objects::<Job>(reader, archive, &places, labels::BUNDLE_UNPACK_REF).await;
    config_maps(reader, archive, &jobs).await;
    archive.objects("objects/jobs.json", jobs);
    kind::<Event>(reader, archive, &places, "").await;
    let of_operators = format!("{}={}", labels::OWNER_KIND, labels::OWNER_KIND_CSV);
    let deployments = objects::<Deployment>(reader, archive, &places, &of_operators).await;
    let mut all_pods = of_olm;
    all_pods.extend(pods(reader, archive, &deployments).await);
    all_pods.extend(objects::<Pod>(reader, archive, &places, labels::CATALOG_SOURCE).await);
    all_pods.extend(objects::<Pod>(reader, archive, &places, labels::BUNDLE_UNPACK_REF).await);
    olm.extend(deployments);
    archive.objects("objects/deployments.json", unique(olm));
    archive.objects("objects/pods.json", unique(all_pods));
}

/// Adds one kind as a part.
async fn kind<K>(reader: &Reader<'_>, archive: &mut Archive, places: &[Option<&str>], selector: &str)
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let found = objects::<K>(reader, archive, places, selector).await;
    archive.objects(&format!("objects/{}.json", K::plural(&())), found);
}

/// Adds a kind of OLM v1, if the cluster has it.
async fn of_v1<K>(reader: &Reader<'_>, archive: &mut Archive)
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let api: Api<DynamicObject> = Api::all_with(reader.client().clone(), &ApiResource::erase::<K>(&()));
    let one = ListParams::default().limit(1);
    let read = async {
        match answer(|| format!("list {}", K::plural(&())), api.list(&one)).await {
            Err(error) if is_unserved(&error) => Ok(false),
            read => read.map(|_| true),
        }
    };
    // Another failure is recorded by the list.
    if reader.within(read).await.unwrap_or(true) {
        kind::<K>(reader, archive, &[None], "").await;
    }
}

/// Returns the maximum bytes of one kind in the archive. Plans and ClusterServiceVersions are large.
fn share(plural: &str) -> usize {
    match plural {
        "installplans" => 48 * 1024 * 1024,
        "clusterserviceversions" | "clusterobjectsets" => 32 * 1024 * 1024,
        _ => 6 * 1024 * 1024,
    }
}

/// Returns the bytes that count for an object.
fn cost(object: &Value, share: usize) -> usize {
    let text = format!("{object:#}");
    let lines = text.bytes().filter(|byte| *byte == b'\n').count();
    // As an item of a list, each line is indented by four more characters.
    (text.len() + 4 * lines).max(share / MAX_OBJECTS)
}

/// Returns the unmodified objects of a kind in several places.
async fn objects<K>(
    reader: &Reader<'_>,
    archive: &mut Archive,
    places: &[Option<&str>],
    selector: &str,
) -> Vec<Value>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let plural = K::plural(&());
    let share = share(&plural);
    let mut shares = Shares::new(share);
    for at in places {
        let resource = ApiResource::erase::<K>(&());
        let api: Api<DynamicObject> = match at {
            Some(namespace) => Api::namespaced_with(reader.client().clone(), namespace, &resource),
            None => Api::all_with(reader.client().clone(), &resource),
        };
        let what = format!("{plural} in {}", place(*at));
        let keep = |mut object: Value| {
            // Items of a list have no kind and API version.
            object["kind"] = K::kind(&()).as_ref().into();
            object["apiVersion"] = K::api_version(&()).as_ref().into();
            let cost = cost(&object, share);
            shares.push(object, cost);
        };
        match reader.within(listed(&api, &what, selector, keep)).await {
            Ok(is_whole) => {
                archive.answered();
                if !is_whole {
                    archive.unread(&what, &format!("there are more than {MAX_PAGES} pages of {PAGE}"));
                }
            }
            Err(cause) => archive.unread(&what, &cause),
        }
    }
    let dropped = shares.dropped();
    if !dropped.is_empty() {
        let count: usize = dropped.values().sum();
        let names: Vec<&str> = dropped.keys().take(MAX_NAMED).map(String::as_str).collect();
        archive.unread(
            &format!("{count} {plural} of {} namespaces, of {} among them", dropped.len(), names.join(", ")),
            &format!("at most {share} bytes and {MAX_OBJECTS} objects of a kind are kept, in equal shares for namespaces"),
        );
    }
    shares.into_objects()
}

/// Reads a list page by page. Returns false if it has too many pages.
async fn listed(
    api: &Api<DynamicObject>,
    what: &str,
    selector: &str,
    mut keep: impl FnMut(Value),
) -> anyhow::Result<bool> {
    let mut params = ListParams::default().limit(PAGE);
    if !selector.is_empty() {
        params = params.labels(selector);
    }
    for _ in 0..MAX_PAGES {
        let page = answer(|| format!("list {what}"), api.list(&params)).await?;
        let is_empty = page.items.is_empty();
        for object in page.items {
            keep(serde_json::to_value(object)?);
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            None => return Ok(true),
            // An empty page ends the list, as its token may never lead to more objects.
            Some(_) if is_empty => return Ok(false),
            Some(token) => params.continue_token = Some(token),
        }
    }
    Ok(false)
}

fn namespace_of(object: &Value) -> String {
    object["metadata"]["namespace"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

/// Adds the keys of the ConfigMaps that bundles were unpacked into. Their Jobs have the same names.
async fn config_maps(reader: &Reader<'_>, archive: &mut Archive, jobs: &[Value]) {
    let share = share("configmaps");
    let mut shares = Shares::new(share);
    for job in in_turn(jobs, |job| namespace_of(job)).into_iter().take(MAX_ASKED) {
        let text = |field: &str| job["metadata"][field].as_str().unwrap_or_default();
        let (namespace, name) = (text("namespace"), text("name"));
        match reader
            .within(get::<ConfigMap>(reader.client(), namespace, name))
            .await
        {
            Ok(Some(map)) => {
                let mut map = serde_json::to_value(map).unwrap_or_default();
                map["kind"] = "ConfigMap".into();
                // Redacted at once, so that the contents are not kept in memory.
                redact(&mut map);
                let cost = cost(&map, share);
                shares.push(map, cost);
            }
            Ok(None) => {}
            Err(cause) => archive.unread(&format!("ConfigMap {namespace}/{name}"), &cause),
        }
    }
    archive.redacted("objects/configmaps.json", &shares.into_objects());
}

/// Returns the pods that Deployments select.
async fn pods(reader: &Reader<'_>, archive: &mut Archive, deployments: &[Value]) -> Vec<Value> {
    let mut found = Vec::new();
    for deployment in in_turn(deployments, |deployment| namespace_of(deployment))
        .into_iter()
        .take(MAX_ASKED)
    {
        let namespace = deployment["metadata"]["namespace"].as_str();
        let selector = serde_json::from_value(deployment["spec"]["selector"].clone());
        let selector = selector.ok().and_then(
            |selector: k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector| {
                Selector::try_from(selector).ok()
            },
        );
        // An empty selector matches all pods.
        if let Some(selector) = selector.filter(|selector| !selector.selects_all()) {
            found.extend(objects::<Pod>(reader, archive, &[namespace], &selector.to_string()).await);
        }
    }
    found
}

/// Removes objects that were found more than once.
fn unique(objects: Vec<Value>) -> Vec<Value> {
    let mut known = std::collections::BTreeSet::new();
    let key = |object: &Value| {
        (
            object["metadata"]["namespace"].to_string(),
            object["metadata"]["name"].to_string(),
        )
    };
    objects
        .into_iter()
        .filter(|object| known.insert(key(object)))
        .collect()
}

async fn logs(reader: &Reader<'_>, archive: &mut Archive, pods: &[Value]) {
    let mut bytes = 0;
    for pod in in_turn(pods, |pod| namespace_of(pod)) {
        let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default().to_owned();
        let (namespace, name) = (text("namespace"), text("name"));
        let api: Api<Pod> = Api::namespaced(reader.client().clone(), &namespace);
        let containers = pod["spec"]["containers"].as_array().cloned().unwrap_or_default();
        for container in containers
            .iter()
            .filter_map(|container| container["name"].as_str())
        {
            let statuses = pod["status"]["containerStatuses"].as_array();
            let restarted = statuses
                .into_iter()
                .flatten()
                .any(|status| status["name"] == container && status["restartCount"].as_i64() > Some(0));
            for previous in [false, true]
                .into_iter()
                .filter(|previous| restarted || !previous)
            {
                let suffix = if previous { ".previous" } else { "" };
                let path = format!("logs/{namespace}/{name}/{container}{suffix}.log");
                let params = LogParams {
                    container: Some(container.to_owned()),
                    previous,
                    tail_lines: Some(LINES),
                    timestamps: true,
                    ..LogParams::default()
                };
                if bytes > MAX_LOGS {
                    archive.unread(&path, &format!("there are more than {MAX_LOGS} bytes of logs"));
                    continue;
                }
                let mut tail = Tail::default();
                let read = reader.within(log(&api, &name, &params, &mut tail)).await;
                // A log that failed midway is kept up to that point.
                let text = tail.text();
                bytes += text.len();
                if read.is_ok() || !text.is_empty() {
                    archive.answered();
                    archive.lines(&path, &text);
                }
                if let Err(cause) = read {
                    archive.unread(&path, &cause);
                }
            }
        }
    }
}

async fn log(api: &Api<Pod>, name: &str, params: &LogParams, tail: &mut Tail) -> anyhow::Result<()> {
    let what = || format!("read the log of pod {name}");
    let stream = answer(what, api.log_stream(name, params)).await?;
    let mut stream = std::pin::pin!(stream);
    fill(&mut stream, tail, MAX_READ).await.with_context(what)
}

/// Reads a stream to its end. Fails after `most` bytes.
pub(super) async fn fill(
    stream: &mut (impl AsyncRead + Unpin),
    tail: &mut Tail,
    most: usize,
) -> anyhow::Result<()> {
    let (mut chunk, mut read) = (vec![0; 64 * 1024], 0);
    loop {
        let count = stream.read(&mut chunk).await?;
        let bytes = chunk.get(..count).unwrap_or_default();
        if bytes.is_empty() {
            return Ok(());
        }
        tail.push(bytes);
        read += count;
        if read > most {
            bail!("truncated: more than {most} bytes");
        }
    }
}

async fn versions(
    reader: &Reader<'_>,
    namespace: Option<&str>,
    own: OlmNamespaces<'_>,
    archive: &mut Archive,
) {
    let version = reader
        .within(answer(
            || "read the version of Kubernetes".to_owned(),
            reader.client().apiserver_version(),
        ))
        .await;
    let kubernetes = match version {
        Ok(info) => json!(info.git_version),
        Err(cause) => {
            archive.unread("version of Kubernetes", &cause);
            Value::Null
        }
    };
    let versions = json!({"kubernetes": kubernetes, "plugin": env!("CARGO_PKG_VERSION"), "logBytes": MAX_LOG,
        "namespace": namespace, "globalCatalogNamespace": own.catalogs, "olmNamespace": own.olm});
    archive.lines("versions.json", &format!("{versions:#}\n"));
}

/// Adds the output of `doctor` and `status`.
async fn reports(
    reader: &Reader<'_>,
    namespace: Option<&str>,
    own: OlmNamespaces<'_>,
    archive: &mut Archive,
) {
    let observed = Box::pin(observe(reader, namespace, own)).await;
    let diagnosis = diagnose(&observed);
    archive.lines("doctor.txt", &diagnosis.text(true, Colours(false)));
    archive.objects(
        "doctor.json",
        vec![serde_json::to_value(&diagnosis).unwrap_or_default()],
    );
    match reader
        .within(Box::pin(gather::with_workloads(
            reader.client(),
            namespace,
            |_| true,
        )))
        .await
    {
        Ok(gathered) => {
            let operators = gathered.operators();
            // The reader has another kubeconfig, so commands get no flags.
            let line = CommandLine::default();
            let trees: Vec<Node> = operators
                .iter()
                .map(|operator| gathered.tree(operator, &line))
                .collect();
            archive.lines("status.txt", &(lines(&trees, Colours(false)).join("\n") + "\n"));
        }
        Err(cause) => archive.unread("status", &cause),
    }
}
