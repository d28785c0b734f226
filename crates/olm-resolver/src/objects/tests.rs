//! Objects from files: remarks on odd ones, and values that are read as kubectl reads them.

use serde_json::json;

use super::*;

const SUBSCRIPTION: &str = "
apiVersion: operators.coreos.com/v1alpha1
kind: Subscription
metadata: {name: db, namespace: shop}
spec: {name: etcd, channel: stable, source: cat, sourceNamespace: olm}
";

fn error(text: &str) -> String {
    Objects::read(text).unwrap_err().to_string()
}

#[test]
fn errors_name_object_field_and_way_out() {
    for (from, to, expected) in [
        (
            "spec:",
            "other:",
            "Subscription shop/db: field `spec.name`: is missing: name the package",
        ),
        (
            "source: cat, ",
            "",
            "Subscription shop/db: field `spec.source`: is missing: name the CatalogSource",
        ),
        (
            "channel: stable",
            "channel: 3",
            "Subscription shop/db: field `spec.channel`: invalid type: integer `3`, expected a string",
        ),
        (
            "name: db, ",
            "",
            "Subscription in document 1 of text has no name: set metadata.name",
        ),
        (
            "kind: Subscription",
            "schema: olm.bundle",
            "document 1 of text is part of a catalog, not a Kubernetes object: pass the catalog's directory instead of a file \
             of it",
        ),
        (
            "kind: Subscription",
            "",
            "document 1 of text is not a Kubernetes object: it has no kind",
        ),
        ("kind: Subscription", "kind: [", "text: invalid YAML: line 5: "),
    ] {
        assert!(SUBSCRIPTION.contains(from), "{from}");
        let told = error(&SUBSCRIPTION.replace(from, to));
        assert!(told.starts_with(expected), "{told}");
    }
}

#[test]
fn a_fault_in_a_flow_mapping_is_reported_in_terms_of_yaml_in_a_yaml_file() {
    let told = |name: &str| {
        let error = document::parse("{a: [\n", name).unwrap_err().to_string();
        error.strip_prefix(&format!("{name}: ")).unwrap().to_owned()
    };
    for name in ["bad.yaml", "bad.yml"] {
        assert!(told(name).starts_with("invalid YAML: line "), "{}", told(name));
    }
    assert!(told("bad.json").contains("JSON"), "{}", told("bad.json"));
}

#[test]
fn documents_in_lists_are_found_by_their_place() {
    let list = "kind: List\nitems:\n- kind: OperatorGroup\n  metadata: {name: og}\n- {a: b}\n";
    assert_eq!(
        error(&format!("{SUBSCRIPTION}---\n{list}")),
        "item 2 of document 2 of text is not a Kubernetes object: it has no kind"
    );
}

#[test]
fn what_has_no_effect_is_remarked() {
    let text = SUBSCRIPTION
        .replace("channel:", "chanel:")
        .replace("source: cat", "source: cat, installPlanApproval: manual");
    let others = "---\nkind: Pod\nmetadata: {name: p}\n---\nkind: Subscription\napiVersion: \
                  messaging.knative.dev/v1\nspec: {channel: {}}\n";
    let objects = Objects::read(&format!("{text}{others}")).unwrap();
    assert_eq!(
        objects.remarks().collect::<Vec<_>>(),
        [
            "ignored, because resolution does not use them: Pod, Subscription of messaging.knative.dev/v1",
            "Subscription shop/db: unknown field spec.chanel, it has no effect: did you mean spec.channel?",
            "Subscription shop/db: field spec.installPlanApproval: `manual` counts as Automatic, only Manual requires approval",
        ]
    );
    assert_eq!(Objects::read(SUBSCRIPTION).unwrap().remarks().count(), 0);
}

#[test]
fn misspelt_kinds_groups_and_fields_are_reported_with_a_suggestion() {
    let told = |from: &str, to: &str| {
        let others = "---
apiVersion: operators.coreos.com/v1
kind: OperatorGroup
metadata: {name: og, namespace: shop}
spec: {targetNamespaces: [shop]}
---
apiVersion: operators.coreos.com/v1alpha1
kind: CatalogSource
metadata: {name: cat, namespace: olm}
spec: {sourceType: grpc, image: registry.example.com/cat}
";
        let text = format!("{SUBSCRIPTION}---{INSTALLED}{others}");
        assert!(text.contains(from), "{from}");
        let objects = Objects::read(&text.replacen(from, to, 1)).unwrap();
        objects.remarks().collect::<Vec<_>>().join("\n")
    };
    assert_eq!(told("shop", "shop"), "");
    for (from, to, expected) in [
        (
            "kind: Subscription",
            "kind: Subscripton",
            "Subscripton shop/db: unknown kind Subscripton, so it is ignored: did you mean Subscription?",
        ),
        (
            "operators.coreos.com/v1alpha1",
            "operator.coreos.com/v1alpha1",
            "Subscription shop/db: field apiVersion: Subscription of operator.coreos.com/v1alpha1 is ignored: did you mean \
             group operators.coreos.com?",
        ),
        (
            "targetNamespaces",
            "targetNamespace",
            "OperatorGroup shop/og: unknown field spec.targetNamespace, it has no effect: did you mean spec.targetNamespaces?",
        ),
        (
            "image:",
            "imag:",
            "CatalogSource olm/cat: unknown field spec.imag, it has no effect: did you mean spec.image?",
        ),
        (
            "version: 1.0.0",
            "verson: 1.0.0",
            "ClusterServiceVersion shop/etcd.v1: unknown field spec.verson, it has no effect: did you mean spec.version?",
        ),
        (
            "{name: db,",
            "{name: db, namspace: b,",
            "Subscription shop/db: unknown field metadata.namspace, it has no effect: did you mean metadata.namespace?",
        ),
        (
            "channel:",
            "whatever: 1, channel:",
            "Subscription shop/db: unknown field spec.whatever, it has no effect",
        ),
    ] {
        assert_eq!(told(from, to), expected, "{to}");
    }
}

#[test]
fn an_object_given_again_takes_the_place_of_the_first() {
    let again = SUBSCRIPTION.replace("stable", "beta");
    let objects = Objects::read(&format!("{SUBSCRIPTION}---{again}")).unwrap();
    let question = objects.question("shop", "olm", BTreeMap::new());
    let channels: Vec<_> = question
        .problem
        .subscriptions
        .iter()
        .map(|s| &s.channel)
        .collect();
    assert_eq!(channels, ["beta"]);
    assert_eq!(
        objects.remarks().collect::<Vec<_>>(),
        ["Subscription shop/db is given more than once; document 2 of text takes precedence"]
    );
}

#[test]
fn what_is_applied_over_other_objects_replaces_them_without_a_word() {
    let again = || document::parse(&SUBSCRIPTION.replace("stable", "beta"), "text").unwrap();
    let mut objects = Objects::read(SUBSCRIPTION).unwrap();
    objects.apply(again()).unwrap();
    assert_eq!(objects.remarks().count(), 0);
    objects.apply(again().into_iter().chain(again())).unwrap();
    assert_eq!(
        objects.remarks().count(),
        1,
        "twice in one go is a mistake all the same"
    );
}

/// `hold` and `rollback` set an annotation that the user's file does not have.
#[test]
fn what_an_apply_leaves_as_it_is_stays() {
    let live = |record: &str| {
        let annotations =
            json!({labels::UPGRADE_HOLD: "=1.0.0", "a": "1", labels::LAST_APPLIED_CONFIGURATION: record});
        let object = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
            "metadata": {"name": "db", "namespace": "shop", "annotations": annotations},
            "spec": {"name": "etcd", "channel": "stable", "source": "cat", "sourceNamespace": "olm"},
            "status": {"installedCSV": "etcd.v1.0.0", "currentCSV": "etcd.v1.0.0", "lastUpdated": null}});
        object.to_string()
    };
    let recorded = json!({"metadata": {"annotations": {labels::UPGRADE_HOLD: "=1.0.0"}}}).to_string();
    let own =
        "metadata: {name: db, namespace: shop, annotations: {operatorframework.io/upgrade-hold: <2.0.0}}";
    let plain = "metadata: {name: db, namespace: shop}";
    for (record, metadata, expected) in [
        ("{}", plain, Some("=1.0.0")),
        ("no JSON", plain, Some("=1.0.0")),
        // The last apply set it, and the file has it no longer.
        (recorded.as_str(), plain, None),
        ("{}", own, Some("<2.0.0")),
        (recorded.as_str(), own, Some("<2.0.0")),
    ] {
        let mut objects = Objects::read(&live(record)).unwrap();
        let file = SUBSCRIPTION.replace(plain, metadata).replace("stable", "beta");
        objects.apply(document::parse(&file, "text").unwrap()).unwrap();
        let question = objects.question("shop", "olm", BTreeMap::new());
        let [found] = &question.problem.subscriptions[..] else {
            panic!("{question:?}");
        };
        assert_eq!(found.hold.as_deref(), expected, "{record} {metadata}");
        assert_eq!(
            (found.channel.as_str(), found.installed_csv.as_str()),
            ("beta", "etcd.v1.0.0")
        );
    }
}

#[test]
fn a_version_that_no_cluster_serves_is_reported() {
    let told = |version: &str, kind: &str| {
        let text = SUBSCRIPTION
            .replace("operators.coreos.com/v1alpha1", version)
            .replace("kind: Subscription", &format!("kind: {kind}"));
        // Each kind has fields of its own.
        let text = if kind == "OperatorGroup" {
            text.split_once("spec:").unwrap().0.to_owned()
        } else {
            text
        };
        Objects::read(&text).unwrap().remarks().collect::<Vec<_>>()
    };
    assert_eq!(
        told("operators.coreos.com/v1", "Subscription"),
        [
            "Subscription shop/db: field apiVersion: operators.coreos.com/v1 has no kind Subscription, so clusters reject it; \
          use operators.coreos.com/v1alpha1"
        ]
    );
    assert_eq!(told("operators.coreos.com/v1alpha1", "OperatorGroup").len(), 1);
    for served in ["operators.coreos.com/v1", "operators.coreos.com/v1alpha2"] {
        assert_eq!(told(served, "OperatorGroup"), [""; 0], "{served}");
    }
}

const INSTALLED: &str = "
apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata: {name: etcd.v1, namespace: shop}
spec: {version: 1.0.0, displayName: etcd, install: {strategy: deployment}}
status: {phase: Succeeded}
";

/// Changes that operators would make a moment later do not alter the result.
#[test]
fn objects_in_motion_are_taken_as_the_cluster_takes_them() {
    let successor = INSTALLED
        .replace("name: etcd.v1,", "name: etcd.v2,")
        .replace("spec: {", "spec: {replaces: etcd.v1, ")
        .replace("Succeeded", "Installing");
    let subscription = SUBSCRIPTION.to_owned() + "status: {installedCSV: etcd.v1, currentCSV: etcd.v2}\n";
    let deleted = SUBSCRIPTION.replace(
        "name: db,",
        "name: old, deletionTimestamp: '2026-01-01T00:00:00Z',",
    );
    let gone = INSTALLED.replace(
        "name: etcd.v1,",
        "name: gone.v1, deletionTimestamp: '2026-01-01T00:00:00Z',",
    );
    let text = [INSTALLED, &successor, &subscription, &deleted, &gone].join("---");
    let question = Objects::read(&text)
        .unwrap()
        .question("shop", "olm", BTreeMap::new());
    let problem = &question.problem;
    assert_eq!(problem.subscriptions.len(), 1);
    assert_eq!(problem.subscriptions[0].installed_csv, "etcd.v2", "it is there");
    let phases: Vec<(&str, &str)> = problem
        .installed
        .iter()
        .map(|csv| (&*csv.name, &*csv.phase))
        .collect();
    assert_eq!(phases, [("etcd.v1", "Replacing"), ("etcd.v2", "Installing")]);
    assert_eq!(
        question.left_out,
        [
            "clusterserviceversion gone.v1 is being deleted; the plan treats it as deleted",
            "subscription old is being deleted; the plan treats it as deleted",
        ]
    );
    assert_eq!(question.waiting, []);
}

/// As in a cluster, a ClusterServiceVersion without a status that names it belongs to no Subscription. A
/// remark reports this, as an install beside it may be a surprise.
#[test]
fn existing_objects_that_no_status_names_are_reported() {
    let left_out = |status: &str| {
        let text = format!("{SUBSCRIPTION}{status}---{INSTALLED}");
        let question = Objects::read(&text)
            .unwrap()
            .question("shop", "olm", BTreeMap::new());
        question.left_out.join("\n")
    };
    let unowned = "clusterserviceversion etcd.v1 exists and no subscription's status names it: it stays, beside what the plan \
                   installs";
    assert_eq!(left_out(""), unowned);
    assert_eq!(
        left_out("status: {installedCSV: etcd.v2}\n"),
        format!(
            "subscription db says that etcd.v2 is installed, which does not exist; the plan treats the subscription as new\n{unowned}"
        )
    );
    assert_eq!(left_out("status: {installedCSV: etcd.v1}\n"), "");
    assert_eq!(left_out("status: {currentCSV: etcd.v1}\n"), "");
}

/// OLM writes the status before it resolves.
#[test]
fn a_subscription_that_asks_for_the_version_that_runs_has_it() {
    let question = |starting: &str, package: &str| {
        let subscription = SUBSCRIPTION.replace("olm}", &format!("olm, startingCSV: {starting}}}"));
        let properties = format!(
            r#"{{"properties":[{{"type":"olm.package","value":{{"packageName":"{package}","version":"1.0.0"}}}}]}}"#
        );
        let annotations = format!(
            "name: etcd.v1, annotations: {{{}: '{properties}'}}",
            labels::PROPERTIES
        );
        let installed = INSTALLED.replace("name: etcd.v1", &annotations);
        let objects = Objects::read(&format!("{subscription}---{installed}")).unwrap();
        objects.question("shop", "olm", BTreeMap::new())
    };
    for (starting, package, expected) in [
        ("etcd.v1", "etcd", "etcd.v1"),
        ("etcd.v2", "etcd", ""),
        ("etcd.v1", "other", ""),
    ] {
        let problem = question(starting, package).problem;
        assert_eq!(
            problem.subscriptions[0].installed_csv, expected,
            "{starting} {package}"
        );
    }
}

#[test]
fn plans_that_wait_are_known_by_their_subscriptions() {
    let status = "status: {currentCSV: etcd.v1, installPlanRef: {name: install-x}}\n";
    let question = Objects::read(&format!("{SUBSCRIPTION}{status}"))
        .unwrap()
        .question("shop", "olm", BTreeMap::new());
    let [waiting] = question.waiting.as_slice() else {
        panic!("{:?}", question.waiting);
    };
    assert_eq!(
        (&*waiting.csv, waiting.install_plan.as_deref()),
        ("etcd.v1", Some("install-x"))
    );
    // An upgrade of a deleted operator still arrives.
    let status = "status: {installedCSV: etcd.v0, currentCSV: etcd.v1, installPlanRef: {name: install-x}}\n";
    let question = Objects::read(&format!("{SUBSCRIPTION}{status}"))
        .unwrap()
        .question("shop", "olm", BTreeMap::new());
    assert_eq!(question.waiting.len(), 1);
}

#[test]
fn no_plan_waits_for_what_it_has_brought_and_what_was_deleted_since() {
    let status = "status: {installedCSV: etcd.v1, currentCSV: etcd.v1, installPlanRef: {name: install-x}}\n";
    let question = Objects::read(&format!("{SUBSCRIPTION}{status}"))
        .unwrap()
        .question("shop", "olm", BTreeMap::new());
    assert_eq!(question.waiting, []);
    assert_eq!(
        question.left_out,
        [
            "subscription db: etcd.v1, which it has, was deleted, and OLM does not restore it; delete and recreate the \
             subscription, as the plan assumes"
        ]
    );
}

#[test]
fn several_operator_groups_are_named_with_a_way_out() {
    let group =
        |name: &str| format!("---\nkind: OperatorGroup\nmetadata: {{name: {name}, namespace: shop}}\n");
    let text = format!("{SUBSCRIPTION}{}{}", group("one"), group("two"));
    let question = Objects::read(&text)
        .unwrap()
        .question("shop", "olm", BTreeMap::new());
    let error = crate::plan::plan(&question).unwrap_err();
    assert_eq!(
        error.to_string(),
        "found 2 operatorGroups, expected 1: keep one of one, two in namespace shop"
    );
}

#[test]
fn unreadable_installed_objects_are_reported_after_upstreams_text() {
    let broken = INSTALLED.replace(
        "namespace: shop}",
        "namespace: shop, annotations: {operatorframework.io/properties: nonsense}}",
    );
    let group = "---\nkind: OperatorGroup\nmetadata: {name: og, namespace: shop}\n";
    let question = Objects::read(&format!("{SUBSCRIPTION}---{broken}{group}"))
        .unwrap()
        .question("shop", "olm", BTreeMap::new());
    let error = crate::plan::plan(&question).unwrap_err().to_string();
    let (first, second) = error.split_once('\n').unwrap();
    assert!(
        first.starts_with("error using catalogsource shop/@existing: failed to retrieve properties of csv")
    );
    assert_eq!(
        second,
        "the annotation operatorframework.io/properties of clusterserviceversion etcd.v1 in namespace shop cannot be read: \
         correct it or remove it; until then OLM resolves nothing in this namespace"
    );
}

#[test]
fn what_a_group_selects_is_known_by_its_status_or_else_by_its_list() {
    let targets = |text: &str| {
        let group = format!("---\nkind: OperatorGroup\nmetadata: {{name: og, namespace: shop}}\n{text}");
        let objects = Objects::read(&format!("{SUBSCRIPTION}{group}")).unwrap();
        objects
            .question("shop", "olm", BTreeMap::new())
            .targets
            .map(|targets| targets.namespaces)
    };
    let names = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
    assert_eq!(targets(""), names(&[""]));
    assert_eq!(targets("spec: {targetNamespaces: [a, b]}"), names(&["a", "b"]));
    assert_eq!(targets("spec: {selector: {matchLabels: {a: b}}}"), None);
    assert_eq!(
        targets("spec: {selector: {matchLabels: {a: b}}}\nstatus: {namespaces: [c]}"),
        names(&["c"])
    );
}

/// Objects are taken literally: if CatalogSources are given, no others exist.
#[test]
fn a_catalog_that_is_not_among_the_objects_is_reported_with_a_suggestion() {
    let source =
        "---\nkind: CatalogSource\nmetadata: {name: cat, namespace: olm}\nspec: {sourceType: grpc}\n";
    for (from, to, wrong) in [
        ("source: cat", "source: catt", "olm/catt"),
        ("sourceNamespace: olm", "sourceNamespace: nowhere", "nowhere/cat"),
    ] {
        let objects = Objects::read(&format!("{}{source}", SUBSCRIPTION.replace(from, to))).unwrap();
        let known = objects.catalog_keys("shop");
        assert_eq!(
            known.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["olm/cat"]
        );
        assert_eq!(
            objects.unknown_catalogs("shop", &known),
            [format!(
                "catalog {wrong}, which subscription db names, is not among the CatalogSources given: did you mean olm/cat?"
            )]
        );
    }
}

#[test]
fn the_namespace_asked_for_is_that_of_objects_without_one() {
    let mut documents = document::parse(&SUBSCRIPTION.replace(", namespace: shop", ""), "text").unwrap();
    documents[0].put_into("here");
    documents[0].put_into("there");
    let objects = Objects::of(documents).unwrap();
    assert_eq!(objects.namespace(None).unwrap(), "here");
    let none = Objects::default()
        .namespace(Some("here"))
        .unwrap_err()
        .to_string();
    assert_eq!(
        none,
        "no Subscription in namespace here, and none in another namespace of these objects: choose another namespace with --namespace"
    );
}

#[test]
fn a_hold_is_read_and_an_invalid_one_is_reported() {
    for (range, told) in [
        ("<2.0.0", ""),
        ("about two", "is invalid, so OLM upgrades nothing"),
    ] {
        let annotation = format!(
            "namespace: shop, annotations: {{{}: '{range}'}}}}",
            labels::UPGRADE_HOLD
        );
        let objects = Objects::read(&SUBSCRIPTION.replace("namespace: shop}", &annotation)).unwrap();
        let remarks: Vec<String> = objects.remarks().map(|remark| remark.to_string()).collect();
        assert_eq!(remarks.is_empty(), told.is_empty(), "{remarks:?}");
        assert!(remarks.iter().all(|remark| remark.contains(told)), "{remarks:?}");
        let question = objects.question("shop", "olm", BTreeMap::new());
        assert_eq!(question.problem.subscriptions[0].hold.as_deref(), Some(range));
    }
}

#[test]
fn a_catalog_that_no_object_has_does_not_exist_and_one_that_has_is_unreadable() {
    let source = "---
apiVersion: operators.coreos.com/v1alpha1
kind: CatalogSource
metadata: {name: cat, namespace: olm}
spec: {sourceType: grpc, image: registry.example.com/cat}
";
    for (text, expected) in [
        (SUBSCRIPTION.to_owned(), 0),
        (format!("{SUBSCRIPTION}{source}"), 1),
    ] {
        let objects = Objects::read(&text).unwrap();
        let keys = objects.catalog_keys("shop").into_iter();
        let contents = keys
            .map(|key| (key, Err("it cannot be read".to_owned())))
            .collect();
        let question = objects.question("shop", "olm", contents);
        assert_eq!(question.problem.catalogs.len(), expected, "{text}");
    }
}
