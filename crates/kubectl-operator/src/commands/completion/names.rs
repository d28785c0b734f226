//! Names of the cluster's objects, as choices for arguments that name one.

use std::collections::BTreeSet;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use olm_api::extension_v1::{ClusterCatalog, ClusterExtension};
use olm_api::names::is_dns1123_subdomain;
use olm_api::packages::PackageManifest;
use olm_api::v1alpha1::{CatalogSource, Subscription};
use tokio::runtime::Builder;

use crate::args::ConnectionArgs;
use crate::cluster::Cluster;
use crate::global;
use crate::packages::offered;
use crate::reader::{list_cluster_names, list_names};

/// Maximum time to read names, during which the user's shell does not react.
const PATIENCE: Duration = Duration::from_secs(2);

/// Objects whose names an argument takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Named {
    /// Subscriptions of the namespace.
    Subscriptions,
    /// Packages that the namespace can use.
    Packages,
    /// CatalogSources of the namespace, and global ones as NAMESPACE/NAME.
    Catalogs,
    /// CatalogSources of the namespace.
    OwnCatalogs,
    Namespaces,
    Extensions,
    ClusterCatalogs,
    Definitions,
    /// Channels of the package that is the command's first argument.
    Channels,
    /// Versions of that package.
    Versions,
}

/// Returns the objects whose names an argument of a command takes; `None` if it takes other values.
pub(super) fn named_by(command: &[&str], argument: &str) -> Option<Named> {
    Some(match (command, argument) {
        (_, "namespace" | "global_catalog_namespace" | "olm_namespace" | "catalogd_namespace")
        | (["install"], "watch") => Named::Namespaces,
        (
            [
                "approve" | "hold" | "list-operands" | "rollback" | "status" | "unhold" | "uninstall"
                | "upgrade",
            ],
            "name",
        )
        | (["explain" | "plan"] | ["olmv1", "adopt"], "subscription") => Named::Subscriptions,
        (["describe" | "graph" | "install" | "list-available" | "rights"], "package")
        | (["list-available"], "named") => Named::Packages,
        (["describe" | "graph" | "install" | "list-available" | "rights"], "catalog") => Named::Catalogs,
        (["describe" | "graph" | "install" | "rights"], "channel") => Named::Channels,
        (["install" | "rights"], "version") => Named::Versions,
        (["uninstall"], "delete_crd") => Named::Definitions,
        (["catalog", "remove"], "name") => Named::OwnCatalogs,
        (["olmv1", "plan" | "status"] | ["olmv1", "delete" | "get" | "update", "extension"], "name") => {
            Named::Extensions
        }
        (["olmv1", "delete" | "get" | "update", "catalog"], "name")
        | (["olmv1", "search", "catalog"], "catalog") => Named::ClusterCatalogs,
        _ => return None,
    })
}

/// Returns names of the cluster that the connection leads to, sorted. `first` is the command's first argument. Empty if the cluster
/// does not answer in time or refuses: a shell has no place for an error.
pub(super) fn of_cluster(named: Named, connection: &ConnectionArgs, first: &str) -> Vec<String> {
    let (connection, first) = (connection.clone(), first.to_owned());
    let (sender, receiver) = mpsc::channel();
    // A thread, because programs that a kubeconfig names for credentials block. It ends with the process.
    thread::spawn(move || {
        if let Ok(runtime) = Builder::new_current_thread().enable_all().build() {
            let names = runtime.block_on(async {
                let cluster = Cluster::connect(&connection).await?;
                read(named, &cluster, &first).await
            });
            let _ = sender.send(names);
        }
    });
    match receiver.recv_timeout(PATIENCE) {
        Ok(Ok(names)) => names.into_iter().collect(),
        _ => Vec::new(),
    }
}

/// Reads the names.
///
/// # Errors
/// A list request fails.
async fn read(named: Named, cluster: &Cluster, first: &str) -> anyhow::Result<BTreeSet<String>> {
    let (client, namespace) = (&cluster.client, cluster.namespace.as_str());
    let mut names = match named {
        Named::Subscriptions => list_names::<Subscription>(client, namespace).await?,
        Named::Packages => list_names::<PackageManifest>(client, namespace).await?,
        Named::Catalogs | Named::OwnCatalogs => list_names::<CatalogSource>(client, namespace).await?,
        Named::Namespaces => list_cluster_names::<Namespace>(client).await?,
        Named::Extensions => list_cluster_names::<ClusterExtension>(client).await?,
        Named::ClusterCatalogs => list_cluster_names::<ClusterCatalog>(client).await?,
        Named::Definitions => list_cluster_names::<CustomResourceDefinition>(client).await?,
        Named::Channels | Named::Versions => {
            let packages = offered(client, Some(namespace)).await?.unwrap_or_default();
            let own = packages.into_iter().filter(|package| package.name == first);
            let channels = own.flat_map(|package| package.channels);
            match named {
                Named::Channels => channels.map(|channel| channel.name).collect(),
                _ => channels
                    .flat_map(|channel| channel.versions)
                    .map(|version| version.version)
                    .collect(),
            }
        }
    };
    // The shell puts a choice into the command line as it is, and authors of catalogs choose names of packages.
    names.retain(|name| is_dns1123_subdomain(name));
    if named == Named::Catalogs {
        let global = global::find(client, None, Some(namespace)).await.catalogs;
        if global != namespace {
            // Tenants often have no permissions there.
            let found = list_names::<CatalogSource>(client, &global).await;
            let found = found.unwrap_or_default().into_iter();
            names.extend(found.map(|name| format!("{global}/{name}")));
        }
    }
    Ok(names.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use olm_testing::cluster::{FakeCluster, Fault, Refusal};
    use serde_json::json;

    use super::*;
    use crate::operators::tests::subscription;
    use crate::packages::tests::{manifest, served};

    #[tokio::test(start_paused = true)]
    async fn names_are_those_of_the_namespace() {
        let cluster = FakeCluster::new();
        cluster.put(subscription("etcd", &json!({})));
        cluster.put(subscription("db", &json!({})));
        for (namespace, name) in [("shop", "ours"), ("olm", "community"), ("other", "theirs")] {
            cluster.put(
                json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
                "metadata": {"namespace": namespace, "name": name}, "spec": {"sourceType": "grpc"}}),
            );
        }
        for name in ["shop", "$(rm -rf .)"] {
            cluster.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
        }
        let (client, _link) = cluster.connect();
        let shop = Cluster::of(client, "shop");
        for (named, expected) in [
            (Named::Subscriptions, &["db", "etcd"][..]),
            (Named::Catalogs, &["olm/community", "ours"]),
            (Named::OwnCatalogs, &["ours"]),
            // A name that a shell could run is no choice.
            (Named::Namespaces, &["shop"]),
        ] {
            let found: Vec<String> = read(named, &shop, "").await.unwrap().into_iter().collect();
            assert_eq!(found, expected, "{named:?}");
        }
        cluster.on_request(|request| {
            let is_global = request.namespace == "olm";
            is_global.then(|| Fault::Refuse(Refusal::new(403, "Forbidden", "it is forbidden")))
        });
        let found = read(Named::Catalogs, &shop, "").await.unwrap();
        assert_eq!(found, BTreeSet::from(["ours".to_owned()]));
    }

    #[tokio::test(start_paused = true)]
    async fn channels_and_versions_are_those_of_the_package() {
        let cluster = served();
        cluster.put(manifest("etcd", "cat"));
        let (client, _link) = cluster.connect();
        let shop = Cluster::of(client, "shop");
        for (named, package, expected) in [
            (Named::Channels, "etcd", &["beta", "stable"][..]),
            (Named::Versions, "etcd", &["1.0.0", "1.1.0", "2.0.0"]),
            (Named::Channels, "vault", &[]),
        ] {
            let found: Vec<String> = read(named, &shop, package).await.unwrap().into_iter().collect();
            assert_eq!(found, expected, "{named:?} {package}");
        }
    }

    #[test]
    fn a_cluster_that_is_not_there_has_no_names() {
        let connection = ConnectionArgs {
            kubeconfig: Some("/no/such/kubeconfig".into()),
            ..ConnectionArgs::default()
        };
        assert!(of_cluster(Named::Subscriptions, &connection, "").is_empty());
    }
}
