//! `kubectl operator approve`: shows what an InstallPlan changes, asks, and approves what was shown.

mod shown;
#[cfg(test)]
mod tests;
mod text;

use std::io::{self, BufRead, IsTerminal as _, Write};

use anyhow::{Context as _, bail};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use olm_api::v1alpha1::{ClusterServiceVersion, InstallPlan, InstallPlanPhase, Subscription};
use olm_api::{approval, labels};
use serde_json::json;

use self::shown::{Served, Shown};
use crate::args::{ApproveArgs, Output};
use crate::cluster::Cluster;
use crate::{Verdict, printer};

/// What names an InstallPlan where a Subscription has the same name.
const PLAN_PREFIX: &str = "installplan/";
/// How often a plan is looked at again that changed between the look and the approval, and was the same all the same.
const TRIES: usize = 3;
/// Subscriptions of a plan that are asked whether they wait for it: a request each, and whoever may write plans may note any number.
const MAX_ASKED: usize = 200;

/// Shows the plan and approves it, if whoever asks wants that.
///
/// # Errors
/// There is no such plan, or the API server refuses.
pub(crate) async fn run(args: &ApproveArgs) -> anyhow::Result<Verdict> {
    let cluster = Cluster::connect(&args.connection).await?;
    let namespace = cluster.namespace.as_str();
    let mut answer = |shown: &Shown| {
        // With JSON what was shown and what came of it is one document, which comes last.
        if args.output == Output::Text {
            printer::data(&shown.to_string())?;
        }
        let stdin = io::stdin();
        let mut terminal = stdin.is_terminal().then(|| stdin.lock());
        let terminal = terminal.as_mut().map(|lock| lock as &mut dyn BufRead);
        is_wanted(args, shown, terminal, &mut io::stderr())
    };
    let shown = approve(&cluster.client, namespace, &args.name, &mut answer).await?;
    printer::data(&match args.output {
        Output::Text => shown.outcome_text(),
        Output::Json => format!("{}\n", serde_json::to_string_pretty(&shown)?),
    })?;
    Ok(if shown.approved {
        Verdict::Fine
    } else {
        Verdict::Unresolved
    })
}

/// Whether whoever asks wants what is shown, as the flags say, or else the answer on `terminal`, if there is one. What is talked
/// about goes to `talk`.
fn is_wanted(
    args: &ApproveArgs,
    shown: &Shown,
    terminal: Option<&mut dyn BufRead>,
    talk: &mut dyn Write,
) -> anyhow::Result<bool> {
    if args.yes {
        return Ok(true);
    }
    let Some(terminal) = terminal else {
        printer::warning("not approved: stdin is no terminal to ask on; say --yes");
        return Ok(false);
    };
    // The document comes too late for who is asked.
    if args.output == Output::Json {
        let _ = write!(talk, "{shown}");
    }
    let _ = write!(talk, "Approve InstallPlan {}? [y/N] ", text::name(&shown.plan));
    let _ = talk.flush();
    let mut line = String::new();
    terminal.read_line(&mut line).context("cannot read the answer")?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}

/// Approves the plan of this name if `answer` says so of what it is shown.
async fn approve(
    client: &Client,
    namespace: &str,
    name: &str,
    answer: &mut (dyn FnMut(&Shown) -> anyhow::Result<bool> + Send),
) -> anyhow::Result<Shown> {
    let plan_name = find_plan(client, namespace, name).await?;
    let plans: Api<InstallPlan> = Api::namespaced(client.clone(), namespace);
    let read = || async {
        let plan = plans.get(&plan_name).await;
        plan.with_context(|| format!("cannot read InstallPlan {plan_name} in namespace {namespace}"))
    };
    let look = async |plan: &InstallPlan| {
        let served = served(client, namespace, plan).await?;
        anyhow::Ok(Shown::of(plan, &installed(client, namespace).await?, served))
    };
    let mut plan = read().await?;
    let mut shown = look(&plan).await?;
    if let Some(settled) = settled(&plan)? {
        shown.approved = settled;
        return Ok(shown);
    }
    if !answer(&shown)? {
        return Ok(shown);
    }
    for _ in 0..TRIES {
        if patch(&plans, &plan, &shown.hash).await? {
            shown.approved = true;
            shown.is_new = true;
            return Ok(shown);
        }
        plan = read().await?;
        let now = look(&plan).await?;
        if settled(&plan)?.is_some() || now != shown {
            break;
        }
    }
    bail!("InstallPlan {plan_name} changed since it was shown and is not approved; look at it again");
}

/// The plan that a Subscription refers to, or that has the name itself.
async fn find_plan(client: &Client, namespace: &str, name: &str) -> anyhow::Result<String> {
    if let Some(plan) = name.strip_prefix(PLAN_PREFIX) {
        return Ok(plan.to_owned());
    }
    let subscriptions: Api<Subscription> = Api::namespaced(client.clone(), namespace);
    let found = subscriptions.get_opt(name).await;
    let found = found.with_context(|| format!("cannot read Subscription {name} in namespace {namespace}"))?;
    let Some(subscription) = found else {
        let plans: Api<InstallPlan> = Api::namespaced(client.clone(), namespace);
        let plan = plans.get_metadata_opt(name).await;
        return match plan
            .with_context(|| format!("cannot read InstallPlan {name} in namespace {namespace}"))?
        {
            Some(_) => Ok(name.to_owned()),
            None => bail!("namespace {namespace} has neither a Subscription nor an InstallPlan {name}"),
        };
    };
    let reference = subscription.status.and_then(|status| status.install_plan_ref);
    reference.and_then(|plan| plan.name).with_context(|| {
        format!("Subscription {name} has no InstallPlan; `kubectl operator explain {name} -n {namespace}` tells why")
    })
}

/// Whether there is nothing to approve, and if so whether that is because it was approved.
fn settled(plan: &InstallPlan) -> anyhow::Result<Option<bool>> {
    let name = plan.name_any();
    match plan.phase() {
        InstallPlanPhase::RequiresApproval if !plan.spec.approved => Ok(None),
        InstallPlanPhase::RequiresApproval | InstallPlanPhase::Installing => {
            // With the hash of other steps it goes on as little as without approval.
            let approved = approval::approved_hash(plan.annotations()).filter(|_| plan.spec.approved);
            let is_others = approved.is_some_and(|approved| approved != approval::plan_hash(plan));
            Ok((!is_others).then_some(true))
        }
        InstallPlanPhase::Failed => {
            let message = plan.status.as_ref().and_then(|status| status.message.as_deref());
            bail!(
                "InstallPlan {name} has failed and cannot be approved: {}",
                message.unwrap_or_default()
            )
        }
        InstallPlanPhase::None | InstallPlanPhase::Planning => {
            bail!("InstallPlan {name} has no steps yet; try again in a moment")
        }
        _ => Ok(Some(true)),
    }
}

/// Which of the Subscriptions that own a plan wait for it, or had it carried out: all of a namespace own each.
async fn served(client: &Client, namespace: &str, plan: &InstallPlan) -> anyhow::Result<Served> {
    let subscriptions: Api<Subscription> = Api::namespaced(client.clone(), namespace);
    let owners = plan.owner_references().iter();
    let owners: Vec<&str> = owners
        .filter(|owner| owner.kind == "Subscription")
        .map(|owner| owner.name.as_str())
        .collect();
    let mut names = Vec::new();
    for name in owners.iter().take(MAX_ASKED) {
        let found = subscriptions.get_opt(name).await;
        let found =
            found.with_context(|| format!("cannot read Subscription {name} in namespace {namespace}"))?;
        let reference = found.and_then(|found| found.status?.install_plan_ref);
        let refers = reference.is_some_and(|reference| match reference.uid {
            Some(uid) => Some(uid) == plan.uid(),
            None => reference.name == plan.metadata.name,
        });
        if refers {
            names.push((*name).to_owned());
        }
    }
    Ok(Served {
        names,
        owners: owners.len(),
        unasked: owners.len().saturating_sub(MAX_ASKED),
    })
}

/// ClusterServiceVersions of the namespace.
async fn installed(client: &Client, namespace: &str) -> anyhow::Result<Vec<String>> {
    let csvs: Api<ClusterServiceVersion> = Api::namespaced(client.clone(), namespace);
    let found = csvs.list_metadata(&kube::api::ListParams::default()).await;
    let found =
        found.with_context(|| format!("cannot list ClusterServiceVersions in namespace {namespace}"))?;
    Ok(found.items.iter().map(ResourceExt::name_any).collect())
}

/// Approves the plan as it was read; false when it is another by now.
#[expect(
    clippy::disallowed_methods,
    reason = "no operator: what somebody wants is written, once"
)]
async fn patch(plans: &Api<InstallPlan>, plan: &InstallPlan, hash: &str) -> anyhow::Result<bool> {
    let patch = json!({
        "metadata": {
            "resourceVersion": plan.resource_version(),
            "uid": plan.uid(),
            "annotations": {labels::APPROVED_HASH: hash},
        },
        "spec": {"approved": true},
    });
    let params = PatchParams::default();
    match plans
        .patch(&plan.name_any(), &params, &Patch::Merge(&patch))
        .await
    {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
        Err(error) => Err(error).with_context(|| format!("cannot approve InstallPlan {}", plan.name_any())),
    }
}
