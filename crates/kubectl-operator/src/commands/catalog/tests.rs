use std::time::Duration;

use clap::Parser as _;
use olm_testing::cluster::{FakeCluster, Fault, Refusal};
use serde_json::Value;

use super::*;
use crate::args::{Args, Command};
use crate::operators::tests::{object, subscription};

fn add_args(more: &[&str]) -> AddArgs {
    let words = [
        "kubectl-operator",
        "catalog",
        "add",
        "cat",
        "registry.example/cat:v1",
    ];
    let args = Args::try_parse_from(words.iter().chain(more)).unwrap();
    match args.command {
        Command::Catalog(CatalogCommand::Add(args)) => args,
        other => panic!("{other:?}"),
    }
}

/// Returns a cluster with the namespace `shop`.
fn cluster() -> FakeCluster {
    let cluster = FakeCluster::new();
    cluster.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}));
    cluster
}

fn state(state: &str) -> Value {
    json!({"status": {"connectionState": {"lastObservedState": state}}})
}

fn catalog(image: &str) -> Value {
    object(
        "CatalogSource",
        "cat",
        &json!({"spec": {"sourceType": "grpc", "image": image}}),
    )
}

#[test]
fn a_catalog_is_built_from_its_description() {
    let source = source(
        &add_args(&[
            "--priority",
            "-5",
            "--poll-interval",
            "30m",
            "--secret",
            "a",
            "--secret",
            "b",
            "--publisher",
            "me",
        ]),
        "olm",
    );
    insta::assert_json_snapshot!(source, @r#"
    {
      "apiVersion": "operators.coreos.com/v1alpha1",
      "kind": "CatalogSource",
      "metadata": {
        "name": "cat",
        "namespace": "olm"
      },
      "spec": {
        "sourceType": "grpc",
        "priority": -5,
        "image": "registry.example/cat:v1",
        "secrets": [
          "a",
          "b"
        ],
        "updateStrategy": {
          "registryPoll": {
            "interval": "30m"
          }
        },
        "publisher": "me"
      }
    }
    "#);
    let plain = self::source(&add_args(&["--security-context", "legacy"]), "olm");
    assert_eq!(
        serde_json::to_value(&plain.spec).unwrap(),
        json!({"sourceType": "grpc", "image": "registry.example/cat:v1", "grpcPodConfig": {"securityContextConfig": "legacy"}})
    );
}

#[test]
fn a_name_that_olm_cannot_serve_is_refused() {
    check_name(&"c".repeat(63)).unwrap();
    let error = check_name(&"c".repeat(64)).unwrap_err().to_string();
    assert!(
        error.contains("limited to 63 characters, but has 64; choose a shorter name"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn adding_ends_when_the_catalog_is_ready_and_shows_what_it_waits_for() {
    let cluster = cluster();
    let (client, _link) = cluster.connect();
    let here = Cluster::of(client, "shop");
    let source = source(&add_args(&[]), "shop");
    create(&here, &source).await.unwrap();
    let pulling = json!({"phase": "Pending", "containerStatuses": [{"name": "registry-server", "image": "", "imageID": "",
        "ready": false, "restartCount": 0, "state": {"waiting": {"reason": "ErrImagePull", "message": "no such host"}}}]});
    let later = cluster.clone();
    let change = async move {
        tokio::time::sleep(Duration::from_secs(5)).await;
        let labels = json!({"metadata": {"labels": {"olm.catalogSource": "cat"}}, "status": pulling});
        later.put(object("Pod", "cat-1", &labels));
        later.edit("CatalogSource", "shop", "cat", &state("CONNECTING"));
        tokio::time::sleep(Duration::from_secs(5)).await;
        later.edit("CatalogSource", "shop", "cat", &state("READY"));
    };
    let mut to = Vec::new();
    let mut screen = Screen::new(&mut to, None);
    let wait = add_args(&[]).wait;
    let (waits, ()) = tokio::join!(follow(&here, &source, &wait, &mut screen), change);
    assert_eq!(waits.unwrap(), None);
    drop(screen);
    insta::assert_snapshot!(String::from_utf8(to).unwrap(), @r"
    CatalogSource shop/cat: New, waiting for OLM to create its pod
    CatalogSource shop/cat: CONNECTING, waiting for its server
    shop/cat: Pod cat-1: Pending, container registry-server: ErrImagePull (no such host)
    CatalogSource shop/cat: READY
    ");
}

#[test]
fn a_cause_that_a_pod_reports_is_not_repeated_above_it() {
    let pulling = json!({"phase": "Pending", "containerStatuses": [{"name": "registry-server", "image": "", "imageID": "",
        "ready": false, "restartCount": 0, "state": {"waiting": {"reason": "ErrImagePull", "message": "no such host"}}}]});
    let pod: Pod = serde_json::from_value(object("Pod", "cat-1", &json!({"status": pulling}))).unwrap();
    for (message, expected) in [
        (
            "pod cat-1 is Pending: container registry-server: ErrImagePull (no such host)",
            "waiting for its pod",
        ),
        ("no room for a pod", "no room for a pod"),
    ] {
        let mut source = catalog("image");
        source["status"] = json!({"message": message});
        let node = tree(
            &serde_json::from_value(source).unwrap(),
            Some(std::slice::from_ref(&pod)),
        );
        assert_eq!(node.message, expected);
        assert_eq!(
            node.objects[0].message,
            "container registry-server: ErrImagePull (no such host)"
        );
    }
}

/// Upstream's plugin cleans up in the same way.
#[tokio::test(start_paused = true)]
async fn a_catalog_that_does_not_get_ready_goes_again_unless_it_is_to_be_kept() {
    for (flags, stays) in [
        (&["--timeout", "30s"][..], false),
        (&["--timeout", "30s", "--keep"], true),
    ] {
        let cluster = cluster();
        let (client, _link) = cluster.connect();
        let here = Cluster::of(client, "shop");
        let args = add_args(flags);
        let source = source(&args, "shop");
        let source = create(&here, &source).await.unwrap();
        let waits = follow(&here, &source, &args.wait, &mut Screen::new(Vec::new(), None)).await;
        let waits = waits.unwrap().unwrap();
        assert!(cluster.get("CatalogSource", "shop", "cat").is_some());
        let told = not_ready(&here, &args, &source, &args.wait, &waits)
            .await
            .to_string();
        assert!(
            told.starts_with("CatalogSource cat not READY after 30 s: "),
            "{told}"
        );
        let found = cluster.get("CatalogSource", "shop", "cat");
        assert_eq!(found.is_some(), stays, "{told}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_catalog_that_is_there_is_not_changed() {
    let cluster = cluster();
    cluster.put(catalog("other/image"));
    let before = cluster.get("CatalogSource", "shop", "cat");
    let (client, _link) = cluster.connect();
    let here = Cluster::of(client, "shop");
    let error = create(&here, &source(&add_args(&[]), "shop")).await.unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("CatalogSource cat already exists") && text.contains("other/image"),
        "{text}"
    );
    assert_eq!(cluster.get("CatalogSource", "shop", "cat"), before);

    let (client, _link) = FakeCluster::new().connect();
    let here = Cluster::of(client, "shop");
    let error = create(&here, &source(&add_args(&[]), "shop")).await.unwrap_err();
    assert!(error.to_string().contains("kubectl create namespace"), "{error}");
}

async fn removed(cluster: &FakeCluster, answer: bool) -> (String, anyhow::Result<bool>) {
    let (client, _link) = cluster.connect();
    let mut told = String::new();
    let mut asked = |text: &str, _: &str| {
        text.clone_into(&mut told);
        Ok(answer)
    };
    let result = remove_one(&Cluster::of(client, "olm"), "cat", &mut asked).await;
    (told, result.map(|removed| removed.is_some()))
}

fn used() -> FakeCluster {
    let cluster = FakeCluster::new();
    let mut source = catalog("image");
    source["metadata"]["namespace"] = json!("olm");
    cluster.put(source);
    cluster.put(subscription("db", &json!({"installedCSV": "etcd.v1.0.0"})));
    let mut other = subscription("other", &json!({}));
    other["spec"]["sourceNamespace"] = json!("shop");
    cluster.put(other);
    cluster
}

#[tokio::test(start_paused = true)]
async fn users_of_a_catalog_are_listed_before_its_removal() {
    let cluster = used();
    let (told, result) = removed(&cluster, false).await;
    assert!(!result.unwrap());
    assert!(cluster.get("CatalogSource", "olm", "cat").is_some());
    insta::assert_snapshot!(told, @r"
    CatalogSource cat in namespace olm is in use; these operators stay installed but get no upgrades:
      Subscription shop/db, package etcd, etcd.v1.0.0 installed
    ");
    let (_, result) = removed(&cluster, true).await;
    assert!(result.unwrap());
    assert!(cluster.get("CatalogSource", "olm", "cat").is_none());
    let (_, result) = removed(&cluster, true).await;
    assert!(
        result
            .unwrap_err()
            .to_string()
            .contains("has no CatalogSource cat")
    );
}

#[tokio::test(start_paused = true)]
async fn unreadable_users_are_reported_as_unknown() {
    let cluster = used();
    cluster.on_request(|request| {
        let is_all = request.kind.kind == "Subscription" && request.namespace.is_empty();
        is_all.then(|| Fault::Refuse(Refusal::new(403, "Forbidden", "subscriptions is forbidden")))
    });
    let (told, _) = removed(&cluster, false).await;
    assert!(
        told.contains("note: Subscriptions of other namespaces are unknown: "),
        "{told}"
    );
}

/// A malformed Subscription must not prevent the removal of a catalog.
#[tokio::test(start_paused = true)]
async fn users_that_cannot_be_read_are_reported() {
    let cluster = used();
    assert!(cluster.delete("Subscription", "shop", "db"));
    for at in 0..25 {
        let odd = json!({"spec": {"name": 7, "source": "cat", "sourceNamespace": "olm"}});
        cluster.put(object("Subscription", &format!("odd-{at:02}"), &odd));
    }
    let (told, result) = removed(&cluster, true).await;
    assert!(result.unwrap());
    assert!(
        told.starts_with("no readable Subscription uses CatalogSource cat in namespace olm\n"),
        "{told}"
    );
    assert!(
        told.contains("\nnote: cannot read Subscription shop/odd-00: "),
        "{told}"
    );
    assert_eq!(
        told.matches("\nnote: cannot read Subscription").count(),
        25,
        "{told}"
    );
    // Malformed CatalogSources do not prevent it, either.
    cluster.put(object(
        "CatalogSource",
        "odd",
        &json!({"metadata": {"namespace": "olm"}, "spec": 7}),
    ));
    let (_, result) = removed(&cluster, true).await;
    let error = result.unwrap_err().to_string();
    assert!(error.ends_with("has no CatalogSource cat; it has odd"), "{error}");
}

/// Another user replaces the catalog while the question waits for an answer.
#[tokio::test(start_paused = true)]
async fn a_catalog_made_anew_is_not_removed() {
    let cluster = used();
    let (client, _link) = cluster.connect();
    let other = cluster.clone();
    let mut asked = |_: &str, _: &str| {
        other.delete("CatalogSource", "olm", "cat");
        let mut source = catalog("new");
        source["metadata"]["namespace"] = json!("olm");
        other.put(source);
        Ok(true)
    };
    let error = remove_one(&Cluster::of(client, "olm"), "cat", &mut asked)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("was recreated"), "{error}");
    assert!(cluster.get("CatalogSource", "olm", "cat").is_some());
}

#[test]
fn a_message_that_others_repeat_is_reported_once() {
    for (messages, expected) in [
        (&["down"][..], &["down"][..]),
        (&["down", "down"], &["down"]),
        (&["down", "up", "it is down"], &["up", "it is down"]),
        (&["it is down", "down", "it is down"], &["it is down"]),
    ] {
        let messages: Vec<String> = messages.iter().map(|text| (*text).to_owned()).collect();
        assert_eq!(distinct_messages(&messages), expected, "{messages:?}");
    }
}

#[test]
fn catalogs_are_listed_as_kubectl_lists() {
    let mut ready = catalog("registry.example/cat:v1");
    olm_testing::patch::merge(&mut ready, &state("READY"));
    let mut broken = object(
        "CatalogSource",
        "other",
        &json!({"spec": {"sourceType": "grpc", "address": "a:1", "publisher": "\u{1b}[2J"}}),
    );
    broken["status"] = json!({"message": "no pod", "reason": "RegistryServerError"});
    let rows: Vec<Row> = [ready, broken]
        .into_iter()
        .map(|source| row(&serde_json::from_value(source).unwrap()))
        .collect();
    insta::assert_snapshot!(table(&rows, true, true), @r"
    NAMESPACE   NAME    DISPLAY   TYPE   PUBLISHER   STATE    SOURCE                    PRIORITY   MESSAGE
    shop        cat     <none>    grpc   <none>      READY    registry.example/cat:v1   0          <none>
    shop        other   <none>    grpc   \u{1b}[2J   <none>   a:1                       0          no pod
    ");
    insta::assert_snapshot!(table(&rows, false, false), @r"
    NAME    DISPLAY   TYPE   PUBLISHER   STATE
    cat     <none>    grpc   <none>      READY
    other   <none>    grpc   \u{1b}[2J   <none>
    ");
}
