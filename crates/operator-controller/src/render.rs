//! Renders a registry+v1 bundle to the Kubernetes objects of an extension. No I/O.
//!
//! [`Bundle::read`] reads the files of a bundle image, and [`render`] returns its objects. Same input, same output: names contain hashes
//! of content only, and the objects are sorted.
//!
//! The ClusterServiceVersion is not created. Ignored without a message, as upstream does: required APIs, `nativeAPIs`,
//! `minKubeVersion`, `replaces`, `skips` and `cleanup`.

pub mod bundle;
pub mod certificate;
mod config;
mod deployment;
#[cfg(test)]
mod for_tests;
mod object;
mod rbac;
mod serving;
mod validate;

use olm_api::DecodeError;
use olm_api::v1alpha1::{InstallModeType, SubscriptionConfig};
use serde_json::{Value, json};

pub use self::bundle::Bundle;
pub use self::certificate::{CertificateProvider, Endpoint, OwnCertificate, endpoints};
use crate::apply::object::ObjectId;

/// Input of [`render`] besides the bundle.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// Namespace to install to: `spec.namespace` of the ClusterExtension.
    pub namespace: &'a str,
    /// `spec.config.inline` of the ClusterExtension; `None` without it.
    pub config: Option<&'a Value>,
    /// Issuer of the certificates of webhook servers.
    pub certificates: &'a CertificateProvider,
}

/// Error: a bundle cannot be rendered. Texts that upstream has are upstream's.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// The configuration does not fit the bundle, so the user has to change it, and no retry helps.
    #[error("invalid ClusterExtension configuration: invalid configuration: {0}")]
    Configuration(String),
    /// The bundle has these defects.
    #[error("{}", .0.join("\n"))]
    Defects(Vec<String>),
    /// A part of the ClusterServiceVersion, or a CustomResourceDefinition, does not decode.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// An object has no JSON form.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

/// What the generators of objects need.
struct Context<'a> {
    bundle: &'a Bundle,
    namespace: &'a str,
    /// Namespace that the operator watches; `None` for all.
    watch_namespace: Option<String>,
    certificates: &'a CertificateProvider,
    /// Deployments that serve webhooks.
    endpoints: Vec<Endpoint>,
    deployment_config: Option<SubscriptionConfig>,
}

impl Context<'_> {
    fn endpoint_of(&self, deployment: &str) -> Option<&Endpoint> {
        self.endpoints
            .iter()
            .find(|endpoint| endpoint.deployment == deployment)
    }
}

/// Renders a bundle. The objects are sorted by group, version, kind, namespace and name. Of the metadata they have only name, namespace,
/// labels and annotations, and they have no status.
///
/// # Errors
/// The bundle is not supported, its configuration is invalid, or it has defects, in this order.
pub fn render(bundle: &Bundle, options: &Options<'_>) -> Result<Vec<Value>, RenderError> {
    check_support(bundle)?;
    // The bundle may require a field, so an absent configuration is checked as an empty one.
    let empty = json!({});
    let inline = options.config.unwrap_or(&empty);
    let config = config::check(inline, bundle, options.namespace).map_err(RenderError::Configuration)?;
    let defects = validate::defects(bundle)?;
    if !defects.is_empty() {
        return Err(RenderError::Defects(defects));
    }
    let context = Context {
        bundle,
        namespace: options.namespace,
        watch_namespace: config.watch_namespace,
        certificates: options.certificates,
        endpoints: endpoints(bundle, options.namespace),
        deployment_config: config.deployment,
    };
    let mut objects = generate(&context)?;
    objects.iter_mut().for_each(object::reduce);
    objects.sort_by_cached_key(ObjectId::of);
    Ok(objects)
}

fn generate(context: &Context<'_>) -> Result<Vec<Value>, RenderError> {
    let others = context.bundle.others.iter().map(|file| {
        let mut object = file.object.clone();
        let metadata = object::map_mut(&mut object, "metadata");
        let is_namespaced = validate::is_namespaced(object::kind(&file.object)) == Some(true);
        let namespace = is_namespaced.then_some(context.namespace);
        metadata.insert("namespace".to_owned(), json!(namespace));
        object
    });
    let others: Vec<Value> = others.collect();
    let endpoints = context.endpoints.iter();
    let certificates = endpoints.flat_map(|endpoint| context.certificates.objects(endpoint));
    Ok([
        rbac::service_accounts(context),
        rbac::roles(context)?,
        serving::definitions(context)?,
        others,
        deployment::deployments(context)?,
        serving::configurations(context)?,
        serving::services(context)?,
        certificates.collect(),
    ]
    .into_iter()
    .flatten()
    .collect())
}

/// Checks that bundles of this kind can be installed.
fn check_support(bundle: &Bundle) -> Result<(), RenderError> {
    let unsupported = |reason: &str| RenderError::Defects(vec![format!("unsupported bundle: {reason}")]);
    if !bundle.csv.spec.owned_api_services().is_empty() {
        // Upstream misspells it, too.
        return Err(unsupported("apiServiceDefintions are not supported"));
    }
    let modes = [
        InstallModeType::AllNamespaces,
        InstallModeType::SingleNamespace,
        InstallModeType::OwnNamespace,
    ];
    if !modes.iter().any(|mode| bundle.supports(mode)) {
        return Err(unsupported(
            "bundle must support at least one of [AllNamespaces SingleNamespace OwnNamespace] install modes",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
