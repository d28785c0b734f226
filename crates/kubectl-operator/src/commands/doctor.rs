//! `kubectl operator doctor`: what makes OLM stick, and what mends it. It reads and writes nothing.

mod age;
mod catalogs;
mod cluster_parts;
mod csvs;
mod finding;
mod groups;
mod observed;
mod plans;
mod read;
mod serving;
mod subscriptions;
#[cfg(test)]
pub(crate) mod tests;

use anyhow::bail;
use serde::Serialize;

use self::finding::MAX_FINDINGS;
pub(crate) use self::finding::{Finding, Severity};
pub(crate) use self::observed::Observed;
use self::observed::Unread;
pub(crate) use self::read::{PROGRAMS, Reader, observe};
use crate::args::doctor::DoctorArgs;
use crate::args::shared::Format;
use crate::cluster::Cluster;
use crate::reader::place;
use crate::terminal::{Colours, Mark};
use crate::turns::in_turn;
use crate::{Verdict, printer};

/// From what was read to what is wrong, or why that cannot be said.
type Check = for<'a> fn(&'a Observed) -> Result<Vec<Finding>, &'a Unread>;

/// All checks, by what is so if they find nothing.
const CHECKS: [(&str, Check); 22] = [
    ("OLM runs", cluster_parts::programs),
    ("catalogs are ready", catalogs::ready),
    (
        "namespaces with operators have one OperatorGroup",
        groups::one_each,
    ),
    ("OperatorGroups select namespaces", groups::select_something),
    (
        "ServiceAccounts of OperatorGroups exist and have rights",
        groups::accounts,
    ),
    (
        "no two OperatorGroups provide one API in one namespace",
        groups::conflicts,
    ),
    (
        "Subscriptions name a catalog that exists",
        subscriptions::catalogs,
    ),
    (
        "catalogs offer the packages and channels of Subscriptions",
        subscriptions::packages,
    ),
    (
        "no package is subscribed to twice in a namespace",
        subscriptions::twice,
    ),
    ("Subscriptions resolve", subscriptions::conditions),
    ("what Subscriptions installed is there", subscriptions::installed),
    ("no InstallPlan waits for approval", plans::approved),
    ("no InstallPlan failed", plans::carried_out),
    ("ClusterServiceVersions have succeeded", csvs::succeeded),
    (
        "copies of ClusterServiceVersions have their originals",
        csvs::copies,
    ),
    ("webhooks reach a service that they trust", serving::webhooks),
    (
        "APIServices reach a service that they trust",
        serving::api_services,
    ),
    (
        "conversions reach a service that they trust",
        serving::conversions,
    ),
    (
        "cluster-wide rights belong to a ClusterServiceVersion",
        csvs::rights,
    ),
    ("bundles were unpacked", cluster_parts::unpacking),
    (
        "versions in which objects are stored are served",
        cluster_parts::stored_versions,
    ),
    ("objects are what their kinds should be", cluster_parts::readable),
];

/// What all checks say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Diagnosis {
    /// Whether all was checked and is fine.
    pub healthy: bool,
    /// The worst first.
    pub findings: Vec<Finding>,
    /// Checks that found nothing.
    pub fine: Vec<&'static str>,
}

/// Prints what is wrong.
///
/// # Errors
/// There is no cluster, or nothing could be checked.
pub(crate) async fn run(args: &DoctorArgs) -> anyhow::Result<Verdict> {
    let cluster = Cluster::connect(&args.connection).await?;
    let namespace = (!args.all_namespaces).then_some(cluster.namespace.as_str());
    let reads = &args.reads;
    let reader = Reader::new(&cluster.client, reads.timeout);
    let observed = Box::pin(observe(&reader, namespace, &reads.global_catalog_namespace)).await;
    let diagnosis = diagnose(&observed);
    if let Some(cause) = diagnosis.no_answer() {
        bail!("nothing could be checked: {cause}");
    }
    if observed.has_no_operators() {
        printer::progress(&format!("No operators found in {}.", place(namespace)));
    }
    match args.output.and_then(Format::document) {
        Some(format) => printer::document(&diagnosis, format)?,
        None => {
            let is_wide = args.output == Some(Format::Wide);
            let text = diagnosis.text(is_wide, Colours::of_stdout());
            printer::painted(text.lines())?;
            if let Some(note) = cluster.commands.note(&text) {
                printer::progress(&note);
            }
        }
    }
    Ok(Verdict::when(diagnosis.healthy))
}

/// Makes all checks.
pub(crate) fn diagnose(observed: &Observed) -> Diagnosis {
    let (mut findings, mut fine) = (Vec::new(), Vec::new());
    for (name, check) in CHECKS {
        let mut found = match check(observed) {
            Ok(found) if found.is_empty() => {
                fine.push(name);
                continue;
            }
            Ok(found) => found,
            Err(cause) => vec![Finding::not_checked(format!("whether {name}"), cause)],
        };
        found.sort();
        found.dedup();
        let more = found.len().saturating_sub(MAX_FINDINGS);
        let worst = found.first().map_or(Severity::NotChecked, |first| first.severity);
        // Those of the worst first, and of these not all of whose namespace comes first.
        let mut found: Vec<Finding> = found
            .chunk_by(|one, other| one.severity == other.severity)
            .flat_map(|same| in_turn(same.iter().cloned(), |finding| finding.namespace().to_owned()))
            .take(MAX_FINDINGS)
            .collect();
        found.sort();
        if more > 0 {
            found.push(Finding::new(
                worst,
                format!("{more} more"),
                "there are more of these",
                "look at one namespace at a time: -n NAMESPACE",
            ));
        }
        found.iter_mut().for_each(|finding| finding.check = name);
        findings.extend(found);
    }
    findings.sort_by_key(|finding| finding.severity);
    Diagnosis {
        healthy: findings.is_empty(),
        findings,
        fine,
    }
}

impl Diagnosis {
    /// Says every cause in other words, made of all of it and not of what is left when it is cut.
    pub(crate) fn map_causes(&mut self, mut map: impl FnMut(&str) -> String) {
        self.findings
            .iter_mut()
            .for_each(|finding| finding.map_cause(&mut map));
    }

    /// Why nothing is known, if nothing is.
    fn no_answer(&self) -> Option<&str> {
        let unknown = |finding: &Finding| finding.severity == Severity::NotChecked;
        let first = self.findings.first()?;
        (self.fine.is_empty() && self.findings.iter().all(unknown)).then_some(&first.cause)
    }

    /// Lines for people: what is wrong, below it what mends it, last how much there is of what.
    pub(crate) fn text(&self, is_wide: bool, colours: Colours) -> String {
        let mut text = String::new();
        for finding in &self.findings {
            let mark = match finding.severity {
                Severity::Error => Mark::Bad,
                Severity::Warning | Severity::NotChecked => Mark::Waits,
            };
            let word = colours.paint(mark, &format!("{:<11}", finding.severity.as_str()));
            text.push_str(&format!("{word}  {}: {}\n", finding.object, finding.cause));
            if finding.severity != Severity::NotChecked {
                text.push_str(&format!("{:<11}  → {}\n", "", finding.remedy));
            }
        }
        for name in self.fine.iter().filter(|_| is_wide) {
            let word = colours.paint(Mark::Fine, &format!("{:<11}", "fine"));
            text.push_str(&format!("{word}  {name}\n"));
        }
        let count = |severity| {
            self.findings
                .iter()
                .filter(|finding| finding.severity == severity)
                .count()
        };
        let (errors, warnings, unknown) = (
            count(Severity::Error),
            count(Severity::Warning),
            count(Severity::NotChecked),
        );
        text.push_str(&format!(
            "errors: {errors}, warnings: {warnings}, not checked: {unknown}, fine: {}\n",
            self.fine.len()
        ));
        text
    }
}
