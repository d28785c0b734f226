//! Availability of APIs for their users, and ownership of their APIServices.

use olm_api::api_key::ApiKey;

use crate::csv::observed::{Observed, availability, is_available};

/// Returns the first API that is not available yet: its Deployment, and the missing part, for users. An
/// unknown state counts as unavailable only if `unknown_counts`.
pub(crate) fn unavailable(observed: &Observed, unknown_counts: bool) -> Option<(String, String)> {
    let cluster = &observed.cluster;
    observed.csv.spec.owned_api_services().iter().find_map(|api| {
        let deployment = api.deployment_name.clone()?;
        let name = api.api_service_name();
        if let Some(why) = observed.serving.foreign_apis.get(&name) {
            return Some((deployment, format!("{name} is unadoptable: {why}")));
        }
        let found = cluster.api_services.get(&name);
        let kind = ApiKey::from(api);
        let lacking = if !found.is_some_and(|found| is_available(found)) {
            let reason = found.and_then(|found| availability(found)?.reason.as_deref());
            format!(
                "{name} is not available ({})",
                reason.unwrap_or("it has no status yet")
            )
        } else if let Some(trouble) = cluster.unknown.get(&kind) {
            if !unknown_counts {
                return None;
            }
            format!("cannot determine whether {name} has kind {}: {trouble}", api.kind)
        } else if !cluster.served.contains(&kind) {
            format!("{name} does not have kind {}", api.kind)
        } else {
            return None;
        };
        Some((deployment, format!("apiServices not installed: {lacking}")))
    })
}

/// True when only discovery shows that a missing API is served, because its APIService is already available.
pub(crate) fn waits_for_discovery(observed: &Observed) -> bool {
    let cluster = &observed.cluster;
    observed.csv.spec.owned_api_services().iter().any(|api| {
        let kind = ApiKey::from(api);
        let found = cluster.api_services.get(&api.api_service_name());
        found.is_some_and(|found| is_available(found)) && !cluster.served.contains(&kind)
    })
}

/// Returns the reason why an API cannot be served: its APIService has another owner. For users.
pub(crate) fn conflict(observed: &Observed) -> Option<String> {
    let (name, why) = observed.serving.foreign_apis.first_key_value()?;
    Some(format!(
        "unable to adopt APIService: pre-existing APIService {name} is not adoptable: {why}"
    ))
}
