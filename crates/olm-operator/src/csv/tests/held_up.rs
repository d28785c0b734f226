//! A failed read or refused write is reported within five seconds, after the phase's message, and removed
//! later.

use olm_runtime::outcome::FailureClass;
use olm_testing::cluster::{Fault, Refusal, Verb};
use serde_json::json;

use super::{changed, installed, prepared_for, rights::by_hand, succeeded};
use crate::test_env::{TestEnv, namespace_object, permission, service_account};

const FINE: &str = "Succeeded InstallSucceeded: install strategy completed with no errors";

fn history(env: &TestEnv) -> serde_json::Value {
    env.get("ClusterServiceVersion", "ns", "a").unwrap()["status"]["conditions"].clone()
}

/// Number of status writes of `a` since the last call.
fn statuses(env: &mut TestEnv) -> usize {
    let writes = std::mem::take(&mut env.writes);
    let of_a = |write: &&String| write.ends_with("ClusterServiceVersion ns/a status");
    writes.iter().filter(of_a).count()
}

/// Changes the targets of the group, which the annotations must contain.
fn retarget(env: &mut TestEnv) {
    env.put(namespace_object("other"));
    env.edit(
        "OperatorGroup",
        "ns",
        "og",
        json!({"spec": {"targetNamespaces": ["ns", "other"]}}),
    );
}

#[test]
fn a_refused_membership_leaves_the_phase_of_who_runs_and_is_reported_beside_it() {
    for (class, from, until) in [
        (FailureClass::Forbidden, 0, 1),
        (FailureClass::Retry, 3, 2),
        (FailureClass::Conflict, 3, 2),
    ] {
        let mut env = installed();
        env.settle_for(20);
        let before = history(&env);
        env.refused.insert("ClusterServiceVersion".into(), class);
        retarget(&mut env);
        statuses(&mut env);
        env.settle_for(from);
        if from > 0 {
            assert_eq!(env.status("a"), FINE, "{class:?}: not yet");
        }
        env.settle_for(until);
        let told = format!(
            "{FINE}; held up: cannot write the membership in the OperatorGroup: patch ClusterServiceVersion ns/a: refused by the model"
        );
        assert_eq!(env.status("a"), told, "{class:?}");
        env.settle_for(120);
        assert_eq!(env.status("a"), told, "{class:?}");
        assert_eq!(statuses(&mut env), 1, "{class:?}: told once");
        env.refused.clear();
        env.settle_for(70);
        assert_eq!(env.status("a"), FINE, "{class:?}");
        assert_eq!(
            env.events
                .iter()
                .filter(|event| event.contains("held up"))
                .count(),
            0
        );
        let csv = env.get("ClusterServiceVersion", "ns", "a").unwrap();
        assert_eq!(csv["metadata"]["annotations"]["olm.targetNamespaces"], "ns,other");
        // The new targets restarted the pods; the refusal added nothing before that.
        let after = history(&env);
        let kept = before.as_array().unwrap();
        assert_eq!(&after.as_array().unwrap()[..kept.len()], &kept[..], "{class:?}");
    }
}

#[test]
fn a_new_process_does_not_withdraw_reports_that_still_hold() {
    let mut env = installed();
    env.settle_for(20);
    env.refused
        .insert("ClusterServiceVersion".into(), FailureClass::Retry);
    retarget(&mut env);
    env.settle_for(10);
    assert!(env.status("a").contains("; held up: "), "{}", env.status("a"));
    env.kill();
    statuses(&mut env);
    env.settle_for(10);
    assert!(env.status("a").contains("; held up: "), "{}", env.status("a"));
    assert_eq!(statuses(&mut env), 0);
}

#[test]
fn a_csv_that_cannot_be_deleted_reports_the_reason() {
    let mut env = installed();
    env.refused
        .insert("ClusterServiceVersion".into(), FailureClass::Forbidden);
    env.delete("ClusterServiceVersion", "ns", "a");
    env.settle_for(3);
    assert_eq!(
        env.status("a"),
        format!("{FINE}; held up: patch ClusterServiceVersion ns/a: refused by the model")
    );
    env.refused.clear();
    env.settle_for(70);
    assert_eq!(env.status("a"), "gone");
}

/// The demo with an account that OLM did not create.
fn with_default_account() -> TestEnv {
    let own = changed("a", |spec| {
        spec["install"]["spec"]["permissions"] = json!([permission("default", "", "configmaps")]);
    });
    let mut env = prepared_for(&["ns"]).with(service_account("default")).with(own);
    env.settle_for(20);
    succeeded(&env, "a");
    env
}

#[test]
fn a_read_that_keeps_failing_is_reported_beside_the_phase_until_it_works_again() {
    let mut env = by_hand(&["ns"], false);
    env.settle_for(20);
    succeeded(&env, "a");
    env.cluster.on_request(|request| {
        let is_it = request.verb == Verb::List && request.kind.kind == "RoleBinding";
        is_it.then(|| Fault::Refuse(Refusal::unavailable("not now")))
    });
    let before = history(&env);
    statuses(&mut env);
    // Rights that a user granted are read again.
    env.edit(
        "ClusterServiceVersion",
        "ns",
        "a",
        json!({"metadata": {"labels": {"touched": "1"}}}),
    );
    env.settle_for(3);
    assert_eq!(env.status("a"), FINE, "not yet");
    env.settle_for(2);
    let told = env.status("a");
    assert!(
        told.starts_with(&format!("{FINE}; held up: failed to read ")),
        "{told}"
    );
    env.settle_for(120);
    assert_eq!(env.status("a"), told);
    assert_eq!(statuses(&mut env), 1, "told once");
    assert_eq!(history(&env), before);
    env.cluster.clear_hooks();
    env.settle_for(70);
    assert_eq!(env.status("a"), FINE);
    assert_eq!(statuses(&mut env), 1);
}

#[test]
fn an_account_that_olm_did_not_make_wakes_who_gives_it_rights() {
    let mut env = with_default_account();
    env.delete("ServiceAccount", "ns", "default");
    env.settle();
    assert_eq!(
        env.status("a"),
        "Pending RequirementsNotMet: one or more requirements couldn't be found: ServiceAccount default (Service account does not exist)"
    );
    env.settle_for(600);
    env.put(service_account("default"));
    env.settle_for(2);
    succeeded(&env, "a");
}
