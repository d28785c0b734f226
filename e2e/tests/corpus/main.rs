//! Real operators from their own channels: what must come of each is derived from its bundle before the run.

mod choice;
mod publish;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use e2e::corpus::bundle::list;
use e2e::corpus::expectation::{Expectation, Surroundings, Targets};
use e2e::corpus::journey::{Journey, Look};
use e2e::corpus::table::{Row, Table};
use e2e::lab::{Lab, Namespace, catalog_source, operator_group, subscription};
use serde_json::{Value, json};
use xtask::kubectl::text;

use choice::{Candidate, Choice, SITES, candidates, check_choice};
use publish::{catalog_image, publish};

/// How long all of them together may take once their objects are created.
const PATIENCE: Duration = Duration::from_secs(300);
/// Time between two looks at the cluster.
const POLL: Duration = Duration::from_millis(1000);

#[test]
fn the_choice_of_packages_covers_what_it_must() -> anyhow::Result<()> {
    let Some(corpus) = olm_testing::shared::corpus_dir() else {
        return Ok(());
    };
    let around = Surroundings {
        kubernetes: [1, 34, 0],
        node_labels: BTreeMap::from([("kubernetes.io/arch".to_owned(), "amd64".to_owned())]),
        ..Surroundings::default()
    };
    check_choice(&candidates(&corpus, &around)?);
    Ok(())
}

#[test]
fn real_operators_end_as_their_bundles_say() -> anyhow::Result<()> {
    let Some(corpus) = olm_testing::shared::corpus_dir() else {
        return Ok(());
    };
    let lab = Lab::shared()?;
    let candidates = candidates(&corpus, &surroundings(lab)?)?;
    check_choice(&candidates);
    publish(lab, &corpus, &candidates)?;
    let namespaces = SITES
        .iter()
        .map(|site| lab.namespace(site.name))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let target = lab.namespace("corpus-camel-k-target")?;
    create(&namespaces, target.name(), &candidates)?;

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
        let looks = look(lab)?;
        for (journey, candidate) in journeys.iter_mut().zip(&candidates) {
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

    let looks = look(lab)?;
    let rows: Vec<Row> = journeys
        .iter_mut()
        .zip(&candidates)
        .map(|(journey, candidate)| row(lab, journey, candidate, looks.get(candidate.choice.site)))
        .collect();
    println!("{}", Table(&rows));
    let wrong = rows.iter().filter(|row| row.fault.is_some()).count();
    ensure!(
        wrong == 0,
        "{wrong} of {} packages did not end as their bundles say",
        rows.len()
    );
    Ok(())
}

/// What the cluster is like, as far as bundles care.
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

/// Writes what a user writes: catalog, group and Subscriptions of each site.
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

/// All that is followed, by namespace.
fn look(lab: &Lab) -> anyhow::Result<BTreeMap<String, Look>> {
    let kinds = "csv,subscriptions.operators.coreos.com,installplans";
    let found = lab
        .kubectl()
        .get(&[kinds, "--all-namespaces"])?
        .unwrap_or_default();
    let mut looks: BTreeMap<String, Look> = BTreeMap::new();
    for object in list(&found["items"]) {
        let namespace = text(object, "/metadata/namespace");
        if SITES.iter().any(|site| site.name == namespace) {
            looks.entry(namespace.to_owned()).or_default().add(object.clone());
        }
    }
    Ok(looks)
}

/// The verdict on a candidate: how it ended, that it stays so, and that what succeeded really runs.
fn row(lab: &Lab, journey: &mut Journey, candidate: &Candidate, look: Option<&Look>) -> Row {
    let choice = candidate.choice;
    let outcome = journey
        .check(look.unwrap_or(&Look::default()))
        .and_then(|()| check_running(lab, candidate).map_err(|error| format!("{error:#}")));
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

/// Of an operator that succeeded, every Deployment has its replicas, and it has the cluster roles it asks for.
fn check_running(lab: &Lab, candidate: &Candidate) -> anyhow::Result<()> {
    let (Some(leg), Some(bundle)) = (candidate.legs.last(), candidate.bundles.last()) else {
        return Ok(());
    };
    let (kubectl, namespace) = (lab.kubectl(), candidate.choice.site);
    let roles = kubectl.get(&[
        "clusterrole",
        "-l",
        &format!("olm.owner={},olm.owner.namespace={namespace}", leg.csv),
    ])?;
    let roles = roles.map_or(0, |roles| list(&roles["items"]).len());
    if matches!(leg.expectation, Expectation::Subscription { .. }) {
        ensure!(
            roles == 0,
            "{roles} ClusterRoles were made although it is refused"
        );
    }
    if !leg.expectation.is_success() {
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
