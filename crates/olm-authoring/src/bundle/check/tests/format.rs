//! Annotations and dependencies.

use super::*;

fn format(annotations: &str, dependencies: &str) -> Vec<String> {
    let manifests = files(&[csv(), crd()]);
    let mut metadata = BTreeMap::from([("annotations.yaml".to_owned(), annotations.to_owned())]);
    if !dependencies.is_empty() {
        metadata.insert(
            "dependencies.yaml".to_owned(),
            format!("dependencies:\n{dependencies}\n"),
        );
    }
    check_format(Some(&manifests), Some(&metadata), &ShapeValidator)
}

#[test]
fn format_problems_are_found() {
    assert_eq!(format(ANNOTATIONS, ""), Vec::<String>::new());
    let none: Option<&BTreeMap<String, String>> = None;
    assert_eq!(
        check_format(none, none, &ShapeValidator),
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
fn what_hides_the_csv_is_reported() {
    let told = |manifests: &[(&str, String)]| {
        let manifests: BTreeMap<String, String> = manifests
            .iter()
            .map(|(name, text)| ((*name).to_owned(), text.clone()))
            .collect();
        let metadata = BTreeMap::from([("annotations.yaml".to_owned(), ANNOTATIONS.to_owned())]);
        check_format(Some(&manifests), Some(&metadata), &ShapeValidator)
    };
    let start = "Expecting annotation \"operators.operatorframework.io.bundle.mediatype.v1\" to have value \"plain\" instead of \"registry+v1\"";
    let misspelt = csv()
        .to_string()
        .replace("ClusterServiceVersion", "ClusterServiceVerson");
    let crd = ("crd.yaml", crd().to_string());
    for (name, text, cause) in [
        (
            "csv.yaml",
            misspelt,
            "no ClusterServiceVersion can be read: manifests/csv.yaml: kind \"ClusterServiceVerson\": did you mean \"ClusterServiceVersion\"?",
        ),
        (
            "csv.yaml",
            "kind: ClusterServiceVersion\nmetadata: {name: p.v1\n".to_owned(),
            "no ClusterServiceVersion can be read: manifests/csv.yaml: invalid YAML: line 2: ",
        ),
        (
            "service.yaml",
            "kind: Service".to_owned(),
            "none of the manifests is a ClusterServiceVersion",
        ),
    ] {
        let found = told(&[crd.clone(), (name, text)]);
        let expected = format!("{start}: {cause}");
        assert!(
            found.len() == 1 && found[0].starts_with(&expected),
            "expected {expected}, found {found:?}"
        );
    }
}

#[test]
fn dependency_problems_are_found() {
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
