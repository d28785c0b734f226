//! Unpack Jobs among tenants, refusals and forgers, on a cluster in memory.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use olm_api::labels;
use olm_api::unpacked_bundle::PROOF;
use olm_testing::stage::story::{StoryEnv as _, tell};
use serde_json::{Value, json};

use super::Step::{Put, Serve};
use super::{catalog, first, subscription};
use crate::bundle_unpack::job::{name_for_catalog, name_of_image};
use crate::test_env::node::Container;
use crate::test_env::{BundleRow, TestEnv, bundle};

const DIGEST: &str = "reg/demo@sha256:3333333333333333333333333333333333333333333333333333333333333333";

fn begin(mut env: TestEnv, row: BundleRow) -> TestEnv {
    env.outside.refuse("demo");
    env.outside.serve([row]);
    env.put(catalog());
    env.put(subscription("Automatic"));
    env.settle_for(5);
    env.begin_pods();
    env.settle_for(3);
    env
}

fn is_installed(env: &TestEnv) -> bool {
    env.get("ClusterServiceVersion", "demo.v1").is_some()
}

/// Every condition of a Subscription that holds, with its message.
fn told(subscription: &Value) -> Vec<(String, String)> {
    let conditions = subscription["status"]["conditions"].as_array().cloned();
    let holds = |condition: &Value| condition["status"] == "True";
    let found = conditions.unwrap_or_default().into_iter().filter(holds);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    found
        .map(|condition| (text(&condition["type"]), text(&condition["message"])))
        .collect()
}

fn message(env: &TestEnv, type_: &str) -> String {
    let told = told(&env.only("Subscription"));
    let found = told.into_iter().find(|(found, _)| found == type_);
    found.map(|(_, message)| message).unwrap_or_default()
}

fn made(env: &TestEnv, kind: &str) -> usize {
    let create = format!("create {kind} ");
    env.writes
        .iter()
        .filter(|write| write.starts_with(&create))
        .count()
}

/// There is no image that a Job could pull.
#[test]
fn what_a_catalog_carries_itself_needs_no_job() {
    let mut env = TestEnv::with_flags(&["--unpack=job"]);
    let csv = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": {"name": "demo.v1"},
        "spec": {"install": {"strategy": "deployment", "spec": {"deployments": []}}}});
    let objects = [csv.to_string()];
    env.outside.carry("demo.v1", &objects);
    let served = Serve(vec![bundle("demo.v1").inline(&objects)]);
    tell(
        &mut env,
        &[served, Put(catalog()), Put(subscription("Automatic"))],
    );
    assert!(is_installed(&env), "{:?}", told(&env.only("Subscription")));
    assert!(env.all("Job").is_empty());
}

#[test]
fn with_jobs_alone_no_registry_is_asked() {
    let mut env = begin(TestEnv::with_flags(&["--unpack=job"]), bundle("demo.v1"));
    assert_eq!(env.pull_by_node("demo.v1"), 1);
    env.settle_for(3);
    assert!(is_installed(&env));
    assert_eq!(env.outside.fetched(), 0);
}

/// Without unpack Jobs this process needs no permission to see any.
#[test]
fn without_jobs_none_is_looked_at() {
    let mut env = TestEnv::with_flags(&["--unpack=in-process"]);
    let asked = Arc::new(Mutex::new(BTreeSet::new()));
    let noted = Arc::clone(&asked);
    env.cluster.on_request(move |request| {
        noted.lock().unwrap().insert(request.kind.kind.clone());
        None
    });
    tell(
        &mut env,
        &[Serve(first()), Put(catalog()), Put(subscription("Automatic"))],
    );
    assert!(is_installed(&env));
    let asked = asked.lock().unwrap().clone();
    assert!(asked.contains("Pod") && !asked.contains("Job"), "{asked:?}");
}

/// Nodes cannot pull the nine bundles of a tenant's own catalog, and the tenant was the first to want one of the global
/// catalog.
#[test]
fn jobs_of_a_tenants_catalog_do_not_hold_up_those_of_a_global_one() {
    let mut env = TestEnv::new();
    env.outside.refuse("reg/p");
    env.outside
        .serve((1..=10).map(|number| bundle(&format!("p{number}.v1"))));
    env.put(catalog());
    let mut global = catalog();
    global["metadata"]["namespace"] = json!("olm");
    env.put(global);
    let subscribe = |env: &TestEnv, number: usize, catalog_namespace: &str| {
        let mut asking = subscription("Automatic");
        let name = format!("p{number}");
        asking["metadata"]["name"] = json!(name);
        asking["spec"]["name"] = json!(name);
        asking["spec"]["sourceNamespace"] = json!(catalog_namespace);
        env.put(asking);
    };
    (1..=9).for_each(|number| subscribe(&env, number, "ns"));
    env.settle_for(15);
    assert_eq!(env.waiting_jobs().len(), 9);
    subscribe(&env, 10, "olm");
    env.settle_for(15);
    let jobs = env.waiting_jobs();
    let is_global = |job: &&Value| job["metadata"]["namespace"] == "olm";
    assert_eq!((jobs.len(), jobs.iter().filter(is_global).count()), (10, 1));
}

/// As the condition suggests.
#[test]
fn a_pull_secret_that_is_named_meanwhile_reaches_the_job() {
    let mut env = begin(TestEnv::with_flags(&["--unpack=job"]), bundle("demo.v1"));
    let before = env.only("Job");
    env.edit("CatalogSource", "cat", &json!({"spec": {"secrets": ["pull"]}}));
    env.settle_for(5);
    let job = env.only("Job");
    assert_eq!(
        job["spec"]["template"]["spec"]["imagePullSecrets"],
        json!([{"name": "pull"}])
    );
    assert_ne!(job["metadata"]["uid"], before["metadata"]["uid"]);
    let writes = env.own_writes();
    env.begin_pods();
    env.settle_for(300);
    assert_eq!(env.own_writes(), writes, "{:?}", env.writes);
    assert_eq!(env.pull_by_node("demo.v1"), 1);
    env.settle_for(3);
    assert!(is_installed(&env));
}

#[test]
fn a_job_without_a_pod_says_what_may_refuse_it() {
    let mut env = TestEnv::new();
    env.outside.refuse("demo");
    env.outside.serve(first());
    env.put(catalog());
    env.put(subscription("Automatic"));
    env.settle_for(25);
    let text = message(&env, "BundleUnpacking");
    assert!(
        text.contains(
            "it has created no pod; quotas, pod security or webhooks of namespace ns may reject it"
        ) && text.contains("kubectl describe jobs,pods")
            && !text.contains("credentials and mirrors of the nodes"),
        "{text}"
    );
    // Minutes later it is still no failure, and nothing is reported again.
    let writes = env.own_writes();
    env.settle_for(300);
    assert_eq!(env.own_writes(), writes, "{:?}", env.writes);
    env.begin_pods();
    env.settle_for(3);
    let text = message(&env, "BundleUnpacking");
    assert!(text.contains("unpack job not completed; this process"), "{text}");
}

/// As a webhook that redirects all images to a mirror: none of these Jobs is trusted, and the reason is reported. Each attempt
/// creates a Job that replaces the previous one.
#[test]
fn a_job_that_a_webhook_rewrites_is_reported() {
    let mut env = TestEnv::new();
    let is_exempt = Arc::new(AtomicBool::new(false));
    let exempt = Arc::clone(&is_exempt);
    env.cluster.set_webhook(move |object| {
        if object["kind"] == "Job" && !exempt.load(Ordering::Relaxed) {
            object["spec"]["template"]["spec"]["containers"][0]["image"] = json!("mirror/opm");
        }
    });
    env.outside.refuse("demo");
    env.outside.serve(first());
    env.put(catalog());
    env.put(subscription("Automatic"));
    env.settle_for(25);
    let text = message(&env, "BundleUnpacking");
    assert!(
        text.contains("differs from the one that OLM created; exempt Jobs with label"),
        "{text}"
    );
    assert!(!text.contains("does not exist"), "{text}");
    assert_eq!(made(&env, "Job"), 1, "{:?}", env.writes);
    let writes = env.own_writes();
    env.settle_for(60);
    assert_eq!(env.own_writes(), writes, "{:?}", env.writes);
    // A try takes two minutes, and the next begins a minute later.
    env.settle_for(1800);
    assert!(made(&env, "Job") <= 11, "{:?}", env.writes);
    assert_eq!(env.all("Job").len(), 1);
    is_exempt.store(true, Ordering::Relaxed);
    env.settle_for(300);
    assert_eq!(env.pull_by_node("demo.v1"), 1);
    env.settle_for(3);
    assert!(is_installed(&env));
}

/// A Job without an owner is not trusted either.
#[test]
fn a_job_whose_owner_admission_removes_is_reported_and_not_created_without_end() {
    let mut env = TestEnv::new();
    env.cluster.set_webhook(move |object| {
        if object["kind"] == "Job" {
            object["metadata"]
                .as_object_mut()
                .unwrap()
                .remove("ownerReferences");
        }
    });
    env.outside.refuse("demo");
    env.outside.serve(first());
    env.put(catalog());
    env.put(subscription("Automatic"));
    env.settle_for(1800);
    assert!(made(&env, "Job") <= 11, "{:?}", env.writes);
    assert!(env.all("Job").len() <= 5, "{:?}", env.all("Job"));
    assert!(!is_installed(&env));
}

/// A Job that is deleted after minutes is created again, and its unpack has not failed.
#[test]
fn a_job_that_is_deleted_late_is_made_again() {
    let mut env = begin(TestEnv::new(), bundle("demo.v1"));
    env.settle_for(300);
    let job = env.only("Job");
    env.delete("Job", job["metadata"]["name"].as_str().unwrap());
    env.settle_for(3);
    assert_eq!(env.waiting_jobs().len(), 1);
    assert_eq!(message(&env, "BundleUnpackFailed"), "");
}

/// The usual name is taken by a user's ConfigMap.
#[test]
fn a_config_map_made_beforehand_stops_no_unpack() {
    let env = TestEnv::new();
    let names = [
        name_of_image("reg/demo:v1"),
        name_for_catalog("reg/demo:v1", "cat"),
    ];
    env.put(
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "ns", "name": names[0]},
        "immutable": true, "data": {"a": "b"}}),
    );
    let mut env = begin(env, bundle("demo.v1"));
    assert_eq!(
        env.get("ConfigMap", &names[0]).unwrap()["data"],
        json!({"a": "b"})
    );
    assert_eq!(env.only("Job")["metadata"]["name"], json!(names[1]));
    assert_eq!(env.pull_by_node("demo.v1"), 1);
    env.settle_for(3);
    assert!(is_installed(&env));
}

/// The result of a Job that ended before this process began does not count, nor does one that was changed: another Job is made, once.
#[test]
fn a_changed_result_is_not_read_again_and_again() {
    let by_digest = || bundle("demo.v1").image(DIGEST);
    let mut env = begin(TestEnv::new(), by_digest());
    env.stage.kill();
    assert_eq!(env.pull_by_node("demo.v1"), 1);
    env.settle_for(5);
    assert_eq!(env.all("Job").len(), 2);
    assert_eq!(env.pull_by_node("demo.v1"), 1);
    env.settle_for(3);
    assert!(is_installed(&env));

    let mut env = begin(TestEnv::new(), by_digest());
    let job = env.only("Job");
    env.fill(&job, "demo.v1");
    env.put_pod(
        &job,
        &Container::Ended(0, String::new()),
        &Container::Ended(0, format!("{PROOF}00")),
    );
    env.end(&job, "Complete", "CompletionsReached", "");
    env.settle_for(3);
    let text = message(&env, "BundleUnpackFailed");
    assert!(
        text.contains("was changed by another client than the Job"),
        "{text}"
    );
    env.settle_for(61);
    assert_eq!(env.all("Job").len(), 2);
    assert_eq!(env.pull_by_node("demo.v1"), 1);
    env.settle_for(3);
    assert!(is_installed(&env));
}

/// An hour in which one of two bundles is unavailable.
#[test]
fn a_bundle_that_fails_does_not_have_the_other_pulled_again_and_again() {
    let mut env = TestEnv::new();
    env.outside.refuse("demo");
    // It holds another version than the catalog says.
    let wrong = bundle("dep.v1").provides("Dep").image("reg/dep:v2");
    env.outside.serve([bundle("demo.v1").requires("Dep"), wrong]);
    env.put(catalog());
    env.put(subscription("Automatic"));
    for _ in 0..12 {
        env.settle_for(20);
        env.pull_by_node("demo.v1");
        env.settle_for(280);
        env.expire_jobs();
    }
    let text = message(&env, "BundleUnpackFailed");
    assert!(
        text.contains("it contains ClusterServiceVersion dep.v2"),
        "{text}"
    );
    assert!((1..=2).contains(&made(&env, "Job")), "{:?}", env.writes);
    // Once it is right both are there.
    env.outside.serve([
        bundle("demo.v1").requires("Dep"),
        bundle("dep.v1").provides("Dep"),
    ]);
    env.settle_for(30);
    env.pull_by_node("demo.v1");
    env.settle_for(3);
    assert!(is_installed(&env));
}

/// Users who can create Jobs can create any number of them.
#[test]
fn forged_jobs_cost_no_reads() {
    let mut env = TestEnv::new();
    env.settle_for(5);
    let read = Arc::new(Mutex::new(0));
    let noted = Arc::clone(&read);
    env.cluster.on_request(move |request| {
        *noted.lock().unwrap() += usize::from(request.kind.kind == "ConfigMap");
        None
    });
    for number in 0..5 {
        env.put(
            json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"namespace": "ns", "name": number.to_string(),
            "labels": {labels::BUNDLE_UNPACK_REF: name_of_image(&number.to_string())}},
            "spec": {"suspend": true, "template": {"spec": {"containers": []}}}}),
        );
    }
    env.settle_for(60);
    assert_eq!(*read.lock().unwrap(), 0);
    assert_eq!(env.all("Job").len(), 5);
}
