//! `kubectl operator explain`: why subscriptions are not served or not upgraded.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use anyhow::bail;
use olm_resolver::objects::Objects;
use olm_resolver::plan::{Question, Unsatisfiable, held};
use olm_resolver::{Advisor, Problem, Subscription, resolve};

use crate::args::ExplainArgs;
use crate::cluster::Cluster;
use crate::{Verdict, catalogs, printer};

/// Prints the explanation.
///
/// # Errors
/// The cluster cannot be read, or does not have the Subscription.
pub(crate) async fn run(args: &ExplainArgs) -> anyhow::Result<Verdict> {
    let global = &args.cluster.global_catalog_namespace;
    let cluster = Cluster::connect(&args.cluster).await?;
    let objects = Objects::of(cluster.objects(global).await?)?;
    let namespace = objects.namespace(Some(&cluster.namespace))?;
    let catalogs = catalogs::read(&cluster.client, &objects.catalog_keys(&namespace)).await;
    let question = objects.question(&namespace, global, catalogs.contents);
    let (text, verdict) = explain(&question, args.subscription.as_deref())?;
    printer::data(&text)?;
    Ok(verdict)
}

/// What is to be said of one Subscription, or of all.
fn explain(question: &Question, name: Option<&str>) -> anyhow::Result<(String, Verdict)> {
    let problem = &question.problem;
    if let Some(name) = name
        && !problem.subscriptions.iter().any(|s| s.name == name)
    {
        bail!("{}", problem.unknown_subscription(name));
    }
    let asked = |other: &str| name.is_none_or(|name| name == other);
    let resolution = resolve(problem)?;
    let mut text = String::new();
    let mut verdict = Verdict::Fine;
    let mut told: BTreeSet<String> = BTreeSet::new();
    let advisor = Advisor::new(problem, &resolution.failures);
    for failure in &resolution.failures {
        told.extend(failure.subscriptions.iter().cloned());
        if !failure.subscriptions.iter().any(|s| asked(s)) {
            continue;
        }
        verdict = Verdict::Unresolved;
        writeln!(text, "{}: cannot be resolved", failure.subscriptions.join(", "))?;
        let unsatisfiable = Unsatisfiable::new(failure, advisor.advise(failure), &BTreeSet::new());
        for line in unsatisfiable.lines(&problem.namespace) {
            writeln!(text, "  {line}")?;
        }
    }
    let held = held(problem, &told);
    for subscription in problem
        .subscriptions
        .iter()
        .filter(|s| asked(&s.name) && !told.contains(&s.name))
    {
        let next = resolution
            .solution
            .updates
            .iter()
            .find(|u| u.subscription == subscription.name);
        writeln!(
            text,
            "{}: {}",
            subscription.name,
            state_text(problem, subscription, next.map(|u| &*u.current_csv))
        )?;
        let reasons = held
            .iter()
            .filter(|held| held.subscription == subscription.name && next.is_none());
        for reason in reasons {
            writeln!(text, "  its channel offers more, but")?;
            for line in reason.lines() {
                writeln!(text, "  {line}")?;
            }
        }
    }
    for excluded in &resolution.excluded {
        writeln!(text, "set aside: {excluded}")?;
    }
    Ok((text, verdict))
}

fn state_text(problem: &Problem, subscription: &Subscription, next: Option<&str>) -> String {
    let Subscription {
        current_csv,
        installed_csv,
        ..
    } = subscription;
    if problem.awaits_plan(subscription) {
        return format!(
            "waits for {current_csv}: its InstallPlan is being carried out, or has to be approved (kubectl get installplan -n \
             {})",
            problem.namespace
        );
    }
    match next {
        Some(next) if installed_csv.is_empty() => format!("resolves to {next}"),
        Some(next) => format!("will be upgraded from {installed_csv} to {next}"),
        None if installed_csv.is_empty() => "resolves, with nothing to install".to_owned(),
        None => format!("has {installed_csv}, and gets nothing newer now"),
    }
}

#[cfg(test)]
mod tests;
