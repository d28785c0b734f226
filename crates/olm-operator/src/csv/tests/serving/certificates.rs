//! Certificates over time: upgrades, expiry and refused writes.

use k8s_openapi::api::core::v1::Secret;
use olm_runtime::{
    outcome::FailureClass,
    plan::{Action, Identity, Plan, Target},
};

use super::*;
use crate::{
    csv::{decide::decide, serving::certificate::CertificateMaker},
    test_env::{crd, csv_key},
};

#[test]
fn an_upgrade_takes_certificate_and_configurations_over() {
    let mut env = installed_for(&["ns"]);
    let before = (ca(&env), only(&env, VALIDATING)["metadata"]["uid"].clone());
    env.put(csv_with_webhooks("b", "a"));
    env.settle_for(30);
    succeeded(&env, "b");
    assert_eq!(env.status("a"), "gone");
    assert_eq!(
        (ca(&env), only(&env, VALIDATING)["metadata"]["uid"].clone()),
        before
    );
    assert_eq!(only(&env, MUTATING)["metadata"]["labels"]["olm.owner"], "b");
    let uid = env.get("ClusterServiceVersion", "ns", "b").unwrap()["metadata"]["uid"].clone();
    let owners = &env.get("Secret", "ns", SECRET).unwrap()["metadata"]["ownerReferences"];
    assert!(
        owners.as_array().unwrap().iter().any(|owner| owner["uid"] == uid),
        "{owners}"
    );
    agree(&env);
}

#[test]
fn a_reinstall_keeps_a_certificate_that_serves() {
    let mut env = installed_for(&["ns"]);
    env.settle_for(10);
    let of = |env: &TestEnv| {
        let status = &env.get("ClusterServiceVersion", "ns", "a").unwrap()["status"];
        (
            ca(env),
            status["certsLastUpdated"].clone(),
            status["certsRotateAt"].clone(),
        )
    };
    let before = of(&env);
    assert!(before.1.is_string() && before.2.is_string(), "{before:?}");
    env.advance(3600);
    env.edit(
        "ClusterServiceVersion",
        "ns",
        "a",
        json!({"status": {"phase": "Pending"}}),
    );
    env.delete("Deployment", "ns", "demo");
    env.settle_for(20);
    succeeded(&env, "a");
    assert_eq!(of(&env), before);
}

/// A Secret that is refused repeatedly gets a new certificate for each attempt, which is never stored.
#[test]
fn a_refused_secret_pushes_no_serving_ca_out() {
    let mut env = installed_for(&["ns"]);
    let before = ca(&env);
    age_certificate(&mut env, 1);
    let serving = ca(&env);
    env.refused.insert("Secret".into(), FailureClass::Forbidden);
    for _ in 0..8 {
        env.settle_for(120);
    }
    assert_ne!(before, serving);
    let trusted = bundle(only(&env, VALIDATING));
    assert!(trusted.contains(serving.trim()), "{trusted}");
    env.refused.clear();
    env.settle_for(120);
    succeeded(&env, "a");
    agree(&env);
}

/// Writes a certificate that expires in `hours` into the Secret, as if it were old.
fn age_certificate(env: &mut TestEnv, hours: i64) {
    let made = env.now - jiff::SignedDuration::from_hours(730 * 24 - hours);
    let hosts = [
        "demo-service.ns",
        "demo-service.ns.svc",
        "demo-service.ns.svc.cluster.local",
    ];
    let issued = CertificateMaker.issue(&hosts.map(str::to_owned), made).unwrap();
    let hash = ca_hash(&issued.ca);
    let plan = Plan::of(vec![Action::Apply {
        target: Target::of::<Secret>("ns", SECRET),
        object: json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET, "namespace": "ns",
                "annotations": {"olmcahash": hash}}}),
        data: Some(issued.data),
        manager: "test/test",
        identity: Identity::Operator,
    }]);
    env.act(plan);
    env.settle_for(20);
}

#[test]
fn a_certificate_is_replaced_a_day_before_it_ends_and_both_cas_are_trusted_until_the_pods_have_changed() {
    let mut env = installed_for(&["ns"]);
    age_certificate(&mut env, 27);
    succeeded(&env, "a");
    agree(&env);
    let old = ca(&env);
    let status = |env: &TestEnv, field: &str| {
        env.get("ClusterServiceVersion", "ns", "a").unwrap()["status"][field].clone()
    };
    let due = status(&env, "certsRotateAt");
    env.settle_for(2 * 3600);
    assert_eq!(ca(&env), old, "it is not due yet");

    // The pods cannot be changed, so the old certificate that they serve with stays trusted.
    env.refused.insert("Deployment".into(), FailureClass::Retry);
    env.log.clear();
    env.writes.clear();
    env.settle_for(2 * 3600);
    assert!(
        env.log.iter().any(|line| line
            .contains("Pending (NeedsCertRotation) CSV owns resources that require a cert refresh")),
        "{:#?}",
        env.log
    );
    let new = ca(&env);
    assert_ne!(new, old);
    for kind in [VALIDATING, MUTATING] {
        assert_eq!(bundle(only(&env, kind)), format!("{new}{old}"), "{kind}");
    }
    let at = |text: &str| {
        env.writes
            .iter()
            .position(|write| write.contains(text))
            .expect(text)
    };
    assert!(
        at(VALIDATING) < at("Secret") && at(MUTATING) < at("Secret"),
        "{:#?}",
        env.writes
    );

    env.refused.clear();
    env.settle_for(120);
    succeeded(&env, "a");
    agree(&env);
    assert_ne!(status(&env, "certsRotateAt"), due);
}

#[test]
fn plans_contain_no_key() {
    let mut env = prepared_for(&["ns"])
        .with(csv_with_webhooks("a", ""))
        .with(crd("others.example.com"));
    env.settle_namespace_and_group();
    for _ in 0..4 {
        let observed = env.observe(&csv_key("a")).unwrap();
        let (plan, verdict) = decide(&observed, env.now);
        let text = format!("{plan} {plan:?} {verdict:?} {observed:?}");
        assert!(
            !text.contains("PRIVATE KEY") && !text.contains("UFJJVkFURSBLRVk"),
            "{text}"
        );
        env.round_of_csv(&csv_key("a"));
    }
    assert!(env.get("Secret", "ns", SECRET).is_some());
}

#[test]
fn a_certificate_is_replaced_while_the_operator_is_failed() {
    let mut env = installed_for(&["ns"]);
    age_certificate(&mut env, 27);
    let old = ca(&env);
    let stuck = json!([{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]);
    env.sick.insert("demo".into(), stuck);
    env.settle_for(3600);
    assert!(env.status("a").starts_with("Failed"), "{}", env.status("a"));
    assert_eq!(ca(&env), old);
    env.settle_for(3 * 3600);
    assert_ne!(ca(&env), old);
    env.sick.clear();
    env.settle_for(120);
    succeeded(&env, "a");
    agree(&env);
}
