//! Checks of a bundle's files, before an image is made of them.
//!
//! Format first (directories, annotations, dependencies), then content (kinds, CSV, CRDs, other objects). All problems are
//! told, in upstream's words where it has any. Rules: `docs/reference/catalog-files.md`.

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
mod names;
mod objects;

pub use content::check_content;
pub use format::check_format;

/// Checks that are made on request.
#[derive(Clone, Debug, Default)]
pub struct Optional {
    /// What the public hub asks for.
    pub operator_hub: bool,
    /// Objects that can hurt a cluster.
    pub bundle_objects: bool,
    /// Categories to take instead of the hub's.
    pub categories: Option<Vec<String>>,
}

/// Formats a bundle can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediaType {
    /// A chart.
    Helm,
    /// With a ClusterServiceVersion.
    RegistryV1,
    /// Manifests only.
    Plain,
}

impl MediaType {
    /// The value of the annotation.
    pub fn name(self) -> &'static str {
        match self {
            Self::Helm => "helm",
            Self::RegistryV1 => "registry+v1",
            Self::Plain => "plain",
        }
    }

    /// Tells from the files of a manifests directory, by name.
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

/// A field whose name may be written in any case, as upstream's decoder takes it.
pub(super) fn any_case<'a>(value: &'a Value, key: &str) -> &'a Value {
    value
        .as_object()
        .and_then(|map| json::field(map, key))
        .unwrap_or(&Value::Null)
}

#[cfg(test)]
mod tests;
