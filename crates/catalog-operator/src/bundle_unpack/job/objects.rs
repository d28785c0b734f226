//! The objects of an unpack: ConfigMap, account, its rights, Job. No I/O. They are as upstream creates them, except the
//! ConfigMap's label and the names of later Jobs for the same bundle.

use std::collections::BTreeMap;

use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{
    ConfigMap, Container, EnvVar, LocalObjectReference, PodSpec, PodTemplateSpec, SecurityContext,
    ServiceAccount, Toleration,
};
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Resource as _;
use olm_api::labels;
use olm_api::v1alpha1::CatalogSource;
use olm_oci::Digest;
use olm_runtime::NamespacedName;

use super::JobRequest;
use crate::catalog_source::objects::{Ownership, owner_reference, pull_secrets};
use crate::catalog_source::pod::{
    empty_dir, linux_only, mount, pull_policy, restrict_container, restricted_pod, small_requests,
};
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

/// Settings of Jobs besides the catalog and the bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JobSettings {
    /// Image with `opm`, which writes the ConfigMap.
    pub opm_image: String,
    /// Image with `/bin/cp` and `/bin/cpb`.
    pub util_image: String,
    /// User of the pods; `None` keeps the images' own.
    pub user_id: Option<i64>,
}

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
    Role {
        metadata: metadata(key, config_map_reference(key, uid)),
        rules: Some(vec![PolicyRule {
            api_groups: Some(vec![String::new()]),
            resources: Some(vec!["configmaps".to_owned()]),
            resource_names: Some(vec![key.name.clone()]),
            verbs: ["create", "get", "update"].map(str::to_owned).to_vec(),
            non_resource_urls: None,
        }]),
    }
}

/// Grants that right to that account.
pub(crate) fn build_role_binding(key: &NamespacedName, uid: &str) -> RoleBinding {
    RoleBinding {
        metadata: metadata(key, config_map_reference(key, uid)),
        role_ref: RoleRef {
            api_group: Role::group(&()).into_owned(),
            kind: "Role".to_owned(),
            name: key.name.clone(),
        },
        subjects: Some(vec![Subject {
            api_group: None,
            kind: "ServiceAccount".to_owned(),
            name: key.name.clone(),
            namespace: Some(key.namespace.clone()),
        }]),
    }
}

/// The Job, with the name of the key, or another name if `others`, by uid, already exist.
pub(crate) fn build_job(
    key: &NamespacedName,
    uid: &str,
    others: &[String],
    request: &JobRequest,
    source: &CatalogSource,
    settings: &JobSettings,
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
    Job {
        metadata,
        spec: Some(JobSpec {
            active_deadline_seconds: (!request.deadline.is_zero()).then_some(seconds),
            backoff_limit: Some(BACKOFF_LIMIT),
            ttl_seconds_after_finished: Some(KEPT_SECONDS),
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    name: Some(key.name.clone()),
                    labels: Some(labels),
                    ..ObjectMeta::default()
                }),
                spec: Some(pod_spec(key, &request.image, source, settings)),
            },
            ..JobSpec::default()
        }),
        status: None,
    }
}

/// The spec of the pod.
pub(crate) fn pod_spec(
    key: &NamespacedName,
    image: &str,
    source: &CatalogSource,
    settings: &JobSettings,
) -> PodSpec {
    let text = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
    let container = |name: &str, image: &str, mounts: &[&str]| Container {
        name: name.to_owned(),
        image: Some(image.to_owned()),
        image_pull_policy: Some("IfNotPresent".to_owned()),
        volume_mounts: Some(
            mounts
                .iter()
                .map(|volume| mount(volume, &format!("/{volume}")))
                .collect(),
        ),
        ..restricted_container()
    };
    let secrets: Vec<_> = pull_secrets(source)
        .into_iter()
        .map(|name| LocalObjectReference {
            name: name.to_owned(),
        })
        .collect();
    PodSpec {
        init_containers: Some(vec![
            Container {
                command: text(&["/bin/cp", "-Rv", "/bin/cpb", "/util/cpb"]),
                ..container("util", &settings.util_image, &["util"])
            },
            Container {
                command: text(&["/util/cpb", "/bundle"]),
                image_pull_policy: Some(pull_policy(image).to_owned()),
                ..container(PULL, image, &["bundle", "util"])
            },
        ]),
        containers: vec![Container {
            command: text(&[
                "opm",
                "alpha",
                "bundle",
                "extract",
                "-m",
                "/bundle/",
                "-n",
                &key.namespace,
                "-c",
                &key.name,
                "-z",
            ]),
            env: Some(vec![EnvVar {
                name: IMAGE_VARIABLE.to_owned(),
                value: Some(image.to_owned()),
                value_from: None,
            }]),
            ..container(EXTRACT, &settings.opm_image, &["bundle"])
        }],
        image_pull_secrets: (!secrets.is_empty()).then_some(secrets),
        node_selector: Some(linux_only()),
        restart_policy: Some("Never".to_owned()),
        service_account_name: Some(key.name.clone()),
        security_context: Some(restricted_pod(settings.user_id)),
        tolerations: Some(tolerations()),
        volumes: Some(vec![empty_dir("bundle"), empty_dir("util")]),
        ..PodSpec::default()
    }
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

fn restricted_container() -> Container {
    let mut security = SecurityContext {
        read_only_root_filesystem: Some(true),
        ..SecurityContext::default()
    };
    restrict_container(&mut security);
    Container {
        resources: Some(small_requests()),
        security_context: Some(security),
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        ..Container::default()
    }
}

fn tolerations() -> Vec<Toleration> {
    let of_arch = |value: &str| Toleration {
        key: Some("kubernetes.io/arch".to_owned()),
        operator: Some("Equal".to_owned()),
        value: Some(value.to_owned()),
        ..Toleration::default()
    };
    let exists = |key: &str, effect: &str, seconds: Option<i64>| Toleration {
        key: Some(key.to_owned()),
        operator: Some("Exists".to_owned()),
        effect: Some(effect.to_owned()),
        toleration_seconds: seconds,
        ..Toleration::default()
    };
    let mut all = ["amd64", "arm64", "ppc64le", "s390x"].map(of_arch).to_vec();
    all.extend([
        exists("node-role.kubernetes.io/master", "NoSchedule", None),
        exists("node.kubernetes.io/unreachable", "NoExecute", Some(NODE_PATIENCE)),
        exists("node.kubernetes.io/not-ready", "NoExecute", Some(NODE_PATIENCE)),
    ]);
    all
}
