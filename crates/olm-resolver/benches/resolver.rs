//! Time of resolution: over the recorded cases, over generated problems of upstream's shape, and as catalogs
//! grow.
//!
//! `cargo xtask bench resolver` runs it. It needs no measuring library: the result is the mean over many
//! different problems.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a measurement may stop where it is"
)]

#[path = "../tests/shared/mod.rs"]
#[allow(dead_code, reason = "answers are compared by the parity test, not here")]
mod shared;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use go_compat::semver::Version;
use olm_fbc::entry::{BundleEntry, EntryProperty};
use olm_resolver::solver::{Constraint, Instance, Outcome, VariableId, solve};
use olm_resolver::{Catalog, CatalogKey, Problem, Snapshot, Subscription, resolve};

/// Target P14 for the mean over the recorded cases.
const TARGET: Duration = Duration::from_micros(60);
/// Target for the longest of them.
const LONGEST: Duration = Duration::from_millis(2);

fn main() {
    recorded();
    generated();
    growth();
}

/// A fixed pseudo-random sequence, so that every run measures the same.
struct Sequence(u64);

impl Sequence {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % limit
    }

    fn percent(&mut self, share: usize) -> bool {
        self.below(100) < share
    }
}

fn mean(total: Duration, count: usize) -> Duration {
    total / u32::try_from(count.max(1)).unwrap()
}

fn recorded() {
    let Some((cases, catalog)) = shared::golden::inputs() else {
        println!("P14 recorded cases: not run, set OLM_SHARED or OLM_GOLDEN_CASES and OLM_GOLDEN_CATALOG");
        return;
    };
    let cases = shared::golden::read_cases(&cases);
    let start = Instant::now();
    let entries = shared::read_catalog(&catalog);
    let read = start.elapsed();
    let by_name: BTreeMap<&str, &BundleEntry> = entries.iter().map(|e| (&*e.name, e)).collect();
    let start = Instant::now();
    let snapshot = Arc::new(Snapshot::new(entries.iter().cloned()));
    let indexed = start.elapsed();
    let problems: Vec<Problem> = cases
        .iter()
        .map(|case| shared::golden::problem(case, &snapshot, &by_name))
        .collect();
    let (mut total, mut longest) = (Duration::ZERO, Duration::ZERO);
    for problem in &problems {
        let start = Instant::now();
        std::hint::black_box(resolve(problem).unwrap());
        let spent = start.elapsed();
        total += spent;
        longest = longest.max(spent);
    }
    let mean = mean(total, problems.len());
    let verdict = if mean <= TARGET && longest <= LONGEST {
        "met"
    } else {
        "missed"
    };
    println!(
        "P14 recorded cases: {} over {} entries, mean {mean:?}, longest {longest:?}; target {TARGET:?} and {LONGEST:?} {verdict} (catalog \
         read in {read:?}, indexed in {indexed:?})",
        problems.len(),
        entries.len()
    );
}

/// Measures problems of upstream's shape: 256 variables, 10% mandatory, 15% with up to 5 dependencies, 5%
/// conflicts.
fn generated() {
    const COUNT: usize = 500;
    const VARIABLES: usize = 256;
    let mut sequence = Sequence(9);
    let (mut total, mut longest, mut satisfiable) = (Duration::ZERO, Duration::ZERO, 0);
    for _ in 0..COUNT {
        let mut instance = Instance::default();
        let variables: Vec<VariableId> = (0..VARIABLES).map(|_| instance.add_variable()).collect();
        for &variable in &variables {
            if sequence.percent(10) {
                instance.constrain(variable, Constraint::Mandatory);
            }
            if sequence.percent(15) {
                let count = 1 + sequence.below(5);
                let candidates = (0..count).map(|_| variables[sequence.below(VARIABLES)]).collect();
                instance.constrain(variable, Constraint::Dependency(candidates));
            }
            if sequence.percent(5) {
                instance.constrain(
                    variable,
                    Constraint::Conflict(variables[sequence.below(VARIABLES)]),
                );
            }
        }
        let start = Instant::now();
        let outcomes: Vec<Outcome> = instance
            .components()
            .iter()
            .map(|part| solve(&instance, part, &olm_resolver::Work::default(), |_| 0).unwrap())
            .collect();
        let spent = start.elapsed();
        total += spent;
        longest = longest.max(spent);
        satisfiable += usize::from(outcomes.iter().all(|o| matches!(o, Outcome::Selected(_))));
    }
    println!(
        "generated: {COUNT} of {VARIABLES} variables, {satisfiable} satisfiable, mean {:?}, longest {longest:?}",
        mean(total, COUNT)
    );
}

/// Measures catalogs of up to 100,000 bundles: packages of ten, every tenth requires an API of another
/// package.
fn growth() {
    println!(
        "growth: bundles, indexed in (target 400 ms for 100,000), 20 subscriptions resolved in (mean of 20 runs)"
    );
    for bundles in [1_000, 3_000, 10_000, 30_000, 100_000] {
        let entries: Vec<BundleEntry> = (0..bundles).map(|index| bundle(index, bundles)).collect();
        let start = Instant::now();
        let snapshot = Arc::new(Snapshot::new(entries));
        let indexed = start.elapsed();
        let problem = subscribed(&snapshot, bundles / 10);
        let start = Instant::now();
        for _ in 0..20 {
            assert!(resolve(&problem).unwrap().failures.is_empty());
        }
        println!(
            "  {bundles:>7}  {indexed:>12.3?}  {:>12.3?}",
            mean(start.elapsed(), 20)
        );
    }
}

fn bundle(index: usize, bundles: usize) -> BundleEntry {
    let (package, minor) = (index / 10, index % 10);
    let api = |kind: usize| format!(r#"{{"group":"g","version":"v1","kind":"K{kind}"}}"#);
    let version = format!("1.{minor}.0");
    let identity = format!(r#"{{"packageName":"p{package}","version":"{version}"}}"#);
    let mut properties = vec![
        EntryProperty::new("olm.package", identity),
        EntryProperty::new("olm.gvk", api(package)),
    ];
    if package % 10 == 1 {
        properties.push(EntryProperty::new(
            "olm.gvk.required",
            api((package * 7 + 3) % (bundles / 10)),
        ));
    }
    BundleEntry {
        name: format!("p{package}.v{version}").into(),
        package: format!("p{package}").into(),
        channel: "stable".into(),
        default_channel: true,
        version: Version::parse(&version).ok(),
        replaces: (minor > 0).then(|| format!("p{package}.v1.{}.0", minor - 1).into()),
        properties: properties.into(),
        ..BundleEntry::default()
    }
}

fn subscribed(snapshot: &Arc<Snapshot>, packages: usize) -> Problem {
    let key = CatalogKey {
        name: "cat".to_owned(),
        namespace: "ns".to_owned(),
    };
    let subscriptions = (0..20).map(|index| {
        let package = format!("p{}", index * packages / 20 + 1);
        Subscription {
            name: package.clone(),
            package,
            channel: "stable".to_owned(),
            catalog: key.clone(),
            ..Subscription::default()
        }
    });
    Problem {
        namespace: "ns".to_owned(),
        subscriptions: subscriptions.collect(),
        catalogs: vec![Catalog {
            key: key.clone(),
            priority: 0,
            content: Ok(Arc::clone(snapshot)),
        }],
        ..Problem::default()
    }
}
