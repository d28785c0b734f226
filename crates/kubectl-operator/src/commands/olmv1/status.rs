//! `olmv1 status`: prints a ClusterExtension as a tree, with its conditions and revisions.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;
use olm_api::condition::{self, cluster_extension, cluster_object_set};
use olm_api::extension_v1::{ClusterExtension, ClusterObjectSet, LifecycleState};
use olm_api::labels;

use super::{Managed as _, find};
use crate::args::olmv1::StatusArgs;
use crate::cluster::Cluster;
use crate::operators::{Node, lines};
use crate::reader::{is_forbidden, is_unserved, list_cluster};
use crate::terminal::{Colours, Mark};
use crate::{Verdict, printer};

/// Conditions that are shown only if they are true, and never count as not ready.
const DEPRECATIONS: [&str; 4] = [
    cluster_extension::DEPRECATED,
    cluster_extension::PACKAGE_DEPRECATED,
    cluster_extension::CHANNEL_DEPRECATED,
    cluster_extension::BUNDLE_DEPRECATED,
];

/// Prints the tree of an extension.
///
/// # Errors
/// There is no such extension, or it cannot be read.
pub(super) async fn run(args: &StatusArgs) -> anyhow::Result<Verdict> {
    let cluster = Cluster::connect(&args.connection).await?;
    let node = tree(&cluster, &args.name).await?;
    let verdict = Verdict::when(node.is_fine());
    match args.output {
        Some(format) => printer::document(&node, format)?,
        None => printer::painted(lines(&[node], Colours::of_stdout()))?,
    }
    Ok(verdict)
}

/// Returns the tree of an extension.
///
/// # Errors
/// There is no such extension, or it cannot be read.
pub(super) async fn tree(cluster: &Cluster, name: &str) -> anyhow::Result<Node> {
    let extension = find::<ClusterExtension>(cluster, name).await?;
    let (mut node, _) = extension.progress();
    node.objects = condition_nodes(extension.conditions());
    let selector = format!("{}={name}", labels::EXTENSION_OWNER_NAME);
    match list_cluster::<ClusterObjectSet>(&cluster.client, &selector).await {
        Ok(mut sets) => {
            sets.sort_by_key(|set| std::cmp::Reverse(set.spec.revision));
            node.objects.extend(sets.iter().map(revision_node));
        }
        // OLM v1 without this kind installs in another way.
        Err(error) if is_unserved(&error) => {}
        Err(error) if is_forbidden(&error) => node.notes.push(format!("{error:#}; revisions are unknown")),
        Err(error) => return Err(error),
    }
    Ok(node)
}

fn revision_node(set: &ClusterObjectSet) -> Node {
    let is_archived = set.spec.lifecycle_state == LifecycleState::Archived;
    let conditions = set.conditions();
    let version = set.annotations().get(labels::EXTENSION_BUNDLE_VERSION);
    let version = version.map(|version| format!(", version {version}"));
    let state = format!(
        "{}, revision {}{}",
        set.spec.lifecycle_state,
        set.spec.revision,
        version.unwrap_or_default()
    );
    if is_archived {
        return Node::new("ClusterObjectSet", &set.name_any(), Mark::Fine, &state);
    }
    let objects = condition_nodes(conditions);
    let marks = objects.iter().map(|object| object.mark);
    let mark = match conditions.is_empty() {
        true => Mark::Waits,
        false => marks.max().unwrap_or(Mark::Fine),
    };
    let mut node = Node::new("ClusterObjectSet", &set.name_any(), mark, &state);
    if conditions.is_empty() {
        node.message = "waiting for operator-controller to process it".to_owned();
    }
    node.objects = objects;
    node
}

fn condition_nodes(conditions: &[Condition]) -> Vec<Node> {
    let is_shown =
        |found: &&Condition| found.status == condition::TRUE || !DEPRECATIONS.contains(&found.type_.as_str());
    let shown = conditions.iter().filter(is_shown);
    shown.map(condition_node).collect()
}

fn condition_node(found: &Condition) -> Node {
    let is_true = found.status == condition::TRUE;
    let mark = match found.type_.as_str() {
        cluster_extension::INSTALLED | cluster_object_set::AVAILABLE if !is_true => Mark::Waits,
        cluster_extension::PROGRESSING if !is_true => Mark::Bad,
        cluster_extension::PROGRESSING if found.reason != cluster_extension::SUCCEEDED => Mark::Waits,
        _ => Mark::Fine,
    };
    let state = format!("{} ({})", found.status, found.reason);
    let mut node = Node::new("Condition", &found.type_, mark, &state);
    node.message.clone_from(&found.message);
    node
}
