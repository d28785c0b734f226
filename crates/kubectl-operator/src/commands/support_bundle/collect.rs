//! Reads what goes into a bundle. No Secret is ever asked for.

use std::fmt::Debug;

use anyhow::{Context as _, anyhow};
use futures::AsyncReadExt as _;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Pod};
use k8s_openapi::serde::de::DeserializeOwned;
use kube::api::{ApiResource, DynamicObject, ListParams, LogParams};
use kube::core::Selector;
use kube::{Api, Client, Resource};
use olm_api::labels;
use olm_api::v1::{OLMConfig, Operator, OperatorGroup};
use olm_api::v1alpha1::{CatalogSource, ClusterServiceVersion, InstallPlan, Subscription};
use olm_api::v2::OperatorCondition;
use serde_json::{Value, json};

use super::archive::Archive;
use super::logs::{LINES, MAX_LOG, MAX_READ, Tail};
use crate::command_line::CommandLine;
use crate::commands::doctor::{PROGRAMS, Reader, diagnose, observe};
use crate::gather;
use crate::operators::lines;
use crate::reader::{answer, get, place};
use crate::terminal::Colours;

/// Objects that are asked for at once.
const PAGE: u32 = 200;
/// Objects of one kind.
const MAX_OBJECTS: usize = 5000;
/// Deployments whose pods are read, and ConfigMaps that are.
const MAX_ASKED: usize = 200;

/// The places of one list: everywhere, or the namespace and that of OLM.
fn places<'a>(namespace: Option<&'a str>, global: &'a str) -> Vec<Option<&'a str>> {
    match namespace {
        None => vec![None],
        Some(own) if own == global => vec![Some(own)],
        Some(own) => vec![Some(own), Some(global)],
    }
}

/// Reads everything into the archive; what cannot be read is noted there.
pub(super) async fn collect(
    reader: &Reader<'_>,
    namespace: Option<&str>,
    global: &str,
    archive: &mut Archive,
) {
    let places = places(namespace, global);
    let originals = gather::originals();
    kind::<CatalogSource>(reader, archive, &places, "").await;
    kind::<Subscription>(reader, archive, &places, "").await;
    kind::<InstallPlan>(reader, archive, &places, "").await;
    kind::<ClusterServiceVersion>(reader, archive, &places, &originals).await;
    kind::<OperatorGroup>(reader, archive, &places, "").await;
    kind::<OperatorCondition>(reader, archive, &places, "").await;
    kind::<Operator>(reader, archive, &[None], "").await;
    kind::<OLMConfig>(reader, archive, &[None], "").await;
    let jobs = kind::<Job>(reader, archive, &places, labels::BUNDLE_UNPACK_REF).await;
    config_maps(reader, archive, &jobs).await;
    kind::<Event>(reader, archive, &places, "").await;
    let of_operators = format!("{}={}", labels::OWNER_KIND, labels::OWNER_KIND_CSV);
    let mut deployments = objects::<Deployment>(reader, archive, &places, &of_operators).await;
    let olm = match namespace {
        None => objects::<Deployment>(reader, archive, &[None], PROGRAMS).await,
        Some(_) => objects::<Deployment>(reader, archive, &[Some(global)], PROGRAMS).await,
    };
    let mut pods = pods(reader, archive, &deployments).await;
    let of_olm = self::pods(reader, archive, &olm).await;
    logs(reader, archive, &of_olm).await;
    deployments.extend(olm);
    pods.extend(of_olm);
    pods.extend(objects::<Pod>(reader, archive, &places, labels::CATALOG_SOURCE).await);
    pods.extend(objects::<Pod>(reader, archive, &places, labels::BUNDLE_UNPACK_REF).await);
    archive.objects("objects/deployments.json", unique(deployments));
    archive.objects("objects/pods.json", unique(pods));
    reports(reader, namespace, global, archive).await;
}

/// One kind as a part; what was read.
async fn kind<K>(
    reader: &Reader<'_>,
    archive: &mut Archive,
    places: &[Option<&str>],
    selector: &str,
) -> Vec<Value>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let found = objects::<K>(reader, archive, places, selector).await;
    archive.objects(&format!("objects/{}.json", K::plural(&())), found.clone());
    found
}

/// Objects of a kind as they stand, of several places.
async fn objects<K>(
    reader: &Reader<'_>,
    archive: &mut Archive,
    places: &[Option<&str>],
    selector: &str,
) -> Vec<Value>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let mut found = Vec::new();
    for at in places {
        let resource = ApiResource::erase::<K>(&());
        let api: Api<DynamicObject> = match at {
            Some(namespace) => Api::namespaced_with(reader.client().clone(), namespace, &resource),
            None => Api::all_with(reader.client().clone(), &resource),
        };
        let what = format!("{} in {}", K::plural(&()), place(*at));
        match reader.within(listed(&api, &what, selector)).await {
            Ok((objects, is_whole)) => {
                archive.answered();
                found.extend(objects.into_iter().map(|mut object| {
                    // Items of a list come without them.
                    object["kind"] = K::kind(&()).as_ref().into();
                    object["apiVersion"] = K::api_version(&()).as_ref().into();
                    object
                }));
                if !is_whole {
                    archive.unread(&what, &format!("there are more than {MAX_OBJECTS}"));
                }
            }
            Err(cause) => archive.unread(&what, &cause),
        }
    }
    found
}

async fn listed(api: &Api<DynamicObject>, what: &str, selector: &str) -> anyhow::Result<(Vec<Value>, bool)> {
    let mut params = ListParams::default().limit(PAGE);
    if !selector.is_empty() {
        params = params.labels(selector);
    }
    let mut found = Vec::new();
    loop {
        let page = answer(|| format!("list {what}"), api.list(&params)).await?;
        let is_empty = page.items.is_empty();
        for object in page.items {
            found.push(serde_json::to_value(object)?);
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            None => return Ok((found, true)),
            // A page without objects leads nowhere.
            Some(_) if is_empty || found.len() >= MAX_OBJECTS => return Ok((found, false)),
            Some(token) => params.continue_token = Some(token),
        }
    }
}

/// Keys of the ConfigMaps that bundles were unpacked into: their Jobs have the same names.
async fn config_maps(reader: &Reader<'_>, archive: &mut Archive, jobs: &[Value]) {
    let mut found = Vec::new();
    for job in jobs.iter().take(MAX_ASKED) {
        let text = |field: &str| job["metadata"][field].as_str().unwrap_or_default();
        let (namespace, name) = (text("namespace"), text("name"));
        match reader
            .within(get::<ConfigMap>(reader.client(), namespace, name))
            .await
        {
            Ok(Some(map)) => {
                let mut map = serde_json::to_value(map).unwrap_or_default();
                map["kind"] = "ConfigMap".into();
                found.push(map);
            }
            Ok(None) => {}
            Err(cause) => archive.unread(&format!("ConfigMap {namespace}/{name}"), &cause),
        }
    }
    archive.objects("objects/configmaps.json", found);
}

/// Pods that Deployments select.
async fn pods(reader: &Reader<'_>, archive: &mut Archive, deployments: &[Value]) -> Vec<Value> {
    let mut found = Vec::new();
    for deployment in deployments.iter().take(MAX_ASKED) {
        let namespace = deployment["metadata"]["namespace"].as_str();
        let selector = serde_json::from_value(deployment["spec"]["selector"].clone());
        let selector = selector.ok().and_then(
            |selector: k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector| {
                Selector::try_from(selector).ok()
            },
        );
        // An empty selector is of all pods.
        if let Some(selector) = selector.filter(|selector| !selector.selects_all()) {
            found.extend(objects::<Pod>(reader, archive, &[namespace], &selector.to_string()).await);
        }
    }
    found
}

/// The same object is found by several ways.
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
    for pod in pods {
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
                match reader.within(log(&api, &name, &params)).await {
                    Ok(text) => archive.text(&path, &text),
                    Err(cause) => archive.unread(&path, &cause),
                }
            }
        }
    }
}

async fn log(api: &Api<Pod>, name: &str, params: &LogParams) -> anyhow::Result<String> {
    let what = || format!("read the log of pod {name}");
    let stream = answer(what, api.log_stream(name, params)).await?;
    let mut stream = std::pin::pin!(stream);
    let (mut tail, mut chunk, mut read) = (Tail::default(), vec![0; 64 * 1024], 0);
    loop {
        let count = stream.read(&mut chunk).await.with_context(what)?;
        let bytes = chunk.get(..count).unwrap_or_default();
        if bytes.is_empty() {
            return Ok(tail.text());
        }
        tail.push(bytes);
        read += count;
        if read > MAX_READ {
            return Err(anyhow!("it has no end"));
        }
    }
}

/// What the other commands say, and versions.
async fn reports(reader: &Reader<'_>, namespace: Option<&str>, global: &str, archive: &mut Archive) {
    let observed = Box::pin(observe(reader, namespace, global)).await;
    let diagnosis = diagnose(&observed);
    archive.text("doctor.txt", &diagnosis.text(true, Colours(false)));
    archive.objects(
        "doctor.json",
        vec![serde_json::to_value(&diagnosis).unwrap_or_default()],
    );
    match reader.within(Box::pin(status(reader.client(), namespace))).await {
        Ok(text) => archive.text("status.txt", &text),
        Err(cause) => archive.unread("status", &cause),
    }
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
        "namespace": namespace, "globalCatalogNamespace": global});
    archive.text("versions.json", &format!("{versions:#}\n"));
}

async fn status(client: &Client, namespace: Option<&str>) -> anyhow::Result<String> {
    let gathered = gather::with_workloads(client, namespace, |_| true).await?;
    let trees: Vec<_> = gathered
        .operators()
        .iter()
        // Who reads it is elsewhere.
        .map(|operator| gathered.tree(operator, &CommandLine::default()))
        .collect();
    Ok(lines(&trees, Colours(false)).join("\n") + "\n")
}
