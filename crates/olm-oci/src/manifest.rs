//! Manifests and indexes, with the fields that are used here.

use std::collections::BTreeMap;

use go_compat::platform::architecture;
use serde::{Deserialize, Serialize};

use crate::digest::Digest;

/// Media types of manifests and indexes, OCI's and Docker's.
pub(crate) const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(crate) const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub(crate) const ACCEPT: &str = "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json, \
     application/vnd.docker.distribution.manifest.v2+json, application/vnd.docker.distribution.manifest.list.v2+json";

/// A manifest's description of a blob, or an index's of a manifest.
///
/// Documents are typed, not `json!`, so that the order of their keys cannot change with a feature of `serde_json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Descriptor {
    pub(crate) media_type: String,
    pub(crate) digest: String,
    /// Size in bytes.
    pub(crate) size: u64,
    /// Annotations to write; those of other images are not read.
    #[serde(skip_deserializing, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) annotations: BTreeMap<&'static str, String>,
    /// Platform of the image; set within an index that was read.
    #[serde(skip_serializing)]
    pub(crate) platform: Option<Platform>,
}

impl Descriptor {
    pub(crate) fn new(media_type: &str, digest: &Digest, size: usize) -> Self {
        Self {
            media_type: media_type.to_owned(),
            digest: digest.to_string(),
            size: size as u64,
            annotations: BTreeMap::new(),
            platform: None,
        }
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Platform {
    os: String,
    architecture: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ImageManifest {
    pub(crate) schema_version: u8,
    pub(crate) media_type: Option<String>,
    pub(crate) config: Descriptor,
    /// The layers, lowest first.
    pub(crate) layers: Vec<Descriptor>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ImageIndex {
    pub(crate) schema_version: u8,
    pub(crate) media_type: Option<String>,
    pub(crate) manifests: Vec<Descriptor>,
}

pub(crate) enum Manifest {
    Image(Box<ImageManifest>),
    Index(Box<ImageIndex>),
}

/// Parses a manifest or an index. The content decides which, because the media type inside is optional.
pub(crate) fn parse_manifest(bytes: &[u8]) -> Result<Manifest, String> {
    #[derive(Deserialize)]
    struct Shape {
        #[serde(rename = "schemaVersion", default)]
        schema_version: u32,
        #[serde(default)]
        manifests: Option<serde::de::IgnoredAny>,
        #[serde(default)]
        config: Option<serde::de::IgnoredAny>,
    }
    let unreadable = |error: serde_json::Error| format!("cannot read the manifest: {error}");
    let shape: Shape = serde_json::from_slice(bytes).map_err(unreadable)?;
    if shape.schema_version != 2 {
        let version = shape.schema_version;
        return Err(format!(
            "manifests of schema version {version} are not supported, only 2"
        ));
    }
    let manifest = match (shape.config, shape.manifests) {
        (Some(_), None) => serde_json::from_slice(bytes).map(Manifest::Image),
        (None, Some(_)) => serde_json::from_slice(bytes).map(Manifest::Index),
        _ => return Err("the manifest is neither an image (`config`) nor an index (`manifests`)".to_owned()),
    };
    manifest.map_err(unreadable)
}

pub(crate) fn choose_platform(index: &ImageIndex) -> Result<Digest, String> {
    let for_linux = |architecture: &str| {
        index.manifests.iter().find(|entry| {
            entry
                .platform
                .as_ref()
                .is_some_and(|platform| platform.os == "linux" && platform.architecture == architecture)
        })
    };
    // Attestations are listed with an unknown platform; they are not images.
    let first_image = || {
        index.manifests.iter().find(|entry| {
            entry
                .platform
                .as_ref()
                .is_none_or(|platform| platform.os == "linux")
        })
    };
    let entry = for_linux(architecture())
        .or_else(|| for_linux("amd64"))
        .or_else(first_image)
        .ok_or_else(|| "the index has no image for linux".to_owned())?;
    entry.digest.parse().map_err(|error| format!("index: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(entries: &[(&str, &str)]) -> ImageIndex {
        let entries: Vec<_> = entries
            .iter()
            .enumerate()
            .map(|(at, (os, architecture))| {
                serde_json::json!({"mediaType": OCI_MANIFEST, "size": 1, "digest": format!("sha256:{at:064}"),
                    "platform": {"os": os, "architecture": architecture}})
            })
            .collect();
        serde_json::from_value(serde_json::json!({"schemaVersion": 2, "manifests": entries})).expect("index")
    }

    #[test]
    fn the_machines_platform_is_chosen_then_amd64_then_any_linux() {
        let here = architecture();
        for (entries, expected) in [
            (
                &[("windows", here), ("linux", "s390x"), ("linux", here)][..],
                Some(2),
            ),
            (&[("linux", "s390x"), ("linux", "amd64")], Some(1)),
            (&[("unknown", "unknown"), ("linux", "s390x")], Some(1)),
            (&[("windows", "amd64")], None),
        ] {
            let chosen = choose_platform(&index(entries))
                .ok()
                .map(|digest| digest.hex().parse::<u32>());
            assert_eq!(chosen.map(|at| at.expect("number")), expected, "{entries:?}");
        }
    }

    #[test]
    fn what_is_no_manifest_is_reported() {
        for (text, expected) in [
            ("<html>", "cannot read the manifest"),
            ("{}", "schema version 0 are not supported"),
            (
                r#"{"schemaVersion":1,"fsLayers":[]}"#,
                "schema version 1 are not supported",
            ),
            (r#"{"schemaVersion":2}"#, "neither an image"),
            (r#"{"schemaVersion":2,"config":{}}"#, "cannot read the manifest"),
        ] {
            let error = parse_manifest(text.as_bytes()).err().expect(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
