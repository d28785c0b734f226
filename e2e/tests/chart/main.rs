//! The chart on a cluster: installed, upgraded, uninstalled and installed again by helm; and the single file for `kubectl apply`.
//! The tests run the commands of `docs/guides/install-olm.md` and `docs/guides/upgrade-olm.md`.

mod adoption;
mod catalogs;
mod extensions;
mod figures;
mod metrics;
mod one_file;
mod openshift;
mod prometheus;
mod reach;
mod removal;

use std::process::Command;

use anyhow::{Context as _, ensure};
use e2e::cluster::Scratch;
use e2e::demo::{FIRST, SECOND, greet};
use e2e::helm::{Helm, output, values};
use e2e::lab::{Lab, PATIENCE, catalog_source, subscription};
use serde_json::{Value, json};
use xtask::cluster::{self, Cluster, UpOptions};
use xtask::demo::PACKAGE;
use xtask::deploy::v1::with_v1;
use xtask::kubectl::{Destination, text};
use xtask::progress::Progress;
use xtask::{chart, deploy, images};

use crate::adoption::a_subscription_becomes_a_cluster_extension;
use crate::catalogs::a_cluster_catalog_is_served;
use crate::extensions::a_cluster_extension_is_installed_and_upgraded;
use crate::figures::{olm_at_rest_costs_about_what_it_should, olm_v1_costs_about_what_it_should};
use crate::metrics::{METRICS_SECRET, metrics_are_served_to_whom_the_cluster_lets_read_them, metrics_secret};
use crate::prometheus::prometheus_reads_all_and_evaluates_every_alert;
use crate::reach::{package_server_serves_as_its_service_monitor_says, the_api_server_is_not_cut_off};
use crate::removal::{nothing_is_left, of_helm, uninstalled};

/// Name of the APIService of `package-server`, used by discovery of the whole cluster.
const API_SERVICE: &str = "v1.packages.operators.coreos.com";
/// Namespaces of OLM and of operators for all namespaces.
const OLM: &str = "olm";
const OPERATORS: &str = "operators";
/// Timeout of `helm`.
const TIMEOUT: &str = "--timeout=8m";
/// Timeout of `kubectl wait` and `kubectl delete`: on a busy machine the API server checks APIServices and deletes namespaces
/// minutes late.
const KUBECTL_TIMEOUT: &str = "--timeout=240s";

#[test]
fn helm_finds_no_fault_with_the_chart() -> anyhow::Result<()> {
    let helm = cluster::helm(&Progress::start())?;
    output(Command::new(helm).args(["lint", "--strict"]).arg(chart::folder()))?;
    Ok(())
}

/// OLM with the chart's default values except for images, and an operator for all namespaces.
struct Release {
    helm: Helm,
    kubectl: Destination,
    built: images::Built,
    progress: Progress,
    folder: String,
    values: String,
}

impl Release {
    fn new(cluster: &Cluster) -> anyhow::Result<Self> {
        let progress = Progress::start();
        let built = images::given_or_built(&progress)?;
        let kubectl = Destination::Embedded(cluster.clone());
        built.push(&kubectl, &progress)?;
        let helm = Helm::new(cluster.clone())?;
        let values = values(cluster, &built, helm.home.path())?;
        Ok(Self {
            helm,
            kubectl,
            built,
            progress,
            folder: chart::folder().to_string_lossy().into_owned(),
            values: values.to_string_lossy().into_owned(),
        })
    }

    fn install(&self, more: &[&str]) -> anyhow::Result<()> {
        let install = [
            "install",
            "olm",
            &self.folder,
            "-f",
            &self.values,
            "--wait",
            TIMEOUT,
        ];
        self.helm.run(&[&install[..], more].concat())?;
        self.ready()
    }

    fn upgrade(&self, more: &[&str]) -> anyhow::Result<()> {
        let upgrade = [
            "upgrade",
            "olm",
            &self.folder,
            "--reset-then-reuse-values",
            "--wait",
            TIMEOUT,
        ];
        self.helm.run(&[&upgrade[..], more].concat())?;
        Ok(())
    }

    fn uninstall(&self) -> anyhow::Result<()> {
        self.helm.run(&["uninstall", "olm", "--wait", TIMEOUT])?;
        uninstalled(&self.kubectl)
    }

    fn ready(&self) -> anyhow::Result<()> {
        deploy::wait_until_ready(&self.kubectl, &self.built, &self.progress)
    }

    fn get(&self, kind: &str, namespace: &str, name: &str) -> anyhow::Result<Value> {
        let found = self.kubectl.get(&[kind, "-n", namespace, name])?;
        found.with_context(|| format!("{kind} {namespace}/{name} is not there"))
    }

    /// Returns its ClusterServiceVersion once it has succeeded.
    fn operator(&self) -> anyhow::Result<Value> {
        self.kubectl.wait("the operator to succeed", PATIENCE, |kubectl| {
            let found = kubectl
                .get(&["csv", "-n", OPERATORS, SECOND])?
                .unwrap_or_default();
            Ok(match text(&found, "/status/phase") {
                "Succeeded" => Ok(found),
                _ => Err(found["status"].to_string()),
            })
        })
    }
}

/// Creates a Subscription and a catalog in the chart's namespaces for global operators and global catalogs.
fn subscribe(kubectl: &Destination, catalog: &str) -> anyhow::Result<()> {
    let mut source = catalog_source("catalog", catalog);
    source["metadata"]["namespace"] = json!(OLM);
    let mut wanted = subscription("demo", PACKAGE, "stable", "catalog", OLM);
    wanted["metadata"]["namespace"] = json!(OPERATORS);
    // The older release, which will be upgraded.
    wanted["spec"]["startingCSV"] = json!(FIRST);
    kubectl.apply(&[source, wanted])
}

#[test]
fn arch_002_met_001_ocp_001_ocp_005_ocp_006_the_chart_is_installed_upgraded_and_uninstalled()
-> anyhow::Result<()> {
    let scratch = Scratch::start("chart", UpOptions::default())?;
    let release = Release::new(&scratch)?;
    let kubectl = &release.kubectl;

    release.install(&[])?;
    let restricted = "/metadata/labels/pod-security.kubernetes.io~1enforce";
    let namespace = kubectl.get(&["namespace", OLM])?.unwrap_or_default();
    ensure!(text(&namespace, restricted) == "restricted", "{namespace}");
    release.get("networkpolicy", OLM, "default-deny-all-traffic")?;
    package_server_serves_as_its_service_monitor_says(
        &release,
        "packageserver-service-cert",
        "olmCAKey",
        None,
    )?;
    the_api_server_is_not_cut_off(&release)?;
    let lab = Lab::of((*scratch).clone(), &release.built);
    let greetings = lab.namespace("greetings")?;
    subscribe(kubectl, lab.demo_catalog()?)?;
    let installed = release.operator()?;
    greet(&greetings, "1.1.0")?;
    // Users who may edit in a namespace may use installed operators.
    kubectl.run(&[
        "create",
        "rolebinding",
        "ada",
        "-n",
        "greetings",
        "--clusterrole=edit",
        "--user=ada",
    ])?;
    let question = [
        "create",
        "greetings.demo.example.com",
        "-n",
        "greetings",
        "--as=ada",
    ];
    kubectl.wait("ada to be let", PATIENCE, |kubectl| {
        Ok(if kubectl.can_i(&question)? {
            Ok(())
        } else {
            Err("no".to_owned())
        })
    })?;

    // Upgrade: changed values reach each program, and the operator is not changed.
    let refused = release.upgrade(&["--set", "olm.replicas=1"]);
    let refused = format!("{:#}", refused.expect_err("an unknown value"));
    ensure!(
        refused.contains("additional properties 'replicas' not allowed"),
        "{refused}"
    );
    let subscribes = |user: &str, may: bool| {
        let asked = [
            "create",
            "subscriptions.operators.coreos.com",
            "-n",
            "greetings",
            "--as",
            user,
        ];
        kubectl.wait(&format!("{user} to subscribe: {may}"), PATIENCE, |kubectl| {
            Ok((kubectl.can_i(&asked)? == may)
                .then_some(())
                .ok_or_else(|| (!may).to_string()))
        })
    };
    subscribes("ada", true)?;
    release.upgrade(&["--set", "debug=true", "--set-json", "subscribers=[]"])?;
    // From here on only users with an explicit binding may subscribe.
    subscribes("ada", false)?;
    let bound = ["--clusterrole=aggregate-olm-edit", "--user=sue"];
    kubectl.run(&[&["create", "rolebinding", "sue", "-n", "greetings"], &bound[..]].concat())?;
    subscribes("sue", true)?;
    for (name, line) in [
        (deploy::OPERATORS[0], "args"),
        (deploy::OPERATORS[1], "args"),
        (deploy::PACKAGE_SERVER, "command"),
    ] {
        kubectl.wait(&format!("{name} with --debug"), PATIENCE, |_| {
            let found = release.get("deployment", OLM, name)?;
            let line = &found["spec"]["template"]["spec"]["containers"][0][line];
            let words = line.as_array().map(Vec::as_slice).unwrap_or_default();
            Ok(if words.contains(&json!("--debug")) {
                Ok(())
            } else {
                Err(line.to_string())
            })
        })?;
    }
    release.ready()?;
    let status = release.helm.run(&["status", "olm"])?;
    ensure!(
        status.contains("STATUS: deployed") && status.contains("REVISION: 2"),
        "{status}"
    );
    let uid = |object: &Value| text(object, "/metadata/uid").to_owned();
    ensure!(uid(&release.operator()?) == uid(&installed), "it was made anew");

    openshift::reports(&release)?;

    // Uninstall: no program of OLM runs, all user objects exist, and the cluster's discovery works.
    ensure!(of_helm(kubectl)?.len() > 20, "{:?}", of_helm(kubectl)?);
    release.uninstall()?;
    for (kind, namespace, name) in [
        ("subscription", OPERATORS, "demo"),
        ("csv", OPERATORS, SECOND),
        ("deployment", OPERATORS, "demo-operator"),
        ("catalogsource", OLM, "catalog"),
        ("greetings.demo.example.com", "greetings", "ada"),
    ] {
        let found = release.get(kind, namespace, name)?;
        ensure!(
            found["metadata"]["deletionTimestamp"].is_null(),
            "{kind} {name} is on its way out"
        );
    }

    // The same command again, with the other kind of package server: OLM manages the operator as before.
    let authority = metrics_secret(kubectl)?;
    let secured = format!("olm.tlsSecret={METRICS_SECRET},catalog.tlsSecret={METRICS_SECRET}");
    let v1 = with_v1(&scratch, kubectl)?;
    let as_deployment = ["--set", "package.installedAs=Deployment", "--set", &secured];
    let values = [&as_deployment[..], &v1[..]].concat();
    release.install(&values)?;
    let scraper = metrics_are_served_to_whom_the_cluster_lets_read_them(&release, &authority)?;
    prometheus_reads_all_and_evaluates_every_alert(&release, &values, &scraper)?;
    a_cluster_catalog_is_served(kubectl, lab.demo_catalog()?)?;
    a_cluster_extension_is_installed_and_upgraded(&lab)?;
    a_subscription_becomes_a_cluster_extension(&lab)?;
    olm_v1_costs_about_what_it_should(&lab)?;
    kubectl.run(&["delete", "deployment", "demo-operator", "-n", OPERATORS])?;
    kubectl.wait("the Deployment to be back", PATIENCE, |kubectl| {
        let found = kubectl.get(&["deployment", "-n", OPERATORS, "demo-operator"])?;
        let status = found.map(|found| found["status"].clone()).unwrap_or_default();
        Ok(if status["availableReplicas"] == 1 {
            Ok(())
        } else {
            Err(status.to_string())
        })
    })?;
    ensure!(uid(&release.operator()?) == uid(&installed), "it was made anew");
    kubectl.run(&[
        "wait",
        "--for=condition=Available",
        KUBECTL_TIMEOUT,
        "apiservice",
        API_SERVICE,
    ])?;
    greetings.wait_for("packagemanifest", PACKAGE, "to be offered", |_| true)?;
    let certificate = || release.get("secret", OLM, "packageserver-serving-cert");
    let made = certificate()?["data"].clone();
    release.upgrade(&[])?;
    ensure!(
        certificate()?["data"] == made,
        "an upgrade made another certificate"
    );
    olm_at_rest_costs_about_what_it_should(&lab)?;
    nothing_is_left(&release)
}

/// A process that was started without an election writes without checking the Lease. So nothing may run beside it, and its
/// replacement has the flag.
#[test]
fn operators_roll_once_all_that_run_elect_one() -> anyhow::Result<()> {
    let scratch = Scratch::start("chart-replicas", UpOptions { no_node: true })?;
    let helm = Helm::new((*scratch).clone())?;
    let kubectl = Destination::Embedded((*scratch).clone());
    let folder = chart::folder().to_string_lossy().into_owned();
    let shape = || -> anyhow::Result<Vec<(String, bool)>> {
        deploy::OPERATORS
            .into_iter()
            .map(|name| {
                let found = kubectl.get(&["deployment", "-n", OLM, name])?.unwrap_or_default();
                let args = &found["spec"]["template"]["spec"]["containers"][0]["args"];
                let args = args.as_array().context("no arguments")?;
                Ok((
                    text(&found, "/spec/strategy/type").to_owned(),
                    args.contains(&json!("--leader-elect")),
                ))
            })
            .collect()
    };
    let all = |strategy: &str, elects: bool| vec![(strategy.to_owned(), elects); 2];
    helm.run(&["install", "olm", &folder])?;
    assert_eq!(shape()?, all("RollingUpdate", true));
    let upgrade = ["upgrade", "olm", &folder, "--reset-then-reuse-values"];
    for name in deploy::OPERATORS {
        let without = r#"[{"op": "replace", "path": "/spec/template/spec/containers/0/args", "value": ["--namespace=olm"]}]"#;
        kubectl.run(&[
            "patch",
            "deployment",
            name,
            "-n",
            OLM,
            "--type=json",
            "-p",
            without,
        ])?;
    }
    assert_eq!(shape()?, all("RollingUpdate", false));
    helm.run(&upgrade)?;
    assert_eq!(shape()?, all("Recreate", true));
    helm.run(&upgrade)?;
    assert_eq!(shape()?, all("RollingUpdate", true));
    Ok(())
}
