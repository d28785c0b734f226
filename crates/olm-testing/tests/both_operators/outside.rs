//! Simulated registry server, and the bundle images of an operator `demo`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use catalog_operator::for_tests::{
    BundleFile, BundleSource, CatalogReader, Dial, Dialled, UnpackError, UnpackedBundle,
};
use catalog_operator::run;
use go_compat::semver::Version;
use olm_fbc::entry::{BundleEntry, CatalogSnapshot, EntryProperty};
use olm_runtime::NamespacedName;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tonic::transport::{Channel, Endpoint as Target};

/// Everything outside of the cluster.
#[derive(Default)]
pub struct Outside {
    entries: Mutex<Vec<BundleEntry>>,
    open: Mutex<Vec<oneshot::Sender<()>>>,
}

impl Outside {
    /// Replaces the content of the catalog and breaks open connections.
    pub fn serve(&self, entries: &[BundleEntry]) {
        entries.clone_into(&mut self.entries.lock().unwrap());
        self.open.lock().unwrap().clear();
    }

    /// Returns the environment as catalog-operator uses it.
    pub fn of_operator(self: &Arc<Self>) -> run::Outside {
        run::Outside {
            dial: Arc::<Self>::clone(self),
            catalogs: Arc::<Self>::clone(self),
            bundles: Some(Arc::<Self>::clone(self)),
            tags: None,
        }
    }
}

#[async_trait]
impl Dial for Outside {
    async fn connect(&self, _: &str, _: &str) -> Result<Dialled, String> {
        let (alive, lost) = oneshot::channel();
        self.open.lock().unwrap().push(alive);
        // The connection is never used, since the content is read from here.
        let channel = Target::from_static("http://nowhere").connect_lazy();
        Ok(Dialled { channel, lost })
    }
}

#[async_trait]
impl CatalogReader for Outside {
    async fn read(&self, _: Channel) -> Result<(CatalogSnapshot, usize), String> {
        let entries = self.entries.lock().unwrap().clone();
        Ok((CatalogSnapshot::new(BTreeMap::new(), entries), 1))
    }
}

#[async_trait]
impl BundleSource for Outside {
    async fn fetch(&self, image: &str, _: &NamespacedName) -> Result<UnpackedBundle, UnpackError> {
        // A plan contains the image with its digest.
        let image = image.trim_end_matches("@sha256:00");
        let version: u32 = image.trim_start_matches("reg/demo:v").parse().unwrap();
        Ok(UnpackedBundle {
            image: format!("{image}@sha256:00"),
            csv: csv(version),
            objects: vec![BundleFile {
                name: "crd.yaml".into(),
                object: crd(),
            }],
            ..UnpackedBundle::default()
        })
    }
}

/// Returns a channel `stable` with this many versions, each of which replaces the one before.
pub fn versions(count: u32) -> Vec<BundleEntry> {
    (1..=count).map(entry).collect()
}

fn entry(number: u32) -> BundleEntry {
    let text = format!("{number}.0.0");
    let property = |type_: &str, value: Value| EntryProperty::new(type_, value.to_string());
    BundleEntry {
        name: format!("demo.v{number}").into(),
        package: "demo".into(),
        channel: "stable".into(),
        default_channel: true,
        version: Version::parse(&text).ok(),
        replaces: (number > 1).then(|| format!("demo.v{}", number - 1).into()),
        properties: Arc::new([
            property("olm.package", json!({"packageName": "demo", "version": text})),
            property(
                "olm.gvk",
                json!({"group": "example.com", "version": "v1", "kind": "Demo"}),
            ),
        ]),
        bundle_path: Some(format!("reg/demo:v{number}").into()),
        ..BundleEntry::default()
    }
}

fn csv(number: u32) -> Value {
    let modes = [
        "OwnNamespace",
        "SingleNamespace",
        "MultiNamespace",
        "AllNamespaces",
    ];
    let modes = modes.map(|mode| json!({"type": mode, "supported": true}));
    let rights = |resource: &str| {
        json!([{"serviceAccountName": "demo",
            "rules": [{"apiGroups": [""], "resources": [resource], "verbs": ["get"]}]}])
    };
    let deployment = json!({"name": "demo", "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "demo"}}, "template": {
        "metadata": {"labels": {"app": "demo"}},
        "spec": {"serviceAccountName": "demo", "containers": [{"name": "c", "image": format!("demo:{number}")}]},
    }}});
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": format!("demo.v{number}")},
        "spec": {"displayName": "Demo", "version": format!("{number}.0.0"), "installModes": modes,
            "customresourcedefinitions": {"owned": [{"name": "demos.example.com", "version": "v1", "kind": "Demo"}]},
            "install": {"strategy": "deployment", "spec": {"deployments": [deployment],
                "permissions": rights("configmaps"), "clusterPermissions": rights("nodes")}}},
    })
}

fn crd() -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "demos.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "demos", "kind": "Demo"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}})
}
