//! Tests of accepted and rejected values.

use super::refused::REFUSED;
use super::*;

/// Errors that require a cluster, which are tested with one (`e2e/tests/chart/reach.rs`).
const ASKS_THE_CLUSTER: [&str; 1] = ["networkPolicy.kubeAPIServer.ports: without %d"];

/// Each row has its error. Conversely, each error of the templates must have a row.
#[test]
fn values_that_are_unknown_mistyped_or_not_kept_are_refused_by_name() {
    let mut told = String::new();
    for (values, wanted) in REFUSED {
        let Some(answer) = try_render(values, &[]) else {
            return;
        };
        let error = format!("{:#}", answer.expect_err(values));
        assert!(error.contains(wanted), "{values}: {error}");
        told.push_str(&error);
    }
    let templates = fs::read_to_string(folder().join("templates/_validate.tpl")).unwrap();
    let mut refusals = 0;
    for line in templates.lines().filter(|line| line.contains("{{- fail ")) {
        refusals += 1;
        let text = line.split('"').nth(1).unwrap();
        let words = text.split(['%', '"']).max_by_key(|words| words.len()).unwrap();
        // The letter after `%` is not part of the text.
        let words = words.get(1..).unwrap();
        if ASKS_THE_CLUSTER.iter().any(|start| text.starts_with(start)) {
            continue;
        }
        assert!(told.contains(words), "no row asks for: {text}");
    }
    assert!(refusals > 20, "{refusals}");
}

/// Values that patterns must not reject.
#[test]
fn values_that_are_unusual_and_right_are_taken() {
    for values in [
        "image: {registry: 'localhost:5000'}",
        "image: {registry: 'reg.example.com:5000/a/b/'}",
        "image: {registry: '[::1]:5000/a'}",
        // Our images, mirrored under upstream's name.
        "olm: {image: {ref: 'reg.example.com/operator-framework/olm:1'}}",
        "image: {registry: reg.example.com/operator-framework}",
        "image: {registry: reg.example.com/quay.io/operator-framework}",
        "catalog: {opmImageArgs: '--opmImage=reg.example.com/operator-framework/opm:1'}",
        // The argument has no effect.
        "catalog: {commandArgs: [--configmapServerImage, 'quay.io/operator-framework/configmap-operator-registry:1']}",
        "package: {certificate: {caBundle: ' '}}",
        "package: {installedAs: Deployment, certificate: {caBundle: null}}",
        "certManager: {enabled: true, issuer: {ca: null}, certificate: {extraIpAddresses: ['10.0.0.1', 'fd00::1']}}",
        "tracing: {headersSecret: null}",
        "catalog: {opmImageArgs: ''}",
        "releaseVersion: v4.18",
        "releaseVersion: 4.20.0-0.nightly-2026-01-01+x",
        "leaderElection: {leaseDuration: 1m40s, renewDeadline: 1.5s, retryPeriod: 250ms}",
        "leaderElection: {leaseDuration: 5m, renewDeadline: 240s, retryPeriod: 2m}",
        "leaderElection: {renewDeadline: 12s, retryPeriod: 6s}",
        "package: {maxUnavailable: 25%, maxSurge: 0}",
        "package: {interval: 1h30m}",
        "{writeStatusName: '\"\"', writeStatusNameCatalog: '\"\"'}",
        "{writeStatusName: null, watchedNamespaces: null, catalog: {commandArgs: null, tlsSecret: null}}",
        "serviceCa: {olmOperator: {secretName: ''}}",
        "olm: {commandArgs: [--namespaces-of-mine]}",
        "certManager: {enabled: true, issuer: {kind: ClusterIssuer, name: ours.example.com, selfSigned: false}}",
        "tracing: {samplingRatio: 0.25}",
        "tracing: {endpoint: 'https://otel.example.com/team'}",
        "{olm: {env: null, volumes: null, volumeMounts: null, podAnnotations: null}, package: {env: null, volumes: null, podAnnotations: null}}",
        "catalog: {env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}], volumeMounts: [{name: a, mountPath: /etc/olm}]}",
        "namespaceLabels: null",
        "networkPolicy: {metrics: {ports: null, from: [{namespaceSelector: {}}]}, kubeAPIServer: {ports: null, to: null}, collector: {ports: []}}",
    ] {
        if rendered(values).is_none() {
            return;
        }
    }
}

/// With a newer chart this flag omits new values that templates need.
#[test]
fn no_page_recommends_to_reuse_values_that_are_not_reset() {
    let root = workspace::root();
    let mut pages = 0;
    let mut folders = vec![root.join("docs"), root.join("charts"), root.join("manifests")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages += 1;
                let text = fs::read_to_string(&path).unwrap();
                assert!(!text.contains("--reuse-values"), "{}", path.display());
            }
        }
    }
    assert!(pages > 40, "{pages}");
}

/// The chart accepts the `helm install` and `helm upgrade` commands in the guides, except for those that are followed by an
/// error.
#[test]
fn each_helm_command_of_the_guides_is_one_that_the_chart_takes() {
    let mut commands = 0;
    for entry in fs::read_dir(workspace::root().join("docs/guides")).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path())
            .unwrap()
            .replace("\\\n", "");
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            if !line.starts_with("helm install olm ") && !line.starts_with("helm upgrade olm ") {
                continue;
            }
            let words: Vec<&str> = line
                .split_whitespace()
                .map(|word| word.trim_matches('\''))
                .collect();
            let said = words.windows(2).filter(|pair| pair[0].starts_with("--set"));
            let said: Vec<&str> = said.flatten().copied().collect();
            let Some(answer) = try_render("{}", &said) else {
                return;
            };
            let is_refused = lines.peek().is_some_and(|next| next.starts_with("# Error"));
            assert_eq!(answer.is_err(), is_refused, "{line}");
            commands += 1;
        }
    }
    assert!(commands > 7, "{commands}");
}

/// Covers the file of values that the guide suggests to start with.
#[test]
fn the_file_of_values_in_the_guide_renders_what_it_says() {
    let guide = fs::read_to_string(workspace::root().join("docs/guides/install-olm.md")).unwrap();
    let part = guide.split_once("\n## One file of values\n").unwrap().1;
    let values = part
        .split_once("```yaml\n")
        .unwrap()
        .1
        .split_once("```")
        .unwrap()
        .0;
    let Some(objects) = rendered(values) else { return };
    let program = pod(&objects, CATALOG);
    let container = &program["spec"]["containers"][0];
    assert_eq!(
        container["image"],
        format!("registry.example.com/olm/olm:{}", images::VERSION)
    );
    assert_eq!(program["spec"]["imagePullSecrets"], json!([{"name": "registry"}]));
    for word in ["--registry-ca=", "--registry-config=", "--tls-cert="] {
        assert!(container["args"].to_string().contains(word), "{container}");
    }
    for word in ["HTTPS_PROXY", "NO_PROXY", "OTEL_EXPORTER_OTLP_ENDPOINT"] {
        assert!(container["env"].to_string().contains(word), "{container}");
    }
    for wanted in [
        "PodDisruptionBudget/olm-operator",
        "PodDisruptionBudget/catalog-operator",
        "Certificate/olm-cert",
        "ServiceMonitor/packageserver",
        "PrometheusRule/olm-alert-rules",
    ] {
        assert!(names(&objects).contains(wanted), "{wanted}");
    }
    let settings = &find(&objects, "OLMConfig/cluster")["spec"];
    assert_eq!(settings["features"]["disableCopiedCSVs"], true);
}
