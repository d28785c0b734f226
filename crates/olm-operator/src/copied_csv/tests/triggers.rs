//! Copies that a change triggers.

use std::sync::Arc;

use olm_api::v1::OperatorGroup;
use olm_runtime::store::Change;
use serde_json::{Value, json};

use crate::copied_csv::triggers::{Keys, by_copy, by_group, by_namespace, by_original, delay};
use crate::csv_sketch::Sketch;
use crate::stores::Stores;
use crate::test_env::{csv, decode, group};

/// Namespaces `ns`, `one` and `two`; `a` and `b` in `ns`, with copies in `stray`.
fn cluster(groups: &[Arc<OperatorGroup>]) -> Stores {
    let stores = Stores::default();
    for name in ["ns", "one", "two"] {
        stores.namespaces.put(decode(json!({"metadata": {"name": name}})));
    }
    for name in ["a", "b"] {
        let mut csv = csv(name, "");
        stores.csv_sketches.put(Sketch::from_object(decode(csv.clone())));
        csv["metadata"]["namespace"] = json!("stray");
        csv["metadata"]["labels"] = json!({"olm.copiedFrom": "ns"});
        stores.csv_sketches.put(Sketch::from_object(decode(csv)));
    }
    for (index, group) in groups.iter().enumerate() {
        let mut group = OperatorGroup::clone(group);
        group.metadata.name = Some(format!("og{index}"));
        stores.groups.put(group);
    }
    stores
}

fn targeting(targets: &[&str], uid: &str) -> Arc<OperatorGroup> {
    let mut group = group("ns", "og", &[]);
    group["metadata"]["uid"] = json!(uid);
    group["status"] = json!({"namespaces": targets, "lastUpdated": null});
    Arc::new(decode(group))
}

fn sketch(change: impl FnOnce(&mut Value)) -> Arc<Sketch> {
    let mut csv = csv("a", "");
    csv["metadata"]["uid"] = json!("uid");
    csv["status"] = json!({"phase": "Succeeded"});
    change(&mut csv);
    Arc::new(Sketch::from_object(decode(csv)))
}

fn original() -> Arc<Sketch> {
    sketch(|_| {})
}

fn copy_from(from: &str) -> Arc<Sketch> {
    sketch(|csv| {
        csv["metadata"]["namespace"] = json!("far");
        csv["metadata"]["labels"] = json!({"olm.copiedFrom": from});
    })
}

fn came<K>(new: &Arc<K>) -> Change<K> {
    Change::Applied {
        old: None,
        new: Arc::clone(new),
    }
}

fn changed<K>(old: &Arc<K>, new: &Arc<K>) -> Change<K> {
    Change::Applied {
        old: Some(Arc::clone(old)),
        new: Arc::clone(new),
    }
}

fn went<K>(old: &Arc<K>) -> Change<K> {
    Change::Deleted { old: Arc::clone(old) }
}

fn shown(keys: Keys) -> Vec<String> {
    keys.iter().map(ToString::to_string).collect()
}

#[test]
fn an_original_wakes_its_copies_when_they_would_differ() {
    let rows = [
        (came(&original()), 3),
        (went(&original()), 3),
        (changed(&original(), &original()), 0),
        (
            changed(
                &original(),
                &sketch(|it| it["metadata"]["resourceVersion"] = json!("9")),
            ),
            0,
        ),
        (
            changed(&original(), &sketch(|it| it["spec"]["displayName"] = json!("x"))),
            3,
        ),
        (
            changed(&original(), &sketch(|it| it["status"]["phase"] = json!("Failed"))),
            3,
        ),
        (
            changed(
                &original(),
                &sketch(|it| it["metadata"]["annotations"] = json!({"olm.operatorGroup": "x"})),
            ),
            3,
        ),
        (
            changed(
                &original(),
                &sketch(|it| it["metadata"]["uid"] = json!("another")),
            ),
            3,
        ),
        (
            changed(
                &original(),
                &sketch(|it| it["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z")),
            ),
            3,
        ),
        (came(&copy_from("ns")), 0),
    ];
    let everywhere = cluster(&[targeting(&[""], "og")]);
    for (index, (change, woken)) in rows.iter().enumerate() {
        assert_eq!(by_original(change, &everywhere).len(), *woken, "row {index}");
    }
    let keys = |groups: &[Arc<OperatorGroup>]| shown(by_original(&came(&original()), &cluster(groups)));
    assert_eq!(
        keys(&[targeting(&[""], "og")]),
        ["ns/a in one", "ns/a in stray", "ns/a in two"]
    );
    assert_eq!(
        keys(&[targeting(&["ns", "two", "later"], "og")]),
        ["ns/a in later", "ns/a in stray", "ns/a in two"]
    );
    assert_eq!(keys(&[]), ["ns/a in stray"]);
    assert_eq!(
        keys(&[targeting(&["one"], "og"), targeting(&["two"], "og")]),
        ["ns/a in stray"]
    );
}

#[test]
fn only_a_phase_that_should_pass_lets_copies_wait() {
    let now = "2026-01-01T00:00:02Z".parse().unwrap();
    let moving = sketch(|csv| {
        csv["status"] = json!({"phase": "Installing", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    });
    let seconds = |change: &Change<Sketch>| delay(change, now).as_secs();
    assert_eq!(seconds(&came(&moving)), 3);
    assert_eq!(seconds(&changed(&moving, &original())), 0);
    assert_eq!(seconds(&went(&moving)), 0);
}

#[test]
fn a_copy_wakes_itself_and_frees_its_name() {
    let namesakes = |name: &str| {
        assert_eq!(name, "a");
        ["ns", "other", "far"].map(str::to_owned).into()
    };
    let keys = |change: &Change<Sketch>| shown(by_copy(change, namesakes));
    assert_eq!(keys(&came(&copy_from("ns"))), ["ns/a in far"]);
    assert_eq!(keys(&came(&copy_from("far"))), [""; 0], "of itself");
    assert_eq!(
        keys(&changed(&copy_from("ns"), &copy_from("ns"))),
        ["ns/a in far"]
    );
    assert_eq!(keys(&went(&copy_from("ns"))), ["ns/a in far", "other/a in far"]);
    assert_eq!(
        keys(&changed(&copy_from("third"), &copy_from("ns"))),
        ["ns/a in far", "other/a in far", "third/a in far"]
    );
    assert_eq!(keys(&came(&original())), [""; 0]);
    assert_eq!(keys(&went(&original())), ["far/a in ns", "other/a in ns"]);
}

#[test]
fn a_group_wakes_the_copies_of_its_members_where_it_targets_or_they_are() {
    let keys = |change: &Change<OperatorGroup>| {
        let there = match change {
            Change::Applied { new, .. } => vec![Arc::clone(new)],
            Change::Deleted { .. } => Vec::new(),
        };
        shown(by_group(change, &cluster(&there)))
    };
    let (one, two) = (targeting(&["ns", "one"], "og"), targeting(&["two"], "og"));
    assert_eq!(
        keys(&came(&one)),
        ["ns/a in one", "ns/a in stray", "ns/b in one", "ns/b in stray"]
    );
    assert_eq!(keys(&went(&one)), ["ns/a in stray", "ns/b in stray"]);
    assert_eq!(
        keys(&changed(&one, &two)),
        ["ns/a in stray", "ns/a in two", "ns/b in stray", "ns/b in two"]
    );
    assert_eq!(
        keys(&changed(&one, &targeting(&["ns", "one"], "another"))).len(),
        4
    );
    assert_eq!(keys(&changed(&one, &targeting(&["ns", "one"], "og"))), [""; 0]);
    assert_eq!(keys(&changed(&one, &targeting(&[""], "og"))).len(), 6);
}

#[test]
fn a_namespace_wakes_the_copies_in_it() {
    let groups = [targeting(&[""], "og")];
    let namespace = |metadata: Value| Arc::new(decode(json!({"metadata": metadata})));
    let keys =
        |change: &Change<_>, groups: &[Arc<OperatorGroup>]| shown(by_namespace(change, &cluster(groups)));
    let both = ["ns/a in one", "ns/b in one"];
    let plain = namespace(json!({"name": "one"}));
    let labelled = namespace(json!({"name": "one", "labels": {"a": "b"}}));
    let going = namespace(json!({"name": "one", "deletionTimestamp": "2026-01-01T00:00:00Z"}));
    assert_eq!(keys(&came(&plain), &groups), both);
    assert_eq!(keys(&changed(&plain, &labelled), &groups), [""; 0]);
    assert_eq!(keys(&changed(&plain, &going), &groups), both);
    assert_eq!(keys(&went(&plain), &groups), both);
    assert_eq!(keys(&came(&plain), &[targeting(&["one"], "og")]), both);
    assert_eq!(keys(&came(&plain), &[targeting(&["two"], "og")]), [""; 0]);
}
