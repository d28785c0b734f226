//! APIs a bundle provides and requires.

use std::collections::BTreeSet;
use std::fmt;

use go_compat::json::kind_of;
use olm_api::crd;
use olm_fbc::manifest::CRD_KIND;
use olm_fbc::property::Gvk;
use serde_json::Value;

use super::{BundleContent, text};
use crate::Error;

/// Supported versions of the CustomResourceDefinition API; CRDs of other versions define no API.
const CRD_VERSIONS: [&str; 2] = [crd::VERSION, crd::OLD_VERSION];

/// An API together with the name of its resource, which a CRD and the CSV that owns it must agree on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ApiKey {
    group: String,
    version: String,
    kind: String,
    plural: String,
}

impl ApiKey {
    fn gvk(&self) -> Gvk {
        Gvk::new(&self.group, &self.version, &self.kind)
    }
}

impl fmt::Display for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}/{}/{} ({})",
            self.group, self.version, self.kind, self.plural
        )
    }
}

impl BundleContent {
    /// Returns every version of every CRD among the manifests.
    fn crd_apis(&self) -> BTreeSet<ApiKey> {
        let mut apis = BTreeSet::new();
        let objects = self.manifests.iter().map(|manifest| &manifest.object);
        for definition in objects.filter(|object| object["kind"] == CRD_KIND) {
            let api_version = definition["apiVersion"].as_str().unwrap_or_default();
            let api_version = api_version.rsplit('/').next().unwrap_or_default();
            if !CRD_VERSIONS.contains(&api_version) {
                continue;
            }
            let spec = &definition["spec"];
            // v1beta1 allows a single `version` beside or instead of `versions`.
            let single = (api_version == crd::OLD_VERSION).then_some(&spec["version"]);
            let names = spec["versions"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|version| &version["name"])
                .chain(single)
                .filter_map(Value::as_str)
                .filter(|name| !name.is_empty());
            for name in names {
                apis.insert(ApiKey {
                    group: text(&spec["group"]),
                    version: name.to_owned(),
                    kind: text(&spec["names"]["kind"]),
                    plural: text(&spec["names"]["plural"]),
                });
            }
        }
        apis
    }

    /// Returns the APIs of all CRD versions and of owned API services. Every CRD the CSV owns must be among the manifests.
    ///
    /// # Errors
    /// An owned CRD is missing or has a name without group, or a list field of the CSV is not a list.
    pub fn provided_apis(&self) -> Result<BTreeSet<Gvk>, Error> {
        let defined = self.crd_apis();
        for owned in self.crd_descriptions("owned")? {
            if !defined.contains(&owned) {
                let found: Vec<String> = defined.iter().map(|api| format!("{api}:{{}}")).collect();
                return Err(format!(
                    "error checking provided apis in bundle {}: couldn't find {owned} in bundle. found: map[{}]",
                    self.csv_name(),
                    found.join(" ")
                )
                .into());
            }
        }
        let mut apis: BTreeSet<Gvk> = defined.iter().map(ApiKey::gvk).collect();
        apis.extend(self.api_services("owned")?);
        Ok(apis)
    }

    /// Returns the APIs of the CRDs and API services the CSV requires.
    ///
    /// # Errors
    /// A required CRD has a name without group, or a list field of the CSV is not a list.
    pub fn required_apis(&self) -> Result<BTreeSet<Gvk>, Error> {
        let required = self.crd_descriptions("required")?;
        let mut apis: BTreeSet<Gvk> = required.iter().map(ApiKey::gvk).collect();
        apis.extend(self.api_services("required")?);
        Ok(apis)
    }

    fn crd_descriptions(&self, which: &str) -> Result<Vec<ApiKey>, Error> {
        self.descriptions("customresourcedefinitions", which)?
            .iter()
            .map(|description| {
                let name = text(&description["name"]);
                let Some((plural, group)) = name.split_once('.') else {
                    let text = format!("couldn't parse plural.group from crd name: {name}");
                    return Err(Error::from(text));
                };
                Ok(ApiKey {
                    group: group.to_owned(),
                    version: text(&description["version"]),
                    kind: text(&description["kind"]),
                    plural: plural.to_owned(),
                })
            })
            .collect()
    }

    fn api_services(&self, which: &str) -> Result<Vec<Gvk>, Error> {
        let descriptions = self.descriptions("apiservicedefinitions", which)?;
        Ok(descriptions
            .iter()
            .map(|description| Gvk {
                group: text(&description["group"]),
                kind: text(&description["kind"]),
                version: text(&description["version"]),
            })
            .collect())
    }

    /// Returns a list of API descriptions of the CSV, whose fields are texts.
    fn descriptions(&self, list: &str, which: &str) -> Result<&[Value], Error> {
        let path = format!("spec.{list}.{which}");
        let map = &self.csv().object["spec"][list];
        if !(map.is_null() || map.is_object()) {
            return Err(self.wrong_csv(&format!("spec.{list}"), "an object", map));
        }
        let items = self.csv_list(&path, &map[which])?;
        for (index, item) in items.iter().enumerate() {
            for field in ["group", "version", "kind", "name"] {
                let value = &item[field];
                if !(value.is_null() || value.is_string()) {
                    return Err(self.wrong_csv(&format!("{path}[{index}].{field}"), "text", value));
                }
            }
        }
        Ok(items)
    }

    /// Returns a list of the CSV; null is an empty list.
    pub(super) fn csv_list<'a>(&self, path: &str, value: &'a Value) -> Result<&'a [Value], Error> {
        match value {
            Value::Null => Ok(&[]),
            Value::Array(items) => Ok(items),
            other => Err(self.wrong_csv(path, "a list", other)),
        }
    }

    pub(super) fn wrong_csv(&self, path: &str, expected: &str, found: &Value) -> Error {
        let (file, found) = (&self.csv().name, kind_of(found));
        format!("{file}: {path} must be {expected}, found {found}").into()
    }
}
