//! What a user can do about the state of an operator, as text with commands.

use kube::ResourceExt as _;
use olm_resolver::policy::WAITS_FOR_CORRECTION;

use super::{Operator, Verdict};
use crate::args::shared::quoted;
use crate::command_line::CommandLine;
use crate::groups;
use crate::terminal::plain;

/// What a user can do about a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WayOut {
    /// It is ready, or OLM continues by itself.
    Wait,
    /// Approve the InstallPlan.
    Approve,
    /// Approve the InstallPlan now, or wait for its upgrade policy.
    ApproveNow,
    /// Correct the invalid annotations about upgrades.
    CorrectPolicy,
    /// Change the hold, which excludes the installed version, or go back to a version within it.
    MoveHold,
    /// Make the image of the bundle available.
    PushBundle,
    /// Change the OperatorGroup, and approve the InstallPlan then.
    SuitGroup,
    /// Change what does not resolve.
    Explain,
    /// Correct the catalog.
    Catalogs,
    /// Provide the requirements that this ClusterServiceVersion lacks.
    Provide {
        csv: String,
        /// True if a definition of the operator itself is among them, which OLM does not restore.
        lacks_own: bool,
    },
    /// Raise this ResourceQuota.
    RaiseQuota(String),
    /// Create the OperatorGroup that the namespace lacks.
    CreateGroup,
    /// Keep one OperatorGroup of the namespace.
    KeepOneGroup,
    /// Correct the cause; OLM tries again.
    Correct,
    /// Correct the cause, and delete this InstallPlan.
    DeletePlan(String),
    /// Remove this ClusterServiceVersion, as OLM creates no other InstallPlan for it, and install it again.
    InstallAgain {
        csv: String,
        /// The version before it that succeeded, to go back to.
        former: Option<String>,
    },
    /// Correct the cause, or go back to a ClusterServiceVersion that succeeded.
    Rollback {
        former: String,
        /// The way to correct the cause, if it is known.
        first: Option<Box<WayOut>>,
    },
    /// Correct the failure of the version before, given with its cause, or go back.
    CorrectFormer(String),
    /// Make this change of this OperatorGroup.
    ChangeGroup { name: String, change: String },
    /// Delete the Subscription and create it again, starting with this ClusterServiceVersion.
    Recreate(String),
}

/// Part of upstream's message that custom resources do not fit a new schema.
const TOO_RESTRICTIVE: &str = "updated validation is too restrictive";
/// Way out of that. The API server removes fields that the old schema lacks, so a new required one cannot be added before.
const MISFIT_WAY_OUT: &str = "correct the custom resources (a required field that only the new version has cannot be added \
                              before: delete them, or ask the author of the bundle for a default)";

/// Why the version has to be named: a former `startingCSV`, or none, may lead to another version.
const AS_SAVED: &str =
    " (another version may replace definitions by older ones, and custom resources would lose fields)";

impl Operator<'_> {
    /// Returns the verdict's way out as commands; `None` if waiting is all that helps, or nothing is to be done.
    pub(crate) fn way_out(&self, verdict: &Verdict, commands: &CommandLine) -> Option<String> {
        self.way_out_text(&verdict.way_out, verdict, commands)
    }

    fn way_out_text(&self, way_out: &WayOut, verdict: &Verdict, commands: &CommandLine) -> Option<String> {
        let (name, namespace) = (self.name(), self.namespace());
        let suggest = |form: &str| commands.suggest(form, &[&name], Some(&namespace));
        let flags = commands.flags(Some(&namespace));
        let correct = match verdict.message.contains(TOO_RESTRICTIVE) {
            true => MISFIT_WAY_OUT,
            false => "correct the cause",
        };
        let saved = |csv: &str| {
            format!(
                "save the Subscription with kubectl get subscription {} {flags} -o yaml, set its spec.startingCSV to {} there",
                quoted(&name),
                plain(csv)
            )
        };
        Some(match way_out {
            WayOut::Wait => return None,
            WayOut::Approve => suggest("approve {}"),
            // It may be an annotation of another Subscription.
            WayOut::ApproveNow if verdict.message.contains(WAITS_FOR_CORRECTION) => format!(
                "correct that annotation, or approve the InstallPlan now: {}",
                suggest("approve {}")
            ),
            WayOut::ApproveNow => format!("wait, or approve it now: {}", suggest("approve {}")),
            WayOut::CorrectPolicy => self.corrections(commands),
            WayOut::MoveHold => self.hold_moves(commands),
            WayOut::PushBundle => "push the bundle image, correct its name in the catalog, or configure a mirror, or a pull secret in \
                                   spec.secrets of the CatalogSource; OLM continues then"
                .to_owned(),
            WayOut::SuitGroup => format!(
                "change spec.targetNamespaces of the OperatorGroup first, or install it in another namespace; then {}",
                suggest("approve {}")
            ),
            WayOut::Explain => suggest("explain {}"),
            WayOut::Catalogs => {
                let spec = &self.subscription?.spec;
                let add = commands.suggest("catalog add {} IMAGE", &[&spec.source], Some(&spec.source_namespace));
                let list = commands.suggest("catalog list -o wide", &[], None);
                format!("correct the CatalogSource, or add it again if it was deleted ({add}), and OLM continues; see {list}")
            }
            WayOut::RaiseQuota(quota) => format!(
                "raise ResourceQuota {0}, or delete what uses it up, and OLM continues: kubectl edit resourcequota {0} {flags}",
                quoted(quota)
            ),
            WayOut::CreateGroup => groups::create_one(&quoted(&namespace), &flags),
            WayOut::KeepOneGroup => groups::keep_one(&flags),
            WayOut::Provide { csv, lacks_own } => {
                let mut provide = format!(
                    "provide what is missing, and OLM continues; all requirements: kubectl get csv {} {flags} -o \
                     jsonpath='{{.status.requirementStatus}}'",
                    quoted(csv)
                );
                if *lacks_own {
                    provide.push_str(&format!(
                        "; OLM does not restore a definition of the operator itself: {}, then delete it and \
                         ClusterServiceVersion {}, and create it again{AS_SAVED}",
                        saved(csv),
                        plain(csv)
                    ));
                }
                match self.approvable() {
                    Some(plan) => format!(
                        "{provide}; or approve InstallPlan {}, if its version lacks nothing: {}",
                        plan.name_any(),
                        suggest("approve {}")
                    ),
                    None => provide,
                }
            }
            WayOut::Correct => format!(
                "{correct}, and OLM tries again; see {}",
                suggest("status {}")
            ),
            WayOut::DeletePlan(plan) => format!(
                "{correct}, then delete the plan, and OLM creates another: kubectl delete installplan {} {flags}",
                quoted(plan)
            ),
            WayOut::InstallAgain { csv, former: None } => format!(
                "{correct}, then uninstall it with {}, and install it again with {}: OLM creates no other plan while {} exists",
                suggest("uninstall {}"),
                // Without its version the head of the channel would be installed.
                commands.suggest("install {} --version {}", &[self.package()?, csv], Some(&namespace)),
                plain(csv)
            ),
            WayOut::InstallAgain {
                csv,
                former: Some(former),
            } => format!(
                "{correct}, then go back to {} with {}, and upgrade again: OLM creates no other plan while {} exists",
                plain(former),
                commands.suggest("rollback {} --to {}", &[&name, former], Some(&namespace)),
                plain(csv)
            ),
            WayOut::Rollback { former, first } => {
                let first = first.as_deref();
                let first = first.and_then(|first| self.way_out_text(first, verdict, commands));
                let first = first.map(|first| format!("{first}; "));
                format!(
                    "{}or go back to {}: {}",
                    first.as_deref().unwrap_or("correct the cause, "),
                    plain(former),
                    suggest("rollback {}")
                )
            }
            WayOut::CorrectFormer(failed) => format!(
                "correct the failure of {}, and OLM continues, or go back: {}",
                plain(failed),
                suggest("rollback {}")
            ),
            WayOut::ChangeGroup { name: group, change } => {
                format!("{change}: kubectl edit operatorgroup {} {flags}", quoted(group))
            }
            WayOut::Recreate(csv) => {
                let again = format!("{}, then delete it, and create it again{AS_SAVED}", saved(csv));
                // A version that runs would conflict with the next one, which does not replace it.
                let next = self.next_plan().filter(|_| self.former().is_none());
                match (next, self.held_back()) {
                    (Some(plan), None) => format!(
                        "approve InstallPlan {}, which installs the next version: {}; or {again}",
                        plan.name_any(),
                        suggest("approve {}")
                    ),
                    (Some(_), Some(_)) => {
                        format!("allow the next version first: {}; or {again}", suggest("unhold {}"))
                    }
                    (None, _) => again,
                }
            }
        })
    }
}
