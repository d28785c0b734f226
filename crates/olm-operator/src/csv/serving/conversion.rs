//! Conversion webhooks: the conversion section of their CustomResourceDefinitions while they exist and after
//! their removal.

use k8s_openapi::ByteString;
use olm_api::names::service_name;
use olm_api::v1alpha1::{ClusterServiceVersion, InstallModeType, WebhookDescription, WebhookType};
use olm_runtime::plan::Target;
use serde_json::{Value, json};

use crate::{
    csv::serving::{bundle, component::Component, endpoint::port_of},
    stores::CustomResourceDefinition,
};

/// Returns the conversion webhooks of a ClusterServiceVersion.
fn descriptions(csv: &ClusterServiceVersion) -> impl Iterator<Item = &WebhookDescription> {
    let all = csv.spec.webhook_definitions.iter();
    all.filter(|description| description.type_ == WebhookType::Conversion)
}

/// Returns the conversion webhooks of a ClusterServiceVersion, with each CustomResourceDefinition that they
/// convert.
pub(crate) fn conversions(csv: &ClusterServiceVersion) -> impl Iterator<Item = (&WebhookDescription, &str)> {
    descriptions(csv).flat_map(|description| {
        let crds = description.conversion_crds.iter();
        crds.map(move |crd| (description, crd.as_str()))
    })
}

/// Checks that a ClusterServiceVersion may convert the definitions that it names.
///
/// # Errors
/// The reason why it may not, for users, with upstream's text.
pub(crate) fn check(csv: &ClusterServiceVersion) -> Result<(), String> {
    let modes = &csv.spec.install_modes;
    let is_narrow = |mode: &InstallModeType| *mode != InstallModeType::AllNamespaces;
    for description in descriptions(csv) {
        if modes.iter().any(|mode| mode.supported && is_narrow(&mode.type_)) {
            return Err("unable to manage conversion webhook: CSVs with conversion webhooks must support only AllNamespaces".to_owned());
        }
        if description.conversion_crds.is_empty() {
            return Err("unable to manager conversion webhook: conversion webhook must have at least one CRD specified".to_owned());
        }
        let owned = csv.spec.owned_crds();
        let foreign = description.conversion_crds.iter();
        let foreign = foreign
            .into_iter()
            .find(|name| !owned.iter().any(|crd| crd.name == **name));
        if let Some(crd) = foreign {
            let name = csv.metadata.name.as_deref().unwrap_or_default();
            return Err(format!("csv {name} does not own CRD {crd}"));
        }
    }
    Ok(())
}

/// Returns the target of a CustomResourceDefinition.
pub(crate) fn target(crd: &str) -> Target {
    Target::cluster::<CustomResourceDefinition>(crd)
}

/// Returns the conversion section of a CustomResourceDefinition, for a server with a certificate of a CA in
/// `bundle`.
pub(crate) fn conversion(
    csv: &ClusterServiceVersion,
    description: &WebhookDescription,
    crd: &str,
    bundle: &str,
) -> Component {
    let path = description
        .webhook_path
        .as_deref()
        .filter(|path| !path.is_empty());
    let service = json!({
        "namespace": csv.metadata.namespace,
        "name": service_name(description.deployment_name.as_deref().unwrap_or_default()),
        "path": path.unwrap_or("/"),
        "port": port_of(description.container_port),
    });
    let webhook = json!({
        "clientConfig": {"service": service, "caBundle": ByteString(bundle.into())},
        "conversionReviewVersions": description.admission_review_versions,
    });
    let object = json!({"spec": {"conversion": {"strategy": "Webhook", "webhook": webhook}}});
    Component::new(target(crd), object)
}

/// Returns the merge patch that sets a [`conversion`]. It removes an existing URL, which the API server
/// refuses beside the Service.
pub(crate) fn patch(mut conversion: Value) -> Value {
    if let Some(config) = conversion.pointer_mut("/spec/conversion/webhook/clientConfig") {
        config["url"] = Value::Null;
    }
    conversion
}

/// Returns the patch that disables conversion in a CustomResourceDefinition, so that its objects stay
/// readable in every version.
pub(crate) fn reset() -> Value {
    json!({"spec": {"conversion": {"strategy": "None", "webhook": null}}})
}

/// The CAs that a stored definition trusts, as PEM; `definition` is what [`conversion`] compares with.
pub(crate) fn bundle_of(definition: &Value) -> Option<String> {
    bundle::read(definition.pointer("/spec/conversion/webhook/clientConfig/caBundle")?)
}

/// True when a stored conversion calls the Service in front of one of these Deployments of `namespace`.
pub(crate) fn calls<'a>(
    conversion: &Value,
    namespace: &str,
    mut deployments: impl Iterator<Item = &'a str>,
) -> bool {
    let Some(service) = conversion.pointer("/webhook/clientConfig/service") else {
        return false;
    };
    service["namespace"] == namespace
        && deployments.any(|deployment| service["name"] == service_name(deployment))
}
