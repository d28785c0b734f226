//! Reads the content of a bundle. Secrets are never requested.

use std::fmt::Debug;

use anyhow::bail;
use futures::{AsyncRead, AsyncReadExt as _};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
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
use super::redact::redact;
use crate::args::look::OlmNamespaces;
use crate::command_line::CommandLine;
use crate::commands::doctor::{PROGRAMS, Reader, diagnose, observe};
use crate::gather;
use crate::operators::{Node, lines};
use crate::reader::{answer, get, is_unserved, place};
use crate::terminal::Colours;

/// Page size of lists. Each object may have 1.5 MB.
const PAGE: u32 = 50;
/// Maximum bytes of the objects of one kind. Plans and ClusterServiceVersions are large.
const MAX_KIND: usize = 48 * 1024 * 1024;
/// Maximum number of lines of one log, from its end.
const MAX_LINES: i64 = 10_000;
/// Maximum bytes of one log, from its end.
const MAX_LOG: usize = 8 * 1024 * 1024;
/// Bytes of a log that are read at once.
const CHUNK: usize = 64 * 1024;

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
/// limited.
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
    kind::<ClusterCatalog>(reader, archive, &[None], "").await;
    kind::<ClusterExtension>(reader, archive, &[None], "").await;
    kind::<ClusterObjectSet>(reader, archive, &[None], "").await;
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
    archive.objects("objects/deployments.json", olm);
    archive.objects("objects/pods.json", all_pods);
}

/// Adds one kind as a part.
async fn kind<K>(reader: &Reader<'_>, archive: &mut Archive, places: &[Option<&str>], selector: &str)
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let found = objects::<K>(reader, archive, places, selector).await;
    archive.objects(&format!("objects/{}.json", K::plural(&())), found);
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
    let resource = ApiResource::erase::<K>(&());
    let (mut found, mut bytes) = (Vec::new(), 0);
    for at in places {
        let api: Api<DynamicObject> = match at {
            Some(namespace) => Api::namespaced_with(reader.client().clone(), namespace, &resource),
            None => Api::all_with(reader.client().clone(), &resource),
        };
        let what = format!("{} in {}", K::plural(&()), place(*at));
        let keep = |mut object: Value| {
            // Items of a list have no kind and API version.
            object["kind"] = K::kind(&()).as_ref().into();
            object["apiVersion"] = K::api_version(&()).as_ref().into();
            bytes += object.to_string().len();
            found.push(object);
            bytes <= MAX_KIND
        };
        match reader.within(listed(&api, &what, selector, keep)).await {
            Ok(true) => archive.answered(),
            Ok(false) => {}
            Err(cause) => archive.unread(&what, &cause),
        }
    }
    found
}

/// Reads a list page by page until `keep` returns false. Returns false if the cluster does not have the kind.
///
/// # Errors
/// The list cannot be read, or is not complete.
async fn listed(
    api: &Api<DynamicObject>,
    what: &str,
    selector: &str,
    mut keep: impl FnMut(Value) -> bool,
) -> anyhow::Result<bool> {
    let mut params = ListParams::default().limit(PAGE).labels(selector);
    loop {
        let page = match answer(|| format!("list {what}"), api.list(&params)).await {
            Err(error) if is_unserved(&error) => return Ok(false),
            page => page?,
        };
        for object in page.items {
            if !keep(serde_json::to_value(object)?) {
                bail!("truncated: more than {MAX_KIND} bytes");
            }
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            None => return Ok(true),
            Some(token) => params.continue_token = Some(token),
        }
    }
}

/// Adds the keys of the ConfigMaps that bundles were unpacked into. Their Jobs have the same names.
async fn config_maps(reader: &Reader<'_>, archive: &mut Archive, jobs: &[Value]) {
    let mut maps = Vec::new();
    for job in jobs {
        let text = |field: &str| job["metadata"][field].as_str().unwrap_or_default();
        let (namespace, name) = (text("namespace"), text("name"));
        let read = get::<ConfigMap>(reader.client(), namespace, name);
        match reader.within(read).await {
            Ok(Some(map)) => {
                let mut map = serde_json::to_value(map).unwrap_or_default();
                map["kind"] = "ConfigMap".into();
                // Redacted at once, so that the contents are not kept in memory.
                redact(&mut map);
                maps.push(map);
            }
            Ok(None) => {}
            Err(cause) => archive.unread(&format!("ConfigMap {namespace}/{name}"), &cause),
        }
    }
    archive.objects("objects/configmaps.json", maps);
}

/// Returns the pods that Deployments select.
async fn pods(reader: &Reader<'_>, archive: &mut Archive, deployments: &[Value]) -> Vec<Value> {
    let mut found = Vec::new();
    for deployment in deployments {
        let namespace = deployment["metadata"]["namespace"].as_str();
        let selector = serde_json::from_value::<LabelSelector>(deployment["spec"]["selector"].clone());
        let selector = selector
            .ok()
            .and_then(|selector| Selector::try_from(selector).ok());
        // An empty selector matches all pods.
        if let Some(selector) = selector.filter(|selector| !selector.selects_all()) {
            found.extend(objects::<Pod>(reader, archive, &[namespace], &selector.to_string()).await);
        }
    }
    found
}

/// Adds the logs of all containers of pods, also those before a restart.
async fn logs(reader: &Reader<'_>, archive: &mut Archive, pods: &[Value]) {
    for pod in pods {
        let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default();
        let (namespace, name) = (text("namespace"), text("name"));
        let api: Api<Pod> = Api::namespaced(reader.client().clone(), namespace);
        let statuses = pod["status"]["containerStatuses"].as_array();
        let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
        for container in containers.filter_map(|container| container["name"].as_str()) {
            let is_restarted =
                |status: &Value| status["name"] == container && status["restartCount"].as_i64() > Some(0);
            let mut wanted = vec![(false, "")];
            if statuses.into_iter().flatten().any(is_restarted) {
                wanted.push((true, ".previous"));
            }
            for (previous, suffix) in wanted {
                let params = LogParams {
                    container: Some(container.to_owned()),
                    previous,
                    tail_lines: Some(MAX_LINES),
                    timestamps: true,
                    ..LogParams::default()
                };
                let path = format!("logs/{namespace}/{name}/{container}{suffix}.log");
                let what = || format!("read the log of pod {name}");
                let read = async {
                    let log = answer(what, api.log_stream(name, &params)).await?;
                    anyhow::Ok(newest(log, MAX_LOG).await?)
                };
                match reader.within(read).await {
                    Ok((text, is_whole)) => {
                        archive.answered();
                        archive.lines(&path, &text);
                        if !is_whole {
                            archive.unread(
                                &path,
                                &format!("truncated: its first lines, before the last {MAX_LOG} bytes"),
                            );
                        }
                    }
                    Err(cause) => archive.unread(&path, &cause),
                }
            }
        }
    }
}

/// Reads a log to its end. Returns its last lines, of at most `limit` bytes together, and true if these are all. Bytes that are no text
/// become replacement characters.
///
/// # Errors
/// The connection fails.
pub(super) async fn newest(log: impl AsyncRead, limit: usize) -> std::io::Result<(String, bool)> {
    let mut log = std::pin::pin!(log);
    let (mut kept, mut chunk, mut is_whole) = (Vec::new(), vec![0_u8; CHUNK], true);
    loop {
        let read = log.read(&mut chunk).await?;
        kept.extend_from_slice(&chunk[..read]);
        // In between twice the limit, so that few bytes are moved.
        let more = kept.len().saturating_sub(limit);
        if more > limit || read == 0 && more > 0 {
            let line_end = kept[more..].iter().position(|byte| *byte == b'\n');
            let next = line_end.map(|at| more + at + 1);
            // A line that is longer than the limit keeps its end.
            kept.drain(..next.filter(|next| *next < kept.len()).unwrap_or(more));
            is_whole = false;
        }
        if read == 0 {
            return Ok((String::from_utf8_lossy(&kept).into_owned(), is_whole));
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
    let versions = json!({"kubernetes": kubernetes, "plugin": env!("CARGO_PKG_VERSION"), "logLines": MAX_LINES,
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
