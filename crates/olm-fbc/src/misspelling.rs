//! Unknown keys, schemas and property types that resemble known ones.
//!
//! Validation accepts them, as upstream's does: catalogs may contain data for other programs. So a misspelling is only reported
//! beside the verdict, and only if the name that was probably meant is missing.

use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::did_you_mean::did_you_mean;
use crate::property::{Property, kinds};
use crate::schema::{Blob, Bundle, Channel, Deprecations, Other, Package, schemas};

/// Prefix of upstream's names; only the rest is compared.
const PREFIX: &str = "olm.";

const SCHEMAS: [&str; 4] = [
    schemas::PACKAGE,
    schemas::CHANNEL,
    schemas::BUNDLE,
    schemas::DEPRECATIONS,
];

const PROPERTY_TYPES: [&str; 10] = [
    kinds::PACKAGE,
    kinds::PACKAGE_REQUIRED,
    kinds::GVK,
    kinds::GVK_REQUIRED,
    kinds::LABEL,
    kinds::LABEL_REQUIRED,
    kinds::CONSTRAINT,
    kinds::BUNDLE_OBJECT,
    kinds::CSV_METADATA,
    kinds::DEPRECATED,
];

/// Maximum number of characters of a displayed name.
const SHOWN_CHARS: usize = 120;

/// An unknown name and the known name that was probably meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misspelling {
    /// Package of the document, may be empty.
    pub package: String,
    /// Schema and name of the document, as `olm.channel "stable"`.
    pub object: String,
    /// Position in the document, as `entries[0]`; empty for the document itself.
    pub path: String,
    /// Kind of the name: `schema`, `key` or `property type`.
    pub what: &'static str,
    /// The name as written.
    pub found: String,
    /// The name that was probably meant.
    pub meant: &'static str,
}

impl Misspelling {
    /// Returns the message without the position.
    pub fn message(&self) -> String {
        let at = if self.path.is_empty() {
            String::new()
        } else {
            format!("{}: ", self.path)
        };
        format!(
            "{at}unknown {} {:?}: did you mean {:?}?",
            self.what, self.found, self.meant
        )
    }
}

impl fmt::Display for Misspelling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.package.is_empty() {
            write!(f, "package {:?}, ", self.package)?;
        }
        write!(f, "{}: {}", self.object, self.message())
    }
}

/// Returns the misspelt names of a document, in document order.
pub fn misspellings(blob: &Blob) -> Vec<Misspelling> {
    let mut search = Search::new(blob.package(), blob.schema(), blob.name());
    match blob {
        Blob::Package(package) => search.package(package),
        Blob::Channel(channel) => search.channel(channel),
        Blob::Bundle(bundle) => search.bundle(bundle),
        Blob::Deprecations(deprecations) => search.deprecations(deprecations),
        Blob::Other(other) => search.other(other),
    }
    search.found
}

/// Returns the unknown keys of an object that is not a blob, each with the known key that was probably meant. Known keys match
/// case-insensitively. Keys that the object already has are not suggested.
pub fn misspelt_keys<'a>(
    object: &'a Map<String, Value>,
    known: &[&'static str],
) -> Vec<(&'a str, &'static str)> {
    let is_known = |key: &str| known.iter().any(|known| known.eq_ignore_ascii_case(key));
    let is_absent = |known: &&'static str| !object.keys().any(|key| key.eq_ignore_ascii_case(known));
    let unread = object.keys().filter(|key| !is_known(key));
    unread
        .filter_map(|key| {
            let absent = known.iter().copied().filter(is_absent);
            let meant = near_key(key, absent)?;
            Some((key.as_str(), meant))
        })
        .collect()
}

struct Search {
    package: String,
    object: String,
    found: Vec<Misspelling>,
}

impl Search {
    fn new(package: &str, schema: &str, name: &str) -> Self {
        let mut object = cut(schema);
        if !name.is_empty() {
            object.push_str(&format!(" {:?}", cut(name)));
        }
        Self {
            package: cut(package),
            object,
            found: Vec::new(),
        }
    }

    fn add(&mut self, path: &str, what: &'static str, found: &str, meant: &'static str) {
        self.found.push(Misspelling {
            package: self.package.clone(),
            object: self.object.clone(),
            path: path.to_owned(),
            what,
            found: found.to_owned(),
            meant,
        });
    }

    /// Adds the misspelt keys of an object; `extra` are the keys that its type does not know.
    fn keys(
        &mut self,
        path: &str,
        object: &impl Serialize,
        extra: &Map<String, Value>,
        known: &[&'static str],
    ) {
        if extra.is_empty() {
            return;
        }
        let object = serde_json::to_value(object).unwrap_or_default();
        let absent = known.iter().copied().filter(|name| is_empty(&object[name]));
        for key in extra.keys() {
            if let Some(meant) = near_key(key, absent.clone()) {
                self.add(path, "key", key, meant);
            }
        }
    }

    fn properties(&mut self, properties: &[Property]) {
        for (index, property) in properties.iter().enumerate() {
            let path = format!("properties[{index}]");
            self.keys(&path, property, &property.extra, &["type", "value"]);
            if let Some(meant) = near_name(&property.kind, &PROPERTY_TYPES) {
                self.add(&path, "property type", &property.kind, meant);
            }
            if let Some(value) = property.value.as_object() {
                for (key, meant) in misspelt_keys(value, value_keys(&property.kind)) {
                    self.add(&format!("{path}.value"), "key", key, meant);
                }
            }
        }
    }

    fn package(&mut self, package: &Package) {
        let known = ["name", "defaultChannel", "icon", "description", "properties"];
        self.keys("", package, &package.extra, &known);
        if let Some(icon) = &package.icon {
            self.keys("icon", icon, &icon.extra, &["base64data", "mediatype"]);
        }
        self.properties(&package.properties);
    }

    fn channel(&mut self, channel: &Channel) {
        let known = ["name", "package", "entries", "properties"];
        self.keys("", channel, &channel.extra, &known);
        for (index, entry) in channel.entries.iter().enumerate() {
            let known = ["name", "replaces", "skips", "skipRange"];
            self.keys(&format!("entries[{index}]"), entry, &entry.extra, &known);
        }
        self.properties(&channel.properties);
    }

    fn bundle(&mut self, bundle: &Bundle) {
        let known = ["name", "package", "image", "properties", "relatedImages"];
        self.keys("", bundle, &bundle.extra, &known);
        for (index, related) in bundle.related_images.iter().enumerate() {
            let path = format!("relatedImages[{index}]");
            self.keys(&path, related, &related.extra, &["name", "image"]);
        }
        self.properties(&bundle.properties);
    }

    fn deprecations(&mut self, deprecations: &Deprecations) {
        self.keys("", deprecations, &deprecations.extra, &["package", "entries"]);
        for (index, entry) in deprecations.entries.iter().enumerate() {
            let path = format!("entries[{index}]");
            self.keys(&path, entry, &entry.extra, &["reference", "message"]);
        }
    }

    fn other(&mut self, other: &Other) {
        if let Some(meant) = near_name(&other.schema, &SCHEMAS) {
            self.add("", "schema", &other.schema, meant);
        }
    }
}

/// Returns true for a field without content, which its type writes although the document may not have it.
fn is_empty(field: &Value) -> bool {
    match field {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_empty),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Returns the known key that was probably meant. The singular forms of `properties` and `entries` are far from them by edit
/// distance, but a likely mistake.
fn near_key(key: &str, known: impl Iterator<Item = &'static str> + Clone) -> Option<&'static str> {
    let is_plural = |known: &&str| {
        known.strip_suffix("ies").is_some_and(|stem| {
            key.strip_suffix(['y', 'Y'])
                .is_some_and(|own| own.eq_ignore_ascii_case(stem))
        })
    };
    did_you_mean(key, known.clone()).or_else(|| known.into_iter().find(is_plural))
}

/// Returns the keys of a property's value; empty if they are not a fixed set.
fn value_keys(kind: &str) -> &'static [&'static str] {
    match kind {
        kinds::PACKAGE => &["packageName", "version", "release"],
        kinds::PACKAGE_REQUIRED => &["packageName", "versionRange"],
        kinds::GVK | kinds::GVK_REQUIRED => &["group", "version", "kind"],
        kinds::LABEL | kinds::LABEL_REQUIRED => &["label"],
        _ => &[],
    }
}

/// Returns the known name that was probably meant; `None` if `name` is known or resembles no known name.
pub(crate) fn near_name(name: &str, known: &[&'static str]) -> Option<&'static str> {
    if known.contains(&name) {
        return None;
    }
    let own = name.strip_prefix(PREFIX).unwrap_or(name);
    let rest = |known: &'static str| known.strip_prefix(PREFIX).unwrap_or(known);
    let prefixed = |meant: &str| known.iter().copied().find(|known| rest(known) == meant);
    // Finds `olm.channel` for `channel`.
    prefixed(own).or_else(|| prefixed(did_you_mean(own, known.iter().map(|known| rest(known)))?))
}

/// Shortens a name for display, to at most one line.
fn cut(name: &str) -> String {
    match name.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(document: Value) -> Vec<String> {
        let blob = Blob::from_value(document).expect("blob");
        misspellings(&blob).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn misspelt_names_are_found_where_they_stand() {
        for (document, expected) in [
            (
                json!({"schema": "olm.chanel", "package": "p", "name": "c"}),
                r#"package "p", olm.chanel "c": unknown schema "olm.chanel": did you mean "olm.channel"?"#,
            ),
            (
                json!({"schema": "bundle", "name": "b"}),
                r#"bundle "b": unknown schema "bundle": did you mean "olm.bundle"?"#,
            ),
            (
                json!({"schema": "olm.package", "name": "p", "default_channel": "c"}),
                r#"package "p", olm.package "p": unknown key "default_channel": did you mean "defaultChannel"?"#,
            ),
            (
                json!({"schema": "olm.package", "name": "p", "icon": {"base64": "", "mediaTypes": "x"}}),
                r#"package "p", olm.package "p": icon: unknown key "mediaTypes": did you mean "mediatype"?"#,
            ),
            (
                json!({"schema": "olm.channel", "packge": "p", "name": "c"}),
                r#"olm.channel "c": unknown key "packge": did you mean "package"?"#,
            ),
            (
                json!({"schema": "olm.channel", "package": "p", "name": "c", "entries": [{"name": "a"}, {"name": "b", "replace": "a"}]}),
                r#"package "p", olm.channel "c": entries[1]: unknown key "replace": did you mean "replaces"?"#,
            ),
            (
                json!({"schema": "olm.bundle", "package": "p", "name": "b", "relatedImage": []}),
                r#"package "p", olm.bundle "b": unknown key "relatedImage": did you mean "relatedImages"?"#,
            ),
            (
                json!({"schema": "olm.bundle", "package": "p", "name": "b", "properties": [{"type": "olm.gvk.require", "value": 1}]}),
                r#"package "p", olm.bundle "b": properties[0]: unknown property type "olm.gvk.require": did you mean "olm.gvk.required"?"#,
            ),
            (
                json!({"schema": "olm.bundle", "package": "p", "name": "b",
                       "properties": [{"type": "olm.package", "value": {"packageName": "p", "verison": "1.0.0"}}]}),
                r#"package "p", olm.bundle "b": properties[0].value: unknown key "verison": did you mean "version"?"#,
            ),
            (
                json!({"schema": "olm.bundle", "package": "p", "name": "b", "property": []}),
                r#"package "p", olm.bundle "b": unknown key "property": did you mean "properties"?"#,
            ),
            (
                json!({"schema": "olm.channel", "package": "p", "name": "c", "entry": []}),
                r#"package "p", olm.channel "c": unknown key "entry": did you mean "entries"?"#,
            ),
            (
                json!({"schema": "olm.deprecations", "package": "p", "entries": [{"mesage": "m"}]}),
                r#"package "p", olm.deprecations: entries[0]: unknown key "mesage": did you mean "message"?"#,
            ),
        ] {
            assert_eq!(told(document), [expected]);
        }
    }

    /// Catalogs may contain data for other programs; only misspellings are reported.
    #[test]
    fn other_names_are_ignored() {
        for document in [
            json!({"schema": "olm.gpu", "package": "p", "names": "x"}),
            json!({"schema": "custom.io/v1", "nmae": "x"}),
            json!({"schema": "olm.channel", "package": "p", "name": "c", "names": "x", "x-note": "y",
                   "entries": [{"name": "a", "replaces": "b", "replace": "b"}]}),
            json!({"schema": "olm.bundle", "package": "p", "name": "b", "image": "i", "images": [],
                   "properties": [{"type": "olm.maxOpenShiftVersion", "value": "4.9"}, {"type": "custom", "value": {"verison": 1}},
                                  {"type": "olm.gvk", "value": {"group": "g", "version": "v1", "versions": [], "kind": "K"}}]}),
        ] {
            assert_eq!(told(document.clone()), Vec::<String>::new(), "{document}");
        }
    }

    #[test]
    fn keys_of_other_objects_are_compared_with_those_that_are_absent() {
        let document = json!({"Schema": "s", "entires": [], "shcema": "s", "note": 1});
        let keys = document.as_object().expect("object");
        assert_eq!(
            misspelt_keys(keys, &["schema", "entries"]),
            [("entires", "entries")]
        );
    }

    #[test]
    fn long_names_are_cut() {
        let document = json!({"schema": "olm.channel", "name": "x".repeat(10_000), "packge": "p"});
        assert!(told(document)[0].len() < 300);
    }
}
