//! What to do with an InstallPlan, by its phase. Pure.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::ResourceExt;
use olm_api::condition::install_plan as reasons;
use olm_api::v1alpha1::{InstallPlan, InstallPlanPhase};
use olm_runtime::plan::Plan;

use super::execution::{StepWrites, decide_restoration, decide_steps};
use super::observe::{self, Observed};
use super::operator_group::find_service_account;

/// Result of the decision, for `status`.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// Nothing to do and nothing to report: the plan is finished or has not begun.
    Ignore,
    /// The plan cannot be executed in its namespace now, or other steps than its own were approved.
    Refused {
        /// Reason of condition Installed.
        reason: &'static str,
        /// Its message.
        message: String,
    },
    /// The plan waits for approval.
    AwaitsApproval {
        /// ServiceAccount the plan will be limited to.
        service_account: Option<ObjectReference>,
    },
    /// The steps are being carried out.
    Installing {
        /// ServiceAccount the plan is limited to.
        service_account: Option<ObjectReference>,
        /// The writes of this reconcile.
        writes: StepWrites,
    },
    /// The plan is finished, and its missing accounts and RBAC are restored.
    Restoring {
        /// The writes of this reconcile.
        writes: StepWrites,
    },
}

/// The writes of this reconcile, and what they mean.
pub fn decide(observed: &Observed) -> (Plan, Verdict) {
    let mut verdict = decide_verdict(observed);
    let actions = match &mut verdict {
        Verdict::Installing { writes, .. } | Verdict::Restoring { writes } => {
            std::mem::take(&mut writes.actions)
        }
        _ => Vec::new(),
    };
    (Plan::of(actions), verdict)
}

fn decide_verdict(observed: &Observed) -> Verdict {
    let plan = &observed.install_plan;
    let has_content = plan
        .status
        .as_ref()
        .is_some_and(|status| !status.plan.is_empty() || !status.bundle_lookups.is_empty());
    let phase = plan.phase();
    if phase == InstallPlanPhase::Complete {
        // With the group's current identity, whichever identity executed the plan: rights may have been revoked since. Without a
        // usable group nothing is written; the ClusterServiceVersion reports its missing requirements.
        return match find_service_account(&observed.operator_groups) {
            Ok(service_account) => Verdict::Restoring {
                writes: decide_restoration(observed, service_account.as_ref()),
            },
            Err(_) => Verdict::Ignore,
        };
    }
    if !has_content
        || !matches!(
            phase,
            InstallPlanPhase::RequiresApproval | InstallPlanPhase::Installing
        )
    {
        return Verdict::Ignore;
    }
    // Even if the plan has changed since: steps that nobody reviewed are not executed.
    if let Some((approved, found)) = observe::find_other_approval(plan) {
        return Verdict::Refused {
            reason: reasons::OTHER_STEPS_APPROVED,
            message: other_steps(plan, &approved, &found),
        };
    }
    // Plans that wait for approval are checked too, so that the approver sees that the plan cannot work.
    match find_service_account(&observed.operator_groups) {
        Err(error) => Verdict::Refused {
            reason: reasons::INSTALL_CHECK_FAILED,
            message: error.to_string(),
        },
        Ok(service_account) if phase == InstallPlanPhase::RequiresApproval && !plan.spec.approved => {
            Verdict::AwaitsApproval { service_account }
        }
        Ok(service_account) => {
            let writes = decide_steps(observed, service_account.as_ref());
            Verdict::Installing {
                service_account,
                writes,
            }
        }
    }
}

/// Length at which a user's hash is cut off in messages: that of a complete hash.
const HASH_LENGTH: usize = 64;

fn other_steps(plan: &InstallPlan, approved: &str, found: &str) -> String {
    let approved: String = approved.chars().take(HASH_LENGTH).collect();
    format!(
        "steps of the plan differ from the approved ones: approved hash {approved:?}, current hash {found:?}; review and approve them: kubectl operator approve {} -n {}",
        plan.name_any(),
        plan.namespace().unwrap_or_default()
    )
}
