//! Metrics of an installed OLM: access to them, and their format.

use std::process::Command;

use anyhow::ensure;
use e2e::lab::PATIENCE;
use serde_json::json;
use xtask::kubectl::Destination;
use xtask::progress::Progress;
use xtask::{cluster, deploy};

use crate::reach::{address_of, package_server_serves_as_its_service_monitor_says};
use crate::{OLM, OPERATORS, Release, output};

/// The Secret with the certificate for metrics.
pub const METRICS_SECRET: &str = "metrics-tls";
/// Metrics with upstream's names, which Prometheus' linter complains about.
const NAMED_BY_UPSTREAM: [&str; 5] = [
    "csv_count",
    "csv_upgrade_count",
    "catalog_source_count",
    "install_plan_count",
    "subscription_count",
];

/// Creates the Secret for both Services, and returns the certificate as PEM.
pub fn metrics_secret(kubectl: &Destination) -> anyhow::Result<String> {
    let hosts = deploy::OPERATORS.map(|name| format!("{name}-metrics.{OLM}.svc"));
    let made = rcgen::generate_simple_self_signed(hosts)?;
    let certificate = made.cert.pem();
    kubectl.apply(&[json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
        "metadata": {"name": METRICS_SECRET, "namespace": OLM},
        "stringData": {"tls.crt": certificate, "tls.key": made.signing_key.serialize_pem(), "ca.crt": certificate},
    })])?;
    Ok(certificate)
}

/// MET-001: metrics over TLS only for an account that is bound to the chart's ClusterRole; health for everybody. Returns the token of
/// that account.
pub fn metrics_are_served_to_whom_the_cluster_lets_read_them(
    release: &Release,
    authority: &str,
) -> anyhow::Result<String> {
    let kubectl = &release.kubectl;
    for account in ["scraper", "eve"] {
        kubectl.run(&["create", "serviceaccount", account, "-n", OPERATORS])?;
    }
    let scraper = format!("--serviceaccount={OPERATORS}:scraper");
    let role = "--clusterrole=operator-lifecycle-manager-metrics-reader";
    kubectl.run(&["create", "clusterrolebinding", "scraper", role, &scraper])?;
    let token = |account| kubectl.run(&["create", "token", account, "-n", OPERATORS]);
    let (scraper, eve) = (token("scraper")?, token("eve")?);
    package_server_serves_as_its_service_monitor_says(
        release,
        "packageserver-serving-cert",
        "ca.crt",
        Some((&scraper, &eve)),
    )?;
    let ca = release.helm.home.path().join("ca.crt");
    std::fs::write(&ca, authority)?;
    for name in deploy::OPERATORS {
        let address = address_of(kubectl, name)?;
        let host = format!("{name}-metrics.{OLM}.svc");
        // Returns the answer, followed by its code.
        let ask = |path: &str, token: &str| -> anyhow::Result<String> {
            let mut curl = release.helm.cluster.command("curl");
            curl.args(["--silent", "--show-error", "--max-time", "20", "--cacert"]);
            curl.arg(&ca).args(["--write-out", "%{http_code}"]);
            curl.args(["--connect-to", &format!("{host}:8443:{address}:8443")]);
            curl.args(["--header", &format!("Authorization: Bearer {}", token.trim())]);
            output(curl.arg(format!("https://{host}:8443{path}")))
        };
        // A request may arrive before the binding has reached the authorizer.
        let page = kubectl.wait("metrics to be served", PATIENCE, |_| {
            Ok(ask("/metrics", &scraper)
                .map_err(|error| format!("{error:#}"))
                .and_then(|told| told.strip_suffix("200").map(str::to_owned).ok_or(told)))
        })?;
        ensure!(page.contains("\nrest_client_requests_total{"), "{page}");
        assert_eq!(ask("/metrics", "forged")?, "Unauthorized\n401", "{name}");
        let refused = ask("/metrics", &eve)?;
        ensure!(refused.ends_with(":eve\n403"), "{refused}");
        assert_eq!(ask("/healthz", "")?, "ok\n200", "{name}");
        let plain = format!("http://{address}:8080/metrics");
        let mut curl = release.helm.cluster.command("curl");
        let plain = output(curl.args(["--silent", "--max-time", "20", &plain]))?;
        ensure!(plain.starts_with("metrics are only served over TLS"), "{plain}");
        is_as_prometheus_likes_it(&page)?;
    }
    Ok(scraper)
}

/// Checks that Prometheus' linter complains only about upstream's names.
fn is_as_prometheus_likes_it(page: &str) -> anyhow::Result<()> {
    let program = cluster::alerts(&Progress::start())?;
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), page)?;
    let mut lint = Command::new(program);
    let linted = lint
        .arg("metrics")
        .stdin(std::fs::File::open(file.path())?)
        .output()?;
    let told = String::from_utf8_lossy(&linted.stdout);
    let ours = told.lines().find(|line| {
        let metric = line.split(':').next().unwrap_or_default();
        !NAMED_BY_UPSTREAM.contains(&metric)
    });
    ensure!(ours.is_none(), "{told}");
    Ok(())
}
