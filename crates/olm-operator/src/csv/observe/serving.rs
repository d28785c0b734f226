//! The serving objects of a ClusterServiceVersion, as found: certificates, and the Services, RBAC, webhooks, APIServices and conversions
//! that lead to its pods.
//!
//! An endpoint is a Deployment that webhooks or APIs are bound to. [`from_stores`] lists the endpoints of the strategy and looks up each
//! object that they want, by its name. Beside them it lists the objects that OLM labelled or owns for this ClusterServiceVersion, so that
//! those no longer wanted can be deleted. [`avoid_strangers`] is the only live read here: of bindings, the stores have OLM's alone, and one
//! of somebody else must not be overwritten. Secrets, Roles and RoleBindings of others that have an endpoint's names are looked up before
//! an install (`csv/prepare.rs`, `find_strangers`). [`inspect`] checks each certificate and keeps the reason why one cannot be used, except
//! in phases Replacing and Deleting, where the successor does. New certificates are issued in `csv/prepare.rs`, and everything is compared
//! and written by `csv/install/serving.rs`.

use std::{collections::BTreeMap, fmt::Debug};

use jiff::Timestamp;
use k8s_openapi::{
    api::{
        core::v1::Service,
        rbac::v1::{ClusterRoleBinding, Role, RoleBinding, Subject},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{Api, Client, Resource, ResourceExt};
use olm_api::v1alpha1::{ClusterServiceVersion, ClusterServiceVersionPhase as Phase};
use olm_runtime::{
    NamespacedName,
    discovery::deadline,
    error::ObserveError,
    plan::{Target, to_value},
    store::{Store, Stored},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{
    csv::{
        observed::Observed,
        serving::{
            api_service,
            certificate::{self, Unfit},
            conversion, delegation,
            endpoint::{self, Endpoint},
            found::Serving,
            webhook,
        },
        strategy::Strategy,
    },
    owner,
    stores::{ServingSecret, Stores},
};

/// Observes the stores only.
pub(super) fn from_stores(
    stores: &Stores,
    csv: &ClusterServiceVersion,
    strategy: Option<&Strategy>,
) -> Serving {
    let key = NamespacedName::from_object(csv);
    let endpoints = strategy
        .map(|strategy| endpoint::endpoints(csv, strategy))
        .unwrap_or_default();
    let mut serving = Serving {
        unused: strategy
            .map(|_| unused(stores, csv, &endpoints))
            .unwrap_or_default(),
        own_cas: own_cas(stores, csv),
        labelled: all_labelled(stores, &key),
        endpoints,
        ..Serving::default()
    };
    add_endpoints(&mut serving, stores, &key.namespace);
    add_callers(&mut serving, stores, csv);
    add_delegations(&mut serving, stores, &key.namespace);
    serving
}

/// Adds the Service, the Secret and the RBAC of each endpoint.
fn add_endpoints(serving: &mut Serving, stores: &Stores, namespace: &str) {
    for endpoint in &serving.endpoints {
        let live = &mut serving.live;
        let service = NamespacedName::new(namespace, endpoint.service());
        let secret = NamespacedName::new(namespace, endpoint.secret());
        keep(live, &stores.services, &service);
        keep(live, &stores.roles, &secret);
        keep(live, &stores.role_bindings, &secret);
        if let Some(found) = stores.secrets.get_key(&secret) {
            let target = Target::of::<ServingSecret>(namespace, &secret.name);
            live.insert(target.to_string(), json!({"metadata": found.metadata}));
            serving.secrets.insert(endpoint.deployment.clone(), found);
        }
    }
}

/// Adds the conversions, webhooks and APIServices through which the API server calls the endpoints.
fn add_callers(serving: &mut Serving, stores: &Stores, csv: &ClusterServiceVersion) {
    let live = &mut serving.live;
    for (_, crd) in conversion::conversions(csv) {
        let found = stores.crds.get_key(&NamespacedName::cluster(crd));
        if let Some(conversion) = found.and_then(|found| found.spec.conversion.clone()) {
            let text = conversion::target(crd).to_string();
            live.insert(text, json!({"spec": {"conversion": conversion}}));
        }
    }
    for description in webhook::descriptions(csv) {
        let named = NamespacedName::cluster(webhook::target(csv, description).name);
        keep(live, &stores.validating_webhooks, &named);
        keep(live, &stores.mutating_webhooks, &named);
    }
    for api in api_service::served(csv) {
        let named = NamespacedName::cluster(api.api_service_name());
        keep(live, &stores.api_services, &named);
        let found = stores.api_services.get_key(&named);
        if let Some(why) = found.and_then(|found| why_foreign(stores, csv, found.meta())) {
            serving.foreign_apis.insert(named.name, why);
        }
    }
}

/// Adds the names of the bindings that servers of APIs need, and those bindings.
fn add_delegations(serving: &mut Serving, stores: &Stores, namespace: &str) {
    for endpoint in serving.endpoints.iter().filter(|endpoint| endpoint.serves_apis) {
        let first = delegation::Names::of(endpoint);
        let delegators = &stores.cluster_role_bindings;
        let delegator = NamespacedName::cluster(first.delegator);
        let delegator = free(delegators, delegator, namespace, |found| {
            found.subjects.as_deref()
        });
        let reader = NamespacedName::new(delegation::READER_NAMESPACE, first.reader);
        let readers = &stores.role_bindings;
        let reader = free(readers, reader, namespace, |found| found.subjects.as_deref());
        keep(&mut serving.live, delegators, &delegator);
        keep(&mut serving.live, readers, &reader);
        let names = delegation::Names {
            delegator: delegator.name,
            reader: reader.name,
        };
        serving.delegations.insert(endpoint.deployment.clone(), names);
    }
}

fn keep<K: Stored + Serialize>(live: &mut BTreeMap<String, Value>, store: &Store<K>, key: &NamespacedName) {
    if let Some(found) = store.get_key(key) {
        live.insert(
            Target::of_object(found.as_ref()).to_string(),
            to_value(found.as_ref()),
        );
    }
}

/// Returns the reason why this ClusterServiceVersion may not adopt an APIService; `None` when it may.
fn why_foreign(stores: &Stores, csv: &ClusterServiceVersion, api_service: &ObjectMeta) -> Option<String> {
    let Some(owner) = owner::labelled(api_service) else {
        return Some("it does not belong to a ClusterServiceVersion".to_owned());
    };
    let is_near = Some(owner.namespace.as_str()) == csv.metadata.namespace.as_deref();
    let is_own = is_near
        && (Some(owner.name.as_str()) == csv.metadata.name.as_deref()
            || Some(owner.name.as_str()) == csv.spec.replaces());
    if is_own {
        return None;
    }
    match stores.csvs.get_key(&owner) {
        // The successor in another namespace would get it.
        Some(other) if is_near && matches!(other.phase(), Phase::Replacing | Phase::Deleting) => None,
        Some(_) => Some(format!("it belongs to ClusterServiceVersion {owner}")),
        None => Some(format!(
            "it belongs to ClusterServiceVersion {owner}, which does not exist"
        )),
    }
}

/// Returns the key of a binding for accounts of `namespace`: another name if the first one serves another
/// namespace, or if the other name is in use already, because the first one may belong to an object that the
/// stores do not have.
fn free<K: Stored>(
    store: &Store<K>,
    first: NamespacedName,
    namespace: &str,
    subjects: fn(&K) -> Option<&[Subject]>,
) -> NamespacedName {
    let other = NamespacedName::new(&first.namespace, delegation::within(namespace, &first.name));
    let is_of_another = |found: &K| {
        let mut subjects = subjects(found).into_iter().flatten();
        subjects.any(|subject| subject.namespace.as_deref() != Some(namespace))
    };
    let is_taken = store.get_key(&first).is_some_and(|found| is_of_another(&found));
    if is_taken || store.get_key(&other).is_some() {
        other
    } else {
        first
    }
}

/// Avoids bindings that are not OLM's. The stores do not have them, so bindings about to be created are
/// looked up.
///
/// # Errors
/// When a read fails.
pub(super) async fn avoid_strangers(observed: &mut Observed, client: &Client) -> Result<(), ObserveError> {
    let namespace = observed.namespace().to_owned();
    let cluster: Api<ClusterRoleBinding> = Api::all(client.clone());
    let readers: Api<RoleBinding> = Api::namespaced(client.clone(), delegation::READER_NAMESPACE);
    let Serving {
        live, delegations, ..
    } = &mut observed.serving;
    for names in delegations.values_mut() {
        let target = Target::cluster::<ClusterRoleBinding>(&names.delegator);
        avoid_stranger(live, &namespace, &cluster, &target, &mut names.delegator).await?;
        let target = Target::of::<RoleBinding>(delegation::READER_NAMESPACE, &names.reader);
        avoid_stranger(live, &namespace, &readers, &target, &mut names.reader).await?;
    }
    Ok(())
}

async fn avoid_stranger<K: Clone + DeserializeOwned + Debug>(
    live: &BTreeMap<String, Value>,
    namespace: &str,
    api: &Api<K>,
    target: &Target,
    name: &mut String,
) -> Result<(), ObserveError> {
    if live.contains_key(&target.to_string()) {
        return Ok(());
    }
    let found = deadline(&target.to_string(), api.get_metadata_opt(name)).await?;
    let owner = found.map(|found| owner::labelled(&found.metadata));
    if owner.is_some_and(|owner| owner.is_none_or(|owner| owner.namespace != namespace)) {
        *name = delegation::within(namespace, name);
    }
    Ok(())
}

/// Returns the objects of a ClusterServiceVersion outside of its namespace, except the RBAC of its
/// permissions.
fn all_labelled(stores: &Stores, key: &NamespacedName) -> Vec<(Target, Option<String>)> {
    let mut all = labelled(&stores.validating_webhooks, key);
    all.extend(labelled(&stores.mutating_webhooks, key));
    all.extend(labelled(&stores.api_services, key));
    let delegators = labelled(&stores.cluster_role_bindings, key).into_iter();
    all.extend(delegators.filter(|(target, _)| target.name.ends_with(delegation::DELEGATOR_SUFFIX)));
    let readers = labelled(&stores.role_bindings, key).into_iter();
    all.extend(readers.filter(|(target, _)| {
        target.namespace.as_deref() == Some(delegation::READER_NAMESPACE)
            && target.name.ends_with(delegation::READER_SUFFIX)
    }));
    all
}

fn labelled<K: Stored>(store: &Store<K>, key: &NamespacedName) -> Vec<(Target, Option<String>)> {
    let own = store.list_where(|found| owner::is_labelled(found.meta(), &key.namespace, &key.name));
    let stays = own
        .iter()
        .filter(|found| found.meta().deletion_timestamp.is_none());
    stays
        .map(|found| (Target::of_object(found.as_ref()), found.uid()))
        .collect()
}

fn own_cas(stores: &Stores, csv: &ClusterServiceVersion) -> Vec<String> {
    let uid = csv.metadata.uid.as_deref().unwrap_or_default();
    let secrets = stores
        .secrets
        .list_in(csv.metadata.namespace.as_deref().unwrap_or_default());
    let own = secrets
        .iter()
        .filter(|secret| secret.ca_hash().is_some() && !secret.ca().is_empty())
        .filter(|secret| {
            let mut owners = owner::references(&secret.metadata).peekable();
            // A Secret without owners existed before the ClusterServiceVersion.
            owners.peek().is_none() || owners.any(|owner| owner.uid == uid)
        });
    own.map(|secret| secret.ca().to_owned()).collect()
}

/// Returns Secrets that only this ClusterServiceVersion owns and no longer needs, and their related objects
/// of its own.
fn unused(
    stores: &Stores,
    csv: &ClusterServiceVersion,
    endpoints: &[Endpoint],
) -> Vec<(Target, Option<String>)> {
    let namespace = csv.metadata.namespace.as_deref().unwrap_or_default();
    let uid = csv.metadata.uid.as_deref().unwrap_or_default();
    let mut unused = Vec::new();
    for secret in stores.secrets.list_in(namespace) {
        let name = secret.name_any();
        let is_wanted = endpoints.iter().any(|endpoint| endpoint.secret() == name);
        if is_wanted || secret.ca_hash().is_none() || !is_owned_alone(secret.as_ref(), uid) {
            continue;
        }
        let service = endpoint::service_of_secret(&name);
        let around = [
            own::<ServingSecret>(&stores.secrets, namespace, &name, uid),
            own::<Role>(&stores.roles, namespace, &name, uid),
            own::<RoleBinding>(&stores.role_bindings, namespace, &name, uid),
            service.and_then(|service| own::<Service>(&stores.services, namespace, service, uid)),
        ];
        unused.extend(around.into_iter().flatten());
    }
    unused
}

fn own<K: Stored>(
    store: &Store<K>,
    namespace: &str,
    name: &str,
    uid: &str,
) -> Option<(Target, Option<String>)> {
    let found = store
        .get(namespace, name)
        .filter(|found| is_owned_alone(found.as_ref(), uid))?;
    Some((Target::of_object(found.as_ref()), found.uid()))
}

fn is_owned_alone<K: Resource>(object: &K, uid: &str) -> bool {
    let mut owners = owner::references(object.meta()).peekable();
    object.meta().deletion_timestamp.is_none()
        && owners.peek().is_some()
        && owners.all(|owner| owner.uid == uid)
}

/// Checks the certificates.
pub(super) fn inspect(observed: &mut Observed, now: Timestamp) {
    if matches!(observed.csv.phase(), Phase::Replacing | Phase::Deleting) {
        // Its successor handles them.
        return;
    }
    let namespace = observed.namespace().to_owned();
    let Serving {
        endpoints,
        secrets,
        valid,
        unfit,
        ..
    } = &mut observed.serving;
    for endpoint in endpoints {
        let deployment = endpoint.deployment.clone();
        let secret = secrets.get(&deployment).map(AsRef::as_ref);
        match inspect_secret(secret, &endpoint.hosts(&namespace), now) {
            Ok(validity) => drop(valid.insert(deployment, validity)),
            Err(why) => drop(unfit.insert(deployment, why)),
        }
    }
}

fn inspect_secret(
    secret: Option<&ServingSecret>,
    hosts: &[String],
    now: Timestamp,
) -> Result<certificate::Validity, Unfit> {
    let secret = secret.ok_or_else(|| Unfit::Broken("it does not exist".to_owned()))?;
    let validity = certificate::inspect(secret.ca(), secret.certificate(), hosts, now)?;
    if secret.ca_hash() != Some(certificate::ca_hash(secret.ca()).as_str()) {
        return Err(Unfit::Broken("its hash does not match its CA".to_owned()));
    }
    if secret.is_key_changed() {
        return Err(Unfit::Broken(
            "its private key does not match its certificate".to_owned(),
        ));
    }
    Ok(validity)
}
