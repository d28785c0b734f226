//! Properties of every namespace, checked on random small ones against the plain meaning of the rules.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop where it is")]

use std::collections::BTreeSet;
use std::sync::Arc;

use go_compat::semver::Version;
use olm_fbc::entry::{BundleEntry, EntryProperty};
use olm_fbc::property::Gvk;
use olm_resolver::entry::Entry;
use olm_resolver::{
    Catalog, CatalogKey, Failure, InstalledCsv, Problem, Resolution, Snapshot, Subscription, resolve,
};
use olm_testing::properties::config;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

/// A namespace as drawn: packages `p0`… with one chain each, split over up to two catalogs.
#[derive(Clone, Debug)]
struct Drawn {
    bundles: Vec<Bundle>,
    /// Installed bundles, by index, and whether each has a Subscription.
    installed: Vec<(usize, bool)>,
    /// Packages with a new Subscription.
    subscribed: Vec<usize>,
}

#[derive(Clone, Debug)]
struct Bundle {
    package: usize,
    version: u64,
    catalog: &'static str,
    provides: Vec<usize>,
    requires: Vec<usize>,
    skips_previous: bool,
}

const PACKAGES: usize = 4;
const APIS: usize = 4;

fn bundles() -> impl Strategy<Value = Vec<Bundle>> {
    let apis = || subsequence((0..APIS).collect::<Vec<_>>(), 0..=2);
    let bundle = (
        select(vec!["cat", "zoo"]),
        apis(),
        apis(),
        prop::bool::weighted(0.2),
    );
    prop::collection::vec(prop::collection::vec(bundle, 1..3), PACKAGES).prop_map(|packages| {
        let mut bundles = Vec::new();
        for (package, chain) in packages.into_iter().enumerate() {
            let catalog = chain[0].0;
            for (version, (_, provides, requires, skips_previous)) in chain.into_iter().enumerate() {
                let version = version as u64 + 1;
                bundles.push(Bundle {
                    package,
                    version,
                    catalog,
                    provides,
                    requires,
                    skips_previous,
                });
            }
        }
        bundles
    })
}

fn drawn() -> impl Strategy<Value = Drawn> {
    bundles().prop_flat_map(|bundles| {
        let all: Vec<usize> = (0..bundles.len()).collect();
        let installed = subsequence(all, 0..=2).prop_flat_map(|chosen| {
            let count = chosen.len();
            (Just(chosen), prop::collection::vec(any::<bool>(), count))
        });
        let subscribed = subsequence((0..PACKAGES).collect::<Vec<_>>(), 0..=3);
        (Just(bundles), installed, subscribed).prop_map(|(bundles, (chosen, owned), subscribed)| Drawn {
            bundles,
            installed: chosen.into_iter().zip(owned).collect(),
            subscribed,
        })
    })
}

fn api(index: usize) -> String {
    format!(r#"{{"group":"g","version":"v1","kind":"K{index}"}}"#)
}

impl Bundle {
    fn name(&self) -> String {
        format!("p{}.v{}.0.0", self.package, self.version)
    }

    fn properties(&self) -> Vec<EntryProperty> {
        let package = format!(
            r#"{{"packageName":"p{}","version":"{}.0.0"}}"#,
            self.package, self.version
        );
        let provided = self
            .provides
            .iter()
            .map(|&a| EntryProperty::new("olm.gvk", api(a)));
        let required = self
            .requires
            .iter()
            .map(|&a| EntryProperty::new("olm.gvk.required", api(a)));
        provided
            .chain(required)
            .chain([EntryProperty::new("olm.package", package)])
            .collect()
    }

    fn entry(&self) -> BundleEntry {
        let previous = (self.version > 1).then(|| format!("p{}.v{}.0.0", self.package, self.version - 1));
        let skipped = previous
            .iter()
            .filter(|_| self.skips_previous)
            .map(|name| name.as_str().into());
        BundleEntry {
            name: self.name().into(),
            package: format!("p{}", self.package).into(),
            channel: "stable".into(),
            default_channel: true,
            version: Some(Version::new(self.version, 0, 0)),
            replaces: previous.as_deref().map(Into::into),
            skips: skipped.collect(),
            properties: self.properties().into(),
            ..BundleEntry::default()
        }
    }

    fn installed(&self) -> InstalledCsv {
        let properties: Vec<String> = self
            .properties()
            .iter()
            .map(|p| format!(r#"{{"type":"{}","value":{}}}"#, p.kind, p.value))
            .collect();
        InstalledCsv {
            name: self.name(),
            version: format!("{}.0.0", self.version),
            phase: "Succeeded".into(),
            properties: Some(format!(r#"{{"properties":[{}]}}"#, properties.join(",")).into()),
            ..InstalledCsv::default()
        }
    }
}

impl Drawn {
    fn problem(&self) -> Problem {
        let key = |name: &str| CatalogKey {
            name: name.into(),
            namespace: "ns".into(),
        };
        let subscription = |name: String, package: usize, installed: String| Subscription {
            name,
            package: format!("p{package}"),
            channel: "stable".into(),
            catalog: key(self
                .bundles
                .iter()
                .find(|b| b.package == package)
                .unwrap()
                .catalog),
            current_csv: installed.clone(),
            installed_csv: installed,
            ..Subscription::default()
        };
        let fresh = self
            .subscribed
            .iter()
            .map(|&p| subscription(format!("fresh{p}"), p, String::new()));
        let owned = self
            .installed
            .iter()
            .filter(|(_, owned)| *owned)
            .map(|&(index, _)| {
                let bundle = &self.bundles[index];
                subscription(format!("owner-{}", bundle.name()), bundle.package, bundle.name())
            });
        let catalog = |name: &'static str| {
            let entries = self
                .bundles
                .iter()
                .filter(|b| b.catalog == name)
                .map(Bundle::entry);
            Catalog {
                key: key(name),
                priority: 0,
                content: Ok(Arc::new(Snapshot::new(entries))),
            }
        };
        Problem {
            namespace: "ns".into(),
            subscriptions: fresh.chain(owned).collect(),
            installed: self
                .installed
                .iter()
                .map(|&(index, _)| self.bundles[index].installed())
                .collect(),
            catalogs: vec![catalog("cat"), catalog("zoo")],
            ..Problem::default()
        }
    }
}

/// One operator in the namespace after the change.
#[derive(Clone)]
struct Present {
    entry: Arc<Entry>,
    /// True if it was installed before, as opposed to coming from a catalog.
    installed: bool,
}

fn as_present(problem: &Problem, name: &str) -> Present {
    let csv = problem.installed.iter().find(|csv| csv.name == name).unwrap();
    let package = name.split('.').next().unwrap();
    let number = csv.version.split('.').next().unwrap().parse().unwrap();
    let bundle = Bundle {
        package: package[1..].parse().unwrap(),
        version: number,
        catalog: "",
        provides: Vec::new(),
        requires: Vec::new(),
        skips_previous: false,
    };
    let annotation: serde_json::Value = serde_json::from_str(csv.properties.as_ref().unwrap()).unwrap();
    let properties = annotation["properties"].as_array().unwrap().iter();
    let properties: Vec<EntryProperty> = properties
        .map(|p| EntryProperty::new(p["type"].as_str().unwrap(), p["value"].to_string()))
        .collect();
    let entry = BundleEntry {
        properties: properties.into(),
        ..bundle.entry()
    };
    Present {
        entry: Arc::new(Entry::new(entry)),
        installed: true,
    }
}

/// Checks the rules for any namespace: one per package, one provider per API, every requirement met.
fn holds_together(present: &[Present]) -> Result<(), String> {
    let (mut packages, mut apis) = (BTreeSet::new(), BTreeSet::<&Gvk>::new());
    for Present { entry, .. } in present {
        if !packages.insert(&entry.package) {
            return Err(format!("package {} is there twice", entry.package));
        }
        if let Some(api) = entry.apis().iter().find(|api| !apis.insert(api)) {
            return Err(format!("{api} is provided twice"));
        }
        for requirement in entry.requirements().unwrap() {
            if !present.iter().any(|other| other.entry.meets(requirement)) {
                return Err(format!("{} lacks an operator {requirement}", entry.name));
            }
        }
    }
    Ok(())
}

/// Returns whether a Subscription is served: by an entry it may get, or by its previous operator.
fn is_served(problem: &Problem, subscription: &Subscription, present: &[Present]) -> bool {
    let was_there = problem
        .installed
        .iter()
        .any(|csv| csv.name == subscription.installed_csv);
    present.iter().any(|Present { entry, installed }| {
        if *installed {
            return *entry.name == *subscription.installed_csv;
        }
        let leads_here = entry.replaces.as_deref() == Some(&subscription.installed_csv)
            || entry
                .skips
                .iter()
                .any(|skip| **skip == *subscription.installed_csv);
        *entry.package == *subscription.package && (!was_there || leads_here)
    })
}

/// Returns whether an operator has no Subscription.
fn is_free(problem: &Problem, name: &str) -> bool {
    !problem.subscriptions.iter().any(|s| s.installed_csv == name)
}

/// Returns the namespace after installing a set of catalog bundles.
fn after(problem: &Problem, chosen: &[Arc<Entry>], served: &BTreeSet<&str>) -> Vec<Present> {
    let replaced = |name: &str| {
        problem.subscriptions.iter().any(|s| {
            served.contains(s.name.as_str())
                && s.installed_csv == name
                && chosen.iter().any(|c| *c.package == *s.package)
        })
    };
    let stays = problem.installed.iter().filter(|csv| !replaced(&csv.name));
    let mut present: Vec<Present> = stays.map(|csv| as_present(problem, &csv.name)).collect();
    present.extend(chosen.iter().map(|entry| Present {
        entry: Arc::clone(entry),
        installed: false,
    }));
    present
}

/// Returns a text of everything that must not depend on the order of the input.
fn text(resolution: &Resolution) -> String {
    let operators: Vec<String> = resolution
        .solution
        .operators
        .iter()
        .map(|o| {
            format!(
                "{} {} {} {:?} {:?}",
                o.entry.name, o.catalog, o.replaces, o.subscriptions, o.required_by
            )
        })
        .collect();
    format!(
        "{operators:?} {:?} {:?}",
        resolution.solution.updates, resolution.failures
    )
}

/// Returns the entries that can be chosen at all: those that no entry of their channel skips.
fn eligible(problem: &Problem) -> Vec<Arc<Entry>> {
    let snapshots = problem.catalogs.iter().map(|c| c.content.as_ref().unwrap());
    let all: Vec<Arc<Entry>> = snapshots.flat_map(|s| s.entries().to_vec()).collect();
    let skipped = |entry: &Arc<Entry>| all.iter().any(|other| other.skips.contains(&entry.name));
    all.iter().filter(|entry| !skipped(entry)).cloned().collect()
}

proptest! {
    #![proptest_config(config(1500))]

    #[test]
    fn the_answer_does_not_depend_on_the_order_of_the_input(
        (drawn, shuffled) in drawn().prop_flat_map(|drawn| {
            let bundles = Just((0..drawn.bundles.len()).collect::<Vec<_>>()).prop_shuffle();
            (Just(drawn), bundles)
        }),
        turn in 0usize..4,
    ) {
        let problem = drawn.problem();
        let mut other = problem.clone();
        let turned = turn.min(other.subscriptions.len());
        other.subscriptions.rotate_left(turned);
        other.installed.reverse();
        other.catalogs.reverse();
        for catalog in &mut other.catalogs {
            let place = shuffled.iter().map(|&i| &drawn.bundles[i]).filter(|b| b.catalog == catalog.key.name);
            catalog.content = Ok(Arc::new(Snapshot::new(place.map(Bundle::entry))));
        }
        prop_assert_eq!(text(&resolve(&problem).unwrap()), text(&resolve(&other).unwrap()));
    }

    #[test]
    fn a_solution_keeps_every_rule_and_installs_nothing_unasked(drawn in drawn()) {
        let problem = drawn.problem();
        let resolution = resolve(&problem).unwrap();
        let failed: BTreeSet<&str> =
            resolution.failures.iter().flat_map(|f| &f.subscriptions).map(String::as_str).collect();
        let stuck: BTreeSet<&str> =
            resolution.failures.iter().flat_map(|f| &f.installed).map(String::as_str).collect();
        let chosen: Vec<Arc<Entry>> =
            resolution.solution.operators.iter().map(|o| Arc::clone(&o.entry)).collect();
        let served: BTreeSet<&str> =
            problem.subscriptions.iter().map(|s| s.name.as_str()).filter(|s| !failed.contains(s)).collect();
        let present = after(&problem, &chosen, &served);
        // Failed operators are not part of the promise; no other may depend on them or conflict with them.
        let sound: Vec<Present> =
            present.iter().filter(|p| !p.installed || !stuck.contains(&*p.entry.name)).cloned().collect();
        prop_assert_eq!(holds_together(&sound), Ok(()));
        for subscription in problem.subscriptions.iter().filter(|s| served.contains(s.name.as_str())) {
            prop_assert!(is_served(&problem, subscription, &present), "{} is not served", subscription.name);
        }
        for operator in &resolution.solution.operators {
            let asked = operator.subscriptions.iter().any(|s| served.contains(s.as_str()));
            let needed = operator.required_by.iter().any(|name| present.iter().any(|p| *p.entry.name == **name));
            prop_assert!(asked || needed, "{} was not asked for", operator.entry.name);
            prop_assert_eq!(operator.generated_subscription.is_some(), operator.subscriptions.is_empty());
        }
    }

    #[test]
    fn what_is_called_unsatisfiable_has_no_solution(drawn in drawn()) {
        let problem = drawn.problem();
        let resolution = resolve(&problem).unwrap();
        let eligible = eligible(&problem);
        for failure in &resolution.failures {
            prop_assert!(matches!(failure.failure, Failure::Unsatisfiable(_)));
            let served: BTreeSet<&str> = failure.subscriptions.iter().map(String::as_str).collect();
            // The failing part alone: its Subscriptions, their installed operators, and those that stay in
            // any case.
            let mut part = problem.clone();
            part.subscriptions.retain(|s| served.contains(s.name.as_str()));
            part.installed.retain(|csv| failure.installed.contains(&csv.name));
            for bits in 0u32..1 << eligible.len() {
                let chosen: Vec<Arc<Entry>> =
                    eligible.iter().enumerate().filter(|(i, _)| bits & (1 << i) != 0).map(|(_, e)| e.clone()).collect();
                let present = after(&part, &chosen, &served);
                let solved = holds_together(&present).is_ok()
                    && part.subscriptions.iter().all(|s| is_served(&part, s, &present))
                    && part.installed.iter().all(|csv| {
                        !is_free(&problem, &csv.name) || present.iter().any(|p| *p.entry.name == *csv.name)
                    });
                let names: Vec<&str> = chosen.iter().map(|c| &*c.name).collect();
                prop_assert!(!solved, "{:?} would do, but: {}", names, failure.message());
            }
        }
    }
    /// Versions are small whole numbers here.
    #[test]
    fn a_held_package_never_gets_a_version_outside_of_its_range(
        drawn in drawn(),
        limits in proptest::collection::vec(0u64..5, 8),
    ) {
        let mut problem = drawn.problem();
        for (subscription, limit) in problem.subscriptions.iter_mut().zip(limits.iter().cycle()) {
            // One in five is not held.
            subscription.hold = (*limit > 0).then(|| format!("<{limit}.0.0"));
        }
        let resolution = resolve(&problem).unwrap();
        for operator in &resolution.solution.operators {
            let held = problem.subscriptions.iter().filter(|s| *s.package == *operator.entry.package);
            for range in held.filter_map(|s| s.hold.as_deref()) {
                let limit = Version::parse(&range[1..]).unwrap();
                prop_assert!(
                    *operator.entry.version.as_ref().unwrap() < limit,
                    "{} although {range}", operator.entry.name
                );
            }
        }
    }

    #[test]
    fn a_hold_that_every_version_is_within_changes_nothing(drawn in drawn()) {
        let problem = drawn.problem();
        let mut held = problem.clone();
        for subscription in &mut held.subscriptions {
            subscription.hold = Some(">=0.0.0".to_owned());
        }
        let installs = |problem: &Problem| {
            let Resolution { solution, failures, .. } = resolve(problem).unwrap();
            let operators: Vec<_> = solution.operators.iter().map(|o| (o.entry.name.clone(), o.subscriptions.clone())).collect();
            (operators, solution.updates, failures.iter().map(|f| f.message()).collect::<Vec<_>>())
        };
        prop_assert_eq!(installs(&problem), installs(&held));
    }
}
