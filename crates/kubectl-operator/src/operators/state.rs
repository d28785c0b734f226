//! The state of an operator with its cause and the way out, derived from the statuses that OLM writes. All commands and pages use it.

use go_compat::semver::Version;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::ResourceExt as _;
use olm_api::cause::{csv_cause_or_default, csv_text, unmet_requirements};
use olm_api::condition::subscription as condition;
use olm_api::labels;
use olm_api::v1alpha1::{
    ClusterServiceVersion, ClusterServiceVersionPhase as Phase, InstallPlan, InstallPlanPhase, Subscription,
};
use olm_resolver::explain::cut;
use olm_resolver::hold::parse_range;
use olm_resolver::installed::package_in;
use serde::Serialize;

use super::cause::{
    Approver, catalog_problem, lacks_own_definition, message, message_or_reason, plan_cause, quota_in,
    refused_change, retry_error, stated_misfit, true_conditions, unsuited_group, way_out_of,
};
use super::way_out::WayOut;
use super::{Operator, plan_name, version_in};
use crate::terminal::Mark;

/// Maximum bytes of an invalid range in a message.
const SHOWN: usize = 80;
/// Words of messages about a bundle whose image cannot be pulled, by catalog-operator or by the node of an unpack Job.
const PULL_FAILURES: [&str; 3] = ["cannot pull", "ErrImagePull", "ImagePullBackOff"];

/// Words of messages about an image whose registry does not answer.
const GOES_ON: &str = "OLM retries until the registry answers";

/// The state of an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) enum State {
    /// It is installed, and no newer version is pending.
    Ready,
    /// It is installed, and its Subscription limits the versions that OLM may install.
    Held,
    /// The version of `startingCSV` is installed, and a user approves newer ones.
    Pinned,
    /// It is installed, and an annotation about its upgrades is invalid, which only a user can correct.
    InvalidPolicy,
    /// Its first version is being installed.
    Installing,
    /// A newer version is being installed.
    Upgrading,
    /// An InstallPlan requires approval.
    RequiresApproval,
    /// OLM has not processed it yet.
    Pending,
    /// The resolution found no solution.
    Unresolved,
    /// A step failed.
    Failed,
}

impl State {
    /// Returns the state as text.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "Ready",
            Self::Held => "Held",
            Self::Pinned => "Pinned",
            Self::InvalidPolicy => "InvalidPolicy",
            Self::Installing => "Installing",
            Self::Upgrading => "Upgrading",
            Self::RequiresApproval => "RequiresApproval",
            Self::Pending => "Pending",
            Self::Unresolved => "Unresolved",
            Self::Failed => "Failed",
        }
    }

    /// Returns the mark of the state.
    pub(crate) fn mark(self) -> Mark {
        match self {
            Self::Ready | Self::Held | Self::Pinned => Mark::Fine,
            Self::InvalidPolicy
            | Self::Installing
            | Self::Upgrading
            | Self::RequiresApproval
            | Self::Pending => Mark::Waits,
            Self::Unresolved | Self::Failed => Mark::Bad,
        }
    }
}

/// A state, its cause and the way out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub state: State,
    /// The pending step or the failure; for a ready operator, its hold or pin and its deprecation.
    pub message: String,
    pub way_out: WayOut,
}

impl Verdict {
    fn new(state: State, message: impl Into<String>) -> Self {
        let way_out = match state {
            State::Unresolved => WayOut::Explain,
            State::Failed => WayOut::Correct,
            State::RequiresApproval => WayOut::Approve,
            _ => WayOut::Wait,
        };
        Self {
            state,
            message: message.into(),
            way_out,
        }
    }

    /// Returns true if the approval of the InstallPlan is the way out.
    pub(crate) fn is_approval(&self) -> bool {
        matches!(self.way_out, WayOut::Approve | WayOut::ApproveNow)
    }

    pub(super) fn with(self, way_out: WayOut) -> Self {
        Self { way_out, ..self }
    }

    /// Adds the image of the bundle as the way out, if this condition is about a bundle whose image cannot be pulled.
    fn pushing(self, type_: &str) -> Self {
        let of_bundle = [condition::BUNDLE_UNPACKING, condition::BUNDLE_UNPACK_FAILED].contains(&type_);
        let is_missing = self.message.split("; bundle ").any(|bundle| {
            // A node may have the credentials and mirrors that catalog-operator lacks.
            let of_job = bundle.split("; this process:").next().unwrap_or_default();
            !bundle.contains(GOES_ON) && PULL_FAILURES.iter().any(|sign| of_job.contains(sign))
        });
        match of_bundle && is_missing {
            true => self.with(WayOut::PushBundle),
            false => self,
        }
    }
}

impl Operator<'_> {
    /// Returns the state, its cause and the way out. Failures take precedence over pending changes, in the order of the
    /// Subscription's condition `Ready`.
    pub(crate) fn verdict(&self) -> Verdict {
        let on_its_way = match self.former().is_some() || self.has_plan_for_another() {
            true => State::Upgrading,
            false => State::Installing,
        };
        let of_subscription = self.subscription.and_then(|subscription| {
            self.failure(subscription)
                .or_else(|| self.retried_plan(subscription))
                .or_else(|| self.unready_installed())
                .or_else(|| self.deleted().filter(|_| self.pending_plan().is_some()))
                .or_else(|| self.of_plan(self.plan?, subscription, on_its_way))
                .or_else(|| self.waiting(subscription, on_its_way))
        });
        self.with_policies(of_subscription.unwrap_or_else(|| self.of_csv(on_its_way)))
    }

    /// Returns the failure that OLM reports, the first one in the order of [`condition::OBSTACLES`]. A failed ClusterServiceVersion
    /// or InstallPlan is more specific than the Subscription's condition about it.
    fn failure(&self, subscription: &Subscription) -> Option<Verdict> {
        let next_waits = self.pending_plan().is_some();
        let runs = self.current.or(self.installed.filter(|_| next_waits));
        if let Some(csv) = runs.filter(|csv| *csv.phase() == Phase::Failed) {
            return Some(self.csv_failed(csv));
        }
        let has_failed = |plan: &&InstallPlan| plan.phase() == InstallPlanPhase::Failed;
        if let Some(plan) = self.plan.into_iter().chain(self.failed_plan).find(has_failed) {
            return self.plan_failed(plan);
        }
        let mut failures = condition::OBSTACLES.into_iter().filter_map(failed_state);
        failures.find_map(|(type_, state)| {
            let text = message_or_reason(subscription, type_)?;
            Some(Verdict::new(state, text).pushing(type_))
        })
    }

    /// Returns the error of the plan of a version that waits, which OLM carries out again although it created the next plan. The
    /// next version waits for this one, too.
    fn retried_plan(&self, subscription: &Subscription) -> Option<Verdict> {
        let state = self.last_former().map_or(State::Installing, |_| State::Upgrading);
        self.of_plan(self.failed_plan?, subscription, state)
    }

    /// Returns the failure of an InstallPlan. OLM does not carry it out again, and creates no other for a version that exists.
    pub(crate) fn plan_failed(&self, plan: &InstallPlan) -> Option<Verdict> {
        let (cause, _) = plan_cause(plan, self.subscription?)?;
        let name = plan.name_any();
        let verdict = Verdict::new(State::Failed, format!("InstallPlan {name}: {cause}"));
        let names = &plan.spec.cluster_service_version_names;
        let mut versions = self.versions();
        let created = versions.find(|csv| names.contains(&csv.name_any()));
        // What failed may belong to another operator of the plan.
        let created = created.filter(|csv| names.len() == 1 || *csv.phase() != Phase::Succeeded);
        Some(verdict.with(match created {
            Some(csv) => WayOut::InstallAgain {
                csv: csv.name_any(),
                former: self.former_that_ran(csv),
            },
            None => WayOut::DeletePlan(name),
        }))
    }

    /// Returns the newest version before this one that succeeded, which a rollback restores.
    fn former_that_ran(&self, csv: &ClusterServiceVersion) -> Option<String> {
        let former = self.last_former().map(|former| former.name_any());
        former.filter(|former| self.subscription.is_some() && *former != csv.name_any())
    }

    /// Returns the failure of a ClusterServiceVersion.
    fn csv_failed(&self, csv: &ClusterServiceVersion) -> Verdict {
        let (of_group, change) = unsuited_group(csv).unzip();
        let texts: Vec<String> = [Some(csv_text(csv)), of_group].into_iter().flatten().collect();
        let verdict = Verdict::new(State::Failed, texts.join("; "));
        match (way_out_of(csv).or(change), self.former_that_ran(csv)) {
            // No other version runs either without the one OperatorGroup.
            (Some(way_out @ (WayOut::CreateGroup | WayOut::KeepOneGroup)), _) => verdict.with(way_out),
            (first, Some(former)) => {
                let first = first.map(Box::new);
                verdict.with(WayOut::Rollback { former, first })
            }
            (Some(way_out), None) => verdict.with(way_out),
            (None, None) => verdict,
        }
    }

    /// Returns what the installed version waits for while the InstallPlan of the next one waits for approval. The approval helps
    /// only if this version lacks a requirement that the next one does not: otherwise the next one waits for this one.
    fn unready_installed(&self) -> Option<Verdict> {
        let (plan, csv) = (self.pending_plan()?, self.installed?);
        let waiting = [
            Phase::None,
            Phase::Pending,
            Phase::InstallReady,
            Phase::Installing,
        ];
        if !waiting.contains(csv.phase()) {
            return None;
        }
        let verdict = Verdict::new(State::Installing, format!("{}; {}", csv_text(csv), waits(plan)));
        Some(self.unblocking(verdict, csv))
    }

    /// Adds what a ClusterServiceVersion lacks to the verdict on it, as the way out.
    fn unblocking(&self, verdict: Verdict, csv: &ClusterServiceVersion) -> Verdict {
        // Until then the definition may still be created.
        let is_carried_out = self.is_carried_out() || self.pending_plan().is_some();
        let way_out = match unmet_requirements(csv) {
            Some(_) => Some(WayOut::Provide {
                csv: csv.name_any(),
                lacks_own: self.subscription.is_some() && is_carried_out && lacks_own_definition(csv),
            }),
            None => way_out_of(csv).or_else(|| self.failed_former(csv)),
        };
        match way_out {
            Some(way_out) => verdict.with(way_out),
            None => verdict,
        }
    }

    /// Returns true if no plan of the operator is running.
    pub(crate) fn is_carried_out(&self) -> bool {
        let plan = self.plan;
        plan.is_none_or(|plan| plan.phase() == InstallPlanPhase::Complete)
    }

    /// Returns the way out of a version that waits for one that failed, which OLM does not replace.
    fn failed_former(&self, csv: &ClusterServiceVersion) -> Option<WayOut> {
        let former = self
            .older
            .first()
            .filter(|former| *former.phase() == Phase::Failed)?;
        let waits = *csv.phase() == Phase::Pending && csv.spec.replaces() == former.metadata.name.as_deref();
        let text = || format!("{} ({})", former.name_any(), csv_cause_or_default(former));
        (waits && self.subscription.is_some()).then(|| WayOut::CorrectFormer(text()))
    }

    /// Returns the state of an InstallPlan that has not failed; `None` if it is complete.
    fn of_plan(&self, plan: &InstallPlan, subscription: &Subscription, on_its_way: State) -> Option<Verdict> {
        let (cause, approval) = plan_cause(plan, subscription)?;
        let text = format!("InstallPlan {}: {cause}", plan.name_any());
        let has_misfit = stated_misfit(plan).is_some();
        let runs = self.installed.is_some_and(|csv| *csv.phase() == Phase::Succeeded);
        if let Some((range, held)) = self.hold().zip(self.held_back()).filter(|_| runs) {
            return Some(self.held_verdict(range, &format!("{held}; {}", waits(plan))));
        }
        Some(match (approval, self.pin()) {
            // The approval leads to a failure, also of a version that a user approves later.
            (Some(_), pin) if refused_change(plan).is_some() => {
                let texts: Vec<String> = [text].into_iter().chain(pin.map(pinned)).collect();
                let verdict = Verdict::new(State::RequiresApproval, texts.join("; "));
                verdict.with(WayOut::DeletePlan(plan.name_any()))
            }
            (Some(Approver::User), Some(version)) => {
                self.settled(State::Pinned, &format!("{}; {}", pinned(version), waits(plan)))
            }
            (Some(_), _) if has_misfit => Verdict::new(State::RequiresApproval, text).with(WayOut::SuitGroup),
            (Some(Approver::User), None) => Verdict::new(State::RequiresApproval, text),
            (Some(Approver::Policy), _) => {
                Verdict::new(State::RequiresApproval, text).with(WayOut::ApproveNow)
            }
            (None, _) => {
                let verdict = Verdict::new(on_its_way, text);
                match retry_error(plan).filter(|error| !error.contains(GOES_ON)) {
                    Some(error) => verdict.with(quota_in(error).unwrap_or(WayOut::Correct)),
                    None => verdict,
                }
            }
        })
    }

    /// Returns what a Subscription waits for if its current ClusterServiceVersion does not exist, or if the bundle of the next
    /// one is being read.
    fn waiting(&self, subscription: &Subscription, on_its_way: State) -> Option<Verdict> {
        if let Some(current) = self.current {
            let runs = *current.phase() == Phase::Succeeded;
            // Upstream's OLM leaves the condition behind, without a message.
            let cause = message(subscription, condition::BUNDLE_UNPACKING).filter(|_| runs)?;
            // A user approves the version later, and should know before that it cannot be read.
            let pin = self.pin().map(pinned);
            let texts: Vec<&str> = [cause].into_iter().chain(pin.as_deref()).collect();
            let verdict = Verdict::new(State::Upgrading, texts.join("; "));
            return Some(verdict.pushing(condition::BUNDLE_UNPACKING));
        }
        let status = subscription.status.as_ref();
        if let Some(verdict) = self.deleted() {
            return Some(verdict);
        }
        let current = status.and_then(|status| status.current_csv.as_deref());
        if let Some(name) = current.filter(|name| !name.is_empty()) {
            let text = format!("waiting for OLM to create ClusterServiceVersion {name}");
            return Some(Verdict::new(on_its_way, text));
        }
        let open = condition::OBSTACLES
            .into_iter()
            .filter(|&type_| failed_state(type_).is_none());
        for type_ in open.chain([condition::INSTALL_PLAN_MISSING]) {
            let (text, way_out) = match type_ {
                condition::CATALOG_SOURCES_UNHEALTHY => (catalog_problem(subscription), WayOut::Catalogs),
                _ => (message_or_reason(subscription, type_), WayOut::Wait),
            };
            if let Some(text) = text {
                return Some(Verdict::new(State::Pending, text).with(way_out).pushing(type_));
            }
        }
        let text = match status.and_then(plan_name) {
            Some(plan) => format!("waiting for InstallPlan {plan}"),
            None => "waiting for OLM to resolve it".to_owned(),
        };
        Some(Verdict::new(State::Pending, text))
    }

    /// Returns the state of the current ClusterServiceVersion.
    fn of_csv(&self, on_its_way: State) -> Verdict {
        let Some(csv) = self.current else {
            return Verdict::new(State::Pending, "waiting for OLM to process it");
        };
        let name = csv.name_any();
        let is_installed = self
            .installed
            .is_some_and(|installed| installed.name_any() == name);
        match csv.phase() {
            Phase::Failed => self.csv_failed(csv),
            Phase::Succeeded if is_installed => match (self.hold(), self.pin()) {
                (Some(range), _) => self.held_verdict(range, &held(range)),
                (None, Some(version)) => self.settled(State::Pinned, &pinned(version)),
                (None, None) => self.settled(State::Ready, ""),
            },
            Phase::Succeeded => Verdict::new(
                on_its_way,
                format!(
                    "ClusterServiceVersion {name} has succeeded; OLM has not yet recorded it as installed"
                ),
            ),
            _ => self.unblocking(Verdict::new(on_its_way, csv_text(csv)), csv),
        }
    }

    /// Returns a settled state with this text and the deprecation messages.
    pub(super) fn settled(&self, state: State, text: &str) -> Verdict {
        let own = Some(text.to_owned()).filter(|text| !text.is_empty());
        let texts: Vec<String> = own.into_iter().chain(self.deprecation()).collect();
        Verdict::new(state, texts.join("; "))
    }

    /// Returns that the installed version was deleted, with the version before it if that one runs, and what waits.
    fn deleted(&self) -> Option<Verdict> {
        let csv = self.deleted_csv()?;
        let gone = format!("its ClusterServiceVersion {csv} was deleted, and OLM does not restore it");
        let former = self.former().map(|former| former.name_any());
        let runs = former.as_ref().map(|former| format!("{former} runs"));
        let next = self.next_plan().map(waits);
        let texts = [Some(gone), runs, next, self.held_back()].into_iter().flatten();
        let text = texts.collect::<Vec<String>>().join("; ");
        let start = former.unwrap_or_else(|| csv.to_owned());
        Some(Verdict::new(State::Failed, text).with(WayOut::Recreate(start)))
    }

    /// Returns the ClusterServiceVersion that the status names and that was deleted, unless OLM already installs the next one.
    pub(crate) fn deleted_csv(&self) -> Option<&str> {
        let status = self.status()?;
        let csv = status.installed_csv.as_deref().filter(|csv| !csv.is_empty())?;
        let next_waits = self.current.is_none() && self.next_plan().is_some();
        let is_settled = status.current_csv.as_deref() == Some(csv) || next_waits;
        (is_settled && self.installed.is_none() && !self.is_hidden).then_some(csv)
    }

    /// Returns the version that the operator stays at until a user approves another one: `startingCSV`, while it is installed.
    fn pin(&self) -> Option<&str> {
        let spec = &self.subscription?.spec;
        let starting = spec.starting_csv().filter(|_| spec.is_manual())?;
        let installed = self.installed?;
        let runs = *installed.phase() == Phase::Succeeded && installed.name_any() == starting;
        runs.then_some(starting)
    }

    /// Returns the range of versions that OLM may install, as the Subscription states it.
    fn hold(&self) -> Option<&str> {
        let annotations = self.subscription?.annotations();
        annotations.get(labels::UPGRADE_HOLD).map(String::as_str)
    }

    /// Returns the InstallPlan that a user may approve: no hold excludes its version.
    pub(crate) fn approvable(&self) -> Option<&InstallPlan> {
        self.pending_plan().filter(|_| self.held_back().is_none())
    }

    /// Returns the InstallPlan of its next version if it waits for approval. The plan may be for other Subscriptions of the namespace.
    pub(super) fn next_plan(&self) -> Option<&InstallPlan> {
        let current = self.status()?.current_csv.as_ref()?;
        let plan = self.pending_plan()?;
        let names = &plan.spec.cluster_service_version_names;
        names.contains(current).then_some(plan)
    }

    /// Returns that its InstallPlan waits for approval, with the versions that it installs; `None` if it does not.
    pub(crate) fn waiting_plan(&self) -> Option<String> {
        self.pending_plan().map(waits)
    }

    /// Returns true if a version lacks requirements while the next one, which may not need them, waits for approval.
    pub(super) fn may_skip(&self, verdict: &Verdict) -> bool {
        matches!(verdict.way_out, WayOut::Provide { .. }) && self.approvable().is_some()
    }

    /// Returns the hold in words, if it excludes the version that the InstallPlan would install once it is approved.
    pub(crate) fn held_back(&self) -> Option<String> {
        let range = self.hold()?;
        self.pending_outside(range).map(|_| held(range))
    }

    /// Returns the InstallPlan that waits for approval, if its version is known to be outside this range. OLM keeps a plan that it
    /// made before the hold.
    pub(crate) fn pending_outside(&self, range: &str) -> Option<&InstallPlan> {
        let plan = self.next_plan()?;
        let version = version_of(plan, self.status()?.current_csv.as_deref()?)?;
        // An invalid range excludes every version.
        let is_outside = parse_range(range).map_or(true, |range| !range.contains(&version));
        is_outside.then_some(plan)
    }

    /// Returns true if its plan installs another version than the installed one, which a partly completed plan installed itself.
    fn has_plan_for_another(&self) -> bool {
        let plan = self.plan.map(|plan| &plan.spec.cluster_service_version_names);
        self.installed
            .zip(plan)
            .is_some_and(|(installed, names)| !names.contains(&installed.name_any()))
    }

    /// Returns the catalog problem due to which newer versions are unknown.
    pub(crate) fn unhealthy_catalog(&self) -> Option<String> {
        let subscription = self.subscription?;
        let spec = &subscription.spec;
        if let Some(text) = catalog_problem(subscription) {
            return Some(text.to_owned());
        }
        let health = subscription.status.iter();
        let mut health = health.flat_map(|status| status.catalog_health.iter());
        let is_own = |reference: &ObjectReference| {
            reference.name.as_ref() == Some(&spec.source)
                && reference.namespace.as_ref() == Some(&spec.source_namespace)
        };
        health
            .any(|catalog| !catalog.healthy && is_own(&catalog.catalog_source_ref))
            .then(|| {
                format!(
                    "catalog {}/{} does not answer",
                    spec.source_namespace, spec.source
                )
            })
    }

    /// Returns the deprecation messages of the catalog.
    fn deprecation(&self) -> Option<String> {
        let conditions = self.subscription.into_iter().flat_map(true_conditions);
        let about = [
            condition::PACKAGE_DEPRECATED,
            condition::CHANNEL_DEPRECATED,
            condition::BUNDLE_DEPRECATED,
        ];
        let texts: Vec<&str> = conditions
            .filter(|condition| about.contains(&condition.type_.as_str()))
            .map(|condition| condition.message.as_deref().unwrap_or(&condition.type_))
            .collect();
        (!texts.is_empty()).then(|| format!("deprecated: {}", texts.join("; ")))
    }
}

/// Returns the type of a condition and the state that it means, if it is a failure.
fn failed_state(type_: &'static str) -> Option<(&'static str, State)> {
    match type_ {
        condition::INSTALL_PLAN_FAILED | condition::BUNDLE_UNPACK_FAILED => Some((type_, State::Failed)),
        condition::RESOLUTION_FAILED => Some((type_, State::Unresolved)),
        _ => None,
    }
}

/// Returns the version of a ClusterServiceVersion that a plan installs: the one in the catalog, which holds are compared with. Its
/// name may write it differently, and counts only without it.
fn version_of(plan: &InstallPlan, csv: &str) -> Option<Version> {
    let mut lookups = plan.status.iter().flat_map(|status| status.bundle_lookups.iter());
    let lookup = lookups.find(|lookup| lookup.identifier == csv);
    let package = lookup.and_then(|lookup| package_in(lookup.properties.as_deref()?));
    let stated = package.and_then(|package| Version::parse_tolerant(&package.version).ok());
    stated.or_else(|| version_in(csv))
}

/// Returns that an InstallPlan waits for approval, with the versions that it installs.
fn waits(plan: &InstallPlan) -> String {
    let names = plan.spec.cluster_service_version_names.join(", ");
    format!("InstallPlan {} for {names} waits for approval", plan.name_any())
}

/// Returns why an operator stays within a range of versions.
fn held(range: &str) -> String {
    let key = labels::UPGRADE_HOLD;
    match parse_range(range) {
        Ok(_) => format!("held within {range} by annotation {key}"),
        Err(error) => format!(
            "held by the invalid annotation {key}: {:?}: {error}",
            cut(range, SHOWN)
        ),
    }
}

/// Returns why an operator stays at the version that its Subscription started with.
fn pinned(version: &str) -> String {
    format!("pinned at {version} by spec.startingCSV")
}
