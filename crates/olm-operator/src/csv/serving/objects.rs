//! Objects of a Deployment that serves: its Service, a Secret with its certificate, and the right to read
//! that.

use k8s_openapi::api::{
    core::v1::{Secret, Service},
    rbac::v1::{Role, RoleBinding},
};
use kube::Resource;
use olm_api::{labels, permission, v1alpha1::ClusterServiceVersion};
use olm_runtime::plan::{Target, to_value};
use serde_json::{Value, json};

use crate::{
    component,
    csv::serving::{component::Component, endpoint::Endpoint},
    owner,
};

/// Returns Service, Role and RoleBinding.
pub(crate) fn around(csv: &ClusterServiceVersion, endpoint: &Endpoint) -> Vec<Component> {
    vec![
        service(csv, endpoint),
        role(csv, endpoint),
        role_binding(csv, endpoint),
    ]
}

fn service(csv: &ClusterServiceVersion, endpoint: &Endpoint) -> Component {
    let ports = endpoint.ports.iter().map(|(port, target)| {
        json!({"name": port.to_string(), "port": port, "targetPort": target, "protocol": "TCP"})
    });
    let spec = json!({"ports": ports.collect::<Vec<_>>(), "selector": endpoint.selector});
    owned::<Service>(csv, &endpoint.service(), json!({ "spec": spec }))
}

/// Grants the account of the pods read access to the Secret with their certificate.
fn role(csv: &ClusterServiceVersion, endpoint: &Endpoint) -> Component {
    let name = endpoint.secret();
    let rule =
        json!({"apiGroups": [""], "resources": ["secrets"], "resourceNames": [name], "verbs": ["get"]});
    owned::<Role>(csv, &name, json!({ "rules": [rule] }))
}

fn role_binding(csv: &ClusterServiceVersion, endpoint: &Endpoint) -> Component {
    let name = endpoint.secret();
    let namespace = csv.metadata.namespace.as_deref().unwrap_or_default();
    let subject = permission::service_account_subject(namespace, &endpoint.account);
    let binding = json!({"roleRef": permission::role_ref("Role", &name), "subjects": [subject]});
    owned::<RoleBinding>(csv, &name, binding)
}

/// The Secret, without its data.
pub(crate) fn secret(csv: &ClusterServiceVersion, endpoint: &Endpoint, ca_hash: &str) -> Component {
    let mut secret = owned::<Secret>(csv, &endpoint.secret(), json!({"type": "kubernetes.io/tls"}));
    secret.object["metadata"]["annotations"] = json!({ labels::CA_HASH: ca_hash });
    secret
}

/// A namespaced object that is deleted with the ClusterServiceVersion. It has no owner labels, because these
/// mark the objects of an install strategy.
fn owned<K: Resource<DynamicType = ()>>(csv: &ClusterServiceVersion, name: &str, body: Value) -> Component {
    let namespace = csv.metadata.namespace.as_deref().unwrap_or_default();
    let mut marks = component::shared_labels(&csv.metadata);
    marks.insert(labels::MANAGED.to_owned(), labels::TRUE.to_owned());
    let mut object = body;
    object["apiVersion"] = json!(K::api_version(&()));
    object["kind"] = json!(K::kind(&()));
    object["metadata"] = json!({
        "name": name, "namespace": namespace,
        "labels": marks,
        "ownerReferences": [to_value(&owner::reference(csv))],
    });
    Component::new(Target::of::<K>(namespace, name), object)
}
