//! Graphs as lines for a terminal, newest version first.

use super::{ChannelGraph, Node, PackageGraph, plain};

/// Maximum width of a column.
const MAX_WIDTH: usize = 60;

/// Meaning of a coloured word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Nothing needs to be done.
    Fine,
    /// It works, but not for long.
    Warning,
    /// It does not work.
    Bad,
}

/// Returns the graph as lines. Channels with the same upgrades share their lines. `paint` colours a word.
pub fn to_text(graph: &PackageGraph, paint: &dyn Fn(Tone, &str) -> String) -> Vec<String> {
    let title = |what: &str, name: &str, more: &str, deprecated: Option<&str>| {
        let deprecated = deprecated.map(|why| {
            let word = paint(Tone::Warning, "deprecated");
            format!(", {word}: {}", plain(why))
        });
        format!("{what} {}{more}{}", plain(name), deprecated.unwrap_or_default())
    };
    let catalog = format!(" of catalog {}", plain(&graph.catalog));
    let mut lines = vec![title(
        "package",
        &graph.package,
        &catalog,
        graph.deprecated.as_deref(),
    )];
    for channels in graph.lanes() {
        lines.push(String::new());
        for channel in &channels {
            let default = if channel.is_default { " (default)" } else { "" };
            let deprecated = channel.deprecated.as_deref();
            lines.push(title("channel", &channel.name, default, deprecated));
        }
        lines.extend(channels.first().iter().flat_map(|first| of_lane(first, paint)));
    }
    lines
}

fn of_lane(channel: &ChannelGraph, paint: &dyn Fn(Tone, &str) -> String) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(broken) = &channel.broken {
        lines.push(format!("  {}: {}", paint(Tone::Bad, "broken"), plain(broken)));
    }
    let rows: Vec<(&Node, String, String)> = channel
        .nodes
        .iter()
        .rev()
        .map(|node| (node, node.version(), plain(&node.name)))
        .collect();
    let width = |lengths: &mut dyn Iterator<Item = usize>| lengths.max().unwrap_or(0).min(MAX_WIDTH);
    let versions = width(&mut rows.iter().map(|(_, version, _)| version.chars().count()));
    let names = width(&mut rows.iter().map(|(.., name)| name.chars().count()));
    for (node, version, name) in &rows {
        let (sign, details) = (sign(node), node.details(paint).join("; "));
        let line = format!("  {sign} {version:<versions$}  {name:<names$}  {details}");
        lines.push(line.trim_end().to_owned());
    }
    lines
}

/// Returns the sign at the beginning of a line; it marks special versions.
fn sign(node: &Node) -> char {
    match node {
        node if !node.installed_by.is_empty() => '@',
        node if node.is_head => '*',
        node if node.is_skipped => '-',
        _ => '|',
    }
}
