//! Real operators from their own channels: what must come of each is derived from its bundle before the run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use e2e::corpus::bundle::{Bundle, list};
use e2e::corpus::catalog::Catalog;
use e2e::corpus::expectation::{Expectation, Surroundings, Targets, derive};
use e2e::corpus::journey::{Journey, Leg, Look};
use e2e::corpus::stand_in;
use e2e::corpus::table::{Row, Table};
use e2e::lab::{Lab, Namespace, catalog_source, operator_group, subscription};
use serde_json::{Value, json};
use xtask::catalog;
use xtask::kubectl::text;

/// A namespace of the test with its OperatorGroup. Operators that are approved by hand, or that must fail as a whole,
/// have one of their own: InstallPlans and resolution are shared within a namespace.
struct Site {
    name: &'static str,
    targets: Targets,
}

static SITES: [Site; 7] = [
    Site {
        name: "corpus-own",
        targets: Targets::Own,
    },
    Site {
        name: "corpus-all",
        targets: Targets::All,
    },
    Site {
        name: "corpus-camel-k",
        targets: Targets::OneOther,
    },
    Site {
        name: "corpus-keda",
        targets: Targets::All,
    },
    Site {
        name: "corpus-kiali",
        targets: Targets::Own,
    },
    Site {
        name: "corpus-windows",
        targets: Targets::Own,
    },
    Site {
        name: "corpus-build",
        targets: Targets::Own,
    },
];

/// A package that is installed from its default channel.
struct Choice {
    package: &'static str,
    site: &'static str,
    manual: bool,
    start: Option<&'static str>,
    /// Why it was chosen.
    why: &'static str,
}

const fn head(package: &'static str, site: &'static str, why: &'static str) -> Choice {
    Choice {
        package,
        site,
        manual: false,
        start: None,
        why,
    }
}

static CHOICES: [Choice; 17] = [
    Choice {
        package: "keda",
        site: "corpus-keda",
        manual: true,
        start: Some("keda.v2.1.0"),
        why: "two edges by hand; CRDs of 400 KiB; a ServiceAccount in the bundle and in its permissions",
    },
    Choice {
        package: "kiali",
        site: "corpus-kiali",
        manual: true,
        start: Some("kiali-operator.v1.34.0"),
        why: "two edges by hand; runs its image's entrypoint, without probes",
    },
    Choice {
        package: "camel-k",
        site: "corpus-camel-k",
        manual: false,
        start: Some("camel-k-operator.v1.4.0"),
        why: "two edges by themselves; for one other namespace; a command looked up in PATH; strategy Recreate",
    },
    head(
        "redis-operator",
        "corpus-own",
        "a fixed user, limits of memory, one CRD of 300 KiB",
    ),
    head("hive-operator", "corpus-own", "twenty CRDs"),
    head(
        "kubernetes-imagepuller-operator",
        "corpus-own",
        "no clusterPermissions; an empty minKubeVersion",
    ),
    head(
        "ibm-block-csi-operator-community",
        "corpus-own",
        "exec probes by a relative path; a required node affinity",
    ),
    head(
        "integrity-shield-operator",
        "corpus-own",
        "a ClusterRole in v1beta1; exec probes and hooks; a pull secret that is missing",
    ),
    head(
        "koku-metrics-operator",
        "corpus-own",
        "its image is pinned by digest",
    ),
    head("etcd", "corpus-own", "CRDs in v1beta1"),
    head(
        "sosreport-operator",
        "corpus-all",
        "two containers, one without command; ServiceAccount default; a Service",
    ),
    head(
        "mongodb-atlas-kubernetes",
        "corpus-all",
        "probes of a port that is not declared; null in its pod template",
    ),
    head(
        "devopsinabox",
        "corpus-all",
        "an entrypoint with arguments and probes",
    ),
    head(
        "varnish-operator",
        "corpus-all",
        "does not support all namespaces",
    ),
    head("cert-manager", "corpus-all", "webhooks"),
    head(
        "community-windows-machine-config-operator",
        "corpus-windows",
        "a ServiceMonitor, which the cluster does not serve",
    ),
    head(
        "buildv2-operator",
        "corpus-build",
        "needs an API that no operator of the catalog provides",
    ),
];

/// How long all of them together may take once their objects are created.
const PATIENCE: Duration = Duration::from_secs(300);
/// Time between two looks at the cluster.
const POLL: Duration = Duration::from_millis(1000);

/// A choice with all that was read of it.
struct Candidate {
    choice: &'static Choice,
    targets: Targets,
    folder: PathBuf,
    catalog: Catalog,
    bundles: Vec<Bundle>,
    legs: Vec<Leg>,
}

/// Reads the chosen packages of the corpus and derives what must come of them.
fn candidates(corpus: &Path, around: &Surroundings) -> anyhow::Result<Vec<Candidate>> {
    let mut catalogs = BTreeMap::new();
    for choice in &CHOICES {
        let file = corpus.join("fbc").join(choice.package).join("catalog.json");
        catalogs.insert(choice.package, Catalog::read(&file)?);
    }
    CHOICES
        .iter()
        .map(|choice| {
            let site = SITES
                .iter()
                .find(|site| site.name == choice.site)
                .context("a choice has no site")?;
            let neighbours = CHOICES.iter().filter(|other| other.site == choice.site);
            let provided = neighbours
                .flat_map(|other| catalogs[other.package].provided())
                .collect();
            let around = Surroundings {
                provided,
                ..around.clone()
            };
            candidate(
                corpus,
                choice,
                site.targets,
                catalogs[choice.package].clone(),
                &around,
            )
            .with_context(|| format!("package {}", choice.package))
        })
        .collect()
}

fn candidate(
    corpus: &Path,
    choice: &'static Choice,
    targets: Targets,
    catalog: Catalog,
    around: &Surroundings,
) -> anyhow::Result<Candidate> {
    let folder = corpus.join("bundles").join(choice.package);
    let (mut bundles, mut legs) = (Vec::new(), Vec::new());
    for csv in catalog.path(catalog.default_channel(), choice.start)? {
        let bundle = Bundle::read(&folder.join(&csv))?;
        ensure!(bundle.name() == csv, "the folder {csv} holds {}", bundle.name());
        let expectation = derive(&bundle, &catalog.required(&csv)?, targets, around)?;
        bundles.push(bundle);
        legs.push(Leg { csv, expectation });
    }
    let last = legs.len().saturating_sub(1);
    if let Some(leg) = legs[..last].iter().find(|leg| !leg.expectation.is_success()) {
        bail!("{} is not the last and must be {}", leg.csv, leg.expectation);
    }
    Ok(Candidate {
        choice,
        targets,
        folder,
        catalog,
        bundles,
        legs,
    })
}

/// What the issue promises of the choice.
fn check_choice(candidates: &[Candidate]) {
    let count =
        |holds: &dyn Fn(&Candidate) -> bool| candidates.iter().filter(|candidate| holds(candidate)).count();
    let goal = |candidate: &Candidate| {
        candidate
            .legs
            .last()
            .map(|leg| leg.expectation.to_string())
            .unwrap_or_default()
    };
    assert!(candidates.len() >= 10);
    assert!(count(&|candidate| goal(candidate) == "Succeeded/InstallSucceeded") >= 6);
    assert!(
        count(&|candidate| candidate.legs.len() > 2) >= 2,
        "two walk two or more edges"
    );
    assert!(count(&|candidate| candidate.choice.manual) >= 2);
    let has_permissions = |candidate: &Candidate| {
        candidate
            .bundles
            .iter()
            .any(|bundle| !bundle.permissions("clusterPermissions").is_empty())
    };
    let installed = |candidate: &Candidate| goal(candidate).starts_with("Succeeded");
    assert!(count(&|candidate| installed(candidate) && has_permissions(candidate)) >= 8);
    let pinned = |candidate: &Candidate| {
        candidate
            .bundles
            .iter()
            .any(|bundle| bundle.images().any(|image| image.contains('@')))
    };
    assert!(count(&|candidate| pinned(candidate) && goal(candidate) == "Installing/InstallWaiting") == 1);
    let outcomes: BTreeSet<String> = candidates.iter().map(goal).collect();
    assert_eq!(outcomes.len(), 7, "{outcomes:?}");
    assert!(
        candidates
            .iter()
            .all(|candidate| !candidate.choice.why.is_empty())
    );
}

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

/// Pushes stand-ins, bundle images under the names the catalog has for them, and one catalog for each site.
fn publish(lab: &Lab, corpus: &Path, candidates: &[Candidate]) -> anyhow::Result<()> {
    let folder = lab.folder("corpus")?;
    let program = xtask::images::stand_in_program();
    let mut work: Vec<Box<dyn FnOnce() -> anyhow::Result<()> + Send + '_>> = Vec::new();
    let stand_ins = stand_in::plan(candidates.iter().flat_map(|candidate| &candidate.bundles))?;
    for (number, (image, stand_in)) in stand_ins.into_iter().enumerate() {
        let (tar, program) = (folder.join(format!("stand-in-{number}.tar")), &program);
        work.push(Box::new(move || {
            stand_in.write(program, &tar)?;
            lab.cluster().load(&tar, &[image]).map(|_| ())
        }));
    }
    for candidate in candidates {
        for leg in &candidate.legs {
            let tar = folder.join(format!("{}.tar", leg.csv));
            let image = candidate.catalog.image(&leg.csv)?.to_owned();
            work.push(Box::new(move || {
                let bundle = catalog::Bundle {
                    folder: candidate.folder.join(&leg.csv),
                    image,
                };
                lab.opm().bundle_image(&bundle, &tar)?;
                lab.cluster()
                    .load(&tar, std::slice::from_ref(&bundle.image))
                    .map(|_| ())
            }));
        }
    }
    for site in &SITES {
        let (home, tar) = (folder.join(site.name), folder.join(format!("{}.tar", site.name)));
        work.push(Box::new(move || publish_catalog(lab, corpus, site, &home, &tar)));
    }
    in_parallel(work)
}

/// The packages of a site as the corpus has them, in one catalog image.
fn publish_catalog(lab: &Lab, corpus: &Path, site: &Site, home: &Path, tar: &Path) -> anyhow::Result<()> {
    for choice in CHOICES.iter().filter(|choice| choice.site == site.name) {
        let package = home.join(choice.package);
        std::fs::create_dir_all(&package)?;
        let file = corpus.join("fbc").join(choice.package).join("catalog.json");
        std::fs::copy(&file, package.join("catalog.json"))
            .with_context(|| format!("cannot copy {}", file.display()))?;
    }
    let image = catalog_image(site.name);
    lab.opm()
        .run(&["validate", home.to_str().context("the path is not UTF-8")?])?;
    lab.opm().catalog_image(home, lab.opm_image(), &image, tar)?;
    lab.cluster().load(tar, &[image]).map(|_| ())
}

fn catalog_image(site: &str) -> String {
    format!("olm.local/corpus/{site}:latest")
}

/// Does all the work on two threads.
fn in_parallel(work: Vec<Box<dyn FnOnce() -> anyhow::Result<()> + Send + '_>>) -> anyhow::Result<()> {
    let queue = Mutex::new(work);
    let next = || queue.lock().ok().and_then(|mut queue| queue.pop());
    let run = || -> anyhow::Result<()> {
        while let Some(work) = next() {
            work()?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads = [scope.spawn(run), scope.spawn(run)];
        threads.into_iter().try_for_each(|thread| {
            thread
                .join()
                .unwrap_or_else(|_| bail!("publishing an image panicked"))
        })
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
