#![allow(
    clippy::panic,
    clippy::needless_pass_by_value,
    clippy::semicolon_if_nothing_returned,
    reason = "tests"
)]

use serde_json::json;

use super::*;

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
            "version": "1.0.0",
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
            "group": "p.io", "names": {"plural": "things", "kind": "Thing"},
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
    check_content(&files(&objects)).join("\n")
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
            "unknown install mode \"X\"",
        ),
        (
            Box::new(|csv, _, _| csv["spec"]["version"] = json!("v1")),
            "spec.version \"v1\"",
        ),
        (
            Box::new(|csv, _, _| csv["metadata"]["name"] = json!("")),
            "metadata.name is not set",
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
            "annotation alm-examples is no JSON list",
        ),
        (
            Box::new(|csv, _, _| {
                csv["spec"]["release"] = json!(2);
                csv["metadata"]["annotations"] = json!({"olm.substitutesFor": "p.v0"});
            }),
            "bundle \"p.v1\" cannot have both a release version (\"2\") and olm.substitutesFor annotation (\"p.v0\")",
        ),
        (
            Box::new(|csv, _, _| csv["spec"]["customresourcedefinitions"]["owned"][0]["kind"] = json!("")),
            "kind is not set",
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
            "metadata.name must be spec.names.plural",
        ),
        (
            Box::new(|_, crd, _| {
                let version = crd["spec"]["versions"][0].clone();
                crd["spec"]["versions"]
                    .as_array_mut()
                    .expect("list")
                    .push(version);
            }),
            "duplicate version \"v1\"",
        ),
        (
            Box::new(|_, crd, _| crd["spec"]["versions"][0]["storage"] = json!(false)),
            "exactly one version marked as storage version, found 0",
        ),
        (
            Box::new(|_, crd, _| crd["spec"]["versions"][0]["schema"] = json!(null)),
            "schema.openAPIV3Schema is required",
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
            "metadata.namespace must be text, found 12345",
        ),
    ];
    for (change, expected) in cases {
        let found = content(change);
        assert!(found.contains(expected), "expected {expected}\nfound {found}");
    }
    let broken = BTreeMap::from([("a.yaml".to_owned(), "[".to_owned())]);
    assert!(check_content(&broken)[0].starts_with("a.yaml: invalid YAML"));
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
    check_format(Some(&manifests), Some(&metadata))
}

#[test]
fn format_problems_are_told() {
    assert_eq!(format(ANNOTATIONS, ""), Vec::<String>::new());
    let none: Option<&BTreeMap<String, String>> = None;
    assert_eq!(
        check_format(none, none),
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
    assert!(check_content(&chart).is_empty(), "charts pass");
}
