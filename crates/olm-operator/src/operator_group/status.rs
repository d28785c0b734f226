//! The status of an OperatorGroup. Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;
use olm_api::{
    condition::{self, operator_group as types},
    v1::OperatorGroup,
};
use olm_runtime::{
    Timestamp,
    condition::{remove_condition, set_condition, stored_time},
    driver::StatusUpdate,
    plan::{Target, status_patch},
};

use crate::operator_group::{decide::Verdict, observe::Observed};

/// The status write, if anything in it changes.
pub fn status(observed: &Observed, verdict: Verdict, now: Timestamp) -> StatusUpdate {
    let group = &observed.group;
    let old = group.status.clone().unwrap_or_default();
    let mut new = old.clone();
    if let Some(namespaces) = verdict.namespaces
        && !namespaces.iter().eq(old.namespaces.iter())
    {
        new.namespaces = namespaces.into_iter().collect();
        new.last_updated = Some(stored_time(now));
    }
    if verdict.ambiguous {
        let several = Condition {
            type_: types::MULTIPLE_OPERATOR_GROUP.to_owned(),
            status: condition::TRUE.to_owned(),
            reason: types::MULTIPLE_OPERATOR_GROUPS_FOUND.to_owned(),
            message: types::MULTIPLE_OPERATOR_GROUPS_MESSAGE.to_owned(),
            last_transition_time: stored_time(now),
            observed_generation: None,
        };
        set_condition(&mut new.conditions, several);
    } else {
        remove_condition(&mut new.conditions, types::MULTIPLE_OPERATOR_GROUP);
        if new.conditions.is_empty() {
            // As upstream leaves it: no list, not an empty one.
            new.conditions = Vec::new().into();
        }
    }
    // The schema requires the time as soon as there is a status.
    if new != old && new.last_updated.is_none() {
        new.last_updated = Some(stored_time(now));
    }
    let target = Target::of::<OperatorGroup>(&group.namespace().unwrap_or_default(), &group.name_any());
    StatusUpdate {
        patch: status_patch(target, group.uid().as_deref(), &old, &new),
        ..StatusUpdate::default()
    }
}
