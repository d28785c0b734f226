//! The objects that the preview of a waiting plan is about, and what is kept of each to see that it is another. Pure.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use kube::core::DynamicObject;
use olm_api::plan_preview::{
    FOLLOWED_KINDS, MAX_BYTES, MAX_FOLLOWED, ObjectChange, PlanPreview, VERSION, Verb,
};
use olm_runtime::store::Projection;
use serde_json::Value;

use crate::object;
use crate::step_kind::StepKind;

/// Fields of one object that are known apart.
const MAX_FIELDS: usize = 64;
/// Bytes of a field's name that are kept.
const MAX_NAME: usize = 100;
/// Bytes of an object's name, as Kubernetes has it.
const MAX_NAME_OF_OBJECT: usize = 253;
/// What stands for all fields beyond [`MAX_FIELDS`].
const OTHER_FIELDS: &str = "other fields";

/// An object that a preview is about. Namespaced ones are in the plan's namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PreviewedObject {
    /// Its kind, one of which a name can be watched.
    pub kind: StepKind,
    /// Its name.
    pub name: String,
    /// Whether it was there when the preview was made, and the plan changes it; else the plan makes it.
    pub was_there: bool,
}

fn is_followed(object: &ObjectChange) -> bool {
    FOLLOWED_KINDS.contains(&object.kind.as_str())
}

/// What a store keeps of a preview: a preview of nothing but the first [`MAX_FOLLOWED`] objects that are followed, definitions first.
/// None where there are none, and of what was not written by us.
pub(crate) fn kept(annotation: &str) -> Option<String> {
    // Whoever may write plans may write an annotation of any length.
    let preview = Some(annotation).filter(|text| text.len() <= MAX_BYTES);
    let preview = preview.and_then(PlanPreview::from_annotation)?;
    let definitions = preview.definitions.into_iter().map(|definition| ObjectChange {
        verb: Verb::Change,
        kind: "CustomResourceDefinition".to_owned(),
        name: definition.name,
        ..ObjectChange::default()
    });
    let objects = preview.objects.into_iter().map(|object| ObjectChange {
        verb: object.verb,
        kind: object.kind,
        name: object.name,
        ..ObjectChange::default()
    });
    let objects: Vec<ObjectChange> = definitions
        .chain(objects)
        .filter(is_followed)
        .take(MAX_FOLLOWED)
        .collect();
    let kept = PlanPreview {
        version: VERSION,
        objects,
        ..PlanPreview::default()
    };
    (!kept.objects.is_empty()).then(|| kept.to_annotation())
}

/// The objects of a preview that was [kept].
pub(crate) fn objects(kept: &str) -> Vec<PreviewedObject> {
    let preview = PlanPreview::from_annotation(kept).unwrap_or_default();
    let object = |object: ObjectChange| {
        let kind = StepKind::of(&object.kind).filter(|_| is_followed(&object))?;
        is_name(&object.name).then_some(PreviewedObject {
            kind,
            name: object.name,
            was_there: object.verb == Verb::Change,
        })
    };
    let objects = preview.objects.into_iter().filter_map(object);
    objects.take(MAX_FOLLOWED).collect()
}

/// Whether it is the name of one object, also in a field selector, where a comma would begin another condition.
fn is_name(name: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-.:_".contains(letter);
    !name.is_empty() && name.len() <= MAX_NAME_OF_OBJECT && name.chars().all(is_plain)
}

/// What is kept of an object: hashes of its fields, as `data.key`, without metadata, status and what Kubernetes or OLM fill in
/// whatever a plan says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sketch {
    /// Whether it was made for a ClusterServiceVersion.
    pub is_of_a_csv: bool,
    /// Hash of its uid.
    uid: u64,
    fields: Arc<BTreeMap<String, u64>>,
}

impl Projection for Sketch {
    type Object = DynamicObject;

    fn of(object: DynamicObject) -> Self {
        Self {
            is_of_a_csv: object::is_metadata_of_a_csv(&object.metadata),
            uid: hash(&object.metadata.uid),
            fields: Arc::new(fields(object.data)),
        }
    }
}

impl Sketch {
    /// Whether it is another object of the same name.
    pub(crate) fn is_another(&self, other: &Self) -> bool {
        self.uid != other.uid
    }

    /// The fields that are others than in `other`.
    pub(crate) fn changed_fields(&self, other: &Self) -> Vec<String> {
        let names = self.fields.keys().chain(other.fields.keys());
        let mut changed: Vec<String> = names
            .filter(|name| self.fields.get(*name) != other.fields.get(*name))
            .cloned()
            .collect();
        changed.sort();
        changed.dedup();
        changed
    }
}

fn fields(mut content: Value) -> BTreeMap<String, u64> {
    take_out_what_others_fill_in(&mut content);
    let mut all = BTreeMap::new();
    let Value::Object(content) = content else {
        return all;
    };
    for (name, value) in content {
        match value {
            Value::Object(inner) if !inner.is_empty() => {
                for (key, value) in inner {
                    all.insert(format!("{name}.{key}"), hash(&value.to_string()));
                }
            }
            value => {
                all.insert(name, hash(&value.to_string()));
            }
        }
    }
    let mut kept = BTreeMap::new();
    let mut others = DefaultHasher::new();
    for (at, (mut name, hash)) in all.into_iter().enumerate() {
        if at < MAX_FIELDS && name.len() <= MAX_NAME {
            name.shrink_to_fit();
            kept.insert(name, hash);
        } else {
            (name, hash).hash(&mut others);
            kept.insert(OTHER_FIELDS.to_owned(), others.finish());
        }
    }
    kept
}

/// By fields alone, which no other kind has: what is listed does not say its kind.
fn take_out_what_others_fill_in(content: &mut Value) {
    let aggregates = content.get("aggregationRule").is_some_and(|rule| !rule.is_null());
    if let Value::Object(map) = content {
        // Of ServiceAccounts: Kubernetes and OpenShift add tokens and pull secrets.
        for field in ["status", "secrets", "imagePullSecrets"] {
            map.remove(field);
        }
        // Of a ClusterRole that gathers others.
        if aggregates {
            map.remove("rules");
        }
    }
    // Of CustomResourceDefinitions: certificates are renewed.
    if let Some(Value::Object(client)) = content.pointer_mut("/spec/conversion/webhook/clientConfig") {
        client.remove("caBundle");
    }
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// What is known of the objects that the preview of one plan is about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Looks {
    /// Those that are watched and were looked at.
    pub(crate) looks: Vec<Look>,
    /// Whether some are not watched, as there are too many watches. Nobody tells when there is room.
    pub(crate) lacks_room: bool,
}

/// An object of a preview when it was first looked at, and now; none where there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Look {
    /// The object.
    pub(crate) object: PreviewedObject,
    /// As it was first seen.
    pub(crate) first: Option<Sketch>,
    /// As it is.
    pub(crate) now: Option<Sketch>,
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;

    pub(crate) fn sketch(object: &Value) -> Sketch {
        Sketch::of(serde_json::from_value(object.clone()).unwrap())
    }

    fn config_map(data: &Value) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "resourceVersion": "1"}, "data": data})
    }

    #[test]
    fn of_a_preview_the_objects_that_can_be_followed_are_kept() {
        let preview = json!({"version": 1, "operators": [{"name": "demo.v1"}], "unknown": ["x"],
            "definitions": [{"name": "demos.example.com", "versionsAdded": ["v1"]}],
            "objects": [
                {"verb": "create", "kind": "ServiceAccount", "name": "demo", "namespace": "ns"},
                {"verb": "change", "kind": "ConfigMap", "name": "config", "namespace": "elsewhere", "fields": ["data.a"]},
                {"verb": "create", "kind": "Secret", "name": "key"},
                {"verb": "create", "kind": "PodDisruptionBudget", "name": "budget"},
                {"verb": "create", "kind": "Deployment", "name": "none"}]});
        let kept = kept(&preview.to_string()).unwrap();
        let found: Vec<_> = objects(&kept)
            .into_iter()
            .map(|object| (object.kind, object.name, object.was_there))
            .collect();
        let expected = [
            (StepKind::CustomResourceDefinition, "demos.example.com", true),
            (StepKind::ServiceAccount, "demo", false),
            (StepKind::ConfigMap, "config", true),
        ];
        assert_eq!(
            found,
            expected.map(|(kind, name, was_there)| (kind, name.to_owned(), was_there))
        );
        assert_eq!(
            super::kept(&kept),
            Some(kept.clone()),
            "of what is kept the same is kept"
        );
    }

    /// Anybody who may write plans may write names.
    #[test]
    fn what_would_select_more_than_one_object_is_not_followed() {
        for (name, is_one) in [
            ("demo", true),
            ("system:demo_A.b", true),
            ("", false),
            ("a,metadata.namespace!=ns", false),
            ("a b", false),
            (&"a".repeat(254), false),
        ] {
            let preview =
                json!({"version": 1, "objects": [{"verb": "create", "kind": "Role", "name": name}]});
            assert_eq!(objects(&preview.to_string()).len() == 1, is_one, "{name}");
        }
    }

    #[test]
    fn a_store_keeps_no_more_of_a_preview_than_its_bound() {
        let object =
            |number: usize| json!({"verb": "create", "kind": "Role", "name": format!("role-{number}")});
        let many: Vec<Value> = (0..100).map(object).collect();
        let preview = json!({"version": 1, "objects": many});
        let kept = kept(&preview.to_string()).unwrap();
        assert_eq!(objects(&kept).len(), MAX_FOLLOWED);
        assert!(kept.len() < 2000, "{}", kept.len());
        let long = json!({"version": 1, "objects": [object(1)], "unknown": ["x".repeat(MAX_BYTES)]});
        for none in ["", "{}", r#"{"version": 1}"#, &long.to_string()] {
            assert_eq!(super::kept(none), None);
        }
    }

    #[test]
    fn fields_that_differ_are_named_and_what_others_fill_in_does_not_count() {
        let before = sketch(&config_map(&json!({"a": "1", "b": "2"})));
        let same = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "resourceVersion": "2",
            "labels": {"x": "y"}, "managedFields": [{}]}, "data": {"b": "2", "a": "1"}, "status": {"x": 1}});
        assert_eq!(before.changed_fields(&sketch(&same)), Vec::<String>::new());
        let other = sketch(&config_map(&json!({"a": "3", "c": "2"})));
        assert_eq!(before.changed_fields(&other), ["data.a", "data.b", "data.c"]);
        let pairs = [
            (
                json!({"kind": "ServiceAccount", "apiVersion": "v1", "metadata": {}}),
                json!({"kind": "ServiceAccount", "apiVersion": "v1", "metadata": {}, "secrets": [{"name": "token"}],
                    "imagePullSecrets": [{"name": "pull"}]}),
            ),
            (
                json!({"kind": "ClusterRole", "apiVersion": "v1", "metadata": {}, "aggregationRule": {"clusterRoleSelectors": []}}),
                json!({"kind": "ClusterRole", "apiVersion": "v1", "metadata": {}, "aggregationRule": {"clusterRoleSelectors": []},
                    "rules": [{"verbs": ["get"]}]}),
            ),
            (
                json!({"kind": "CustomResourceDefinition", "apiVersion": "v1", "metadata": {},
                    "spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": "old"}}}}}),
                json!({"kind": "CustomResourceDefinition", "apiVersion": "v1", "metadata": {},
                    "spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": "new"}}}}}),
            ),
        ];
        for (old, new) in pairs {
            let changed = sketch(&old).changed_fields(&sketch(&new));
            assert_eq!(changed, Vec::<String>::new(), "{new}");
        }
    }

    #[test]
    fn of_many_fields_few_are_kept_and_a_change_of_any_is_seen() {
        let data = |last: &str| {
            let key = |number: usize| (format!("key-{number:04}"), Value::from("x"));
            let mut data: serde_json::Map<String, Value> = (0..1000).map(key).collect();
            data.insert("z".repeat(10_000), last.into());
            Value::Object(data)
        };
        let (before, after) = (sketch(&config_map(&data("1"))), sketch(&config_map(&data("2"))));
        assert!(before.fields.len() <= MAX_FIELDS + 1);
        assert!(before.fields.keys().all(|name| name.len() <= MAX_NAME));
        assert_eq!(before.changed_fields(&after), [OTHER_FIELDS]);
    }
}
