//! Reconciles a Greeting to a ConfigMap.

#![expect(
    clippy::disallowed_methods,
    reason = "an operator of its own, which knows no OLM"
)]

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ObjectMeta, Patch, PatchParams},
    runtime::controller::Action,
};
use serde_json::json;

use crate::greeting::{Greeting, GreetingStatus, Release};

const MANAGER: &str = "demo-operator";

/// Data that every reconcile needs.
pub struct Context {
    /// Connection to the API server.
    pub client: Client,
    /// Release of this operator.
    pub release: Release,
}

/// Applies the ConfigMap, then the status.
pub async fn reconcile(greeting: Arc<Greeting>, context: Arc<Context>) -> Result<Action, kube::Error> {
    let namespace = greeting.namespace().unwrap_or_default();
    let message = context.release.greet(&greeting.spec);
    let config_map = build_config_map(&greeting, &message);
    let params = PatchParams::apply(MANAGER).force();
    Api::<ConfigMap>::namespaced(context.client.clone(), &namespace)
        .patch(&greeting.name_any(), &params, &Patch::Apply(&config_map))
        .await?;

    let status = GreetingStatus {
        message,
        operator_release: context.release.to_string(),
    };
    if greeting.status.as_ref() != Some(&status) {
        Api::<Greeting>::namespaced(context.client.clone(), &namespace)
            .patch_status(
                &greeting.name_any(),
                &PatchParams::default(),
                &Patch::Merge(json!({ "status": status })),
            )
            .await?;
    }
    Ok(Action::await_change())
}

/// Retries a failed write.
pub fn error_policy(_: Arc<Greeting>, _: &kube::Error, _: Arc<Context>) -> Action {
    Action::requeue(Duration::from_secs(1))
}

fn build_config_map(greeting: &Greeting, message: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(greeting.name_any()),
            namespace: greeting.namespace(),
            labels: Some([("app.kubernetes.io/managed-by".to_owned(), MANAGER.to_owned())].into()),
            owner_references: greeting.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        data: Some([("message".to_owned(), message.to_owned())].into()),
        ..ConfigMap::default()
    }
}
