//! `kubectl operator explain`: prints why Subscriptions are not resolved or upgraded.

use std::collections::BTreeSet;

use anyhow::{anyhow, bail};
use kube::{Resource as _, ResourceExt as _};
use olm_api::condition::subscription as condition;
use olm_api::v1alpha1::Subscription;
use olm_resolver::objects::Objects;
use olm_resolver::plan::{Explained, Question, Unsatisfiable};
use olm_resolver::{CatalogKey, Problem, ResolveError};
use serde::Deserialize as _;

use crate::args::{ClusterArgs, ExplainArgs};
use crate::catalogs::Contents;
use crate::cluster::Cluster;
use crate::operators::message_or_reason;
use crate::{Verdict, catalogs, global, printer};

/// Prints the explanation.
///
/// # Errors
/// The cluster cannot be read, or does not have the Subscription.
pub(crate) async fn run(args: &ExplainArgs) -> anyhow::Result<Verdict> {
    let cluster = Cluster::connect(&args.cluster.connection).await?;
    let read = question(&cluster, &args.cluster).await?;
    let explained = explain(&read.question, args.subscription.as_deref())?;
    let (reported, failed) = reported(&read.subscriptions, args.subscription.as_deref());
    match args.output.document() {
        None => {
            let text = format!("{explained}{reported}");
            printer::data(&text)?;
            if let Some(note) = cluster.commands.note(&text) {
                printer::progress(&note);
            }
        }
        Some(format) => printer::document(&explained, format)?,
    }
    Ok(Verdict::when(explained.unsatisfiable.is_empty() && !failed))
}

/// Returns what OLM reports of what comes after resolution, a line per condition, and whether one is a failure. Resolution does not know
/// why a plan waits or a bundle cannot be unpacked.
fn reported(subscriptions: &[Subscription], name: Option<&str>) -> (String, bool) {
    let (mut text, mut failed) = (String::new(), false);
    for subscription in subscriptions {
        let subject = subscription.name_any();
        if name.is_some_and(|name| name != subject) {
            continue;
        }
        for (type_, is_failure) in [
            (condition::BUNDLE_UNPACKING, false),
            (condition::BUNDLE_UNPACK_FAILED, true),
            (condition::INSTALL_PLAN_PENDING, false),
            (condition::INSTALL_PLAN_FAILED, true),
        ] {
            if let Some(message) = message_or_reason(subscription, type_) {
                text.push_str(&format!("{subject}: OLM reports {type_}: {message}\n"));
                failed |= is_failure;
            }
        }
    }
    (text, failed)
}

/// What was read of a namespace.
pub(super) struct Read {
    /// Its state, and the contents of its catalogs.
    pub question: Question,
    /// Its Subscriptions.
    pub subscriptions: Vec<Subscription>,
    /// Objects that are excluded, and why.
    pub notes: Vec<String>,
}

/// Reads the state of the namespace and the contents of its catalogs, and prints the notes as warnings.
///
/// # Errors
/// The cluster cannot be read.
async fn question(cluster: &Cluster, args: &ClusterArgs) -> anyhow::Result<Read> {
    let contents =
        async |keys: &BTreeSet<CatalogKey>| Box::pin(catalogs::read(&cluster.client, keys)).await.contents;
    let read = question_with(cluster, args, contents).await?;
    read.notes.iter().for_each(|text| printer::warning(text));
    Ok(read)
}

/// Does the same with given catalog contents, and prints nothing.
///
/// # Errors
/// The cluster cannot be read.
pub(super) async fn question_with(
    cluster: &Cluster,
    args: &ClusterArgs,
    contents: impl AsyncFnOnce(&BTreeSet<CatalogKey>) -> Contents,
) -> anyhow::Result<Read> {
    let given = args.global_catalog_namespace.as_deref();
    let found = global::find(&cluster.client, given, Some(&cluster.namespace)).await;
    let global = found.catalogs.as_str();
    let (objects, notes) = cluster.objects(global).await?;
    let subscriptions = objects
        .iter()
        .filter(|document| document.object["kind"] == Subscription::kind(&()).as_ref())
        .map(|document| Subscription::deserialize(&document.object))
        .collect::<Result<_, _>>()?;
    let objects = Objects::of(objects)?;
    let namespace = objects.namespace(Some(&cluster.namespace)).map_err(|error| {
        // The excluded objects may be the cause.
        let texts: Vec<String> = std::iter::once(error.to_string()).chain(notes.clone()).collect();
        anyhow!(texts.join("; "))
    })?;
    let contents = contents(&objects.catalog_keys(&namespace)).await;
    let mut question = objects.question(&namespace, global, contents);
    question.problem.runtime_constraints = args.runtime_constraints()?;
    Ok(Read {
        question,
        subscriptions,
        notes,
    })
}

/// Explains one Subscription, or all.
pub(super) fn explain(question: &Question, name: Option<&str>) -> anyhow::Result<Explained> {
    let problem = &question.problem;
    if let Some(name) = name
        && !problem.subscriptions.iter().any(|s| s.name == name)
    {
        bail!("{}", problem.unknown_subscription(name));
    }
    match question.explain(name) {
        // A reason for which nothing is resolved is an answer, too.
        Err(error @ ResolveError::OperatorGroups { .. }) => Ok(nothing_resolves(problem, name, &error)),
        explained => Ok(explained?),
    }
}

/// Reports one reason for all requested Subscriptions.
fn nothing_resolves(problem: &Problem, name: Option<&str>, error: &ResolveError) -> Explained {
    let known = problem.subscriptions.iter().map(|found| &found.name);
    let asked = known.filter(|known| name.is_none_or(|name| name == known.as_str()));
    Explained {
        namespace: problem.namespace.clone(),
        unsatisfiable: vec![Unsatisfiable {
            subscriptions: asked.cloned().collect(),
            message: error.to_string(),
            summary: error.to_string(),
            ..Unsatisfiable::default()
        }],
        ..Explained::default()
    }
}

#[cfg(test)]
mod tests;
