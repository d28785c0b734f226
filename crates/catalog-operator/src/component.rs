//! Labels that make what a plan brings a component of its package's Operator (`docs/reference/operators.md`), there from its
//! creation: written later each would be a request of its own.

use std::collections::{BTreeMap, BTreeSet};

use olm_api::labels;
use olm_api::v1alpha1::{BundleLookup, InstallPlan, Step, StepResource};
use olm_fbc::property::PackageProperty;
use olm_resolver::installed::package_in;

use crate::manifest::Manifest;
use crate::step_kind::StepKind;

/// Returns the package of a ClusterServiceVersion that these steps bring. For a bundle image, its lookup has the package; for a bundle
/// in the catalog itself, the step. `None` if neither has it.
pub(crate) fn package_of(csv: &str, steps: &[Step], lookups: &[BundleLookup]) -> Option<PackageProperty> {
    let mut lookups = lookups.iter().filter(|lookup| lookup.identifier == csv);
    let of_image = lookups.find_map(|lookup| package_in(lookup.properties.as_deref()?));
    let mut resources = csv_steps(steps).filter(|resource| resource.name == csv);
    of_image.or_else(|| resources.find_map(|resource| package_in_step(resource.manifest.as_deref()?)))
}

/// Returns the label for what these steps bring to `namespace`, by ClusterServiceVersion.
pub(crate) fn labels_of(
    steps: &[Step],
    lookups: &[BundleLookup],
    namespace: &str,
) -> BTreeMap<String, String> {
    let of_images = lookups.iter().map(|lookup| lookup.identifier.as_str());
    let csvs: BTreeSet<&str> = of_images
        .chain(csv_steps(steps).map(|resource| resource.name.as_str()))
        .collect();
    let labels = csvs.into_iter().filter_map(|csv| {
        let package = package_of(csv, steps, lookups)?;
        let label = labels::component_label(&package.package_name, namespace)?;
        Some((csv.to_owned(), label))
    });
    labels.collect()
}

/// The labels for what a plan brings.
pub(crate) fn labels_of_plan(plan: &InstallPlan) -> BTreeMap<String, String> {
    let namespace = plan.metadata.namespace.as_deref().unwrap_or_default();
    match &plan.status {
        Some(status) => labels_of(&status.plan, &status.bundle_lookups, namespace),
        None => BTreeMap::new(),
    }
}

fn csv_steps(steps: &[Step]) -> impl Iterator<Item = &StepResource> {
    let resources = steps.iter().map(|step| &step.resource);
    resources.filter(|resource| StepKind::of(&resource.kind) == Some(StepKind::ClusterServiceVersion))
}

fn package_in_step(manifest: &str) -> Option<PackageProperty> {
    match Manifest::parse(manifest).ok()? {
        Manifest::Inline(object) => {
            let annotations = object.pointer("/metadata/annotations")?;
            package_in(annotations.get(labels::PROPERTIES)?.as_str()?)
        }
        Manifest::ConfigMap(reference) => package_in(&reference.properties),
        Manifest::BundleImage(_) => None,
    }
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
