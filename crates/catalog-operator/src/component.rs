//! Labels that make what a plan brings a component of its package's Operator (`docs/reference/operators.md`), there from its
//! creation: written later each would be a request of its own.

use std::collections::BTreeMap;

use olm_api::labels;
use olm_api::v1alpha1::{BundleLookup, InstallPlan, Step};
use olm_fbc::property::{PackageProperty, Property, Typed};
use serde::Deserialize;

use crate::manifest::Manifest;
use crate::step_kind::StepKind;

/// The package of each ClusterServiceVersion that these steps bring, by its name, as far as they say it: of a bundle image its lookup
/// does, of a bundle that the catalog carries itself the step.
pub(crate) fn packages(steps: &[Step], lookups: &[BundleLookup]) -> BTreeMap<String, PackageProperty> {
    let of_images = lookups.iter().filter_map(|lookup| {
        let package = package_among(lookup.properties.as_deref()?)?;
        Some((lookup.identifier.clone(), package))
    });
    let mut packages: BTreeMap<_, _> = of_images.collect();
    for step in steps {
        let resource = &step.resource;
        let is_csv = StepKind::of(&resource.kind) == Some(StepKind::ClusterServiceVersion);
        if is_csv && !packages.contains_key(&resource.name) {
            let package = resource.manifest.as_deref().and_then(package_in);
            packages.extend(package.map(|package| (resource.name.clone(), package)));
        }
    }
    packages
}

/// The label for what these steps bring to `namespace`, by ClusterServiceVersion.
pub(crate) fn labels_of(
    steps: &[Step],
    lookups: &[BundleLookup],
    namespace: &str,
) -> BTreeMap<String, String> {
    let packages = packages(steps, lookups).into_iter();
    packages
        .filter_map(|(csv, package)| Some((csv, labels::component_label(&package.package_name, namespace)?)))
        .collect()
}

/// The same of a plan.
pub(crate) fn labels_of_plan(plan: &InstallPlan) -> BTreeMap<String, String> {
    let namespace = plan.metadata.namespace.as_deref().unwrap_or_default();
    match &plan.status {
        Some(status) => labels_of(&status.plan, &status.bundle_lookups, namespace),
        None => BTreeMap::new(),
    }
}

fn package_in(manifest: &str) -> Option<PackageProperty> {
    match Manifest::parse(manifest).ok()? {
        Manifest::Inline(object) => {
            let annotations = object.pointer("/metadata/annotations")?;
            package_among(annotations.get(labels::PROPERTIES)?.as_str()?)
        }
        Manifest::ConfigMap(reference) => package_among(&reference.properties),
        Manifest::BundleImage(_) => None,
    }
}

/// The package among a bundle's properties.
fn package_among(properties: &str) -> Option<PackageProperty> {
    #[derive(Deserialize)]
    struct Properties {
        properties: Vec<Property>,
    }
    let found: Properties = serde_json::from_str(properties).ok()?;
    let mut typed = found
        .properties
        .iter()
        .filter_map(|property| property.parse().ok());
    typed.find_map(|property| match property {
        Typed::Package(package) => Some(package),
        _ => None,
    })
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
                identifier: "demo.v1".to_owned(),
                properties: properties.clone(),
                ..BundleLookup::default()
            };
            let of_image = labels_of(&[], &[lookup], "ns");
            assert_eq!(
                of_image.get("demo.v1").map(String::as_str),
                expected,
                "{properties:?}"
            );
            // A bundle that the catalog carries itself.
            let csv =
                json!({"metadata": {"name": "demo.v1", "annotations": {labels::PROPERTIES: properties}}});
            let mut step = Step::default();
            step.resource.kind = "ClusterServiceVersion".to_owned();
            step.resource.name = "demo.v1".to_owned();
            step.resource.manifest = Some(csv.to_string());
            assert_eq!(labels_of(&[step], &[], "ns"), of_image, "{properties:?}");
        }
    }
}
