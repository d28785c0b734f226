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
        findings.extend(match observed.catalogs.get(&key) {
            _ if is_unnamed => Some(Finding::error(
                about(subscription),
                "it names no catalog (spec.source, spec.sourceNamespace)",
                format!(
                    "kubectl patch subscription {} --type merge -p \
                     '{{\"spec\":{{\"source\":\"CATALOG\",\"sourceNamespace\":\"{}\"}}}}'; list all with \
                     kubectl operator catalog list -A",
                    at(subscription),
                    word(&observed.global)
                ),
            )),
            Some(Ok(Some(_))) => None,
            Some(Ok(None)) => Some(Finding::error(
                about(subscription),
                format!("its catalog {}/{} does not exist", plain(&key.0), plain(&key.1)),
                // It names the catalogs that have the package.
                format!("kubectl operator explain {}", at(subscription)),
            )),
            Some(Err(cause)) => Some(Finding::not_checked(about(subscription), cause)),
            None => Some(Finding::not_checked(
                about(subscription),
                "its catalog was not read",
            )),
        });
    }
    Ok(findings)
}
