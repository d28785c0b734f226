//! `kubectl operator status`: prints operators as trees, and what each object waits for.

use std::io::Write;

use kube::Client;
use serde_json::json;

use crate::args::look::StatusArgs;
use crate::args::shared::WaitArgs;
use crate::cluster::Cluster;
use crate::command_line::CommandLine;
use crate::operators::{Gathered, Node, lines};
use crate::reader::place;
use crate::terminal::Colours;
use crate::watch::{Lasting, Outcome, Screen, Watched};
use crate::{Verdict, gather, printer};

/// Prints the operators, repeatedly with `--watch`.
///
/// # Errors
/// The cluster cannot be read, or there is no such operator.
pub(crate) async fn run(args: &StatusArgs) -> anyhow::Result<Verdict> {
    let cluster = Cluster::connect(&args.connection).await?;
    let namespace = (!args.all_namespaces).then_some(cluster.namespace.as_str());
    let name = args.name.as_deref();
    let (nodes, verdict) = if args.watch {
        let (wait, mut shown) = (&args.wait, Screen::stdout().needed());
        let watched = match args.output {
            None => watch(&cluster, namespace, name, None, wait, &mut shown).await?,
            Some(_) => watch(&cluster, namespace, name, None, wait, &mut Screen::stderr()).await?,
        };
        if let Some(text) = watched.shortfall(&args.wait) {
            printer::warning(&text);
        }
        let verdict = Verdict::when(watched.outcome == Outcome::Done);
        (watched.nodes, verdict)
    } else {
        let gathered = gathered(&cluster.client, namespace, name).await?;
        gathered.warn();
        let nodes = trees(&gathered, namespace, name, &cluster.commands)?;
        let verdict = Verdict::when(nodes.iter().all(Node::is_fine));
        (nodes, verdict)
    };
    match args.output {
        Some(format) => {
            let is_ready = verdict == Verdict::Fine;
            printer::document(&json!({"ready": is_ready, "operators": nodes}), format)?;
        }
        None if nodes.is_empty() => {
            printer::progress(&format!("No operators found in {}.", place(namespace)));
        }
        None if args.watch => {}
        None => printer::painted(lines(&nodes, Colours::of_stdout()))?,
    }
    Ok(verdict)
}

/// Watches one operator until it is ready, for commands that start something. The next upgrade may still wait for approval. It is
/// enough that the ClusterServiceVersion `wanted` is ready, even if OLM already works on a newer one. `screen` shows what changed since
/// the command used it before.
///
/// # Errors
/// The cluster cannot be read.
pub(crate) async fn follow<W: Write>(
    cluster: &Cluster,
    name: &str,
    wanted: Option<&str>,
    wait: &WaitArgs,
    screen: &mut Screen<W>,
) -> anyhow::Result<Verdict> {
    let namespace = Some(cluster.namespace.as_str());
    let mut watched = watch(cluster, namespace, Some(name), wanted, wait, screen).await?;
    // What a newer version waits for is not what the command started.
    let own = wanted.and_then(|csv| watched.nodes.iter().find_map(|node| node.version(csv)));
    if let Some(own) = own.cloned() {
        watched.nodes = vec![own];
    }
    let shortfall = shortfall_of_started(&watched, wait);
    if let Some(text) = &shortfall {
        printer::warning(text);
    }
    Ok(Verdict::when(shortfall.is_none()))
}

/// Returns what is not as expected after a command that started something. Such a command is done if operators only wait for the
/// approval of the next version.
fn shortfall_of_started(watched: &Watched, wait: &WaitArgs) -> Option<String> {
    let is_done = !watched.nodes.is_empty() && watched.nodes.iter().all(Node::is_fine_for_now);
    watched.shortfall(wait).filter(|_| !is_done)
}

/// Reads the operators until all are ready, or the ClusterServiceVersion `wanted` is, or none can become ready, or the time limit is
/// reached.
async fn watch<W: Write>(
    cluster: &Cluster,
    namespace: Option<&str>,
    name: Option<&str>,
    wanted: Option<&str>,
    wait: &WaitArgs,
    screen: &mut Screen<W>,
) -> anyhow::Result<Watched> {
    let mut stuck = Lasting::default();
    crate::watch::follow(screen, wait.limit(), async || {
        let gathered = gathered(&cluster.client, namespace, name).await?;
        let nodes = trees(&gathered, namespace, name, &cluster.commands)?;
        let found = match wanted.is_some_and(|csv| nodes.iter().any(|node| node.runs(csv))) {
            true => Outcome::Done,
            false => outcome(&nodes),
        };
        let is_stuck = found == Outcome::Over && nodes.iter().any(|node| node.is_stuck);
        let lasts = stuck.is(is_stuck);
        let outcome = match is_stuck && !lasts {
            true => Outcome::Waits,
            false => found,
        };
        Ok((nodes, outcome))
    })
    .await
}

/// A plan that requires approval may wait for any time, and so may a failure. If nothing else is pending, watching ends.
fn outcome(nodes: &[Node]) -> Outcome {
    let waiting: Vec<&Node> = nodes.iter().filter(|node| !node.is_fine()).collect();
    match waiting.iter().all(|node| node.needs_somebody()) {
        _ if waiting.is_empty() => Outcome::Done,
        true => Outcome::Over,
        false => Outcome::Waits,
    }
}

/// Reads all operators, or one with its Deployments and pods.
///
/// # Errors
/// The cluster cannot be read.
pub(super) async fn gathered(
    client: &Client,
    namespace: Option<&str>,
    name: Option<&str>,
) -> anyhow::Result<Gathered> {
    let is_wanted = |found: &str| name.is_none_or(|name| name == found);
    let gathered = gather::with_workloads(client, namespace, |operator| is_wanted(&operator.name())).await?;
    gather::require(client, namespace, &gathered).await?;
    Ok(gathered)
}

/// Returns the trees of all operators, or of one.
fn trees(
    gathered: &Gathered,
    namespace: Option<&str>,
    name: Option<&str>,
    commands: &CommandLine,
) -> anyhow::Result<Vec<Node>> {
    // A name is only given together with a namespace.
    let operators = match namespace.zip(name) {
        None => gathered.operators(),
        Some((namespace, name)) => vec![gathered.find(namespace, name, commands)?],
    };
    Ok(operators
        .iter()
        .map(|operator| gathered.tree(operator, commands))
        .collect())
}

#[cfg(test)]
mod tests;
