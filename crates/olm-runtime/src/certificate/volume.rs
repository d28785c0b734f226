//! Volumes by which the pods of operators get their certificate, at the paths where operators read it.

use k8s_openapi::api::core::v1::{KeyToPath, SecretVolumeSource, Volume, VolumeMount};

use super::{SECRET_KEY_CERTIFICATE, SECRET_KEY_PRIVATE_KEY};

/// A volume with the certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CertificateVolume {
    /// Name of the volume, and of its mounts.
    pub name: &'static str,
    /// Folder where it is mounted.
    pub path: &'static str,
    /// File name of the certificate.
    certificate: &'static str,
    /// File name of the key.
    key: &'static str,
}

/// Volumes for servers of APIs and of webhooks; a pod may be both.
pub static CERTIFICATE_VOLUMES: [CertificateVolume; 2] = [
    CertificateVolume {
        name: "apiservice-cert",
        path: "/apiserver.local.config/certificates",
        certificate: "apiserver.crt",
        key: "apiserver.key",
    },
    CertificateVolume {
        name: "webhook-cert",
        path: "/tmp/k8s-webhook-server/serving-certs",
        certificate: SECRET_KEY_CERTIFICATE,
        key: SECRET_KEY_PRIVATE_KEY,
    },
];

impl CertificateVolume {
    /// Returns the volume, whose files are those of the Secret `secret`.
    pub fn of_secret(&self, secret: &str) -> Volume {
        let item = |key: &str, path: &str| KeyToPath {
            key: key.to_owned(),
            path: path.to_owned(),
            mode: None,
        };
        Volume {
            name: self.name.to_owned(),
            secret: Some(SecretVolumeSource {
                secret_name: Some(secret.to_owned()),
                items: Some(vec![
                    item(SECRET_KEY_CERTIFICATE, self.certificate),
                    item(SECRET_KEY_PRIVATE_KEY, self.key),
                ]),
                ..SecretVolumeSource::default()
            }),
            ..Volume::default()
        }
    }

    /// Returns its mount in a container.
    pub fn mount(&self) -> VolumeMount {
        VolumeMount {
            name: self.name.to_owned(),
            mount_path: self.path.to_owned(),
            ..VolumeMount::default()
        }
    }
}
