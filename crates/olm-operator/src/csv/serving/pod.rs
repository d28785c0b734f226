//! Mounts the certificate into pods, at the paths where operators read it.

use k8s_openapi::api::core::v1::{KeyToPath, PodSpec, SecretVolumeSource, Volume, VolumeMount};

use crate::csv::serving::certificate::{SECRET_KEY_CERTIFICATE, SECRET_KEY_PRIVATE_KEY};

/// The certificate of a Deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServingCertificate {
    /// Name of its Secret.
    pub(crate) secret: String,
    pub(crate) ca_hash: String,
}

/// A volume of the certificate: its name, its mount path, and the file names of certificate and key.
struct Place {
    volume: &'static str,
    path: &'static str,
    certificate: &'static str,
    key: &'static str,
}

/// Paths for servers of APIs and of webhooks; a pod may be both.
const PLACES: [Place; 2] = [
    Place {
        volume: "apiservice-cert",
        path: "/apiserver.local.config/certificates",
        certificate: "apiserver.crt",
        key: "apiserver.key",
    },
    Place {
        volume: "webhook-cert",
        path: "/tmp/k8s-webhook-server/serving-certs",
        certificate: SECRET_KEY_CERTIFICATE,
        key: SECRET_KEY_PRIVATE_KEY,
    },
];

/// Mounts the certificate of `secret` in every container except init containers. An existing volume of the
/// name is replaced. An existing mount of the name is the author's and remains, and another mount at the path
/// is removed.
pub(crate) fn mount(pod: &mut PodSpec, secret: &str) {
    for place in &PLACES {
        let volumes = pod.volumes.get_or_insert_default();
        volumes.retain(|volume| volume.name != place.volume);
        volumes.push(volume(place, secret));
        for container in &mut pod.containers {
            let mounts = container.volume_mounts.get_or_insert_default();
            if mounts.iter().any(|mount| mount.name == place.volume) {
                continue;
            }
            mounts.retain(|mount| mount.mount_path != place.path);
            mounts.push(VolumeMount {
                name: place.volume.to_owned(),
                mount_path: place.path.to_owned(),
                ..VolumeMount::default()
            });
        }
    }
    if pod.service_account_name.as_deref().unwrap_or_default().is_empty() {
        pod.service_account_name = Some("default".to_owned());
    }
}

fn volume(place: &Place, secret: &str) -> Volume {
    let item = |key: &str, path: &str| KeyToPath {
        key: key.to_owned(),
        path: path.to_owned(),
        mode: None,
    };
    Volume {
        name: place.volume.to_owned(),
        secret: Some(SecretVolumeSource {
            secret_name: Some(secret.to_owned()),
            items: Some(vec![
                item(SECRET_KEY_CERTIFICATE, place.certificate),
                item(SECRET_KEY_PRIVATE_KEY, place.key),
            ]),
            ..SecretVolumeSource::default()
        }),
        ..Volume::default()
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
