//! The parts of an image's configuration that are used here: labels, and the container's command.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The `config` object of an image configuration, as the OCI image specification spells it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct RunConfig {
    /// User (and group) to run as, for example `1001`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub user: String,
    /// Environment, `NAME=value` each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Command that always runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub entrypoint: Vec<String>,
    /// Arguments for the entrypoint, unless others are given.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cmd: Vec<String>,
    /// Folder to run in.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub working_dir: String,
    /// Ports that are listened on, `50051/tcp` each, with empty objects as values.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub exposed_ports: BTreeMap<String, Empty>,
    /// Labels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// `{}`, the value of maps that the format uses as sets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Empty {}

/// An image configuration document.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ImageConfig {
    /// Creation time, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
    /// CPU architecture by its Go name.
    pub architecture: String,
    /// Operating system by its Go name.
    pub os: String,
    /// The container's command, and labels.
    pub config: RunConfig,
    /// Digests of the uncompressed layers.
    #[serde(rename = "rootfs")]
    pub root_fs: RootFs,
}

/// The layers of an image by the digests of their uncompressed archives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RootFs {
    /// Always `layers`.
    #[serde(rename = "type")]
    pub kind: String,
    /// One digest per layer, lowest first.
    pub diff_ids: Vec<String>,
}

impl Default for RootFs {
    fn default() -> Self {
        Self {
            kind: "layers".into(),
            diff_ids: Vec::new(),
        }
    }
}

impl ImageConfig {
    /// Parses a document. Fields that are null count as absent: builders in Go write null for empty values.
    pub(crate) fn parse(bytes: &[u8]) -> serde_json::Result<Self> {
        let mut document: Value = serde_json::from_slice(bytes)?;
        drop_nulls(&mut document);
        serde_json::from_value(document)
    }
}

fn drop_nulls(value: &mut Value) {
    if let Value::Object(fields) = value {
        fields.retain(|_, field| !field.is_null());
        fields.values_mut().for_each(drop_nulls);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_counts_as_absent() {
        let text = r#"{"architecture":"amd64","os":"linux","config":{"Labels":null,"Env":null,"User":""},"rootfs":null}"#;
        let config = ImageConfig::parse(text.as_bytes()).expect("config");
        assert!(config.config.labels.is_empty());
        let text = r#"{"config":null}"#;
        assert_eq!(
            ImageConfig::parse(text.as_bytes()).expect("config"),
            ImageConfig::default()
        );
    }
}
