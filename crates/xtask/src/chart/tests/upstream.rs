//! Values files written for upstream's chart, on clusters and by OpenShift. Each value has the same effect here, or none if
//! nothing is lost by that. Names and values are upstream's; each test chooses the images, because upstream's are rejected.

use super::*;

/// The default values of upstream's chart.
const OF_CHART: &str = r#"
rbacApiVersion: rbac.authorization.k8s.io
namespace: operator-lifecycle-manager
namespace_psa: {enforceLevel: baseline, enforceVersion: latest, auditLevel: restricted, auditVersion: latest, warnLevel: restricted, warnVersion: latest}
catalog_namespace: operator-lifecycle-manager
operator_namespace: operators
operator_namespace_psa: {enforceLevel: baseline, enforceVersion: latest}
minKubeVersion: 1.11.0
writeStatusName: '""'
imagestream: false
debug: false
installType: upstream
catalogGrpcPodPort: 50051
olm:
  replicaCount: 1
  image: {ref: THEIRS/olm:master, pullPolicy: Always}
  service: {name: olm-operator-metrics, internalPort: 8080, internalPortHttps: 8443, externalPort: metrics}
  nodeSelector: {kubernetes.io/os: linux}
  resources: {requests: {cpu: 10m, memory: 160Mi}}
catalog:
  setWorkloadUserID: true
  replicaCount: 1
  commandArgs: --configmapServerImage=quay.io/operator-framework/configmap-operator-registry:latest
  opmImageArgs: --opmImage=THEIRS/opm:latest
  image: {ref: THEIRS/olm:master, pullPolicy: Always}
  service: {name: catalog-operator-metrics, internalPort: 8080, internalPortHttps: 8443, externalPort: metrics}
  nodeSelector: {kubernetes.io/os: linux}
  resources: {requests: {cpu: 10m, memory: 80Mi}}
package:
  replicaCount: 2
  maxUnavailable: 1
  maxSurge: 1
  image: {ref: THEIRS/olm:master, pullPolicy: Always}
  service: {internalPort: 5443}
  nodeSelector: {kubernetes.io/os: linux}
  resources: {requests: {cpu: 10m, memory: 50Mi}}
monitoring: {enabled: false, namespace: monitoring}
certManager:
  enabled: false
  issuer: {name: olm-ca-issuer, selfSigned: true, ca: {secretName: ""}}
  certificate: {name: olm-cert, secretName: olm-cert, extraDnsNames: [], extraIpAddresses: []}
serviceCa: {enabled: false, olmOperator: {secretName: ""}, catalogOperator: {secretName: ""}}
networkPolicy:
  dns: {ports: [{protocol: TCP, port: 53}, {protocol: UDP, port: 53}, {protocol: TCP, port: 5353}, {protocol: UDP, port: 5353}]}
  kubeAPIServer: {}
  metrics: {ports: [{protocol: TCP, port: metrics}]}
"#;

/// Additional values with which upstream's releases for Kubernetes are rendered.
const OF_RELEASES: &str = r#"
installType: upstream
rbacApiVersion: rbac.authorization.k8s.io
namespace: olm
namespace_psa: {enforceLevel: restricted, enforceVersion: latest}
catalog_namespace: olm
operator_namespace: operators
operator_namespace_psa: {enforceLevel: baseline, enforceVersion: latest}
imagestream: false
writeStatusName: '""'
writePackageServerStatusName: ""
olm: {replicaCount: 1, image: {ref: "THEIRS/olm@sha256:0", pullPolicy: IfNotPresent}, service: {internalPort: 8080}}
catalog: {setWorkloadUserID: true, replicaCount: 1, image: {ref: "THEIRS/olm@sha256:0", pullPolicy: IfNotPresent}, service: {internalPort: 8080}}
package:
  replicaCount: 2
  maxUnavailable: 1
  maxSurge: 1
  image: {ref: "THEIRS/olm@sha256:0", pullPolicy: Always}
  service: {internalPort: 5443}
  securityContext: {runAsUser: 1000}
catalog_sources: [rh-operators]
"#;

/// Values with which OpenShift's manifests are rendered.
const OF_OPENSHIFT: &str = r#"
installType: ocp
rbacApiVersion: rbac.authorization.k8s.io
namespace: openshift-operator-lifecycle-manager
namespace_psa: {enforceLevel: restricted, enforceVersion: latest}
catalog_namespace: openshift-marketplace
operator_namespace: openshift-operators
operator_namespace_psa: {enforceLevel: privileged, enforceVersion: latest}
imagestream: true
writeStatusName: operator-lifecycle-manager
writeStatusNameCatalog: operator-lifecycle-manager-catalog
writePackageServerStatusName: operator-lifecycle-manager-packageserver
olm:
  replicaCount: 1
  image: {ref: "THEIRS/olm@sha256:0", pullPolicy: IfNotPresent}
  service: {internalPort: 8443, externalPort: 8443}
  clientCASecret: pprof-cert
  nodeSelector: {kubernetes.io/os: linux, node-role.kubernetes.io/master: ""}
  tolerations: [{key: node-role.kubernetes.io/master, operator: Exists, effect: NoSchedule}]
  tlsSecret: olm-operator-serving-cert
  resources: {requests: {cpu: 10m, memory: 160Mi}}
catalog:
  setWorkloadUserID: false
  replicaCount: 1
  opmImageArgs: --opmImage=THEIRS/configmap-operator-registry:latest
  image: {ref: "THEIRS/olm@sha256:0", pullPolicy: IfNotPresent}
  service: {internalPort: 8443, externalPort: 8443}
  clientCASecret: pprof-cert
  tlsSecret: catalog-operator-serving-cert
  nodeSelector: {kubernetes.io/os: linux, node-role.kubernetes.io/master: ""}
  tolerations: [{key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 120}]
  resources: {requests: {cpu: 10m, memory: 80Mi}}
package:
  replicaCount: 2
  maxUnavailable: 1
  maxSurge: 1
  image: {ref: "THEIRS/olm@sha256:0", pullPolicy: IfNotPresent}
  service: {internalPort: 5443}
  nodeSelector: {kubernetes.io/os: linux, node-role.kubernetes.io/master: ""}
  tolerations: [{key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 120}]
  resources: {requests: {cpu: 10m, memory: 50Mi}}
certManager: {enabled: false}
serviceCa: {enabled: true, olmOperator: {secretName: olm-operator-serving-cert}, catalogOperator: {secretName: catalog-operator-serving-cert}}
monitoring: {enabled: true, namespace: openshift-monitoring}
networkPolicy:
  dns: {ports: [{protocol: TCP, port: 53}, {protocol: UDP, port: 53}]}
"#;

/// Renders values with images from a mirror under upstream's names.
fn mirrored(values: &str) -> Option<Vec<Value>> {
    rendered(&values.replace("THEIRS", "reg.example.com/operator-framework"))
}

#[test]
fn upstreams_own_values_render_what_they_say() {
    let Some(objects) = mirrored(OF_CHART) else { return };
    for program in [OLM, CATALOG, PACKAGES] {
        let container = &pod(&objects, program)["spec"]["containers"][0];
        assert_eq!(
            container["image"],
            "reg.example.com/operator-framework/olm:master"
        );
        assert_eq!(container["imagePullPolicy"], "Always");
    }
    let catalog = pod(&objects, CATALOG)["spec"]["containers"][0]["args"].to_string();
    assert!(
        catalog.contains("--opmImage=reg.example.com/operator-framework/opm:latest"),
        "{catalog}"
    );
    assert!(
        catalog.contains("--namespace=operator-lifecycle-manager"),
        "{catalog}"
    );
    assert!(!catalog.contains("writeStatusName"), "{catalog}");
    let labels = &find(&objects, "Namespace/operator-lifecycle-manager")["metadata"]["labels"];
    assert_eq!(labels["pod-security.kubernetes.io/enforce"], "baseline");
    assert_eq!(
        find(&objects, PACKAGES).pointer(&format!("{IN_CSV}/strategy/rollingUpdate")),
        Some(&json!({"maxUnavailable": 1, "maxSurge": 1}))
    );
}

/// Upstream's policy allows one port, that of the metrics. With TLS, metrics have another port here.
#[test]
fn upstreams_values_for_cert_manager_secure_metrics_and_let_them_be_read() {
    let values = OF_CHART
        .replace("certManager:\n  enabled: false", "certManager:\n  enabled: true")
        .replace(
            "selfSigned: true, ca: {secretName: \"\"}",
            "selfSigned: false, ca: {secretName: root}",
        )
        .replace("secretName: olm-cert", "secretName: its-secret")
        .replace("extraIpAddresses: []", "extraIpAddresses: [10.1.2.3]")
        .replace("monitoring: {enabled: false", "monitoring: {enabled: true");
    let Some(objects) = mirrored(&values) else { return };
    assert_eq!(
        find(&objects, "Issuer/olm-ca-issuer")["spec"],
        json!({"ca": {"secretName": "root"}})
    );
    let certificate = &find(&objects, "Certificate/olm-cert")["spec"];
    assert_eq!(certificate["secretName"], "its-secret");
    assert_eq!(certificate["ipAddresses"], json!(["10.1.2.3"]));
    for (program, app) in [(OLM, "olm-operator"), (CATALOG, "catalog-operator")] {
        let spec = &pod(&objects, program)["spec"];
        let volumes = spec["volumes"].as_array().unwrap();
        let secret = volumes
            .iter()
            .find(|volume| volume["name"] == "srv-cert")
            .unwrap();
        assert_eq!(secret["secret"]["secretName"], "its-secret", "{app}");
        let policy = find(&objects, &format!("NetworkPolicy/{app}"));
        assert_eq!(
            policy["spec"]["ingress"][0]["ports"],
            json!([{"protocol": "TCP", "port": "metrics"}, {"protocol": "TCP", "port": "https-metrics"}]),
            "{app}"
        );
        let monitor = find(&objects, &format!("ServiceMonitor/{app}"));
        assert_eq!(
            monitor["spec"]["endpoints"][0]["tlsConfig"]["ca"]["secret"]["name"],
            "its-secret"
        );
    }
}

#[test]
fn upstreams_values_for_kubernetes_render_what_they_say() {
    let Some(objects) = mirrored(OF_RELEASES) else {
        return;
    };
    let user = |program| pod(&objects, program)["spec"]["securityContext"]["runAsUser"].clone();
    assert_eq!([user(PACKAGES), user(OLM)], [json!(1000), json!(1001)]);
    let restricted = &pod(&objects, PACKAGES)["spec"]["securityContext"];
    assert_eq!(restricted["runAsNonRoot"], true);
    assert_eq!(
        pod(&objects, PACKAGES)["spec"]["containers"][0]["imagePullPolicy"],
        "Always"
    );
    // No catalog is installed, whatever list or type is named.
    assert!(
        !names(&objects)
            .iter()
            .any(|name| name.starts_with("CatalogSource/"))
    );
}

/// OpenShift creates the Secret of a Service that requests a certificate. The operators create their ClusterOperators themselves.
/// If plain HTTP and TLS have the same port, health checks use the default one.
#[test]
fn openshifts_values_render_what_they_say() {
    let Some(objects) = mirrored(OF_OPENSHIFT) else {
        return;
    };
    for (program, app) in [(OLM, "olm-operator"), (CATALOG, "catalog-operator")] {
        let spec = &pod(&objects, program)["spec"];
        let container = &spec["containers"][0];
        let words = container["args"].to_string();
        let secret = format!("{app}-serving-cert");
        assert_eq!(
            container["ports"],
            json!([{"name": "metrics", "containerPort": 8080}, {"name": "https-metrics", "containerPort": 8443}]),
            "{app}"
        );
        assert!(!words.contains("-addr="), "{words}");
        assert!(
            words.contains("--client-ca=/profile-collector-cert/tls.crt"),
            "{words}"
        );
        assert!(
            words.contains("--writeStatusName=operator-lifecycle-manager"),
            "{words}"
        );
        let volumes = spec["volumes"].as_array().unwrap();
        let named = |name: &str| {
            let found = volumes.iter().find(|volume| volume["name"] == name).unwrap();
            found["secret"]["secretName"].clone()
        };
        assert_eq!(
            [named("srv-cert"), named("profile-collector-cert")],
            [json!(secret), json!("pprof-cert")]
        );
        let service = find(&objects, &format!("Service/{app}-metrics"));
        assert_eq!(
            service["metadata"]["annotations"]["service.beta.openshift.io/serving-cert-secret-name"],
            secret.as_str()
        );
        assert_eq!(service["spec"]["ports"][0]["port"], 8443, "{app}");
        let monitor = find(&objects, &format!("ServiceMonitor/{app}"));
        assert_eq!(
            monitor["spec"]["endpoints"][0]["tlsConfig"]["caFile"],
            "/etc/prometheus/configmaps/serving-certs-ca-bundle/service-ca.crt"
        );
        assert_eq!(
            spec["nodeSelector"]["node-role.kubernetes.io/master"], "",
            "{app}"
        );
        assert!(spec["tolerations"][0]["key"].is_string(), "{app}");
    }
    let reader = find(
        &objects,
        "ClusterRoleBinding/operator-lifecycle-manager-metrics-reader",
    );
    assert_eq!(reader["subjects"][0]["namespace"], "openshift-monitoring");
    let catalog = pod(&objects, CATALOG)["spec"]["containers"][0]["args"].to_string();
    assert!(
        catalog.contains("--namespace=openshift-marketplace")
            && catalog.contains("--set-workload-user-id=false"),
        "{catalog}"
    );
    assert!(
        !names(&objects)
            .iter()
            .any(|name| name.starts_with("ClusterOperator/"))
    );
}

/// The files name images with other programs. One error lists all of them, and removing them is sufficient.
#[test]
fn upstreams_values_with_its_images_are_refused_with_each_of_them_and_taken_without() {
    for (values, images) in [(OF_CHART, 4), (OF_RELEASES, 3), (OF_OPENSHIFT, 4)] {
        let values = values.replace("THEIRS", "quay.io/operator-framework");
        let Some(answer) = try_render(&values, &[]) else {
            return;
        };
        let error = format!("{:#}", answer.expect_err("their images"));
        assert_eq!(
            error.matches(": quay.io/operator-framework/").count(),
            images,
            "{error}"
        );
        let ours = [
            "--set",
            "image.registry=reg.example.com/ours",
            "--set",
            "olm.image.ref=,catalog.image.ref=,package.image.ref=,catalog.opmImageArgs=",
        ];
        let objects = try_render(&values, &ours).unwrap().unwrap();
        for program in [OLM, CATALOG, PACKAGES] {
            let container = pod(&objects, program)["spec"]["containers"][0].clone();
            let version = images::VERSION;
            assert_eq!(container["image"], format!("reg.example.com/ours/olm:{version}"));
        }
    }
}
