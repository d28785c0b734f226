//! Verdicts compared with upstream's.

use super::*;

#[test]
fn verdicts_are_upstreams() {
    let webhook = json!([{"type": "ConversionWebhook", "conversionCRDs": ["things.p.io"]}]);
    let cases = [
        (
            "csv/metadata/name",
            json!("P_v1"),
            "metadata.name \"P_v1\" is invalid",
        ),
        (
            "csv/metadata/name",
            json!("p".repeat(64)),
            "must be no more than 63 bytes",
        ),
        (
            "csv/metadata/annotations",
            json!({"a": 1}),
            "metadata.annotations \"a\" must be text, found 1",
        ),
        ("csv/metadata/annotations", json!({"a": null}), ""),
        ("csv/metadata/annotations", json!({"alm-examples": "[]"}), ""),
        ("csv/metadata/annotations", json!({"alm-examples": ""}), ""),
        ("csv/metadata/annotations", json!({"alm-examples": "null"}), ""),
        ("csv/metadata/annotations", json!({"Alm-Examples": "["}), ""),
        (
            "csv/metadata/annotations",
            json!({"alm-examples": "[1]"}),
            "an example has no kind",
        ),
        (
            "csv/metadata/annotations",
            json!({"alm-examples": "{}"}),
            "alm-examples is no JSON list",
        ),
        (
            "csv/metadata/annotations",
            json!({"olm.examples": "["}),
            "invalid example",
        ),
        (
            "csv/metadata/annotations",
            json!({"alm-examples": "[{\"apiVersion\":\"p.io/v1\",\"kind\":\"Thing\"}]"}),
            "",
        ),
        (
            "csv/metadata/annotations",
            json!({"alm-examples": "[{\"apiVersion\":\"p.io/v2\",\"kind\":\"Thing\"}]"}),
            "Error: Value p.io/v2, Kind=Thing: example must have a provided API",
        ),
        (
            "csv/apiVersion",
            json!(null),
            "Error: Value : (p.v1) 'apiVersion' is missing",
        ),
        (
            "csv/spec",
            json!(null),
            "Error: Field Spec, Value struct: required field missing",
        ),
        (
            "csv/spec/displayName",
            json!(""),
            "Error: Field Spec.DisplayName, Value field: required field missing",
        ),
        (
            "csv/spec/replaces",
            json!("A b"),
            "spec.replaces \"A b\" is invalid",
        ),
        (
            "csv/spec/minKubeVersion",
            json!("1.20"),
            "csv.Spec.MinKubeVersion has an invalid value: 1.20",
        ),
        ("csv/spec/minKubeVersion", json!(" "), ""),
        (
            "csv/spec/release",
            json!("!!"),
            "spec.release: invalid release \"!!\"",
        ),
        ("csv/spec/release", json!(2), "spec.release must be text, found 2"),
        (
            "csv/spec/installModes",
            json!([{"type": "X", "supported": true}]),
            "",
        ),
        (
            "csv/spec/installModes",
            json!([{"type": "OwnNamespace", "supported": true}, {"type": "OwnNamespace"}]),
            "",
        ),
        ("csv/spec/webhookdefinitions", webhook.clone(), ""),
        (
            "csv/spec",
            json!({"version": "1.0.0", "displayName": "P", "install": {"strategy": "deployment"}, "webhookdefinitions": webhook,
                "installModes": [{"type": "AllNamespaces", "supported": true}, {"type": "OwnNamespace", "supported": true}]}),
            "only AllNamespaces InstallModeType is supported when conversionCRDs is present",
        ),
        (
            "csv/spec/install",
            json!({}),
            "Error: Field Spec.InstallStrategy, Value struct: required field missing",
        ),
        (
            "csv/spec/install",
            json!({"spec": {"deployments": []}}),
            "Error: Field Spec.InstallStrategy.StrategyName, Value field: required field missing",
        ),
        (
            "csv/spec/install/spec",
            json!({"permissions": []}),
            "Error: Field Spec.InstallStrategy.StrategySpec.DeploymentSpecs, Value field: required field missing",
        ),
        ("csv/spec/customresourcedefinitions", json!({}), ""),
        (
            "csv/spec/customresourcedefinitions/owned/0/group",
            json!("p.io"),
            "Error: Value {p.io Thing things.p.io v1}: owned CRD",
        ),
        (
            "csv/spec/customresourcedefinitions/owned",
            json!([{"name": "things.p.io", "version": "v1", "kind": "Thing"}, {"name": "things.p.io", "version": "v1", "kind": "Thing"}]),
            "is listed twice",
        ),
        (
            "crd/apiVersion",
            json!("apiextensions.k8s.io/v1beta1"),
            "Field spec.preserveUnknownFields, Value true",
        ),
        (
            "crd/metadata/namespace",
            json!("x"),
            "metadata.namespace: Forbidden: not allowed on this type",
        ),
        (
            "crd/metadata/labels",
            json!({"a b": "c"}),
            "Field metadata.labels, Value : metadata.labels: Invalid value: \"a b\"",
        ),
        (
            "crd/spec/scope",
            json!("X"),
            "spec.scope: Unsupported value: \"X\": supported values: \"Cluster\", \"Namespaced\"",
        ),
        (
            "crd/spec/scope",
            json!(null),
            "Error: Field spec.scope, Value : spec.scope: Required value",
        ),
        (
            "crd/spec/preserveUnknownFields",
            json!(true),
            "cannot set to true",
        ),
        ("crd/spec/preserveUnknownFields", json!(false), ""),
        (
            "crd/spec/names/plural",
            json!("Things"),
            "Field spec.names.plural, Value Things",
        ),
        (
            "crd/spec/names/kind",
            json!("Th_ing"),
            "spec.names.kind: Invalid value: \"Th_ing\": may have mixed case",
        ),
        (
            "crd/spec/names/listKind",
            json!("Thing"),
            "kind and listKind may not be the same",
        ),
        (
            "crd/spec/names/shortNames",
            json!(["A"]),
            "spec.names.shortNames[0]: Invalid value: \"A\"",
        ),
        (
            "crd/spec/names/categories",
            json!(["all", "A B"]),
            "spec.names.categories[1]",
        ),
        (
            "crd/spec/versions/0/name",
            json!("V_1"),
            "spec.versions[0].name: Invalid value: \"V_1\"",
        ),
        (
            "crd/spec/versions/0/served",
            json!("true"),
            "CustomResourceDefinition \"things.p.io\": spec: invalid type: string",
        ),
        (
            "crd/spec/versions/0/deprecationWarning",
            json!("x"),
            "can only be set for deprecated versions",
        ),
        (
            "crd/spec/version",
            json!("v2"),
            "must match the first version in spec.versions",
        ),
        (
            "crd/spec/versions/0/subresources",
            json!({"status": {}, "scale": {"specReplicasPath": "x", "statusReplicasPath": ".status.x"}}),
            "must be a simple json path starting with .",
        ),
        (
            "crd/spec/versions/0/additionalPrinterColumns",
            json!([{"name": "a", "type": "string", "jsonPath": ".a"}]),
            "",
        ),
        (
            "crd/spec/versions/0/additionalPrinterColumns",
            json!([{"name": "a", "type": "x", "jsonPath": ".a"}]),
            "spec.additionalPrinterColumns[0].type: Invalid value: \"x\": must be one of boolean,date,integer,number,string",
        ),
        ("crd/spec/conversion", json!({"strategy": "None"}), ""),
        (
            "crd/spec/conversion",
            json!({"strategy": "X"}),
            "spec.conversion.strategy: Unsupported value: \"X\"",
        ),
        (
            "crd/spec/conversion",
            json!({"strategy": "Webhook"}),
            "spec.conversion.webhookClientConfig: Required value: required when strategy is set to Webhook",
        ),
        (
            "crd/spec/conversion",
            json!({"strategy": "Webhook", "webhook": {"clientConfig": {"url": "x"}}}),
            "spec.conversion.conversionReviewVersions: Required value",
        ),
        (
            "crd/spec/group",
            json!("p"),
            "should be a domain with at least one dot",
        ),
        (
            "crd/spec/group",
            json!("p.k8s.io"),
            "protected groups must have approval annotation",
        ),
        (
            "more",
            json!({"kind": "ServiceAccount", "metadata": {"name": "A_b"}}),
            "",
        ),
        (
            "more",
            json!({"kind": "ServiceAccount", "metadata": {"generateName": "a-"}}),
            "error validating object metadata: metadata.name: Required value: name or generateName is required",
        ),
        (
            "more",
            json!({"kind": "ServiceAccount", "metadata": {"name": "a", "namespace": "x"}}),
            "metadata.namespace: Forbidden",
        ),
        (
            "more",
            json!({"kind": "ServiceAccount", "metadata": {"name": "a", "labels": {"a": "c d"}}}),
            "metadata.labels: Invalid value: \"c d\"",
        ),
        (
            "more",
            json!({"kind": "ServiceAccount", "metadata": {"name": "a", "annotations": {"a b": ""}}}),
            "metadata.annotations: Invalid value: \"a b\": name part must consist of",
        ),
        (
            "more",
            json!({"kind": "ServiceAccount", "metadata": {"name": "a", "annotations": {"A.b/C": ""}}}),
            "",
        ),
        (
            "more",
            json!({"kind": "ServiceAccount", "metadata": {"name": "a", "finalizers": ["a b"]}}),
            "metadata.finalizers: Invalid value: \"a b\"",
        ),
        (
            "more",
            json!({"kind": "ServiceAccount", "metadata": {"name": "a", "ownerReferences": [{"kind": "x"}]}}),
            "metadata.ownerReferences.uid: Invalid value: \"\": must not be empty",
        ),
    ];
    for (path, value, expected) in cases {
        let found = content(|csv, crd, more| {
            let (object, rest) = path.split_once('/').unwrap_or((path, ""));
            let target = match object {
                "csv" => csv,
                "crd" => crd,
                _ => return more.push(value.clone()),
            };
            let mut at = target;
            for key in rest.split('/') {
                at = match key.parse::<usize>() {
                    Ok(index) => &mut at[index],
                    Err(_) => &mut at[key],
                };
            }
            *at = value.clone();
        });
        assert!(
            found.contains(expected) && found.is_empty() == expected.is_empty(),
            "{path}: {value}\nexpected {expected}\nfound {found}"
        );
    }
}
