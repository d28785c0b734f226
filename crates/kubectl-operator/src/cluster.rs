//! The connection to a cluster, and the objects of a namespace.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use k8s_openapi::serde::Serialize;
use kube::client::ClientBuilder;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config, Resource};
use olm_api::v1::OperatorGroup;
use olm_api::v1alpha1::{CatalogSource, ClusterServiceVersion, Subscription};
use olm_resolver::cluster_fit::KubernetesVersion;
use olm_resolver::objects::Document;
use serde_json::json;
use tower::BoxError;
use tower::util::MapErrLayer;

use crate::args::ConnectionArgs;
use crate::command_line::CommandLine;
use crate::reader::{NamespacedKind, answer, is_forbidden, list_readable, require_namespace};
use crate::terminal::first_line;
use crate::{printer, proxy};

/// Variable from which kubectl takes the names of kubeconfig files.
const KUBECONFIG: &str = "KUBECONFIG";

/// A cluster and the namespace that commands work in.
#[derive(Clone)]
pub(crate) struct Cluster {
    pub client: Client,
    pub namespace: String,
    /// Suggested commands with the flags of this cluster.
    pub commands: CommandLine,
    server: String,
}

/// Returns a client whose errors name the server that did not respond.
fn client(config: Config, server: &str) -> kube::Result<Client> {
    let server = server.to_owned();
    let name_server = move |cause: BoxError| match cause.downcast::<kube::Error>() {
        Ok(known) => BoxError::from(known),
        Err(cause) => {
            let named = format!("cluster {server} is not reached");
            anyhow::Error::from_boxed(cause).context(named).into()
        }
    };
    Ok(ClientBuilder::try_from(config)?
        .with_layer(&MapErrLayer::new(name_server))
        .build())
}

/// Returns the kubeconfig that kubectl would use: the named file, else the existing files of the variable, else the one in the
/// home directory.
fn kubeconfig(named: Option<&Path>, variable: Option<&OsStr>) -> anyhow::Result<Kubeconfig> {
    let read = |file: &Path| {
        Kubeconfig::read_from(file).map_err(|error| {
            anyhow!(
                "cannot read kubeconfig {}: {}",
                file.display(),
                first_line(&error.to_string())
            )
        })
    };
    if let Some(file) = named {
        return read(file);
    }
    let files = std::env::split_paths(variable.unwrap_or_default());
    let files: Vec<PathBuf> = files.filter(|file| !file.as_os_str().is_empty()).collect();
    if files.is_empty() {
        return Kubeconfig::read().map_err(|error| no_cluster(&error));
    }
    // A file that cannot be checked counts as existing, so that its error is reported.
    let is_there = |file: &&PathBuf| file.try_exists().unwrap_or(true);
    let mut merged: Option<Kubeconfig> = None;
    for file in files.iter().filter(is_there) {
        let next = read(file)?;
        merged = Some(match merged {
            Some(before) => before.merge(next).map_err(|error| no_cluster(&error))?,
            None => next,
        });
    }
    merged.ok_or_else(|| {
        let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
        anyhow!(
            "cannot find the cluster: no file in {KUBECONFIG} exists: {}; see --kubeconfig and --context",
            names.join(", ")
        )
    })
}

fn no_cluster(error: &KubeconfigError) -> anyhow::Error {
    anyhow!(
        "cannot find the cluster: {}; see --kubeconfig and --context",
        first_line(&error.to_string())
    )
}

/// Sets impersonation from the flags. They replace the impersonation of the kubeconfig.
fn act_as(account: &mut AuthInfo, args: &ConnectionArgs) {
    if let Some(user) = &args.as_user {
        account.impersonate = Some(user.clone());
        account.impersonate_groups = Some(args.as_group.clone());
        account.impersonate_uid = None;
        account.impersonate_user_extra = None;
    }
}

/// Returns CatalogSources for the catalogs of a namespace that Subscriptions name. Reading their content reports why it fails.
fn named_catalogs<'a>(objects: impl Iterator<Item = &'a Document>, namespace: &str) -> Vec<Document> {
    let specs = objects
        .filter(|document| document.object["kind"] == "Subscription")
        .map(|document| &document.object["spec"]);
    let named = specs.filter(|spec| spec["sourceNamespace"] == namespace);
    let names: BTreeSet<&str> = named.filter_map(|spec| spec["source"].as_str()).collect();
    let documents = names.into_iter().map(|name| Document {
        object: json!({"apiVersion": CatalogSource::api_version(&()), "kind": CatalogSource::kind(&()),
            "metadata": {"namespace": namespace, "name": name}, "spec": {"sourceType": "grpc"}}),
        origin: "the Subscriptions from the API server".to_owned(),
    });
    documents.collect()
}

impl Cluster {
    /// Connects to the cluster that kubectl would use.
    ///
    /// # Errors
    /// There is no usable kubeconfig.
    pub(crate) async fn connect(args: &ConnectionArgs) -> anyhow::Result<Self> {
        let options = KubeConfigOptions {
            context: args.context.clone().filter(|context| !context.is_empty()),
            ..KubeConfigOptions::default()
        };
        let kubeconfig = kubeconfig(
            args.kubeconfig.as_deref(),
            std::env::var_os(KUBECONFIG).as_deref(),
        )?;
        let named = proxy::named(&kubeconfig, options.context.as_deref());
        // The text of these errors already includes their causes.
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &options)
            .await
            .map_err(|error| no_cluster(&error))?;
        // The client compares `NO_PROXY` with the proxy's address instead of the cluster's.
        config.proxy_url = proxy::of(named, &config.cluster_url)
            .context("cannot connect to the cluster: invalid address of the proxy (HTTPS_PROXY, or proxy-url of the kubeconfig)")?;
        act_as(&mut config.auth_info, args);
        let namespace = args
            .namespace
            .clone()
            .filter(|namespace| !namespace.is_empty())
            .unwrap_or_else(|| config.default_namespace.clone());
        let server = config.cluster_url.to_string();
        let client = client(config, &server).context("cannot set up a connection to the cluster")?;
        Ok(Self {
            client,
            namespace,
            commands: CommandLine::of(args),
            server,
        })
    }

    /// Returns a suggested command for the namespace, with a quoted name in place of each `{}`.
    pub(crate) fn suggest(&self, form: &str, names: &[&str]) -> String {
        self.commands.suggest(form, names, Some(&self.namespace))
    }

    /// Returns a suggested command for objects that belong to no namespace.
    pub(crate) fn suggest_for_cluster(&self, form: &str, names: &[&str]) -> String {
        self.commands.suggest_for_cluster(form, names)
    }

    /// Returns the same cluster with another namespace.
    pub(crate) fn in_namespace(&self, namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            ..self.clone()
        }
    }

    /// Returns a cluster for a client of an in-memory API server.
    #[cfg(test)]
    pub(crate) fn of(client: Client, namespace: &str) -> Self {
        Self {
            client,
            namespace: namespace.to_owned(),
            commands: CommandLine::default(),
            server: String::new(),
        }
    }

    /// Returns the Subscriptions, ClusterServiceVersions and OperatorGroups of the namespace, and the CatalogSources that it may
    /// use. The notes name objects that are excluded because they cannot be read. If the global CatalogSources may not be listed,
    /// the result has those that Subscriptions name, there or among the `given` objects, without their fields.
    ///
    /// # Errors
    /// A list request fails for another reason, or the namespace does not exist.
    pub(crate) async fn objects(
        &self,
        global: &str,
        given: &[Document],
    ) -> anyhow::Result<(Vec<Document>, Vec<String>)> {
        let read = self.listed(global, given).await;
        let (objects, notes) = read.map_err(|error| match format!("{error:#}") {
            text if text.contains(&self.server) => anyhow!(text),
            text => anyhow!("{text} (cluster {})", self.server),
        })?;
        let is_own =
            |document: &Document| document.object["metadata"]["namespace"] == self.namespace.as_str();
        if notes.is_empty() && !objects.iter().any(is_own) {
            require_namespace(&self.client, &self.namespace).await?;
        }
        Ok((objects, notes))
    }

    /// Returns the same, with errors that may not name the cluster.
    async fn listed(&self, global: &str, given: &[Document]) -> anyhow::Result<(Vec<Document>, Vec<String>)> {
        let namespace = self.namespace.as_str();
        let (mut objects, mut notes) = (Vec::new(), Vec::new());
        objects.extend(self.list::<Subscription>(namespace, &mut notes).await?);
        objects.extend(self.list::<ClusterServiceVersion>(namespace, &mut notes).await?);
        objects.extend(self.list::<OperatorGroup>(namespace, &mut notes).await?);
        objects.extend(self.list::<CatalogSource>(namespace, &mut notes).await?);
        if global != namespace {
            match self.list::<CatalogSource>(global, &mut notes).await {
                Ok(catalogs) => objects.extend(catalogs),
                Err(error) if is_forbidden(&error) => {
                    notes.push(format!(
                        "{error:#}; only catalogs that Subscriptions name are known"
                    ));
                    let named = named_catalogs(objects.iter().chain(given), global);
                    objects.extend(named);
                }
                Err(error) => return Err(error),
            }
        }
        Ok((objects, notes))
    }

    /// Returns the version of Kubernetes. Only notes depend on it, so a failure is a warning and the result `None`.
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
                    "cannot read the cluster's version: {cause}; see --kube-version"
                ));
                None
            }
        }
    }

    async fn list<K: NamespacedKind + Serialize>(
        &self,
        namespace: &str,
        notes: &mut Vec<String>,
    ) -> anyhow::Result<Vec<Document>> {
        let (kind, version) = (K::kind(&()), K::api_version(&()));
        let (found, unreadable) = list_readable::<K>(&self.client, Some(namespace), "").await?;
        let left_out = unreadable
            .iter()
            .map(|object| format!("{}; skipped", object.text));
        notes.extend(left_out);
        found
            .iter()
            .map(|object| {
                let mut value = serde_json::to_value(object)?;
                // Items of a list have no kind and API version.
                value["kind"] = kind.as_ref().into();
                value["apiVersion"] = version.as_ref().into();
                Ok(Document {
                    object: value,
                    origin: format!("a list of {} from the API server", K::plural(&())),
                })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use olm_resolver::objects::Objects;
    use olm_testing::cluster::{FakeCluster, Fault, Refusal};

    use super::*;
    use crate::catalogs;
    use crate::operators::tests::subscription;

    const ONE: &str = "apiVersion: v1\nkind: Config\ncurrent-context: one\nclusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n\
        contexts: [{name: one, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {as: bob, as-groups: [x]}}]\n";

    #[test]
    fn missing_ones_of_several_kubeconfigs_are_skipped() {
        let folder = tempfile::tempdir().unwrap();
        let (good, missing) = (folder.path().join("good"), folder.path().join("missing"));
        std::fs::write(&good, ONE).unwrap();
        let joined = |files: &[&Path]| std::env::join_paths(files).unwrap();
        for files in [&[&*missing, &*good][..], &[&good, &missing], &[&good]] {
            let found = kubeconfig(None, Some(&joined(files))).unwrap();
            assert_eq!(found.current_context.as_deref(), Some("one"), "{files:?}");
        }
        let error = kubeconfig(None, Some(&joined(&[&missing])))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("no file in KUBECONFIG exists") && error.contains("missing"),
            "{error}"
        );
        // The named file must exist and be valid.
        kubeconfig(Some(&missing), Some(&joined(&[&good]))).unwrap_err();
        std::fs::write(&missing, ": bad\n  x").unwrap();
        let error = kubeconfig(None, Some(&joined(&[&missing, &good])))
            .unwrap_err()
            .to_string();
        assert!(!error.contains('\n') && error.contains("missing"), "{error}");
    }

    #[test]
    fn an_impersonated_user_has_no_fields_of_another() {
        let found = Kubeconfig::from_yaml(ONE).unwrap();
        let mut account = found.auth_infos[0].auth_info.clone().unwrap();
        act_as(&mut account, &ConnectionArgs::default());
        assert_eq!(account.impersonate.as_deref(), Some("bob"));
        let args = ConnectionArgs {
            as_user: Some("eve".to_owned()),
            ..ConnectionArgs::default()
        };
        act_as(&mut account, &args);
        assert_eq!(account.impersonate.as_deref(), Some("eve"));
        assert_eq!(account.impersonate_groups, Some(Vec::new()));
    }

    /// Tenants often have no permissions in OLM's namespace.
    #[tokio::test(start_paused = true)]
    async fn global_catalogs_that_may_not_be_listed_are_those_that_subscriptions_name() {
        for (code, is_in_file, is_answer) in [(403, false, true), (403, true, true), (500, false, false)] {
            let cluster = FakeCluster::new();
            let mut given = Vec::new();
            match is_in_file {
                true => given.push(Document {
                    object: subscription("db", &json!({})),
                    origin: String::new(),
                }),
                false => cluster.put(subscription("db", &json!({}))),
            }
            cluster.on_request(move |request| {
                let is_global = request.kind.kind == "CatalogSource" && request.namespace == "olm";
                is_global.then(|| Fault::Refuse(Refusal::new(code, "Forbidden", "it is forbidden")))
            });
            let (client, _link) = cluster.connect();
            let read = Cluster::of(client.clone(), "shop").objects("olm", &given).await;
            assert_eq!(read.is_ok(), is_answer, "{code}");
            let Ok((objects, notes)) = read else {
                continue;
            };
            assert_eq!(notes.len(), 1, "{notes:?}");
            assert!(
                notes[0].starts_with("cannot list catalogsources in namespace olm: it is forbidden"),
                "{notes:?}"
            );
            let mut objects = Objects::of(objects).unwrap();
            objects.apply(given).unwrap();
            let keys = objects.catalog_keys("shop");
            let content = catalogs::read(&client, &keys).await.contents;
            assert_eq!(content.len(), 1);
            for (key, content) in content {
                assert_eq!(key.to_string(), "olm/cat");
                assert!(content.is_err_and(|cause| cause.contains("it is forbidden")));
            }
        }
    }

    #[tokio::test]
    async fn a_cluster_that_is_not_reached_is_named_with_what_to_look_at() {
        let found = Kubeconfig::from_yaml(ONE).unwrap();
        let config = Config::from_custom_kubeconfig(found, &KubeConfigOptions::default())
            .await
            .unwrap();
        let client = client(config, "http://127.0.0.1:1/").unwrap();
        let error = crate::reader::list_names::<Subscription>(&client, "shop")
            .await
            .unwrap_err();
        let text = error.to_string();
        for part in [
            "cluster http://127.0.0.1:1/ is not reached: ",
            "refused",
            "--kubeconfig",
            "kubectl cluster-info",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("ServiceError"), "{text}");
    }
}
