//! Endpoints: a Deployment that webhooks or APIs are bound to, and the names of the objects in front of it.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use olm_api::names::{MAX_SERVICE_NAME, service_name};
use olm_api::v1alpha1::ClusterServiceVersion;

use crate::csv::strategy::{Strategy, StrategyDeployment};

/// Port of a Service if the description has none.
const DEFAULT_PORT: i32 = 443;
/// Account of pods without a ServiceAccount name.
const DEFAULT_ACCOUNT: &str = "default";

/// A Deployment that serves, and its Service.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Endpoint {
    pub(crate) deployment: String,
    /// Account of its pods.
    pub(crate) account: String,
    /// Labels of its pods.
    pub(crate) selector: BTreeMap<String, String>,
    /// Ports of the Service, with those of the container.
    pub(crate) ports: BTreeMap<i32, IntOrString>,
    /// True when it serves APIs, so its account must be able to authenticate callers.
    pub(crate) serves_apis: bool,
}

impl Endpoint {
    /// Name of the Service.
    pub(crate) fn service(&self) -> String {
        service_name(&self.deployment)
    }

    /// Name of the Secret with the certificate, and of the Role that lets the pods' account read it.
    pub(crate) fn secret(&self) -> String {
        secret_name(&self.deployment)
    }

    /// Returns the DNS names by which the API server calls it, in this namespace.
    pub(crate) fn hosts(&self, namespace: &str) -> Vec<String> {
        let host = format!("{}.{namespace}", self.service());
        ["", ".svc", ".svc.cluster.local"]
            .iter()
            .map(|suffix| format!("{host}{suffix}"))
            .collect()
    }
}

/// Returns the port of a description; 0 means the default, as Go's zero value.
pub(crate) fn port_of(described: Option<i32>) -> i32 {
    described.filter(|port| *port != 0).unwrap_or(DEFAULT_PORT)
}

/// Name of the Secret with the certificate of a Deployment.
pub(crate) fn secret_name(deployment: &str) -> String {
    format!("{}-cert", service_name(deployment))
}

/// Returns the name of the Service whose certificate is in a Secret of this name; `None` for other Secrets.
pub(crate) fn service_of_secret(secret: &str) -> Option<&str> {
    secret
        .strip_suffix("-cert")
        .filter(|service| service.ends_with("-service"))
}

/// Returns the endpoints of the install strategy, in its order.
pub(crate) fn endpoints(csv: &ClusterServiceVersion, strategy: &Strategy) -> Vec<Endpoint> {
    let mut served: BTreeMap<&str, (BTreeMap<i32, IntOrString>, bool)> = BTreeMap::new();
    for binding in bindings(csv) {
        let (ports, serves_apis) = served.entry(binding.deployment).or_default();
        ports.insert(binding.port, binding.target);
        *serves_apis |= binding.is_api;
    }
    let mut of_entry = |entry: &StrategyDeployment| {
        let (ports, serves_apis) = served.remove(entry.name.as_str())?;
        let pod = entry.spec.template.spec.as_ref();
        let account = pod.and_then(|pod| pod.service_account_name.clone());
        Some(Endpoint {
            deployment: entry.name.clone(),
            account: account
                .filter(|name| !name.is_empty())
                .unwrap_or_else(|| DEFAULT_ACCOUNT.to_owned()),
            selector: entry.spec.selector.match_labels.clone().unwrap_or_default(),
            ports,
            serves_apis,
        })
    };
    strategy.deployments.iter().filter_map(&mut of_entry).collect()
}

/// A webhook or an API, with its Deployment and ports.
struct Binding<'a> {
    /// Description for users.
    what: String,
    deployment: &'a str,
    is_api: bool,
    /// Port of the Service.
    port: i32,
    /// Port of the container.
    target: IntOrString,
}

/// Returns the bindings of webhooks and APIs to Deployments; descriptions without a Deployment are left to
/// the requirements.
fn bindings(csv: &ClusterServiceVersion) -> impl Iterator<Item = Binding<'_>> {
    let webhooks = csv.spec.webhook_definitions.iter().map(|webhook| {
        let port = port_of(webhook.container_port);
        Binding {
            what: format!("webhook {}", webhook.generate_name),
            deployment: webhook.deployment_name.as_deref().unwrap_or_default(),
            is_api: false,
            port,
            target: webhook.target_port.clone().unwrap_or(IntOrString::Int(port)),
        }
    });
    let apis = csv.spec.owned_api_services().iter().filter_map(|api| {
        let port = port_of(api.container_port);
        Some(Binding {
            what: format!("APIService {}", api.api_service_name()),
            deployment: api.deployment_name.as_deref()?,
            is_api: true,
            port,
            target: IntOrString::Int(port),
        })
    });
    webhooks.chain(apis)
}

/// Returns the names of the Services that a ClusterServiceVersion's description requires.
pub(crate) fn services(csv: &ClusterServiceVersion) -> BTreeSet<String> {
    bindings(csv)
        .map(|binding| service_name(binding.deployment))
        .collect()
}

/// Returns an error if no Service can be created for the described Deployments, for users.
pub(crate) fn check(csv: &ClusterServiceVersion, strategy: &Strategy) -> Result<(), String> {
    let names = strategy.deployments.iter().map(|entry| entry.name.as_str());
    let names: BTreeSet<&str> = names.collect();
    for webhook in &csv.spec.webhook_definitions {
        let deployment = webhook.deployment_name.as_deref().unwrap_or_default();
        if !names.contains(deployment) {
            return Err(format!(
                "strategyDetailsDeployment is missing deployment {deployment} for WebhookDescription {}",
                webhook.generate_name
            ));
        }
    }
    // First binding of each Service, and target port of each of its ports.
    let mut services: BTreeMap<String, Binding<'_>> = BTreeMap::new();
    let mut ports: BTreeMap<(&str, i32), (String, IntOrString)> = BTreeMap::new();
    for binding in bindings(csv).filter(|binding| names.contains(binding.deployment)) {
        let Binding { what, deployment, .. } = &binding;
        let service = service_name(deployment);
        if service.len() > MAX_SERVICE_NAME {
            return Err(format!(
                "{what}: the name {service} of its deployment's Service is longer than {MAX_SERVICE_NAME} characters"
            ));
        }
        let port = binding.port;
        let (first, target) = ports
            .entry((*deployment, port))
            .or_insert_with(|| (what.clone(), binding.target.clone()));
        if *target != binding.target {
            return Err(format!(
                "{first} and {what}: port {port} of Service {service} cannot have two target ports"
            ));
        }
        if let Some(first) = services.get(&service)
            && first.deployment != *deployment
        {
            return Err(format!(
                "{} and {what}: the Services of their deployments would have the same name {service}",
                first.what
            ));
        }
        services.entry(service).or_insert(binding);
    }
    Ok(())
}
