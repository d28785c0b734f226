//! Checks whether everything that a ClusterServiceVersion needs exists, and lists the missing objects.
//!
//! Rows and texts are described in `docs/reference/lifecycle.md`. The order is version of Kubernetes,
//! CustomResourceDefinitions, APIServices, native APIs and permissions.

mod permissions;

use std::collections::{BTreeMap, BTreeSet};

use go_compat::semver::Version;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::rbac::v1::Role;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::{Resource, ResourceExt};
use olm_api::{
    api_key::ApiKey,
    cause::is_met,
    condition::requirement,
    permission,
    v1alpha1::{
        ApiServiceDescription, ClusterServiceVersion, CrdDescription, RequirementStatus, WebhookType,
    },
};

use crate::{
    csv::{
        observed::{Observed, availability, is_available},
        replacement,
        serving::rules::Refused,
    },
    stores::CustomResourceDefinition as StoredCrd,
};

/// The requirements, and whether all are met.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Requirements {
    /// True when all requirements are met.
    pub(crate) met: bool,
    /// True when some are not met and the state of the others is unknown, because their server does not
    /// respond.
    pub(crate) undetermined: bool,
    /// The first missing requirement, its reason, and the number of the others; empty when all are met. It is
    /// appended to a message.
    pub(crate) lacking: String,
    /// One row per requirement.
    pub(crate) rows: Vec<RequirementStatus>,
}

/// Checks all requirements.
///
/// # Errors
/// The error in the install strategy, for users.
pub(crate) fn evaluate(observed: &Observed) -> Result<Requirements, String> {
    let strategy = observed.strategy.as_ref().map_err(Clone::clone)?;
    let mut rows: Vec<Row> = min_kube_version(observed).into_iter().collect();
    rows.extend(crds(observed));
    rows.extend(api_services(observed));
    rows.extend(native_apis(observed));
    rows.extend(permissions::rows(observed, strategy));
    let met = rows.iter().all(|row| is_met(&row.status));
    // Counterparts in other namespaces are made from the operator's rights in its own.
    if met {
        rows.extend(permissions::missing_in_targets(observed, strategy));
    }
    Ok(Requirements {
        met,
        lacking: lacking(&rows),
        undetermined: !met && rows.iter().all(|row| row.unknown || is_met(&row.status)),
        rows: rows.into_iter().map(|row| row.status).collect(),
    })
}

/// Returns the row about rights that an operator lacks beyond its own namespace, where its group targets.
pub(crate) fn missing_rights(role: &str, places: &str, cause: &str) -> RequirementStatus {
    RequirementStatus {
        status: requirement::PRESENT_NOT_SATISFIED.to_owned(),
        message: format!("{}{places}: {cause}", requirement::MISSING_RIGHTS),
        ..row_of::<Role>(role)
    }
}

/// True for a row about missing rights.
pub(crate) fn is_missing_rights(row: &RequirementStatus) -> bool {
    row.group == permission::API_GROUP && row.message.starts_with(requirement::MISSING_RIGHTS)
}

/// True when the stored status reports rights missing beyond the namespace.
pub(crate) fn reports_missing_rights(csv: &ClusterServiceVersion) -> bool {
    let status = csv.status.as_ref();
    status.is_some_and(|status| status.requirement_status.iter().any(is_missing_rights))
}

/// Returns the rows, and one for a webhook with an invalid description; `None` if the message of the phase
/// already contains everything.
pub(crate) fn with_refused(observed: &Observed, refused: &Refused) -> Option<Vec<RequirementStatus>> {
    let description = refused.webhook.as_ref()?;
    let mut rows = evaluate(observed).ok()?.rows;
    let name = &description.generate_name;
    let own = match description.type_ {
        WebhookType::Mutating => row_of::<MutatingWebhookConfiguration>(name),
        _ => row_of::<ValidatingWebhookConfiguration>(name),
    };
    rows.push(answered(own, requirement::NOT_PRESENT, refused.text.as_str()).status);
    Some(rows)
}

fn lacking(rows: &[Row]) -> String {
    let mut unmet = rows.iter().map(|row| &row.status).filter(|row| !is_met(row));
    let Some(first) = unmet.next() else {
        return String::new();
    };
    let why = if first.message.is_empty() {
        &first.status
    } else {
        &first.message
    };
    let more = match unmet.count() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(": {} {} ({why}){more}", first.kind, first.name)
}

struct Row {
    /// True when the state is unknown at the moment.
    unknown: bool,
    status: RequirementStatus,
}

fn row(group: &str, version: &str, kind: &str, name: &str) -> RequirementStatus {
    RequirementStatus {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
        ..RequirementStatus::default()
    }
}

fn row_of<K: Resource<DynamicType = ()>>(name: &str) -> RequirementStatus {
    row(&K::group(&()), &K::version(&()), &K::kind(&()), name)
}

fn answered(mut status: RequirementStatus, word: &str, message: impl Into<String>) -> Row {
    status.status = word.to_owned();
    status.message = message.into();
    Row {
        unknown: false,
        status,
    }
}

fn min_kube_version(observed: &Observed) -> Option<Row> {
    let wanted = observed
        .csv
        .spec
        .min_kube_version
        .as_deref()
        .filter(|text| !text.is_empty())?;
    let git_version = observed.cluster.server_version.as_str();
    let server = git_version.strip_prefix('v').unwrap_or(git_version);
    let server = server.split('-').next().unwrap_or_default();
    let status = row_of::<ClusterServiceVersion>(observed.name());
    let unmet = |message: String| answered(status.clone(), requirement::PRESENT_NOT_SATISFIED, message);
    let Ok(running) = Version::parse(server) else {
        return Some(unmet("Server version parsing error".to_owned()));
    };
    let Ok(minimum) = Version::parse(wanted.strip_prefix('v').unwrap_or(wanted)) else {
        return Some(unmet("CSV version parsing error".to_owned()));
    };
    if minimum > running {
        return Some(unmet(format!(
            "CSV version requirement not met: minKubeVersion ({wanted}) > server version ({server})"
        )));
    }
    let message = format!("CSV minKubeVersion ({wanted}) less than server version ({git_version})");
    Some(answered(status.clone(), requirement::PRESENT, message))
}

fn crds(observed: &Observed) -> Vec<Row> {
    let spec = &observed.csv.spec;
    let mut wanted: BTreeMap<&str, (&CrdDescription, bool)> = BTreeMap::new();
    for description in spec.required_crds() {
        wanted.insert(&description.name, (description, false));
    }
    for description in spec.owned_crds() {
        wanted.insert(&description.name, (description, true));
    }
    wanted
        .into_values()
        .map(|(description, owned)| crd(observed, description, owned))
        .collect()
}

fn crd(observed: &Observed, description: &CrdDescription, owned: bool) -> Row {
    let mut status = row_of::<CustomResourceDefinition>(&description.name);
    let Some(found) = observed.cluster.crds.get(&description.name) else {
        return answered(status, requirement::NOT_PRESENT, "CRD is not present");
    };
    let others = if owned {
        only_installed_with(observed, found)
    } else {
        Vec::new()
    };
    if !others.is_empty() {
        let message = format!("CRD installed alongside other CSV(s): {}", others.join(", "));
        return answered(status, requirement::PRESENT_NOT_SATISFIED, message);
    }
    let mut versions = found.spec.versions.iter();
    if !versions.any(|version| version.served && version.name == description.version) {
        return answered(status, requirement::NOT_PRESENT, "CRD version not served");
    }
    if !(found.is_true("Established") && found.is_true("NamesAccepted")) {
        return answered(
            status,
            requirement::PRESENT_NOT_AVAILABLE,
            "CRD is present but the Established condition is False (not available)",
        );
    }
    status.uuid = Some(found.uid().unwrap_or_default());
    answered(
        status,
        requirement::PRESENT,
        "CRD is present and Established condition is true",
    )
}

/// Returns the predecessors a CustomResourceDefinition came with, until it has also come with this
/// ClusterServiceVersion: its new form is then still to be applied.
fn only_installed_with(observed: &Observed, crd: &StoredCrd) -> Vec<String> {
    let origins: BTreeSet<(&str, &str)> = crd.origins().collect();
    let came_with = |name: &str| origins.contains(&(observed.namespace(), name));
    if came_with(observed.name()) {
        return Vec::new();
    }
    replacement::ancestors(observed.name(), observed.replaces(), &observed.siblings)
        .into_iter()
        .filter(|ancestor| came_with(ancestor))
        .map(str::to_owned)
        .collect()
}

fn api_services(observed: &Observed) -> Vec<Row> {
    let spec = &observed.csv.spec;
    let owned: BTreeMap<String, &ApiServiceDescription> = by_name(spec.owned_api_services());
    let required: BTreeMap<String, &ApiServiceDescription> = by_name(spec.required_api_services());
    let required_rows = required
        .iter()
        .filter(|(name, _)| !owned.contains_key(*name))
        .map(|(name, description)| required_api_service(observed, name, description));
    let owned_rows = owned
        .iter()
        .map(|(name, description)| owned_api_service(observed, name, description));
    required_rows.chain(owned_rows).collect()
}

fn by_name(descriptions: &[ApiServiceDescription]) -> BTreeMap<String, &ApiServiceDescription> {
    descriptions
        .iter()
        .map(|description| (description.api_service_name(), description))
        .collect()
}

fn required_api_service(observed: &Observed, name: &str, description: &ApiServiceDescription) -> Row {
    let mut status = row_of::<APIService>(name);
    let kind = ApiKey::from(description);
    // Upstream sets no message here.
    match observed.cluster.api_services.get(name) {
        None => answered(status, requirement::NOT_PRESENT, ""),
        Some(found) if !is_available(found) => {
            let reason = availability(found).and_then(|condition| condition.reason.as_ref());
            let reason = reason.map(|reason| format!(": {reason}"));
            let message = format!("APIService is not available{}", reason.unwrap_or_default());
            answered(status, requirement::NOT_PRESENT, message)
        }
        Some(found) if observed.cluster.served.contains(&kind) => {
            status.uuid = Some(found.uid().unwrap_or_default());
            answered(status, requirement::PRESENT, "")
        }
        Some(_) => not_served(observed, status, &kind, ""),
    }
}

/// Returns the row of a kind that is not served, or whose discovery failed.
fn not_served(observed: &Observed, status: RequirementStatus, kind: &ApiKey, message: &str) -> Row {
    let Some(trouble) = observed.cluster.unknown.get(kind) else {
        return answered(status, requirement::NOT_PRESENT, message);
    };
    let message = format!("discovery of {}/{}: {trouble}", kind.group, kind.version);
    Row {
        unknown: true,
        ..answered(status, requirement::NOT_PRESENT, message)
    }
}

fn owned_api_service(observed: &Observed, name: &str, description: &ApiServiceDescription) -> Row {
    let mut deployments = observed.csv.spec.install.deployments().iter();
    let found = deployments.any(|deployment| Some(&deployment.name) == description.deployment_name.as_ref());
    let word = if found {
        requirement::DEPLOYMENT_FOUND
    } else {
        requirement::DEPLOYMENT_NOT_FOUND
    };
    answered(row_of::<APIService>(name), word, "")
}

fn native_apis(observed: &Observed) -> impl Iterator<Item = Row> {
    observed.csv.spec.native_apis.iter().map(|api| {
        let kind = ApiKey::new(&api.group, &api.version, &api.kind);
        let status = row(
            &api.group,
            &api.version,
            &api.kind,
            &format!("{}.{}", api.version, api.group),
        );
        if observed.cluster.served.contains(&kind) {
            answered(status, requirement::PRESENT, "Native API exists")
        } else {
            not_served(observed, status, &kind, "Native API does not exist")
        }
    })
}
