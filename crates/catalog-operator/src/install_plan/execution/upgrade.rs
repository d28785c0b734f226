//! Checks whether a CustomResourceDefinition may be changed into a plan's.

use olm_api::v1alpha1::Step;
use serde_json::Value;

use super::{ErrorClass, StepError};
use crate::install_plan::crd_upgrade;
use crate::install_plan::custom_resources::{CheckState, Misfit};
use crate::install_plan::observe::{KnownStep, Observed};

/// Checks one definition of the plan. Returns a warning about a change that is allowed nevertheless.
///
/// # Errors
/// The change would lose data, or take over an API of others.
pub(in crate::install_plan) fn check_crd(
    observed: &Observed,
    index: usize,
    step: &Step,
    known: &KnownStep,
) -> Result<Option<String>, StepError> {
    let Some(current) = known
        .current
        .as_ref()
        .filter(|current| crd_upgrade::is_upgraded(&step.status, current))
    else {
        return Ok(None);
    };
    crd_upgrade::check_stored_versions(current, &known.object)?;
    let owners = observed.other_crd_owners.get(&step.resource.name);
    crd_upgrade::check_served_versions(current, &known.object, owners.copied().unwrap_or(0))?;
    let crd = &step.resource.name;
    match observed.custom_resources.get(&index) {
        None | Some(CheckState::Fits) => Ok(None),
        Some(CheckState::Misfit(misfit)) => {
            let error = misfit_error(observed, crd, &known.object, misfit);
            // A conversion webhook may convert the resource into one that matches.
            match crd_upgrade::is_converted_by_webhook(&known.object) || observed.converted_crds.contains(crd)
            {
                true => Ok(Some(error.to_string())),
                false => Err(error),
            }
        }
        Some(CheckState::Unread(cause)) => Err(StepError {
            message: format!("error validating existing CRs against new CRD's schema for \"{crd}\": {cause}"),
            class: ErrorClass::Passing,
        }),
    }
}

/// Details of a custom resource that readers of the plan may see.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Details {
    /// Its name and its fields.
    Fields,
    /// Only its name.
    Name,
    /// Only its existence.
    Nothing,
}

/// Returns the details that may be shown. If the OperatorGroup names a ServiceAccount, authors of plans have
/// no more rights than that account. By trying one schema after the other they could find out the contents of
/// resources that they may not read. Without an account, the group's operators may get every right in its
/// target namespaces.
fn visible_details(observed: &Observed, misfit: &Misfit) -> Details {
    let is_limited = observed.is_limited();
    let is_own = misfit.namespace == observed.namespace();
    let is_target = observed
        .operator_groups
        .iter()
        .filter_map(|group| group.status.as_ref())
        .flat_map(|status| status.namespaces.iter())
        .any(|namespace| namespace.is_empty() || *namespace == misfit.namespace);
    match (is_limited, is_own) {
        (false, true) => Details::Fields,
        (false, false) if is_target => Details::Fields,
        (true, true) => Details::Name,
        _ => Details::Nothing,
    }
}

/// Returns true if readers of the plan may see the fields of a resource that does not fit.
pub(in crate::install_plan) fn shows_fields(observed: &Observed, misfit: &Misfit) -> bool {
    visible_details(observed, misfit) == Details::Fields
}

fn misfit_error(observed: &Observed, crd: &str, definition: &Value, misfit: &Misfit) -> StepError {
    let details = visible_details(observed, misfit);
    let text = |pointer| {
        definition
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let (group, kind) = (text("/spec/group"), text("/spec/names/kind"));
    let resource = match misfit.namespace.as_str() {
        _ if details == Details::Nothing => "a resource outside this namespace".to_owned(),
        "" => misfit.name.clone(),
        namespace => format!("{namespace}/{}", misfit.name),
    };
    let fields = match details {
        Details::Fields => misfit.fields.as_str(),
        Details::Name | Details::Nothing => "see the log of catalog-operator for the fields",
    };
    StepError::lasting(format!(
        "error validating existing CRs against new CRD's schema for \"{crd}\": error validating {group}/{}, Kind={kind} \"{resource}\": \
         updated validation is too restrictive: {fields}",
        misfit.version
    ))
}
