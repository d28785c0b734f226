//! Copies that a change triggers.

use std::sync::Arc;

use olm_api::v1::OperatorGroup;
use olm_runtime::{NamespacedName, store::Change};
use serde_json::{Value, json};

use crate::copied_csv::triggers::{Keys, Places, by_copy, by_group, by_namespace, by_original, delay};
use crate::csv_sketch::Sketch;
use crate::test_env::{csv, decode, group};

/// Namespaces `ns`, `one` and `two`; a copy in `stray`.
struct Cluster {
    groups: Vec<Arc<OperatorGroup>>,
}

impl Places for Cluster {
    fn groups_in(&self, _: &str) -> Vec<Arc<OperatorGroup>> {
        self.groups.clone()
    }

    fn namespaces(&self) -> Vec<String> {
        ["ns", "one", "two"].map(str::to_owned).into()
    }

    fn copies_of(&self, _: &NamespacedName) -> Vec<String> {
        vec!["stray".to_owned()]
    }
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
        (came(&original()), 2),
        (went(&original()), 2),
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
            2,
        ),
        (
            changed(&original(), &sketch(|it| it["status"]["phase"] = json!("Failed"))),
            2,
        ),
        (
            changed(
                &original(),
                &sketch(|it| it["metadata"]["annotations"] = json!({"olm.operatorGroup": "x"})),
            ),
            2,
        ),
        (
            changed(
                &original(),
                &sketch(|it| it["metadata"]["uid"] = json!("another")),
            ),
            2,
        ),
        (
            changed(
                &original(),
                &sketch(|it| it["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z")),
            ),
            2,
        ),
        (came(&copy_from("ns")), 0),
    ];
    let everywhere = Cluster {
        groups: vec![targeting(&[""], "og")],
    };
    for (index, (change, woken)) in rows.iter().enumerate() {
        assert_eq!(by_original(change, &everywhere).len(), *woken, "row {index}");
    }
    let keys = |groups: Vec<Arc<OperatorGroup>>| shown(by_original(&came(&original()), &Cluster { groups }));
    assert_eq!(keys(vec![targeting(&[""], "og")]), ["ns/a in one", "ns/a in two"]);
    assert_eq!(
        keys(vec![targeting(&["ns", "two", "later"], "og")]),
        ["ns/a in later", "ns/a in two"]
    );
    assert_eq!(keys(vec![]), ["ns/a in stray"]);
    assert_eq!(
        keys(vec![targeting(&["one"], "og"), targeting(&["two"], "og")]),
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
fn a_group_wakes_the_copies_of_its_members_where_it_targets_or_did() {
    let members = ["a", "b"].map(str::to_owned);
    let places = Cluster { groups: Vec::new() };
    let keys = |change: &Change<OperatorGroup>| shown(by_group(change, &members, &places));
    let (one, two) = (targeting(&["ns", "one"], "og"), targeting(&["two"], "og"));
    assert_eq!(keys(&came(&one)), ["ns/a in one", "ns/b in one"]);
    assert_eq!(keys(&went(&one)), ["ns/a in one", "ns/b in one"]);
    assert_eq!(
        keys(&changed(&one, &two)),
        ["ns/a in one", "ns/a in two", "ns/b in one", "ns/b in two"]
    );
    assert_eq!(
        keys(&changed(&one, &targeting(&["ns", "one"], "another"))).len(),
        2
    );
    assert_eq!(keys(&changed(&one, &targeting(&["ns", "one"], "og"))), [""; 0]);
    assert_eq!(keys(&changed(&one, &targeting(&[""], "og"))).len(), 4);
    assert_eq!(
        keys(&changed(&targeting(&[], "og"), &two)),
        ["ns/a in stray", "ns/a in two", "ns/b in stray", "ns/b in two"],
        "one that follows another finds what that left"
    );
}

#[test]
fn a_namespace_wakes_the_copies_in_it() {
    let groups = [targeting(&[""], "og")];
    let namespace = |metadata: Value| Arc::new(decode(json!({"metadata": metadata})));
    let keys = |change: &Change<_>, groups: &[Arc<OperatorGroup>]| {
        shown(by_namespace(change, groups, |_| vec!["a".to_owned()]))
    };
    let plain = namespace(json!({"name": "one"}));
    let labelled = namespace(json!({"name": "one", "labels": {"a": "b"}}));
    let going = namespace(json!({"name": "one", "deletionTimestamp": "2026-01-01T00:00:00Z"}));
    assert_eq!(keys(&came(&plain), &groups), ["ns/a in one"]);
    assert_eq!(keys(&changed(&plain, &labelled), &groups), [""; 0]);
    assert_eq!(keys(&changed(&plain, &going), &groups), ["ns/a in one"]);
    assert_eq!(keys(&went(&plain), &groups), ["ns/a in one"]);
    assert_eq!(keys(&came(&plain), &[targeting(&["one"], "og")]), ["ns/a in one"]);
    assert_eq!(keys(&came(&plain), &[targeting(&["two"], "og")]), [""; 0]);
}
