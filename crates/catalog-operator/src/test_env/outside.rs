//! Registry servers and bundle images, as values.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use async_trait::async_trait;
use olm_fbc::entry::{BundleEntry, CatalogSnapshot};
use olm_registry::connection::{Dial, Dialled};
use olm_runtime::NamespacedName;
use serde_json::json;
use tokio::sync::oneshot;
use tonic::transport::{Channel, Endpoint as Target};

use crate::bundle_unpack::UnpackedBundle;
use crate::bundle_unpack::content::BundleFile;
use crate::bundle_unpack::error::{UnpackClass, UnpackError};
use crate::bundle_unpack::unpacker::{BundleSource, InlineBundle};
use crate::registry_tags::ImageTags;
use crate::snapshots::CatalogReader;
use crate::test_env::BundleRow;

/// Digest of every image.
const DIGEST: &str = "@sha256:00";

/// What is outside of the cluster.
#[derive(Default)]
pub struct Shared {
    entries: Mutex<Vec<BundleEntry>>,
    /// Manifests that catalogs carry, by bundle.
    manifests: Mutex<BTreeMap<String, Vec<String>>>,
    open: Mutex<Vec<oneshot::Sender<()>>>,
    /// Images that cannot be had.
    broken: Mutex<BTreeSet<String>>,
    /// Images that this process is refused, by a part of their names; a node may have them.
    refused: Mutex<BTreeSet<String>>,
    /// True while no server answers.
    unreachable: Mutex<bool>,
    /// True while servers answer and cannot tell what they have.
    failing: Mutex<bool>,
    /// Connections made so far.
    dialled: Mutex<usize>,
    /// Digests that registries tell, by image.
    digests: Mutex<BTreeMap<String, String>>,
    /// How often they were asked.
    polled: Mutex<usize>,
    /// Bundle images that this process asked for.
    fetched: Mutex<usize>,
}

impl Shared {
    /// From now on catalogs have this content; open connections break.
    pub fn serve(&self, entries: impl IntoIterator<Item = BundleRow>) {
        *self.entries.lock().unwrap() = entries.into_iter().map(BundleEntry::from).collect();
        self.break_connections();
    }

    /// From now on servers send these manifests of a bundle.
    pub fn carry(&self, bundle: &str, objects: &[String]) {
        let mut manifests = self.manifests.lock().unwrap();
        manifests.insert(bundle.to_owned(), objects.to_vec());
    }

    pub fn break_connections(&self) {
        self.open.lock().unwrap().clear();
    }

    pub fn set_unreachable(&self, unreachable: bool) {
        *self.unreachable.lock().unwrap() = unreachable;
        if unreachable {
            self.break_connections();
        }
    }

    pub fn set_failing(&self, failing: bool) {
        *self.failing.lock().unwrap() = failing;
    }

    pub fn break_image(&self, image: &str) {
        self.broken.lock().unwrap().insert(image.to_owned());
    }

    pub fn mend_images(&self) {
        self.broken.lock().unwrap().clear();
        self.refused.lock().unwrap().clear();
    }

    /// From now on registries refuse images whose names hold this.
    pub fn refuse(&self, part: &str) {
        self.refused.lock().unwrap().insert(part.to_owned());
    }

    /// From now on registries tell this digest of an image; without, none.
    pub fn set_digest(&self, image: &str, digest: Option<&str>) {
        let mut digests = self.digests.lock().unwrap();
        digests.remove(image);
        digests.extend(digest.map(|digest| (image.to_owned(), digest.to_owned())));
    }

    pub fn polled(&self) -> usize {
        *self.polled.lock().unwrap()
    }

    pub fn fetched(&self) -> usize {
        *self.fetched.lock().unwrap()
    }

    pub fn dialled(&self) -> usize {
        *self.dialled.lock().unwrap()
    }
}

#[async_trait]
impl Dial for Shared {
    async fn connect(&self, _: &str, address: &str) -> Result<Dialled, String> {
        if *self.unreachable.lock().unwrap() {
            return Err(format!("cannot connect to {address}: refused"));
        }
        *self.dialled.lock().unwrap() += 1;
        let (alive, lost) = oneshot::channel();
        self.open.lock().unwrap().push(alive);
        // Nobody speaks over it: what would be read is here.
        let channel = Target::from_static("http://nowhere").connect_lazy();
        Ok(Dialled { channel, lost })
    }
}

#[async_trait]
impl CatalogReader for Shared {
    async fn read(&self, _: Channel) -> Result<(CatalogSnapshot, usize), String> {
        if *self.failing.lock().unwrap() {
            return Err("failed to list bundles: down".to_owned());
        }
        let entries = self.entries.lock().unwrap().clone();
        Ok((CatalogSnapshot::new(BTreeMap::new(), entries), 1))
    }

    async fn manifests(&self, _: Channel, bundle: &InlineBundle) -> Result<Vec<String>, String> {
        let manifests = self.manifests.lock().unwrap();
        manifests
            .get(&bundle.name)
            .cloned()
            .ok_or_else(|| "not found".to_owned())
    }
}

#[async_trait]
impl ImageTags for Shared {
    async fn digest(&self, image: &str, _: &NamespacedName) -> Result<String, String> {
        *self.polled.lock().unwrap() += 1;
        let digests = self.digests.lock().unwrap();
        digests.get(image).cloned().ok_or_else(|| "refused".to_owned())
    }
}

#[async_trait]
impl BundleSource for Shared {
    async fn fetch(&self, image: &str, _: &NamespacedName) -> Result<UnpackedBundle, UnpackError> {
        *self.fetched.lock().unwrap() += 1;
        let refused = self.refused.lock().unwrap().clone();
        if refused.iter().any(|part| image.contains(part)) {
            return Err(UnpackError::new(UnpackClass::Unauthorized, "https://reg: 401"));
        }
        // A plan carries the digest along.
        let image = image.trim_end_matches(DIGEST);
        if self.broken.lock().unwrap().contains(image) {
            return Err(UnpackError::new(UnpackClass::Unreachable, "registry is down"));
        }
        let name = image.rsplit('/').next().unwrap_or_default().replace(':', ".");
        Ok(unpacked(&format!("{image}{DIGEST}"), &name))
    }
}

/// The content of the bundle of this name.
pub fn unpacked(image: &str, name: &str) -> UnpackedBundle {
    let package = name.split('.').next().unwrap_or_default().to_owned();
    let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{package}s.example.com")},
            "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": format!("{package}s"), "kind": "Of"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}});
    let rights = json!([{"serviceAccountName": package, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}]);
    UnpackedBundle {
        image: image.to_owned(),
        csv: json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": {"name": name},
            "spec": {"displayName": package, "version": format!("{}.0.0", name.rsplit('v').next().unwrap_or_default()),
                "customresourcedefinitions": {"owned": [{"name": format!("{package}s.example.com"), "version": "v1", "kind": "Of"}]},
                "install": {"strategy": "deployment",
                    "spec": {"deployments": [], "permissions": rights, "clusterPermissions": rights}}},
        }),
        objects: vec![BundleFile {
            name: "crd.yaml".into(),
            object: crd,
        }],
        ..UnpackedBundle::default()
    }
}
