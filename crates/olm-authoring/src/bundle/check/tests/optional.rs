//! Optional checks.

use super::*;

fn optional(objects: &[Value], optional: &Optional) -> String {
    check_content(&files(objects), optional, &ShapeValidator).join("\n")
}

#[test]
fn objects_that_can_hurt_are_reported_on_request() {
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
fn requirements_of_the_hub_are_reported_on_request() {
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
    let problems = |path: &str, value: &Value, optional_checks: &Optional| {
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
        let found = problems(path, &value, &wanted(None));
        assert!(
            found.contains(expected) && found.is_empty() == expected.is_empty(),
            "{path} {value}: {found}"
        );
    }
    let own = json!({"categories": "Own"});
    assert_eq!(problems("metadata/annotations", &own, &wanted(Some("Own"))), "");
    let found = problems("metadata/annotations", &own, &wanted(Some("Other")));
    assert!(
        found.contains("is not in the set of custom categories"),
        "{found}"
    );
}
