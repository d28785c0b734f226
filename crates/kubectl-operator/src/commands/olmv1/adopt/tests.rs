use k8s_openapi::serde::de::DeserializeOwned;
use kube::api::{Patch, PatchParams};
use olm_api::labels;
use olm_testing::cluster::{FakeCluster, Fault, PatchType, Refusal, Verb};

use super::super::tests::{cluster, object};
use super::*;
use crate::groups::ALL;
use crate::operators::tests::{csv, subscription};

const CRD: &str = "etcds.example.com";

fn of<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

/// Merges a change; null is none.
fn merge(object: &mut Value, change: &Value) {
    if !change.is_null() {
        olm_testing::patch::merge(object, change);
    }
}

/// The operator etcd.v1.0.0 in the namespace `shop`, with a change.
fn installed(change: &Value) -> ClusterServiceVersion {
    let mut found = csv("1.0.0", "Succeeded", "");
    found["metadata"]["uid"] = json!("csv");
    found["spec"]["customresourcedefinitions"] =
        json!({"owned": [{"name": CRD, "version": "v1", "kind": "Etcd"}]});
    merge(&mut found, change);
    of(found)
}

fn subscribed(change: &Value) -> Subscription {
    let status = json!({"installedCSV": "etcd.v1.0.0", "currentCSV": "etcd.v1.0.0"});
    let mut found = subscription("db", &status);
    found["metadata"]["uid"] = json!("sub");
    merge(&mut found, change);
    of(found)
}

fn group(targets: &[&str]) -> Group {
    Group {
        name: "og".to_owned(),
        targets: Some(targets.iter().map(|&target| target.to_owned()).collect()),
        account: None,
    }
}

fn extension(name: &str, package: &str) -> ClusterExtension {
    let source = json!({"sourceType": "Catalog", "catalog": {"packageName": package}});
    of(object(
        "ClusterExtension",
        name,
        &json!({"namespace": "shop", "source": source}),
        &json!({}),
    ))
}

/// What differs from an operator that can be adopted.
#[derive(Default)]
struct Case {
    subscription: Value,
    csv: Value,
    other: Value,
    targets: Vec<&'static str>,
    extensions: Vec<ClusterExtension>,
    condition: Option<Value>,
    newer: bool,
}

fn blockers(case: &Case) -> Vec<String> {
    let (subscription, csv) = (subscribed(&case.subscription), installed(&case.csv));
    let mut other = json!({"metadata": {"name": "other.v1", "namespace": "web", "uid": "other"},
        "spec": {"customresourcedefinitions": {"owned": null}}});
    merge(&mut other, &case.other);
    let (other, newer) = (
        installed(&other),
        installed(&json!({"metadata": {"name": "etcd.v1.1.0"}})),
    );
    let chain = match case.newer {
        true => vec![&csv, &newer],
        false => vec![&csv],
    };
    let condition = case.condition.clone().map(of::<OperatorCondition>);
    let targets: &[&str] = match case.targets.as_slice() {
        [] => &[ALL],
        targets => targets,
    };
    let situation = Situation {
        subscription: &subscription,
        csv: &csv,
        chain: &chain,
        others: &[&other],
        groups: &[group(targets)],
        extensions: &case.extensions,
        condition: condition.as_ref(),
    };
    situation.blockers("db")
}

#[test]
fn every_obstacle_is_reported() {
    assert_eq!(blockers(&Case::default()), [""; 0]);
    let properties = |type_: &str, value: Value| {
        let properties = json!({"properties": [{"type": type_, "value": value}]}).to_string();
        json!({"metadata": {"annotations": {labels::PROPERTIES: properties}}})
    };
    let in_csv = |spec: Value| Case {
        csv: json!({"spec": spec}),
        ..Case::default()
    };
    let in_other = |other: Value| Case {
        other,
        ..Case::default()
    };
    let of_other = |field: &str| json!({"spec": {"customresourcedefinitions": {field: [{"name": CRD, "version": "v1", "kind": "Etcd"}]}}});
    let condition = |spec: Value| json!({"apiVersion": "operators.coreos.com/v2", "kind": "OperatorCondition", "metadata": {"name": "etcd.v1.0.0"}, "spec": spec});
    let upgradeable = json!([{"type": "Upgradeable", "status": "False", "reason": "a", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    let rows: [(Case, &str); 17] = [
        (
            Case {
                targets: vec!["shop", "web"],
                ..Case::default()
            },
            "a ClusterExtension watches one namespace or all",
        ),
        (
            Case {
                newer: true,
                ..Case::default()
            },
            "upgrade is in progress or waits for approval (etcd.v1.0.0, etcd.v1.1.0)",
        ),
        (
            Case {
                subscription: json!({"status": {"currentCSV": "etcd.v1.1.0"}}),
                ..Case::default()
            },
            "upgrade is in progress or waits for approval (etcd.v1.1.0)",
        ),
        (
            Case {
                csv: json!({"status": {"phase": "Failed"}}),
                ..Case::default()
            },
            "phase \"Failed\"",
        ),
        (
            Case {
                csv: json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
                ..Case::default()
            },
            "being deleted",
        ),
        (
            in_csv(
                json!({"apiservicedefinitions": {"owned": [{"name": "a", "group": "g", "version": "v1", "kind": "A"}]}}),
            ),
            "owns APIServices",
        ),
        (
            in_csv(
                json!({"webhookdefinitions": [{"type": "ValidatingAdmissionWebhook", "generateName": "a"}]}),
            ),
            "has webhooks",
        ),
        (in_csv(json!({"version": null})), "has no version"),
        (
            Case {
                condition: Some(condition(json!({"conditions": upgradeable}))),
                ..Case::default()
            },
            "OperatorCondition etcd.v1.0.0 is in use",
        ),
        (
            in_other(of_other("owned")),
            "other.v1 in namespace web also owns etcds.example.com",
        ),
        (
            in_other(of_other("required")),
            "other.v1 in namespace web depends on it",
        ),
        (
            in_other(properties(
                "olm.package.required",
                json!({"packageName": "etcd", "versionRange": "1.x"}),
            )),
            "depends on it",
        ),
        (
            in_other(properties(
                "olm.gvk.required",
                json!({"group": "example.com", "version": "v1", "kind": "Etcd"}),
            )),
            "depends on it",
        ),
        (
            in_other(properties(
                "olm.constraint",
                json!({"failureMessage": "m", "all": {"constraints": [{"package": {"packageName": "etcd"}}]}}),
            )),
            "depends on it",
        ),
        (
            Case {
                extensions: vec![extension("db", "other")],
                ..Case::default()
            },
            "choose another name with --name",
        ),
        (
            Case {
                extensions: vec![extension("other", "etcd")],
                ..Case::default()
            },
            "already is for package etcd",
        ),
        (
            Case {
                targets: vec!["shop", "web"],
                csv: json!({"spec": {"version": null}}),
                ..Case::default()
            },
            "has no version",
        ),
    ];
    for (case, expected) in rows {
        let found = blockers(&case);
        assert!(
            found.iter().any(|found| found.contains(expected)),
            "{expected}: {found:?}"
        );
    }
    // What another operator is or has does not matter.
    for harmless in [
        properties("olm.package", json!({"packageName": "etcd"})),
        properties("olm.package.required", json!({"packageName": "vault"})),
        properties(
            "olm.gvk.required",
            json!({"group": "example.org", "kind": "Etcd"}),
        ),
    ] {
        assert_eq!(blockers(&in_other(harmless.clone())), [""; 0], "{harmless}");
    }
    let empty = Case {
        condition: Some(condition(json!({"deployments": ["etcd"]}))),
        ..Case::default()
    };
    assert_eq!(blockers(&empty), [""; 0]);
}

fn extension_for(targets: &[&str], change: &Value) -> Value {
    extension_of(&group(targets), change).0
}

/// Returns the extension, and the remark about its account.
fn extension_of(group: &Group, change: &Value) -> (Value, Option<String>) {
    let (subscription, csv) = (subscribed(change), installed(&json!({})));
    let situation = Situation {
        subscription: &subscription,
        csv: &csv,
        chain: &[&csv],
        others: &[],
        groups: std::slice::from_ref(group),
        extensions: &[],
        condition: None,
    };
    let extension = serde_json::to_value(situation.extension("db").unwrap()).unwrap();
    (extension, situation.account_note())
}

#[test]
fn the_extension_is_pinned_and_configured_as_the_subscription() {
    let plain = extension_for(&[ALL], &json!({}));
    assert_eq!(
        plain["metadata"]["annotations"],
        json!({"operatorframework.io/adopts": "shop/etcd.v1.0.0"})
    );
    assert_eq!(plain["spec"]["namespace"], "shop");
    assert_eq!(
        plain["spec"]["source"]["catalog"],
        json!({"packageName": "etcd", "version": "1.0.0"})
    );
    assert_eq!(plain["spec"]["config"], Value::Null);
    let config = json!({"spec": {"config": {"nodeSelector": {"disk": "fast"}, "selector": {"matchLabels": {"a": "b"}}}}});
    let configured = extension_for(&["shop"], &config);
    assert_eq!(
        configured["spec"]["config"],
        json!({"configType": "Inline",
            "inline": {"watchNamespace": "shop", "deploymentConfig": {"nodeSelector": {"disk": "fast"}}}})
    );
    assert_eq!(plain["spec"]["serviceAccount"], Value::Null);
    let mut limited = group(&[ALL]);
    assert_eq!(extension_of(&limited, &json!({})).1, None);
    limited.account = Some("installer".to_owned());
    let (extension, note) = extension_of(&limited, &json!({}));
    assert_eq!(extension["spec"]["serviceAccount"], json!({"name": "installer"}));
    assert!(note.unwrap().contains("ServiceAccount installer"));
}

fn deployment(change: &Value) -> Value {
    let mut found = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "etcd", "namespace": "shop", "uid": "dep",
        "managedFields": [{"manager": "olm-operator/csv", "operation": "Apply"}],
        "ownerReferences": [{"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "name": "etcd.v1.0.0",
            "uid": "csv", "controller": false}]},
        "spec": {"template": {"metadata": {"annotations": {"a": "1"}}, "spec": {"containers": [{"name": "a", "image": "i"}]}}}});
    merge(&mut found, change);
    found
}

#[test]
fn only_objects_of_the_operator_are_taken_over() {
    let csv = installed(&json!({}));
    let controlled = json!([{"kind": "ClusterObjectSet", "name": "other-1", "uid": "x", "controller": true}]);
    let metadata = |metadata: Value| json!({ "metadata": metadata });
    let labelled = json!({"olm.owner": "etcd.v1.0.0", "olm.owner.namespace": "shop"});
    let rows = [
        (json!({}), Ok(Fate::Adopt)),
        (
            metadata(json!({"ownerReferences": null, "labels": labelled})),
            Ok(Fate::Adopt),
        ),
        (
            metadata(json!({"ownerReferences": null})),
            Err("does not belong to"),
        ),
        (
            metadata(
                json!({"ownerReferences": null, "labels": {"olm.owner": "etcd.v1.0.0", "olm.owner.namespace": "web"}}),
            ),
            Err("does not belong to"),
        ),
        (
            metadata(json!({"ownerReferences": controlled})),
            Err("is controlled by ClusterObjectSet other-1"),
        ),
        (
            metadata(json!({"annotations": {"olm.operatorframework.io/revision": "1"}})),
            Err("kubectl annotate deployment etcd -n shop olm.operatorframework.io/revision-"),
        ),
        (
            metadata(json!({"deletionTimestamp": "2026-01-01T00:00:00Z"})),
            Err("is being deleted"),
        ),
        (
            metadata(json!({"managedFields": [{"manager": "olm", "operation": "Update"}]})),
            Err("was not applied by this OLM"),
        ),
    ];
    for (change, expected) in rows {
        let live = deployment(&change);
        match (fate(&live, Some(&live), &csv), expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{change}"),
            (Err(found), Err(expected)) => assert!(found.contains(expected), "{found}"),
            (found, expected) => panic!("{change}: {found:?} {expected:?}"),
        }
    }
    assert_eq!(fate(&deployment(&json!({})), None, &csv), Ok(Fate::Create));
    // Definitions have no owner.
    let definition = |name: &str| json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": name}});
    let own = definition(CRD);
    assert_eq!(fate(&own, Some(&own), &csv), Ok(Fate::Adopt));
    let other = definition("vaults.example.com");
    assert!(fate(&other, Some(&other), &csv).is_err());
}

#[test]
fn only_changes_of_the_pod_template_restart_pods() {
    let template = |template: Value| json!({"spec": {"template": template}});
    for (change, expected) in [
        (
            json!({"spec": {"replicas": 2}, "metadata": {"labels": {"a": "b"}}}),
            &[] as &[&str],
        ),
        (
            template(json!({"metadata": {"annotations": {"a": "2"}}})),
            &["template.metadata.annotations.a"],
        ),
        (
            template(json!({"spec": {"containers": []}})),
            &["template.spec.containers"],
        ),
    ] {
        let (live, applied) = (deployment(&json!({})), deployment(&change));
        assert_eq!(template_changes(&live, &applied), expected, "{change}");
    }
}

fn found() -> Found {
    let extension: ClusterExtension = of(extension_for(&["shop"], &json!({})));
    Found {
        adoption: Adoption {
            namespace: "shop".to_owned(),
            subscription: "db".to_owned(),
            csv: "etcd.v1.0.0".to_owned(),
            extension,
            objects: vec![AdoptedObject {
                kind: "Deployment".to_owned(),
                namespace: "shop".to_owned(),
                name: "etcd".to_owned(),
                fate: Fate::Adopt,
            }],
            restarts: Vec::new(),
            blockers: vec!["x\u{1b}\nnote: all is well".to_owned()],
            notes: Vec::new(),
        },
        subscription: subscribed(&json!({"spec": {"installPlanApproval": "Automatic"}})),
        csv: installed(&json!({})),
        wanted: vec![deployment(&json!({}))],
        deployments: vec![deployment(&json!({}))],
    }
}

#[test]
fn the_summary_names_all_and_no_text_of_others_looks_like_ours() {
    let text = found().adoption.text();
    for part in [
        "Subscription db in namespace shop becomes ClusterExtension db of version 1.0.0\n",
        "\n  adopts   Deployment shop/etcd\n",
        "\n  deletes  Subscription db and ClusterServiceVersion etcd.v1.0.0, when this is done\n",
        "\ncannot be done: x",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains('\u{1b}') && !text.contains("\nnote: "), "{text}");
}

#[test]
fn the_way_back_is_a_subscription_with_commands_above_it() {
    let change = json!({"metadata": {"annotations": {"note": "a", "olm.generated-by": "install-1"}}});
    let text = way_back(&subscribed(&change), &found().adoption, "adopt-shop-db.yaml").unwrap();
    for part in [
        "# OPERATOR'S OBJECTS. Only CustomResourceDefinitions that have custom resources stay then.\n",
        "kubectl delete clusterextension db --cascade=orphan\n",
        "kubectl delete clusterobjectsets -l olm.operatorframework.io/owner-name=db --cascade=orphan\n",
        "kubectl apply -f adopt-shop-db.yaml\n",
        "kubectl delete roles,rolebindings -n shop ",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let documents: Vec<Value> = olm_fbc::yaml::parse_all(text.as_bytes()).unwrap();
    let [back] = documents.as_slice() else {
        panic!("{text}");
    };
    assert_eq!(back["kind"], "Subscription");
    assert_eq!(back["spec"]["startingCSV"], "etcd.v1.0.0");
    assert_eq!(back["metadata"]["annotations"], json!({"note": "a"}));
    assert_eq!(back["metadata"]["uid"], Value::Null);
}

/// Returns a cluster with the operator.
fn running(deployment: Value) -> FakeCluster {
    let (found, cluster) = (found(), cluster());
    cluster.put(serde_json::to_value(&found.subscription).unwrap());
    cluster.put(serde_json::to_value(&found.csv).unwrap());
    cluster.put(deployment);
    cluster
}

/// Names of the Subscription and the ClusterServiceVersion that exist.
fn left(cluster: &FakeCluster) -> Vec<&'static str> {
    let kinds = [("Subscription", "db"), ("ClusterServiceVersion", "etcd.v1.0.0")];
    let left = kinds
        .into_iter()
        .filter(|(kind, name)| cluster.get(kind, "shop", name).is_some());
    left.map(|(kind, _)| kind).collect()
}

#[tokio::test(start_paused = true)]
async fn nothing_is_deleted_before_the_extension_is_installed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("back.yaml");
    let cluster = running(deployment(&json!({})));
    let (client, _link) = cluster.connect();
    let here = Cluster::of(client, "shop");
    let mut written = Vec::new();
    let mut screen = Screen::new(&mut written, None);
    let wait = WaitArgs::default().or(Duration::from_secs(10));
    let found = found();
    let begun = Box::pin(begin(&here, &found, &wait, &file, &mut screen)).await;
    let error = begun.unwrap_err();
    let error = format!("{error:#}");
    assert!(
        error.contains("not ready after 10 s") && error.contains("back.yaml"),
        "{error}"
    );
    assert_eq!(left(&cluster), ["Subscription", "ClusterServiceVersion"]);
    assert!(cluster.get("ClusterExtension", "", "db").is_some());
    let subscription = cluster.get("Subscription", "shop", "db").unwrap();
    assert_eq!(subscription["spec"]["installPlanApproval"], "Manual");
    assert!(
        std::fs::read_to_string(&file)
            .unwrap()
            .contains("installPlanApproval: Automatic")
    );
}

#[tokio::test(start_paused = true)]
async fn the_csv_is_deleted_only_when_the_extension_controls_all_objects() {
    let owned = |extension: &str, controller: bool| {
        let owner = json!({"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterObjectSet", "name": "db-1", "uid": "set",
            "controller": controller});
        deployment(
            &json!({"metadata": {"ownerReferences": [owner], "labels": {"olm.operatorframework.io/owner-name": extension}}}),
        )
    };
    let both = &["Subscription", "ClusterServiceVersion"][..];
    for (live, expected) in [
        (deployment(&json!({})), both),
        (owned("db", false), both),
        (owned("other", true), both),
        (owned("db", true), &[]),
    ] {
        let cluster = running(live.clone());
        let (client, _link) = cluster.connect();
        let here = Cluster::of(client, "shop");
        let mut written = Vec::new();
        let mut screen = Screen::new(&mut written, None);
        let wait = WaitArgs::default();
        let (found, file) = (found(), Path::new("back.yaml"));
        let done = Box::pin(finish(&here, &found, &wait, file, &mut screen)).await;
        assert_eq!(left(&cluster), expected, "{live}");
        assert_eq!(done.is_ok(), expected.is_empty(), "{done:?}");
    }
    // An upgrade that has begun is not cut off.
    let cluster = running(owned("db", true));
    let mut newer = csv("1.1.0", "Installing", "");
    newer["spec"]["replaces"] = json!("etcd.v1.0.0");
    cluster.put(newer);
    let (client, _link) = cluster.connect();
    let here = Cluster::of(client, "shop");
    let error = check(&here, &found()).await.unwrap_err().to_string();
    assert!(error.contains("is being upgraded to etcd.v1.1.0"), "{error}");
}

#[expect(clippy::disallowed_methods, reason = "the operators write like this")]
async fn apply(here: &Cluster, manager: &str, object: &Value) {
    let api = Kinds::of(here).api(object).await.unwrap().unwrap();
    let params = PatchParams::apply(manager).force();
    api.patch("etcd", &params, &Patch::Apply(object)).await.unwrap();
}

/// An apply removes only fields that the manager had in its own entry.
#[tokio::test(start_paused = true)]
async fn an_apply_after_the_adoption_removes_what_only_olm_v0_had_set() {
    let with = |env: &[&str]| {
        let env: Vec<Value> = env
            .iter()
            .map(|name| json!({"name": name, "value": "1"}))
            .collect();
        let containers = json!([{"name": "a", "image": "i", "env": env}]);
        deployment(
            &json!({"metadata": {"managedFields": null}, "spec": {"template": {"spec": {"containers": containers}}}}),
        )
    };
    let (bundle, mut own) = (with(&["A"]), with(&["A"]));
    own["metadata"]["labels"] = json!({"olm.operatorframework.io/owner-name": "db"});
    own["metadata"]["ownerReferences"] = json!([{"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterObjectSet",
        "name": "db-1", "uid": "set", "controller": true}]);
    let cluster = running(bundle);
    let (client, _link) = cluster.connect();
    let here = Cluster::of(client, "shop");
    apply(
        &here,
        labels::FIELD_MANAGER_CSV,
        &with(&["A", "OPERATOR_CONDITION_NAME"]),
    )
    .await;
    apply(&here, labels::EXTENSION_MANAGER, &own).await;
    let env = || {
        let live = cluster.get("Deployment", "shop", "etcd").unwrap();
        let env = live["spec"]["template"]["spec"]["containers"][0]["env"].clone();
        let names = env.as_array().into_iter().flatten();
        names
            .map(|variable| variable["name"].as_str().unwrap_or_default().to_owned())
            .collect::<Vec<String>>()
    };
    // Another client changes it between the first read and the first write.
    let mut attempts = 0;
    cluster.on_request(move |request| {
        let is_it = request.verb == Verb::Patch(PatchType::Merge) && request.kind.kind == "Deployment";
        attempts += usize::from(is_it);
        (is_it && attempts == 1).then(|| Fault::Refuse(Refusal::conflict("it was modified")))
    });
    let mut written = Vec::new();
    let mut screen = Screen::new(&mut written, None);
    let (found, wait, file) = (found(), WaitArgs::default(), Path::new("back.yaml"));
    Box::pin(finish(&here, &found, &wait, file, &mut screen))
        .await
        .unwrap();
    assert_eq!(left(&cluster), [""; 0]);
    assert_eq!(env(), ["A", "OPERATOR_CONDITION_NAME"]);
    apply(&here, labels::EXTENSION_MANAGER, &own).await;
    assert_eq!(env(), ["A"]);
}
