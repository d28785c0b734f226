//! Bundles from the whole corpus, each alone in a namespace. The expected result of each is in `sample.yaml`, with the reason.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use e2e::corpus::bundle::Bundle;
use e2e::corpus::catalog::Catalog;
use e2e::corpus::expectation::{Expectation, Surroundings, Targets, derive};
use serde_json::Value;
use xtask::catalog::{self, Entry, Package};
use xtask::kubectl::text;

/// Image of the catalog of all samples: each package has one channel per bundle, named after the bundle.
pub const CATALOG: &str = "olm.local/corpus/samples:latest";
/// Prefix of the names of the namespaces.
pub const PREFIX: &str = "sample-";
const TABLE: &str = include_str!("sample.yaml");
/// Maximum length of a namespace name, with room for the suffix of its target.
const LONGEST: usize = 56;

/// One bundle of the table.
pub struct Sample {
    /// Name of its package.
    pub package: String,
    /// Name of its ClusterServiceVersion.
    pub csv: String,
    /// Namespace of the install.
    pub namespace: String,
    /// Namespaces that its OperatorGroup selects.
    pub targets: Targets,
    /// Expected result.
    pub expectation: Expectation,
    /// Its content.
    pub bundle: Bundle,
    /// Its folder, and its image in the catalog.
    pub image: catalog::Bundle,
}

/// Reads the table and the bundles, and derives the expected results.
///
/// # Errors
/// If a bundle cannot be read, or its derived result differs from the table.
pub fn read(corpus: &Path, around: &Surroundings) -> anyhow::Result<Vec<Sample>> {
    let (rows, _) = olm_fbc::yaml::parse_first(TABLE.as_bytes()).context("sample.yaml is no YAML")?;
    let rows = rows.as_array().context("sample.yaml is no list")?;
    let mut around = around.clone();
    for row in rows {
        let catalog = catalog_of(corpus, text(row, "/package"))?;
        around.provided.extend(catalog.provides(text(row, "/bundle")));
    }
    let mut samples = Vec::new();
    let mut wrong = Vec::new();
    for row in rows {
        match sample(corpus, row, &around) {
            Ok(sample) => samples.push(sample),
            Err(error) => wrong.push(format!("{}: {error:#}", text(row, "/bundle"))),
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    let names: BTreeSet<&str> = samples.iter().map(|sample| sample.namespace.as_str()).collect();
    ensure!(
        names.len() == samples.len(),
        "two samples have one name for their namespace"
    );
    Ok(samples)
}

/// Returns a catalog. Packages that upstream's `opm validate` rejects have good bundles, too: the fault is in their channels.
fn catalog_of(corpus: &Path, package: &str) -> anyhow::Result<Catalog> {
    let file = |folder: &str| corpus.join(folder).join(package).join("catalog.json");
    let accepted = file("fbc");
    Catalog::read(&if accepted.exists() {
        accepted
    } else {
        file("refused")
    })
}

fn sample(corpus: &Path, row: &Value, around: &Surroundings) -> anyhow::Result<Sample> {
    let (package, csv) = (text(row, "/package"), text(row, "/bundle"));
    let targets = match text(row, "/targets") {
        "own" => Targets::Own,
        "one other" => Targets::OneOther,
        "all" => Targets::All,
        other => bail!("there are no targets {other:?}"),
    };
    let folder = corpus.join("bundles").join(package).join(csv);
    let bundle = Bundle::read(&folder)?;
    ensure!(bundle.name() == csv, "the folder holds {}", bundle.name());
    let catalog = catalog_of(corpus, package)?;
    let expectation = derive(&bundle, &catalog.required(csv)?, targets, around)?;
    let expected = text(row, "/expected");
    ensure!(
        expectation.to_string() == expected,
        "it must be {expectation}, the table says {expected}"
    );
    ensure!(
        expectation.is_success() == text(row, "/because").is_empty(),
        "there is a reason exactly for what does not succeed"
    );
    let mut namespace = format!("{PREFIX}{}", csv.replace(['.', '_'], "-").to_lowercase());
    namespace.truncate(LONGEST);
    Ok(Sample {
        package: package.to_owned(),
        csv: csv.to_owned(),
        namespace: namespace.trim_end_matches('-').to_owned(),
        targets,
        expectation,
        bundle,
        image: catalog::Bundle {
            folder,
            image: catalog.image(csv)?.to_owned(),
        },
    })
}

/// Returns the packages of a catalog of the samples.
pub fn packages(samples: &[Sample]) -> Vec<Package> {
    let mut packages: BTreeMap<&str, Package> = BTreeMap::new();
    for sample in samples {
        let package = packages.entry(&sample.package).or_insert_with(|| Package {
            name: sample.package.clone(),
            default_channel: sample.csv.clone(),
            channels: Vec::new(),
            bundles: Vec::new(),
        });
        let entry = Entry {
            name: sample.csv.clone(),
            ..Entry::default()
        };
        package.channels.push((sample.csv.clone(), vec![entry]));
        package.bundles.push(sample.image.clone());
    }
    packages.into_values().collect()
}
