//! The rule for the files of a bundle's `manifests/` folder, the same for authors' tools and the cluster.
//!
//! A file contains one object. Files without a Kubernetes object are skipped with a warning, as upstream does. Two files may
//! contain the same object if their content agrees (`spec`, `rules`, `data` and the like). They become one object with the labels
//! and annotations of both. Objects that contradict each other are kept, and [`contradictions`] reports them.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde_json::Value;

use crate::yaml;

/// Names of files that belong in `metadata/`, without their extension, and the keys that identify such files.
const METADATA: [&str; 3] = ["annotations", "dependencies", "properties"];
/// Extensions of files that contain only objects.
const ENDINGS: [&str; 3] = [".yaml", ".yml", ".json"];
/// Fields of an object that are not content: its identity and its status.
const NO_CONTENT: [&str; 4] = ["apiVersion", "kind", "metadata", "status"];
/// Maps of `metadata` that are merged.
const UNITED: [&str; 2] = ["labels", "annotations"];

/// An object and its file.
#[derive(Debug, Clone, PartialEq)]
pub struct BundleFile {
    /// Name of the file, or of the ConfigMap's entry.
    pub name: String,
    /// The object.
    pub object: Value,
}

/// Content of a file that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadFile {
    /// First document of the file.
    pub object: Value,
    /// True if more documents follow; they are ignored.
    pub has_more: bool,
}

/// Reason to skip a file.
#[derive(Debug, thiserror::Error)]
pub enum Skipped {
    /// The file is not YAML.
    #[error(transparent)]
    Broken(yaml::Error),
    /// The file contains no object with a kind.
    #[error("it contains no object with a kind")]
    NoObject,
    /// The file contains an object that belongs in `metadata/`.
    #[error("it belongs in metadata/")]
    Metadata,
}

impl Skipped {
    /// Returns true if an author meant a manifest that cannot be read: `file` has the extension of a manifest.
    pub fn is_broken_manifest(&self, file: &str) -> bool {
        matches!(self, Self::Broken(_)) && ENDINGS.iter().any(|ending| file.ends_with(ending))
    }
}

/// Reads the object in a file; `name` has no folder.
///
/// # Errors
/// The reason to skip the file.
pub fn read_file(name: &str, bytes: &[u8]) -> Result<ReadFile, Skipped> {
    let (object, has_more) = yaml::parse_first(bytes).map_err(Skipped::Broken)?;
    if object["kind"].as_str().is_some_and(|kind| !kind.is_empty()) {
        return Ok(ReadFile { object, has_more });
    }
    let stem = name.split_once('.').map_or(name, |(stem, _)| stem);
    let is_metadata = METADATA
        .iter()
        .any(|key| *key == stem || object.get(key).is_some());
    Err(match is_metadata {
        true => Skipped::Metadata,
        false => Skipped::NoObject,
    })
}

/// Two files whose objects have the same name and different content.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file} and {other} both contain {kind} {name} with different content")]
pub struct Contradiction {
    /// File of the first object.
    pub file: String,
    /// File of the second object.
    pub other: String,
    /// Kind of both objects.
    pub kind: String,
    /// Name of both objects.
    pub name: String,
}

/// Merges objects that have the same name and content, at the position of the first. Labels of later files take precedence, as if
/// the files were applied one after the other. The most stable API version is kept.
pub fn unite(files: Vec<BundleFile>) -> Vec<BundleFile> {
    let mut united: Vec<BundleFile> = Vec::with_capacity(files.len());
    let mut seen: BTreeMap<((String, String, String), u64), usize> = BTreeMap::new();
    for file in files {
        let key = ObjectId::of(&file.object).map(|id| (id.to_owned(), content_hash(&file.object)));
        let Some(key) = key else {
            united.push(file);
            continue;
        };
        let at = *seen.entry(key).or_insert(united.len());
        match united.get_mut(at) {
            Some(first) => merge(&mut first.object, file.object),
            None => united.push(file),
        }
    }
    united
}

/// Returns the objects with the same name and different content in files that [`unite`] has merged.
pub fn contradictions<'a>(files: impl IntoIterator<Item = (&'a str, &'a Value)>) -> Vec<Contradiction> {
    let mut seen: BTreeMap<ObjectId<'_>, (&str, u64)> = BTreeMap::new();
    let mut found = Vec::new();
    for (file, object) in files {
        let Some(id) = ObjectId::of(object) else {
            continue;
        };
        let content = content_hash(object);
        let (first, first_content) = *seen.entry(id).or_insert((file, content));
        if first_content != content {
            found.push(Contradiction {
                file: first.to_owned(),
                other: file.to_owned(),
                kind: id.kind.to_owned(),
                name: id.name.to_owned(),
            });
        }
    }
    found
}

/// Identity of a plan's object in the cluster. Its namespace and API version are ignored: a plan writes all objects into its own
/// namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct ObjectId<'a> {
    group: &'a str,
    kind: &'a str,
    name: &'a str,
}

impl<'a> ObjectId<'a> {
    /// Returns the identity of an object; `None` without a name, and for a ServiceAccount. A plan only adds to ServiceAccounts,
    /// and authors often include the one that the permissions imply anyway.
    fn of(object: &'a Value) -> Option<Self> {
        let text = |value: &'a Value| value.as_str().filter(|text| !text.is_empty());
        let api_version = object["apiVersion"].as_str().unwrap_or_default();
        let kind = text(&object["kind"]).filter(|kind| *kind != "ServiceAccount")?;
        Some(Self {
            group: api_version.split_once('/').map_or("", |(group, _)| group),
            kind,
            name: text(&object["metadata"]["name"])?,
        })
    }

    /// Returns group, kind and name.
    fn to_owned(self) -> (String, String, String) {
        (self.group.to_owned(), self.kind.to_owned(), self.name.to_owned())
    }
}

/// Returns a hash of an object's content: equal if two objects differ only in metadata, API version and fields without content.
fn content_hash(object: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    let fields = object.as_object().into_iter().flatten();
    for (name, value) in fields {
        if !NO_CONTENT.contains(&name.as_str()) && !is_nothing(value) {
            name.hash(&mut hasher);
            value.hash(&mut hasher);
        }
    }
    hasher.finish()
}

/// Returns true for a value that Go's libraries write for an unset field.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

/// Adds the labels and annotations of `later`, and its API version if that one is more stable.
fn merge(first: &mut Value, mut later: Value) {
    let api_version = |object: &Value| object["apiVersion"].as_str().unwrap_or_default().to_owned();
    let later_version = api_version(&later);
    if stability(&later_version) > stability(&api_version(first)) {
        first["apiVersion"] = later_version.into();
    }
    for field in UNITED {
        let Value::Object(more) = later["metadata"][field].take() else {
            continue;
        };
        let metadata = &mut first["metadata"];
        match &mut metadata[field] {
            Value::Object(map) => map.extend(more),
            none @ Value::Null => *none = Value::Object(more),
            _ => {}
        }
    }
}

/// Returns the stability rank of an API version, in the order Kubernetes uses: `v1`, `v1beta1`, `v1alpha1`.
fn stability(api_version: &str) -> (u8, &str) {
    let version = api_version.rsplit('/').next().unwrap_or_default();
    let stage = match version {
        alpha if alpha.contains("alpha") => 0,
        beta if beta.contains("beta") => 1,
        _ => 2,
    };
    (stage, version)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn file(name: &str, object: Value) -> BundleFile {
        BundleFile {
            name: name.to_owned(),
            object,
        }
    }

    #[expect(
        clippy::needless_pass_by_value,
        reason = "values of json! are written in the call"
    )]
    fn role(version: &str, labels: Value, rules: Value) -> Value {
        json!({"apiVersion": format!("rbac.authorization.k8s.io/{version}"), "kind": "ClusterRole",
            "metadata": {"name": "r", "labels": labels}, "rules": rules})
    }

    fn contradicting(files: &[BundleFile]) -> Vec<String> {
        let files = files.iter().map(|file| (file.name.as_str(), &file.object));
        contradictions(files)
            .iter()
            .map(Contradiction::to_string)
            .collect()
    }

    #[test]
    fn what_is_no_object_is_skipped_with_the_reason() {
        for (name, text, expected) in [
            (
                "README.md",
                "# Demo\n\nHow to: build, then push.\n",
                "it contains no object with a kind",
            ),
            ("README.md", "a: b: c", "invalid YAML: "),
            ("empty.yaml", "", "it contains no object with a kind"),
            (
                "list.yaml",
                "- kind: Service",
                "it contains no object with a kind",
            ),
            ("kind.yaml", "kind: 5", "it contains no object with a kind"),
            ("dependencies.yaml", "dependencies: []", "it belongs in metadata/"),
            ("deps.yaml", "dependencies: []", "it belongs in metadata/"),
            (
                "annotations.yaml",
                "annotations: {a: b}",
                "it belongs in metadata/",
            ),
            ("binary.png", "\u{fffd}\u{0}", "invalid YAML: "),
        ] {
            let skipped = read_file(name, text.as_bytes()).expect_err(name);
            assert!(skipped.to_string().starts_with(expected), "{name}: {skipped}");
        }
        let read = read_file("a.yaml", b"kind: Service\n---\nkind: Secret").expect("an object");
        assert_eq!((read.object, read.has_more), (json!({"kind": "Service"}), true));
    }

    #[test]
    fn only_what_looks_like_a_manifest_counts_as_broken() {
        let broken =
            |name: &str, text: &[u8]| read_file(name, text).expect_err(name).is_broken_manifest(name);
        assert!(broken("role.yaml", b"a: ["));
        assert!(!broken("README.md", b"a: ["));
        assert!(!broken("values.yaml", b"a: 1"));
    }

    #[test]
    fn twins_that_agree_become_one_with_the_labels_of_both() {
        let rules = json!([{"verbs": ["get"]}]);
        let mut second = role("v1", json!({"b": "2", "c": "3"}), rules.clone());
        second["metadata"]["creationTimestamp"] = Value::Null;
        second["metadata"]["namespace"] = json!("elsewhere");
        second["metadata"]["annotations"] = json!({"d": "4"});
        second["aggregationRule"] = Value::Null;
        second["status"] = json!({});
        let first = role("v1beta1", json!({"a": "1", "b": "1"}), rules.clone());
        let united = unite(vec![
            file("a.yaml", first),
            file("b.yaml", second),
            file("c.yaml", role("v1", Value::Null, rules.clone())),
        ]);
        let mut expected = role("v1", json!({"a": "1", "b": "2", "c": "3"}), rules);
        expected["metadata"]["annotations"] = json!({"d": "4"});
        assert_eq!(united, [file("a.yaml", expected)]);
        assert!(contradicting(&united).is_empty());
    }

    #[test]
    fn twins_that_contradict_each_other_are_named() {
        let service = |ports: Value| json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": ports});
        for (one, other) in [
            (
                role("v1", Value::Null, json!([{"verbs": ["get"]}])),
                role("v1", Value::Null, json!([{"verbs": ["*"]}])),
            ),
            (service(json!({"a": 1})), service(json!({"a": 2}))),
            (service(json!({"a": 1})), service(Value::Null)),
        ] {
            let united = unite(vec![file("a.yaml", one), file("b.yaml", other)]);
            assert_eq!(united.len(), 2);
            let found = contradicting(&united);
            assert_eq!(found.len(), 1);
            assert!(
                found[0].starts_with("a.yaml and b.yaml both contain "),
                "{found:?}"
            );
        }
    }

    #[test]
    fn objects_of_other_groups_names_and_accounts_stand_for_themselves() {
        let object = |api_version: &str, kind: &str, metadata: Value, data: u8| json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "data": data});
        let files = vec![
            file("a", object("a.io/v1", "X", json!({"name": "x"}), 1)),
            file("b", object("b.io/v1", "X", json!({"name": "x"}), 2)),
            file("c", object("a.io/v1", "X", json!({"name": "y"}), 3)),
            file("d", object("v1", "ServiceAccount", json!({"name": "x"}), 4)),
            file("e", object("v1", "ServiceAccount", json!({"name": "x"}), 4)),
            file("f", object("v1", "ConfigMap", json!({"generateName": "x"}), 5)),
            file("g", object("v1", "ConfigMap", json!({"generateName": "x"}), 5)),
        ];
        assert_eq!(unite(files.clone()), files);
        assert!(contradicting(&files).is_empty());
    }
}
