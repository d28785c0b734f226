//! Schemas of fields whose Rust type would be too strict.

use schemars::{Schema, SchemaGenerator, json_schema};

/// Pattern of the `type` of a condition: a qualified name.
pub(crate) const CONDITION_TYPE_PATTERN: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";

/// Pattern of the `reason` of a condition: one word.
pub(crate) const CONDITION_REASON_PATTERN: &str = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$";

/// Returns the schema of an integer without a format.
pub(crate) fn integer(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "integer"})
}

/// Returns the schema of any JSON value, which the API has always described as bytes.
pub(crate) fn bytes(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "format": "byte"})
}
