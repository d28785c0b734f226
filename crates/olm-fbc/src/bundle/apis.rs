//! APIs a bundle provides and requires.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{BundleContent, BundleError, CRD_KIND};
use crate::property::Gvk;

/// A version of a CustomResourceDefinition of the bundle.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CrdVersion {
    /// Name of the CRD.
    pub crd: String,
    /// The API.
    pub gvk: Gvk,
}

impl BundleContent {
    /// Every version of every CRD among the manifests.
    pub fn crd_versions(&self) -> BTreeSet<CrdVersion> {
        let mut versions = BTreeSet::new();
        for manifest in self.manifests.iter().filter(|manifest| manifest.kind == CRD_KIND) {
            let spec = &manifest.object["spec"];
            // v1beta1 knows a single `version` beside or instead of `versions`.
            let names = spec["versions"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|version| &version["name"])
                .chain([&spec["version"]])
                .filter_map(Value::as_str)
                .filter(|name| !name.is_empty());
            for name in names {
                versions.insert(CrdVersion {
                    crd: manifest.name.clone(),
                    gvk: Gvk {
                        group: text(&spec["group"]),
                        kind: text(&spec["names"]["kind"]),
                        version: name.to_owned(),
                    },
                });
            }
        }
        versions
    }

    /// APIs of all CRD versions and of owned API services. Every CRD the CSV owns must be among the manifests.
    ///
    /// # Errors
    /// An owned CRD is missing or has a name without group.
    pub fn provided_apis(&self) -> Result<BTreeSet<Gvk>, BundleError> {
        let mut apis: BTreeSet<Gvk> = self
            .crd_versions()
            .into_iter()
            .map(|version| version.gvk)
            .collect();
        for owned in crd_descriptions(&self.csv().object, "owned")? {
            if !apis.contains(&owned) {
                return Err(BundleError::OwnedApiMissing {
                    bundle: self.csv().name.clone(),
                    api: owned.to_string(),
                    found: apis
                        .iter()
                        .map(ToString::to_string)
                        .collect::<Vec<_>>()
                        .join(", "),
                });
            }
        }
        apis.extend(api_services(&self.csv().object, "owned"));
        Ok(apis)
    }

    /// APIs of the CRDs and API services the CSV requires.
    ///
    /// # Errors
    /// A required CRD has a name without group.
    pub fn required_apis(&self) -> Result<BTreeSet<Gvk>, BundleError> {
        let mut apis: BTreeSet<Gvk> = crd_descriptions(&self.csv().object, "required")?
            .into_iter()
            .collect();
        apis.extend(api_services(&self.csv().object, "required"));
        Ok(apis)
    }
}

fn descriptions<'a>(csv: &'a Value, list: &str, which: &str) -> impl Iterator<Item = &'a Value> {
    csv["spec"][list][which].as_array().into_iter().flatten()
}

fn crd_descriptions(csv: &Value, which: &str) -> Result<Vec<Gvk>, BundleError> {
    descriptions(csv, "customresourcedefinitions", which)
        .map(|description| {
            let name = text(&description["name"]);
            let Some((_, group)) = name.split_once('.') else {
                return Err(BundleError::CrdName(name));
            };
            Ok(Gvk {
                group: group.to_owned(),
                kind: text(&description["kind"]),
                version: text(&description["version"]),
            })
        })
        .collect()
}

fn api_services(csv: &Value, which: &str) -> impl Iterator<Item = Gvk> {
    descriptions(csv, "apiservicedefinitions", which).map(|description| Gvk {
        group: text(&description["group"]),
        kind: text(&description["kind"]),
        version: text(&description["version"]),
    })
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
