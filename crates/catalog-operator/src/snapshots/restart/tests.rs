//! One process after the other, with the same folder.

use std::collections::BTreeSet;
use std::path::Path;

use super::super::Content;
use super::super::disk::FILES_BYTES;
use super::super::tests::{Rig, key};
use super::*;

const LABEL: &str = "uid-1 h:1";

async fn process(folder: &Path) -> Rig {
    let mut rig = Rig::new(false, 0).await;
    rig.snapshots = rig.new_snapshots().with_folder(Some(folder.to_owned()));
    rig
}

impl Rig {
    fn ask(&self, label: &str) -> ContentState {
        self.snapshots.get_labelled(&key(), label, "ns")
    }

    /// Polls until `what` returns true.
    async fn until(&self, what: impl Fn(&Self) -> bool) {
        while !what(self) {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    }

    /// Waits until all work on the folder is done.
    async fn rest(&self) {
        let (done, waited) = tokio::sync::oneshot::channel();
        self.snapshots.shared.on_disk(move |_| {
            let _ = done.send(());
        });
        waited.await.unwrap();
    }

    fn is_known(&self) -> bool {
        matches!(self.ask(LABEL), ContentState::Known(_))
    }
}

fn files(folder: &Path) -> usize {
    std::fs::read_dir(folder).map_or(0, Iterator::count)
}

/// Runs a process that reads the catalog and saves it.
async fn left(folder: &Path) {
    let rig = process(folder).await;
    rig.ask(LABEL);
    rig.connect("1").await;
    rig.until(Rig::is_known).await;
    rig.rest().await;
    assert_eq!(files(folder), 1);
}

/// It is available for reports about the past, and not known before it was read again.
#[tokio::test(flavor = "multi_thread")]
async fn the_last_good_content_outlives_the_process() {
    let folder = tempfile::tempdir().unwrap();
    left(folder.path()).await;
    let rig = process(folder.path()).await;
    assert!(matches!(rig.ask(LABEL), ContentState::Unreachable));
    rig.until(|rig| rig.snapshots.restored(&key()).is_some()).await;
    assert!(
        matches!(rig.ask(LABEL), ContentState::Unreachable),
        "nothing is installed from it"
    );
    assert_eq!(rig.woken.lock().unwrap().as_slice(), ["ns"]);
    let id = rig.snapshots.restored(&key()).unwrap();
    let Content::Here(content) = rig.snapshots.content(&key(), id) else {
        panic!("no content")
    };
    assert_eq!(content.entries().len(), 1);
    // The server is back, with its old content.
    rig.connect("2").await;
    rig.until(Rig::is_known).await;
    let ContentState::Known(known) = rig.ask(LABEL) else {
        unreachable!()
    };
    assert_eq!((known, rig.snapshots.restored(&key())), (id, None));
    assert_eq!(rig.woken.lock().unwrap().len(), 2, "that it can be used is news");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_content_of_another_catalog_of_the_same_name_is_not_taken_up() {
    let folder = tempfile::tempdir().unwrap();
    left(folder.path()).await;
    let rig = process(folder.path()).await;
    rig.ask("uid-2 h:1");
    rig.rest().await;
    assert_eq!(rig.snapshots.restored(&key()), None);
    assert_eq!(files(folder.path()), 0);
}

/// Content of the previous image is not saved under the label of the next one.
#[tokio::test]
async fn a_content_is_left_for_the_catalog_it_was_read_of() {
    let folder = tempfile::tempdir().unwrap();
    let rig = process(folder.path()).await;
    rig.ask(LABEL);
    rig.connect("1").await;
    rig.ask(LABEL);
    // During the read.
    rig.ask("uid-1 h:2");
    rig.until(|rig| rig.snapshots.read_generation(&key()).is_some())
        .await;
    rig.rest().await;
    assert_eq!(files(folder.path()), 0);
    rig.connect("2").await;
    let first = rig.snapshots.read_generation(&key());
    rig.ask("uid-1 h:2");
    rig.until(|rig| rig.snapshots.read_generation(&key()) != first)
        .await;
    rig.rest().await;
    assert_eq!(files(folder.path()), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_goes_with_its_catalog() {
    let folder = tempfile::tempdir().unwrap();
    left(folder.path()).await;
    let rig = process(folder.path()).await;
    rig.snapshots.sweep(vec![key()]);
    rig.rest().await;
    assert_eq!(files(folder.path()), 1);
    rig.snapshots.sweep(Vec::new());
    rig.rest().await;
    assert_eq!(files(folder.path()), 0, "it went while nobody ran");
    left(folder.path()).await;
    rig.snapshots.forget_source(&key());
    rig.rest().await;
    assert_eq!(files(folder.path()), 0);
}

/// It is unused for a while, and its content is known when it is used again.
#[tokio::test(flavor = "multi_thread")]
async fn the_last_good_content_outlives_idleness_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    left(folder.path()).await;
    let rig = process(folder.path()).await;
    rig.ask(LABEL);
    rig.until(|rig| rig.snapshots.restored(&key()).is_some()).await;
    rig.snapshots.retain("ns", &BTreeSet::new());
    assert_eq!(rig.snapshots.restored(&key()), None);
    rig.ask(LABEL);
    rig.until(|rig| rig.snapshots.restored(&key()).is_some()).await;
}

#[test]
fn the_volume_of_the_deployment_has_room_for_all_contents() {
    let manifest = include_str!("../../../../../manifests/olm/20-catalog-operator.yaml");
    let (_, volume) = manifest
        .split_once("- name: contents\n          emptyDir:")
        .unwrap();
    let size = volume
        .split_once("sizeLimit: ")
        .and_then(|(_, rest)| rest.lines().next()?.strip_suffix("Mi"))
        .and_then(|mebibytes| mebibytes.parse::<u64>().ok())
        .unwrap();
    // One file is written before others are evicted for it.
    assert!(FILES_BYTES + FILE_BYTES <= size << 20);
    assert!(manifest.contains("--content-cache=/contents") && manifest.contains("mountPath: /contents"));
}
