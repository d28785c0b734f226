//! Demands of the administrator on every bundle that is to be installed, from a file.

use std::io;
use std::path::Path;

use olm_fbc::entry::EntryProperty;
use olm_fbc::property::kinds;
use olm_fbc::yaml;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::predicate::Predicate;
use crate::requirement::{self, MalformedProperty};

/// Most demands in one file, as upstream.
pub const MAX_CONSTRAINTS: usize = 10;

/// A demand every bundle from a catalog must meet. Installed operators are not subject to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeConstraint {
    /// What the user is told about a bundle that does not meet it.
    pub message: String,
    /// The test.
    pub predicate: Predicate,
}

/// Why a file of demands cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeConstraintsError {
    /// The file cannot be read.
    #[error("cannot read the runtime constraints {file}")]
    File {
        /// Its path.
        file: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Not YAML or JSON with a list `properties` of `type` and `value`.
    #[error("runtime constraints: {0}")]
    Syntax(String),
    /// More than anyone needs.
    #[error("runtime constraints: {0} properties, more than {MAX_CONSTRAINTS}")]
    TooMany(usize),
    /// A property demands nothing.
    #[error(
        "runtime constraints: property {number} has type {kind}, which demands nothing: use olm.constraint"
    )]
    NoDemand {
        /// Counted from 1.
        number: usize,
        /// Its type.
        kind: String,
    },
    /// A property cannot be understood.
    #[error("runtime constraints: property {number}: {cause}")]
    Malformed {
        /// Counted from 1.
        number: usize,
        /// What is wrong.
        cause: MalformedProperty,
    },
}

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
    /// Reads a requirement property, such as an `olm.constraint`, as a demand on the bundle itself.
    ///
    /// # Errors
    /// When the property is malformed; none is returned for a type that requires nothing.
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

    /// Reads a file, as [`RuntimeConstraint::read`] its text.
    ///
    /// # Errors
    /// The file cannot be read or used.
    pub fn read_file(file: &Path) -> Result<Vec<Self>, RuntimeConstraintsError> {
        let text = std::fs::read_to_string(file).map_err(|source| RuntimeConstraintsError::File {
            file: file.display().to_string(),
            source,
        })?;
        Self::read(&text)
    }

    /// Reads a file's text: `{"properties": [{"type": …, "value": …}]}` in JSON or YAML. Types are those of requirements; the
    /// plain `olm.gvk`, `olm.package` (whose `version` is a range) and `olm.label` stand for the requirement of the same.
    ///
    /// # Errors
    /// What cannot be used, by its number.
    pub fn read(text: &str) -> Result<Vec<Self>, RuntimeConstraintsError> {
        let file: File =
            yaml::from_str(text).map_err(|error| RuntimeConstraintsError::Syntax(error.to_string()))?;
        if file.properties.len() > MAX_CONSTRAINTS {
            return Err(RuntimeConstraintsError::TooMany(file.properties.len()));
        }
        let demands = file.properties.into_iter().enumerate().map(|(index, property)| {
            let number = index + 1;
            let kind = property.r#type.clone();
            RuntimeConstraint::parse(&as_requirement(property))
                .map_err(|cause| RuntimeConstraintsError::Malformed { number, cause })?
                .ok_or(RuntimeConstraintsError::NoDemand { number, kind })
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
    fn what_cannot_be_used_is_told() {
        assert!(read("]").starts_with("runtime constraints: "));
        assert!(read("{}").contains("properties"), "{}", read("{}"));
        assert_eq!(
            read(r#"{"properties":[{"type":"color","value":"red"}]}"#),
            "runtime constraints: property 1 has type color, which demands nothing: use olm.constraint"
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
