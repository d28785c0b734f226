//! Tests of operands, definitions and OperatorGroups.

use super::*;

/// Returns the cluster with operands a and b in shop, and one in a namespace that the operator does not watch.
fn with_operands(finalizers: &[&str]) -> FakeCluster {
    let cluster = cluster();
    // No real server has an object of this name.
    cluster.put(etcd("b\u{1b}", &[]));
    cluster.delete("Etcd", "shop", "b\u{1b}");
    cluster.put(group(&json!(["shop"])));
    for name in ["a", "b"] {
        cluster.put(etcd(name, finalizers));
    }
    cluster.put(etcd_in("elsewhere", "c"));
    cluster
}

async fn looked_with(
    cluster: &FakeCluster,
    name: &str,
    flags: &[&str],
) -> anyhow::Result<(Removal, UninstallArgs)> {
    let args = uninstall_args(name, flags);
    let (client, _link) = cluster.connect();
    Ok((look(&Cluster::of(client, "shop"), &args).await?, args))
}

/// Results without a terminal, by each flag of upstream's plugin.
#[tokio::test(start_paused = true)]
async fn operands_abort_without_a_strategy() {
    let cluster = with_operands(&[]);
    cluster.take_log();
    for name in ["db", "etcd"] {
        for (flags, expected) in [
            (&[][..], Err("operand strategy is \"abort\"")),
            (&["-s", "abort"], Err("operand strategy is \"abort\"")),
            (&["--operand-strategy=ignore"], Ok("Uninstall")),
            (&["-s", "delete"], Ok("and delete its 2 operands?")),
            (&["--delete-crd", CRD], Ok("Uninstall")),
            (&["--delete-operator"], Ok("and delete its 2 operands?")),
            (&["-X"], Ok("and delete its 2 operands?")),
        ] {
            let (removal, args) = looked_with(&cluster, name, flags).await.unwrap();
            let asked = question(&removal, &args, false).map_err(|error| error.to_string());
            match (asked, expected) {
                (Ok(text), Ok(part)) => assert!(text.contains(part), "{flags:?}: {text}"),
                (Err(text), Err(part)) => assert!(text.contains(part), "{flags:?}: {text}"),
                (asked, _) => panic!("{flags:?}: {asked:?}"),
            }
        }
        // On a terminal the user is asked.
        let (removal, args) = looked_with(&cluster, name, &[]).await.unwrap();
        let asked = question(&removal, &args, true).unwrap();
        assert!(asked.contains("and leave its 2 operands"), "{asked}");
    }
    assert!(cluster.log().writes.is_empty(), "looking changes nothing");
    // Without operands nothing blocks the removal.
    for name in ["a", "b"] {
        cluster.delete("Etcd", "shop", name);
    }
    let (removal, args) = looked_with(&cluster, "etcd", &[]).await.unwrap();
    assert_eq!(question(&removal, &args, false).unwrap(), "Uninstall etcd?");
}

#[tokio::test(start_paused = true)]
async fn operands_of_the_targets_go_before_the_operator() {
    let cluster = with_operands(&[]);
    let (removal, _) = looked_with(&cluster, "etcd", &["-s", "delete"]).await.unwrap();
    insta::assert_snapshot!(removal.to_string(), @r"
    deletes  Subscription db in namespace shop
    deletes  ClusterServiceVersion etcd.v1.0.0 in namespace shop, with its Deployments, ServiceAccounts and permissions
    leaves   CustomResourceDefinition etcds.example.com with 3 objects, 2 deleted as listed below, 1 kept: elsewhere/c
    deletes  Etcd shop/a, before the operator
    deletes  Etcd shop/b, before the operator
    leaves   OperatorGroup og in namespace shop, which no operator uses then; --delete-operator-groups deletes it, too
    ");
    let (is_gone, _) = removed(&cluster, &removal).await;
    assert!(is_gone);
    assert!(cluster.get("Etcd", "shop", "a").is_none());
    assert!(cluster.get("Etcd", "elsewhere", "c").is_some());
    assert!(cluster.get("CustomResourceDefinition", "", CRD).is_some());
    // An operand that is not deleted keeps the operator.
    let cluster = with_operands(&["example.com/end"]);
    let (removal, _) = looked_with(&cluster, "etcd", &["-s", "delete"]).await.unwrap();
    let (result, _) = try_removed(&cluster, &removal).await;
    let error = result.unwrap_err().to_string();
    assert!(
        error.contains("deletion of operands timed out after 30 s"),
        "{error}"
    );
    assert!(
        cluster
            .get("ClusterServiceVersion", "shop", "etcd.v1.0.0")
            .is_some()
    );
    // The target namespaces are not guessed.
    cluster.delete("OperatorGroup", "shop", "og");
    let error = looked_with(&cluster, "etcd.v1.0.0", &["-s", "delete"])
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("unexpected number (0) of operator groups"),
        "{error}"
    );
}

/// With -X everything of the operator is deleted, and nothing of others.
#[tokio::test(start_paused = true)]
async fn all_of_an_operator_goes_and_nothing_of_others() {
    let listed = json!({"apiVersion": "operators.coreos.com/v1", "kind": "Operator", "metadata": {"name": "etcd.shop"},
        "status": {"components": {"labelSelector": {}, "refs": []}}});
    for (is_shared, is_alone) in [(false, true), (true, false)] {
        let cluster = with_operands(&[]);
        cluster.put(listed.clone());
        if is_shared {
            let mut other = owner("9.0.0");
            other["metadata"]["namespace"] = json!("other");
            cluster.put(other);
        }
        if !is_alone {
            let mut other = subscription("vault", &json!({}));
            other["spec"]["name"] = json!("vault");
            cluster.put(other);
        }
        let (removal, _) = looked_with(&cluster, "etcd", &["-X"]).await.unwrap();
        let shown = removal.to_string();
        for part in [
            "deletes  Operator etcd.shop",
            "deletes  OperatorGroup og in namespace shop, if no",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        let (is_gone, told) = removed(&cluster, &removal).await;
        assert!(is_gone, "{told:?}");
        let is_there = |kind: &str, namespace: &str, name: &str| cluster.get(kind, namespace, name).is_some();
        assert_eq!(
            is_there("CustomResourceDefinition", "", CRD),
            is_shared,
            "{told:?}"
        );
        assert_eq!(is_there("OperatorGroup", "shop", "og"), !is_alone, "{told:?}");
        assert!(!is_there("Operator", "", "etcd.shop"), "{told:?}");
        assert!(!is_there("Etcd", "shop", "a"));
    }
}

/// OLM creates it again while a definition has its label.
#[tokio::test(start_paused = true)]
async fn an_operator_object_that_lists_what_others_need_is_not_reported_as_deleted() {
    let cluster = with_operands(&[]);
    let refs =
        json!([{"kind": "CustomResourceDefinition", "name": CRD, "apiVersion": "apiextensions.k8s.io/v1"}]);
    cluster.put(
        json!({"apiVersion": "operators.coreos.com/v1", "kind": "Operator", "metadata": {"name": "etcd.shop"},
        "status": {"components": {"labelSelector": {}, "refs": refs}}}),
    );
    let mut other = owner("9.0.0");
    other["metadata"]["namespace"] = json!("other");
    cluster.put(other);
    let (removal, _) = looked_with(&cluster, "etcd", &["-X"]).await.unwrap();
    let line =
        "deletes  Operator etcd.shop; it is kept while it lists CustomResourceDefinition etcds.example.com\n";
    assert!(removal.to_string().contains(line), "{removal}");
    let (is_gone, told) = removed(&cluster, &removal).await;
    assert!(is_gone, "{told:?}");
    let kept = "Operator etcd.shop is kept: it lists CustomResourceDefinition etcds.example.com, and OLM would create it again";
    assert!(told.iter().any(|text| text == kept), "{told:?}");
    assert!(cluster.get("Operator", "", "etcd.shop").is_some());
}

/// Returns an Operator object that lists these objects by API version, kind, namespace and name.
fn operator_with(refs: &[[&str; 4]]) -> Value {
    let refs = refs.iter().map(|[api, kind, namespace, name]| {
        let mut found = json!({"apiVersion": api, "kind": kind, "name": name});
        if !namespace.is_empty() {
            found["namespace"] = json!(namespace);
        }
        found
    });
    let refs: Vec<Value> = refs.collect();
    json!({"apiVersion": "operators.coreos.com/v1", "kind": "Operator", "metadata": {"name": "etcd.shop"},
        "status": {"components": {"labelSelector": {}, "refs": refs}}})
}

/// Removes, while OLM removes deleted objects from the Operator object.
async fn removed_with_olm(cluster: &FakeCluster, removal: &Removal) -> (bool, Vec<String>) {
    let olm = async {
        for _ in 0..60 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            if let Some(mut operator) = cluster.get("Operator", "", "etcd.shop") {
                let refs = operator["status"]["components"]["refs"].as_array_mut().unwrap();
                refs.retain(|found| {
                    let text = |field: &str| found[field].as_str().unwrap_or_default();
                    let object = cluster.get(text("kind"), text("namespace"), text("name"));
                    object.is_some()
                });
                cluster.put(operator);
            }
        }
    };
    let (result, ()) = tokio::join!(Box::pin(removed(cluster, removal)), olm);
    result
}

const CRD_REF: [&str; 4] = ["apiextensions.k8s.io/v1", "CustomResourceDefinition", "", CRD];
const OLM_API: &str = "operators.coreos.com/v1alpha1";

/// A user deleted the operator's ClusterServiceVersion, and only the Operator object lists the definition.
#[tokio::test(start_paused = true)]
async fn without_a_version_a_definition_that_others_own_or_need_is_kept() {
    for (field, text) in [
        ("owned", "also owned by other/etcd.v1.0.0"),
        ("required", "needed by other/etcd.v1.0.0"),
        ("none", ""),
    ] {
        let cluster = upgrading(false);
        cluster.delete("ClusterServiceVersion", "shop", "etcd.v1.0.0");
        let mut other = csv("1.0.0", "Succeeded", "");
        other["metadata"]["namespace"] = json!("other");
        if !text.is_empty() {
            other["spec"]["customresourcedefinitions"] =
                json!({field: [{"name": CRD, "version": "v1", "kind": "Etcd"}]});
        }
        cluster.put(other);
        cluster.put(etcd_in("other", "precious"));
        cluster.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}));
        for name in ["listed", "later"] {
            cluster.put(
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "shop", "name": name}}),
            );
        }
        let mut refs = vec![
            ["v1", "ConfigMap", "shop", "listed"],
            CRD_REF,
            [OLM_API, "InstallPlan", "shop", "install-1"],
            ["v1", "Namespace", "", "shop"],
            [OLM_API, "Subscription", "shop", "db"],
        ];
        cluster.put(operator_with(&refs));
        let (removal, _) = looked_with(&cluster, "etcd", &["-X"]).await.unwrap();
        let shown = removal.to_string();
        let objects = "CustomResourceDefinition etcds.example.com with 3 objects";
        let names = "other/precious, shop/a, shop/b\\u{1b}";
        let is_kept = !text.is_empty();
        let expected = match is_kept {
            true => [
                format!("leaves   {objects}, which are kept: {names}; {text}\n"),
                format!("note: CustomResourceDefinition {CRD} is kept: {text}; uninstall these first\n"),
                format!(
                    "deletes  Operator etcd.shop; it is kept while it lists CustomResourceDefinition {CRD}, Namespace shop\n"
                ),
            ],
            false => [
                format!("deletes  {objects}, which are lost: {names}\n"),
                "deletes  ConfigMap listed in namespace shop, which Operator etcd.shop lists\n".to_owned(),
                "deletes  Operator etcd.shop; it is kept while it lists Namespace shop\n".to_owned(),
            ],
        };
        for line in expected {
            assert!(shown.contains(&line), "{line}: {shown}");
        }
        // Only objects that were shown are deleted.
        refs.push(["v1", "ConfigMap", "shop", "later"]);
        cluster.put(operator_with(&refs));
        let (is_gone, told) = removed_with_olm(&cluster, &removal).await;
        assert!(is_gone, "{told:?}");
        let is_there = |kind: &str, namespace: &str, name: &str| cluster.get(kind, namespace, name).is_some();
        assert_eq!(is_there("CustomResourceDefinition", "", CRD), is_kept, "{told:?}");
        if is_kept {
            assert!(is_there("Etcd", "other", "precious"));
        }
        assert!(!is_there("InstallPlan", "shop", "install-1"));
        assert!(!is_there("ConfigMap", "shop", "listed"));
        assert!(is_there("ConfigMap", "shop", "later") && is_there("Namespace", "", "shop"));
        let last = told.last().unwrap();
        assert!(last.starts_with("Operator etcd.shop is kept"), "{last}");
        assert!(last.contains("ConfigMap later in namespace shop"), "{last}");
    }
}

/// Objects of the operator by kind, namespace and name, with its Operator object and one operand.
const OBJECTS: [(&str, &str, &str); 6] = [
    ("ClusterServiceVersion", "shop", "etcd.v1.0.0"),
    ("CustomResourceDefinition", "", CRD),
    ("Deployment", "shop", "etcd"),
    ("InstallPlan", "shop", "install-0"),
    ("Operator", "", "etcd.shop"),
    ("Etcd", "shop", "a"),
];

/// Returns a ClusterServiceVersion with the label that OLM gave it for the package etcd.
fn component(mut csv: Value) -> Value {
    csv["metadata"]["labels"] = json!({"operators.coreos.com/etcd.shop": ""});
    csv
}

/// A user deleted the newest version, which failed. The Subscription still names it, and OLM runs the version before again.
#[tokio::test(start_paused = true)]
async fn versions_before_a_deleted_one_are_shown_and_deleted() {
    let other = |name: &str, package: &str, status: &Value| {
        let mut other = subscription(name, status);
        other["spec"]["name"] = json!(package);
        other
    };
    let installed = json!({"installedCSV": "etcd.v2.0.0", "currentCSV": "etcd.v2.0.0"});
    for (versions, more, expected) in [
        (vec![component(owner("1.0.0"))], None, &["etcd.v1.0.0"][..]),
        (
            vec![
                component(successor("2.0.0", "Replacing", "etcd.v1.0.0")),
                component(owner("1.0.0")),
            ],
            None,
            &["etcd.v1.0.0", "etcd.v2.0.0"],
        ),
        // It is of no Subscription, or of another one.
        (vec![owner("1.0.0")], None, &[]),
        (
            vec![component(owner("1.0.0"))],
            Some(other("twin", "etcd", &json!({}))),
            &[],
        ),
        (
            vec![component(successor("2.0.0", "Succeeded", "etcd.v1.0.0"))],
            Some(other("vault", "vault", &installed)),
            &[],
        ),
    ] {
        let cluster = cluster();
        cluster.delete("ClusterServiceVersion", "shop", "etcd.v1.0.0");
        let deleted =
            json!({"installedCSV": "etcd.v3.0.0", "currentCSV": "etcd.v3.0.0", "state": "AtLatestKnown"});
        cluster.put(subscription("db", &deleted));
        for object in versions.into_iter().chain(more) {
            cluster.put(object);
        }
        let (removal, _) = looked_with(&cluster, "etcd", &["-s", "ignore"]).await.unwrap();
        let names: Vec<String> = removal.csvs.iter().map(|csv| csv.name_any()).collect();
        assert_eq!(names, expected);
        for name in expected {
            let line = format!("deletes  ClusterServiceVersion {name} in namespace shop, with");
            assert!(removal.to_string().contains(&line), "{removal}");
        }
        let (is_gone, told) = removed(&cluster, &removal).await;
        assert!(is_gone, "{told:?}");
        for name in expected {
            assert!(cluster.get("ClusterServiceVersion", "shop", name).is_none());
        }
    }
}

/// `uninstall` of a version without a Subscription knows no package.
#[tokio::test(start_paused = true)]
async fn the_way_to_continue_names_the_versions_that_only_their_label_assigns() {
    let cluster = cluster();
    for version in ["0.4.0", "0.5.0"] {
        cluster.put(component(csv(version, "Succeeded", "")));
    }
    let (removal, _) = looked_with(&cluster, "etcd", &["-s", "ignore"]).await.unwrap();
    assert_eq!(
        removal.again(),
        "`kubectl operator uninstall etcd.v1.0.0 -n shop`; then `kubectl delete csv etcd.v0.4.0 etcd.v0.5.0 -n shop`"
    );
    cluster.delete("Subscription", "shop", "db");
    let (left, _) = looked_with(&cluster, "etcd.v1.0.0", &["-s", "ignore"])
        .await
        .unwrap();
    let names: Vec<String> = left.csvs.iter().map(|csv| csv.name_any()).collect();
    assert_eq!(names, ["etcd.v1.0.0"]);
}

/// The Subscription was deleted and created again, so it names no version.
#[tokio::test(start_paused = true)]
async fn a_running_version_that_only_its_label_assigns_is_shown_and_deleted() {
    let unresolved = || {
        let cluster = with_operands(&[]);
        cluster.put(subscription("db", &json!({})));
        cluster.put(component(owner("1.0.0")));
        cluster.put(plan("install-0", "Complete", true));
        cluster.put(json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": "shop", "name": "etcd"}}));
        cluster.put(operator_with(&[
            [OLM_API, "ClusterServiceVersion", "shop", "etcd.v1.0.0"],
            CRD_REF,
            ["apps/v1", "Deployment", "shop", "etcd"],
            [OLM_API, "InstallPlan", "shop", "install-0"],
            [OLM_API, "Subscription", "shop", "db"],
        ]));
        cluster
    };
    let cluster = unresolved();
    let (removal, _) = looked_with(&cluster, "etcd", &["--delete-operator"])
        .await
        .unwrap();
    insta::assert_snapshot!(removal.to_string(), @r"
    deletes  Subscription db in namespace shop
    deletes  ClusterServiceVersion etcd.v1.0.0 in namespace shop, with its Deployments, ServiceAccounts and permissions
    deletes  CustomResourceDefinition etcds.example.com with 3 objects, which are lost: elsewhere/c, shop/a, shop/b
    deletes  Etcd shop/a, before the operator
    deletes  Etcd shop/b, before the operator
    deletes  Deployment etcd in namespace shop, which Operator etcd.shop lists
    deletes  InstallPlan install-0 in namespace shop, which Operator etcd.shop lists
    deletes  Operator etcd.shop
    leaves   OperatorGroup og in namespace shop, which no operator uses then; --delete-operator-groups deletes it, too
    ");
    let (is_gone, told) = removed_with_olm(&cluster, &removal).await;
    assert!(is_gone, "{told:?}");
    for (kind, namespace, name) in OBJECTS {
        assert!(cluster.get(kind, namespace, name).is_none(), "{kind}: {told:?}");
    }
    // A plan of another Subscription stays.
    let cluster = unresolved();
    let mut other = subscription("other", &json!({"installPlanRef": {"name": "install-0"}}));
    other["spec"]["name"] = json!("other");
    cluster.put(other);
    let (removal, _) = looked_with(&cluster, "etcd", &["-X"]).await.unwrap();
    let line =
        "deletes  Operator etcd.shop; it is kept while it lists InstallPlan install-0 in namespace shop\n";
    assert!(removal.to_string().contains(line), "{removal}");
    // So does a version of another Subscription, with its objects.
    let cluster = unresolved();
    let status = json!({"installedCSV": "etcd.v1.0.0", "currentCSV": "etcd.v1.0.0", "state": "AtLatestKnown",
        "installPlanRef": {"name": "install-0"}});
    let mut other = subscription("other", &status);
    other["spec"]["name"] = json!("other");
    cluster.put(other);
    let (removal, _) = looked_with(&cluster, "etcd", &["-X"]).await.unwrap();
    let line = "deletes  Operator etcd.shop; it is kept while it lists ClusterServiceVersion etcd.v1.0.0 in namespace shop, \
        CustomResourceDefinition etcds.example.com, Deployment etcd in namespace shop, InstallPlan install-0 in namespace shop\n";
    assert!(removal.to_string().contains(line), "{removal}");
    let (is_gone, told) = removed_with_olm(&cluster, &removal).await;
    assert!(is_gone, "{told:?}");
    for (kind, namespace, name) in OBJECTS {
        assert!(cluster.get(kind, namespace, name).is_some(), "{kind}: {told:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_group_that_others_use_is_not_mentioned() {
    let cluster = with_operands(&[]);
    let shown = async || {
        let (removal, _) = looked_with(&cluster, "db", &["-s", "ignore"]).await.unwrap();
        removal.to_string()
    };
    assert!(
        shown().await.contains("leaves   OperatorGroup og"),
        "it is the last"
    );
    cluster.put(csv("9.0.0", "Succeeded", ""));
    assert!(
        !shown().await.contains("OperatorGroup"),
        "of a version without a Subscription"
    );
    cluster.delete("ClusterServiceVersion", "shop", "etcd.v9.0.0");
    cluster.put(subscription("other", &json!({})));
    assert!(!shown().await.contains("OperatorGroup"), "of a Subscription");
    cluster.delete("Subscription", "shop", "other");
    cluster.on_request(|request| {
        let is_group = request.kind.kind == "OperatorGroup";
        is_group.then(|| Fault::Refuse(Refusal::new(403, "Forbidden", "it is forbidden")))
    });
    assert!(!shown().await.contains("OperatorGroup"), "it may not be read");
}

#[tokio::test(start_paused = true)]
async fn an_operator_object_that_is_kept_is_mentioned() {
    let cluster = with_operands(&[]);
    let keep = ["-s", "ignore"];
    let line = "leaves   Operator etcd.shop, which lists what is left; --delete-operator deletes both\n";
    let (removal, _) = looked_with(&cluster, "db", &keep).await.unwrap();
    assert!(
        !removal.to_string().contains("Operator etcd.shop"),
        "there is none"
    );
    cluster.put(json!({"apiVersion": "operators.coreos.com/v1", "kind": "Operator", "metadata": {"name": "etcd.shop"}}));
    let (removal, _) = looked_with(&cluster, "db", &keep).await.unwrap();
    assert!(removal.to_string().contains(line), "{removal}");
    let (removal, _) = looked_with(&cluster, "db", &["--delete-operator"]).await.unwrap();
    assert!(!removal.to_string().contains(line), "{removal}");
    cluster.on_request(|request| {
        let is_operator = request.kind.kind == "Operator";
        is_operator.then(|| Fault::Refuse(Refusal::new(403, "Forbidden", "it is forbidden")))
    });
    let (removal, _) = looked_with(&cluster, "db", &keep).await.unwrap();
    assert!(removal.kept_operator.is_none());
}
