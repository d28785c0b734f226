//! Whether APIs are there for their users, and whose their APIServices are.

use crate::csv::observed::{Kind, Observed};

/// The first API that is not there yet: its Deployment, and what is lacking, for people. What nobody can tell at the moment counts as
/// lacking only if `unknown_counts`.
pub(crate) fn unavailable(observed: &Observed, unknown_counts: bool) -> Option<(String, String)> {
    let cluster = &observed.cluster;
    observed.csv.spec.owned_api_services().iter().find_map(|api| {
        let deployment = api.deployment_name.clone()?;
        let name = api.api_service_name();
        if let Some(why) = observed.serving.foreign_apis.get(&name) {
            return Some((deployment, format!("{name} is unadoptable: {why}")));
        }
        let found = cluster.api_services.get(&name);
        let kind = Kind {
            group: api.group.clone(),
            version: api.version.clone(),
            kind: api.kind.clone(),
        };
        let lacking = if !found.is_some_and(|found| found.available) {
            let reason = found.and_then(|found| found.reason.as_deref());
            format!(
                "{name} is not available ({})",
                reason.unwrap_or("it has no status yet")
            )
        } else if let Some(trouble) = cluster.unknown.get(&kind) {
            if !unknown_counts {
                return None;
            }
            format!("whether {name} has kind {} is unknown: {trouble}", api.kind)
        } else if !cluster.served.contains(&kind) {
            format!("{name} does not have kind {}", api.kind)
        } else {
            return None;
        };
        Some((deployment, format!("apiServices not installed: {lacking}")))
    })
}

/// True when only discovery tells when an API that is lacking has come: its APIService is available already.
pub(crate) fn waits_for_discovery(observed: &Observed) -> bool {
    let cluster = &observed.cluster;
    observed.csv.spec.owned_api_services().iter().any(|api| {
        let kind = Kind {
            group: api.group.clone(),
            version: api.version.clone(),
            kind: api.kind.clone(),
        };
        let found = cluster.api_services.get(&api.api_service_name());
        found.is_some_and(|found| found.available) && !cluster.served.contains(&kind)
    })
}

/// Why an API that is to be served cannot be: somebody else has its APIService; for people.
pub(crate) fn conflict(observed: &Observed) -> Option<String> {
    let (name, why) = observed.serving.foreign_apis.first_key_value()?;
    Some(format!(
        "unable to adopt APIService: pre-existing APIService {name} is not adoptable: {why}"
    ))
}
