//! `kubectl operator doctor`: reports what blocks OLM, and the remedies. It only reads.

mod catalogs;
mod cluster_parts;
mod csvs;
mod diagnosis;
mod finding;
mod groups;
mod migration;
mod observed;
mod olm_v1;
mod operators;
mod read;
mod serving;
#[cfg(test)]
pub(crate) mod tests;

use anyhow::bail;

pub(crate) use self::diagnosis::Diagnosis;
use self::diagnosis::assemble;
pub(crate) use self::finding::Finding;
pub(crate) use self::observed::Observed;
use self::observed::Unread;
pub(crate) use self::read::{PROGRAMS, Reader, observe};
use crate::args::look::DoctorArgs;
use crate::args::shared::Format;
use crate::cluster::Cluster;
use crate::reader::place;
use crate::terminal::Colours;
use crate::{Verdict, global, printer};

/// A check: returns its findings, or the read that failed.
type Check = for<'a> fn(&'a Observed) -> Result<Vec<Finding>, &'a Unread>;

/// The checks of a namespace and of a cluster. The name states what is true if the check finds nothing.
const CHECKS: [(&str, Check); 14] = [
    ("OLM runs", cluster_parts::programs),
    ("catalogs are ready", catalogs::ready),
    (
        "namespaces with operators have one OperatorGroup",
        groups::one_each,
    ),
    ("OperatorGroups select namespaces", groups::select_something),
    ("ServiceAccounts of OperatorGroups exist", groups::accounts),
    ("Subscriptions name a catalog that exists", catalogs::named),
    ("operators are ready", operators::ready),
    ("operators have a Subscription", csvs::unsubscribed),
    ("no ClusterServiceVersion is held by finalizers", csvs::deleted),
    ("webhooks reach a service", serving::webhooks),
    ("APIServices reach a service", serving::api_services),
    ("conversions reach a service", serving::conversions),
    (
        "cluster-wide rights belong to a ClusterServiceVersion",
        csvs::rights,
    ),
    ("objects match their kind's schema", cluster_parts::readable),
];

/// Prints the findings.
///
/// # Errors
/// There is no cluster, or nothing could be checked.
pub(crate) async fn run(args: &DoctorArgs) -> anyhow::Result<Verdict> {
    let cluster = Cluster::connect(&args.connection).await?;
    let namespace = (!args.all_namespaces).then_some(cluster.namespace.as_str());
    let reads = &args.reads;
    let reader = Reader::new(&cluster.client, reads.timeout);
    if args.migration {
        let diagnosis = migration::diagnose(&migration::observe(&reader).await);
        return print(&diagnosis, args, &cluster, Some(migration::verdict(&diagnosis)));
    }
    let own = global::of_args(&cluster.client, reads, namespace).await;
    let observed = Box::pin(observe(&reader, namespace, &own)).await;
    let diagnosis = diagnose(&observed);
    if observed.has_no_operators() && diagnosis.no_answer().is_none() {
        if let Some(name) = namespace
            && reader.lacks(name).await
        {
            bail!("namespace {name} does not exist");
        }
        printer::progress(&format!("No operators found in {}.", place(namespace)));
    }
    print(&diagnosis, args, &cluster, None)
}

/// Prints a diagnosis, followed by the verdict if there is one.
fn print(
    diagnosis: &Diagnosis,
    args: &DoctorArgs,
    cluster: &Cluster,
    verdict: Option<&str>,
) -> anyhow::Result<Verdict> {
    if let Some(cause) = diagnosis.no_answer() {
        bail!("cannot check anything: {cause}");
    }
    match args.output.and_then(Format::document) {
        Some(format) => printer::document(diagnosis, format)?,
        None => {
            let is_wide = args.output == Some(Format::Wide);
            let mut text = diagnosis.text(is_wide, Colours::of_stdout());
            if let Some(verdict) = verdict {
                text.push_str(&format!("{verdict}\n"));
            }
            printer::painted(text.lines())?;
            if let Some(note) = cluster.commands.note(&diagnosis.remedies()) {
                printer::progress(&note);
            }
        }
    }
    Ok(Verdict::when(diagnosis.healthy))
}

/// Runs all checks.
pub(crate) fn diagnose(observed: &Observed) -> Diagnosis {
    let checks = CHECKS.map(|(name, check)| (name, check(observed)));
    let optional = [
        (
            "labels that OLM trusts are protected",
            observed.guard.as_ref().map(cluster_parts::guarded),
        ),
        (
            "ClusterCatalogs are served",
            observed.cluster_catalogs.as_ref().map(olm_v1::catalogs),
        ),
        (
            "ClusterExtensions are installed",
            observed.extensions.as_ref().map(olm_v1::extensions),
        ),
        (
            "no Operator is left over",
            (!observed.leftovers.is_empty()).then(|| Ok(csvs::leftovers(&observed.leftovers))),
        ),
    ];
    let optional = optional
        .into_iter()
        .filter_map(|(name, checked)| Some((name, checked?)));
    assemble(checks.into_iter().chain(optional))
}
