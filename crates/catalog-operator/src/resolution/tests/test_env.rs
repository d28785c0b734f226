mod contents;
mod others;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clap::Parser;
use kube::Client;
use olm_api::v1alpha1::{InstallPlan, Subscription};
use olm_runtime::{NamespacedName, process};
use olm_testing::cluster::{FakeCluster, Fault, Refusal, Request, Verb};
use olm_testing::stage::{REST, Stage};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::sleep;

use self::contents::Images;
use crate::args::Args;
use crate::bundle_unpack::error::{UnpackClass, UnpackError};
use crate::catalog_source::connection::Endpoint;
use crate::metrics::Figures;
use crate::run::{self, Queues, Services};
use crate::test_env::Shared;
pub use crate::test_env::{BundleRow, bundle};

pub const NAMESPACE: &str = "ns";
pub const GLOBAL: &str = "olm";

/// A cluster, the resolution controller, and the other controllers as the test sets them.
pub struct TestEnv {
    stage: Stage,
    cluster: FakeCluster,
    /// Registry servers.
    pub outside: Arc<Shared>,
    images: Arc<Images>,
    served: Arc<Mutex<Served>>,
    faults: Arc<Mutex<Faults>>,
    /// Events, as they were sent.
    pub events: Vec<Value>,
    /// Writes that were carried out.
    pub writes: Vec<String>,
    /// Kills the process after this many writes.
    pub crash_after: Option<usize>,
    /// Refuses creations with this text.
    pub refuse: Option<String>,
    /// Refuses statuses of this kind with this text.
    pub refuse_status: Option<(&'static str, &'static str)>,
    /// Refuses InstallPlans with these ClusterServiceVersions.
    pub refuse_plans_with: BTreeSet<String>,
    /// Refuses whatever changes the object of this name.
    pub refuse_patches_of: Option<String>,
    /// Creations are executed, but neither their response nor their watch event arrives.
    pub lose_answers: bool,
}

#[derive(Default)]
struct Faults {
    refuse: Option<String>,
    refuse_status: Option<(&'static str, &'static str)>,
    refuse_plans_with: BTreeSet<String>,
    refuse_patches_of: Option<String>,
    lose_answers: bool,
}

/// What the process that runs has to do with catalogs that are served.
#[derive(Default)]
struct Served {
    catalogs: BTreeSet<NamespacedName>,
    /// Counts changes of what is served: each makes servers new ones.
    epoch: u64,
    running: Option<(Services, Queues)>,
}

impl TestEnv {
    pub fn new() -> Self {
        Self::with_global(GLOBAL)
    }

    /// With the catalogs of this namespace as those that everyone sees.
    pub fn with_global(global: &'static str) -> Self {
        let (outside, images) = (Arc::<Shared>::default(), Arc::<Images>::default());
        let served = Arc::<Mutex<Served>>::default();
        let of_operator = (Arc::clone(&outside), Arc::clone(&images), Arc::clone(&served));
        let stage = Stage::new(Box::new(move |client| {
            let (outside, images, served) = of_operator.clone();
            Box::pin(operate(client, global, outside, images, served))
        }));
        let cluster = stage.cluster.clone();
        let faults = Arc::<Mutex<Faults>>::default();
        let known = Arc::clone(&faults);
        cluster.on_request(move |request| known.lock().unwrap().of(request));
        let env = Self {
            stage,
            cluster,
            outside,
            images,
            served,
            faults,
            events: Vec::new(),
            writes: Vec::new(),
            crash_after: None,
            refuse: None,
            refuse_status: None,
            refuse_plans_with: BTreeSet::new(),
            refuse_patches_of: None,
            lose_answers: false,
        };
        for name in [NAMESPACE, global] {
            env.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
        }
        env
    }

    /// With an OperatorGroup and a catalog `cat` of these bundles that is served.
    pub fn with_catalog(bundles: impl IntoIterator<Item = BundleRow>) -> Self {
        let mut env = Self::new();
        env.add_group("og", &json!({}), &json!({}));
        env.serve(NAMESPACE, "cat", bundles);
        env
    }

    // What users do ----------------------------------------------------------------------------------------------------

    pub fn put(&self, object: Value) {
        self.stage.as_user(|cluster| cluster.put(object));
    }

    #[track_caller]
    pub fn edit(&self, kind: &str, name: &str, patch: &Value) {
        let found = self
            .stage
            .as_user(|cluster| cluster.edit(kind, NAMESPACE, name, patch));
        assert!(found, "{kind} {name} exists");
    }

    #[track_caller]
    pub fn delete(&self, kind: &str, name: &str) {
        let found = self
            .stage
            .as_user(|cluster| cluster.delete(kind, NAMESPACE, name));
        assert!(found, "{kind} {name} exists");
    }

    pub fn add_group(&mut self, name: &str, annotations: &Value, spec: &Value) {
        self.put(json!({
            "apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
            "metadata": {"name": name, "namespace": NAMESPACE, "annotations": annotations}, "spec": spec,
        }));
    }

    pub fn put_source(&mut self, namespace: &str, name: &str, spec: &Value, status: &Value) {
        self.put(json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
            "metadata": {"name": name, "namespace": namespace}, "spec": spec, "status": status,
        }));
    }

    /// A Subscription to `package` in `cat`; `spec` adds to or replaces the rest.
    pub fn subscribe(&mut self, package: &str, spec: &Value) {
        let mut full =
            json!({"channel": "stable", "name": package, "source": "cat", "sourceNamespace": NAMESPACE});
        full.as_object_mut()
            .unwrap()
            .extend(spec.as_object().unwrap().clone());
        self.put(json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
            "metadata": {"name": format!("{package}-sub"), "namespace": NAMESPACE}, "spec": full,
        }));
    }

    /// A user approves each InstallPlan in the moment before its deletion arrives.
    pub fn approve_before_deletion(&self) {
        let cluster = self.cluster.clone();
        self.cluster.on_request(move |request| {
            if request.verb == Verb::Delete && request.kind.kind == "InstallPlan" {
                let approved = json!({"spec": {"approved": true}});
                cluster.edit("InstallPlan", NAMESPACE, &request.name, &approved);
            }
            None
        });
    }

    /// Changes every object that is stored from now on, as a mutating webhook does.
    pub fn set_webhook(&self, webhook: impl Fn(&mut Value) + Send + 'static) {
        self.cluster.set_webhook(webhook);
    }

    // What is outside --------------------------------------------------------------------------------------------------

    /// Makes a catalog serve these bundles, with its status and contents read.
    pub fn serve(&mut self, namespace: &str, name: &str, bundles: impl IntoIterator<Item = BundleRow>) {
        let status = json!({
            "registryService": {"protocol": "grpc"},
            "connectionState": {"address": "a", "lastObservedState": "READY"},
        });
        self.put_source(
            namespace,
            name,
            &json!({"sourceType": "grpc", "image": "i"}),
            &status,
        );
        self.outside.serve(bundles);
        let key = NamespacedName::new(namespace, name);
        let (running, epoch) = {
            let mut served = self.served.lock().unwrap();
            served.catalogs.insert(key.clone());
            served.epoch += 1;
            (served.running.clone(), served.epoch)
        };
        if let Some((services, _)) = running.filter(|_| !self.stage.is_killed()) {
            self.stage.run(connect(&services, &key, epoch));
        }
    }

    pub fn break_image(&self, image: &str, class: UnpackClass, cause: &str) {
        self.images
            .broken
            .lock()
            .unwrap()
            .insert(image.to_owned(), UnpackError::new(class, cause));
    }

    /// Images can be had again, and the catalog is changed, as a user does who wants them now.
    pub fn mend_images(&self) {
        self.images.broken.lock().unwrap().clear();
        self.edit(
            "CatalogSource",
            "cat",
            &json!({"spec": {"displayName": "mended"}}),
        );
    }

    /// Fields in the spec of every image's ClusterServiceVersion beside its install strategy.
    pub fn set_csv_spec(&self, spec: &Value) {
        *self.images.spec.lock().unwrap() = spec.as_object().unwrap().clone();
    }

    /// Files that are left out of the bundle of every image.
    pub fn set_left_out(&self, texts: &[&str]) {
        let texts = texts.iter().map(|text| (*text).to_owned());
        *self.images.left_out.lock().unwrap() = texts.collect();
    }

    pub fn slow_images(&self, slow: Duration) {
        *self.images.slow.lock().unwrap() = Some(slow);
    }

    // Time -------------------------------------------------------------------------------------------------------------

    /// Ends the process; the next call that needs one starts another.
    pub fn restart(&mut self) {
        self.crash_after = None;
        self.stage.kill();
    }

    /// Runs the operator until nothing happens any more; one that is killed stays so until [`TestEnv::restart`].
    #[track_caller]
    pub fn settle(&mut self) {
        self.advance(Duration::ZERO);
    }

    /// Settles after a while.
    #[track_caller]
    pub fn advance(&mut self, time: Duration) {
        self.hand_in();
        match self.crash_after {
            Some(writes) => self.stage.start_doomed(writes - self.writes.len()),
            None => self.stage.start(),
        }
        self.stage.advance(time);
        assert_eq!(self.stage.run(self.cluster.settle(REST)), Ok(()));
        let log = self.cluster.take_log();
        let own = |write: &String| !write.starts_with("kubernetes") && !write.contains(" REFUSED ");
        self.writes.extend(log.writes.into_iter().filter(own));
        self.events.extend(log.sent_events);
    }

    /// Puts the clock forward, or back, without telling the operator.
    pub fn put_clock(&mut self, hours: i64) {
        self.stage.put_clock(hours * 3600);
    }

    /// Wakes the namespace although nothing has changed.
    #[track_caller]
    pub fn round(&mut self) {
        let running = self.served.lock().unwrap().running.clone();
        if let Some((_, queues)) = running {
            self.stage
                .as_user(|_| queues.namespaces.add(NAMESPACE.to_owned()));
        }
        self.settle();
    }

    fn hand_in(&self) {
        if self.lose_answers {
            self.cluster.hold("InstallPlan");
        }
        *self.faults.lock().unwrap() = Faults {
            refuse: self.refuse.clone(),
            refuse_status: self.refuse_status,
            refuse_plans_with: self.refuse_plans_with.clone(),
            refuse_patches_of: self.refuse_patches_of.clone(),
            lose_answers: self.lose_answers,
        };
    }

    // What there is ----------------------------------------------------------------------------------------------------

    fn all<K: DeserializeOwned>(&self, kind: &str) -> Vec<K> {
        let objects = self.cluster.objects();
        let found = objects.iter().filter(|(key, _)| key.kind == kind);
        found
            .map(|(_, object)| serde_json::from_value(Value::clone(object)).unwrap())
            .collect()
    }

    pub fn plans(&self) -> Vec<InstallPlan> {
        let mut plans = self.all::<InstallPlan>("InstallPlan");
        plans.sort_by_key(|plan| plan.spec.generation);
        plans
    }

    pub fn subscription(&self, name: &str) -> Subscription {
        serde_json::from_value(self.cluster.get("Subscription", NAMESPACE, name).unwrap()).unwrap()
    }

    /// State, versions, plan and conditions of every Subscription.
    pub fn describe(&self) -> String {
        let mut lines = Vec::new();
        for subscription in self.all::<Subscription>("Subscription") {
            let status = subscription.status.clone().unwrap_or_default();
            let text = |part: &Option<String>| part.clone().unwrap_or_else(|| "-".to_owned());
            lines.push(format!(
                "{}: state={} installed={} current={} gen={}",
                text(&subscription.metadata.name),
                status.state,
                text(&status.installed_csv),
                text(&status.current_csv),
                status.install_plan_generation.unwrap_or(0),
            ));
            // `Ready` follows from the others.
            let told = status
                .conditions
                .iter()
                .filter(|condition| condition.type_ != "Ready");
            for condition in told {
                let reason = text(&condition.reason);
                lines.push(format!(
                    "  {}={}/{reason} {}",
                    condition.type_,
                    condition.status,
                    condition.message.clone().unwrap_or_default()
                ));
            }
        }
        for plan in self.plans() {
            let status = plan.status.clone().unwrap_or_default();
            let steps: Vec<String> = status
                .plan
                .iter()
                .map(|step| format!("{}/{}", step.resource.kind, step.resource.name))
                .collect();
            lines.push(format!(
                "plan gen={} {} approved={} {}: {:?} {}",
                plan.spec.generation.unwrap_or(0),
                plan.spec.approval,
                plan.spec.approved,
                plan.spec.cluster_service_version_names.join(","),
                status.phase,
                steps.join(" "),
            ));
        }
        lines
            .iter()
            .map(|line| line.trim_end())
            .collect::<Vec<_>>()
            .join("\n")
    }
}

impl Faults {
    fn of(&self, request: &Request) -> Option<Fault> {
        let refused = |text: &str| Fault::Refuse(Refusal::forbidden(text));
        match request.verb {
            Verb::Create => {
                let lost = self.lose_answers.then_some(Fault::LoseAnswer);
                let names = request.body["spec"]["clusterServiceVersionNames"].as_array();
                let mut names = names.into_iter().flatten().filter_map(Value::as_str);
                let unwanted = names.find(|name| self.refuse_plans_with.contains(*name));
                let unwanted = unwanted.map(|name| refused(&format!("no plan with {name}")));
                self.refuse.as_deref().map(refused).or(unwanted).or(lost)
            }
            Verb::Patch(_) if self.refuse_patches_of.as_ref() == Some(&request.name) => {
                Some(refused("no change of it"))
            }
            Verb::Patch(_) => {
                let (kind, text) = self.refuse_status?;
                (request.kind.kind == kind).then(|| refused(text))
            }
            _ => None,
        }
    }
}

/// The operator without the controllers of CatalogSources and of what carries InstallPlans out, until it is dropped.
async fn operate(
    client: Client,
    global: &str,
    outside: Arc<Shared>,
    images: Arc<Images>,
    served: Arc<Mutex<Served>>,
) {
    let args = Args::parse_from(["catalog-operator", "--namespace", global]);
    let outside = run::Outside {
        dial: Arc::<Shared>::clone(&outside),
        catalogs: outside,
        bundles: Some(images),
        tags: None,
    };
    let (set, parts) = run::build(args, &client, outside, Figures::default());
    let mut watches = JoinSet::new();
    let readiness = set.start(&mut watches);
    let (catalogs, epoch) = {
        let mut served = served.lock().unwrap();
        served.running = Some((parts.services.clone(), parts.queues.clone()));
        (served.catalogs.clone(), served.epoch)
    };
    for key in &catalogs {
        connect(&parts.services, key, epoch).await;
    }
    let start = |runner: &olm_runtime::driver::Runner| {
        let mut workers = JoinSet::new();
        parts.start_resolution(runner, &mut workers);
        parts.start_previews(runner, &mut workers);
        parts.start_policies(runner, &mut workers);
        workers
    };
    let ended = process::controllers(client, watches, readiness, None, start, std::future::pending()).await;
    assert!(ended.is_ok(), "the controllers go on");
}

/// What the controller of CatalogSources does when a server is ready; and the content is read.
async fn connect(services: &Services, key: &NamespacedName, epoch: u64) {
    let endpoint = Endpoint {
        address: "cat.ns.svc:1".to_owned(),
        dial: "cat.ns.svc:1".to_owned(),
        epoch: epoch.to_string(),
        may_change: false,
    };
    services.connections.set_endpoint(key, Some(endpoint));
    let read = async {
        loop {
            let known = services.snapshots.read_generation(key);
            let link = services.connections.link(key);
            if link.is_some_and(|link| known == Some(link.generation)) {
                return;
            }
            services.snapshots.get(key, NAMESPACE);
            sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), read).await.unwrap();
}
