//! Which values are taken, and which are refused.

use super::*;

/// Values, and what stands in the refusal.
const REFUSED: &[(&str, &str)] = &[
    ("nonsense: 1", "'nonsense' not allowed"),
    (
        "olm: {replicas: 1}",
        "at '/olm': additional properties 'replicas' not allowed",
    ),
    (
        "olm: {replicaCount: two}",
        "at '/olm/replicaCount': got string, want integer",
    ),
    ("catalog: {image: {reff: x}}", "at '/catalog/image'"),
    ("debug: \"yes\"", "at '/debug': got string, want boolean"),
    ("image: {pullPolicy: Sometimes}", "at '/image/pullPolicy'"),
    ("image: {olm: {digest: latest}}", "at '/image/olm/digest'"),
    ("image: {pullSecrets: [reg]}", "at '/image/pullSecrets/0'"),
    ("namespace: Not_A_Name", "at '/namespace'"),
    (
        "namespace_psa: {enforceLevel: strict}",
        "at '/namespace_psa/enforceLevel'",
    ),
    ("package: {interval: often}", "at '/package/interval'"),
    (
        "package: {service: {internalPort: 0}}",
        "at '/package/service/internalPort'",
    ),
    ("catalog: {commandArgs: {a: b}}", "at '/catalog/commandArgs'"),
    ("subscribers: [view]", "at '/subscribers/0'"),
    ("priorityClass: {value: 2000000000}", "at '/priorityClass/value'"),
    (
        "olm: {commandArgs: --leader-elect=false}",
        "olm.commandArgs: \"--leader-elect=false\": one process is elected in any case",
    ),
    (
        "catalog: {commandArgs: [--debug, --leader-elect-resource-name=mine]}",
        "catalog.commandArgs: \"--leader-elect-resource-name=mine\"",
    ),
    (
        "olm: {commandArgs: --writeStatusName=mine}",
        "olm.commandArgs: \"--writeStatusName=mine\": say writeStatusName, which",
    ),
    (
        "catalog: {commandArgs: [--debug, --writeStatusName, mine]}",
        "catalog.commandArgs: \"--writeStatusName\": say writeStatusNameCatalog, which",
    ),
    (
        "olm: {commandArgs: --writePackageServerStatusName=p}",
        "say writePackageServerStatusName, which",
    ),
    ("olm: {commandArgs: --tls-cert=/a}", "say olm.tlsSecret, which"),
    (
        "catalog: {commandArgs: [--tls-key, /a]}",
        "say catalog.tlsSecret, which",
    ),
    (
        "catalog: {commandArgs: --client-ca=/a}",
        "say catalog.clientCASecret, which",
    ),
    (
        "leaderElection: {leaseDuration: long}",
        "at '/leaderElection/leaseDuration'",
    ),
    (
        "catalog: {registryConfig: {a_1: x}}",
        "invalid propertyName 'a_1'",
    ),
    ("writeStatusName: Not_A_Name", "at '/writeStatusName'"),
    (
        "watchedNamespaces: a,b",
        "watchedNamespaces: \"a,b\": OLM watches all namespaces",
    ),
    (
        "{certManager: {enabled: true}, serviceCa: {enabled: true}}",
        "certManager.enabled, serviceCa.enabled: one of them makes the certificates",
    ),
    (
        "catalog: {clientCASecret: c}",
        "catalog.clientCASecret: clients show certificates over TLS alone; say catalog.tlsSecret as well",
    ),
    (
        "monitoring: {dashboard: yes please}",
        "at '/monitoring/dashboard'",
    ),
    (
        "namespace: operators",
        "operator_namespace: must be another than namespace",
    ),
    // Namespaces that are not OLM's alone.
    (
        "namespace: default",
        "namespace: \"default\": OLM needs one of its own",
    ),
    ("namespace: kube-system", "namespace: \"kube-system\""),
    ("namespace: kube-public", "namespace: \"kube-public\""),
    ("namespace: kube-node-lease", "namespace: \"kube-node-lease\""),
    // Upstream's images.
    (
        "olm: {image: {ref: 'quay.io/operator-framework/olm:master'}}",
        "olm.image.ref: \"quay.io/operator-framework/olm:master\": that is upstream's image",
    ),
    (
        "catalog: {image: {ref: 'quay.io/operator-framework/olm@sha256:0'}}",
        "catalog.image.ref: \"quay.io",
    ),
    (
        "package: {image: {ref: operator-framework/olm}}",
        "package.image.ref: \"operator-framework/olm\"",
    ),
    // What Kubernetes takes for no name.
    ("olm: {tlsSecret: ' '}", "at '/olm/tlsSecret'"),
    (
        "catalog: {clientCASecret: Foo_Bar}",
        "at '/catalog/clientCASecret'",
    ),
    (
        "package: {priorityClassName: A}",
        "at '/package/priorityClassName'",
    ),
    ("priorityClass: {name: Not_One}", "at '/priorityClass/name'"),
    ("priorityClass: {name: ''}", "at '/priorityClass/name'"),
    (
        "image: {pullSecrets: [{name: ''}]}",
        "at '/image/pullSecrets/0/name'",
    ),
    (
        "image: {pullSecrets: [{name: 'a b'}]}",
        "at '/image/pullSecrets/0/name'",
    ),
    ("monitoring: {namespace: ''}", "at '/monitoring/namespace'"),
    ("monitoring: {namespace: a.b}", "at '/monitoring/namespace'"),
    (
        "monitoring: {serviceAccount: ''}",
        "at '/monitoring/serviceAccount'",
    ),
    (
        "certManager: {issuer: {name: I_1}}",
        "at '/certManager/issuer/name'",
    ),
    (
        "certManager: {issuer: {kind: Other}}",
        "at '/certManager/issuer/kind'",
    ),
    (
        "certManager: {certificate: {name: ' '}}",
        "at '/certManager/certificate/name'",
    ),
    (
        "serviceCa: {catalogOperator: {secretName: A}}",
        "at '/serviceCa/catalogOperator/secretName'",
    ),
    // An API server that would not know whom to trust.
    (
        "package: {certificate: {secretName: mine}}",
        "package.certificate: secretName and caBundle go together",
    ),
    (
        "package: {certificate: {secretName: mine, caBundle: '-----BEGIN CERTIFICATE-----'}}",
        "say package.installedAs: Deployment as well",
    ),
    // Metrics that would lose TLS.
    (
        "certManager: {enabled: true, certificate: {name: ''}}",
        "certManager.certificate.name: empty: metrics would be told without TLS",
    ),
    (
        "certManager: {enabled: true, issuer: {name: ''}}",
        "certManager.issuer.name: empty: nobody would make the certificate",
    ),
    (
        "certManager: {enabled: true, issuer: {kind: ClusterIssuer}}",
        "certManager.issuer: the chart makes an Issuer alone",
    ),
    (
        "serviceCa: {enabled: true, olmOperator: {secretName: ''}}",
        "serviceCa.olmOperator.secretName: empty: metrics would be told without TLS",
    ),
    (
        "serviceCa: {enabled: true, catalogOperator: {secretName: ''}}",
        "serviceCa.catalogOperator.secretName: empty",
    ),
    // What templates read is not taken away.
    ("networkPolicy: null", "missing property 'networkPolicy'"),
    (
        "catalog: {service: null}",
        "at '/catalog': missing property 'service'",
    ),
    (
        "olm: {replicaCount: null}",
        "at '/olm': missing property 'replicaCount'",
    ),
    (
        "catalog: {setWorkloadUserID: null}",
        "at '/catalog': missing property 'setWorkloadUserID'",
    ),
    ("tracing: null", "missing property 'tracing'"),
    // Times of an election.
    (
        "leaderElection: {leaseDuration: 1.5.5s}",
        "at '/leaderElection/leaseDuration'",
    ),
    (
        "leaderElection: {renewDeadline: 5}",
        "at '/leaderElection/renewDeadline'",
    ),
    (
        "leaderElection: {leaseDuration: 5s}",
        "leaderElection.renewDeadline: 10s is more than four fifths of leaseDuration, 5s",
    ),
    (
        "leaderElection: {renewDeadline: 13s}",
        "leaderElection.renewDeadline: 13s is more than four fifths of leaseDuration, 15s",
    ),
    (
        "leaderElection: {leaseDuration: 6m}",
        "leaderElection.leaseDuration: 360s: a Lease is had for 1s to 300s",
    ),
    (
        "leaderElection: {leaseDuration: 0s}",
        "leaderElection.leaseDuration: 0s: a Lease is had for",
    ),
    (
        "leaderElection: {retryPeriod: 6s}",
        "leaderElection.retryPeriod: 6s is more than half of renewDeadline, 10s",
    ),
    (
        "leaderElection: {retryPeriod: 0s}",
        "leaderElection.retryPeriod: 0s: say how long",
    ),
    // Arguments, in both forms, that the chart gives itself.
    (
        "olm: {commandArgs: '--health-addr=0.0.0.0:9090'}",
        "olm.commandArgs: \"--health-addr=0.0.0.0:9090\": probes, Services, rights and files of the chart",
    ),
    (
        "catalog: {commandArgs: [--metrics-addr, ':1']}",
        "catalog.commandArgs: \"--metrics-addr\": probes",
    ),
    (
        "olm: {commandArgs: --namespace=x}",
        "olm.commandArgs: \"--namespace=x\": say namespace, which",
    ),
    (
        "catalog: {commandArgs: --namespace=x}",
        "catalog.commandArgs: \"--namespace=x\": say catalog_namespace, which",
    ),
    (
        "catalog: {commandArgs: --global-catalog-namespace=x}",
        "say catalog_namespace, which",
    ),
    (
        "catalog: {commandArgs: --writePackageServerStatusName=p}",
        "say writePackageServerStatusName, which",
    ),
    (
        "olm: {commandArgs: --kubeconfig=/k}",
        "olm.commandArgs: \"--kubeconfig=/k\": probes",
    ),
    (
        "package: {commandArgs: --kubeconfig=/k}",
        "package.commandArgs: \"--kubeconfig=/k\": probes",
    ),
    (
        "catalog: {commandArgs: --registry-config=/r}",
        "say catalog.registryConfig, which",
    ),
    (
        "catalog: {commandArgs: --unpack-cache=/r}",
        "\"--unpack-cache=/r\": probes",
    ),
    (
        "catalog: {commandArgs: --unpack-spool=/r}",
        "\"--unpack-spool=/r\": probes",
    ),
    (
        "catalog: {commandArgs: --content-cache=/r}",
        "\"--content-cache=/r\": probes",
    ),
    (
        "package: {commandArgs: --secure-port=1}",
        "say package.service.internalPort, which",
    ),
    (
        "package: {commandArgs: --global-namespace=a}",
        "say catalog_namespace, which",
    ),
    (
        "package: {commandArgs: [--interval, 1h]}",
        "say package.interval, which",
    ),
    (
        "catalog: {opmImageArgs: 'quay.io/x/opm:1'}",
        "at '/catalog/opmImageArgs'",
    ),
    // What the API server, a node or an operator would not take.
    (
        "package: {maxSurge: 0}",
        "package.maxUnavailable, package.maxSurge: both 0",
    ),
    (
        "package: {maxUnavailable: 0%, maxSurge: 00%}",
        "package.maxUnavailable, package.maxSurge: both 0",
    ),
    (
        "{olm: {service: {name: a}}, catalog: {service: {name: a}}}",
        "olm.service.name, catalog.service.name: \"a\": two Services",
    ),
    (
        "{writeStatusName: a, writeStatusNameCatalog: a}",
        "writeStatusName, writeStatusNameCatalog: \"a\": two would write",
    ),
    (
        "{writeStatusName: a, writePackageServerStatusName: a}",
        "writeStatusName, writePackageServerStatusName: \"a\"",
    ),
    ("image: {registry: 'https://reg/x'}", "at '/image/registry'"),
    ("image: {registry: 'reg example.com'}", "at '/image/registry'"),
    ("image: {registry: ''}", "at '/image/registry'"),
    ("releaseVersion: foo", "at '/releaseVersion'"),
    ("releaseVersion: 4.18-rc1", "at '/releaseVersion'"),
    ("tracing: {endpoint: 'collector:4318'}", "at '/tracing/endpoint'"),
    (
        "tracing: {endpoint: 'grpc://collector:4317'}",
        "at '/tracing/endpoint'",
    ),
    ("tracing: {samplingRatio: 2}", "at '/tracing/samplingRatio'"),
    ("tracing: {samplingRatio: '10%'}", "at '/tracing/samplingRatio'"),
];

/// Each by the words of its row; and a refusal of the templates that no row asks for is one that nobody has seen.
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
    let templates = fs::read_to_string(folder().join("templates/_helpers.tpl")).unwrap();
    let mut refusals = 0;
    for line in templates.lines().filter(|line| line.contains("{{- fail ")) {
        refusals += 1;
        let text = line.split('"').nth(1).unwrap();
        let words = text.split(['%', '"']).max_by_key(|words| words.len()).unwrap();
        // The letter behind `%` is not a part of what is told.
        let words = words.get(1..).unwrap();
        assert!(told.contains(words), "no row asks for: {text}");
    }
    assert!(refusals > 20, "{refusals}");
}

/// What the patterns are not to refuse.
#[test]
fn values_that_are_unusual_and_right_are_taken() {
    for values in [
        "image: {registry: 'localhost:5000'}",
        "image: {registry: 'reg.example.com:5000/a/b/'}",
        "image: {registry: '[::1]:5000/a'}",
        "olm: {image: {ref: 'reg.example.com/operator-framework/olm-rust:1'}}",
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
    ] {
        if rendered(values).is_none() {
            return;
        }
    }
}

/// With a newer chart it leaves the new values out, and the templates read them.
#[test]
fn no_page_tells_to_reuse_values_that_are_not_reset() {
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

/// What `helm install` and `helm upgrade` are told by the guides is what the chart takes; where a guide shows an error, it does not.
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

/// Values files that are in use for upstream's chart are taken. (Those of names that mean nothing here do nothing.)
#[test]
fn values_of_upstreams_names_are_taken() {
    let values = r#"
rbacApiVersion: rbac.authorization.k8s.io
namespace: olm
namespace_psa: {enforceLevel: restricted, enforceVersion: latest}
catalog_namespace: olm
operator_namespace: operators
operator_namespace_psa: {enforceLevel: baseline, enforceVersion: latest}
minKubeVersion: 1.11.0
writeStatusName: '""'
writePackageServerStatusName: ""
imagestream: false
debug: false
installType: upstream
catalogGrpcPodPort: 50051
monitoring: {enabled: false, namespace: monitoring}
networkPolicy:
  dns: {ports: [{protocol: TCP, port: 53}]}
  kubeAPIServer: {}
  metrics: {ports: [{protocol: TCP, port: metrics}]}
olm: {replicaCount: 1, service: {name: m, internalPort: 8080, externalPort: metrics}, image: {ref: "a/olm:1", pullPolicy: Always}, nodeSelector: {a: b}, resources: {requests: {cpu: 10m}}}
catalog:
  setWorkloadUserID: true
  replicaCount: 1
  commandArgs: --configmapServerImage=a/b:1
  opmImageArgs: --opmImage=a/opm:1
  image: {ref: "a/olm:1", pullPolicy: Always}
  tolerations: []
package: {replicaCount: 2, maxUnavailable: 1, maxSurge: 1, image: {ref: "a/olm:1", pullPolicy: Always}, service: {internalPort: 5443}}
certManager: {enabled: false, issuer: {name: i, selfSigned: true}, certificate: {name: c, extraDnsNames: []}}
serviceCa: {enabled: false, olmOperator: {secretName: ""}, catalogOperator: {secretName: ""}}
"#;
    let Some(objects) = rendered(values) else { return };
    for program in [OLM, CATALOG, PACKAGES] {
        assert_eq!(
            pod(&objects, program)["spec"]["containers"][0]["image"],
            "a/olm:1"
        );
    }
}
