//! Operators as trees of objects, each with what it waits for.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::ResourceExt as _;
use olm_api::cause::csv_cause_or_default;
use olm_api::condition;
use olm_api::labels::OWNER_KIND_CSV;
use olm_api::pod::{is_starting, why_unscheduled};
use olm_api::v1alpha1::{
    ClusterServiceVersion, ClusterServiceVersionPhase as Phase, InstallPlan, InstallPlanPhase, Subscription,
};
use serde::Serialize;

use super::cause::{Approver, plan_cause, refused_change, true_conditions};
use super::way_out::WayOut;
use super::{Gathered, Operator, State, Workload, plan_name};
use crate::command_line::CommandLine;
use crate::preview::{diff, of_plan};
use crate::terminal::{Colours, Mark, below_first, full_name, plain};

/// Maximum number of pods shown per Deployment.
const MAX_PODS: usize = 10;
/// Minimum length of a message that is not printed again below an object that has it, too.
const MIN_REPEATED: usize = 80;
/// State of an object that does not exist.
const MISSING: &str = "Missing";
/// Start of the note about the way out.
const TO_RESOLVE: &str = "to resolve: ";

/// An object and its state.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Node {
    pub kind: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
    pub mark: Mark,
    pub state: String,
    /// The pending step, or the reason why it is not ready.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The command that prints a message of several lines in full.
    #[serde(skip)]
    pub more: Option<String>,
    /// True if it failed, cannot be resolved, waits for a bundle image, a quota, a deleted definition of its own, a failed version
    /// or the cause of an error after which OLM tries again, or lacks requirements while its next version waits for approval, so that most likely a user has to act.
    #[serde(skip)]
    pub is_stuck: bool,
    /// Additional lines, such as the changes of an InstallPlan.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<Node>,
}

impl Node {
    pub(crate) fn new(kind: &'static str, name: &str, mark: Mark, state: &str) -> Self {
        Self {
            kind,
            namespace: String::new(),
            name: name.to_owned(),
            mark,
            state: state.to_owned(),
            message: String::new(),
            more: None,
            is_stuck: false,
            notes: Vec::new(),
            objects: Vec::new(),
        }
    }

    fn with(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }

    /// Returns true if the object and all below it are ready.
    pub(crate) fn is_fine(&self) -> bool {
        self.mark == Mark::Fine && self.objects.iter().all(Self::is_fine)
    }

    /// Returns true if a user must act: it is stuck, or a plan waits for approval or failed, and everything else is ready.
    pub(crate) fn needs_somebody(&self) -> bool {
        self.is_stuck || self.has_only_plans_left()
    }

    fn has_only_plans_left(&self) -> bool {
        let plans = self.objects.iter().filter(|object| object.kind == "InstallPlan");
        plans
            .into_iter()
            .any(|plan| plan.mark == Mark::Bad || plan.state == InstallPlanPhase::RequiresApproval.as_str())
            && self
                .objects
                .iter()
                .all(|object| object.kind == "InstallPlan" || object.is_fine())
    }

    /// Returns true if it is ready, or runs and only waits for the approval of its next version.
    pub(crate) fn is_fine_for_now(&self) -> bool {
        let runs = |object: &Self| object.kind == OWNER_KIND_CSV;
        let has_failed = |object: &Self| object.mark == Mark::Bad;
        self.is_fine()
            || self.has_only_plans_left()
                && self.objects.iter().any(runs)
                && !self.objects.iter().any(has_failed)
    }

    /// Returns true if this ClusterServiceVersion is ready with its objects, whatever newer version OLM works on.
    pub(crate) fn runs(&self, csv: &str) -> bool {
        self.version(csv).is_some_and(Self::is_fine)
    }

    /// Returns what this ClusterServiceVersion waits for, whatever newer version OLM works on; `None` if it is ready. Before it
    /// exists, that is what the operator waits for.
    pub(crate) fn version_waits_for(&self, csv: &str) -> Option<String> {
        match self.version(csv) {
            Some(own) if own.is_fine() => None,
            // It runs, and an object of it does not.
            Some(own) if own.mark == Mark::Fine => Some(own.waits_for()),
            Some(own) => Some(own.line()),
            None => (!self.is_fine_for_now()).then(|| self.waits_for()),
        }
    }

    /// Returns the object of this ClusterServiceVersion.
    pub(crate) fn version(&self, csv: &str) -> Option<&Self> {
        let mut objects = self.objects.iter();
        objects.find(|object| object.kind == OWNER_KIND_CSV && object.name == csv)
    }

    /// Returns what it waits for, as the line of the deepest object that is not ready. Objects that only wait for a failed one
    /// do not hide its cause.
    pub(crate) fn waits_for(&self) -> String {
        let has_failed = self.has_failed();
        let mut below = self.objects.iter();
        match below.find(|object| !object.is_fine() && object.has_failed() == has_failed) {
            Some(object) => object.waits_for(),
            None => self.line(),
        }
    }

    /// Returns the way out of its state, which its notes name; `None` if an object below names it, or if there is none.
    pub(crate) fn way_out(&self) -> Option<&str> {
        let mut notes = self.notes.iter();
        notes.find_map(|note| note.strip_prefix(TO_RESOLVE))
    }

    /// Returns true if the object or one below it failed.
    fn has_failed(&self) -> bool {
        self.mark == Mark::Bad || self.objects.iter().any(Self::has_failed)
    }

    fn full_name(&self) -> String {
        full_name(&plain(&self.namespace), &plain(&self.name))
    }

    /// Returns the object in one line.
    fn line(&self) -> String {
        let text = self.text(Colours(false));
        match (self.message.trim().contains('\n'), &self.more) {
            (true, Some(more)) => format!("{text} …; see {more}"),
            (true, None) => format!("{text} …"),
            (false, _) => text,
        }
    }

    fn text(&self, colours: Colours) -> String {
        self.text_with(&self.message, colours)
    }

    /// Returns the object in one line, with the first line of this message.
    fn text_with(&self, message: &str, colours: Colours) -> String {
        let name = self.full_name();
        let state = colours.paint(self.mark, &plain(&self.state));
        let text = format!("{} {name}: {state}", self.kind);
        match message {
            "" => text,
            message => {
                let first = message.trim().lines().next().unwrap_or_default();
                format!("{text}, {}", plain(first))
            }
        }
    }
}

/// Returns each object as a separate line, to show changes. Lines below the first include its name.
pub(crate) fn flat(nodes: &[Node]) -> Vec<String> {
    let mut lines = Vec::new();
    for node in nodes {
        lines.push(node.line());
        flat_below(node, &node.full_name(), &mut lines);
    }
    lines
}

fn flat_below(node: &Node, name: &str, lines: &mut Vec<String>) {
    for object in &node.objects {
        lines.push(format!("{name}: {}", object.line()));
        flat_below(object, name, lines);
    }
}

/// Returns the trees as lines without line ends.
pub(crate) fn lines(nodes: &[Node], colours: Colours) -> Vec<String> {
    let mut lines = Vec::new();
    for node in nodes {
        lines.push(node.text(colours));
        below(node, "", colours, &mut Vec::new(), &mut lines);
    }
    lines
}

/// Adds the lines below the line of an object. `above` has the messages of the objects above it.
fn below<'a>(
    node: &'a Node,
    indent: &str,
    colours: Colours,
    above: &mut Vec<&'a str>,
    lines: &mut Vec<String>,
) {
    let bar = if node.objects.is_empty() { " " } else { "│" };
    let rest = match is_repeated(node, above) {
        true => Vec::new(),
        false => below_first(&node.message),
    };
    lines.extend(rest.iter().map(|line| format!("{indent}{bar}  {line}")));
    let notes = node.notes.iter();
    lines.extend(notes.map(|note| format!("{indent}{bar}  {}", plain(note))));
    above.push(&node.message);
    for (at, object) in node.objects.iter().enumerate() {
        let (branch, next) = match at + 1 == node.objects.len() {
            true => ("└─ ", "   "),
            false => ("├─ ", "│  "),
        };
        let text = match is_repeated(object, above) {
            true => object.text_with("for the reason above", colours),
            false => object.text(colours),
        };
        lines.push(format!("{indent}{branch}{text}"));
        below(object, &format!("{indent}{next}"), colours, above, lines);
    }
    above.pop();
}

/// Returns true if a long message is part of one that was printed above it.
fn is_repeated(node: &Node, above: &[&str]) -> bool {
    let message = node.message.trim();
    message.len() >= MIN_REPEATED && above.iter().any(|found| found.contains(message))
}

impl Gathered {
    /// Returns the tree of an operator, with suggested commands.
    pub(crate) fn tree(&self, operator: &Operator<'_>, commands: &CommandLine) -> Node {
        let csvs = self.csv_nodes(operator);
        let Some(subscription) = operator.subscription else {
            let mut nodes = csvs;
            return match nodes.pop() {
                Some(mut node) => {
                    node.namespace = operator.namespace();
                    node.is_stuck = node.mark == Mark::Bad;
                    node
                }
                None => Node::new(OWNER_KIND_CSV, &operator.name(), Mark::Waits, MISSING),
            };
        };
        let verdict = operator.verdict();
        let verdict_state = verdict.state;
        let way_out = operator.way_out(&verdict, commands);
        let may_skip = operator.may_skip(&verdict);
        let way_out = match verdict.way_out {
            // The nodes below name these.
            WayOut::Approve | WayOut::ApproveNow | WayOut::Explain | WayOut::Catalogs => None,
            // The rest is this command.
            WayOut::Correct => way_out.map(|text| text.split("; see ").take(1).collect()),
            _ => way_out,
        };
        let state = match (verdict_state.as_str(), operator.row().installed_version.as_str()) {
            (state, "") => state.to_owned(),
            (state, installed) => format!("{state} ({installed} installed)"),
        };
        let mut node =
            Node::new("Subscription", &operator.name(), verdict.state.mark(), &state).with(verdict.message);
        node.namespace = operator.namespace();
        node.more = (verdict_state == State::Unresolved)
            .then(|| commands.suggest("explain {}", &[&node.name], Some(&node.namespace)));
        node.notes
            .extend(way_out.map(|way_out| format!("{TO_RESOLVE}{way_out}")));
        // OLM tries again what an error prevented, but the OperatorGroups are the user's.
        let is_retried = true_conditions(subscription).any(|found| {
            let message = found.message.as_deref().unwrap_or_default();
            found.type_ == condition::subscription::RESOLUTION_FAILED
                && found.reason.as_deref() == Some(condition::subscription::ERROR_PREVENTED_RESOLUTION)
                && !message.contains(" operatorGroups, expected 1")
        });
        // OLM continues by itself only after a user's act.
        let waits_for_user = matches!(
            verdict.way_out,
            WayOut::PushBundle
                | WayOut::Correct
                | WayOut::RaiseQuota(_)
                | WayOut::CorrectFormer(_)
                | WayOut::Provide { lacks_own: true, .. }
        );
        node.is_stuck = matches!(verdict_state, State::Failed | State::InvalidPolicy)
            || verdict_state == State::Unresolved && !is_retried
            || may_skip
            || waits_for_user;
        let status = subscription.status.as_ref();
        // It is the cause why the next one waits.
        let failed = operator.failed_plan.iter();
        node.objects
            .extend(failed.map(|plan| plan_node(plan, subscription, None, commands)));
        if let Some(name) = status.and_then(plan_name) {
            node.objects.push(match operator.plan {
                Some(plan) => {
                    let mut plan = plan_node(plan, subscription, operator.held_back(), commands);
                    if matches!(verdict_state, State::Pinned | State::Held) {
                        // It waits as the user wants it to.
                        plan.mark = Mark::Fine;
                    }
                    plan
                }
                None if self.unasked.contains(&(operator.namespace(), name.to_owned())) => {
                    Node::new("InstallPlan", name, Mark::Waits, "Unknown")
                        .with("skipped because there are too many")
                }
                // A completed plan may have been deleted.
                None => Node::new("InstallPlan", name, Mark::Fine, "Gone"),
            });
        }
        let health = status.into_iter().flat_map(|status| status.catalog_health.iter());
        for catalog in health.filter(|catalog| !catalog.healthy) {
            let reference = &catalog.catalog_source_ref;
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            let (name, namespace) = (text(&reference.name), text(&reference.namespace));
            let see = commands.suggest("catalog list -o wide", &[], Some(&namespace));
            let (mark, why) = match verdict_state {
                // The operator runs despite it.
                State::Ready | State::Held | State::Pinned | State::InvalidPolicy => {
                    (Mark::Fine, "so there are no upgrades")
                }
                _ => (Mark::Waits, "waiting for its server"),
            };
            let mut catalog =
                Node::new("CatalogSource", &name, mark, "Unhealthy").with(format!("{why}; see {see}"));
            catalog.namespace = namespace;
            let is_own = catalog.name == subscription.spec.source
                && catalog.namespace == subscription.spec.source_namespace;
            let concerns_all = true_conditions(subscription)
                .any(|found| found.type_ == condition::subscription::CATALOG_SOURCES_UNHEALTHY);
            if is_own || concerns_all {
                node.objects.push(catalog);
            }
        }
        node.objects.extend(csvs);
        node
    }

    fn csv_nodes(&self, operator: &Operator<'_>) -> Vec<Node> {
        // After the newest version was deleted, the one before it runs.
        let former = operator.deleted_csv().and(operator.former());
        let installed = operator.installed.or(former);
        let current = operator
            .current
            .filter(|current| installed.is_none_or(|installed| installed.name_any() != current.name_any()));
        let csvs = installed.into_iter().chain(current);
        csvs.map(|csv| self.csv_node(csv)).collect()
    }

    fn csv_node(&self, csv: &ClusterServiceVersion) -> Node {
        let phase = csv.phase();
        let mark = match phase {
            Phase::Succeeded => Mark::Fine,
            Phase::Failed => Mark::Bad,
            _ => Mark::Waits,
        };
        let state = match phase.as_str() {
            "" => "New",
            phase => phase,
        };
        let message = match mark {
            Mark::Fine => String::new(),
            _ => csv_cause_or_default(csv),
        };
        let mut node = Node::new(OWNER_KIND_CSV, &csv.name_any(), mark, state).with(message);
        // Objects of a replaced version already belong to its successor.
        if matches!(phase, Phase::Replacing | Phase::Deleting) {
            return node;
        }
        let namespace = csv.namespace().unwrap_or_default();
        for name in deployments(csv) {
            if let Some(workload) = self.workloads.get(&(namespace.clone(), name.to_owned())) {
                let mut deployment = workload_node(name, workload);
                if *phase == Phase::Failed && deployment.state == MISSING {
                    deployment.message = format!("ClusterServiceVersion {} failed", csv.name_any());
                }
                node.objects.push(deployment);
            }
        }
        node
    }
}

/// Returns the names of a ClusterServiceVersion's Deployments.
pub(crate) fn deployments(csv: &ClusterServiceVersion) -> impl Iterator<Item = &str> {
    let deployments = csv.spec.install.deployments().iter();
    deployments.map(|deployment| deployment.name.as_str())
}

/// Returns the node of the InstallPlan of a Subscription. `held_back` is the hold that excludes its version.
fn plan_node(
    plan: &InstallPlan,
    subscription: &Subscription,
    held_back: Option<String>,
    commands: &CommandLine,
) -> Node {
    let (phase, name) = (plan.phase(), plan.name_any());
    let mark = match phase {
        InstallPlanPhase::Complete => Mark::Fine,
        InstallPlanPhase::Failed => Mark::Bad,
        _ => Mark::Waits,
    };
    let (mut message, approval) = plan_cause(plan, subscription).unwrap_or_default();
    let state = match phase.as_str() {
        "" => "New",
        _ if phase == InstallPlanPhase::RequiresApproval && approval.is_none() => "Approved",
        phase => phase,
    };
    if let Some(approver) = approval.filter(|_| refused_change(plan).is_none()) {
        let namespace = subscription.namespace();
        let suggest = |form: &str, name: &str| commands.suggest(form, &[name], namespace.as_deref());
        let approve = suggest("approve {}", &name);
        message = match (held_back, approver) {
            (Some(held), _) => format!(
                "its version is excluded, as the Subscription is {held}; to allow it, see {}",
                suggest("unhold {}", &subscription.name_any())
            ),
            (None, Approver::User) => format!("{message}, see {approve}"),
            (None, Approver::Policy) => format!("{message}; to approve it now, see {approve}"),
        };
    }
    let mut node = Node::new("InstallPlan", &name, mark, state).with(message);
    if approval.is_some() {
        node.notes = of_plan(plan).as_ref().map(diff).unwrap_or_default();
    }
    node
}

fn workload_node(name: &str, workload: &Workload) -> Node {
    let mut node = match (&workload.deployment, &workload.unread) {
        (Some(deployment), _) => deployment_node(name, deployment),
        (None, None) => {
            Node::new("Deployment", name, Mark::Waits, MISSING).with("waiting for OLM to create it")
        }
        // A Deployment that may not be read does not block.
        (None, Some(_)) => Node::new("Deployment", name, Mark::Fine, "Unknown"),
    };
    if let Some(cause) = &workload.unread
        && node.message.is_empty()
    {
        node.message.clone_from(cause);
    }
    for pod in workload.pods.iter().take(MAX_PODS) {
        node.objects.push(pod_node(pod));
    }
    let more = workload.pods.len().saturating_sub(MAX_PODS);
    if more > 0 {
        let of_others = Node::new("Pods", "others", Mark::Fine, &format!("{more} more"));
        node.objects.push(of_others);
    }
    node
}

/// Returns how many pods a Deployment wants, and how many are available.
pub(crate) fn replicas(deployment: &Deployment) -> (i32, i32) {
    let (spec, status) = (deployment.spec.as_ref(), deployment.status.as_ref());
    let wanted = spec.and_then(|spec| spec.replicas).unwrap_or(1);
    let available = status.and_then(|status| status.available_replicas);
    (wanted, available.unwrap_or(0))
}

fn deployment_node(name: &str, deployment: &Deployment) -> Node {
    let (wanted, available) = replicas(deployment);
    let status = deployment.status.as_ref();
    let updated = status.and_then(|status| status.updated_replicas).unwrap_or(0);
    let is_seen = status.and_then(|status| status.observed_generation).unwrap_or(0)
        >= deployment.metadata.generation.unwrap_or(0);
    let state = format!("{available} of {wanted} available");
    if is_seen && available >= wanted && updated >= wanted {
        return Node::new("Deployment", name, Mark::Fine, &state);
    }
    let conditions = || {
        status
            .into_iter()
            .flat_map(|status| status.conditions.iter().flatten())
    };
    let found =
        |type_: &str, status: &str| conditions().find(|found| found.type_ == type_ && found.status == status);
    let trouble = found("ReplicaFailure", condition::TRUE).or_else(|| found("Progressing", condition::FALSE));
    if let Some(trouble) = trouble {
        let message = trouble.message.clone().or_else(|| trouble.reason.clone());
        return Node::new("Deployment", name, Mark::Bad, &state).with(message.unwrap_or_default());
    }
    let message = match is_seen {
        false => "waiting for Kubernetes to process it",
        true if available >= wanted => "waiting for new pods to replace the old ones",
        true => "waiting for its pods",
    };
    Node::new("Deployment", name, Mark::Waits, &state).with(message)
}

/// Returns the node of a pod, with the reason why it is not ready.
pub(crate) fn pod_node(pod: &Pod) -> Node {
    let name = pod.name_any();
    if pod.metadata.deletion_timestamp.is_some() {
        return Node::new("Pod", &name, Mark::Fine, "Terminating");
    }
    let status = pod.status.as_ref();
    let phase = status
        .and_then(|status| status.phase.as_deref())
        .unwrap_or("Unknown");
    let conditions = || {
        status
            .into_iter()
            .flat_map(|status| status.conditions.iter().flatten())
    };
    let is_ready = conditions().any(|found| found.type_ == "Ready" && found.status == condition::TRUE);
    if is_ready {
        return Node::new("Pod", &name, Mark::Fine, "Ready");
    }
    let containers = status.into_iter().flat_map(|status| {
        let first = status.init_container_statuses.iter().flatten();
        first.chain(status.container_statuses.iter().flatten())
    });
    if let Some((is_bad, text)) = containers.into_iter().find_map(container_trouble) {
        let mark = if is_bad { Mark::Bad } else { Mark::Waits };
        return Node::new("Pod", &name, mark, phase).with(text);
    }
    let message = why_unscheduled(pod).map_or_else(
        || "waiting for readiness".to_owned(),
        |text| format!("waiting for a node: {text}"),
    );
    Node::new("Pod", &name, Mark::Waits, phase).with(message)
}

/// Returns the reason why a container does not run, and whether it is an error.
fn container_trouble(container: &ContainerStatus) -> Option<(bool, String)> {
    let state = container.state.as_ref()?;
    if let Some(waiting) = &state.waiting {
        let reason = waiting.reason.as_deref().unwrap_or("waiting");
        let is_bad = !is_starting(reason);
        let text = match waiting.message.as_deref().unwrap_or_default() {
            "" => format!("container {}: {reason}", container.name),
            message => format!("container {}: {reason} ({message})", container.name),
        };
        return Some((is_bad, text));
    }
    let ended = state.terminated.as_ref().filter(|ended| ended.exit_code != 0)?;
    let reason = ended.reason.as_deref().unwrap_or("ended");
    Some((
        true,
        format!(
            "container {}: {reason}, exit code {}",
            container.name, ended.exit_code
        ),
    ))
}
