//! Renders a registry+v1 bundle to the Kubernetes objects of an extension. No I/O.
//!
//! [`Bundle::read`] reads the files of a bundle image, and [`render`] returns its objects, in the phases in which they are applied.
//! Same input, same output: names contain hashes of content only, and the objects are sorted.
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
mod overrides;
pub mod phase;
mod rbac;
mod serving;
mod validate;

use olm_api::DecodeError;
use olm_api::install_mode::NAMESPACE_ALL;
use olm_api::v1alpha1::{InstallModeType, SubscriptionConfig};
use serde_json::{Value, json};

pub use self::bundle::{Bundle, BundleError};
pub use self::certificate::{CertificateProvider, Endpoint, OwnCertificate, endpoints};
pub use self::phase::Phase;

/// Features that can be switched off. Upstream has gates of these names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// Bundles with webhooks (`WebhookProviderCertManager`, `WebhookProviderOpenshiftServiceCA`).
    pub webhooks: bool,
    /// Bundles without the install mode AllNamespaces (`SingleOwnNamespaceInstallSupport`).
    pub single_own_namespace: bool,
    /// The field `deploymentConfig` of the configuration (`DeploymentConfig`).
    pub deployment_config: bool,
}

impl Features {
    /// Features of upstream's standard installation.
    pub const STANDARD: Self = Self {
        webhooks: true,
        single_own_namespace: false,
        deployment_config: false,
    };
    /// All features, as in upstream's experimental installation.
    pub const ALL: Self = Self {
        webhooks: true,
        single_own_namespace: true,
        deployment_config: true,
    };
}

/// Input of [`render`] besides the bundle.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// Namespace to install to: `spec.namespace` of the ClusterExtension.
    pub namespace: &'a str,
    /// `spec.config.inline` of the ClusterExtension; `None` without it.
    pub config: Option<&'a Value>,
    /// Issuer of certificates; `None` if the cluster has none.
    pub certificates: Option<&'a CertificateProvider>,
    /// Features that are on.
    pub features: Features,
}

/// An object of an extension.
#[derive(Clone, Debug, PartialEq)]
pub struct Rendered {
    /// Phase in which it is applied.
    pub phase: Phase,
    /// The object. Of the metadata it has only name, namespace, labels and annotations, and it has no status.
    pub object: Value,
}

/// Error: a bundle cannot be rendered. Texts that upstream has are upstream's.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// The bundle needs a feature that does not exist, or is off.
    #[error("unsupported bundle: {0}")]
    Unsupported(String),
    /// The configuration does not fit the bundle.
    #[error("invalid ClusterExtension configuration: invalid configuration: {0}")]
    Configuration(String),
    /// The bundle has these defects.
    #[error("{}", .0.join("\n"))]
    Defects(Vec<String>),
    /// The operator cannot watch the target namespaces.
    #[error("invalid option(s): invalid target namespaces {0}")]
    Targets(String),
    /// OLM has issued no certificate for a Deployment that serves webhooks.
    #[error("no certificate was issued for deployment `{0}`, which serves webhooks")]
    NoCertificate(String),
    /// A part of the ClusterServiceVersion, or a CustomResourceDefinition, does not decode.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// An object has no JSON form.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

impl RenderError {
    /// Returns true if the user has to change the configuration: the condition's reason is InvalidConfiguration, and no retry
    /// helps.
    pub fn is_configuration(&self) -> bool {
        matches!(self, Self::Configuration(_))
    }
}

/// What the generators of objects need.
struct Context<'a> {
    bundle: &'a Bundle,
    namespace: &'a str,
    /// Namespaces to watch; one empty name means all.
    targets: &'a [String],
    certificates: Option<&'a CertificateProvider>,
    /// Deployments that serve webhooks.
    endpoints: Vec<Endpoint>,
    deployment_config: Option<SubscriptionConfig>,
}

impl Context<'_> {
    fn watches_all(&self) -> bool {
        matches!(self.targets, [one] if one == NAMESPACE_ALL)
    }

    fn endpoint_of(&self, deployment: &str) -> Option<&Endpoint> {
        self.endpoints
            .iter()
            .find(|endpoint| endpoint.deployment == deployment)
    }
}

/// Renders a bundle. The objects are sorted by phase, group, version, kind, namespace and name.
///
/// # Errors
/// The bundle is not supported, its configuration is invalid, or it has defects, in this order.
pub fn render(bundle: &Bundle, options: &Options<'_>) -> Result<Vec<Rendered>, RenderError> {
    check_support(bundle, options).map_err(RenderError::Unsupported)?;
    let config = configuration(bundle, options)?;
    let defects = validate::defects(bundle)?;
    if !defects.is_empty() {
        return Err(RenderError::Defects(defects));
    }
    let targets = match config.watch_namespace {
        Some(namespace) => vec![namespace],
        None if bundle.supports(&InstallModeType::AllNamespaces) => vec![NAMESPACE_ALL.to_owned()],
        None => Vec::new(),
    };
    check_targets(bundle, options.namespace, &targets).map_err(RenderError::Targets)?;
    let context = Context {
        bundle,
        namespace: options.namespace,
        targets: &targets,
        certificates: options.certificates,
        endpoints: endpoints(bundle, options.namespace),
        deployment_config: config.deployment,
    };
    let mut objects = generate(&context)?;
    objects.iter_mut().for_each(object::reduce);
    let mut rendered: Vec<Rendered> = objects
        .into_iter()
        .map(|object| Rendered {
            phase: Phase::of(object::group_version(&object).0, object::kind(&object)),
            object,
        })
        .collect();
    rendered.sort_by(|a, b| sort_key(a).cmp(&sort_key(b)));
    Ok(rendered)
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
    let certificates = context.endpoints.iter().flat_map(|endpoint| {
        let provider = context.certificates;
        provider.map_or_else(Vec::new, |provider| provider.objects(endpoint))
    });
    Ok([
        rbac::service_accounts(context),
        rbac::roles(context)?,
        rbac::cluster_roles(context)?,
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

fn sort_key(rendered: &Rendered) -> (Phase, (&str, &str), &str, &str, &str) {
    let object = &rendered.object;
    (
        rendered.phase,
        object::group_version(object),
        object::kind(object),
        object::namespace(object),
        object::name(object),
    )
}

/// Returns the reason why bundles of this kind cannot be installed.
fn check_support(bundle: &Bundle, options: &Options<'_>) -> Result<(), String> {
    let spec = &bundle.csv.spec;
    if !spec.owned_api_services().is_empty() {
        // Upstream misspells it, too.
        return Err("apiServiceDefintions are not supported".to_owned());
    }
    if !spec.webhook_definitions.is_empty() {
        let webhooks = "webhookDefinitions are not supported";
        if !options.features.webhooks {
            return Err(webhooks.to_owned());
        }
        if options.certificates.is_none() {
            return Err(format!("{webhooks}: certificate provider is nil"));
        }
    }
    let supports_all = bundle.supports(&InstallModeType::AllNamespaces);
    if !supports_all && !options.features.single_own_namespace {
        return Err("bundle does not support AllNamespaces install mode".to_owned());
    }
    let supports_one =
        bundle.supports(&InstallModeType::SingleNamespace) || bundle.supports(&InstallModeType::OwnNamespace);
    if !supports_all && !supports_one {
        return Err(
            "bundle must support at least one of [AllNamespaces SingleNamespace OwnNamespace] install modes"
                .to_owned(),
        );
    }
    Ok(())
}

/// Returns the checked configuration. Without one it is checked as if it were empty, since the bundle may require a field.
fn configuration(bundle: &Bundle, options: &Options<'_>) -> Result<config::Config, RenderError> {
    let features = options.features;
    let empty = json!({});
    let inline = match options.config {
        Some(inline) => inline,
        None if features.single_own_namespace => &empty,
        None => return Ok(config::Config::default()),
    };
    config::check(inline, bundle, options.namespace, features.deployment_config)
        .map_err(RenderError::Configuration)
}

/// Returns the reason why the operator cannot watch `targets`, after their list.
fn check_targets(bundle: &Bundle, namespace: &str, targets: &[String]) -> Result<(), String> {
    let modes = bundle.supported_modes();
    let reason = match targets {
        [] if bundle.supports(&InstallModeType::MultiNamespace) => {
            "at least one target namespace must be specified".to_owned()
        }
        [one] if one == NAMESPACE_ALL => {
            if bundle.supports(&InstallModeType::AllNamespaces) {
                return Ok(());
            }
            format!("supported install modes {modes} do not support targeting all namespaces")
        }
        [one] if one == namespace => {
            if bundle.supports(&InstallModeType::OwnNamespace) {
                return Ok(());
            }
            format!("supported install modes {modes} do not support targeting own namespace")
        }
        [one] => {
            if bundle.supports(&InstallModeType::SingleNamespace) {
                return Ok(());
            }
            format!("supported install modes {modes} do not support target namespaces [{one}]")
        }
        _ => "exactly one target namespace must be specified".to_owned(),
    };
    Err(format!("[{}]: {reason}", targets.join(" ")))
}

#[cfg(test)]
mod tests;
