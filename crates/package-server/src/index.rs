//! What is served now: the packages of all catalogs, immutable and shared by whoever reads them.

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

/// What a CatalogSource says of its catalog.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CatalogFacts {
    /// Namespace and name of the CatalogSource.
    pub key: NamespacedName,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Name of the catalog for people.
    pub display_name: String,
    /// Who publishes the catalog.
    pub publisher: String,
    /// Rank among catalogs that offer the same package; the higher wins.
    pub priority: i64,
    /// When the CatalogSource was created.
    pub created: Option<Timestamp>,
}

/// A catalog and what was last read of it.
#[derive(Debug, Clone)]
pub struct Catalog {
    /// What its CatalogSource says.
    pub facts: CatalogFacts,
    /// What its registry said.
    pub packages: Arc<Packages>,
}

/// All catalogs.
#[derive(Debug, Clone, Default)]
pub struct Index {
    /// Namespace whose catalogs everybody sees; empty for none.
    pub global_namespace: Arc<str>,
    /// By namespace and name of the CatalogSource.
    pub catalogs: BTreeMap<NamespacedName, Arc<Catalog>>,
}

/// One PackageManifest, as one request sees it.
#[derive(Debug, Clone)]
pub struct Item {
    /// Namespace it is shown in.
    pub namespace: Arc<str>,
    /// The catalog it is of.
    pub catalog: Arc<Catalog>,
    /// The package.
    pub package: Arc<Package>,
}

/// What decides the order of a list; no two items of one list have the same.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct Position {
    /// Namespace the item is shown in.
    pub namespace: String,
    /// Package.
    pub name: String,
    /// Namespace of the CatalogSource.
    pub catalog_namespace: String,
    /// Name of the CatalogSource.
    pub catalog: String,
}

impl Item {
    /// Its place in a list.
    pub fn position(&self) -> Position {
        let catalog = &self.catalog.facts.key;
        Position {
            namespace: self.namespace.to_string(),
            name: self.package.name.to_string(),
            catalog_namespace: catalog.namespace.clone(),
            catalog: catalog.name.clone(),
        }
    }

    /// Its labels. Later ones win: those of the CatalogSource, the catalog's names, the package's own, and what holds for
    /// operators that say nothing of systems and architectures.
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
    /// Every PackageManifest that a request for `namespace` (`None`: for all of them) sees, in order. Each catalog's package is
    /// one, also where others have one of the same name.
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
        items.sort_by_cached_key(Item::position);
        items
    }

    /// The PackageManifest of a name: of several the one whose catalog has the highest priority, then that of the namespace's own
    /// catalogs, then the first by the catalog's name.
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

    /// Namespace in which a request sees the packages of `catalog`: its own, or the one asked for where everybody sees the catalog.
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
