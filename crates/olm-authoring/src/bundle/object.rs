//! Manifests that a catalog carries itself, in `olm.bundle.object` properties.

use olm_fbc::bundle_object;
use olm_fbc::manifest::CSV_KIND;
use olm_fbc::property::Typed;
use olm_fbc::schema::Bundle;
use serde_json::Value;

/// Reads the `data` of an `olm.bundle.object` property: base64 of an object in JSON or YAML.
///
/// # Errors
/// What is wrong with it, as text.
pub fn decode(data: &str) -> Result<Value, String> {
    bundle_object::decode(data)?.value()
}

/// The manifests a bundle blob carries; those that cannot be read are left out.
pub fn objects(bundle: &Bundle) -> impl Iterator<Item = Value> {
    bundle
        .properties
        .iter()
        .filter_map(|property| match property.parse() {
            Ok(Typed::BundleObject(data)) => decode(&data).ok(),
            _ => None,
        })
}

/// The first ClusterServiceVersion among the manifests a bundle blob carries.
pub fn csv(bundle: &Bundle) -> Option<Value> {
    objects(bundle).find(|object| object["kind"] == CSV_KIND)
}

/// What a catalog shows of the CSV: a field of the CSV's `spec` from its manifest, else of `olm.csv.metadata`.
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
