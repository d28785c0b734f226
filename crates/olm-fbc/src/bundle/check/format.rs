//! Annotations and dependencies.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::annotations;
use super::{MediaType, text};
use crate::property::kinds;
use crate::version::Range;
use crate::yaml;

/// Checks annotations and dependencies. `manifests` and `metadata` are the files of the two directories by name, `None` for a
/// directory that is missing.
pub fn check_format<B: AsRef<[u8]>>(
    manifests: Option<&BTreeMap<String, B>>,
    metadata: Option<&BTreeMap<String, B>>,
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
    let parsed: Vec<Value> = metadata
        .values()
        .filter_map(|bytes| yaml::parse_first(bytes.as_ref()).ok())
        .map(|(value, _)| value)
        .collect();
    match parsed.iter().find(|value| value["annotations"].is_object()) {
        Some(value) => check_annotations(MediaType::of(manifests), &value["annotations"], &mut problems),
        None => problems.push("Could not find annotations file".to_owned()),
    }
    let dependencies = parsed
        .iter()
        .find_map(|value| value["dependencies"].as_array().filter(|list| !list.is_empty()));
    for dependency in dependencies.into_iter().flatten() {
        check_dependency(dependency, &mut problems);
    }
    problems
}

fn check_annotations(media_type: MediaType, found: &Value, problems: &mut Vec<String>) {
    for key in [
        annotations::MEDIATYPE,
        annotations::MANIFESTS,
        annotations::METADATA,
        annotations::PACKAGE,
        annotations::CHANNELS,
        annotations::DEFAULT_CHANNEL,
    ] {
        let is_there = found.get(key).is_some();
        if !is_there && key != annotations::DEFAULT_CHANNEL {
            problems.push(format!("Missing annotation {key:?}"));
        }
        let value = text(found, key);
        if key == annotations::MEDIATYPE && value != media_type.name() {
            problems.push(format!(
                "Expecting annotation {key:?} to have value {:?} instead of {value:?}",
                media_type.name()
            ));
        }
        let needs_value = key == annotations::CHANNELS || key == annotations::DEFAULT_CHANNEL && is_there;
        if needs_value && value.is_empty() {
            problems.push(format!("Expecting annotation {key:?} to have non-empty value"));
        }
    }
}

fn check_dependency(dependency: &Value, problems: &mut Vec<String>) {
    let kind = text(dependency, "type");
    let value = &dependency["value"];
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
        kinds::CONSTRAINT => check_constraint(value, problems),
        _ => problems.push(format!("couldn't parse dependency of type {kind}")),
    }
}

fn check_constraint(value: &Value, problems: &mut Vec<String>) {
    // Compound constraints have no rule of their own; their parts are checked as they are met.
    let compound = ["all", "any", "not"].iter().find_map(|form| value.get(form));
    if let Some(compound) = compound {
        for part in compound["constraints"].as_array().into_iter().flatten() {
            check_constraint(part, problems);
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
            crate::lint::expression_problem(rule).map(|problem| format!("Invalid CEL expression: {problem}")),
        ),
    }
}
