//! Webhooks and their certificates.

use olm_runtime::plan::SecretData;

use super::*;

fn own_certificates() -> CertificateProvider {
    let certificate = OwnCertificate {
        ca_bundle: "PEM".to_owned(),
        ca_hash: "hash".to_owned(),
        data: SecretData::new([("tls.crt", "PEM")]),
    };
    CertificateProvider::Own(BTreeMap::from([("demo.manager".to_owned(), certificate)]))
}

fn with_provider(bundle: &Bundle, provider: &CertificateProvider) -> Vec<Value> {
    let options = Options {
        certificates: provider,
        ..options(None)
    };
    render(bundle, &options).unwrap()
}

fn converting() -> Bundle {
    let conversion = webhook(
        "ConversionWebhook",
        json!({"conversionCRDs": ["a.example.com"], "admissionReviewVersions": ["v1", "v1beta1"]}),
    );
    let owned = json!({"owned": [{"name": "a.example.com"}, {"name": "b.example.com"}]});
    let more = json!({"webhookdefinitions": [conversion], "customresourcedefinitions": owned});
    Bundle {
        crds: vec![crd("a.example.com"), crd("b.example.com")],
        ..bundle(&spec(ALL, more))
    }
}

#[test]
fn webhooks_become_configurations_with_one_entry() {
    let rule =
        json!({"apiGroups": ["g"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["r"]});
    let more = json!({"rules": [rule], "failurePolicy": "Fail", "matchPolicy": "Exact", "timeoutSeconds": 5,
        "objectSelector": {"matchLabels": {"a": "b"}}, "reinvocationPolicy": "IfNeeded",
        "webhookPath": "/path", "containerPort": 8443});
    let webhooks = json!([
        webhook("ValidatingAdmissionWebhook", more.clone()),
        webhook("MutatingAdmissionWebhook", more),
    ]);
    let bundle = with_webhooks(EVERY, &webhooks);
    let config = json!({"watchNamespace": "target"});
    let objects = rendered(&bundle, Some(&config));
    let entry = json!({
        "name": "w.example.com",
        "clientConfig": {"service": {"name": "demo-manager-service", "namespace": "ns", "path": "/path", "port": 8443}},
        "rules": [rule], "failurePolicy": "Fail", "matchPolicy": "Exact", "timeoutSeconds": 5,
        "namespaceSelector": {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["target"]}]},
        "objectSelector": {"matchLabels": {"a": "b"}},
        "sideEffects": "None", "admissionReviewVersions": ["v1"],
    });
    assert_eq!(
        *only(&objects, "ValidatingWebhookConfiguration"),
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "w.example.com", "annotations": {"cert-manager.io/inject-ca-from": "ns/demo-manager-service-cert"}},
            "webhooks": [entry],
        })
    );
    let mut mutating = entry;
    mutating["reinvocationPolicy"] = json!("IfNeeded");
    assert_eq!(
        only(&objects, "MutatingWebhookConfiguration")["webhooks"],
        json!([mutating])
    );
    let objects = rendered(&bundle, None);
    let all = &only(&objects, "MutatingWebhookConfiguration")["webhooks"][0];
    assert_eq!(all["namespaceSelector"], Value::Null);
}

#[test]
fn a_service_has_every_port_once_and_443_by_default() {
    let named = |name: &str, more: Value| {
        let mut webhook = webhook("ValidatingAdmissionWebhook", more);
        webhook["generateName"] = json!(name);
        webhook
    };
    let webhooks = json!([
        named("a", json!({"containerPort": 9443, "targetPort": "https"})),
        named("b", json!({"containerPort": 0})),
        named("c", json!({})),
        named("d", json!({"containerPort": 443, "targetPort": 4343})),
    ]);
    let objects = rendered(&with_webhooks(ALL, &webhooks), None);
    assert_eq!(
        *only(&objects, "Service"),
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "demo-manager-service", "namespace": "ns"},
            "spec": {"selector": {"app": "demo"}, "ports": [
                {"name": "443", "port": 443, "targetPort": 443, "protocol": "TCP"},
                {"name": "443", "port": 443, "targetPort": 4343, "protocol": "TCP"},
                {"name": "9443", "port": 9443, "targetPort": "https", "protocol": "TCP"},
            ]},
        })
    );
    for (name, port) in [("a", 9443), ("b", 443), ("c", 443)] {
        let configurations = of_kind(&objects, "ValidatingWebhookConfiguration");
        let found = configurations
            .iter()
            .find(|object| object["metadata"]["name"] == name);
        let service = &found.unwrap()["webhooks"][0]["clientConfig"]["service"];
        assert_eq!(service["port"], port, "{name}");
    }
}

#[test]
fn a_conversion_webhook_is_put_into_the_definitions_it_converts() {
    let objects = rendered(&converting(), None);
    let definitions = of_kind(&objects, "CustomResourceDefinition");
    assert_eq!(
        definitions[0]["spec"]["conversion"],
        json!({"strategy": "Webhook", "webhook": {
            "clientConfig": {"service": {"name": "demo-manager-service", "namespace": "ns", "path": "/", "port": 443}},
            "conversionReviewVersions": ["v1", "v1beta1"],
        }})
    );
    assert_eq!(
        definitions[0]["metadata"],
        json!({"name": "a.example.com",
            "annotations": {"cert-manager.io/inject-ca-from": "ns/demo-manager-service-cert"}})
    );
    assert_eq!(definitions[1]["spec"]["conversion"], Value::Null);
    assert_eq!(definitions[1]["metadata"], json!({"name": "b.example.com"}));
    assert!(of_kind(&objects, "ValidatingWebhookConfiguration").is_empty());
    assert_eq!(of_kind(&objects, "Service").len(), 1);
}

#[test]
fn cert_manager_gets_an_issuer_and_a_certificate() {
    let objects = with_provider(&converting(), &CertificateProvider::CertManager);
    assert_eq!(
        *only(&objects, "Issuer"),
        json!({
            "apiVersion": "cert-manager.io/v1", "kind": "Issuer",
            "metadata": {"name": "demo-manager-service-cert-selfsigned-issuer", "namespace": "ns"},
            "spec": {"selfSigned": {}},
        })
    );
    assert_eq!(
        *only(&objects, "Certificate"),
        json!({
            "apiVersion": "cert-manager.io/v1", "kind": "Certificate",
            "metadata": {"name": "demo-manager-service-cert", "namespace": "ns"},
            "spec": {
                "secretName": "demo-manager-service-cert",
                "commonName": "demo-manager-service.ns",
                "dnsNames": ["demo-manager-service.ns", "demo-manager-service.ns.svc", "demo-manager-service.ns.svc.cluster.local"],
                "usages": ["server auth"], "duration": "17520h0m0s", "renewBefore": "24h0m0s",
                "issuerRef": {"name": "demo-manager-service-cert-selfsigned-issuer"},
            },
        })
    );
    let long = Endpoint::new("d", &"n".repeat(63));
    let objects = CertificateProvider::CertManager.objects(&long);
    assert_eq!(objects[1]["spec"]["commonName"], Value::Null);
}

#[test]
fn openshift_is_asked_by_annotations() {
    let objects = with_provider(&converting(), &CertificateProvider::OpenshiftServiceCa);
    assert_eq!(
        only(&objects, "Service")["metadata"]["annotations"],
        json!({"service.beta.openshift.io/serving-cert-secret-name": "demo-manager-service-cert"})
    );
    let definition = of_kind(&objects, "CustomResourceDefinition")[0];
    assert_eq!(
        definition["metadata"]["annotations"],
        json!({"service.beta.openshift.io/inject-cabundle": "true"})
    );
    assert!(of_kind(&objects, "Issuer").is_empty() && of_kind(&objects, "Certificate").is_empty());
}

#[test]
fn own_certificates_are_written_where_clients_look() {
    let objects = with_provider(&converting(), &own_certificates());
    let definition = of_kind(&objects, "CustomResourceDefinition")[0];
    let config = &definition["spec"]["conversion"]["webhook"]["clientConfig"];
    assert_eq!(config["caBundle"], "UEVN");
    assert_eq!(definition["metadata"], json!({"name": "a.example.com"}));
    let template = &only(&objects, "Deployment")["spec"]["template"];
    assert_eq!(template["metadata"]["annotations"]["olmcahash"], "hash");
    let webhooks = json!([webhook("MutatingAdmissionWebhook", json!({}))]);
    let objects = with_provider(&with_webhooks(ALL, &webhooks), &own_certificates());
    let configuration = only(&objects, "MutatingWebhookConfiguration");
    assert_eq!(configuration["webhooks"][0]["clientConfig"]["caBundle"], "UEVN");
}

#[test]
fn the_caller_learns_for_whom_to_issue_certificates() {
    let found = endpoints(&converting(), "ns");
    assert_eq!(found.len(), 1);
    assert_eq!(
        (
            found[0].deployment.as_str(),
            found[0].service.as_str(),
            found[0].secret.as_str()
        ),
        (
            "demo.manager",
            "demo-manager-service",
            "demo-manager-service-cert"
        )
    );
    assert_eq!(
        found[0].hosts(),
        [
            "demo-manager-service.ns",
            "demo-manager-service.ns.svc",
            "demo-manager-service.ns.svc.cluster.local"
        ]
    );
    assert!(endpoints(&bundle(&spec(ALL, json!({}))), "ns").is_empty());
    let long = Endpoint::new(&"d".repeat(253), "ns");
    assert_eq!((long.service.len(), long.secret.len()), (63, 63));
}

#[test]
fn certificates_replace_what_the_author_mounts_there() {
    let mut bundle = converting();
    let mut deployment = bundle.csv.spec.install.deployments()[0].clone();
    let mut spec = deployment.spec.raw().clone();
    spec["template"]["spec"] = json!({
        "volumes": [{"name": "cert", "emptyDir": {}}, {"name": "apiservice-cert", "emptyDir": {}}, {"name": "other", "emptyDir": {}}],
        "containers": [
            {"name": "a", "volumeMounts": [
                {"name": "cert", "mountPath": "/tmp/k8s-webhook-server/serving-certs"},
                {"name": "apiservice-cert", "mountPath": "/elsewhere"},
                {"name": "other", "mountPath": "/other"}]},
            {"name": "b"}],
        "initContainers": [{"name": "i"}],
    });
    deployment.spec = olm_api::Embedded::from_raw(spec);
    let install = &mut bundle.csv.spec.install;
    install.spec.as_mut().unwrap().deployments = vec![deployment];
    let objects = rendered(&bundle, None);
    let items = |certificate: &str, key: &str| json!([{"key": "tls.crt", "path": certificate}, {"key": "tls.key", "path": key}]);
    let secret = "demo-manager-service-cert";
    let mounts = [
        json!({"name": "webhook-cert", "mountPath": "/tmp/k8s-webhook-server/serving-certs"}),
        json!({"name": "apiservice-cert", "mountPath": "/apiserver.local.config/certificates"}),
    ];
    assert_eq!(
        only(&objects, "Deployment")["spec"]["template"]["spec"],
        json!({
            "volumes": [
                {"name": "other", "emptyDir": {}},
                {"name": "webhook-cert", "secret": {"secretName": secret, "items": items("tls.crt", "tls.key")}},
                {"name": "apiservice-cert", "secret": {"secretName": secret, "items": items("apiserver.crt", "apiserver.key")}},
            ],
            "containers": [
                {"name": "a", "volumeMounts": [{"name": "other", "mountPath": "/other"}, mounts[0], mounts[1]]},
                {"name": "b", "volumeMounts": mounts},
            ],
            "initContainers": [{"name": "i"}],
        })
    );
}
