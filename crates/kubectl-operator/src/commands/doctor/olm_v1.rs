//! Checks of OLM v1, where the cluster has it: by the model of `olmv1 status`. Pure.

use olm_api::extension_v1::{ClusterCatalog, ClusterExtension};

use super::finding::{Finding, Severity, object, word};
use super::observed::{Read, Unread};
use crate::commands::olmv1::Managed;

/// Checks that ClusterCatalogs are served.
pub(super) fn catalogs(read: &Read<Vec<ClusterCatalog>>) -> Result<Vec<Finding>, &Unread> {
    check(read, |name| {
        format!("correct what the message names: kubectl edit clustercatalog {name}")
    })
}

/// Checks that ClusterExtensions are installed as their spec says.
pub(super) fn extensions(read: &Read<Vec<ClusterExtension>>) -> Result<Vec<Finding>, &Unread> {
    check(read, |name| {
        format!(
            "correct what the message names: kubectl edit clusterextension {name}; its revisions: kubectl operator olmv1 status {name}"
        )
    })
}

/// Returns a finding for each object that is not as its spec says.
fn check<K: Managed>(read: &Read<Vec<K>>, remedy: impl Fn(&str) -> String) -> Result<Vec<Finding>, &Unread> {
    let findings = read.as_ref()?.iter().filter_map(|found| {
        let (node, _) = found.progress();
        Some(Finding::new(
            Severity::of(node.mark)?,
            object(node.kind, "", &node.name),
            format!("{}: {}", node.state, node.message),
            remedy(word(&node.name)),
        ))
    });
    Ok(findings.collect())
}
