//! Finds installed operators that do not support the next minor version of OpenShift. No I/O.

use std::collections::BTreeMap;

use go_compat::semver::Version;
use olm_api::cluster_operator::{FIRST_OF_FIVE, LAST_OF_FOUR, MAX_OPENSHIFT_VERSION, Minor};
use olm_runtime::NamespacedName;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::text::shown;

/// Maximum length of a version, and of a parse error, in a message, in characters.
const MAX_VERSION: usize = 64;
const MAX_ERROR: usize = 256;

/// Returns the minor version of the cluster, from the version of its release.
///
/// # Errors
/// When the version is missing or invalid.
pub(super) fn current(release: &str) -> Result<Minor, String> {
    if release.is_empty() {
        return Err("desired release version missing from RELEASE_VERSION env variable".to_owned());
    }
    let version = Version::parse_tolerant(release).map_err(|error| {
        let error = format!("cluster version has invalid desired release version: {error}");
        shown(&error, MAX_ERROR)
    })?;
    Ok(Minor::of(&version))
}

/// Returns the last version that an operator supports, from the `properties` annotation of its
/// ClusterServiceVersion; `None` if it names none.
///
/// The version is read from the JSON text, because as a number 4.10 would be 4.1. Null is accepted in every
/// place, as in Go.
fn max_version(properties: &str) -> Result<Option<Minor>, String> {
    #[derive(Deserialize)]
    struct Projection<'a> {
        #[serde(borrow, default)]
        properties: Option<Vec<Option<Property<'a>>>>,
    }
    #[derive(Deserialize)]
    struct Property<'a> {
        #[serde(rename = "type", default)]
        kind: Option<String>,
        #[serde(borrow, default)]
        value: Option<&'a RawValue>,
    }
    let projection: Option<Projection> = serde_json::from_str(properties)
        .map_err(|error| format!("failed to unmarshal properties annotation: {error}"))?;
    let all = projection.and_then(|projection| projection.properties);
    let all = all.unwrap_or_default();
    let mut named = all
        .iter()
        .flatten()
        .filter(|property| property.kind.as_deref() == Some(MAX_OPENSHIFT_VERSION));
    let Some(property) = named.next() else {
        return Ok(None);
    };
    if named.next().is_some() {
        return Err(format!(
            "defining more than one \"{MAX_OPENSHIFT_VERSION}\" property is not allowed"
        ));
    }
    let value = property.value.map_or("", RawValue::get).trim_matches('"');
    if value.is_empty() {
        return Err("value cannot be \"\" (an empty string)".to_owned());
    }
    let version = Version::parse_tolerant(value).map_err(|error| {
        format!(
            "failed to parse \"{}\" as semver: {error}",
            shown(value, MAX_VERSION)
        )
    })?;
    if version.patch != 0 || version.is_prerelease() {
        return Err(format!(
            "property {MAX_OPENSHIFT_VERSION} must specify only <major>.<minor> version, got invalid value {version}"
        ));
    }
    Ok(Some(Minor::of(&version)))
}

/// Returns a message that lists which of `operators` block the minor version after `current`; `None` if none
/// does. Each operator comes with its annotation.
pub(super) fn blocking<'a>(
    operators: impl IntoIterator<Item = (NamespacedName, &'a str)>,
    current: Minor,
) -> Option<String> {
    let (mut invalid, mut too_old) = (Vec::new(), Vec::new());
    for (key, properties) in BTreeMap::from_iter(operators) {
        match max_version(properties) {
            Ok(max) => too_old.extend(
                max.filter(|max| !max.allows_after(current))
                    .map(|max| format!("- maximum supported OCP version for {key} is {max}")),
            ),
            Err(error) => {
                let error = shown(&error, MAX_ERROR);
                invalid.push(format!(
                    "- {key} has invalid {MAX_OPENSHIFT_VERSION} properties: {error}"
                ));
            }
        }
    }
    if invalid.is_empty() && too_old.is_empty() {
        return None;
    }
    let lines = [vec![header(current)], invalid, too_old];
    Some(lines.concat().join("\n"))
}

fn header(current: Minor) -> String {
    let next = current.next();
    let major = (next == LAST_OF_FOUR).then(|| format!(" or major version upgrades to {FIRST_OF_FIVE}"));
    let major = major.unwrap_or_default();
    format!("ClusterServiceVersions blocking minor version upgrades to {next}{major}:")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn annotation(value: &str) -> String {
        format!(
            r#"{{"properties":[{{"type":"x","value":1}},{{"type":"olm.maxOpenShiftVersion","value":{value}}}]}}"#
        )
    }

    /// Returns the message for one operator with this annotation.
    fn said(release: &str, properties: &str) -> Option<String> {
        let key = NamespacedName::new("ns", "a");
        let text = blocking([(key, properties)], current(release).unwrap())?;
        Some(text.split_once('\n').unwrap().1.to_owned())
    }

    #[track_caller]
    fn check(release: &str, value: &str, blocked_at: Option<&str>) {
        let line = blocked_at.map(|max| format!("- maximum supported OCP version for ns/a is {max}"));
        assert_eq!(said(release, &annotation(value)), line, "{release} {value}");
    }

    #[test]
    fn ocp_002_the_next_minor_version_and_no_later_one_is_prevented() {
        for (release, value, blocked_at) in [
            ("4.17.0", r#""4.18""#, None),
            ("4.18.0", r#""4.18""#, Some("4.18")),
            ("4.18.0", r#""4.19""#, None),
            ("1.0.0", r#""1.1.0""#, None),
            ("1.0.0", r#""1.1.0+build""#, None),
            ("1.0.0", r#""2.0.0""#, None),
            ("1.0.0", r#""1.0.0""#, Some("1.0")),
            ("1.0.0", r#""1.0.0+build""#, Some("1.0")),
            ("1.0.0", r#""0.1.0""#, Some("0.1")),
            ("1.0.1", r#""1.1""#, None),
            ("1.1.0-pre", r#""1.1.0""#, Some("1.1")),
        ] {
            check(release, value, blocked_at);
        }
    }

    #[test]
    fn ocp_004_patch_and_prerelease_of_the_cluster_do_not_count() {
        for release in ["4.18.0", "4.18.0-rc1", "4.18.7", "v4.18", "4.18.0-0.nightly+x"] {
            assert_eq!(current(release).unwrap().next().to_string(), "4.19", "{release}");
        }
    }

    #[test]
    fn ocp_004_the_last_minor_version_of_four_is_the_first_of_five() {
        for (release, blocking) in [
            ("4.22.0", vec![]),
            ("4.23.0", vec!["4.23", "5.0"]),
            ("5.0.0", vec!["4.23", "5.0"]),
            ("5.1.0", vec!["4.23", "5.0", "5.1"]),
        ] {
            for max in ["4.23", "5.0", "5.1"] {
                let blocked_at = blocking.contains(&max).then_some(max);
                check(release, &format!("{max:?}"), blocked_at);
            }
        }
        check("4.22.0", r#""4.22""#, Some("4.22"));
    }

    /// A number would be read as 4.1.
    #[test]
    fn ocp_001_a_version_that_is_written_as_a_number_is_read_as_text() {
        check("4.8.0", "4.8", Some("4.8"));
        check("4.9.0", "4.10", None);
        check("4.10.0", "4.10", Some("4.10"));
    }

    #[test]
    fn ocp_003_an_operator_without_a_version_prevents_nothing() {
        for properties in [
            "{}",
            r#"{"properties":null}"#,
            r#"{"properties":[null,{"type":null,"value":"1"}]}"#,
            "null",
            r#"{"properties":[{"type":"olm.package","value":{"version":"1"}}]}"#,
        ] {
            assert_eq!(said("4.18.0", properties), None, "{properties}");
        }
    }

    #[test]
    fn ocp_005_what_cannot_be_understood_prevents_and_says_why() {
        let twice = r#"{"properties":[{"type":"olm.maxOpenShiftVersion","value":"1"},{"type":"olm.maxOpenShiftVersion","value":"1"}]}"#;
        for (properties, error) in [
            (annotation(r#""""#), r#"value cannot be "" (an empty string)"#),
            (
                annotation(r#""1.1.0-pre""#),
                "property olm.maxOpenShiftVersion must specify only <major>.<minor> version, got invalid value 1.1.0-pre",
            ),
            (
                annotation(r#""4.18.1""#),
                "property olm.maxOpenShiftVersion must specify only <major>.<minor> version, got invalid value 4.18.1",
            ),
            (
                annotation(r#""bad""#),
                r#"failed to parse "bad" as semver: Invalid character(s) found in major number "0bad""#,
            ),
            (
                twice.to_owned(),
                r#"defining more than one "olm.maxOpenShiftVersion" property is not allowed"#,
            ),
            (
                "[".to_owned(),
                "failed to unmarshal properties annotation: EOF while parsing a list at line 1 column 1",
            ),
        ] {
            let line = format!("- ns/a has invalid olm.maxOpenShiftVersion properties: {error}");
            assert_eq!(said("4.18.0", &properties), Some(line), "{properties}");
        }
    }

    #[test]
    fn a_value_of_any_size_and_kind_makes_one_short_line() {
        for value in [
            format!("\"{}\"", "9".repeat(100_000)),
            format!("\"1.0.0-{}\"", "a".repeat(100_000)),
            format!("[\"{}\"]", "x".repeat(100_000)),
            r#""4\n- all is well""#.to_owned(),
            "null".to_owned(),
        ] {
            let line = said("4.18.0", &annotation(&value)).unwrap();
            assert!(line.len() < 512 && !line.contains('\n'), "{line}");
            assert!(line.starts_with("- ns/a has invalid "), "{line}");
        }
    }

    #[test]
    fn a_release_that_is_no_version_is_an_error() {
        assert_eq!(
            current("").unwrap_err(),
            "desired release version missing from RELEASE_VERSION env variable"
        );
        assert_eq!(
            current("four").unwrap_err(),
            "cluster version has invalid desired release version: Invalid character(s) found in major number \"0four\""
        );
    }

    #[test]
    fn the_message_names_the_next_version_and_the_operators_by_name() {
        let (old, bad) = (annotation(r#""4.18""#), annotation(r#""""#));
        let key = |namespace: &str, name: &str| NamespacedName::new(namespace, name);
        let operators = [
            (key("b", "a"), old.as_str()),
            (key("a", "z"), old.as_str()),
            (key("c", "b"), bad.as_str()),
            (key("c", "a"), bad.as_str()),
            (key("c", "fine"), "{}"),
        ];
        insta::assert_snapshot!(blocking(operators.clone(), current("4.18.3").unwrap()).unwrap(), @r#"
        ClusterServiceVersions blocking minor version upgrades to 4.19:
        - c/a has invalid olm.maxOpenShiftVersion properties: value cannot be "" (an empty string)
        - c/b has invalid olm.maxOpenShiftVersion properties: value cannot be "" (an empty string)
        - maximum supported OCP version for a/z is 4.18
        - maximum supported OCP version for b/a is 4.18
        "#);
        let header = |release: &str| {
            let text = blocking(operators.clone(), current(release).unwrap()).unwrap();
            text.lines().next().unwrap().to_owned()
        };
        assert_eq!(
            header("4.22.0"),
            "ClusterServiceVersions blocking minor version upgrades to 4.23 or major version upgrades to 5.0:"
        );
        assert_eq!(
            header("4.23.0"),
            "ClusterServiceVersions blocking minor version upgrades to 5.1:"
        );
    }
}
