//! Objects of webhooks: configurations, Services, and CustomResourceDefinitions with conversion webhooks.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use olm_api::Embedded;
use olm_api::v1alpha1::{WebhookDescription, WebhookType};
use serde_json::{Value, json};

use super::certificate::Endpoint;
use super::object;
use super::validate::{ADMISSION, conversion_webhooks, deployment_of, rules};
use super::{Context, RenderError};

/// Port of a Service if the webhook has none. Upstream writes it into the Service alone, and 0 into its clients.
const DEFAULT_PORT: i32 = 443;
/// Label of every namespace with its name.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// Returns the CustomResourceDefinitions of the bundle, those with a conversion webhook completed.
///
/// # Errors
/// A definition does not decode.
pub(super) fn definitions(context: &Context<'_>) -> Result<Vec<Value>, RenderError> {
    let mut webhooks: BTreeMap<&str, &WebhookDescription> = BTreeMap::new();
    for webhook in conversion_webhooks(context.bundle) {
        webhooks.extend(webhook.conversion_crds.iter().map(|crd| (crd.as_str(), webhook)));
    }
    let mut objects = Vec::new();
    for file in &context.bundle.crds {
        let name = object::name(&file.object);
        // A server-side apply rejects fields that the API does not have, and authors misspell some.
        let embedded = Embedded::<CustomResourceDefinition>::from_raw(file.object.clone());
        let definition = embedded.decode(&format!("CustomResourceDefinition `{name}`"))?;
        let mut object = serde_json::to_value(definition)?;
        if let Some(webhook) = webhooks.get(name) {
            convert(context, &mut object, webhook);
        }
        objects.push(object);
    }
    Ok(objects)
}

fn convert(context: &Context<'_>, object: &mut Value, webhook: &WebhookDescription) {
    const CLIENT_CONFIG: &str = "/spec/conversion/webhook/clientConfig";
    let endpoint = Endpoint::new(deployment_of(webhook), context.namespace);
    let path = webhook.webhook_path.as_deref().filter(|path| !path.is_empty());
    let conversion = json!({
        "strategy": "Webhook",
        "webhook": {
            "clientConfig": client_config(&endpoint, webhook, path.or(Some("/"))),
            "conversionReviewVersions": webhook.admission_review_versions,
        },
    });
    object::map_mut(object, "spec").insert("conversion".to_owned(), conversion);
    context.certificates.trust(object, CLIENT_CONFIG, &endpoint);
}

/// Returns the configurations of validating and then of mutating webhooks, each with one webhook.
///
/// # Errors
/// Rules or selector of a webhook do not decode.
pub(super) fn configurations(context: &Context<'_>) -> Result<Vec<Value>, RenderError> {
    let mut objects = Vec::new();
    for (kind, wanted) in [
        ("ValidatingWebhookConfiguration", WebhookType::Validating),
        ("MutatingWebhookConfiguration", WebhookType::Mutating),
    ] {
        let webhooks = context.bundle.csv.spec.webhook_definitions.iter();
        for webhook in webhooks.filter(|webhook| webhook.type_ == wanted) {
            objects.push(configuration(context, kind, webhook)?);
        }
    }
    Ok(objects)
}

fn configuration(
    context: &Context<'_>,
    kind: &str,
    webhook: &WebhookDescription,
) -> Result<Value, RenderError> {
    let generated = webhook.generate_name.as_str();
    let name = generated.strip_suffix('-').unwrap_or(generated);
    let endpoint = Endpoint::new(deployment_of(webhook), context.namespace);
    let selector = webhook.object_selector.as_ref();
    let selector = selector
        .map(|selector: &Embedded<LabelSelector>| {
            selector.decode(&format!("webhook `{generated}`, objectSelector"))
        })
        .transpose()?;
    // Webhooks are also called for objects without a namespace.
    let namespaces = context.watch_namespace.as_ref().map(|namespace| {
        json!({"matchExpressions": [{"key": NAMESPACE_NAME, "operator": "In", "values": [namespace]}]})
    });
    let is_mutating = webhook.type_ == WebhookType::Mutating;
    let entry = json!({
        "name": name,
        "clientConfig": client_config(&endpoint, webhook, webhook.webhook_path.as_deref()),
        "rules": rules(webhook)?,
        "failurePolicy": webhook.failure_policy,
        "matchPolicy": webhook.match_policy,
        "namespaceSelector": namespaces,
        "objectSelector": selector,
        "sideEffects": webhook.side_effects,
        "timeoutSeconds": webhook.timeout_seconds,
        "admissionReviewVersions": webhook.admission_review_versions,
        "reinvocationPolicy": webhook.reinvocation_policy.as_ref().filter(|_| is_mutating),
    });
    let mut object = json!({
        "apiVersion": format!("{ADMISSION}/v1"), "kind": kind,
        "metadata": {"name": name}, "webhooks": [entry],
    });
    let certificates = context.certificates;
    certificates.trust(&mut object, "/webhooks/0/clientConfig", &endpoint);
    Ok(object)
}

/// Returns the Services in front of the Deployments that serve webhooks, in the order of the bundle.
///
/// # Errors
/// A Deployment does not decode.
pub(super) fn services(context: &Context<'_>) -> Result<Vec<Value>, RenderError> {
    let mut objects = Vec::new();
    for entry in context.bundle.csv.spec.install.deployments() {
        let Some(endpoint) = context.endpoint_of(&entry.name) else {
            continue;
        };
        let mut ports: Vec<(i32, IntOrString)> = Vec::new();
        for webhook in &context.bundle.csv.spec.webhook_definitions {
            let port = port_of(webhook);
            let target = webhook.target_port.clone().unwrap_or(IntOrString::Int(port));
            let pair = (port, target);
            if deployment_of(webhook) == entry.name && !ports.contains(&pair) {
                ports.push(pair);
            }
        }
        ports.sort_by_key(|(port, _)| *port);
        let ports = ports.iter().map(|(port, target)| {
            json!({"name": port.to_string(), "port": port, "targetPort": target, "protocol": "TCP"})
        });
        let selector = entry.decode_spec()?.selector.match_labels;
        let mut object = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": endpoint.service, "namespace": endpoint.namespace},
            "spec": {"ports": ports.collect::<Vec<_>>(), "selector": selector},
        });
        context.certificates.request(&mut object, endpoint);
        objects.push(object);
    }
    Ok(objects)
}

fn client_config(endpoint: &Endpoint, webhook: &WebhookDescription, path: Option<&str>) -> Value {
    json!({"service": {
        "name": endpoint.service, "namespace": endpoint.namespace, "path": path, "port": port_of(webhook),
    }})
}

/// Returns the port of a webhook's Service; 0 means the default, as Go's zero value.
fn port_of(webhook: &WebhookDescription) -> i32 {
    let port = webhook.container_port.filter(|port| *port > 0);
    port.unwrap_or(DEFAULT_PORT)
}
