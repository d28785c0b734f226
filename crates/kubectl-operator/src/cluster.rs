//! The objects of a namespace, read from an API server.

use anyhow::{Context as _, anyhow};
use k8s_openapi::serde::de::DeserializeOwned;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, Resource};
use olm_api::v1::OperatorGroup;
use olm_api::v1alpha1::{CatalogSource, ClusterServiceVersion, Subscription};
use olm_resolver::cluster_fit::KubernetesVersion;
use olm_resolver::objects::Document;

use crate::args::ConnectionArgs;
use crate::command_line::CommandLine;
use crate::printer;
use crate::reader::{answer, list_readable};

/// A cluster and the namespace to look at.
pub(crate) struct Cluster {
    pub client: Client,
    pub namespace: String,
    /// Commands that lead to it.
    pub commands: CommandLine,
    server: String,
}

impl Cluster {
    /// Finds the cluster as kubectl does.
    ///
    /// # Errors
    /// There is no usable kubeconfig.
    pub(crate) async fn connect(args: &ConnectionArgs) -> anyhow::Result<Self> {
        let options = KubeConfigOptions {
            context: args.context.clone(),
            ..KubeConfigOptions::default()
        };
        let config = match &args.kubeconfig {
            Some(file) => {
                // The text of these errors holds their causes already.
                let kubeconfig = Kubeconfig::read_from(file)
                    .map_err(|error| anyhow!("cannot read kubeconfig {}: {error}", file.display()))?;
                Config::from_custom_kubeconfig(kubeconfig, &options).await
            }
            None => Config::from_kubeconfig(&options).await,
        };
        let config = config
            .map_err(|error| anyhow!("cannot find the cluster: {error}; see --kubeconfig and --context"))?;
        let namespace = args
            .namespace
            .clone()
            .unwrap_or_else(|| config.default_namespace.clone());
        let server = config.cluster_url.to_string();
        let client = Client::try_from(config).context("cannot set up a connection to the cluster")?;
        Ok(Self {
            client,
            namespace,
            commands: CommandLine::of(args),
            server,
        })
    }

    /// The same cluster with another namespace to look at.
    pub(crate) fn in_namespace(&self, namespace: &str) -> Self {
        Self {
            client: self.client.clone(),
            namespace: namespace.to_owned(),
            commands: self.commands.clone(),
            server: self.server.clone(),
        }
    }

    /// A client of a cluster in memory.
    #[cfg(test)]
    pub(crate) fn of(client: Client, namespace: &str) -> Self {
        Self {
            client,
            namespace: namespace.to_owned(),
            commands: CommandLine::default(),
            server: String::new(),
        }
    }

    /// Subscriptions, ClusterServiceVersions and OperatorGroups of the namespace, and the CatalogSources it may use, with notes of those
    /// that are left out as they cannot be read.
    ///
    /// # Errors
    /// Something cannot be listed.
    pub(crate) async fn objects(&self, global: &str) -> anyhow::Result<(Vec<Document>, Vec<String>)> {
        let namespace = self.namespace.as_str();
        let (mut objects, mut notes) = (Vec::new(), Vec::new());
        objects.extend(self.list::<Subscription>(namespace, &mut notes).await?);
        objects.extend(self.list::<ClusterServiceVersion>(namespace, &mut notes).await?);
        objects.extend(self.list::<OperatorGroup>(namespace, &mut notes).await?);
        objects.extend(self.list::<CatalogSource>(namespace, &mut notes).await?);
        if global != namespace {
            objects.extend(self.list::<CatalogSource>(global, &mut notes).await?);
        }
        Ok((objects, notes))
    }

    /// The version of its Kubernetes. Only notes depend on it, so not to know it is told and holds nothing up.
    pub(crate) async fn kubernetes(&self) -> Option<KubernetesVersion> {
        let what = || "read the version".to_owned();
        let answer = answer(what, self.client.apiserver_version()).await;
        let found = answer
            .map_err(|error| format!("{error:#}"))
            .and_then(|info| info.git_version.parse().map_err(|_| info.git_version));
        match found {
            Ok(version) => Some(version),
            Err(cause) => {
                printer::warning(&format!(
                    "the cluster's version cannot be read: {cause}; see --kube-version"
                ));
                None
            }
        }
    }

    async fn list<K>(&self, namespace: &str, notes: &mut Vec<String>) -> anyhow::Result<Vec<Document>>
    where
        K: Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>
            + Clone
            + std::fmt::Debug
            + DeserializeOwned
            + k8s_openapi::serde::Serialize,
    {
        let (kind, version) = (K::kind(&()), K::api_version(&()));
        let found = list_readable::<K>(&self.client, Some(namespace), "").await;
        let (found, unreadable) = found.map_err(|error| anyhow!("{error:#} (cluster {})", self.server))?;
        let left_out = unreadable
            .iter()
            .map(|object| format!("{}, and is left out", object.text));
        notes.extend(left_out);
        found
            .iter()
            .map(|object| {
                let mut value = serde_json::to_value(object)?;
                // Items of a list come without them.
                value["kind"] = kind.as_ref().into();
                value["apiVersion"] = version.as_ref().into();
                Ok(Document {
                    object: value,
                    origin: format!("an answer of the API server to a list of {}", K::plural(&())),
                })
            })
            .collect()
    }
}
