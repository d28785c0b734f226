//! Summaries of all ServiceAccounts. Users' own ones, mostly `default`, have no label of OLM's, and there is at
//! least one in every namespace. So no more is kept of each than who owns it.

use k8s_openapi::api::core::v1::ServiceAccount;
use kube::{ResourceExt, core::PartialObjectMeta};
use olm_api::labels;
use olm_runtime::store::{Projected, Projection};

use crate::{csv::observed::FoundAccount, owner};

/// Summary of a ServiceAccount, as kept in its store.
pub(crate) type AccountSketch = Projected<KeptAccount>;

/// What is kept of a ServiceAccount besides name, uid and version.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct KeptAccount {
    /// True if OLM created it, so that another store has all of it.
    pub(crate) is_managed: bool,
    pub(crate) found: FoundAccount,
}

impl Projection for KeptAccount {
    type Object = PartialObjectMeta<ServiceAccount>;

    fn of(account: PartialObjectMeta<ServiceAccount>) -> Self {
        Self {
            is_managed: account.labels().contains_key(labels::MANAGED),
            found: read_account(&account),
        }
    }
}

/// Reads the owners from the metadata of a ServiceAccount.
pub(super) fn read_account(found: &PartialObjectMeta<ServiceAccount>) -> FoundAccount {
    FoundAccount {
        csv_owners: owner::references(&found.metadata)
            .map(|owner| (owner.uid.clone(), owner.name.clone()))
            .collect(),
    }
}
