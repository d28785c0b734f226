//! Whether a CustomResourceDefinition may be changed into a plan's.

use olm_api::v1alpha1::Step;
use serde_json::Value;

use super::Wait;
use crate::install_plan::crd_upgrade::{self, CrdUpgradeError};
use crate::install_plan::custom_resources::{CheckState, Misfit};
use crate::install_plan::observe::{KnownStep, Observed};

/// What stands in the way of a change.
pub(super) enum Upgrade {
    /// Nothing.
    Safe,
    /// Nothing that would stop it, but this is told.
    Warned(String),
    /// It is not known yet.
    Waits(Wait),
}

/// Looks at one definition of the plan.
///
/// # Errors
/// The change would lose data, or take something away from others.
pub(super) fn check_crd(
    observed: &Observed,
    index: usize,
    step: &Step,
    known: &KnownStep,
) -> Result<Upgrade, CrdUpgradeError> {
    let Some(current) = known
        .current
        .as_ref()
        .filter(|current| crd_upgrade::is_upgraded(&step.status, current))
    else {
        return Ok(Upgrade::Safe);
    };
    crd_upgrade::check_stored_versions(current, &known.object)?;
    let owners = observed.other_crd_owners.get(&step.resource.name);
    crd_upgrade::check_served_versions(current, &known.object, owners.copied().unwrap_or(0))?;
    let Some(check) = observed.custom_resources.get(&index) else {
        return Ok(Upgrade::Safe);
    };
    let crd = &step.resource.name;
    match check {
        CheckState::Fits => Ok(Upgrade::Safe),
        CheckState::Misfit(misfit) => {
            let error = misfit_error(observed, crd, &known.object, misfit);
            // Who converts may make of the resource what fits.
            match crd_upgrade::is_converted_by_webhook(&known.object) || observed.converted_crds.contains(crd)
            {
                true => Ok(Upgrade::Warned(error.to_string())),
                false => Err(error),
            }
        }
        CheckState::Unread(cause) => Err(CrdUpgradeError::Unread {
            crd: crd.clone(),
            cause: cause.clone(),
        }),
        CheckState::Checking { debounce } => Ok(Upgrade::Waits(Wait {
            text: waiting_text(crd),
            look_again: *debounce,
            is_debounced: debounce.is_some(),
        })),
        CheckState::Busy => Ok(Upgrade::Waits(Wait::polled(waiting_text(crd)))),
    }
}

fn waiting_text(crd: &str) -> String {
    format!("validating existing custom resources against the new schema of CustomResourceDefinition {crd}")
}

/// What may be told of a resource to those who read the plan.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    /// Its name and its fields.
    Fields,
    /// Its name.
    Name,
    /// That there is one.
    Nothing,
}

/// Where the OperatorGroup names a ServiceAccount, who makes plans has no more rights than that, and could find out by one schema
/// after the other what is in resources that they may not read. Without one the group's operators may be given every right in its
/// target namespaces.
fn told_of(observed: &Observed, misfit: &Misfit) -> Told {
    let is_limited = observed.is_limited();
    let is_own = misfit.namespace == observed.namespace();
    let is_target = observed
        .operator_groups
        .iter()
        .filter_map(|group| group.status.as_ref())
        .flat_map(|status| status.namespaces.iter())
        .any(|namespace| namespace.is_empty() || *namespace == misfit.namespace);
    match (is_limited, is_own) {
        (false, true) => Told::Fields,
        (false, false) if is_target => Told::Fields,
        (true, true) => Told::Name,
        _ => Told::Nothing,
    }
}

fn misfit_error(observed: &Observed, crd: &str, definition: &Value, misfit: &Misfit) -> CrdUpgradeError {
    let told = told_of(observed, misfit);
    let text = |pointer| {
        definition
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let (group, kind) = (text("/spec/group"), text("/spec/names/kind"));
    CrdUpgradeError::Misfit {
        crd: crd.to_owned(),
        kind: format!("{group}/{}, Kind={kind}", misfit.version),
        resource: match misfit.namespace.as_str() {
            _ if told == Told::Nothing => "a resource outside this namespace".to_owned(),
            "" => misfit.name.clone(),
            namespace => format!("{namespace}/{}", misfit.name),
        },
        fields: match told {
            Told::Fields => misfit.fields.clone(),
            Told::Name | Told::Nothing => "which fields, the log of catalog-operator tells".to_owned(),
        },
    }
}
