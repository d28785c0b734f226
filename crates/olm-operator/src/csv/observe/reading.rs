//! Fills an [`Observed`] from the stores, and from the API server where the stores cannot know.
//!
//! Live reads, each only in the state that needs it: the successor of one that is being replaced, before it is called
//! gone; accounts and RBAC that OLM did not make; pods of an install that waits; what is left to remove; versions and
//! kinds the cluster serves (remembered by `Discovery`). A ClusterServiceVersion that runs as it should needs none.

pub mod grants;
mod pods;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::{
    api::{
        admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
        core::v1::ServiceAccount,
        rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::ListParams,
    core::{ApiResource, PartialObjectMeta},
};
use olm_api::{
    labels,
    v1alpha1::{ClusterServiceVersion, Subscription, SubscriptionConfig},
};
use olm_runtime::{
    NamespacedName,
    discovery::{Discovery, deadline},
    error::ObserveError,
    plan::Target,
    store::Store,
};

use super::{Account, ApiService, Cluster, Crd, ForeignGroup, Kind, Leftover, Observed, Rbac, Sibling};
use crate::{
    csv::{
        deployment::overrides::Overrides,
        phase::Phase,
        rbac::{self, repair},
        replacement, requirements,
        strategy::{self, Strategy},
    },
    operator_group::{self, Group, Targets, intersection::NamespaceSet},
    owner,
    stores::{CustomResourceDefinition, Stores},
};

/// Pods of an install are looked at once it has waited this long.
const POD_PATIENCE: Duration = Duration::from_secs(5);

/// Where observations come from.
pub struct Reader {
    /// The stores.
    pub stores: Stores,
    /// What the cluster serves.
    pub discovery: Discovery,
    /// For live reads.
    pub client: Client,
}

impl Reader {
    /// Reads everything about one ClusterServiceVersion; `None` when it is gone or a copy.
    ///
    /// # Errors
    /// When a live read fails.
    pub async fn observe(&self, key: &NamespacedName) -> Result<Option<Observed>, ObserveError> {
        let Some(mut observed) = from_stores(&self.stores, key) else {
            return Ok(None);
        };
        self.read_live(&mut observed, Timestamp::now()).await?;
        Ok(Some(observed))
    }

    async fn read_live(&self, observed: &mut Observed, now: Timestamp) -> Result<(), ObserveError> {
        if observed.csv.metadata.deletion_timestamp.is_some() {
            observed.leftovers = self.leftovers(observed).await?;
            return Ok(());
        }
        if needs_siblings(observed) {
            self.read_siblings(observed).await?;
        }
        self.read_served(observed).await?;
        if let Ok(strategy) = observed.strategy.clone() {
            self.read_accounts(observed, &strategy, is_young(observed, now))
                .await?;
            if needs_grants(observed, &strategy, now) {
                let accounts: BTreeSet<&str> = observed.accounts.keys().map(String::as_str).collect();
                let grants = grants::read(
                    &self.client,
                    &NamespacedName::from_object(observed.csv.as_ref()),
                    &accounts,
                )
                .await?;
                observed.rbac.granted_by_others = Some(grants);
            }
        }
        if *observed.csv.phase() == Phase::Installing && waited(observed, now) > POD_PATIENCE {
            // Only an explanation: without it the phase is still right.
            match pods::read(&self.client, observed).await {
                Ok(troubles) => observed.pod_troubles = troubles,
                Err(error) => tracing::debug!(%error, "why pods do not run could not be read"),
            }
        }
        Ok(())
    }

    async fn read_served(&self, observed: &mut Observed) -> Result<(), ObserveError> {
        let csv = Arc::clone(&observed.csv);
        let spec = &csv.spec;
        if spec
            .min_kube_version
            .as_deref()
            .is_some_and(|text| !text.is_empty())
        {
            observed.cluster.server_version = self.discovery.server_version().await?;
        }
        let native = spec
            .native_apis
            .iter()
            .map(|api| (&api.group, &api.version, &api.kind));
        let aggregated = spec
            .required_api_services()
            .iter()
            .map(|api| (&api.group, &api.version, &api.kind));
        for (group, version, kind) in native.chain(aggregated) {
            if self.discovery.find_kind(group, version, kind).await?.is_some() {
                let kind = Kind {
                    group: group.clone(),
                    version: version.clone(),
                    kind: kind.clone(),
                };
                observed.cluster.served.insert(kind);
            }
        }
        Ok(())
    }

    /// The store holds the accounts that OLM made; one of the user's own, and `default`, is read live. While the steps
    /// of an InstallPlan may still be coming, one that is not in the store is most likely just that.
    async fn read_accounts(
        &self,
        observed: &mut Observed,
        strategy: &Strategy,
        young: bool,
    ) -> Result<(), ObserveError> {
        let namespace = observed.namespace().to_owned();
        for name in account_names(strategy) {
            let expected = young && name != repair::DEFAULT_ACCOUNT;
            if expected || observed.accounts.contains_key(name) {
                continue;
            }
            let api: Api<ServiceAccount> = Api::namespaced(self.client.clone(), &namespace);
            let what = format!("ServiceAccount {namespace}/{name}");
            if let Some(found) = deadline(&what, api.get_metadata_opt(name)).await? {
                observed.accounts.insert(name.clone(), read_account(&found));
            }
        }
        Ok(())
    }

    /// A list that is behind would make a replaced operator come back and fight its successor.
    async fn read_siblings(&self, observed: &mut Observed) -> Result<(), ObserveError> {
        let namespace = observed.namespace().to_owned();
        let api: Api<ClusterServiceVersion> = Api::namespaced(self.client.clone(), &namespace);
        let originals = ListParams::default().labels(&format!("!{}", labels::COPIED_FROM));
        let what = format!("the ClusterServiceVersions of namespace {namespace}");
        let list = deadline(&what, api.list(&originals)).await?;
        let list: Vec<_> = list.items.into_iter().map(Arc::new).collect();
        observed.siblings = siblings(&list, observed.name());
        Ok(())
    }

    /// What is left behind now is left for good, so the stores, which hold only what carries OLM's mark, are not asked.
    async fn leftovers(&self, observed: &Observed) -> Result<Vec<Leftover>, ObserveError> {
        let selector = owner::selector(observed.namespace(), observed.name());
        let mut found = self.labelled::<ClusterRoleBinding>(&selector).await?;
        found.extend(self.labelled::<ClusterRole>(&selector).await?);
        found.extend(self.labelled::<MutatingWebhookConfiguration>(&selector).await?);
        found.extend(self.labelled::<ValidatingWebhookConfiguration>(&selector).await?);
        let namespaced = format!("{selector},{}={}", labels::COPIED_FROM, observed.namespace());
        found.extend(self.labelled::<RoleBinding>(&namespaced).await?);
        found.extend(self.labelled::<Role>(&namespaced).await?);
        Ok(found)
    }

    async fn labelled<K>(&self, selector: &str) -> Result<Vec<Leftover>, ObserveError>
    where
        K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
    {
        let api: Api<K> = Api::all(self.client.clone());
        let what = format!("the {} with labels {selector}", K::plural(&()));
        let list = deadline(&what, api.list_metadata(&ListParams::default().labels(selector))).await?;
        let kind = ApiResource::erase::<K>(&());
        Ok(list
            .items
            .iter()
            .map(|item| Leftover {
                target: Target::dynamic(kind.clone(), item.namespace().as_deref(), &item.name_any()),
                uid: item.uid(),
            })
            .collect())
    }
}

/// What the stores know; the rest is empty.
pub fn from_stores(stores: &Stores, key: &NamespacedName) -> Option<Observed> {
    let csv = stores.csvs.get_key(key).filter(|csv| !csv.is_copied())?;
    let namespaces = operator_group::observe::namespaces(stores);
    let groups = stores.groups.list_in(&key.namespace);
    let groups: Vec<Group> = groups
        .iter()
        .map(|group| Group::read(group, &namespaces))
        .collect();
    let replaces = csv.spec.replaces().filter(|replaces| *replaces != key.name);
    let strategy = strategy::read(&csv);
    let deployments = owned(stores.deployments.list_in(&key.namespace), key);
    Some(Observed {
        namespace_terminating: stores
            .namespaces
            .get_key(&NamespacedName::cluster(&key.namespace))
            .is_some_and(|namespace| namespace.metadata.deletion_timestamp.is_some()),
        open_targets: open_targets(stores, &key.namespace, &groups),
        groups,
        foreign_groups: foreign_groups(stores, &key.namespace),
        siblings: siblings(&stores.csvs.list_in(&key.namespace), &key.name),
        previous_condition: replaces.and_then(|name| stores.conditions.get(&key.namespace, name)),
        deployments: deployments
            .into_iter()
            .map(|live| (live.name_any(), live))
            .collect(),
        pod_troubles: BTreeMap::new(),
        subscription: subscription(stores, key).map(|subscription| overrides(&subscription)),
        cluster: cluster(stores, &csv),
        accounts: strategy
            .iter()
            .flat_map(account_names)
            .filter_map(|name| {
                let found = stores.accounts.get(&key.namespace, name)?;
                Some((name.clone(), read_account(&found)))
            })
            .collect(),
        rbac: own_rbac(stores, key),
        leftovers: Vec::new(),
        strategy,
        csv,
    })
}

/// Namespaces that do not exist (yet) may be targets, too; what is in one that goes, goes with it.
fn open_targets(stores: &Stores, own: &str, groups: &[Group]) -> BTreeSet<String> {
    let [
        Group {
            targets: Targets::Namespaces(targets),
            ..
        },
    ] = groups
    else {
        return BTreeSet::new();
    };
    let is_open = |name: &&String| {
        let found = stores.namespaces.get_key(&NamespacedName::cluster(*name));
        found.is_some_and(|namespace| namespace.metadata.deletion_timestamp.is_none())
    };
    let others = targets.iter().filter(|name| *name != own);
    others.filter(is_open).cloned().collect()
}

fn account_names(strategy: &Strategy) -> BTreeSet<&String> {
    let permissions = strategy.permissions.iter().chain(&strategy.cluster_permissions);
    permissions
        .map(|permission| &permission.service_account)
        .collect()
}

/// True while the steps of an InstallPlan may still be making accounts and roles.
pub fn is_young(observed: &Observed, now: Timestamp) -> bool {
    repair::grace(observed.created(), observed.subscription.is_some(), now).is_some()
}

/// True when a successor has to be looked for before it is called gone.
pub fn needs_siblings(observed: &Observed) -> bool {
    *observed.csv.phase() == Phase::Replacing
        && replacement::next(observed.name(), &observed.siblings).is_none()
}

/// True when RBAC that others made may be what a ClusterServiceVersion lacks.
pub fn needs_grants(observed: &Observed, strategy: &Strategy, now: Timestamp) -> bool {
    let incomplete = |role| !rbac::is_held(role, observed.namespace(), &observed.rbac);
    !is_young(observed, now) && strategy.roles.iter().any(incomplete)
}

fn subscription(stores: &Stores, key: &NamespacedName) -> Option<Arc<Subscription>> {
    let all = stores.subscriptions.list_in(&key.namespace);
    let named = |csv: &Option<String>| csv.as_deref() == Some(key.name.as_str());
    let status = |subscription: &Subscription| subscription.status.clone().unwrap_or_default();
    // `installedCSV` comes late; the configuration must be there from the first pod on.
    let installed = all
        .iter()
        .find(|subscription| named(&status(subscription).installed_csv));
    installed
        .or_else(|| {
            all.iter()
                .find(|subscription| named(&status(subscription).current_csv))
        })
        .cloned()
}

fn cluster(stores: &Stores, csv: &ClusterServiceVersion) -> Cluster {
    let mut cluster = Cluster::default();
    let spec = &csv.spec;
    for description in spec.owned_crds().iter().chain(spec.required_crds()) {
        let found = stores.crds.get_key(&NamespacedName::cluster(&description.name));
        if let Some(found) = found {
            cluster.crds.insert(description.name.clone(), read_crd(&found));
        }
    }
    for description in spec.required_api_services() {
        let name = requirements::api_service_name(description);
        let found = stores.api_services.get_key(&NamespacedName::cluster(&name));
        if let Some(found) = found {
            let conditions = found
                .status
                .iter()
                .flat_map(|status| status.conditions.iter().flatten());
            let available = conditions
                .into_iter()
                .any(|condition| condition.type_ == "Available" && condition.status == "True");
            let uid = found.uid().unwrap_or_default();
            cluster.api_services.insert(name, ApiService { uid, available });
        }
    }
    cluster
}

/// How long the present phase has lasted.
fn waited(observed: &Observed, now: Timestamp) -> Duration {
    let since = observed
        .csv
        .status
        .as_ref()
        .and_then(|status| status.last_transition_time.as_ref());
    let since = since.map_or(observed.created(), |time| time.0);
    Duration::try_from(now.duration_since(since)).unwrap_or_default()
}

fn siblings(csvs: &[Arc<ClusterServiceVersion>], own: &str) -> Vec<Sibling> {
    csvs.iter()
        .filter(|csv| csv.name_any() != own && !csv.is_copied())
        .map(|csv| Sibling {
            name: csv.name_any(),
            uid: csv.uid().unwrap_or_default(),
            replaces: csv.spec.replaces().map(str::to_owned),
            phase: csv.phase().clone(),
            owned_crds: csv.spec.owned_crds().iter().map(|crd| crd.name.clone()).collect(),
            created: csv.creation_timestamp().map(|time| time.0),
        })
        .collect()
}

fn foreign_groups(stores: &Stores, namespace: &str) -> Vec<ForeignGroup> {
    let elsewhere = stores
        .groups
        .list_where(|group| group.metadata.namespace.as_deref() != Some(namespace));
    elsewhere
        .iter()
        .filter_map(|group| {
            let provided = operator_group::provided_apis(group);
            let own = group.namespace().unwrap_or_default();
            let targets = group.status.iter().flat_map(|status| &status.namespaces).cloned();
            (!provided.is_empty()).then(|| ForeignGroup {
                key: format!("{own}/{}", group.name_any()),
                targets: NamespaceSet::of_group(&own, targets),
                provided,
            })
        })
        .collect()
}

fn own_rbac(stores: &Stores, key: &NamespacedName) -> Rbac {
    Rbac {
        roles: owned(stores.roles.list_in(&key.namespace), key),
        role_bindings: owned(stores.role_bindings.list_in(&key.namespace), key),
        cluster_roles: owned_anywhere(&stores.cluster_roles, key),
        cluster_role_bindings: owned_anywhere(&stores.cluster_role_bindings, key),
        spread_roles: spread(&stores.roles, key),
        spread_bindings: spread(&stores.role_bindings, key),
        granted_by_others: None,
    }
}

/// Only what says that it was made for the namespace it is in: nobody else's object with these labels is touched.
fn spread<K: Resource>(store: &Store<K>, key: &NamespacedName) -> Vec<Arc<K>> {
    store.list_where(|object| is_spread(object.meta(), key))
}

fn owned_anywhere<K: Resource>(store: &Store<K>, key: &NamespacedName) -> Vec<Arc<K>> {
    store.list_where(|object| owner::is_labelled(object.meta(), &key.namespace, &key.name))
}

/// True for a counterpart in another namespace of something that belongs to this ClusterServiceVersion.
pub fn is_spread(metadata: &ObjectMeta, csv: &NamespacedName) -> bool {
    let copied_from = metadata
        .labels
        .as_ref()
        .and_then(|all| all.get(labels::COPIED_FROM));
    metadata.namespace.as_ref() != Some(&csv.namespace)
        && copied_from == Some(&csv.namespace)
        && owner::is_labelled(metadata, &csv.namespace, &csv.name)
}

fn owned<K: Resource>(mut objects: Vec<Arc<K>>, key: &NamespacedName) -> Vec<Arc<K>> {
    objects.retain(|object| owner::is_labelled(object.meta(), &key.namespace, &key.name));
    objects
}

fn read_crd(found: &CustomResourceDefinition) -> Crd {
    let annotations = found.metadata.annotations.iter().flatten();
    Crd {
        uid: found.uid().unwrap_or_default(),
        served: found
            .spec
            .versions
            .iter()
            .filter(|version| version.served)
            .map(|version| version.name.clone())
            .collect(),
        established: found.is_true("Established") && found.is_true("NamesAccepted"),
        alongside: annotations
            .filter(|(key, _)| key.starts_with(labels::INSTALLED_ALONGSIDE_PREFIX))
            .map(|(_, value)| value.clone())
            .collect(),
    }
}

pub(crate) fn read_account(found: &PartialObjectMeta<ServiceAccount>) -> Account {
    Account {
        csv_owners: owner::references(&found.metadata)
            .map(|owner| (owner.uid.clone(), owner.name.clone()))
            .collect(),
        owner_references: found.metadata.owner_references.clone().unwrap_or_default(),
        resource_version: found.resource_version(),
    }
}

/// What a Subscription's configuration changes in pods.
fn overrides(subscription: &Subscription) -> Result<Overrides, String> {
    let Some(config) = &subscription.spec.config else {
        return Ok(Overrides::default());
    };
    decode_config(config).map_err(|error| {
        format!(
            "failed to get subscription pod configuration - Subscription {}: {error}",
            subscription.name_any()
        )
    })
}

fn decode_config(config: &SubscriptionConfig) -> Result<Overrides, olm_api::DecodeError> {
    use olm_api::embedded::decode_all;
    Ok(Overrides {
        env: decode_all(&config.env, "spec.config.env")?,
        env_from: decode_all(&config.env_from, "spec.config.envFrom")?,
        volumes: decode_all(&config.volumes, "spec.config.volumes")?,
        volume_mounts: decode_all(&config.volume_mounts, "spec.config.volumeMounts")?,
        tolerations: decode_all(&config.tolerations, "spec.config.tolerations")?,
        resources: config
            .resources
            .as_ref()
            .map(|it| it.decode("spec.config.resources"))
            .transpose()?,
        node_selector: config.node_selector.clone(),
        affinity: config
            .affinity
            .as_ref()
            .map(|it| it.decode("spec.config.affinity"))
            .transpose()?,
        annotations: config.annotations.clone().unwrap_or_default(),
    })
}
