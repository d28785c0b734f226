//! Labels that make what a plan brings a component of its package's Operator (`docs/reference/operators.md`), there from its
//! creation: written later each would be a request of its own.

use olm_api::labels;
use olm_api::v1alpha1::{BundleLookup, InstallPlan};
use olm_fbc::property::{Property, Typed};
use serde::Deserialize;

/// The label for a bundle installed in `namespace`, by the package that its properties name; `None` when they name none.
pub(crate) fn label_of_bundle(lookup: &BundleLookup, namespace: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Properties {
        properties: Vec<Property>,
    }
    let found: Properties = serde_json::from_str(lookup.properties.as_deref()?).ok()?;
    let mut packages = found
        .properties
        .iter()
        .filter_map(|property| match property.parse() {
            Ok(Typed::Package(package)) => Some(package.package_name),
            _ => None,
        });
    labels::component_label(&packages.next()?, namespace)
}

/// The label for what a plan brings with `csv`.
pub(crate) fn label_of_csv(plan: &InstallPlan, csv: &str) -> Option<String> {
    let lookups = plan.status.iter().flat_map(|status| &status.bundle_lookups);
    let mut of_csv = lookups.into_iter().filter(|lookup| lookup.identifier == csv);
    label_of_bundle(of_csv.next()?, plan.metadata.namespace.as_deref()?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_package_is_the_one_that_the_properties_name() {
        let package =
            |name: &str| json!({"type": "olm.package", "value": {"packageName": name, "version": "1.0.0"}});
        let other = json!({"type": "olm.gvk", "value": {"group": "g", "kind": "K", "version": "v1"}});
        let rows = [
            (
                Some(json!({"properties": [other, package("demo")]}).to_string()),
                Some("operators.coreos.com/demo.ns"),
            ),
            (Some(json!({"properties": [package("a/b")]}).to_string()), None),
            (Some(json!({"properties": [other]}).to_string()), None),
            (Some("{}".to_owned()), None),
            (Some("no JSON".to_owned()), None),
            (None, None),
        ];
        for (properties, expected) in rows {
            let lookup = BundleLookup {
                properties,
                ..BundleLookup::default()
            };
            assert_eq!(label_of_bundle(&lookup, "ns").as_deref(), expected, "{lookup:?}");
        }
    }
}
