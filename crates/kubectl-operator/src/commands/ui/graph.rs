//! The upgrade graph of a package as a drawing: channels as lanes, versions from left to right. Pure.

use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, html};
use olm_resolver::Snapshot;

use crate::terminal::plain;

/// Versions that are drawn, the newest; what is installed is always among them.
const MAX_COLUMNS: usize = 40;
/// Channels that are drawn, the default first.
const MAX_LANES: usize = 40;
/// Lines of one kind that are drawn.
const MAX_EDGES: usize = 2_000;
/// Letters of a label; all of it is in the list below the drawing.
const MAX_LABEL: usize = 14;

const COLUMN: usize = 120;
const LANE: usize = 110;
const LEFT: usize = 150;
const RADIUS: usize = 9;

/// A package as it is drawn.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Graph {
    /// Channels, the default one first.
    pub lanes: Vec<Lane>,
    /// Versions, the oldest first, by ClusterServiceVersion.
    columns: Vec<String>,
    /// Versions and channels for which there is no room.
    pub left_out: usize,
    /// Where the resolver goes from what is installed: channels and ClusterServiceVersions.
    pub path: Vec<(String, String)>,
}

/// A channel.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Lane {
    pub name: String,
    pub is_default: bool,
    pub deprecated: Option<String>,
    /// The newest first.
    pub nodes: Vec<Node>,
}

/// A version in a channel.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Node {
    pub name: String,
    pub version: String,
    pub is_installed: bool,
    /// Nothing follows it.
    pub is_head: bool,
    pub deprecated: Option<String>,
    pub replaces: Option<String>,
    pub skips: Vec<String>,
    pub skip_range: Option<String>,
    /// Versions of the channel within that range.
    ranged: Vec<String>,
    /// Whether another says that nobody needs it on the way.
    pub is_skipped: bool,
}

impl Graph {
    /// The graph of a package; without lanes if the catalog has none of that name.
    pub(super) fn of(
        snapshot: &Snapshot,
        package: &str,
        installed: &BTreeSet<String>,
        path: Vec<(String, String)>,
    ) -> Self {
        let entries: Vec<_> = snapshot
            .entries()
            .iter()
            .filter(|entry| &*entry.package == package)
            .collect();
        let mut versions = BTreeMap::new();
        for entry in &entries {
            versions.insert(&*entry.name, entry.version.clone());
        }
        let mut columns: Vec<_> = versions
            .into_iter()
            .map(|(name, version)| (version, name))
            .collect();
        columns.sort();
        let older = columns.len().saturating_sub(MAX_COLUMNS);
        let on_the_way = |name: &str| installed.contains(name) || path.iter().any(|(_, step)| step == name);
        let shown = columns
            .iter()
            .enumerate()
            .filter(|(at, (_, name))| *at >= older || on_the_way(name));
        let shown: Vec<String> = shown.map(|(_, (_, name))| (*name).to_owned()).collect();
        let mut lanes: Vec<Lane> = Vec::new();
        for entry in &entries {
            if lanes.last().is_none_or(|lane| lane.name != *entry.channel) {
                let deprecation = entry.deprecation.as_ref();
                lanes.push(Lane {
                    name: entry.channel.to_string(),
                    is_default: entry.default_channel,
                    deprecated: deprecation.and_then(|told| told.channel.as_deref().map(str::to_owned)),
                    nodes: Vec::new(),
                });
            }
            let Some(lane) = lanes
                .last_mut()
                .filter(|_| shown.contains(&(*entry.name).to_owned()))
            else {
                continue;
            };
            let of_lane = entries
                .iter()
                .filter(|other| other.channel == entry.channel && other.name != entry.name);
            let in_range = of_lane.filter(|other| {
                let range = entry.skip_range.as_ref().zip(other.version.as_ref());
                range.is_some_and(|(range, version)| range.contains(version))
            });
            lane.nodes.push(Node {
                name: entry.name.to_string(),
                version: entry
                    .version
                    .as_ref()
                    .map(ToString::to_string)
                    .unwrap_or_default(),
                is_installed: installed.contains(&*entry.name),
                deprecated: entry
                    .deprecation
                    .as_ref()
                    .and_then(|told| told.bundle.as_deref().map(str::to_owned)),
                replaces: entry.replaces.as_deref().map(str::to_owned),
                skips: entry.skips.iter().map(ToString::to_string).collect(),
                skip_range: entry.skip_range.as_ref().map(ToString::to_string),
                ranged: in_range.map(|other| other.name.to_string()).collect(),
                ..Node::default()
            });
        }
        let more = lanes.len().saturating_sub(MAX_LANES);
        lanes.truncate(MAX_LANES);
        lanes.iter_mut().for_each(|lane| lane.settle(&shown));
        Self {
            lanes,
            left_out: columns.len() - shown.len() + more,
            columns: shown,
            path,
        }
    }
}

impl Lane {
    /// What each is to the others.
    fn settle(&mut self, order: &[String]) {
        let skipped: BTreeSet<String> = self
            .nodes
            .iter()
            .flat_map(|node| node.skips.iter().cloned())
            .collect();
        let replaced: BTreeSet<String> = self
            .nodes
            .iter()
            .filter_map(|node| node.replaces.clone())
            .collect();
        for node in &mut self.nodes {
            node.is_skipped = skipped.contains(&node.name);
            node.is_head = !node.is_skipped && !replaced.contains(&node.name);
        }
        self.nodes
            .sort_by_key(|node| std::cmp::Reverse(order.iter().position(|name| *name == node.name)));
    }
}

impl Node {
    /// What it is, in words.
    pub(super) fn marks(&self) -> Vec<String> {
        let marks = [
            (self.is_head, "head".to_owned()),
            (self.is_installed, "installed".to_owned()),
            (self.is_skipped, "skipped".to_owned()),
        ];
        let told = marks
            .into_iter()
            .filter(|(holds, _)| *holds)
            .map(|(_, word)| word);
        let deprecated = self
            .deprecated
            .iter()
            .map(|text| format!("deprecated: {}", plain(text)));
        told.chain(deprecated).collect()
    }
}

/// A place in the drawing.
type Point = (usize, usize);

/// The drawing.
pub(super) fn svg(graph: &Graph, label: &str) -> Markup {
    let column: BTreeMap<&str, usize> = graph
        .columns
        .iter()
        .enumerate()
        .map(|(at, name)| (name.as_str(), at))
        .collect();
    let point = |lane: usize, name: &str| -> Option<Point> {
        let at = column.get(name)?;
        graph
            .lanes
            .get(lane)?
            .nodes
            .iter()
            .find(|node| node.name == name)?;
        Some((LEFT + at * COLUMN + COLUMN / 2, lane * LANE + LANE / 2))
    };
    let (mut replaces, mut skips, mut ranges) = (Vec::new(), Vec::new(), Vec::new());
    for (lane, of_lane) in graph.lanes.iter().enumerate() {
        for node in &of_lane.nodes {
            let Some(to) = point(lane, &node.name) else {
                continue;
            };
            let from = |name: &String| point(lane, name).map(|from| (from, to));
            replaces.extend(node.replaces.iter().filter_map(from));
            skips.extend(node.skips.iter().filter_map(from));
            // Of all others it would be the same web again.
            if node.is_head {
                ranges.extend(node.ranged.iter().filter_map(from));
            }
        }
    }
    let way = graph.path.windows(2).filter_map(|pair| {
        let lane = |channel: &str| graph.lanes.iter().position(|lane| lane.name == channel);
        let to = point(lane(&pair[1].0)?, &pair[1].1)?;
        // What is installed has no channel of its own.
        let of_step = lane(&pair[0].0)
            .or_else(|| lane(&pair[1].0))
            .and_then(|lane| point(lane, &pair[0].1));
        let anywhere = || (0..graph.lanes.len()).find_map(|lane| point(lane, &pair[0].1));
        Some((of_step.or_else(anywhere)?, to))
    });
    let way: Vec<(Point, Point)> = way.collect();
    let (width, height) = (LEFT + graph.columns.len() * COLUMN, graph.lanes.len() * LANE);
    let edges = [
        ("range", -1_i32, &ranges),
        ("skips", -1, &skips),
        ("replaces", 0, &replaces),
        ("way", 1, &way),
    ];
    html! {
        svg.graph role="img" aria-label=(plain(label)) viewBox=(format!("0 0 {width} {height}")) width=(width) height=(height) {
            @for (at, lane) in graph.lanes.iter().enumerate() {
                rect.lane.odd[at % 2 == 1] x="0" y=(at * LANE) width=(width) height=(LANE) {}
                text.channel x="10" y=(at * LANE + LANE / 2) { (cut(&lane.name)) title { (plain(&lane.name)) } }
                @if lane.is_default { text.note x="10" y=(at * LANE + LANE / 2 + 20) { "default" } }
                @if lane.deprecated.is_some() { text.note.bad x="10" y=(at * LANE + LANE / 2 + 38) { "deprecated" } }
            }
            @for (class, bow, edges) in edges {
                @for (from, to) in edges.iter().take(MAX_EDGES) { path.(class) d=(curve(*from, *to, bow)) {} }
            }
            @for (at, lane) in graph.lanes.iter().enumerate() {
                @for node in &lane.nodes {
                    @if let Some((x, y)) = point(at, &node.name) {
                        g.node.head[node.is_head].installed[node.is_installed].skipped[node.is_skipped].deprecated[node.deprecated.is_some()] {
                            title { (plain(&node.name)) " " (node.marks().join(", ")) }
                            circle cx=(x) cy=(y) r=(RADIUS) {}
                            text x=(x) y=(y + RADIUS + 16) text-anchor="middle" { (cut(if node.version.is_empty() { &node.name } else { &node.version })) }
                        }
                    }
                }
            }
        }
    }
}

fn cut(text: &str) -> String {
    let text = plain(text);
    match text.char_indices().nth(MAX_LABEL) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// A line from one to the other: straight to a neighbour, else around what is between, above (-1) or below (1).
fn curve((x1, y1): Point, (x2, y2): Point, bow: i32) -> String {
    let is_neighbour = x1.abs_diff(x2) <= COLUMN && bow >= 0 || y1 != y2;
    if is_neighbour {
        return format!("M {x1} {y1} L {x2} {y2}");
    }
    let middle = x1.midpoint(x2);
    let above = y1.saturating_sub(LANE / 2);
    let y = if bow > 0 { y1 + LANE / 3 } else { above };
    format!("M {x1} {y1} Q {middle} {y} {x2} {y2}")
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use olm_registry::snapshot;

    use super::*;

    fn snapshot_of(catalog: &str) -> Snapshot {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("catalog.yaml"), catalog).unwrap();
        let (_, fetched) = snapshot::of_directory(folder.path()).unwrap();
        Snapshot::from(&fetched.snapshot)
    }

    fn bundle(version: &str) -> String {
        format!(
            "---\nschema: olm.bundle\npackage: etcd\nname: etcd.v{version}\nimage: example.com/etcd:1\nproperties:\n\
             - {{type: olm.package, value: {{packageName: etcd, version: {version}}}}}\n"
        )
    }

    fn catalog() -> String {
        let mut text = "schema: olm.package\nname: etcd\ndefaultChannel: stable\n---\n\
            schema: olm.channel\npackage: etcd\nname: stable\nentries:\n- name: etcd.v1.0.0\n- name: etcd.v1.1.0\n  replaces: etcd.v1.0.0\n\
            - name: etcd.v1.2.0\n  replaces: etcd.v1.0.0\n  skips: [etcd.v1.1.0]\n  skipRange: '<1.2.0'\n---\n\
            schema: olm.channel\npackage: etcd\nname: beta\nentries:\n- name: etcd.v1.2.0\n- name: etcd.v2.0.0\n  replaces: etcd.v1.2.0\n---\n\
            schema: olm.deprecations\npackage: etcd\nentries:\n- reference: {schema: olm.channel, name: beta}\n  message: no <b>more\n\
            - reference: {schema: olm.bundle, name: etcd.v1.1.0}\n  message: it loses keys\n"
            .to_owned();
        for version in ["1.0.0", "1.1.0", "1.2.0", "2.0.0"] {
            text += &bundle(version);
        }
        text
    }

    fn step(channel: &str, name: &str) -> (String, String) {
        (channel.to_owned(), name.to_owned())
    }

    #[test]
    fn channels_are_lanes_with_heads_and_what_is_skipped() {
        let installed = BTreeSet::from(["etcd.v1.0.0".to_owned()]);
        let path = vec![step("", "etcd.v1.0.0"), step("stable", "etcd.v1.2.0")];
        let graph = Graph::of(&snapshot_of(&catalog()), "etcd", &installed, path);
        let told = graph.lanes.iter().map(|lane| {
            let nodes = lane
                .nodes
                .iter()
                .map(|node| format!("{} [{}]", node.version, node.marks().join("; ")));
            format!(
                "{} {:?}: {}",
                lane.name,
                lane.deprecated,
                nodes.collect::<Vec<_>>().join(", ")
            )
        });
        assert_eq!(
            told.collect::<Vec<_>>(),
            [
                "stable None: 1.2.0 [head], 1.1.0 [skipped; deprecated: it loses keys], 1.0.0 [installed]",
                "beta Some(\"no <b>more\"): 2.0.0 [head], 1.2.0 []"
            ]
        );
        let drawn = svg(&graph, "graph <of> etcd").into_string();
        let count = |class: &str| drawn.matches(&format!("<path class=\"{class}\"")).count();
        assert_eq!(
            (count("replaces"), count("skips"), count("range"), count("way")),
            (3, 1, 2, 1),
            "{drawn}"
        );
        assert!(!drawn.contains("<of>") && !drawn.contains("<b>"), "{drawn}");
        assert!(
            Graph::of(&snapshot_of(&catalog()), "nope", &installed, Vec::new())
                .lanes
                .is_empty()
        );
    }

    #[test]
    fn an_endless_package_is_drawn_as_far_as_there_is_room_and_with_what_is_installed() {
        let mut text = "schema: olm.package\nname: etcd\ndefaultChannel: stable\n---\nschema: olm.channel\npackage: etcd\nname: stable\nentries:\n\
            - name: etcd.v1.0.0\n"
            .to_owned();
        let count: usize = 1000;
        for number in 1..count {
            let _ = write!(
                text,
                "- name: etcd.v1.{number}.0\n  replaces: etcd.v1.{}.0\n  skipRange: '<1.{number}.0'\n",
                number - 1
            );
        }
        for number in 0..count {
            text += &bundle(&format!("1.{number}.0"));
        }
        let installed = BTreeSet::from(["etcd.v1.3.0".to_owned()]);
        let graph = Graph::of(&snapshot_of(&text), "etcd", &installed, Vec::new());
        assert_eq!(
            (graph.lanes[0].nodes.len(), graph.left_out),
            (MAX_COLUMNS + 1, count - MAX_COLUMNS - 1)
        );
        assert!(graph.lanes[0].nodes.iter().any(|node| node.is_installed));
        let drawn = svg(&graph, "etcd").into_string();
        assert!(drawn.len() < 64 << 10, "{}", drawn.len());
    }
}
