//! Tests of catalogd in the chart.

use super::*;

#[test]
fn without_olm_v1_nothing_of_it_is_installed() {
    let Some(objects) = rendered("{}") else { return };
    for object in &objects {
        let text = object.to_string();
        assert!(
            ![
                "catalogd",
                "clustercatalog",
                "operator-controller",
                "clusterextension"
            ]
            .iter()
            .any(|word| text.contains(word)),
            "{}",
            name(object)
        );
    }
}

#[test]
fn with_olm_v1_there_are_the_definitions_and_what_its_programs_need() {
    let Some(usual) = rendered("{}") else { return };
    let Some(objects) = rendered("{v1: {enabled: true}, namespace: elsewhere}") else {
        return;
    };
    let usual = names(&usual);
    let more: Vec<String> = names(&objects)
        .into_iter()
        .filter(|name| !usual.contains(name))
        .collect();
    assert_eq!(
        more,
        [
            "ClusterRole/catalogd-metrics-reader",
            "ClusterRole/olm:catalogd",
            "ClusterRole/olm:metrics",
            "ClusterRole/olm:operator-controller",
            "ClusterRole/operator-controller-metrics-reader",
            "ClusterRole/operator-lifecycle-manager-metrics-reader",
            "ClusterRoleBinding/olm:catalogd",
            "ClusterRoleBinding/olm:metrics",
            "ClusterRoleBinding/olm:operator-controller",
            "ClusterRoleBinding/operator-controller-cluster-admin-rolebinding",
            "CustomResourceDefinition/clustercatalogs.olm.operatorframework.io",
            "CustomResourceDefinition/clusterextensions.olm.operatorframework.io",
            "CustomResourceDefinition/clusterobjectsets.olm.operatorframework.io",
            "Deployment/catalogd-controller-manager",
            "Deployment/operator-controller-controller-manager",
            "Namespace/elsewhere",
            "NetworkPolicy/catalogd",
            "NetworkPolicy/operator-controller",
            "Role/catalogd",
            "Role/operator-controller",
            "RoleBinding/catalogd",
            "RoleBinding/operator-controller",
            "Secret/catalogd-service-cert",
            "Secret/operator-controller-cert",
            "Service/catalogd-service",
            "Service/operator-controller-service",
            "ServiceAccount/catalogd-controller-manager",
            "ServiceAccount/operator-controller-controller-manager",
        ]
    );
    for kind in ["clustercatalogs", "clusterextensions", "clusterobjectsets"] {
        let wanted = format!("CustomResourceDefinition/{kind}.olm.operatorframework.io");
        let metadata = &find(&objects, &wanted)["metadata"];
        assert_eq!(
            metadata["annotations"]["helm.sh/resource-policy"], "keep",
            "{wanted}"
        );
    }
    let container = &pod(&objects, CATALOGD)["spec"]["containers"][0];
    let arguments = container["args"].as_array().unwrap();
    assert!(
        arguments.contains(&json!("--external-address=catalogd-service.elsewhere.svc")),
        "{arguments:?}"
    );
    let service = &find(&objects, "Service/catalogd-service")["spec"];
    let ports = container["ports"].as_array().unwrap();
    let policy = &find(&objects, "NetworkPolicy/catalogd")["spec"]["ingress"];
    for (port, number) in [("catalogs", 8443), ("https-metrics", 7443)] {
        assert!(
            ports.contains(&json!({"name": port, "containerPort": number})),
            "{ports:?}"
        );
        assert!(service["ports"].to_string().contains(port), "{service}");
        assert!(policy.to_string().contains(port), "{policy}");
    }
}

/// One of the three makes the certificate, or the user has it.
#[test]
fn the_certificate_is_that_of_the_other_programs_or_made() {
    const MADE: &str = "Secret/catalogd-service-cert";
    for (values, secret) in [
        ("v1: {enabled: true}", "catalogd-service-cert"),
        ("{v1: {enabled: true}, catalogd: {tlsSecret: mine}}", "mine"),
        ("{v1: {enabled: true}, certManager: {enabled: true}}", "olm-cert"),
        (
            "{v1: {enabled: true}, serviceCa: {enabled: true}}",
            "catalogd-serving-cert",
        ),
    ] {
        let Some(objects) = rendered(values) else { return };
        let volumes = pod(&objects, CATALOGD)["spec"]["volumes"].as_array().unwrap();
        let mounted = volumes
            .iter()
            .find(|volume| volume["name"] == "srv-cert")
            .unwrap();
        assert_eq!(mounted["secret"]["secretName"], secret, "{values}");
        assert_eq!(
            names(&objects).contains(MADE),
            secret == "catalogd-service-cert",
            "{values}"
        );
        let annotation = &find(&objects, "Service/catalogd-service")["metadata"]["annotations"];
        let of_openshift = &annotation["service.beta.openshift.io/serving-cert-secret-name"];
        assert_eq!(of_openshift == secret, values.contains("serviceCa"), "{values}");
        if values.contains("certManager") {
            let hosts = &find(&objects, "Certificate/olm-cert")["spec"]["dnsNames"];
            assert_eq!(hosts[2], "catalogd-service.olm.svc");
        }
    }
    let Some(objects) = rendered("v1: {enabled: true}") else {
        return;
    };
    let made = find(&objects, MADE);
    for key in ["ca.crt", "tls.crt", "tls.key"] {
        assert!(made["data"][key].is_string(), "{key}");
    }
    // An ECDSA key is a fifth of an RSA key, and clients of TLS 1.2 may insist on cipher suites with ECDSA.
    assert!(made["data"]["tls.key"].as_str().unwrap().len() < 400);
}

/// It reads ClusterCatalogs, and Secrets of its own namespace only.
#[test]
fn its_rights_end_at_its_catalogs_and_its_namespace() {
    let Some(objects) = rendered("v1: {enabled: true}") else {
        return;
    };
    let rules = find(&objects, "ClusterRole/olm:catalogd")["rules"]
        .as_array()
        .unwrap();
    let resources: Vec<String> = rules.iter().map(|rule| rule["resources"].to_string()).collect();
    assert_eq!(
        resources,
        [
            r#"["clustercatalogs"]"#,
            r#"["clustercatalogs/status"]"#,
            r#"["events"]"#
        ]
    );
    let rules = &find(&objects, "Role/catalogd")["rules"];
    assert_eq!(
        rules[3],
        json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]})
    );
    assert_eq!(rules[2]["resourceNames"], json!(["catalogd-controller-manager"]));
    assert_eq!(rules[0]["resourceNames"], json!(["catalogd-operator-lock"]));
}
