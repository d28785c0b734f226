//! Checks of the catalogs that Subscriptions name. Pure.

use super::finding::{Finding, about, at, word};
use super::observed::{Observed, Unread};
use crate::terminal::plain;

/// Checks that Subscriptions name a catalog that exists.
pub(super) fn catalogs(observed: &Observed) -> Result<Vec<Finding>, &Unread> {
    let mut findings = Vec::new();
    for subscription in &observed.operators.as_ref()?.subscriptions {
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
                let named = at(subscription);
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
