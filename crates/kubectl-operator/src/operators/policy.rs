//! Annotations of a Subscription about its upgrades: invalid ones, and a hold that excludes the installed version.

use go_compat::semver::Version;
use kube::ResourceExt as _;
use olm_api::labels::UPGRADE_HOLD;
use olm_api::v1alpha1::ClusterServiceVersionPhase as Phase;
use olm_resolver::hold::parse_range;
use olm_resolver::policy::{Invalid, invalid};

use super::state::{State, Verdict};
use super::way_out::WayOut;
use super::{Operator, version_in};
use crate::args::shared::quoted;
use crate::command_line::CommandLine;
use crate::terminal::Mark;

impl Operator<'_> {
    /// Returns the annotations about upgrades whose values are invalid.
    fn invalid_policies(&self) -> Vec<Invalid> {
        self.subscription.map(invalid).unwrap_or_default()
    }

    /// Adds invalid annotations about upgrades to the verdict on an operator that runs, or whose InstallPlan waits for approval: only
    /// a user can correct them, and without them OLM would continue.
    pub(super) fn with_policies(&self, verdict: Verdict) -> Verdict {
        let found = self.invalid_policies();
        let is_settled = verdict.state.mark() == Mark::Fine;
        if found.is_empty() || !(is_settled || verdict.is_approval()) {
            return verdict;
        }
        let has_no_range = found.iter().any(|found| found.key == UPGRADE_HOLD);
        let rest = match is_settled && has_no_range {
            true => {
                let plan = self.waiting_plan().unwrap_or_default();
                self.settled(State::InvalidPolicy, &plan).message
            }
            false => verdict.message,
        };
        // The cause of a plan names the annotation for which it waits.
        let faults = found.iter().filter(|found| !rest.contains(&found.error));
        let mut texts: Vec<String> = faults.map(ToString::to_string).collect();
        texts.push(rest);
        texts.retain(|text| !text.is_empty());
        Verdict {
            state: match is_settled {
                true => State::InvalidPolicy,
                false => verdict.state,
            },
            message: texts.join("; "),
            way_out: WayOut::CorrectPolicy,
        }
    }

    /// Returns the verdict on a held operator that runs, with the installed version if the hold excludes it. OLM leaves that version
    /// as it is. `text` is the hold, and what waits.
    pub(super) fn held_verdict(&self, range: &str, text: &str) -> Verdict {
        let Some(version) = self.installed_outside(range) else {
            return self.settled(State::Held, text);
        };
        let text = format!("the installed version {version} is outside the hold: {text}");
        self.settled(State::Held, &text).with(WayOut::MoveHold)
    }

    /// Returns the installed version if it runs and is known to be outside a valid range.
    pub(crate) fn installed_outside(&self, range: &str) -> Option<Version> {
        let csv = self.installed.filter(|csv| *csv.phase() == Phase::Succeeded)?;
        let stated = csv.spec.version.as_deref();
        let stated = stated.and_then(|stated| Version::parse_tolerant(stated).ok());
        let version = stated.or_else(|| version_in(&csv.name_any()))?;
        let is_outside = parse_range(range).is_ok_and(|range| !range.contains(&version));
        is_outside.then_some(version)
    }

    /// Returns the commands for a hold that excludes the installed version.
    pub(crate) fn hold_moves(&self, commands: &CommandLine) -> String {
        let (name, namespace) = (self.name(), self.namespace());
        let suggest = |form: &str| commands.suggest(form, &[&name], Some(&namespace));
        format!(
            "to stay at the installed version use `{}`, to allow all versions `{}`, to go back to a version within the range `{}`",
            suggest("hold {}"),
            suggest("unhold {}"),
            suggest("rollback {} --to VERSION")
        )
    }

    /// Returns the commands that correct invalid annotations, or that approve the InstallPlan that waits.
    pub(super) fn corrections(&self, commands: &CommandLine) -> String {
        let (name, namespace) = (self.name(), self.namespace());
        let suggest = |form: &str| commands.suggest(form, &[&name], Some(&namespace));
        let corrections = self.invalid_policies().into_iter().map(|found| {
            let example = quoted(found.example());
            match found.key {
                UPGRADE_HOLD => format!(
                    "set a valid range, for example: {}, or allow all versions: {}",
                    suggest(&format!("hold {{}} --range {example}")),
                    suggest("unhold {}")
                ),
                key => format!(
                    "set a valid value, for example: kubectl annotate subscription {} {} --overwrite {key}={example}",
                    quoted(&name),
                    commands.flags(Some(&namespace))
                ),
            }
        });
        let mut texts: Vec<String> = corrections.collect();
        if self.approvable().is_some() {
            texts.push(format!(
                "or approve the InstallPlan without it: {}",
                suggest("approve {}")
            ));
        }
        texts.join("; ")
    }
}
