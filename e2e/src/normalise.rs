//! The state of a namespace without parts that differ between runs, so that two runs can be compared. No I/O.
//!
//! # Excluded parts and the reasons
//! - Identities and times: `uid`, `resourceVersion`, `metadata.generation`, `observedGeneration`, `managedFields`, every
//!   RFC 3339 time (as `TIME`), cluster IPs. They differ in two equal runs.
//! - The namespace's name (as `NAMESPACE`), names the API server generated (as `PREFIX*`), and hashes of objects that
//!   contain the namespace's name (as `HASH`). `metadata.generation` and hash labels would show that a spec was written
//!   twice; `spec.generation` of InstallPlans and the revisions of Deployments are compared, and they show it, too.
//! - The history in a ClusterServiceVersion's `status.conditions`: a killed program may go through a phase twice or skip
//!   it. Phase, reason and message are compared.
//! - The difference between the states `Created` and `Present` of a step of an InstallPlan: after a crash between creation
//!   and status it is ambiguous. All other step states are compared.
//! - The preview of an InstallPlan: it depends on existing objects, and a CustomResourceDefinition of an earlier run exists.
//! - Results of Kubernetes' own controllers: Events, Endpoints, EndpointSlices, Leases, conditions and counters of
//!   Deployments, of ReplicaSets and of CustomResourceDefinitions, and of Pods all but metadata, containers, account,
//!   phase and readiness. Pods and ReplicaSets themselves are compared, because a surplus one is a relevant difference.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use xtask::kubectl::text;

/// Kinds that are not compared.
const DERIVED: [&str; 5] = [
    "Event",
    "Endpoints",
    "EndpointSlice",
    "Lease",
    "ControllerRevision",
];
/// Keys that are ignored at any depth.
const IDENTITIES: [&str; 4] = ["uid", "resourceVersion", "managedFields", "observedGeneration"];
/// Labels whose values are hashes of data that contains the namespace's name.
const HASH_LABELS: [&str; 4] = [
    "olm.deployment-spec-hash",
    "olm.pod-spec-hash",
    "olm.service-spec-hash",
    "pod-template-hash",
];
/// Label of roles and their bindings; the hash of a binding covers the namespace of its account.
const PERMISSIONS_HASH: &str = "olm.permissions.hash";
/// Prefix of annotations whose key ends in a hash of their value, which contains the namespace.
const HASHED_KEY: &str = "operatorframework.io/installed-alongside-";
/// Annotation with the preview of an InstallPlan.
const PREVIEW: &str = "operatorframework.io/install-plan-preview";
/// Maximum length of a value shown in a difference.
const SHOWN: usize = 300;

/// A state that can be compared: objects by kind and name.
pub type State = BTreeMap<String, Value>;

/// Returns the state of the objects of `namespace` and of the cluster-scoped objects that belong to it. Objects that only differ
/// in a generated name get numbers.
pub fn normalise(objects: &[Value], namespace: &str) -> State {
    let words = Words::of(objects, namespace);
    let mut groups: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for object in objects {
        if DERIVED.contains(&text(object, "/kind")) {
            continue;
        }
        let mut object = reduce(object);
        words.replace(&mut object);
        let key = format!("{} {}", text(&object, "/kind"), text(&object, "/metadata/name"));
        groups.entry(key).or_default().push(object);
    }
    let mut state = State::new();
    for (key, mut group) in groups {
        group.sort_by_cached_key(Value::to_string);
        for (index, object) in group.into_iter().enumerate() {
            let number = if index == 0 {
                String::new()
            } else {
                format!(" #{}", index + 1)
            };
            state.insert(format!("{key}{number}"), object);
        }
    }
    state
}

/// Returns the differences, one per line: object, path, both values. Empty if the states are equal.
pub fn differences(expected: &State, found: &State) -> Vec<String> {
    let names: BTreeSet<&String> = expected.keys().chain(found.keys()).collect();
    let mut lines = Vec::new();
    for name in names {
        match (expected.get(name), found.get(name)) {
            (Some(expected), Some(found)) => compare(&format!("{name} "), expected, found, &mut lines),
            (Some(_), None) => lines.push(format!("{name} is missing")),
            _ => lines.push(format!("{name} is one too many")),
        }
    }
    lines
}

fn compare(path: &str, expected: &Value, found: &Value, lines: &mut Vec<String>) {
    match (expected, found) {
        (Value::Object(one), Value::Object(other)) => {
            let keys: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
            for key in keys {
                let of = |map: &Map<String, Value>| map.get(key).cloned().unwrap_or(json!("(absent)"));
                compare(&format!("{path}.{key}"), &of(one), &of(other), lines);
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (index, (one, other)) in one.iter().zip(other).enumerate() {
                compare(&format!("{path}[{index}]"), one, other, lines);
            }
        }
        (one, other) if one == other => {}
        (one, other) => lines.push(format!("{path}: expected {}, found {}", shown(one), shown(other))),
    }
}

fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Texts that differ between runs and their replacements, longest first.
struct Words(Vec<(String, String)>);

impl Words {
    fn of(objects: &[Value], namespace: &str) -> Self {
        let mut words = BTreeMap::from([(namespace.to_owned(), "NAMESPACE".to_owned())]);
        for object in objects {
            let name = text(object, "/metadata/name");
            if let Some(stem) = stem(object) {
                words.insert(name.to_owned(), stem);
            }
            // Steps also name roles of deleted operators.
            for step in object
                .pointer("/status/plan")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
            {
                let resource = &step["resource"];
                let (kind, name) = (text(resource, "/kind"), text(resource, "/name"));
                if let Some(stem) = cluster_role_stem(kind, name) {
                    words.insert(name.to_owned(), stem);
                }
                // Bindings name accounts with their namespace, and steps contain whole bindings.
                if let Some(hash) = hash_of_carried_binding(kind, resource) {
                    words.insert(hash, "HASH".to_owned());
                }
            }
            let hash = text(object, "/metadata/labels/pod-template-hash");
            if !hash.is_empty() {
                words.insert(hash.to_owned(), "HASH".to_owned());
            }
            let uid = text(object, "/metadata/uid");
            if !uid.is_empty() {
                words.insert(uid.to_owned(), format!("UID-OF-{}", text(object, "/kind")));
            }
        }
        let mut words: Vec<_> = words.into_iter().collect();
        words.sort_by_key(|(word, _)| std::cmp::Reverse(word.len()));
        Self(words)
    }

    fn replace(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.replaced(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.replace(item)),
            Value::Object(fields) => {
                *fields = std::mem::take(fields)
                    .into_iter()
                    .map(|(key, mut value)| {
                        self.replace(&mut value);
                        (self.replaced(&key), value)
                    })
                    .collect();
            }
            _ => {}
        }
    }

    fn replaced(&self, text: &str) -> String {
        let mut text = without_times(text);
        for (word, stand_in) in &self.0 {
            if text.contains(word.as_str()) {
                text = text.replace(word.as_str(), stand_in);
            }
        }
        text
    }
}

/// Returns the replacement of an object's name; `None` if the name does not differ between runs.
fn stem(object: &Value) -> Option<String> {
    let (kind, name) = (text(object, "/kind"), text(object, "/metadata/name"));
    let generated = text(object, "/metadata/generateName");
    if kind == "InstallPlan" && !generated.is_empty() {
        // Two plans in a namespace differ by the versions they install.
        let csvs = object["spec"]["clusterServiceVersionNames"].as_array();
        let csvs: Vec<&str> = csvs.into_iter().flatten().filter_map(Value::as_str).collect();
        return Some(format!("{generated}*({})", csvs.join(",")));
    }
    if !generated.is_empty() && name.starts_with(generated) {
        let hash = text(object, "/metadata/labels/pod-template-hash");
        let prefix = if hash.is_empty() {
            generated.to_owned()
        } else {
            generated.replace(hash, "HASH")
        };
        return Some(format!("{prefix}*"));
    }
    cluster_role_stem(kind, name)
}

/// Returns the hash in the label of a binding that a step contains.
fn hash_of_carried_binding(kind: &str, resource: &Value) -> Option<String> {
    let is_binding = matches!(kind, "RoleBinding" | "ClusterRoleBinding");
    let carried: Value = serde_json::from_str(text(resource, "/manifest")).ok()?;
    let hash = carried["metadata"]["labels"][PERMISSIONS_HASH].as_str()?;
    is_binding.then(|| hash.to_owned())
}

/// Returns the stem of the name of an operator's cluster-scoped role; the rest is a hash over the namespace.
fn cluster_role_stem(kind: &str, name: &str) -> Option<String> {
    let is_cluster_role = kind == "ClusterRole" || kind == "ClusterRoleBinding";
    let (stem, hash) = name.rsplit_once('-')?;
    (is_cluster_role && hash.len() > 5).then(|| format!("{stem}-HASH"))
}

/// Returns the text with `TIME` for every RFC 3339 time in UTC.
fn without_times(text: &str) -> String {
    const SHAPE: &[u8] = b"0000-00-00T00:00:00";
    let bytes = text.as_bytes();
    let starts = |at: usize| {
        bytes.len() >= at + SHAPE.len()
            && bytes[at..].iter().zip(SHAPE).all(|(byte, shape)| match shape {
                b'0' => byte.is_ascii_digit(),
                other => byte == other,
            })
    };
    let mut result = String::with_capacity(text.len());
    let mut rest = 0;
    let mut at = 0;
    while at < bytes.len() {
        if !starts(at) {
            at += 1;
            continue;
        }
        result.push_str(&text[rest..at]);
        at += SHAPE.len();
        while bytes
            .get(at)
            .is_some_and(|byte| *byte == b'.' || byte.is_ascii_digit())
        {
            at += 1;
        }
        if bytes.get(at) == Some(&b'Z') {
            at += 1;
        }
        result.push_str("TIME");
        rest = at;
    }
    result.push_str(&text[rest..]);
    result
}

/// Returns the object without irrelevant fields of its kind.
fn reduce(object: &Value) -> Value {
    let mut object = object.clone();
    strip(&mut object);
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("generation");
        // It depends on the phase of the deletion, not on its time.
        metadata.remove("deletionGracePeriodSeconds");
    }
    let kind = text(&object, "/kind").to_owned();
    match kind.as_str() {
        "ClusterServiceVersion" => remove(&mut object, "/status", &["conditions"]),
        "InstallPlan" => {
            remove(&mut object, "/metadata/annotations", &[PREVIEW]);
            let steps = object.pointer_mut("/status/plan").and_then(Value::as_array_mut);
            for step in steps.into_iter().flatten() {
                if step["status"] == "Created" || step["status"] == "Present" {
                    step["status"] = json!("Done");
                }
            }
        }
        "Deployment" => keep(&mut object, "/status", &["replicas", "readyReplicas"]),
        "ReplicaSet" => remove(&mut object, "", &["status"]),
        "Service" => remove(&mut object, "/spec", &["clusterIP", "clusterIPs"]),
        "CustomResourceDefinition" => keep(&mut object, "/status", &["storedVersions", "acceptedNames"]),
        "Pod" => reduce_pod(&mut object),
        "RoleBinding" | "ClusterRoleBinding" => {
            if let Some(hash) = object["metadata"]["labels"].get_mut(PERMISSIONS_HASH) {
                *hash = json!("HASH");
            }
        }
        _ => {}
    }
    object
}

fn reduce_pod(pod: &mut Value) {
    let ready = pod["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
    keep(pod, "/spec", &["containers", "serviceAccountName"]);
    for container in pod["spec"]["containers"].as_array_mut().into_iter().flatten() {
        // Volumes of access tokens have generated names.
        remove(container, "", &["volumeMounts"]);
    }
    keep(pod, "/status", &["phase"]);
    pod["status"]["ready"] = json!(ready);
}

fn strip(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(strip),
        Value::Object(fields) => {
            fields.retain(|key, _| !IDENTITIES.contains(&key.as_str()));
            *fields = std::mem::take(fields)
                .into_iter()
                .map(|(key, mut value)| {
                    strip(&mut value);
                    if HASH_LABELS.contains(&key.as_str()) {
                        value = json!("HASH");
                    }
                    match value.as_str().filter(|_| key.starts_with(HASHED_KEY)) {
                        Some(text) => (format!("{HASHED_KEY}{text}"), value),
                        None => (key, value),
                    }
                })
                .collect();
        }
        _ => {}
    }
}

fn remove(object: &mut Value, at: &str, keys: &[&str]) {
    if let Some(fields) = object.pointer_mut(at).and_then(Value::as_object_mut) {
        fields.retain(|key, _| !keys.contains(&key.as_str()));
    }
}

fn keep(object: &mut Value, at: &str, keys: &[&str]) {
    if let Some(fields) = object.pointer_mut(at).and_then(Value::as_object_mut) {
        fields.retain(|key, _| keys.contains(&key.as_str()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the objects of a namespace after a run; `tag` is in all parts that differ in the next run.
    fn run(tag: &str) -> (Vec<Value>, String) {
        let namespace = format!("crash-{tag}");
        let objects = vec![
            json!({"kind": "InstallPlan", "metadata": {"name": format!("install-{tag}xyz"), "generateName": "install-",
                   "uid": format!("plan-{tag}"), "generation": 2, "namespace": namespace},
                   "spec": {"generation": 1, "clusterServiceVersionNames": ["a.v1"]},
                   "status": {"plan": [{"status": "Created", "resource": {"manifest": format!("{{\"ns\":\"{namespace}\"}}")}},
                                       {"status": "Present", "resource": {"kind": "ClusterRole", "name": format!("a.v0-{tag}hash00")}},
                                       {"status": "Created", "resource": {"kind": "RoleBinding", "name": "b", "manifest":
                                           json!({"metadata": {"labels": {"olm.permissions.hash": format!("{tag}ofBinding")}}}).to_string()}}],
                              "startTime": "2026-01-02T03:04:05Z"}}),
            json!({"kind": "Subscription", "metadata": {"name": "sub", "labels": {format!("operators.coreos.com/a.{namespace}"): ""}},
                   "status": {"installPlanRef": {"name": format!("install-{tag}xyz"), "uid": format!("plan-{tag}")}}}),
            json!({"kind": "ClusterRole", "metadata": {"name": format!("a.v1-{tag}hash01"),
                   "labels": {"olm.owner.namespace": namespace}}}),
            json!({"kind": "Pod", "metadata": {"name": format!("a-{tag}template-x1"), "generateName": format!("a-{tag}template-"),
                   "labels": {"pod-template-hash": format!("{tag}template")}},
                   "spec": {"containers": [{"name": "c", "volumeMounts": [{"name": format!("token-{tag}")}]}], "nodeName": tag},
                   "status": {"phase": "Running", "podIP": tag, "conditions": [{"type": "Ready", "status": "True"}]}}),
            json!({"kind": "ClusterRoleBinding", "metadata": {"name": format!("a.v1-{tag}hash01"),
                   "labels": {"olm.permissions.hash": tag}}}),
            json!({"kind": "CustomResourceDefinition", "metadata": {"name": "crd", "annotations": {
                   format!("operatorframework.io/installed-alongside-{tag}1"): format!("{namespace}/a.v0"),
                   format!("operatorframework.io/installed-alongside-{tag}2"): format!("{namespace}/a.v1")}}}),
            json!({"kind": "Event", "metadata": {"name": tag}}),
        ];
        (objects, namespace)
    }

    fn state_of(tag: &str, change: impl Fn(&mut Vec<Value>)) -> State {
        let (mut objects, namespace) = run(tag);
        change(&mut objects);
        normalise(&objects, &namespace)
    }

    #[test]
    fn two_equal_runs_have_no_difference() {
        let (one, other) = (state_of("one", |_| {}), state_of("other", |_| {}));
        assert_eq!(differences(&one, &other), [""; 0]);
        let names: Vec<&str> = one.keys().map(String::as_str).collect();
        assert_eq!(
            names,
            [
                "ClusterRole a.v1-HASH",
                "ClusterRoleBinding a.v1-HASH",
                "CustomResourceDefinition crd",
                "InstallPlan install-*(a.v1)",
                "Pod a-HASH-*",
                "Subscription sub"
            ]
        );
    }

    #[test]
    fn what_matters_is_a_difference() {
        type Change = fn(&mut Vec<Value>);
        let rows: [(Change, &str); 10] = [
            (
                |all| all[0]["spec"]["generation"] = json!(2),
                "InstallPlan install-*(a.v1) .spec.generation: expected 1, found 2",
            ),
            (
                |all| all[0]["status"]["plan"][0]["status"] = json!("NotPresent"),
                "InstallPlan install-*(a.v1) .status.plan[0].status: expected \"Done\", found \"NotPresent\"",
            ),
            (
                |all| all[0]["status"]["plan"][0]["resource"]["manifest"] = json!("x"),
                "InstallPlan install-*(a.v1) .status.plan[0].resource.manifest: expected \"{\\\"ns\\\":\\\"NAMESPACE\\\"}\", found \"x\"",
            ),
            (
                |all| all[1]["status"]["installPlanRef"]["name"] = json!("install-other"),
                "Subscription sub .status.installPlanRef.name: expected \"install-*(a.v1)\", found \"install-other\"",
            ),
            (
                |all| all[2]["metadata"]["labels"] = json!({}),
                "ClusterRole a.v1-HASH .metadata.labels.olm.owner.namespace: expected \"NAMESPACE\", found \"(absent)\"",
            ),
            (
                |all| all[3]["status"]["conditions"] = json!([]),
                "Pod a-HASH-* .status.ready: expected true, found false",
            ),
            (
                |all| {
                    let annotations = all[5]["metadata"]["annotations"].as_object_mut().unwrap();
                    annotations.retain(|_, value| !value.as_str().unwrap().ends_with("v0"));
                },
                "CustomResourceDefinition crd .metadata.annotations.operatorframework.io/installed-alongside-NAMESPACE/a.v0: expected \"NAMESPACE/a.v0\", found \"(absent)\"",
            ),
            (
                |all| {
                    let mut second = all[0].clone();
                    second["metadata"]["name"] = json!("install-second");
                    all.push(second);
                },
                "InstallPlan install-*(a.v1) #2 is one too many",
            ),
            (
                |all| {
                    all.remove(1);
                },
                "Subscription sub is missing",
            ),
            (
                |all| all[1]["metadata"]["deletionTimestamp"] = json!("2026-01-02T03:04:05Z"),
                "Subscription sub .metadata.deletionTimestamp: expected \"(absent)\", found \"TIME\"",
            ),
        ];
        let reference = state_of("one", |_| {});
        for (change, expected) in rows {
            assert_eq!(differences(&reference, &state_of("other", change)), [expected]);
        }
    }

    #[test]
    fn what_does_not_matter_is_none() {
        let reference = state_of("one", |_| {});
        let other = state_of("other", |all| {
            all[0]["status"]["plan"][0]["status"] = json!("Present");
            all[0]["metadata"]["resourceVersion"] = json!("9");
            all.pop();
        });
        assert_eq!(differences(&reference, &other), [""; 0]);
    }

    #[test]
    fn times_are_found_inside_texts() {
        for (text, expected) in [
            ("2026-01-02T03:04:05Z", "TIME"),
            ("since 2026-01-02T03:04:05.123456Z, ä", "since TIME, ä"),
            ("2026-01-02", "2026-01-02"),
            ("ä2026-01-02T03:04:05Z2026-01-02T03:04:05Z", "äTIMETIME"),
            ("", ""),
        ] {
            assert_eq!(without_times(text), expected);
        }
    }
}
