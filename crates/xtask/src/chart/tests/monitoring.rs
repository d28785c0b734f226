//! Tests of alerts and the dashboard.

use super::*;

const PAGE: &str = "docs/reference/metrics.md";
/// Words in expressions and Grafana queries that look like metrics.
const OTHERS: [&str; 6] = [
    "catalog_source",
    "histogram_quantile",
    "label_values",
    "__rate_interval",
    "__all",
    "__name__",
];
/// Metrics of the API server about APIs. They have no job label of ours.
const OTHERS_METRICS: [&str; 1] = ["aggregator_unavailable_apiservice"];
/// Selectors of one program of OLM v1.
const OF_V1: [&str; 2] = [
    r#"job="catalogd-service""#,
    r#"job="operator-controller-service""#,
];

/// Asserts that each metric is selected by job, as `selector` does. Other operators and a second OLM may have metrics of the same
/// names.
#[track_caller]
fn assert_ours(expression: &str, selector: &str, page: &str) {
    let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    for metric in metrics(expression, page) {
        if OTHERS_METRICS.contains(&metric) {
            continue;
        }
        for (at, _) in expression.match_indices(metric) {
            if expression[..at].ends_with(is_of_name) {
                continue;
            }
            let behind = expression[at..].trim_start_matches(is_of_name);
            let labels = behind.strip_prefix('{').and_then(|rest| rest.split_once('}'));
            let selector = match metric.strip_prefix("olm_package_server_") {
                Some(_) if !selector.contains("$job") => r#"job="packageserver-metrics""#,
                _ => selector,
            };
            let is_ours = labels.is_some_and(|(labels, _)| {
                labels
                    .split(',')
                    .any(|label| label == selector || OF_V1.contains(&label))
            });
            assert!(is_ours, "{expression}: {metric}");
        }
    }
}

fn of_workspace(path: &str) -> String {
    fs::read_to_string(workspace::root().join(path)).unwrap()
}

/// Returns the spec of the object with the alerts.
fn alerts() -> Option<Value> {
    let objects = rendered("{monitoring: {enabled: true}, v1: {enabled: true}}")?;
    Some(find(&objects, "PrometheusRule/olm-alert-rules")["spec"].clone())
}

fn rules(spec: &Value) -> &[Value] {
    spec["groups"][0]["rules"].as_array().unwrap()
}

/// Returns the metrics in an expression, by their names in the reference. A histogram has one name there.
fn metrics<'a>(expression: &'a str, page: &str) -> Vec<&'a str> {
    let mut bare = String::new();
    // Labels and their values are no metrics.
    let outside = expression.split('"').step_by(2);
    outside.for_each(|text| bare.push_str(text));
    let words = expression.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let words = words.filter(|word| word.contains('_') && !OTHERS.contains(word) && bare.contains(word));
    let named = words.map(|word| {
        let ends = ["_bucket", "_count", "_sum"].iter();
        let base = ends.filter_map(|end| word.strip_suffix(end)).next();
        let is_there = |name: &str| page.contains(&format!("`{name}`"));
        match base {
            Some(base) if !is_there(word) => base,
            _ => word,
        }
    });
    named.collect()
}

/// An alert on a metric that does not exist never fires.
#[test]
fn met_005_alerts_ask_for_metrics_that_the_reference_has() {
    let Some(spec) = alerts() else { return };
    let page = of_workspace(PAGE);
    // The job is the name of the Service.
    let renamed = "{monitoring: {enabled: true}, v1: {enabled: true}, olm: {service: {name: one}}, catalog: {service: {name: other}}}";
    let renamed = find(&rendered(renamed).unwrap(), "PrometheusRule/olm-alert-rules")["spec"].clone();
    assert_eq!(rules(&renamed).len(), rules(&spec).len());
    for rule in rules(&renamed) {
        assert_ours(
            rule["expr"].as_str().unwrap(),
            r#"job=~"one|other|catalogd-service|operator-controller-service""#,
            &page,
        );
    }
    let remedies = of_workspace("docs/guides/troubleshooting.md");
    for rule in rules(&spec) {
        let expression = rule["expr"].as_str().unwrap();
        let asked = metrics(expression, &page);
        assert!(!asked.is_empty(), "{expression}");
        assert_ours(
            expression,
            r#"job=~"olm-operator-metrics|catalog-operator-metrics|catalogd-service|operator-controller-service""#,
            &page,
        );
        for metric in asked {
            assert!(page.contains(&format!("`{metric}`")), "{expression}: {metric}");
        }
        let alert = rule["alert"].as_str().unwrap();
        // Each row has a meaning and a remedy.
        let row = remedies
            .lines()
            .find(|line| line.starts_with(&format!("| `{alert}` |")));
        assert_eq!(
            row.map(|row| row.matches(" | ").count()),
            Some(2),
            "{alert}: {row:?}"
        );
        assert!(
            rule["annotations"]["description"]
                .as_str()
                .is_some_and(|text| !text.contains(".Values")),
            "{rule}"
        );
    }
    assert_eq!(rules(&spec).len(), 16);
    // Without OLM v1 no alert says that it is absent.
    let classic = rendered("monitoring: {enabled: true}").unwrap();
    let classic = &find(&classic, "PrometheusRule/olm-alert-rules")["spec"];
    assert_eq!(rules(classic).len(), 15);
    assert!(!classic.to_string().contains("catalogd"), "{classic}");
}

/// A ServiceMonitor selects Services by label and their port by name. A mismatch results in no data and no error.
#[test]
fn met_001_service_monitors_find_the_services_of_the_chart() {
    for values in [
        "monitoring: {enabled: true}",
        "{monitoring: {enabled: true}, olm: {tlsSecret: a}, catalog: {tlsSecret: b}}",
        "{monitoring: {enabled: true}, olm: {service: {name: one}}, catalog: {service: {name: other}}}",
    ] {
        let Some(objects) = rendered(values) else { return };
        let of = |kind: &str| -> Vec<&Value> {
            let found = objects.iter().filter(|object| object["kind"] == kind);
            found.collect()
        };
        let (monitors, services) = (of("ServiceMonitor"), of("Service"));
        assert_eq!(monitors.len(), 3);
        for monitor in monitors {
            let selector = monitor["spec"]["selector"]["matchLabels"].as_object().unwrap();
            assert!(!selector.is_empty());
            // Alerts and the dashboard select by job, which is the Service's name by default.
            assert!(monitor["spec"]["jobLabel"].is_null(), "{monitor}");
            let namespaces = &monitor["spec"]["namespaceSelector"]["matchNames"];
            let endpoint = &monitor["spec"]["endpoints"][0];
            let found = services.iter().filter(|service| {
                let labels = &service["metadata"]["labels"];
                let ports = service["spec"]["ports"].as_array().unwrap();
                selector.iter().all(|(key, value)| labels[key] == *value)
                    && namespaces[0] == service["metadata"]["namespace"]
                    && ports.iter().any(|port| port["name"] == endpoint["port"])
            });
            assert_eq!(found.count(), 1, "{monitor}");
            // The label `namespace` is that of the metric's object.
            assert_eq!(endpoint["honorLabels"], true, "{monitor}");
            assert!(endpoint["path"].is_null(), "{monitor}");
            let is_https = endpoint["port"] == "https-metrics";
            assert_eq!(endpoint["scheme"] == "https", is_https, "{monitor}");
        }
    }
}

/// Over TLS the server requires a token, and Prometheus verifies the server.
#[test]
fn met_001_over_tls_prometheus_shows_its_token_and_knows_whom_to_trust() {
    let of_secret = |name: &str, key: &str| json!({"ca": {"secret": {"name": name, "key": key}}});
    let of_openshift = json!({"caFile": "/etc/prometheus/configmaps/serving-certs-ca-bundle/service-ca.crt"});
    let packages = of_secret("packageserver-service-cert", "olmCAKey");
    let rows = [
        ("olm: {}", json!({}), json!({}), packages.clone()),
        (
            "olm: {tlsSecret: a}, catalog: {tlsSecret: b}",
            of_secret("a", "ca.crt"),
            of_secret("b", "ca.crt"),
            packages.clone(),
        ),
        (
            "certManager: {enabled: true}",
            of_secret("olm-cert", "ca.crt"),
            of_secret("olm-cert", "ca.crt"),
            packages.clone(),
        ),
        (
            "serviceCa: {enabled: true}",
            of_openshift.clone(),
            of_openshift,
            packages,
        ),
        (
            "package: {installedAs: Deployment}",
            json!({}),
            json!({}),
            of_secret("packageserver-serving-cert", "ca.crt"),
        ),
    ];
    for (values, olm, catalog, package) in rows {
        let Some(objects) = rendered(&format!("{{monitoring: {{enabled: true}}, {values}}}")) else {
            return;
        };
        for (monitor, service, mut trusted) in [
            ("olm-operator", "olm-operator-metrics", olm),
            ("catalog-operator", "catalog-operator-metrics", catalog),
            ("packageserver", "packageserver-service", package),
        ] {
            let endpoint = &find(&objects, &format!("ServiceMonitor/{monitor}"))["spec"]["endpoints"][0];
            if trusted == json!({}) {
                assert_eq!(endpoint["scheme"], "http", "{values} {endpoint}");
                continue;
            }
            trusted["serverName"] = json!(format!("{service}.olm.svc"));
            assert_eq!(endpoint["scheme"], "https", "{values} {endpoint}");
            assert_eq!(endpoint["tlsConfig"], trusted, "{values} {endpoint}");
            assert_eq!(
                endpoint["bearerTokenFile"], "/var/run/secrets/kubernetes.io/serviceaccount/token",
                "{values} {endpoint}"
            );
        }
    }
}

/// The account of Prometheus may find the targets, and read the metrics served over TLS.
#[test]
fn met_001_prometheus_is_given_the_rights_that_it_needs() {
    let values = "monitoring: {enabled: true, namespace: mon, serviceAccount: prom}";
    let Some(objects) = rendered(values) else { return };
    let prometheus = json!([{"kind": "ServiceAccount", "name": "prom", "namespace": "mon"}]);
    for (kind, name, rules) in [
        (
            "Role",
            "operator-lifecycle-manager-metrics",
            json!([
                {"apiGroups": [""], "resources": ["services", "endpoints", "pods"], "verbs": ["get", "list", "watch"]},
                {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["get", "list", "watch"]},
            ]),
        ),
        (
            "ClusterRole",
            "operator-lifecycle-manager-metrics-reader",
            json!([{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]),
        ),
    ] {
        let role = find(&objects, &format!("{kind}/{name}"));
        assert_eq!(role["rules"], rules);
        let binding = find(&objects, &format!("{kind}Binding/{name}"));
        assert_eq!(binding["metadata"]["namespace"], role["metadata"]["namespace"]);
        assert_eq!(
            binding["roleRef"],
            json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name})
        );
        assert_eq!(binding["subjects"], prometheus);
    }
    let namespace = &find(&objects, "Role/operator-lifecycle-manager-metrics")["metadata"]["namespace"];
    assert_eq!(namespace, "olm");
}

/// Prometheus evaluates the alerts on `alerts.yaml`: each fires once, with its texts, and none in a healthy state.
#[test]
fn met_005_alerts_fire_when_they_should_and_only_then() {
    let Some(spec) = alerts() else { return };
    let program = cluster::alerts(&Progress::start()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules.yaml");
    let run = |spec: &Value| {
        fs::write(&file, spec.to_string()).unwrap();
        let tests = workspace::root().join("crates/xtask/src/chart/alerts.yaml");
        let mut command = Command::new(&program);
        command.arg("rules").arg(&file).arg(tests);
        let output = command.output().unwrap();
        (
            output.status.success(),
            String::from_utf8_lossy(&output.stdout).into_owned(),
        )
    };
    let (is_well, told) = run(&spec);
    assert!(is_well, "{told}");
    // The test detects a change to each field of each rule.
    for (field, value) in [
        ("expr", json!("vector(0) == 1")),
        ("labels", json!({"severity": "other"})),
        ("annotations", json!({"summary": "other"})),
        ("for", json!("40h")),
        ("for", json!("0s")),
    ] {
        let mut broken = spec.clone();
        let mut touched = Vec::new();
        for rule in broken["groups"][0]["rules"].as_array_mut().unwrap() {
            if value != "0s" || rule.get("for").is_some() {
                touched.push(rule["alert"].as_str().unwrap().to_owned());
                rule[field] = value.clone();
            }
        }
        let (is_well, told) = run(&broken);
        assert!(!is_well);
        for alert in touched {
            assert!(
                told.contains(&format!(": {alert} at ")),
                "{alert}, {field} {value}: {told}"
            );
        }
    }
    let (is_well, told) = run(&json!({"groups": [{"name": "x", "rules": [{"alert": "A", "expr": "sum("}]}]}));
    assert!(!is_well && told.contains("parse error"), "{told}");
}

#[test]
fn the_dashboard_shows_metrics_that_the_reference_has() {
    let Some(objects) = rendered("monitoring: {enabled: true}") else {
        return;
    };
    let text = of_workspace("charts/olm/dashboards/olm.json");
    let config_map = find(&objects, "ConfigMap/olm-dashboard");
    assert_eq!(config_map["data"]["olm.json"].as_str(), Some(text.as_str()));
    // Metrics of the same names from other jobs are not shown.
    let ours = r#"job=~\"olm-operator-metrics|catalog-operator-metrics|packageserver-metrics\""#;
    assert!(text.contains(ours));
    let others =
        "{monitoring: {enabled: true}, olm: {service: {name: one}}, catalog: {service: {name: other}}}";
    let renamed = find(&rendered(others).unwrap(), "ConfigMap/olm-dashboard")["data"]["olm.json"].clone();
    let renamed = renamed.as_str().unwrap();
    assert!(renamed.contains(r#"job=~\"one|other|packageserver-metrics\""#) && !renamed.contains(ours));
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let page = of_workspace(PAGE);
    let panels = dashboard["panels"].as_array().unwrap();
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let mut ids = BTreeSet::new();
    let mut asked = BTreeSet::new();
    for panel in panels {
        assert!(ids.insert(panel["id"].as_i64().unwrap()), "{panel}");
        let targets = panel["targets"].as_array().map(Vec::as_slice).unwrap_or_default();
        assert_eq!(targets.is_empty(), panel["type"] == "row", "{panel}");
        for target in targets {
            let expression = target["expr"].as_str().unwrap();
            assert_eq!(target["datasource"]["uid"], "${datasource}", "{expression}");
            asked.extend(metrics(expression, &page));
            assert_ours(expression, r#"job=~"$job""#, &page);
        }
    }
    let query = |variable: &'_ Value| variable["query"]["query"].as_str().map(str::to_owned);
    let queries: Vec<String> = variables.iter().filter_map(query).collect();
    asked.extend(queries.iter().flat_map(|query| metrics(query, &page)));
    for metric in &asked {
        assert!(page.contains(&format!("`{metric}`")), "{metric}");
    }
    assert!(asked.len() > 20, "{asked:?}");
}
