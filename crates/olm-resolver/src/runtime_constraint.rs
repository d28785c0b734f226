//! The administrator's constraints on every bundle to install, from a file.

use std::path::Path;

use olm_fbc::entry::EntryProperty;
use olm_fbc::property::kinds;
use olm_fbc::yaml;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::predicate::Predicate;
use crate::requirement::{self, MalformedProperty};

/// Maximum constraints in one file, as in upstream.
pub const MAX_CONSTRAINTS: usize = 10;

/// A constraint that every bundle from a catalog must meet. Installed operators are not subject to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeConstraint {
    /// Message for users about a bundle that does not meet it.
    pub message: String,
    /// The test.
    pub predicate: Predicate,
}

/// A file of constraints cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct RuntimeConstraintsError(String);

#[derive(Deserialize)]
struct File {
    properties: Vec<Property>,
}

#[derive(Deserialize)]
struct Property {
    r#type: String,
    value: Value,
}

impl RuntimeConstraint {
    /// Converts a requirement property, such as an `olm.constraint`, to a constraint on the bundle itself.
    /// `None` for a type that requires nothing.
    ///
    /// # Errors
    /// The property is malformed.
    pub fn parse(property: &EntryProperty) -> Result<Option<Self>, MalformedProperty> {
        let predicate = requirement::parse(property)?;
        Ok(predicate.map(|predicate| RuntimeConstraint {
            message: match predicate.messages().first() {
                Some(message) => (*message).to_owned(),
                None => predicate.to_string(),
            },
            predicate,
        }))
    }

    /// Reads a file; see [`RuntimeConstraint::read`].
    ///
    /// # Errors
    /// The file cannot be read or used.
    pub fn read_file(file: &Path) -> Result<Vec<Self>, RuntimeConstraintsError> {
        let text = std::fs::read_to_string(file).map_err(|error| {
            let file = file.display();
            RuntimeConstraintsError(format!("cannot read the runtime constraints {file}: {error}"))
        })?;
        Self::read(&text)
    }

    /// Parses a file's text: `{"properties": [{"type": …, "value": …}]}` in JSON or YAML. Types are those of
    /// requirements. The plain `olm.gvk`, `olm.package` (whose `version` is a range) and `olm.label` mean the
    /// corresponding requirement.
    ///
    /// # Errors
    /// The fault, by the property's number.
    pub fn read(text: &str) -> Result<Vec<Self>, RuntimeConstraintsError> {
        let error = |fault: String| RuntimeConstraintsError(format!("runtime constraints: {fault}"));
        let file: File = yaml::from_str(text).map_err(|cause| error(cause.to_string()))?;
        let count = file.properties.len();
        if count > MAX_CONSTRAINTS {
            return Err(error(format!("{count} properties, more than {MAX_CONSTRAINTS}")));
        }
        let demands = file.properties.into_iter().enumerate().map(|(index, property)| {
            let number = index + 1;
            let kind = property.r#type.clone();
            let constraint = RuntimeConstraint::parse(&as_requirement(property))
                .map_err(|cause| error(format!("property {number}: {cause}")))?;
            constraint.ok_or_else(|| {
                error(format!(
                    "property {number} has type {kind}, which is not a constraint; use olm.constraint"
                ))
            })
        });
        demands.collect()
    }
}

fn as_requirement(property: Property) -> EntryProperty {
    let Property { r#type: kind, value } = property;
    match kind.as_str() {
        kinds::GVK => EntryProperty::new(kinds::GVK_REQUIRED, value.to_string()),
        kinds::LABEL => EntryProperty::new(kinds::LABEL_REQUIRED, value.to_string()),
        kinds::PACKAGE => {
            let required = json!({"packageName": value["packageName"], "versionRange": value["version"]});
            EntryProperty::new(kinds::PACKAGE_REQUIRED, required.to_string())
        }
        _ => EntryProperty::new(kind, value.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> String {
        match RuntimeConstraint::read(text) {
            Ok(demands) => demands
                .iter()
                .map(|d| d.message.clone())
                .collect::<Vec<_>>()
                .join("; "),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn files_are_json_or_yaml() {
        assert_eq!(
            read(
                r#"{"properties":[{"type":"olm.package","value":{"packageName":"p","version":">=1.0.0"}}]}"#
            ),
            "with package: p and with version in range: >=1.0.0"
        );
        assert_eq!(
            read(
                "properties:\n- type: olm.constraint\n  value: {failureMessage: certified only, cel: {rule: \
                 'properties.exists(p, p.type == \"certified\")'}}\n- type: olm.label\n  value: {label: l}"
            ),
            "certified only; with label: l"
        );
        assert_eq!(read(r#"{"properties":[]}"#), "");
    }

    #[test]
    fn what_cannot_be_used_is_reported() {
        assert!(read("]").starts_with("runtime constraints: "));
        assert!(read("{}").contains("properties"), "{}", read("{}"));
        assert_eq!(
            read(r#"{"properties":[{"type":"color","value":"red"}]}"#),
            "runtime constraints: property 1 has type color, which is not a constraint; use olm.constraint"
        );
        assert_eq!(
            read(r#"{"properties":[{"type":"olm.constraint","value":{}}]}"#),
            "runtime constraints: property 1: constraint is empty"
        );
        let many = [r#"{"type":"olm.label","value":{"label":"l"}}"#; 11].join(",");
        assert_eq!(
            read(&format!(r#"{{"properties":[{many}]}}"#)),
            "runtime constraints: 11 properties, more than 10"
        );
    }
}
