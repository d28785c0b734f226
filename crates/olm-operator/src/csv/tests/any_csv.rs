//! Any ClusterServiceVersion gets a status, and concurrent writes of others are not lost.

use olm_api::v1alpha1::ClusterServiceVersionPhase as Phase;
use std::sync::Arc;

use olm_runtime::{
    outcome::{Outcome, outcomes_for_tests},
    plan::{Action, Requeue},
};
use olm_testing::patch::merge;
use serde_json::{Value, json};

use super::{changed, installed, prepared, prepared_for, rests, succeeded};
use crate::{
    csv::{decide::decide, status::status},
    test_env::{TestEnv, csv, csv_key, decode, subscription},
};

fn provided(env: &TestEnv) -> String {
    let group = env.get("OperatorGroup", "ns", "og").unwrap();
    group["metadata"]["annotations"]["olm.providedAPIs"]
        .as_str()
        .unwrap_or("-")
        .to_owned()
}

fn in_version(version: &str) -> Value {
    changed("a", |spec| {
        spec["customresourcedefinitions"]["owned"][0]["version"] = json!(version);
    })
}

/// Seen on a cluster: such a version parses as another API in the group's list of provided APIs. So the list
/// never contained the API that the ClusterServiceVersion provides, and it got no status.
#[test]
fn an_owned_crd_with_a_group_in_its_version_is_not_met_and_not_listed() {
    for targets in [&["ns"][..], &[]] {
        let mut env = prepared_for(targets);
        rests(
            &mut env,
            in_version("apiextensions.k8s.io/v1alpha1"),
            "Pending RequirementsNotMet: one or more requirements couldn't be found: CustomResourceDefinition demos.example.com (CRD version not served)",
        );
        let csv = env.get("ClusterServiceVersion", "ns", "a").unwrap();
        let row = &csv["status"]["requirementStatus"][0];
        assert_eq!(
            (&row["status"], &row["message"]),
            (&json!("NotPresent"), &json!("CRD version not served"))
        );
        assert_eq!(provided(&env), "-");
    }
}

#[test]
fn what_is_no_api_goes_from_the_list_of_a_group() {
    let mut env = prepared();
    let odd = "insgflfz.apiextensions.k8s.io/v1alpha1.cluster.com";
    let annotation = json!({"metadata": {"annotations": {"olm.providedAPIs": format!("{odd},{odd}")}}});
    env.edit("OperatorGroup", "ns", "og", annotation);
    env.put(csv("a", ""));
    env.settle_for(5);
    succeeded(&env, "a");
    assert_eq!(provided(&env), "Demo.v1.example.com");

    let mut env = prepared();
    env.put(csv("a", ""));
    env.settle_for(5);
    let annotation =
        json!({"metadata": {"annotations": {"olm.providedAPIs": format!("Demo.v1.example.com,{odd}")}}});
    env.edit("OperatorGroup", "ns", "og", annotation);
    env.settle_for(5);
    assert_eq!(provided(&env), "Demo.v1.example.com");
}

#[test]
fn a_text_too_large_to_repeat_is_cut() {
    let mut env = prepared();
    env.put(changed("a", |spec| {
        spec["webhookdefinitions"] = json!([{"generateName": "ä".repeat(200_000)}]);
    }));
    env.settle_for(5);
    let message = env.status("a");
    assert!(message.starts_with("Failed InvalidWebhookDescription") && message.ends_with('…'));
    assert!(message.len() < 5000, "the history repeats it");
}

/// A merge patch replaces a whole list. A concurrent addition causes a conflict, and is not lost.
#[test]
fn lists_are_written_only_over_what_was_read() {
    let mut env = prepared();
    env.put(csv("a", ""));
    let key = csv_key("a");
    let finalizers = |env: &TestEnv| {
        env.get("ClusterServiceVersion", "ns", "a").unwrap()["metadata"]["finalizers"].clone()
    };
    for deleting in [false, true] {
        env.settle_for(5);
        if deleting {
            env.delete("ClusterServiceVersion", "ns", "a");
        } else {
            let none = json!({"metadata": {"finalizers": null}});
            env.edit("ClusterServiceVersion", "ns", "a", none);
        }
        let observed = env.observe(&key).unwrap();
        let (plan, _) = decide(&observed, env.now);
        let theirs =
            json!({"metadata": {"finalizers": ["theirs.example.com/x", "operators.coreos.com/csv-cleanup"]}});
        env.edit("ClusterServiceVersion", "ns", "a", theirs.clone());
        env.act(plan);
        assert_eq!(
            finalizers(&env),
            theirs["metadata"]["finalizers"],
            "deleting: {deleting}"
        );
    }
    env.settle_for(3);
    assert_eq!(
        finalizers(&env),
        json!(["theirs.example.com/x"]),
        "and ours goes all the same"
    );
}

#[test]
fn a_list_of_apis_is_written_only_over_what_was_read() {
    let mut env = prepared();
    env.settle();
    env.put(csv("a", ""));
    let observed = env.observe(&csv_key("a")).unwrap();
    let (plan, _) = decide(&observed, env.now);
    let theirs = json!({"metadata": {"annotations": {"olm.providedAPIs": "Other.v1.example.com"}}});
    env.edit("OperatorGroup", "ns", "og", theirs);
    env.act(plan);
    assert_eq!(provided(&env), "Other.v1.example.com");
}

/// Earlier it wrote two history entries and two events per cycle, as fast as the API server responded.
#[test]
fn a_deployment_that_does_not_stay_as_applied_is_reported_once_and_tried_in_place() {
    let mut env = installed();
    let mut observed = env.observe(&csv_key("a")).unwrap();
    let mut stored = env.get("Deployment", "ns", "demo").unwrap().clone();
    let annotations = &mut stored["spec"]["template"]["metadata"]["annotations"];
    annotations.as_object_mut().unwrap().remove("capabilities");
    observed
        .deployments
        .insert("demo".into(), Arc::new(decode(stored.clone())));
    let mut csv = (*observed.csv).clone();
    csv.status.as_mut().unwrap().phase = Phase::InstallReady;
    observed.csv = Arc::new(csv);
    let applied = || outcomes_for_tests(vec![Outcome::Done(Arc::new(stored.clone()))]);

    let (plan, verdict) = decide(&observed, env.now);
    assert_eq!(plan.actions.len(), 1, "{plan}");
    let update = status(&observed, verdict, &applied(), env.now);
    let [Action::Patch { patch, .. }] = &update.patches[..] else {
        panic!("a status")
    };
    assert_eq!(
        (
            &patch["status"]["phase"],
            &patch["status"]["reason"],
            &patch["status"]["message"]
        ),
        (
            &json!("Failed"),
            &json!("InstallComponentFailed"),
            &json!(
                "install strategy failed: annotations on deployment does not contain expected key: capabilities (deployment \
                 demo) right after it was applied, probably by a policy or a webhook of the cluster"
            )
        )
    );
    // The next reconcile comes to the same result: nothing to write or report, and a periodic check.
    let mut told = serde_json::to_value(&*observed.csv).unwrap();
    merge(&mut told, patch);
    observed.csv = Arc::new(decode(told));
    let (_, verdict) = decide(&observed, env.now);
    let update = status(&observed, verdict, &applied(), env.now);
    assert!(
        update.patches.is_empty() && update.events.is_empty(),
        "{update:?}"
    );
    assert!(matches!(update.requeue, Requeue::After { .. }));
}

/// Events of different kinds arrive in any order.
#[test]
fn a_subscription_whose_event_is_late_configures_the_first_pods_all_the_same() {
    let mut env = prepared();
    env.settle();
    env.cluster.hold("Subscription");
    env.put(subscription("a", json!({"env": [{"name": "A", "value": "b"}]})));
    env.put(csv("a", ""));
    env.settle_for(10);
    succeeded(&env, "a");
    env.cluster.release("Subscription");
    env.settle_for(10);
    let applied: Vec<&String> = env
        .writes
        .iter()
        .filter(|write| write.starts_with("apply Deployment"))
        .collect();
    assert_eq!(applied.len(), 1, "{applied:#?}");
    let env =
        &env.get("Deployment", "ns", "demo").unwrap()["spec"]["template"]["spec"]["containers"][0]["env"];
    assert_eq!(env[0], json!({"name": "A", "value": "b"}));
}
