mod advice;
mod calls;
mod namespaces;
mod olm_v1;

use std::time::Duration;

use olm_api::labels;
use olm_testing::cluster::{FakeCluster, Fault, Kind, Refusal};
use serde_json::{Value, json};

use super::{finding::*, *};
use crate::global::OlmNamespaces;
use crate::operators::tests::{csv, plan, subscription};

/// A change of the cluster and the expected finding.
type Row = (fn(&FakeCluster), &'static str);

const NOW: &str = "2026-01-01T00:00:00Z";
/// Returns the namespaces of an OLM that runs in one of these and has its global catalogs in `olm`.
pub(crate) fn own(olm: &str) -> OlmNamespaces {
    OlmNamespaces {
        olm: olm.to_owned(),
        catalogs: "olm".to_owned(),
    }
}

fn kind(group: &str, kind: &str, plural: &str) -> Kind {
    Kind {
        group: group.to_owned(),
        versions: vec!["v1".to_owned()],
        kind: kind.to_owned(),
        plural: plural.to_owned(),
        namespaced: true,
        status: false,
        custom: true,
    }
}

/// Returns a cluster with the operator etcd and without problems.
pub(crate) fn cluster() -> FakeCluster {
    let cluster = FakeCluster::new();
    cluster.serve(kind("discovery.k8s.io", "EndpointSlice", "endpointslices"));
    cluster.serve(Kind {
        namespaced: false,
        ..kind(
            "admissionregistration.k8s.io",
            "ValidatingAdmissionPolicyBinding",
            "validatingadmissionpolicybindings",
        )
    });
    cluster.put(
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": labels::GUARD_POLICY}}),
    );
    for name in ["catalog-operator", "olm-operator"] {
        cluster.put(program("olm", name));
    }
    cluster.put(json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
        "metadata": {"namespace": "olm", "name": "cat"}, "spec": {"sourceType": "grpc", "image": "catalog:v1"},
        "status": {"connectionState": {"lastObservedState": "READY"}}}));
    cluster.put(group(
        "shop",
        &json!({"targetNamespaces": ["shop"], "serviceAccountName": "installer"}),
        &["shop"],
    ));
    cluster.put(json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": "shop", "name": "installer"}}));
    cluster.put(subscription(
        "db",
        &json!({"installedCSV": "etcd.v1.0.0", "currentCSV": "etcd.v1.0.0", "state": "AtLatestKnown"}),
    ));
    let mut original = csv("1.0.0", "Succeeded", "");
    original["spec"]["customresourcedefinitions"] =
        json!({"owned": [{"name": "etcds.example.com", "version": "v1", "kind": "Etcd"}]});
    cluster.put(original);
    let mut copy = csv("1.0.0", "Succeeded", "");
    copy["metadata"] =
        json!({"namespace": "other", "name": "etcd.v1.0.0", "labels": {labels::COPIED_FROM: "shop"}});
    copy["status"]["reason"] = json!("Copied");
    cluster.put(copy);
    cluster.put(json!({"apiVersion": "v1", "kind": "Service", "metadata": {"namespace": "shop", "name": "etcd-service",
        "ownerReferences": [{"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "name": "etcd.v1.0.0", "uid": "u"}]}}));
    cluster.put(json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"namespace": "shop", "name": "etcd-1", "labels": {"kubernetes.io/service-name": "etcd-service"}},
        "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": true}}]}));
    cluster.put(webhook("hook", "etcd.v1.0.0"));
    cluster.put(
        json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": "v1.api.example.com", "labels": owner("etcd.v1.0.0")},
        "spec": {"service": {"namespace": "shop", "name": "etcd-service"}, "groupPriorityMinimum": 1,
            "versionPriority": 1}, "status": {"conditions": [{"type": "Available", "status": "True"}]}}),
    );
    cluster.put(
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "etcd.v1.0.0:x", "labels": owner("etcd.v1.0.0")}, "rules": []}),
    );
    cluster.put(
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "etcds.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"kind": "Etcd", "plural": "etcds"},
            "versions": [{"name": "v1", "served": true, "storage": true}],
            "conversion": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"],
                "clientConfig": {"service": {"namespace": "shop", "name": "etcd-service"}}}}},
        "status": {"storedVersions": ["v1"]}}),
    );
    cluster
}

/// Returns the Deployment of one of OLM's programs.
fn program(namespace: &str, name: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"namespace": namespace, "name": name, "labels": {"app": name}},
        "spec": {"replicas": 1, "selector": {}, "template": {}}, "status": {"availableReplicas": 1}})
}

fn owner(csv: &str) -> Value {
    json!({labels::OWNER: csv, labels::OWNER_NAMESPACE: "shop", labels::OWNER_KIND: labels::OWNER_KIND_CSV})
}

fn webhook(name: &str, csv: &str) -> Value {
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name, "labels": owner(csv)},
        "webhooks": [{"name": "a.example.com", "clientConfig": {"service": {"namespace": "shop", "name": "etcd-service"}}}]})
}

fn group(namespace: &str, spec: &Value, targets: &[&str]) -> Value {
    json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup", "metadata": {"namespace": namespace, "name": "og"},
        "spec": spec, "status": {"namespaces": targets, "lastUpdated": NOW}})
}

/// Asserts that the object of a change existed.
fn was(there: bool) {
    assert!(there);
}

/// Returns the diagnosis of a namespace, or of all.
pub(crate) async fn diagnosed_in(cluster: &FakeCluster, namespace: Option<&str>) -> Diagnosis {
    diagnosed_with(cluster, namespace, &own("olm")).await
}

async fn diagnosed_with(cluster: &FakeCluster, namespace: Option<&str>, own: &OlmNamespaces) -> Diagnosis {
    let (client, _link) = cluster.connect();
    let reader = Reader::new(&client, Duration::from_secs(60));
    let mut observed = Box::pin(observe(&reader, namespace, own)).await;
    observed.now = NOW.parse().unwrap();
    diagnose(&observed)
}

async fn diagnosed(cluster: &FakeCluster) -> Diagnosis {
    diagnosed_in(cluster, None).await
}

/// Returns the findings after a change of the healthy cluster, without remedies.
async fn found(change: impl Fn(&FakeCluster)) -> Vec<String> {
    let cluster = cluster();
    change(&cluster);
    let findings = diagnosed(&cluster).await.findings;
    findings
        .iter()
        .map(|finding| {
            format!(
                "{}: {}: {}",
                finding.severity.as_str(),
                finding.object,
                finding.cause
            )
        })
        .collect()
}

/// Returns the findings after a merge patch of one object of the healthy cluster.
async fn found_after(kind: &str, object: [&str; 2], patch: &Value) -> Vec<String> {
    found(|cluster| was(cluster.edit(kind, object[0], object[1], patch))).await
}

#[tokio::test(start_paused = true)]
async fn a_cluster_in_which_nothing_is_wrong_is_fine_and_nothing_is_written() {
    let cluster = cluster();
    for namespace in [None, Some("shop"), Some("other")] {
        let diagnosis = diagnosed_in(&cluster, namespace).await;
        assert_eq!(diagnosis.findings, [], "{namespace:?}");
        assert!(diagnosis.healthy);
        // The policy is only checked for the whole cluster.
        let checks = CHECKS.len() + usize::from(namespace.is_none());
        assert_eq!(diagnosis.fine.len(), checks);
    }
    let diagnosis = diagnosed(&cluster).await;
    assert_eq!(
        diagnosis.text(false, Colours(false)),
        "errors: 0, warnings: 0, not checked: 0, fine: 15\n"
    );
    let wide = diagnosis.text(true, Colours(false));
    assert!(wide.starts_with("fine         OLM runs\n"), "{wide}");
    assert!(cluster.log().writes.is_empty());
}

#[tokio::test(start_paused = true)]
async fn unguarded_labels_are_reported() {
    let name = "ValidatingAdmissionPolicyBinding olm-guarded-labels";
    let told = format!(
        "warning: {name}: it does not exist: users who can write Roles in one namespace can make OLM copy them to others"
    );
    let without = |cluster: &FakeCluster| {
        assert!(cluster.delete("ValidatingAdmissionPolicyBinding", "", labels::GUARD_POLICY));
    };
    assert_eq!(found(without).await, [told]);
}

#[tokio::test(start_paused = true)]
async fn each_finding_names_the_object_the_cause_and_the_fix() {
    let cluster = cluster();
    cluster.edit(
        "CatalogSource",
        "olm",
        "cat",
        &json!({"status": {"message": "no such image\u{1b}[2J",
        "connectionState": {"lastObservedState": "TRANSIENT_FAILURE"}}}),
    );
    cluster.put(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "olm", "name": "cat-1", "labels": {"olm.catalogSource": "cat"}},
        "status": {"phase": "Pending", "containerStatuses": [{"name": "registry", "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"waiting": {"reason": "ImagePullBackOff"}}}]}}));
    cluster.edit(
        "Subscription",
        "shop",
        "db",
        &json!({"status": {"state": "UpgradePending", "installPlanRef": {"name": "install-1"}}}),
    );
    cluster.put(plan("install-1", "RequiresApproval", false));
    let text = diagnosed(&cluster).await.text(false, Colours(false));
    insta::assert_snapshot!(text, @r"
    error        CatalogSource olm/cat: it is TRANSIENT_FAILURE, not READY; no such image\u{1b}[2J; pod cat-1 is Pending: container registry: ImagePullBackOff
                 → correct spec.image or spec.secrets: kubectl edit catalogsource cat -n olm; its pods: kubectl get pods -n olm -l olm.catalogSource=cat
    warning      Subscription shop/db: RequiresApproval: InstallPlan install-1: waiting for approval
                 → kubectl operator approve db -n shop
    errors: 1, warnings: 1, not checked: 0, fine: 13
    ");
}

#[tokio::test(start_paused = true)]
async fn a_catalog_that_does_not_exist_is_reported() {
    for (source, expected) in [
        ("no", "its catalog olm/no does not exist"),
        ("", "it names no catalog (spec.source, spec.sourceNamespace)"),
    ] {
        let found = found_after(
            "Subscription",
            ["shop", "db"],
            &json!({"spec": {"source": source}}),
        )
        .await;
        assert_eq!(found, [format!("error: Subscription shop/db: {expected}")]);
    }
}

#[tokio::test(start_paused = true)]
async fn operator_groups_that_hold_everything_up_are_reported() {
    let rows: [Row; 3] = [
        (
            |cluster| was(cluster.delete("OperatorGroup", "shop", "og")),
            "error: Namespace shop: it has operators but no OperatorGroup, so OLM installs nothing in it",
        ),
        (
            |cluster| {
                let mut second = group("shop", &json!({}), &["shop"]);
                second["metadata"]["name"] = json!("og2");
                cluster.put(second);
            },
            "error: Namespace shop: it has 2 OperatorGroups, so OLM installs nothing in it: og, og2",
        ),
        (
            |cluster| was(cluster.delete("ServiceAccount", "shop", "installer")),
            "error: OperatorGroup shop/og: its ServiceAccount installer does not exist, so nothing is installed",
        ),
    ];
    for (change, expected) in rows {
        assert_eq!(found(change).await, [expected]);
    }
    for (status, expected) in [
        (
            json!({"namespaces": []}),
            "error: OperatorGroup shop/og: it selects no namespace, so its operators do not run",
        ),
        (
            Value::Null,
            "warning: OperatorGroup shop/og: OLM has not processed it",
        ),
    ] {
        let found = found_after("OperatorGroup", ["shop", "og"], &json!({"status": status})).await;
        assert_eq!(found, [expected]);
    }
}

#[tokio::test(start_paused = true)]
async fn failed_and_waiting_objects_are_reported_with_their_cause() {
    let subscription = ("Subscription", ["shop", "db"]);
    let csv = ("ClusterServiceVersion", ["shop", "etcd.v1.0.0"]);
    let condition =
        |type_: &str| json!({"conditions": [{"type": type_, "status": "True", "message": "because"}]});
    for ((kind, object), status, expected) in [
        (
            subscription,
            condition("ResolutionFailed"),
            "error: Subscription shop/db: Unresolved: because",
        ),
        (
            subscription,
            condition("BundleUnpackFailed"),
            "error: Subscription shop/db: Failed: because",
        ),
        (
            subscription,
            json!({"installedCSV": "etcd.v0.9.0", "currentCSV": "etcd.v0.9.0"}),
            "error: Subscription shop/db: Failed: its ClusterServiceVersion etcd.v0.9.0 was deleted, and OLM does not restore it",
        ),
        (
            csv,
            json!({"phase": "Failed", "message": "no"}),
            "error: Subscription shop/db: Failed: ClusterServiceVersion etcd.v1.0.0: no",
        ),
        (
            csv,
            json!({"phase": "Installing", "message": "no"}),
            "warning: Subscription shop/db: Installing: ClusterServiceVersion etcd.v1.0.0: no",
        ),
        (
            ("Deployment", ["olm", "olm-operator"]),
            json!({"availableReplicas": 0}),
            "error: Deployment olm/olm-operator: OLM does not run: 0 of 1 pods are available",
        ),
    ] {
        let found = found_after(kind, object, &json!({"status": status})).await;
        assert_eq!(found, [expected]);
    }
    let rows: [Row; 2] = [
        // The version is installed, and a later step of its plan fails.
        (
            |cluster| {
                let retries = "retrying execution due to error: no";
                let pending = json!([{"type": "InstallPlanPending", "status": "True", "message": retries}]);
                was(cluster.edit(
                    "Subscription",
                    "shop",
                    "db",
                    &json!({"status": {"installPlanRef": {"name": "install-1"}, "conditions": pending}}),
                ));
                let mut retried = plan("install-1", "Installing", true);
                retried["spec"]["clusterServiceVersionNames"] = json!(["etcd.v1.0.0"]);
                retried["status"]["message"] = json!(retries);
                cluster.put(retried);
            },
            "warning: Subscription shop/db: Installing: InstallPlan install-1: retrying execution due to error: no",
        ),
        (
            |cluster| {
                cluster.edit(
                    "Subscription",
                    "shop",
                    "db",
                    &json!({"status": {"state": "UpgradePending", "installPlanRef": {"name": "install-1"}}}),
                );
                let mut failed = plan("install-1", "Failed", true);
                failed["status"]["message"] = json!("it is forbidden");
                cluster.put(failed);
            },
            "error: Subscription shop/db: Failed: InstallPlan install-1: it is forbidden",
        ),
    ];
    for (change, expected) in rows {
        assert_eq!(found(change).await, [expected]);
    }
}

/// One mistake is one finding.
#[tokio::test(start_paused = true)]
async fn operators_with_one_cause_are_one_finding() {
    let found = found(|cluster| {
        let status = json!({"conditions": [{"type": "ResolutionFailed", "status": "True", "message": "a excludes b"}]});
        for name in ["a", "b", "db"] {
            cluster.put(subscription(name, &status));
        }
        let other = json!({"conditions": [{"type": "ResolutionFailed", "status": "True", "message": "no c"}]});
        cluster.put(subscription("c", &other));
    })
    .await;
    assert_eq!(
        found,
        [
            "error: Subscription shop/a: Unresolved: a excludes b; the same for Subscription shop/b, Subscription shop/db",
            "error: Subscription shop/c: Unresolved: no c",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn an_operator_without_a_subscription_is_reported() {
    let runs = "warning: ClusterServiceVersion shop/alone.v1: it runs without a Subscription, so OLM does not upgrade it";
    let fails = "warning: ClusterServiceVersion shop/alone.v1: no Subscription refers to it, so OLM installs no other version in its place";
    let (of_tenant, of_olm) = (["shop", "alone.v1"], ["olm", "packageserver"]);
    for (phase, created, [namespace, name], expected) in [
        ("Succeeded", "2025-01-01T00:00:00Z", of_tenant, Some(runs)),
        // Its Subscription was deleted a moment after the installation.
        ("Succeeded", "2025-12-31T23:59:59Z", of_tenant, Some(runs)),
        ("Failed", "2025-01-01T00:00:00Z", of_tenant, Some(fails)),
        ("Installing", "2025-12-31T23:59:59Z", of_tenant, Some(fails)),
        ("Deleting", "2025-01-01T00:00:00Z", of_tenant, None),
        ("Succeeded", "2025-01-01T00:00:00Z", of_olm, None),
    ] {
        let found = found(|cluster| {
            let mut alone = csv("1.0.0", phase, "");
            alone["metadata"] = json!({"namespace": namespace, "name": name, "creationTimestamp": created});
            cluster.put(alone);
            cluster.put(group("olm", &json!({}), &[""]));
        })
        .await;
        let found = found.iter().find(|text| text.contains(" Subscription"));
        assert_eq!(found.map(String::as_str), expected, "{phase} {created} {name}");
    }
    // The Subscription that does not get its version is the finding.
    let found = found(|cluster| {
        let mut old = csv("1.0.0", "Succeeded", "");
        old["metadata"] =
            json!({"namespace": "shop", "name": "etcd.v1.0.0", "creationTimestamp": "2025-01-01T00:00:00Z"});
        cluster.put(old);
        let status = json!({"conditions": [{"type": "ResolutionFailed", "status": "True", "message": "no"}]});
        cluster.put(subscription("db", &status));
    })
    .await;
    assert_eq!(found, ["error: Subscription shop/db: Unresolved: no"]);
}

/// Users with few permissions are informed of what was not read, and none of it counts as fine.
#[tokio::test(start_paused = true)]
async fn what_may_not_be_read_is_not_fine() {
    for kind in [
        "OperatorGroup",
        "Subscription",
        "ClusterServiceVersion",
        "ValidatingWebhookConfiguration",
        "Service",
        "CatalogSource",
        "CustomResourceDefinition",
        "Deployment",
        "ClusterRole",
        "APIService",
    ] {
        let cluster = cluster();
        cluster.on_request(move |request| {
            (request.kind.kind == kind)
                .then(|| Fault::Refuse(Refusal::new(403, "Forbidden", "it is forbidden")))
        });
        let diagnosis = diagnosed(&cluster).await;
        assert!(!diagnosis.healthy, "{kind}");
        assert!(
            diagnosis
                .findings
                .iter()
                .all(|finding| finding.severity == Severity::NotChecked),
            "{kind}: {:?}",
            diagnosis.findings
        );
        assert!(
            diagnosis.text(true, Colours(false)).contains("it is forbidden"),
            "{kind}"
        );
        assert_eq!(diagnosis.no_answer(), None);
        // There is no command to add flags to.
        assert_eq!(diagnosis.remedies(), "");
    }
}

#[tokio::test(start_paused = true)]
async fn an_unresponsive_cluster_delays_nothing_and_is_no_answer() {
    let cluster = cluster();
    cluster.on_request(|_| Some(Fault::Hang));
    let start = tokio::time::Instant::now();
    let diagnosis = diagnosed(&cluster).await;
    assert!(start.elapsed() < Duration::from_secs(62), "{:?}", start.elapsed());
    assert!(
        diagnosis
            .no_answer()
            .is_some_and(|cause| cause.contains("60 s") || cause.contains("--timeout")),
        "{diagnosis:?}"
    );
}

/// Commands are pasted into a shell, and users choose the names of catalogs and accounts.
#[tokio::test(start_paused = true)]
async fn no_command_is_written_by_who_made_the_object() {
    let cluster = cluster();
    cluster.edit(
        "Subscription",
        "shop",
        "db",
        &json!({"spec": {"name": "-x", "source": "x; reboot", "sourceNamespace": "$(reboot)"}}),
    );
    cluster.edit(
        "OperatorGroup",
        "shop",
        "og",
        &json!({"spec": {"serviceAccountName": "`reboot`"}}),
    );
    let diagnosis = diagnosed(&cluster).await;
    assert!(diagnosis.findings.len() > 1, "{diagnosis:?}");
    for finding in &diagnosis.findings {
        assert!(!finding.remedy.contains("reboot"), "{finding:?}");
        assert!(!finding.remedy.contains("list-available -x"), "{finding:?}");
    }
}

/// A name is part of a request's path. A crafted one could read other objects with the permissions of the user who runs `doctor`.
#[tokio::test(start_paused = true)]
async fn only_names_are_asked_for() {
    let elsewhere = "../../../../api/v1/namespaces/kube-system/secrets/x?y";
    let cluster = cluster();
    let catalog = json!({"spec": {"name": elsewhere, "source": elsewhere, "sourceNamespace": elsewhere}});
    was(cluster.edit("Subscription", "shop", "db", &catalog));
    was(cluster.edit(
        "Subscription",
        "shop",
        "db",
        &json!({"status": {"state": "UpgradePending", "installPlanRef": {"name": elsewhere}}}),
    ));
    was(cluster.edit(
        "OperatorGroup",
        "shop",
        "og",
        &json!({"spec": {"serviceAccountName": elsewhere}}),
    ));
    let owned = json!({"customresourcedefinitions": {"owned": [{"name": elsewhere, "version": "v1", "kind": "Etcd"}]}});
    was(cluster.edit(
        "ClusterServiceVersion",
        "shop",
        "etcd.v1.0.0",
        &json!({"spec": owned}),
    ));
    for namespace in [None, Some("shop")] {
        let findings = diagnosed_in(&cluster, namespace).await.findings;
        // No other object is requested in its place.
        assert!(
            findings
                .iter()
                .all(|finding| finding.severity != Severity::NotChecked),
            "{findings:?}"
        );
        assert!(
            findings
                .iter()
                .any(|finding| finding.cause.ends_with("does not exist")),
            "{findings:?}"
        );
    }
    assert!(
        !cluster.log().counts.keys().any(|(_, kind)| kind == "Secret"),
        "{:?}",
        cluster.log().counts
    );
}

#[tokio::test(start_paused = true)]
async fn one_sort_of_findings_does_not_bury_the_others() {
    let cluster = cluster();
    for at in 0..MAX_FINDINGS + 100 {
        cluster.put(webhook(&format!("old-{at}"), "etcd.v0.1.0"));
    }
    let diagnosis = diagnosed(&cluster).await;
    assert_eq!(diagnosis.findings.len(), MAX_FINDINGS + 1);
    assert_eq!(
        diagnosis.findings.last().map(|last| last.object.as_str()),
        Some("100 more")
    );
}

#[test]
fn the_worst_comes_first() {
    let expected = [
        Severity::Error,
        Severity::Warning,
        Severity::NotChecked,
        Severity::Note,
    ];
    let mut all = expected;
    all.reverse();
    all.sort();
    assert_eq!(all, expected);
}
