//! The APIService of an API that an operator serves itself.

use std::collections::BTreeMap;

use k8s_openapi::{ByteString, kube_aggregator::pkg::apis::apiregistration::v1::APIService};
use kube::Resource;
use olm_api::names::service_name;
use olm_api::v1alpha1::{ApiServiceDescription, ClusterServiceVersion};
use olm_runtime::plan::Target;
use serde_json::{Value, json};

use crate::{
    csv::serving::{bundle, component::Component, endpoint::port_of},
    owner,
};

/// Priority of the group among all groups, as upstream's; later changes by others are kept.
const GROUP_PRIORITY: i32 = 2000;
/// Priority of the version in its group, as upstream's.
const VERSION_PRIORITY: i32 = 15;

/// Returns the owned APIs that need an APIService and have a Deployment, one for each APIService.
pub(crate) fn served(csv: &ClusterServiceVersion) -> Vec<&ApiServiceDescription> {
    let all = csv.spec.owned_api_services().iter();
    let by_name: BTreeMap<String, &ApiServiceDescription> = all
        .filter(|api| api.deployment_name.is_some())
        .map(|api| (api.api_service_name(), api))
        .collect();
    by_name.into_values().collect()
}

/// Returns the target of the APIService.
pub(crate) fn target(description: &ApiServiceDescription) -> Target {
    Target::cluster::<APIService>(&description.api_service_name())
}

/// Returns the APIService of an API whose server has a certificate of a CA in `bundle`; `live` is the
/// existing one.
pub(crate) fn api_service(
    csv: &ClusterServiceVersion,
    description: &ApiServiceDescription,
    annotations: Option<&BTreeMap<String, String>>,
    bundle: &str,
    live: Option<&Value>,
) -> Component {
    let kept = |field: &str, default: i32| {
        let found = live.and_then(|live| live["spec"][field].as_i64());
        found.unwrap_or(default.into())
    };
    let service = json!({
        "name": service_name(description.deployment_name.as_deref().unwrap_or_default()),
        "namespace": csv.metadata.namespace,
        "port": port_of(description.container_port),
    });
    let spec = json!({
        "group": description.group, "version": description.version,
        "service": service, "caBundle": ByteString(bundle.into()),
        "groupPriorityMinimum": kept("groupPriorityMinimum", GROUP_PRIORITY),
        "versionPriority": kept("versionPriority", VERSION_PRIORITY),
    });
    let object = json!({
        "apiVersion": APIService::api_version(&()), "kind": APIService::kind(&()),
        "metadata": {"name": description.api_service_name(), "labels": owner::marks(csv), "annotations": annotations},
        "spec": spec,
    });
    Component::new(target(description), object)
}

/// The CAs that a stored APIService trusts, as PEM.
pub(crate) fn bundle_of(api_service: &Value) -> Option<String> {
    bundle::read(api_service.pointer("/spec/caBundle")?)
}
