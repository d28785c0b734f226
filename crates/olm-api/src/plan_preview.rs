//! What an InstallPlan that waits for approval says it will change.
//!
//! It stands in the annotation [`crate::labels::PLAN_PREVIEW`] as JSON, written once, as soon as the plan is made. It holds names
//! of objects and of fields, and rules; no values.

use serde::{Deserialize, Serialize};

/// The version of the form below.
pub const VERSION: u32 = 1;
/// The annotation never has more bytes.
pub const MAX_BYTES: usize = 64 << 10;
/// How texts of [`PlanPreview::unknown`] begin that are about permissions: they are left out last.
pub const PERMISSIONS: &str = "permissions";
/// Texts of what is unknown that stay where nothing else has room, permissions first.
const UNKNOWN_KEPT: usize = 32;
/// Bytes of each of them.
const UNKNOWN_BYTES: usize = 256;

/// What a plan changes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PlanPreview {
    /// [`VERSION`].
    pub version: u32,
    /// When the cluster was read for it, in RFC 3339: what changed since is not told. Empty for previews that do not say.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub made_at: String,
    /// The operators it installs, in the order of its steps.
    pub operators: Vec<OperatorChange>,
    /// Objects it makes or changes; CustomResourceDefinitions that it changes stand in `definitions`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<ObjectChange>,
    /// CustomResourceDefinitions it changes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub definitions: Vec<DefinitionChange>,
    /// What accounts may do then and could not before, or the other way round.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub permissions: Vec<PermissionChange>,
    /// What could not be found out, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
    /// How many of each are left out, as all of it has no room.
    #[serde(skip_serializing_if = "Omitted::is_none")]
    pub omitted: Omitted,
}

/// An operator that is installed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OperatorChange {
    /// The new ClusterServiceVersion.
    pub name: String,
    /// The installed one that it replaces; empty for none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub replaces: String,
}

/// What becomes of an object.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// It is made.
    #[default]
    Create,
    /// It is there and becomes another.
    Change,
}

/// An object that is made or changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectChange {
    /// What becomes of it.
    pub verb: Verb,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its namespace; empty for kinds without.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The fields that change, as `data.key`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<String>,
    /// How many other keys of its data go, where their names are not told.
    #[serde(skip_serializing_if = "is_zero")]
    pub keys_removed: usize,
    /// True where `fields` are all that the plan brings, whether they change or not: whoever reads this might not be allowed to
    /// read the object.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub not_compared: bool,
    /// True for what stood before OLM and is somebody else's.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub foreign: bool,
}

/// A CustomResourceDefinition that changes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DefinitionChange {
    /// Its name.
    pub name: String,
    /// Versions that are served then and were not before; with `notCompared` all that the plan's definition serves.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub versions_added: Vec<String>,
    /// Versions that were served before and are not then.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub versions_removed: Vec<String>,
    /// Fields that a version has no more, as `v1: spec.size`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields_removed: Vec<String>,
    /// Other fields of the definition that change, as `spec.conversion`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<String>,
    /// True where only what the plan brings is told, whether it changes or not: whoever reads this might not be allowed to read
    /// the definition.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub not_compared: bool,
}

/// What an account gains and loses in one scope.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PermissionChange {
    /// `ServiceAccount demo`, or another kind of subject with its name; `ClusterRole edit` for all who have this role, to which a
    /// ClusterRole of the plan adds its rules.
    pub subject: String,
    /// Where it counts; empty for the whole cluster.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// What it may do then and could not before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gained: Vec<Rule>,
    /// What it could do before and may not then.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<Rule>,
}

/// Verbs on resources of one kind, on URLs, or a role that is not the plan's.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rule {
    /// The API group; empty for the core group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The resource, with its subresource.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource: String,
    /// The one object it is about; empty for all.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_name: String,
    /// The URL, for what is no resource.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub url: String,
    /// The role, as `ClusterRole view`, whose rules are not in the plan; `ClusterRoles with label=value` for all of them.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub role: String,
    /// The verbs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub verbs: Vec<String>,
}

/// How many entries there was no room for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Omitted {
    /// Of operators.
    #[serde(skip_serializing_if = "is_zero")]
    pub operators: usize,
    /// Of objects.
    #[serde(skip_serializing_if = "is_zero")]
    pub objects: usize,
    /// Of fields of objects and definitions.
    #[serde(skip_serializing_if = "is_zero")]
    pub fields: usize,
    /// Of definitions.
    #[serde(skip_serializing_if = "is_zero")]
    pub definitions: usize,
    /// Of rules that are gained.
    #[serde(skip_serializing_if = "is_zero")]
    pub gained: usize,
    /// Of rules that are lost.
    #[serde(skip_serializing_if = "is_zero")]
    pub lost: usize,
    /// Of what is unknown.
    #[serde(skip_serializing_if = "is_zero")]
    pub unknown: usize,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // As serde wants it.
fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Omitted {
    fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

impl PlanPreview {
    /// The annotation's text. What has no room is counted, what matters least first: fields, objects, rules that are lost,
    /// definitions, rules that are gained, operators and most of what is unknown. That permissions are unknown stays.
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

    /// Reads an annotation; none when it is of another version or was not written by us.
    pub fn from_annotation(text: &str) -> Option<Self> {
        let preview: Self = serde_json::from_str(text).ok()?;
        (preview.version == VERSION).then_some(preview)
    }

    fn omit_fields(&mut self) {
        let of_objects = self.objects.iter_mut().map(|object| &mut object.fields);
        let of_definitions = self
            .definitions
            .iter_mut()
            .flat_map(|definition| [&mut definition.fields, &mut definition.fields_removed]);
        for fields in of_objects.chain(of_definitions) {
            self.omitted.fields += fields.len();
            fields.clear();
        }
    }

    fn omit_objects(&mut self) {
        self.omitted.objects += self.objects.len();
        self.objects.clear();
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

    /// Whoever fills the rest must not get rid of this: to hear nothing of permissions reads like none.
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
