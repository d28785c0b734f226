//! The operator that the demo and the tests install through a Subscription.
//!
//! It turns every `Greeting` into a ConfigMap of the same name and reports that in the Greeting's status. Release 1.1.0 also
//! supports `spec.language`, so an upgrade is visible from outside. The image sets the release by the environment variable
//! `DEMO_RELEASE`. With a certificate the operator also serves webhooks and an API.

mod greeting;
mod reconcile;
mod serve;

use std::{collections::BTreeSet, sync::Arc};

use anyhow::{Context as _, Result};
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client,
    runtime::{Controller, watcher},
};

use crate::{
    greeting::{Greeting, Release},
    reconcile::{Context, error_policy, reconcile},
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    tracing_subscriber::fmt().with_ansi(false).init();
    let release: Release = std::env::var("DEMO_RELEASE")
        .context("DEMO_RELEASE is not set; the images of this operator set it")?
        .parse()?;
    // OLM writes the namespaces of the OperatorGroup into an annotation of the pod; empty means all.
    let watched = std::env::var("WATCH_NAMESPACE").unwrap_or_default();
    let namespaces: BTreeSet<&str> = watched.split(',').map(str::trim).collect();
    let client = Client::try_default()
        .await
        .context("no connection to the API server")?;
    tracing::info!(%release, ?namespaces, "starting");

    let context = Arc::new(Context {
        client: client.clone(),
        release,
    });
    let controllers = namespaces.into_iter().map(|namespace| {
        let greetings: Api<Greeting> = scoped(&client, namespace);
        let config_maps: Api<ConfigMap> = scoped(&client, namespace);
        Controller::new(greetings, watcher::Config::default())
            .owns(
                config_maps,
                watcher::Config::default().labels("app.kubernetes.io/managed-by=demo-operator"),
            )
            .shutdown_on_signal()
            .run(reconcile, error_policy, Arc::clone(&context))
            .for_each(|outcome| async {
                if let Err(error) = outcome {
                    tracing::warn!(%error, "reconciliation failed");
                }
            })
    });
    let controllers = futures::future::join_all(controllers);
    let (served, _) = tokio::join!(serve::run(), controllers);
    served
}

fn scoped<K>(client: &Client, namespace: &str) -> Api<K>
where
    K: kube::Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>,
{
    if namespace.is_empty() {
        Api::all(client.clone())
    } else {
        Api::namespaced(client.clone(), namespace)
    }
}
