//! Builders for RBAC rules. Their lists are separated by commas; an empty text leaves the field out.

use k8s_openapi::api::rbac::v1::PolicyRule;

/// Builds a rule for resources; `core` is the empty API group.
pub fn rule(verbs: &str, groups: &str, resources: &str, names: &str) -> PolicyRule {
    PolicyRule {
        verbs: list(verbs).unwrap_or_default(),
        api_groups: Some(groups.split(',').map(|g| g.replace("core", "")).collect()),
        resources: list(resources),
        resource_names: list(names),
        non_resource_urls: None,
    }
}

/// Builds a rule for non-resource URLs.
pub fn url(verbs: &str, urls: &str) -> PolicyRule {
    PolicyRule {
        verbs: list(verbs).unwrap_or_default(),
        non_resource_urls: list(urls),
        ..PolicyRule::default()
    }
}

fn list(text: &str) -> Option<Vec<String>> {
    let items: Vec<String> = text
        .split(',')
        .filter(|item| !item.is_empty())
        .map(str::to_owned)
        .collect();
    (!items.is_empty()).then_some(items)
}
