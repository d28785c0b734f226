//! Checks of a bundle's files, before an image is made of them.
//!
//! The format is checked first (directories, annotations, dependencies), then the content (kinds, CSV, CRDs, other objects). All
//! problems are reported, with upstream's text if it has one. Rules: `docs/reference/catalog-files.md`.

use std::collections::BTreeMap;

use go_compat::json;
use olm_fbc::manifest::CSV_KIND;
use olm_fbc::yaml;
use serde_json::Value;

mod content;
mod crd;
mod csv;
mod format;
mod hub;
mod metadata;
mod objects;

pub use content::check_content;
pub use format::check_format;

/// Optional checks.
#[derive(Clone, Debug, Default)]
pub struct Optional {
    /// Requirements of the public hub.
    pub operator_hub: bool,
    /// Objects that can harm a cluster.
    pub bundle_objects: bool,
    /// Allowed categories that replace the hub's.
    pub categories: Option<Vec<String>>,
}

/// Formats of a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediaType {
    /// A Helm chart.
    Helm,
    /// Manifests with a ClusterServiceVersion.
    RegistryV1,
    /// Manifests only.
    Plain,
}

impl MediaType {
    /// Returns the value of the annotation.
    pub fn name(self) -> &'static str {
        match self {
            Self::Helm => "helm",
            Self::RegistryV1 => "registry+v1",
            Self::Plain => "plain",
        }
    }

    /// Detects the format from the files of a manifests directory, by name.
    pub fn of<B: AsRef<[u8]>>(files: &BTreeMap<String, B>) -> Self {
        let parsed = |bytes: &B| yaml::parse_first(bytes.as_ref()).map(|(value, _)| value);
        let is_chart = files
            .get("Chart.yaml")
            .and_then(|bytes| parsed(bytes).ok())
            .is_some_and(|chart| chart["name"].as_str().is_some_and(|name| !name.is_empty()));
        if is_chart {
            return Self::Helm;
        }
        let has_csv = files
            .values()
            .any(|bytes| parsed(bytes).is_ok_and(|object| object["kind"] == CSV_KIND));
        if has_csv { Self::RegistryV1 } else { Self::Plain }
    }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// Returns a field with a case-insensitive name, as upstream's decoder does.
pub(super) fn any_case<'a>(value: &'a Value, key: &str) -> &'a Value {
    value
        .as_object()
        .and_then(|map| json::field(map, key))
        .unwrap_or(&Value::Null)
}

#[cfg(test)]
mod tests;
