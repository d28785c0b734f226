use serde_json::json;

use super::*;
use crate::render::for_tests::{bundle, crd, modes, other};

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LENGTH: &str = "must be no more than 253 characters";

fn deployments(names: &[&str]) -> Value {
    let deployments: Value = names
        .iter()
        .map(|name| json!({"name": name, "spec": {}}))
        .collect();
    json!({"strategy": "deployment", "spec": {"deployments": deployments}})
}

/// Returns the defects of a bundle with these webhooks, all served by Deployment `d`.
fn of_webhooks(webhooks: &Value) -> Vec<String> {
    let bundle = bundle(
        &json!({"install": deployments(&["d"]), "installModes": modes(&["AllNamespaces"]),
        "webhookdefinitions": webhooks,
        "customresourcedefinitions": {"owned": [{"name": "a.example.com"}, {"name": "b.example.com"}]}}),
    );
    let crds = ["a.example.com", "b.example.com"].map(crd).to_vec();
    defects(&Bundle { crds, ..bundle }).unwrap()
}

fn webhook(kind: &str, name: &str, deployment: &str) -> Value {
    json!({"type": kind, "generateName": name, "deploymentName": deployment})
}

fn conversion(name: &str, crds: &[&str]) -> Value {
    json!({"type": "ConversionWebhook", "generateName": name, "deploymentName": "d", "conversionCRDs": crds})
}

#[test]
fn a_bundle_without_defects_has_none() {
    let webhooks = json!([
        webhook("ValidatingAdmissionWebhook", "a.example.com", "d"),
        webhook("MutatingAdmissionWebhook", "a.example.com", "d"),
        conversion("a.example.com", &["a.example.com"]),
    ]);
    assert_eq!(of_webhooks(&webhooks), [""; 0]);
}

#[test]
fn deployments_have_different_and_valid_names() {
    let long = "a".repeat(254);
    let bundle = bundle(&json!({"install": deployments(&["b", "b", "a", "a", "a", "-x", "A-", &long])}));
    let bad = format!("{}-", "a".repeat(253));
    assert_eq!(
        defects(&bundle).unwrap(),
        [
            "cluster service version contains duplicate strategy deployment spec 'a'".to_owned(),
            "cluster service version contains duplicate strategy deployment spec 'b'".to_owned(),
            format!("invalid cluster service version strategy deployment name '-x': {SUBDOMAIN}"),
            format!("invalid cluster service version strategy deployment name 'A-': {SUBDOMAIN}"),
            format!("invalid cluster service version strategy deployment name '{long}': {LENGTH}"),
        ]
    );
    let bundle = crate::render::for_tests::bundle(&json!({"install": deployments(&[&bad])}));
    assert_eq!(
        defects(&bundle).unwrap(),
        [format!(
            "invalid cluster service version strategy deployment name '{bad}': {SUBDOMAIN}, {LENGTH}"
        )]
    );
}

#[test]
fn definitions_are_there_once() {
    let owned = json!([{"name": "b.example.com"}, {"name": "x.example.com"}, {"name": "c.example.com"}]);
    let bundle = bundle(&json!({"customresourcedefinitions": {"owned": owned}}));
    let crds = ["a.example.com", "b.example.com", "a.example.com"]
        .map(crd)
        .to_vec();
    assert_eq!(
        defects(&Bundle { crds, ..bundle }).unwrap(),
        [
            "bundle contains duplicate custom resource definition 'a.example.com'",
            "cluster service definition references owned custom resource definition 'c.example.com' not found in bundle",
            "cluster service definition references owned custom resource definition 'x.example.com' not found in bundle",
        ]
    );
}

#[test]
fn the_package_is_named() {
    let package = String::new();
    let bundle = Bundle {
        package,
        ..bundle(&json!({}))
    };
    assert_eq!(defects(&bundle).unwrap(), ["package name is empty"]);
}

#[test]
fn conversion_needs_all_namespaces_alone() {
    let text = |name: &str, modes: &str| {
        format!(
            "bundle contains conversion webhook \"{name}\" and supports install modes [{modes}] - conversion webhooks are only supported for bundles that only support AllNamespaces install mode"
        )
    };
    for supported in [&["SingleNamespace", "AllNamespaces"][..], &[]] {
        let bundle = bundle(
            &json!({"install": deployments(&["d"]), "installModes": modes(supported),
            "webhookdefinitions": [conversion("b", &[]), conversion("a", &[])]}),
        );
        let mut sorted = supported.to_vec();
        sorted.sort_unstable();
        let listed = sorted.join(" ");
        assert_eq!(
            defects(&bundle).unwrap(),
            [text("b", &listed), text("a", &listed)]
        );
    }
}

#[test]
fn webhooks_are_served_by_deployments_of_the_bundle() {
    let webhooks = json!([
        webhook("ValidatingAdmissionWebhook", "v", "y"),
        webhook("ConversionWebhook", "c", "y"),
        webhook("MutatingAdmissionWebhook", "m", "x"),
        webhook("MutatingAdmissionWebhook", "n", "d"),
    ]);
    assert_eq!(
        of_webhooks(&webhooks),
        [
            "webhook of type 'MutatingAdmissionWebhook' with name 'm' references non-existent deployment 'x'",
            "webhook of type 'ConversionWebhook' with name 'c' references non-existent deployment 'y'",
            "webhook of type 'ValidatingAdmissionWebhook' with name 'v' references non-existent deployment 'y'",
        ]
    );
}

#[test]
fn webhooks_of_a_type_have_different_names() {
    let [validating, mutating] = ["ValidatingAdmissionWebhook", "MutatingAdmissionWebhook"];
    let webhooks = json!([
        webhook(validating, "b", "d"),
        webhook(validating, "b", "d"),
        webhook(validating, "b", "d"),
        webhook(mutating, "b", "d"),
        webhook(mutating, "a", "d"),
        webhook(mutating, "a", "d"),
    ]);
    assert_eq!(
        of_webhooks(&webhooks),
        [
            "duplicate webhook 'a' of type 'MutatingAdmissionWebhook'",
            "duplicate webhook 'b' of type 'ValidatingAdmissionWebhook'",
        ]
    );
}

#[test]
fn names_of_webhooks_are_valid() {
    let long = format!("{}-", "a".repeat(253));
    let webhooks = json!([
        webhook("ValidatingAdmissionWebhook", &long, "d"),
        webhook("ConversionWebhook", "a-", "d"),
    ]);
    assert_eq!(
        of_webhooks(&webhooks),
        [
            format!("webhook of type 'ConversionWebhook' has invalid name 'a-': {SUBDOMAIN}"),
            format!(
                "webhook of type 'ValidatingAdmissionWebhook' has invalid name '{long}': {SUBDOMAIN},{LENGTH}"
            ),
        ]
    );
}

#[test]
fn a_definition_has_one_conversion_and_it_is_owned() {
    let webhooks = json!([
        conversion("w2", &["a.example.com", "z.example.com"]),
        conversion("w1", &["b.example.com", "a.example.com", "c.example.com"]),
    ]);
    assert_eq!(
        of_webhooks(&webhooks),
        [
            "conversion webhooks [w1,w2] reference same custom resource definition 'a.example.com'",
            "conversion webhook 'w1' references custom resource definition 'c.example.com' not owned bundle",
            "conversion webhook 'w2' references custom resource definition 'z.example.com' not owned bundle",
        ]
    );
}

#[test]
fn a_converted_definition_does_not_preserve_unknown_fields() {
    let bundle = bundle(
        &json!({"install": deployments(&["d"]), "installModes": modes(&["AllNamespaces"]),
        "webhookdefinitions": [conversion("w", &["a.example.com"])],
        "customresourcedefinitions": {"owned": [{"name": "a.example.com"}]}}),
    );
    let mut preserving = crd("a.example.com");
    preserving.object["spec"]["preserveUnknownFields"] = json!(true);
    let mut bystander = crd("b.example.com");
    bystander.object["spec"]["preserveUnknownFields"] = json!(true);
    let crds = vec![preserving, bystander];
    assert_eq!(
        defects(&Bundle { crds, ..bundle }).unwrap(),
        [
            "custom resource definition 'a.example.com' must have .spec.preserveUnknownFields set to false to let API Server call webhook to do the conversion"
        ]
    );
}

#[test]
fn rules_do_not_reach_what_manages_the_webhook() {
    let with = |kind: &str, groups: &[&str], resources: &[&str]| {
        let rule =
            json!({"apiGroups": groups, "apiVersions": ["v1"], "operations": ["*"], "resources": resources});
        of_webhooks(&json!([{"type": kind, "generateName": "w", "deploymentName": "d", "rules": [rule]}]))
    };
    let start = "webhook \"w\" contains forbidden rule: admission webhook rules cannot reference";
    for kind in ["ValidatingAdmissionWebhook", "MutatingAdmissionWebhook"] {
        for group in ["*", "olm.operatorframework.io"] {
            assert_eq!(
                with(kind, &["apps", group], &["deployments"]),
                [format!("{start} API group \"{group}\"")]
            );
        }
        for resource in [
            "*",
            "MutatingWebhookConfiguration",
            "mutatingwebhookconfigurations",
            "ValidatingWebhookConfiguration",
            "validatingwebhookconfigurations",
        ] {
            assert_eq!(
                with(kind, &["admissionregistration.k8s.io"], &[resource]),
                [format!(
                    "{start} resource \"{resource}\" for API group \"admissionregistration.k8s.io\""
                )]
            );
        }
        let allowed = with(
            kind,
            &["admissionregistration.k8s.io"],
            &["validatingadmissionpolicies"],
        );
        assert_eq!(allowed, [""; 0]);
    }
    // Conversion webhooks have no rules.
    assert_eq!(with("ConversionWebhook", &["*"], &["*"]), [""; 0]);
}

#[test]
fn only_known_kinds_are_allowed() {
    let object =
        |kind: &str, name: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
    let known = KINDS.map(|(kind, _)| other("a.yaml", object(kind, kind)));
    let mut others = known.to_vec();
    others.push(other("b.yaml", object("Deployment", "my-deployment")));
    others.push(other("c.yaml", object("Job", "my-job")));
    let bundle = Bundle {
        others,
        ..bundle(&json!({}))
    };
    assert_eq!(
        defects(&bundle).unwrap(),
        [
            "unsupported resource \"my-deployment\" with kind \"Deployment\"",
            "unsupported resource \"my-job\" with kind \"Job\"",
        ]
    );
}

#[test]
fn what_the_api_server_would_reject_is_reported_before() {
    let mut old = crd("a.example.com");
    old.object["apiVersion"] = json!("apiextensions.k8s.io/v1beta1");
    let map =
        |data: u8| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data});
    let bundle = Bundle {
        crds: vec![old],
        others: vec![other("a.yaml", map(1)), other("b.yaml", map(2))],
        ..bundle(&json!({}))
    };
    assert_eq!(
        defects(&bundle).unwrap(),
        [
            "a.example.com.yaml: CustomResourceDefinition a.example.com has apiVersion apiextensions.k8s.io/v1beta1, which Kubernetes 1.22 and later do not serve; use apiextensions.k8s.io/v1",
            "a.yaml and b.yaml both contain ConfigMap c with different content",
        ]
    );
}
