//! Summaries of all ServiceAccounts. Users' own ones, mostly `default`, have no label of OLM's, and there is at
//! least one in every namespace. So no more is kept of each than who owns it, and whether OLM created it.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::ServiceAccount;
use kube::{ResourceExt, core::PartialObjectMeta};
use olm_api::labels;
use olm_runtime::store::{Projected, Projection};

use crate::owner;

/// Summary of a ServiceAccount, as kept in its store.
pub(crate) type AccountSketch = Projected<KeptAccount>;

/// What is kept of a ServiceAccount besides name, uid and version.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct KeptAccount {
    /// Uids of the ClusterServiceVersions that own it.
    pub(crate) owners: BTreeSet<String>,
    /// True when it has OLM's label.
    pub(crate) is_managed: bool,
}

impl Projection for KeptAccount {
    type Object = PartialObjectMeta<ServiceAccount>;

    fn of(account: PartialObjectMeta<ServiceAccount>) -> Self {
        let owners = owner::references(&account.metadata);
        Self {
            owners: owners.map(|owner| owner.uid.clone()).collect(),
            is_managed: labels::is_true(account.labels(), labels::MANAGED),
        }
    }
}
