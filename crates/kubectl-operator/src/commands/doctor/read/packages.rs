//! Reads whether catalogs offer the packages that Subscriptions name.

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt as _;
use olm_api::labels::package_manifest as label;
use olm_api::packages::PackageManifest;
use olm_api::v1alpha1::{CatalogSource, Subscription};

use super::super::catalogs::is_ready;
use super::super::finding::is_name;
use super::super::observed::Read;
use super::Reader;
use crate::operators::Key;
use crate::packages::Package;
use crate::reader::{get, list};
use crate::turns::in_turn;

/// Packages that are asked for.
const MAX_PACKAGES: usize = 200;
/// Catalogs whose packages are listed, as another one has a package of the same name.
const MAX_CATALOGS: usize = 10;

type Packages = BTreeMap<(Key, String), Read<Option<BTreeSet<String>>>>;
type OfCatalog = BTreeMap<String, BTreeSet<String>>;

impl Reader<'_> {
    /// Packages and their channels, of catalogs that are well: of others the package-server may know nothing.
    pub(super) async fn packages(
        &self,
        subscriptions: &[Subscription],
        catalogs: &BTreeMap<Key, Read<Option<CatalogSource>>>,
    ) -> Packages {
        let mut found = Packages::new();
        let mut listed: BTreeMap<Key, Read<OfCatalog>> = BTreeMap::new();
        for subscription in in_turn(subscriptions, |subscription| {
            subscription.namespace().unwrap_or_default()
        }) {
            let spec = &subscription.spec;
            let catalog = (spec.source_namespace.clone(), spec.source.clone());
            let is_well = matches!(catalogs.get(&catalog), Some(Ok(Some(catalog))) if is_ready(catalog));
            let key = (catalog.clone(), spec.name.clone());
            if !is_well || !is_name(&spec.name) || found.contains_key(&key) {
                continue;
            }
            let namespace = subscription.namespace().unwrap_or_default();
            let read = match found.len() {
                MAX_PACKAGES.. => Err(format!("no more than {MAX_PACKAGES} packages are asked for")),
                _ => self.package(&namespace, &catalog, &spec.name, &mut listed).await,
            };
            found.insert(key, read);
        }
        found
    }

    async fn package(
        &self,
        namespace: &str,
        catalog: &Key,
        name: &str,
        listed: &mut BTreeMap<Key, Read<OfCatalog>>,
    ) -> Read<Option<BTreeSet<String>>> {
        let manifest = self
            .within(get::<PackageManifest>(self.client, namespace, name))
            .await?;
        let Some(package) = manifest.map(Package::from) else {
            return Ok(None);
        };
        if (&package.catalog_namespace, &package.catalog) == (&catalog.0, &catalog.1) {
            return Ok(Some(channels(package)));
        }
        // Of several catalogs with the package one is answered.
        if !listed.contains_key(catalog) {
            let of_catalog = match listed.len() {
                MAX_CATALOGS.. => Err(format!("no more than {MAX_CATALOGS} catalogs are listed")),
                _ => self.of_catalog(namespace, catalog).await,
            };
            listed.insert(catalog.clone(), of_catalog);
        }
        match listed.get(catalog) {
            Some(Ok(packages)) => Ok(packages.get(name).cloned()),
            Some(Err(cause)) => Err(cause.clone()),
            None => Err("its catalog was not listed".to_owned()),
        }
    }

    async fn of_catalog(&self, namespace: &str, (at, name): &Key) -> Read<OfCatalog> {
        let selector = format!("{}={name},{}={at}", label::CATALOG, label::CATALOG_NAMESPACE);
        let manifests: Vec<PackageManifest> =
            self.within(list(self.client, Some(namespace), &selector)).await?;
        let packages = manifests.into_iter().map(Package::from);
        Ok(packages
            .map(|package| (package.name.clone(), channels(package)))
            .collect())
    }
}

fn channels(package: Package) -> BTreeSet<String> {
    package.channels.into_iter().map(|channel| channel.name).collect()
}
