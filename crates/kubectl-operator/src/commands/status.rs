//! `kubectl operator status`: operators as trees, with what each object waits for.

use std::io::Write;

use anyhow::bail;
use kube::Client;
use serde_json::json;

use crate::args::look::StatusArgs;
use crate::args::shared::{Format, WaitArgs};
use crate::cluster::Cluster;
use crate::operators::{Gathered, Node, flat, lines};
use crate::reader::place;
use crate::terminal::Colours;
use crate::watch::{Look, Outcome, Screen, until};
use crate::{Verdict, gather, printer};

/// Prints them, again and again if that is wanted.
///
/// # Errors
/// The cluster cannot be read, or there is no such operator.
pub(crate) async fn run(args: &StatusArgs) -> anyhow::Result<Verdict> {
    let cluster = Cluster::connect(&args.connection).await?;
    let namespace = (!args.all_namespaces).then_some(cluster.namespace.as_str());
    let document = args.output.filter(|format| *format != Format::Wide);
    let name = args.name.as_deref();
    let (client, wait) = (&cluster.client, &args.wait);
    let (nodes, verdict) = match (args.watch, document) {
        (true, None) => watch(client, namespace, name, wait, &mut Screen::stdout()).await?,
        (true, Some(_)) => watch(client, namespace, name, wait, &mut Screen::stderr()).await?,
        (false, _) => {
            let gathered = gathered(client, namespace, name).await?;
            gathered.warn();
            let nodes = trees(&gathered, namespace, name)?;
            let verdict = verdict(&nodes);
            (nodes, verdict)
        }
    };
    match document {
        Some(format) => {
            let is_ready = verdict == Verdict::Fine;
            printer::document(&json!({"ready": is_ready, "operators": nodes}), format)?;
        }
        None if nodes.is_empty() => {
            printer::progress(&format!("No operators found in {}.", place(namespace)));
        }
        None if args.watch => {}
        None => {
            printer::painted(lines(&nodes, Colours::of_stdout()).iter().map(String::as_str))?;
        }
    }
    Ok(verdict)
}

/// Whether all is well.
fn verdict(nodes: &[Node]) -> Verdict {
    match nodes.iter().all(Node::is_fine) {
        true => Verdict::Fine,
        false => Verdict::Unresolved,
    }
}

/// Watches one operator until it is ready, for commands that start something: then the next upgrade may wait for its approval.
///
/// # Errors
/// The cluster cannot be read.
pub(crate) async fn follow(
    client: &Client,
    namespace: &str,
    name: &str,
    wait: &WaitArgs,
) -> anyhow::Result<Verdict> {
    let mut screen = Screen::stdout();
    let (nodes, verdict) = watch(client, Some(namespace), Some(name), wait, &mut screen).await?;
    if verdict == Verdict::Fine || nodes.is_empty() {
        return Ok(verdict);
    }
    // What was started has come to its end.
    Ok(match nodes.iter().all(Node::is_fine_for_now) {
        true => Verdict::Fine,
        false => verdict,
    })
}

/// Looks until all is well, or cannot become so, or the time is over.
async fn watch<W: Write>(
    client: &Client,
    namespace: Option<&str>,
    name: Option<&str>,
    wait: &WaitArgs,
    screen: &mut Screen<W>,
) -> anyhow::Result<(Vec<Node>, Verdict)> {
    let mut nodes = Vec::new();
    let colours = Colours::of_stdout();
    let outcome = until(screen, wait.limit(), async || {
        nodes = read(client, namespace, name).await?;
        Ok(Look {
            tree: lines(&nodes, colours),
            flat: flat(&nodes),
            outcome: outcome(&nodes),
        })
    })
    .await?;
    let waits = nodes.iter().find(|node| !node.is_fine()).map(Node::waits_for);
    let waits = waits.unwrap_or_else(|| "no answer of the cluster".to_owned());
    match outcome {
        // What was seen before answers ended may have been well.
        Outcome::Done => return Ok((nodes, Verdict::Fine)),
        Outcome::Waits => {
            let seconds = wait.timeout.as_secs();
            printer::warning(&format!("not ready within {seconds} s: {waits}"));
        }
        Outcome::Over => printer::warning(&format!("waiting does not help: {waits}")),
    }
    Ok((nodes, Verdict::Unresolved))
}

/// A plan that waits for somebody waits as long as they like; where that is all, there is nothing to see.
fn outcome(nodes: &[Node]) -> Outcome {
    let waiting: Vec<&Node> = nodes.iter().filter(|node| !node.is_fine()).collect();
    match waiting.iter().all(|node| node.needs_somebody()) {
        _ if waiting.is_empty() => Outcome::Done,
        true => Outcome::Over,
        false => Outcome::Waits,
    }
}

async fn read(client: &Client, namespace: Option<&str>, name: Option<&str>) -> anyhow::Result<Vec<Node>> {
    trees(&gathered(client, namespace, name).await?, namespace, name)
}

async fn gathered(client: &Client, namespace: Option<&str>, name: Option<&str>) -> anyhow::Result<Gathered> {
    let is_wanted = |found: &str| name.is_none_or(|name| name == found);
    gather::with_workloads(client, namespace, |operator| is_wanted(&operator.name())).await
}

/// The trees of all operators, or of the one.
fn trees(gathered: &Gathered, namespace: Option<&str>, name: Option<&str>) -> anyhow::Result<Vec<Node>> {
    let operators = gathered.operators();
    let Some(name) = name else {
        return Ok(operators.iter().map(|operator| gathered.tree(operator)).collect());
    };
    // A Subscription comes before a ClusterServiceVersion of the same name.
    match operators.iter().find(|operator| operator.name() == name) {
        Some(operator) => Ok(vec![gathered.tree(operator)]),
        None => {
            let names: Vec<String> = operators.iter().map(|operator| operator.name()).collect();
            let known = match names.is_empty() {
                true => "it has none; `kubectl operator list -A` shows those of all namespaces".to_owned(),
                false => format!("it has {}", names.join(", ")),
            };
            bail!("{} has no operator {name}: {known}", place(namespace))
        }
    }
}

#[cfg(test)]
mod tests;
