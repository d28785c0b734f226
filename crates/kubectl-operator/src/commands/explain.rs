//! `kubectl operator explain`: why subscriptions are not served or not upgraded.

use anyhow::bail;
use olm_resolver::objects::Objects;
use olm_resolver::plan::{Explained, Question};

use crate::args::ExplainArgs;
use crate::cluster::Cluster;
use crate::{Verdict, catalogs, printer};

/// Prints the explanation.
///
/// # Errors
/// The cluster cannot be read, or does not have the Subscription.
pub(crate) async fn run(args: &ExplainArgs) -> anyhow::Result<Verdict> {
    let global = &args.cluster.global_catalog_namespace;
    let cluster = Cluster::connect(&args.cluster.connection).await?;
    let objects = Objects::of(cluster.objects(global).await?)?;
    let namespace = objects.namespace(Some(&cluster.namespace))?;
    let catalogs = catalogs::read(&cluster.client, &objects.catalog_keys(&namespace)).await;
    let mut question = objects.question(&namespace, global, catalogs.contents);
    question.problem.runtime_constraints = args.cluster.runtime_constraints()?;
    let explained = explain(&question, args.subscription.as_deref())?;
    match args.output.document() {
        None => printer::data(&explained.to_string())?,
        Some(format) => printer::document(&explained, format)?,
    }
    Ok(if explained.unsatisfiable.is_empty() {
        Verdict::Fine
    } else {
        Verdict::Unresolved
    })
}

/// What is to be said of one Subscription, or of all.
fn explain(question: &Question, name: Option<&str>) -> anyhow::Result<Explained> {
    let problem = &question.problem;
    if let Some(name) = name
        && !problem.subscriptions.iter().any(|s| s.name == name)
    {
        bail!("{}", problem.unknown_subscription(name));
    }
    Ok(Explained {
        not_succeeded: question.not_succeeded_of(name),
        ..olm_resolver::plan::explain(problem, name)?
    })
}

#[cfg(test)]
mod tests;
