//! The objects of an unpack: ConfigMap, account, its rights, Job. No I/O. They are as upstream creates them, except the
//! ConfigMap's label and the names of later Jobs for the same bundle.

use std::collections::BTreeMap;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, PodSpec, SecurityContext, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use olm_api::v1alpha1::CatalogSource;
use olm_api::{labels, permission};
use olm_oci::Digest;
use olm_runtime::NamespacedName;
use serde_json::{Value, json};

use super::JobRequest;
use crate::catalog_source::objects::{Ownership, owner_reference, pull_secret_references};
use crate::catalog_source::pod::{
    PodSettings, linux_only, pull_policy, restrict_container, restricted_pod, small_requests,
};
use crate::object::typed;
use crate::stores::unpacks::{EXTRACT, PULL};

/// Variable with the bundle's image.
const IMAGE_VARIABLE: &str = "CONTAINER_IMAGE";
/// Number of retries of a Job.
const BACKOFF_LIMIT: i32 = 3;
/// Time for which a finished Job is kept, in seconds.
const KEPT_SECONDS: i32 = 300;
/// Time that a pod stays on an unresponsive node, in seconds.
const NODE_PATIENCE: i64 = 120;
/// Length of the suffix that distinguishes the Jobs of one bundle, in characters.
const SUFFIX: usize = 5;

/// The empty ConfigMap for the bundle. Its label, which upstream's lack, shows that nothing else refers to
/// it.
pub(crate) fn build_config_map(key: &NamespacedName, source: &CatalogSource) -> ConfigMap {
    let mut metadata = metadata(key, owner_reference(source, Ownership::Plain));
    let labels = metadata.labels.get_or_insert_default();
    labels.insert(labels::BUNDLE_UNPACK_REF.to_owned(), key.name.clone());
    ConfigMap {
        metadata,
        ..ConfigMap::default()
    }
}

/// The account of the Job's pods.
pub(crate) fn build_account(key: &NamespacedName, uid: &str) -> ServiceAccount {
    ServiceAccount {
        metadata: metadata(key, config_map_reference(key, uid)),
        ..ServiceAccount::default()
    }
}

/// The right to write only this ConfigMap.
pub(crate) fn build_role(key: &NamespacedName, uid: &str) -> Role {
    let verbs = ["create", "get", "update"];
    Role {
        metadata: metadata(key, config_map_reference(key, uid)),
        rules: typed(json!([
            {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [key.name], "verbs": verbs},
        ])),
    }
}

/// Grants that right to that account.
pub(crate) fn build_role_binding(key: &NamespacedName, uid: &str) -> RoleBinding {
    RoleBinding {
        metadata: metadata(key, config_map_reference(key, uid)),
        role_ref: permission::role_ref("Role", &key.name),
        subjects: Some(vec![permission::service_account_subject(
            &key.namespace,
            &key.name,
        )]),
    }
}

/// The Job, with the name of the key, or another name if `others`, by uid, already exist.
pub(crate) fn build_job(
    key: &NamespacedName,
    uid: &str,
    others: &[String],
    request: &JobRequest,
    source: &CatalogSource,
    settings: &PodSettings,
) -> Job {
    let mut metadata = metadata(key, config_map_reference(key, uid));
    metadata.name = Some(job_name(&key.name, others));
    let labels = BTreeMap::from([
        (labels::MANAGED.to_owned(), labels::TRUE.to_owned()),
        (labels::BUNDLE_UNPACK_REF.to_owned(), key.name.clone()),
    ]);
    metadata.labels = Some(labels.clone());
    // Kubernetes accepts only whole seconds.
    let seconds = i64::try_from(request.deadline.as_secs())
        .unwrap_or(i64::MAX)
        .max(1);
    let spec = json!({
        "activeDeadlineSeconds": (!request.deadline.is_zero()).then_some(seconds),
        "backoffLimit": BACKOFF_LIMIT,
        "ttlSecondsAfterFinished": KEPT_SECONDS,
        "template": {
            "metadata": {"name": key.name, "labels": labels},
            "spec": pod_spec(key, &request.image, source, settings),
        },
    });
    Job {
        metadata,
        spec: typed(spec),
        status: None,
    }
}

/// The spec of the pod.
pub(crate) fn pod_spec(
    key: &NamespacedName,
    image: &str,
    source: &CatalogSource,
    settings: &PodSettings,
) -> PodSpec {
    let mut security = SecurityContext {
        read_only_root_filesystem: Some(true),
        ..SecurityContext::default()
    };
    restrict_container(&mut security);
    let container = |name: &str, image: &str, command: &[&str], volumes: &[&str]| {
        let mount = |volume: &&str| json!({"name": volume, "mountPath": format!("/{volume}")});
        json!({
            "name": name,
            "image": image,
            "imagePullPolicy": "IfNotPresent",
            "command": command,
            "volumeMounts": volumes.iter().map(mount).collect::<Vec<_>>(),
            "resources": small_requests(),
            "securityContext": security,
            "terminationMessagePolicy": "FallbackToLogsOnError",
        })
    };
    let copied = ["/bin/cp", "-Rv", "/bin/cpb", "/util/cpb"];
    let util = container("util", &settings.util_image, &copied, &["util"]);
    let mut pull = container(PULL, image, &["/util/cpb", "/bundle"], &["bundle", "util"]);
    pull["imagePullPolicy"] = pull_policy(image).into();
    let (namespace, name) = (key.namespace.as_str(), key.name.as_str());
    let written = [
        "opm", "alpha", "bundle", "extract", "-m", "/bundle/", "-n", namespace, "-c", name, "-z",
    ];
    let mut extract = container(EXTRACT, &settings.opm_image, &written, &["bundle"]);
    extract["env"] = json!([{"name": IMAGE_VARIABLE, "value": image}]);
    typed(json!({
        "initContainers": [util, pull],
        "containers": [extract],
        "imagePullSecrets": pull_secret_references(source),
        "nodeSelector": linux_only(),
        "restartPolicy": "Never",
        "serviceAccountName": name,
        "securityContext": restricted_pod(settings.user_id),
        "tolerations": tolerations(),
        "volumes": [{"name": "bundle", "emptyDir": {}}, {"name": "util", "emptyDir": {}}],
    }))
}

fn job_name(name: &str, others: &[String]) -> String {
    if others.is_empty() {
        return name.to_owned();
    }
    let hash = Digest::sha256(others.concat().as_bytes());
    let text: String = hash.hex().chars().take(SUFFIX).collect();
    let kept = name.len().saturating_sub(SUFFIX);
    format!("{}{text}", name.get(..kept).unwrap_or_default())
}

fn metadata(key: &NamespacedName, owner: OwnerReference) -> ObjectMeta {
    ObjectMeta {
        name: Some(key.name.clone()),
        namespace: Some(key.namespace.clone()),
        labels: Some(BTreeMap::from([(
            labels::MANAGED.to_owned(),
            labels::TRUE.to_owned(),
        )])),
        owner_references: Some(vec![owner]),
        ..ObjectMeta::default()
    }
}

fn config_map_reference(key: &NamespacedName, uid: &str) -> OwnerReference {
    OwnerReference {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        name: key.name.clone(),
        uid: uid.to_owned(),
        controller: Some(false),
        block_owner_deletion: Some(false),
    }
}

fn tolerations() -> Vec<Value> {
    let of_arch = |arch: &str| json!({"key": "kubernetes.io/arch", "operator": "Equal", "value": arch});
    let of_state = |state: &str| {
        json!({"key": format!("node.kubernetes.io/{state}"), "operator": "Exists", "effect": "NoExecute",
            "tolerationSeconds": NODE_PATIENCE})
    };
    let master =
        json!({"key": "node-role.kubernetes.io/master", "operator": "Exists", "effect": "NoSchedule"});
    let arches = ["amd64", "arm64", "ppc64le", "s390x"].map(of_arch);
    let states = ["unreachable", "not-ready"].map(of_state);
    arches.into_iter().chain([master]).chain(states).collect()
}
