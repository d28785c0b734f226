//! A node that carries out unpack Jobs: what kubelet, the controller of Jobs and `opm` leave.

use olm_api::labels;
use olm_api::unpacked_bundle::{PROOF, content_hash};
use olm_fbc::yaml;
use serde_json::{Value, json};

use super::TestEnv;
use super::outside::unpacked;

/// Digest of every image that a node has pulled.
pub const PULLED: &str = "sha256:1111111111111111111111111111111111111111111111111111111111111111";

/// How a container stands.
#[derive(Clone)]
pub enum Container {
    /// It waits, for this reason.
    Waiting(&'static str),
    /// It has ended with this code and these words.
    Ended(i32, String),
}

impl TestEnv {
    /// Unpack Jobs that are not over.
    pub fn waiting_jobs(&self) -> Vec<Value> {
        let mut jobs = self.all("Job");
        jobs.retain(|job| job["status"]["conditions"].is_null());
        jobs
    }

    /// Every Job that waits succeeds, and has found this bundle; how many there were.
    pub fn pull_by_node(&self, csv: &str) -> usize {
        let jobs = self.waiting_jobs();
        for job in &jobs {
            self.fill(job, csv);
            let config_map = self.config_map_of(job);
            let proof = format!("{PROOF}{}", content_hash(&config_map));
            self.put_pod(
                job,
                &Container::Ended(0, String::new()),
                &Container::Ended(0, proof),
            );
            self.end(job, "Complete", "CompletionsReached", "");
        }
        jobs.len()
    }

    /// What becomes of Jobs five minutes after their end.
    pub fn expire_jobs(&self) {
        for job in self.all("Job") {
            if !job["status"]["conditions"].is_null() {
                self.delete("Job", job["metadata"]["name"].as_str().unwrap());
            }
        }
    }

    /// What `opm` writes.
    pub fn fill(&self, job: &Value, csv: &str) {
        let containers = &job["spec"]["template"]["spec"]["containers"];
        let image = containers[0]["env"][0]["value"].clone();
        let bundle = unpacked("", csv);
        let mut data = json!({"csv.yaml": yaml::to_string(&bundle.csv).unwrap()});
        for file in &bundle.objects {
            data[&file.name] = yaml::to_string(&file.object).unwrap().into();
        }
        let name = job["metadata"]["labels"][labels::BUNDLE_UNPACK_REF].as_str();
        let patch = json!({"data": data, "metadata": {"annotations": {labels::SOURCE_IMAGE: image}}});
        self.edit("ConfigMap", name.unwrap(), &patch);
    }

    pub fn config_map_of(&self, job: &Value) -> Value {
        let name = job["metadata"]["labels"][labels::BUNDLE_UNPACK_REF].as_str();
        self.get("ConfigMap", name.unwrap()).unwrap()
    }

    /// Gives every waiting Job a pod without any problem.
    pub fn begin_pods(&self) {
        let pods = self.all("Pod");
        let owned =
            |job: &Value, pod: &Value| pod["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"];
        for job in self.waiting_jobs() {
            if !pods.iter().any(|pod| owned(&job, pod)) {
                let begins = Container::Waiting("PodInitializing");
                self.put_pod(&job, &begins, &begins);
            }
        }
    }

    /// A pod of the Job, with what has become of the container that pulls and of the one that writes.
    pub fn put_pod(&self, job: &Value, pull: &Container, extract: &Container) {
        let of = |name: &str, container: &Container| {
            let state = match container {
                Container::Waiting(reason) => {
                    json!({"waiting": {"reason": reason, "message": "no such host"}})
                }
                Container::Ended(code, said) => json!({"terminated": {"exitCode": code, "message": said}}),
            };
            json!({"name": name, "image": "i", "imageID": format!("reg/demo@{PULLED}"), "ready": false, "restartCount": 0, "state": state})
        };
        let metadata = &job["metadata"];
        let name = metadata["name"].as_str().unwrap();
        self.put(json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"namespace": metadata["namespace"], "name": format!("{name}-abcde"), "labels": metadata["labels"],
                "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": metadata["uid"], "controller": true}]},
            "spec": job["spec"]["template"]["spec"],
            "status": {"initContainerStatuses": [of("pull", pull)], "containerStatuses": [of("extract", extract)]}}));
    }

    pub fn end(&self, job: &Value, type_: &str, reason: &str, message: &str) {
        let condition = json!({"type": type_, "status": "True", "reason": reason, "message": message});
        let patch = json!({"status": {"conditions": [condition]}});
        self.edit("Job", job["metadata"]["name"].as_str().unwrap(), &patch);
    }
}
