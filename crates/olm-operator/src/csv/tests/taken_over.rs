//! Deployments that upstream's OLM created: they are adopted as they are, without later changes by others.

use olm_api::labels;
use olm_runtime::outcome::FailureClass;
use serde_json::{Value, json};

use super::{
    hand_edits::{applied, deployment, installed, managers, never_failed, rests},
    prepared, succeeded,
};
use crate::test_env::{TestEnv, csv_with_webhooks};

/// A Deployment left by upstream's OLM: written by updates of `olm`, with a hash that is computed
/// differently, and without an apply.
fn made_by_upstream(change: impl Fn(&mut Value)) -> TestEnv {
    left_by_upstream(installed(), change)
}

fn left_by_upstream(mut env: TestEnv, change: impl Fn(&mut Value)) -> TestEnv {
    let mut made = deployment(&env).clone();
    let metadata = made["metadata"].as_object_mut().unwrap();
    metadata.retain(|field, _| {
        [
            "name",
            "namespace",
            "labels",
            "ownerReferences",
            "annotations",
            "generation",
        ]
        .contains(&field.as_str())
    });
    made["metadata"]["labels"][labels::DEPLOYMENT_SPEC_HASH] = json!("upstreams");
    change(&mut made);
    env.kill();
    env.put_as("olm", made);
    env.writes.clear();
    env.log.clear();
    env
}

/// Managed fields are written as a whole list: concurrent changes must not be lost.
#[test]
fn edits_during_the_takeover_from_upstream_are_kept() {
    let mut env = made_by_upstream(|_| {});
    let (cluster, mut is_over) = (env.cluster.clone(), false);
    env.cluster.on_request(move |request| {
        if request.kind.kind == "Deployment" && request.verb.writes() && !is_over {
            is_over = true;
            cluster.edit_as(
                "hpa",
                "Deployment",
                "ns",
                "demo",
                &json!({"spec": {"replicas": 3}}),
            );
        }
        None
    });
    env.settle_for(30);
    succeeded(&env, "a");
    assert_eq!(deployment(&env)["spec"]["replicas"], 3);
    assert_eq!(managers(&env), ["olm-operator/csv Apply", "hpa Update"]);
    rests(&mut env);
}

/// The account of a group may lack the right to patch Deployments, because upstream updates them.
#[test]
fn what_may_not_be_taken_over_stays_as_it_is_and_succeeded() {
    let mut env = installed();
    env.put(crate::test_env::service_account("scoped"));
    let account = json!({"spec": {"serviceAccountName": "scoped"}});
    env.edit("OperatorGroup", "ns", "og", account);
    env.settle_for(30);
    let mut env = left_by_upstream(env, |_| {});
    let before = deployment(&env).clone();
    env.refused.insert("Deployment".into(), FailureClass::Forbidden);
    env.settle_for(60);
    let told = "Succeeded InstallSucceeded: install strategy completed with no errors; held up: cannot adopt objects that another OLM has created, leaving them unchanged: patch Deployment ns/demo: refused by the model";
    assert_eq!(env.status("a"), told);
    assert_eq!(deployment(&env), &before);
    let statuses = env
        .writes
        .iter()
        .filter(|write| write.contains("ClusterServiceVersion ns/a status"));
    assert_eq!(statuses.count(), 1, "{:#?}", env.writes);
    never_failed(&env);
    env.refused.clear();
    env.settle_for(600);
    succeeded(&env, "a");
    assert_eq!(managers(&env), ["olm-operator/csv Apply"]);
}

/// OLM is replaced by another that computes hashes in another way: the running operator is correct.
#[test]
fn a_deployment_that_upstream_made_becomes_ours_in_one_write_and_the_csv_stays_succeeded() {
    let mut env = made_by_upstream(|_| {});
    let before = deployment(&env)["spec"].clone();
    env.settle_for(30);
    succeeded(&env, "a");
    let written = env.writes.iter().filter(|write| write.contains(" Deployment "));
    assert_eq!((written.count(), applied(&env)), (1, 0), "{:#?}", env.writes);
    assert!(
        !env.log.iter().any(|line| line.contains("InstallReady")),
        "{:#?}",
        env.log
    );
    assert_eq!(deployment(&env)["spec"], before);
    assert_eq!(managers(&env), ["olm-operator/csv Apply"]);
    rests(&mut env);
}

/// Fields that upstream set and the next version lacks have no owner any more, and are removed in one
/// rollout.
#[test]
fn what_upstream_set_goes_with_the_version_that_had_it() {
    for adopted_before in [true, false] {
        let mut env = installed();
        let without =
            env.get("ClusterServiceVersion", "ns", "a").unwrap()["spec"]["install"]["spec"]["deployments"]
                .clone();
        let mut with = without.clone();
        with[0]["spec"]["template"]["metadata"]["labels"]["old"] = json!("label");
        let version =
            |deployments: &Value| json!({"spec": {"install": {"spec": {"deployments": deployments}}}});
        env.edit("ClusterServiceVersion", "ns", "a", version(&with));
        env.settle_for(30);
        let mut env = left_by_upstream(env, |_| {});
        let old = |env: &TestEnv| {
            deployment(env)["spec"]["template"]["metadata"]["labels"]
                .get("old")
                .cloned()
        };
        if adopted_before {
            env.settle_for(30);
            assert_eq!(applied(&env), 0, "{:#?}", env.writes);
        }
        assert_eq!(old(&env), Some(json!("label")));
        env.writes.clear();
        env.edit("ClusterServiceVersion", "ns", "a", version(&without));
        env.settle_for(30);
        succeeded(&env, "a");
        assert_eq!((old(&env), applied(&env)), (None, 1), "{:#?}", env.writes);
        assert_eq!(managers(&env), ["olm-operator/csv Apply"]);
        rests(&mut env);
    }
}

/// Fields that others added while upstream's OLM ran or was down are removed at once.
#[test]
fn unwanted_fields_of_upstreams_deployment_are_removed() {
    let mut env = made_by_upstream(|made| {
        made["spec"]["template"]["spec"]["hostNetwork"] = json!(true);
    });
    env.settle_for(30);
    succeeded(&env, "a");
    let pod = &deployment(&env)["spec"]["template"]["spec"];
    assert_eq!(pod.get("hostNetwork"), None, "{:#?}", env.writes);
    rests(&mut env);
}

/// The same by other managers than upstream's: edits made while upstream's OLM ran are reverted, of any kind.
#[test]
fn what_others_made_of_a_deployment_of_upstreams_is_put_back() {
    let mut env = installed();
    let mut containers = deployment(&env)["spec"]["template"]["spec"]["containers"].clone();
    let pod = |more: Value| json!({"template": {"spec": more}});
    containers[0]["image"] = json!("demo:0");
    let image = pod(json!({"containers": containers}));
    containers[0]["image"] = json!("demo:1");
    containers[0]["livenessProbe"] = json!({"tcpSocket": {"port": 1}});
    let probe = pod(json!({"containers": containers}));
    let more = json!({"name": "more", "image": "example.com/more:1"});
    containers.as_array_mut().unwrap().push(more);
    let added = pod(json!({"containers": containers, "hostNetwork": true}));
    let volume = pod(json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}));
    for spec in [image, probe, added, volume] {
        env = made_by_upstream(|_| {});
        let before = deployment(&env)["spec"].clone();
        let mut edited = spec.clone();
        edited["replicas"] = json!(4);
        env.edit_as(
            "kubectl-edit",
            "Deployment",
            "ns",
            "demo",
            json!({"spec": edited}),
        );
        env.settle_for(30);
        succeeded(&env, "a");
        let mut expected = before;
        expected["replicas"] = json!(4);
        assert_eq!(deployment(&env)["spec"], expected, "{spec}");
        assert_eq!(managers(&env), ["olm-operator/csv Apply", "kubectl-edit Update"]);
        assert_eq!(applied(&env), 1, "{spec}: {:#?}", env.writes);
        never_failed(&env);
        rests(&mut env);
    }
}

/// Upstream copies all annotations of a ClusterServiceVersion to the pods, including that of `kubectl apply`.
#[test]
fn what_kubectl_apply_left_in_the_pods_of_upstreams_replaces_none() {
    let annotation = labels::LAST_APPLIED_CONFIGURATION;
    let mut env = made_by_upstream(|made| {
        made["spec"]["template"]["metadata"]["annotations"][annotation] = json!("{}");
    });
    let before = deployment(&env)["spec"].clone();
    env.settle_for(30);
    succeeded(&env, "a");
    assert_eq!((applied(&env), &deployment(&env)["spec"]), (0, &before));
    assert_eq!(managers(&env), ["olm-operator/csv Apply"]);
    rests(&mut env);
}

/// Upstream's webhooks have other hashes and other scopes, too: they are written while the operator runs.
#[test]
fn webhooks_of_upstream_are_written_again_and_the_csv_stays_succeeded() {
    const VALIDATING: &str = "ValidatingWebhookConfiguration";
    let mut env = prepared().with(csv_with_webhooks("a", ""));
    env.settle_for(5);
    succeeded(&env, "a");
    let configuration = |env: &TestEnv| {
        let mut found = env.objects.iter().filter(|(key, _)| key.0 == VALIDATING);
        found.next().map(|(_, object)| object.clone()).unwrap()
    };
    let before = configuration(&env);
    let mut env = left_by_upstream(env, |_| {});
    let name = before["metadata"]["name"].as_str().unwrap().to_owned();
    let mut webhooks = before["webhooks"].clone();
    webhooks[0]["rules"][0]["scope"] = json!("*");
    let labels = json!({labels::WEBHOOK_DESCRIPTION_HASH: "upstreams"});
    env.edit_as(
        "olm",
        VALIDATING,
        "",
        &name,
        json!({"metadata": {"labels": labels}, "webhooks": webhooks}),
    );
    env.writes.clear();
    env.settle_for(30);
    succeeded(&env, "a");
    let now = configuration(&env);
    assert_eq!(
        (&now["webhooks"], &now["metadata"]["labels"]),
        (&before["webhooks"], &before["metadata"]["labels"])
    );
    assert!(
        !env.log.iter().any(|line| line.contains("InstallReady")),
        "{:#?}",
        env.log
    );
    assert_eq!(
        (applied(&env), managers(&env)),
        (0, vec!["olm-operator/csv Apply".to_owned()])
    );
    rests(&mut env);
}

/// A Deployment that differs from the wanted one is installed as usual.
#[test]
fn a_deployment_of_upstream_that_is_not_the_wanted_one_is_installed() {
    let mut env = made_by_upstream(|made| {
        made["spec"]["template"]["spec"]["containers"][0]["image"] = json!("demo:0");
    });
    env.settle_for(30);
    succeeded(&env, "a");
    assert_eq!(
        deployment(&env)["spec"]["template"]["spec"]["containers"][0]["image"],
        "demo:1"
    );
    assert!(
        env.log
            .iter()
            .any(|line| line.contains("deployment changed old hash=upstreams")),
        "{:#?}",
        env.log
    );
    rests(&mut env);
}

/// Users who can write Deployments can create one that looks like upstream's, with the hash of the wanted
/// one.
#[test]
fn a_hash_hides_no_other_spec_of_a_deployment_that_we_never_applied() {
    for image in ["demo:0", "demo:1"] {
        let hash = deployment(&installed())["metadata"]["labels"][labels::DEPLOYMENT_SPEC_HASH].clone();
        let mut env = made_by_upstream(|made| {
            made["metadata"]["labels"][labels::DEPLOYMENT_SPEC_HASH] = hash.clone();
            made["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
        });
        env.settle_for(30);
        succeeded(&env, "a");
        let spec = &deployment(&env)["spec"];
        assert_eq!(spec["template"]["spec"]["containers"][0]["image"], "demo:1");
        assert_eq!(managers(&env), ["olm-operator/csv Apply"]);
        rests(&mut env);
    }
}
