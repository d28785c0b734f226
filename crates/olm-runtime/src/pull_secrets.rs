//! Reads pull secrets, live each time: a cache would contain every Secret of the cluster, and pulls are rare.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::{Api, Client};

use crate::discovery::deadline;
use crate::error::ObserveError;
use crate::key::{NamespacedName, is_path_segment};

/// Maximum number of Secrets that are read for a pull; the rest is ignored.
const MOST_SECRETS: usize = 32;

/// Returns the pull secrets that a ServiceAccount names; none if it does not exist.
///
/// # Errors
/// The API server does not answer.
pub async fn of_account(
    client: &Client,
    account: &NamespacedName,
) -> Result<Vec<NamespacedName>, ObserveError> {
    let api: Api<ServiceAccount> = Api::namespaced(client.clone(), &account.namespace);
    let what = format!("ServiceAccount {account}");
    let found = deadline(&what, api.get_opt(&account.name)).await?;
    let named = found
        .and_then(|found| found.image_pull_secrets)
        .unwrap_or_default();
    let key = |name: String| NamespacedName::new(account.namespace.as_str(), name);
    Ok(named.into_iter().map(|secret| key(secret.name)).collect())
}

/// Returns the Secrets with these names that exist, each once, up to the limit: another one may suffice, as for kubelets. Each has its
/// name for errors and its data. Invalid names are skipped, because they could request other resources, such as the list of all Secrets.
///
/// # Errors
/// The API server does not answer.
pub async fn read(
    client: &Client,
    keys: Vec<NamespacedName>,
) -> Result<Vec<(String, BTreeMap<String, Vec<u8>>)>, ObserveError> {
    let mut found = Vec::new();
    for key in readable(keys) {
        let api: Api<Secret> = Api::namespaced(client.clone(), &key.namespace);
        let what = format!("Secret {key}");
        if let Some(secret) = deadline(&what, api.get_opt(&key.name)).await? {
            let data = secret.data.unwrap_or_default().into_iter();
            found.push((what, data.map(|(key, value)| (key, value.0)).collect()));
        }
    }
    Ok(found)
}

fn readable(keys: Vec<NamespacedName>) -> impl Iterator<Item = NamespacedName> {
    let mut known = BTreeSet::new();
    let keys = keys.into_iter();
    keys.filter(move |key| is_path_segment(&key.name) && known.insert(key.clone()))
        .take(MOST_SECRETS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(names: impl IntoIterator<Item = impl Into<String>>) -> Vec<NamespacedName> {
        names
            .into_iter()
            .map(|name| NamespacedName::new("ns", name))
            .collect()
    }

    #[test]
    fn names_of_secrets_are_read_once_and_ask_for_nothing_else() {
        let named = keys(["a", "?x", "a", "", "..", "a/b", "a?watch=1", "b"]);
        assert_eq!(readable(named).collect::<Vec<_>>(), keys(["a", "b"]));
        let many = keys((0..1000).map(|number| number.to_string()));
        assert_eq!(readable(many).count(), MOST_SECRETS);
    }
}
