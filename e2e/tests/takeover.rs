//! Takeover from upstream's OLM, and back: the commands of `docs/guides/move-from-upstream.md`, on a cluster with the recorded
//! state of upstream (`e2e::upstream`). Only its two programs are stand-ins.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, ensure};
use e2e::cluster::Scratch;
use e2e::guide::{self, Guide};
use e2e::lab::PATIENCE;
use e2e::phases::Phases;
use e2e::terminal::Terminal;
use e2e::trial::Trial;
use e2e::{plugin, upstream};
use serde_json::{Value, json};
use stand_in::Config;
use xtask::catalog::Opm;
use xtask::cluster::audit::{AuditEvent, AuditTail};
use xtask::cluster::{self, Cluster, UpOptions};
use xtask::kubectl::{Destination, text};
use xtask::oci_layout::{self, ImageConfig, LayerFile};
use xtask::progress::Progress;
use xtask::{images, workspace};

const GUIDE: &str = "docs/guides/move-from-upstream.md";
/// Registry of a reader. The cluster's registry answers for every name.
const REGISTRY: &str = "registry.example.com/olm";
/// Time without writes after which OLM is at rest; longer than any wait without a schedule.
const REST: Duration = Duration::from_secs(12);
/// Requests of OLM that change no user object: Leases are renewed, reviews are queries.
const NO_OBJECTS: [&str; 6] = [
    "events",
    "leases",
    "subjectaccessreviews",
    "localsubjectaccessreviews",
    "selfsubjectaccessreviews",
    "tokenreviews",
];

/// An object, as the audit log identifies it.
type Name = (String, String, String);

struct Stage {
    cluster: Scratch,
    kubectl: Destination,
    guide: String,
    terminal: Terminal,
    transcript: String,
    progress: Progress,
}

impl Stage {
    /// Creates a cluster in upstream's final state, and a terminal with the requirements of the guide.
    fn set() -> anyhow::Result<(Self, BTreeSet<Name>)> {
        let progress = Progress::start();
        let built = images::given_or_built(&progress)?;
        let scratch = Scratch::start("takeover", UpOptions::default())?;
        let kubectl = Destination::Embedded((*scratch).clone());
        built.push(&kubectl, &progress)?;
        let folder = workspace::root().join("target/e2e/takeover");
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;
        progress.stage("upstream's images and the catalog pushed", || {
            publish(&scratch, &built, &folder)
        })?;

        let home = folder.join("home");
        let tools = folder.join("tools");
        fs::create_dir_all(&home)?;
        fs::create_dir_all(&tools)?;
        symlink(plugin::program()?, tools.join("kubectl-operator"))?;
        symlink(cluster::helm(&progress)?, tools.join("helm"))?;
        symlink(workspace::root().join("charts"), home.join("charts"))?;
        fs::write(home.join("values.yaml"), values(&scratch)?.to_string())?;
        fs::write(
            home.join("upstream-olm.yaml"),
            upstream::installation().to_string(),
        )?;

        let made = progress.stage("what upstream left made", || {
            let definitions = olm_testing::shared::shared_path("golden/crds")
                .context("upstream's definitions are needed")?;
            for kind in [
                "catalogsources",
                "clusterserviceversions",
                "installplans",
                "olmconfigs",
                "operatorconditions",
                "operatorgroups",
                "operators",
                "subscriptions",
            ] {
                let file = definitions.join(format!("{kind}.yaml"));
                kubectl.run(&["create", "-f", &file.to_string_lossy()])?;
            }
            kubectl.run(&[
                "wait",
                "--for=condition=Established",
                "--timeout=240s",
                "crd",
                "--all",
            ])?;
            let file = home.join("upstream-olm.yaml");
            kubectl.run(&["apply", "-f", &file.to_string_lossy()])?;
            let made = upstream::replay(&kubectl)?;
            kubectl.run(&[
                "rollout",
                "status",
                "-n",
                "olm",
                "deployment/olm-operator",
                "deployment/catalog-operator",
                "--timeout=240s",
            ])?;
            Ok(made)
        })?;
        let mut terminal = Terminal::start(scratch.command("bash"), &home)?;
        terminal.run(&format!("export PATH=\"{}:$PATH\"\n", tools.display()), PATIENCE)?;
        let stage = Self {
            cluster: scratch,
            kubectl,
            guide: fs::read_to_string(workspace::root().join(GUIDE))?,
            terminal,
            transcript: String::new(),
            progress,
        };
        // Objects of the installation file have no status here, because upstream's programs do nothing.
        Ok((stage, made.iter().map(name_of).collect()))
    }

    /// Runs the part of the guide under this heading.
    fn follow(&mut self, heading: &str) -> anyhow::Result<()> {
        let part = part(&self.guide, heading)?;
        let progress = self.progress;
        let trial = progress.stage(&format!("guide: {heading}"), || {
            Ok(Trial::of(GUIDE, &part, &mut self.terminal, PATIENCE))
        })?;
        self.transcript.push_str(&trial.transcript);
        fs::write(
            workspace::root().join("target/e2e/guide-move-from-upstream.txt"),
            &self.transcript,
        )?;
        ensure!(
            trial.failures.is_empty(),
            "{} of {} commands are not as shown\n\n{}",
            trial.failures.len(),
            part.commands.len(),
            trial.failures.join("\n")
        );
        Ok(())
    }

    fn get(&self, kind: &str, namespace: &str, name: &str) -> anyhow::Result<Value> {
        let found = self.kubectl.get(&[kind, "-n", namespace, name])?;
        found.with_context(|| format!("{kind} {namespace}/{name} is not there"))
    }

    /// Returns the state that must not change: the pods of the operator, and the pod template of its Deployment.
    fn workload(&self) -> anyhow::Result<Value> {
        let pods = self
            .kubectl
            .get(&["pods", "-n", upstream::NAMESPACE])?
            .unwrap_or_default();
        let pods = pods["items"].as_array().into_iter().flatten();
        let pods: BTreeMap<&str, &Value> = pods
            .map(|pod| {
                (
                    text(pod, "/metadata/uid"),
                    &pod["status"]["containerStatuses"][0]["restartCount"],
                )
            })
            .collect();
        let deployment = self.get("deployment", upstream::NAMESPACE, "own")?;
        Ok(
            json!({"pods": pods, "generation": deployment["metadata"]["generation"], "spec": deployment["spec"]}),
        )
    }

    /// Checks the plan that waits for approval: its preview, that it is the only new one, and that the Subscription refers to it.
    fn waits(&self) -> anyhow::Result<()> {
        let plan = self.get("installplan", upstream::NAMESPACE, upstream::PLAN)?;
        let subscription = self.get("subscription", upstream::NAMESPACE, "own")?;
        let plans = self
            .kubectl
            .get(&["installplan", "-n", upstream::NAMESPACE])?
            .unwrap_or_default();
        ensure!(
            plan["spec"]["approved"] == false
                && text(&plan, "/status/phase") == "RequiresApproval"
                && text(&subscription, "/status/state") == "UpgradePending"
                && text(&subscription, "/status/installPlanRef/name") == upstream::PLAN,
            "the plan does not wait any more: {plan} {subscription}"
        );
        ensure!(
            plans["items"].as_array().map(Vec::len) == Some(2),
            "another plan was made: {plans}"
        );
        Ok(())
    }
}

/// Publishes the images of this OLM in a reader's registry, the image of upstream's programs, which do nothing, and the catalog.
fn publish(cluster: &Cluster, built: &images::Built, folder: &Path) -> anyhow::Result<()> {
    for image in &built.images {
        if let Some(name) = image.reference.strip_prefix("olm.local/") {
            cluster.load(&image.tar, &[format!("{REGISTRY}/{name}")])?;
        }
    }
    let config = folder.join("stand-in.json");
    fs::write(&config, serde_json::to_vec(&Config::default())?)?;
    let (program, config) = (built.stand_in_program(), config.as_path());
    let files = [
        ("bin/olm", program.as_path(), 0o755),
        ("bin/catalog", program.as_path(), 0o755),
        (stand_in::CONFIG_PATH.trim_start_matches('/'), config, 0o644),
    ];
    let files = files.map(|(path, source, mode)| LayerFile {
        path: path.to_owned(),
        source: source.to_owned(),
        mode,
    });
    let tar = folder.join("upstream.tar");
    oci_layout::write(&tar, &files, &ImageConfig::default())?;
    cluster.load(&tar, &[upstream::IMAGE.to_owned()])?;

    let opm = Opm::new(built.opm_program());
    let package = upstream::package(&folder.join("bundles"))?;
    for bundle in &package.bundles {
        let tar = bundle.folder.with_extension("tar");
        opm.bundle_image(bundle, &tar)?;
        cluster.load(&tar, std::slice::from_ref(&bundle.image))?;
    }
    let catalog = folder.join("catalog");
    opm.write_catalog(&[package], &catalog)?;
    let tar = folder.join("catalog.tar");
    opm.catalog_image(&catalog, &built.opm_image(), upstream::CATALOG_IMAGE, &tar)?;
    cluster.load(&tar, &[upstream::CATALOG_IMAGE.to_owned()])?;
    Ok(())
}

/// Returns the values of a user of this cluster: the registry, and the access to it.
fn values(cluster: &Cluster) -> anyhow::Result<Value> {
    let mut registries = BTreeMap::new();
    for entry in fs::read_dir(cluster.registry_config())? {
        let host = entry?.file_name().to_string_lossy().into_owned();
        if let Ok(text) = fs::read_to_string(cluster.registry_config().join(&host).join("hosts.toml")) {
            registries.insert(host, text);
        }
    }
    Ok(json!({"image": {"registry": REGISTRY}, "catalog": {"registryConfig": registries}}))
}

/// Returns the commands under one heading; lines count from the beginning of the guide.
fn part(text: &str, heading: &str) -> anyhow::Result<Guide> {
    let mark = format!("## {heading}");
    let mut is_inside = false;
    let lines: Vec<&str> = text
        .lines()
        .map(|line| {
            if line.starts_with("## ") {
                is_inside = line == mark;
            }
            if is_inside { line } else { "" }
        })
        .collect();
    let part = guide::read(&(lines.join("\n") + "\n")).map_err(|error| anyhow!("{GUIDE}: {error}"))?;
    ensure!(
        !part.commands.is_empty(),
        "{GUIDE} has no command under `{heading}`"
    );
    ensure!(
        part.not_run.is_empty(),
        "{GUIDE}: all of it can be run here: {:?}",
        part.not_run
    );
    Ok(part)
}

fn name_of(object: &Value) -> Name {
    let plural = format!("{}s", text(object, "/kind").to_lowercase());
    let of = |field: &str| text(object, field).to_owned();
    // A Namespace counts as its own namespace in the audit log.
    let namespace = match object["kind"].as_str() {
        Some("Namespace") => of("/metadata/name"),
        _ => of("/metadata/namespace"),
    };
    (plural, namespace, of("/metadata/name"))
}

/// Writes of OLM's accounts, by object.
#[derive(Debug, Default)]
struct Written(BTreeMap<Name, Vec<String>>);

impl Written {
    /// Reads the audit log until there was no write for [`REST`].
    fn until_rest(tail: &mut AuditTail, kubectl: &Destination) -> anyhow::Result<Self> {
        let mut written = Self::default();
        let mut last = Instant::now();
        kubectl.wait("OLM to write nothing", PATIENCE, |_| {
            let before = written.count();
            tail.read()?.iter().for_each(|event| written.note(event));
            if written.count() > before {
                last = Instant::now();
            }
            Ok(if last.elapsed() >= REST {
                Ok(())
            } else {
                Err(format!("{:?}", written.0.values().last()))
            })
        })?;
        Ok(written)
    }

    fn note(&mut self, event: &AuditEvent) {
        let Some(object) = event.object_ref.as_ref().filter(|_| event.is_write()) else {
            return;
        };
        if NO_OBJECTS.contains(&object.resource.as_str()) {
            return;
        }
        let name = (
            object.resource.clone(),
            object.namespace.clone(),
            object.name.clone(),
        );
        let what = format!("{} {} by {}", event.verb, object.subresource, event.user.username);
        self.0.entry(name).or_default().push(what);
    }

    fn count(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }
}

/// Returns the objects of `known` that were written more than once, except those that the guide mentions.
fn written_again<'a>(written: &'a Written, known: &BTreeSet<Name>) -> Vec<(&'a Name, &'a Vec<String>)> {
    // A catalog's pod is replaced, and its status reports that. The status of an Operator follows its components.
    let is_told = |(kind, namespace, name): &Name| {
        let is_catalog = kind == "catalogsources" && name == upstream::CATALOG;
        let is_of_catalog = is_catalog || kind == "pods" && name.starts_with(upstream::CATALOG);
        kind == "operators" || namespace == "olm" && is_of_catalog
    };
    let again = written.0.iter().filter(|(_, writes)| writes.len() > 1);
    again
        .filter(|(name, _)| known.contains(*name) && !is_told(name))
        .collect()
}

#[test]
fn what_upstream_runs_is_taken_over_given_back_and_upgraded() -> anyhow::Result<()> {
    let (mut stage, known) = Stage::set()?;
    let kubectl = stage.kubectl.clone();
    let csv = format!("{}/{}", upstream::NAMESPACE, upstream::FIRST);
    let before = stage.workload()?;
    ensure!(
        before["pods"].as_object().map(serde_json::Map::len) == Some(1),
        "{before}"
    );

    let phases = Phases::watch(&kubectl)?;
    let mut tail = AuditTail::of_olm(&stage.cluster.audit_log())?;
    stage.follow("Ask first")?;
    stage.follow("Swap")?;
    let written = Written::until_rest(&mut tail, &kubectl)?;
    println!("{} writes: {written:#?}", written.count());
    stage.follow("Look")?;
    phases.always_succeeded(&csv)?;
    assert_eq!(stage.workload()?, before);
    stage.waits()?;
    let again = written_again(&written, &known);
    ensure!(again.is_empty(), "written more than once: {again:#?}");
    let deployment = (
        "deployments".to_owned(),
        upstream::NAMESPACE.to_owned(),
        "own".to_owned(),
    );
    ensure!(
        written.0.contains_key(&deployment),
        "the Deployment was not taken over: {written:?}"
    );

    stage.follow("Back")?;
    thread::sleep(Duration::from_secs(3));
    tail.read()?;
    for name in ["olm-operator", "catalog-operator"] {
        let found = stage.get("deployment", "olm", name)?;
        ensure!(
            text(&found, "/spec/template/spec/containers/0/image") == upstream::IMAGE,
            "{found}"
        );
    }
    phases.always_succeeded(&csv)?;
    assert_eq!(stage.workload()?, before);
    stage.waits()?;

    // Upstream's programs did nothing in the meantime, so there is nothing to do here, either.
    stage.follow("Swap with Helm")?;
    let written = Written::until_rest(&mut tail, &kubectl)?;
    let ours: Vec<_> = written
        .0
        .iter()
        .filter(|(name, _)| name.1 == upstream::NAMESPACE)
        .collect();
    ensure!(ours.is_empty(), "written again: {ours:#?}");
    phases.always_succeeded(&csv)?;
    assert_eq!(stage.workload()?, before);
    stage.waits()?;

    stage.follow("Take away what is left of upstream")?;
    upgrade(&stage)?;

    // Finally back, from the installation by Helm.
    let upgraded = stage.workload()?;
    stage.follow("Back")?;
    stage.follow("Take away what is left of this OLM")?;
    assert_eq!(stage.workload()?, upgraded);
    nothing_of_ours_is_left(&stage)
}

/// Checks that of the chart's objects only those remain that upstream's installation has under the same name, or that belong to
/// users.
fn nothing_of_ours_is_left(stage: &Stage) -> anyhow::Result<()> {
    const OF_USERS: [&str; 3] = ["Namespace", "OLMConfig", "OperatorGroup"];
    // Upstream's own file, which the stand-ins lack, restores the last one.
    const OF_UPSTREAM: [&str; 5] = [
        "Deployment/olm-operator",
        "Deployment/catalog-operator",
        "ClusterRole/aggregate-olm-edit",
        "ClusterRole/aggregate-olm-view",
        "ClusterServiceVersion/packageserver",
    ];
    let releases = stage
        .kubectl
        .run(&["get", "secrets", "-A", "-l", "owner=helm", "-o", "name"])?;
    ensure!(releases.is_empty(), "Helm still knows: {releases}");
    let rendered = xtask::manifest::read_folder(&workspace::root().join("manifests/olm"))?;
    let mut looked_at = 0;
    for object in &rendered {
        let kind = text(object, "/kind");
        let name = text(object, "/metadata/name");
        if OF_USERS.contains(&kind) || OF_UPSTREAM.contains(&format!("{kind}/{name}").as_str()) {
            continue;
        }
        let namespace = match text(object, "/metadata/namespace") {
            "" => "default",
            namespace => namespace,
        };
        let found = stage.kubectl.get(&[kind, "-n", namespace, name])?;
        ensure!(found.is_none(), "{kind} {namespace}/{name} is left");
        looked_at += 1;
    }
    ensure!(looked_at > 15, "only {looked_at} objects were looked at");
    Ok(())
}

/// Approves the plan that upstream created; fields that the new version lacks are removed.
fn upgrade(stage: &Stage) -> anyhow::Result<()> {
    let approved = r#"{"spec":{"approved":true}}"#;
    stage.kubectl.run(&[
        "patch",
        "installplan",
        upstream::PLAN,
        "-n",
        upstream::NAMESPACE,
        "--type=merge",
        "-p",
        approved,
    ])?;
    stage.kubectl.wait("the upgrade", PATIENCE, |kubectl| {
        let csvs = kubectl
            .get(&["csv", "-n", upstream::NAMESPACE])?
            .unwrap_or_default();
        let csvs = csvs["items"].as_array().into_iter().flatten();
        let found: Vec<(&str, &str)> = csvs
            .map(|csv| (text(csv, "/metadata/name"), text(csv, "/status/phase")))
            .collect();
        Ok(if found == [(upstream::SECOND, "Succeeded")] {
            Ok(())
        } else {
            let plan = kubectl.get(&["installplan", "-n", upstream::NAMESPACE, upstream::PLAN])?;
            Err(format!("{found:?} {}", plan.unwrap_or_default()["status"]))
        })
    })?;
    stage.kubectl.run(&[
        "rollout",
        "status",
        "deployment/own",
        "-n",
        upstream::NAMESPACE,
        "--timeout=240s",
    ])?;
    let deployment = stage.get("deployment", upstream::NAMESPACE, "own")?;
    ensure!(
        deployment["spec"]["strategy"] == json!({"type": "Recreate"}),
        "{}",
        deployment["spec"]["strategy"]
    );
    let template = &deployment["spec"]["template"];
    let (label, variable) = upstream::DROPPED;
    let env = template["spec"]["containers"][0]["env"]
        .as_array()
        .context("no variables")?;
    ensure!(
        template["metadata"]["labels"][label].is_null() && env.iter().all(|entry| entry["name"] != variable),
        "what the new version does not have stayed: {template}"
    );
    ensure!(
        !env.is_empty() && text(template, "/spec/containers/0/image").ends_with(":1.1.0"),
        "{template}"
    );
    Ok(())
}
