//! Checks of annotations and dependencies.

use std::borrow::Cow;
use std::collections::BTreeMap;

use go_compat::semver::Range;
use olm_api::labels::bundle as annotations;
use olm_fbc::did_you_mean::did_you_mean;
use olm_fbc::manifest::CSV_KIND;
use olm_fbc::property::kinds;
use olm_fbc::yaml;
use serde_json::Value;

use super::super::annotation_text;
use super::{MediaType, any_case};
use crate::manifest_validator::ManifestValidator;

/// Checks annotations and dependencies. `manifests` and `metadata` are the files of the two directories by name; `None` for a
/// missing directory.
pub fn check_format<B: AsRef<[u8]>>(
    manifests: Option<&BTreeMap<String, B>>,
    metadata: Option<&BTreeMap<String, B>>,
    validator: &dyn ManifestValidator,
) -> Vec<String> {
    let mut problems = Vec::new();
    if manifests.is_none() {
        problems.push("Unable to locate manifests directory".to_owned());
    }
    if metadata.is_none() {
        problems.push("Unable to locate metadata directory".to_owned());
    }
    let (Some(manifests), Some(metadata)) = (manifests, metadata) else {
        return problems;
    };
    if manifests.is_empty() {
        problems.push("The directory manifests contains no yaml files".to_owned());
    }
    let parsed: Vec<(Value, Cow<'_, str>)> = metadata
        .values()
        .filter_map(|bytes| {
            let (value, _) = yaml::parse_first(bytes.as_ref()).ok()?;
            Some((value, String::from_utf8_lossy(bytes.as_ref())))
        })
        .collect();
    let annotations = parsed
        .iter()
        .map(|(value, written)| (any_case(value, "annotations"), written));
    let mut found = None;
    for (map, written) in annotations.filter(|(annotations, _)| annotations.is_object()) {
        match texts(map, written) {
            Ok(texts) => found = found.or(Some(texts)),
            Err(key) if found.is_none() => {
                problems.push(format!(
                    "Could not find annotations file: annotation {key:?} must be text"
                ));
                return problems;
            }
            Err(_) => {}
        }
    }
    match found {
        Some(annotations) => check_annotations(manifests, &annotations, &mut problems),
        None => problems.push("Could not find annotations file".to_owned()),
    }
    let dependencies = parsed.iter().find_map(|(value, _)| {
        any_case(value, "dependencies")
            .as_array()
            .filter(|list| !list.is_empty())
    });
    for dependency in dependencies.into_iter().flatten() {
        check_dependency(dependency, validator, &mut problems);
    }
    problems
}

/// Returns annotations as texts. The error is the key of a value that is none.
fn texts<'a>(map: &'a Value, written: &str) -> Result<BTreeMap<&'a str, String>, &'a str> {
    map.as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| match annotation_text(key, value, written) {
            Some(text) => Ok((key.as_str(), text)),
            None => Err(key.as_str()),
        })
        .collect()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    any_case(value, key).as_str().unwrap_or_default()
}

/// Returns why the manifests of an operator bundle have no ClusterServiceVersion: files that cannot be read, and misspelt kinds.
fn why_no_csv<B: AsRef<[u8]>>(manifests: &BTreeMap<String, B>) -> String {
    let causes: Vec<String> = manifests
        .iter()
        .filter_map(|(name, bytes)| match yaml::parse_first(bytes.as_ref()) {
            Err(error) => Some(format!("manifests/{name}: {error}")),
            Ok((object, _)) => {
                let kind = object["kind"].as_str()?;
                let meant = did_you_mean(kind, [CSV_KIND])?;
                Some(format!(
                    "manifests/{name}: kind {kind:?}: did you mean {meant:?}?"
                ))
            }
        })
        .collect();
    match causes.as_slice() {
        [] => format!("none of the manifests is a {CSV_KIND}"),
        causes => format!("no {CSV_KIND} can be read: {}", causes.join("; ")),
    }
}

fn check_annotations<B: AsRef<[u8]>>(
    manifests: &BTreeMap<String, B>,
    found: &BTreeMap<&str, String>,
    problems: &mut Vec<String>,
) {
    let media_type = MediaType::of(manifests);
    for key in [
        annotations::MEDIATYPE,
        annotations::MANIFESTS,
        annotations::METADATA,
        annotations::PACKAGE,
        annotations::CHANNELS,
        annotations::DEFAULT_CHANNEL,
    ] {
        let is_there = found.contains_key(key);
        if !is_there && key != annotations::DEFAULT_CHANNEL {
            problems.push(format!("Missing annotation {key:?}"));
        }
        let value = found.get(key).map_or("", String::as_str);
        if key == annotations::MEDIATYPE && value != media_type.name() {
            let mut text = format!(
                "Expecting annotation {key:?} to have value {:?} instead of {value:?}",
                media_type.name()
            );
            if media_type == MediaType::Plain && value == MediaType::RegistryV1.name() {
                text = format!("{text}: {}", why_no_csv(manifests));
            }
            problems.push(text);
        }
        let needs_value = key == annotations::CHANNELS || key == annotations::DEFAULT_CHANNEL && is_there;
        if needs_value && value.is_empty() {
            problems.push(format!("Expecting annotation {key:?} to have non-empty value"));
        }
    }
}

fn check_dependency(dependency: &Value, validator: &dyn ManifestValidator, problems: &mut Vec<String>) {
    let kind = text(dependency, "type");
    let value = any_case(dependency, "value");
    let mut needs = |field: &str, problem: &str| {
        if text(value, field).is_empty() {
            problems.push(problem.to_owned());
        }
    };
    if !value.is_object() {
        problems.push(format!("couldn't parse dependency of type {kind}"));
        return;
    }
    match kind {
        kinds::GVK => {
            needs("group", "API Group is empty");
            needs("version", "API Version is empty");
            needs("kind", "API Kind is empty");
        }
        kinds::PACKAGE => {
            needs("packageName", "Package name is empty");
            let range = text(value, "version");
            if range.is_empty() {
                problems.push("Package version is empty".to_owned());
            } else if Range::parse(range).is_err() {
                problems.push("Invalid semver format version".to_owned());
            }
        }
        kinds::LABEL => needs("label", "Label information is missing"),
        kinds::CONSTRAINT => check_constraint(value, validator, problems),
        _ => problems.push(format!("couldn't parse dependency of type {kind}")),
    }
}

fn check_constraint(value: &Value, validator: &dyn ManifestValidator, problems: &mut Vec<String>) {
    // Compound constraints have no rule of their own; their parts are checked recursively.
    let compound = ["all", "any", "not"].iter().find_map(|form| value.get(form));
    if let Some(compound) = compound {
        for part in compound["constraints"].as_array().into_iter().flatten() {
            check_constraint(part, validator, problems);
        }
        return;
    }
    if value.get("gvk").is_some() || value.get("package").is_some() {
        return;
    }
    let Some(cel) = value.get("cel").filter(|cel| cel.is_object()) else {
        problems.push("The CEL field is missing".to_owned());
        return;
    };
    match text(cel, "rule") {
        "" => problems.push("The CEL expression is missing".to_owned()),
        rule => problems.extend(
            validator
                .rule_problem(rule)
                .map(|problem| format!("Invalid CEL expression: {problem}")),
        ),
    }
}
