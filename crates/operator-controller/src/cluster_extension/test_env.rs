//! Both controllers on a cluster in memory, with catalogs and bundles that the tests write.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::rbac::v1::PolicyRule;
use olm_runtime::process;
use olm_runtime::review::{Attributes, Decision, ReviewError, Reviewer, User};
use olm_testing::cluster::Kind;
use olm_testing::stage::{Operator, Stage};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::Sources;
use crate::bundle_images::BundleImages;
use crate::catalog_content::CatalogContents;
use crate::render::Bundle;
use crate::resolve::PackageContent;
use crate::run::controllers;

/// What is outside of the cluster: contents by URL, and manifests of bundles by image.
#[derive(Default)]
pub(super) struct Outside {
    contents: BTreeMap<String, String>,
    bundles: BTreeMap<String, BTreeMap<String, String>>,
    /// Images that were pulled.
    pub(super) pulls: Vec<String>,
    /// Packages that were read, each as `catalog package`.
    pub(super) reads: Vec<String>,
    /// Rights of the ServiceAccount `installer` of the namespace `ns`: rules, each with the namespace where it counts.
    pub(super) granted: Vec<(String, PolicyRule)>,
}

/// Shared by the processes of a test.
#[derive(Clone, Default)]
struct FakeSources(Arc<Mutex<Outside>>);

#[async_trait]
impl CatalogContents for FakeSources {
    async fn package(&self, base: &str, package: &str) -> Result<Option<PackageContent>, String> {
        let mut outside = self.0.lock().unwrap();
        let catalog = base.rsplit('/').next().unwrap_or_default();
        outside.reads.push(format!("{catalog} {package}"));
        let content = outside.contents.get(base).ok_or("connection refused")?;
        PackageContent::read(content.as_bytes(), package)
    }
}

#[async_trait]
impl BundleImages for FakeSources {
    async fn bundle(&self, image: &str) -> Result<Bundle, String> {
        let mut outside = self.0.lock().unwrap();
        outside.pulls.push(image.to_owned());
        let files = outside.bundles.get(image).ok_or("manifest unknown")?;
        let files = files.iter().map(|(path, text)| (path.as_str(), text.as_bytes()));
        Bundle::read(files)
    }
}

#[async_trait]
impl Reviewer for FakeSources {
    async fn identify(&self, _: &str) -> Result<Option<User>, ReviewError> {
        Ok(None)
    }

    async fn decide(&self, user: &User, attributes: &Attributes) -> Result<Decision, ReviewError> {
        let outside = self.0.lock().unwrap();
        let is_installer = user.name == "system:serviceaccount:ns:installer";
        let mut granted = outside.granted.iter();
        Ok(Decision {
            is_allowed: is_installer && granted.any(|(place, rule)| allows(place, rule, attributes)),
            reason: String::new(),
        })
    }
}

/// True if a rule that counts in a namespace, or everywhere if it is empty, allows a request.
fn allows(place: &str, rule: &PolicyRule, attributes: &Attributes) -> bool {
    let has = |list: &[String], value: &str| list.iter().any(|item| item == "*" || item == value);
    let part = |list: &Option<Vec<String>>, value: &str| has(list.as_deref().unwrap_or_default(), value);
    match attributes {
        Attributes::Path { verb, path } => has(&rule.verbs, verb) && part(&rule.non_resource_urls, path),
        Attributes::Resource {
            verb,
            group,
            namespace,
            resource,
            name,
            ..
        } => {
            (place.is_empty() || place == namespace)
                && has(&rule.verbs, verb)
                && part(&rule.api_groups, group)
                && part(&rule.resources, resource)
                && (rule.resource_names.is_none() || part(&rule.resource_names, name))
        }
    }
}

pub(super) struct TestEnv {
    pub(super) stage: Stage,
    fakes: FakeSources,
}

/// A bundle of the package `p`.
pub(super) struct TestBundle<'a> {
    pub(super) version: &'a str,
    /// Supported install modes.
    pub(super) modes: &'a [&'a str],
    /// Names of its ConfigMaps.
    pub(super) config_maps: &'a [&'a str],
    /// Fields of its CustomResourceDefinition.
    pub(super) fields: &'a [&'a str],
    /// True if its Deployment serves a webhook.
    pub(super) has_webhook: bool,
    /// Rules of its account in the whole cluster.
    pub(super) rules: Value,
    /// Tag of the image of its Deployment; its version without it.
    pub(super) tag: Option<&'a str>,
    /// Properties beside its manifests.
    pub(super) properties: Value,
}

impl Default for TestBundle<'_> {
    fn default() -> Self {
        Self {
            version: "1.0.0",
            modes: &["AllNamespaces"],
            config_maps: &["a"],
            fields: &["x"],
            has_webhook: false,
            rules: Value::Null,
            tag: None,
            properties: Value::Null,
        }
    }
}

impl TestEnv {
    /// Creates a cluster with the namespace `ns`, the catalog `c` with three versions, and one process.
    pub(super) fn new() -> Self {
        Self::of_process(false)
    }

    /// As `new`; the process may ignore `spec.serviceAccount`.
    pub(super) fn of_process(ignores_accounts: bool) -> Self {
        let fakes = FakeSources::default();
        let stage = Stage::of(vec![operator(&fakes, ignores_accounts)]);
        for (kind, plural) in [
            ("ClusterCatalog", "clustercatalogs"),
            ("ClusterExtension", "clusterextensions"),
            ("ClusterObjectSet", "clusterobjectsets"),
        ] {
            stage.cluster.serve(Kind {
                group: "olm.operatorframework.io".into(),
                versions: vec!["v1".into()],
                kind: kind.into(),
                plural: plural.into(),
                namespaced: false,
                status: true,
                custom: true,
            });
        }
        let mut env = Self { stage, fakes };
        for name in ["ns", "olm", "kube-system"] {
            env.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
        }
        for version in ["1.0.0", "1.1.0", "2.0.0"] {
            env.bundle(&TestBundle {
                version,
                ..TestBundle::default()
            });
        }
        env.catalog("c", &["1.0.0", "1.1.0"]);
        env
    }

    pub(super) fn outside(&self) -> std::sync::MutexGuard<'_, Outside> {
        self.fakes.0.lock().unwrap()
    }

    /// Creates or replaces an object as a user.
    pub(super) fn put(&mut self, object: Value) {
        self.stage.as_user(|cluster| cluster.put(object));
    }

    /// Serves a catalog with these versions of the package `p`, each of which replaces the one before.
    pub(super) fn catalog(&mut self, name: &str, versions: &[&str]) {
        let mut documents = vec![json!({"schema": "olm.package", "name": "p", "defaultChannel": "stable"})];
        let mut entries = Vec::new();
        for (index, version) in versions.iter().enumerate() {
            let before = index
                .checked_sub(1)
                .map(|before| format!("p.v{}", versions[before]));
            entries.push(json!({"name": format!("p.v{version}"), "replaces": before.unwrap_or_default()}));
            documents.push(json!({
                "schema": "olm.bundle", "name": format!("p.v{version}"), "package": "p", "image": format!("reg.example/p:{version}"),
                "properties": [{"type": "olm.package", "value": {"packageName": "p", "version": version}}],
            }));
        }
        documents
            .push(json!({"schema": "olm.channel", "name": "stable", "package": "p", "entries": entries}));
        self.documents(name, &documents);
    }

    /// Serves a catalog with these documents.
    pub(super) fn documents(&mut self, name: &str, documents: &[Value]) {
        let base = format!("https://catalogd.example/catalogs/{name}");
        let mut content = String::new();
        for document in documents {
            writeln!(content, "{document}").unwrap();
        }
        let digest = format!("reg.example/{name}@sha256:{:064x}", content.len());
        self.outside().contents.insert(base.clone(), content);
        self.put(json!({
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterCatalog",
            "metadata": {"name": name, "labels": {"olm.operatorframework.io/metadata.name": name}},
            "spec": {"source": {"type": "Image", "image": {"ref": "reg.example/c:1"}}},
            "status": {
                "urls": {"base": base},
                "resolvedSource": {"type": "Image", "image": {"ref": digest}},
                "conditions": [condition("Serving", "True", "Available"), condition("Progressing", "True", "Succeeded")],
            },
        }));
    }

    /// Puts an image with a bundle into the registry.
    pub(super) fn bundle(&mut self, bundle: &TestBundle<'_>) {
        let TestBundle { version, modes, .. } = bundle;
        let tag = bundle.tag.unwrap_or(version);
        let modes: Vec<Value> = modes
            .iter()
            .map(|mode| json!({"type": mode, "supported": true}))
            .collect();
        let mut csv = json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
            "metadata": {"name": format!("p.v{version}")},
            "spec": {
                "version": version, "installModes": modes,
                "customresourcedefinitions": {"owned": [{"name": "demos.example.com", "version": "v1", "kind": "Demo"}]},
                "install": {"strategy": "deployment", "spec": {"deployments": [{
                    "name": "demo",
                    "spec": {
                        "selector": {"matchLabels": {"app": "demo"}},
                        "template": {
                            "metadata": {"labels": {"app": "demo"}},
                            "spec": {"containers": [{"name": "main", "image": format!("reg.example/demo:{tag}")}]},
                        },
                    },
                }]}},
            },
        });
        if bundle.rules.is_array() {
            csv["spec"]["install"]["spec"]["clusterPermissions"] =
                json!([{"serviceAccountName": "demo", "rules": bundle.rules}]);
        }
        if bundle.has_webhook {
            csv["spec"]["webhookdefinitions"] = json!([{
                "type": "ValidatingAdmissionWebhook", "generateName": "check.example.com", "deploymentName": "demo",
                "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Fail",
                "rules": [{
                    "apiGroups": ["example.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["demos"],
                }],
            }]);
        }
        let text = json!({"type": "string"});
        let fields: serde_json::Map<String, Value> = bundle
            .fields
            .iter()
            .map(|&field| (field.to_owned(), text.clone()))
            .collect();
        let crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "demos.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced", "names": {"kind": "Demo", "plural": "demos"},
                "versions": [{
                    "name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": fields}},
                }],
            },
        });
        let mut files = BTreeMap::from([
            (
                "metadata/annotations.yaml".to_owned(),
                json!({"annotations": {"operators.operatorframework.io.bundle.package.v1": "p"}}).to_string(),
            ),
            ("manifests/csv.yaml".to_owned(), csv.to_string()),
            ("manifests/crd.yaml".to_owned(), crd.to_string()),
        ]);
        if bundle.properties.is_array() {
            let properties = json!({"properties": bundle.properties});
            files.insert("metadata/properties.yaml".to_owned(), properties.to_string());
        }
        for &name in bundle.config_maps {
            let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"version": version}});
            files.insert(format!("manifests/{name}.yaml"), map.to_string());
        }
        self.outside()
            .bundles
            .insert(format!("reg.example/p:{version}"), files);
    }

    /// Removes the image of a version.
    pub(super) fn remove_image(&mut self, version: &str) {
        self.outside().bundles.remove(&format!("reg.example/p:{version}"));
    }

    /// Creates the extension `e` of the package `p`, with these fields of `spec.source.catalog`.
    pub(super) fn extension(&mut self, catalog: &Value) {
        self.extension_named("e", catalog);
    }

    /// Creates an extension of another name.
    pub(super) fn extension_named(&mut self, name: &str, catalog: &Value) {
        let mut filter = json!({"packageName": "p"});
        olm_testing::patch::merge(&mut filter, catalog);
        self.put(json!({
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "metadata": {"name": name},
            "spec": {"namespace": "ns", "source": {"sourceType": "Catalog", "catalog": filter}},
        }));
        self.settle();
    }

    /// Patches a cluster-scoped object, or one in the namespace `ns`, and settles.
    #[track_caller]
    pub(super) fn edit(&mut self, kind: &str, name: &str, patch: &Value) {
        let namespace = namespace_of(kind);
        let found = self
            .stage
            .as_user(|cluster| cluster.edit(kind, namespace, name, patch));
        assert!(found, "{kind} {name} exists");
        self.settle();
    }

    /// Sets `spec.source.catalog.version`.
    #[track_caller]
    pub(super) fn ask_for(&mut self, version: &str) {
        let patch = json!({"spec": {"source": {"catalog": {"version": version}}}});
        self.edit("ClusterExtension", "e", &patch);
    }

    /// Deletes an object, and settles.
    #[track_caller]
    pub(super) fn delete(&mut self, kind: &str, name: &str) {
        let namespace = namespace_of(kind);
        assert!(
            self.stage
                .as_user(|cluster| cluster.delete(kind, namespace, name)),
            "{kind} {name} exists"
        );
        self.settle();
    }

    /// Runs until there are no more writes.
    #[track_caller]
    pub(super) fn settle(&mut self) {
        self.stage.settle();
    }

    /// Passes the time, then settles.
    #[track_caller]
    pub(super) fn settle_for(&mut self, seconds: u64) {
        self.stage.start();
        self.stage.advance(Duration::from_secs(seconds));
        self.settle();
    }

    /// Returns an object; null if it does not exist.
    pub(super) fn get(&self, kind: &str, name: &str) -> Value {
        let found = self.stage.cluster.get(kind, namespace_of(kind), name);
        found.unwrap_or_default()
    }

    /// Returns `status reason: message` of a condition of the extension `e`.
    pub(super) fn condition(&self, type_: &str) -> String {
        self.condition_of("e", type_)
    }

    /// Returns the same of an extension of another name.
    pub(super) fn condition_of(&self, extension: &str, type_: &str) -> String {
        let extension = self.get("ClusterExtension", extension);
        let conditions = extension["status"]["conditions"].as_array().cloned();
        let mut conditions = conditions.unwrap_or_default().into_iter();
        let Some(found) = conditions.find(|condition| condition["type"] == type_) else {
            return "none".to_owned();
        };
        let text = |field: &str| found[field].as_str().unwrap_or("-").to_owned();
        format!("{} {}: {}", text("status"), text("reason"), text("message"))
    }

    /// Returns the installed version and the names of the active revisions.
    pub(super) fn installed(&self) -> (String, Vec<String>) {
        let status = self.get("ClusterExtension", "e")["status"].clone();
        let version = status["install"]["bundle"]["version"].as_str().unwrap_or("none");
        let revisions = status["activeRevisions"].as_array().into_iter().flatten();
        let names = revisions.filter_map(|revision| revision["name"].as_str().map(str::to_owned));
        (version.to_owned(), names.collect())
    }

    /// Makes the Deployment never become available, or available again.
    pub(super) fn set_sick(&mut self, is_sick: bool) {
        self.stage.cluster.set_controllers(|controllers| {
            controllers.sick.clear();
            if is_sick {
                let condition = json!([{"type": "Available", "status": "False"}]);
                controllers.sick.insert("demo".to_owned(), condition);
            }
        });
    }
}

pub(super) fn condition(type_: &str, status: &str, reason: &str) -> Value {
    json!({
        "type": type_, "status": status, "reason": reason, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
    })
}

fn namespace_of(kind: &str) -> &'static str {
    match kind {
        "ConfigMap" | "Deployment" => "ns",
        "Secret" => "olm",
        _ => "",
    }
}

fn operator(fakes: &FakeSources, ignores_accounts: bool) -> Operator {
    let fakes = fakes.clone();
    Box::new(move |client| {
        let sources = Sources {
            contents: Arc::new(fakes.clone()),
            images: Arc::new(fakes.clone()),
            openshift: None,
            reviewer: Arc::new(fakes.clone()),
            ignores_accounts,
        };
        Box::pin(async move {
            let (set, start) = controllers(&client, "olm", sources);
            let mut watches = JoinSet::new();
            let stores = set.start(&mut watches);
            let forever = std::future::pending();
            let ended = process::controllers(client, watches, stores, None, start, forever).await;
            ended.unwrap();
        })
    })
}
