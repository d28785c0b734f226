//! Content of a bundle.

use super::*;

#[test]
fn neither_of_two_csvs_is_used() {
    let two = files(&[csv(), crd(), csv()]);
    let found = check_content(&two, &Optional::default(), &ShapeValidator);
    assert!(
        found.contains(&"bundle has more than one ClusterServiceVersion: 0.yaml and 2.yaml".to_owned()),
        "{found:?}"
    );
}

#[test]
fn a_good_bundle_has_no_problems() {
    assert_eq!(content(|_, _, _| {}), "");
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}});
    assert_eq!(content(|_, _, more| more.push(service)), "");
}

#[test]
fn twins_are_refused_where_they_contradict_each_other_alone() {
    let role = |labels: Value, verb: &str| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": "r", "labels": labels}, "rules": [{"verbs": [verb]}]})
    };
    let (one, labelled) = (role(json!({}), "get"), role(json!({"a": "b"}), "get"));
    let twin = one.clone();
    assert_eq!(content(|_, _, more| more.extend([twin, labelled])), "");
    assert_eq!(
        content(|_, _, more| more.extend([one, role(json!({}), "*")])),
        "2.yaml and 3.yaml both contain ClusterRole r with different content"
    );
}

#[test]
fn stray_files_refuse_nothing() {
    let mut files = files(&[csv(), crd()]);
    for (name, text) in [
        ("README.md", "# Demo\n\nHow to: build, then push.\n"),
        ("Makefile", "a: b: c"),
        (
            "dependencies.yaml",
            "dependencies: [{type: olm.package, value: {packageName: a, version: '1'}}]",
        ),
        (
            "two.yaml",
            "{apiVersion: v1, kind: Service, metadata: {name: s}}\n---\nkind: Secret",
        ),
    ] {
        files.insert(name.to_owned(), text.to_owned());
    }
    assert_eq!(
        check_content(&files, &Optional::default(), &ShapeValidator),
        Vec::<String>::new()
    );
}

#[test]
fn content_problems_are_found() {
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
    assert!(
        check_content(&broken, &Optional::default(), &ShapeValidator)[0].starts_with("a.yaml: invalid YAML")
    );
}

/// Each annotation in the wrong case is a problem of its own.

#[test]
fn three_annotations_in_the_wrong_case_are_three_problems() {
    let found = content(|csv, _, _| {
        csv["metadata"]["annotations"] = json!({"olm.skiprange": "x", "olm.operatorgroup": "x", "olm.operatornamespace": "x", "olm.skipRange": "x"});
    });
    assert_eq!(found.lines().count(), 3, "{found}");
}

#[test]
fn media_types_are_distinguished() {
    let of =
        |name: &str, text: &str| MediaType::of(&BTreeMap::from([(name.to_owned(), text.to_owned())])).name();
    assert_eq!(of("Chart.yaml", "name: c"), "helm");
    assert_eq!(of("Chart.yaml", "{}"), "plain");
    assert_eq!(of("a.yaml", "kind: ClusterServiceVersion"), "registry+v1");
    assert_eq!(of("a.yaml", "kind: Service"), "plain");
    let chart = BTreeMap::from([("Chart.yaml".to_owned(), "name: c".to_owned())]);
    assert!(
        check_content(&chart, &Optional::default(), &ShapeValidator).is_empty(),
        "charts pass"
    );
}
