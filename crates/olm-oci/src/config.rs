//! The parts of an image's configuration that are used here: labels, and the container's command.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The `config` object of an image configuration, as the OCI image specification spells it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct RunConfig {
    /// User (and group) to run as, for example `1001`.
    #[serde(
        skip_serializing_if = "String::is_empty",
        deserialize_with = "null_is_default"
    )]
    pub user: String,
    /// Environment, `NAME=value` each.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_default")]
    pub env: Vec<String>,
    /// Command that always runs.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_default")]
    pub entrypoint: Vec<String>,
    /// Arguments for the entrypoint, unless others are given.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_default")]
    pub cmd: Vec<String>,
    /// Folder to run in.
    #[serde(
        skip_serializing_if = "String::is_empty",
        deserialize_with = "null_is_default"
    )]
    pub working_dir: String,
    /// Ports that are listened on, `50051/tcp` each, with empty objects as values.
    #[serde(
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "null_is_default"
    )]
    pub exposed_ports: BTreeMap<String, Empty>,
    /// Labels.
    #[serde(
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "null_is_default"
    )]
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
    #[serde(deserialize_with = "null_is_default")]
    pub config: RunConfig,
    /// Digests of the uncompressed layers.
    #[serde(rename = "rootfs", deserialize_with = "null_is_default")]
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
    #[serde(deserialize_with = "null_is_default")]
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

/// Reads `null` as the default: builders in Go write it for empty values.
fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_counts_as_absent() {
        let text = r#"{"architecture":"amd64","os":"linux","config":{"Labels":null,"Env":null,"User":""},"rootfs":null}"#;
        let config: ImageConfig = serde_json::from_str(text).expect("config");
        assert!(config.config.labels.is_empty());
        let text = r#"{"config":null}"#;
        assert_eq!(
            serde_json::from_str::<ImageConfig>(text).expect("config"),
            ImageConfig::default()
        );
    }
}
