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
    csv::serving::{component::Component, endpoint::port_of, rules},
    operator_group::Group,
    owner,
};

/// Characters of the hash in a configuration's name: so many that nobody finds a name that another namespace has.
const HASH_LENGTH: usize = 32;
/// Of a rule: it holds for what is in namespaces only.
const SCOPE_NAMESPACED: &str = "Namespaced";

/// The validating and mutating webhooks of a ClusterServiceVersion.
pub(crate) fn descriptions(csv: &ClusterServiceVersion) -> impl Iterator<Item = &WebhookDescription> {
    let all = csv.spec.webhook_definitions.iter();
    all.filter(|description| description.type_ != WebhookType::Conversion)
}

/// What the configuration of a webhook is called. A namespace has one for each name and Deployment, so that neither a process
/// that was killed makes a second one, nor an upgrade lets two call the same server.
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

/// The configuration of a webhook whose server has a certificate of a CA in `bundle`, for the namespaces of `group`.
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
    // A description always has a JSON form. Its reach is hashed too: when the group widens, what is gone from the selector and the
    // rules is no field that could be compared.
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

/// The rules, within the reach of the group. What is in no namespace is no selector's to leave out: unless the group is for all
/// namespaces, whoever may create a ClusterServiceVersion in one would change what belongs to the whole cluster.
fn rules_within(group: &Group, mut rules: Vec<RuleWithOperations>) -> Vec<RuleWithOperations> {
    if !group.targets_all() {
        for rule in &mut rules {
            rule.scope = Some(SCOPE_NAMESPACED.to_owned());
        }
    }
    rules
}

/// The CAs that a stored configuration trusts, as PEM. Others may have put webhooks of theirs into it.
pub(crate) fn bundle_of(configuration: &Value) -> Option<String> {
    let name = &configuration["metadata"]["labels"][labels::WEBHOOK_DESCRIPTION_GENERATE_NAME];
    let mut webhooks = configuration["webhooks"].as_array()?.iter();
    let own = webhooks.find(|webhook| webhook["name"] == *name)?;
    let bundle = own.pointer("/clientConfig/caBundle")?;
    let bytes: ByteString = serde_json::from_value(bundle.clone()).ok()?;
    String::from_utf8(bytes.0).ok()
}
