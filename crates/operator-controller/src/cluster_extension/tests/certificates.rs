//! Certificates of webhooks, and the Secrets of revisions with them.

use olm_testing::cluster::{Fault, Refusal};
use serde_json::json;

use super::{REACHED, TestBundle, TestEnv, assert_rests};

#[test]
fn v1_without_another_issuer_webhooks_have_certificates_of_olm() {
    let mut env = TestEnv::new();
    env.bundle(&TestBundle {
        has_webhook: true,
        ..TestBundle::default()
    });
    env.extension(&json!({"version": "1.0.0"}));
    env.settle_for(20);
    assert_eq!(env.condition("Progressing"), REACHED);
    let secret = env
        .stage
        .cluster
        .get("Secret", "ns", "demo-service-cert")
        .unwrap();
    assert_eq!(secret["data"].as_object().unwrap().len(), 3);
    let webhooks = env.get("ValidatingWebhookConfiguration", "check.example.com")["webhooks"].clone();
    assert_eq!(
        webhooks[0]["clientConfig"]["caBundle"],
        secret["data"]["olmCAKey"]
    );
    let renewed = &env.get("ClusterObjectSet", "e-1")["metadata"]["annotations"]["olm.operatorframework.io/certificates-renewed-at"];
    assert!(renewed.as_str().unwrap().starts_with("2027-12-31T"), "{renewed}");
    assert_rests(&mut env);
}

/// Each attempt has other certificates, so other Secrets.
#[test]
fn v1_a_revision_that_admission_refuses_leaves_the_secrets_of_one_attempt() {
    let mut env = TestEnv::new();
    env.bundle(&TestBundle {
        has_webhook: true,
        ..TestBundle::default()
    });
    env.stage.cluster.on_request(|request| {
        let is_refused = request.kind.kind == "ClusterObjectSet" && !request.body.is_null();
        is_refused.then(|| Fault::Refuse(Refusal::forbidden("no revisions today")))
    });
    env.extension(&json!({"version": "1.0.0"}));
    env.settle_for(600);
    assert!(env.condition("Progressing").contains("no revisions today"));
    let written = |env: &mut TestEnv| {
        let log = env.stage.cluster.take_log();
        let writes = log.writes.iter().filter(|write| write.contains("Secret"));
        writes.count()
    };
    assert!(written(&mut env) > 3, "it is repeated");
    let secrets = |env: &TestEnv| {
        let objects = env.stage.cluster.objects();
        objects
            .keys()
            .filter(|key| key.kind == "Secret" && key.namespace == "olm")
            .count()
    };
    assert_eq!(secrets(&env), 1);
    env.stage.cluster.clear_hooks();
    env.settle_for(600);
    assert_eq!(env.condition("Progressing"), REACHED);
    assert_eq!(secrets(&env), 1);
    assert_rests(&mut env);
}
