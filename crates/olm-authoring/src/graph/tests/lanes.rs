//! Lanes that channels share, and words about the resolver's path.

use super::*;

/// Infinispan's channels are like this: each goes on where another one ends, and one branches off.
#[test]
fn a_channel_that_ends_earlier_shares_the_lane_of_the_longer_one() {
    let mut entries = chain("stable", 3, "");
    entries.extend(chain("1.x", 5, ""));
    entries.extend(chain("preview", 4, ""));
    entries.extend(chain("other", 3, ""));
    entries.push(entry("other", "2.0.0", "etcd.v1.2.0", &[], ""));
    let graph = graph_of(&entries, "");
    let lanes = |picture: &str| {
        let lines = picture.split("<path class=\"lane\" d=\"M").skip(1);
        let at: BTreeSet<&str> = lines.map(|rest| rest.split_once(',').expect("line").0).collect();
        at.len()
    };
    let picture = to_svg(&graph);
    assert_eq!(lanes(&picture), 2, "{picture}");
    assert_eq!(
        labels(&picture)[..4],
        [
            "2.0.0 etcd.v2.0.0 · head of other",
            "1.4.0 etcd.v1.4.0 · head of 1.x",
            "1.3.0 etcd.v1.3.0 · head of preview",
            "1.2.0 etcd.v1.2.0 · head of stable"
        ]
    );
    // Other upgrades, or a head that skips by a range, are drawn for themselves.
    for changed in [
        entry("preview", "1.3.0", "etcd.v1.1.0", &[], ""),
        entry("preview", "1.3.0", "etcd.v1.2.0", &[], "<1.3.0"),
    ] {
        let mut entries = entries.clone();
        let own = entries
            .iter_mut()
            .find(|own| &*own.channel == "preview" && own.name == changed.name);
        *own.expect("entry") = changed;
        assert_eq!(lanes(&to_svg(&graph_of(&entries, ""))), 3);
    }
}

#[test]
fn the_path_says_which_versions_it_passes_over_and_why() {
    let mut entries = chain("stable", 3, "");
    entries.push(entry("stable", "1.3.0", "etcd.v1.2.0", &["etcd.v1.0.0"], ""));
    entries.push(entry("stable", "1.4.0", "etcd.v1.3.0", &[], ">=1.0.0 <1.4.0"));
    let mut graph = graph_of(&entries, "etcd.v1.0.0");
    let notes = |graph: &PackageGraph| {
        let notes = graph.way_notes().into_iter();
        notes
            .map(|(name, note)| format!("{name} {note}"))
            .collect::<Vec<_>>()
    };
    assert_eq!(notes(&graph), [""; 0]);
    graph.way = steps(&[
        ("", "etcd.v1.0.0"),
        ("stable", "etcd.v1.3.0"),
        ("stable", "etcd.v1.4.0"),
    ]);
    assert_eq!(
        notes(&graph),
        [
            "etcd.v1.1.0 passed over: etcd.v1.3.0 skips etcd.v1.0.0",
            "etcd.v1.2.0 passed over: etcd.v1.3.0 skips etcd.v1.0.0",
            "etcd.v1.3.0 upgrade 1 of 2",
            "etcd.v1.4.0 upgrade 2 of 2",
        ]
    );
    graph.way = steps(&[("", "etcd.v1.0.0"), ("stable", "etcd.v1.4.0")]);
    let picture = to_svg(&graph);
    let expected = "passed over: etcd.v1.4.0 has skipRange &gt;=1.0.0 &lt;1.4.0";
    // In the label that is seen, and in the title of the circle.
    assert!(picture.matches(expected).count() >= 2, "{picture}");
    assert!(notes(&graph).contains(&"etcd.v1.4.0 upgrade 1 of 1".to_owned()));
}
