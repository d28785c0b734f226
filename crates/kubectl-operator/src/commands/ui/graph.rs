//! Upgrade graph of a package as a drawing: channels as lanes, versions from left to right. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use go_compat::semver::Range;
use maud::{Markup, html};
use olm_fbc::entry::BundleEntry;
use olm_resolver::Snapshot;

use crate::terminal::plain;

/// Maximum number of the newest versions, and the maximum of additional ones that are installed or on the path.
const MAX_COLUMNS: usize = 40;
/// Maximum number of channels, the default first.
const MAX_LANES: usize = 40;
/// Maximum number of lines per kind.
const MAX_EDGES: usize = 2_000;
/// Maximum letters of a label; the list below the drawing has the full text.
const MAX_LABEL: usize = 14;
/// Maximum bytes of a name, the limit for a ClusterServiceVersion.
const MAX_NAME: usize = 253;
/// Maximum number of names examined per `skips` list.
const MAX_SKIPS: usize = 10_000;
/// Maximum number of names shown per `skips` list.
pub(super) const MAX_TOLD: usize = 20;
/// Maximum bytes of a range that is evaluated.
const MAX_RANGE: usize = 4_096;

const COLUMN: usize = 120;
const LANE: usize = 110;
const LEFT: usize = 150;
const RADIUS: usize = 9;

/// A package as drawn.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Graph {
    /// Channels, the default one first.
    pub lanes: Vec<Lane>,
    /// Versions, the oldest first, by ClusterServiceVersion.
    columns: Vec<Arc<str>>,
    /// Number of versions and channels that are omitted.
    pub left_out: usize,
    /// Path of the resolver from the installed version: channels and ClusterServiceVersions.
    pub path: Vec<(String, String)>,
}

/// A channel.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Lane {
    pub name: Arc<str>,
    pub is_default: bool,
    pub deprecated: Option<Arc<str>>,
    /// Versions, the newest first.
    pub nodes: Vec<Node>,
}

/// A version in a channel. Texts are shared with the catalog, because a short catalog can repeat one text thousands of times
/// here.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Node {
    pub name: Arc<str>,
    pub version: Arc<str>,
    pub is_installed: bool,
    /// True if no drawn version replaces or skips it.
    pub is_head: bool,
    pub deprecated: Option<Arc<str>>,
    pub replaces: Option<Arc<str>>,
    /// The first [`MAX_TOLD`] names that it skips.
    pub skips: Vec<Arc<str>>,
    /// Number of further names that it skips.
    pub more_skips: usize,
    pub skip_range: Option<Arc<Range>>,
    /// Drawn versions of the channel that it skips by name.
    skipped: Vec<Arc<str>>,
    /// Drawn versions in the range of a head. Other ranges are not drawn, because they would repeat the same lines.
    ranged: Vec<Arc<str>>,
    /// True if another version skips it.
    pub is_skipped: bool,
}

/// Entries of a channel in the catalog, each name once.
struct Offered<'a> {
    name: &'a Arc<str>,
    entries: Vec<&'a BundleEntry>,
}

/// Column and version number for each drawn version.
type Columns<'a> = BTreeMap<&'a str, (usize, Arc<str>)>;

impl Graph {
    /// Returns the graph of a package; without lanes if the catalog has no such package. Anything beyond the limits is omitted
    /// before the rest is built. The publisher of a catalog can repeat a short text in thousands of places at no cost.
    pub(super) fn of(
        snapshot: &Snapshot,
        package: &str,
        installed: &BTreeSet<String>,
        path: Vec<(String, String)>,
    ) -> Self {
        let (offered, more) = offered(snapshot, package);
        let mut versions = BTreeMap::new();
        for entry in offered.iter().flat_map(|channel| &channel.entries) {
            versions
                .entry(&*entry.name)
                .or_insert((entry.version.as_ref(), &entry.name));
        }
        let steps = path.iter().map(|(_, name)| name.as_str());
        let way = installed.iter().map(String::as_str).chain(steps);
        let way = way.filter(|name| versions.contains_key(name));
        let way: BTreeSet<String> = way.take(MAX_COLUMNS).map(str::to_owned).collect();
        let on_the_way = |name: &str| way.contains(name);
        let mut order: Vec<_> = versions.into_values().collect();
        order.sort();
        let older = order.len().saturating_sub(MAX_COLUMNS);
        let shown = order
            .iter()
            .enumerate()
            .filter(|(at, (_, name))| *at >= older || on_the_way(name));
        let shown: Vec<_> = shown.map(|(_, found)| *found).collect();
        let numbered = shown.iter().enumerate().map(|(at, (version, name))| {
            let version = version.map(ToString::to_string).unwrap_or_default();
            (&***name, (at, Arc::from(version)))
        });
        let columns: Columns<'_> = numbered.collect();
        Self {
            lanes: offered
                .iter()
                .map(|channel| lane(channel, &columns, installed))
                .collect(),
            left_out: order.len() - shown.len() + more,
            columns: shown.iter().map(|(_, name)| Arc::clone(name)).collect(),
            path,
        }
    }
}

/// Returns the channels to draw, and the number of omitted channels and of invalid names.
fn offered<'a>(snapshot: &'a Snapshot, package: &str) -> (Vec<Offered<'a>>, usize) {
    let (mut offered, mut more) = (Vec::<Offered<'a>>::new(), 0);
    let (mut channel, mut names) = (None, BTreeSet::new());
    for entry in snapshot.entries() {
        let entry: &BundleEntry = entry;
        if &*entry.package != package {
            continue;
        }
        // Entries of a channel are consecutive.
        if channel != Some(&entry.channel) {
            channel = Some(&entry.channel);
            names.clear();
            match offered.len() < MAX_LANES {
                true => offered.push(Offered {
                    name: &entry.channel,
                    entries: Vec::new(),
                }),
                false => more += 1,
            }
        }
        let Some(last) = offered.last_mut().filter(|last| *last.name == entry.channel) else {
            continue;
        };
        match entry.name.len() <= MAX_NAME {
            true if names.insert(&entry.name) => last.entries.push(entry),
            true => {}
            false => more += 1,
        }
    }
    (offered, more)
}

/// Returns a channel with the edges between its drawn versions.
fn lane(channel: &Offered<'_>, columns: &Columns<'_>, installed: &BTreeSet<String>) -> Lane {
    let shown = channel.entries.iter().filter_map(|entry| {
        let (at, version) = columns.get(&*entry.name)?;
        Some((*at, version, *entry))
    });
    let mut shown: Vec<_> = shown.collect();
    shown.sort_by_key(|(at, ..)| std::cmp::Reverse(*at));
    let names: BTreeSet<&Arc<str>> = shown.iter().map(|(.., entry)| &entry.name).collect();
    let skips_of = |entry: &BundleEntry| {
        let looked_at = entry.skips.iter().take(MAX_SKIPS);
        let here = looked_at.filter(|name| names.contains(name));
        here.cloned().collect::<BTreeSet<Arc<str>>>()
    };
    let skips: Vec<_> = shown.iter().map(|(.., entry)| skips_of(entry)).collect();
    let skipped: BTreeSet<&Arc<str>> = skips.iter().flatten().collect();
    let replaced: BTreeSet<&Arc<str>> = shown
        .iter()
        .filter_map(|(.., entry)| entry.replaces.as_ref())
        .collect();
    let nodes = shown.iter().zip(&skips).map(|((_, version, entry), skips)| {
        let mut node = Node {
            name: Arc::clone(&entry.name),
            version: Arc::clone(version),
            is_installed: installed.contains(&*entry.name),
            is_skipped: skipped.contains(&entry.name),
            deprecated: entry
                .deprecation
                .as_ref()
                .and_then(|message| message.bundle.clone()),
            replaces: entry.replaces.clone(),
            skips: entry.skips.iter().take(MAX_TOLD).cloned().collect(),
            more_skips: entry.skips.len().saturating_sub(MAX_TOLD),
            skip_range: entry.skip_range.clone(),
            skipped: skips.iter().cloned().collect(),
            ..Node::default()
        };
        node.is_head = !node.is_skipped && !replaced.contains(&node.name);
        let range = node.skip_range.as_ref().filter(|_| node.is_head);
        if let Some(range) = range.filter(|range| range.as_str().len() <= MAX_RANGE) {
            let others = shown.iter().filter(|(.., other)| other.name != entry.name);
            let in_range = others.filter(|(.., other)| {
                let version = other.version.as_ref();
                version.is_some_and(|version| range.contains(version))
            });
            node.ranged = in_range.map(|(.., other)| Arc::clone(&other.name)).collect();
        }
        node
    });
    let first = channel.entries.first();
    Lane {
        name: Arc::clone(channel.name),
        is_default: first.is_some_and(|entry| entry.default_channel),
        deprecated: first.and_then(|entry| entry.deprecation.as_ref()?.channel.clone()),
        nodes: nodes.collect(),
    }
}

impl Node {
    /// Returns the properties as words.
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

/// Coordinates in the drawing.
type Point = (usize, usize);

/// Returns the drawing.
pub(super) fn svg(graph: &Graph, label: &str) -> Markup {
    let column: BTreeMap<&str, usize> = graph
        .columns
        .iter()
        .enumerate()
        .map(|(at, name)| (&**name, at))
        .collect();
    let point = |lane: usize, name: &str| -> Option<Point> {
        let at = column.get(name)?;
        graph
            .lanes
            .get(lane)?
            .nodes
            .iter()
            .find(|node| &*node.name == name)?;
        Some((LEFT + at * COLUMN + COLUMN / 2, lane * LANE + LANE / 2))
    };
    let (mut replaces, mut skips, mut ranges) = (Vec::new(), Vec::new(), Vec::new());
    for (lane, of_lane) in graph.lanes.iter().enumerate() {
        for node in &of_lane.nodes {
            let Some(to) = point(lane, &node.name) else {
                continue;
            };
            let from = |name: &Arc<str>| point(lane, name).map(|from| (from, to));
            replaces.extend(node.replaces.iter().filter_map(from));
            skips.extend(node.skipped.iter().filter_map(from));
            ranges.extend(node.ranged.iter().filter_map(from));
        }
    }
    let way = graph.path.windows(2).filter_map(|pair| {
        let lane = |channel: &str| graph.lanes.iter().position(|lane| &*lane.name == channel);
        let to = point(lane(&pair[1].0)?, &pair[1].1)?;
        // The installed version has no channel of its own in the path.
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

/// Returns a line between two points. It is straight for neighbours, else it bends above (-1) or below (1) the versions between.
fn curve((x1, y1): Point, (x2, y2): Point, bow: i32) -> String {
    let is_neighbour = x1.abs_diff(x2) <= COLUMN && bow >= 0 || y1 != y2;
    if is_neighbour {
        return format!("M {x1} {y1} L {x2} {y2}");
    }
    let middle = x1.midpoint(x2);
    let above = y1.saturating_sub(LANE / 2);
    // Below the labels.
    let y = if bow > 0 { y1 + 2 * LANE / 3 } else { above };
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

    fn entry(channel: &str, number: usize) -> BundleEntry {
        BundleEntry {
            name: format!("etcd.v1.{number}.0").into(),
            package: "etcd".into(),
            channel: channel.into(),
            version: format!("1.{number}.0").parse().ok(),
            skip_range: ">=0.0.0".parse().ok().map(Arc::new),
            ..BundleEntry::default()
        }
    }

    fn drawn(entries: impl IntoIterator<Item = BundleEntry>) -> Graph {
        Graph::of(&Snapshot::new(entries), "etcd", &BTreeSet::new(), Vec::new())
    }

    #[test]
    fn what_a_catalog_repeats_is_drawn_once() {
        let graph = drawn((0..400).map(|at| entry("stable", at % 40)));
        assert_eq!((graph.lanes[0].nodes.len(), graph.left_out), (40, 0));
        for node in &graph.lanes[0].nodes {
            assert_eq!(node.ranged.len(), 39);
        }
        let chain = (0..40_usize).map(|at| BundleEntry {
            replaces: at.checked_sub(1).map(|before| entry("stable", before).name),
            ..entry("stable", at)
        });
        let graph = drawn(chain);
        let ranged = graph.lanes[0].nodes.iter().filter(|node| !node.ranged.is_empty());
        let ranged: Vec<&str> = ranged.map(|node| &*node.name).collect();
        assert_eq!(ranged, ["etcd.v1.39.0"], "nothing is made that is not drawn");
    }

    /// Thousands of channels with a few versions each.
    #[test]
    fn channels_that_are_not_drawn_are_left_out_before_anything_is_made_of_them() {
        let channels = 500;
        let entries =
            (0..channels).flat_map(|channel| (0..3).map(move |at| entry(&format!("c{channel:03}"), at)));
        let snapshot = Snapshot::new(entries);
        let (offered, more) = offered(&snapshot, "etcd");
        assert_eq!((offered.len(), more), (MAX_LANES, channels - MAX_LANES));
        assert!(offered.iter().all(|channel| channel.entries.len() == 3));
        let graph = drawn((0..channels).map(|channel| entry(&format!("c{channel:03}"), channel)));
        assert_eq!(
            graph.columns.len(),
            MAX_COLUMNS,
            "versions are of channels that are drawn"
        );
        assert!(graph.lanes.iter().all(|lane| lane.nodes.len() == 1));
    }

    /// A list, range or name that all versions share costs the catalog nothing.
    #[test]
    fn what_is_long_is_neither_copied_nor_looked_through() {
        let many = 3 * MAX_SKIPS;
        let skips: Arc<[Arc<str>]> = (0..many).map(|at| Arc::from(format!("none.v{at}"))).collect();
        let range: Arc<Range> = Arc::new(vec![">=0.0.0"; MAX_RANGE].join(" || ").parse().unwrap());
        let long = BundleEntry {
            name: "x".repeat(MAX_NAME + 1).into(),
            ..entry("stable", 1000)
        };
        // One less than the maximum.
        let count = MAX_COLUMNS - 1;
        let entries = (0..count).map(|at| BundleEntry {
            skips: Arc::clone(&skips),
            skip_range: Some(Arc::clone(&range)),
            ..entry("stable", at)
        });
        let graph = drawn(entries.chain([long]));
        assert_eq!((graph.lanes[0].nodes.len(), graph.left_out), (count, 1));
        for node in &graph.lanes[0].nodes {
            assert_eq!((node.skips.len(), node.more_skips), (MAX_TOLD, many - MAX_TOLD));
            assert!(node.ranged.is_empty());
            assert!(Arc::ptr_eq(node.skip_range.as_ref().unwrap(), &range));
        }
    }

    #[test]
    fn however_much_is_installed_there_is_room() {
        let installed: BTreeSet<String> = (0..500).map(|at| entry("stable", at).name.to_string()).collect();
        let snapshot = Snapshot::new((0..500).map(|at| entry("stable", at)));
        let graph = Graph::of(&snapshot, "etcd", &installed, Vec::new());
        assert!(graph.columns.len() <= 2 * MAX_COLUMNS, "{}", graph.columns.len());
        assert_eq!(graph.columns.len() + graph.left_out, 500);
    }
}
