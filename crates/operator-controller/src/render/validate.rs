//! Checks of a bundle before anything of it is rendered. All defects are reported together, in upstream's order and words.

use std::collections::{BTreeMap, BTreeSet};

use go_compat::quote;
use k8s_openapi::api::admissionregistration::v1::RuleWithOperations;
use olm_api::names::dns1123_subdomain_faults;
use olm_api::v1alpha1::{InstallModeType, WebhookDescription, WebhookType};
use olm_api::{DecodeError, crd, embedded, extension_v1};
use olm_fbc::bundle_files::{BundleFile, contradictions};
use serde_json::Value;

use super::bundle::Bundle;
use super::object;

/// Kinds that a bundle may contain besides ClusterServiceVersion and CustomResourceDefinition, and whether their objects have a
/// namespace.
const KINDS: [(&str, bool); 20] = [
    ("ClusterRole", false),
    ("ClusterRoleBinding", false),
    ("ConfigMap", true),
    ("ConsoleCLIDownload", false),
    ("ConsoleLink", false),
    ("ConsolePlugin", false),
    ("ConsoleQuickStart", false),
    ("ConsoleYAMLSample", false),
    ("NetworkPolicy", true),
    ("PodDisruptionBudget", true),
    ("PodMonitor", true),
    ("PriorityClass", false),
    ("PrometheusRule", true),
    ("Role", true),
    ("RoleBinding", true),
    ("Secret", true),
    ("Service", true),
    ("ServiceAccount", true),
    ("ServiceMonitor", true),
    ("VerticalPodAutoscaler", true),
];
/// Group of webhook configurations.
pub(super) const ADMISSION: &str = "admissionregistration.k8s.io";
/// Group in a rule that means every group.
const ANY: &str = "*";
/// Resources of [`ADMISSION`] that no webhook may intercept, in lower case.
const CONFIGURATIONS: [&str; 5] = [
    ANY,
    "mutatingwebhookconfiguration",
    "mutatingwebhookconfigurations",
    "validatingwebhookconfiguration",
    "validatingwebhookconfigurations",
];

/// Returns whether objects of a kind have a namespace; `None` for a kind that a bundle may not contain.
pub(super) fn is_namespaced(kind: &str) -> Option<bool> {
    let known = KINDS.iter().find(|(known, _)| *known == kind)?;
    Some(known.1)
}

/// Returns the rules of an admission webhook.
///
/// # Errors
/// The field that does not decode.
pub(super) fn rules(webhook: &WebhookDescription) -> Result<Vec<RuleWithOperations>, DecodeError> {
    let what = format!("webhook `{}`, rules", webhook.generate_name);
    embedded::decode_all(&webhook.rules, &what)
}

/// Returns the name of the Deployment that serves a webhook.
pub(super) fn deployment_of(webhook: &WebhookDescription) -> &str {
    webhook.deployment_name.as_deref().unwrap_or_default()
}

/// Returns all defects of a bundle; empty if it can be rendered.
///
/// # Errors
/// A webhook's rules do not decode.
pub(super) fn defects(bundle: &Bundle) -> Result<Vec<String>, DecodeError> {
    let deployments: Vec<&str> = bundle
        .csv
        .spec
        .install
        .deployments()
        .iter()
        .map(|entry| entry.name.as_str())
        .collect();
    let owned = bundle.csv.spec.owned_crds();
    let owned: BTreeSet<&str> = owned.iter().map(|crd| crd.name.as_str()).collect();
    let mut found = Vec::new();
    found.extend(
        repeated(deployments.iter().copied()).map(|name| {
            format!("cluster service version contains duplicate strategy deployment spec '{name}'")
        }),
    );
    let names: BTreeSet<&str> = deployments.iter().copied().collect();
    found.extend(names.iter().filter_map(|name| {
        let faults = name_faults(name)?.join(", ");
        Some(format!(
            "invalid cluster service version strategy deployment name '{name}': {faults}"
        ))
    }));
    found.extend(definitions(bundle, &owned));
    if bundle.package.is_empty() {
        found.push("package name is empty".to_owned());
    }
    found.extend(webhooks(bundle, &names));
    found.extend(conversions(bundle, &owned));
    for webhook in admission_webhooks(bundle) {
        for rule in rules(webhook)? {
            found.extend(forbidden(&webhook.generate_name, &rule));
        }
    }
    found.extend(unsupported(&bundle.others));
    // Upstream leaves these to the API server.
    found.extend(bundle.crds.iter().filter_map(not_served));
    let others = bundle.others.iter();
    let contradictions = contradictions(others.map(|file| (file.name.as_str(), &file.object)));
    found.extend(contradictions.iter().map(ToString::to_string));
    Ok(found)
}

/// Returns the items that occur more than once, sorted, each once.
fn repeated<'a>(items: impl Iterator<Item = &'a str>) -> impl Iterator<Item = &'a str> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for item in items {
        *counts.entry(item).or_default() += 1;
    }
    counts
        .into_iter()
        .filter(|(_, count)| *count > 1)
        .map(|(item, _)| item)
}

/// Returns the faults of a name that is no DNS subdomain, sorted.
fn name_faults(name: &str) -> Option<Vec<&'static str>> {
    let mut faults = dns1123_subdomain_faults(name);
    faults.sort_unstable();
    (!faults.is_empty()).then_some(faults)
}

fn definitions(bundle: &Bundle, owned: &BTreeSet<&str>) -> Vec<String> {
    let names = || bundle.crds.iter().map(|file| object::name(&file.object));
    let contained: BTreeSet<&str> = names().collect();
    let twice = repeated(names())
        .map(|name| format!("bundle contains duplicate custom resource definition '{name}'"));
    let absent = owned.difference(&contained).map(|name| {
        format!("cluster service definition references owned custom resource definition '{name}' not found in bundle")
    });
    twice.chain(absent).collect()
}

fn admission_webhooks(bundle: &Bundle) -> impl Iterator<Item = &WebhookDescription> {
    let all = bundle.csv.spec.webhook_definitions.iter();
    all.filter(|webhook| webhook.type_ != WebhookType::Conversion)
}

/// Returns the conversion webhooks of a bundle.
pub(super) fn conversion_webhooks(bundle: &Bundle) -> impl Iterator<Item = &WebhookDescription> {
    let all = bundle.csv.spec.webhook_definitions.iter();
    all.filter(|webhook| webhook.type_ == WebhookType::Conversion)
}

/// Returns the defects of webhooks of all types: install modes, Deployments and names.
fn webhooks(bundle: &Bundle, deployments: &BTreeSet<&str>) -> Vec<String> {
    let mut found = Vec::new();
    let modes = bundle.supported_modes();
    if modes != format!("[{}]", InstallModeType::AllNamespaces) {
        found.extend(conversion_webhooks(bundle).map(|webhook| {
            let name = quote(&webhook.generate_name);
            format!("bundle contains conversion webhook {name} and supports install modes {modes} - conversion webhooks are only supported for bundles that only support AllNamespaces install mode")
        }));
    }
    let mut all: Vec<(&str, &str, &str)> = bundle
        .csv
        .spec
        .webhook_definitions
        .iter()
        .map(|webhook| {
            (
                deployment_of(webhook),
                webhook.type_.as_str(),
                webhook.generate_name.as_str(),
            )
        })
        .collect();
    all.sort_unstable();
    let strays = all
        .iter()
        .filter(|(deployment, _, _)| !deployments.contains(deployment));
    found.extend(strays.map(|(deployment, kind, name)| {
        format!(
            "webhook of type '{kind}' with name '{name}' references non-existent deployment '{deployment}'"
        )
    }));
    let mut names: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for (_, kind, name) in all {
        *names.entry((kind, name)).or_default() += 1;
    }
    let twice = names.iter().filter(|(_, count)| **count > 1);
    found.extend(twice.map(|((kind, name), _)| format!("duplicate webhook '{name}' of type '{kind}'")));
    found.extend(names.keys().filter_map(|(kind, name)| {
        let faults = name_faults(name)?.join(",");
        Some(format!(
            "webhook of type '{kind}' has invalid name '{name}': {faults}"
        ))
    }));
    found
}

/// Returns the defects of conversion webhooks that concern the definitions they convert.
fn conversions(bundle: &Bundle, owned: &BTreeSet<&str>) -> Vec<String> {
    let mut converted: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut all: Vec<(&str, &str)> = Vec::new();
    for webhook in conversion_webhooks(bundle) {
        for crd in webhook.conversion_crds.iter() {
            converted
                .entry(crd.as_str())
                .or_default()
                .push(webhook.generate_name.as_str());
            all.push((webhook.generate_name.as_str(), crd.as_str()));
        }
    }
    let mut found = Vec::new();
    for (crd, names) in &mut converted {
        names.sort_unstable();
        if names.len() > 1 {
            found.push(format!(
                "conversion webhooks [{}] reference same custom resource definition '{crd}'",
                names.join(",")
            ));
        }
    }
    all.sort_unstable();
    let foreign = all.iter().filter(|(_, crd)| !owned.contains(crd));
    found.extend(foreign.map(|(name, crd)| {
        format!("conversion webhook '{name}' references custom resource definition '{crd}' not owned bundle")
    }));
    // The API server refuses a conversion there.
    let preserves = |file: &&BundleFile| {
        converted.contains_key(object::name(&file.object))
            && file.object.pointer("/spec/preserveUnknownFields") == Some(&Value::Bool(true))
    };
    found.extend(bundle.crds.iter().filter(preserves).map(|file| {
        let name = object::name(&file.object);
        format!("custom resource definition '{name}' must have .spec.preserveUnknownFields set to false to let API Server call webhook to do the conversion")
    }));
    found
}

/// Returns the defects of a rule of the admission webhook `name`: a faulty webhook must not be able to block its own removal.
fn forbidden(name: &str, rule: &RuleWithOperations) -> Vec<String> {
    let start = format!(
        "webhook {} contains forbidden rule: admission webhook rules cannot reference",
        quote(name)
    );
    let mut found = Vec::new();
    for group in rule.api_groups.iter().flatten() {
        if group == ANY || group == extension_v1::GROUP {
            found.push(format!("{start} API group {}", quote(group)));
        }
        if group == ADMISSION {
            let resources = rule.resources.iter().flatten();
            let forbidden =
                resources.filter(|resource| CONFIGURATIONS.contains(&resource.to_ascii_lowercase().as_str()));
            found.extend(forbidden.map(|resource| {
                format!(
                    "{start} resource {} for API group {}",
                    quote(resource),
                    quote(group)
                )
            }));
        }
    }
    found
}

fn unsupported(others: &[BundleFile]) -> Vec<String> {
    let strange = others
        .iter()
        .filter(|file| is_namespaced(object::kind(&file.object)).is_none());
    strange
        .map(|file| {
            format!(
                "unsupported resource {} with kind {}",
                quote(object::name(&file.object)),
                quote(object::kind(&file.object))
            )
        })
        .collect()
}

/// Returns the text about a CustomResourceDefinition of another API version, which no Kubernetes since 1.22 serves.
fn not_served(file: &BundleFile) -> Option<String> {
    let api_version = object::api_version(&file.object);
    (api_version != crd::API_VERSION).then(|| {
        format!(
            "{}: CustomResourceDefinition {} has apiVersion {api_version}, which Kubernetes 1.22 and later do not serve; use {}",
            file.name,
            object::name(&file.object),
            crd::API_VERSION
        )
    })
}

#[cfg(test)]
mod tests;
