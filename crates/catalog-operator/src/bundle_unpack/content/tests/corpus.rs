//! Reads and checks every bundle of the corpus, and turns it into steps.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::super::*;
use crate::bundle_unpack::preflight::preflight;
use crate::install_plan::steps::{Projection, bundle_objects, identity};

fn folders(parent: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(parent)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    found.sort();
    found
}

fn content(bundle: &Path) -> ImageContent {
    let mut files = BTreeMap::new();
    for folder in folders(bundle) {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                let name = path.strip_prefix(bundle).unwrap().to_str().unwrap().to_owned();
                files.insert(name, std::fs::read(&path).unwrap().into());
            }
        }
    }
    ImageContent {
        digest: olm_oci::Digest::sha256(b""),
        labels: BTreeMap::new(),
        files,
    }
}

#[test]
fn every_bundle_of_the_corpus_becomes_steps() {
    let Some(corpus) = olm_testing::shared::corpus_dir() else {
        return;
    };
    let (mut count, mut with_old_crds) = (0, 0);
    for bundle in folders(&corpus.join("bundles"))
        .iter()
        .flat_map(|package| folders(package))
    {
        count += 1;
        let read = read_image("r/b@sha256:00", &content(&bundle))
            .unwrap_or_else(|error| panic!("{}: {error}", bundle.display()));
        let problems = preflight(&read, object::name(&read.csv));
        assert!(
            problems
                .iter()
                .all(|(_, text)| text.contains("which Kubernetes 1.22 and later do not serve")),
            "{}: {problems:?}",
            bundle.display()
        );
        with_old_crds += usize::from(!problems.is_empty());
        let projection = Projection {
            namespace: "ns",
            replaces: "",
            properties: "",
        };
        let objects =
            bundle_objects(read, &projection).unwrap_or_else(|error| panic!("{}: {error}", bundle.display()));
        assert_eq!(
            object::kind(&objects[0]),
            "ClusterServiceVersion",
            "{}",
            bundle.display()
        );
        let mut names = BTreeMap::<_, usize>::new();
        for object in &objects {
            let [group, version, kind, name] = identity(object);
            assert!(
                !version.is_empty() && !name.is_empty(),
                "{}: {object}",
                bundle.display()
            );
            *names.entry((group, kind, name)).or_default() += 1;
        }
        // Many bundles contain the ServiceAccount that their permissions imply anyway.
        let twice = names
            .iter()
            .filter(|(_, count)| **count > 1)
            .all(|((_, kind, _), _)| *kind == "ServiceAccount");
        assert!(twice, "{}: {names:?}", bundle.display());
    }
    assert_eq!(count, 897);
    assert!(with_old_crds > 0 && with_old_crds < count);
}
