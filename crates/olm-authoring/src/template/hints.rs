//! Suggestions for unknown names in a template.

use go_compat::json::Fields;
use olm_fbc::did_you_mean::{did_you_mean, suggestion};
use olm_fbc::misspelling::{misspellings, misspelt_keys};
use olm_fbc::schema::{Blob, BlobError};
use serde_json::{Map, Value};

use super::{Kind, SUBSTITUTIONS};

/// Returns a suggestion for an unknown schema of a template, with the known schemas.
pub(super) fn schema(found: &str) -> String {
    let known = Kind::ALL.map(Kind::schema);
    format!("; known are {}{}", known.join(", "), suggestion(found, known))
}

/// Returns the key that was probably meant as `schema`, as part of an error.
pub(super) fn no_schema(document: &Value) -> String {
    let keys = document.as_object().into_iter().flat_map(Map::keys);
    let mut misspelt = keys.filter(|key| did_you_mean(key, ["schema"]).is_some());
    misspelt.next().map_or_else(String::new, |key| by_key(key))
}

/// Does the same as [`no_schema`] for an entry.
pub(super) fn of_entry(error: &BlobError) -> String {
    match error {
        BlobError::NoSchema {
            misspelt: Some(key), ..
        } => by_key(key),
        _ => String::new(),
    }
}

fn by_key(key: &str) -> String {
    format!(" (did you mean \"schema\" instead of {key:?}?)")
}

/// Returns unknown names that resemble known ones. Upstream ignores them, so they are not errors. In a semver template they are
/// errors, so that kind returns nothing here.
pub(super) fn of_document(kind: Kind, document: &Value, entries: &[Blob]) -> Vec<String> {
    let known: &[&str] = match kind {
        Kind::Basic => &["schema", "entries"],
        Kind::Substitutes => &["schema", "entries", SUBSTITUTIONS],
        Kind::Semver => return Vec::new(),
    };
    let mut found = unread(document, known, "");
    for (index, entry) in entries.iter().enumerate() {
        let told = misspellings(entry);
        found.extend(told.iter().map(|told| format!("entries[{index}]: {told}")));
    }
    if kind == Kind::Substitutes
        && let Ok(Some(Value::Array(list))) = Fields::of(document).map(|fields| fields.get(SUBSTITUTIONS))
    {
        for (index, item) in list.iter().enumerate() {
            let place = format!("{SUBSTITUTIONS}[{index}]: ");
            found.extend(unread(item, &["name", "base"], &place));
        }
    }
    found
}

fn unread(object: &Value, known: &[&'static str], place: &str) -> Vec<String> {
    let Some(object) = object.as_object() else {
        return Vec::new();
    };
    misspelt_keys(object, known)
        .into_iter()
        .map(|(key, meant)| format!("{place}unknown key {key:?}: did you mean {meant:?}?"))
        .collect()
}
