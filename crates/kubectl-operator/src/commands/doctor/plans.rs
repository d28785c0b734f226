//! InstallPlans that wait or failed. Pure.

use kube::ResourceExt as _;
use olm_api::v1alpha1::{InstallPlan, InstallPlanPhase};

use super::age::age;
use super::finding::{Finding, object, word};
use super::observed::{Observed, Unread};

const KIND: &str = "InstallPlan";

/// No InstallPlan waits for approval.
pub(super) fn approved(observed: &Observed) -> Result<Vec<Finding>, &Unread> {
    let findings = plans(observed).filter_map(|(key, read)| match read {
        Ok(plan) if plan.phase() == InstallPlanPhase::RequiresApproval && !plan.spec.approved => {
            let since = plan
                .creation_timestamp()
                .map(|time| age(observed.now, time.0))
                .unwrap_or_default();
            let names = &plan.spec.cluster_service_version_names;
            let (more, first) = (
                names.len().saturating_sub(1),
                names.first().cloned().unwrap_or_default(),
            );
            let what = match more {
                0 => first,
                more => format!("{first} and {more} more"),
            };
            Some(Finding::warning(
                object(KIND, &key.0, &key.1),
                format!("it waits for approval since {since}, for {what}"),
                format!("kubectl operator approve {} -n {}", word(&key.1), word(&key.0)),
            ))
        }
        Ok(_) => None,
        Err(cause) => Some(Finding::not_checked(object(KIND, &key.0, &key.1), cause)),
    });
    observed.subscriptions.as_ref()?;
    Ok(findings.collect())
}

/// No InstallPlan failed.
pub(super) fn carried_out(observed: &Observed) -> Result<Vec<Finding>, &Unread> {
    observed.subscriptions.as_ref()?;
    let failed = plans(observed).filter_map(|(key, read)| {
        let plan = read
            .ok()
            .filter(|plan| plan.phase() == InstallPlanPhase::Failed)?;
        let message = plan.status.as_ref().and_then(|status| status.message.as_deref());
        Some(Finding::error(
            object(KIND, &key.0, &key.1),
            format!("it failed: {}", message.unwrap_or("it does not say why")),
            format!(
                "mend that; then kubectl delete installplan {} -n {} has another one made",
                word(&key.1),
                word(&key.0)
            ),
        ))
    });
    Ok(failed.collect())
}

fn plans(
    observed: &Observed,
) -> impl Iterator<Item = (&crate::operators::Key, Result<&InstallPlan, &Unread>)> {
    observed.plans.iter().filter_map(|(key, read)| match read {
        Ok(plan) => Some((key, Ok(plan.as_ref()?))),
        Err(cause) => Some((key, Err(cause))),
    })
}
