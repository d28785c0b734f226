//! Fills an [`Observed`] from the stores, and from the API server if the stores do not have the data.
//!
//! A ClusterServiceVersion that runs as it should needs no live read. The others happen only in the state
//! that needs them:
//!
//! - the Subscription of a ClusterServiceVersion whose first pods are due
//! - the ReplicaSets of a Deployment that is being replaced
//! - RBAC that OLM did not create
//! - the names of bindings for servers of APIs that are about to be created (`serving::avoid_strangers`)
//! - pods and their events, for an install that waits for them or failed because of them
//! - objects that remain to be deleted
//! - versions and kinds the cluster serves (cached by `Discovery`)

pub(crate) mod accounts;
pub(crate) mod grants;
mod pods;
mod serving;
pub(crate) mod stored;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::{
    api::{
        admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
        apps::v1::ReplicaSet,
        rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
    kube_aggregator::pkg::apis::apiregistration::v1::APIService,
};
use kube::{Api, Resource, ResourceExt, api::ListParams, core::ApiResource};
use olm_api::{
    api_key::ApiKey,
    condition::csv as reason,
    labels,
    v1alpha1::{ClusterServiceVersionPhase as Phase, Subscription},
};
use olm_runtime::{
    NamespacedName,
    discovery::{Served, deadline},
    error::ObserveError,
    plan::Target,
};
use tokio::time::Instant;

pub(crate) use self::stored::{configured, from_stores};
use crate::{
    csv::{
        Csv, changeover,
        decide::installing::POD_PATIENCE,
        health, install,
        observed::{ForeignGrants, Leftover, Observed, is_available},
        rbac::{self, counterparts},
        requirements,
        serving::delegation,
        strategy::Strategy,
    },
    owner,
};

/// Time limit for discovery requests of one reconcile. Kinds beyond it count as unknown and are requested in
/// the next reconcile.
const DISCOVERY_BUDGET: Duration = Duration::from_secs(10);

impl Csv {
    /// Adds to an observation of the stores what only the API server has.
    ///
    /// # Errors
    /// When a read fails.
    pub(super) async fn read_live(
        &self,
        observed: &mut Observed,
        now: Timestamp,
    ) -> Result<(), ObserveError> {
        if observed.csv.metadata.deletion_timestamp.is_some() {
            observed.leftovers = self.leftovers(observed).await?;
            return Ok(());
        }
        observed.proxy = self.stores.proxy.variables().await;
        serving::avoid_strangers(observed, &self.client).await?;
        serving::inspect(observed, now);
        self.read_served(observed).await?;
        if let Ok(strategy) = observed.strategy.clone() {
            if observed.plan_grace(now).is_some() {
                self.leave_out_accounts_of_others(observed);
            }
            if needs_grants(observed, &strategy, now) {
                self.read_grants(observed, &strategy).await?;
            }
            self.read_bound_roles(observed).await?;
        }
        if needs_subscription(observed) {
            self.read_subscription(observed).await?;
        }
        if *observed.csv.phase() == Phase::InstallReady {
            self.read_replica_sets(observed).await?;
        }
        if needs_pods(observed, now) {
            // Only an explanation: without it the phase is still correct.
            match pods::read(&self.client, observed).await {
                Ok(troubles) => observed.pod_troubles = Some(troubles),
                Err(error) => tracing::debug!(%error, "cannot read why pods do not run"),
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
        let began = Instant::now();
        for ((group, version), kinds) in kinds_to_ask_for(observed) {
            let answer = if began.elapsed() < DISCOVERY_BUDGET {
                self.discovery
                    .find_served(&group, &version, &kinds.iter().map(String::as_str).collect())
                    .await
            } else {
                Served {
                    trouble: Some("discovery of other APIs took too long".to_owned()),
                    ..Served::default()
                }
            };
            for kind in kinds {
                let is_served = answer.kinds.contains(&kind);
                let kind = ApiKey::new(&group, &version, &kind);
                match &answer.trouble {
                    _ if is_served => drop(observed.cluster.served.insert(kind)),
                    Some(trouble) => drop(observed.cluster.unknown.insert(kind, trouble.clone())),
                    None => {}
                }
            }
        }
        Ok(())
    }

    /// Leaves out service accounts that OLM did not create, except `default`. While the steps of an InstallPlan may
    /// still be running, the account is assumed to come from them.
    fn leave_out_accounts_of_others(&self, observed: &mut Observed) {
        let namespace = observed.namespace().to_owned();
        let is_managed = |name: &str| {
            let found = self.stores.account_sketches.get(&namespace, name);
            found.is_some_and(|found| found.is_managed)
        };
        let accounts = &mut observed.accounts;
        accounts.retain(|name, _| name == rbac::DEFAULT_ACCOUNT || is_managed(name));
    }

    /// Reads bindings of namespaces first. Cluster-wide ones are only read when these do not grant all
    /// missing rights.
    async fn read_grants(&self, observed: &mut Observed, strategy: &Strategy) -> Result<(), ObserveError> {
        let accounts: BTreeSet<String> = observed.accounts.keys().cloned().collect();
        if accounts.is_empty() {
            observed.rbac.granted_by_others = Some(ForeignGrants::default());
            return Ok(());
        }
        let reading = grants::Reading {
            client: &self.client,
            csv: NamespacedName::from_object(observed.csv.as_ref()),
            accounts: &accounts,
            namespaces: grant_namespaces(observed, strategy),
        };
        let mut grants = reading.in_namespaces().await?;
        observed.rbac.granted_by_others = Some(grants.clone());
        if lacks_rights(observed, strategy) {
            reading.add_cluster_wide(&mut grants).await?;
            observed.rbac.granted_by_others = Some(grants);
        }
        Ok(())
    }

    /// A Role that is created in a target namespace grants its rights to the subjects of existing bindings to
    /// that name.
    async fn read_bound_roles(&self, observed: &mut Observed) -> Result<(), ObserveError> {
        let new = counterparts::new_roles(observed);
        let csv = NamespacedName::from_object(observed.csv.as_ref());
        observed.rbac.bound_by_others = grants::bound_by_others(&self.client, &csv, &new).await?;
        Ok(())
    }

    /// Watches of different kinds are independent, so a Subscription may be observed later than the objects
    /// of its InstallPlan.
    async fn read_subscription(&self, observed: &mut Observed) -> Result<(), ObserveError> {
        let namespace = observed.namespace().to_owned();
        let api: Api<Subscription> = Api::namespaced(self.client.clone(), &namespace);
        let what = format!("the Subscriptions of namespace {namespace}");
        let list = deadline(&what, api.list(&ListParams::default())).await?;
        let list: Vec<_> = list.items.into_iter().map(Arc::new).collect();
        observed.subscription = configured(&list, observed.name());
        Ok(())
    }

    /// Reads the ReplicaSets of a Deployment that is being replaced. Before that they have no label of OLM's.
    async fn read_replica_sets(&self, observed: &mut Observed) -> Result<(), ObserveError> {
        let pending = changeover::pending(observed);
        if !pending.iter().any(changeover::Changeover::needs_replica_sets) {
            return Ok(());
        }
        let namespace = observed.namespace().to_owned();
        let api: Api<ReplicaSet> = Api::namespaced(self.client.clone(), &namespace);
        let what = format!("the ReplicaSets of namespace {namespace}");
        let list = deadline(&what, api.list_metadata(&ListParams::default())).await?;
        observed.replica_sets = Some(list.items.into_iter().map(|found| found.metadata).collect());
        Ok(())
    }

    /// Reads the objects to delete from the API server. Objects missed now would remain forever, and the
    /// stores only have objects with OLM's label.
    async fn leftovers(&self, observed: &Observed) -> Result<Vec<Leftover>, ObserveError> {
        // A name this long cannot be a label value, and the API server refuses such a selector.
        if observed.name().len() > owner::MAX_LABEL_BYTES {
            return Ok(Vec::new());
        }
        let selector = owner::selector(observed.namespace(), observed.name());
        let mut found = self.labelled::<ClusterRoleBinding>(&selector).await?;
        found.extend(self.labelled::<ClusterRole>(&selector).await?);
        found.extend(self.labelled::<MutatingWebhookConfiguration>(&selector).await?);
        found.extend(self.labelled::<ValidatingWebhookConfiguration>(&selector).await?);
        found.extend(self.labelled::<APIService>(&selector).await?);
        let unlabelled = format!("{selector},!{}", labels::COPIED_FROM);
        let readers = self.labelled::<RoleBinding>(&unlabelled).await?.into_iter();
        found.extend(readers.filter(|found| {
            found.target.namespace.as_deref() == Some(delegation::READER_NAMESPACE)
                && found.target.name.ends_with(delegation::READER_SUFFIX)
        }));
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
        // Users write in namespaces; an owner that they invent there must not keep rights.
        let is_adopted =
            |metadata: &ObjectMeta| metadata.namespace.is_none() && owner::is_of_extension(metadata);
        Ok(list
            .items
            .iter()
            .filter(|item| !is_adopted(&item.metadata))
            .map(|item| Leftover {
                target: Target::dynamic(kind.clone(), item.namespace().as_deref(), &item.name_any()),
                uid: item.uid(),
                is_deleting: item.metadata.deletion_timestamp.is_some(),
                is_kept: !item.finalizers().is_empty(),
            })
            .collect())
    }
}

/// Returns the groups and versions with the kinds that only discovery can find. APIs whose APIService is
/// missing or unavailable are skipped, because they are not served and no server would respond.
fn kinds_to_ask_for(observed: &Observed) -> BTreeMap<(String, String), BTreeSet<String>> {
    let spec = &observed.csv.spec;
    let native = spec
        .native_apis
        .iter()
        .map(|api| (&api.group, &api.version, &api.kind));
    let is_available = |name: &str| {
        observed
            .cluster
            .api_services
            .get(name)
            .is_some_and(|found| is_available(found))
    };
    let aggregated = spec
        .required_api_services()
        .iter()
        .chain(spec.owned_api_services())
        .filter(|api| is_available(&api.api_service_name()))
        .map(|api| (&api.group, &api.version, &api.kind));
    let mut kinds: BTreeMap<_, BTreeSet<String>> = BTreeMap::new();
    for (group, version, kind) in native.chain(aggregated) {
        let of_version = kinds.entry((group.clone(), version.clone())).or_default();
        of_version.insert(kind.clone());
    }
    kinds
}

/// True when Deployments are about to be written and no Subscription is known that configures them. It is
/// then looked up, because pods created without their configuration would have to be recreated.
pub(crate) fn needs_subscription(observed: &Observed) -> bool {
    let is_turn = match observed.csv.phase() {
        Phase::None | Phase::Pending | Phase::Failed => {
            requirements::evaluate(observed).is_ok_and(|found| found.met)
        }
        Phase::InstallReady | Phase::Installing | Phase::Succeeded => true,
        _ => false,
    };
    observed.subscription.is_none()
        && is_turn
        && install::wanted(observed).iter().any(|built| {
            let live = observed.deployments.get(&built.wanted.name);
            live.is_none_or(|live| health::drift(&built.wanted, live).is_some())
        })
}

/// True when the reason why pods do not run is reported: an install has waited for them for a while, or has
/// failed because of them.
fn needs_pods(observed: &Observed, now: Timestamp) -> bool {
    match observed.csv.phase() {
        Phase::Installing => observed.waited(now) >= POD_PATIENCE,
        Phase::Failed => observed.csv.reason() == reason::INSTALL_CHECK_FAILED,
        _ => false,
    }
}

/// True when RBAC that others created may grant the missing rights of a ClusterServiceVersion.
pub(crate) fn needs_grants(observed: &Observed, strategy: &Strategy, now: Timestamp) -> bool {
    let is_held = |role| rbac::is_held(role, observed.namespace(), &observed.rbac);
    observed.plan_grace(now).is_none() && !strategy.roles.iter().all(is_held)
}

/// True when neither the own RBAC nor the known RBAC of others grants all rights that a ClusterServiceVersion
/// requests.
fn lacks_rights(observed: &Observed, strategy: &Strategy) -> bool {
    strategy.roles.iter().any(|role| {
        let by_others = || {
            let granted = rbac::granted_by_others(observed, role.scope, &role.service_account);
            granted.is_some_and(|granted| role.rules.iter().all(|rule| granted.covers(rule)))
        };
        let is_given = rbac::is_held(role, observed.namespace(), &observed.rbac) || by_others();
        !is_given || !rbac::uncarried(observed, role).is_empty()
    })
}

/// Returns the namespaces whose RoleBindings may grant missing rights: its own, and the targets without
/// counterparts of its permissions.
pub(crate) fn grant_namespaces(observed: &Observed, strategy: &Strategy) -> BTreeSet<String> {
    let lacking = strategy
        .roles
        .iter()
        .flat_map(|role| rbac::uncarried(observed, role));
    let mut namespaces: BTreeSet<String> = lacking.flatten().collect();
    namespaces.insert(observed.namespace().to_owned());
    namespaces
}
