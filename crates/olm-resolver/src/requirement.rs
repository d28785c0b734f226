//! Requirement properties as predicates (`docs/reference/resolution.md`).

use go_compat::json::field;
use go_compat::semver::Range;
use olm_fbc::entry::EntryProperty;
use olm_fbc::property::{Gvk, PackageRequired, PropertyError, Typed, kinds};
use serde_json::{Map, Value};

use crate::cel::Rule;
use crate::predicate::Predicate;

/// Largest `olm.constraint` value in bytes.
pub const MAX_CONSTRAINT_SIZE: usize = 2 << 16;

/// Maximum nesting of objects and lists in an `olm.constraint`, which is the JSON parser's limit. A
/// constraint within a constraint takes three.
pub const MAX_NESTING: usize = 127;

/// Maximum requirement properties of one bundle or installed ClusterServiceVersion, duplicates included.
pub const MAX_REQUIREMENTS: usize = 1_000;

/// A malformed property. A bundle with one is never selected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MalformedProperty(pub(crate) String);

impl From<PropertyError> for MalformedProperty {
    fn from(error: PropertyError) -> Self {
        Self(error.to_string())
    }
}

impl MalformedProperty {
    /// Returns the error of a constraint without a test.
    fn empty() -> Self {
        Self("constraint is empty".to_owned())
    }
}

/// Returns whether properties of a type are requirements.
pub fn is_requirement(kind: &str) -> bool {
    let required = [
        kinds::GVK_REQUIRED,
        kinds::PACKAGE_REQUIRED,
        kinds::LABEL_REQUIRED,
    ];
    kind == kinds::CONSTRAINT || required.contains(&kind)
}

/// Returns the predicate of a requirement property; `None` for every other type.
///
/// # Errors
/// The value is malformed.
pub fn parse(property: &EntryProperty) -> Result<Option<Predicate>, MalformedProperty> {
    match &*property.kind {
        kinds::CONSTRAINT => constraint_text(&property.value).map(Some),
        kinds::GVK_REQUIRED | kinds::PACKAGE_REQUIRED | kinds::LABEL_REQUIRED => match property.parse()? {
            Typed::GvkRequired(api) => Ok(Some(Predicate::ProvidesApi(api))),
            Typed::PackageRequired(required) => package(kinds::PACKAGE_REQUIRED, required).map(Some),
            Typed::LabelRequired(label) => Ok(Some(Predicate::Label(label))),
            _ => Ok(None),
        },
        _ => Ok(None),
    }
}

/// Returns the predicate of an `olm.constraint` value.
///
/// # Errors
/// The value is malformed, too large or empty.
pub fn constraint_text(value: &str) -> Result<Predicate, MalformedProperty> {
    if value.len() > MAX_CONSTRAINT_SIZE {
        return Err(MalformedProperty(format!(
            "olm.constraint value is greater than max constraint size {MAX_CONSTRAINT_SIZE} bytes"
        )));
    }
    constraint(&object(value)?)
}

fn constraint(fields: &Map<String, Value>) -> Result<Predicate, MalformedProperty> {
    only(
        fields,
        &["failureMessage", "gvk", "package", "all", "any", "not", "cel"],
    )?;
    let message = text(fields, "failureMessage")?;
    let test = test(fields, &message)?;
    // A rule prints its message itself, as it has no other description.
    let told = message.is_empty() || matches!(test, Predicate::Cel(..));
    Ok(if told {
        test
    } else {
        Predicate::WithMessage(message, Box::new(test))
    })
}

/// Returns the test in an object. If it has several parts, upstream's order decides.
fn test(fields: &Map<String, Value>, message: &str) -> Result<Predicate, MalformedProperty> {
    if let Some(value) = part(fields, "gvk")? {
        only(value, &["group", "version", "kind"])?;
        let (group, version, kind) = (
            text(value, "group")?,
            text(value, "version")?,
            text(value, "kind")?,
        );
        return Ok(Predicate::ProvidesApi(Gvk { group, kind, version }));
    }
    if let Some(value) = part(fields, "package")? {
        only(value, &["packageName", "versionRange"])?;
        let (package_name, version_range) = (text(value, "packageName")?, text(value, "versionRange")?);
        return package(
            kinds::CONSTRAINT,
            PackageRequired {
                package_name,
                version_range,
            },
        );
    }
    if let Some(value) = part(fields, "all")? {
        return compound(value).map(Predicate::All);
    }
    if let Some(value) = part(fields, "any")? {
        return compound(value).map(Predicate::Any);
    }
    if let Some(value) = part(fields, "not")? {
        return compound(value).map(Predicate::Not);
    }
    if let Some(value) = part(fields, "cel")? {
        only(value, &["rule"])?;
        let rule = text(value, "rule")?;
        let unusable = |cause: String| MalformedProperty(format!("cel rule {:?}: {cause}", shorten(&rule)));
        let compiled = Rule::compile(&rule).map_err(unusable)?;
        return Ok(Predicate::Cel(compiled, message.to_owned()));
    }
    Err(MalformedProperty::empty())
}

/// Shortens long rules, as the error is put into conditions.
fn shorten(rule: &str) -> String {
    const MAX_CHARACTERS: usize = 120;
    match rule.char_indices().nth(MAX_CHARACTERS) {
        Some((end, _)) => format!("{}…", &rule[..end]),
        None => rule.to_owned(),
    }
}

fn compound(fields: &Map<String, Value>) -> Result<Vec<Predicate>, MalformedProperty> {
    only(fields, &["constraints"])?;
    match field(fields, "constraints") {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(parts)) => parts
            .iter()
            .map(|part| match part {
                Value::Object(fields) => constraint(fields),
                Value::Null => Err(MalformedProperty::empty()),
                other => Err(malformed(format!("a constraint is an object, not {other}"))),
            })
            .collect(),
        Some(other) => Err(malformed(format!("constraints is a list, not {other}"))),
    }
}

fn package(kind: &str, required: PackageRequired) -> Result<Predicate, MalformedProperty> {
    let range = required.version_range;
    let range = Range::parse(&range).map_err(|cause| {
        MalformedProperty(format!(
            "property {kind} has an invalid version range {range:?}: {cause}"
        ))
    })?;
    Ok(Predicate::All(vec![
        Predicate::Package(required.package_name),
        Predicate::VersionInRange(range),
    ]))
}

/// Parses a JSON object as Go does: `null` is the empty object, and text after the value is ignored.
fn object(value: &str) -> Result<Map<String, Value>, MalformedProperty> {
    let mut stream = serde_json::Deserializer::from_str(value).into_iter::<Value>();
    match stream.next() {
        Some(Ok(Value::Object(fields))) => Ok(fields),
        Some(Ok(Value::Null)) => Ok(Map::new()),
        Some(Ok(other)) => Err(malformed(format!("expected an object, found {other}"))),
        // The parser has no other way to distinguish this error.
        Some(Err(error)) if error.to_string().starts_with("recursion limit") => Err(MalformedProperty(
            format!("olm.constraint is nested deeper than {MAX_NESTING} objects and lists"),
        )),
        Some(Err(error)) => Err(malformed(error.to_string())),
        None => Err(malformed("the value is empty".to_owned())),
    }
}

/// Returns a text field as Go reads it: the key in any case, absent or `null` as the empty text.
fn text(fields: &Map<String, Value>, name: &str) -> Result<String, MalformedProperty> {
    match field(fields, name) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(other) => Err(malformed(format!("{name} is a text, not {other}"))),
    }
}

fn part<'a>(
    fields: &'a Map<String, Value>,
    name: &str,
) -> Result<Option<&'a Map<String, Value>>, MalformedProperty> {
    match field(fields, name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(fields)) => Ok(Some(fields)),
        Some(other) => Err(malformed(format!("{name} is an object, not {other}"))),
    }
}

fn only(fields: &Map<String, Value>, known: &[&str]) -> Result<(), MalformedProperty> {
    match fields
        .keys()
        .find(|key| !known.iter().any(|name| name.eq_ignore_ascii_case(key)))
    {
        Some(unknown) => Err(MalformedProperty(format!(
            "parse olm.constraint: json: unknown field {unknown:?}"
        ))),
        None => Ok(()),
    }
}

fn malformed(reason: String) -> MalformedProperty {
    let kind = kinds::CONSTRAINT.to_owned();
    PropertyError { kind, reason }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(kind: &str, value: &str) -> String {
        match parse(&EntryProperty::new(kind, value)) {
            Ok(Some(predicate)) => predicate.to_string(),
            Ok(None) => "no requirement".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn requirements_print_as_upstreams() {
        for (kind, value, expected) in [
            ("olm.gvk", "{}", "no requirement"),
            ("color", "\"red\"", "no requirement"),
            (
                "olm.gvk.required",
                r#"{"group":"g","kind":"K","version":"v1"}"#,
                "providing an API with group: g, version: v1, kind: K",
            ),
            (
                "olm.gvk.required",
                r#"{"GROUP":"g","Kind":"K","more":1,"version":null}"#,
                "providing an API with group: g, version: , kind: K",
            ),
            (
                "olm.package.required",
                r#"{"packageName":"p","versionRange":">= 1.0.0 <2.0.0"}"#,
                "with package: p and with version in range: >= 1.0.0 <2.0.0",
            ),
            ("olm.label.required", r#"{"label":"l"}"#, "with label: l"),
            (
                "olm.constraint",
                r#"{"failureMessage":"m","all":{"constraints":[{"gvk":{"group":"g","version":"v","kind":"k"}},
                   {"any":{"constraints":[{"package":{"packageName":"p","versionRange":"1.0.0"}}]}},
                   {"not":{"constraints":[{"gvk":{"group":"h"}},{"gvk":{"group":"i"}}]}}]}}"#,
                "providing an API with group: g, version: v, kind: k and with package: p and with version in range: \
                 1.0.0 and providing an API with group: h, version: , kind:  and not providing an API with group: i, \
                 version: , kind: ",
            ),
        ] {
            assert_eq!(read(kind, value), expected, "{kind} {value}");
        }
    }

    #[test]
    fn malformed_requirements_say_what_is_wrong() {
        for (kind, value, expected) in [
            (
                "olm.constraint",
                "[]",
                "value of property type \"olm.constraint\": expected an object, found []",
            ),
            ("olm.constraint", "{}", "constraint is empty"),
            (
                "olm.constraint",
                r#"{"unknown":1}"#,
                "parse olm.constraint: json: unknown field \"unknown\"",
            ),
            (
                "olm.constraint",
                r#"{"all":{"constraints":[{"gvk":{"groups":""}}]}}"#,
                "parse olm.constraint: json: unknown field \"groups\"",
            ),
            (
                "olm.constraint",
                r#"{"cel":{"rule":"1"}}"#,
                "cel rule \"1\": cel expressions must have type Bool, this one has type int",
            ),
            (
                "olm.constraint",
                r#"{"cel":{"rules":"true"}}"#,
                "parse olm.constraint: json: unknown field \"rules\"",
            ),
        ] {
            assert_eq!(read(kind, value), expected, "{kind} {value}");
        }
        assert!(
            read("olm.package.required", r#"{"packageName":"p","versionRange":""}"#)
                .contains("invalid version range")
        );
        assert!(
            read(
                "olm.package.required",
                r#"{"packageName":"p","versionRange":"^1"}"#
            )
            .contains("invalid version range")
        );
    }

    #[test]
    fn a_constraint_may_be_as_large_as_the_limit_and_no_larger() {
        let sized = |size: usize| format!(r#"{}{{"any":{{}}}}"#, " ".repeat(size - r#"{"any":{}}"#.len()));
        assert_eq!(constraint_text(&sized(131_072)), Ok(Predicate::Any(Vec::new())));
        let error = constraint_text(&sized(131_073)).unwrap_err().to_string();
        assert_eq!(
            error,
            "olm.constraint value is greater than max constraint size 131072 bytes"
        );
    }

    #[test]
    fn nesting_without_end_is_refused_not_followed() {
        let deep = format!(
            "{}{}{}",
            r#"{"not":{"constraints":["#.repeat(5000),
            r#"{"any":{}}"#,
            "]}}".repeat(5000)
        );
        let error = constraint_text(&deep).unwrap_err().to_string();
        assert_eq!(
            error,
            "olm.constraint is nested deeper than 127 objects and lists"
        );
    }
}
