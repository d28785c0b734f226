//! The flows of the documentation of OLM v1, on a cluster with `catalogd` and `operator-controller` only. Each test has a package, a
//! namespace and a ClusterExtension of one name.

mod account;
mod policy;
mod removal;
mod targets;
mod webhooks;

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use anyhow::anyhow;
use e2e::cluster::Scratch;
use e2e::helm::{Helm, values};
use e2e::lab::Lab;
use e2e::olm_v1::{cluster_catalog, has_installed, object, serving};
use e2e::variant::{CSV_FILE, Variant};
use serde_json::{Value, json};
use xtask::catalog::{Bundle, Entry, Package};
use xtask::cluster::UpOptions;
use xtask::deploy::v1::with_v1;
use xtask::kubectl::Destination;
use xtask::progress::Progress;
use xtask::{chart, images};

/// Namespace of OLM.
const OLM: &str = "olm";
/// OLM Classic is not part of these tests.
const WITHOUT_CLASSIC: &str = "olm.replicaCount=0,catalog.replicaCount=0,package.enabled=false";

/// A cluster with OLM v1 for the tests that run at the same time; the last of them takes it down.
struct Setup {
    lab: Lab,
    _scratch: Scratch,
}

impl Setup {
    fn start() -> anyhow::Result<Self> {
        /// The previous cluster may still be on its way down.
        static COUNT: AtomicUsize = AtomicUsize::new(1);
        let progress = Progress::start();
        let built = images::given_or_built(&progress)?;
        let name = format!("extensions-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let scratch = Scratch::start(&name, UpOptions::default())?;
        let lab = Lab::of((*scratch).clone(), &built);
        let kubectl = lab.kubectl();
        built.push(kubectl, &progress)?;
        // The chart takes a namespace over that looks like its own.
        kubectl.apply(&[json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {
            "name": OLM, "labels": {"app.kubernetes.io/managed-by": "Helm"},
            "annotations": {"meta.helm.sh/release-name": "olm", "meta.helm.sh/release-namespace": "default"},
        }})])?;
        let v1 = with_v1(&scratch, kubectl)?;
        let helm = Helm::new((*scratch).clone())?;
        let values = values(&scratch, &built, helm.home.path())?;
        let (chart, values) = (chart::folder(), values.to_string_lossy().into_owned());
        let chart = chart.to_string_lossy().into_owned();
        let install = [
            "install",
            "olm",
            &chart,
            "-f",
            &values,
            "--wait",
            "--timeout=8m",
            "--set",
            WITHOUT_CLASSIC,
        ];
        helm.run(&[&install[..], &v1[..]].concat())?;
        // Each test uses the operator's image.
        lab.demo_catalog()?;
        Ok(Self {
            lab,
            _scratch: scratch,
        })
    }
}

/// Returns the cluster, started by the first test that needs it.
fn setup() -> anyhow::Result<Arc<Setup>> {
    static STARTED: Mutex<Option<Result<Weak<Setup>, String>>> = Mutex::new(None);
    let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = started.as_ref() {
        let known = known.as_ref();
        let known = known.map_err(|error| anyhow!("the cluster could not be set up: {error}"))?;
        if let Some(known) = known.upgrade() {
            return Ok(known);
        }
    }
    let made = Setup::start().map(Arc::new);
    *started = Some(match &made {
        Ok(setup) => Ok(Arc::downgrade(setup)),
        Err(error) => Err(format!("{error:#}")),
    });
    made
}

/// Versions of a package that have the same operator, and are published in one catalog after another.
struct Versions<'a> {
    lab: &'a Lab,
    name: &'static str,
    home: PathBuf,
    first: Variant,
}

impl<'a> Versions<'a> {
    fn new(lab: &'a Lab, name: &'static str) -> anyhow::Result<Self> {
        let home = lab.folder(&format!("{name}-bundles"))?;
        let first = Variant::new(name, &home.join("original"))?;
        Ok(Self {
            lab,
            name,
            home,
            first,
        })
    }

    /// Returns the name of the bundle of a version.
    fn bundle_name(&self, version: &str) -> String {
        format!("{}.v{version}", self.name)
    }

    /// Returns the bundle of a version.
    fn bundle(&self, version: &str) -> anyhow::Result<Bundle> {
        let folder = self.home.join(version);
        if !folder.exists() {
            let bundle = self.first.copy_to(&folder)?;
            if version != "1.0.0" {
                let (old, new) = (self.first.csv(), self.bundle_name(version));
                bundle.edit(CSV_FILE, |csv| {
                    csv.replace(&format!("name: {old}"), &format!("name: {new}"))
                        .replace("  version: 1.0.0\n", &format!("  version: {version}\n"))
                })?;
            }
        }
        Ok(Bundle {
            folder,
            image: self.first.image(&format!("v{version}")),
        })
    }

    /// Publishes these versions with the entries of a channel as catalog `number`, and lets the ClusterCatalog follow. Returns once its
    /// content is served.
    fn publish(
        &self,
        number: usize,
        versions: &[&str],
        channel: &str,
        entries: Vec<Entry>,
    ) -> anyhow::Result<()> {
        let bundles = versions.iter().map(|version| self.bundle(version));
        let package = Package {
            name: self.name.to_owned(),
            default_channel: channel.to_owned(),
            channels: vec![(channel.to_owned(), entries)],
            bundles: bundles.collect::<Result<_, _>>()?,
        };
        let image = format!("olm.local/{}-catalog:v{number}", self.name);
        self.lab.publish(self.name, &[package], &image)?;
        serve(self.lab.kubectl(), self.name, &image)
    }

    /// As `publish`, with a channel in which each version replaces the one before.
    fn publish_in_order(&self, number: usize, versions: &[&str], channel: &str) -> anyhow::Result<()> {
        let mut before = None;
        let entries = versions.iter().map(|version| {
            let name = self.bundle_name(version);
            Entry {
                replaces: before.replace(name.clone()),
                name,
                ..Entry::default()
            }
        });
        self.publish(number, versions, channel, entries.collect())
    }
}

/// Lets the ClusterCatalog `name` have an image, and waits until the content of that is served.
fn serve(kubectl: &Destination, name: &str, image: &str) -> anyhow::Result<()> {
    kubectl.apply(&[cluster_catalog(name, "Available", image)])?;
    let what = format!("ClusterCatalog {name}: {image} to be unpacked");
    object(kubectl, &["clustercatalog", name], &what, |it| {
        let conditions = it["status"]["conditions"].as_array().into_iter().flatten();
        let mut progressing = conditions.filter(|condition| condition["type"] == "Progressing");
        progressing.any(|condition| {
            condition["reason"] == "Succeeded"
                && condition["observedGeneration"] == it["metadata"]["generation"]
        })
    })?;
    serving(kubectl, name, "True").map(drop)
}

/// Returns a ClusterExtension with these fields of `spec.source.catalog`.
fn extension(name: &str, namespace: &str, catalog: &Value) -> Value {
    let mut filter = json!({"packageName": name});
    for (field, value) in catalog.as_object().into_iter().flatten() {
        filter[field] = value.clone();
    }
    json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "metadata": {"name": name},
        "spec": {"namespace": namespace, "source": {"sourceType": "Catalog", "catalog": filter}},
    })
}

/// Returns the ClusterExtension once it has installed a version.
fn installed(kubectl: &Destination, name: &str, version: &str) -> anyhow::Result<Value> {
    let what = format!("ClusterExtension {name}: {version} to be installed");
    object(kubectl, &["clusterextension", name], &what, |it| {
        has_installed(it, version)
    })
}

/// Creates the account `installer` in a namespace, with all rights.
fn installer(kubectl: &Destination, namespace: &str) -> anyhow::Result<()> {
    kubectl.apply(&[
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "installer", "namespace": namespace}}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": format!("{namespace}-installer")},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": "installer", "namespace": namespace}]}),
    ])
}
