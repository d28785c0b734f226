//! Recreates the state of upstream's OLM on a cluster: objects recorded on a real one, each written under upstream's field
//! managers, statuses by their subresource, with stand-ins for its two programs.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, ensure};
use serde_json::{Map, Value, json};
use xtask::catalog::{Bundle, Entry, Package};
use xtask::kubectl::{Destination, text};
use xtask::{manifest, workspace};

/// Namespace and package of the recorded operator.
pub const NAMESPACE: &str = "own";
/// The ClusterServiceVersion that upstream installed.
pub const FIRST: &str = "own.v1.0.0";
/// The ClusterServiceVersion of the InstallPlan that waits.
pub const SECOND: &str = "own.v1.1.0";
/// The InstallPlan that waits.
pub const PLAN: &str = "install-gs74r";
/// ConfigMap to which its bundle was unpacked.
const UNPACKED: &str = "c717fe0c8cd84f7d8b7f83dec1b7a36daf0a1e4f8b49be51d32c1349e020311";
/// Catalog of the operator, in OLM's namespace.
pub const CATALOG: &str = "things";
/// Image of the catalog.
pub const CATALOG_IMAGE: &str = "olm.local/things:latest";
/// Image of upstream's programs.
pub const IMAGE: &str = "quay.io/operator-framework/olm:v0.45.0";
/// A label of pods and an environment variable that [`SECOND`] does not have.
pub const DROPPED: (&str, &str) = ("old-label", "OLD_SETTING");

/// Arguments by which a raw request of kubectl reads its body.
const BODY: [&str; 2] = ["-f", "-"];
/// Order of creation: owners before the objects they own.
const ORDER: [&str; 9] = [
    "Namespace",
    "CustomResourceDefinition",
    "CatalogSource",
    "OperatorGroup",
    "Subscription",
    "ClusterServiceVersion",
    "OperatorCondition",
    "ServiceAccount",
    "Role",
];

/// Returns the recorded objects, in an order in which they can be created.
///
/// # Errors
/// They cannot be read.
pub fn recorded() -> anyhow::Result<Vec<Value>> {
    let file = workspace::root().join("crates/olm-operator/src/csv/tests/upstream/own.jsonl");
    let lines = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let objects = lines.lines().map(serde_json::from_str);
    let mut objects = objects.collect::<Result<Vec<Value>, _>>()?;
    objects.sort_by_key(|object| {
        ORDER
            .iter()
            .position(|kind| object["kind"] == *kind)
            .unwrap_or(ORDER.len())
    });
    Ok(objects)
}

/// Returns the package of the recorded operator with both of its versions, as bundles in `folder`.
///
/// # Errors
/// They cannot be written.
pub fn package(folder: &Path) -> anyhow::Result<Package> {
    let objects = recorded()?;
    let mut bundles = Vec::new();
    for csv in [FIRST, SECOND] {
        let home = folder.join(csv);
        for (part, file, text) in [
            ("manifests", "csv.yaml", csv_of(&objects, csv)?.to_string()),
            ("manifests", "crd.yaml", definition(&objects)?.to_string()),
            ("metadata", "annotations.yaml", annotations().to_string()),
        ] {
            fs::create_dir_all(home.join(part))?;
            fs::write(home.join(part).join(file), text)?;
        }
        let version = csv.trim_start_matches("own.");
        bundles.push(Bundle {
            folder: home,
            image: format!("{}own-bundle:{version}", manifest::IMAGE_PREFIX),
        });
    }
    let entry = |name: &str, replaces: Option<&str>| Entry {
        name: name.to_owned(),
        replaces: replaces.map(str::to_owned),
        ..Entry::default()
    };
    let entries = vec![entry(FIRST, None), entry(SECOND, Some(FIRST))];
    Ok(Package {
        name: NAMESPACE.to_owned(),
        default_channel: "next".to_owned(),
        channels: vec![("next".to_owned(), entries)],
        bundles,
    })
}

fn annotations() -> Value {
    let name = |name: &str| format!("operators.operatorframework.io.bundle.{name}.v1");
    json!({"annotations": {
        name("mediatype"): "registry+v1", name("manifests"): "manifests/", name("metadata"): "metadata/",
        name("package"): NAMESPACE, name("channels"): "next", name("channel.default"): "next",
    }})
}

fn of_kind<'a>(objects: &'a [Value], kind: &str) -> anyhow::Result<&'a Value> {
    let found = objects.iter().find(|object| object["kind"] == kind);
    found.with_context(|| format!("no {kind} was recorded"))
}

fn definition(objects: &[Value]) -> anyhow::Result<Value> {
    let found = of_kind(objects, "CustomResourceDefinition")?;
    Ok(
        json!({"apiVersion": found["apiVersion"], "kind": found["kind"], "metadata": {"name": found["metadata"]["name"]},
        "spec": found["spec"]}),
    )
}

/// Returns a version as its author wrote it. The second one is the first without [`DROPPED`].
fn csv_of(objects: &[Value], name: &str) -> anyhow::Result<Value> {
    let found = of_kind(objects, "ClusterServiceVersion")?;
    let annotations = found["metadata"]["annotations"].as_object();
    let own = annotations.into_iter().flatten();
    let own: Map<String, Value> = own
        .filter(|(key, _)| !key.starts_with("olm.") && !key.starts_with("operatorframework.io/"))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let mut csv = json!({"apiVersion": found["apiVersion"], "kind": found["kind"],
        "metadata": {"name": name, "annotations": own}, "spec": found["spec"]});
    if name == SECOND {
        csv["spec"]["version"] = json!("1.1.0");
        csv["spec"]["replaces"] = json!(FIRST);
        let deployment = &mut csv["spec"]["install"]["spec"]["deployments"][0]["spec"];
        // The API server's defaults for rolling updates are rejected together with this strategy.
        deployment["strategy"] = json!({"type": "Recreate"});
        let template = &mut deployment["template"];
        let labels = template["metadata"]["labels"].as_object_mut();
        let label = labels.and_then(|labels| labels.remove(DROPPED.0));
        let container = &mut template["spec"]["containers"][0];
        let env = container["env"]
            .as_array_mut()
            .context("no variables were recorded")?;
        let before = env.len();
        env.retain(|variable| variable["name"] != DROPPED.1);
        ensure!(
            label.is_some() && env.len() < before,
            "what is dropped was not there"
        );
        container["image"] = json!("olm.local/demo-operator:1.1.0");
    }
    Ok(csv)
}

/// Returns upstream's installation as in the file of its releases: namespaces, accounts, groups, and its two programs, which do
/// nothing here.
pub fn installation() -> Value {
    let namespace = |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let group = |namespace: &str, name: &str, spec: Value| {
        json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
            "metadata": {"namespace": namespace, "name": name}, "spec": spec})
    };
    let account =
        json!({"kind": "ServiceAccount", "namespace": "olm", "name": "olm-operator-serviceaccount"});
    let role = "system:controller:operator-lifecycle-manager";
    let rbac = "rbac.authorization.k8s.io";
    let items = json!([
        namespace("olm"),
        namespace("operators"),
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": "olm", "name": account["name"]}},
        {"apiVersion": format!("{rbac}/v1"), "kind": "ClusterRole", "metadata": {"name": role},
            "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]},
        {"apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": "olm-operator-binding-olm"},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": role}, "subjects": [account]},
        {"apiVersion": "operators.coreos.com/v1", "kind": "OLMConfig", "metadata": {"name": "cluster"}},
        group("operators", "global-operators", json!({})),
        group("olm", "olm-operators", json!({"targetNamespaces": ["olm"]})),
        program("olm-operator", "/bin/olm", &["--namespace", "olm", "--writeStatusName", ""]),
        program(
            "catalog-operator",
            "/bin/catalog",
            &["--namespace", "olm", "--opmImage=quay.io/operator-framework/opm:latest", "--set-workload-user-id=true"],
        ),
    ]);
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}

fn program(name: &str, command: &str, args: &[&str]) -> Value {
    let container = json!({"name": name, "image": IMAGE, "command": [command], "args": args,
        "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": true}});
    let pod = json!({"serviceAccountName": "olm-operator-serviceaccount", "containers": [container],
        "securityContext": {"runAsNonRoot": true, "runAsUser": 1001, "seccompProfile": {"type": "RuntimeDefault"}}});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": "olm", "name": name, "labels": {"app": name}},
        "spec": {"replicas": 1, "strategy": {"type": "Recreate"}, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod}}})
}

/// Returns a catalog as upstream runs it: a pod of its own behind a Service. The owner's uid is a placeholder.
fn catalog() -> Vec<Value> {
    let owned = |kind: &str, version: &str, name: &str, labels: Value, rest: Value| {
        let owner = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource", "name": CATALOG, "uid": CATALOG_UID,
            "blockOwnerDeletion": kind != "Service", "controller": kind != "Service"});
        let mut object = json!({"apiVersion": version, "kind": kind, "metadata": {"namespace": "olm", "name": name, "labels": labels,
            "ownerReferences": [owner], "managedFields": [{"manager": "catalog"}]}});
        olm_testing::patch::merge(&mut object, &rest);
        object
    };
    let marks = json!({"olm.catalogSource": CATALOG, "olm.managed": "true"});
    let container = json!({"name": "registry-server", "image": CATALOG_IMAGE, "imagePullPolicy": "Always",
        "ports": [{"name": "grpc", "containerPort": 50051}],
        "readinessProbe": {"grpc": {"port": 50051}, "initialDelaySeconds": 5}, "livenessProbe": {"grpc": {"port": 50051}, "initialDelaySeconds": 10},
        "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": false}});
    let pod = json!({"serviceAccountName": CATALOG, "containers": [container], "nodeSelector": {"kubernetes.io/os": "linux"},
        "securityContext": {"runAsNonRoot": true, "runAsUser": 1001, "seccompProfile": {"type": "RuntimeDefault"}}});
    let mut pod_marks = marks.clone();
    pod_marks["olm.pod-spec-hash"] = json!("7h3Vlj7GRN4kSF82eFcrQOwp7vPMWDn1AAppvm");
    let service = json!({"ports": [{"name": "grpc", "port": 50051, "targetPort": 50051}], "selector": marks});
    vec![
        json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
            "metadata": {"namespace": "olm", "name": CATALOG, "uid": CATALOG_UID, "managedFields": [{"manager": "kubectl-client-side-apply"},
                {"manager": "catalog", "subresource": "status"}]},
            "spec": {"sourceType": "grpc", "image": CATALOG_IMAGE, "displayName": "Things", "publisher": "e2e",
                "grpcPodConfig": {"securityContextConfig": "restricted"}},
            "status": {"connectionState": {"address": format!("{CATALOG}.olm.svc:50051"), "lastConnect": "2025-11-23T23:50:16Z",
                    "lastObservedState": "READY"},
                "registryService": {"createdAt": "2025-11-23T23:50:03Z", "port": "50051", "protocol": "grpc", "serviceName": CATALOG,
                    "serviceNamespace": "olm"}}}),
        owned(
            "ServiceAccount",
            "v1",
            CATALOG,
            json!({"olm.managed": "true"}),
            json!({}),
        ),
        owned(
            "Service",
            "v1",
            CATALOG,
            json!({"olm.managed": "true", "olm.service-spec-hash": "6eq0PqHqOP4OCC98EjWI1EyhhK0m880EIA3lob"}),
            json!({"spec": service}),
        ),
        owned(
            "Pod",
            "v1",
            &format!("{CATALOG}-dx65t"),
            pod_marks,
            json!({"spec": pod}),
        ),
    ]
}

const CATALOG_UID: &str = "32fde90e-0086-498f-a7da-7ab2f0645b93";

/// Returns the bundle of [`SECOND`], as upstream's Job writes it for the plan.
fn unpacked(objects: &[Value]) -> anyhow::Result<Value> {
    let owner = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource", "name": CATALOG, "uid": CATALOG_UID,
        "blockOwnerDeletion": false, "controller": false});
    Ok(json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": "olm", "name": UNPACKED, "labels": {"olm.managed": "true"}, "annotations": annotations()["annotations"],
            "ownerReferences": [owner], "managedFields": [{"manager": "catalog"}]},
        "data": {"csv.yaml": csv_of(objects, SECOND)?.to_string(), "crd.yaml": definition(objects)?.to_string()}}))
}

/// Creates upstream's objects on the cluster, except its [`installation`], and waits until the operator runs. The operator's
/// image must be loaded. Returns all created objects in their final state.
///
/// # Errors
/// The API server rejects an object, or the operator does not start.
pub fn replay(kubectl: &Destination) -> anyhow::Result<Vec<Value>> {
    let recorded = recorded()?;
    let bundle = unpacked(&recorded)?;
    let (namespaces, others): (Vec<Value>, Vec<Value>) = recorded
        .into_iter()
        .partition(|object| object["kind"] == "Namespace");
    let mut objects = namespaces;
    objects.extend(catalog());
    objects.push(bundle);
    objects.extend(others);

    let mut replay = Replay {
        kubectl,
        uids: BTreeMap::new(),
    };
    for object in &objects {
        replay.create(object)?;
    }
    kubectl.run(&[
        "rollout",
        "status",
        "deployment/own",
        "-n",
        NAMESPACE,
        "--timeout=240s",
    ])?;
    kubectl.run(&[
        "wait",
        "pod",
        "-n",
        "olm",
        "-l",
        "olm.catalogSource",
        "--for=condition=Ready",
        "--timeout=240s",
    ])?;
    for object in &objects {
        replay.finish(object)?;
    }
    objects.iter().map(|object| replay.get(object)).collect()
}

struct Replay<'a> {
    kubectl: &'a Destination,
    /// New uids by recorded ones.
    uids: BTreeMap<String, String>,
}

impl Replay<'_> {
    /// Creates an object as its first writer did.
    fn create(&mut self, object: &Value) -> anyhow::Result<()> {
        let wanted = self.renamed(object)?;
        let writers = writers(object);
        let first = writers.first().context("nobody wrote it")?;
        let mut made = wanted;
        bare(&mut made);
        if let Some(metadata) = made["metadata"].as_object_mut() {
            metadata.retain(|field, _| field != "resourceVersion");
        }
        for later in &writers[1..] {
            later.take_out(&mut made);
        }
        let path = format!("{}?fieldManager={}", collection(object), first.name);
        let answer = self.send("create", &path, &made)?;
        let uid = text(object, "/metadata/uid").to_owned();
        if !uid.is_empty() {
            self.uids.insert(uid, text(&answer, "/metadata/uid").to_owned());
        }
        Ok(())
    }

    /// Writes the fields of later writers, and the status.
    fn finish(&self, object: &Value) -> anyhow::Result<()> {
        let wanted = self.renamed(object)?;
        for later in &writers(object)[1..] {
            let mut live = self.get(object)?;
            later.put_in(&wanted, &mut live);
            self.send(
                "replace",
                &format!("{}?fieldManager={}", path(object), later.name),
                &live,
            )?;
        }
        let entries = object["metadata"]["managedFields"].as_array();
        let status = entries
            .into_iter()
            .flatten()
            .find(|entry| entry["subresource"] == "status");
        let Some(writer) = status.map(|entry| text(entry, "/manager")) else {
            return Ok(());
        };
        // Kubernetes' own controllers write their statuses here, too.
        if writer.starts_with("kube-") {
            return Ok(());
        }
        let mut live = self.get(object)?;
        live["status"] = wanted["status"].clone();
        self.send(
            "replace",
            &format!("{}/status?fieldManager={writer}", path(object)),
            &live,
        )?;
        Ok(())
    }

    /// Returns the object with the uids of this cluster, and with times that are in the past on any cluster.
    fn renamed(&self, object: &Value) -> anyhow::Result<Value> {
        let text = object.to_string().replace("\"2026-11-2", "\"2025-11-2");
        let renamed = self
            .uids
            .iter()
            .fold(text, |text, (old, new)| text.replace(old, new));
        Ok(serde_json::from_str(&renamed)?)
    }

    fn get(&self, object: &Value) -> anyhow::Result<Value> {
        Ok(serde_json::from_str(&self.kubectl.run(&[
            "get",
            "--raw",
            &path(object),
        ])?)?)
    }

    fn send(&self, verb: &str, path: &str, object: &Value) -> anyhow::Result<Value> {
        let arguments = [&[verb, "--raw", path], &BODY[..]].concat();
        let answer = self.kubectl.run_with_input(&arguments, &object.to_string())?;
        Ok(serde_json::from_str(&answer)?)
    }
}

/// Removes the fields that the API server sets, and the status.
fn bare(object: &mut Value) {
    let server = ["uid", "creationTimestamp", "generation", "managedFields"];
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.retain(|field, _| !server.contains(&field.as_str()));
    }
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
}

/// A writer of the object itself, with the labels, annotations and finalizers it owns.
struct Writer<'a> {
    name: &'a str,
    fields: &'a Value,
}

/// Returns the writers in the order of their writes.
fn writers(object: &Value) -> Vec<Writer<'_>> {
    let entries = object["metadata"]["managedFields"].as_array();
    let mut whole: Vec<&Value> = entries
        .into_iter()
        .flatten()
        .filter(|entry| entry["subresource"].is_null() && entry["operation"] != "Apply")
        .collect();
    whole.sort_by_key(|entry| text(entry, "/time"));
    whole
        .into_iter()
        .map(|entry| Writer {
            name: text(entry, "/manager"),
            fields: &entry["fieldsV1"]["f:metadata"],
        })
        .collect()
}

impl Writer<'_> {
    fn entries(&self) -> impl Iterator<Item = (&'static str, &str)> {
        ["labels", "annotations"].into_iter().flat_map(|part| {
            let fields = self.fields[format!("f:{part}")].as_object();
            let keys = fields.into_iter().flatten().map(|(key, _)| key.as_str());
            keys.filter_map(move |key| Some((part, key.strip_prefix("f:")?)))
        })
    }

    fn has_finalizers(&self) -> bool {
        self.fields["f:finalizers"].is_object()
    }

    fn take_out(&self, object: &mut Value) {
        for (part, key) in self.entries() {
            if let Some(entries) = object["metadata"][part].as_object_mut() {
                entries.remove(key);
            }
        }
        if self.has_finalizers()
            && let Some(metadata) = object["metadata"].as_object_mut()
        {
            metadata.remove("finalizers");
        }
    }

    fn put_in(&self, wanted: &Value, object: &mut Value) {
        // The keys may contain uids, which have changed. So the last writer sets all missing entries.
        for part in ["labels", "annotations", "finalizers"] {
            match &wanted["metadata"][part] {
                Value::Object(entries) => {
                    for (key, value) in entries {
                        object["metadata"][part][key] = value.clone();
                    }
                }
                Value::Array(items) => object["metadata"][part] = json!(items),
                _ => {}
            }
        }
    }
}

fn collection(object: &Value) -> String {
    let version = text(object, "/apiVersion");
    let root = if version.contains('/') { "apis" } else { "api" };
    let namespace = match text(object, "/metadata/namespace") {
        "" => String::new(),
        namespace => format!("/namespaces/{namespace}"),
    };
    let plural = text(object, "/kind").to_lowercase();
    format!("/{root}/{version}{namespace}/{plural}s")
}

fn path(object: &Value) -> String {
    format!("{}/{}", collection(object), text(object, "/metadata/name"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_come_before_what_they_own() {
        let objects = recorded().unwrap();
        let at = |uid: &str| objects.iter().position(|object| object["metadata"]["uid"] == uid);
        for (place, object) in objects.iter().enumerate() {
            for owner in object["metadata"]["ownerReferences"]
                .as_array()
                .into_iter()
                .flatten()
            {
                let owner = at(owner["uid"].as_str().unwrap());
                assert!(owner.is_some_and(|owner| owner < place), "{}", path(object));
            }
        }
    }

    #[test]
    fn each_writer_has_what_is_his() {
        let objects = recorded().unwrap();
        let mut csv = of_kind(&objects, "ClusterServiceVersion").unwrap().clone();
        let recorded = csv.clone();
        let names: Vec<&str> = writers(&recorded).iter().map(|writer| writer.name).collect();
        assert_eq!(names, ["catalog", "olm"]);
        writers(&recorded)[1].take_out(&mut csv);
        assert!(csv["metadata"]["annotations"]["olm.operatorGroup"].is_null());
        assert!(csv["metadata"]["finalizers"].is_null());
        assert_eq!(csv["metadata"]["labels"], json!({"olm.managed": "true"}));
        writers(&recorded)[1].put_in(&recorded, &mut csv);
        assert_eq!(csv["metadata"]["labels"], recorded["metadata"]["labels"]);
    }
}
