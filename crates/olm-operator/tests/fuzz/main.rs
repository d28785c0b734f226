//! No input stops a reconcile. For any ClusterServiceVersion, OperatorGroup and Subscription that the API
//! server admits, the controllers decide. The status they write is admitted, and every ClusterServiceVersion
//! gets one.

#![allow(
    clippy::panic,
    clippy::needless_pass_by_value,
    clippy::semicolon_if_nothing_returned,
    reason = "tests"
)]

#[path = "../../../olm-fbc/tests/fuzzing/mod.rs"]
mod fuzzing;
mod model;
mod schema;

use fuzzing::{Fuzz, Random, tree};
use model::Model;
use olm_fbc::yaml::{Documents, Limits};
use serde_json::{Value, json};

/// Small limits, so that many inputs are tried.
const LIMITS: Limits = Limits {
    document_bytes: 1 << 17,
    depth: 64,
    nodes: 20_000,
    alias_nodes: 5_000,
    alias_bytes: 1 << 18,
};

const WORDS: [&str; 30] = [
    "\n",
    "null",
    "{}",
    "[]",
    "\"\"",
    "-1",
    "99999999999",
    "apiextensions.k8s.io/v1alpha1",
    "olm.providedAPIs",
    "olm.targetNamespaces",
    "operators.coreos.com/csv-cleanup",
    "Succeeded",
    "Failed",
    "Replacing",
    "Deleting",
    "InstallReady",
    "AllNamespaces",
    "OwnNamespace",
    "replaces",
    "deployment",
    "serviceAccountName",
    "nativeAPIs",
    "minKubeVersion",
    "nonResourceURLs",
    "*",
    "../../x",
    "a?b",
    "2026-01-01T00:00:00Z",
    "matchExpressions",
    "DoesNotExist",
];

/// All objects of a namespace as documents: a group, a Subscription, a ClusterServiceVersion and its running
/// objects.
fn namespaces() -> Vec<Vec<u8>> {
    let mut seeds = vec![demo()];
    let files = olm_testing::shared::corpus_dir().map(|corpus| corpus_csvs(&corpus));
    for mut csv in files.into_iter().flatten() {
        csv["metadata"]["namespace"] = json!("ns");
        for field in ["description", "icon", "links", "maintainers", "relatedImages"] {
            csv["spec"].as_object_mut().map(|spec| spec.remove(field));
        }
        if let Some(metadata) = csv["metadata"].as_object_mut() {
            metadata.remove("annotations");
        }
        let text = format!("{}{csv}\n", surroundings(&csv));
        if text.len() < 40_000 {
            seeds.push(text.into_bytes());
        }
    }
    seeds
}

fn corpus_csvs(corpus: &std::path::Path) -> Vec<Value> {
    let mut found = Vec::new();
    let folders = |folder: &std::path::Path| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
        paths.sort();
        paths
    };
    for package in folders(&corpus.join("bundles")).iter().step_by(5) {
        let Some(bundle) = folders(package).into_iter().next_back() else {
            continue;
        };
        for file in folders(&bundle.join("manifests")) {
            let bytes = std::fs::read(file).unwrap_or_default();
            let documents = Documents::with_limits(bytes.as_slice(), LIMITS).flatten();
            found.extend(documents.filter(|value| value["kind"] == "ClusterServiceVersion"));
        }
    }
    found
}

fn surroundings(csv: &Value) -> String {
    let name = &csv["metadata"]["name"];
    let group = json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
        "metadata": {"namespace": "ns", "name": "og"}, "spec": {"targetNamespaces": ["ns"]}});
    let subscription = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
        "metadata": {"namespace": "ns", "name": "sub"},
        "spec": {"source": "c", "sourceNamespace": "ns", "name": "p", "config": {"env": [{"name": "A", "value": "b"}],
            "resources": {"limits": {"cpu": "1"}}, "affinity": {"nodeAffinity": {}}}},
        "status": {"currentCSV": name, "lastUpdated": "2026-01-01T00:00:00Z"}});
    format!("{group}\n{subscription}\n")
}

fn demo() -> Vec<u8> {
    let csv = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"namespace": "ns", "name": "a", "annotations": {"x": "y"}},
        "spec": {
            "displayName": "Demo", "replaces": "z", "minKubeVersion": "1.20.0",
            "installModes": [{"type": "OwnNamespace", "supported": true}, {"type": "AllNamespaces", "supported": true}],
            "customresourcedefinitions": {"owned": [{"name": "demos.example.com", "version": "v1", "kind": "Demo"}],
                "required": [{"name": "others.example.com", "version": "v1", "kind": "Other"}]},
            "apiservicedefinitions": {"required": [{"group": "m.k8s.io", "version": "v1", "kind": "M", "name": "ms"}]},
            "nativeAPIs": [{"group": "g", "version": "v1", "kind": "G"}],
            "install": {"strategy": "deployment", "spec": {
                "permissions": [{"serviceAccountName": "demo", "rules": [{"verbs": ["*"], "apiGroups": [""], "resources": ["pods"]}]}],
                "clusterPermissions": [{"serviceAccountName": "demo", "rules": [{"verbs": ["get"], "nonResourceURLs": ["/m"]}]}],
                "deployments": [{"name": "demo", "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "demo"}},
                    "template": {"metadata": {"labels": {"app": "demo"}},
                        "spec": {"serviceAccountName": "demo", "containers": [{"name": "c", "image": "demo:1"}]}}}}],
            }},
        },
        "status": {"phase": "InstallReady", "reason": "AllRequirementsMet", "lastTransitionTime": "2026-01-01T00:00:00Z",
            "conditions": [{"phase": "Pending", "reason": "RequirementsUnknown"}]},
    });
    let mut older = csv.clone();
    older["metadata"]["name"] = json!("z");
    older["spec"]["replaces"] = json!("");
    older["status"]["phase"] = json!("Replacing");
    let owner = json!([{"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "name": "z", "uid": "u"}]);
    let labels = json!({"olm.managed": "true", "olm.owner": "z", "olm.owner.namespace": "ns", "olm.owner.kind": "ClusterServiceVersion"});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"namespace": "ns", "name": "demo", "labels": labels, "ownerReferences": owner},
        "spec": {"selector": {"matchLabels": {"app": "old"}}, "template": {"metadata": {"labels": {"app": "old"}}}},
        "status": {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 2_000_000_000, "conditions": [{"type": "Available", "status": "True"}]}});
    format!("{}{csv}\n{older}\n{deployment}\n", surroundings(&csv)).into_bytes()
}

/// Documents of a seed with a few changes, including parts of another seed.
fn changed_documents(seeds: &[Vec<u8>], random: &mut Random) -> Option<Vec<u8>> {
    let documents = |seed: &Vec<u8>| -> Vec<Value> {
        Documents::with_limits(seed.as_slice(), LIMITS)
            .flatten()
            .collect()
    };
    let mut values = documents(random.of(seeds));
    let others = documents(random.of(seeds));
    if values.is_empty() || others.is_empty() {
        return None;
    }
    let under_another_name = |value: &Value, random: &mut Random| {
        let mut copy = value.clone();
        if let Some(object) = copy.as_object_mut() {
            let metadata =
                json!({"namespace": random.of(&["ns", "other"]), "name": random.of(&["a", "b", "z", "og"])});
            object.insert("metadata".to_owned(), metadata);
        }
        copy
    };
    tree::change_documents(&mut values, &others, under_another_name, random);
    let lines = values.iter().map(|value| format!("{value}\n"));
    Some(lines.collect::<String>().into_bytes())
}

#[test]
fn whatever_a_namespace_holds() {
    let fuzz = Fuzz {
        name: "namespace",
        seeds: namespaces(),
        words: &WORDS,
        structured: Some(changed_documents),
    };
    let schemas = schema::Schemas::load();
    fuzz.run(|input| {
        let mut model = Model::default();
        for value in Documents::with_limits(input, LIMITS).flatten() {
            model.put(&schemas, value);
        }
        let any = model.has_csv();
        model.run(&schemas);
        any
    });
}

#[test]
fn what_the_fuzzing_begins_with_is_admitted() {
    let schemas = schema::Schemas::load();
    for mut value in Documents::with_limits(demo().as_slice(), LIMITS).flatten() {
        assert_eq!(schemas.admit(&mut value), Ok(()), "{}", value["metadata"]["name"]);
    }
}
