#![allow(
    clippy::panic,
    clippy::needless_pass_by_value,
    clippy::semicolon_if_nothing_returned,
    reason = "tests"
)]

use serde_json::json;

use super::*;
use crate::judge::ByShape;

const ANNOTATIONS: &str = "annotations:
  operators.operatorframework.io.bundle.mediatype.v1: registry+v1
  operators.operatorframework.io.bundle.manifests.v1: manifests/
  operators.operatorframework.io.bundle.metadata.v1: metadata/
  operators.operatorframework.io.bundle.package.v1: p
  operators.operatorframework.io.bundle.channels.v1: stable
";

fn csv() -> Value {
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": {"name": "p.v1"},
        "spec": {
            "version": "1.0.0", "displayName": "P",
            "installModes": [{"type": "AllNamespaces", "supported": true}],
            "install": {"strategy": "deployment"},
            "customresourcedefinitions": {"owned": [{"name": "things.p.io", "version": "v1", "kind": "Thing"}]},
        },
    })
}

fn crd() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.p.io"},
        "spec": {
            "group": "p.io", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    })
}

fn files(objects: &[Value]) -> BTreeMap<String, String> {
    objects
        .iter()
        .enumerate()
        .map(|(index, object)| (format!("{index}.yaml"), object.to_string()))
        .collect()
}

fn content(change: impl FnOnce(&mut Value, &mut Value, &mut Vec<Value>)) -> String {
    let (mut csv, mut crd, mut more) = (csv(), crd(), Vec::new());
    change(&mut csv, &mut crd, &mut more);
    let mut objects = vec![csv, crd];
    objects.extend(more);
    check_content(&files(&objects), &Optional::default(), &ByShape).join("\n")
}

#[test]
fn a_good_bundle_has_no_problems() {
    assert_eq!(content(|_, _, _| {}), "");
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}});
    assert_eq!(content(|_, _, more| more.push(service)), "");
}

#[test]
fn content_problems_are_told() {
    let quota = json!({"kind": "ResourceQuota", "metadata": {"name": "q"}});
    let account = json!({"kind": "ServiceAccount", "metadata": {"name": "a", "namespace": 12345}});
    type Change = Box<dyn FnOnce(&mut Value, &mut Value, &mut Vec<Value>)>;
    let cases: Vec<(Change, &str)> = vec![
        (
            Box::new(|csv, _, _| csv["spec"]["installModes"] = json!([])),
            "install modes not found",
        ),
        (
            Box::new(|csv, _, _| csv["spec"]["installModes"] = json!([{"type": "X", "supported": false}])),
            "none of InstallModeTypes are supported",
        ),
        (
            Box::new(|csv, _, _| csv["spec"]["version"] = json!("v1")),
            "spec.version \"v1\"",
        ),
        (
            Box::new(|csv, _, _| csv["metadata"]["name"] = json!("")),
            "metadata.name \"\" is invalid: a lowercase RFC 1123 subdomain",
        ),
        (
            Box::new(|csv, _, _| csv["spec"]["install"]["strategy"] = json!("job")),
            "spec.install.strategy",
        ),
        (
            Box::new(|csv, _, _| csv["metadata"]["annotations"] = json!({"olm.skiprange": "<1.0.0"})),
            "provided annotation olm.skiprange uses wrong case and should be olm.skipRange instead",
        ),
        (
            Box::new(|csv, _, _| csv["metadata"]["annotations"] = json!({"alm-examples": "{"})),
            "Error: Value alm-examples: ",
        ),
        (
            Box::new(|csv, _, _| {
                csv["spec"]["release"] = json!("2");
                csv["metadata"]["annotations"] = json!({"olm.substitutesFor": "p.v0"});
            }),
            "bundle \"p.v1\" cannot have both a release version (\"2\") and olm.substitutesFor annotation (\"p.v0\")",
        ),
        (
            Box::new(|csv, _, _| {
                csv["spec"]["customresourcedefinitions"]["owned"][0]["kind"] = json!("Other")
            }),
            "Error: Value { Other things.p.io v1}: owned CRD things.p.io/v1 not found in bundle \"p.v1\"",
        ),
        (
            Box::new(|csv, _, _| {
                csv["spec"]["customresourcedefinitions"]["owned"][0]["version"] = json!("v2")
            }),
            "owned CRD things.p.io/v2 not found in bundle \"p.v1\"",
        ),
        (
            Box::new(|_, crd, _| crd["apiVersion"] = json!("apiextensions.k8s.io/v2")),
            "Unsupported api version of CRD: apiextensions.k8s.io/v2",
        ),
        (
            Box::new(|_, crd, _| crd["metadata"]["name"] = json!("x.p.io")),
            "must be spec.names.plural+\".\"+spec.group",
        ),
        (
            Box::new(|_, crd, _| {
                let version = crd["spec"]["versions"][0].clone();
                crd["spec"]["versions"]
                    .as_array_mut()
                    .expect("list")
                    .push(version);
            }),
            "must contain unique version names",
        ),
        (
            Box::new(|_, crd, _| crd["spec"]["versions"][0]["storage"] = json!(false)),
            "must have exactly one version marked as storage version",
        ),
        (
            Box::new(|_, crd, _| crd["spec"]["versions"][0]["schema"] = json!(null)),
            "spec.versions[0].schema.openAPIV3Schema: Required value",
        ),
        (
            Box::new(|_, crd, more| more.push(crd.clone())),
            "duplicate CRD things.p.io/v1",
        ),
        (
            Box::new(move |_, _, more| more.push(quota)),
            "ResourceQuota is not supported type for registryV1 bundle: 2.yaml",
        ),
        (
            Box::new(move |_, _, more| more.push(account)),
            "metadata.namespace: must be text, found 12345",
        ),
    ];
    for (change, expected) in cases {
        let found = content(change);
        assert!(found.contains(expected), "expected {expected}\nfound {found}");
    }
    let broken = BTreeMap::from([("a.yaml".to_owned(), "[".to_owned())]);
    assert!(check_content(&broken, &Optional::default(), &ByShape)[0].starts_with("a.yaml: invalid YAML"));
}

/// A change at a path (`csv/spec/…`, `crd/…`, or `more` for one more object) and what is told of it; nothing where upstream
/// has no objection.
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

fn optional(objects: &[Value], optional: &Optional) -> String {
    check_content(&files(objects), optional, &ByShape).join("\n")
}

#[test]
fn objects_that_can_hurt_are_told_on_request() {
    let wanted = Optional {
        bundle_objects: true,
        ..Optional::default()
    };
    let budget =
        |spec: Value| json!({"kind": "PodDisruptionBudget", "metadata": {"name": "b"}, "spec": spec});
    let role = |verb: &str, name: &str| {
        json!({"kind": "ClusterRole", "metadata": {"name": "r"}, "rules": [{"apiGroups": ["security.openshift.io"],
            "resources": ["securitycontextconstraints"], "verbs": [verb], "resourceNames": [name]}]})
    };
    for (object, expected) in [
        (
            budget(json!({"maxUnavailable": 0})),
            "maxUnavailable field cannot be set to 0 or 0%",
        ),
        (
            budget(json!({"maxUnavailable": "0%"})),
            "maxUnavailable field cannot be set to 0 or 0%",
        ),
        (budget(json!({"maxUnavailable": "50%"})), ""),
        (
            budget(json!({"minAvailable": "100%"})),
            "minAvailable field cannot be set to 100%",
        ),
        (budget(json!({"minAvailable": 1})), ""),
        (
            json!({"kind": "PriorityClass", "metadata": {"name": "c"}, "globalDefault": true}),
            "globalDefault field cannot be set to true",
        ),
        (
            json!({"kind": "PriorityClass", "metadata": {"name": "c"}, "globalDefault": false}),
            "",
        ),
        (
            role("update", "anyuid"),
            "permission to modify default securitycontextconstraints",
        ),
        (role("use", "anyuid"), ""),
        (role("update", "own"), ""),
    ] {
        let objects = [csv(), crd(), object.clone()];
        let found = optional(&objects, &wanted);
        assert!(
            found.contains(expected) && found.is_empty() == expected.is_empty(),
            "{object}: {found}"
        );
        assert_eq!(optional(&objects, &Optional::default()), "", "{object}");
    }
}

#[test]
fn what_the_hub_asks_for_is_told_on_request() {
    let wanted = |categories: Option<&str>| Optional {
        operator_hub: true,
        categories: categories.map(|name| vec![name.to_owned()]),
        ..Optional::default()
    };
    let good = || {
        let mut csv = csv();
        csv["spec"]["provider"] = json!({"name": "x"});
        csv
    };
    let told = |path: &str, value: &Value, optional_checks: &Optional| {
        let mut csv = good();
        match path.split_once('/') {
            Some((first, second)) => csv[first][second] = value.clone(),
            None => csv["spec"][path] = value.clone(),
        }
        optional(&[csv, crd()], optional_checks)
    };
    for (path, value, expected) in [
        (
            "provider",
            json!({"name": " "}),
            "Error: Value : (p.v1) csv.Spec.Provider.Name not specified",
        ),
        ("maintainers", json!([]), ""),
        (
            "maintainers",
            json!([{"name": "a"}]),
            "csv.Spec.Maintainers elements should contain both name and email",
        ),
        (
            "maintainers",
            json!([{"name": "a", "email": "zzz"}]),
            "csv.Spec.Maintainers email zzz is invalid",
        ),
        ("links", json!([{"name": "a", "url": "https://b.c"}]), ""),
        (
            "links",
            json!([{"url": "https://b.c"}]),
            "csv.Spec.Links elements should contain both name and url",
        ),
        (
            "links",
            json!([{"name": "a", "url": "zz"}]),
            "csv.Spec.Links url zz is invalid",
        ),
        ("version", json!("0.0.0"), "csv.Spec.Version must be set"),
        ("icon", json!([]), "csv.Spec.Icon should only have one element"),
        (
            "icon",
            json!([{"mediatype": "image/png"}]),
            "csv.Spec.Icon elements should contain both data and mediatype",
        ),
        (
            "icon",
            json!([{"mediatype": "text/x", "base64data": "x"}]),
            "csv.Spec.Icon text/x does not have a valid mediatype",
        ),
        (
            "metadata/annotations",
            json!({"capabilities": "Foo"}),
            "csv.Metadata.Annotations.Capabilities \"Foo\" is not a valid capabilities level",
        ),
        (
            "metadata/annotations",
            json!({"capabilities": "Deep Insights", "categories": "Database, Storage"}),
            "",
        ),
        (
            "metadata/annotations",
            json!({"categories": "Database,Foo"}),
            "csv.Metadata.Annotations[\"categories\"] value \"Foo\" is not in the set of standard categories",
        ),
    ] {
        let found = told(path, &value, &wanted(None));
        assert!(
            found.contains(expected) && found.is_empty() == expected.is_empty(),
            "{path} {value}: {found}"
        );
    }
    let own = json!({"categories": "Own"});
    assert_eq!(told("metadata/annotations", &own, &wanted(Some("Own"))), "");
    let found = told("metadata/annotations", &own, &wanted(Some("Other")));
    assert!(
        found.contains("is not in the set of custom categories"),
        "{found}"
    );
}

#[test]
fn three_annotations_in_the_wrong_case_are_three_problems() {
    let found = content(|csv, _, _| {
        csv["metadata"]["annotations"] = json!({"olm.skiprange": "x", "olm.operatorgroup": "x", "olm.operatornamespace": "x", "olm.skipRange": "x"});
    });
    assert_eq!(found.lines().count(), 3, "{found}");
}

fn format(annotations: &str, dependencies: &str) -> Vec<String> {
    let manifests = files(&[csv(), crd()]);
    let mut metadata = BTreeMap::from([("annotations.yaml".to_owned(), annotations.to_owned())]);
    if !dependencies.is_empty() {
        metadata.insert(
            "dependencies.yaml".to_owned(),
            format!("dependencies:\n{dependencies}\n"),
        );
    }
    check_format(Some(&manifests), Some(&metadata), &ByShape)
}

#[test]
fn format_problems_are_told() {
    assert_eq!(format(ANNOTATIONS, ""), Vec::<String>::new());
    let none: Option<&BTreeMap<String, String>> = None;
    assert_eq!(
        check_format(none, none, &ByShape),
        [
            "Unable to locate manifests directory",
            "Unable to locate metadata directory"
        ]
    );
    assert_eq!(format("a: b", ""), ["Could not find annotations file"]);
    assert_eq!(
        format(&ANNOTATIONS.replace("registry+v1", "plain"), ""),
        [
            "Expecting annotation \"operators.operatorframework.io.bundle.mediatype.v1\" to have value \"registry+v1\" instead of \"plain\""
        ]
    );
    assert_eq!(
        format(&ANNOTATIONS.replace("channels.v1: stable", "channels.v1: ''"), ""),
        [
            "Expecting annotation \"operators.operatorframework.io.bundle.channels.v1\" to have non-empty value"
        ]
    );
    let without = ANNOTATIONS
        .lines()
        .filter(|line| !line.contains("package"))
        .collect::<Vec<_>>()
        .join("\n");
    assert_eq!(
        format(&without, ""),
        ["Missing annotation \"operators.operatorframework.io.bundle.package.v1\""]
    );
}

#[test]
fn dependency_problems_are_told() {
    for (dependency, expected) in [
        (
            "{type: olm.gvk, value: {}}",
            "API Group is empty|API Version is empty|API Kind is empty",
        ),
        (
            "{type: olm.gvk, value: 1}",
            "couldn't parse dependency of type olm.gvk",
        ),
        (
            "{Type: olm.package, Value: {PackageName: p, Version: '>1.0.0'}}",
            "",
        ),
        ("{type: x, value: {}}", "couldn't parse dependency of type x"),
        (
            "{type: olm.package, value: {}}",
            "Package name is empty|Package version is empty",
        ),
        (
            "{type: olm.package, value: {packageName: p, version: abc}}",
            "Invalid semver format version",
        ),
        ("{type: olm.label, value: {}}", "Label information is missing"),
        ("{type: olm.constraint, value: {}}", "The CEL field is missing"),
        (
            "{type: olm.constraint, value: {cel: {}}}",
            "The CEL expression is missing",
        ),
        (
            "{type: olm.constraint, value: {all: {constraints: [{cel: {rule: '('}}]}}}",
            "Invalid CEL expression: ",
        ),
        ("{type: olm.constraint, value: {cel: {rule: 'true'}}}", ""),
        (
            "{type: olm.package, value: {packageName: p, version: '>=1.0.0'}}",
            "",
        ),
    ] {
        let found = format(ANNOTATIONS, &format!("- {dependency}")).join("|");
        assert!(
            found.starts_with(expected) && found.is_empty() == expected.is_empty(),
            "{dependency}: {found}"
        );
    }
}

#[test]
fn media_types_are_told_apart() {
    let of =
        |name: &str, text: &str| MediaType::of(&BTreeMap::from([(name.to_owned(), text.to_owned())])).name();
    assert_eq!(of("Chart.yaml", "name: c"), "helm");
    assert_eq!(of("Chart.yaml", "{}"), "plain");
    assert_eq!(of("a.yaml", "kind: ClusterServiceVersion"), "registry+v1");
    assert_eq!(of("a.yaml", "kind: Service"), "plain");
    let chart = BTreeMap::from([("Chart.yaml".to_owned(), "name: c".to_owned())]);
    assert!(
        check_content(&chart, &Optional::default(), &ByShape).is_empty(),
        "charts pass"
    );
}
