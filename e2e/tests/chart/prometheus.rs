//! A Prometheus that reads the metrics of every program as the chart's ServiceMonitors say, and evaluates the chart's alerts.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};

use anyhow::{Context as _, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use e2e::debian::ensure_installed;
use e2e::lab::PATIENCE;
use olm_fbc::yaml;
use serde_json::{Value, json};
use xtask::kubectl::text;

use crate::{OLM, Release, output};

/// Where Prometheus listens, inside the cluster's network.
const ADDRESS: &str = "127.0.0.1:9099";
/// Alerts that fire where the metrics which they ask for are not there.
const SILENT: [&str; 3] = ["OlmMetricsAbsent", "OlmPackagesNotServed", "OlmNoLeader"];

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Checks that a Prometheus with `token` reads all programs of a release that was installed with `values`, that it evaluates each
/// alert, and that the metrics which the alerts ask for are there.
pub fn prometheus_reads_all_and_evaluates_every_alert(
    release: &Release,
    values: &[&str],
    token: &str,
) -> anyhow::Result<()> {
    ensure_installed("prometheus", &["prometheus"])?;
    let folder = tempfile::tempdir()?;
    let rendered = release.helm.run(
        &[
            &[
                "template",
                "olm",
                &release.folder,
                "-f",
                &release.values,
                "--set",
                "monitoring.enabled=true",
                "--kube-version",
                "1.34.0",
            ],
            values,
        ]
        .concat(),
    )?;
    let objects = yaml::parse_all(rendered.as_bytes())?;
    let of_kind = |kind: &'static str| objects.iter().filter(move |object| object["kind"] == kind);
    let services: Vec<&Value> = of_kind("Service").collect();
    let mut jobs = Vec::new();
    for monitor in of_kind("ServiceMonitor") {
        jobs.push(job(release, &services, monitor, token, folder.path())?);
    }
    ensure!(jobs.len() == 5, "{} programs have a ServiceMonitor", jobs.len());
    let rules = of_kind("PrometheusRule").next().context("no PrometheusRule")?;
    let alerts: BTreeSet<&str> = rules["spec"]["groups"]
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(|group| group["rules"].as_array().into_iter().flatten())
        .filter_map(|rule| rule["alert"].as_str())
        .collect();
    fs::write(folder.path().join("rules.yaml"), rules["spec"].to_string())?;
    let configuration = json!({
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": ["rules.yaml"],
        "scrape_configs": jobs,
    });
    fs::write(folder.path().join("prometheus.yaml"), configuration.to_string())?;
    let _process = started(release, folder.path())?;

    let ask = |path: &str| -> anyhow::Result<Value> {
        let mut curl = release.helm.cluster.command("curl");
        let url = format!("http://{ADDRESS}/api/v1/{path}");
        let answer = output(curl.args(["--silent", "--show-error", "--max-time", "20", &url]))?;
        serde_json::from_str(&answer).with_context(|| answer.clone())
    };
    release
        .kubectl
        .wait("Prometheus to read all programs", PATIENCE, |_| {
            let Ok(answer) = ask("targets?state=active") else {
                return Ok(Err("Prometheus does not answer".to_owned()));
            };
            let targets = list(&answer, "/data/activeTargets");
            let down: Vec<String> = targets
                .iter()
                .filter(|target| target["health"] != "up")
                .map(|target| format!("{}: {}", target["scrapePool"], target["lastError"]))
                .collect();
            Ok(if targets.len() >= jobs.len() && down.is_empty() {
                Ok(())
            } else {
                Err(format!("{} targets; {}", targets.len(), down.join("; ")))
            })
        })?;
    release.kubectl.wait("each alert to be evaluated", PATIENCE, |_| {
        let answer = ask("rules")?;
        let groups = list(&answer, "/data/groups");
        let found: Vec<&Value> = groups.iter().flat_map(|group| list(group, "/rules")).collect();
        let good: BTreeSet<&str> = found
            .iter()
            .filter(|rule| rule["health"] == "ok")
            .filter_map(|rule| rule["name"].as_str())
            .filter(|name| {
                let state = found.iter().find(|rule| rule["name"] == **name);
                !SILENT.contains(name) || state.is_some_and(|rule| rule["state"] == "inactive")
            })
            .collect();
        Ok(if good == alerts {
            Ok(())
        } else {
            let open: Vec<&&str> = alerts.difference(&good).collect();
            Err(format!("{open:?}"))
        })
    })
}

fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value
        .pointer(pointer)
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}

/// Returns the configuration that Prometheus' operator would make of a ServiceMonitor, with its certificate and the token as files
/// in `folder`.
fn job(
    release: &Release,
    services: &[&Value],
    monitor: &Value,
    token: &str,
    folder: &Path,
) -> anyhow::Result<Value> {
    let endpoint = &monitor["spec"]["endpoints"][0];
    let labels = monitor["spec"]["selector"]["matchLabels"]
        .as_object()
        .context("no labels")?;
    let port = |service: &Value| {
        let ports = list(service, "/spec/ports");
        ports
            .iter()
            .find(|port| port["name"] == endpoint["port"])
            .cloned()
    };
    let (service, port) = services
        .iter()
        .filter(|service| {
            labels
                .iter()
                .all(|(key, value)| service["metadata"]["labels"].get(key) == Some(value))
        })
        .find_map(|service| Some((service, port(service)?)))
        .with_context(|| format!("no Service for {monitor}"))?;
    let name = text(service, "/metadata/name");
    let addresses = addresses(release, service, &port["targetPort"])?;
    ensure!(!addresses.is_empty(), "{name} has no pod");
    let mut job = json!({
        "job_name": name, "honor_labels": true, "scheme": endpoint["scheme"], "static_configs": [{"targets": addresses}],
    });
    if endpoint["scheme"] == "https" {
        let secret = &endpoint["tlsConfig"]["ca"]["secret"];
        let key = text(secret, "/key");
        let found = release.get("secret", OLM, text(secret, "/name"))?;
        let authority = found["data"][key].as_str().with_context(|| format!("no {key}"))?;
        let file = format!("{name}.crt");
        fs::write(folder.join(&file), STANDARD.decode(authority)?)?;
        job["tls_config"] = json!({"ca_file": file, "server_name": endpoint["tlsConfig"]["serverName"]});
        fs::write(folder.join("token"), token.trim())?;
        job["authorization"] = json!({"credentials_file": "token"});
    }
    Ok(job)
}

/// Returns the addresses of a Service's pods, with the port that it leads to.
fn addresses(release: &Release, service: &Value, target: &Value) -> anyhow::Result<Vec<String>> {
    let selector = service["spec"]["selector"].as_object().context("no selector")?;
    let selector: Vec<String> = selector
        .iter()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    let found = release
        .kubectl
        .get(&["pods", "-n", OLM, "-l", &selector.join(",")])?
        .unwrap_or_default();
    let mut addresses = Vec::new();
    for pod in list(&found, "/items") {
        let address = text(pod, "/status/podIP");
        let port = list(pod, "/spec/containers")
            .iter()
            .flat_map(|container| list(container, "/ports"))
            .find(|port| port["name"] == *target)
            .map_or(target, |port| &port["containerPort"]);
        if pod["metadata"]["deletionTimestamp"].is_null() && !address.is_empty() {
            addresses.push(format!("{address}:{port}"));
        }
    }
    Ok(addresses)
}

fn started(release: &Release, folder: &Path) -> anyhow::Result<Running> {
    let mut command = release.helm.cluster.command("prometheus");
    command
        .arg("--config.file=prometheus.yaml")
        .arg("--storage.tsdb.path=data")
        .arg(format!("--web.listen-address={ADDRESS}"))
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    Ok(Running(command.spawn().context("cannot start prometheus")?))
}
