//! The objects of a namespace, read from an API server.

use anyhow::Context as _;
use k8s_openapi::serde::de::DeserializeOwned;
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, Resource};
use olm_api::v1::OperatorGroup;
use olm_api::v1alpha1::{CatalogSource, ClusterServiceVersion, Subscription};
use olm_resolver::objects::Objects;
use serde_json::Value;

use crate::args::ClusterArgs;

/// A cluster and the namespace to look at.
pub struct Cluster {
    pub client: Client,
    pub namespace: String,
}

impl Cluster {
    /// Finds the cluster as kubectl does.
    ///
    /// # Errors
    /// There is no usable kubeconfig.
    pub async fn connect(args: &ClusterArgs) -> anyhow::Result<Self> {
        let options = KubeConfigOptions {
            context: args.context.clone(),
            ..KubeConfigOptions::default()
        };
        let config = match &args.kubeconfig {
            Some(file) => {
                let kubeconfig = Kubeconfig::read_from(file)
                    .with_context(|| format!("cannot read kubeconfig {}", file.display()))?;
                Config::from_custom_kubeconfig(kubeconfig, &options).await
            }
            None => Config::from_kubeconfig(&options).await,
        };
        let config = config.context("cannot find the cluster")?;
        let namespace = args
            .namespace
            .clone()
            .unwrap_or_else(|| config.default_namespace.clone());
        let client = Client::try_from(config).context("cannot set up a connection to the cluster")?;
        Ok(Self { client, namespace })
    }

    /// Subscriptions, ClusterServiceVersions and OperatorGroups of the namespace, and the CatalogSources it may use.
    ///
    /// # Errors
    /// Something cannot be listed.
    pub async fn objects(&self, global: &str) -> anyhow::Result<Vec<Value>> {
        let namespace = self.namespace.as_str();
        let mut objects = Vec::new();
        objects.extend(self.list::<Subscription>(namespace).await?);
        objects.extend(self.list::<ClusterServiceVersion>(namespace).await?);
        objects.extend(self.list::<OperatorGroup>(namespace).await?);
        objects.extend(self.list::<CatalogSource>(namespace).await?);
        if global != namespace {
            objects.extend(self.list::<CatalogSource>(global).await?);
        }
        Ok(objects)
    }

    async fn list<K>(&self, namespace: &str) -> anyhow::Result<Vec<Value>>
    where
        K: Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>
            + Clone
            + std::fmt::Debug
            + DeserializeOwned
            + k8s_openapi::serde::Serialize,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), namespace);
        let (kind, version) = (K::kind(&()), K::api_version(&()));
        let found = api
            .list(&ListParams::default())
            .await
            .with_context(|| format!("cannot list {} in namespace {namespace}", K::plural(&())))?;
        found
            .items
            .iter()
            .map(|object| {
                let mut value = serde_json::to_value(object)?;
                // Items of a list come without them.
                value["kind"] = kind.as_ref().into();
                value["apiVersion"] = version.as_ref().into();
                Ok(value)
            })
            .collect()
    }
}

/// The objects, with those of `more` in place of others of the same kind, namespace and name.
///
/// # Errors
/// An object that is not what its kind demands.
pub fn merge(objects: Vec<Value>, more: Vec<Value>) -> anyhow::Result<Objects> {
    let key = |object: &Value| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &object["metadata"];
        (
            text(&object["kind"]),
            text(&metadata["namespace"]),
            text(&metadata["name"]),
        )
    };
    let replaced: Vec<_> = more.iter().map(key).collect();
    let kept = objects
        .into_iter()
        .filter(|object| !replaced.contains(&key(object)));
    let mut merged = Objects::default();
    for (index, object) in kept.chain(more).enumerate() {
        merged.add(object, index + 1)?;
    }
    Ok(merged)
}
