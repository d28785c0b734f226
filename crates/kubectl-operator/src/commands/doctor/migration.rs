//! `kubectl operator doctor --migration`: reports whether this OLM can replace upstream's, and the effects of the move. The first
//! part reads the cluster; the checks after it are pure.

mod deployments;

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt as _;
use olm_api::labels;
use olm_api::v1alpha1::{
    CatalogSource, ClusterServiceVersion, ClusterServiceVersionPhase as CsvPhase, InstallPlan,
    InstallPlanPhase, SourceType,
};

use super::cluster_parts;
use super::diagnosis::{Diagnosis, assemble};
use super::finding::{Finding, Severity, about, at, object, word};
use super::observed::Read;
use super::read::{PROGRAMS, Reader};
use crate::gather::originals;
use crate::global::{DEFAULT_NAMESPACE, arguments, is_wanted, of_catalog_operator, value};
use crate::reader::Unreadable;
use crate::terminal::plain;

/// Page size for Deployments, which are read whole and may be large.
const PAGE: u32 = 100;
/// End of the path of upstream's catalog-operator.
const CATALOG_OPERATOR: &str = "/catalog";
/// Versions of our CustomResourceDefinitions, by plural.
const VERSIONS: [(&str, &[&str]); 8] = [
    ("catalogsources", &[olm_api::v1alpha1::VERSION]),
    ("clusterserviceversions", &[olm_api::v1alpha1::VERSION]),
    ("installplans", &[olm_api::v1alpha1::VERSION]),
    ("olmconfigs", &["v1"]),
    ("operatorconditions", &["v1", "v2"]),
    ("operatorgroups", &["v1", "v1alpha2"]),
    ("operators", &["v1"]),
    ("subscriptions", &[olm_api::v1alpha1::VERSION]),
];

/// The state of the cluster that the checks need.
#[derive(Debug)]
pub(crate) struct Migration {
    programs: Read<Vec<Deployment>>,
    csvs: Read<Vec<ClusterServiceVersion>>,
    plans: Read<Vec<InstallPlan>>,
    catalogs: Read<Vec<CatalogSource>>,
    /// Versions in which objects are stored, by name of the CustomResourceDefinition.
    definitions: Read<Vec<(String, Vec<String>)>>,
    /// Changes of Deployments.
    edits: Read<Vec<Finding>>,
    /// Objects that do not match their schema.
    unreadable: Vec<Unreadable>,
}

/// Reads all namespaces.
pub(crate) async fn observe(reader: &Reader<'_>) -> Migration {
    let owned = format!("{}={}", labels::OWNER_KIND, labels::OWNER_KIND_CSV);
    let programs = reader.all(None, PROGRAMS).await;
    let csvs = reader.all::<ClusterServiceVersion>(None, &originals()).await;
    let edits = reader.projected(&owned, PAGE, |found| Some(deployments::edits(&found)));
    let edits = edits.await.map(|edits| edits.into_iter().flatten().collect());
    Migration {
        programs,
        plans: reader.all(None, "").await,
        catalogs: reader.all(None, "").await,
        definitions: reader.projected("", PAGE, stored).await,
        edits,
        csvs,
        unreadable: reader.take_unreadable(),
    }
}

fn stored(definition: CustomResourceDefinition) -> Option<(String, Vec<String>)> {
    let is_ours = definition.spec.group == olm_api::GROUP;
    let stored = definition.status.and_then(|status| status.stored_versions);
    is_ours.then_some((definition.metadata.name?, stored.unwrap_or_default()))
}

/// Runs all checks for a move.
pub(crate) fn diagnose(observed: &Migration) -> Diagnosis {
    assemble([
        ("exactly one OLM runs, and it is upstream's", programs(observed)),
        ("no flag is lost", flags(observed)),
        ("no ClusterServiceVersion is changing phase", csvs(observed)),
        ("no InstallPlan is in progress", plans(observed)),
        ("catalogs are served the same way", catalogs(observed)),
        ("stored versions of objects remain served", definitions(observed)),
        (
            "Deployments match their ClusterServiceVersions",
            observed.edits.as_ref().cloned(),
        ),
        (
            "objects match their kind's schema",
            Ok(cluster_parts::unreadable(&observed.unreadable)),
        ),
    ])
}

/// Returns the verdict, the last line of the text.
pub(crate) fn verdict(diagnosis: &Diagnosis) -> &'static str {
    let has = |severity| {
        diagnosis
            .findings
            .iter()
            .any(|finding| finding.severity == severity)
    };
    if has(Severity::Error) {
        "OLM cannot be replaced yet; fix the errors, then run this command again"
    } else if has(Severity::NotChecked) {
        "unknown whether OLM can be replaced: some checks could not run"
    } else if has(Severity::Warning) {
        "OLM can be replaced; the warnings describe what changes"
    } else {
        "OLM can be replaced; no operator is restarted"
    }
}

type Found<'a> = Result<Vec<Finding>, &'a String>;

/// Upstream's programs have other names than ours.
fn is_upstream(program: &Deployment) -> bool {
    let words = arguments(program);
    let name = words.first();
    name.is_some_and(|name| name.ends_with("/olm") || name.ends_with(CATALOG_OPERATOR))
}

fn operators(programs: &[Deployment]) -> impl Iterator<Item = &Deployment> {
    let is_operator = |program: &&Deployment| {
        let app = program.labels().get("app").map(String::as_str);
        matches!(app, Some("olm-operator" | "catalog-operator"))
    };
    programs.iter().filter(is_operator)
}

fn programs(observed: &Migration) -> Found<'_> {
    let programs = observed.programs.as_ref()?;
    let running: Vec<&Deployment> = operators(programs).filter(|program| is_wanted(program)).collect();
    let upstream: Vec<&&Deployment> = running.iter().filter(|program| is_upstream(program)).collect();
    if upstream.is_empty() {
        let cause =
            "no Deployment with label app=olm-operator or app=catalog-operator runs upstream's programs";
        let remedy = "without upstream's OLM, follow docs/guides/install-olm.md; after the move, use kubectl operator doctor -A";
        return Ok(vec![Finding::warning(
            object("Deployment", "", "olm-operator"),
            cause,
            remedy,
        )]);
    }
    let mut findings = Vec::new();
    let is_mixed = upstream.len() < running.len();
    let namespaces: BTreeSet<String> = running.iter().filter_map(|program| program.namespace()).collect();
    for program in &running {
        let at = at(*program);
        if is_mixed && !is_upstream(program) {
            let cause = "it runs beside upstream's; both overwrite each other's changes";
            let remedy = format!("kubectl scale deployment {at} --replicas 0, until upstream's are gone");
            findings.push(Finding::error(about(*program), cause, remedy));
        } else if namespaces.len() > 1 && !is_mixed {
            let cause = format!("OLM runs in {} namespaces at once", namespaces.len());
            let remedy = format!("delete the one that is not used: kubectl delete deployment {at}");
            findings.push(Finding::error(about(*program), cause, remedy));
        }
    }
    Ok(findings)
}

fn flags(observed: &Migration) -> Found<'_> {
    let programs = observed.programs.as_ref()?;
    if !operators(programs).any(is_upstream) {
        return Ok(vec![Finding::new(
            Severity::NotChecked,
            "whether no flag is lost".to_owned(),
            "no Deployment of upstream's OLM was found, so its flags are unknown",
            "if it was already deleted, compare its manifests with the values of the chart",
        )]);
    }
    let mut findings = Vec::new();
    for program in operators(programs).filter(|program| is_upstream(program)) {
        let words = arguments(program);
        let (object, namespace) = (about(program), program.namespace().unwrap_or_default());
        let namespace = word(&namespace);
        let mut warn =
            |cause: String, remedy: String| findings.push(Finding::warning(object.clone(), cause, remedy));
        if value(&words, "--watchedNamespaces").is_some_and(|list| !list.is_empty()) {
            let remedy = "remove it: OLM watches all namespaces; use OperatorGroups and RBAC to limit who may install where";
            findings.push(Finding::error(
                object,
                "--watchedNamespaces is not supported",
                remedy,
            ));
            continue;
        }
        if namespace != DEFAULT_NAMESPACE {
            warn(
                format!(
                    "OLM runs in namespace {namespace}, but the default of the chart is {DEFAULT_NAMESPACE}"
                ),
                format!(
                    "helm install … --set namespace={namespace}, so that global catalogs and the ClusterServiceVersion packageserver keep their namespace"
                ),
            );
        }
        let is_catalog_operator = words.first().is_some_and(|word| word.ends_with(CATALOG_OPERATOR));
        let global = of_catalog_operator(program).filter(|_| is_catalog_operator);
        if let Some(global) = global.filter(|global| *global != namespace) {
            warn(
                format!("catalogs for all namespaces are in namespace {}", plain(&global)),
                format!(
                    "helm install … --set catalog_namespace={}: otherwise those of {namespace} become global, and Subscriptions in other namespaces lose their catalog",
                    word(&global)
                ),
            );
        }
        for (flag, values_of_chart) in [
            ("--bundle-unpack-timeout", "value catalog.commandArgs"),
            ("--install-plan-retry-timeout", "value catalog.commandArgs"),
            ("--protectedCopiedCSVNamespaces", "value olm.commandArgs"),
            ("--tls-cert", "value olm.tlsSecret and catalog.tlsSecret"),
            (
                "--writeStatusName",
                "values writeStatusName and writeStatusNameCatalog",
            ),
            (
                "--writePackageServerStatusName",
                "value writePackageServerStatusName",
            ),
        ] {
            // Upstream's manifests have statuses without a name.
            let is_empty = |set: &str| flag.ends_with("StatusName") && (set.is_empty() || set == "\"\"");
            if let Some(set) = value(&words, flag).filter(|set| !is_empty(set)) {
                warn(
                    format!("{flag} is set to {}", plain(set)),
                    format!("set it with the chart's {values_of_chart}"),
                );
            }
        }
    }
    Ok(findings)
}

fn csvs(observed: &Migration) -> Found<'_> {
    let unsettled = observed.csvs.as_ref()?.iter().filter_map(|csv| {
        let look = format!("kubectl describe csv {}", at(csv));
        match csv.phase() {
            CsvPhase::Succeeded => None,
            CsvPhase::Failed => Some(Finding::warning(
                about(csv),
                "it is Failed: after the move you cannot tell whether the move caused it",
                format!("fix it first, or record it: {look}"),
            )),
            other => Some(Finding::error(
                about(csv),
                format!("it is {}: an operation is in progress", plain(other.as_str())),
                format!("wait until it has succeeded: {look}"),
            )),
        }
    });
    Ok(unsettled.collect())
}

fn plans(observed: &Migration) -> Found<'_> {
    let busy = observed
        .plans
        .as_ref()?
        .iter()
        .filter_map(|plan| match plan.phase() {
            InstallPlanPhase::Installing => Some(Finding::error(
                about(plan),
                "it is in progress",
                format!("wait: kubectl get installplan {} -w", at(plan)),
            )),
            InstallPlanPhase::None | InstallPlanPhase::Planning => Some(Finding::warning(
                about(plan),
                "it has no phase: upstream's OLM lost its status and never executes it",
                format!("kubectl delete installplan {}; OLM creates a new one", at(plan)),
            )),
            _ => None,
        });
    Ok(busy.collect())
}

fn catalogs(observed: &Migration) -> Found<'_> {
    let is_of_map = |catalog: &&CatalogSource| {
        matches!(
            catalog.spec.source_type,
            SourceType::ConfigMap | SourceType::Internal
        )
    };
    let changed = observed.catalogs.as_ref()?.iter().filter(is_of_map);
    let changed = changed.map(|catalog| {
        let (namespace, name) = (catalog.namespace().unwrap_or_default(), catalog.name_any());
        Finding::warning(
            about(catalog),
            "it is a ConfigMap catalog: its pod will run `opm serve-configmap`, and its Role for reading the ConfigMap is left over",
            format!(
                "after the move: kubectl delete role,rolebinding {}-configmap-reader -n {}",
                word(&name),
                word(&namespace)
            ),
        )
    });
    Ok(changed.collect())
}

fn definitions(observed: &Migration) -> Found<'_> {
    let lost = observed.definitions.as_ref()?.iter().filter_map(|(name, stored)| {
        // All of them belong to OLM's API group.
        let plural = name.split('.').next().unwrap_or_default();
        let known = VERSIONS.iter().find(|(known, _)| *known == plural);
        let known = known.map_or(&[][..], |(_, versions)| *versions);
        let lost: Vec<String> = stored
            .iter()
            .filter(|version| !known.is_empty() && !known.contains(&version.as_str()))
            .map(|version| plain(version))
            .collect();
        (!lost.is_empty()).then(|| {
            Finding::error(
                object("CustomResourceDefinition", "", name),
                format!("objects are stored in {}, a removed version: the API server rejects the new definition", lost.join(", ")),
                format!(
                    "rewrite all objects (kubectl get {0} -A -o yaml | kubectl replace -f -), then remove the version from status.storedVersions",
                    word(name)
                ),
            )
        })
    });
    Ok(lost.collect())
}

#[cfg(test)]
mod tests;
