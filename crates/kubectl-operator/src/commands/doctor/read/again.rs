//! Reads objects again before they are reported as missing. The first reads may be minutes old, and the remedy is to delete
//! dependents.

use std::collections::BTreeSet;
use std::fmt::Debug;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::serde::de::DeserializeOwned;
use kube::api::PartialObjectMeta;
use kube::core::NamespaceResourceScope;
use kube::{Resource, ResourceExt as _};
use olm_api::labels;
use olm_api::names::is_dns1123_subdomain;
use olm_api::v1alpha1::{CatalogSource, ClusterServiceVersion, Subscription};

use super::super::cluster_parts::failure;
use super::super::observed::{Observed, Read};
use super::serving::targets;
use super::{MAX_ASKED, Reader};
use crate::operators::Key;
use crate::reader::{answer, api, get, place};
use crate::turns::keys_in_turn;

impl Reader<'_> {
    /// Requests again: ClusterServiceVersions that were in no list, their dependents, and Subscriptions that installed them.
    pub(super) async fn ask_again(&self, observed: &mut Observed) {
        let installed = installed(observed);
        let of_subscriptions = installed.iter().map(|(_, csv)| csv.clone());
        let keys = owners(observed).chain(of_subscriptions).collect();
        self.ask_for(observed, keys).await;
        // An upgrade passes the dependents to the next version.
        if owners(observed).any(|owner| observed.has_csv(&owner) == Ok(false)) {
            self.read_dependents(observed).await;
            let keys = owners(observed).collect();
            self.ask_for(observed, keys).await;
        }
        let unsure = installed
            .into_iter()
            .filter(|(_, csv)| observed.has_csv(csv) == Ok(false));
        let unsure: BTreeSet<Key> = unsure.map(|(subscription, _)| subscription).collect();
        for (at, key) in keys_in_turn(unsure).into_iter().enumerate() {
            let read = match at {
                MAX_ASKED.. => Err(format!("at most {MAX_ASKED} are read")),
                _ => {
                    self.within(get::<Subscription>(self.client, &key.0, &key.1))
                        .await
                }
            };
            let installed = |found: Subscription| found.status.and_then(|status| status.installed_csv);
            observed
                .installed_since
                .insert(key, read.map(|found| found.and_then(installed)));
        }
    }

    /// Requests each ClusterServiceVersion that was in no list, once.
    async fn ask_for(&self, observed: &mut Observed, keys: BTreeSet<Key>) {
        let is_open =
            |key: &Key| observed.is_listed(key) == Ok(false) && !observed.asked_again.contains_key(key);
        let missing: BTreeSet<Key> = keys.into_iter().filter(is_open).collect();
        for (at, key) in keys_in_turn(missing).into_iter().enumerate() {
            let read = match at {
                MAX_ASKED.. => Err(format!("at most {MAX_ASKED} are read")),
                // A copy of another ClusterServiceVersion does not count.
                _ => self
                    .metadata_of::<ClusterServiceVersion>(&key)
                    .await
                    .map(|found| {
                        found.is_some_and(|found| !found.labels().contains_key(labels::COPIED_FROM))
                    }),
            };
            observed.asked_again.insert(key, read);
        }
    }

    /// Reads the dependents of ClusterServiceVersions again.
    async fn read_dependents(&self, observed: &mut Observed) {
        let namespace = observed.namespace.clone();
        let namespace = namespace.as_deref();
        observed.copies = self.copies(namespace).await;
        observed.webhooks = self.webhooks(namespace).await;
        observed.api_services = self.api_services(namespace).await;
        observed.roles = self.all_roles(namespace).await;
        let mut targets = targets(&observed.webhooks, &observed.api_services, &observed.definitions);
        targets.retain(|target| !observed.services.contains_key(target));
        let (services, own) = self.services(&targets).await;
        observed.services.extend(services);
        observed.own_services.extend(own);
    }

    /// Returns the ConfigMaps of failed Jobs that are known to belong to unpacking, by our label or by an owner that is a
    /// catalog.
    pub(super) async fn unpacked(&self, jobs: &[Job]) -> BTreeSet<Key> {
        let failed = jobs.iter().filter(|job| failure(job).is_some());
        let keys: BTreeSet<Key> = failed
            .filter_map(|job| Some((job.namespace()?, job.name_any())))
            .collect();
        let mut found = BTreeSet::new();
        for key in keys_in_turn(keys).into_iter().take(MAX_ASKED) {
            // Without permission to read it, only the Job is reported.
            if let Ok(Some(map)) = self.metadata_of::<ConfigMap>(&key).await
                && is_of_unpacking(&map)
            {
                found.insert(key);
            }
        }
        found
    }

    async fn metadata_of<K>(&self, (namespace, name): &Key) -> Read<Option<PartialObjectMeta<K>>>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + DeserializeOwned,
    {
        if !is_dns1123_subdomain(namespace) || !is_dns1123_subdomain(name) {
            return Ok(None);
        }
        let api = api::<K>(self.client, Some(namespace));
        let what = || format!("read {} {name} in {}", K::kind(&()), place(Some(namespace)));
        self.within(answer(what, api.get_metadata_opt(name))).await
    }
}

fn is_of_unpacking(map: &PartialObjectMeta<ConfigMap>) -> bool {
    let catalogs = CatalogSource::kind(&());
    map.labels().get(labels::BUNDLE_UNPACK_REF) == Some(&map.name_any())
        || map.owner_references().iter().any(|owner| owner.kind == catalogs)
}

/// Returns the ClusterServiceVersions that own something.
fn owners(observed: &Observed) -> impl Iterator<Item = Key> {
    let callers = observed
        .webhooks
        .iter()
        .map(|(_, read)| read)
        .chain([&observed.api_services]);
    let of_callers = callers.flatten().flatten().map(|caller| caller.owner.clone());
    let of_roles = observed.roles.iter().flat_map(|(_, read)| read.iter().flatten());
    let of_copies = observed.copies.iter().flatten();
    of_callers
        .chain(of_roles.map(|owned| owned.owner.clone()))
        .chain(of_copies.map(|copy| (copy.from.clone(), copy.name.clone())))
}

/// Returns the Subscriptions with the ClusterServiceVersion that they installed.
fn installed(observed: &Observed) -> Vec<(Key, Key)> {
    let subscriptions = observed.subscriptions.iter().flatten();
    let all = subscriptions.filter_map(|subscription| {
        let namespace = subscription.namespace()?;
        let csv = subscription.status.as_ref()?.installed_csv.clone()?;
        Some(((namespace.clone(), subscription.name_any()), (namespace, csv)))
    });
    all.filter(|(_, csv)| !csv.1.is_empty()).collect()
}
