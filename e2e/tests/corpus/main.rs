//! Real operators from their own channels: the expected result of each is derived from its bundle before the run.

mod choice;
mod publish;
mod sample;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use e2e::corpus::bundle::{Bundle, list};
use e2e::corpus::expectation::{Expectation, Surroundings, Targets};
use e2e::corpus::journey::{Journey, Leg, Look};
use e2e::corpus::table::{Row, Table};
use e2e::lab::{Lab, Namespace, catalog_source, operator_group, subscription};
use olm_testing::long;
use serde_json::{Value, json};
use xtask::kubectl::text;

use choice::{Candidate, Choice, SITES, candidates, check_choice};
use publish::{catalog_image, publish, stand_ins};
use sample::Sample;

/// Timeout for all of them together, once their objects are created.
const PATIENCE: Duration = Duration::from_secs(1800);
/// Timeout for one sample. Many definitions at once take the API server a while to establish.
const SAMPLE_PATIENCE: Duration = Duration::from_secs(1200);
/// Number of samples installed at a time: their pods' requests must fit the node, and their definitions the API server.
const AT_ONCE: usize = 5;
/// Share of samples that the short form installs: one in this number.
const SHARE: usize = 9;
/// Time for which the API server may fail to answer an observation.
const LOOK_PATIENCE: Duration = Duration::from_secs(60);
/// Time between two observations of the cluster.
const POLL: Duration = Duration::from_millis(1000);

#[test]
fn the_choice_of_packages_covers_what_it_must() -> anyhow::Result<()> {
    let Some(corpus) = olm_testing::shared::corpus_dir() else {
        return Ok(());
    };
    let around = Surroundings {
        kubernetes: [1, 34, 0],
        node_labels: [("arch", "amd64"), ("os", "linux")]
            .map(|(key, value)| (format!("kubernetes.io/{key}"), value.to_owned()))
            .into(),
        ..Surroundings::default()
    };
    let candidates = candidates(&corpus, &around)?;
    check_choice(&candidates);
    let samples = sample::read(&corpus, &around)?;
    assert!(samples.len() >= 12 + 60, "{}", samples.len());
    let webhooks = |sample: &&Sample| !list(&sample.bundle.csv["spec"]["webhookdefinitions"]).is_empty();
    assert_eq!(
        samples.iter().filter(webhooks).count(),
        7,
        "cert-manager is chosen"
    );
    let apis =
        |sample: &&Sample| !list(&sample.bundle.csv["spec"]["apiservicedefinitions"]["owned"]).is_empty();
    assert_eq!(samples.iter().filter(apis).count(), 5);
    stand_ins(&candidates, &samples)?;
    Ok(())
}

/// The tests run one after the other: together they overload the API server of a small machine.
static TURN: Mutex<()> = Mutex::new(());

/// Shared setup of both tests.
struct Stage {
    lab: &'static Lab,
    candidates: Vec<Candidate>,
    samples: Vec<Sample>,
}

impl Stage {
    /// Reads and publishes once for both tests.
    fn shared(corpus: &Path) -> anyhow::Result<&'static Self> {
        static STAGE: OnceLock<Result<Stage, String>> = OnceLock::new();
        let made = || {
            let lab = Lab::shared()?;
            let around = surroundings(lab)?;
            let candidates = candidates(corpus, &around)?;
            let samples = sample::read(corpus, &around)?;
            let samples = long::every_nth(SHARE, "real bundles, each by itself", samples);
            publish(lab, corpus, &candidates, &samples)?;
            Ok(Self {
                lab,
                candidates,
                samples,
            })
        };
        STAGE
            .get_or_init(|| made().map_err(|error: anyhow::Error| format!("{error:#}")))
            .as_ref()
            .map_err(|error| anyhow::anyhow!("{error}"))
    }
}

#[test]
fn real_operators_end_as_their_bundles_say() -> anyhow::Result<()> {
    let Some(corpus) = olm_testing::shared::corpus_dir() else {
        return Ok(());
    };
    let Stage { lab, candidates, .. } = Stage::shared(&corpus)?;
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let namespaces = SITES
        .iter()
        .map(|site| lab.namespace(site.name))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let target = lab.namespace("corpus-camel-k-target")?;
    create(&namespaces, target.name(), candidates)?;

    let began = Instant::now();
    let mut journeys: Vec<Journey> = candidates
        .iter()
        .map(|candidate| {
            Journey::new(
                candidate.choice.package,
                candidate.choice.manual,
                candidate.legs.clone(),
            )
        })
        .collect();
    while journeys.iter().any(|journey| !journey.is_over()) && began.elapsed() < PATIENCE {
        let looks = look(lab, "corpus-")?;
        for (journey, candidate) in journeys.iter_mut().zip(candidates) {
            let nothing = Look::default();
            let look = looks.get(candidate.choice.site).unwrap_or(&nothing);
            if let Some(plan) = journey.follow(look, began.elapsed()) {
                let namespace = namespaces
                    .iter()
                    .find(|namespace| namespace.name() == candidate.choice.site);
                namespace.context("no namespace")?.approve(&plan)?;
            }
        }
        std::thread::sleep(POLL);
    }

    let looks = look(lab, "corpus-")?;
    let rows: Vec<Row> = journeys
        .iter_mut()
        .zip(candidates)
        .map(|(journey, candidate)| row(lab, journey, candidate, looks.get(candidate.choice.site)))
        .collect();
    let verdict = verdict(&rows);
    for namespace in namespaces {
        namespace.delete_olm_objects()?;
    }
    target.delete_olm_objects()?;
    verdict
}

/// Installs bundles, a few at a time; each is removed when its expected result is reached.
#[test]
fn real_bundles_end_as_the_table_says() -> anyhow::Result<()> {
    let Some(corpus) = olm_testing::shared::corpus_dir() else {
        return Ok(());
    };
    let Stage { lab, samples, .. } = Stage::shared(&corpus)?;
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let home = lab.namespace("samples")?;
    home.apply(&[catalog_source("catalog", sample::CATALOG)])?;
    home.wait_for("catalogsource", "catalog", "to be READY", |catalog| {
        text(catalog, "/status/connectionState/lastObservedState") == "READY"
    })?;
    let mut waiting: VecDeque<&Sample> = samples.iter().collect();
    let mut active: Vec<Install> = Vec::new();
    let mut rows = Vec::new();
    while !waiting.is_empty() || !active.is_empty() {
        while active.len() < AT_ONCE
            && let Some(sample) = waiting.pop_front()
        {
            active.push(Install::begin(lab, sample)?);
        }
        std::thread::sleep(POLL);
        let looks = look(lab, sample::PREFIX)?;
        let nothing = Look::default();
        for install in &mut active {
            let look = looks.get(&install.sample.namespace).unwrap_or(&nothing);
            if install.is_over() {
                // Observed a second time: the result is stable.
                rows.push(install.row(lab, look));
            } else {
                install.journey.follow(look, install.began.elapsed());
            }
        }
        for over in active.extract_if(.., |install| install.is_told) {
            for namespace in over.namespaces.into_iter().flatten() {
                namespace.delete_olm_objects()?;
            }
        }
    }
    let verdict = verdict(&rows);
    nothing_is_left(lab)?;
    verdict
}

/// A sample in its namespace.
struct Install<'a> {
    sample: &'a Sample,
    journey: Journey,
    began: Instant,
    is_told: bool,
    namespaces: [Option<Namespace<'a>>; 2],
}

impl<'a> Install<'a> {
    fn begin(lab: &'a Lab, sample: &'a Sample) -> anyhow::Result<Self> {
        let namespace = lab.namespace(&sample.namespace)?;
        let target = match sample.targets {
            Targets::OneOther => Some(lab.namespace(&format!("{}-target", sample.namespace))?),
            Targets::Own | Targets::All => None,
        };
        let targets = match (sample.targets, &target) {
            (Targets::Own, _) => vec![namespace.name()],
            (_, target) => target.iter().map(|target| target.name()).collect(),
        };
        let catalog = json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource", "metadata": {"name": "catalog"},
            "spec": {"sourceType": "grpc", "address": "catalog.samples.svc:50051", "displayName": "catalog"}
        });
        namespace.apply(&[
            catalog,
            operator_group("group", &targets),
            subscription(
                "sample",
                &sample.package,
                &sample.csv,
                "catalog",
                namespace.name(),
            ),
        ])?;
        let leg = Leg {
            csv: sample.csv.clone(),
            expectation: sample.expectation.clone(),
        };
        Ok(Self {
            sample,
            journey: Journey::new("sample", false, vec![leg]),
            began: Instant::now(),
            is_told: false,
            namespaces: [Some(namespace), target],
        })
    }

    fn is_over(&self) -> bool {
        self.journey.is_over() || self.began.elapsed() > SAMPLE_PATIENCE
    }

    fn row(&mut self, lab: &Lab, look: &Look) -> Row {
        self.is_told = true;
        let Sample {
            csv,
            namespace,
            expectation,
            bundle,
            ..
        } = self.sample;
        let outcome = self.journey.check(look).and_then(|()| {
            check_running(lab, namespace, csv, expectation, bundle).map_err(|error| format!("{error:#}"))
        });
        Row {
            package: csv.clone(),
            mode: self.sample.targets.to_string(),
            approval: "Automatic".to_owned(),
            edges: 0,
            expected: expectation.to_string(),
            seen: self.journey.seen().to_owned(),
            took: self.journey.arrived(),
            fault: outcome.err(),
        }
    }
}

/// Checks that cluster-scoped objects are deleted with the samples.
fn nothing_is_left(lab: &Lab) -> anyhow::Result<()> {
    let kinds = "clusterroles,clusterrolebindings,validatingwebhookconfigurations,mutatingwebhookconfigurations,apiservices";
    let owned = [kinds, "-l", "olm.owner.kind=ClusterServiceVersion"];
    lab.kubectl()
        .wait("what the samples left to go", SAMPLE_PATIENCE, |kubectl| {
            let found = kubectl.get(&owned)?.unwrap_or_default();
            let left: Vec<&str> = list(&found["items"])
                .iter()
                .filter(|object| {
                    text(object, "/metadata/labels/olm.owner.namespace").starts_with(sample::PREFIX)
                })
                .map(|object| text(object, "/metadata/name"))
                .collect();
            Ok(if left.is_empty() {
                Ok(())
            } else {
                Err(format!("{left:?}"))
            })
        })
}

fn verdict(rows: &[Row]) -> anyhow::Result<()> {
    println!("{}", Table(rows));
    let wrong = rows.iter().filter(|row| row.fault.is_some()).count();
    ensure!(
        wrong == 0,
        "{wrong} of {} did not end as their bundles say",
        rows.len()
    );
    Ok(())
}

/// Returns the properties of the cluster that affect bundles.
fn surroundings(lab: &Lab) -> anyhow::Result<Surroundings> {
    let kubectl = lab.kubectl();
    let version: Value = serde_json::from_str(&kubectl.run(&["get", "--raw", "/version"])?)?;
    let version = text(&version, "/gitVersion").trim_start_matches('v');
    let numbers: Vec<u64> = version
        .split(['.', '-', '+'])
        .take(3)
        .map(str::parse)
        .collect::<Result<_, _>>()
        .context("no version")?;
    let nodes = kubectl.get(&["nodes"])?.context("no nodes")?;
    let [node] = list(&nodes["items"]) else {
        bail!("the test is made for one node")
    };
    Ok(Surroundings {
        kubernetes: numbers
            .try_into()
            .map_err(|_| anyhow::anyhow!("version {version} is short"))?,
        node_labels: serde_json::from_value(node["metadata"]["labels"].clone())?,
        served: kubectl
            .run(&["api-versions"])?
            .lines()
            .map(str::to_owned)
            .collect(),
        provided: BTreeSet::new(),
    })
}

/// Creates the objects of a user: catalog, group and Subscriptions of each site.
fn create(namespaces: &[Namespace<'_>], target: &str, candidates: &[Candidate]) -> anyhow::Result<()> {
    for (namespace, site) in namespaces.iter().zip(&SITES) {
        let targets = match site.targets {
            Targets::Own => vec![site.name],
            Targets::OneOther => vec![target],
            Targets::All => Vec::new(),
        };
        let mut objects = vec![
            catalog_source("corpus", &catalog_image(site.name)),
            operator_group("group", &targets),
        ];
        for candidate in candidates
            .iter()
            .filter(|candidate| candidate.choice.site == site.name)
        {
            let choice = candidate.choice;
            let channel = candidate.catalog.default_channel();
            let mut wanted = subscription(choice.package, choice.package, channel, "corpus", site.name);
            wanted["spec"]["installPlanApproval"] = json!(approval(choice));
            if let Some(start) = choice.start {
                wanted["spec"]["startingCSV"] = json!(start);
            }
            objects.push(wanted);
        }
        namespace.apply(&objects)?;
    }
    Ok(())
}

fn approval(choice: &Choice) -> &'static str {
    if choice.manual { "Manual" } else { "Automatic" }
}

/// Returns all observed objects by namespace, for namespaces whose names begin with `prefix`.
fn look(lab: &Lab, prefix: &str) -> anyhow::Result<BTreeMap<String, Look>> {
    let kinds = "csv,subscriptions.operators.coreos.com,installplans";
    // Among hundreds of definitions the API server is silent now and then.
    let found = lab
        .kubectl()
        .wait("a list of OLM's objects", LOOK_PATIENCE, |kubectl| {
            let found = kubectl.get(&[kinds, "--all-namespaces", "-l", "!olm.copiedFrom"])?;
            Ok(Ok(found))
        })?;
    let found = found.unwrap_or_default();
    let mut looks: BTreeMap<String, Look> = BTreeMap::new();
    for object in list(&found["items"]) {
        let namespace = text(object, "/metadata/namespace");
        if namespace.starts_with(prefix) {
            looks.entry(namespace.to_owned()).or_default().add(object.clone());
        }
    }
    Ok(looks)
}

/// Returns the verdict on a candidate: its final state, its stability, and that a succeeded operator really runs.
fn row(lab: &Lab, journey: &mut Journey, candidate: &Candidate, look: Option<&Look>) -> Row {
    let choice = candidate.choice;
    let outcome = journey.check(look.unwrap_or(&Look::default())).and_then(|()| {
        let (Some(leg), Some(bundle)) = (candidate.legs.last(), candidate.bundles.last()) else {
            return Ok(());
        };
        check_running(lab, choice.site, &leg.csv, &leg.expectation, bundle)
            .map_err(|error| format!("{error:#}"))
    });
    Row {
        package: choice.package.to_owned(),
        mode: candidate.targets.to_string(),
        approval: approval(choice).to_owned(),
        edges: candidate.legs.len() - 1,
        expected: candidate
            .legs
            .last()
            .map(|leg| leg.expectation.to_string())
            .unwrap_or_default(),
        seen: journey.seen().to_owned(),
        took: journey.arrived(),
        fault: outcome.err(),
    }
}

/// Checks that a succeeded operator's Deployments have their replicas, and that it has the cluster roles it requests.
fn check_running(
    lab: &Lab,
    namespace: &str,
    csv: &str,
    expectation: &Expectation,
    bundle: &Bundle,
) -> anyhow::Result<()> {
    let kubectl = lab.kubectl();
    let roles = kubectl.get(&[
        "clusterrole",
        "-l",
        &format!("olm.owner={csv},olm.owner.namespace={namespace}"),
    ])?;
    let roles = roles.map_or(0, |roles| list(&roles["items"]).len());
    if matches!(expectation, Expectation::Subscription { .. }) {
        ensure!(
            roles == 0,
            "{roles} ClusterRoles were made although it is refused"
        );
    }
    if !expectation.is_success() {
        return Ok(());
    }
    for (name, spec) in bundle.deployments() {
        let live = kubectl
            .get(&["deployment", "-n", namespace, name])?
            .with_context(|| format!("no Deployment {name}"))?;
        let wanted = spec["replicas"].as_u64().unwrap_or(1);
        let available = live["status"]["availableReplicas"].as_u64().unwrap_or(0);
        ensure!(
            available == wanted,
            "Deployment {name} has {available} of {wanted} replicas"
        );
    }
    let wanted = bundle.permissions("clusterPermissions").len();
    ensure!(
        roles >= wanted,
        "{roles} ClusterRoles for {wanted} clusterPermissions"
    );
    Ok(())
}
