//! Pull secrets of a catalog's ServiceAccount: those of its spec, and those of others.

use k8s_openapi::api::core::v1::ServiceAccount;

use super::*;

fn wanted(secrets: &[&str]) -> ServiceAccount {
    objects::build_service_account(&source(
        json!({"sourceType": "grpc", "image": IMAGE, "secrets": secrets}),
    ))
}

/// Returns the account after the wanted changes were written, and asserts that it is final.
fn mended(live: &ServiceAccount, secrets: &[&str]) -> ServiceAccount {
    let wanted = wanted(secrets);
    let mut object = serde_json::to_value(live).unwrap();
    let Some(patch) = account::mend(live, &wanted) else {
        return live.clone();
    };
    olm_testing::patch::merge(&mut object, &patch);
    let mended = serde_json::from_value(object).unwrap();
    assert_eq!(account::mend(&mended, &wanted), None, "at rest");
    mended
}

/// Returns the account after a change by others.
fn changed(live: &ServiceAccount, change: Value) -> ServiceAccount {
    let mut object = serde_json::to_value(live).unwrap();
    olm_testing::patch::merge(&mut object, &change);
    serde_json::from_value(object).unwrap()
}

fn secrets(account: &ServiceAccount) -> Vec<&str> {
    let secrets = account.image_pull_secrets.iter().flatten();
    secrets.map(|secret| secret.name.as_str()).collect()
}

/// As for upstream, one that leaves the spec stays: others may use it.
#[test]
fn pull_secrets_are_added_to_those_of_others() {
    let platform = json!({"imagePullSecrets": [{"name": "a"}, {"name": "platform"}]});
    let account = changed(&wanted(&["a"]), platform);
    assert_eq!(account::mend(&account, &wanted(&["a"])), None);
    let account = mended(&account, &["c"]);
    assert_eq!(secrets(&account), ["a", "platform", "c"]);
    assert_eq!(account::mend(&account, &wanted(&[])), None);
    // A secret that others remove is restored.
    let account = changed(&account, json!({"imagePullSecrets": [{"name": "platform"}]}));
    assert_eq!(secrets(&mended(&account, &["c", "platform"])), ["platform", "c"]);
}

/// The list is one value: changes by others between the read and the write must not be lost.
#[test]
fn pull_secrets_are_written_as_they_were_read() {
    let mut observed = converged(source(
        json!({"sourceType": "grpc", "image": IMAGE, "secrets": ["a"]}),
    ));
    let mut account = wanted(&["b"]);
    account.metadata.resource_version = Some("7".to_owned());
    observed.service_account = Some(Arc::new(account));
    let (plan, verdict) = decide::decide(&observed, now());
    assert_eq!(verdict.purposes[..1], [Purpose::ServiceAccount]);
    let Action::Patch { guard, .. } = &plan.actions[0] else {
        panic!("{plan}");
    };
    assert_eq!(guard.resource_version.as_deref(), Some("7"));
}
