//! The status of an OperatorCondition: the operator's conditions, with the generation they were seen in. No
//! I/O.

use kube::ResourceExt;
use olm_api::v2::OperatorCondition;
use olm_runtime::{
    driver::StatusUpdate,
    plan::{Target, status_patch},
};

use crate::operator_condition::Observed;

/// Returns the status write, if a reported condition was not copied yet.
pub(crate) fn status(observed: &Observed) -> StatusUpdate {
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
        patches: Vec::from_iter(status_patch(target, condition.uid().as_deref(), &old, &new)),
        ..StatusUpdate::default()
    }
}
