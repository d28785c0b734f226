//! Checks of OLM v1, where the cluster has it: by the model of `olmv1 status`. Pure.

use kube::ResourceExt as _;
use olm_api::extension_v1::{ClusterCatalog, ClusterExtension};

use super::finding::{Finding, Severity, object, word};
use super::observed::{Read, Unread};
use crate::commands::olmv1::Managed as _;
use crate::operators::Node;

/// Checks that ClusterCatalogs are served.
pub(super) fn catalogs(read: &Read<Vec<ClusterCatalog>>) -> Result<Vec<Finding>, &Unread> {
    let findings = read.as_ref()?.iter().filter_map(|catalog| {
        let (node, _) = catalog.progress();
        let remedy = format!(
            "correct what the message names: kubectl edit clustercatalog {}",
            word(&catalog.name_any())
        );
        finding(&node, remedy)
    });
    Ok(findings.collect())
}

/// Checks that ClusterExtensions are installed as their spec says.
pub(super) fn extensions(read: &Read<Vec<ClusterExtension>>) -> Result<Vec<Finding>, &Unread> {
    let findings = read.as_ref()?.iter().filter_map(|extension| {
        let (node, _) = extension.progress();
        let name = extension.name_any();
        let remedy = format!(
            "correct what the message names: kubectl edit clusterextension {0}; its revisions: kubectl operator olmv1 status {0}",
            word(&name)
        );
        finding(&node, remedy)
    });
    Ok(findings.collect())
}

/// Returns the finding of an object; `None` if it is as its spec says.
fn finding(node: &Node, remedy: String) -> Option<Finding> {
    let cause = format!("{}: {}", node.state, node.message);
    Some(Finding::new(
        Severity::of(node.mark)?,
        object(node.kind, "", &node.name),
        cause,
        remedy,
    ))
}
