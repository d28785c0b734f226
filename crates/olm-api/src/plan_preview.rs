//! Preview of the changes of an InstallPlan that waits for approval.
//!
//! The annotation [`crate::labels::PLAN_PREVIEW`] holds it as JSON, written once, right after the plan. It has names of objects and
//! fields, rules and images, but no other values.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Version of the format below.
pub const VERSION: u32 = 1;
/// Maximum size of the annotation, in bytes.
pub const MAX_BYTES: usize = 64 << 10;
/// How texts of [`PlanPreview::unknown`] begin that are about permissions: they are left out last.
pub const PERMISSIONS: &str = "permissions";
/// Number of texts in `unknown` that are kept when the annotation is full, permissions first.
const UNKNOWN_KEPT: usize = 32;
/// Maximum size of each kept text, in bytes.
const UNKNOWN_BYTES: usize = 256;

/// Changes of a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PlanPreview {
    /// Format version, [`VERSION`].
    pub version: u32,
    /// Time at which the cluster was read, in RFC 3339; later changes are not in it. Empty in previews of older versions.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub made_at: String,
    /// The operators it installs, in the order of its steps.
    pub operators: Vec<OperatorChange>,
    /// Objects it creates or changes; CustomResourceDefinitions it changes are in `definitions`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<ObjectChange>,
    /// CustomResourceDefinitions it changes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub definitions: Vec<DefinitionChange>,
    /// Images of containers that change.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<ImageChange>,
    /// Permissions that subjects gain or lose.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub permissions: Vec<PermissionChange>,
    /// Facts that could not be determined, with the cause.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
    /// Number of entries omitted because the annotation is full.
    #[serde(skip_serializing_if = "is_default")]
    pub omitted: Omitted,
}

/// An operator that the plan installs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OperatorChange {
    /// The new ClusterServiceVersion.
    pub name: String,
    /// The installed one that it replaces; empty for none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub replaces: String,
}

/// Effect of the plan on an object.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// The object is created.
    #[default]
    Create,
    /// The object exists and is changed.
    Change,
    /// The object is deleted: by OLM v1, or with the ClusterServiceVersion that is replaced.
    Delete,
}

/// An object that the plan creates, changes or deletes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectChange {
    /// Effect on the object.
    pub verb: Verb,
    /// Kind of the object.
    pub kind: String,
    /// Name of the object.
    pub name: String,
    /// Namespace of the object; empty for cluster-scoped kinds.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The fields that change, as `data.key`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<String>,
    /// Number of other data keys that are removed, if their names are not listed.
    #[serde(skip_serializing_if = "is_default")]
    pub keys_removed: usize,
    /// True if `fields` lists all fields of the plan's object, changed or not. Readers of this preview might not be allowed to
    /// read the object.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub not_compared: bool,
    /// True for an object that existed before OLM and that another client owns.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub foreign: bool,
}

/// A container whose image changes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ImageChange {
    /// Kind of the workload.
    pub kind: String,
    /// Name of the workload.
    pub name: String,
    /// Name of the container.
    pub container: String,
    /// Image at present; empty for a new container.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub from: String,
    /// New image; empty if the container is removed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub to: String,
}

/// Lists of containers in the object of a workload.
const CONTAINERS: [&str; 2] = [
    "/spec/template/spec/initContainers",
    "/spec/template/spec/containers",
];

/// A workload: its kind, its name, and an object with its pod template.
pub type Workload<'a> = (&'a str, &'a str, &'a Value);

/// Returns the images that differ between two sets of workloads, ordered by kind, name and container.
pub fn image_changes<'a>(
    old: impl IntoIterator<Item = Workload<'a>>,
    new: impl IntoIterator<Item = Workload<'a>>,
) -> Vec<ImageChange> {
    let (old, new) = (images(old), images(new));
    let containers: BTreeSet<_> = old.keys().chain(new.keys()).collect();
    let change = |found: &[&str; 3]| {
        let [from, to] = [&old, &new].map(|images| images.get(found).copied().unwrap_or_default());
        let [kind, name, container] = found.map(str::to_owned);
        (from != to).then(|| ImageChange {
            kind,
            name,
            container,
            from: from.to_owned(),
            to: to.to_owned(),
        })
    };
    containers.into_iter().filter_map(change).collect()
}

/// Returns the image of each container, by kind and name of the workload and name of the container.
fn images<'a>(workloads: impl IntoIterator<Item = Workload<'a>>) -> BTreeMap<[&'a str; 3], &'a str> {
    let mut images = BTreeMap::new();
    for (kind, name, object) in workloads {
        for pointer in CONTAINERS {
            let containers = object.pointer(pointer).and_then(Value::as_array);
            for container in containers.into_iter().flatten() {
                let text = |field: &str| container[field].as_str().unwrap_or_default();
                images.insert([kind, name, text("name")], text("image"));
            }
        }
    }
    images
}

/// A CustomResourceDefinition that the plan changes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DefinitionChange {
    /// Name of the definition.
    pub name: String,
    /// Versions that are newly served; with `notCompared` all versions that the plan's definition serves.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub versions_added: Vec<String>,
    /// Versions that are no longer served.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub versions_removed: Vec<String>,
    /// Fields that a version gains, as `v1: spec.size`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields_added: Vec<String>,
    /// Fields that a version loses, as `v1: spec.size`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields_removed: Vec<String>,
    /// Fields that a version requires and did not before, as `v1: spec.size`; those with a default are left out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields_required: Vec<String>,
    /// Why OLM will not make the change, in the words of the plan's condition, such as a custom resource that does not fit; empty if
    /// nothing is known to prevent it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub refused: String,
    /// Other fields of the definition that change, as `spec.conversion`; `spec.versions` only for changes that are not named above.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<String>,
    /// True if only the contents of the plan's definition are listed, changed or not. Readers of this preview might not be
    /// allowed to read the definition.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub not_compared: bool,
}

/// Rules that a subject gains and loses in one scope.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PermissionChange {
    /// Subject with its kind, as `ServiceAccount demo`. `ClusterRole edit` means all who have this role, to which a ClusterRole
    /// of the plan adds its rules.
    pub subject: String,
    /// Namespace of the scope; empty for the whole cluster.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Rules that the subject gains.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gained: Vec<Rule>,
    /// Rules that the subject loses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<Rule>,
}

/// Verbs on resources of one kind, on URLs, or a role that is not part of the plan.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rule {
    /// The API group; empty for the core group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Resource, with its subresource.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource: String,
    /// Name of the one object the rule applies to; empty for all.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_name: String,
    /// Non-resource URL.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub url: String,
    /// Role whose rules are not in the plan, as `ClusterRole view`; `ClusterRoles with label=value` for all of them.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub role: String,
    /// The verbs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub verbs: Vec<String>,
}

/// Numbers of omitted entries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Omitted {
    /// Number of omitted operators.
    #[serde(skip_serializing_if = "is_default")]
    pub operators: usize,
    /// Number of omitted objects.
    #[serde(skip_serializing_if = "is_default")]
    pub objects: usize,
    /// Number of omitted images.
    #[serde(skip_serializing_if = "is_default")]
    pub images: usize,
    /// Number of omitted fields of objects and definitions.
    #[serde(skip_serializing_if = "is_default")]
    pub fields: usize,
    /// Number of omitted definitions.
    #[serde(skip_serializing_if = "is_default")]
    pub definitions: usize,
    /// Number of omitted rules that are gained.
    #[serde(skip_serializing_if = "is_default")]
    pub gained: usize,
    /// Number of omitted rules that are lost.
    #[serde(skip_serializing_if = "is_default")]
    pub lost: usize,
    /// Number of omitted unknown facts.
    #[serde(skip_serializing_if = "is_default")]
    pub unknown: usize,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl PlanPreview {
    /// Returns the annotation's text. Entries without room are counted, the least important first: fields, objects, lost rules,
    /// definitions, gained rules, operators and most unknown facts. The entries about unknown permissions are kept.
    pub fn to_annotation(&self) -> String {
        let mut shown = self.clone();
        let steps: [fn(&mut Self); 6] = [
            Self::omit_fields,
            Self::omit_objects,
            Self::omit_lost,
            Self::omit_definitions,
            Self::omit_gained,
            Self::omit_rest,
        ];
        for omit in steps {
            let text = serde_json::to_string(&shown).unwrap_or_default();
            if text.len() <= MAX_BYTES {
                return text;
            }
            omit(&mut shown);
        }
        serde_json::to_string(&shown).unwrap_or_default()
    }

    /// Reads an annotation; `None` if it has another version or was not written by OLM.
    pub fn from_annotation(text: &str) -> Option<Self> {
        let preview: Self = serde_json::from_str(text).ok()?;
        (preview.version == VERSION).then_some(preview)
    }

    fn omit_fields(&mut self) {
        let of_objects = self.objects.iter_mut().map(|object| &mut object.fields);
        let of_definitions = self.definitions.iter_mut().flat_map(|definition| {
            [
                &mut definition.fields,
                &mut definition.fields_added,
                &mut definition.fields_removed,
                &mut definition.fields_required,
            ]
        });
        for fields in of_objects.chain(of_definitions) {
            self.omitted.fields += fields.len();
            fields.clear();
        }
    }

    fn omit_objects(&mut self) {
        self.omitted.objects += self.objects.len();
        self.objects.clear();
        self.omitted.images += self.images.len();
        self.images.clear();
    }

    fn omit_lost(&mut self) {
        for change in &mut self.permissions {
            self.omitted.lost += change.lost.len();
            change.lost.clear();
        }
    }

    fn omit_definitions(&mut self) {
        self.omitted.definitions += self.definitions.len();
        self.definitions.clear();
    }

    fn omit_gained(&mut self) {
        for change in self.permissions.drain(..) {
            self.omitted.gained += change.gained.len();
        }
    }

    fn omit_rest(&mut self) {
        self.omitted.operators += self.operators.len();
        self.operators.clear();
        let count = self.unknown.len();
        self.unknown.sort_by_key(|text| !text.starts_with(PERMISSIONS));
        self.unknown.truncate(UNKNOWN_KEPT);
        self.omitted.unknown += count - self.unknown.len();
        for text in &mut self.unknown {
            text.truncate(text.floor_char_boundary(UNKNOWN_BYTES));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(count: usize) -> Vec<Rule> {
        let rule = |number: usize| Rule {
            resource: format!("resource-{number:05}"),
            verbs: vec!["get".to_owned()],
            ..Rule::default()
        };
        (0..count).map(rule).collect()
    }

    fn preview(objects: usize, rules_gained: usize) -> PlanPreview {
        let object = |number: usize| ObjectChange {
            kind: "ConfigMap".to_owned(),
            name: format!("config-{number:05}"),
            fields: vec!["data".to_owned()],
            ..ObjectChange::default()
        };
        PlanPreview {
            version: VERSION,
            objects: (0..objects).map(object).collect(),
            permissions: vec![PermissionChange {
                subject: "ServiceAccount demo".to_owned(),
                gained: rules(rules_gained),
                ..PermissionChange::default()
            }],
            ..PlanPreview::default()
        }
    }

    #[test]
    fn what_has_no_room_is_counted_and_what_is_gained_stays_longest() {
        let whole = preview(10, 10);
        assert_eq!(PlanPreview::from_annotation(&whole.to_annotation()), Some(whole));
        let many_objects = PlanPreview::from_annotation(&preview(5000, 10).to_annotation()).unwrap();
        assert_eq!(
            (many_objects.omitted.objects, many_objects.omitted.fields),
            (5000, 5000)
        );
        assert_eq!(many_objects.permissions[0].gained.len(), 10);
        let many_rules = PlanPreview::from_annotation(&preview(10, 5000).to_annotation()).unwrap();
        assert_eq!(many_rules.omitted.gained, 5000);
        for (objects, gained) in [(0, 0), (700, 0), (5000, 700), (5000, 5000)] {
            assert!(preview(objects, gained).to_annotation().len() <= MAX_BYTES);
        }
    }

    /// An author who fills the annotation must not be able to remove this entry: a preview without permissions reads as "no
    /// change".
    #[test]
    fn that_permissions_are_unknown_stays_when_nothing_else_has_room() {
        let mut many = preview(5000, 5000);
        let text = "ä".repeat(400);
        many.unknown = (0..5000).map(|number| format!("{text} {number}")).collect();
        many.unknown.push(format!("{PERMISSIONS} of demo.v1: it is gone"));
        let text = many.to_annotation();
        assert!(text.len() <= MAX_BYTES, "{}", text.len());
        let read = PlanPreview::from_annotation(&text).unwrap();
        assert_eq!(read.unknown[0], "permissions of demo.v1: it is gone");
        assert_eq!(read.unknown.len() + read.omitted.unknown, 5001);
    }

    #[test]
    fn a_preview_of_another_version_is_none() {
        for text in ["", "[]", "{}", r#"{"version": 2}"#, r#"{"version": "1"}"#] {
            assert_eq!(PlanPreview::from_annotation(text), None, "{text}");
        }
    }
}
