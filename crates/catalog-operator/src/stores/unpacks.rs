//! What is kept of unpack Jobs and their pods: whose they are, what they run, and what has become of it.

use k8s_openapi::api::batch::v1::{Job, JobStatus};
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, PodStatus, PodTemplateSpec};

pub(super) fn prune_job(job: &mut Job) {
    job.metadata.annotations = None;
    if let Some(spec) = &mut job.spec {
        let template = std::mem::take(&mut spec.template);
        spec.template = PodTemplateSpec {
            metadata: None,
            spec: template.spec.map(programs),
        };
        spec.selector = None;
    }
    if let Some(status) = &mut job.status {
        *status = JobStatus {
            conditions: status.conditions.take(),
            ..JobStatus::default()
        };
    }
}

pub(super) fn prune_pod(pod: &mut Pod) {
    pod.metadata.annotations = None;
    pod.spec = pod.spec.take().map(programs);
    if let Some(status) = &mut pod.status {
        *status = PodStatus {
            init_container_statuses: status.init_container_statuses.take(),
            container_statuses: status.container_statuses.take(),
            ..PodStatus::default()
        };
    }
}

/// Which programs of which images a pod runs.
fn programs(spec: PodSpec) -> PodSpec {
    let bare = |containers: Vec<Container>| -> Vec<Container> {
        let bare = |container: Container| Container {
            name: container.name,
            image: container.image,
            command: container.command,
            ..Container::default()
        };
        containers.into_iter().map(bare).collect()
    };
    PodSpec {
        init_containers: spec.init_containers.map(bare),
        containers: bare(spec.containers),
        ..PodSpec::default()
    }
}
