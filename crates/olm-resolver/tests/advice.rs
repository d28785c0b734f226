//! Properties of all advice, checked on random small namespaces by trying every change.
//!
//! 100,000 problems with `OLM_LONG=1` (best `cargo test --release -p olm-resolver --test advice`), otherwise
//! 2,000, always the same.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop where it is")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use go_compat::semver::Version;
use olm_fbc::did_you_mean::did_you_mean;
use olm_fbc::entry::{BundleEntry, EntryProperty};
use olm_resolver::{
    Advisor, Catalog, CatalogKey, Change, ChangeKind, Explanation, Failure, Fix, Harm, InstalledCsv, Problem,
    Snapshot, Subscription, resolve,
};
use olm_testing::long::count_or;
use olm_testing::properties::config;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

/// Returns the number of problems to draw.
fn cases() -> u32 {
    count_or("random problems that advice is tried on", 2_000, 100_000)
}

/// A bundle as drawn: APIs it provides and requires. Nothing ever provides API 3.
#[derive(Clone, Debug)]
struct Drawn {
    provides: Vec<usize>,
    requires: Vec<usize>,
}

fn drawn() -> impl Strategy<Value = Drawn> {
    (
        subsequence(vec![0, 1, 2], 0..=1),
        subsequence(vec![0, 1, 2, 3], 0..=1),
    )
        .prop_map(|(provides, requires)| Drawn { provides, requires })
}

/// Catalog, package and channel with their chain, the oldest first.
type Channel = (&'static str, usize, &'static str, Vec<Drawn>);

fn channels() -> impl Strategy<Value = Vec<Channel>> {
    let places: Vec<(&'static str, usize, &'static str)> = ["cat", "zoo"]
        .into_iter()
        .flat_map(|catalog| {
            (0..3).flat_map(move |package| ["stable", "beta"].map(|channel| (catalog, package, channel)))
        })
        .collect();
    subsequence(places, 2..=7).prop_flat_map(|places| {
        places
            .into_iter()
            .map(|(catalog, package, channel)| {
                prop::collection::vec(drawn(), 1..=2)
                    .prop_map(move |chain| (catalog, package, channel, chain))
            })
            .collect::<Vec<_>>()
    })
}

/// A Subscription as drawn; the last two fields are whether it has an installed operator, and whether it
/// waits for a plan.
type Asked = (usize, &'static str, &'static str, &'static str, bool, bool);

fn asked() -> impl Strategy<Value = Asked> {
    (
        // Package 3 does not exist.
        select(vec![0, 0, 1, 1, 2, 2, 3]),
        select(vec!["stable", "stable", "beta", "", "stabel"]),
        select(vec!["cat", "cat", "zoo", "czt"]),
        select(vec!["", "", "", "gone"]),
        prop::bool::weighted(0.4),
        prop::bool::weighted(0.1),
    )
}

fn api(index: usize) -> String {
    format!(r#"{{"group":"g","version":"v1","kind":"K{index}"}}"#)
}

fn name(package: usize, channel: &str, version: usize) -> String {
    format!("p{package}-{channel}.v{version}.0.0")
}

fn properties(package: usize, version: usize, bundle: &Drawn) -> Vec<EntryProperty> {
    let own = format!(r#"{{"packageName":"p{package}","version":"{version}.0.0"}}"#);
    let provided = bundle
        .provides
        .iter()
        .map(|&a| EntryProperty::new("olm.gvk", api(a)));
    let required = bundle
        .requires
        .iter()
        .map(|&a| EntryProperty::new("olm.gvk.required", api(a)));
    provided
        .chain(required)
        .chain([EntryProperty::new("olm.package", own)])
        .collect()
}

fn entries<'d>(channels: &'d [Channel], catalog: &'d str) -> impl Iterator<Item = BundleEntry> {
    channels
        .iter()
        .filter(move |(home, ..)| *home == catalog)
        .flat_map(|(_, package, channel, chain)| {
            chain.iter().enumerate().map(move |(place, bundle)| BundleEntry {
                name: name(*package, channel, place + 1).into(),
                package: format!("p{package}").into(),
                channel: (*channel).into(),
                default_channel: *channel == "stable",
                version: Some(Version::new(place as u64 + 1, 0, 0)),
                replaces: (place > 0).then(|| name(*package, channel, place).into()),
                properties: properties(*package, place + 1, bundle).into(),
                ..BundleEntry::default()
            })
        })
}

fn installed(name: &str, phase: &str, properties: &[EntryProperty]) -> InstalledCsv {
    let properties: Vec<String> = properties
        .iter()
        .map(|p| format!(r#"{{"type":"{}","value":{}}}"#, p.kind, p.value))
        .collect();
    InstalledCsv {
        name: name.to_owned(),
        version: "1.0.0".to_owned(),
        phase: phase.to_owned(),
        properties: Some(format!(r#"{{"properties":[{}]}}"#, properties.join(",")).into()),
        ..InstalledCsv::default()
    }
}

fn key(name: &str) -> CatalogKey {
    CatalogKey {
        name: name.to_owned(),
        namespace: "ns".to_owned(),
    }
}

prop_compose! {
    fn problems()(
        channels in channels(),
        asked in prop::collection::vec(asked(), 1..=4),
        free in prop::option::weighted(0.4, (select(vec![0, 9]), drawn())),
        failed in prop::bool::weighted(0.1),
        names in Just(vec!["a", "b", "c", "d"]).prop_shuffle(),
    ) -> Problem {
        let mut csvs: BTreeMap<String, InstalledCsv> = BTreeMap::new();
        let mut subscriptions = Vec::new();
        for (place, (package, channel, catalog, start, has, waits)) in asked.into_iter().enumerate() {
            let version = |number: usize| {
                let chain = channels.iter().find(|(_, p, c, _)| *p == package && *c == channel);
                chain.and_then(|(_, _, _, chain)| Some((name(package, channel, number), chain.get(number - 1)?)))
            };
            let current = version(1).filter(|_| has);
            if let Some((csv, bundle)) = &current {
                let phase = if failed { "Failed" } else { "Succeeded" };
                csvs.insert(csv.clone(), installed(csv, phase, &properties(package, 1, bundle)));
            }
            let installed_csv = current.map(|(csv, _)| csv).unwrap_or_default();
            let next = version(if installed_csv.is_empty() { 1 } else { 2 }).filter(|_| waits);
            subscriptions.push(Subscription {
                name: names[place].to_owned(),
                package: format!("p{package}"),
                channel: channel.to_owned(),
                starting_csv: start.to_owned(),
                catalog: key(catalog),
                current_csv: next.map_or_else(|| installed_csv.clone(), |(csv, _)| csv),
                installed_csv,
                hold: None,
                must_move: false,
            });
        }
        if let Some((package, free)) = free {
            csvs.insert("free.v1".to_owned(), installed("free.v1", "Succeeded", &properties(package, 1, &free)));
        }
        Problem {
            namespace: "ns".to_owned(),
            subscriptions,
            installed: csvs.into_values().collect(),
            catalogs: ["cat", "zoo"].map(|catalog| Catalog {
                key: key(catalog),
                priority: 0,
                content: Ok(Arc::new(Snapshot::new(entries(&channels, catalog)))),
            }).to_vec(),
            ..Problem::default()
        }
    }
}

/// Returns every possible change, whether or not its objects take part in the contradiction.
fn everything(problem: &Problem, explanation: &Explanation, is_unsatisfiable: bool) -> Vec<Change> {
    let mut all = Vec::new();
    for s in problem
        .subscriptions
        .iter()
        .filter(|s| explanation.subscriptions.contains(&s.name))
    {
        let change = |kind, from: Option<String>, to: Option<String>| Change {
            from,
            to,
            ..Change::new(kind, Some(&s.name))
        };
        // `free.v1` is of package 0 or 9.
        let free = problem.installed.iter().find(|csv| csv.name == "free.v1");
        let annotation = free.and_then(|csv| csv.properties.as_deref()).unwrap_or_default();
        let is_new = s.installed_csv.is_empty() && s.current_csv.is_empty();
        if is_new && annotation.contains(&format!("\"packageName\":\"{}\"", s.package)) {
            let now = Some(s.starting_csv.clone()).filter(|csv| !csv.is_empty());
            all.push(change(ChangeKind::Adopt, now, Some("free.v1".to_owned())));
        }
        let is_there = |csv: &String| problem.installed.iter().any(|installed| installed.name == *csv);
        let runs = is_there(&s.installed_csv);
        if let Some(own) = problem.snapshot(&s.catalog) {
            let channels: Vec<&str> = own.channel_names(&s.package).collect();
            if channels.is_empty() {
                // Another package would replace a running operator.
                let meant = did_you_mean(&s.package, own.package_names()).filter(|_| !runs);
                all.extend(meant.map(|to| {
                    let now = s.package.clone();
                    change(ChangeKind::Package, Some(now), Some(to.to_owned()))
                }));
            }
            all.extend(
                channels
                    .into_iter()
                    .filter(|channel| *channel != s.channel)
                    .map(|to| change(ChangeKind::Channel, Some(s.channel.clone()), Some(to.to_owned()))),
            );
        }
        for other in problem.catalogs.iter().filter(|other| other.key != s.catalog) {
            if problem
                .snapshot(&other.key)
                .unwrap()
                .channel_names(&s.package)
                .next()
                .is_some()
            {
                let (from, to) = (s.catalog.to_string(), other.key.to_string());
                all.push(change(ChangeKind::Catalog, Some(from), Some(to)));
            }
        }
        if !s.starting_csv.is_empty() && !runs {
            all.push(change(ChangeKind::AnyStart, Some(s.starting_csv.clone()), None));
        }
        all.extend(
            s.hold
                .clone()
                .filter(|_| is_unsatisfiable)
                .map(|range| change(ChangeKind::Unhold, Some(range), None)),
        );
        if !s.current_csv.is_empty() && s.current_csv != s.installed_csv && !is_there(&s.current_csv) {
            all.push(Change {
                csv: Some(s.current_csv.clone()),
                ..change(ChangeKind::Approve, None, None)
            });
        }
        if is_unsatisfiable {
            let csv = runs.then(|| s.installed_csv.clone());
            all.extend(csv.clone().map(|csv| Change {
                csv: Some(csv),
                ..change(ChangeKind::Unsubscribe, None, None)
            }));
            all.push(Change {
                csv,
                ..change(ChangeKind::RemoveSubscription, None, None)
            });
        }
    }
    if problem.installed.iter().any(|csv| csv.phase == "Failed") && !problem.operator_group.fail_forward {
        all.push(Change::new(ChangeKind::FailForward, None));
    }
    let owned = |csv: &String| problem.subscriptions.iter().any(|s| s.installed_csv == *csv);
    let free = problem
        .installed
        .iter()
        .map(|csv| &csv.name)
        .filter(|csv| !owned(csv) && is_unsatisfiable);
    all.extend(free.map(|csv| Change {
        csv: Some(csv.clone()),
        ..Change::new(ChangeKind::RemoveCsv, None)
    }));
    all
}

fn failing(problem: &Problem) -> BTreeSet<String> {
    let resolution = resolve(problem).unwrap();
    resolution
        .failures
        .into_iter()
        .flat_map(|f| f.subscriptions.into_iter().chain(f.installed))
        .collect()
}

/// Returns whether none of the concerned objects fails any more, and no others fail that did not before.
fn helps(before: &BTreeSet<String>, explanation: &Explanation, changed: &Problem) -> bool {
    failing(changed).iter().all(|name| {
        before.contains(name)
            && !explanation.subscriptions.contains(name)
            && !explanation.installed.contains(name)
    })
}

fn waits_for(subscription: &olm_resolver::Subscription, problem: &Problem) -> bool {
    let next = &subscription.current_csv;
    !next.is_empty()
        && *next != subscription.installed_csv
        && !problem.installed.iter().any(|csv| csv.name == *next)
}

/// Returns a change's harm to running operators, by the plain meaning of the words.
fn harm(problem: &Problem, change: &Change) -> Harm {
    let after = change.applied(problem);
    let edits_what_runs = change.subscription.as_ref().is_none_or(|name| {
        let subscription = problem.subscriptions.iter().find(|s| s.name == *name).unwrap();
        problem
            .installed
            .iter()
            .any(|csv| csv.name == subscription.installed_csv)
    });
    let is_approval = change.kind == ChangeKind::Approve;
    let is_there = |name: &str| problem.installed.iter().any(|csv| csv.name == *name);
    // A plan installs everything that is waited for, upgrades included.
    let upgrades = |s: &olm_resolver::Subscription| is_there(&s.installed_csv) && waits_for(s, problem);
    let edits_what_runs = edits_what_runs || (is_approval && problem.subscriptions.iter().any(upgrades));
    if !is_approval && after.installed.len() < problem.installed.len() {
        Harm::Destroys
    } else if edits_what_runs {
        Harm::Running
    } else {
        Harm::None
    }
}

fn check(problem: &Problem) -> Result<(), TestCaseError> {
    let resolution = resolve(problem).unwrap();
    let advisor = Advisor::new(problem, &resolution.failures);
    let before = failing(problem);
    let is_readable = |key: &CatalogKey| {
        let mut own = problem.catalogs.iter().filter(|catalog| catalog.key == *key);
        own.any(|catalog| catalog.content.is_ok())
    };
    // The missing content may be all that is lacking.
    let lacks_catalog = problem.subscriptions.iter().any(|s| !is_readable(&s.catalog));
    let keeps_what_runs =
        |change: &Change| change.kind != ChangeKind::Unsubscribe && change.destroys().is_none();
    for explanation in &resolution.failures {
        let advice = advisor.advise(explanation);
        let is_unsatisfiable = matches!(explanation.failure, Failure::Unsatisfiable(_));
        prop_assert_eq!(advice.untried, 0);
        for fix in &advice.fixes {
            let changed = fix.change.applied(problem);
            prop_assert!(helps(&before, explanation, &changed), "{:?} does not help", fix);
        }
        let mut singles: Vec<(Harm, Change)> = everything(problem, explanation, is_unsatisfiable)
            .into_iter()
            .filter(|change| !lacks_catalog || keeps_what_runs(change))
            .filter(|change| helps(&before, explanation, &change.applied(problem)))
            .map(|change| (harm(problem, &change), change))
            .collect();
        singles.sort();
        let found: Vec<Harm> = advice.fixes.iter().map(|fix| fix.harm).collect();
        let best: Vec<Harm> = singles.iter().map(|(harm, _)| *harm).take(5).collect();
        prop_assert_eq!(&found, &best, "{:?}\nwould do: {:?}", advice, singles);
        for Fix { change, .. } in &advice.fixes {
            let expected = (harm(problem, change), change.clone());
            prop_assert!(singles.contains(&expected), "{:?}", change);
        }
        let distinct: BTreeSet<&Change> = advice.fixes.iter().map(|fix| &fix.change).collect();
        prop_assert_eq!(distinct.len(), advice.fixes.len());
        prop_assert_eq!(
            advice.is_stuck,
            singles.is_empty() && is_unsatisfiable && !lacks_catalog
        );
    }
    Ok(())
}

/// Returns the same namespace with its Subscriptions in reverse order of names.
fn renamed(name: &str) -> String {
    let turned = ["d", "c", "b", "a"];
    ["a", "b", "c", "d"]
        .iter()
        .position(|known| *known == name)
        .map_or(name, |place| turned[place])
        .to_owned()
}

/// Returns the single changes, with the names of Subscriptions reversed if `turn`.
fn told(problem: &Problem, turn: bool) -> BTreeSet<(Vec<String>, String, bool)> {
    let resolution = resolve(problem).unwrap();
    let advisor = Advisor::new(problem, &resolution.failures);
    let mut told = BTreeSet::new();
    for failure in &resolution.failures {
        let advice = advisor.advise(failure);
        let mut names: Vec<String> = failure.subscriptions.clone();
        if turn {
            names = names.iter().map(|name| renamed(name)).collect();
            names.sort();
        }
        if advice.more > 0 {
            told.insert((names, format!("{} and more", advice.fixes.len()), true));
            continue;
        }
        for Fix { change, .. } in &advice.fixes {
            let mut text = format!("{change:?}");
            if turn && let Some(name) = &change.subscription {
                let field = |name: &str| format!("subscription: Some({name:?})");
                text = text.replace(&field(name), &field(&renamed(name)));
            }
            told.insert((names.clone(), text, advice.is_stuck));
        }
    }
    told
}

proptest! {
    #![proptest_config(config(cases()))]

    /// Each advice, applied, makes its Subscriptions resolvable, and no gentler one is left out.
    #[test]
    fn advice_helps_and_nothing_gentler_is_left_out(problem in problems()) {
        check(&problem)?;
    }
}

proptest! {
    #![proptest_config(config(cases() / 4))]

    #[test]
    fn advice_does_not_depend_on_the_alphabet(problem in problems()) {
        let mut turned = problem.clone();
        turned.subscriptions.iter_mut().for_each(|s| s.name = renamed(&s.name));
        prop_assert_eq!(told(&problem, false), told(&turned, true));
    }
}
