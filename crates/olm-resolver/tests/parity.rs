//! Upstream's own answers over a real catalog, case by case.
//!
//! `OLM_GOLDEN_CASES` (a file, one JSON case a line) and `OLM_GOLDEN_CATALOG` (a folder with a catalog) choose what is
//! compared; by default the recorded cases over the corpus catalog of the shared folder.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop where it is")]

mod shared;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use olm_fbc::entry::BundleEntry;
use olm_resolver::{Catalog, CatalogKey, InstalledCsv, Problem, Resolution, Snapshot, Subscription};
use serde::Deserialize;

type Answer = BTreeSet<(String, String, String)>;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Case {
    id: u32,
    subscriptions: Vec<Asked>,
    #[serde(default)]
    installed: Vec<String>,
    #[serde(default)]
    result: Answer,
    #[serde(default)]
    also_answered: Vec<Answer>,
    #[serde(default)]
    error: Option<String>,
}

#[derive(Deserialize)]
struct Asked {
    name: String,
    package: String,
    #[serde(default)]
    channel: String,
    #[serde(default, rename = "startingCSV")]
    starting_csv: String,
    #[serde(default, rename = "installedCSV")]
    installed_csv: String,
}

fn catalog_key() -> CatalogKey {
    CatalogKey {
        name: "cat".into(),
        namespace: "ns".into(),
    }
}

fn installed(name: &str, entries: &BTreeMap<&str, &BundleEntry>) -> InstalledCsv {
    let entry = entries
        .get(name)
        .unwrap_or_else(|| panic!("installed {name} is not in the catalog"));
    let properties: Vec<String> = entry
        .properties
        .iter()
        .map(|p| format!(r#"{{"type":"{}","value":{}}}"#, p.kind, p.value))
        .collect();
    InstalledCsv {
        name: name.to_owned(),
        version: entry
            .version
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default(),
        phase: "Succeeded".to_owned(),
        properties: Some(format!(r#"{{"properties":[{}]}}"#, properties.join(","))),
        ..InstalledCsv::default()
    }
}

fn problem(case: &Case, snapshot: &Arc<Snapshot>, entries: &BTreeMap<&str, &BundleEntry>) -> Problem {
    Problem {
        namespace: "ns".to_owned(),
        subscriptions: case
            .subscriptions
            .iter()
            .map(|asked| Subscription {
                name: asked.name.clone(),
                package: asked.package.clone(),
                channel: asked.channel.clone(),
                starting_csv: asked.starting_csv.clone(),
                installed_csv: asked.installed_csv.clone(),
                catalog: catalog_key(),
                ..Subscription::default()
            })
            .collect(),
        installed: case
            .installed
            .iter()
            .map(|name| installed(name, entries))
            .collect(),
        catalogs: vec![Catalog {
            key: catalog_key(),
            priority: 0,
            content: Ok(Arc::clone(snapshot)),
        }],
        ..Problem::default()
    }
}

/// How ours differs from upstream's answer, if it does.
fn difference(case: &Case, ours: &Resolution) -> Option<String> {
    let messages: Vec<String> = ours
        .failures
        .iter()
        .map(olm_resolver::Explanation::message)
        .collect();
    // Upstream gives up the whole namespace with one error; ours may have one for each independent part.
    if let Some(error) = &case.error {
        return (!messages.contains(error)).then(|| format!("upstream: {error}\n    ours: {messages:?}"));
    }
    let answer: Answer = ours
        .solution
        .operators
        .iter()
        .map(|o| {
            (
                o.entry.name.to_string(),
                o.entry.package.to_string(),
                o.entry.channel.to_string(),
            )
        })
        .collect();
    let accepted = [&case.result]
        .into_iter()
        .chain(&case.also_answered)
        .any(|accepted| *accepted == answer);
    (!accepted || !messages.is_empty())
        .then(|| format!("upstream: {:?}\n    ours: {answer:?} {messages:?}", case.result))
}

fn inputs() -> Option<(PathBuf, PathBuf)> {
    let given = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let shared = shared::folder();
    let cases = given("OLM_GOLDEN_CASES")
        .or_else(|| shared.as_deref().map(|s| s.join("golden/resolver-cases.jsonl")))?;
    let catalog = given("OLM_GOLDEN_CATALOG").or_else(|| shared.as_deref().map(shared::corpus_catalog))?;
    Some((cases, catalog))
}

fn read_cases(file: &Path) -> Vec<Case> {
    let text = fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    text.lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{}: {e}: {line}", file.display())))
        .collect()
}

#[test]
fn answers_are_upstreams() {
    let Some((cases, catalog)) = inputs() else {
        println!("not run: no recorded answers; set OLM_SHARED, or OLM_GOLDEN_CASES and OLM_GOLDEN_CATALOG");
        return;
    };
    let cases = read_cases(&cases);
    let entries = shared::read_catalog(&catalog);
    let by_name: BTreeMap<&str, &BundleEntry> = entries.iter().map(|e| (&*e.name, e)).collect();
    let snapshot = Arc::new(Snapshot::new(entries.iter().cloned()));
    let (mut matched, mut spent) = (0, Duration::ZERO);
    for case in &cases {
        let problem = problem(case, &snapshot, &by_name);
        let start = Instant::now();
        let ours = olm_resolver::resolve(&problem).unwrap_or_else(|e| panic!("case {}: {e}", case.id));
        spent += start.elapsed();
        match difference(case, &ours) {
            None => matched += 1,
            Some(difference) => println!("differs {}:\n    {difference}", case.id),
        }
    }
    let mean = spent / u32::try_from(cases.len().max(1)).unwrap();
    println!("matched {matched} of {}; mean time {mean:?}", cases.len());
    assert!(!cases.is_empty(), "no case to compare");
    assert_eq!(matched, cases.len(), "see the differences above");
}
