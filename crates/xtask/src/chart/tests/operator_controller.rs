//! Tests of operator-controller in the chart.

use super::*;

/// Returns the volume of the pod by name.
#[track_caller]
fn volume<'a>(objects: &'a [Value], name: &str) -> &'a Value {
    let volumes = pod(objects, OPERATOR_CONTROLLER)["spec"]["volumes"].as_array();
    let mut volumes = volumes.into_iter().flatten();
    volumes.find(|volume| volume["name"] == name).unwrap()
}

/// It reads contents from catalogd, whose certificate has one of four makers. The key stays with catalogd.
#[test]
fn it_trusts_the_certificate_of_catalogd() {
    let of_secret = |name: &str| json!({"secretName": name, "items": [{"key": "ca.crt", "path": "ca.crt"}]});
    for (values, source, wanted) in [
        (
            "v1: {enabled: true}",
            "secret",
            of_secret("catalogd-service-cert"),
        ),
        (
            "{v1: {enabled: true}, catalogd: {tlsSecret: mine}}",
            "secret",
            of_secret("mine"),
        ),
        (
            "{v1: {enabled: true}, certManager: {enabled: true}}",
            "secret",
            of_secret("olm-cert"),
        ),
        (
            "{v1: {enabled: true}, serviceCa: {enabled: true}}",
            "configMap",
            json!({"name": "catalogd-ca", "items": [{"key": "service-ca.crt", "path": "ca.crt"}]}),
        ),
    ] {
        let Some(objects) = rendered(values) else { return };
        assert_eq!(volume(&objects, "catalogd-ca")[source], wanted, "{values}");
        let container = &pod(&objects, OPERATOR_CONTROLLER)["spec"]["containers"][0];
        let mounts = container["volumeMounts"].as_array().unwrap();
        let mount = mounts
            .iter()
            .find(|mount| mount["name"] == "catalogd-ca")
            .unwrap();
        let arguments = container["args"].as_array().unwrap();
        let folder = mount["mountPath"].as_str().unwrap();
        assert!(
            arguments.contains(&json!(format!("--catalogd-cas-dir={folder}"))),
            "{arguments:?}"
        );
        let of_openshift = objects
            .iter()
            .find(|object| name(object) == "ConfigMap/catalogd-ca")
            .map(|object| &object["metadata"]["annotations"]["service.beta.openshift.io/inject-cabundle"]);
        assert_eq!(
            of_openshift,
            (source == "configMap").then_some(&json!("true")),
            "{values}"
        );
    }
}

#[test]
fn metrics_are_served_over_tls_with_the_certificate_of_the_other_programs() {
    for (values, secret) in [
        ("v1: {enabled: true}", "operator-controller-cert"),
        (
            "{v1: {enabled: true}, operatorController: {tlsSecret: mine}}",
            "mine",
        ),
        ("{v1: {enabled: true}, certManager: {enabled: true}}", "olm-cert"),
        (
            "{v1: {enabled: true}, serviceCa: {enabled: true}}",
            "operator-controller-serving-cert",
        ),
    ] {
        let Some(objects) = rendered(values) else { return };
        let container = &pod(&objects, OPERATOR_CONTROLLER)["spec"]["containers"][0];
        let has = |flag: &str| container["args"].as_array().unwrap().contains(&json!(flag));
        for flag in ["--metrics-bind-address=:8443", "--tls-cert=/srv-cert/tls.crt"] {
            assert!(has(flag), "{values}: {flag}");
        }
        let port = json!({"name": "https-metrics", "containerPort": 8443});
        let ports = container["ports"].as_array().unwrap();
        assert!(ports.contains(&port), "{values}");
        let reviewers = &find(&objects, "ClusterRoleBinding/olm:metrics")["subjects"];
        let account = json!({"kind": "ServiceAccount", "name": "operator-controller-controller-manager", "namespace": "olm"});
        assert!(reviewers.as_array().unwrap().contains(&account), "{values}");
        assert_eq!(
            volume(&objects, "srv-cert")["secret"]["secretName"],
            secret,
            "{values}"
        );
        assert_eq!(
            names(&objects).contains("Secret/operator-controller-cert"),
            secret == "operator-controller-cert",
            "{values}"
        );
        if values.contains("certManager") {
            let hosts = &find(&objects, "Certificate/olm-cert")["spec"]["dnsNames"];
            assert_eq!(hosts[3], "operator-controller-service.olm.svc");
        }
        if values.contains("serviceCa") {
            let service = &find(&objects, "Service/operator-controller-service")["metadata"];
            let annotation = &service["annotations"]["service.beta.openshift.io/serving-cert-secret-name"];
            assert_eq!(annotation, "operator-controller-serving-cert");
        }
    }
}

/// Only operator-controller has the cluster, only with `v1.enabled`, and by a binding of upstream's name.
#[test]
fn it_alone_is_bound_to_cluster_admin() {
    for values in ["{}", "v1: {enabled: true}"] {
        let Some(objects) = rendered(values) else { return };
        let bindings = objects
            .iter()
            .filter(|object| object["roleRef"]["name"] == "cluster-admin");
        let bindings: Vec<&Value> = bindings.collect();
        if values == "{}" {
            assert!(bindings.is_empty(), "{bindings:?}");
            continue;
        }
        let [binding] = bindings.as_slice() else {
            panic!("{bindings:?}");
        };
        assert_eq!(
            name(binding),
            "ClusterRoleBinding/operator-controller-cluster-admin-rolebinding"
        );
        assert_eq!(
            binding["subjects"],
            json!([{"kind": "ServiceAccount", "name": "operator-controller-controller-manager", "namespace": "olm"}])
        );
        let rules = &find(&objects, "Role/operator-controller")["rules"];
        assert_eq!(
            rules[0]["resourceNames"],
            json!(["9c4404e7.operatorframework.io"])
        );
        assert_eq!(
            rules[2]["resourceNames"],
            json!(["operator-controller-controller-manager"])
        );
        let own = find(&objects, "ClusterRole/olm:operator-controller")["rules"]
            .as_array()
            .unwrap();
        let groups: BTreeSet<String> = own.iter().map(|rule| rule["apiGroups"].to_string()).collect();
        assert_eq!(
            groups.into_iter().collect::<Vec<_>>(),
            [
                r#"[""]"#,
                r#"["apiextensions.k8s.io"]"#,
                r#"["authorization.k8s.io"]"#,
                r#"["events.k8s.io"]"#,
                r#"["olm.operatorframework.io"]"#,
                r#"["rbac.authorization.k8s.io"]"#
            ]
        );
    }
}
