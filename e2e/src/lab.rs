//! The cluster the tests share, with OLM on it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};
use xtask::catalog::{Opm, Package};
use xtask::cluster::Cluster;
use xtask::kubectl::{Destination, text};
use xtask::progress::Progress;
use xtask::{demo, deploy, images, workspace};

/// Timeout for any single wait of a test; generous, because tests run side by side.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// The cluster, OLM's programs on it, and tools to publish catalogs.
#[derive(Debug)]
pub struct Lab {
    cluster: Cluster,
    destination: Destination,
    opm: Opm,
    opm_image: PathBuf,
    stand_in_program: PathBuf,
    /// True once the demo catalog is in the cluster's registry.
    has_demo: Mutex<bool>,
}

impl Lab {
    /// Returns the lab of this test run: the shared cluster, started and with OLM deployed if needed.
    ///
    /// # Errors
    /// If it cannot be set up; then no test that needs it can pass.
    pub fn shared() -> anyhow::Result<&'static Self> {
        static LAB: OnceLock<Result<Lab, String>> = OnceLock::new();
        let lab = LAB.get_or_init(|| {
            crate::cluster::shared()
                .and_then(Self::on)
                .map_err(|error| format!("{error:#}"))
        });
        lab.as_ref()
            .map_err(|error| anyhow::anyhow!("the lab could not be set up: {error}"))
    }

    /// Creates a lab on `cluster`, with OLM from `manifests/`.
    ///
    /// # Errors
    /// If the images or the deployment fail.
    pub fn on(cluster: Cluster) -> anyhow::Result<Self> {
        let progress = Progress::start();
        let built = images::given_or_built(&progress)?;
        let destination = Destination::Embedded(cluster.clone());
        if !deploy::is_deployed(&destination, &built)? {
            built.push(&destination, &progress)?;
            deploy::deploy(&destination, &built, &progress)?;
        }
        Ok(Self::of(cluster, &built))
    }

    /// Creates a lab on `cluster`, on which OLM is already installed by other means.
    pub fn of(cluster: Cluster, built: &images::Built) -> Self {
        Self {
            destination: Destination::Embedded(cluster.clone()),
            cluster,
            opm: Opm::new(built.opm_program()),
            opm_image: built.opm_image(),
            stand_in_program: built.stand_in_program(),
            has_demo: Mutex::default(),
        }
    }

    /// Returns the cluster.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Returns kubectl for the cluster.
    pub fn kubectl(&self) -> &Destination {
        &self.destination
    }

    /// Returns the built `opm`.
    pub fn opm(&self) -> &Opm {
        &self.opm
    }

    /// Returns the image tar that catalogs are built on.
    pub fn opm_image(&self) -> &Path {
        &self.opm_image
    }

    /// Returns the static program that replaces operators whose images are unavailable.
    pub fn stand_in_program(&self) -> &Path {
        &self.stand_in_program
    }

    /// Returns an empty folder of the test `test` under `target/`.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn folder(&self, test: &str) -> anyhow::Result<PathBuf> {
        let folder = workspace::root().join("target/e2e").join(test);
        if folder.exists() {
            std::fs::remove_dir_all(&folder)?;
        }
        std::fs::create_dir_all(&folder)?;
        Ok(folder)
    }

    /// Creates the images of all bundles and a catalog image named `catalog`, and pushes them.
    ///
    /// # Errors
    /// If opm or the registry fails.
    pub fn publish(&self, test: &str, packages: &[Package], catalog: &str) -> anyhow::Result<()> {
        let folder = self.folder(test)?;
        for (number, bundle) in packages.iter().flat_map(|package| &package.bundles).enumerate() {
            let tar = folder.join(format!("bundle-{number}.tar"));
            self.opm.bundle_image(bundle, &tar)?;
            self.cluster.load(&tar, std::slice::from_ref(&bundle.image))?;
        }
        let home = folder.join("catalog");
        self.opm.write_catalog(packages, &home)?;
        let tar = folder.join("catalog.tar");
        self.opm.catalog_image(&home, &self.opm_image, catalog, &tar)?;
        self.cluster.load(&tar, &[catalog.to_owned()])?;
        Ok(())
    }

    /// Returns the image of the demo catalog; the first test that needs it creates and pushes it.
    ///
    /// # Errors
    /// If opm or the registry fails.
    pub fn demo_catalog(&self) -> anyhow::Result<&'static str> {
        let mut published = self.has_demo.lock().unwrap_or_else(PoisonError::into_inner);
        if !*published {
            // Other test programs do the same at the same time, in the same folder.
            let lock = workspace::root().join("target/images/.demo.lock");
            let lock = File::create(&lock).with_context(|| format!("cannot create {}", lock.display()))?;
            lock.lock().context("cannot wait for another test program")?;
            demo::publish(&self.opm, &self.opm_image, &self.destination)?;
            *published = true;
        }
        Ok(demo::CATALOG_IMAGE)
    }

    /// Creates a namespace for a test, deleted at the end of the test.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn namespace(&self, name: &str) -> anyhow::Result<Namespace<'_>> {
        self.destination.run(&[
            "delete",
            "namespace",
            name,
            "--ignore-not-found",
            "--wait=true",
            "--timeout=240s",
        ])?;
        self.destination
            .apply(&[json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})])?;
        Ok(Namespace {
            lab: self,
            name: name.to_owned(),
        })
    }
}

/// A namespace made for one test.
#[derive(Debug)]
pub struct Namespace<'a> {
    lab: &'a Lab,
    name: String,
}

impl Drop for Namespace<'_> {
    fn drop(&mut self) {
        // Also after a failure: a remaining operator would conflict with later tests' groups for all namespaces.
        let _ = self
            .lab
            .destination
            .run(&["delete", "namespace", &self.name, "--wait=false"]);
    }
}

impl Namespace<'_> {
    /// Returns the name of the namespace.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Deletes the objects that OLM works for and keeps the rest. With hundreds of definitions, each deleted namespace keeps the
    /// API server busy for half a minute.
    ///
    /// # Errors
    /// If the cluster does not respond.
    pub fn delete_olm_objects(self) -> anyhow::Result<()> {
        let this = std::mem::ManuallyDrop::new(self);
        let kinds = "subscriptions.operators.coreos.com,csv,catalogsources,operatorgroups";
        let words = ["delete", kinds, "--all", "-n", &this.name, "--wait=false"];
        this.lab.destination.run(&words).map(drop)
    }

    /// Returns an object of the namespace as JSON.
    ///
    /// # Errors
    /// If the cluster does not respond.
    pub fn get(&self, kind: &str, name: &str) -> anyhow::Result<Option<Value>> {
        self.lab.destination.get(&[kind, "-n", &self.name, name])
    }

    /// Returns all objects of a kind in the namespace.
    ///
    /// # Errors
    /// If the cluster does not respond.
    pub fn list(&self, kind: &str) -> anyhow::Result<Vec<Value>> {
        let list = self
            .lab
            .destination
            .get(&[kind, "-n", &self.name])?
            .unwrap_or_default();
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }

    /// Returns the ClusterServiceVersions of this namespace without copies of operators for all namespaces, which other tests
    /// install.
    ///
    /// # Errors
    /// If the cluster does not respond.
    pub fn own_csvs(&self) -> anyhow::Result<Vec<Value>> {
        let mut all = self.list("csv")?;
        all.retain(|csv| csv["metadata"]["labels"]["olm.copiedFrom"].is_null());
        Ok(all)
    }

    /// Applies objects after setting this namespace.
    ///
    /// # Errors
    /// If an object is rejected.
    pub fn apply(&self, objects: &[Value]) -> anyhow::Result<()> {
        let mut objects = objects.to_vec();
        for object in &mut objects {
            object["metadata"]["namespace"] = json!(self.name);
        }
        self.lab.destination.apply(&objects)
    }

    /// Waits until `seen` accepts an object; `seen` returns true for it.
    ///
    /// # Errors
    /// If that takes longer than [`PATIENCE`]; the error contains the object's last state.
    pub fn wait_for(
        &self,
        kind: &str,
        name: &str,
        what: &str,
        seen: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<Value> {
        self.lab
            .destination
            .wait(&format!("{kind} {}/{name}: {what}", self.name), PATIENCE, |_| {
                Ok(match self.get(kind, name)? {
                    Some(object) if seen(&object) => Ok(object),
                    Some(object) => Err(object["status"].to_string()),
                    None => Err("it does not exist".to_owned()),
                })
            })
    }

    /// Waits until a ClusterServiceVersion is in `phase`.
    ///
    /// # Errors
    /// If that times out.
    pub fn wait_for_phase(&self, csv: &str, phase: &str) -> anyhow::Result<Value> {
        self.wait_for("csv", csv, &format!("phase {phase}"), |object| {
            text(object, "/status/phase") == phase
        })
    }

    /// Waits for an InstallPlan that installs `csv` and is in `phase`; returns its name.
    ///
    /// # Errors
    /// If that times out.
    pub fn wait_for_plan(&self, csv: &str, phase: &str) -> anyhow::Result<String> {
        let what = format!("an InstallPlan in {} for {csv} in phase {phase}", self.name);
        self.lab.destination.wait(&what, PATIENCE, |_| {
            let plans = self.list("installplan")?;
            let found = plans.iter().find(|plan| {
                let names = plan["spec"]["clusterServiceVersionNames"].as_array();
                names.is_some_and(|names| names.iter().any(|name| name == csv))
                    && text(plan, "/status/phase") == phase
            });
            Ok(match found {
                Some(plan) => Ok(text(plan, "/metadata/name").to_owned()),
                None => {
                    let phases: Vec<&str> = plans.iter().map(|plan| text(plan, "/status/phase")).collect();
                    let subscriptions = self.list("subscription")?;
                    let conditions: Vec<&Value> = subscriptions
                        .iter()
                        .map(|subscription| &subscription["status"]["conditions"])
                        .collect();
                    Err(format!(
                        "plans in phases {phases:?}, subscriptions say {conditions:?}"
                    ))
                }
            })
        })
    }

    /// Approves an InstallPlan, as a user does.
    ///
    /// # Errors
    /// If the change is rejected.
    pub fn approve(&self, plan: &str) -> anyhow::Result<()> {
        let patch = r#"{"spec":{"approved":true}}"#;
        self.lab
            .destination
            .run(&[
                "patch",
                "installplan",
                plan,
                "-n",
                &self.name,
                "--type",
                "merge",
                "-p",
                patch,
            ])
            .with_context(|| format!("cannot approve {plan}"))?;
        Ok(())
    }

    /// Waits until a Subscription has a condition of `type_` with status True; returns it.
    ///
    /// # Errors
    /// If that times out.
    pub fn wait_for_condition(&self, subscription: &str, type_: &str) -> anyhow::Result<Value> {
        let object = self.wait_for(
            "subscription",
            subscription,
            &format!("condition {type_}"),
            |object| condition(object, type_).is_some_and(|condition| condition["status"] == "True"),
        )?;
        Ok(condition(&object, type_).cloned().unwrap_or_default())
    }
}

/// Returns the condition of a type in an object's status.
pub fn condition<'a>(object: &'a Value, type_: &str) -> Option<&'a Value> {
    object["status"]["conditions"]
        .as_array()?
        .iter()
        .find(|condition| condition["type"] == type_)
}

/// Returns a CatalogSource as users write it.
pub fn catalog_source(name: &str, image: &str) -> Value {
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
        "metadata": {"name": name},
        "spec": {"sourceType": "grpc", "image": image, "displayName": name, "publisher": "e2e",
                 "grpcPodConfig": {"securityContextConfig": "restricted"}}
    })
}

/// Returns an OperatorGroup; no targets means all namespaces.
pub fn operator_group(name: &str, targets: &[&str]) -> Value {
    let mut group = json!({
        "apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
        "metadata": {"name": name}, "spec": {}
    });
    if !targets.is_empty() {
        group["spec"]["targetNamespaces"] = json!(targets);
    }
    group
}

/// Returns a Subscription to a package of a catalog in its own namespace.
pub fn subscription(name: &str, package: &str, channel: &str, source: &str, namespace: &str) -> Value {
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
        "metadata": {"name": name},
        "spec": {"name": package, "channel": channel, "source": source, "sourceNamespace": namespace}
    })
}
