//! The status of an OperatorGroup. No I/O.

use k8s_openapi::{api::core::v1::ObjectReference, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use olm_api::{
    condition::{self, operator_group as types},
    v1::OperatorGroupStatus,
};
use olm_runtime::{
    Timestamp,
    condition::{condition_of, remove_condition, set_condition, stored_time},
    driver::StatusUpdate,
    plan::status_of,
};

use crate::operator_group::{
    decide::Verdict,
    observe::{GroupAccount, Observed},
};

/// Returns the status write, if anything in it changes.
pub(crate) fn status(observed: &Observed, verdict: Verdict, now: Timestamp) -> StatusUpdate<String> {
    let group = &observed.group;
    let old = group.status.clone().unwrap_or_default();
    let mut new = old.clone();
    if let Ok(namespaces) = &verdict
        && !namespaces.iter().eq(old.namespaces.iter())
    {
        new.namespaces = namespaces.iter().cloned().collect();
        new.last_updated = Some(stored_time(now));
    }
    let several = (
        types::MULTIPLE_OPERATOR_GROUPS_FOUND,
        types::MULTIPLE_OPERATOR_GROUPS_MESSAGE,
    );
    let several = observed.ambiguous.then_some(several);
    set(&mut new, types::MULTIPLE_OPERATOR_GROUP, several, now);
    account(&mut new, &observed.account, now);
    if new.conditions.is_empty() {
        // No list instead of an empty one, as upstream leaves it.
        new.conditions = Vec::new().into();
    }
    // The schema requires this time in every status.
    if new != old && new.last_updated.is_none() {
        new.last_updated = Some(stored_time(now));
    }
    StatusUpdate {
        patches: Vec::from_iter(status_of(&**group, &old, &new)),
        memory: verdict.err(),
        ..StatusUpdate::default()
    }
}

/// Sets the account for installs. Nothing is written for the group's members until the status refers to the
/// account of the spec. So the reference to a deleted account is removed.
fn account(status: &mut OperatorGroupStatus, account: &GroupAccount, now: Timestamp) {
    let wanted = match account {
        GroupAccount::Found(found) => Some(found.as_ref()),
        GroupAccount::Unnamed | GroupAccount::Missing(_) => None,
    };
    // The version of the account that was seen first is kept, because an edit of the account has no effect.
    let same = |known: &ObjectReference| {
        let without_version = |reference: &ObjectReference| ObjectReference {
            resource_version: None,
            ..reference.clone()
        };
        wanted.is_some_and(|wanted| without_version(wanted) == without_version(known))
    };
    let is_known = match &status.service_account_ref {
        Some(known) => same(known),
        None => wanted.is_none(),
    };
    if !is_known {
        status.service_account_ref = wanted.cloned();
        status.last_updated = Some(stored_time(now));
    }
    let missing = match account {
        GroupAccount::Missing(name) => Some(format!("ServiceAccount {name} not found")),
        GroupAccount::Unnamed | GroupAccount::Found(_) => None,
    };
    let missing = missing.as_deref();
    let missing = missing.map(|message| (types::SERVICE_ACCOUNT_NOT_FOUND, message));
    set(status, types::SERVICE_ACCOUNT, missing, now);
}

/// Sets the condition of this type to true, with reason and message, or removes it. It has no generation, as upstream's.
fn set(status: &mut OperatorGroupStatus, type_: &str, texts: Option<(&str, &str)>, now: Timestamp) {
    match texts {
        Some((reason, message)) => {
            let texts = [type_, condition::TRUE, reason, message];
            let set = condition_of(&ObjectMeta::default(), texts, now);
            set_condition(&mut status.conditions, set);
        }
        None => remove_condition(&mut status.conditions, type_),
    }
}
