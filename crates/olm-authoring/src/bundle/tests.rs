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

fn read(extra: &[(&str, &str)]) -> Result<BundleContent, Error> {
    BundleContent::read(files(extra))
}

fn message(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

#[test]
fn ocp_001_the_blob_is_derived_from_the_files() {
    let bundle = read(&[("metadata/dependencies.yaml", DEPENDENCIES)]).expect("bundle");
    assert_eq!(
        (
            bundle.package(),
            bundle.annotations[annotations::CHANNELS].as_str()
        ),
        ("demo", "stable, fast")
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
fn csv_011_a_property_in_the_csv_annotation_wins() {
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
            vec![("manifests/demo.csv.yaml", "a: 1\nb: [1\n")],
            "no csv in bundle: none of the 1 manifests is a ClusterServiceVersion; manifests/demo.csv.yaml: ignored: invalid YAML: line 2: unclosed bracket '['",
        ),
        (
            vec![
                (
                    "manifests/x.yaml",
                    "{apiVersion: v1, kind: ConfigMap, metadata: {name: x}, data: {a: b}}",
                ),
                (
                    "manifests/y.yaml",
                    "{apiVersion: v1, kind: ConfigMap, metadata: {name: x}, data: {a: c}}",
                ),
            ],
            "manifests/x.yaml and manifests/y.yaml both contain ConfigMap x with different content",
        ),
        (
            vec![("manifests/demo.crd.yaml", "kind: Service")],
            "error checking provided apis in bundle demo.v1.0.0: couldn't find example.com/v1/Demo (demos) in bundle. found: map[]",
        ),
        (
            vec![("metadata/dependencies.yaml", "dependencies: {a: 1}")],
            "metadata/dependencies.yaml: dependencies must be a list of type and value: found object",
        ),
    ] {
        let error = read(&extra)
            .and_then(|bundle| bundle.to_blob(""))
            .expect_err(expected);
        assert_eq!(message(&error), expected);
    }
}

#[test]
fn ignored_files_are_reported() {
    let bundle = read(&[
        ("manifests/a.yaml", "kind: Service\n---\nkind: Secret"),
        ("manifests/b.yaml", "just text"),
        ("manifests/broken.yaml", "a: ["),
        ("manifests/dependencies.yaml", "dependencies: []"),
        (
            "manifests/x.yaml",
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: x}, data: {a: b}}",
        ),
        (
            "manifests/y.yaml",
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: x, labels: {a: b}}, data: {a: b}}",
        ),
    ])
    .expect("bundle");
    assert_eq!(
        bundle.warnings,
        [
            "manifests/a.yaml: only the first document of the file is used",
            "manifests/b.yaml: ignored: it contains no object with a kind",
            "manifests/broken.yaml: ignored: invalid YAML: line 1: unclosed bracket '['",
            "manifests/dependencies.yaml: ignored: it belongs in metadata/",
        ]
    );
    let paths: Vec<&str> = bundle
        .manifests
        .iter()
        .map(|manifest| manifest.name.as_str())
        .collect();
    assert_eq!(
        paths,
        [
            "manifests/a.yaml",
            "manifests/demo.crd.yaml",
            "manifests/demo.csv.yaml",
            "manifests/x.yaml"
        ]
    );
    assert_eq!(bundle.manifests[3].object["metadata"]["labels"]["a"], "b");
}

/// Returns the properties of the blob without manifests, as JSON lines.
fn properties(extra: &[(&str, &str)]) -> Vec<String> {
    let blob = read(extra)
        .and_then(|bundle| bundle.to_blob(""))
        .unwrap_or_else(|error| panic!("{}", message(&error)));
    let properties = blob.properties.iter();
    properties
        .filter(|property| property.kind != "olm.bundle.object")
        .map(|property| format!("{} {}", property.kind, property.value))
        .collect()
}

#[test]
fn given_properties_are_brought_into_their_form() {
    let given = "Properties:\n- {Type: foo, Value: 1, more: 2}\n- {type: foo, value: 1}\n- {type: 7, value: x}\n\
        - {type: olm.gvk, value: {Group: a.b, kind: C, version: v1, more: 2}}\n\
        - {type: olm.gvk, value: {group: example.com, kind: Demo, version: v1}}\n";
    let found = properties(&[("metadata/properties.yaml", given)]);
    let with = |kind: &str| -> Vec<&str> {
        let start = format!("{kind} ");
        found
            .iter()
            .filter_map(|line| line.strip_prefix(start.as_str()))
            .collect()
    };
    assert_eq!(with("foo"), ["1"]);
    assert_eq!(with("7"), ["\"x\""]);
    assert_eq!(
        with("olm.gvk"),
        [
            r#"{"group":"a.b","kind":"C","version":"v1"}"#,
            r#"{"group":"example.com","kind":"Demo","version":"v1"}"#,
            r#"{"group":"example.com","kind":"Demo","version":"v1beta1"}"#,
        ]
    );
    // A repeated requirement is kept twice, as upstream does.
    let twice = "dependencies:\n- {type: foo, value: 1}\n- {type: foo, value: 1}\n";
    assert_eq!(
        properties(&[("metadata/dependencies.yaml", twice)])[..2],
        ["foo 1", "foo 1"]
    );
    let error = read(&[(
        "metadata/dependencies.yaml",
        "dependencies: [{type: olm.package}]",
    )])
    .and_then(|bundle| bundle.to_blob(""))
    .expect_err("no value");
    assert_eq!(
        error.to_string(),
        "metadata/: dependency of type \"olm.package\": it has no value"
    );
}

#[test]
fn metadata_is_found_under_any_name() {
    let without = ("metadata/annotations.yaml", "a: 1");
    for (name, text) in [
        ("metadata/.annotations.yaml", ANNOTATIONS.to_owned()),
        (
            "metadata/x.txt",
            ANNOTATIONS.replace("annotations:", "Annotations:"),
        ),
    ] {
        let bundle =
            read(&[without, (name, &text)]).unwrap_or_else(|error| panic!("{name}: {}", message(&error)));
        assert_eq!(bundle.package(), "demo", "{name}");
    }
    let foreign = format!("{ANNOTATIONS}  example.com/more: {{a: b}}\n");
    let bundle = read(&[("metadata/annotations.yaml", &foreign)]).expect("bundle");
    assert!(
        bundle.warnings[0].contains("example.com/more\" is ignored"),
        "{:?}",
        bundle.warnings
    );
}

#[test]
fn what_would_be_left_out_silently_is_refused() {
    let csv = |from: &str, to: &str| {
        let changed = CSV.replace(from, to);
        assert_ne!(changed, CSV, "{from}");
        changed
    };
    let related = "- {name: side, image: quay.io/x/side:1}";
    let annotation = r#""type": "olm.maxOpenShiftVersion", "value": "4.8""#;
    for (text, expected) in [
        (
            csv(related, "- side"),
            "spec.relatedImages[0] must be name and image, found string",
        ),
        (
            csv(related, "- {name: 1, image: a}"),
            "spec.relatedImages[0].name must be text, found number",
        ),
        (
            csv(&format!("relatedImages:\n  {related}"), "relatedImages: x"),
            "spec.relatedImages must be a list, found string",
        ),
        (
            csv("{image: quay.io/x/demo:1}", "{image: 1}"),
            "image of a container must be text, found number",
        ),
        (
            csv("    required:", "    owned: {}\n    required:"),
            "spec.customresourcedefinitions.owned must be a list, found object",
        ),
        (
            csv("kind: Other", "kind: 1"),
            "spec.customresourcedefinitions.required[0].kind must be text, found number",
        ),
        (
            csv("annotations:\n", "annotations:\n    a: yes\n"),
            "metadata.annotations \"a\" must be text, found bool",
        ),
        (
            csv(annotation, r#""type": "olm.gvk", "value": 1"#),
            "property of type \"olm.gvk\": expected an object, found number",
        ),
        (
            csv(annotation, r#""type": "olm.package", "value": 1"#),
            "property of type \"olm.package\": expected an object, found number",
        ),
    ] {
        let error = read(&[("manifests/demo.csv.yaml", &text)])
            .and_then(|bundle| bundle.to_blob(""))
            .expect_err(expected);
        assert!(
            message(&error).ends_with(expected),
            "expected {expected}\nfound {}",
            message(&error)
        );
    }
}

#[test]
fn owned_apis_are_those_of_a_definition() {
    let crd = |from: &str, to: &str| {
        let text = CRD.replace(from, to);
        read(&[("manifests/demo.crd.yaml", &text)]).and_then(|bundle| bundle.to_blob(""))
    };
    let error = crd("plural: demos", "plural: others").expect_err("another resource");
    assert_eq!(
        error.to_string(),
        "error checking provided apis in bundle demo.v1.0.0: couldn't find example.com/v1/Demo (demos) in bundle. \
         found: map[example.com/v1/Demo (others):{} example.com/v1beta1/Demo (others):{}]"
    );
    let error = crd("apiextensions.k8s.io/v1", "apiextensions.k8s.io/v2").expect_err("unknown version");
    assert!(error.to_string().ends_with("found: map[]"), "{error}");
    assert!(crd("apiextensions.k8s.io/v1", "apiextensions.k8s.io/v1beta1").is_ok());
}

/// Channel names often look like numbers.
#[test]
fn annotations_without_quotes_are_taken_as_they_are_written() {
    let annotations = "annotations:\n  operators.operatorframework.io.bundle.package.v1: demo\n  \
                       operators.operatorframework.io.bundle.channels.v1: 4.20\n  \
                       operators.operatorframework.io.bundle.channel.default.v1: 4.20 # the newest\n  other: 010\n";
    let bundle = read(&[("metadata/annotations.yaml", annotations)]).unwrap();
    assert_eq!(bundle.annotations[annotations::CHANNELS], "4.20");
    assert_eq!(bundle.annotations[annotations::DEFAULT_CHANNEL], "4.20");
    assert_eq!(bundle.annotations["other"], "010");
}

/// Ignored data is named.
#[test]
fn unreadable_ranges_and_second_documents_are_warnings() {
    let with_range = |range: &str| {
        CSV.replace(
            "  annotations:\n",
            &format!("  annotations:\n    olm.skipRange: '{range}'\n"),
        )
    };
    let warnings = |csv: &str| read(&[("manifests/demo.csv.yaml", csv)]).unwrap().warnings;
    for (range, form) in [
        ("<v2.9.0", "write \"<2.9.0\""),
        (">=v1.0.0 <v2.0.0", "write \">=1.0.0 <2.0.0\""),
        ("newer", "a range is written as in \">=1.0.0 <1.2.0\""),
    ] {
        let found = warnings(&with_range(range));
        let [warning] = &found[..] else {
            panic!("one warning: {found:?}")
        };
        let start = format!(
            "manifests/demo.csv.yaml: annotation olm.skipRange {range:?} is ignored, because it is not a version range ("
        );
        assert!(
            warning.starts_with(&start) && warning.ends_with(form),
            "{warning}"
        );
    }
    assert_eq!(warnings(&with_range("<2.9.0")), [""; 0]);
    assert_eq!(warnings(&with_range("")), [""; 0]);
    assert_eq!(
        warnings(&format!("{CSV}---\nkind: Service\n")),
        ["manifests/demo.csv.yaml: only the first document of the file is used"]
    );
}
