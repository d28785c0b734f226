//! The input of one decision about the ClusterRoles of APIs, from stores alone.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::{core::v1::ObjectReference, rbac::v1::ClusterRole};
use kube::{Resource, ResourceExt};
use olm_api::{
    api_key::ApiKey,
    user_role::{Level, crd_view_name, is_api_label},
    v1alpha1::{ApiServiceDescription, ClusterServiceVersion, ClusterServiceVersionPhase as Phase},
};
use olm_runtime::store::Index;

use crate::{
    api_role::{Observed, ProvidedApi, ServedBy},
    owner,
    stores::Stores,
};

/// Index of the ClusterRoles of APIs, by the object that serves the API. Must be called before the stores
/// trigger the controllers that use it.
pub(crate) fn by_owner(stores: &Stores) -> Index<ClusterRole> {
    stores.cluster_roles.index(|role| {
        let is_of_api = role.labels().keys().any(|label| is_api_label(label));
        let owners = role.owner_references().iter().filter(|_| is_of_api);
        owners
            .filter_map(ServedBy::referred_to)
            .map(|served_by| served_by.to_string())
            .collect()
    })
}

/// Observes the object that serves the APIs and the ClusterServiceVersions that provide them; `None` when
/// none does.
pub(crate) fn observe(stores: &Stores, made: &Index<ClusterRole>, key: &ServedBy) -> Option<Observed> {
    let (uid, provider, apis) = match key {
        ServedBy::CustomResourceDefinition(name) => defined(stores, key, name)?,
        ServedBy::ApiService(name) => aggregated(stores, key, name)?,
    };
    let names = apis.iter().flat_map(|api| {
        let version = &api.key.version;
        let levels = Level::ALL.map(|level| level.api_role_name(&api.name, version));
        levels.into_iter().chain([crd_view_name(&api.name, version)])
    });
    let names: BTreeSet<String> = names.collect();
    let mut former = match key {
        // Versions without a provider are still served, and custom resources outlive their operator.
        ServedBy::CustomResourceDefinition(_) if !apis.is_empty() => Vec::new(),
        ServedBy::CustomResourceDefinition(_) => made.list(&key.to_string()),
        ServedBy::ApiService(_) => made.list(&key.to_string()),
    };
    former.retain(|role| !names.contains(&role.name_any()));
    let nothing = apis.is_empty() && former.is_empty();
    (!nothing).then(|| Observed {
        served_by: key.clone(),
        uid,
        found: stores.cluster_roles_called(names),
        former,
        apis,
        provider,
    })
}

/// The uid of the object that serves the APIs, the object for events, and the APIs.
type Provided = (String, ObjectReference, Vec<ProvidedApi>);

/// True for a ClusterServiceVersion whose APIs are for users.
pub(super) fn is_provider(csv: &ClusterServiceVersion) -> bool {
    *csv.phase() == Phase::Succeeded && csv.metadata.deletion_timestamp.is_none() && !csv.is_copied()
}

/// Names of the definitions that a ClusterServiceVersion claims to own, in any phase.
pub(super) fn claimed(csv: &ClusterServiceVersion) -> BTreeSet<&str> {
    let owned = csv.spec.owned_crds().iter().filter(|_| !csv.is_copied());
    owned.map(|owned| owned.name.as_str()).collect()
}

/// Returns the versions of a definition that a ClusterServiceVersion provides. The list is empty when the
/// definition has no origin and no ClusterServiceVersion claims it any more, but its ClusterRoles remain.
/// Kind, plural and group are the definition's.
fn defined(stores: &Stores, key: &ServedBy, name: &str) -> Option<Provided> {
    let crd = stores.crds.get_key(&key.stored())?;
    if crd.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let (plural, group) = name.split_once('.')?;
    // Write access to these acts with OLM's rights (`docs/security.md`), so no ClusterServiceVersion can open
    // them.
    if group == olm_api::GROUP {
        return None;
    }
    let owns = |csv: &ClusterServiceVersion| is_provider(csv) && owned_versions(csv, name).next().is_some();
    let mut providers = stores.csvs.list_where(owns);
    providers.sort_by_key(|csv| (csv.namespace(), csv.name_any()));
    let has = |version: &str| crd.spec.versions.iter().any(|known| known.name == version);
    let by_version: BTreeMap<&str, ProvidedApi> = providers
        .iter()
        .flat_map(|csv| owned_versions(csv, name))
        .filter(|version| has(version))
        .map(|version| {
            let api = ProvidedApi {
                name: name.to_owned(),
                resource: plural.to_owned(),
                key: ApiKey::new(group, version, &crd.spec.names.kind),
            };
            (version, api)
        })
        .collect();
    let apis: Vec<ProvidedApi> = by_version
        .into_values()
        .filter(|api| api.key.is_well_formed())
        .collect();
    if let Some(provider) = providers.first().filter(|_| !apis.is_empty()) {
        return Some((crd.uid()?, provider.object_ref(&()), apis));
    }
    // A claim is all these are based on; a provider that is not healthy still claims them.
    let claims = |csv: &ClusterServiceVersion| claimed(csv).contains(name);
    let is_over = crd.origins().next().is_none() && stores.csvs.list_where(claims).is_empty();
    is_over.then(|| Some((crd.uid()?, crd.object_ref(&()), Vec::new())))?
}

fn owned_versions<'a>(csv: &'a ClusterServiceVersion, crd: &str) -> impl Iterator<Item = &'a str> {
    let owned = csv.spec.owned_crds().iter();
    owned
        .filter(move |owned| owned.name == crd)
        .map(|owned| owned.version.as_str())
}

/// Returns the kinds that an APIService of OLM's serves, as claimed by the ClusterServiceVersion that owns
/// it. The list is empty when that one claims none or is not entitled to.
///
/// Rights are granted by group and plural, for every version. So a ClusterServiceVersion grants no rights on
/// a group that others serve, too.
fn aggregated(stores: &Stores, key: &ServedBy, name: &str) -> Option<Provided> {
    let service = stores.api_services.get_key(&key.stored())?;
    let (_, group) = name.split_once('.')?;
    let csv_key = owner::labelled(&service.metadata)?;
    let uid = service.uid()?;
    if service.metadata.deletion_timestamp.is_some() {
        return None;
    }
    if is_shared(stores, group, &csv_key.namespace) {
        return Some((uid, service.object_ref(&()), Vec::new()));
    }
    // Until it has succeeded its served kinds are unknown, and the ClusterRoles of its predecessor remain.
    let csv = stores.csvs.get_key(&csv_key).filter(|csv| is_provider(csv))?;
    let by_name: BTreeMap<&str, ApiKey> = served(&csv, name)
        .map(|description| (description.name.as_str(), ApiKey::from(description)))
        .filter(|(resource, api)| is_resource(resource) && api.is_well_formed())
        .collect();
    let apis: Vec<ProvidedApi> = by_name
        .into_iter()
        .map(|(resource, key)| ProvidedApi {
            name: resource.to_owned(),
            resource: resource.to_owned(),
            key,
        })
        .collect();
    Some((uid, csv.object_ref(&()), apis))
}

fn served<'a>(
    csv: &'a ClusterServiceVersion,
    api_service: &str,
) -> impl Iterator<Item = &'a ApiServiceDescription> {
    let owned = csv.spec.owned_api_services().iter();
    owned.filter(move |description| description.api_service_name() == api_service)
}

/// True for a plural as in API paths: no wildcard and no subresource.
fn is_resource(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

/// True when a version of the group is served outside the operators of `namespace`. Kubernetes has an
/// APIService for each group and version that it serves itself, including those of CustomResourceDefinitions.
fn is_shared(stores: &Stores, group: &str, namespace: &str) -> bool {
    let foreign = stores.api_services.list_where(|service| {
        service
            .name_any()
            .split_once('.')
            .is_some_and(|(_, found)| found == group)
            && owner::labelled(&service.metadata).is_none_or(|owner| owner.namespace != namespace)
    });
    !foreign.is_empty()
}

/// Returns the objects that serve the APIs a ClusterServiceVersion provides to users, each with the input for
/// decisions about its ClusterRoles.
pub(super) fn provided(csv: &ClusterServiceVersion) -> BTreeMap<ServedBy, Vec<String>> {
    let mut all = BTreeMap::<ServedBy, Vec<String>>::new();
    if !is_provider(csv) {
        return all;
    }
    for crd in csv.spec.owned_crds() {
        let key = ServedBy::CustomResourceDefinition(crd.name.clone());
        all.entry(key).or_default().push(crd.version.clone());
    }
    for description in csv.spec.owned_api_services() {
        let key = ServedBy::ApiService(description.api_service_name());
        let kind = format!("{} {}", description.name, description.kind);
        all.entry(key).or_default().push(kind);
    }
    all
}
