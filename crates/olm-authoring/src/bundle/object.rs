//! Manifests that a catalog contains itself, in `olm.bundle.object` properties.

use olm_fbc::bundle_object;
use olm_fbc::manifest::CSV_KIND;
use olm_fbc::property::Typed;
use olm_fbc::schema::Bundle;
use serde_json::Value;

/// Returns the manifests in a bundle blob; those that cannot be read are skipped.
pub fn objects(bundle: &Bundle) -> impl Iterator<Item = Value> {
    bundle
        .properties
        .iter()
        .filter_map(|property| match property.parse() {
            Ok(Typed::BundleObject(data)) => bundle_object::decode(&data).ok()?.value().ok(),
            _ => None,
        })
}

/// Returns the first ClusterServiceVersion among the manifests in a bundle blob.
pub fn csv(bundle: &Bundle) -> Option<Value> {
    objects(bundle).find(|object| object["kind"] == CSV_KIND)
}

/// Adds the consequences to the reason why clusters cannot read a ClusterServiceVersion in a catalog.
pub fn unreadable_csv(problem: &str) -> String {
    format!("{problem}; clusters cannot install it, and may not list a channel whose head it is")
}

/// Returns a field that a catalog displays of the CSV: from the `spec` of its manifest, else from `olm.csv.metadata`.
pub fn csv_field(bundle: &Bundle, name: &str) -> Option<Value> {
    if let Some(csv) = csv(bundle) {
        return csv["spec"].get(name).cloned();
    }
    bundle
        .properties
        .iter()
        .find_map(|property| match property.parse() {
            Ok(Typed::CsvMetadata(metadata)) => metadata.get(name).cloned(),
            _ => None,
        })
}
