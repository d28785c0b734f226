//! Plans of very large namespaces: 2,000 Subscriptions in under two seconds of processor time (`cargo test
//! --release -p olm-resolver --test scale`). Without optimisation a tenth of that number is planned, and it
//! only has to finish.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop where it is")]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use go_compat::semver::Version;
use olm_fbc::entry::{BundleEntry, EntryProperty};
use olm_resolver::plan::{Plan, Question, plan};
use olm_resolver::{Catalog, CatalogKey, InstalledCsv, Problem, Snapshot, Subscription};

const SUBSCRIPTIONS: usize = if cfg!(debug_assertions) { 200 } else { 2_000 };
const LIMIT: Duration = Duration::from_secs(if cfg!(debug_assertions) { 60 } else { 2 });

fn key() -> CatalogKey {
    CatalogKey {
        name: "cat".to_owned(),
        namespace: "ns".to_owned(),
    }
}

/// Every package provides its own API; every tenth requires that of the next, every fiftieth a missing one.
fn properties(package: usize, minor: usize) -> Vec<EntryProperty> {
    let api = |kind: usize| format!(r#"{{"group":"g","version":"v1","kind":"K{kind}"}}"#);
    let own = format!(r#"{{"packageName":"p{package}","version":"1.{minor}.0"}}"#);
    let mut properties = vec![
        EntryProperty::new("olm.package", own),
        EntryProperty::new("olm.gvk", api(package)),
    ];
    if package % 50 == 7 {
        properties.push(EntryProperty::new("olm.gvk.required", api(1_000_000)));
    } else if package % 10 == 1 {
        properties.push(EntryProperty::new("olm.gvk.required", api(package + 1)));
    }
    properties
}

/// Five versions in channel `stable`, the first three in `slow`.
fn entries(packages: usize) -> Vec<BundleEntry> {
    let places = (0..packages).flat_map(|package| {
        let stable = (0..5).map(move |minor| (package, "stable", minor));
        stable.chain((0..3).map(move |minor| (package, "slow", minor)))
    });
    let entries = places.map(|(package, channel, minor)| BundleEntry {
        name: format!("p{package}.v1.{minor}.0").into(),
        package: format!("p{package}").into(),
        channel: channel.into(),
        default_channel: channel == "stable",
        version: Some(Version::new(1, minor as u64, 0)),
        replaces: (minor > 0).then(|| format!("p{package}.v1.{}.0", minor - 1).into()),
        properties: properties(package, minor).into(),
        ..BundleEntry::default()
    });
    entries.collect()
}

/// Returns Subscriptions spread over the packages, every third with the oldest version installed.
fn question(packages: usize) -> Question {
    let mut installed: Vec<InstalledCsv> = Vec::new();
    let mut there: BTreeSet<usize> = BTreeSet::new();
    let subscriptions = (0..SUBSCRIPTIONS).map(|index| {
        let package = index % packages;
        let has = index % 3 == 0 && package % 50 != 7 && there.insert(package);
        let csv = if has {
            format!("p{package}.v1.0.0")
        } else {
            String::new()
        };
        if has {
            let properties: Vec<String> = properties(package, 0)
                .iter()
                .map(|p| format!(r#"{{"type":"{}","value":{}}}"#, p.kind, p.value))
                .collect();
            installed.push(InstalledCsv {
                name: csv.clone(),
                version: "1.0.0".to_owned(),
                phase: "Succeeded".to_owned(),
                properties: Some(format!(r#"{{"properties":[{}]}}"#, properties.join(",")).into()),
                ..InstalledCsv::default()
            });
        }
        Subscription {
            name: format!("s{index}"),
            // Some names are misspelt.
            package: if index % 40 == 5 {
                format!("p{package}x")
            } else {
                format!("p{package}")
            },
            channel: "stable".to_owned(),
            catalog: key(),
            current_csv: csv.clone(),
            installed_csv: csv,
            ..Subscription::default()
        }
    });
    let problem = problem(subscriptions, entries(packages));
    Question {
        problem: Problem { installed, ..problem },
        ..Question::default()
    }
}

/// Returns a namespace with one catalog, and nothing installed.
fn problem(
    subscriptions: impl Iterator<Item = Subscription>,
    entries: impl IntoIterator<Item = BundleEntry>,
) -> Problem {
    Problem {
        namespace: "ns".to_owned(),
        subscriptions: subscriptions.collect(),
        catalogs: vec![Catalog {
            key: key(),
            priority: 0,
            content: Ok(Arc::new(Snapshot::new(entries))),
        }],
        ..Problem::default()
    }
}

/// Returns a Subscription without an installed operator.
fn subscription(name: String, package: String) -> Subscription {
    Subscription {
        name,
        package,
        channel: "stable".to_owned(),
        catalog: key(),
        ..Subscription::default()
    }
}

/// Returns the plan of a namespace, and the processor time it took.
fn planned(problem: Problem) -> (Plan, Duration) {
    let question = Question {
        problem,
        ..Question::default()
    };
    let watch = Stopwatch::start();
    let plan = plan(&question).unwrap();
    (plan, watch.spent())
}

/// A stopwatch that pauses while other processes have the processor, if the kernel reports that (Linux).
struct Stopwatch {
    on_processor: Option<Duration>,
    started: Instant,
}

impl Stopwatch {
    fn start() -> Self {
        Self {
            on_processor: on_processor(),
            started: Instant::now(),
        }
    }

    fn spent(&self) -> Duration {
        match (self.on_processor, on_processor()) {
            (Some(before), Some(now)) => now - before,
            _ => self.started.elapsed(),
        }
    }
}

/// Returns the processor time of this thread.
fn on_processor() -> Option<Duration> {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanoseconds = told.split(' ').next()?.parse().ok()?;
    Some(Duration::from_nanos(nanoseconds))
}

fn timed(packages: usize) -> Plan {
    let question = question(packages);
    let watch = Stopwatch::start();
    let plan = plan(&question).unwrap();
    let text = plan.to_string();
    let spent = watch.spent();
    println!(
        "{SUBSCRIPTIONS} subscriptions to {packages} packages: {} installs in {} steps, {} failures, {} lines: {spent:?}",
        plan.install().count(),
        plan.steps.len(),
        plan.unsatisfiable.len(),
        text.lines().count()
    );
    assert!(spent < LIMIT, "{spent:?}");
    plan
}

#[test]
fn thousands_of_subscriptions_are_planned_in_two_seconds() {
    let plan = timed(SUBSCRIPTIONS);
    assert_eq!(plan.steps.len(), 4);
    assert!(plan.unsatisfiable.len() >= SUBSCRIPTIONS / 25);
}

/// Sixteen Subscriptions to each package can never be served, and hardly any one or two changes would help.
#[test]
fn thousands_of_conflicting_subscriptions_come_to_an_end_in_two_seconds() {
    let plan = timed(SUBSCRIPTIONS / 16);
    assert!(!plan.unsatisfiable.is_empty());
}

/// Returns Subscriptions that each need something missing, and could each follow another channel.
fn failing(count: usize) -> Problem {
    let gvk = |kind: &str, name: &str| {
        EntryProperty::new(kind, format!(r#"{{"group":"g","version":"v1","kind":"{name}"}}"#))
    };
    let entries = (0..count).flat_map(|package| {
        ["stable", "other"].map(|channel| {
            let property = match channel {
                "stable" => gvk("olm.gvk.required", "Missing"),
                _ => gvk("olm.gvk", &format!("Own{package}")),
            };
            BundleEntry {
                name: format!("p{package}-{channel}.v1").into(),
                package: format!("p{package}").into(),
                channel: channel.into(),
                default_channel: channel == "stable",
                version: Some(Version::new(1, 0, 0)),
                properties: [property].into(),
                ..BundleEntry::default()
            }
        })
    });
    let subscriptions = (0..count).map(|package| subscription(format!("s{package}"), format!("p{package}")));
    problem(subscriptions, entries)
}

#[test]
fn a_hundred_failures_have_all_their_advice() {
    let (plan, spent) = planned(failing(100));
    assert_eq!(plan.unsatisfiable.len(), 100);
    for part in &plan.unsatisfiable {
        // The other channel, and removing the Subscription.
        assert_eq!((part.advice.fixes.len(), part.advice.untried), (2, 0));
    }
    assert!(spent < LIMIT, "{spent:?}");
}

/// Each trial covers the whole namespace, and all failures share one budget.
#[test]
fn thousands_of_failures_come_to_an_end_without_advice() {
    let count = if cfg!(debug_assertions) { 1_200 } else { 2_000 };
    let (plan, spent) = planned(failing(count));
    assert_eq!(plan.unsatisfiable.len(), count);
    let told = "found no change that helps; tried 0 of 2 possible changes before the work limit";
    for part in &plan.unsatisfiable {
        assert_eq!(part.advice.lines("ns"), [told]);
    }
    assert!(spent < LIMIT, "{spent:?}");
}

/// Each of a hundred bundles has two hundred requirements that 250 bundles meet: such a problem is rejected
/// in time.
#[test]
fn requirements_with_too_many_candidates_are_not_put_together() {
    let entry = |package: &str, number: u64, properties: Vec<EntryProperty>| BundleEntry {
        name: format!("{package}.v1.{number}.0").into(),
        package: package.into(),
        channel: "stable".into(),
        default_channel: true,
        version: Some(Version::new(1, number, 0)),
        replaces: (number > 0).then(|| format!("{package}.v1.{}.0", number - 1).into()),
        properties: properties.into(),
        ..BundleEntry::default()
    };
    let own = |package: &str, number: u64| {
        EntryProperty::new(
            "olm.package",
            format!(r#"{{"packageName":"{package}","version":"1.{number}.0"}}"#),
        )
    };
    let required = |index: u64| {
        EntryProperty::new(
            "olm.package.required",
            format!(r#"{{"packageName":"q","versionRange":">=0.{index}.0"}}"#),
        )
    };
    let holders = (0..100).map(|number| {
        let properties = std::iter::once(own("a", number)).chain((0..200).map(required));
        entry("a", number, properties.collect())
    });
    let providers = (0..250).map(|number| entry("q", number, vec![own("q", number)]));
    let asked = std::iter::once(subscription("s".to_owned(), "a".to_owned()));
    let mut problem = problem(asked, holders.chain(providers));
    problem.operator_group.count = 1;
    let error = olm_resolver::resolve(&problem).unwrap_err();
    let causes: Vec<String> = std::iter::successors(Some(&error as &dyn std::error::Error), |e| e.source())
        .map(ToString::to_string)
        .collect();
    assert!(
        causes.join(": ").contains("more than 4000000 candidates"),
        "{causes:?}"
    );
}

const VERSIONS: usize = if cfg!(debug_assertions) { 2_000 } else { 20_000 };

/// Returns versions of one package, spread over the channels in order; each with these properties.
fn versions(channels: usize, properties: impl Fn(usize) -> Vec<EntryProperty>) -> Vec<BundleEntry> {
    let each = VERSIONS / channels;
    let entries = (0..channels * each).map(|number| BundleEntry {
        name: format!("p.v{number}").into(),
        package: "p".into(),
        channel: format!("c{}", number / each).into(),
        version: Some(Version::new(number as u64, 0, 0)),
        replaces: (number % each > 0).then(|| format!("p.v{}", number - 1).into()),
        properties: properties(number).into(),
        ..BundleEntry::default()
    });
    entries.collect()
}

fn own(number: usize) -> EntryProperty {
    EntryProperty::new(
        "olm.package",
        format!(r#"{{"packageName":"p","version":"{number}.0.0"}}"#),
    )
}

/// Two Subscriptions want different versions of one package, and either could have half of all of them.
#[test]
fn thousands_of_versions_that_exclude_each_other_are_explained() {
    let subscriptions = ["c0", "c1"].map(|channel| Subscription {
        channel: channel.to_owned(),
        ..subscription(format!("s-{channel}"), "p".to_owned())
    });
    let entries = versions(2, |number| vec![own(number)]);
    let (plan, spent) = planned(problem(subscriptions.into_iter(), entries));
    println!("{VERSIONS} versions that exclude each other: {spent:?}");
    let text = plan.unsatisfiable[0].tree[0].lines().join("\n");
    assert!(text.contains("only one may be installed"), "{text}");
    // A comparison of each with every other took minutes.
    assert!(spent < 5 * LIMIT, "{spent:?}");
}

/// Every version needs a different missing object, so that each takes part.
#[test]
fn thousands_of_versions_that_all_lack_something_are_explained() {
    let entries = versions(1, |number| {
        let required = format!(r#"{{"packageName":"q","versionRange":">={number}.0.0"}}"#);
        vec![own(number), EntryProperty::new("olm.package.required", required)]
    });
    let asked = Subscription {
        channel: "c0".to_owned(),
        ..subscription("s".to_owned(), "p".to_owned())
    };
    let (plan, spent) = planned(problem(std::iter::once(asked), entries));
    println!("{VERSIONS} versions that lack something: {spent:?}");
    let text = plan.unsatisfiable[0].tree[0].lines().join("\n");
    assert!(text.contains("no catalog has package q"), "{text}");
    assert!(spent < 5 * LIMIT, "{spent:?}");
}
