//! The status of an OperatorCondition: what the operator reports, with the generation it was seen in. Pure.

use kube::ResourceExt;
use olm_api::v2::OperatorCondition;
use olm_runtime::{
    driver::StatusUpdate,
    plan::{Target, status_patch},
};

use crate::operator_condition::Observed;

/// The status write, if a reported condition has not been taken over yet.
pub fn status(observed: &Observed) -> StatusUpdate {
    let Some(condition) = &observed.condition else {
        return StatusUpdate::default();
    };
    let generation = condition.metadata.generation;
    let old = condition.status.clone().unwrap_or_default();
    let mut new = old.clone();
    for reported in &condition.spec.conditions {
        let mut mirrored = reported.clone();
        mirrored.observed_generation = generation;
        match new
            .conditions
            .iter_mut()
            .find(|known| known.type_ == reported.type_)
        {
            Some(known) if known.status == mirrored.status && known.observed_generation >= generation => {}
            Some(known) => *known = mirrored,
            None => new.conditions.push(mirrored),
        }
    }
    let target = Target::of::<OperatorCondition>(&observed.namespace, &observed.name);
    StatusUpdate {
        patch: status_patch(target, condition.uid().as_deref(), &old, &new),
        ..StatusUpdate::default()
    }
}
