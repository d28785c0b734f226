//! From the removal of the operator to the end of its InstallPlan.

use olm_api::labels::PLAN_PREVIEW;
use olm_testing::cluster::PatchType;

use super::*;

/// Acts as OLM: makes a plan for these versions, and after its approval the operator.
async fn olm(cluster: FakeCluster, versions: Value, is_manual: bool) {
    tokio::time::sleep(Duration::from_secs(5)).await;
    let mut made = match is_manual {
        true => plan("install-2", "RequiresApproval", false),
        false => plan("install-2", "Installing", true),
    };
    made["spec"]["clusterServiceVersionNames"] = versions;
    let definitions = json!([{"name": CRD, "fieldsRemoved": ["v1: spec.size"]}]);
    let preview = json!({"version": 1, "definitions": definitions}).to_string();
    made["metadata"]["annotations"] = json!({PLAN_PREVIEW: preview});
    cluster.put(made);
    let refers = json!({"status": {"state": "UpgradePending", "currentCSV": "etcd.v1.0.0", "installPlanRef": {"name": "install-2"}}});
    cluster.edit("Subscription", "shop", "db", &refers);
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_secs(3)).await;
        let plan = cluster.get("InstallPlan", "shop", "install-2").unwrap();
        if plan["spec"]["approved"] == json!(true) {
            cluster.put(csv("1.0.0", "Succeeded", ""));
            let done = json!({"status": {"phase": "Complete"}});
            cluster.edit("InstallPlan", "shop", "install-2", &done);
            return;
        }
    }
}

/// Removes the operator and waits for OLM to install `versions`, in a namespace of this approval. Returns the outcome.
async fn rolled_back(cluster: &FakeCluster, versions: &Value, approval: &str) -> anyhow::Result<bool> {
    cluster.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}));
    let change = json!({"spec": {"installPlanApproval": approval}});
    cluster.edit("Subscription", "shop", "db", &change);
    let removal = Box::pin(removal(cluster)).await;
    let rollback = decide(
        &removal,
        &Entry::new(bundle_entry("1.0.0")),
        &bundle_without_size(),
    )
    .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("saved.yaml");
    if !is_agreed(&rollback_args(&["--yes"]), &rollback, &file)? {
        return Ok(false);
    }
    let (client, _link) = cluster.connect();
    let here = Cluster::of(client, "shop");
    let wait = WaitArgs {
        timeout: Some(Duration::from_secs(60)),
    };
    Box::pin(replace(&here, &removal, &rollback, &wait, &file))
        .await
        .unwrap();
    assert!(!file.exists());
    let made = cluster.get("Subscription", "shop", "db").unwrap();
    assert_eq!(made["spec"]["installPlanApproval"], json!(approval));
    assert_eq!(made["metadata"]["annotations"][UPGRADE_HOLD], json!("=1.0.0"));
    for name in ["etcd.v1.0.0", "etcd.v2.0.0"] {
        assert!(
            cluster.get("ClusterServiceVersion", "shop", name).is_none(),
            "{name}"
        );
    }
    assert!(cluster.get("CustomResourceDefinition", "", CRD).is_some());
    let mut screen = Screen::stderr();
    let (result, ()) = tokio::join!(
        Box::pin(install(&here, &rollback, &wait, &mut screen)),
        olm(cluster.clone(), versions.clone(), approval == "Manual")
    );
    result
}

/// Returns the bundle of a version whose definition lacks the field `spec.size`.
fn bundle_without_size() -> Bundle {
    let mut older = bundle(&["v1"]);
    older.objects[0]["spec"]["versions"][0]["schema"] = schema(&json!({}));
    older
}

/// Returns the schema of a definition whose field `spec` has these fields.
fn schema(fields: &Value) -> Value {
    let spec = json!({"type": "object", "properties": fields});
    json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}})
}

/// Lets the definition of the cluster have the field `spec.size`, which the older version lacks.
fn add_size(cluster: &FakeCluster) {
    let fields = json!({"size": {"type": "integer"}});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": schema(&fields)});
    let change = json!({"spec": {"versions": [version]}});
    cluster.edit("CustomResourceDefinition", "", CRD, &change);
}

fn is_approved(cluster: &FakeCluster) -> bool {
    let plan = cluster.get("InstallPlan", "shop", "install-2").unwrap();
    plan["spec"]["approved"] == json!(true)
}

#[tokio::test(start_paused = true)]
async fn only_the_plan_for_that_version_is_approved() {
    for (versions, approval) in [
        (json!(["etcd.v1.0.0"]), "Manual"),
        (json!(["etcd.v1.0.0"]), "Automatic"),
    ] {
        let cluster = failed();
        assert!(rolled_back(&cluster, &versions, approval).await.unwrap());
        assert!(is_approved(&cluster) && cluster.get("Etcd", "shop", "a").is_some());
    }
    let cluster = failed();
    let error = rolled_back(&cluster, &json!(["etcd.v2.0.0"]), "Manual").await;
    let error = error.unwrap_err();
    assert!(error.is::<Unsettled>() && !is_approved(&cluster));
    assert_eq!(
        error.to_string(),
        "db is removed, and etcd.v1.0.0 is not installed yet: InstallPlan install-2 waits for approval, because it does not install \
         etcd.v1.0.0; review it and finish with `kubectl operator approve install-2 -n shop`"
    );
}

/// A field is lost by the definition, and there is no data in it.
#[tokio::test(start_paused = true)]
async fn without_objects_a_lost_field_needs_no_flag_and_the_plan_is_approved() {
    let cluster = without_objects();
    add_size(&cluster);
    let removal = Box::pin(removal(&cluster)).await;
    let rollback = decide(
        &removal,
        &Entry::new(bundle_entry("1.0.0")),
        &bundle_without_size(),
    );
    let text = rollback.unwrap().text(&removal);
    let loses = "loses    v1: spec.size of CustomResourceDefinition etcds.example.com\n";
    assert!(text.contains(loses), "{text}");
    let done = rolled_back(&cluster, &json!(["etcd.v1.0.0"]), "Manual").await;
    assert!(done.unwrap() && is_approved(&cluster));
}

#[tokio::test(start_paused = true)]
async fn with_objects_a_lost_field_is_refused_before_anything_is_deleted() {
    let cluster = failed();
    add_size(&cluster);
    let error = rolled_back(&cluster, &json!(["etcd.v1.0.0"]), "Manual").await;
    let error = error.unwrap_err().to_string();
    assert!(error.contains("use --accept-data-loss"), "{error}");
    assert!(cluster.log().writes.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_approval_that_fails_says_that_the_operator_is_removed() {
    let cluster = failed();
    cluster.on_request(|request| {
        let is_approval = matches!(request.verb, Verb::Patch(_)) && request.kind.kind == "InstallPlan";
        is_approval.then(|| Fault::Refuse(Refusal::forbidden("it is forbidden")))
    });
    let error = rolled_back(&cluster, &json!(["etcd.v1.0.0"]), "Manual").await;
    let error = format!("{:#}", error.unwrap_err());
    let expected = "db is removed, and etcd.v1.0.0 is not installed yet; if InstallPlan install-2 waits for approval, finish with \
                    `kubectl operator approve install-2 -n shop`: ";
    assert!(
        error.starts_with(expected) && error.contains("it is forbidden"),
        "{error}"
    );
}

/// An account that may delete and not create would leave nothing that runs.
#[tokio::test(start_paused = true)]
async fn a_missing_permission_is_named_before_anything_is_deleted() {
    let text = |step: &str| {
        format!(
            "cannot roll back db, so nothing was changed: you have no permission in namespace shop to {step}; request it, or see \
             `kubectl auth can-i --list -n shop`"
        )
    };
    for (verb, kind, approval, expected) in [
        (
            Verb::Create,
            "Subscription",
            "Automatic",
            Some("create subscriptions"),
        ),
        (
            Verb::Delete,
            "Subscription",
            "Automatic",
            Some("delete subscriptions db"),
        ),
        (
            Verb::Delete,
            "ClusterServiceVersion",
            "Automatic",
            Some(
                "delete clusterserviceversions etcd.v1.0.0 and to delete clusterserviceversions etcd.v2.0.0",
            ),
        ),
        (
            Verb::Patch(PatchType::Merge),
            "InstallPlan",
            "Manual",
            Some("patch installplans"),
        ),
        // OLM approves its plan.
        (Verb::Patch(PatchType::Merge), "InstallPlan", "Automatic", None),
    ] {
        let cluster = failed();
        let change = json!({"spec": {"installPlanApproval": approval}});
        cluster.edit("Subscription", "shop", "db", &change);
        let removal = Box::pin(removal(&cluster)).await;
        cluster.on_request(move |request| {
            let is_it = request.verb == verb && request.kind.kind == kind;
            is_it.then(|| Fault::Refuse(Refusal::forbidden("it is forbidden")))
        });
        let (client, _link) = cluster.connect();
        let checked = check_permissions(&Cluster::of(client, "shop"), &removal, "db").await;
        let refused = checked.err().map(|error| error.to_string());
        assert_eq!(refused, expected.map(text), "{verb:?} {kind}");
        assert!(cluster.log().writes.is_empty());
    }
}
