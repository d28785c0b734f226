//! Reads the state for the checks, until the time limit. Lists are paged, and only metadata is read if that is enough. Nothing is
//! written.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding;
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{ListParams, PartialObjectMeta};
use kube::{Api, Client, ResourceExt as _};
use olm_api::labels;
use olm_api::v1::{Operator, OperatorGroup};
use olm_api::v1alpha1::{CatalogSource, Subscription};
use tokio::time::Instant;

use super::observed::{Observed, Owned, Read};
use crate::commands::catalog::is_ready;
use crate::gather;
use crate::global::OlmNamespaces;
use crate::operators::{Gathered, Key};
use crate::reader::{
    ClusterKind, Kind, NamespacedKind, PAGE, Unreadable, answer, get, has_namespace, is_unserved,
    list_cluster, list_readable, pages, place,
};
use crate::terminal::now;
use crate::turns::in_turn;

mod serving;

/// Maximum number of objects of one sort that are requested one by one.
const MAX_ASKED: usize = 200;
/// Selects OLM's own Deployments, here and upstream.
pub(crate) const PROGRAMS: &str =
    "app in (catalog-operator,catalogd,olm-operator,operator-controller,packageserver,package-server)";

/// A client with a time limit.
pub(crate) struct Reader<'a> {
    client: &'a Client,
    deadline: Option<Instant>,
    /// Objects that do not match their schemas.
    unreadable: RefCell<Vec<Unreadable>>,
}

/// Reads one namespace or all, and the parts of OLM's namespaces that these depend on. A part that cannot be read holds the
/// reason.
pub(crate) async fn observe(reader: &Reader<'_>, namespace: Option<&str>, own: &OlmNamespaces) -> Observed {
    let observed = Box::pin(read(reader, namespace, own)).await;
    match observed.is_consistent() {
        true => observed,
        false => Box::pin(read(reader, namespace, own)).await,
    }
}

async fn read(reader: &Reader<'_>, namespace: Option<&str>, own: &OlmNamespaces) -> Observed {
    let global = own.catalogs.as_str();
    // Dependents are read before ClusterServiceVersions, so that one created meanwhile is not missed.
    let webhooks = reader.webhooks(namespace).await;
    let api_services = reader.api_services(namespace).await;
    let roles = reader.roles(namespace).await;
    let operators = reader.operators(namespace).await;
    let subscriptions = operators.as_ref().map(|found| found.subscriptions.as_slice());
    let subscriptions = subscriptions.unwrap_or_default();
    let (catalogs, unlisted_catalogs) = reader.catalogs(namespace, global, subscriptions).await;
    let groups = reader.all::<OperatorGroup>(namespace, "").await;
    // Owned definitions depend on the ClusterServiceVersions.
    let conversions = match &operators {
        Ok(operators) => reader.conversions(namespace, operators).await,
        Err(cause) => Err(cause.clone()),
    };
    let targets = serving::targets(&webhooks, &api_services, &conversions);
    Observed {
        global: global.to_owned(),
        olm: own.olm.clone(),
        now: now(),
        programs: reader.all(Some(&own.olm), PROGRAMS).await,
        guard: reader.guard(namespace).await,
        cluster_catalogs: reader.of_v1(namespace).await,
        extensions: reader.of_v1(namespace).await,
        leftovers: reader.leftovers(namespace).await,
        operators,
        catalog_pods: reader.catalog_pods(&catalogs).await,
        catalogs,
        unlisted_catalogs,
        accounts: reader.accounts(groups.as_deref().unwrap_or_default()).await,
        group_targets: reader.group_targets(groups.as_deref().unwrap_or_default()).await,
        groups,
        roles,
        webhooks,
        api_services,
        services: each(targets, async |key: &Key| reader.service(key).await).await,
        conversions,
        unreadable: reader.take_unreadable(),
    }
}

/// Reads something for each key, with the namespaces in turn, for at most [`MAX_ASKED`] keys.
async fn each<T>(
    keys: impl IntoIterator<Item = Key>,
    read: impl AsyncFn(&Key) -> Read<T>,
) -> BTreeMap<Key, Read<T>> {
    let mut found = BTreeMap::new();
    for (at, key) in in_turn(keys, |key| key.0.clone()).into_iter().enumerate() {
        let read = match at {
            MAX_ASKED.. => Err(format!("at most {MAX_ASKED} are read")),
            _ => read(&key).await,
        };
        found.insert(key, read);
    }
    found
}

impl<'a> Reader<'a> {
    /// Returns a reader with a time limit; zero means none.
    pub(crate) fn new(client: &'a Client, timeout: Duration) -> Self {
        Self {
            client,
            deadline: (!timeout.is_zero()).then(|| Instant::now() + timeout),
            unreadable: RefCell::default(),
        }
    }

    /// Returns a reader with half of the remaining time.
    pub(crate) fn half(&self) -> Self {
        let now = Instant::now();
        Self {
            client: self.client,
            deadline: self
                .deadline
                .map(|end| now + end.saturating_duration_since(now) / 2),
            unreadable: RefCell::default(),
        }
    }

    /// Returns the client.
    pub(crate) fn client(&self) -> &'a Client {
        self.client
    }
}

impl Reader<'_> {
    /// Returns true if the namespace does not exist, and false for users who may not read it.
    pub(crate) async fn lacks(&self, namespace: &str) -> bool {
        self.within(has_namespace(self.client, namespace)).await == Ok(false)
    }

    /// Awaits a read until the time limit.
    pub(crate) async fn within<T>(&self, read: impl Future<Output = anyhow::Result<T>>) -> Result<T, String> {
        let answer = match self.deadline {
            None => read.await,
            Some(deadline) => match tokio::time::timeout_at(deadline, read).await {
                Ok(answer) => answer,
                Err(_) => return Err("not read before --timeout expired".to_owned()),
            },
        };
        answer.map_err(|error| format!("{error:#}"))
    }

    pub(super) async fn all<K: NamespacedKind>(
        &self,
        namespace: Option<&str>,
        selector: &str,
    ) -> Read<Vec<K>> {
        let (found, unreadable) = self
            .within(list_readable(self.client, namespace, selector))
            .await?;
        self.unreadable.borrow_mut().extend(unreadable);
        Ok(found)
    }

    pub(super) fn take_unreadable(&self) -> Vec<Unreadable> {
        self.unreadable.take()
    }

    /// Returns the objects of a kind in the cluster that ClusterServiceVersions own.
    async fn owned<K: Kind>(&self, selector: &str) -> Read<Vec<Owned>> {
        let api = &Api::<K>::all(self.client.clone());
        let what = format!("list {}", K::plural(&()));
        let page = |params: ListParams| async move { api.list_metadata(&params).await };
        let keep = |object: PartialObjectMeta<K>| owned(&K::kind(&()), object.metadata);
        self.within(pages(&what, selector, PAGE, keep, page)).await
    }

    /// Returns the parts that `keep` takes from all objects of a kind in the cluster.
    pub(super) async fn projected<K: Kind, T>(
        &self,
        selector: &str,
        page: u32,
        keep: impl Fn(K) -> Option<T>,
    ) -> Read<Vec<T>> {
        let api = &Api::<K>::all(self.client.clone());
        let what = format!("list {}", K::plural(&()));
        let list = |params: ListParams| async move { api.list(&params).await };
        self.within(pages(&what, selector, page, keep, list)).await
    }

    /// A server without such policies guards nothing.
    async fn guard(&self, namespace: Option<&str>) -> Option<Read<bool>> {
        if namespace.is_some() {
            return None;
        }
        let api: Api<ValidatingAdmissionPolicyBinding> = Api::all(self.client.clone());
        let name = labels::GUARD_POLICY;
        let what = || format!("read ValidatingAdmissionPolicyBinding {name}");
        let found = self.within(answer(what, api.get_metadata_opt(name))).await;
        Some(found.map(|found| found.is_some()))
    }

    /// Returns the operators, without the Deployments.
    async fn operators(&self, namespace: Option<&str>) -> Read<Gathered> {
        self.within(Box::pin(gather::operators(self.client, namespace)))
            .await
    }

    async fn catalogs(
        &self,
        namespace: Option<&str>,
        global: &str,
        subscriptions: &[Subscription],
    ) -> (BTreeMap<Key, Read<Option<CatalogSource>>>, Vec<(String, String)>) {
        let (mut found, mut unlisted) = (BTreeMap::new(), Vec::new());
        let places = match namespace {
            None => vec![None],
            Some(own) if own == global => vec![Some(own)],
            Some(own) => vec![Some(own), Some(global)],
        };
        for at in places {
            match self.all::<CatalogSource>(at, "").await {
                Ok(catalogs) => found.extend(catalogs.into_iter().map(|catalog| {
                    let key = (catalog.namespace().unwrap_or_default(), catalog.name_any());
                    (key, Ok(Some(catalog)))
                })),
                Err(cause) => unlisted.push((place(at), cause)),
            }
        }
        let named = subscriptions.iter().map(|subscription| {
            let spec = &subscription.spec;
            (spec.source_namespace.clone(), spec.source.clone())
        });
        let is_open = |key: &Key| !key.0.is_empty() && !key.1.is_empty() && !found.contains_key(key);
        let open: BTreeSet<Key> = named.filter(is_open).collect();
        // A complete list contains every existing catalog.
        let is_listed = |key: &Key| {
            let is_place = [namespace, Some(global)].contains(&Some(key.0.as_str()));
            unlisted.is_empty() && (namespace.is_none() || is_place)
        };
        let (missing, unknown): (BTreeSet<Key>, BTreeSet<Key>) = open.into_iter().partition(is_listed);
        found.extend(missing.into_iter().map(|key| (key, Ok(None))));
        let read = each(unknown, async |(namespace, name): &Key| {
            self.within(get::<CatalogSource>(self.client, namespace, name))
                .await
        });
        found.extend(read.await);
        (found, unlisted)
    }

    /// Pods show why a catalog does not respond. Users without permission to read them still see that the catalog is not ready.
    async fn catalog_pods(
        &self,
        catalogs: &BTreeMap<Key, Read<Option<CatalogSource>>>,
    ) -> BTreeMap<Key, Read<Vec<Pod>>> {
        let unwell = catalogs
            .iter()
            .filter(|(_, read)| matches!(read, Ok(Some(catalog)) if !is_ready(catalog)));
        let keys = unwell.map(|(key, _)| key.clone());
        each(keys, async |(namespace, name): &Key| {
            let selector = format!("{}={name}", labels::CATALOG_SOURCE);
            self.all::<Pod>(Some(namespace), &selector).await
        })
        .await
    }

    async fn accounts(&self, groups: &[OperatorGroup]) -> BTreeMap<Key, Read<bool>> {
        let named: BTreeSet<Key> = groups
            .iter()
            .filter_map(|group| Some((group.namespace()?, group.spec.service_account()?.to_owned())))
            .collect();
        each(named, async |(namespace, name): &Key| {
            let account = get::<ServiceAccount>(self.client, namespace, name);
            self.within(account).await.map(|account| account.is_some())
        })
        .await
    }

    /// Returns whether target namespaces exist, other than the group's own.
    async fn group_targets(&self, groups: &[OperatorGroup]) -> BTreeMap<Key, Read<bool>> {
        let named = groups.iter().flat_map(|group| {
            let own = group.namespace().unwrap_or_default();
            let targets = group.spec.target_namespaces.iter().cloned();
            targets.map(move |target| (own.clone(), target))
        });
        let others: BTreeSet<Key> = named.filter(|(own, target)| own != target).collect();
        each(others, async |(_, target): &Key| {
            self.within(has_namespace(self.client, target)).await
        })
        .await
    }

    /// Returns all objects of a kind; `None` if there are none, the cluster does not have the kind, or a single namespace is read.
    async fn of_v1<K: ClusterKind>(&self, namespace: Option<&str>) -> Option<Read<Vec<K>>> {
        if namespace.is_some() {
            return None;
        }
        let read = async {
            match list_cluster::<K>(self.client, "").await {
                Err(error) if is_unserved(&error) => Ok(Vec::new()),
                read => read,
            }
        };
        match self.within(read).await {
            Ok(found) if found.is_empty() => None,
            read => Some(read),
        }
    }

    /// Returns the names of empty Operator objects that OLM did not create. Nothing suffers from them, so none are returned if they
    /// cannot be read.
    async fn leftovers(&self, namespace: Option<&str>) -> Vec<String> {
        if namespace.is_some() {
            return Vec::new();
        }
        let of_others = format!("{}!={}", labels::MANAGED, labels::TRUE);
        let empty = |operator: Operator| {
            let is_empty = operator.status?.components?.refs.is_empty();
            operator.metadata.name.filter(|_| is_empty)
        };
        self.projected(&of_others, PAGE, empty).await.unwrap_or_default()
    }

    async fn roles(&self, namespace: Option<&str>) -> Read<Vec<Owned>> {
        let selector = owned_by(namespace);
        let mut roles = self.owned::<ClusterRole>(&selector).await?;
        roles.extend(self.owned::<ClusterRoleBinding>(&selector).await?);
        Ok(roles)
    }
}

/// Returns the selector for objects that ClusterServiceVersions of a namespace, or of all, own.
fn owned_by(namespace: Option<&str>) -> String {
    let all = format!("{}={}", labels::OWNER_KIND, labels::OWNER_KIND_CSV);
    match namespace {
        None => all,
        Some(namespace) => format!("{all},{}={namespace}", labels::OWNER_NAMESPACE),
    }
}

/// Returns an object with the ClusterServiceVersion that its labels name.
fn owned(kind: &str, metadata: ObjectMeta) -> Option<Owned> {
    let mut labels = metadata.labels?;
    Some(Owned {
        kind: kind.to_owned(),
        name: metadata.name?,
        owner: (
            labels.remove(labels::OWNER_NAMESPACE)?,
            labels.remove(labels::OWNER)?,
        ),
    })
}
