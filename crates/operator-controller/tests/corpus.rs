//! Renders every bundle of the corpus of published operators.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use olm_api::v1alpha1::InstallModeType;
use operator_controller::render::{Bundle, CertificateProvider, Options, render};
use serde_json::{Value, json};

fn subfolders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("corpus folder");
    let paths = entries.map(|entry| entry.expect("entry").path());
    let mut folders: Vec<PathBuf> = paths.filter(|path| path.is_dir()).collect();
    folders.sort();
    folders
}

fn read(folder: &Path) -> Result<Bundle, String> {
    let mut files: Vec<(String, Vec<u8>)> = Vec::new();
    for part in subfolders(folder) {
        for entry in fs::read_dir(&part).expect("bundle folder") {
            let path = entry.expect("entry").path();
            let name = path.strip_prefix(folder).expect("below").to_string_lossy();
            files.push((name.into_owned(), fs::read(&path).expect("file")));
        }
    }
    let files = files
        .iter()
        .map(|(name, bytes)| (name.as_str(), bytes.as_slice()));
    Bundle::read(files).map_err(|error| format!("{}: {error}", folder.display()))
}

fn rendered(bundle: &Bundle, provider: &CertificateProvider) -> Result<Vec<Value>, String> {
    let own = json!({"watchNamespace": "operators"});
    let is_global = bundle.supports(&InstallModeType::AllNamespaces);
    let options = Options {
        namespace: "operators",
        config: (!is_global).then_some(&own),
        certificates: provider,
    };
    render(bundle, &options).map_err(|error| error.to_string())
}

/// Returns the documented reason in an error's text.
fn reason(error: &str) -> Option<&'static str> {
    const API_SERVICES: &str = "unsupported bundle: apiServiceDefintions are not supported";
    const OLD_DEFINITION: &str = "which Kubernetes 1.22 and later do not serve; use apiextensions.k8s.io/v1";
    if error == API_SERVICES {
        return Some("APIService");
    }
    if error.starts_with("failed to decode ") {
        return Some("does not decode");
    }
    let is_old = error.lines().all(|line| line.ends_with(OLD_DEFINITION));
    is_old.then_some("old definition")
}

/// Identity of an object.
fn identity(object: &Value) -> String {
    let metadata = &object["metadata"];
    format!(
        "{} {} {} {}",
        object["apiVersion"], object["kind"], metadata["namespace"], metadata["name"]
    )
}

#[test]
fn every_bundle_renders_the_same_twice_or_is_refused_with_a_reason() {
    let Some(corpus) = olm_testing::shared::corpus_dir() else {
        return;
    };
    let provider = CertificateProvider::CertManager;
    let mut refused: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut count, mut count_rendered) = (0, 0);
    for folder in subfolders(&corpus.join("bundles"))
        .iter()
        .flat_map(|package| subfolders(package))
    {
        count += 1;
        let mut bundle = read(&folder).expect("a bundle");
        if let Err(error) = rendered(&bundle, &provider) {
            let reason = reason(&error).unwrap_or_else(|| panic!("{}: {error}", folder.display()));
            *refused.entry(reason).or_default() += 1;
            // So that the rest of an old bundle is rendered, too.
            for file in &mut bundle.crds {
                file.object["apiVersion"] = json!("apiextensions.k8s.io/v1");
            }
        }
        let objects = match rendered(&bundle, &provider) {
            Ok(objects) => objects,
            Err(error) => {
                let other = reason(&error).filter(|reason| *reason != "old definition");
                assert!(other.is_some(), "{}: {error}", folder.display());
                continue;
            }
        };
        count_rendered += 1;
        let again = Bundle {
            crds: bundle.crds.clone(),
            ..read(&folder).expect("a bundle")
        };
        let again = rendered(&again, &provider).expect("rendered before");
        assert_eq!(again, objects, "{}", folder.display());
        let mut identities: Vec<String> = objects.iter().map(identity).collect();
        identities.sort();
        let length = identities.len();
        identities.dedup();
        assert_eq!(identities.len(), length, "{}", folder.display());
        let deployments = objects.iter().filter(|object| object["kind"] == "Deployment");
        let expected = bundle.csv.spec.install.deployments().len();
        assert_eq!(deployments.count(), expected, "{}", folder.display());
    }
    assert_eq!(count, 897);
    println!("rendered {count_rendered} of {count}; refused: {refused:?}");
    assert!(refused["old definition"] > 600, "{refused:?}");
    assert!(count_rendered > 880, "{count_rendered}");
}
