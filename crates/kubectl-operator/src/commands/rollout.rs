//! Waits until an InstallPlan exists and until it completes, as upstream's plugin does.

use std::io::Write;
use std::time::Duration;

use anyhow::{anyhow, bail};
use kube::ResourceExt as _;
use olm_api::condition::subscription as condition;
use olm_api::v1alpha1::{InstallPlan, InstallPlanPhase, Subscription};
use tokio::time::Instant;

use super::approve::{self, PLAN_PREFIX, Shown};
use super::status::gathered;
use crate::Unsettled;
use crate::args::shared::WaitArgs;
use crate::cluster::Cluster;
use crate::operators::{Node, message_or_reason};
use crate::reader::get;
use crate::watch::{Lasting, Outcome, Screen, follow};

/// A plan that completed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CarriedOut {
    /// The ClusterServiceVersion that it installed for the Subscription.
    pub csv: String,
    /// What the operator still waits for; `None` if it is ready.
    pub waits: Option<String>,
    /// What waits behind a ready version that was adopted, such as the InstallPlan of a newer one.
    pub next: Option<String>,
}

impl CarriedOut {
    /// Returns the result in the words of upstream's plugin. `done` is the verb for an operator that is ready, which upstream says of
    /// every operator whose plan is complete.
    pub(super) fn text(&self, package: &str, done: &str) -> String {
        let being = self.waits.as_ref().map_or("", |_| "is being ");
        // Scripts look for upstream's words.
        format!(
            "operator {package:?} {being}{done}; installed csv is {:?}\n",
            self.csv
        )
    }

    /// Returns a warning if the operator was not ready when its plan completed.
    pub(super) fn warning(&self, cluster: &Cluster, subscription: &str) -> Option<String> {
        let watch = cluster.suggest("status {} --watch", &[subscription]);
        let waits = self.waits.as_ref()?;
        Some(format!("{subscription} is not ready yet: {waits}; see `{watch}`"))
    }

    /// Returns a note about what waits behind a ready version.
    pub(super) fn note(&self, cluster: &Cluster, subscription: &str) -> Option<String> {
        let status = cluster.suggest("status {}", &[subscription]);
        let next = self.next.as_ref()?;
        Some(format!("note: {next}; see `{status}`"))
    }
}

/// Asks the user to approve a plan.
pub(super) type Ask<'a> = dyn FnMut(&Shown) -> anyhow::Result<bool> + Send + 'a;

/// State that OLM derives for a new Subscription.
enum Made {
    /// Its InstallPlan, with steps.
    Plan(Box<InstallPlan>),
    /// The Subscription has a version that was installed before, and needs no plan.
    Adopted(CarriedOut),
}

/// Waits for the first plan of a Subscription, approves it if required and if `ask` returns true, and waits until it completes.
/// Returns `None` if the user did not approve. A plan that waits while `startingCSV` is installed is for something else, and is left
/// to the user.
///
/// # Errors
/// The plan is not created or does not complete in time, it fails, or the Subscription fails or cannot be resolved.
pub(super) async fn first_plan<W: Write>(
    cluster: &Cluster,
    subscription: &Subscription,
    wait: &WaitArgs,
    screen: &mut Screen<W>,
    ask: &mut Ask<'_>,
) -> anyhow::Result<Option<CarriedOut>> {
    let name = subscription.name_any();
    let start = Instant::now();
    let plan = match made(cluster, subscription, wait, screen).await? {
        Made::Plan(plan) => plan,
        Made::Adopted(done) => return Ok(Some(done)),
    };
    let used = start.elapsed();
    if plan.waits_for_approval() {
        let named = format!("{PLAN_PREFIX}{}", plan.name_any());
        if !Box::pin(approve::approve(cluster, &named, ask)).await?.approved {
            return Ok(None);
        }
    }
    // The user's answer may have taken long.
    let left = wait.limit().map(|limit| limit.saturating_sub(used));
    carried_out(cluster, &name, &plan.name_any(), wait, left, screen)
        .await
        .map(Some)
}

/// Waits until a Subscription has a plan with steps, or an installed version without a plan of its own.
async fn made<W: Write>(
    cluster: &Cluster,
    subscription: &Subscription,
    wait: &WaitArgs,
    screen: &mut Screen<W>,
) -> anyhow::Result<Made> {
    let starting = subscription.spec.starting_csv();
    let subscription = subscription.name_any();
    let (namespace, subscription) = (cluster.namespace.as_str(), subscription.as_str());
    let (mut made, mut failure): (Option<Made>, Option<String>) = (None, None);
    let (mut waits, mut stuck) = (String::new(), Lasting::default());
    let watched = follow(screen, wait.limit(), async || {
        let gathered = gathered(&cluster.client, Some(namespace), Some(subscription)).await?;
        let operator = gathered.find(namespace, subscription, &cluster.commands)?;
        let node = gathered.tree(&operator, &cluster.commands);
        waits = node.waits_for();
        let status = operator.status();
        let installed = status.and_then(|status| status.installed_csv.as_deref());
        let installed = installed.filter(|csv| !csv.is_empty());
        let has_starting = installed.is_some() && installed == starting;
        let is_first = |plan: &&InstallPlan| {
            let is_made = !matches!(plan.phase(), InstallPlanPhase::None | InstallPlanPhase::Planning);
            // A plan that waits then is for a newer version, or for other Subscriptions of the namespace.
            is_made && !(has_starting && plan.waits_for_approval())
        };
        let has_no_plan = status.is_some_and(|status| status.install_plan_ref.is_none());
        let adopted = installed.filter(|_| has_starting || has_no_plan);
        made = match (operator.plan.filter(is_first), adopted) {
            (Some(plan), _) => Some(Made::Plan(Box::new(plan.clone()))),
            (None, Some(csv)) => {
                let has_next = node.runs(csv) && !node.is_fine_for_now();
                let rest = has_next.then(|| waits.clone());
                Some(Made::Adopted(CarriedOut {
                    csv: csv.to_owned(),
                    waits: node.version_waits_for(csv),
                    next: operator.waiting_plan().or(rest),
                }))
            }
            (None, None) => None,
        };
        // As after a failed plan, waiting longer does not help.
        failure = operator
            .subscription
            .and_then(|found| message_or_reason(found, condition::BUNDLE_UNPACK_FAILED))
            .map(|cause| format!("OLM reports {}: {cause}", condition::BUNDLE_UNPACK_FAILED));
        if stuck.is(node.is_stuck) && failure.is_none() {
            failure = Some(waits.clone());
        }
        let outcome = match (made.is_some(), failure.is_some()) {
            (true, _) => Outcome::Done,
            (false, true) => Outcome::Over,
            (false, false) => Outcome::Waits,
        };
        Ok((vec![node], outcome))
    })
    .await?;
    made.filter(|_| watched.outcome == Outcome::Done).ok_or_else(|| {
        let explain = cluster.suggest("explain {}", &[subscription]);
        let seconds = wait.timeout().as_secs();
        let (text, rest) = match failure {
            Some(cause) => (format!("stopped waiting: {cause}"), ""),
            None => (
                format!("no InstallPlan within {seconds} s: {waits}"),
                "OLM continues in the background, ",
            ),
        };
        // The line of an unresolved Subscription may name the command already.
        Unsettled(match text.contains(&explain) {
            true => text,
            false => format!("{text}; {rest}see `{explain}`"),
        })
        .into()
    })
}

/// Waits until a plan completes, for at most `left`. Messages name the time of `wait`, which the user set.
///
/// # Errors
/// The plan does not complete in time, fails, or is deleted.
pub(super) async fn carried_out<W: Write>(
    cluster: &Cluster,
    subscription: &str,
    plan: &str,
    wait: &WaitArgs,
    left: Option<Duration>,
    screen: &mut Screen<W>,
) -> anyhow::Result<CarriedOut> {
    let (client, namespace) = (&cluster.client, cluster.namespace.as_str());
    let mut last: Option<InstallPlan> = None;
    let watched = follow(screen, left, async || {
        let found = get::<InstallPlan>(client, namespace, plan).await?;
        let found =
            found.ok_or_else(|| anyhow!("InstallPlan {plan} no longer exists in namespace {namespace}"))?;
        let outcome = match found.phase() {
            InstallPlanPhase::Complete => Outcome::Done,
            InstallPlanPhase::Failed => Outcome::Over,
            _ => Outcome::Waits,
        };
        last = Some(found);
        let gathered = gathered(client, Some(namespace), Some(subscription)).await?;
        // A plan also completes without its Subscription.
        let operator = gathered.find(namespace, subscription, &cluster.commands).ok();
        let node = operator.map(|operator| gathered.tree(&operator, &cluster.commands));
        Ok((node.into_iter().collect(), outcome))
    })
    .await?;
    let node = watched.nodes.first();
    let Some(last) = last else {
        bail!("no answer from the cluster within {} s", wait.timeout().as_secs());
    };
    match watched.outcome {
        Outcome::Done => {
            let csv = installed(cluster, subscription, &last).await;
            let waits = node.and_then(|node| node.version_waits_for(&csv));
            Ok(CarriedOut {
                csv,
                waits,
                next: None,
            })
        }
        Outcome::Over => {
            let message = last.status.and_then(|status| status.message).unwrap_or_default();
            Err(Unsettled(format!("InstallPlan {plan} failed: {message}")).into())
        }
        Outcome::Waits => Err(Unsettled(format!(
            "InstallPlan {plan} did not complete within {} s: {}; OLM continues in the background, see `{}`",
            wait.timeout().as_secs(),
            node.map(Node::waits_for).unwrap_or_default(),
            cluster.suggest("status {} --watch", &[subscription])
        ))
        .into()),
    }
}

/// Returns the ClusterServiceVersion that a plan installed for a Subscription. If the status names none, it is the last one of
/// the plan.
async fn installed(cluster: &Cluster, subscription: &str, plan: &InstallPlan) -> String {
    let names = &plan.spec.cluster_service_version_names;
    let found = get::<Subscription>(&cluster.client, &cluster.namespace, subscription).await;
    let status = found.ok().flatten().and_then(|found| found.status);
    let named = status.map(|status| [status.installed_csv, status.current_csv]);
    let mut own = named.into_iter().flatten().flatten();
    own.find(|name| names.contains(name))
        .or_else(|| names.last().cloned())
        .unwrap_or_default()
}
