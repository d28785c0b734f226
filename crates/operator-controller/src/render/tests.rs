use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::for_tests::{bundle, crd, modes, other};
use super::*;

mod serving;

const ALL: &[&str] = &["AllNamespaces"];
const EVERY: &[&str] = &["AllNamespaces", "OwnNamespace", "SingleNamespace"];

static CERT_MANAGER: CertificateProvider = CertificateProvider::CertManager;

fn options(config: Option<&Value>) -> Options<'_> {
    Options {
        namespace: "ns",
        config,
        certificates: &CERT_MANAGER,
    }
}

fn rendered(bundle: &Bundle, config: Option<&Value>) -> Vec<Value> {
    render(bundle, &options(config)).unwrap()
}

/// Returns the objects of a kind.
fn of_kind<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
    objects.iter().filter(|object| object["kind"] == kind).collect()
}

fn only<'a>(objects: &'a [Value], kind: &str) -> &'a Value {
    let found = of_kind(objects, kind);
    assert_eq!(found.len(), 1, "{kind}: {found:?}");
    found[0]
}

/// Returns the spec of an operator with one Deployment `demo.manager`.
fn spec(supported: &[&str], more: Value) -> Value {
    let mut spec = json!({
        "installModes": modes(supported),
        "install": {"strategy": "deployment", "spec": {"deployments": [{
            "name": "demo.manager", "label": {"a": "b"},
            "spec": {
                "replicas": 1, "unknown": 1, "selector": {"matchLabels": {"app": "demo"}},
                "template": {
                    "metadata": {"labels": {"app": "demo"}, "annotations": {"both": "template", "template": "yes"}},
                    "spec": {"serviceAccountName": "sa", "containers": [{"name": "c", "image": "i"}]},
                },
            },
        }]}},
    });
    if let (Value::Object(map), Value::Object(more)) = (&mut spec, more) {
        map.extend(more);
    }
    spec
}

fn webhook(kind: &str, more: Value) -> Value {
    let mut webhook = json!({"type": kind, "generateName": "w.example.com", "deploymentName": "demo.manager",
        "admissionReviewVersions": ["v1"], "sideEffects": "None"});
    if let (Value::Object(map), Value::Object(more)) = (&mut webhook, more) {
        map.extend(more);
    }
    webhook
}

fn with_webhooks(supported: &[&str], webhooks: &Value) -> Bundle {
    bundle(&spec(supported, json!({"webhookdefinitions": webhooks})))
}

#[test]
fn bundles_that_need_what_is_missing_are_refused() {
    let api_services = json!({"owned": [{"name": "a", "group": "g", "version": "v1", "kind": "K"}]});
    let api_services = bundle(&spec(ALL, json!({"apiservicedefinitions": api_services})));
    let multi = bundle(&spec(&["MultiNamespace"], json!({})));
    for (bundle, expected) in [
        (&api_services, "apiServiceDefintions are not supported"),
        (
            &multi,
            "bundle must support at least one of [AllNamespaces SingleNamespace OwnNamespace] install modes",
        ),
    ] {
        let error = render(bundle, &options(None)).unwrap_err();
        assert_eq!(error.to_string(), format!("unsupported bundle: {expected}"));
    }
}

#[test]
fn an_invalid_configuration_is_terminal_and_defects_are_joined() {
    let own = bundle(&spec(&["OwnNamespace"], json!({})));
    let error = render(&own, &options(None)).unwrap_err();
    assert!(matches!(error, RenderError::Configuration(_)));
    assert_eq!(
        error.to_string(),
        "invalid ClusterExtension configuration: invalid configuration: required field \"watchNamespace\" is missing"
    );
    let others = ["a", "b"].map(|name| {
        other(
            "x.yaml",
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}}),
        )
    });
    let defective = Bundle {
        others: others.to_vec(),
        ..bundle(&spec(ALL, json!({})))
    };
    let error = render(&defective, &options(None)).unwrap_err();
    assert!(!matches!(error, RenderError::Configuration(_)));
    assert_eq!(
        error.to_string(),
        "unsupported resource \"a\" with kind \"Pod\"\nunsupported resource \"b\" with kind \"Pod\""
    );
}

#[test]
fn a_deployment_has_the_annotations_of_its_csv() {
    let mut bundle = bundle(&spec(EVERY, json!({})));
    let annotations = [
        ("both", "csv"),
        ("kubectl.kubernetes.io/last-applied-configuration", "{}"),
    ];
    let annotations = annotations.map(|(key, value)| (key.to_owned(), value.to_owned()));
    bundle.csv.metadata.annotations = Some(BTreeMap::from(annotations));
    for (config, targets) in [
        (json!({"watchNamespace": "other"}), "other"),
        (json!({"watchNamespace": "ns"}), "ns"),
        (json!({}), ""),
    ] {
        let objects = rendered(&bundle, Some(&config));
        assert_eq!(
            *only(&objects, "Deployment"),
            json!({
                "apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {"name": "demo.manager", "namespace": "ns", "labels": {"a": "b"}},
                "spec": {
                    "replicas": 1, "revisionHistoryLimit": 1, "selector": {"matchLabels": {"app": "demo"}},
                    "template": {
                        "metadata": {"labels": {"app": "demo"}, "annotations": {
                            "both": "csv", "template": "yes",
                            "olm.targetNamespaces": targets, "olm.operatorNamespace": "ns",
                        }},
                        "spec": {"serviceAccountName": "sa", "containers": [{"name": "c", "image": "i"}]},
                    },
                },
            })
        );
        assert_eq!(objects.len(), 1, "{objects:?}");
    }
}

#[test]
fn a_deployment_config_reaches_pods_and_annotations() {
    let config = json!({"deploymentConfig": {"env": [{"name": "A", "value": "1"}], "nodeSelector": {"a": "b"},
        "annotations": {"both": "config", "olm.operatorNamespace": "x", "new": "config"}}});
    let objects = rendered(&bundle(&spec(ALL, json!({}))), Some(&config));
    let deployment = only(&objects, "Deployment");
    assert_eq!(
        deployment["metadata"]["annotations"],
        json!({"both": "config", "olm.operatorNamespace": "x", "new": "config"})
    );
    let template = &deployment["spec"]["template"];
    assert_eq!(
        template["metadata"]["annotations"],
        json!({"both": "template", "template": "yes", "new": "config",
            "olm.targetNamespaces": "", "olm.operatorNamespace": "ns"})
    );
    assert_eq!(
        template["spec"],
        json!({"serviceAccountName": "sa", "nodeSelector": {"a": "b"},
            "containers": [{"name": "c", "image": "i", "env": [{"name": "A", "value": "1"}]}]})
    );
}

fn with_permissions() -> Bundle {
    let rule = |resource: &str| json!({"apiGroups": ["g"], "resources": [resource], "verbs": ["get"]});
    let mut spec = spec(EVERY, json!({}));
    spec["install"]["spec"]["permissions"] = json!([
        {"serviceAccountName": "sa", "rules": [rule("a")]},
        {"serviceAccountName": "", "rules": [rule("b")]},
    ]);
    spec["install"]["spec"]["clusterPermissions"] = json!([
        {"serviceAccountName": "other", "rules": [rule("c")]},
        {"serviceAccountName": "default", "rules": [rule("d")]},
        {"serviceAccountName": "sa", "rules": [rule("e")]},
    ]);
    bundle(&spec)
}

/// Returns `Kind namespace/account resources` of each Role or ClusterRole, found through its binding.
fn grants(objects: &[Value]) -> Vec<String> {
    let mut grants = Vec::new();
    for (role, binding) in [("Role", "RoleBinding"), ("ClusterRole", "ClusterRoleBinding")] {
        let bindings = of_kind(objects, binding);
        assert_eq!(of_kind(objects, role).len(), bindings.len());
        for binding in bindings {
            let is_role = |candidate: &&&Value| candidate["metadata"] == binding["metadata"];
            let roles = of_kind(objects, role);
            let found = roles.iter().find(is_role).unwrap();
            let reference = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": role,
                "name": binding["metadata"]["name"]});
            assert_eq!(binding["roleRef"], reference);
            let subject = &binding["subjects"][0];
            assert_eq!(
                (&subject["kind"], &subject["namespace"]),
                (&json!("ServiceAccount"), &json!("ns"))
            );
            let resources: Vec<&str> = found["rules"]
                .as_array()
                .unwrap()
                .iter()
                .map(|rule| rule["resources"][0].as_str().unwrap())
                .collect();
            grants.push(format!(
                "{role} {}/{} {}",
                binding["metadata"]["namespace"].as_str().unwrap_or_default(),
                subject["name"].as_str().unwrap(),
                resources.join(",")
            ));
        }
    }
    grants.sort();
    grants
}

#[test]
fn accounts_are_made_except_the_default_and_those_of_the_bundle() {
    let names = |bundle: &Bundle| -> Vec<String> {
        let objects = rendered(bundle, None);
        let accounts = of_kind(&objects, "ServiceAccount");
        accounts
            .iter()
            .map(|account| {
                format!(
                    "{} {}",
                    account["metadata"]["name"], account["metadata"]["namespace"]
                )
            })
            .collect()
    };
    let both = [r#""other" "ns""#, r#""sa" "ns""#];
    assert_eq!(names(&with_permissions()), both);
    let own = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "sa", "namespace": "x"},
        "imagePullSecrets": [{"name": "p"}]});
    let bundle = Bundle {
        others: vec![other("sa.yaml", own)],
        ..with_permissions()
    };
    assert_eq!(names(&bundle), both);
    let objects = rendered(&bundle, None);
    let own = of_kind(&objects, "ServiceAccount")[1];
    assert_eq!(own["imagePullSecrets"], json!([{"name": "p"}]));
}

#[test]
fn permissions_are_roles_in_the_target_namespace() {
    let config = json!({"watchNamespace": "target"});
    assert_eq!(
        grants(&rendered(&with_permissions(), Some(&config))),
        [
            "ClusterRole /default d",
            "ClusterRole /other c",
            "ClusterRole /sa e",
            "Role target/default b",
            "Role target/sa a",
        ]
    );
}

#[test]
fn permissions_are_cluster_roles_that_read_namespaces_if_all_are_watched() {
    let objects = rendered(&with_permissions(), None);
    assert_eq!(
        grants(&objects),
        [
            "ClusterRole /default b,namespaces",
            "ClusterRole /default d",
            "ClusterRole /other c",
            "ClusterRole /sa a,namespaces",
            "ClusterRole /sa e",
        ]
    );
    let roles = of_kind(&objects, "ClusterRole");
    let promoted = roles
        .iter()
        .find(|role| role["rules"][0]["resources"][0] == "a")
        .unwrap();
    assert_eq!(
        promoted["rules"][1],
        json!({"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list", "watch"]})
    );
}

#[test]
fn role_names_are_upstreams() {
    let objects = rendered(&with_permissions(), None);
    let roles = of_kind(&objects, "ClusterRole");
    let name = |resource: &str| {
        let mut roles = roles.iter();
        let found = roles.find(|role| role["rules"][0]["resources"][0] == resource);
        found.unwrap()["metadata"]["name"].as_str().unwrap()
    };
    // The hash of {"serviceAccountName":"sa","rules":[{"verbs":["get"],"apiGroups":["g"],"resources":["e"]}]} and a newline.
    assert_eq!(
        name("e"),
        "demo.v1.0.0-sa-28yyi0150brhy5rmuw4v6kwlic0d06tunpywfzzjsgve"
    );
    let cut = name("d");
    assert!(cut.starts_with("demo.v1.0.0-defaul") && cut.len() <= 63, "{cut}");
}

#[test]
fn other_objects_are_as_shipped_in_the_install_namespace() {
    let object = |kind: &str| {
        json!({"apiVersion": "v1", "kind": kind, "status": {},
            "metadata": {"name": "x", "namespace": "elsewhere", "labels": {"a": "b"}, "generation": 1}})
    };
    let bundle = Bundle {
        others: vec![
            other("a", object("ConfigMap")),
            other("b", object("PriorityClass")),
        ],
        ..bundle(&spec(ALL, json!({})))
    };
    let objects = rendered(&bundle, None);
    assert_eq!(
        *only(&objects, "ConfigMap"),
        json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "x", "namespace": "ns", "labels": {"a": "b"}}})
    );
    assert_eq!(
        only(&objects, "PriorityClass")["metadata"],
        json!({"name": "x", "labels": {"a": "b"}})
    );
}

#[test]
fn objects_are_sorted() {
    let webhooks = json!([
        webhook("MutatingAdmissionWebhook", json!({})),
        webhook("ValidatingAdmissionWebhook", json!({})),
    ]);
    let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let bundle = Bundle {
        crds: vec![crd("b.example.com"), crd("a.example.com")],
        others: vec![other("1", map("z")), other("2", map("y"))],
        ..with_webhooks(ALL, &webhooks)
    };
    let all = rendered(&bundle, None);
    let lines: Vec<String> = all
        .iter()
        .map(|object| {
            let (kind, name) = (&object["kind"], &object["metadata"]["name"]);
            format!("{} {}", kind.as_str().unwrap(), name.as_str().unwrap())
        })
        .collect();
    assert_eq!(
        lines,
        [
            "ConfigMap y",
            "ConfigMap z",
            "Service demo-manager-service",
            "MutatingWebhookConfiguration w.example.com",
            "ValidatingWebhookConfiguration w.example.com",
            "CustomResourceDefinition a.example.com",
            "CustomResourceDefinition b.example.com",
            "Deployment demo.manager",
            "Certificate demo-manager-service-cert",
            "Issuer demo-manager-service-cert-selfsigned-issuer",
        ]
    );
    assert_eq!(rendered(&bundle, None), all);
}
