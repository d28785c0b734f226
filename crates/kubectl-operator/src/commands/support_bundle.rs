//! `kubectl operator support-bundle`: collects the data that maintainers need in one file.

mod archive;
mod collect;
mod redact;
#[cfg(test)]
mod tests;

use anyhow::bail;

use self::archive::{Archive, is_free};
use self::collect::collect;
use crate::args::look::SupportBundleArgs;
use crate::cluster::Cluster;
use crate::commands::doctor::Reader;
use crate::{Verdict, global, printer};

/// Collects the data and writes the file.
///
/// # Errors
/// There is no cluster or no such namespace, nothing can be read, or the file cannot be written.
pub(crate) async fn run(args: &SupportBundleArgs) -> anyhow::Result<Verdict> {
    is_free(&args.output, args.force)?;
    let cluster = Cluster::connect(&args.connection).await?;
    let namespace = (!args.all_namespaces).then_some(cluster.namespace.as_str());
    let reader = Reader::new(&cluster.client, args.reads.timeout);
    if let Some(namespace) = namespace
        && reader.lacks(namespace).await
    {
        bail!("namespace {namespace} does not exist");
    }
    let mut archive = Archive::default();
    let own = global::of_args(&cluster.client, &args.reads, namespace).await;
    Box::pin(collect(&reader, namespace, &own, args.logs, &mut archive)).await;
    if let Some(cause) = archive.no_answer() {
        bail!("cannot read anything: {cause}");
    }
    let summary = archive.finish()?;
    archive.write(&args.output, args.force)?;
    summary.lines().for_each(printer::progress);
    printer::progress(redact::NOTE);
    printer::progress("Review the file before you share it.");
    printer::data(&format!("{}\n", args.output.display()))?;
    Ok(Verdict::when(archive.is_whole()))
}
