//! Whole stories on a cluster in memory: from a Subscription to what it installs, and the properties that hold for each.

mod config_maps;
mod health;
mod image_templates;
mod manifests;
mod outages;
mod polls;
mod previews;
mod reach;
mod unpack_jobs;
mod unpack_troubles;

use std::time::Duration;

use olm_api::labels;
use olm_api::plan_preview::{PlanPreview, Verb};
use olm_testing::stage::Stage;
use olm_testing::stage::normal::assert_same;
use olm_testing::stage::story::{
    Interruption, Story, StoryEnv, assert_rests, every_interruption, interrupted, tell,
};
use serde_json::{Value, json};

use crate::test_env::{BundleRow, TestEnv, bundle};

fn catalog() -> Value {
    json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource", "metadata": {"namespace": "ns", "name": "cat"},
        "spec": {"sourceType": "grpc", "image": "reg/cat:1"}})
}

fn subscription(approval: &str) -> Value {
    json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription", "metadata": {"namespace": "ns", "name": "demo"},
        "spec": {"source": "cat", "sourceNamespace": "ns", "name": "demo", "channel": "stable", "installPlanApproval": approval}})
}

fn first() -> Vec<BundleRow> {
    vec![bundle("demo.v1")]
}

fn second() -> Vec<BundleRow> {
    vec![bundle("demo.v1"), bundle("demo.v2").replaces("demo.v1")]
}

/// Something that happens.
#[derive(Clone)]
pub enum Step {
    Put(Value),
    Delete(&'static str, &'static str),
    /// Catalogs have this content from now on.
    Serve(Vec<BundleRow>),
    /// Every plan is approved.
    Approve,
    BreakImage(&'static str),
    MendImages,
    /// Registries refuse this process images whose names hold this.
    RefuseImage(&'static str),
    /// A node carries out the Jobs that wait, and finds this bundle.
    PullByNode(&'static str),
    /// Kubernetes deletes finished Jobs.
    ExpireJobs,
    /// Two minutes go by.
    Wait,
    /// The registry pods are gone.
    LosePods,
}

use Step::{
    Approve, BreakImage, Delete, ExpireJobs, LosePods, MendImages, PullByNode, Put, RefuseImage, Serve, Wait,
};

fn stories() -> Vec<Story<Step>> {
    let begin = |approval: &str| vec![Serve(first()), Put(catalog()), Put(subscription(approval))];
    let then = |approval: &str, steps: &[Step]| [begin(approval), steps.to_vec()].concat();
    vec![
        ("install", begin("Automatic")),
        ("upgrade", then("Automatic", &[Serve(second())])),
        ("approved", then("Manual", &[Approve, Serve(second()), Approve])),
        ("lost pods", then("Automatic", &[LosePods])),
        (
            "removal",
            then(
                "Automatic",
                &[
                    Delete("Subscription", "demo"),
                    Delete("ClusterServiceVersion", "demo.v1"),
                    Delete("CatalogSource", "cat"),
                ],
            ),
        ),
        (
            "unpacked by a node",
            [
                vec![RefuseImage("demo")],
                begin("Automatic"),
                vec![PullByNode("demo.v1"), Wait],
                vec![PullByNode("demo.v1"), Wait, ExpireJobs, Wait],
            ]
            .concat(),
        ),
        (
            "broken image",
            [
                vec![BreakImage("reg/demo:v1")],
                begin("Automatic"),
                vec![MendImages, Wait, Wait],
                // This also cancels requests to a node: a process that is killed right after it has created the ConfigMap of a Job
                // leaves it, empty, to the next subscriber of the bundle.
                vec![Delete("CatalogSource", "cat"), Wait],
            ]
            .concat(),
        ),
    ]
}

impl StoryEnv for TestEnv {
    type Step = Step;

    fn begin() -> Self {
        Self::new()
    }

    fn stage(&mut self) -> &mut Stage {
        &mut self.stage
    }

    fn take(&mut self, step: &Step) {
        match step {
            Put(object) => self.put(object.clone()),
            Delete(kind, name) => self.delete(kind, name),
            Serve(entries) => self.outside.serve(entries.iter().cloned()),
            Approve => {
                let patch = json!({"spec": {"approved": true}});
                self.stage.edit_all("InstallPlan", &patch);
            }
            BreakImage(image) => self.outside.break_image(image),
            RefuseImage(part) => self.outside.refuse(part),
            PullByNode(bundle) => {
                self.pull_by_node(bundle);
            }
            ExpireJobs => self.expire_jobs(),
            MendImages => self.outside.mend_images(),
            Wait => self.stage.advance(Duration::from_secs(120)),
            LosePods => self.stage.delete_all("Pod"),
        }
    }

    fn rest(&mut self) {
        // Nodes start all pods.
        self.settle_for(3);
        self.begin_pods();
        Self::rest(self);
    }

    fn go_on(&mut self, seconds: u64) {
        self.settle_for(seconds);
    }

    fn writes(&self) -> &[String] {
        &self.writes
    }
}

fn after(steps: &[Step]) -> TestEnv {
    let mut env = TestEnv::new();
    tell(&mut env, steps);
    env
}

fn story(name: &str) -> TestEnv {
    let found = stories().into_iter().find(|(known, _)| *known == name);
    after(&found.unwrap().1)
}

#[test]
fn arch_010_ip_013_a_subscription_becomes_an_operator() {
    let env = story("install");
    assert_eq!(env.only("InstallPlan")["status"]["phase"], "Complete");
    let subscription = env.only("Subscription");
    assert_eq!(subscription["status"]["state"], "AtLatestKnown");
    assert_eq!(subscription["status"]["installedCSV"], "demo.v1");
    assert!(env.get("ClusterServiceVersion", "demo.v1").is_some());
    assert!(env.get("ServiceAccount", "demo").is_some());
    assert_eq!(
        env.only("CatalogSource")["status"]["connectionState"]["lastObservedState"],
        "READY"
    );
}

#[test]
fn a_new_version_in_the_catalog_is_installed_and_the_old_one_goes() {
    let env = story("upgrade");
    assert_eq!(env.all("InstallPlan").len(), 2);
    assert_eq!(env.only("ClusterServiceVersion")["metadata"]["name"], "demo.v2");
    assert_eq!(env.only("Subscription")["status"]["installedCSV"], "demo.v2");
}

#[test]
fn nothing_is_installed_before_it_is_approved() {
    let mut env = after(&[Serve(first()), Put(catalog()), Put(subscription("Manual"))]);
    assert_eq!(env.only("InstallPlan")["status"]["phase"], "RequiresApproval");
    assert!(env.all("ClusterServiceVersion").is_empty());
    tell(&mut env, &[Approve]);
    assert_eq!(env.only("ClusterServiceVersion")["metadata"]["name"], "demo.v1");
}

/// Written once, right after the plan, and not kept in any store.
#[test]
fn a_plan_that_waits_for_approval_says_what_it_changes() {
    let preview = |plan: &Value| {
        let text = plan["metadata"]["annotations"][labels::PLAN_PREVIEW].as_str()?;
        PlanPreview::from_annotation(text)
    };
    let env = story("install");
    assert_eq!(
        preview(&env.only("InstallPlan")),
        None,
        "nobody has to approve it"
    );
    let mut env = after(&[
        Serve(first()),
        Put(catalog()),
        Put(subscription("Manual")),
        Approve,
    ]);
    let installed = preview(&env.only("InstallPlan")).unwrap();
    assert_eq!(installed.operators[0].name, "demo.v1");
    assert_eq!(installed.unknown, Vec::<String>::new());
    let made: Vec<_> = installed
        .objects
        .iter()
        .map(|object| (object.verb, object.kind.as_str()))
        .collect();
    assert!(made.contains(&(Verb::Create, "ServiceAccount")), "{made:?}");
    assert!(!installed.permissions[0].gained.is_empty(), "{installed:?}");
    tell(&mut env, &[Serve(second())]);
    let plans = env.all("InstallPlan");
    let waits = |plan: &&Value| plan["status"]["phase"] == "RequiresApproval";
    let upgrade = preview(plans.iter().find(waits).unwrap()).unwrap();
    assert_eq!(upgrade.operators[0].replaces, "demo.v1");
    let again = upgrade
        .objects
        .iter()
        .filter(|object| object.kind == "ServiceAccount");
    assert!(
        again.clone().all(|object| object.verb == Verb::Change),
        "it stands already"
    );
    // Roles have other names in each version, but the accounts may do what they could before.
    assert_eq!(
        (&upgrade.permissions, &upgrade.unknown),
        (&Vec::new(), &Vec::new())
    );
    let writes = env.writes.len();
    env.settle_for(3600);
    assert_eq!(env.writes.len(), writes, "at rest");
}

#[test]
fn a_lost_registry_pod_is_created_and_its_catalog_read_again() {
    let env = story("lost pods");
    let dialled = env.outside.dialled();
    assert!(dialled >= 2, "{dialled}");
    assert_eq!(env.all("Pod").len(), 1);
    assert_eq!(
        env.only("CatalogSource")["status"]["connectionState"]["lastObservedState"],
        "READY"
    );
}

#[test]
fn a_catalog_that_cannot_be_reached_is_reported_and_found_again() {
    let mut env = after(&[Serve(first()), Put(catalog())]);
    env.outside.set_unreachable(true);
    env.settle_for(30);
    let state = env.only("CatalogSource")["status"]["connectionState"]["lastObservedState"].clone();
    assert_eq!(state, "TRANSIENT_FAILURE");
    env.outside.set_unreachable(false);
    env.settle_for(60);
    let state = env.only("CatalogSource")["status"]["connectionState"]["lastObservedState"].clone();
    assert_eq!(state, "READY");
}

/// The earlier content is still served, and Subscriptions report that the new one does not count.
#[test]
fn unreadable_new_content_is_reported_on_the_subscriptions() {
    let mut env = story("install");
    let unhealthy = |env: &TestEnv| {
        let subscription = env.only("Subscription");
        let conditions = subscription["status"]["conditions"].as_array().unwrap().clone();
        let mut found = conditions
            .into_iter()
            .filter(|condition| condition["type"] == "CatalogSourcesUnhealthy");
        found.next().unwrap()
    };
    assert_eq!(unhealthy(&env)["status"], "False");
    env.outside.set_failing(true);
    env.outside.serve(second());
    env.settle_for(60);
    let told = unhealthy(&env);
    assert_eq!(told["status"], "True", "{told}");
    assert_eq!(told["message"], "targeted catalogsource ns/cat unhealthy");
    assert_eq!(env.only("Subscription")["status"]["state"], "AtLatestKnown");
    let told = env.own_writes();
    env.settle_for(600);
    assert_eq!(env.own_writes(), told, "it is told once");
    env.outside.set_failing(false);
    env.settle_for(120);
    env.rest();
    assert_eq!(unhealthy(&env)["status"], "False");
    assert_eq!(env.only("Subscription")["status"]["installedCSV"], "demo.v2");
}

#[test]
fn an_operator_group_that_comes_late_lets_the_plan_go_on() {
    let mut env = TestEnv::new();
    env.delete("OperatorGroup", "og");
    tell(
        &mut env,
        &[Serve(first()), Put(catalog()), Put(subscription("Automatic"))],
    );
    assert!(env.all("ClusterServiceVersion").is_empty());
    env.put(
        json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
        "metadata": {"namespace": "ns", "name": "og"}, "spec": {"targetNamespaces": ["ns"]},
        "status": {"namespaces": ["ns"], "lastUpdated": null}}),
    );
    env.rest();
    assert_eq!(env.only("ClusterServiceVersion")["metadata"]["name"], "demo.v1");
}

#[test]
fn what_a_catalog_needs_is_made_again_when_it_is_deleted() {
    for kind in ["Service", "ServiceAccount", "NetworkPolicy", "Pod"] {
        let mut env = after(&[Serve(first()), Put(catalog())]);
        let before = env.normalised();
        for object in env.all(kind) {
            env.delete(kind, object["metadata"]["name"].as_str().unwrap());
        }
        assert_ne!(env.normalised(), before, "{kind}");
        env.rest();
        assert_eq!(env.normalised(), before, "{kind}");
    }
}

/// Its own timer alone brings back the reconcile that makes the next pod.
#[test]
fn the_pause_after_a_pod_that_died_young_ends() {
    let mut env = after(&[Serve(first()), Put(catalog())]);
    let living = |env: &TestEnv| {
        let mut pods = env.all("Pod");
        pods.retain(|pod| pod["status"]["phase"] == "Running");
        pods
    };
    let dies = |env: &mut TestEnv| {
        let pod = living(env).remove(0);
        let dead = json!({"status": {"phase": "Failed", "reason": "Evicted", "conditions": []}});
        env.edit("Pod", pod["metadata"]["name"].as_str().unwrap(), &dead);
        env.settle();
    };
    env.settle_for(60);
    dies(&mut env);
    assert_eq!(living(&env).len(), 1, "one that served is replaced at once");
    dies(&mut env);
    env.settle_for(50);
    assert!(living(&env).is_empty(), "it is over too soon");
    env.settle_for(15);
    assert_eq!(living(&env).len(), 1);
}

#[test]
fn a_namespace_with_changed_labels_gets_registry_pods_that_fit() {
    let mut env = after(&[Serve(first()), Put(catalog())]);
    let before = env.only("Pod")["spec"].clone();
    let labels = json!({"pod-security.kubernetes.io/enforce": "restricted"});
    env.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns", "labels": labels}}));
    env.rest();
    assert_ne!(env.only("Pod")["spec"], before);
}

#[test]
fn at_rest_nothing_is_written_not_even_by_a_new_process() {
    for (name, story) in stories() {
        let mut env = after(&story);
        env.settle_for(60);
        // A new process connects again, and reports the time of that.
        assert_rests(&mut env, name, 120, Some("patch CatalogSource ns/cat status"));
    }
}

#[test]
fn a_process_killed_after_any_write_ends_in_the_same_place() {
    every_interruption::<TestEnv>("interruptions of catalog-operator", stories(), Interruption::Kill);
}

#[test]
fn an_answer_lost_after_any_write_changes_nothing_in_the_end() {
    let what = "interruptions of catalog-operator";
    every_interruption::<TestEnv>(what, stories(), Interruption::LoseAnswer);
}

/// A reconcile right after a write without a response computed its status from an older observation, and left the message of that
/// write on a plan that was Complete.
#[test]
fn no_answer_lost_in_an_install_leaves_a_trace() {
    let (_, story) = stories().swap_remove(0);
    let reference = after(&story);
    let end = reference.normalised();
    for at in 1..=reference.own_writes() {
        let env: TestEnv = interrupted(&story, Interruption::LoseAnswer, at);
        assert_same(
            &env.normalised(),
            &end,
            &format!("the answer to write {at} was lost"),
        );
    }
}
