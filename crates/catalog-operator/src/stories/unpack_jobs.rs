//! Bundles that only a node can pull, on a cluster in memory.

use std::collections::BTreeSet;

use olm_api::labels;
use olm_api::unpacked_bundle::{PROOF, TOO_LARGE};
use olm_testing::stage::story::StoryEnv as _;
use serde_json::{Value, json};

use super::{catalog, first, second, subscription};
use crate::bundle_unpack::job::name_of_image;
use crate::test_env::TestEnv;
use crate::test_env::node::{Container, PULLED};

/// A catalog whose bundle this process is refused, and a Subscription to it.
fn begin() -> TestEnv {
    let mut env = TestEnv::new();
    env.outside.refuse("demo");
    env.outside.serve(first());
    env.put(catalog());
    env.put(subscription("Automatic"));
    env.settle_for(5);
    env.begin_pods();
    env.settle_for(10);
    env
}

fn condition(env: &TestEnv, type_: &str) -> Option<(String, String)> {
    let subscription = env.only("Subscription");
    let conditions = subscription["status"]["conditions"].as_array().unwrap().clone();
    let found = conditions
        .into_iter()
        .find(|condition| condition["type"] == type_ && condition["status"] == "True")?;
    let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
    Some((text("reason"), text("message")))
}

fn is_installed(env: &TestEnv, name: &str) -> bool {
    env.get("ClusterServiceVersion", name).is_some()
}

fn made(env: &TestEnv, kind: &str, name: &str) -> bool {
    env.get(kind, name).is_some()
}

#[test]
fn a_bundle_that_only_a_node_can_pull_is_installed_and_leaves_nothing() {
    let mut env = begin();
    let job = env.only("Job");
    let name = job["metadata"]["name"].as_str().unwrap().to_owned();
    for kind in ["ConfigMap", "ServiceAccount", "Role", "RoleBinding"] {
        assert!(made(&env, kind, &name), "{kind}");
    }
    let (reason, message) = condition(&env, "BundleUnpacking").unwrap();
    assert_eq!(reason, "UnpackingInProgress");
    assert!(
        message.contains(
            "unpack job not completed; this process: Unauthorized: https://reg: 401; add a pull secret"
        ),
        "{message}"
    );
    assert_eq!(env.pull_by_node("demo.v1"), 1);
    env.settle_for(3);
    assert!(is_installed(&env, "demo.v1"));
    let plan = env.only("InstallPlan").to_string();
    assert!(plan.contains(PULLED), "a plan names the image by digest: {plan}");
    assert_eq!(condition(&env, "BundleUnpacking"), None);
    // Kubernetes deletes the Job, and the other objects follow it.
    let writes = env.writes.len();
    env.settle_for(120);
    assert_eq!(env.writes.len(), writes, "{:?}", &env.writes[writes..]);
    env.delete("Job", &name);
    env.settle_for(30);
    for kind in ["ConfigMap", "ServiceAccount", "Role", "RoleBinding"] {
        assert!(!made(&env, kind, &name), "{kind}");
    }
}

/// Nodes may have a mirror of a registry that no pod reaches: a firewalled network, where requests time out.
#[test]
fn a_registry_that_never_answers_is_left_to_a_node_soon() {
    let mut env = TestEnv::new();
    env.outside.break_image("reg/demo:v1");
    env.outside.serve(first());
    env.put(catalog());
    env.put(subscription("Automatic"));
    env.settle_for(5);
    assert!(env.all("Job").is_empty(), "it may be restarting");
    env.settle_for(20);
    env.begin_pods();
    env.settle_for(10);
    let (reason, message) = condition(&env, "BundleUnpacking").unwrap();
    assert_eq!(reason, "UnpackingInProgress");
    assert!(
        message.contains("unpack job not completed; this process: Unreachable: registry is down"),
        "{message}"
    );
    assert_eq!(env.pull_by_node("demo.v1"), 1);
    env.settle_for(3);
    assert!(is_installed(&env, "demo.v1"));
}

/// A user who can write ConfigMaps in the catalog's namespace, and nothing else.
#[test]
fn a_config_map_of_another_user_is_not_trusted() {
    // Before the Job is made, under its name.
    let job = begin().only("Job");
    let name = job["metadata"]["name"].clone();
    let forged = |owner: Value| {
        json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": "ns", "name": name, "labels": {"olm.managed": "true"}, "ownerReferences": owner}})
    };
    let mut env = TestEnv::new();
    env.put(forged(json!([])));
    env.outside.refuse("demo");
    env.outside.serve(first());
    env.put(catalog());
    env.put(subscription("Automatic"));
    env.settle_for(15);
    assert_ne!(env.only("Job")["metadata"]["name"], name, "another name is taken");
    assert_eq!(
        env.get("ConfigMap", name.as_str().unwrap()).unwrap()["metadata"]["labels"]["olm.managed"],
        "true"
    );
    assert_eq!(env.pull_by_node("demo.v1"), 1);
    env.settle_for(3);
    assert!(is_installed(&env, "demo.v1"));

    // After the Job has written it.
    let mut env = begin();
    let job = env.only("Job");
    env.stage.kill();
    env.pull_by_node("demo.v1");
    let evil = json!({"data": {"extra.yaml": "kind: ClusterRole"}});
    env.edit("ConfigMap", name.as_str().unwrap(), &evil);
    env.settle_for(30);
    assert!(!is_installed(&env, "demo.v1"));
    // A new process finds only the finished Job, so it has another one created.
    assert_eq!(env.all("Job").len(), 2, "{job}");
}

#[test]
fn a_config_map_that_is_changed_before_it_is_read_is_reported() {
    let mut env = begin();
    let job = env.only("Job");
    env.fill(&job, "demo.v1");
    let forged = format!("{PROOF}00");
    env.put_pod(
        &job,
        &Container::Ended(0, String::new()),
        &Container::Ended(0, forged),
    );
    env.end(&job, "Complete", "CompletionsReached", "");
    env.settle_for(3);
    assert!(!is_installed(&env, "demo.v1"));
    let (reason, message) = condition(&env, "BundleUnpackFailed").unwrap();
    assert_eq!(reason, "BundleUnpackFailed");
    assert!(
        message.contains("was changed by another client than the Job"),
        "{message}"
    );
}

/// The catalog declares the content of the image.
#[test]
fn another_operator_than_the_catalog_names_is_not_installed() {
    let mut env = begin();
    env.pull_by_node("other.v1");
    env.settle_for(3);
    let (_, message) = condition(&env, "BundleUnpackFailed").unwrap();
    assert!(
        message.contains("it contains ClusterServiceVersion other.v1, the catalog names demo.v1"),
        "{message}"
    );
    assert!(env.all("InstallPlan").is_empty());
}

#[test]
fn a_node_that_cannot_pull_is_reported_once() {
    let mut env = begin();
    let job = env.only("Job");
    let waits = |reason| (Container::Waiting(reason), Container::Waiting("PodInitializing"));
    let (pull, extract) = waits("ErrImagePull");
    env.put_pod(&job, &pull, &extract);
    env.settle_for(3);
    let (_, message) = condition(&env, "BundleUnpacking").unwrap();
    assert!(
        message.contains("container(pull) is pending. Reason: ErrImagePull, Message: no such host"),
        "{message}"
    );
    let writes = env.own_writes();
    for reason in ["ImagePullBackOff", "ErrImagePull"] {
        let (pull, extract) = waits(reason);
        env.put_pod(&job, &pull, &extract);
        env.settle_for(10);
    }
    assert_eq!(env.own_writes(), writes, "{:?}", env.writes);
    env.end(
        &job,
        "Failed",
        "DeadlineExceeded",
        "Job was active longer than specified deadline",
    );
    env.settle_for(3);
    let (reason, message) = condition(&env, "BundleUnpackFailed").unwrap();
    assert_eq!(reason, "BundleUnpackFailed");
    assert!(
        message.starts_with("Bundle unpacking failed - DeadlineExceeded: ")
            && message.contains("was active longer"),
        "{message}"
    );
    assert_eq!(condition(&env, "BundleUnpacking"), None);
    // It is tried again by itself, by another Job.
    env.settle_for(320);
    assert_eq!(env.all("Job").len(), 2);
    assert_eq!(env.pull_by_node("demo.v1"), 1);
    env.settle_for(3);
    assert!(is_installed(&env, "demo.v1"));
    assert_eq!(condition(&env, "BundleUnpackFailed"), None);
}

#[test]
fn a_bundle_that_no_config_map_holds_is_reported() {
    let mut env = begin();
    let job = env.only("Job");
    let words = format!("Error: bundle files exceeded 1048576 {TOO_LARGE}");
    env.put_pod(
        &job,
        &Container::Ended(0, String::new()),
        &Container::Ended(1, words),
    );
    env.end(
        &job,
        "Failed",
        "BackoffLimitExceeded",
        "Job has reached the specified backoff limit",
    );
    env.settle_for(3);
    let (reason, message) = condition(&env, "BundleUnpackFailed").unwrap();
    assert_eq!(reason, "ErrorPreventedUnpacking");
    assert!(
        message.contains("TooLarge") && message.contains("at most 1 MiB"),
        "{message}"
    );
}

#[test]
fn a_job_that_is_deleted_by_hand_is_made_again() {
    let mut env = begin();
    let job = env.only("Job");
    env.delete("Job", job["metadata"]["name"].as_str().unwrap());
    env.settle_for(15);
    let again = env.only("Job");
    assert_eq!(again["metadata"]["name"], job["metadata"]["name"]);
    assert_ne!(again["metadata"]["uid"], job["metadata"]["uid"]);
}

/// The corrected bundle is another image, and nothing has to be deleted for it.
#[test]
fn a_corrected_bundle_is_picked_up() {
    let mut env = begin();
    let job = env.only("Job");
    env.end(&job, "Failed", "BackoffLimitExceeded", "");
    env.settle_for(3);
    assert!(condition(&env, "BundleUnpackFailed").is_some());
    env.outside.serve(second());
    env.settle_for(30);
    let waiting = env.waiting_jobs();
    assert_eq!(waiting.len(), 1, "{waiting:?}");
    env.pull_by_node("demo.v2");
    env.settle_for(3);
    assert!(is_installed(&env, "demo.v2"));
    assert_eq!(condition(&env, "BundleUnpackFailed"), None);
}

/// A bundle unpacked for one catalog is not given to another, and neither blocks the other.
#[test]
fn two_catalogs_of_a_namespace_unpack_the_same_image_for_themselves() {
    let mut env = TestEnv::new();
    env.outside.refuse("demo");
    env.outside.serve(first());
    let group = json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
        "metadata": {"namespace": "olm", "name": "og"}, "spec": {"targetNamespaces": ["olm"]},
        "status": {"namespaces": ["olm"], "lastUpdated": null}});
    env.put(group);
    for (catalog_name, namespace) in [("one", "ns"), ("other", "olm")] {
        let mut source = catalog();
        source["metadata"] = json!({"namespace": "olm", "name": catalog_name});
        env.put(source);
        let mut asking = subscription("Automatic");
        asking["metadata"]["namespace"] = json!(namespace);
        asking["spec"]["source"] = json!(catalog_name);
        asking["spec"]["sourceNamespace"] = json!("olm");
        env.put(asking);
    }
    env.settle_for(30);
    let owners = |kind: &str| -> BTreeSet<String> {
        let objects = env.all(kind).into_iter();
        objects
            .map(|object| {
                object["metadata"]["ownerReferences"][0]["name"]
                    .as_str()
                    .unwrap()
                    .to_owned()
            })
            .collect()
    };
    assert_eq!(owners("ConfigMap"), ["one", "other"].map(str::to_owned).into());
    assert_eq!(owners("Job").len(), 2, "each has its own ConfigMap");
}

/// Settings of the OperatorGroup, and the objects that a Job without a subscriber leaves behind.
#[test]
fn the_groups_deadline_is_the_jobs() {
    let mut env = TestEnv::new();
    let annotation =
        json!({"metadata": {"annotations": {"operatorframework.io/bundle-unpack-timeout": "2m"}}});
    env.edit("OperatorGroup", "og", &annotation);
    env.outside.refuse("demo");
    env.outside.serve(first());
    env.put(catalog());
    env.put(subscription("Automatic"));
    env.settle_for(15);
    assert_eq!(env.only("Job")["spec"]["activeDeadlineSeconds"], 120);
    // It has no subscriber, and ends by its deadline.
    env.delete("Subscription", "demo");
    let job = env.only("Job");
    env.end(
        &job,
        "Failed",
        "DeadlineExceeded",
        "Job was active longer than specified deadline",
    );
    env.settle_for(30);
    env.expire_jobs();
    env.settle_for(400);
    assert!(env.all("ConfigMap").is_empty());
    assert!(env.all("Job").is_empty(), "no Subscription needs another one");
}

/// The process was away when Kubernetes took the Job.
#[test]
fn what_is_left_of_a_job_goes_with_a_new_process() {
    let mut env = begin();
    let job = env.only("Job");
    env.pull_by_node("demo.v1");
    env.settle_for(3);
    assert!(is_installed(&env, "demo.v1"));
    env.stage.kill();
    env.delete("Job", job["metadata"]["name"].as_str().unwrap());
    env.cluster.control();
    let bears_label = |object: &Value| !object["metadata"]["labels"][labels::BUNDLE_UNPACK_REF].is_null();
    assert!(!env.all("Pod").iter().any(bears_label), "its pod is gone, too");
    assert_eq!(env.all("ConfigMap").len(), 1);
    env.settle_for(30);
    assert!(env.all("ConfigMap").is_empty());
}

/// A pull secret that is added while the Job runs: no need to wait for its end.
#[test]
fn what_this_process_may_have_meanwhile_it_takes_itself() {
    let mut env = begin();
    env.outside.mend_images();
    env.settle_for(65);
    assert!(is_installed(&env, "demo.v1"));
    assert_eq!(env.waiting_jobs().len(), 1);
    env.settle_for(620);
    assert!(env.all("Job").is_empty(), "nobody waits for it any more");
}

/// Plans that upstream made refer to it.
#[test]
fn what_upstream_unpacked_stays() {
    let mut env = TestEnv::new();
    env.outside.serve(first());
    env.put(catalog());
    env.settle_for(15);
    let name = name_of_image("reg/demo:v1");
    let owned = |kind: &str, api_version: &str, owner: &str, uid: Value, of: &str| {
        json!({"apiVersion": "v1", "kind": kind, "metadata": {"namespace": "ns", "name": name, "labels": {"olm.managed": "true"},
            "ownerReferences": [{"apiVersion": api_version, "kind": owner, "name": of, "uid": uid}]}})
    };
    let catalog_uid = env.only("CatalogSource")["metadata"]["uid"].clone();
    env.put(owned(
        "ConfigMap",
        "operators.coreos.com/v1alpha1",
        "CatalogSource",
        catalog_uid,
        "cat",
    ));
    let uid = env.get("ConfigMap", &name).unwrap()["metadata"]["uid"].clone();
    env.put(owned("ServiceAccount", "v1", "ConfigMap", uid, &name));
    env.settle_for(1200);
    assert!(made(&env, "ConfigMap", &name) && made(&env, "ServiceAccount", &name));
}
