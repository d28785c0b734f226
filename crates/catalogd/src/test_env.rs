//! The program on a cluster in memory: its real stores, wiring, controller, tasks and contents on disk, on a paused clock. Images come
//! from a registry in memory.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use olm_oci::{Digest, Reference};
use olm_runtime::process;
use olm_runtime::sync::Mutex;
use olm_testing::cluster::Kind;
use olm_testing::stage::story::StoryEnv;
use olm_testing::stage::{Operator, Stage};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::run::controllers;
use crate::store::ContentStore;
use crate::unpacking::{CatalogImages, UnpackError};

/// URL of all catalogs.
pub(crate) const BASE_URL: &str = "https://catalogd.example/catalogs";
/// Image of [`catalog`].
pub(crate) const IMAGE: &str = "reg.example/cat:latest";

/// Images by reference, with the text of their catalog or the error of pulling them.
#[derive(Clone, Default)]
pub(crate) struct Registry {
    shared: Arc<Mutex<Images>>,
}

#[derive(Default)]
struct Images {
    tags: BTreeMap<String, Result<String, UnpackError>>,
    /// Every text that a tag has had, by digest.
    by_digest: BTreeMap<String, String>,
    /// Errors of fetching, by digest.
    unfetchable: BTreeMap<String, UnpackError>,
    resolved: usize,
    fetched: usize,
}

impl Registry {
    fn lock(&self) -> MutexGuard<'_, Images> {
        self.shared.lock()
    }

    /// Puts a catalog behind a tag, and returns its digest.
    pub(crate) fn push(&self, image: &str, text: &str) -> Digest {
        let digest = Digest::sha256(text.as_bytes());
        let mut images = self.lock();
        images.by_digest.insert(digest.to_string(), text.to_owned());
        images.tags.insert(image.to_owned(), Ok(text.to_owned()));
        digest
    }

    /// Makes resolving a tag fail.
    pub(crate) fn fail(&self, image: &str, error: UnpackError) {
        self.lock().tags.insert(image.to_owned(), Err(error));
    }

    /// Makes fetching a digest fail.
    pub(crate) fn fail_fetch(&self, digest: &Digest, error: UnpackError) {
        self.lock().unfetchable.insert(digest.to_string(), error);
    }

    /// Number of resolved and of fetched images so far.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let images = self.lock();
        (images.resolved, images.fetched)
    }
}

#[async_trait]
impl CatalogImages for Registry {
    async fn resolve(&self, image: &Reference) -> Result<Reference, UnpackError> {
        let mut images = self.lock();
        images.resolved += 1;
        if image.digest().is_some() {
            return Ok(image.clone());
        }
        let text = images.tags.get(&image.to_string()).cloned();
        let text = text.unwrap_or_else(|| Err(UnpackError::retried("manifest unknown")))?;
        Ok(image.pinned(Digest::sha256(text.as_bytes())))
    }

    async fn fetch(&self, image: &Reference, _: &Reference, folder: &Path) -> Result<(), UnpackError> {
        let mut images = self.lock();
        images.fetched += 1;
        let digest = image.digest().unwrap().to_string();
        if let Some(error) = images.unfetchable.get(&digest) {
            return Err(error.clone());
        }
        let text = images.by_digest.get(&digest);
        let text = text.ok_or_else(|| UnpackError::retried("manifest unknown"))?;
        std::fs::write(folder.join("catalog.yaml"), text).unwrap();
        Ok(())
    }
}

/// One process and its volume.
#[derive(Clone)]
struct Volume {
    root: Arc<TempDir>,
    /// The store of the process that started last.
    open: Arc<Mutex<Option<ContentStore>>>,
}

impl Volume {
    fn new() -> Self {
        Self {
            root: Arc::new(tempfile::tempdir().unwrap()),
            open: Arc::default(),
        }
    }

    fn text(&self, catalog: &str) -> Option<String> {
        let open = self.open.lock();
        let content = open.as_ref()?.get(catalog)?;
        let mut bytes = vec![0; usize::try_from(content.about.size).unwrap()];
        content.read(&mut bytes, 0).unwrap();
        Some(String::from_utf8(bytes).unwrap())
    }
}

pub(crate) struct TestEnv {
    pub(crate) stage: Stage,
    pub(crate) registry: Registry,
    leader: Volume,
    standby: Volume,
    /// Every write of the processes, in order.
    pub(crate) writes: Vec<String>,
}

/// A step of a story.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// Creates or replaces an object.
    Put(Value),
    /// Patches the catalog `a`.
    Edit(Value),
    /// Deletes the catalog `a`.
    Delete,
    /// Puts a catalog behind [`IMAGE`].
    Push(&'static str),
    /// Makes pulls of [`IMAGE`] fail.
    Fail,
    /// Passes ten minutes.
    Wait,
}

impl TestEnv {
    /// Creates an empty cluster with one process.
    pub(crate) fn new() -> Self {
        Self::of(false)
    }

    /// Creates an empty cluster with a process that leads, and one that never does.
    pub(crate) fn with_standby() -> Self {
        Self::of(true)
    }

    fn of(has_standby: bool) -> Self {
        let (registry, leader, standby) = (Registry::default(), Volume::new(), Volume::new());
        let mut operators = vec![operator(&leader, &registry, true)];
        if has_standby {
            operators.push(operator(&standby, &registry, false));
        }
        let stage = Stage::of(operators);
        stage.cluster.serve(Kind {
            group: "olm.operatorframework.io".into(),
            versions: vec!["v1".into()],
            kind: "ClusterCatalog".into(),
            plural: "clustercatalogs".into(),
            namespaced: false,
            status: true,
            custom: true,
        });
        Self {
            stage,
            registry,
            leader,
            standby,
            writes: Vec::new(),
        }
    }

    /// Creates or replaces an object as a user.
    pub(crate) fn put(&mut self, object: Value) {
        self.stage.as_user(|cluster| cluster.put(object));
    }

    /// Patches a catalog as a user.
    #[track_caller]
    pub(crate) fn edit(&mut self, name: &str, patch: &Value) {
        let found = self
            .stage
            .as_user(|cluster| cluster.edit("ClusterCatalog", "", name, patch));
        assert!(found, "{name} exists");
    }

    /// Deletes a catalog as a user.
    #[track_caller]
    pub(crate) fn delete(&mut self, name: &str) {
        let found = self
            .stage
            .as_user(|cluster| cluster.delete("ClusterCatalog", "", name));
        assert!(found, "{name} exists");
    }

    /// Runs until there are no more writes, without waiting for timers of a second or more.
    #[track_caller]
    pub(crate) fn settle(&mut self) {
        self.stage.settle();
        self.writes.extend(self.stage.cluster.take_log().writes);
    }

    /// Passes the time, then settles.
    #[track_caller]
    pub(crate) fn settle_for(&mut self, seconds: u64) {
        self.stage.start();
        self.stage.advance(Duration::from_secs(seconds));
        self.settle();
    }

    /// Returns a catalog; null if it does not exist.
    pub(crate) fn get(&self, name: &str) -> Value {
        let found = self.stage.cluster.get("ClusterCatalog", "", name);
        found.unwrap_or_default()
    }

    /// Returns `status reason: message` of a condition.
    pub(crate) fn condition(&self, name: &str, type_: &str) -> String {
        let catalog = self.get(name);
        let conditions = catalog["status"]["conditions"].as_array().cloned();
        let mut conditions = conditions.unwrap_or_default().into_iter();
        let Some(found) = conditions.find(|condition| condition["type"] == type_) else {
            return "none".to_owned();
        };
        let text = |field: &str| found[field].as_str().unwrap_or("-").to_owned();
        format!("{} {}: {}", text("status"), text("reason"), text("message"))
    }

    /// Returns the documents that the process serves.
    pub(crate) fn served(&self, name: &str) -> Option<String> {
        self.leader.text(name)
    }

    /// Returns the documents that the process that does not lead serves.
    pub(crate) fn served_by_standby(&self, name: &str) -> Option<String> {
        self.standby.text(name)
    }

    /// Returns the names of the folders on the volume of the process.
    pub(crate) fn on_disk(&self) -> Vec<String> {
        let folder = self.leader.root.path().join("contents");
        let entries = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

/// Returns a program that uses a volume. One that does not lead only follows.
fn operator(volume: &Volume, registry: &Registry, leads: bool) -> Operator {
    let (volume, registry) = (volume.clone(), registry.clone());
    Box::new(move |client| {
        let (volume, registry) = (volume.clone(), registry.clone());
        Box::pin(async move {
            let contents = ContentStore::open(&volume.root.path().join("contents")).unwrap();
            *volume.open.lock() = Some(contents.clone());
            let (set, start) = controllers(BASE_URL, &client, contents, Arc::new(registry));
            let mut watches = JoinSet::new();
            let stores = set.start(&mut watches);
            if leads {
                let forever = std::future::pending();
                let ended = process::controllers(client, watches, stores, None, start, forever).await;
                ended.unwrap();
            } else {
                // As while another process has the Lease: the wiring lives, and the controller never starts.
                watches.join_next().await;
                drop((stores, start));
            }
        })
    })
}

/// A catalog called `a` of [`IMAGE`].
pub(crate) fn catalog() -> Value {
    catalog_of("a", IMAGE)
}

pub(crate) fn catalog_of(name: &str, image: &str) -> Value {
    json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterCatalog", "metadata": {"name": name},
        "spec": {
            "priority": 0, "availabilityMode": "Available",
            "source": {"type": "Image", "image": {"ref": image}},
        },
    })
}

impl StoryEnv for TestEnv {
    type Step = Step;

    fn begin() -> Self {
        Self::new()
    }

    fn stage(&mut self) -> &mut Stage {
        &mut self.stage
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Put(object) => self.put(object.clone()),
            Step::Edit(patch) => self.edit("a", patch),
            Step::Delete => self.delete("a"),
            Step::Push(text) => drop(self.registry.push(IMAGE, text)),
            Step::Fail => self
                .registry
                .fail(IMAGE, UnpackError::retried("manifest unknown")),
            Step::Wait => self.settle_for(600),
        }
    }

    fn rest(&mut self) {
        self.settle_for(5);
    }

    fn go_on(&mut self, seconds: u64) {
        self.settle_for(seconds);
    }

    fn writes(&self) -> &[String] {
        &self.writes
    }
}
