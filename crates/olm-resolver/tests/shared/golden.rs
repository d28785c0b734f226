//! Upstream's recorded answers, and the question of each as a problem.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use olm_fbc::entry::BundleEntry;
use olm_resolver::{Catalog, CatalogKey, InstalledCsv, Problem, Snapshot, Subscription};
use olm_testing::shared::{corpus_dir, shared_path};
use serde::Deserialize;

/// Name, package and channel of each bundle.
pub type Answer = BTreeSet<(String, String, String)>;

/// One recorded question.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Case {
    pub id: u32,
    subscriptions: Vec<Asked>,
    #[serde(default)]
    installed: Vec<String>,
    #[serde(default)]
    pub result: Answer,
    #[serde(default)]
    pub also_answered: Vec<Answer>,
    #[serde(default)]
    pub error: Option<String>,
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
        properties: Some(format!(r#"{{"properties":[{}]}}"#, properties.join(",")).into()),
        ..InstalledCsv::default()
    }
}

pub fn problem(case: &Case, snapshot: &Arc<Snapshot>, entries: &BTreeMap<&str, &BundleEntry>) -> Problem {
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

/// Returns the recorded cases and their catalog. `None`, reported on stderr, if they are missing. In CI that
/// is a failure.
pub fn inputs() -> Option<(PathBuf, PathBuf)> {
    let given = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let cases = given("OLM_GOLDEN_CASES").or_else(|| shared_path("golden/resolver-cases.jsonl"))?;
    let catalog = given("OLM_GOLDEN_CATALOG").or_else(|| Some(corpus_dir()?.join("fbc")))?;
    Some((cases, catalog))
}

pub fn read_cases(file: &Path) -> Vec<Case> {
    let text = fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    text.lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{}: {e}: {line}", file.display())))
        .collect()
}
