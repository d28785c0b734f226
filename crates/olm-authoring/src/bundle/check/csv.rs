//! Checks of the ClusterServiceVersion.

use std::collections::BTreeSet;

use go_compat::semver::Version;
use olm_api::labels::{self, SUBSTITUTES_FOR};
use olm_api::names::{dns1123_subdomain_faults, label_value_faults};
use olm_fbc::property::Gvk;
use olm_fbc::release::Release;
use serde_json::Value;

use super::{metadata, text};
use crate::manifest_validator::ManifestValidator;

/// Annotations of a CSV that authors often write in the wrong case, which silently disables them.
const CASED_ANNOTATIONS: [&str; 5] = [
    labels::OPERATOR_GROUP,
    labels::OPERATOR_NAMESPACE,
    labels::PROVIDED_APIS,
    "olm.skipRange",
    labels::TARGET_NAMESPACES,
];
/// Annotations with examples of custom resources; the first one that exists is used.
const EXAMPLES: [&str; 2] = ["alm-examples", "olm.examples"];
const ALL_NAMESPACES: &str = "AllNamespaces";

/// Returns a problem in the form of upstream's validators.
fn describe(name: &str, problem: impl std::fmt::Display) -> String {
    format!("Error: Value : ({name}) {problem}")
}

/// Checks a CSV by itself.
pub(super) fn check(csv: &Value, validator: &dyn ManifestValidator, problems: &mut Vec<String>) {
    let name = text(&csv["metadata"], "name");
    let wrong = metadata::map_problems(&csv["metadata"]);
    if !wrong.is_empty() {
        problems.extend(wrong.into_iter().map(|problem| describe(name, problem)));
        return;
    }
    if let Some(problem) = validator.csv_problem(csv) {
        problems.push(describe(name, format!("no ClusterServiceVersion: {problem}")));
        return;
    }
    let spec = &csv["spec"];
    for (field, value) in [("metadata.name", name), ("spec.replaces", text(spec, "replaces"))] {
        let mut wrong = dns1123_subdomain_faults(value);
        wrong.extend(label_value_faults(value));
        if !wrong.is_empty() && (field == "metadata.name" || !value.is_empty()) {
            problems.push(describe(
                name,
                format!("{field} {value:?} is invalid: {}", wrong.join(",")),
            ));
        }
    }
    check_examples(csv, problems);
    check_install_modes(spec, name, problems);
    let oldest = text(spec, "minKubeVersion");
    if !oldest.trim().is_empty() && Version::parse(oldest).is_err() {
        problems.push(describe(
            name,
            format!("csv.Spec.MinKubeVersion has an invalid value: {oldest}"),
        ));
    }
    check_fields(spec, name, problems);
    for key in csv["metadata"]["annotations"]
        .as_object()
        .into_iter()
        .flat_map(|map| map.keys())
    {
        let right = CASED_ANNOTATIONS
            .into_iter()
            .find(|right| right.eq_ignore_ascii_case(key) && right != key);
        if let Some(right) = right {
            problems.push(format!(
                "Error: Value {name}: provided annotation {key} uses wrong case and should be {right} instead"
            ));
        }
    }
    if text(csv, "apiVersion").is_empty() {
        problems.push(describe(name, "'apiVersion' is missing"));
    }
}

/// Checks that examples are of APIs that the CSV provides.
fn check_examples(csv: &Value, problems: &mut Vec<String>) {
    let annotations = &csv["metadata"]["annotations"];
    let Some((key, examples)) = EXAMPLES
        .into_iter()
        .find_map(|key| Some((key, annotations[key].as_str()?)))
    else {
        return;
    };
    if examples.is_empty() {
        return;
    }
    let examples: Vec<Value> = match serde_json::from_str(examples) {
        Ok(Value::Array(examples)) => examples,
        Ok(Value::Null) => Vec::new(),
        Ok(_) => {
            problems.push(format!(
                "Error: Value {key} is no JSON list: error decoding example CustomResource"
            ));
            return;
        }
        Err(error) => {
            problems.push(format!("Error: Value {key}: {error}: invalid example"));
            return;
        }
    };
    let provided = provided_apis(csv, problems);
    let mut told = BTreeSet::new();
    for example in &examples {
        let kind = text(example, "kind");
        if kind.is_empty() {
            problems.push(format!(
                "Error: Value {key}: an example has no kind: error decoding example CustomResource"
            ));
            return;
        }
        let api_version = text(example, "apiVersion");
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        let api = Gvk::new(group, version, kind);
        if !provided.contains(&api) && told.insert(api) {
            problems.push(format!(
                "Error: Value {api_version}, Kind={kind}: example must have a provided API"
            ));
        }
    }
}

fn provided_apis(csv: &Value, problems: &mut Vec<String>) -> BTreeSet<Gvk> {
    let owned =
        |list: &str| -> Vec<Value> { csv["spec"][list]["owned"].as_array().cloned().unwrap_or_default() };
    let mut apis = BTreeSet::new();
    let mut add =
        |group: &str, api: &Value| apis.insert(Gvk::new(group, text(api, "version"), text(api, "kind")));
    for crd in owned("customresourcedefinitions") {
        match text(&crd, "name").split_once('.') {
            Some((_, group)) => drop(add(group, &crd)),
            None => problems.push(format!(
                "Error: : couldn't parse plural.group from crd name: {}",
                text(&crd, "name")
            )),
        }
    }
    for api in owned("apiservicedefinitions") {
        add(text(&api, "group"), &api);
    }
    apis
}

fn check_install_modes(spec: &Value, name: &str, problems: &mut Vec<String>) {
    let Some(modes) = spec["installModes"].as_array().filter(|modes| !modes.is_empty()) else {
        problems.push(describe(name, "install modes not found"));
        return;
    };
    let is_supported = |mode: &Value| mode["supported"] == true;
    let is_only_all = modes
        .iter()
        .all(|mode| is_supported(mode) == (text(mode, "type") == ALL_NAMESPACES));
    let converts = spec["webhookdefinitions"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|webhook| {
            webhook["conversionCRDs"]
                .as_array()
                .is_some_and(|crds| !crds.is_empty())
        });
    if converts && !is_only_all {
        problems.push(describe(
            name,
            "only AllNamespaces InstallModeType is supported when conversionCRDs is present",
        ));
    }
    if !modes.iter().any(is_supported) {
        problems.push(describe(name, "none of InstallModeTypes are supported"));
    }
}

/// Reports missing fields without which a CSV cannot be installed or added to a catalog.
fn check_fields(spec: &Value, name: &str, problems: &mut Vec<String>) {
    let missing =
        |what: &str, kind: &str| format!("Error: Field {what}, Value {kind}: required field missing");
    let is_empty = |value: &Value| match value {
        Value::Object(map) => map.values().all(Value::is_null),
        value => value.is_null(),
    };
    if is_empty(spec) {
        problems.push(missing("Spec", "struct"));
        return;
    }
    let install = &spec["install"];
    let strategy = text(install, "strategy");
    let details = &install["spec"];
    if strategy.is_empty() && is_empty(details) {
        problems.push(missing("Spec.InstallStrategy", "struct"));
    } else {
        match strategy {
            "" => problems.push(missing("Spec.InstallStrategy.StrategyName", "field")),
            "deployment" => {}
            other => problems.push(describe(
                name,
                format!("spec.install.strategy must be \"deployment\", found {other:?}"),
            )),
        }
        if !is_empty(details) && details["deployments"].is_null() {
            problems.push(missing(
                "Spec.InstallStrategy.StrategySpec.DeploymentSpecs",
                "field",
            ));
        }
    }
    if text(spec, "displayName").is_empty() {
        problems.push(missing("Spec.DisplayName", "field"));
    }
    let version = text(spec, "version");
    if let Err(error) = Version::parse(version) {
        problems.push(describe(
            name,
            format!("spec.version {version:?}: {error}: no catalog accepts it"),
        ));
    }
}

/// Checks that a bundle does not have both a release and a substitution.
pub(super) fn check_release(csv: &Value, problems: &mut Vec<String>) {
    let name = text(&csv["metadata"], "name");
    let release = match &csv["spec"]["release"] {
        Value::Null => "",
        Value::String(release) => release.as_str(),
        other => {
            problems.push(describe(
                name,
                format!("spec.release must be text, found {other}"),
            ));
            return;
        }
    };
    if let Err(error) = Release::parse(release) {
        problems.push(describe(name, format!("spec.release: {error}")));
        return;
    }
    let substitutes = text(&csv["metadata"]["annotations"], SUBSTITUTES_FOR);
    if !release.is_empty() && !substitutes.is_empty() {
        problems.push(format!(
            "Error: Value {{   }}: bundle {name:?} cannot have both a release version ({release:?}) and {SUBSTITUTES_FOR} annotation ({substitutes:?})"
        ));
    }
}
