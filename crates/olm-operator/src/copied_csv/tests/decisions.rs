//! Decisions about one copy.

use std::sync::Arc;

use olm_runtime::outcome::{Failure, FailureClass, Outcome, outcomes_for_tests};
use serde_json::{Value, json};

use crate::copied_csv::{
    CopyKey, Observed,
    content::Content,
    decide::{Reach, decide, reach},
    observe::settles_in,
    status::status,
};
use crate::csv_sketch::Sketch;
use crate::test_env::{csv, decode, group};

/// The original `ns/a` in its phase, as a member of `og`.
fn original(phase: &str, reason: &str) -> Value {
    let mut csv = csv("a", "");
    csv["metadata"]["uid"] = json!("original");
    csv["metadata"]["resourceVersion"] = json!("10");
    let annotations = &mut csv["metadata"]["annotations"];
    annotations["olm.operatorGroup"] = json!("og");
    annotations["olm.operatorNamespace"] = json!("ns");
    annotations["olm.targetNamespaces"] = json!("far");
    csv["status"] = json!({"phase": phase, "reason": reason, "message": "m"});
    csv
}

/// The copy in `far` that matches this original.
fn copy_of(original: &Value) -> Value {
    let mut copy = original.clone();
    copy["metadata"]["namespace"] = json!("far");
    copy["metadata"]["uid"] = json!("copy");
    copy["metadata"]["resourceVersion"] = json!("20");
    copy["metadata"]["labels"]["olm.copiedFrom"] = json!("ns");
    copy["metadata"]["annotations"]
        .as_object_mut()
        .unwrap()
        .remove("olm.targetNamespaces");
    copy["status"]["reason"] = json!("Copied");
    copy["status"]["message"] = json!("The operator is running in ns but is managing this namespace");
    copy
}

fn targeting(namespaces: &[&str]) -> Value {
    let mut group = group("ns", "og", namespaces);
    group["status"] = json!({"namespaces": if namespaces.is_empty() { &[""][..] } else { namespaces }, "lastUpdated": null});
    group
}

/// Input of a reconcile: a succeeded original whose group targets `far`, without a copy.
struct Case {
    original: Option<Value>,
    groups: Vec<Value>,
    there: Option<Value>,
    namespace_takes: bool,
    is_switched_off: bool,
}

impl Case {
    fn new() -> Self {
        Self {
            original: Some(original("Succeeded", "InstallSucceeded")),
            groups: vec![targeting(&["far"])],
            there: None,
            namespace_takes: true,
            is_switched_off: false,
        }
    }

    /// The case with its copy.
    fn copied() -> Self {
        Self::new().with(|case| case.there = case.original.as_ref().map(copy_of))
    }

    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    fn change_copy(self, change: impl FnOnce(&mut Value)) -> Self {
        self.with(|case| change(case.there.as_mut().unwrap()))
    }

    fn change_original(self, change: impl FnOnce(&mut Value)) -> Self {
        self.with(|case| change(case.original.as_mut().unwrap()))
    }

    fn observed(&self) -> Observed {
        let sketch = |object: &Value| Arc::new(Sketch::from_object(decode(object.clone())));
        let content = |object: &Value| Arc::new(Content::read(decode(object.clone())).unwrap());
        let original = self.original.as_ref().map(sketch);
        let now = "2026-01-01T00:01:00Z".parse().unwrap();
        Observed {
            key: CopyKey {
                from: "ns".into(),
                name: "a".into(),
                to: "far".into(),
            },
            settles_in: original.as_ref().and_then(|original| settles_in(original, now)),
            content: self
                .original
                .as_ref()
                .filter(|_| original.as_ref().is_some_and(|it| it.original().is_some()))
                .map(content),
            original,
            groups: self
                .groups
                .iter()
                .map(|group| Arc::new(decode(group.clone())))
                .collect(),
            namespace_takes: self.namespace_takes,
            there: self.there.as_ref().map(sketch),
            is_switched_off: self.is_switched_off,
        }
    }
}

#[track_caller]
fn check(what: &str, case: Case, expected: &str) {
    let plan = decide(&case.observed());
    let text = plan.to_string();
    assert_eq!(text.trim(), expected, "{what}");
}

const CREATE: &str = "create ClusterServiceVersion far/a (keep)";
const CONTENT: &str = "replace ClusterServiceVersion far/a";
const STATUS: &str = "replace ClusterServiceVersion far/a status";
const DELETE: &str = "delete ClusterServiceVersion far/a";

#[test]
fn a_copy_is_made_and_kept_like_its_original() {
    check("none is there", Case::new(), CREATE);
    check("equal", Case::copied(), "");
    check(
        "edited spec",
        Case::copied().change_copy(|it| it["spec"]["displayName"] = json!("x")),
        CONTENT,
    );
    check(
        "edited status",
        Case::copied().change_copy(|it| it["status"]["phase"] = json!("Failed")),
        STATUS,
    );
    check(
        "no status yet",
        Case::copied().change_copy(|it| it["status"] = Value::Null),
        STATUS,
    );
    check(
        "a label more",
        Case::copied().change_copy(|it| it["metadata"]["labels"]["x"] = json!("y")),
        CONTENT,
    );
    check(
        "an annotation less",
        Case::copied().change_copy(|it| it["metadata"]["annotations"] = json!({})),
        CONTENT,
    );
    check(
        "its label was taken off",
        Case::copied().change_copy(|it| it["metadata"]["labels"] = json!({})),
        CONTENT,
    );
    check(
        "spec of the original",
        Case::copied().change_original(|it| it["spec"]["displayName"] = json!("x")),
        CONTENT,
    );
    let failed = |it: &mut Value| it["status"] = original("Failed", "ComponentUnhealthy")["status"].clone();
    check(
        "phase of the original",
        Case::copied().change_original(failed),
        STATUS,
    );
    check(
        "targets of the original",
        Case::copied()
            .change_original(|it| it["metadata"]["annotations"]["olm.targetNamespaces"] = json!("")),
        "",
    );
    let component = |it: &mut Value| it["metadata"]["labels"]["operators.coreos.com/demo.ns"] = json!("");
    check(
        "a component of an Operator",
        Case::copied().change_original(component),
        "",
    );
}

#[test]
fn copy_004_copy_005_a_copy_goes_with_its_reason() {
    check(
        "no original",
        Case::copied().with(|it| it.original = None),
        DELETE,
    );
    check(
        "another namespace is targeted",
        Case::copied().with(|it| it.groups = vec![targeting(&["ns"])]),
        DELETE,
    );
    let rival = |it: &mut Value| it["status"]["reason"] = json!("InterOperatorGroupOwnerConflict");
    check("rival", Case::copied().change_original(rival), DELETE);
    check(
        "its namespace goes",
        Case::copied().with(|it| (it.original, it.namespace_takes) = (None, false)),
        "",
    );
    let going = |it: &mut Value| it["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    check(
        "it goes already",
        Case::copied().with(|it| it.original = None).change_copy(going),
        "",
    );
    let action = &decide(&Case::copied().with(|it| it.original = None).observed()).actions[0];
    let olm_runtime::plan::Action::Delete { guard, .. } = action else {
        panic!("{action}")
    };
    assert_eq!(guard.uid.as_deref(), Some("copy"));
}

/// A user who can update a ClusterServiceVersion can write the label.
#[test]
fn what_bears_only_the_label_of_copies_is_not_deleted() {
    let orphan = || Case::copied().with(|it| it.original = None);
    check(
        "a status of its own",
        orphan().change_copy(|it| it["status"]["reason"] = json!("InstallSucceeded")),
        "",
    );
    let bare = |it: &mut Value| {
        it["status"] = Value::Null;
        it["metadata"]["annotations"] = json!({});
    };
    check("never seen by OLM", orphan().change_copy(bare), "");
    check(
        "of another",
        orphan().change_copy(|it| it["metadata"]["labels"]["olm.copiedFrom"] = json!("other")),
        "",
    );
    let held = |it: &mut Value| it["metadata"]["finalizers"] = json!(["operators.coreos.com/csv-cleanup"]);
    check("OLM's finalizer", orphan().change_copy(held), "");
}

#[test]
fn a_name_that_is_taken_stays_as_it_is() {
    let own = |it: &mut Value| {
        it["metadata"]["labels"] = json!({});
        it["status"] = json!({"phase": "Succeeded", "reason": "InstallSucceeded"});
    };
    check(
        "an operator of that namespace",
        Case::copied().change_copy(own),
        "",
    );
    check(
        "the copy of another",
        Case::copied().change_copy(|it| it["metadata"]["labels"]["olm.copiedFrom"] = json!("other")),
        "",
    );
}

#[test]
fn what_cannot_be_copied_is_shown_where_it_was_copied_to() {
    for reason in ["TooManyOperatorGroups", "UnsupportedOperatorGroup"] {
        let unfit =
            |it: &mut Value| it["status"] = json!({"phase": "Failed", "reason": reason, "message": "m"});
        check(reason, Case::new().change_original(unfit), "");
        check(reason, Case::copied().change_original(unfit), STATUS);
    }
    let two = || vec![targeting(&["far"]), targeting(&["ns"])];
    check("two groups", Case::new().with(|it| it.groups = two()), "");
    let going = |it: &mut Value| it["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    check("on its way out", Case::new().change_original(going), "");
    check(
        "on its way out, copied",
        Case::copied().change_original(going),
        "",
    );
}

#[test]
fn an_original_is_copied_once_it_is_a_member_in_a_phase() {
    check(
        "unseen",
        Case::new().change_original(|it| it["status"] = Value::Null),
        "",
    );
    check(
        "made anew",
        Case::copied().change_original(|it| it["status"] = Value::Null),
        "",
    );
    check(
        "no annotations",
        Case::new().change_original(|it| it["metadata"]["annotations"] = json!({})),
        "",
    );
    let forged =
        |it: &mut Value| it["metadata"]["annotations"]["olm.operatorNamespace"] = json!("kube-system");
    check("forged namespace", Case::new().change_original(forged), "");
    let other = |it: &mut Value| it["metadata"]["annotations"]["olm.operatorGroup"] = json!("other");
    check("another group", Case::new().change_original(other), "");
    check(
        "no namespace",
        Case::new().with(|it| it.namespace_takes = false),
        "",
    );
    let copy = |it: &mut Value| *it = copy_of(it);
    check("a copy is no original", Case::new().change_original(copy), "");
}

#[test]
fn copy_007_switched_off_are_copies_of_operators_for_all_namespaces() {
    let all = || vec![targeting(&[])];
    let off = |it: &mut Case| (it.groups, it.is_switched_off) = (all(), true);
    check("for all", Case::new().with(|it| it.groups = all()), CREATE);
    check("for all, off", Case::new().with(off), "");
    check("for all, off, copied", Case::copied().with(off), DELETE);
    check(
        "named, off",
        Case::new().with(|it| it.is_switched_off = true),
        CREATE,
    );
    check(
        "named, off, copied",
        Case::copied().with(|it| it.is_switched_off = true),
        "",
    );
}

#[test]
fn a_phase_that_passes_is_not_shown() {
    let since = |time: &'static str| {
        move |it: &mut Value| {
            it["status"] = json!({"phase": "Installing", "reason": "InstallWaiting", "message": "m", "lastTransitionTime": time});
        }
    };
    let wait = |seconds: u32| format!("again in {seconds}s: phase change of the original expected");
    check(
        "now",
        Case::new().change_original(since("2026-01-01T00:01:00Z")),
        &wait(5),
    );
    check(
        "3 s ago",
        Case::copied().change_original(since("2026-01-01T00:00:57Z")),
        &wait(2),
    );
    check(
        "a clock a little ahead",
        Case::new().change_original(since("2026-01-01T00:01:03Z")),
        &wait(5),
    );
    check(
        "a clock far ahead",
        Case::new().change_original(since("2026-01-01T00:09:00Z")),
        CREATE,
    );
    check(
        "5 s ago",
        Case::new().change_original(since("2026-01-01T00:00:55Z")),
        CREATE,
    );
    check(
        "long ago",
        Case::copied().change_original(since("2026-01-01T00:00:00Z")),
        STATUS,
    );
    let unwanted = Case::copied()
        .change_original(since("2026-01-01T00:01:00Z"))
        .with(|it| it.groups = vec![targeting(&["ns"])]);
    check("but it goes at once", unwanted, DELETE);
}

#[test]
fn where_operators_work() {
    let selecting = |status: Value| {
        let mut group = group("ns", "og", &[]);
        group["spec"] = json!({"selector": {"matchLabels": {"a": "b"}}});
        group["status"] = status;
        group
    };
    let mistaken = {
        let mut group = targeting(&["far"]);
        group["spec"]["targetNamespaces"] = json!(["far", ""]);
        group
    };
    let table = [
        (vec![], Reach::Unknown),
        (vec![targeting(&["far"])], Reach::Named),
        (vec![targeting(&["ns", "other"])], Reach::Outside),
        (vec![targeting(&[])], Reach::Everywhere),
        (vec![group("ns", "og", &["far"])], Reach::Unknown),
        (vec![group("ns", "og", &[])], Reach::Unknown),
        (vec![targeting(&["far"]), targeting(&["far"])], Reach::Unknown),
        (
            vec![selecting(json!({"namespaces": ["far"], "lastUpdated": null}))],
            Reach::Named,
        ),
        (vec![selecting(Value::Null)], Reach::Outside),
        (vec![mistaken], Reach::Unknown),
    ];
    for (groups, expected) in table {
        let typed: Vec<Arc<_>> = groups
            .iter()
            .map(|group| Arc::new(decode(group.clone())))
            .collect();
        assert_eq!(reach(&typed, "far"), expected, "{groups:?}");
    }
}

/// The complete written object.
#[test]
fn copy_002_copy_003_what_a_copy_holds() {
    let written = |case: Case| match decide(&case.observed()).actions.remove(0) {
        olm_runtime::plan::Action::Create { object, .. }
        | olm_runtime::plan::Action::Replace { object, .. } => object,
        other => panic!("{other}"),
    };
    let source = original("Succeeded", "InstallSucceeded");
    let copy = copy_of(&source);
    let created = written(Case::new());
    let metadata = json!({"namespace": "far", "name": "a", "labels": {"olm.copiedFrom": "ns"},
        "annotations": {"capabilities": "Basic Install", "olm.operatorGroup": "og", "olm.operatorNamespace": "ns"}});
    assert_eq!(created["metadata"], metadata);
    assert_eq!(created["spec"], source["spec"]);
    assert_eq!(created["status"], Value::Null);
    let bound = |field: &str, object: &Value| {
        (
            object["metadata"]["uid"].clone(),
            object["metadata"]["resourceVersion"].clone(),
            object[field].clone(),
        )
    };
    let content = written(Case::copied().change_copy(|it| it["spec"]["displayName"] = json!("x")));
    assert_eq!(
        bound("spec", &content),
        (json!("copy"), json!("20"), source["spec"].clone())
    );
    let status = written(Case::copied().change_copy(|it| it["status"] = Value::Null));
    assert_eq!(
        bound("status", &status),
        (json!("copy"), json!("20"), copy["status"].clone())
    );
}

#[test]
fn a_refusal_is_reported_once_until_another_comes() {
    let observed = Case::new().observed();
    let failed = |class, code, message: &str| {
        outcomes_for_tests(vec![Outcome::Failed(Failure {
            class,
            code,
            message: message.into(),
            action: "create".into(),
        })])
    };
    let (forbidden, retry) = (FailureClass::Forbidden, FailureClass::Retry);
    let told = |before: Option<u16>, outcomes| {
        let update = status(&observed, before, &outcomes);
        (update.events.len(), update.memory)
    };
    assert_eq!(told(None, failed(forbidden, 403, "no")), (1, Some(403)));
    let counting = failed(forbidden, 403, "no, 7 of 7 are there");
    assert_eq!(told(Some(403), counting), (0, Some(403)));
    assert_eq!(
        told(Some(403), failed(FailureClass::Invalid, 422, "never")),
        (1, Some(422))
    );
    assert_eq!(told(None, failed(retry, 403, "exceeded quota")), (1, Some(403)));
    assert_eq!(told(Some(403), failed(retry, 503, "busy")), (0, Some(403)));
    assert_eq!(
        told(None, failed(FailureClass::Terminating, 403, "terminating")),
        (0, None)
    );
    assert_eq!(
        told(None, failed(FailureClass::Conflict, 409, "newer")),
        (0, None)
    );
    assert_eq!(
        told(Some(403), outcomes_for_tests(vec![Outcome::Kept])),
        (0, None)
    );
    let event = status(&observed, None, &failed(forbidden, 403, "no"))
        .events
        .remove(0);
    assert_eq!(event.regarding.name.as_deref(), Some("a"));
    assert_eq!(event.regarding.namespace.as_deref(), Some("ns"));
    assert_eq!(event.regarding.uid.as_deref(), Some("original"));
    assert!(
        event.message.contains("namespace far") && event.message.contains("no."),
        "{}",
        event.message
    );
}
