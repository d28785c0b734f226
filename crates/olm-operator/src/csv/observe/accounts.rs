//! ServiceAccounts that OLM did not make, `default` above all, and that ClusterServiceVersions give rights to.
//!
//! No store holds them. Each is read once and remembered until the news of all accounts tell that it changed, so that a
//! ClusterServiceVersion that runs costs no read.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use k8s_openapi::api::core::v1::ServiceAccount;
use kube::{Api, Client, core::PartialObjectMeta};
use olm_runtime::{
    NamespacedName,
    discovery::deadline,
    error::ObserveError,
    store::{News, NewsItem},
};

use crate::{csv::observed::FoundAccount, owner};

/// Accounts that were found; a clone is another handle to the same.
#[derive(Clone, Default)]
pub(crate) struct KnownAccounts {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    known: BTreeMap<NamespacedName, FoundAccount>,
    /// How often something was heard: an answer that was asked for before may be older than that.
    heard: u64,
}

impl KnownAccounts {
    /// None yet; what `news` tell of is forgotten. Call it before the watches start.
    pub(crate) fn follow(news: &News<ServiceAccount>) -> Self {
        let accounts = Self::default();
        let following = accounts.clone();
        news.on_news(move |heard| following.forget(heard));
        accounts
    }

    fn forget(&self, heard: &NewsItem<ServiceAccount>) {
        let mut state = self.state();
        state.heard = state.heard.wrapping_add(1);
        match heard {
            NewsItem::Changed(change) => {
                let key = NamespacedName::from_object(change.object().as_ref());
                state.known.remove(&key);
            }
            // One that went meanwhile is not in the list.
            NewsItem::Listed => state.known.clear(),
        }
    }

    /// The account, from the API server unless it is known; `None` when it does not exist, which is not remembered.
    ///
    /// # Errors
    /// When the read fails.
    pub(super) async fn read(
        &self,
        client: &Client,
        key: &NamespacedName,
    ) -> Result<Option<FoundAccount>, ObserveError> {
        let asked_at = {
            let state = self.state();
            if let Some(known) = state.known.get(key) {
                return Ok(Some(known.clone()));
            }
            state.heard
        };
        let api: Api<ServiceAccount> = Api::namespaced(client.clone(), &key.namespace);
        let what = format!("ServiceAccount {key}");
        let found = deadline(&what, api.get_metadata_opt(&key.name)).await?;
        let found = found.as_ref().map(read_account);
        let mut state = self.state();
        if let Some(account) = &found
            && state.heard == asked_at
        {
            state.known.insert(key.clone(), account.clone());
        }
        Ok(found)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the metadata of a ServiceAccount tells of its owners.
pub(super) fn read_account(found: &PartialObjectMeta<ServiceAccount>) -> FoundAccount {
    FoundAccount {
        csv_owners: owner::references(&found.metadata)
            .map(|owner| (owner.uid.clone(), owner.name.clone()))
            .collect(),
    }
}
