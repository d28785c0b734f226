//! `kubectl operator approve`: shows what an InstallPlan changes, asks for confirmation, and approves the plan as shown.

mod checks;
mod shown;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{anyhow, bail};
use jiff::SignedDuration;
use kube::{Api, Client, ResourceExt};
use olm_api::v1alpha1::{InstallPlan, InstallPlanPhase, Subscription};
use olm_api::{approval, labels};
use serde_json::json;
use tokio::time::{Instant, sleep};

pub(super) use self::shown::Shown;
use crate::args::shared::quoted;
use crate::args::{ApproveArgs, Output};
use crate::cluster::Cluster;
use crate::confirm::confirm;
use crate::operators::{Gathered, Operator, next_unread, plan_name, refers};
use crate::preview::name;
use crate::reader::{get, list_readable};
use crate::terminal::{first_line, now};
use crate::{Unsettled, Verdict, gather, printer, writer};

/// Prefix that selects an InstallPlan if a Subscription has the same name.
pub(super) const PLAN_PREFIX: &str = "installplan/";
/// Wait for the preview of a new plan. OLM reads the cluster for at most 5 s.
const PREVIEW_TIME: Duration = Duration::from_secs(6);
/// Polling interval of that wait.
const PREVIEW_PAUSE: Duration = Duration::from_millis(200);
/// Attempts to approve a plan whose object changes meanwhile while its steps stay the same.
const TRIES: usize = 3;

/// Shows the plan and approves it if the user confirms.
///
/// # Errors
/// There is no such plan, or a request to the API server fails.
pub(crate) async fn run(args: &ApproveArgs) -> anyhow::Result<Verdict> {
    let cluster = Cluster::connect(&args.connection).await?;
    let ask = |question: &str| confirm(question, args.yes);
    let shown = approve_shown(&cluster, &args.name, args.output, &ask).await?;
    Ok(Verdict::when(shown.approved))
}

/// Prints a plan, approves it if `ask` returns true, and prints the outcome.
///
/// # Errors
/// There is no such plan, or a request to the API server fails.
pub(super) async fn approve_shown(
    cluster: &Cluster,
    name: &str,
    output: Output,
    ask: &(dyn Fn(&str) -> anyhow::Result<bool> + Sync),
) -> anyhow::Result<Shown> {
    let mut answer = |shown: &Shown| answered(output, shown, &printer::data, ask);
    let shown = approve(cluster, name, &mut answer).await?;
    match output.document() {
        None => printer::data(&shown.outcome_text())?,
        Some(format) => printer::document(&shown, format)?,
    }
    Ok(shown)
}

/// Prints a plan, and returns the user's answer.
///
/// # Errors
/// The plan cannot be approved; it is printed first.
fn answered(
    output: Output,
    shown: &Shown,
    print: &dyn Fn(&str) -> anyhow::Result<()>,
    ask: &dyn Fn(&str) -> anyhow::Result<bool>,
) -> anyhow::Result<bool> {
    // JSON and YAML print the plan and the outcome as one document at the end.
    if output == Output::Text {
        print(&shown.to_string())?;
    }
    refused(shown)?;
    ask(&question(output, shown))
}

/// Fails if the plan cannot be approved.
fn refused(shown: &Shown) -> anyhow::Result<()> {
    match &shown.refusal {
        Some(text) => bail!("{text}"),
        None => Ok(()),
    }
}

/// Returns the question to the user. For JSON and YAML it includes the plan, because the document is printed only afterwards.
fn question(output: Output, shown: &Shown) -> String {
    let question = format!("Approve InstallPlan {}?", name(&shown.plan));
    match output {
        Output::Text => question,
        Output::Json | Output::Yaml => format!("{shown}{question}"),
    }
}

/// Approves the named plan if `answer` returns true for what it is shown.
pub(super) async fn approve(
    cluster: &Cluster,
    name: &str,
    answer: &mut (dyn FnMut(&Shown) -> anyhow::Result<bool> + Send),
) -> anyhow::Result<Shown> {
    let (client, namespace) = (&cluster.client, cluster.namespace.as_str());
    let (plan_name, next) = find_plan(cluster, name).await?;
    let plans: Api<InstallPlan> = Api::namespaced(client.clone(), namespace);
    let read = || async {
        let plan = get::<InstallPlan>(client, namespace, &plan_name).await?;
        plan.ok_or_else(|| anyhow!("namespace {namespace} has no InstallPlan {plan_name}"))
    };
    let look = async |plan: &InstallPlan| {
        let (subscriptions, doubts) = served(client, namespace, plan).await?;
        let names = subscriptions.iter().map(ResourceExt::name_any).collect();
        let mut shown = Shown::of(plan, names, doubts);
        // The way out of a failed plan depends on the versions that it created.
        let gathered = match plan.phase() {
            InstallPlanPhase::Failed => Box::pin(gather::operators(client, Some(namespace))).await?,
            _ => Gathered::default(),
        };
        let operators = gathered.operators();
        let mut of_plan = subscriptions.iter();
        shown.refusal = of_plan.find_map(|subscription| refusal(cluster, plan, subscription, &operators));
        let misfits = Box::pin(checks::misfits(client, namespace, plan)).await;
        shown.misfit = misfits.certain.first().cloned();
        shown
            .doubts
            .extend(misfits.certain.into_iter().chain(misfits.possible));
        let preview = shown.preview.as_ref();
        let newer = Box::pin(checks::newer(client, plan, preview)).await;
        let sharers = Box::pin(checks::sharers(client, namespace, preview, &newer)).await;
        shown.newer = newer.iter().map(|name| checks::newer_text(name)).collect();
        shown.doubts.extend(shown.newer.iter().cloned().chain(sharers));
        anyhow::Ok(shown)
    };
    let mut plan = read().await?;
    let begun = Instant::now();
    while may_get_preview(&plan) && begun.elapsed() < PREVIEW_TIME {
        sleep(PREVIEW_PAUSE).await;
        plan = read().await?;
    }
    if let Some(cause) = next.filter(|_| plan.phase() == InstallPlanPhase::Complete) {
        let explain = cluster.suggest("explain {}", &[name]);
        printer::warning(&format!(
            "InstallPlan {plan_name} is complete, and there is none for the next version yet: {cause}; see `{explain}`"
        ));
    }
    let mut shown = look(&plan).await?;
    if plan.phase() == InstallPlanPhase::Failed {
        refused(&shown)?;
    }
    if let Some(settled) = settled(&plan)? {
        shown.approved = settled;
        return Ok(shown);
    }
    if !answer(&shown)? {
        return Ok(shown);
    }
    refused(&shown)?;
    for _ in 0..TRIES {
        // The answer may take long.
        plan = read().await?;
        let now = look(&plan).await?;
        // Another user approved the plan first, so nothing is left to do.
        if let Some(settled) = settled(&plan)?
            && now.hash == shown.hash
        {
            shown.approved = settled;
            return Ok(shown);
        }
        if now.hash != shown.hash {
            break;
        }
        // The steps are the same, but what is known of them is not, such as a preview that came meanwhile: show that first.
        if now.seen() != shown.seen() {
            shown = now;
            if !answer(&shown)? {
                return Ok(shown);
            }
            refused(&shown)?;
            continue;
        }
        let change = json!({
            "metadata": {
                "resourceVersion": plan.resource_version(),
                "uid": plan.uid(),
                "annotations": {labels::APPROVED_HASH: shown.hash},
            },
            "spec": {"approved": true},
        });
        let what = format!("approve InstallPlan {plan_name}");
        if writer::merge_if_same(&plans, &plan_name, &what, &change).await? {
            shown.approved = true;
            shown.is_new = true;
            return Ok(shown);
        }
    }
    bail!(
        "InstallPlan {plan_name} or its objects changed since it was shown, so it was not approved; review it again"
    );
}

/// Returns why a plan cannot be approved, with the way out: it failed, or the hold of a Subscription excludes the version that it
/// installs. `operators` are those of the namespace if the plan failed.
fn refusal(
    cluster: &Cluster,
    plan: &InstallPlan,
    subscription: &Subscription,
    operators: &[Operator<'_>],
) -> Option<String> {
    let operator = Operator {
        subscription: Some(subscription),
        plan: Some(plan),
        ..Operator::default()
    };
    if plan.phase() == InstallPlanPhase::Failed {
        let name = Some(subscription.name_any());
        let is_own = |found: &&Operator<'_>| found.subscription.map(ResourceExt::name_any) == name;
        let known = operators.iter().find(is_own).unwrap_or(&operator);
        let way_out = known.way_out(&known.plan_failed(plan)?, &cluster.commands)?;
        return Some(format!("{}; to resolve: {way_out}", failure(plan)));
    }
    let (hold, name) = (operator.held_back()?, subscription.name_any());
    let plan = plan.name_any();
    Some(format!(
        "cannot approve InstallPlan {plan}: Subscription {name} is {hold}; to allow newer versions use `{}`, or delete the plan with \
         `kubectl delete installplan {} {}`",
        cluster.suggest("unhold {}", &[&name]),
        quoted(&plan),
        cluster.commands.flags(Some(&cluster.namespace))
    ))
}

/// Returns true if OLM probably writes the preview soon: it does so right after the plan.
fn may_get_preview(plan: &InstallPlan) -> bool {
    let is_new = plan
        .creation_timestamp()
        .is_some_and(|made| now().duration_since(made.0) < SignedDuration::from_secs(10));
    plan.waits_for_approval() && is_new && !plan.annotations().contains_key(labels::PLAN_PREVIEW)
}

/// The plan that a Subscription refers to, with the reason why the bundle of its next version is not unpacked; or the plan that has
/// the name itself.
async fn find_plan(cluster: &Cluster, name: &str) -> anyhow::Result<(String, Option<String>)> {
    let (client, namespace) = (&cluster.client, cluster.namespace.as_str());
    if let Some(plan) = name.strip_prefix(PLAN_PREFIX) {
        return Ok((plan.to_owned(), None));
    }
    let Some(subscription) = get::<Subscription>(client, namespace, name).await? else {
        return match get::<InstallPlan>(client, namespace, name).await? {
            Some(_) => Ok((name.to_owned(), None)),
            None => bail!("namespace {namespace} has neither a Subscription nor an InstallPlan {name}"),
        };
    };
    let plan = subscription.status.as_ref().and_then(plan_name);
    let plan = plan.ok_or_else(|| no_plan(cluster, &subscription))?;
    Ok((plan.to_owned(), next_unread(&subscription).map(str::to_owned)))
}

/// Returns that a Subscription has no InstallPlan; if its bundle cannot be unpacked, or is not yet, with the cause and the way out.
fn no_plan(cluster: &Cluster, subscription: &Subscription) -> anyhow::Error {
    let name = subscription.name_any();
    let explain = format!("see `{}`", cluster.suggest("explain {}", &[&name]));
    let Some(cause) = next_unread(subscription) else {
        return anyhow!("Subscription {name} has no InstallPlan; {explain}");
    };
    let operator = Operator {
        subscription: Some(subscription),
        ..Operator::default()
    };
    // The Subscription alone tells the state only before it has a version.
    let is_first = operator
        .status()
        .is_some_and(|status| status.installed_csv.is_none());
    let way_out = operator.way_out(&operator.verdict(), &cluster.commands);
    let way_out = way_out.filter(|_| is_first);
    let way_out = way_out.map_or(explain, |way_out| format!("to resolve: {way_out}"));
    let cause = first_line(cause);
    Unsettled(format!(
        "Subscription {name} has no InstallPlan: {cause}; {way_out}"
    ))
    .into()
}

/// Returns that a plan failed, and why.
fn failure(plan: &InstallPlan) -> String {
    let message = plan.status.as_ref().and_then(|status| status.message.as_deref());
    format!(
        "InstallPlan {} has failed and cannot be approved: {}",
        plan.name_any(),
        message.unwrap_or_default()
    )
}

/// Returns `None` if the plan still waits for approval, else whether it is approved.
fn settled(plan: &InstallPlan) -> anyhow::Result<Option<bool>> {
    let name = plan.name_any();
    match plan.phase() {
        InstallPlanPhase::RequiresApproval if !plan.spec.approved => Ok(None),
        InstallPlanPhase::RequiresApproval | InstallPlanPhase::Installing => {
            // OLM does not run a plan whose approval is for the hash of other steps.
            let approved = approval::approved_hash(plan.annotations()).filter(|_| plan.spec.approved);
            let is_others = approved.is_some_and(|approved| approved != approval::plan_hash(plan));
            Ok((!is_others).then_some(true))
        }
        InstallPlanPhase::Failed => bail!("{}", failure(plan)),
        InstallPlanPhase::None | InstallPlanPhase::Planning => {
            bail!("InstallPlan {name} has no steps yet; try again in a moment")
        }
        _ => Ok(Some(true)),
    }
}

/// Returns the Subscriptions that own the plan and refer to it, and reasons why there may be others. All Subscriptions of a namespace
/// own each of its plans.
async fn served(
    client: &Client,
    namespace: &str,
    plan: &InstallPlan,
) -> anyhow::Result<(Vec<Subscription>, Vec<String>)> {
    let owners = plan.owner_references().iter();
    let owners: BTreeSet<&str> = owners
        .filter(|owner| owner.kind == "Subscription")
        .map(|owner| owner.name.as_str())
        .collect();
    // One list request, because users who may write plans can add any number of owner references.
    let (mut found, unreadable) = match owners.is_empty() {
        true => (Vec::new(), Vec::new()),
        false => list_readable::<Subscription>(client, Some(namespace), "").await?,
    };
    found.retain(|found| owners.contains(found.name_any().as_str()) && refers(found, plan));
    found.sort_by_key(ResourceExt::name_any);
    let unread = unreadable
        .iter()
        .filter(|found| owners.contains(found.name.as_str()));
    let mut doubts: Vec<String> = unread
        .map(|found| format!("it may belong to more Subscriptions: {}", found.text))
        .collect();
    if found.is_empty() && !owners.is_empty() && doubts.is_empty() {
        doubts.push("no Subscription refers to it".to_owned());
    }
    Ok((found, doubts))
}
