//! Properties and dependencies of a bundle.

use olm_authoring::bundle::BundleContent;
use olm_fbc::property::{Typed, kinds};
use olm_fbc::schema::Bundle;
use serde_json::json;

const CSV: &str = "apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata: {name: p.v1}
spec: {version: 1.0.0}
";
const ANNOTATIONS: &str = "annotations: {operators.operatorframework.io.bundle.package.v1: p}\n";

fn bundle_of(metadata: &[(&str, &str)]) -> Result<Bundle, String> {
    let mut files = vec![
        ("manifests/csv.yaml", CSV),
        ("metadata/annotations.yaml", ANNOTATIONS),
    ];
    files.extend(metadata);
    BundleContent::read(files)
        .and_then(|content| content.to_blob(""))
        .map_err(|error| error.to_string())
}

#[test]
fn dep_006_properties_of_the_bundle_are_carried_unchanged() {
    let text = "properties:\n- type: olm.kubeversion\n  value:\n    version: \"1.16.0\"\n";
    let bundle = bundle_of(&[("metadata/properties.yaml", text)]).expect("bundle");
    let found = bundle
        .properties
        .iter()
        .find(|property| property.kind == "olm.kubeversion")
        .expect("property");
    assert_eq!(found.value, json!({"version": "1.16.0"}));
}

#[test]
fn dep_007_properties_are_type_and_value_wrapped_in_property_or_not() {
    let plain = "properties:\n- {type: t, value: {a: 1}}\n";
    let wrapped = "properties:\n- property: {type: t, value: {a: 1}}\n";
    for text in [plain, wrapped] {
        let bundle = bundle_of(&[("metadata/properties.yaml", text)]).expect("bundle");
        let found = bundle.properties.iter().find(|property| property.kind == "t");
        assert_eq!(found.expect(text).value, json!({"a": 1}), "{text}");
    }
    let error = bundle_of(&[("metadata/properties.yaml", "properties:\n- x\n")]).expect_err("no property");
    assert!(error.contains("metadata/properties.yaml"), "{error}");
}

#[test]
fn dep_009_dependencies_are_optional() {
    let bundle = bundle_of(&[]).expect("bundle");
    assert!(
        bundle
            .properties
            .iter()
            .all(|property| property.kind != kinds::PACKAGE_REQUIRED)
    );
}

#[test]
fn dep_010_dependencies_are_packages_apis_and_constraints() {
    let text = "dependencies:
- {type: olm.package, value: {packageName: q, version: '>=1.0.0'}}
- {type: olm.gvk, value: {group: g, kind: K, version: v1}}
- {type: olm.constraint, value: {failureMessage: m, cel: {rule: 'true'}}}
";
    let bundle = bundle_of(&[("metadata/dependencies.yaml", text)]).expect("bundle");
    let typed: Vec<Typed> = bundle
        .properties
        .iter()
        .map(|property| property.parse().expect("typed"))
        .collect();
    assert!(
        typed
            .iter()
            .any(|found| matches!(found, Typed::PackageRequired(required)
        if required.package_name == "q" && required.version_range == ">=1.0.0"))
    );
    assert!(
        typed
            .iter()
            .any(|found| matches!(found, Typed::GvkRequired(gvk) if gvk.kind == "K"))
    );
    assert!(
        typed
            .iter()
            .any(|found| matches!(found, Typed::Constraint(value) if value["cel"]["rule"] == "true"))
    );
}
