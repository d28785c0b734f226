use serde_json::json;

use super::*;

const CSV: &str = r#"
apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata:
  name: demo.v1.0.0
  annotations:
    olm.properties: '[{"type": "olm.maxOpenShiftVersion", "value": "4.8"}]'
spec:
  version: 1.0.0
  relatedImages:
  - {name: side, image: quay.io/x/side:1}
  customresourcedefinitions:
    owned:
    - {name: demos.example.com, version: v1, kind: Demo}
    required:
    - {name: others.example.org, version: v1, kind: Other}
  install:
    strategy: deployment
    spec:
      deployments:
      - name: demo
        spec: {template: {spec: {initContainers: [{image: quay.io/x/init:1}], containers: [{image: quay.io/x/demo:1}, {image: quay.io/x/side:1}]}}}
"#;
const CRD: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: demos.example.com}
spec: {group: example.com, names: {kind: Demo, plural: demos}, versions: [{name: v1}, {name: v1beta1}]}
"#;
const ANNOTATIONS: &str = "annotations:\n  operators.operatorframework.io.bundle.package.v1: demo\n  operators.operatorframework.io.bundle.channels.v1: stable, fast\n";
const DEPENDENCIES: &str = "dependencies:\n- {type: olm.package, value: {packageName: base, version: '>1.0.0'}}\n- {type: olm.gvk, value: {group: a.b, kind: C, version: v1}}\n- {type: olm.constraint, value: {failureMessage: x}}\n";

fn files<'a>(extra: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let mut files = vec![
        ("metadata/annotations.yaml", ANNOTATIONS),
        ("manifests/demo.csv.yaml", CSV),
        ("./manifests/demo.crd.yaml", CRD),
        ("bundle.Dockerfile", "FROM scratch"),
        ("manifests/.hidden.yaml", "["),
        ("manifests/deeper/x.yaml", "["),
    ];
    for (path, content) in extra {
        files.retain(|(known, _)| known.trim_start_matches("./") != *path);
        files.push((path, content));
    }
    files
}

fn read(extra: &[(&str, &str)]) -> Result<BundleContent, BundleError> {
    BundleContent::read(files(extra))
}

fn message(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

#[test]
fn the_blob_is_derived_from_the_files() {
    let bundle = read(&[("metadata/dependencies.yaml", DEPENDENCIES)]).expect("bundle");
    assert_eq!(
        (bundle.package(), bundle.channels()),
        ("demo", vec!["stable", "fast"])
    );
    let mut blob = bundle.to_blob("quay.io/x/bundle:1").expect("blob");
    let objects = blob.properties.split_off(8);
    assert_eq!(objects.len(), 2);
    assert!(
        objects
            .iter()
            .all(|property| property.kind == "olm.bundle.object")
    );
    insta::assert_snapshot!(serde_json::to_string_pretty(&blob).expect("text"), @r#"
    {
      "schema": "olm.bundle",
      "name": "demo.v1.0.0",
      "package": "demo",
      "image": "quay.io/x/bundle:1",
      "properties": [
        {
          "type": "olm.constraint",
          "value": {
            "failureMessage": "x"
          }
        },
        {
          "type": "olm.gvk",
          "value": {
            "group": "example.com",
            "kind": "Demo",
            "version": "v1"
          }
        },
        {
          "type": "olm.gvk",
          "value": {
            "group": "example.com",
            "kind": "Demo",
            "version": "v1beta1"
          }
        },
        {
          "type": "olm.gvk.required",
          "value": {
            "group": "a.b",
            "kind": "C",
            "version": "v1"
          }
        },
        {
          "type": "olm.gvk.required",
          "value": {
            "group": "example.org",
            "kind": "Other",
            "version": "v1"
          }
        },
        {
          "type": "olm.maxOpenShiftVersion",
          "value": "4.8"
        },
        {
          "type": "olm.package",
          "value": {
            "packageName": "demo",
            "version": "1.0.0"
          }
        },
        {
          "type": "olm.package.required",
          "value": {
            "packageName": "base",
            "versionRange": ">1.0.0"
          }
        }
      ],
      "relatedImages": [
        {
          "name": "",
          "image": "quay.io/x/bundle:1"
        },
        {
          "name": "",
          "image": "quay.io/x/demo:1"
        },
        {
          "name": "",
          "image": "quay.io/x/init:1"
        },
        {
          "name": "side",
          "image": "quay.io/x/side:1"
        }
      ]
    }
    "#);
}

#[test]
fn a_package_dependency_becomes_a_requirement() {
    let bundle = read(&[("metadata/dependencies.yaml", DEPENDENCIES)]).expect("bundle");
    let blob = bundle.to_blob("").expect("blob");
    assert!(
        blob.properties
            .iter()
            .any(|property| property.kind == "olm.package.required"
                && property.value == json!({"packageName": "base", "versionRange": ">1.0.0"}))
    );
    assert_eq!(blob.image, "");
    assert_eq!(blob.related_images.len(), 3);
}

#[test]
fn a_property_in_the_csv_annotation_wins() {
    let csv = CSV.replace(
        r#""olm.maxOpenShiftVersion", "value": "4.8""#,
        r#""olm.package", "value": {"packageName": "q", "version": "9.0.0"}"#,
    );
    let blob = read(&[("manifests/demo.csv.yaml", &csv)])
        .and_then(|bundle| bundle.to_blob(""))
        .expect("blob");
    let packages: Vec<_> = blob
        .properties
        .iter()
        .filter(|property| property.kind == "olm.package")
        .collect();
    assert_eq!(packages.len(), 1);
    assert_eq!(packages[0].value, json!({"packageName": "q", "version": "9.0.0"}));
    let broken = CSV.replace("'[{", "'[");
    assert!(
        read(&[("manifests/demo.csv.yaml", &broken)])
            .and_then(|bundle| bundle.to_blob(""))
            .is_ok()
    );
}

#[test]
fn broken_bundles_are_explained() {
    let none: Vec<(&str, &str)> = vec![("metadata/annotations.yaml", ANNOTATIONS)];
    assert_eq!(
        BundleContent::read(none).expect_err("no manifests").to_string(),
        "no bundle objects found in manifests/"
    );
    for (extra, expected) in [
        (
            vec![("manifests/demo.csv.yaml", "kind: Service\nmetadata: {name: a}")],
            "no csv in bundle: none of the 2 manifests is a ClusterServiceVersion",
        ),
        (
            vec![(
                "manifests/other.yaml",
                "kind: ClusterServiceVersion\nmetadata: {name: a}",
            )],
            "bundle has more than one ClusterServiceVersion: manifests/demo.csv.yaml, manifests/other.yaml",
        ),
        (
            vec![("metadata/annotations.yaml", "a: 1")],
            "Could not find annotations file in metadata/",
        ),
        (
            vec![("manifests/broken.yaml", "a: 1\nb: [1\n")],
            "read manifests/broken.yaml: invalid YAML: line 2: unclosed bracket '['",
        ),
        (
            vec![("manifests/demo.crd.yaml", "kind: Service")],
            "error checking provided apis in bundle demo.v1.0.0: couldn't find Demo.v1.example.com in bundle. found: ",
        ),
        (
            vec![("metadata/dependencies.yaml", "dependencies: {a: 1}")],
            "metadata/dependencies.yaml: dependencies must be a list of type and value: invalid type: map, expected a sequence",
        ),
    ] {
        let error = read(&extra)
            .and_then(|bundle| bundle.to_blob(""))
            .expect_err(expected);
        assert_eq!(message(&error), expected);
    }
}

#[test]
fn what_is_ignored_is_said() {
    let bundle = read(&[
        ("manifests/a.yaml", "kind: Service\n---\nkind: Secret"),
        ("manifests/b.yaml", "just text"),
    ])
    .expect("bundle");
    assert_eq!(
        bundle.warnings,
        [
            "manifests/a.yaml: only the first document of the file is used",
            "manifests/b.yaml: ignored, as it holds no object with a kind"
        ]
    );
    assert_eq!(bundle.manifests.len(), 3);
}
