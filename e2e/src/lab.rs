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

/// How long anything may take before a test gives up; generous, because tests run side by side.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// The cluster, OLM's programs on it, and the tools to give it catalogs.
#[derive(Debug)]
pub struct Lab {
    cluster: Cluster,
    destination: Destination,
    opm: Opm,
    opm_image: PathBuf,
    stand_in_program: PathBuf,
}

impl Lab {
    /// The lab of this test run: the shared cluster, started and given OLM's programs if need be.
    ///
    /// # Errors
    /// When it cannot be set up: no test that needs it can pass.
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

    /// A lab on `cluster`, with OLM by `manifests/`.
    ///
    /// # Errors
    /// When the images or the deployment fail.
    pub fn on(cluster: Cluster) -> anyhow::Result<Self> {
        let progress = Progress::start();
        let built = images::given_or_built(&progress)?;
        let destination = Destination::Embedded(cluster.clone());
        if !deploy::is_deployed(&destination, &built)? {
            built.load(&cluster, &progress)?;
            deploy::deploy(&destination, &built, None, &progress)?;
        }
        Ok(Self::of(cluster, &built))
    }

    /// A lab on `cluster`, whose OLM is left as it was installed there by other means.
    pub fn of(cluster: Cluster, built: &images::Built) -> Self {
        Self {
            destination: Destination::Embedded(cluster.clone()),
            cluster,
            opm: Opm::new(built.opm_program()),
            opm_image: built.opm_image(),
            stand_in_program: built.stand_in_program(),
        }
    }

    /// The cluster.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// kubectl on it.
    pub fn kubectl(&self) -> &Destination {
        &self.destination
    }

    /// The built `opm`.
    pub fn opm(&self) -> &Opm {
        &self.opm
    }

    /// The image tar catalogs are built on.
    pub fn opm_image(&self) -> &Path {
        &self.opm_image
    }

    /// The static program that stands in for operators whose images cannot be had.
    pub fn stand_in_program(&self) -> &Path {
        &self.stand_in_program
    }

    /// A folder of the test `test` under `target/`, emptied.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn folder(&self, test: &str) -> anyhow::Result<PathBuf> {
        let folder = workspace::root().join("target/e2e").join(test);
        if folder.exists() {
            std::fs::remove_dir_all(&folder)?;
        }
        std::fs::create_dir_all(&folder)?;
        Ok(folder)
    }

    /// Makes the images of all bundles and a catalog image named `catalog`, and pushes them.
    ///
    /// # Errors
    /// When opm refuses something or the registry does.
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

    /// The image of the demo catalog, made and pushed by the first test that asks.
    ///
    /// # Errors
    /// When opm or the registry refuses something.
    pub fn demo_catalog(&self) -> anyhow::Result<&'static str> {
        static PUBLISHED: Mutex<bool> = Mutex::new(false);
        let mut published = PUBLISHED.lock().unwrap_or_else(PoisonError::into_inner);
        if !*published {
            // Other test programs do the same at the same time, in the same folder.
            let lock = workspace::root().join("target/images/.demo.lock");
            let lock = File::create(&lock).with_context(|| format!("cannot create {}", lock.display()))?;
            lock.lock().context("cannot wait for another test program")?;
            demo::publish(&self.opm, &self.opm_image, None, |tar, reference| {
                self.cluster.load(tar, &[reference.to_owned()]).map(|_| ())
            })?;
            *published = true;
        }
        Ok(demo::CATALOG_IMAGE)
    }

    /// A namespace of its own for a test, removed when the test ends.
    ///
    /// # Errors
    /// When it cannot be made.
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
        // Also after a failure: an operator that stayed would be in the way of later tests' groups for all namespaces.
        let _ = self
            .lab
            .destination
            .run(&["delete", "namespace", &self.name, "--wait=false"]);
    }
}

impl Namespace<'_> {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Removes what OLM works for in it and leaves the rest to stand: where there are hundreds of definitions, the API server is busy
    /// for half a minute with each namespace that goes.
    ///
    /// # Errors
    /// When the cluster does not answer.
    pub fn delete_olm_objects(self) -> anyhow::Result<()> {
        let this = std::mem::ManuallyDrop::new(self);
        let kinds = "subscriptions.operators.coreos.com,csv,catalogsources,operatorgroups";
        let words = ["delete", kinds, "--all", "-n", &this.name, "--wait=false"];
        this.lab.destination.run(&words).map(drop)
    }

    /// One object of the namespace as JSON.
    ///
    /// # Errors
    /// When the cluster does not answer.
    pub fn get(&self, kind: &str, name: &str) -> anyhow::Result<Option<Value>> {
        self.lab.destination.get(&[kind, "-n", &self.name, name])
    }

    /// All objects of a kind in the namespace.
    ///
    /// # Errors
    /// When the cluster does not answer.
    pub fn list(&self, kind: &str) -> anyhow::Result<Vec<Value>> {
        let list = self
            .lab
            .destination
            .get(&[kind, "-n", &self.name])?
            .unwrap_or_default();
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }

    /// The ClusterServiceVersions of this namespace without the copies of operators for all namespaces, which other tests install.
    ///
    /// # Errors
    /// When the cluster does not answer.
    pub fn own_csvs(&self) -> anyhow::Result<Vec<Value>> {
        let mut all = self.list("csv")?;
        all.retain(|csv| csv["metadata"]["labels"]["olm.copiedFrom"].is_null());
        Ok(all)
    }

    /// Applies objects after putting them into this namespace.
    ///
    /// # Errors
    /// When one is refused.
    pub fn apply(&self, objects: &[Value]) -> anyhow::Result<()> {
        let mut objects = objects.to_vec();
        for object in &mut objects {
            object["metadata"]["namespace"] = json!(self.name);
        }
        self.lab.destination.apply(&objects)
    }

    /// Waits until `seen` is content with an object; `seen` answers with what it misses.
    ///
    /// # Errors
    /// When that takes longer than [`PATIENCE`]; the text has the object's last state.
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
    /// When that takes too long.
    pub fn wait_for_phase(&self, csv: &str, phase: &str) -> anyhow::Result<Value> {
        self.wait_for("csv", csv, &format!("phase {phase}"), |object| {
            text(object, "/status/phase") == phase
        })
    }

    /// Waits for an InstallPlan that installs `csv` and is in `phase`; returns its name.
    ///
    /// # Errors
    /// When that takes too long.
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
    /// When it is refused.
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
    /// When that takes too long.
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

/// The condition of a type in an object's status.
pub fn condition<'a>(object: &'a Value, type_: &str) -> Option<&'a Value> {
    object["status"]["conditions"]
        .as_array()?
        .iter()
        .find(|condition| condition["type"] == type_)
}

/// A CatalogSource as users write it.
pub fn catalog_source(name: &str, image: &str) -> Value {
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
        "metadata": {"name": name},
        "spec": {"sourceType": "grpc", "image": image, "displayName": name, "publisher": "e2e",
                 "grpcPodConfig": {"securityContextConfig": "restricted"}}
    })
}

/// An OperatorGroup; no targets means all namespaces.
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

/// A Subscription to a package of a catalog in its own namespace.
pub fn subscription(name: &str, package: &str, channel: &str, source: &str, namespace: &str) -> Value {
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
        "metadata": {"name": name},
        "spec": {"name": package, "channel": channel, "source": source, "sourceNamespace": namespace}
    })
}
