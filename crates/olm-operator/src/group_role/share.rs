//! Selects the APIs that the ClusterRoles of a group aggregate if there are too many. No I/O.

use olm_api::{
    api_key::{ApiKey, ApiSet},
    v1alpha1::ClusterServiceVersionPhase as Phase,
};

/// Limit of APIs that the ClusterRoles of a group aggregate. Any user who can create ClusterServiceVersions
/// could claim thousands.
pub(crate) const MAX_APIS: usize = 500;

/// Selected APIs, and the number of the others.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Share {
    pub(crate) apis: ApiSet,
    pub(crate) left_out: usize,
}

/// True for an operator that runs, or did until it got a successor: its APIs are more than a claim.
pub(crate) fn is_running(phase: &Phase) -> bool {
    matches!(phase, Phase::Succeeded | Phase::Replacing | Phase::Deleting)
}

/// Selects APIs of running operators first, one of each in turn, so that none displaces another's by
/// providing many. The group's other listed APIs and the claims of members follow, sorted by key.
pub(crate) fn share(running: &[ApiSet], claimed: ApiSet) -> Share {
    let mut all: ApiSet = running.iter().flatten().cloned().collect();
    all.extend(claimed);
    if all.len() <= MAX_APIS {
        return Share {
            apis: all,
            left_out: 0,
        };
    }
    let mut turns: Vec<_> = running.iter().map(|provided| provided.iter()).collect();
    let mut apis = ApiSet::new();
    while apis.len() < MAX_APIS && !turns.is_empty() {
        turns.retain_mut(|rest| {
            let next: Option<&ApiKey> = rest.next();
            if let Some(api) = next
                && apis.len() < MAX_APIS
            {
                apis.insert(api.clone());
            }
            next.is_some()
        });
    }
    let rest: Vec<ApiKey> = all.difference(&apis).cloned().collect();
    let room = MAX_APIS - apis.len();
    apis.extend(rest.iter().take(room).cloned());
    Share {
        left_out: rest.len().saturating_sub(room),
        apis,
    }
}

#[cfg(test)]
mod tests {
    use olm_api::api_key::parse_api_set;

    use super::*;

    fn many(prefix: &str, count: usize) -> ApiSet {
        let keys: Vec<String> = (0..count)
            .map(|number| format!("{prefix}{number:04}.v1.example.com"))
            .collect();
        parse_api_set(&keys.join(","))
    }

    fn of<'a>(share: &'a Share, prefix: &'a str) -> usize {
        share
            .apis
            .iter()
            .filter(|api| api.kind.starts_with(prefix))
            .count()
    }

    #[test]
    fn what_fits_is_taken_up_whole() {
        let found = share(&[many("A", 200), many("B", 200)], many("C", 100));
        assert_eq!((found.apis.len(), found.left_out), (MAX_APIS, 0));
    }

    #[test]
    fn a_claim_displaces_nothing_that_is_there_however_early_it_sorts() {
        let found = share(&[many("Z", 20)], many("A", 600));
        assert_eq!((of(&found, "Z"), of(&found, "A")), (20, MAX_APIS - 20));
        assert_eq!(found.left_out, 120);
    }

    #[test]
    fn an_operator_with_many_apis_leaves_the_others_theirs() {
        let found = share(&[many("A", 900), many("Z", 30)], many("C", 10));
        assert_eq!((of(&found, "Z"), of(&found, "A")), (30, MAX_APIS - 30));
        assert_eq!(found.left_out, 440);
    }
}
