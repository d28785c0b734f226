//! Reads the content of a bundle. Secrets are never requested.

use std::pin::pin;

use futures::AsyncReadExt as _;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, ListParams, LogParams};
use olm_api::extension_v1::{ClusterCatalog, ClusterExtension, ClusterObjectSet};
use olm_api::labels;
use olm_api::v1::{OLMConfig, Operator, OperatorGroup};
use olm_api::v1alpha1::{CatalogSource, ClusterServiceVersion, InstallPlan, Subscription};
use olm_api::v2::OperatorCondition;
use serde_json::{Value, json};

use super::archive::Archive;
use crate::command_line::CommandLine;
use crate::commands::doctor::{PROGRAMS, Reader, diagnose, observe};
use crate::gather;
use crate::global::OlmNamespaces;
use crate::operators::{Node, lines};
use crate::reader::{Kind, answer, dynamic_api, is_unserved, pages, place};
use crate::terminal::Colours;

/// Maximum number of lines of one log, from its end.
const MAX_LINES: i64 = 10_000;
/// Page size of lists. Objects may have a megabyte each, and a page has to arrive within the timeout of one request.
const PAGE: u32 = 50;

/// Returns the places to list: all namespaces, or the given one and those of OLM, each once.
fn places<'a>(namespace: Option<&'a str>, own: &'a OlmNamespaces) -> Vec<Option<&'a str>> {
    let mut places = vec![namespace];
    if namespace.is_some() {
        for place in [Some(own.catalogs.as_str()), Some(own.olm.as_str())] {
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
    own: &OlmNamespaces,
    with_logs: bool,
    archive: &mut Archive,
) {
    versions(reader, namespace, own, archive).await;
    let mut olm = objects::<Deployment>(reader, archive, &[Some(own.olm.as_str())], PROGRAMS).await;
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
    kind::<Job>(reader, archive, &places, labels::BUNDLE_UNPACK_REF).await;
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
async fn kind<K: Kind>(reader: &Reader<'_>, archive: &mut Archive, places: &[Option<&str>], selector: &str) {
    let found = objects::<K>(reader, archive, places, selector).await;
    archive.objects(&format!("objects/{}.json", K::plural(&())), found);
}

/// Returns the unmodified objects of a kind in several places.
async fn objects<K: Kind>(
    reader: &Reader<'_>,
    archive: &mut Archive,
    places: &[Option<&str>],
    selector: &str,
) -> Vec<Value> {
    let resource = ApiResource::erase::<K>(&());
    let mut found = Vec::new();
    for at in places {
        let api = &dynamic_api(reader.client(), *at, &resource);
        let what = format!("{} in {}", K::plural(&()), place(*at));
        let keep = |object: DynamicObject| {
            let mut object = serde_json::to_value(object).ok()?;
            // Items of a list have no kind and API version.
            object["kind"] = K::kind(&()).as_ref().into();
            object["apiVersion"] = K::api_version(&()).as_ref().into();
            Some(object)
        };
        let page = |params: ListParams| async move { api.list(&params).await };
        let listing = format!("list {what}");
        let read = async {
            match pages(&listing, selector, PAGE, keep, page).await {
                // The cluster does not have the kind.
                Err(error) if is_unserved(&error) => Ok(None),
                read => read.map(Some),
            }
        };
        match reader.within(read).await {
            Ok(Some(objects)) => {
                archive.answered();
                found.extend(objects);
            }
            Ok(None) => {}
            // The pages before the error are dropped.
            Err(cause) => archive.unread(&format!("all {what}"), &cause),
        }
    }
    found
}

/// Returns the pods that Deployments select.
async fn pods(reader: &Reader<'_>, archive: &mut Archive, deployments: &[Value]) -> Vec<Value> {
    let mut found = Vec::new();
    for deployment in deployments {
        let namespace = deployment["metadata"]["namespace"].as_str();
        let selector = serde_json::from_value::<LabelSelector>(deployment["spec"]["selector"].clone());
        if let Some(selector) = selector.ok().and_then(gather::pod_selector) {
            found.extend(objects::<Pod>(reader, archive, &[namespace], &selector).await);
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
                    let mut log = pin!(answer(what, api.log_stream(name, &params)).await?);
                    let mut bytes = Vec::new();
                    log.read_to_end(&mut bytes).await?;
                    anyhow::Ok(String::from_utf8_lossy(&bytes).into_owned())
                };
                match reader.within(read).await {
                    Ok(text) => {
                        archive.answered();
                        archive.lines(&path, &text);
                    }
                    Err(cause) => archive.unread(&path, &cause),
                }
            }
        }
    }
}

async fn versions(reader: &Reader<'_>, namespace: Option<&str>, own: &OlmNamespaces, archive: &mut Archive) {
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
async fn reports(reader: &Reader<'_>, namespace: Option<&str>, own: &OlmNamespaces, archive: &mut Archive) {
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
