//! Checks of a bundle's files, before an image is made of them.
//!
//! Format first (directories, annotations, dependencies), then content (kinds, CSV, CRDs, other objects). All problems are
//! told, in upstream's words where it has any. Source: section 8 ("validate") of the catalog specification.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::yaml;

mod content;
mod format;

pub use content::check_content;
pub use format::check_format;

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
            .any(|bytes| parsed(bytes).is_ok_and(|object| object["kind"] == super::CSV_KIND));
        if has_csv { Self::RegistryV1 } else { Self::Plain }
    }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests;
