use std::collections::BTreeSet;

use olm_resolver::objects::Objects;
use olm_testing::cluster::{FakeCluster, Fault, Refusal};
use olm_testing::samples::ETCD_CATALOG as CATALOG;
use serde_json::{Value, json};

use super::*;
use crate::args::{Args, Command};
use crate::catalogs::from_directory;
use crate::operators::tests::{csv, subscription};

/// A dependency of the newer version that no bundle provides.
const REQUIREMENT: &str =
    "- {type: olm.gvk.required, value: {group: example.com, version: v1, kind: Disk}}\n";

const OBJECTS: &str = "
apiVersion: operators.coreos.com/v1
kind: OperatorGroup
metadata: {name: og, namespace: shop}
---
apiVersion: operators.coreos.com/v1alpha1
kind: Subscription
metadata: {name: db, namespace: shop}
spec: {name: etcd, channel: stable, source: cat, sourceNamespace: olm}
status: {installedCSV: etcd.v1.0.0, currentCSV: etcd.v1.0.0}
---
apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata: {name: etcd.v1.0.0, namespace: shop}
spec: {version: 1.0.0, displayName: etcd, install: {strategy: deployment}}
status: {phase: Succeeded}
---
apiVersion: operators.coreos.com/v1alpha1
kind: Subscription
metadata: {name: other, namespace: shop}
spec: {name: etcd, channel: beta, source: cat, sourceNamespace: olm}
";

fn question() -> Question {
    question_of(OBJECTS)
}

fn question_of(objects: &str) -> Question {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("catalog.yaml"),
        format!("{CATALOG}{REQUIREMENT}"),
    )
    .unwrap();
    let objects = Objects::read(objects).unwrap();
    let keys: BTreeSet<_> = objects.catalog_keys("shop");
    let catalogs = from_directory(folder.path(), &keys).unwrap();
    objects.question("shop", "olm", catalogs.contents)
}

#[test]
fn an_upgrade_that_is_held_back_is_explained() {
    let explained = explain(&question(), Some("db")).unwrap();
    assert!(explained.unsatisfiable.is_empty());
    insta::assert_snapshot!(explained, @r"
    db: has etcd.v1.0.0, and is not upgraded now
      its channel offers more, but
      - subscription db asks for package etcd, channel stable of catalog olm/cat, with etcd.v1.0.0 installed
        - etcd.v1.1.0 (channel stable of catalog olm/cat)
          - requires an operator providing an API with group: example.com, version: v1, kind: Disk
            - not installed, and no usable catalog offers it: add a catalog that does
    ");
}

#[test]
fn what_cannot_be_resolved_is_explained_with_the_way_out() {
    let explained = explain(&question(), Some("other")).unwrap();
    assert_eq!(explained.unsatisfiable.len(), 1);
    insta::assert_snapshot!(explained, @r"
    other: cannot be resolved
      constraints not satisfiable: no operators found in channel beta of package etcd in the catalog referenced by subscription other, subscription other exists
      - subscription other: no operators found in channel beta of package etcd in the catalog referenced by subscription
        other
        - channels of package etcd: stable
      to resolve: delete subscription other in namespace shop, if it is not needed
    ");
}

#[test]
fn an_unknown_subscription_is_an_error_that_names_the_known_ones() {
    let error = explain(&question(), Some("nope")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "namespace shop has no subscription nope: its subscriptions are db, other"
    );
}

#[test]
fn objects_that_do_not_run_are_reported_with_their_status() {
    let failed = "{phase: Failed, reason: UnsupportedOperatorGroup, message: \"no such\\nmode\"}";
    let question = question_of(&OBJECTS.replace("{phase: Succeeded}", failed));
    let told = "etcd.v1.0.0 is Failed (UnsupportedOperatorGroup): no such mode";
    for (name, is_told) in [(Some("db"), true), (None, true), (Some("other"), false)] {
        let text = explain(&question, name).unwrap().to_string();
        assert_eq!(text.lines().any(|line| line == told), is_told, "{text}");
    }
    let text = explain(&question_of(OBJECTS), None).unwrap().to_string();
    assert!(!text.contains("etcd.v1.0.0 is"), "{text}");
}

#[test]
fn a_deleted_csv_is_reported_as_not_coming_back() {
    let mut parts: Vec<&str> = OBJECTS.split("---").collect();
    parts.remove(2);
    let question = question_of(&parts.join("---"));
    let text = explain(&question, Some("db")).unwrap().to_string();
    assert_eq!(
        text,
        "db: etcd.v1.0.0, which it has, was deleted, and OLM does not restore it; delete and recreate the subscription with \
         etcd.v1.0.0 in spec.startingCSV (kubectl delete subscription db -n shop)\n"
    );
}

#[test]
fn an_operator_at_the_channel_head_reports_that() {
    let objects = OBJECTS
        .replace("etcd.v1.0.0", "etcd.v1.1.0")
        .replace("version: 1.0.0", "version: 1.1.0");
    let text = explain(&question_of(&objects), Some("db")).unwrap().to_string();
    assert_eq!(
        text,
        "db: has etcd.v1.1.0, the head of channel stable; there is no newer version\n"
    );
}

#[test]
fn no_operator_group_and_two_are_answers() {
    let parts: Vec<&str> = OBJECTS.split("---").collect();
    let second = parts[0].replace("name: og", "name: og2");
    for objects in [parts[1..].join("---"), format!("{second}---{OBJECTS}")] {
        for (name, names) in [(Some("db"), "db"), (None, "db, other")] {
            let explained = explain(&question_of(&objects), name).unwrap();
            let text = explained.to_string();
            assert!(
                text.starts_with(&format!("{names}: cannot be resolved\n  found ")),
                "{text}"
            );
            assert_eq!(explained.unsatisfiable.len(), 1, "{text}");
        }
    }
}

#[test]
fn the_plan_that_is_waited_for_is_named() {
    let waits = "{installedCSV: etcd.v1.0.0, currentCSV: etcd.v1.1.0, state: UpgradePending, installPlanRef: {name: install-1}}";
    let objects = OBJECTS.replace("{installedCSV: etcd.v1.0.0, currentCSV: etcd.v1.0.0}", waits);
    let manual = objects.replace(
        "channel: stable,",
        "channel: stable, installPlanApproval: Manual,",
    );
    for (objects, part) in [
        (objects, "InstallPlan install-1 is in progress"),
        (
            manual,
            "InstallPlan install-1 requires approval (kubectl operator approve install-1 -n shop)",
        ),
    ] {
        let text = explain(&question_of(&objects), Some("db")).unwrap().to_string();
        assert!(
            text.starts_with(&format!("db: waits for etcd.v1.1.0: {part}")),
            "{text}"
        );
    }
}

#[test]
fn the_cause_comes_first_and_what_is_next_is_kept() {
    let cause = Cause {
        name: "db".to_owned(),
        position: Position::default(),
        state: State::Failed,
        message: "ClusterServiceVersion etcd.v1.0.0: no group".to_owned(),
        names_plan: false,
        way_out: Some("create one".to_owned()),
    };
    let failed = "{phase: Failed, message: no group}";
    let question = question_of(&OBJECTS.replace("{phase: Succeeded}", failed));
    let explained = explain(&question, None).unwrap();
    let told = |name: Option<&str>, cause: &Cause| {
        let causes = std::slice::from_ref(cause);
        let explained = with_causes(explained.clone(), causes, name);
        let fine = is_fine(&explained, causes, name);
        (for_people(explained, causes, name).to_string(), fine)
    };
    let (text, fine) = told(None, &cause);
    let first = "db: Failed: ClusterServiceVersion etcd.v1.0.0: no group\n  to resolve: create one\n";
    assert!(text.contains(first) && !fine, "{text}");
    assert!(!text.contains("etcd.v1.0.0 is Failed"), "it is told once: {text}");
    let mut resolved = explained.clone();
    for (next, is_told) in [("etcd.v1.1.0", false), ("etcd.v1.2.0", true)] {
        let unpacking = Cause {
            message: "bundle etcd.v1.1.0: unpack job not completed".to_owned(),
            ..cause.clone()
        };
        let mut standings = resolved.standings.iter_mut();
        let standing = standings.find(|standing| standing.subscription == "db").unwrap();
        (standing.next, standing.state) = (Some(next.to_owned()), format!("resolves to {next}"));
        let text = with_causes(resolved.clone(), &[unpacking], None).to_string();
        assert_eq!(text.contains("; resolves to"), is_told, "{text}");
    }
    // The cause of an unresolved Subscription is shown beside its tree.
    let other = Cause {
        name: "other".to_owned(),
        ..cause.clone()
    };
    let (text, _) = told(Some("other"), &other);
    assert!(
        text.ends_with("to resolve: create one\netcd.v1.0.0 is Failed: no group\n")
            || text.contains("other: Failed: "),
        "{text}"
    );
    let unresolved = Cause {
        state: State::Unresolved,
        ..other
    };
    let (text, _) = told(Some("other"), &unresolved);
    assert!(!text.contains("other: Unresolved"), "the tree tells it: {text}");
}

#[test]
fn a_failed_upgrade_begins_with_its_cause_and_the_way_back() {
    let failed = "---
apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata: {name: etcd.v1.1.0, namespace: shop}
spec: {version: 1.1.0, replaces: etcd.v1.0.0, displayName: etcd, OWNED install: {strategy: deployment}}
status: {phase: Failed, reason: InstallCheckFailed, message: install timeout}
";
    // The InstallPlan of the next version may wait for approval.
    for current in ["etcd.v1.1.0", "etcd.v1.2.0"] {
        let status = format!("{{installedCSV: etcd.v1.1.0, currentCSV: {current}}}");
        let objects = OBJECTS.replace("{installedCSV: etcd.v1.0.0, currentCSV: etcd.v1.0.0}", &status);
        let objects = objects.replace("{phase: Succeeded}", "{phase: Replacing}");
        // Both provide the same API.
        let owned =
            "customresourcedefinitions: {owned: [{name: etcds.example.com, kind: Etcd, version: v1}]},";
        let objects = format!("{objects}{failed}").replace("OWNED", owned);
        let objects = objects.replace(
            "spec: {version: 1.0.0,",
            &format!("spec: {{version: 1.0.0, {owned}"),
        );
        let question = question_of(&objects);
        let cause = Cause {
            name: "db".to_owned(),
            position: Position::default(),
            state: State::Failed,
            message: "ClusterServiceVersion etcd.v1.1.0: InstallCheckFailed: install timeout".to_owned(),
            names_plan: false,
            way_out: Some("raise the quota".to_owned()),
        };
        let causes = [cause];
        let explained = with_causes(explain(&question, Some("db")).unwrap(), &causes, Some("db"));
        assert_eq!(explained.standings.len(), 1, "JSON has the state, too");
        let document = serde_json::to_value(&explained).unwrap();
        assert_eq!(document["subscriptions"][0]["wayOut"], "raise the quota");
        let text = for_people(explained, &causes, Some("db")).to_string();
        let plan = olm_resolver::plan::plan(&question).unwrap().to_string();
        let way_back =
            "to resolve: correct the cause, or go back to etcd.v1.0.0: kubectl operator rollback db -n shop";
        for (text, heading, way_out) in [
            (
                text,
                "version etcd.v1.1.0 failed\n",
                "to resolve: raise the quota",
            ),
            (plan, "version etcd.v1.1.0 failed: ", way_back),
        ] {
            let at = |part: &str| {
                text.find(part)
                    .unwrap_or_else(|| panic!("{part} is not in {text}"))
            };
            let cause = at("ClusterServiceVersion etcd.v1.1.0: InstallCheckFailed: install timeout");
            assert!(at(heading) < cause && cause < at(way_out), "{text}");
            assert!(at(way_out) < at("until then nothing newer resolves"), "{text}");
            assert_eq!(text.matches("install timeout").count(), 1, "{text}");
            assert!(!text.contains("destroys"), "{text}");
        }
    }
}

/// A hold and a pin are no failures, but the answer to why nothing is upgraded.
#[test]
fn held_and_pinned_operators_are_explained() {
    let explained = explain(&question(), Some("db")).unwrap();
    for (state, message, names_plan, first) in [
        (
            State::Held,
            "held within =1.0.0",
            false,
            "db: Held: held within =1.0.0; has etcd.v1.0.0, and is not upgraded now\n",
        ),
        (
            State::Pinned,
            "pinned at etcd.v1.0.0; InstallPlan install-1 waits for approval",
            true,
            "db: Pinned: pinned at etcd.v1.0.0; InstallPlan install-1 waits for approval\n",
        ),
    ] {
        let cause = Cause {
            name: "db".to_owned(),
            position: Position::default(),
            state,
            message: message.to_owned(),
            names_plan,
            way_out: None,
        };
        let causes = [cause];
        let explained = with_causes(explained.clone(), &causes, Some("db"));
        assert!(is_fine(&explained, &causes, Some("db")));
        let text = for_people(explained, &causes, Some("db")).to_string();
        assert!(text.starts_with(first), "{text}");
        assert!(text.contains("its channel offers more"), "{text}");
    }
}

/// Reads the namespace `shop` of a cluster, as the command does without flags.
async fn read(cluster: &FakeCluster) -> anyhow::Result<Read> {
    read_in(cluster, "shop").await
}

async fn read_in(cluster: &FakeCluster, namespace: &str) -> anyhow::Result<Read> {
    let words = ["kubectl-operator", "explain"];
    let Command::Explain(args) = <Args as clap::Parser>::try_parse_from(words).unwrap().command else {
        panic!("it is another command");
    };
    let (client, _link) = cluster.connect();
    Box::pin(super::question(&Cluster::of(client, namespace), &args.cluster)).await
}

/// OLM reads the catalog with rights of its own.
#[tokio::test(start_paused = true)]
async fn a_right_that_the_user_lacks_is_an_error_and_no_failure_of_an_operator() {
    for (code, is_answer) in [(403, false), (500, true)] {
        let cluster = FakeCluster::new();
        cluster.put(subscription("db", &json!({})));
        cluster.put(
            json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
            "metadata": {"name": "og", "namespace": "shop"}, "spec": {}}),
        );
        cluster.put(
            json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
            "metadata": {"name": "cat", "namespace": "olm"}, "spec": {"sourceType": "grpc", "image": "x:v1"}}),
        );
        cluster.on_request(move |request| {
            let is_pod = request.kind.kind == "Pod";
            is_pod.then(|| Fault::Refuse(Refusal::new(code, "Nope", "pods is refused")))
        });
        let question = read(&cluster).await.unwrap().question;
        let explained = explain(&question, None).unwrap();
        let plan = olm_resolver::plan::plan(&question).unwrap();
        for unsatisfiable in [&explained.unsatisfiable, &plan.unsatisfiable] {
            assert_eq!(unsatisfiable.len(), 1, "{code}");
            let result = catalogs::require_right(&question.problem, unsatisfiable);
            let error = result.err().map(|error| error.to_string()).unwrap_or_default();
            assert_eq!(error.is_empty(), is_answer, "{code}: {error}");
            for part in [
                "cannot read catalog olm/cat: your user lacks the right",
                "no fault of an operator",
                "pods is refused",
                "an administrator of namespace olm can grant it",
                "get and create on pods/portforward",
            ] {
                assert!(is_answer || error.contains(part), "{part}: {error}");
            }
        }
    }
}

/// Their Subscription was deleted. OLM resolves nothing then, so only their own state is explained.
#[tokio::test(start_paused = true)]
async fn operators_without_a_subscription_have_two_ways_out() {
    let named = |version: &str, phase: &str, message: &str| -> Value {
        let package = json!({"type": "olm.package", "value": {"packageName": "etcd", "version": version}});
        let properties = json!({"properties": [package]}).to_string();
        let mut csv = csv(version, phase, message);
        csv["metadata"]["annotations"] = json!({olm_api::labels::PROPERTIES: properties});
        csv
    };
    let cluster = FakeCluster::new();
    let mut next = named("2.0.0", "Failed", "install timeout");
    next["spec"]["replaces"] = json!("etcd.v1.0.0");
    cluster.put(next);
    cluster.put(named("1.0.0", "Replacing", "being replaced"));
    let read_failed = read(&cluster).await.unwrap();
    let (question, causes) = (read_failed.question, read_failed.causes);
    let explained = explain(&question, None).unwrap();
    assert!(!is_fine(&explained, &causes, None));
    let text = for_people(explained, &causes, None).to_string();
    assert!(
        text.starts_with("etcd.v2.0.0: Failed: ClusterServiceVersion etcd.v2.0.0: install timeout\n"),
        "{text}"
    );
    assert!(
        text.contains(
            "it has no Subscription: subscribe to it with `kubectl operator install etcd --version etcd.v2.0.0 -n shop`, then go \
             back with `kubectl operator rollback etcd -n shop`; or remove it with `kubectl operator uninstall etcd.v2.0.0 -n shop`"
        ),
        "{text}"
    );
    assert!(
        !text.contains("cannot be resolved") && !text.contains("destroys"),
        "{text}"
    );

    let cluster = FakeCluster::new();
    cluster.put(named("1.0.0", "Succeeded", ""));
    let error = read(&cluster).await.err().map(|error| error.to_string());
    let error = error.unwrap_or_default();
    assert!(
        error.ends_with(
            "; etcd.v1.0.0 is installed without one: subscribe to it with `kubectl operator install etcd --version etcd.v1.0.0 -n \
             shop`; or remove it with `kubectl operator uninstall etcd.v1.0.0 -n shop`"
        ),
        "{error}"
    );
}

/// Upstream's package-server is a part of OLM, which a user should not remove.
#[tokio::test(start_paused = true)]
async fn the_package_server_of_olm_needs_no_subscription() {
    let with = |namespace: &str, phase: &str| {
        let mut csv = csv("1.0.0", phase, "install timeout");
        csv["metadata"] = json!({"namespace": namespace, "name": "packageserver"});
        let cluster = FakeCluster::new();
        cluster.put(csv);
        cluster
    };
    for (namespace, is_part) in [("olm", true), ("shop", false)] {
        let error = read_in(&with(namespace, "Succeeded"), namespace).await.err();
        let error = error.map(|error| error.to_string()).unwrap_or_default();
        assert!(!error.is_empty());
        assert_eq!(!error.contains("packageserver"), is_part, "{error}");
        let failed = read_in(&with(namespace, "Failed"), namespace).await.unwrap();
        let explained = explain(&failed.question, None).unwrap();
        let text = for_people(explained, &failed.causes, None).to_string();
        assert!(text.contains("packageserver: Failed: "), "{text}");
        assert_eq!(
            !text.contains("operator uninstall packageserver"),
            is_part,
            "{text}"
        );
    }
}
