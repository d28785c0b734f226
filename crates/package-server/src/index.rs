//! The served content: the packages of all catalogs, immutable and shared by all requests.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use olm_api::labels::package_manifest::{
    ARCHITECTURE_PREFIX, CATALOG, CATALOG_NAMESPACE, DEFAULT_ARCHITECTURE, DEFAULT_OS, OS_PREFIX, SUPPORTED,
};
use olm_runtime::NamespacedName;

use crate::package_manifest::Package;
use crate::selectors::{FieldSelector, LabelSelector};

/// The packages of one catalog, by name.
pub type Packages = BTreeMap<Box<str>, Arc<Package>>;

/// Facts about a catalog from its CatalogSource.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CatalogFacts {
    /// Namespace and name of the CatalogSource.
    pub key: NamespacedName,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Human-readable name of the catalog.
    pub display_name: String,
    /// Publisher of the catalog.
    pub publisher: String,
    /// Rank among catalogs that offer the same package; the higher wins.
    pub priority: i64,
    /// Creation time of the CatalogSource.
    pub created: Option<Timestamp>,
}

/// A catalog and its last read content.
#[derive(Debug, Clone)]
pub struct Catalog {
    /// Facts from its CatalogSource.
    pub facts: CatalogFacts,
    /// Content from its registry.
    pub packages: Arc<Packages>,
}

/// All catalogs.
#[derive(Debug, Clone, Default)]
pub struct Index {
    /// Namespace whose catalogs are visible in all namespaces; empty for none.
    pub global_namespace: Arc<str>,
    /// By namespace and name of the CatalogSource.
    pub catalogs: BTreeMap<NamespacedName, Arc<Catalog>>,
}

/// One PackageManifest in the view of one request.
#[derive(Debug, Clone)]
pub struct Item {
    /// Namespace it is shown in.
    pub namespace: Arc<str>,
    /// Catalog of the package.
    pub catalog: Arc<Catalog>,
    /// The package.
    pub package: Arc<Package>,
}

impl Item {
    /// Returns its sort key in a list.
    fn order(&self) -> (&str, &str, &NamespacedName) {
        (&self.namespace, &self.package.name, &self.catalog.facts.key)
    }

    /// Returns its labels. In order of increasing precedence: labels of the CatalogSource, the catalog's
    /// names, the package's own labels. Operators without labels for systems or architectures get the
    /// defaults.
    pub fn labels(&self) -> BTreeMap<&str, &str> {
        let facts = &self.catalog.facts;
        let mut labels: BTreeMap<&str, &str> = BTreeMap::new();
        for (key, value) in &facts.labels {
            labels.insert(key, value);
        }
        labels.insert(CATALOG, &facts.key.name);
        labels.insert(CATALOG_NAMESPACE, &facts.key.namespace);
        for (key, value) in &self.package.labels {
            labels.insert(key, value);
        }
        for (prefix, default) in [
            (OS_PREFIX, DEFAULT_OS),
            (ARCHITECTURE_PREFIX, DEFAULT_ARCHITECTURE),
        ] {
            if !labels.keys().any(|key| key.starts_with(prefix)) {
                labels.insert(default, SUPPORTED);
            }
        }
        labels
    }
}

impl Index {
    /// Returns every PackageManifest that a request for `namespace` sees (`None`: all namespaces), in order.
    /// Packages of the same name in several catalogs are separate items.
    pub fn list(&self, namespace: Option<&str>, labels: &LabelSelector, fields: &FieldSelector) -> Vec<Item> {
        let mut items: Vec<Item> = self
            .catalogs
            .values()
            .filter_map(|catalog| Some((self.shown_in(catalog, namespace)?, catalog)))
            .flat_map(|(shown_in, catalog)| {
                catalog.packages.values().map(move |package| Item {
                    namespace: Arc::clone(&shown_in),
                    catalog: Arc::clone(catalog),
                    package: Arc::clone(package),
                })
            })
            .filter(|item| fields.matches(&item.package.name, &item.namespace))
            .filter(|item| labels.is_empty() || labels.matches(&item.labels()))
            .collect();
        items.sort_by(|one, other| one.order().cmp(&other.order()));
        items
    }

    /// Returns the PackageManifest of a name. The catalog with the highest priority wins, then the
    /// namespace's own catalogs, then the first by the catalog's name.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Item> {
        let found = self.catalogs.values().filter_map(|catalog| {
            let shown_in = self.shown_in(catalog, Some(namespace))?;
            let package = catalog.packages.get(name)?;
            Some(Item {
                namespace: shown_in,
                catalog: Arc::clone(catalog),
                package: Arc::clone(package),
            })
        });
        found.min_by_key(|item| {
            let facts = &item.catalog.facts;
            let is_global = facts.key.namespace != namespace;
            (
                std::cmp::Reverse(facts.priority),
                is_global,
                facts.key.name.clone(),
            )
        })
    }

    /// Returns the namespace in which a request sees the packages of `catalog`: the catalog's own, or for a
    /// global catalog the requested one.
    fn shown_in(&self, catalog: &Catalog, namespace: Option<&str>) -> Option<Arc<str>> {
        let own = catalog.facts.key.namespace.as_str();
        match namespace {
            None => Some(own.into()),
            Some(asked) if asked == own => Some(own.into()),
            Some(asked) => (!own.is_empty() && own == &*self.global_namespace).then(|| asked.into()),
        }
    }
}

#[cfg(test)]
mod tests;
