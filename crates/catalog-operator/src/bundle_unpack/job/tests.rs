//! Compares the objects with those that upstream left in a real cluster, and tests which results are trusted.

mod decisions;
mod progress;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use olm_api::labels;
use olm_api::unpacked_bundle::{PROOF, content_hash};
use olm_api::v1alpha1::CatalogSource;
use olm_fbc::yaml;
use olm_runtime::NamespacedName;
use olm_runtime::plan::to_value;
use serde_json::{Value, json};

use super::objects::{build_account, build_job, build_role, build_role_binding, pod_spec};
use super::result::{Evidence, VouchedBundle, is_usable, vouched_image};
use super::{JobRequest, is_name, name_for_catalog, name_of_image};
use crate::catalog_source::pod::PodSettings;
use crate::stores::unpacks::{Programs, UnpackJob, UnpackPod};

fn recorded(file: &str, kind: &str) -> Option<Value> {
    let path = olm_testing::shared::shared_path(&format!("golden/01-requires-approval/{file}"))?;
    let list = yaml::parse(&std::fs::read(path).unwrap()).unwrap();
    let items = list["items"].as_array().unwrap().clone();
    items
        .into_iter()
        .find(|item| item["kind"] == kind && is_name(item["metadata"]["name"].as_str().unwrap()))
}

fn source(secrets: &Value) -> CatalogSource {
    serde_json::from_value(
        json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
        "metadata": {"namespace": "golden", "name": "cat", "uid": "u"},
        "spec": {"sourceType": "grpc", "image": "i", "secrets": secrets}}),
    )
    .unwrap()
}

fn request(image: &str, seconds: u64) -> JobRequest {
    JobRequest {
        image: image.to_owned(),
        bundle: "a.v1".to_owned(),
        catalog: NamespacedName::new("golden", "cat"),
        deadline: Duration::from_secs(seconds),
        passed_over: BTreeSet::new(),
    }
}

/// Asserts that `recorded` contains all of `ours`; additions of the API server are ignored.
fn assert_within(ours: &Value, recorded: &Value, path: &str) {
    match (ours, recorded) {
        (Value::Object(ours), Value::Object(recorded)) => {
            for (key, value) in ours {
                let found = recorded.get(key).unwrap_or(&Value::Null);
                assert_within(value, found, &format!("{path}/{key}"));
            }
        }
        (Value::Array(ours), Value::Array(recorded)) => {
            assert_eq!(ours.len(), recorded.len(), "{path}");
            for (at, (ours, recorded)) in ours.iter().zip(recorded).enumerate() {
                assert_within(ours, recorded, &format!("{path}/{at}"));
            }
        }
        _ => assert_eq!(ours, recorded, "{path}"),
    }
}

#[test]
fn a_jobs_objects_are_those_that_upstream_makes() {
    let Some(job) = recorded("jobs.yaml", "Job") else {
        return;
    };
    let spec = &job["spec"]["template"]["spec"];
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let image = text(&spec["initContainers"][1]["image"]);
    let settings = PodSettings {
        opm_image: text(&spec["containers"][0]["image"]),
        util_image: text(&spec["initContainers"][0]["image"]),
        user_id: Some(1001),
        namespace_restricted: false,
    };
    let key = NamespacedName::new("golden", name_of_image(&image));
    assert_eq!(key.name, text(&job["metadata"]["name"]));
    let owner = text(&job["metadata"]["ownerReferences"][0]["uid"]);
    let ours = build_job(
        &key,
        &owner,
        &[],
        &request(&image, 600),
        &source(&json!([])),
        &settings,
    );
    assert_within(&to_value(&ours), &job, "Job");
    let rows = [
        (
            to_value(&build_account(&key, &owner)),
            "serviceaccounts.yaml",
            "ServiceAccount",
        ),
        (to_value(&build_role(&key, &owner)), "roles.yaml", "Role"),
        (
            to_value(&build_role_binding(&key, &owner)),
            "rolebindings.yaml",
            "RoleBinding",
        ),
    ];
    for (ours, file, kind) in rows {
        assert_within(&ours, &recorded(file, kind).unwrap(), kind);
    }
}

#[test]
fn secrets_deadline_tag_and_name_follow_what_is_asked_for() {
    let (settings, key) = (settings(), key("r/b:v1"));
    let build = |image: &str, seconds, others: &[&str]| {
        let others: Vec<String> = others.iter().map(|uid| (*uid).to_owned()).collect();
        to_value(&build_job(
            &key,
            "u",
            &others,
            &request(image, seconds),
            &source(&json!(["s", ""])),
            &settings,
        ))
    };
    let job = build("r/b:v1", 120, &[]);
    let spec = &job["spec"]["template"]["spec"];
    assert_eq!(job["spec"]["activeDeadlineSeconds"], 120);
    assert_eq!(spec["imagePullSecrets"], json!([{"name": "s"}]));
    assert_eq!(spec["initContainers"][1]["imagePullPolicy"], "Always");
    assert_eq!(
        spec["securityContext"],
        json!({"seccompProfile": {"type": "RuntimeDefault"}})
    );
    let pinned = build("r/b@sha256:00", 0, &["x"]);
    assert!(pinned["spec"].get("activeDeadlineSeconds").is_none());
    let containers = &pinned["spec"]["template"]["spec"]["initContainers"];
    assert_eq!(containers[1]["imagePullPolicy"], "IfNotPresent");
    // A later Job of the same bundle: 58 characters of upstream's name and five of its own.
    let name = pinned["metadata"]["name"].as_str().unwrap();
    assert_eq!((name.len(), &name[..58]), (63, &key.name[..58]));
    assert_ne!(name, key.name);
    assert_ne!(build("r/b:v1", 0, &["x", "y"])["metadata"]["name"], name);
}

#[test]
fn names_are_distinguished_from_other_words() {
    let names = [
        name_of_image("a"),
        name_for_catalog("a", "b"),
        name_for_catalog("a", "c"),
    ];
    assert!(names.iter().all(|name| is_name(name)));
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), 3);
    assert!(!is_name("kube-root-ca.crt") && !is_name(&"g".repeat(63)));
}

const CSV: &str =
    "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata: {name: a.v1}\n";
const IMAGE_ID: &str = "r/b@sha256:2222222222222222222222222222222222222222222222222222222222222222";

/// Objects left by a successful Job.
struct Left {
    image: &'static str,
    config_map: Value,
    job: Value,
    pods: Vec<Value>,
}

impl Left {
    fn of(image: &'static str) -> Self {
        let config_map = json!({"metadata": {"namespace": "golden", "name": name_of_image(image), "uid": "cm",
            "ownerReferences": [{"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource", "name": "cat", "uid": "u"}],
            "annotations": {"olm.sourceImage": image}}, "data": {"csv.yaml": CSV}});
        let (key, source, settings) = (key(image), source(&json!([])), settings());
        let job = build_job(&key, "cm", &[], &request(image, 600), &source, &settings);
        let mut job = to_value(&job);
        job["metadata"]["uid"] = json!("job");
        let terminated = json!({"terminated": {"exitCode": 0, "message": format!("{PROOF}{}\n", content_hash(&config_map))}});
        let pod = json!({"metadata": {"namespace": "golden", "name": "p", "labels": {labels::BUNDLE_UNPACK_REF: key.name},
                "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "job"}]},
            "spec": pod_spec(&key, image, &source, &settings),
            "status": {"initContainerStatuses": [{"name": "pull", "imageID": IMAGE_ID}],
                "containerStatuses": [{"name": "extract", "state": terminated}]}});
        Self {
            image,
            config_map,
            job,
            pods: vec![pod],
        }
    }

    /// Returns the image of the bundle, or the reason why it is not trusted.
    fn read(&self) -> Result<String, String> {
        let (key, source, settings) = (key(self.image), source(&json!([])), settings());
        let job = unpack_job(&self.job);
        let pods: Vec<Arc<UnpackPod>> = self.pods.iter().map(unpack_pod).collect();
        let runs = Programs::of(&pod_spec(&key, self.image, &source, &settings));
        let evidence = Evidence {
            key: &key,
            source: &source,
            runs: &runs,
            job: &job,
            pods: &pods,
        };
        let image = vouched_image(&self.config_map, &request(self.image, 600), &evidence);
        let config_map = self.config_map.clone();
        let bundle = image.and_then(|image| VouchedBundle { image, config_map }.read());
        bundle.map(|bundle| bundle.image).map_err(|error| error.cause)
    }
}

fn unpack_job(job: &Value) -> Arc<UnpackJob> {
    Arc::new(UnpackJob::from_object(
        serde_json::from_value(job.clone()).unwrap(),
    ))
}

fn unpack_pod(pod: &Value) -> Arc<UnpackPod> {
    Arc::new(UnpackPod::from_object(
        serde_json::from_value(pod.clone()).unwrap(),
    ))
}

fn key(image: &str) -> NamespacedName {
    NamespacedName::new("golden", name_of_image(image))
}

fn settings() -> PodSettings {
    PodSettings {
        opm_image: "opm".to_owned(),
        util_image: "util".to_owned(),
        user_id: None,
        namespace_restricted: false,
    }
}

#[test]
fn what_a_job_left_is_read_and_the_tag_pinned() {
    assert_eq!(Left::of("r/b:v1").read(), Ok(format!("docker.io/{IMAGE_ID}")));
    let mut untold = Left::of("r/b:v1");
    untold.pods[0]["status"]["initContainerStatuses"] = json!([]);
    assert!(untold.read().unwrap_err().contains("does not report its digest"));
    let mut pinned = Left::of("r/b@sha256:3333333333333333333333333333333333333333333333333333333333333333");
    pinned.pods[0]["status"]["initContainerStatuses"] = json!([]);
    assert!(
        pinned
            .read()
            .unwrap()
            .ends_with("@sha256:3333333333333333333333333333333333333333333333333333333333333333")
    );
}

/// A user who can write only one of the objects changes nothing.
#[test]
fn what_cannot_be_proved_is_not_believed() {
    type Change = fn(&mut Left);
    let rows: [(&str, Change); 8] = [
        ("does not belong to the CatalogSource", |left| {
            left.config_map["metadata"]["ownerReferences"][0]["uid"] = json!("another");
        }),
        ("does not belong to the CatalogSource", |left| {
            left.config_map["metadata"]["ownerReferences"] = json!([]);
        }),
        ("is not the ConfigMap that the Job was created for", |left| {
            left.config_map["metadata"]["uid"] = json!("made since");
        }),
        ("cannot be verified", |left| {
            left.pods[0]["metadata"]["ownerReferences"][0]["uid"] = json!("another");
        }),
        ("cannot be verified", |left| {
            left.pods[0]["spec"]["containers"][0]["image"] = json!("forger");
        }),
        ("cannot be verified", |left| {
            left.pods[0]["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] = json!(1);
        }),
        ("was changed by another client", |left| {
            left.config_map["data"]["role.yaml"] = json!("kind: ClusterRole");
        }),
        ("has the content of a different image", |left| {
            // The pod reports the hash of another bundle correctly.
            left.config_map["metadata"]["annotations"]["olm.sourceImage"] = json!("r/other:v1");
            let proof = format!("{PROOF}{}", content_hash(&left.config_map));
            left.pods[0]["status"]["containerStatuses"][0]["state"]["terminated"]["message"] = json!(proof);
        }),
    ];
    for (expected, change) in rows {
        let mut left = Left::of("r/b:v1");
        change(&mut left);
        let cause = left.read().unwrap_err();
        assert!(cause.contains(expected), "{expected}: {cause}");
    }
}

/// A node was lost, the tag has moved, and another pod of the Job wrote other content.
#[test]
fn the_pod_that_wrote_last_counts() {
    let left = Left::of("r/b:v1");
    let mut older = left.pods[0].clone();
    older["metadata"]["name"] = json!("a");
    let status = &mut older["status"];
    status["containerStatuses"][0]["state"]["terminated"]["message"] = json!(format!("{PROOF}00"));
    status["initContainerStatuses"][0]["imageID"] =
        json!("r/b@sha256:1111111111111111111111111111111111111111111111111111111111111111");
    for pods in [
        [older.clone(), left.pods[0].clone()],
        [left.pods[0].clone(), older.clone()],
    ] {
        let image = Left {
            pods: pods.into(),
            ..Left::of("r/b:v1")
        };
        assert_eq!(image.read(), Ok(format!("docker.io/{IMAGE_ID}")));
    }
    let forged = Left {
        pods: vec![older],
        ..left
    };
    assert!(
        forged
            .read()
            .unwrap_err()
            .contains("was changed by another client")
    );
}

#[test]
fn a_config_map_of_others_or_of_upstream_is_not_filled() {
    let source = source(&json!([]));
    let found = |more: Value| {
        let mut found = Left::of("r/b:v1").config_map;
        found["data"] = json!({});
        for (field, value) in more.as_object().unwrap() {
            found[field] = value.clone();
        }
        found
    };
    let labelled = |mut found: Value| {
        found["metadata"]["labels"] = json!({labels::BUNDLE_UNPACK_REF: found["metadata"]["name"]});
        found
    };
    let full = || found(json!({"binaryData": {"a": "b"}}));
    // Empty and full ones, without and with our label.
    for (found, expected) in [
        (found(json!({})), true),
        (labelled(found(json!({}))), true),
        (full(), false),
        (labelled(full()), true),
    ] {
        assert_eq!(is_usable(&found, &source), expected, "{found}");
        let mut others = found.clone();
        others["metadata"]["ownerReferences"][0]["uid"] = json!("another");
        assert!(!is_usable(&others, &source), "{others}");
        let mut leaving = found;
        leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert!(!is_usable(&leaving, &source), "{leaving}");
    }
}
