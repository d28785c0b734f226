//! Transitions between the phases: the current position, one step, and the result of all steps of a
//! reconcile.
//!
//! Several transitions without a write in between are made in one reconcile, so that they cost one status
//! write. Each one keeps its own history entry and its own event. The walk ends at the first step with
//! writes, because the next step depends on their success.

use std::time::Duration;

use jiff::Timestamp;
use olm_api::v1alpha1::{
    ClusterServiceVersionPhase as Phase, ClusterServiceVersionStatus, RequirementStatus,
};
use olm_runtime::plan::{Action, Plan, Requeue};

use crate::csv::{held_up, install::InstallWrites, rbac::Place, serving::component::Component};

/// Limit per reconcile. It is only reached if two phases sent a ClusterServiceVersion back and forth.
const MAX_TRANSITIONS: usize = 12;

/// Limit of a transition's message in bytes, without the truncation mark.
const MAX_MESSAGE_BYTES: usize = 4096;

/// A change of phase, reason or message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Transition {
    pub(crate) phase: Phase,
    /// Reason, as one word.
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

impl Transition {
    /// A transition to `phase`. Longer messages are truncated. The history repeats a message up to twenty
    /// times, and the API server refuses a status that makes the object too large.
    pub(crate) fn new(phase: Phase, reason: &'static str, message: impl Into<String>) -> Self {
        let mut message = held_up::own(message.into());
        if message.len() > MAX_MESSAGE_BYTES {
            message.truncate(message.floor_char_boundary(MAX_MESSAGE_BYTES));
            message.push('…');
        }
        Self {
            phase,
            reason,
            message,
        }
    }
}

/// Current phase of a ClusterServiceVersion, with reason and times.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Position {
    pub(crate) phase: Phase,
    /// The reason of its status.
    pub(crate) reason: String,
    /// Message of its status, without the additional "held up" text.
    pub(crate) message: String,
    /// Time of the last change of phase.
    pub(crate) since: Timestamp,
    /// Time of the last status write.
    pub(crate) updated: Timestamp,
}

impl Position {
    /// Reads the position from the stored status; missing times read as `created`.
    pub(crate) fn stored(status: &ClusterServiceVersionStatus, created: Timestamp) -> Self {
        Self {
            phase: status.phase.clone(),
            reason: status.reason.clone().unwrap_or_default(),
            message: held_up::without(status.message.as_deref().unwrap_or_default()).to_owned(),
            since: status
                .last_transition_time
                .as_ref()
                .map_or(created, |time| time.0),
            updated: status.last_update_time.as_ref().map_or(created, |time| time.0),
        }
    }

    /// True when `transition` would change nothing.
    pub(crate) fn is_at(&self, transition: &Transition) -> bool {
        self.phase == transition.phase
            && self.reason == transition.reason
            && self.message == transition.message
    }

    fn follow(&mut self, transition: &Transition, now: Timestamp) {
        if self.phase != transition.phase {
            self.since = now;
        }
        self.updated = now;
        self.phase = transition.phase.clone();
        self.reason = transition.reason.to_owned();
        self.message = transition.message.clone();
    }
}

/// Purpose of the writes of a reconcile; it decides how a failed write is reported.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Membership in the OperatorGroup: metadata, provided APIs, finalizer.
    #[default]
    Membership,
    /// Rights in other namespaces, and Deployments of an install.
    Install,
    /// Rights in other namespaces for a running operator.
    Grants,
    /// Objects of upstream's OLM are adopted; the operator also runs without that.
    Adoption,
    /// Removal of a deleted ClusterServiceVersion.
    Removal,
}

/// Result of one phase at one position.
#[derive(Debug, Default)]
pub(crate) struct PhaseStep {
    /// Transition to make before anything is written.
    pub(crate) go: Option<Transition>,
    /// Writes; they end the walk.
    pub(crate) actions: Vec<Action>,
    /// Places of the leading writes that grant rights, one entry per write; each of these writes is
    /// independent.
    pub(crate) grants: Vec<Place>,
    /// Purpose of the writes.
    pub(crate) stage: Stage,
    /// Transition to make once everything is written.
    pub(crate) then: Option<Transition>,
    /// Delay of the next reconcile if nothing changes.
    pub(crate) requeue: Requeue,
    /// The requirements, if they were checked.
    pub(crate) requirements: Option<Vec<RequirementStatus>>,
}

impl PhaseStep {
    /// A step that waits for a change.
    pub(crate) fn stay() -> Self {
        Self::default()
    }

    /// A step to this position.
    pub(crate) fn to(phase: Phase, reason: &'static str, message: impl Into<String>) -> Self {
        Self::go(Transition::new(phase, reason, message))
    }

    /// A step to the next position.
    pub(crate) fn go(transition: Transition) -> Self {
        Self {
            go: Some(transition),
            ..Self::default()
        }
    }

    /// A step with writes, and a transition after their success.
    pub(crate) fn act(stage: Stage, actions: Vec<Action>, then: Option<Transition>) -> Self {
        Self {
            stage,
            actions,
            then,
            ..Self::default()
        }
    }

    /// A step with the writes of an install, and a transition after their success.
    pub(crate) fn install(stage: Stage, writes: InstallWrites, then: Option<Transition>) -> Self {
        let InstallWrites {
            grants: mut actions,
            rest,
        } = writes;
        let places = actions.iter().map(|action| action.target().namespace.clone());
        let grants = places.collect();
        actions.extend(rest);
        Self {
            grants,
            ..Self::act(stage, actions, then)
        }
    }

    /// Adds a maximum delay of the next reconcile.
    pub(crate) fn again(mut self, delay: Duration, reason: &'static str) -> Self {
        self.requeue = self.requeue.sooner(Requeue::after(delay, reason));
        self
    }

    /// Adds the requirements that the step is based on.
    pub(crate) fn with_requirements(mut self, rows: Vec<RequirementStatus>) -> Self {
        self.requirements = Some(rows);
        self
    }
}

/// Result of a reconcile, for `status`.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    /// Transitions that depend on no write.
    pub(crate) transitions: Vec<Transition>,
    /// Transition after all writes have succeeded.
    pub(crate) then: Option<Transition>,
    /// Purpose of the writes.
    pub(crate) stage: Stage,
    /// Places of the leading writes that grant rights, one entry per write.
    pub(crate) grants: Vec<Place>,
    /// The objects that writes of the plan apply as a whole, with the indexes of these writes. Their result
    /// must equal the wanted object; a patch only prepares that.
    pub(crate) applied: Vec<(usize, Component)>,
    /// The requirements, if they were checked.
    pub(crate) requirements: Option<Vec<RequirementStatus>>,
    /// Time of the first refused write, if writes of the previous reconcile were refused.
    pub(crate) refused_since: Option<Timestamp>,
}

/// Calls `step` at `position` and at each following position, until a step has writes. Returns the writes of
/// the last step, and the result of all steps.
pub(crate) fn walk(
    mut position: Position,
    now: Timestamp,
    mut step: impl FnMut(&Position) -> PhaseStep,
) -> (Plan, Verdict) {
    let mut verdict = Verdict::default();
    loop {
        let next = step(&position);
        verdict.requirements = next.requirements.or(verdict.requirements.take());
        let go = next.go.filter(|go| !position.is_at(go));
        let moved = go.is_some();
        if let Some(go) = go {
            position.follow(&go, now);
            verdict.transitions.push(go);
        }
        if moved && next.actions.is_empty() && verdict.transitions.len() < MAX_TRANSITIONS {
            continue;
        }
        verdict.then = next.then.filter(|then| !position.is_at(then));
        verdict.stage = next.stage;
        let actions = next.actions.iter().enumerate();
        verdict.applied = actions
            .filter_map(|(index, action)| Some((index, applied(action)?)))
            .collect();
        let plan = Plan {
            actions: next.actions,
            independent: next.grants.len(),
            requeue: next.requeue,
            ..Plan::default()
        };
        verdict.grants = next.grants;
        return (plan, verdict);
    }
}

/// Returns the object that a write applies as a whole.
fn applied(action: &Action) -> Option<Component> {
    match action {
        Action::Apply { target, object, .. } => Some(Component {
            target: target.clone(),
            object: object.clone(),
        }),
        _ => None,
    }
}
