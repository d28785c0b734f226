//! Outdated parts of the preview of an InstallPlan that waits for approval.
//!
//! They are stored as JSON in the annotation [`crate::labels::PLAN_PREVIEW_OUTDATED`], written once, when the first change is
//! seen. Later changes are not added. It contains names of objects and of fields, but no values.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::plan_preview::VERSION;

/// Maximum size of the annotation, in bytes.
pub const MAX_BYTES: usize = 4 << 10;

/// Changes since the preview was made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PreviewOutdated {
    /// Format version, [`VERSION`].
    pub version: u32,
    /// Time when the first change was seen, in RFC 3339.
    pub since: String,
    /// Objects that have changed.
    pub objects: Vec<OutdatedObject>,
    /// Number of objects omitted because the annotation is full.
    #[serde(skip_serializing_if = "is_zero")]
    pub omitted: usize,
}

/// An object that no longer matches the preview.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OutdatedObject {
    /// Change of the object.
    pub change: ObjectFate,
    /// Kind of the object.
    pub kind: String,
    /// Name of the object.
    pub name: String,
    /// Namespace of the object; empty for cluster-scoped kinds.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Changed fields, as `data.key`; empty if they are not listed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<String>,
}

/// Change of an object since the preview was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ObjectFate {
    /// The plan was to create the object, and it exists.
    #[default]
    Came,
    /// The plan was to change the object, and it does not exist.
    Gone,
    /// The plan was to change the object, and it has changed.
    Changed,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // As serde wants it.
fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl fmt::Display for OutdatedObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.kind)?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)?;
        match self.change {
            ObjectFate::Came => f.write_str(", which it creates, is there by now"),
            ObjectFate::Gone => f.write_str(", which it changes, is gone"),
            ObjectFate::Changed => f.write_str(", which it changes, is another by now"),
        }?;
        match self.fields.is_empty() {
            true => Ok(()),
            false => write!(f, " ({})", self.fields.join(", ")),
        }
    }
}

impl PreviewOutdated {
    /// Returns the annotation's text, at most [`MAX_BYTES`]. Fields are omitted first; omitted objects are counted.
    pub fn to_annotation(&self) -> String {
        let mut shown = self.clone();
        shown.version = VERSION;
        let text = |shown: &Self| serde_json::to_string(shown).unwrap_or_default();
        if text(&shown).len() > MAX_BYTES {
            shown.objects.iter_mut().for_each(|object| object.fields.clear());
        }
        let mut written = text(&shown);
        while written.len() > MAX_BYTES && shown.objects.pop().is_some() {
            shown.omitted += 1;
            written = text(&shown);
        }
        written
    }

    /// Reads an annotation; `None` if it has another version, is longer than OLM writes it, or was not written by OLM.
    pub fn from_annotation(text: &str) -> Option<Self> {
        if text.len() > MAX_BYTES {
            return None;
        }
        let outdated: Self = serde_json::from_str(text).ok()?;
        (outdated.version == VERSION).then_some(outdated)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outdated(objects: usize, fields: usize) -> PreviewOutdated {
        let object = |number: usize| OutdatedObject {
            change: ObjectFate::Changed,
            kind: "ConfigMap".to_owned(),
            name: format!("config-{number:04}"),
            namespace: "ns".to_owned(),
            fields: (0..fields).map(|field| format!("data.key-{field}")).collect(),
        };
        PreviewOutdated {
            version: VERSION,
            since: "2026-01-01T00:00:00Z".to_owned(),
            objects: (0..objects).map(object).collect(),
            omitted: 0,
        }
    }

    #[test]
    fn what_has_no_room_is_left_out_fields_first_and_objects_are_counted() {
        let whole = outdated(3, 3);
        assert_eq!(
            PreviewOutdated::from_annotation(&whole.to_annotation()),
            Some(whole)
        );
        let no_fields = PreviewOutdated::from_annotation(&outdated(20, 40).to_annotation()).unwrap();
        assert_eq!((no_fields.objects.len(), no_fields.omitted), (20, 0));
        assert!(no_fields.objects.iter().all(|object| object.fields.is_empty()));
        let many = outdated(500, 0).to_annotation();
        assert!(many.len() <= MAX_BYTES, "{}", many.len());
        let many = PreviewOutdated::from_annotation(&many).unwrap();
        assert!(many.objects.len() > 10 && many.objects.len() + many.omitted == 500);
    }

    #[test]
    fn what_we_did_not_write_is_none() {
        let long = format!(r#"{{"version": 1, "since": "{}"}}"#, "x".repeat(MAX_BYTES));
        for text in ["", "[]", "{}", r#"{"version": 2}"#, long.as_str()] {
            assert_eq!(PreviewOutdated::from_annotation(text), None, "{text:.40}");
        }
    }

    #[test]
    fn a_change_reads_as_a_sentence() {
        let mut object = outdated(1, 2).objects.remove(0);
        let text = "ConfigMap ns/config-0000, which it changes, is another by now (data.key-0, data.key-1)";
        assert_eq!(object.to_string(), text);
        object.fields.clear();
        object.namespace.clear();
        object.change = ObjectFate::Came;
        let text = "ConfigMap config-0000, which it creates, is there by now";
        assert_eq!(object.to_string(), text);
        object.change = ObjectFate::Gone;
        assert_eq!(
            object.to_string(),
            "ConfigMap config-0000, which it changes, is gone"
        );
    }
}
