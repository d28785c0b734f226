//! What to do with an InstallPlan, by its phase. Pure.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::ResourceExt;
use olm_api::condition::install_plan as reasons;
use olm_api::v1alpha1::{InstallPlan, InstallPlanPhase};
use olm_runtime::plan::Plan;

use super::execution::{StepWrites, decide_restoration, decide_steps};
use super::observe::{self, Observed};
use super::operator_group::find_service_account;

/// What the decision was, for status.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// Nothing to do, and nothing to say: over, or not begun.
    Ignore,
    /// The plan cannot be carried out in its namespace as it is, or somebody approved other steps than it has.
    Refused {
        /// Reason of condition Installed.
        reason: &'static str,
        /// Its message.
        message: String,
    },
    /// Approval is waited for.
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
    /// The plan is over, and what is missing of its accounts and RBAC is brought back.
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
        // As the group's identity of now, whoever the plan was carried out as: rights may have been taken away since. Without a
        // usable group nothing is written; the ClusterServiceVersion tells what it lacks.
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
    // Whatever has become of the plan since: what was not looked at is not carried out.
    if let Some((approved, found)) = observe::find_other_approval(plan) {
        return Verdict::Refused {
            reason: reasons::OTHER_STEPS_APPROVED,
            message: other_steps(plan, &approved, &found),
        };
    }
    // Plans that wait for approval are checked too: whoever is to approve shall see that it cannot work.
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

/// Letters of a hash that somebody wrote which are repeated: those of a whole one.
const HASH_LENGTH: usize = 64;

fn other_steps(plan: &InstallPlan, approved: &str, found: &str) -> String {
    let approved: String = approved.chars().take(HASH_LENGTH).collect();
    format!(
        "steps of the plan differ from the approved ones: approved hash {approved:?}, current hash {found:?}; review and approve them: kubectl operator approve {} -n {}",
        plan.name_any(),
        plan.namespace().unwrap_or_default()
    )
}
