//! Tests of remedies: they never delete an object in use, and contain no text of a tenant's choice.

use olm_api::labels;
use olm_testing::cluster::{FakeCluster, Fault, Refusal, Verb};
use serde_json::{Value, json};

use super::{MAX_FINDINGS, Severity, cluster, diagnosed, diagnosed_in, owner, was, webhook};
use crate::operators::tests::{csv, subscription};

/// Runs a change before the first list of a kind is answered.
fn at_list_of(cluster: &FakeCluster, kind: &'static str, change: impl Fn(&FakeCluster) + Send + 'static) {
    let (of, mut is_first) = (cluster.clone(), true);
    cluster.on_request(move |request| {
        if request.kind.kind == kind && request.verb == Verb::List && std::mem::take(&mut is_first) {
            change(&of);
        }
        None
    });
}

fn role(csv: &str) -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": format!("{csv}:y"), "labels": owner(csv)}, "rules": []})
}

/// Returns all findings with their remedies.
async fn told(cluster: &FakeCluster) -> Vec<String> {
    let findings = diagnosed(cluster).await.findings;
    findings
        .iter()
        .map(|finding| format!("{}: {} → {}", finding.object, finding.cause, finding.remedy))
        .collect()
}

/// Returns the change that installs etcd.v2.0.0 with a Subscription.
fn install_another(cluster: &FakeCluster) {
    cluster.put(csv("2.0.0", "Succeeded", ""));
    let installed =
        json!({"installedCSV": "etcd.v2.0.0", "currentCSV": "etcd.v2.0.0", "state": "AtLatestKnown"});
    cluster.put(subscription("another", &installed));
}

/// A Subscription to a version that names no package would only conflict with it, and OLM adopts none that is replaced.
#[tokio::test(start_paused = true)]
async fn only_a_version_that_names_its_package_is_to_be_adopted() {
    let package = json!({"type": "olm.package", "value": {"packageName": "alone", "version": "1.0.0"}});
    let properties = json!({"properties": [package]}).to_string();
    let named = json!({labels::PROPERTIES: properties});
    let runs = "it runs without a Subscription, so OLM does not upgrade it";
    let fails = "no Subscription refers to it, so OLM installs no other version in its place";
    let uninstall = "uninstall it: kubectl operator uninstall alone.v1 -n shop";
    let adopt =
        format!("adopt it: kubectl operator install alone --version alone.v1 -n shop; or {uninstall}");
    for (phase, annotations, cause, expected) in [
        ("Succeeded", &named, runs, adopt.as_str()),
        ("Succeeded", &json!({}), runs, uninstall),
        ("Failed", &named, fails, adopt.as_str()),
        ("Installing", &named, fails, adopt.as_str()),
        ("Replacing", &named, fails, uninstall),
    ] {
        let cluster = cluster();
        let mut alone = csv("1.0.0", phase, "");
        alone["metadata"] = json!({"namespace": "shop", "name": "alone.v1", "annotations": annotations,
            "creationTimestamp": "2025-01-01T00:00:00Z"});
        cluster.put(alone);
        let expected = format!("ClusterServiceVersion shop/alone.v1: {cause} → {expected}");
        let found = told(&cluster).await;
        assert!(found.contains(&expected), "{found:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn objects_created_during_a_read_are_not_reported_as_left_behind() {
    for kind in [
        "ValidatingWebhookConfiguration",
        "ClusterRole",
        "ClusterServiceVersion",
        "EndpointSlice",
    ] {
        let cluster = cluster();
        at_list_of(&cluster, kind, |cluster| {
            install_another(cluster);
            cluster.put(role("etcd.v2.0.0"));
        });
        assert_eq!(told(&cluster).await, [""; 0], "{kind}");
        // The dependents existed before, and their version was created after all versions were listed.
        let cluster = self::cluster();
        cluster.put(role("etcd.v2.0.0"));
        cluster.put(webhook("hook-2", "etcd.v2.0.0"));
        at_list_of(&cluster, kind, install_another);
        assert_eq!(told(&cluster).await, [""; 0], "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_while_it_is_read_is_nothing_wrong() {
    for kind in ["ClusterServiceVersion", "ClusterRole", "EndpointSlice"] {
        let cluster = cluster();
        at_list_of(&cluster, kind, |cluster| {
            let mut next = csv("2.0.0", "Succeeded", "");
            next["spec"]["customresourcedefinitions"] =
                json!({"owned": [{"name": "etcds.example.com", "version": "v1", "kind": "Etcd"}]});
            cluster.put(next);
            was(cluster.delete("ClusterServiceVersion", "shop", "etcd.v1.0.0"));
            was(cluster.delete("ClusterServiceVersion", "other", "etcd.v1.0.0"));
            let installed = json!({"status": {"installedCSV": "etcd.v2.0.0", "currentCSV": "etcd.v2.0.0"}});
            was(cluster.edit("Subscription", "shop", "db", &installed));
            for (kind, name) in [
                ("ValidatingWebhookConfiguration", "hook"),
                ("APIService", "v1.api.example.com"),
                ("ClusterRole", "etcd.v1.0.0:x"),
            ] {
                let now = json!({"metadata": {"labels": {labels::OWNER: "etcd.v2.0.0"}}});
                was(cluster.edit(kind, "", name, &now));
            }
        });
        assert_eq!(told(&cluster).await, [""; 0], "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_subscription_whose_version_is_gone_for_good_is_reported() {
    let cluster = cluster();
    let status = json!({"status": {"installedCSV": "etcd.v0.9.0", "currentCSV": "etcd.v0.9.0"}});
    was(cluster.edit("Subscription", "shop", "db", &status));
    let told = told(&cluster).await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].contains("its ClusterServiceVersion etcd.v0.9.0 was deleted"),
        "{told:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_catalog_is_corrected_where_its_content_comes_from() {
    let pods = "its pods: kubectl get pods -n olm -l olm.catalogSource=cat";
    let edit = "kubectl edit catalogsource cat -n olm";
    for (spec, expected) in [
        (
            json!({}),
            format!("correct spec.image or spec.secrets: {edit}; {pods}"),
        ),
        (
            json!({"image": null, "address": "catalog:50051"}),
            format!("correct spec.address: {edit}"),
        ),
        (
            json!({"sourceType": "configmap", "image": null, "configMap": "content"}),
            format!(
                "correct its ConfigMap: kubectl edit configmap content -n olm; or spec.configMap: {edit}; {pods}"
            ),
        ),
    ] {
        let cluster = cluster();
        let status = json!({"connectionState": {"lastObservedState": "CONNECTING"}});
        was(cluster.edit(
            "CatalogSource",
            "olm",
            "cat",
            &json!({"spec": spec, "status": status}),
        ));
        let told = told(&cluster).await;
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].ends_with(&format!(" → {expected}")), "{told:?}");
    }
    // It serves, but not as it should.
    let cluster = cluster();
    let status = json!({"message": "error parsing the interval"});
    was(cluster.edit("CatalogSource", "olm", "cat", &json!({"status": status})));
    let findings = diagnosed(&cluster).await.findings;
    assert_eq!(findings[0].severity, Severity::Warning);
    assert_eq!(
        told(&cluster).await,
        [format!(
            "CatalogSource olm/cat: it is READY, but reports: error parsing the interval → correct what the message names: {edit}"
        )]
    );
}

#[tokio::test(start_paused = true)]
async fn a_catalog_that_is_missing_is_explained_by_those_that_exist() {
    let cluster = cluster();
    was(cluster.edit("Subscription", "shop", "db", &json!({"spec": {"source": "no"}})));
    assert_eq!(
        told(&cluster).await,
        [
            "Subscription shop/db: its catalog olm/no does not exist → add it again: kubectl operator catalog add no IMAGE -n olm; or use another one, see \
          kubectl operator explain db -n shop"
        ]
    );
}

/// What an operator waits for is not reported again for the operator.
#[tokio::test(start_paused = true)]
async fn one_mistake_is_reported_once() {
    let condition = |cluster: &FakeCluster, type_: &str, message: &str| {
        let conditions = json!([{"type": type_, "status": "True", "message": message}]);
        was(cluster.edit(
            "Subscription",
            "shop",
            "db",
            &json!({"status": {"conditions": conditions}}),
        ));
    };
    let connecting = |cluster: &FakeCluster| {
        let status = json!({"connectionState": {"lastObservedState": "CONNECTING"}});
        was(cluster.edit("CatalogSource", "olm", "cat", &json!({"status": status})));
    };
    let failed = |cluster: &FakeCluster, message: &str| {
        let status = json!({"phase": "Failed", "message": message});
        let patch = json!({"status": status});
        was(cluster.edit("ClusterServiceVersion", "shop", "etcd.v1.0.0", &patch));
    };

    let without_group = cluster();
    was(without_group.delete("OperatorGroup", "shop", "og"));
    failed(
        &without_group,
        "csv in namespace with no operatorgroups: namespace shop has none",
    );
    let without_account = cluster();
    was(without_account.delete("ServiceAccount", "shop", "installer"));
    failed(
        &without_account,
        "please make sure the service account exists. sa=installer operatorgroup=shop/og",
    );
    let not_ready = cluster();
    connecting(&not_ready);
    let unhealthy = "CatalogSourcesUnhealthy";
    condition(&not_ready, unhealthy, "targeted catalogsource olm/cat unhealthy");
    let unresolved = cluster();
    connecting(&unresolved);
    condition(&unresolved, "ResolutionFailed", "constraints not satisfiable");
    let missing = cluster();
    was(missing.edit("Subscription", "shop", "db", &json!({"spec": {"source": "no"}})));
    condition(&missing, unhealthy, "targeted catalogsource olm/no missing");
    for (cluster, expected) in [
        (
            without_group,
            "Namespace shop: it has operators but no OperatorGroup",
        ),
        (
            without_account,
            "OperatorGroup shop/og: its ServiceAccount installer",
        ),
        (not_ready, "CatalogSource olm/cat: "),
        (unresolved, "CatalogSource olm/cat: "),
        (missing, "Subscription shop/db: its catalog olm/no does not exist"),
    ] {
        let told = told(&cluster).await;
        assert!(told.len() == 1 && told[0].starts_with(expected), "{told:?}");
    }

    // Another mistake is reported, too, and so is one that no other check knows.
    let two = cluster();
    connecting(&two);
    failed(&two, "no pod runs");
    assert_eq!(told(&two).await.len(), 2);
    let healthy = cluster();
    failed(&healthy, "error using catalogsource olm/cat: no");
    let told = told(&healthy).await;
    assert!(
        told.len() == 1 && told[0].starts_with("Subscription shop/db: "),
        "{told:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn deployments_of_tenants_say_nothing_of_olm() {
    let of_tenant = |available: i32| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"namespace": "tenant", "name": "x", "labels": {"app": "olm-operator"}},
            "spec": {"replicas": 1, "selector": {}, "template": {}}, "status": {"availableReplicas": available}})
    };
    let cluster = cluster();
    cluster.put(of_tenant(0));
    assert_eq!(told(&cluster).await, [""; 0]);
    // Such a Deployment does not replace OLM's own, either.
    for name in ["olm-operator", "catalog-operator"] {
        was(cluster.delete("Deployment", "olm", name));
    }
    cluster.put(of_tenant(1));
    let told = told(&cluster).await;
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(
        told.iter().all(|text| text.contains("or runs in another")),
        "{told:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn one_namespace_does_not_bury_the_findings_of_others() {
    let cluster = cluster();
    for at in 0..MAX_FINDINGS + 50 {
        let mut broken = csv("1.0.0", "Failed", "no");
        broken["metadata"] = json!({"namespace": "aaa", "name": format!("broken-{at}")});
        cluster.put(broken);
    }
    let mut broken = csv("1.0.0", "Failed", "no");
    broken["metadata"] = json!({"namespace": "zoo", "name": "broken"});
    cluster.put(broken);
    for namespace in ["aaa", "zoo"] {
        let mut group = super::group(namespace, &json!({}), &[namespace]);
        group["metadata"]["name"] = json!("og");
        cluster.put(group);
    }
    let findings = diagnosed(&cluster).await.findings;
    // None of them is ready, and none has a Subscription.
    assert_eq!(findings.len(), 2 * (MAX_FINDINGS + 1));
    let of_zoo = findings
        .iter()
        .filter(|finding| finding.object == "ClusterServiceVersion zoo/broken");
    assert_eq!(of_zoo.count(), 2, "{:?}", findings.last());
}

#[tokio::test(start_paused = true)]
async fn one_object_that_cannot_be_read_hides_no_check() {
    let cluster = cluster();
    let mut odd = subscription("odd", &json!({}));
    odd["spec"] = json!({"name": 7, "source": "hunter2"});
    cluster.put(odd);
    was(cluster.edit("Subscription", "shop", "db", &json!({"spec": {"source": "no"}})));
    for namespace in [None, Some("shop")] {
        let findings = diagnosed_in(&cluster, namespace).await.findings;
        let objects: Vec<&str> = findings.iter().map(|finding| finding.object.as_str()).collect();
        assert_eq!(
            objects,
            ["Subscription shop/db", "Subscription shop/odd"],
            "{findings:?}"
        );
        assert!(findings.iter().all(|finding| finding.severity == Severity::Error));
        assert!(findings[1].cause.contains("it cannot be read"), "{findings:?}");
    }
}

/// It exists, so its roles and webhooks are not left over.
#[tokio::test(start_paused = true)]
async fn a_version_that_cannot_be_read_still_owns_what_it_owned() {
    let cluster = cluster();
    let odd = json!({"spec": {"installModes": "none"}});
    was(cluster.edit("ClusterServiceVersion", "shop", "etcd.v1.0.0", &odd));
    let told = told(&cluster).await;
    assert!(
        told.len() == 1 && told[0].starts_with("ClusterServiceVersion shop/etcd.v1.0.0: it cannot be read"),
        "{told:?}"
    );
}

/// A check must not pass if its reads depend on another read that failed.
#[tokio::test(start_paused = true)]
async fn nothing_is_fine_that_hangs_on_what_was_not_read() {
    for (kind, checks) in [
        (
            "ClusterServiceVersion",
            ["conversions reach a service", "webhooks reach a service"],
        ),
        (
            "Subscription",
            ["Subscriptions name a catalog that exists", "operators are ready"],
        ),
    ] {
        let cluster = cluster();
        cluster.on_request(move |request| {
            (request.kind.kind == kind)
                .then(|| Fault::Refuse(Refusal::new(403, "Forbidden", "it is forbidden")))
        });
        for namespace in [None, Some("shop")] {
            let diagnosis = diagnosed_in(&cluster, namespace).await;
            for check in checks {
                assert!(!diagnosis.fine.contains(&check), "{kind} {namespace:?}: {check}");
            }
        }
    }
}

/// A single namespace needs fewer lists than all.
#[tokio::test(start_paused = true)]
async fn a_user_without_rights_gets_no_answer() {
    for namespace in [None, Some("shop")] {
        let cluster = cluster();
        cluster.on_request(|_| Some(Fault::Refuse(Refusal::new(403, "Forbidden", "it is forbidden"))));
        let diagnosis = diagnosed_in(&cluster, namespace).await;
        assert_eq!(diagnosis.fine, [""; 0], "{namespace:?}");
        let cause = diagnosis.no_answer().unwrap_or_default();
        assert!(cause.contains("it is forbidden"), "{namespace:?}: {cause}");
    }
}

/// OLM accepts target namespaces that do not exist, and an operator that watches nothing is ready.
#[tokio::test(start_paused = true)]
async fn target_namespaces_that_do_not_exist_are_reported() {
    let cluster = cluster();
    let targets = ["shop", "there", "nope", "../x"];
    cluster.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "there"}}));
    was(cluster.edit(
        "OperatorGroup",
        "shop",
        "og",
        &json!({"spec": {"targetNamespaces": targets}, "status": {"namespaces": targets}}),
    ));
    assert_eq!(
        told(&cluster).await,
        [
            "OperatorGroup shop/og: it targets namespaces that do not exist: ../x, nope → create them, or correct spec.targetNamespaces: kubectl edit operatorgroup og -n shop"
        ]
    );
    cluster.on_request(|request| {
        (request.kind.kind == "Namespace")
            .then(|| Fault::Refuse(Refusal::new(403, "Forbidden", "it is forbidden")))
    });
    let findings = diagnosed(&cluster).await.findings;
    let severities: Vec<Severity> = findings.iter().map(|finding| finding.severity).collect();
    assert_eq!(
        severities,
        [Severity::Warning, Severity::NotChecked],
        "{findings:?}"
    );
}
