//! Connections: from Prometheus to package-server, as the chart configures it, and from OLM to the API server.

use anyhow::{Context as _, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use e2e::lab::PATIENCE;
use serde_json::{Value, json};
use xtask::kubectl::{Destination, text};

use crate::{OLM, Release, output};

/// Checks access by the name and authority in the ServiceMonitor: health, and metrics only for the account that may read them.
pub fn package_server_serves_as_its_service_monitor_says(
    release: &Release,
    secret: &str,
    key: &str,
    accounts: Option<(&str, &str)>,
) -> anyhow::Result<()> {
    let kubectl = &release.kubectl;
    let found = release.get("secret", OLM, secret)?;
    let authority = found["data"][key]
        .as_str()
        .with_context(|| format!("{secret} has no {key}"))?;
    let ca = release.helm.home.path().join("package-server.crt");
    std::fs::write(&ca, STANDARD.decode(authority)?)?;
    let host = format!("packageserver-service.{OLM}.svc");
    let ask = |path: &str, token: &str| -> anyhow::Result<String> {
        let address = address_of(kubectl, "packageserver")?;
        let mut curl = release.helm.cluster.command("curl");
        curl.args(["--silent", "--show-error", "--max-time", "20", "--cacert"]);
        curl.arg(&ca).args(["--write-out", "%{http_code}"]);
        curl.args(["--connect-to", &format!("{host}:5443:{address}:5443")]);
        if !token.is_empty() {
            curl.args(["--header", &format!("Authorization: Bearer {}", token.trim())]);
        }
        output(curl.arg(format!("https://{host}:5443{path}")))
    };
    let health = kubectl.wait("package-server to answer", PATIENCE, |_| {
        Ok(ask("/healthz", "").map_err(|error| format!("{error:#}")))
    })?;
    assert_eq!(health, "ok200");
    let Some((scraper, eve)) = accounts else {
        return Ok(());
    };
    // The binding may not have reached the authorizer yet.
    let page = kubectl.wait("metrics to be served", PATIENCE, |_| {
        Ok(ask("/metrics", scraper)
            .map_err(|error| format!("{error:#}"))
            .and_then(|told| told.strip_suffix("200").map(str::to_owned).ok_or(told)))
    })?;
    ensure!(page.contains("\nolm_package_server_requests_total{"), "{page}");
    let refused = ask("/metrics", eve)?;
    ensure!(refused.ends_with("403"), "{refused}");
    Ok(())
}

/// Returns the address of a pod of `app` that is not terminating.
///
/// # Errors
/// If there is none.
pub fn address_of(kubectl: &Destination, app: &str) -> anyhow::Result<String> {
    let pods = kubectl
        .get(&["pods", "-n", OLM, "-l", &format!("app={app}")])?
        .unwrap_or_default();
    let pods = pods["items"].as_array().into_iter().flatten();
    let mut staying = pods.filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
    let address =
        staying.find_map(|pod| Some(text(pod, "/status/podIP")).filter(|address| !address.is_empty()));
    Ok(address
        .with_context(|| format!("no pod of {app} has an address"))?
        .to_owned())
}

/// Checks that a policy without the API server's port is rejected with a message that names the port, and accepted with it.
pub fn the_api_server_is_not_cut_off(release: &Release) -> anyhow::Result<()> {
    let found = release.get("endpointslice", "default", "kubernetes")?;
    let port = &found["ports"][0]["port"];
    let narrowed = |ports: Value| {
        let rule = format!("networkPolicy.kubeAPIServer={}", json!({"ports": ports}));
        release.upgrade(&["--dry-run=server", "--set-json", &rule])
    };
    let refused = format!(
        "{:#}",
        narrowed(json!([{"port": 1}])).expect_err("the API server is cut off")
    );
    let wanted = format!("networkPolicy.kubeAPIServer.ports: without {port} OLM would be cut off");
    ensure!(refused.contains(&wanted), "{refused}");
    let other = json!([{"port": port, "protocol": "UDP"}, {"port": 2, "endPort": 3}]);
    ensure!(narrowed(other).is_err(), "another protocol and range");
    narrowed(json!([{"port": 1}, {"port": port, "protocol": "TCP"}]))?;
    narrowed(json!([{"port": 2, "endPort": 65535}]))
}
