use std::time::Duration;

use clap::Parser as _;
use go_compat::semver::Version;
use olm_api::labels::{GENERATED_BY, UPGRADE_APPROVE, UPGRADE_HOLD};
use olm_api::v1alpha1::{Approval, ClusterServiceVersion};
use olm_fbc::entry::{BundleEntry, EntryProperty};
use olm_resolver::entry::Entry;
use olm_testing::cluster::{FakeCluster, Fault, Refusal, Verb};
use serde_json::{Value, json};

use super::*;
use crate::args::{Args, Command};
use crate::catalogs::Bundle;
use crate::commands::uninstall::tests::{cluster, etcd_in};
use crate::operators::tests::{csv, plan};

mod stories;

const CRD: &str = "etcds.example.com";

fn rollback_args(more: &[&str]) -> RollbackArgs {
    let words = ["kubectl-operator", "rollback", "db"];
    match Args::try_parse_from(words.iter().chain(more)).unwrap().command {
        Command::Rollback(args) => args,
        other => panic!("{other:?}"),
    }
}

fn bundle_entry(version: &str) -> BundleEntry {
    BundleEntry {
        name: format!("etcd.v{version}").into(),
        package: "etcd".into(),
        channel: "stable".into(),
        version: Version::parse(version).ok(),
        ..BundleEntry::default()
    }
}

/// Returns the bundle of a version whose definition has these versions; without any, the catalog has only its image.
fn bundle(versions: &[&str]) -> Bundle {
    let versions: Vec<Value> = versions.iter().map(|name| json!({"name": name})).collect();
    let crd = json!({"kind": "CustomResourceDefinition", "metadata": {"name": CRD}, "spec": {"versions": versions}});
    Bundle {
        csv: None,
        objects: if versions.is_empty() {
            Vec::new()
        } else {
            vec![crd]
        },
    }
}

/// Returns a cluster in which the upgrade of db from 1.0.0 to 2.0.0 failed.
fn failed() -> FakeCluster {
    let cluster = cluster();
    let change = json!({
        "metadata": {"labels": {"team": "a"}, "annotations": {"note": "b", GENERATED_BY: "install-0"}},
        "spec": {"config": {"nodeSelector": {"disk": "fast"}}},
        "status": {"installedCSV": "etcd.v2.0.0", "currentCSV": "etcd.v2.0.0"},
    });
    cluster.edit("Subscription", "shop", "db", &change);
    let replacing = json!({"status": {"phase": "Replacing"}});
    cluster.edit("ClusterServiceVersion", "shop", "etcd.v1.0.0", &replacing);
    let mut newest = csv("2.0.0", "Failed", "no such image");
    newest["spec"]["replaces"] = json!("etcd.v1.0.0");
    cluster.put(newest);
    let stored = json!({"status": {"storedVersions": ["v1"]}});
    cluster.edit("CustomResourceDefinition", "", CRD, &stored);
    cluster
}

/// Returns the same without custom resources.
fn without_objects() -> FakeCluster {
    let cluster = failed();
    for name in ["a", "b\u{1b}"] {
        let unfinished = json!({"metadata": {"finalizers": null}});
        cluster.edit("Etcd", "shop", name, &unfinished);
        assert!(cluster.delete("Etcd", "shop", name), "{name:?}");
    }
    cluster
}

async fn removal(cluster: &FakeCluster) -> Removal {
    let (client, _link) = cluster.connect();
    let here = Cluster::of(client, "shop");
    uninstall::look(&here, &removal_args(&rollback_args(&[])))
        .await
        .unwrap()
}

async fn refusal(cluster: &FakeCluster, bundle: &Bundle) -> String {
    let removal = removal(cluster).await;
    let error = decide(&removal, &Entry::new(bundle_entry("1.0.0")), bundle).unwrap_err();
    assert!(cluster.log().writes.is_empty());
    error.to_string()
}

#[tokio::test(start_paused = true)]
async fn the_way_back_is_shown_and_keeps_what_the_user_set() {
    let cluster = failed();
    let removal = removal(&cluster).await;
    assert_eq!(decide::wanted(&removal, "db", None, &[]).unwrap(), "etcd.v1.0.0");
    let rollback = decide(&removal, &Entry::new(bundle_entry("1.0.0")), &bundle(&["v1"])).unwrap();
    insta::assert_snapshot!(rollback.text(&removal), @r"
    deletes  Subscription db in namespace shop
    deletes  ClusterServiceVersion etcd.v1.0.0 in namespace shop (Replacing), and installs it again
    deletes  ClusterServiceVersion etcd.v2.0.0 in namespace shop (Failed)
    replaces CustomResourceDefinition etcds.example.com by that of etcd.v1.0.0; fields it lacks are lost
    creates  Subscription db in namespace shop, as below
    approves the InstallPlan for etcd.v1.0.0, unless OLM does
    note: the Subscription is held within =1.0.0, so that OLM does not upgrade it again; `kubectl operator unhold` allows newer versions
    note: the operator does not run until etcd.v1.0.0 is installed; it must understand the custom resources that etcd.v2.0.0 wrote
    ");
    let made = serde_json::to_value(&rollback.subscription).unwrap();
    assert_eq!(
        made["metadata"],
        json!({"name": "db", "namespace": "shop", "labels": {"team": "a"}, "annotations": {"note": "b", UPGRADE_HOLD: "=1.0.0"}})
    );
    assert_eq!(
        made["spec"],
        json!({"name": "etcd", "channel": "stable", "source": "cat", "sourceNamespace": "olm", "startingCSV": "etcd.v1.0.0",
            "config": {"nodeSelector": {"disk": "fast"}}})
    );
}

/// Otherwise OLM would approve the failed version again.
#[tokio::test(start_paused = true)]
async fn the_version_is_held_and_the_approval_stays() {
    let manual = json!("Manual");
    for (annotations, approval, version, expected) in [
        (json!({}), json!(null), "1.0.0", Some("=1.0.0")),
        (json!({}), manual.clone(), "1.0.0", Some("=1.0.0")),
        (
            json!({UPGRADE_APPROVE: "all"}),
            manual.clone(),
            "1.0.0",
            Some("=1.0.0"),
        ),
        (
            json!({UPGRADE_HOLD: ">=2.0.0"}),
            json!(null),
            "1.0.0",
            Some("=1.0.0"),
        ),
        (
            json!({UPGRADE_HOLD: "<3.0.0"}),
            json!(null),
            "1.0.0",
            Some("=1.0.0"),
        ),
        // A hold does not distinguish these versions.
        (json!({UPGRADE_HOLD: ">=2.0.0"}), manual.clone(), "2.0.0+1", None),
    ] {
        let cluster = failed();
        let change =
            json!({"metadata": {"annotations": annotations}, "spec": {"installPlanApproval": approval}});
        cluster.edit("Subscription", "shop", "db", &change);
        let removal = removal(&cluster).await;
        let rollback = decide(&removal, &Entry::new(bundle_entry(version)), &bundle(&["v1"])).unwrap();
        let made = &rollback.subscription;
        let held = made.annotations().get(UPGRADE_HOLD).map(String::as_str);
        assert_eq!(held, expected, "{annotations}");
        let kept = made.spec.install_plan_approval.as_ref();
        assert_eq!(kept == Some(&Approval::Manual), approval == manual);
    }
    let removal = removal(&failed()).await;
    let error = decide(&removal, &Entry::new(bundle_entry("2.0.0+1")), &bundle(&["v1"])).unwrap_err();
    assert!(error.to_string().contains("a hold cannot keep OLM"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn what_would_lose_data_is_refused() {
    let cluster = failed();
    let stored = json!({"status": {"storedVersions": ["v1", "v2"]}});
    cluster.edit("CustomResourceDefinition", "", CRD, &stored);
    assert_eq!(
        refusal(&cluster, &bundle(&["v1"])).await,
        "cannot roll back to etcd.v1.0.0: objects of CustomResourceDefinition etcds.example.com are stored in v2, which etcd.v1.0.0 \
         does not have; migrate them first, see status.storedVersions"
    );
    // A catalog with images alone does not show this, and OLM checks again.
    let removed = removal(&cluster).await;
    let rollback = decide(&removed, &Entry::new(bundle_entry("1.0.0")), &bundle(&[])).unwrap();
    assert!(
        rollback
            .notes
            .iter()
            .any(|note| note.contains("lacks version v2")),
        "{:?}",
        rollback.notes
    );
    // The ClusterServiceVersion describes all that is stored.
    let rollback = decide(
        &removal(&failed()).await,
        &Entry::new(bundle_entry("1.0.0")),
        &bundle(&[]),
    )
    .unwrap();
    assert!(
        !rollback.notes.iter().any(|note| note.contains("lacks version")),
        "{:?}",
        rollback.notes
    );
    let cluster = failed();
    cluster.on_request(|request| {
        let is_read = request.verb == Verb::Get && request.kind.kind == "CustomResourceDefinition";
        is_read.then(|| Fault::Refuse(Refusal::forbidden("it is forbidden")))
    });
    let text = refusal(&cluster, &bundle(&["v1"])).await;
    assert!(
        text.contains("without knowing CustomResourceDefinition etcds.example.com"),
        "{text}"
    );
}

/// The older version is deleted as well, and without its image it cannot be installed again.
#[tokio::test(start_paused = true)]
async fn the_image_that_must_be_pulled_again_is_named() {
    let removal = removal(&failed()).await;
    for path in [Some("registry.example.com/etcd:v1"), None] {
        let entry = BundleEntry {
            bundle_path: path.map(Into::into),
            ..bundle_entry("1.0.0")
        };
        let rollback = decide(&removal, &Entry::new(entry), &bundle(&["v1"])).unwrap();
        let note = "note: OLM needs bundle image registry.example.com/etcd:v1 to install etcd.v1.0.0 again; ";
        assert_eq!(rollback.text(&removal).contains(note), path.is_some(), "{path:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_deprecated_version_is_refused() {
    let mut entry = bundle_entry("1.0.0");
    entry.properties = [EntryProperty::new("olm.deprecated", "true")]
        .into_iter()
        .collect();
    let error = decide(&removal(&failed()).await, &Entry::new(entry), &bundle(&["v1"])).unwrap_err();
    assert!(error.to_string().contains("it is deprecated"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_loss_of_data_needs_a_flag_of_its_own() {
    let removal = removal(&failed()).await;
    let entry = Entry::new(bundle_entry("1.0.0"));
    let known = decide(&removal, &entry, &bundle(&["v1"])).unwrap();
    let unknown = decide(&removal, &entry, &bundle(&[])).unwrap();
    let text = unknown.text(&removal);
    assert!(
        text.contains("loses    unknown fields of CustomResourceDefinition etcds.example.com"),
        "{text}"
    );
    let agreed = |flags: &[&str], rollback: &Rollback| {
        let agreed = is_agreed(&rollback_args(flags), rollback, Path::new("saved.yaml"));
        agreed.map_err(|error| error.to_string())
    };
    assert_eq!(agreed(&["--yes"], &known), Ok(true));
    assert_eq!(agreed(&["--yes", "--accept-data-loss"], &unknown), Ok(true));
    let refused = agreed(&["--yes"], &unknown).unwrap_err();
    assert!(refused.contains("use --accept-data-loss"), "{refused}");
}

/// When the plan exists, the operator is removed already: what the user agreed to must not be asked again.
#[tokio::test(start_paused = true)]
async fn only_what_was_not_shown_keeps_a_plan_from_approval() {
    let removal = removal(&failed()).await;
    let entry = Entry::new(bundle_entry("1.0.0"));
    let known = || decide(&removal, &entry, &bundle(&["v1"])).unwrap();
    let shown = |operators: &[&str], definition: &str| Shown {
        operators: operators.iter().map(|csv| (*csv).to_owned()).collect(),
        preview: serde_json::from_value(
            json!({"version": 1, "definitions": [{"name": definition, "fieldsRemoved": ["v1: spec.size"]}]}),
        )
        .unwrap(),
        ..Shown::default()
    };
    let (target, two) = (&["etcd.v1.0.0"][..], &["base.v1.0.0", "etcd.v1.0.0"][..]);
    let other = "others.example.com";
    let loses = "also removes fields or versions of CustomResourceDefinition others.example.com";
    for (operators, definition, expected) in [
        (target, CRD, None),
        (target, other, Some(loses)),
        (two, CRD, Some("also installs base.v1.0.0")),
        (&["base.v1.0.0"][..], CRD, Some("does not install etcd.v1.0.0")),
    ] {
        let found = known().unforeseen(&shown(operators, definition));
        assert_eq!(found.as_deref(), expected, "{operators:?} {definition}");
    }
    // A definition that only gains something takes nothing from anybody; one that loses a version does.
    for (change, expected) in [
        (json!({"name": other, "fieldsAdded": ["v1: spec.size"]}), None),
        (json!({"name": other, "versionsRemoved": ["v1"]}), Some(loses)),
    ] {
        let mut shown = shown(target, other);
        shown.preview =
            serde_json::from_value(json!({"version": 1, "definitions": [change.clone()]})).unwrap();
        assert_eq!(known().unforeseen(&shown).as_deref(), expected, "{change}");
    }
    let also = Rollback {
        also: vec!["base.v1.0.0".to_owned()],
        ..known()
    };
    assert_eq!(also.unforeseen(&shown(two, CRD)), None);
    let text = also.text(&removal);
    assert!(
        text.contains("unless OLM does; it may also install base.v1.0.0\n"),
        "{text}"
    );
    let accepts = Rollback {
        accepts_loss: true,
        ..known()
    };
    assert_eq!(accepts.unforeseen(&shown(target, other)), None);
    let unknown = decide(&removal, &entry, &bundle(&[])).unwrap();
    assert_eq!(unknown.unforeseen(&shown(target, other)), None);
}

#[tokio::test(start_paused = true)]
async fn an_operator_that_changed_since_is_noticed() {
    let cluster = failed();
    let shown = removal(&cluster).await;
    assert!(is_same(&shown, &removal(&cluster).await));
    let pending = json!({"status": {"phase": "Pending"}});
    cluster.edit("ClusterServiceVersion", "shop", "etcd.v2.0.0", &pending);
    assert!(!is_same(&shown, &removal(&cluster).await));
    let cluster = failed();
    let channel = json!({"spec": {"channel": "beta"}});
    cluster.edit("Subscription", "shop", "db", &channel);
    assert!(!is_same(&shown, &removal(&cluster).await));
    // Its data would be lost without a question.
    let cluster = without_objects();
    let shown = removal(&cluster).await;
    cluster.put(etcd_in("shop", "new"));
    let now = removal(&cluster).await;
    assert!(!is_same(&shown, &now) && is_same(&now, &shown));
}

/// Without the file, an interrupted rollback would lose the Subscription.
#[tokio::test(start_paused = true)]
async fn the_subscription_is_in_a_file_until_it_is_created() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("saved.yaml");
    let cluster = failed();
    let removal = removal(&cluster).await;
    let rollback = decide(&removal, &Entry::new(bundle_entry("1.0.0")), &bundle(&["v1"])).unwrap();
    cluster.on_request(|request| {
        let is_deletion = request.verb == Verb::Delete && request.kind.kind == "ClusterServiceVersion";
        is_deletion.then(|| Fault::Refuse(Refusal::forbidden("it is forbidden")))
    });
    let (client, _link) = cluster.connect();
    let here = Cluster::of(client, "shop");
    let wait = WaitArgs {
        timeout: Some(Duration::from_secs(60)),
    };
    let error = replace(&here, &removal, &rollback, &wait, &file)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("kubectl create -f "), "{error}");
    let saved = std::fs::read_to_string(&file).unwrap();
    assert!(saved.contains("startingCSV: etcd.v1.0.0"), "{saved}");
    let writes = cluster.log().writes.len();
    let error = replace(&here, &removal, &rollback, &wait, &file)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("nothing was changed"), "{error}");
    assert_eq!(cluster.log().writes.len(), writes);
}

#[tokio::test(start_paused = true)]
async fn a_missing_earlier_version_is_reported() {
    let cluster = failed();
    let before = removal(&cluster).await;
    assert_eq!(
        decide::wanted(&before, "db", Some("0.9.0"), &[]).unwrap(),
        "0.9.0"
    );
    let of = |csvs: &[ClusterServiceVersion]| Removal {
        csvs: csvs.to_vec(),
        ..before.clone()
    };
    let [oldest, newest] = before.csvs.as_slice() else {
        panic!("{:?}", before.csvs);
    };
    // OLM deleted the older version, as the newer one had succeeded before it failed.
    let alone = of(std::slice::from_ref(newest));
    let mut complete = plan("install-0", "Complete", true);
    complete["metadata"]["ownerReferences"] = json!([{"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
        "name": "db", "uid": "u"}]);
    let completed = |csv: &str| -> InstallPlan {
        let mut complete = complete.clone();
        complete["spec"]["clusterServiceVersionNames"] = json!([csv]);
        serde_json::from_value(complete).unwrap()
    };
    let wanted = decide::wanted(&alone, "db", None, &[completed("etcd.v1.0.0")]);
    assert_eq!(wanted.unwrap(), "etcd.v1.0.0");
    let error = decide::wanted(&alone, "db", None, &[completed("etcd.v0.9.0")]).unwrap_err();
    assert!(error.to_string().ends_with("use --to etcd.v1.0.0"), "{error}");
    // The plan of another Subscription, or of another object with its name, says nothing about this one.
    for (kind, owner) in [("Subscription", "other"), ("CatalogSource", "db")] {
        let mut others = completed("etcd.v1.0.0");
        let owners = others.metadata.owner_references.as_mut().unwrap();
        (owners[0].kind, owners[0].name) = (kind.to_owned(), owner.to_owned());
        let error = decide::wanted(&alone, "db", None, &[others]).unwrap_err();
        assert!(
            error.to_string().contains("no completed InstallPlan"),
            "{kind} {owner}: {error}"
        );
    }
    let phase = |phase: &str| -> ClusterServiceVersion {
        let mut csv = serde_json::to_value(oldest).unwrap();
        csv["status"]["phase"] = json!(phase);
        serde_json::from_value(csv).unwrap()
    };
    for (removal, expected) in [
        (of(&[]), "none of its versions is installed"),
        (of(&[phase("Failed")]), "etcd.v1.0.0 replaces no version"),
        (of(&[phase("Succeeded")]), "etcd.v1.0.0 has succeeded"),
        (
            of(&[phase("Installing")]),
            "etcd.v1.0.0 has not failed, it is Installing; wait",
        ),
        (
            Removal {
                subscription: None,
                ..before.clone()
            },
            "it has no Subscription",
        ),
    ] {
        let error = decide::wanted(&removal, "db", None, &[]).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    // An upgrade that was approved although the version before had failed.
    let mut next = serde_json::to_value(newest).unwrap();
    next["status"]["phase"] = json!("Pending");
    let next: ClusterServiceVersion = serde_json::from_value(next).unwrap();
    for (former, expected) in [("Failed", Some("etcd.v1.0.0")), ("Replacing", None)] {
        let wanted = decide::wanted(&of(&[phase(former), next.clone()]), "db", None, &[]);
        assert_eq!(wanted.ok().as_deref(), expected, "{former}");
    }
    // OLM adopts the newest version, and then there is a Subscription to roll back.
    let package = json!({"type": "olm.package", "value": {"packageName": "etcd", "version": "2.0.0"}});
    let mut named = newest.clone();
    let properties = json!({"properties": [package]}).to_string();
    named
        .annotations_mut()
        .insert(olm_api::labels::PROPERTIES.to_owned(), properties);
    let unsubscribed = Removal {
        subscription: None,
        flags: "-n shop".to_owned(),
        ..of(&[oldest.clone(), named])
    };
    assert_eq!(
        decide::wanted(&unsubscribed, "etcd.v2.0.0", None, &[])
            .unwrap_err()
            .to_string(),
        "cannot roll back etcd.v2.0.0: it has no Subscription; subscribe to it with `kubectl operator install etcd --version \
         etcd.v2.0.0 -n shop`, then go back with `kubectl operator rollback etcd -n shop`"
    );
    let error = decide(&alone, &Entry::new(bundle_entry("2.0.0")), &bundle(&["v1"])).unwrap_err();
    assert!(
        error.to_string().contains("is the version that is installed"),
        "{error}"
    );
}

/// Such as one that a former Subscription left.
#[tokio::test(start_paused = true)]
async fn a_version_that_the_newest_does_not_lead_to_is_not_gone_back_to() {
    for (phase, expected) in [("Failed", Some("etcd.v1.0.0")), ("Pending", None)] {
        let cluster = failed();
        let mut lone = csv("0.5.0", "Failed", "");
        lone["metadata"]["labels"] = json!({"operators.coreos.com/etcd.shop": ""});
        cluster.put(lone);
        let change = json!({"status": {"phase": phase}});
        cluster.edit("ClusterServiceVersion", "shop", "etcd.v2.0.0", &change);
        let removal = removal(&cluster).await;
        assert_eq!(removal.csvs[0].name_any(), "etcd.v0.5.0");
        let wanted = decide::wanted(&removal, "db", None, &[]);
        assert_eq!(wanted.ok().as_deref(), expected, "{phase}");
    }
}

/// Such a version waits for a Role that its plan could not create.
#[tokio::test(start_paused = true)]
async fn a_version_that_waits_for_objects_of_its_failed_plan_is_rolled_back() {
    let pending = json!({"status": {"phase": "Pending"}});
    let cluster = failed();
    cluster.edit("ClusterServiceVersion", "shop", "etcd.v2.0.0", &pending);
    let upgraded = removal(&cluster).await;
    let plan_of =
        |phase: &str| -> InstallPlan { serde_json::from_value(plan("install-2", phase, true)).unwrap() };
    for (phase, expected) in [("Failed", Some("etcd.v1.0.0")), ("Installing", None)] {
        let wanted = decide::wanted(&upgraded, "db", None, &[plan_of(phase)]);
        assert_eq!(wanted.ok().as_deref(), expected, "{phase}");
    }
    // Nothing was installed before.
    let [_, newest] = upgraded.csvs.as_slice() else {
        panic!("{:?}", upgraded.csvs);
    };
    let mut first = newest.clone();
    first.spec.replaces = None;
    let way =
        "uninstall it with `kubectl operator uninstall db -n shop`, correct the cause and install it again";
    for (csvs, expected) in [
        (
            vec![first],
            "etcd.v2.0.0 replaces no version, so there is nothing to go back to; ",
        ),
        (vec![newest.clone()], "if etcd.v2.0.0 is the first version, "),
        (Vec::new(), "none of its versions is installed; "),
    ] {
        let mut removal = Removal {
            csvs,
            ..upgraded.clone()
        };
        let status = json!({"installPlanRef": {"name": "install-2"}, "lastUpdated": null});
        let subscription = removal.subscription.as_mut().unwrap();
        subscription.status = serde_json::from_value(status).unwrap();
        let error = decide::wanted(&removal, "db", None, &[plan_of("Failed")]);
        let text = error.unwrap_err().to_string();
        assert!(text.contains(&format!("{expected}{way}")), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn definitions_that_only_the_older_version_has_are_asked_about_as_well() {
    let cluster = failed();
    let (client, _link) = cluster.connect();
    let mut removal = removal(&cluster).await;
    removal.definitions.clear();
    let names = [CRD, "absent.example.com"].map(str::to_owned).into_iter();
    uninstall::add_definitions(&client, &mut removal, names)
        .await
        .unwrap();
    let found: Vec<(&str, bool)> = removal
        .definitions
        .iter()
        .map(|definition| (definition.name.as_str(), definition.has_objects()))
        .collect();
    assert_eq!(found, [(CRD, true)]);
}

#[tokio::test(start_paused = true)]
async fn the_plan_that_is_not_complete_is_named() {
    let before = removal(&failed()).await;
    let plan_of = |phase: &str, approved: bool| -> InstallPlan {
        serde_json::from_value(plan("install-2", phase, approved)).unwrap()
    };
    let mut removal = Removal {
        csvs: Vec::new(),
        flags: "-n shop".to_owned(),
        ..before
    };
    let subscription = removal.subscription.as_mut().unwrap();
    let status = json!({"installPlanRef": {"name": "install-2"}, "lastUpdated": null});
    subscription.status = serde_json::from_value(status).unwrap();
    let error = |removal: &Removal, plan| {
        let wanted = decide::wanted(removal, "db", None, &[plan]);
        wanted.unwrap_err().to_string()
    };
    assert_eq!(
        error(&removal, plan_of("RequiresApproval", false)),
        "cannot roll back db: none of its versions is installed; approve InstallPlan install-2 with `kubectl operator approve \
         install-2 -n shop`, or choose a version with --to"
    );
    let running: ClusterServiceVersion = serde_json::from_value(csv("1.0.0", "Succeeded", "")).unwrap();
    removal.csvs = vec![running];
    assert_eq!(
        error(&removal, plan_of("Installing", true)),
        "cannot roll back db: etcd.v1.0.0 has succeeded, and InstallPlan install-2 is not complete; to stay there use `kubectl \
         operator hold db -n shop`, then delete the plan with `kubectl delete installplan install-2 -n shop`"
    );
}
