use proptest::prelude::*;
use serde_json::json;

use super::*;

/// RFC 7386, section 2, as an oracle for `merge_patch`.
fn apply_merge_patch(target: &Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else {
        return patch.clone();
    };
    let mut result = target.as_object().cloned().unwrap_or_default();
    for (key, value) in patch {
        if value.is_null() {
            result.remove(key);
        } else {
            let before = result.get(key).cloned().unwrap_or(Value::Null);
            result.insert(key.clone(), apply_merge_patch(&before, value));
        }
    }
    Value::Object(result)
}

fn json_object() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        (0..3i64).prop_map(Value::from),
        "[ab]{0,2}".prop_map(Value::from)
    ];
    let tree = leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[abc]", inner, 0..4)
                .prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    });
    prop::collection::btree_map("[abc]", tree, 0..4).prop_map(|m| Value::Object(m.into_iter().collect()))
}

proptest! {
    #[test]
    fn a_merge_patch_turns_old_into_new(old in json_object(), new in json_object()) {
        match merge_patch(&old, &new) {
            Some(patch) => prop_assert_eq!(apply_merge_patch(&old, &patch), new),
            None => prop_assert_eq!(old, new),
        }
    }
}

#[test]
fn an_equal_status_needs_no_patch() {
    let target = Target::of::<k8s_openapi::api::core::v1::ConfigMap>("ns", "name");
    assert_eq!(
        status_patch(target, Some("uid"), &json!({"a": [1]}), &json!({"a": [1]})),
        None
    );
}

#[test]
fn the_sooner_requeue_wins() {
    let soon = Requeue::After {
        delay: Duration::from_secs(1),
        reason: "a",
    };
    let late = Requeue::After {
        delay: Duration::from_secs(2),
        reason: "b",
    };
    assert_eq!(soon.sooner(late), soon);
    assert_eq!(late.sooner(soon), soon);
    assert_eq!(Requeue::AwaitChange.sooner(late), late);
}

#[test]
fn a_failure_stops_what_follows_unless_it_is_one_of_the_independent_writes() {
    let failed = || {
        Outcome::Failed(crate::outcome::Failure {
            class: crate::outcome::FailureClass::Forbidden,
            code: 403,
            message: String::new(),
            action: String::new(),
        })
    };
    let plan = |independent| Plan {
        independent,
        ..Plan::default()
    };
    for (independent, results, goes_on) in [
        (0, vec![], true),
        (0, vec![Outcome::Kept], true),
        (0, vec![failed()], false),
        (2, vec![failed()], true),
        (2, vec![failed(), failed()], true),
        (2, vec![failed(), Outcome::Kept, Outcome::Gone], true),
        (2, vec![Outcome::Kept, Outcome::Kept, failed()], false),
    ] {
        assert_eq!(
            plan(independent).goes_on_after(&results),
            goes_on,
            "{independent} {results:?}"
        );
    }
}

#[test]
fn a_plan_reads_as_text() {
    let plan = Plan {
        actions: vec![
            Action::create_or_keep(
                Target::of::<k8s_openapi::api::core::v1::Pod>("ns", ""),
                json!({"metadata": {"generateName": "cat-"}}),
            ),
            Action::delete(
                Target::cluster::<k8s_openapi::api::core::v1::Namespace>("old"),
                None,
            ),
        ],
        events: vec![],
        requeue: Requeue::After {
            delay: Duration::from_secs(5),
            reason: "install deadline",
        },
        ..Plan::default()
    };
    insta::assert_snapshot!(plan, @r"
    create Pod ns/cat- (keep)
    delete Namespace old
    again in 5s: install deadline
    ");
}
