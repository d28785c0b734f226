//! The pod that serves a catalog: a pure function of the CatalogSource, of a few settings and, for a
//! ConfigMap source, of the ConfigMap's content.
//!
//! Rules: `docs/reference/catalogs.md`. Two differences from upstream are deliberate, both in
//! `docs/decisions`. The probes run every second without an initial delay. The pod's pull secrets come from
//! its ServiceAccount at admission, so that secrets which others add to that account do not restart the pod.

use std::collections::BTreeMap;

use go_compat::quantity;
use k8s_openapi::api::core::v1::{
    Capabilities, EnvVar, Pod, PodSecurityContext, PodSpec, SeccompProfile, SecurityContext,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use olm_api::v1alpha1::{CatalogSource, ExtractContentConfig, SecurityContextConfig};
use olm_api::{config_map_catalog, hash, labels};
use serde_json::{Value, json};

use super::objects::{GRPC_PORT, Ownership, catalog_labels, owner_reference};
use super::source::PodConfig;
use crate::object::typed;
use crate::stores::config_maps::Version;

/// Name of the container that serves the catalog.
pub(crate) const SERVER_CONTAINER: &str = "registry-server";
/// Name of that container for a ConfigMap source.
const CONFIG_MAP_SERVER_CONTAINER: &str = "configmap-registry-server";
/// Name of the container that copies the content from the catalog's image.
pub(crate) const EXTRACT_CONTAINER: &str = "extract-content";
const UTILITIES: &str = "utilities";
const CONTENT: &str = "catalog-content";
const EXTRACTED: &str = "/extracted-catalog";
const CONFIG_MAP: &str = "configmap";
/// Argument of its server: only this content is served.
const CONTENT_HASH: &str = "--content-hash=";
const MOUNTED: &str = "/configmap";

/// Settings of the pods of a catalog and of its unpack Jobs besides its CatalogSource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodSettings {
    /// Image with `/bin/opm`, for catalogs whose content is copied from their image, or is in a ConfigMap, and for Jobs.
    pub opm_image: String,
    /// Image with `/bin/copy-content`, `/bin/cp` and `/bin/cpb`.
    pub util_image: String,
    /// User of restricted pods; `None` keeps the image's own.
    pub user_id: Option<i64>,
    /// True when the namespace enforces the `restricted` pod security level. Pods of Jobs are restricted anyway.
    pub namespace_restricted: bool,
}

/// Builds the pod for an image source, including the `hash` label. The server generates the name
/// (`generateName`).
pub(crate) fn build_pod(
    source: &CatalogSource,
    image: &str,
    config: &PodConfig,
    settings: &PodSettings,
) -> Pod {
    let spec = match &config.extract {
        None => typed(json!({"containers": [server_container(image, false)], "nodeSelector": linux_only()})),
        Some(extract) => extracting_spec(image, extract, settings),
    };
    pod_of(spec, source, config, settings)
}

/// Builds the pod that serves the content of ConfigMap `name` in `version`. Another `resourceVersion` alone
/// needs no other pod; the label contains the one it was made for.
pub(crate) fn build_config_map_pod(
    source: &CatalogSource,
    name: &str,
    version: &Version,
    config: &PodConfig,
    settings: &PodSettings,
) -> Pod {
    let spec = config_map_spec(name, version, settings);
    let mut pod = pod_of(spec, source, config, settings);
    pod.metadata.labels.get_or_insert_default().insert(
        labels::CONFIG_MAP_RESOURCE_VERSION.to_owned(),
        version.resource_version.clone(),
    );
    pod
}

fn pod_of(mut spec: PodSpec, source: &CatalogSource, config: &PodConfig, settings: &PodSettings) -> Pod {
    // Only for its pull secrets: users who can write CatalogSources choose the account, and must not get its
    // token.
    spec.service_account_name = Some(super::objects::service_account_name(source));
    spec.automount_service_account_token = Some(false);
    override_spec(&mut spec, source, config);
    if is_restricted(config, settings) {
        restrict(&mut spec, settings.user_id);
    }
    let mut labels = catalog_labels(source);
    labels.insert(labels::POD_SPEC_HASH.to_owned(), pod_hash(&spec, source));
    Pod {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}-", super::objects::name(source))),
            namespace: source.metadata.namespace.clone(),
            labels: Some(labels),
            annotations: Some(pod_annotations(source)),
            owner_references: Some(vec![owner_reference(source, Ownership::ControllerOnly)]),
            ..ObjectMeta::default()
        },
        spec: Some(spec),
        status: None,
    }
}

/// Hash of everything whose change replaces the pod: its spec and the pull secrets, which the pod gets
/// through its ServiceAccount.
fn pod_hash(spec: &PodSpec, source: &CatalogSource) -> String {
    // Plain structs always serialize.
    hash::hash_with_newline(&(spec, super::objects::pull_secrets(source))).unwrap_or_default()
}

/// Annotations of a CatalogSource that are not copied to its pods: kubectl's own, and OLM's notes.
const NOT_COPIED: [&str; 2] = [labels::LAST_APPLIED_CONFIGURATION, labels::IMAGE_DIGEST];

/// Returns the annotations of the CatalogSource for its pods.
fn pod_annotations(source: &CatalogSource) -> BTreeMap<String, String> {
    let mut annotations = source.metadata.annotations.clone().unwrap_or_default();
    annotations.retain(|key, _| !NOT_COPIED.contains(&key.as_str()));
    annotations.insert(labels::SAFE_TO_EVICT.to_owned(), labels::TRUE.to_owned());
    annotations
}

fn extracting_spec(image: &str, extract: &ExtractContentConfig, settings: &PodSettings) -> PodSpec {
    let mut args = vec!["serve".to_owned(), format!("{EXTRACTED}/catalog")];
    let mut copy = vec![
        format!("--catalog.from={}", extract.catalog_dir),
        format!("--catalog.to={EXTRACTED}/catalog"),
    ];
    let utilities = json!({"name": UTILITIES, "mountPath": format!("/{UTILITIES}")});
    let content = json!({"name": CONTENT, "mountPath": EXTRACTED});
    let mut mounts = vec![content.clone()];
    let mut volumes = vec![UTILITIES, CONTENT];
    match extract.cache_dir.as_deref().filter(|dir| !dir.is_empty()) {
        Some(cache) => {
            args.push(format!("--cache-dir={EXTRACTED}/cache"));
            copy.push(format!("--cache.from={cache}"));
            copy.push(format!("--cache.to={EXTRACTED}/cache"));
        }
        // Without a shipped cache the server builds one, and its root file system is read-only.
        None => {
            volumes.push("tmpdir");
            mounts.push(json!({"name": "tmpdir", "mountPath": "/tmp/"}));
        }
    }
    let mut server = server_container(&settings.opm_image, true);
    server["command"] = json!(["/bin/opm"]);
    server["args"] = args.into();
    server["volumeMounts"] = mounts.into();
    let volume = |name: &str| json!({"name": name, "emptyDir": {}});
    typed(json!({
        "initContainers": [
            {
                "name": "extract-utilities",
                "image": settings.util_image,
                "command": ["cp"],
                "args": ["/bin/copy-content", format!("/{UTILITIES}/copy-content")],
                "volumeMounts": [utilities],
                "securityContext": {"readOnlyRootFilesystem": true},
                "terminationMessagePolicy": "FallbackToLogsOnError",
            },
            {
                "name": EXTRACT_CONTAINER,
                "image": image,
                "imagePullPolicy": pull_policy(image),
                "command": [format!("/{UTILITIES}/copy-content")],
                "args": copy,
                "volumeMounts": [utilities, content],
                "securityContext": {"readOnlyRootFilesystem": true},
                "terminationMessagePolicy": "FallbackToLogsOnError",
            },
        ],
        "containers": [server],
        "volumes": volumes.into_iter().map(volume).collect::<Vec<_>>(),
        "nodeSelector": linux_only(),
    }))
}

/// Only the keys of a catalog are mounted, so that messages of the server do not reveal others. The server
/// reports a missing one.
fn config_map_spec(name: &str, version: &Version, settings: &PodSettings) -> PodSpec {
    let mut server = server_container(&settings.opm_image, true);
    server["name"] = CONFIG_MAP_SERVER_CONTAINER.into();
    server["command"] = json!(["/bin/opm"]);
    // A node may have mounted an older version, and updates it later.
    let hash = format!("{CONTENT_HASH}{}", version.content_hash);
    server["args"] = json!(["serve-configmap", MOUNTED, hash]);
    server["volumeMounts"] = json!([{"name": CONFIG_MAP, "mountPath": MOUNTED, "readOnly": true}]);
    let items = config_map_catalog::KEYS.map(|key| json!({"key": key, "path": key}));
    let config_map = json!({"name": name, "items": items, "optional": true});
    typed(json!({
        "containers": [server],
        "volumes": [{"name": CONFIG_MAP, "configMap": config_map}],
        "nodeSelector": linux_only(),
    }))
}

fn server_container(image: &str, read_only_root: bool) -> Value {
    let probe = |period: i32, failures: i32| {
        json!({"grpc": {"port": GRPC_PORT}, "periodSeconds": period, "timeoutSeconds": 5,
            "failureThreshold": failures})
    };
    json!({
        "name": SERVER_CONTAINER,
        "image": image,
        "imagePullPolicy": pull_policy(image),
        "ports": [{"name": "grpc", "containerPort": GRPC_PORT}],
        // The pod counts as ready within a second of serving; a catalog that hangs is restarted after half a minute.
        "readinessProbe": probe(1, 3),
        "livenessProbe": probe(10, 3),
        // 150 attempts a second apart give a large catalog the same two and a half minutes as upstream's 15 of 10 s.
        "startupProbe": probe(1, 150),
        "resources": small_requests(),
        "securityContext": {"readOnlyRootFilesystem": read_only_root},
        "terminationMessagePolicy": "FallbackToLogsOnError",
    })
}

/// Resource requests for each container of catalog pods, the same as upstream's.
pub(crate) fn small_requests() -> Value {
    json!({"requests": {"cpu": "10m", "memory": "50Mi"}})
}

/// The content behind a digest never changes, so a node that has it need not pull again.
pub(crate) fn pull_policy(image: &str) -> &'static str {
    if image.contains('@') {
        "IfNotPresent"
    } else {
        "Always"
    }
}

pub(crate) fn linux_only() -> Value {
    json!({"kubernetes.io/os": "linux"})
}

fn override_spec(spec: &mut PodSpec, source: &CatalogSource, config: &PodConfig) {
    if let Some(selector) = &config.node_selector {
        spec.node_selector = Some(selector.clone());
    }
    if !config.tolerations.is_empty() {
        spec.tolerations = Some(config.tolerations.clone());
    }
    if let Some(affinity) = &config.affinity {
        spec.affinity = Some(affinity.clone());
    }
    spec.priority_class_name.clone_from(&config.priority_class_name);
    let annotation = source
        .metadata
        .annotations
        .as_ref()
        .and_then(|annotations| annotations.get(labels::PRIORITY_CLASS))
        .filter(|class| !class.is_empty());
    if let Some(class) = annotation {
        spec.priority_class_name = Some(class.clone());
    }
    if let (Some(target), Some(server)) = (&config.memory_target, spec.containers.first_mut()) {
        let requests = server
            .resources
            .get_or_insert_default()
            .requests
            .get_or_insert_default();
        requests.insert("memory".to_owned(), target.clone());
        server.env.get_or_insert_default().push(EnvVar {
            name: "GOMEMLIMIT".to_owned(),
            value: Some(format!("{}B", binary_quantity(&target.0))),
            value_from: None,
        });
    }
}

fn is_restricted(config: &PodConfig, settings: &PodSettings) -> bool {
    match config.security {
        Some(SecurityContextConfig::Restricted) => true,
        Some(SecurityContextConfig::Legacy) => false,
        Some(SecurityContextConfig::Other(_)) | None => settings.namespace_restricted,
    }
}

fn restrict(spec: &mut PodSpec, user_id: Option<i64>) {
    spec.security_context = Some(restricted_pod(user_id));
    let containers = spec
        .init_containers
        .iter_mut()
        .flatten()
        .chain(&mut spec.containers);
    for container in containers {
        let context = container.security_context.get_or_insert_default();
        restrict_container(context);
    }
}

/// Security context of a pod at level `restricted`. Without a user, the images' own user must not be root.
pub(crate) fn restricted_pod(user_id: Option<i64>) -> PodSecurityContext {
    PodSecurityContext {
        seccomp_profile: Some(SeccompProfile {
            type_: "RuntimeDefault".to_owned(),
            localhost_profile: None,
        }),
        run_as_user: user_id,
        run_as_non_root: user_id.map(|_| true),
        ..PodSecurityContext::default()
    }
}

/// Sets the restrictions of that level in a container.
pub(crate) fn restrict_container(context: &mut SecurityContext) {
    context.allow_privilege_escalation = Some(false);
    context.capabilities = Some(Capabilities {
        drop: Some(vec!["ALL".to_owned()]),
        add: None,
    });
}

/// Returns a quantity in the binary form of the Go runtime: with the largest of `Ki`, `Mi`, `Gi`… that
/// divides it. Invalid text is returned unchanged (the CRD's schema refuses it earlier).
fn binary_quantity(text: &str) -> String {
    // A fraction of a byte is rounded up, as Kubernetes does.
    let bytes = quantity::billionths(text).and_then(|billionths| u128::try_from(billionths).ok());
    let Some(mut value) = bytes.map(|billionths| billionths.div_ceil(1_000_000_000)) else {
        return text.to_owned();
    };
    let mut suffix = "";
    for next in ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"] {
        if value == 0 || !value.is_multiple_of(1024) {
            break;
        }
        value /= 1024;
        suffix = next;
    }
    format!("{value}{suffix}")
}

#[cfg(test)]
mod tests;
