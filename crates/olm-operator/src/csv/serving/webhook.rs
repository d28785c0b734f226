//! The configuration of a validating or mutating webhook.

use k8s_openapi::{
    ByteString,
    api::admissionregistration::v1::{
        MutatingWebhookConfiguration, RuleWithOperations, ValidatingWebhookConfiguration,
    },
};
use kube::Resource;
use olm_api::{
    hash, labels,
    names::service_name,
    v1alpha1::{ClusterServiceVersion, WebhookDescription, WebhookType},
};
use olm_runtime::plan::{Target, to_value};
use serde_json::{Value, json};

use crate::{
    csv::serving::{bundle, component::Component, endpoint::port_of, rules},
    operator_group::Group,
    owner,
};

/// Length of the hash in a configuration's name, in characters: long enough that nobody can find a collision
/// with another namespace.
const HASH_LENGTH: usize = 32;
/// Scope of a rule that matches only namespaced objects.
const SCOPE_NAMESPACED: &str = "Namespaced";

/// Returns the validating and mutating webhooks of a ClusterServiceVersion.
pub(crate) fn descriptions(csv: &ClusterServiceVersion) -> impl Iterator<Item = &WebhookDescription> {
    let all = csv.spec.webhook_definitions.iter();
    all.filter(|description| description.type_ != WebhookType::Conversion)
}

/// Returns the target of a webhook's configuration. There is one for each namespace, name and Deployment. So
/// a restarted process does not create a second one, and after an upgrade no two call the same server.
pub(crate) fn target(csv: &ClusterServiceVersion, description: &WebhookDescription) -> Target {
    let namespace = csv.metadata.namespace.as_deref().unwrap_or_default();
    let deployment = description.deployment_name.as_deref().unwrap_or_default();
    let generate_name = &description.generate_name;
    let mut hash = hash::sha224_base62(format!("{namespace}/{deployment}/{generate_name}").as_bytes());
    hash.truncate(HASH_LENGTH);
    let name = format!("{generate_name}-{}", hash.to_lowercase());
    match description.type_ {
        WebhookType::Mutating => Target::cluster::<MutatingWebhookConfiguration>(&name),
        _ => Target::cluster::<ValidatingWebhookConfiguration>(&name),
    }
}

/// Returns the configuration of a webhook whose server has a certificate of a CA in `bundle`, for the
/// namespaces of `group`.
pub(crate) fn configuration(
    csv: &ClusterServiceVersion,
    group: &Group,
    description: &WebhookDescription,
    bundle: &str,
) -> Component {
    let is_mutating = description.type_ == WebhookType::Mutating;
    let target = target(csv, description);
    let mut marks = owner::labels(csv);
    let rules = rules_within(group, rules::rules(description).unwrap_or_default());
    let selector = to_value(&group.namespace_selector());
    // A description always serializes. Its scope is hashed, too: when the group widens, fields disappear from
    // selector and rules, which no comparison would find.
    let hash = hash::hash_with_newline(&(description, &selector, &rules)).unwrap_or_default();
    marks.insert(labels::WEBHOOK_DESCRIPTION_HASH.to_owned(), hash);
    let generate_name = description.generate_name.clone();
    marks.insert(
        labels::WEBHOOK_DESCRIPTION_GENERATE_NAME.to_owned(),
        generate_name,
    );
    let service = json!({
        "name": service_name(description.deployment_name.as_deref().unwrap_or_default()),
        "namespace": csv.metadata.namespace,
        "path": description.webhook_path,
        "port": port_of(description.container_port),
    });
    let webhook = json!({
        "name": description.generate_name,
        "clientConfig": {"service": service, "caBundle": ByteString(bundle.into())},
        "rules": rules,
        "failurePolicy": description.failure_policy,
        "matchPolicy": description.match_policy,
        "namespaceSelector": selector,
        "objectSelector": to_value(&rules::object_selector(description).unwrap_or_default().unwrap_or_default()),
        "sideEffects": description.side_effects,
        "timeoutSeconds": description.timeout_seconds,
        "admissionReviewVersions": description.admission_review_versions,
        "reinvocationPolicy": description.reinvocation_policy.as_ref().filter(|_| is_mutating),
    });
    let object = json!({
        "apiVersion": ValidatingWebhookConfiguration::api_version(&()), "kind": target.api.kind,
        "metadata": {"name": target.name, "labels": marks}, "webhooks": [webhook],
    });
    Component::new(target, object)
}

/// Returns the rules, limited to the scope of the group. Selectors cannot exclude cluster-scoped objects. So
/// unless the group is for all namespaces, a user who can create a ClusterServiceVersion in one could change
/// objects of the whole cluster.
fn rules_within(group: &Group, mut rules: Vec<RuleWithOperations>) -> Vec<RuleWithOperations> {
    if !group.targets_all() {
        for rule in &mut rules {
            rule.scope = Some(SCOPE_NAMESPACED.to_owned());
        }
    }
    rules
}

/// Returns the CAs that a stored configuration trusts, as PEM. Others may have added webhooks to the
/// configuration.
pub(crate) fn bundle_of(configuration: &Value) -> Option<String> {
    let name = &configuration["metadata"]["labels"][labels::WEBHOOK_DESCRIPTION_GENERATE_NAME];
    let mut webhooks = configuration["webhooks"].as_array()?.iter();
    let own = webhooks.find(|webhook| webhook["name"] == *name)?;
    bundle::read(own.pointer("/clientConfig/caBundle")?)
}
