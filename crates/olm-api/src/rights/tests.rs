use serde_json::json;

use super::*;

#[allow(clippy::needless_pass_by_value)] // Written out in place by every caller.
fn role(kind: &str, name: &str, account: &str, rules: Value) -> [Value; 2] {
    let binding = json!({"kind": format!("{kind}Binding"), "metadata": {"name": name}, "roleRef": {"kind": kind, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": "ns"}]});
    [
        json!({"kind": kind, "metadata": {"name": name}, "rules": rules}),
        binding,
    ]
}

fn rule(group: &str, resource: &str, verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": [resource], "verbs": verbs})
}

fn told(before: &[Value], after: &[Value]) -> Vec<String> {
    let (changes, trouble) = changes(before, after, "ns", &Targets::Named(Vec::new()));
    assert_eq!(trouble, None);
    let text = |rule: &Rule| {
        let Rule {
            group,
            resource,
            resource_name,
            url,
            role,
            verbs,
        } = rule;
        format!("{group}/{resource}{resource_name}{url}{role} {}", verbs.join(","))
    };
    let mut lines = Vec::new();
    for change in &changes {
        let holder = format!("{} in '{}'", change.subject, change.namespace);
        lines.extend(
            change
                .gained
                .iter()
                .map(|rule| format!("{holder} + {}", text(rule))),
        );
        lines.extend(
            change
                .lost
                .iter()
                .map(|rule| format!("{holder} - {}", text(rule))),
        );
    }
    lines
}

#[test]
fn what_is_gained_and_lost_is_reported_by_account_and_scope() {
    let before = role(
        "Role",
        "a.v1",
        "demo",
        json!([rule("", "pods", &["get", "delete"])]),
    );
    let mut after = role(
        "Role",
        "a.v2",
        "demo",
        json!([rule("", "pods", &["get", "list"])]),
    )
    .to_vec();
    after.extend(role(
        "ClusterRole",
        "b.v2",
        "demo",
        json!([rule("apps", "deployments", &["create"])]),
    ));
    assert_eq!(
        told(&before, &after),
        [
            "ServiceAccount demo in '' + apps/deployments create",
            "ServiceAccount demo in 'ns' + /pods list",
            "ServiceAccount demo in 'ns' - /pods delete",
        ]
    );
}

#[test]
fn what_was_covered_before_is_not_gained() {
    let one = |rules: Value| role("ClusterRole", "r", "demo", rules);
    let rows = [
        (
            rule("*", "*", &["*"]),
            rule("apps", "deployments", &["get"]),
            vec!["ServiceAccount demo in '' - */* *"],
        ),
        (
            rule("", "*", &["get"]),
            rule("", "pods", &["get"]),
            vec!["ServiceAccount demo in '' - /* get"],
        ),
        (
            rule("", "*/status", &["get"]),
            rule("", "pods/status", &["get"]),
            vec!["ServiceAccount demo in '' - /*/status get"],
        ),
        (
            rule("", "pods", &["get"]),
            json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": ["x"]}),
            vec!["ServiceAccount demo in '' - /pods get"],
        ),
        (
            json!({"nonResourceURLs": ["/metrics/*"], "verbs": ["get"]}),
            json!({"nonResourceURLs": ["/metrics/a"], "verbs": ["get"]}),
            vec!["ServiceAccount demo in '' - //metrics/* get"],
        ),
        (rule("", "pods", &["get"]), rule("", "pods", &["get"]), vec![]),
    ];
    for (before, after, expected) in rows {
        assert_eq!(
            told(&one(json!([before])), &one(json!([after]))),
            expected,
            "{before} {after}"
        );
        // The other way round it is.
        let back = told(&one(json!([after])), &one(json!([before])));
        assert!(back.iter().all(|line| line.contains(" + ")), "{back:?}");
        assert_eq!(back.is_empty(), expected.is_empty(), "{before} {after}");
    }
    // A user with all rights on one object may not do one thing with all objects.
    let everything =
        json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["*"], "resourceNames": ["x"]});
    let gained = told(
        &one(json!([everything])),
        &one(json!([rule("", "pods", &["get"])])),
    );
    assert_eq!(
        gained,
        [
            "ServiceAccount demo in '' + /pods get",
            "ServiceAccount demo in '' - /podsx *"
        ]
    );
    // What counts in the whole cluster counts in the namespace.
    let namespaced = role("Role", "r", "demo", json!([rule("", "pods", &["get"])]));
    let lost = told(&one(json!([rule("", "pods", &["get"])])), &namespaced);
    assert_eq!(lost, ["ServiceAccount demo in '' - /pods get"]);
}

#[test]
fn a_role_that_is_not_in_the_plan_is_named() {
    let binding = json!({"kind": "ClusterRoleBinding", "metadata": {"name": "b"}, "roleRef": {"kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "User", "name": "eve"}, {"kind": "ServiceAccount", "name": "x", "namespace": "other"}]});
    assert_eq!(
        told(&[], &[binding]),
        [
            "ServiceAccount other/x in '' + /ClusterRole cluster-admin ",
            "User eve in '' + /ClusterRole cluster-admin "
        ]
    );
}

/// No subject is bound to it, and every user with `edit` gains the rules.
#[test]
fn rules_that_are_added_to_roles_of_others_are_reported() {
    let aggregated = |labels: Value, verbs: &[&str]| json!({"kind": "ClusterRole", "metadata": {"name": "x", "labels": labels}, "rules": [rule("", "secrets", verbs)]});
    let to_edit = json!({"rbac.authorization.k8s.io/aggregate-to-edit": "true", "a": "true"});
    let gained = told(&[], &[aggregated(to_edit.clone(), &["get"])]);
    assert_eq!(gained, ["ClusterRole edit in '' + /secrets get"]);
    let before = [aggregated(to_edit.clone(), &["get", "list"])];
    let lost = told(&before, &[aggregated(to_edit, &["get"])]);
    assert_eq!(lost, ["ClusterRole edit in '' - /secrets list"]);
    let to_group = json!({"olm.opgroup.permissions/aggregate-to-ddb619aba476937e-admin": "true"});
    assert_eq!(
        told(&[], &[aggregated(to_group, &["get"])]),
        [
            "ClusterRoles with olm.opgroup.permissions/aggregate-to-ddb619aba476937e-admin in '' + /secrets get"
        ]
    );
    let not = json!({"rbac.authorization.k8s.io/aggregate-to-edit": "false"});
    assert_eq!(told(&[], &[aggregated(not, &["get"])]), Vec::<String>::new());
    // As many roles as there are labels: each costs.
    let labels: serde_json::Map<String, Value> = (0..60)
        .map(|number| {
            (
                format!("rbac.authorization.k8s.io/aggregate-to-{number}"),
                json!("true"),
            )
        })
        .collect();
    let verbs: Vec<String> = (0..100).map(|number| number.to_string()).collect();
    let verbs: Vec<&str> = verbs.iter().map(String::as_str).collect();
    let (found, trouble) = changes(
        &[],
        &[aggregated(Value::Object(labels), &verbs)],
        "ns",
        &Targets::Named(Vec::new()),
    );
    assert!(found.is_empty() && trouble.is_some());
}

#[test]
fn a_role_that_gathers_the_rules_of_others_is_reported_as_those() {
    let selectors = json!([{"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "In", "values": ["d", "e"]},
        {"key": "f", "operator": "Exists"}]}, {}]);
    let mut objects = role("ClusterRole", "all", "demo", json!([]));
    objects[0]["aggregationRule"] = json!({"clusterRoleSelectors": selectors});
    assert_eq!(
        told(&[], &objects),
        [
            "ServiceAccount demo in '' + /ClusterRoles with a=b, c In (d,e), f Exists ",
            "ServiceAccount demo in '' + /ClusterRoles with any labels ",
        ]
    );
    objects[0]["aggregationRule"] = json!({"clusterRoleSelectors": vec![json!({}); COMPARED + 1]});
    assert!(
        changes(&[], &objects, "ns", &Targets::Named(Vec::new()))
            .1
            .is_some()
    );
}

#[test]
fn more_rules_than_can_be_compared_are_reported() {
    let names = |count: usize| -> Vec<String> { (0..count).map(|number| number.to_string()).collect() };
    let of_urls = json!([{"nonResourceURLs": names(100_000), "verbs": names(100_000)}]);
    let of_resources = json!([{"apiGroups": names(200), "resources": names(200), "verbs": names(200)}]);
    let many = json!([{"nonResourceURLs": names(50), "verbs": names(50)}]);
    let mut of_nobody = role("Role", "r", "demo", many);
    for binding in of_nobody
        .iter_mut()
        .filter(|object| object["kind"] == "RoleBinding")
    {
        binding["subjects"] = json!([]);
    }
    let bindings: Vec<Value> = of_nobody
        .iter()
        .cycle()
        .take(100 * of_nobody.len())
        .cloned()
        .collect();
    for objects in [
        role("Role", "r", "demo", of_urls).to_vec(),
        role("Role", "r", "demo", of_resources).to_vec(),
        bindings,
    ] {
        let (found, trouble) = changes(&[], &objects, "ns", &Targets::Named(Vec::new()));
        assert!(found.is_empty() && trouble.is_some_and(|text| text.contains("5000")));
    }
}

/// They give no rule, but are as much work.
#[test]
fn lists_without_a_verb_cost_too() {
    let names: Vec<String> = (0..100).map(|number| number.to_string()).collect();
    let nothing = json!([{"apiGroups": names, "resources": names, "verbs": []}]);
    assert!(
        changes(
            &[],
            &role("Role", "r", "demo", nothing),
            "ns",
            &Targets::Named(Vec::new())
        )
        .1
        .is_some()
    );
}

/// As many as are compared on each side, and none of them the other's.
#[test]
fn thousands_of_rules_are_held_against_thousands() {
    let of = |letter: &str| {
        let names: Vec<String> = (0..2400).map(|number| format!("{letter}{number}")).collect();
        let urls: Vec<String> = (0..50).map(|number| format!("/{letter}{number}/*")).collect();
        let rules = json!([{"apiGroups": [""], "resources": names, "verbs": ["get"]}, {"nonResourceURLs": urls, "verbs": ["get"]}]);
        role("ClusterRole", letter, "demo", rules)
    };
    let (changes, trouble) = changes(&of("a"), &of("b"), "ns", &Targets::Named(Vec::new()));
    assert_eq!(trouble, None);
    assert_eq!((changes[0].gained.len(), changes[0].lost.len()), (2450, 2450));
}

fn group(spec: &Value, status: &Value) -> Arc<OperatorGroup> {
    let group = json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup", "metadata": {"name": "g", "namespace": "ns"},
        "spec": spec, "status": status});
    Arc::new(serde_json::from_value(group).unwrap())
}

#[test]
fn where_a_group_carries_permissions_is_what_it_selects() {
    let found = |namespaces: Value| json!({"namespaces": namespaces, "lastUpdated": "2026-01-01T00:00:00Z"});
    let named = |names: &[&str]| Targets::Named(names.iter().map(|name| (*name).to_owned()).collect());
    for (spec, status, expected) in [
        (json!({}), found(json!([""])), Targets::All),
        (json!({}), found(json!(["ns"])), named(&[])),
        (json!({}), found(json!(["a", "ns", "b"])), named(&["a", "b"])),
        (json!({"targetNamespaces": ["a"]}), json!(null), named(&["a"])),
        (
            json!({"selector": {"matchLabels": {"a": "b"}}}),
            json!(null),
            Targets::Unknown,
        ),
        (json!({"selector": {}}), json!(null), Targets::All),
        (json!({}), json!(null), Targets::All),
    ] {
        assert_eq!(
            Targets::of(&[group(&spec, &status)], "ns"),
            expected,
            "{spec} {status}"
        );
    }
    assert_eq!(Targets::of(&[], "ns"), Targets::Unknown);
}

/// An approver sees the operator's rights, in any namespace.
#[test]
fn rights_that_the_group_copies_elsewhere_are_reported_there() {
    let rules = json!([rule("", "configmaps", &["delete"])]);
    let mut of_csv = role("Role", "r", "demo", rules.clone());
    for object in &mut of_csv {
        object["metadata"]["labels"] = json!({"olm.owner.kind": "ClusterServiceVersion"});
    }
    let of_bundle = role("Role", "own", "other", rules);
    let all = [of_csv, of_bundle].concat();
    let with = |targets: &Targets| {
        let (found, trouble) = changes(&[], &all, "ns", targets);
        let lines = found.iter().map(|change| {
            let verbs = change
                .gained
                .iter()
                .map(|rule| format!("{} {}", rule.resource, rule.verbs.join(",")));
            format!(
                "{} in '{}': {}",
                change.subject,
                change.namespace,
                verbs.collect::<Vec<_>>().join("; ")
            )
        });
        (lines.collect::<Vec<_>>(), trouble)
    };
    let (lines, trouble) = with(&Targets::Named(vec!["a".to_owned(), "b".to_owned()]));
    assert_eq!(trouble, None);
    assert_eq!(
        lines,
        [
            "ServiceAccount demo in 'ns': configmaps delete",
            "ServiceAccount demo in 'a': configmaps delete",
            "ServiceAccount demo in 'b': configmaps delete",
            "ServiceAccount other in 'ns': configmaps delete",
        ]
    );
    let (lines, trouble) = with(&Targets::All);
    assert_eq!(trouble, None);
    assert_eq!(
        lines,
        [
            "ServiceAccount demo in '': configmaps delete; namespaces get,list,watch",
            "ServiceAccount other in 'ns': configmaps delete",
        ]
    );
    let (_, trouble) = with(&Targets::Unknown);
    assert!(trouble.unwrap().starts_with(PERMISSIONS));
    let many = Targets::Named((0..500).map(|number| format!("n{number}")).collect());
    let (lines, trouble) = with(&many);
    assert_eq!(lines.len(), 2 + MAX_TARGETS);
    assert!(trouble.unwrap().contains("480 more namespaces"));
}
