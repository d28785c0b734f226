//! ServiceAccounts that OLM did not create and that ClusterServiceVersions grant rights to, mostly `default`.
//!
//! No store has them. Each is read once and cached until the watch of all accounts reports a change, so a
//! running ClusterServiceVersion costs no read.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::api::core::v1::ServiceAccount;
use kube::{Api, Client, core::PartialObjectMeta};
use olm_runtime::{
    NamespacedName,
    discovery::deadline,
    error::ObserveError,
    store::{News, NewsItem},
    sync::Mutex,
};

use crate::owner;

/// Cache of accounts; clones share it.
#[derive(Clone, Default)]
pub(crate) struct KnownAccounts {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// Owners of the accounts ([`owners`]).
    known: BTreeMap<NamespacedName, BTreeSet<String>>,
    /// Number of reported changes; a response to a request sent before the last one may be outdated.
    heard: u64,
}

impl KnownAccounts {
    /// Returns an empty cache that forgets the accounts `news` reports. Must be called before the watches
    /// start.
    pub(crate) fn follow(news: &News<ServiceAccount>) -> Self {
        let accounts = Self::default();
        let following = accounts.clone();
        news.on_news(move |heard| following.forget(heard));
        accounts
    }

    fn forget(&self, heard: &NewsItem<ServiceAccount>) {
        let mut state = self.state.lock();
        state.heard = state.heard.wrapping_add(1);
        match heard {
            NewsItem::Changed(change) => {
                let key = NamespacedName::from_object(change.object().as_ref());
                state.known.remove(&key);
            }
            // An account that was deleted meanwhile is not in the list.
            NewsItem::Listed => state.known.clear(),
        }
    }

    /// Returns the [`owners`] of the account, from the API server unless cached; `None` when the account does
    /// not exist, which is not cached.
    ///
    /// # Errors
    /// When the read fails.
    pub(super) async fn read(
        &self,
        client: &Client,
        key: &NamespacedName,
    ) -> Result<Option<BTreeSet<String>>, ObserveError> {
        let asked_at = {
            let state = self.state.lock();
            if let Some(known) = state.known.get(key) {
                return Ok(Some(known.clone()));
            }
            state.heard
        };
        let api: Api<ServiceAccount> = Api::namespaced(client.clone(), &key.namespace);
        let what = format!("ServiceAccount {key}");
        let found = deadline(&what, api.get_metadata_opt(&key.name)).await?;
        let found = found.as_ref().map(owners);
        let mut state = self.state.lock();
        if let Some(account) = &found
            && state.heard == asked_at
        {
            state.known.insert(key.clone(), account.clone());
        }
        Ok(found)
    }
}

/// Returns the uids of the ClusterServiceVersions that own a ServiceAccount.
pub(super) fn owners(account: &PartialObjectMeta<ServiceAccount>) -> BTreeSet<String> {
    let owners = owner::references(&account.metadata);
    owners.map(|owner| owner.uid.clone()).collect()
}
