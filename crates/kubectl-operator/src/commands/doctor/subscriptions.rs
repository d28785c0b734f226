//! Subscriptions that nothing comes of. Pure.

use std::collections::BTreeMap;

use kube::ResourceExt as _;
use olm_api::condition::{self, subscription as types};
use olm_api::v1alpha1::Subscription;

use super::finding::{Finding, Severity, object, word};
use super::observed::{Observed, Unread};
use crate::terminal::plain;

const KIND: &str = "Subscription";

fn about(subscription: &Subscription) -> String {
    object(
        KIND,
        &subscription.namespace().unwrap_or_default(),
        &subscription.name_any(),
    )
}

/// `NAME -n NAMESPACE`
fn named(subscription: &Subscription) -> String {
    let (namespace, name) = (
        subscription.namespace().unwrap_or_default(),
        subscription.name_any(),
    );
    format!("{} -n {}", word(&name), word(&namespace))
}

/// Subscriptions name a catalog that exists.
pub(super) fn catalogs(observed: &Observed) -> Result<Vec<Finding>, &Unread> {
    let mut findings = Vec::new();
    for subscription in observed.subscriptions.as_ref()? {
        let spec = &subscription.spec;
        let key = (spec.source_namespace.clone(), spec.source.clone());
        let is_unnamed = key.0.is_empty() || key.1.is_empty();
        match observed.catalogs.get(&key) {
            Some(Ok(Some(_))) => {}
            Some(Err(cause)) => findings.push(Finding::not_checked(about(subscription), cause)),
            None if !is_unnamed => {
                findings.push(Finding::not_checked(
                    about(subscription),
                    "its catalog was not read",
                ));
            }
            Some(Ok(None)) | None => {
                let cause = match is_unnamed {
                    true => "it does not say which catalog it is of (spec.source, spec.sourceNamespace)"
                        .to_owned(),
                    false => format!("its catalog {}/{} does not exist", plain(&key.0), plain(&key.1)),
                };
                let remedy = format!(
                    "kubectl patch subscription {} --type merge -p '{{\"spec\":{{\"source\":\"CATALOG\",\"sourceNamespace\":\"{}\"}}}}'; \
                     kubectl operator catalog list -A has those there are",
                    named(subscription),
                    word(&observed.global)
                );
                findings.push(Finding::error(about(subscription), cause, remedy));
            }
        }
    }
    Ok(findings)
}

/// Catalogs offer the packages and channels that Subscriptions name.
pub(super) fn packages(observed: &Observed) -> Result<Vec<Finding>, &Unread> {
    let mut findings = Vec::new();
    for subscription in observed.subscriptions.as_ref()? {
        let spec = &subscription.spec;
        let catalog = (spec.source_namespace.clone(), spec.source.clone());
        let Some(read) = observed.packages.get(&(catalog, spec.name.clone())) else {
            continue;
        };
        let (package, catalog) = (plain(&spec.name), plain(&spec.source));
        match read {
            Err(cause) => findings.push(Finding::not_checked(about(subscription), cause)),
            Ok(None) => findings.push(Finding::error(
                about(subscription),
                format!("catalog {catalog} has no package {package}"),
                format!("correct spec.name or spec.source: kubectl edit subscription {}; kubectl operator list-available has what there is", named(subscription)),
            )),
            Ok(Some(channels)) => {
                if let Some(channel) = spec.channel().filter(|channel| !channels.contains(*channel)) {
                    findings.push(Finding::error(
                        about(subscription),
                        format!("package {package} of catalog {catalog} has no channel {}", plain(channel)),
                        format!("correct spec.channel: kubectl edit subscription {}; kubectl operator list-available {} has the channels", named(subscription), word(&spec.name)),
                    ));
                }
            }
        }
    }
    Ok(findings)
}

/// No package is subscribed to twice in a namespace.
pub(super) fn twice(observed: &Observed) -> Result<Vec<Finding>, &Unread> {
    let mut by_package: BTreeMap<(String, &str), Vec<&Subscription>> = BTreeMap::new();
    for subscription in observed.subscriptions.as_ref()? {
        let key = (
            subscription.namespace().unwrap_or_default(),
            subscription.spec.name.as_str(),
        );
        by_package.entry(key).or_default().push(subscription);
    }
    let findings = by_package
        .into_iter()
        .filter(|(_, all)| all.len() > 1)
        .flat_map(|((_, package), all)| {
            let first = all
                .first()
                .map(|first| plain(&first.name_any()))
                .unwrap_or_default();
            let others = all.into_iter().skip(1);
            others.map(move |other| {
                Finding::error(
                    about(other),
                    format!(
                        "Subscription {first} is of package {}, too; one namespace can have an operator once",
                        plain(package)
                    ),
                    format!("kubectl delete subscription {}", named(other)),
                )
            })
        });
    Ok(findings.collect())
}

/// Subscriptions resolve, and what they resolve to can be had.
pub(super) fn conditions(observed: &Observed) -> Result<Vec<Finding>, &Unread> {
    let mut findings = Vec::new();
    for subscription in observed.subscriptions.as_ref()? {
        let status = subscription.status.iter();
        let conditions = status.flat_map(|status| status.conditions.iter());
        for found in conditions.filter(|found| found.status == condition::TRUE) {
            let remedy = match found.type_.as_str() {
                types::RESOLUTION_FAILED => "kubectl operator explain",
                types::BUNDLE_UNPACK_FAILED | types::INSTALL_PLAN_FAILED => "kubectl operator status",
                types::CATALOG_SOURCES_UNHEALTHY => {
                    "kubectl operator catalog list -A; then kubectl operator status"
                }
                // Why it waits is told of the plan, but not what keeps it from being made.
                types::INSTALL_PLAN_PENDING if says_forbidden(found.message.as_deref()) => {
                    "grant the right that the message names; then kubectl operator status"
                }
                _ => continue,
            };
            let said = found
                .message
                .as_deref()
                .or(found.reason.as_deref())
                .unwrap_or_default();
            let severity = match found.type_.as_str() {
                types::CATALOG_SOURCES_UNHEALTHY => Severity::Warning,
                _ => Severity::Error,
            };
            findings.push(Finding::new(
                severity,
                about(subscription),
                format!("{}: {said}", found.type_),
                format!("{remedy} {}", named(subscription)),
            ));
        }
    }
    Ok(findings)
}

fn says_forbidden(message: Option<&str>) -> bool {
    message.is_some_and(|message| message.contains("forbidden"))
}

/// What is installed by Subscriptions is there.
pub(super) fn installed(observed: &Observed) -> Result<Vec<Finding>, &Unread> {
    observed.csvs.as_ref()?;
    let mut findings = Vec::new();
    for subscription in observed.subscriptions.as_ref()? {
        let status = subscription.status.as_ref();
        let Some(csv) = status
            .and_then(|status| status.installed_csv.clone())
            .filter(|csv| !csv.is_empty())
        else {
            continue;
        };
        let key = (subscription.namespace().unwrap_or_default(), csv);
        let own = (key.0.clone(), subscription.name_any());
        let is_still = match observed.installed_since.get(&own) {
            Some(Ok(installed)) => installed.as_ref() == Some(&key.1),
            Some(Err(_)) | None => false,
        };
        let has_csv = observed.has_csv(&key);
        let unsure = has_csv.as_ref().err().or_else(|| {
            let since = observed.installed_since.get(&own);
            since.and_then(|since| since.as_ref().err())
        });
        if let Some(cause) = unsure {
            findings.push(Finding::not_checked(about(subscription), cause));
        }
        if has_csv == Ok(false) && is_still {
            findings.push(Finding::error(
                about(subscription),
                format!(
                    "ClusterServiceVersion {} that it installed was deleted, and OLM does not bring it back",
                    plain(&key.1)
                ),
                format!(
                    "kubectl get subscription {} -o yaml, then delete it and make it again",
                    named(subscription)
                ),
            ));
        }
    }
    Ok(findings)
}
