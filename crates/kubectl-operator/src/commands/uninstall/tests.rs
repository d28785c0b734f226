use std::time::Duration;

use olm_testing::cluster::{FakeCluster, Fault, Refusal};
use serde_json::{Value, json};

use super::*;
use crate::operators::tests::{csv, subscription};

const CRD: &str = "etcds.example.com";

fn crd() -> Value {
    let versions = json!([{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]);
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": CRD},
        "spec": {"group": "example.com", "scope": "Namespaced", "versions": versions,
            "names": {"kind": "Etcd", "plural": "etcds", "singular": "etcd", "listKind": "EtcdList"}},
        "status": {"conditions": [{"type": "Established", "status": "True"}]}})
}

fn etcd(name: &str, finalizers: &[&str]) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Etcd", "metadata": {"namespace": "shop", "name": name, "finalizers": finalizers}})
}

/// A ClusterServiceVersion that owns the kind Etcd.
fn owner(version: &str) -> Value {
    let mut csv = csv(version, "Succeeded", "");
    csv["spec"]["customresourcedefinitions"] =
        json!({"owned": [{"name": CRD, "version": "v1", "kind": "Etcd"}]});
    csv
}

fn cluster() -> FakeCluster {
    let cluster = FakeCluster::new();
    cluster.put(subscription(
        "db",
        &json!({"installedCSV": "etcd.v1.0.0", "currentCSV": "etcd.v1.0.0", "state": "AtLatestKnown"}),
    ));
    cluster.put(owner("1.0.0"));
    cluster.put(crd());
    for name in ["a", "b\u{1b}"] {
        cluster.put(etcd(name, &["example.com/end"]));
    }
    cluster
}

async fn looked(cluster: &FakeCluster, crds: &[&str]) -> anyhow::Result<Removal> {
    let crds: Vec<String> = crds.iter().map(|name| (*name).to_owned()).collect();
    let (client, _link) = cluster.connect();
    look(&client, "shop", "db", &crds).await
}

async fn removed(cluster: &FakeCluster, removal: &Removal) -> (bool, Vec<String>) {
    let (client, _link) = cluster.connect();
    let wait = WaitArgs {
        timeout: Duration::from_secs(30),
    };
    let mut told = Vec::new();
    let mut tell = |text: &str| told.push(text.to_owned());
    let mut screen = Screen::new(Vec::new(), None);
    let is_gone = remove(&client, removal, &wait, &mut screen, &mut tell)
        .await
        .unwrap();
    (is_gone, told)
}

#[tokio::test(start_paused = true)]
async fn what_is_left_is_shown_and_left() {
    let cluster = cluster();
    let removal = looked(&cluster, &[]).await.unwrap();
    insta::assert_snapshot!(removal.to_string(), @r"
    deletes  Subscription db in namespace shop
    deletes  ClusterServiceVersion etcd.v1.0.0 in namespace shop, with its Deployments, ServiceAccounts and permissions
    leaves   CustomResourceDefinition etcds.example.com with 2 objects, which stay: shop/a, shop/b\u{1b}
    note: 2 of them have finalizers; without the operator they cannot be deleted as they should be
    note: what is left has nobody who looks after it; a later install takes it up again
    ");
    assert!(cluster.log().writes.is_empty(), "looking changes nothing");
    let (is_gone, told) = removed(&cluster, &removal).await;
    assert!(is_gone);
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(cluster.get("Subscription", "shop", "db").is_none());
    assert!(
        cluster
            .get("ClusterServiceVersion", "shop", "etcd.v1.0.0")
            .is_none()
    );
    assert!(cluster.get("CustomResourceDefinition", "", CRD).is_some());
    assert!(cluster.get("Etcd", "shop", "a").is_some());
}

#[tokio::test(start_paused = true)]
async fn a_definition_goes_only_by_its_name_and_before_the_operator() {
    let cluster = cluster();
    let removal = looked(&cluster, &[CRD]).await.unwrap();
    insta::assert_snapshot!(removal.to_string(), @r"
    deletes  Subscription db in namespace shop
    deletes  ClusterServiceVersion etcd.v1.0.0 in namespace shop, with its Deployments, ServiceAccounts and permissions
    deletes  CustomResourceDefinition etcds.example.com with 2 objects, which are lost: shop/a, shop/b\u{1b}
    ");
    let (is_gone, told) = removed(&cluster, &removal).await;
    assert!(is_gone);
    insta::assert_snapshot!(told.join("\n"), @r"
    Subscription db in namespace shop deleted
    CustomResourceDefinition etcds.example.com deleted
    ClusterServiceVersion etcd.v1.0.0 in namespace shop deleted
    ");
    assert!(cluster.get("CustomResourceDefinition", "", CRD).is_none());

    let error = looked(&self::cluster(), &["others.example.com"])
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "db does not own CustomResourceDefinition others.example.com, so it is not deleted: it owns etcds.example.com"
    );
}

/// Its objects wait for the operator, which is to stay until they are gone.
#[tokio::test(start_paused = true)]
async fn the_operator_stays_while_its_objects_end() {
    let cluster = cluster();
    let mut held = crd();
    held["metadata"]["finalizers"] = json!(["customresourcecleanup.apiextensions.k8s.io"]);
    cluster.put(held);
    let removal = looked(&cluster, &[CRD]).await.unwrap();
    assert_eq!(
        removal.again(),
        "etcd.v1.0.0 -n shop --delete-crd etcds.example.com"
    );
    let (is_gone, _) = removed(&cluster, &removal).await;
    assert!(!is_gone);
    assert!(cluster.get("Subscription", "shop", "db").is_none());
    assert!(
        cluster
            .get("ClusterServiceVersion", "shop", "etcd.v1.0.0")
            .is_some()
    );
}

#[tokio::test(start_paused = true)]
async fn a_definition_that_others_need_does_not_go() {
    for (field, text) in [
        ("owned", "other/etcd.v2.0.0 owns it, too"),
        ("required", "other/etcd.v2.0.0 needs it"),
    ] {
        let cluster = cluster();
        let mut other = csv("2.0.0", "Succeeded", "");
        other["metadata"]["namespace"] = json!("other");
        other["spec"]["customresourcedefinitions"] =
            json!({field: [{"name": CRD, "version": "v1", "kind": "Etcd"}]});
        cluster.put(other);
        let told = looked(&cluster, &[]).await.unwrap().to_string();
        assert!(told.contains(text), "{told}");
        let error = looked(&cluster, &[CRD]).await.unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_does_not_see_all_namespaces_deletes_no_definition() {
    let cluster = cluster();
    cluster.on_request(|request| {
        let is_all = request.namespace.is_empty() && request.kind.kind != "CustomResourceDefinition";
        is_all.then(|| Fault::Refuse(Refusal::new(403, "Forbidden", "is forbidden")))
    });
    let told = looked(&cluster, &[]).await.unwrap().to_string();
    assert!(
        told.contains("with objects that are not known (cannot list etcds.example.com"),
        "{told}"
    );
    assert!(
        told.contains("note: who needs these kinds in other namespaces is not known"),
        "{told}"
    );
    let error = looked(&cluster, &[CRD]).await.unwrap_err().to_string();
    assert!(error.contains("it is not known who else needs it"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn objects_that_olm_cleans_up_are_told_as_lost() {
    let cluster = cluster();
    let mut cleans = owner("1.0.0");
    cleans["spec"]["cleanup"] = json!({"enabled": true});
    cluster.put(cleans);
    let told = looked(&cluster, &[]).await.unwrap().to_string();
    assert!(told.contains("which are LOST all the same"), "{told}");
}

/// Somebody installs it again while the question is read.
#[tokio::test(start_paused = true)]
async fn what_was_made_anew_is_not_deleted() {
    let cluster = cluster();
    let removal = looked(&cluster, &[]).await.unwrap();
    cluster.delete("Subscription", "shop", "db");
    cluster.put(subscription("db", &json!({})));
    let (client, _link) = cluster.connect();
    let wait = WaitArgs {
        timeout: Duration::from_secs(30),
    };
    let result = remove(
        &client,
        &removal,
        &wait,
        &mut Screen::new(Vec::new(), None),
        &mut |_| {},
    )
    .await;
    assert!(result.unwrap_err().to_string().contains("made anew"));
    assert!(
        cluster
            .get("ClusterServiceVersion", "shop", "etcd.v1.0.0")
            .is_some()
    );
}

#[tokio::test(start_paused = true)]
async fn an_operator_that_is_not_there_is_told_with_those_that_are() {
    let (client, _link) = cluster().connect();
    let error = look(&client, "shop", "nope", &[]).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "namespace shop has no operator nope: it has db"
    );
}
