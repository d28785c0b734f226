//! Mounts the certificate into pods, at the paths where operators read it.

use k8s_openapi::api::core::v1::PodSpec;
use olm_runtime::certificate::CERTIFICATE_VOLUMES;

/// The certificate of a Deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServingCertificate {
    /// Name of its Secret.
    pub(crate) secret: String,
    pub(crate) ca_hash: String,
}

/// Mounts the certificate of `secret` in every container except init containers. An existing volume of the
/// name is replaced. An existing mount of the name is the author's and remains, and another mount at the path
/// is removed.
pub(crate) fn mount(pod: &mut PodSpec, secret: &str) {
    for own in &CERTIFICATE_VOLUMES {
        let volumes = pod.volumes.get_or_insert_default();
        volumes.retain(|volume| volume.name != own.name);
        volumes.push(own.of_secret(secret));
        for container in &mut pod.containers {
            let mounts = container.volume_mounts.get_or_insert_default();
            if mounts.iter().any(|mount| mount.name == own.name) {
                continue;
            }
            mounts.retain(|mount| mount.mount_path != own.path);
            mounts.push(own.mount());
        }
    }
    if pod.service_account_name.as_deref().unwrap_or_default().is_empty() {
        pod.service_account_name = Some("default".to_owned());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn mounted(pod: Value) -> Value {
        let mut pod: PodSpec = serde_json::from_value(pod).unwrap();
        mount(&mut pod, "s-cert");
        serde_json::to_value(pod).unwrap()
    }

    #[test]
    fn every_container_gets_the_certificate_and_no_init_container_does() {
        let pod =
            mounted(json!({"containers": [{"name": "a"}, {"name": "b"}], "initContainers": [{"name": "i"}]}));
        let mounts = json!([
            {"name": "apiservice-cert", "mountPath": "/apiserver.local.config/certificates"},
            {"name": "webhook-cert", "mountPath": "/tmp/k8s-webhook-server/serving-certs"}]);
        assert_eq!(pod["containers"][0]["volumeMounts"], mounts);
        assert_eq!(pod["containers"][1]["volumeMounts"], mounts);
        assert_eq!(pod["initContainers"][0]["volumeMounts"], Value::Null);
        assert_eq!(
            pod["volumes"][0]["secret"],
            json!({"secretName": "s-cert", "items": [
            {"key": "tls.crt", "path": "apiserver.crt"}, {"key": "tls.key", "path": "apiserver.key"}]})
        );
        assert_eq!(
            pod["volumes"][1]["secret"]["items"][1],
            json!({"key": "tls.key", "path": "tls.key"})
        );
        assert_eq!(pod["serviceAccountName"], "default");
    }

    #[test]
    fn what_the_author_mounts_there_is_neither_doubled_nor_moved() {
        let pod = mounted(
            json!({"serviceAccountName": "x", "volumes": [{"name": "webhook-cert", "emptyDir": {}}, {"name": "other", "emptyDir": {}}],
            "containers": [
                {"name": "a", "volumeMounts": [{"name": "webhook-cert", "mountPath": "/mine"}]},
                {"name": "b", "volumeMounts": [{"name": "other", "mountPath": "/tmp/k8s-webhook-server/serving-certs"}]}]}),
        );
        let volumes: Vec<&Value> = pod["volumes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|volume| &volume["name"])
            .collect();
        assert_eq!(volumes, ["other", "apiservice-cert", "webhook-cert"]);
        assert_eq!(pod["volumes"][2]["secret"]["secretName"], "s-cert");
        let of = |index: usize| -> Vec<String> {
            let mounts = pod["containers"][index]["volumeMounts"].as_array().unwrap();
            mounts
                .iter()
                .map(|mount| format!("{} {}", mount["name"], mount["mountPath"]))
                .collect()
        };
        assert_eq!(
            of(0),
            [
                r#""webhook-cert" "/mine""#,
                r#""apiservice-cert" "/apiserver.local.config/certificates""#
            ]
        );
        assert_eq!(
            of(1),
            [
                r#""apiservice-cert" "/apiserver.local.config/certificates""#,
                r#""webhook-cert" "/tmp/k8s-webhook-server/serving-certs""#
            ]
            .map(str::to_owned)
            .to_vec()
        );
        assert_eq!(pod["serviceAccountName"], "x");
    }
}
