//! Unpack Jobs and their pods. Only their owner, a hash of their programs, and their result are kept.
//!
//! Users who can create Jobs in some namespace can create any number of them with the label of an unpack and a MiB of command each.
//! So commands are removed while they are decoded, texts are cut, and nothing is kept of Jobs without the name of an unpack.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobCondition, JobSpec, JobStatus};
use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Pod, PodSpec};
use kube::core::ObjectMeta;
use kube::{Client, Resource as _};
use olm_api::pod::{is_starting, why_unscheduled};
use olm_api::{labels, unpacked_bundle};
use olm_resolver::explain::cut;
use olm_runtime::NamespacedName;
use olm_runtime::store::{Index, Projected, Projection, Store, StoreSet, Watch};
use sha2::{Digest as _, Sha256};

/// Name of the container that copies the bundle out of its image.
pub(crate) const PULL: &str = "pull";
/// Name of the container that writes the ConfigMap.
pub(crate) const EXTRACT: &str = "extract";
/// Length of the names that upstream gives to the objects of an unpack.
pub(crate) const NAME_LENGTH: usize = 63;
/// Bytes that are kept of the message of a container or a Job.
const MAX_TEXT: usize = 512;
/// Maximum number of reported containers of a pod that do not start.
const MAX_WAITING: usize = 4;
/// Pull secrets of a Job that are known.
const MAX_SECRETS: usize = 64;
/// Maximum bytes of a uid, a hash or an image id; longer values count as missing.
const MAX_ID: usize = 512;

/// An unpack Job as its store keeps it.
pub(crate) type UnpackJob = Projected<KeptJob>;
/// A pod of one as its store keeps it.
pub(crate) type UnpackPod = Projected<KeptPod>;

/// The stores of unpack Jobs.
#[derive(Clone)]
pub(crate) struct UnpackStores {
    /// Jobs with the label of an unpack, created by any user.
    pub jobs: Store<UnpackJob>,
    /// Pods that do.
    pub pods: Store<UnpackPod>,
    jobs_by_unpack: Index<UnpackJob>,
    pods_by_unpack: Index<UnpackPod>,
}

impl UnpackStores {
    /// Registers both watches in `set`.
    pub(crate) fn register(set: &mut StoreSet, client: &Client) -> Self {
        let jobs = set.add_projected(Watch::new(client).label_exists(labels::BUNDLE_UNPACK_REF));
        let pods = set.add_projected(Watch::new(client).label_exists(labels::BUNDLE_UNPACK_REF));
        Self {
            jobs_by_unpack: jobs.index(words),
            pods_by_unpack: pods.index(words),
            jobs,
            pods,
        }
    }

    /// Jobs that name the unpack of this key.
    pub(crate) fn jobs_of(&self, key: &NamespacedName) -> Vec<Arc<UnpackJob>> {
        self.jobs_by_unpack.list(&key.to_string())
    }

    /// Pods that do.
    pub(crate) fn pods_of(&self, key: &NamespacedName) -> Vec<Arc<UnpackPod>> {
        self.pods_by_unpack.list(&key.to_string())
    }
}

fn words<P: OfUnpack + Projection>(object: &Projected<P>) -> BTreeSet<String> {
    unpack_of(object).iter().map(NamespacedName::to_string).collect()
}

/// What names an unpack by its label.
pub(crate) trait OfUnpack {
    /// Name of the unpack; empty for what names none.
    fn unpack(&self) -> &str;
}

/// Returns the key of the unpack that a Job or pod names.
pub(crate) fn unpack_of<P: OfUnpack + Projection>(object: &Projected<P>) -> Option<NamespacedName> {
    let name = object.unpack();
    (!name.is_empty()).then(|| NamespacedName::new(object.namespace(), name))
}

/// Whether a name is one of an unpack: as many hexadecimal digits of a hash as upstream takes.
pub(crate) fn is_name(name: &str) -> bool {
    name.len() == NAME_LENGTH && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The kept fields of a Job. All are empty if its label is no name.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct KeptJob {
    unpack: Box<str>,
    /// Uid of the ConfigMap of that name that owns it.
    pub config_map: Option<Box<str>>,
    /// When it was made.
    pub created: Option<Timestamp>,
    /// What its pods run.
    pub programs: Programs,
    /// Hashes of the names of its pull secrets.
    pub pull_secrets: BTreeSet<u64>,
    /// Whether it has made a pod.
    pub has_made_pods: bool,
    /// How it ended; none while it goes on.
    pub ending: Option<Ending>,
}

/// How a Job ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ending {
    /// Or succeeded.
    pub is_failed: bool,
    /// Reason of the condition.
    pub reason: Box<str>,
    /// Its message.
    pub message: Box<str>,
}

/// Hash of the programs that a pod runs: names, images and commands of its containers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Programs([u8; 32]);

impl Programs {
    /// Of all containers, those that prepare the pod included.
    pub(crate) fn of(spec: &PodSpec) -> Self {
        let mut hasher = Sha256::new();
        let mut note = |text: &str| {
            hasher.update((text.len() as u64).to_be_bytes());
            hasher.update(text);
        };
        for container in spec.init_containers.iter().flatten().chain(&spec.containers) {
            note(&container.name);
            note(container.image.as_deref().unwrap_or_default());
            let command = container.command.as_deref().unwrap_or_default();
            note(&command.len().to_string());
            command.iter().for_each(|word| note(word));
        }
        Self(hasher.finalize().into())
    }
}

/// Returns hashes of the names of a Job's pull secrets.
pub(crate) fn hashes_of_secrets(spec: &JobSpec) -> BTreeSet<u64> {
    let pod = spec.template.spec.as_ref();
    let secrets = pod.and_then(|pod| pod.image_pull_secrets.as_ref());
    let hash = |name: &str| {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        hasher.finish()
    };
    let hashes = secrets.into_iter().flatten().map(|secret| hash(&secret.name));
    hashes.take(MAX_SECRETS).collect()
}

impl OfUnpack for KeptJob {
    fn unpack(&self) -> &str {
        &self.unpack
    }
}

impl Projection for KeptJob {
    type Object = Job;

    fn of(job: Job) -> Self {
        let metadata = job.meta();
        let Some(unpack) = label(metadata) else {
            return Self::default();
        };
        let spec = job.spec.as_ref();
        let pod = spec.and_then(|spec| spec.template.spec.as_ref());
        Self {
            config_map: owner_uid(metadata, "ConfigMap", Some(unpack)),
            created: metadata.creation_timestamp.as_ref().map(|time| time.0),
            programs: pod.map(Programs::of).unwrap_or_default(),
            pull_secrets: spec.map(hashes_of_secrets).unwrap_or_default(),
            has_made_pods: job.status.as_ref().is_some_and(has_made_pods),
            ending: job.status.as_ref().and_then(ending),
            unpack: unpack.into(),
        }
    }
}

fn has_made_pods(status: &JobStatus) -> bool {
    [status.active, status.failed, status.succeeded]
        .iter()
        .any(|count| count.is_some_and(|count| count > 0))
}

/// The condition that ended the Job.
fn ending(status: &JobStatus) -> Option<Ending> {
    let text = |text: &Option<String>| clipped(text.as_deref().unwrap_or_default());
    let of = |condition: &JobCondition| {
        let is_failed = match condition.type_.as_str() {
            "Complete" => false,
            "Failed" => true,
            _ => return None,
        };
        Some(Ending {
            is_failed,
            reason: text(&condition.reason),
            message: text(&condition.message),
        })
    };
    let mut conditions = status.conditions.iter().flatten();
    conditions.find_map(|condition| of(condition).filter(|_| condition.status == "True"))
}

/// The kept fields of a pod. All are empty if its label is no name.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct KeptPod {
    unpack: Box<str>,
    /// Uid of its Job.
    pub job: Option<Box<str>>,
    /// What it runs.
    pub programs: Programs,
    /// Reason why it is not scheduled.
    pub unschedulable: Option<Box<str>>,
    /// Containers that do not start.
    pub waiting: Vec<WaitingContainer>,
    /// The container that failed.
    pub failure: Option<LastWords>,
    /// Report of the written content, if the pod succeeded.
    pub proof: Option<Proof>,
}

/// A container that does not start.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct WaitingContainer {
    /// Its name.
    pub name: Box<str>,
    /// Reason.
    pub reason: Box<str>,
    /// Message.
    pub message: Box<str>,
}

/// Message of a container that failed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LastWords {
    /// Its name.
    pub container: Box<str>,
    /// Its message, else the reason.
    pub said: Box<str>,
    /// True if `opm` found that the bundle does not fit.
    pub is_too_large: bool,
}

/// Report of a Job's pod about the content that it wrote.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Proof {
    /// Hash of the content.
    pub hash: Box<str>,
    /// Image id of the bundle, as its node has it.
    pub image_id: Option<Box<str>>,
}

impl OfUnpack for KeptPod {
    fn unpack(&self) -> &str {
        &self.unpack
    }
}

impl Projection for KeptPod {
    type Object = Pod;

    fn of(pod: Pod) -> Self {
        let metadata = pod.meta();
        let Some(unpack) = label(metadata) else {
            return Self::default();
        };
        let waiting = statuses(&pod).filter_map(waiting);
        Self {
            job: owner_uid(metadata, "Job", None),
            programs: pod.spec.as_ref().map(Programs::of).unwrap_or_default(),
            unschedulable: why_unscheduled(&pod).map(clipped),
            waiting: waiting.take(MAX_WAITING).collect(),
            failure: statuses(&pod).find_map(last_words),
            proof: proof(&pod),
            unpack: unpack.into(),
        }
    }
}

fn waiting(container: &ContainerStatus) -> Option<WaitingContainer> {
    let waiting = container.state.as_ref()?.waiting.as_ref()?;
    let reason = waiting
        .reason
        .as_deref()
        .filter(|reason| !reason.is_empty() && !is_starting(reason))?;
    Some(WaitingContainer {
        name: clipped(&container.name),
        reason: clipped(reason),
        message: clipped(waiting.message.as_deref().unwrap_or_default()),
    })
}

fn last_words(container: &ContainerStatus) -> Option<LastWords> {
    let ended = container.state.as_ref()?.terminated.as_ref()?;
    let said = ended.message.as_deref().or(ended.reason.as_deref());
    let said = said.unwrap_or_default();
    (ended.exit_code != 0).then(|| LastWords {
        container: clipped(&container.name),
        said: clipped(said),
        is_too_large: container.name == EXTRACT && said.contains(unpacked_bundle::TOO_LARGE),
    })
}

/// The message of the container that wrote the ConfigMap, if it succeeded, and the image id of the one that pulled.
fn proof(pod: &Pod) -> Option<Proof> {
    let ended = |state: &Option<ContainerState>| {
        let ended = state.as_ref()?.terminated.as_ref()?;
        (ended.exit_code == 0).then(|| ended.message.clone().unwrap_or_default())
    };
    let extract = statuses(pod).find(|container| container.name == EXTRACT)?;
    let said = ended(&extract.state)?;
    let hash = id(unpacked_bundle::proven_hash(&said)?)?;
    let pulled = statuses(pod).find(|container| container.name == PULL);
    let image_id = pulled.and_then(|container| id(&container.image_id));
    Some(Proof { hash, image_id })
}

/// Init containers and containers.
fn statuses(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    let status = pod.status.as_ref();
    let init = status.and_then(|status| status.init_container_statuses.as_ref());
    let main = status.and_then(|status| status.container_statuses.as_ref());
    init.into_iter().flatten().chain(main.into_iter().flatten())
}

fn label(metadata: &ObjectMeta) -> Option<&str> {
    let label = metadata.labels.as_ref()?.get(labels::BUNDLE_UNPACK_REF)?;
    Some(label.as_str()).filter(|name| is_name(name))
}

/// Uid of the owner of this kind, and of this name if there is one.
fn owner_uid(metadata: &ObjectMeta, kind: &str, name: Option<&str>) -> Option<Box<str>> {
    let mut owners = metadata.owner_references.iter().flatten();
    let owner = owners.find(|owner| owner.kind == kind && name.is_none_or(|name| owner.name == name));
    id(&owner?.uid)
}

fn id(text: &str) -> Option<Box<str>> {
    (1..=MAX_ID).contains(&text.len()).then(|| text.into())
}

/// Nodes repeat what registries say, which may be anything.
fn clipped(text: &str) -> Box<str> {
    cut(text.trim(), MAX_TEXT).into()
}

#[cfg(test)]
mod tests;
