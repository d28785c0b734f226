use clap::Parser as _;
use olm_testing::cluster::{FakeCluster, Fault, Kind, Refusal, Verb};

use super::*;
use crate::args::olmv1::{CreateCatalogArgs, InstallExtensionArgs, UpdateCatalogArgs, UpdateExtensionArgs};
use crate::args::{Args, Command};
use crate::operators::lines;
use crate::terminal::Colours;

fn command(words: &[&str]) -> Olmv1Command {
    let words = ["kubectl-operator", "olmv1"].iter().chain(words);
    match Args::try_parse_from(words).unwrap().command {
        Command::Olmv1(command) => command,
        other => panic!("{other:?}"),
    }
}

fn create_args(more: &[&str]) -> CreateCatalogArgs {
    match command(&[&["create", "catalog", "demo", "quay.io/a/b:v1"][..], more].concat()) {
        Olmv1Command::Create(CreateCommand::Catalog(args)) => args,
        other => panic!("{other:?}"),
    }
}

fn update_catalog_args(more: &[&str]) -> UpdateCatalogArgs {
    match command(&[&["update", "catalog", "demo"][..], more].concat()) {
        Olmv1Command::Update(UpdateCommand::Catalog(args)) => args,
        other => panic!("{other:?}"),
    }
}

fn install_args(more: &[&str]) -> InstallExtensionArgs {
    match command(&[&["install", "extension", "etcd", "-p", "etcd-operator"][..], more].concat()) {
        Olmv1Command::Install(InstallCommand::Extension(args)) => args,
        other => panic!("{other:?}"),
    }
}

fn update_args(more: &[&str]) -> UpdateExtensionArgs {
    match command(&[&["update", "extension", "etcd"][..], more].concat()) {
        Olmv1Command::Update(UpdateCommand::Extension(args)) => args,
        other => panic!("{other:?}"),
    }
}

fn delete_args(more: &[&str]) -> DeleteArgs {
    match command(&[&["delete", "extension"][..], more].concat()) {
        Olmv1Command::Delete(DeleteCommand::Extension(args)) => args,
        other => panic!("{other:?}"),
    }
}

fn serve(cluster: &FakeCluster, kind: &str) {
    cluster.serve(Kind {
        group: "olm.operatorframework.io".to_owned(),
        versions: vec!["v1".to_owned()],
        kind: kind.to_owned(),
        plural: format!("{}s", kind.to_lowercase()),
        namespaced: false,
        status: true,
        custom: true,
    });
}

/// Returns a cluster with OLM v1.
pub(super) fn cluster() -> FakeCluster {
    let cluster = FakeCluster::new();
    for kind in ["ClusterCatalog", "ClusterExtension", "ClusterObjectSet"] {
        serve(&cluster, kind);
    }
    cluster
}

pub(super) fn object(kind: &str, name: &str, spec: &Value, status: &Value) -> Value {
    json!({"apiVersion": API_VERSION, "kind": kind,
        "metadata": {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": spec, "status": status})
}

pub(super) fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": type_, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

fn extension(name: &str, status: &Value) -> Value {
    let source = json!({"sourceType": "Catalog", "catalog": {"packageName": "etcd-operator", "version": "1.0.0",
        "channels": ["stable"], "upgradeConstraintPolicy": "CatalogProvided"}});
    object(
        "ClusterExtension",
        name,
        &json!({"namespace": "shop", "source": source}),
        status,
    )
}

fn here(cluster: &FakeCluster) -> (Cluster, olm_testing::cluster::Link) {
    let (client, link) = cluster.connect();
    (Cluster::of(client, "default"), link)
}

#[test]
fn a_catalog_is_made_of_the_flags() {
    let plain = catalogs::new(&create_args(&[])).unwrap();
    let image = json!({"type": "Image", "image": {"ref": "quay.io/a/b:v1"}});
    assert_eq!(
        serde_json::to_value(&plain).unwrap(),
        json!({"apiVersion": API_VERSION, "kind": "ClusterCatalog", "metadata": {"name": "demo"},
            "spec": {"source": image, "priority": 0, "availabilityMode": "Available"}})
    );
    let flags = [
        "--priority",
        "-5",
        "--available=false",
        "--source-poll-interval-minutes",
        "10",
        "--labels",
        "a=b,e=",
    ];
    let all = catalogs::new(&create_args(&flags)).unwrap();
    assert_eq!(
        serde_json::to_value(&all).unwrap(),
        json!({"apiVersion": API_VERSION, "kind": "ClusterCatalog", "metadata": {"name": "demo", "labels": {"a": "b", "e": ""}},
            "spec": {"source": {"type": "Image", "image": {"ref": "quay.io/a/b:v1", "pollIntervalMinutes": 10}},
                "priority": -5, "availabilityMode": "Unavailable"}})
    );
}

#[test]
fn a_catalog_keeps_what_has_no_flag() {
    let spec = json!({"source": {"type": "Image", "image": {"ref": "quay.io/a/b:v1", "pollIntervalMinutes": 10}},
        "priority": 7, "availabilityMode": "Unavailable"});
    let mut before = object("ClusterCatalog", "demo", &spec, &Value::Null);
    before["metadata"]["labels"] = json!({"a": "b", "c": "d"});
    let changed = |flags: &[&str]| {
        let mut catalog: ClusterCatalog = serde_json::from_value(before.clone()).unwrap();
        let args = update_catalog_args(flags);
        let (image, is_reset) = (args.image.as_deref(), !args.unset.ignore_unset);
        catalogs::change(&mut catalog, &args.fields, image, is_reset).map(|()| {
            let value = serde_json::to_value(&catalog).unwrap();
            let (labels, spec) = (&value["metadata"]["labels"], &value["spec"]);
            let (mode, image) = (&spec["availabilityMode"], &spec["source"]["image"]);
            let poll = &image["pollIntervalMinutes"];
            json!([labels, spec["priority"], mode, image["ref"], poll])
        })
    };
    let labels = json!({"a": "b", "c": "d"});
    for (flags, expected) in [
        (&[][..], json!([labels, 7, "Unavailable", "quay.io/a/b:v1", 10])),
        (
            &["--priority=1", "--image=quay.io/a/b:v2"],
            json!([labels, 1, "Unavailable", "quay.io/a/b:v2", 10]),
        ),
        (
            &["--available=true", "--source-poll-interval-minutes=0"],
            json!([labels, 7, "Available", "quay.io/a/b:v1", null]),
        ),
        (
            &["--labels", "a=,e=f"],
            json!([{"c": "d", "e": "f"}, 7, "Unavailable", "quay.io/a/b:v1", 10]),
        ),
        (
            &["--labels", "a=,c="],
            json!([null, 7, "Unavailable", "quay.io/a/b:v1", 10]),
        ),
        (
            &["--ignore-unset=false"],
            json!([labels, 0, "Available", "quay.io/a/b:v1", null]),
        ),
    ] {
        assert_eq!(changed(flags).unwrap(), expected, "{flags:?}");
    }
    let flags = [
        "--image=quay.io/a/b@sha256:00",
        "--source-poll-interval-minutes=5",
    ];
    let error = changed(&flags).unwrap_err().to_string();
    assert!(
        error.contains("ClusterCatalog demo") && error.contains("omit --source-poll"),
        "{error}"
    );
}

#[test]
fn an_extension_is_made_of_the_flags() {
    let plain = extensions::new(&install_args(&[])).unwrap();
    assert_eq!(
        serde_json::to_value(&plain.spec).unwrap(),
        json!({"namespace": "olmv1-system",
            "source": {"sourceType": "Catalog", "catalog": {"packageName": "etcd-operator"}}})
    );
    let flags = [
        "-n",
        "shop",
        "-s",
        "installer",
        "-c",
        "stable,beta",
        "--version=1.2.x",
        "--catalog-selector=team in (a, b)",
        "--upgrade-constraint-policy=SelfCertified",
        "--crd-upgrade-safety-enforcement=None",
        "--labels=a=b,e=",
    ];
    let all = extensions::new(&install_args(&flags)).unwrap();
    assert_eq!(json!(all.metadata.labels), json!({"a": "b", "e": ""}));
    let selector = json!({"matchExpressions": [{"key": "team", "operator": "In", "values": ["a", "b"]}]});
    assert_eq!(
        serde_json::to_value(&all.spec).unwrap(),
        json!({"namespace": "shop", "serviceAccount": {"name": "installer"},
            "install": {"preflight": {"crdUpgradeSafety": {"enforcement": "None"}}},
            "source": {"sourceType": "Catalog", "catalog": {"packageName": "etcd-operator", "version": "1.2.x",
                "channels": ["stable", "beta"], "selector": selector, "upgradeConstraintPolicy": "SelfCertified"}}})
    );
    let error = extensions::new(&install_args(&["--catalog-selector", "a b"])).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("invalid --catalog-selector \"a b\": "),
        "{error}"
    );
}

#[test]
fn an_extension_keeps_what_has_no_flag() {
    let changed = |flags: &[&str]| {
        let mut found: ClusterExtension = serde_json::from_value(extension("etcd", &Value::Null)).unwrap();
        let args = update_args(flags);
        extensions::change(&mut found, &args.fields, !args.unset.ignore_unset).unwrap();
        let spec = serde_json::to_value(&found.spec).unwrap();
        (spec["source"]["catalog"].clone(), spec["install"].clone())
    };
    let package = "etcd-operator";
    let kept = json!({"packageName": package, "version": "1.0.0", "channels": ["stable"],
        "upgradeConstraintPolicy": "CatalogProvided"});
    assert_eq!(changed(&[]), (kept.clone(), Value::Null));
    assert_eq!(changed(&["--labels", "a=b"]), (kept.clone(), Value::Null));
    let mut other = kept.clone();
    other["version"] = json!("2.x");
    assert_eq!(changed(&["--version", "2.x"]), (other, Value::Null));
    let strict = json!({"preflight": {"crdUpgradeSafety": {"enforcement": "Strict"}}});
    assert_eq!(
        changed(&["--crd-upgrade-safety-enforcement", "Strict"]),
        (kept, strict)
    );
    assert_eq!(
        changed(&["--ignore-unset=false", "--channels=beta"]),
        (
            json!({"packageName": package, "channels": ["beta"], "upgradeConstraintPolicy": "CatalogProvided"}),
            Value::Null
        )
    );
}

#[tokio::test(start_paused = true)]
async fn creating_ends_when_the_catalog_is_served_and_shows_what_it_waits_for() {
    let cluster = cluster();
    let (here, _link) = here(&cluster);
    let catalog = catalogs::new(&create_args(&[])).unwrap();
    let api = Api::<ClusterCatalog>::all(here.client.clone());
    let created = writer::create(&api, &catalog).await.unwrap().unwrap();
    let later = cluster.clone();
    let change = async move {
        for condition in [
            condition("Progressing", "True", "Retrying", "no such host"),
            condition("Serving", "True", "Available", ""),
        ] {
            tokio::time::sleep(Duration::from_secs(5)).await;
            let status = json!({"status": {"conditions": [condition]}});
            assert!(later.edit("ClusterCatalog", "", "demo", &status));
        }
    };
    let mut to = Vec::new();
    let mut screen = Screen::new(&mut to, None);
    let wait = WaitArgs::default();
    let (followed, ()) = tokio::join!(follow(&here, &created, &wait, &mut screen), change);
    assert!(followed.unwrap().is_ok());
    drop(screen);
    insta::assert_snapshot!(String::from_utf8(to).unwrap(), @r"
    ClusterCatalog demo: New, waiting for catalogd to serve its content
    ClusterCatalog demo: Retrying, no such host
    ClusterCatalog demo: Serving
    ");
}

/// Deleting an extension would delete its custom resources.
#[tokio::test(start_paused = true)]
async fn an_extension_that_does_not_get_ready_is_kept() {
    let blocked = json!({"conditions": [condition("Progressing", "False", "Blocked", "no label")]});
    for (status, expected) in [
        (
            json!({}),
            "not ready after 30 s: ClusterExtension etcd: New, waiting for operator-controller to process it",
        ),
        (
            blocked,
            "stopped waiting: ClusterExtension etcd: Blocked, no label",
        ),
        (json!("unreadable"), "it is forbidden"),
    ] {
        let cluster = cluster();
        let (here, _link) = here(&cluster);
        let args = install_args(&["--timeout", "30s"]);
        let made = extensions::new(&args).unwrap();
        if status.is_string() {
            cluster.on_request(|request| {
                let is_read = request.verb == Verb::Get;
                is_read.then(|| Fault::Refuse(Refusal::forbidden("it is forbidden")))
            });
        }
        let later = cluster.clone();
        let olm = async move {
            tokio::time::sleep(Duration::from_secs(5)).await;
            if status.is_object() {
                later.edit("ClusterExtension", "", "etcd", &json!({"status": status}));
            }
        };
        let (result, ()) = tokio::join!(create(&here, &made, &args.wait, None, &args.write), olm);
        let error = result.unwrap_err().to_string();
        assert!(
            error.contains(expected)
                && error.ends_with("deleted nothing, see `kubectl operator olmv1 status etcd`"),
            "{error}"
        );
        assert!(cluster.get("ClusterExtension", "", "etcd").is_some());
    }
}

/// Upstream's plugin cleans up in the same way.
#[tokio::test(start_paused = true)]
async fn a_catalog_that_does_not_get_ready_is_deleted_again() {
    let cluster = cluster();
    let (here, _link) = here(&cluster);
    let args = create_args(&["--timeout", "30s"]);
    let made = catalogs::new(&args).unwrap();
    let cleanup = Some(args.cleanup_timeout);
    let error = create(&here, &made, &args.wait, cleanup, &args.write).await;
    let error = error.unwrap_err().to_string();
    assert!(
        error.starts_with("not ready after 30 s: ClusterCatalog demo")
            && error.contains("was deleted again; use --timeout"),
        "{error}"
    );
    assert!(cluster.get("ClusterCatalog", "", "demo").is_none());
}

/// More time does not help where an attempt has failed: its message says what does.
#[tokio::test(start_paused = true)]
async fn more_time_is_suggested_only_where_it_may_help() {
    for (status, reason, helps) in [
        ("True", "Retrying", false),
        ("False", "Blocked", false),
        ("True", "Succeeded", true),
    ] {
        let cluster = cluster();
        let (here, _link) = here(&cluster);
        let args = create_args(&["--timeout", "30s"]);
        let made = catalogs::new(&args).unwrap();
        let later = cluster.clone();
        let olm = async move {
            tokio::time::sleep(Duration::from_secs(5)).await;
            let conditions = [condition("Progressing", status, reason, "cannot pull it")];
            let told = json!({"status": {"conditions": conditions}});
            assert!(later.edit("ClusterCatalog", "", "demo", &told));
        };
        let cleanup = Some(args.cleanup_timeout);
        let (result, ()) = tokio::join!(create(&here, &made, &args.wait, cleanup, &args.write), olm);
        let error = result.unwrap_err().to_string();
        assert_eq!(error.contains("--timeout"), helps, "{reason}: {error}");
        assert_eq!(error.contains("cannot pull it; "), !helps, "{reason}: {error}");
    }
}

/// After an update the conditions are about the fields before it.
#[test]
fn conditions_of_an_older_generation_do_not_count() {
    for (observed, expected) in [(1, Outcome::Waits), (2, Outcome::Done)] {
        let mut conditions = [
            condition("Installed", "True", "Succeeded", ""),
            condition("Progressing", "True", "Succeeded", ""),
        ];
        for condition in &mut conditions {
            condition["observedGeneration"] = json!(observed);
        }
        let mut found = extension("etcd", &json!({"conditions": conditions}));
        found["metadata"]["generation"] = json!(2);
        let found: ClusterExtension = serde_json::from_value(found).unwrap();
        assert_eq!(found.progress().1, expected, "{observed}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_or_all_are_deleted_after_a_question() {
    let cluster = cluster();
    for name in ["a", "b", "c"] {
        cluster.put(extension(name, &json!({})));
    }
    let (here, _link) = here(&cluster);
    let mut asked = Vec::new();
    for (words, answer, left) in [
        (&["a"][..], false, 3),
        (&["a"], true, 2),
        (&["--all"], false, 2),
        (&["--all"], true, 0),
    ] {
        let mut ask = |question: &str| {
            asked.push(question.to_owned());
            Ok(answer)
        };
        let verdict = delete_selected::<ClusterExtension>(&here, &delete_args(words), &mut ask).await;
        assert_eq!(verdict.unwrap(), Verdict::when(answer), "{words:?}");
        assert_eq!(cluster.objects().len(), left, "{words:?}");
    }
    assert_eq!(
        asked[0],
        format!("Delete ClusterExtension a{}?", ClusterExtension::CONSEQUENCE)
    );
    assert!(
        asked[3].starts_with("Delete ClusterExtension b, c with everything"),
        "{}",
        asked[3]
    );
    for (words, expected) in [
        (
            &["--all"][..],
            "no resources found: the cluster has no clusterextensions",
        ),
        (
            &["gone"],
            "the cluster has no ClusterExtension gone; list all with `kubectl operator olmv1 get extensions`",
        ),
    ] {
        let mut never = |_: &str| -> anyhow::Result<bool> { bail!("it asked") };
        let args = delete_args(words);
        let error = delete_selected::<ClusterExtension>(&here, &args, &mut never).await;
        assert_eq!(error.unwrap_err().to_string(), expected);
    }
}

#[test]
fn objects_to_delete_are_selected_in_one_way() {
    for (words, expected) in [
        (
            &[][..],
            "nothing to delete: give a name, or use --all for all clusterextensions",
        ),
        (&["a", "--all"], "cannot specify both --all and a name"),
    ] {
        let error = check_selection::<ClusterExtension>(&delete_args(words)).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
    check_selection::<ClusterExtension>(&delete_args(&["a", "--all=false"])).unwrap();
}

#[tokio::test(start_paused = true)]
async fn lists_have_upstreams_columns_and_order() {
    let now: Timestamp = "2026-01-02T00:00:00Z".parse().unwrap();
    let cluster = cluster();
    let catalog = |name: &str, priority: i32, mode: &str, status: &Value| {
        let spec = json!({"source": {"type": "Image", "image": {"ref": "quay.io/a/b:v1"}}, "priority": priority,
            "availabilityMode": mode});
        cluster.put(object("ClusterCatalog", name, &spec, status));
    };
    let served = json!({"lastUnpacked": "2026-01-01T23:00:00Z", "conditions": [condition("Serving", "True", "Available", "")]});
    catalog("a", 0, "Available", &json!({}));
    catalog("b", 5, "Available", &served);
    catalog(
        "c",
        9,
        "Unavailable",
        &json!({"conditions": [condition("Serving", "False", "Unavailable", "")]}),
    );
    let conditions = [
        condition("Installed", "True", "Succeeded", ""),
        condition("Progressing", "False", "Blocked", ""),
    ];
    let bundle = json!({"bundle": {"name": "etcd.v1.0.0", "version": "1.0.0"}});
    cluster.put(extension(
        "etcd",
        &json!({"install": bundle, "conditions": conditions}),
    ));
    let (here, _link) = here(&cluster);
    let Olmv1Command::Get(GetCommand::Catalog(args)) = command(&["get", "catalogs"]) else {
        panic!("get");
    };
    let catalogs = found::<ClusterCatalog>(&here, &args).await.unwrap();
    insta::assert_snapshot!(table(&catalogs, now), @r"
    NAME   AVAILABILITY   PRIORITY   LASTUNPACKED   SERVING   AGE
    b      Available      5          60m            True      24h
    a      Available      0          <none>         Unknown   24h
    c      Unavailable    9          <none>         False     24h
    ");
    let extensions = found::<ClusterExtension>(&here, &args).await.unwrap();
    insta::assert_snapshot!(table(&extensions, now), @r"
    NAME   INSTALLED BUNDLE   VERSION   SOURCE TYPE   INSTALLED   PROGRESSING   AGE
    etcd   etcd.v1.0.0        1.0.0     Catalog       True        False         24h
    ");
    // As in upstream's plugin, a list of one object is that object.
    assert_eq!(listed(&extensions).unwrap()["kind"], "ClusterExtension");
    let list = listed(&catalogs).unwrap();
    assert_eq!(
        (&list["kind"], &list["items"][0]["metadata"]["name"]),
        (&json!("ClusterCatalogList"), &json!("b"))
    );
}

#[tokio::test(start_paused = true)]
async fn an_extension_is_shown_with_its_conditions_and_revisions() {
    let cluster = cluster();
    let rolling = condition(
        "Progressing",
        "True",
        "RollingOut",
        "Revision 1.1.0 is rolling out.",
    );
    let conditions = [
        condition(
            "Installed",
            "True",
            "Succeeded",
            "Installed bundle img successfully",
        ),
        rolling.clone(),
        condition("Deprecated", "False", "NotDeprecated", "not deprecated"),
        condition("PackageDeprecated", "True", "Deprecated", "use another"),
    ];
    cluster.put(extension("etcd", &json!({"conditions": conditions})));
    let probe = condition(
        "Available",
        "False",
        "ProbeFailure",
        "Object Deployment.apps/v1 shop/etcd: not Available",
    );
    for (name, owner, revision, state, version, conditions) in [
        ("etcd-1", "etcd", 1, "Archived", "1.0.0", json!([])),
        ("etcd-2", "etcd", 2, "Active", "1.1.0", json!([rolling, probe])),
        ("other-1", "other", 1, "Active", "1.0.0", json!([])),
    ] {
        let spec = json!({"lifecycleState": state, "revision": revision, "collisionProtection": "Prevent"});
        let mut set = object(
            "ClusterObjectSet",
            name,
            &spec,
            &json!({"conditions": conditions}),
        );
        set["metadata"]["labels"] = json!({"olm.operatorframework.io/owner-name": owner});
        set["metadata"]["annotations"] = json!({"olm.operatorframework.io/bundle-version": version});
        cluster.put(set);
    }
    let (here, _link) = here(&cluster);
    let node = status::tree(&here, "etcd").await.unwrap();
    assert!(!node.is_fine());
    insta::assert_snapshot!(lines(&[node], Colours(false)).join("\n"), @r"
    ClusterExtension etcd: RollingOut, Revision 1.1.0 is rolling out.
    ├─ Condition Installed: True (Succeeded), Installed bundle img successfully
    ├─ Condition Progressing: True (RollingOut), Revision 1.1.0 is rolling out.
    ├─ Condition PackageDeprecated: True (Deprecated), use another
    ├─ ClusterObjectSet etcd-2: Active, revision 2, version 1.1.0
    │  ├─ Condition Progressing: True (RollingOut), Revision 1.1.0 is rolling out.
    │  └─ Condition Available: False (ProbeFailure), Object Deployment.apps/v1 shop/etcd: not Available
    └─ ClusterObjectSet etcd-1: Archived, revision 1, version 1.0.0
    ");
    cluster.on_request(|request| {
        let is_set = request.kind.kind == "ClusterObjectSet";
        is_set.then(|| Fault::Refuse(Refusal::forbidden("it is forbidden")))
    });
    let node = status::tree(&here, "etcd").await.unwrap();
    assert!(
        node.notes[0].contains("it is forbidden") && node.notes[0].ends_with("revisions are unknown"),
        "{:?}",
        node.notes
    );
    assert_eq!(node.objects.len(), 3);
}

/// Upstream's standard installation of OLM v1 has no ClusterObjectSets.
#[tokio::test(start_paused = true)]
async fn an_extension_without_revisions_is_shown_alone() {
    let cluster = FakeCluster::new();
    serve(&cluster, "ClusterExtension");
    let conditions = [
        condition("Installed", "True", "Succeeded", ""),
        condition("Progressing", "True", "Succeeded", ""),
    ];
    let bundle = json!({"bundle": {"name": "etcd.v1.0.0", "version": "1.0.0"}});
    cluster.put(extension(
        "etcd",
        &json!({"install": bundle, "conditions": conditions}),
    ));
    let (here, _link) = here(&cluster);
    let node = status::tree(&here, "etcd").await.unwrap();
    assert!(node.is_fine() && node.notes.is_empty(), "{node:?}");
    assert_eq!(
        lines(&[node], Colours(false))[0],
        "ClusterExtension etcd: Installed, etcd.v1.0.0"
    );
    let error = status::tree(&here, "gone").await.unwrap_err().to_string();
    assert!(
        error.starts_with("the cluster has no ClusterExtension gone; "),
        "{error}"
    );
}
