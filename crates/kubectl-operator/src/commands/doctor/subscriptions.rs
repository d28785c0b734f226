//! Checks of Subscriptions that have no effect. Pure.

use kube::ResourceExt as _;
use olm_api::v1alpha1::Subscription;

use super::finding::{Finding, object, word};
use super::observed::{Observed, Unread};
use crate::operators::{deleted, recreate};
use crate::terminal::plain;

const KIND: &str = "Subscription";

fn about(subscription: &Subscription) -> String {
    object(
        KIND,
        &subscription.namespace().unwrap_or_default(),
        &subscription.name_any(),
    )
}

/// Returns `NAME -n NAMESPACE`.
fn named(subscription: &Subscription) -> String {
    let (namespace, name) = (
        subscription.namespace().unwrap_or_default(),
        subscription.name_any(),
    );
    format!("{} -n {}", word(&name), word(&namespace))
}

/// Checks that Subscriptions name a catalog that exists.
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
                let named = named(subscription);
                let (cause, remedy) = match is_unnamed {
                    true => (
                        "it names no catalog (spec.source, spec.sourceNamespace)".to_owned(),
                        format!(
                            "kubectl patch subscription {named} --type merge -p \
                             '{{\"spec\":{{\"source\":\"CATALOG\",\"sourceNamespace\":\"{}\"}}}}'; list all with \
                             kubectl operator catalog list -A",
                            word(&observed.global)
                        ),
                    ),
                    // It names the catalogs that have the package.
                    false => (
                        format!("its catalog {}/{} does not exist", plain(&key.0), plain(&key.1)),
                        format!("kubectl operator explain {named}"),
                    ),
                };
                findings.push(Finding::error(about(subscription), cause, remedy));
            }
        }
    }
    Ok(findings)
}

/// Checks that the ClusterServiceVersions that Subscriptions installed exist.
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
                deleted(&plain(&key.1)),
                recreate(&named(subscription)),
            ));
        }
    }
    Ok(findings)
}
