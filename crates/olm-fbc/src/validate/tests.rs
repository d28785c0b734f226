use serde_json::{Value, json};

use super::*;

mod hints;

fn bundle(name: &str, version: &str) -> Value {
    json!({"schema": "olm.bundle", "name": name, "package": "p", "image": "quay.io/x/p:1",
           "properties": [{"type": "olm.package", "value": {"packageName": "p", "version": version}}]})
}

fn base() -> Vec<Value> {
    vec![
        json!({"schema": "olm.package", "name": "p", "defaultChannel": "c"}),
        json!({"schema": "olm.channel", "package": "p", "name": "c", "entries": [{"name": "p.v2", "replaces": "p.v1"}, {"name": "p.v1"}]}),
        bundle("p.v1", "1.0.0"),
        bundle("p.v2", "2.0.0"),
    ]
}

fn check(blobs: Vec<Value>) -> Result<Model, Faults> {
    let mut checker = Checker::default();
    for (index, value) in blobs.into_iter().enumerate() {
        let origin = Origin {
            file: "f".into(),
            document: index + 1,
        };
        checker.add(&Blob::from_value(value).expect("blob"), &origin);
    }
    checker.finish()
}

/// Returns the faults of the base catalog after `change`, one per line.
fn faults(change: impl FnOnce(&mut Vec<Value>)) -> String {
    let mut blobs = base();
    change(&mut blobs);
    match check(blobs) {
        Ok(_) => String::new(),
        Err(faults) => faults
            .iter()
            .map(|fault| {
                let mut line = fault.path.join(" / ");
                if !line.is_empty() {
                    line.push_str(": ");
                }
                line + &fault.to_string()
            })
            .collect::<Vec<_>>()
            .join("\n"),
    }
}

#[test]
fn a_good_catalog_becomes_a_model() {
    let model = check(base()).expect("model");
    let package = &model.packages["p"];
    assert_eq!(package.channels["c"].entries.len(), 2);
    assert_eq!(
        package.bundles["p.v2"]
            .version
            .as_ref()
            .map(ToString::to_string)
            .as_deref(),
        Some("2.0.0")
    );
}

/// One changed catalog per rule, with the expected fault.
#[test]
fn rules() {
    let deprecations =
        |entries: Value| json!({"schema": "olm.deprecations", "package": "p", "entries": entries});
    type Change = Box<dyn FnOnce(&mut Vec<Value>)>;
    let cases: Vec<(Change, &str)> = vec![
        (
            Box::new(|b| b[0]["name"] = json!("")),
            "config contains package with no name (f, document 1)",
        ),
        (
            Box::new(|b| b.push(b[0].clone())),
            "duplicate package \"p\" (f, document 5)",
        ),
        (
            Box::new(|b| b.push(json!({"schema": "olm.package", "name": "foo.bar", "defaultChannel": "c"}))),
            "invalid package name \"foo.bar\": [must not contain dots] (f, document 5)",
        ),
        (
            Box::new(|b| b[1]["package"] = json!("q")),
            "unknown package \"q\" for channel \"c\" (f, document 2)",
        ),
        (
            Box::new(|b| b.push(json!({"schema": "olm.channel", "package": "p", "entries": []}))),
            "package \"p\" contains channel with no name (f, document 5)",
        ),
        (
            Box::new(|b| b.push(b[1].clone())),
            "package \"p\" has duplicate channel \"c\" (f, document 5)",
        ),
        (
            Box::new(|b| {
                b[1]["entries"] =
                    json!([{"name": "p.v2", "replaces": "p.v1"}, {"name": "p.v1"}, {"name": "p.v1"}]);
            }),
            "invalid package \"p\", channel \"c\": duplicate entry \"p.v1\" (f, document 2)",
        ),
        (
            Box::new(|b| b.push(json!({"schema": "olm.bundle", "name": "x", "image": "i"}))),
            "package name must be set for bundle \"x\" (f, document 5)",
        ),
        (
            Box::new(|b| b.push(json!({"schema": "olm.bundle", "name": "x", "package": "q", "image": "i"}))),
            "unknown package \"q\" for bundle \"x\" (f, document 5)",
        ),
        (
            Box::new(|b| b.push(b[2].clone())),
            "package \"p\" has duplicate bundle \"p.v1\" (f, document 5)",
        ),
        (
            Box::new(|b| {
                b[2]["properties"]
                    .as_array_mut()
                    .expect("list")
                    .push(json!({"type": "olm.gvk", "value": 1}));
            }),
            "parse properties for bundle \"p.v1\": parse property[1] of type \"olm.gvk\": expected an object, found number (f, document 3)",
        ),
        (
            Box::new(|b| b[2]["properties"] = json!([])),
            "package \"p\" bundle \"p.v1\" must have exactly 1 \"olm.package\" property, found 0 (f, document 3)",
        ),
        (
            Box::new(|b| b[2]["properties"][0]["value"]["packageName"] = json!("q")),
            "package \"p\" does not match \"olm.package\" property \"q\" (f, document 3)",
        ),
        (
            Box::new(|b| b[2]["image"] = json!("quay.io/X")),
            "package \"p\" bundle \"p.v1\" image: invalid image pull spec \"quay.io/X\": invalid reference format: repository name must be lowercase (f, document 3)",
        ),
        (
            Box::new(|b| b[2]["relatedImages"] = json!([{"image": ""}, {"image": "a@@b"}])),
            "package \"p\" bundle \"p.v1\" relatedImages[1].image: invalid image pull spec \"a@@b\": invalid reference format (f, document 3)",
        ),
        (
            Box::new(|b| b[2]["properties"][0]["value"]["version"] = json!("v1")),
            "error parsing bundle \"p.v1\" version \"v1\": No Major.Minor.Patch elements found (f, document 3)",
        ),
        (
            Box::new(|b| b[2]["properties"][0]["value"]["release"] = json!("01")),
            "error parsing bundle \"p.v1\" release version \"01\": invalid release \"01\": segment 0: Numeric PreRelease version must not contain leading zeroes \"01\" (f, document 3)",
        ),
        (
            Box::new(|b| b.push(bundle("p.v3", "3.0.0"))),
            "package \"p\", bundle \"p.v3\" not found in any channel entries (f, document 5)",
        ),
        (
            Box::new(
                |b| b[1]["entries"] = json!([{"name": "p.v3", "replaces": "p.v2"}, {"name": "p.v2", "replaces": "p.v1"}, {"name": "p.v1"}]),
            ),
            "no olm.bundle blobs found in package \"p\" for olm.channel entries [p.v3] of channel \"c\" (f, document 2)",
        ),
        (
            Box::new(|b| {
                b[2]["properties"]
                    .as_array_mut()
                    .expect("list")
                    .push(json!({"type": "olm.bundle.object", "value": {"data": "%"}}));
            }),
            "read bundle objects: package \"p\", bundle \"p.v1\": parse property at index 1 as bundle object: illegal base64 data at input byte 0 (f, document 3)",
        ),
        (
            Box::new(|b| b.push(json!({"schema": "olm.deprecations"}))),
            "package name must be set for deprecation item 0 (f, document 5)",
        ),
        (
            Box::new(|b| b.push(json!({"schema": "olm.deprecations", "package": "q"}))),
            "cannot apply deprecations to an unknown package \"q\" (f, document 5)",
        ),
        (
            Box::new(move |b| b.extend([deprecations(json!([])), deprecations(json!([]))])),
            "expected a maximum of one deprecation per package: \"p\" (f, document 6)",
        ),
        (
            Box::new(move |b| {
                b.push(deprecations(
                    json!([{"reference": {"name": "x"}, "message": "m"}]),
                ));
            }),
            "schema must be set for deprecation entry [0] for package \"p\" (f, document 5)",
        ),
        (
            Box::new(move |b| {
                b.push(deprecations(json!([
                    {"reference": {"schema": "olm.package"}, "message": "m"}, {"reference": {"schema": "olm.package"}, "message": "m"}
                ])));
            }),
            "duplicate deprecation entry declcfg.PackageScopedReference{Schema:\"olm.package\", Name:\"\"} for package \"p\" (f, document 5): olm.package is deprecated twice",
        ),
        (
            Box::new(move |b| {
                b.push(deprecations(
                    json!([{"reference": {"schema": "olm.bundle", "name": "x"}, "message": "m"}]),
                ));
            }),
            "cannot deprecate bundle \"x\" for package \"p\": bundle not found (f, document 5)",
        ),
        (
            Box::new(move |b| {
                b.push(deprecations(
                    json!([{"reference": {"schema": "olm.channel", "name": "x"}, "message": "m"}]),
                ));
            }),
            "cannot deprecate channel \"x\" for package \"p\": channel not found (f, document 5)",
        ),
        (
            Box::new(move |b| {
                b.push(deprecations(
                    json!([{"reference": {"schema": "olm.package", "name": "p"}, "message": "m"}]),
                ));
            }),
            "package name must be empty for deprecated package \"p\" (specified \"p\") (f, document 5)",
        ),
        (
            Box::new(move |b| {
                b.push(deprecations(
                    json!([{"reference": {"schema": "x", "name": "y"}, "message": "m"}]),
                ));
            }),
            "cannot deprecate object declcfg.PackageScopedReference{Schema:\"x\", Name:\"y\"} referenced by entry 0 for package \"p\": object schema unknown (f, document 5): reference.schema \"x\" is not one of olm.package, olm.channel, olm.bundle",
        ),
        // Faults of the model.
        (
            Box::new(|b| b[0]["defaultChannel"] = json!("")),
            "invalid package \"p\": default channel must be set (f, document 1): the package has channel \"c\"",
        ),
        (
            Box::new(|b| b[0]["defaultChannel"] = json!("d")),
            "invalid package \"p\" / invalid channel \"d\": channel must contain at least one bundle: it is the default channel but not defined (f, document 1): the package has channel \"c\"",
        ),
        (
            Box::new(|b| {
                b.push(json!({"schema": "olm.channel", "package": "p", "name": "e", "entries": []}));
            }),
            "invalid package \"p\" / invalid channel \"e\": channel must contain at least one bundle (f, document 5)",
        ),
        (
            Box::new(|b| b[3]["properties"][0]["value"]["version"] = json!("1.0.0")),
            "invalid package \"p\": duplicate versions found in bundles: [{1.0.0: [p.v1, p.v2]}] (f, document 1)",
        ),
        (
            Box::new(|b| b[3]["properties"][0]["value"]["version"] = json!("1.0.0+a")),
            "",
        ),
        (
            Box::new(|b| b[1]["entries"][0]["replaces"] = json!("")),
            "invalid package \"p\" / invalid channel \"c\": multiple channel heads found in graph: p.v1, p.v2 (f, document 2)",
        ),
        (
            Box::new(|b| b[1]["entries"][0]["skips"] = json!(["", "p.v1"])),
            "invalid package \"p\" / invalid channel \"c\" / invalid bundle \"p.v2\": skip[0] is empty (f, document 2)",
        ),
        (
            Box::new(|b| b[1]["entries"][0]["skipRange"] = json!("<v1.0.0")),
            "invalid package \"p\" / invalid channel \"c\" / invalid bundle \"p.v2\": invalid skipRange \"<v1.0.0\": Could not parse Range \"<v1.0.0\": Could not parse comparator \"<v\" in \"<v1.0.0\" (f, document 2): a range is written as in \">=1.0.0 <1.2.0\"",
        ),
        (
            Box::new(|b| b[2]["image"] = json!("")),
            "invalid package \"p\" / invalid channel \"c\" / invalid bundle \"p.v1\": bundle image must be set (f, document 3)",
        ),
        (
            Box::new(|b| {
                b[2]["image"] = json!("");
                b[2]["properties"]
                    .as_array_mut()
                    .expect("list")
                    .push(json!({"type": "olm.bundle.object", "value": {"data": "e30="}}));
            }),
            "",
        ),
        (
            Box::new(|b| {
                let properties = b[2]["properties"].as_array_mut().expect("list");
                properties.push(json!({"type": "olm.label", "value": 1}));
                properties.push(json!({"type": "olm.label.required", "value": []}));
                properties.push(json!({"type": "olm.constraint", "value": "x"}));
            }),
            "",
        ),
        (
            Box::new(|b| b[2]["properties"][0]["value"]["release"] = json!("alpha.1")),
            "invalid package \"p\" / invalid channel \"c\" / invalid bundle \"p.v1\": name \"p.v1\" does not match normalized name \"p-v1.0.0-alpha.1\" (f, document 3)",
        ),
        (
            Box::new(move |b| {
                b.push(deprecations(
                    json!([{"reference": {"schema": "olm.bundle", "name": "p.v1"}}]),
                ));
            }),
            "invalid package \"p\" / invalid channel \"c\" / invalid bundle \"p.v1\": invalid deprecation: message must be set (f, document 5)",
        ),
    ];
    for (change, expected) in cases {
        let found = faults(change);
        if expected.is_empty() {
            assert_eq!(found, "");
            continue;
        }
        // A fault may cause others; the expected one must be among them.
        assert!(
            found.lines().any(|line| line == expected),
            "expected {expected}\nfound {found}"
        );
    }
}

#[test]
fn all_faults_are_reported_at_once() {
    let mut blobs = base();
    blobs[0]["defaultChannel"] = json!("");
    blobs[1]["entries"][0]["skipRange"] = json!("x");
    blobs[1]["entries"][1]["replaces"] = json!("p.v2");
    blobs[2]["image"] = json!("");
    blobs[3]["properties"][0]["value"]["version"] = json!("2");
    insta::assert_snapshot!(check(blobs).expect_err("faults").to_string(), @r#"
    error parsing bundle "p.v2" version "2": No Major.Minor.Patch elements found (f, document 4)
    invalid index:
    └── invalid package "p":
        ├── default channel must be set (f, document 1): the package has channel "c"
        └── invalid channel "c":
            ├── no channel head found in graph (f, document 2)
            ├── invalid bundle "p.v2":
            │   └── invalid skipRange "x": Last element in range is '||' (f, document 2): a range is written as in ">=1.0.0 <1.2.0"
            └── invalid bundle "p.v1":
                └── bundle image must be set (f, document 3)
    "#);
}

/// Faults of every phase, over several files: all are reported, always in the same order, and each names its document.
#[test]
fn faults_of_all_phases_are_reported_with_their_place() {
    let dir = tempfile::tempdir().expect("folder");
    let write = |name: &str, text: String| std::fs::write(dir.path().join(name), text).expect("file");
    let lines = |blobs: &[Value]| blobs.iter().map(|blob| format!("{blob}\n")).collect::<String>();
    write(
        "a-package.json",
        lines(&[
            json!({"schema": "olm.package", "name": "p", "defaultChannel": "nowhere"}),
            json!({"schema": "olm.package", "name": "q.r", "defaultChannel": ""}),
            json!({"name": "no schema"}),
        ]),
    );
    write("b-channels.yaml", "schema: olm.channel\nname: c\npackage: p\nentries:\n- name: p.v1\n  replaces: p.v2\n- name: p.v2\n  replaces: p.v1\n- name: p.v3\n---\nschema: olm.channel\nname: [c]\npackage: p\n---\nschema: olm.channel\nname: d\npackage: s\n".to_owned());
    let mut broken = bundle("p.v2", "1.0.0");
    broken["image"] = json!("No Image");
    broken["properties"][0]["value"]["packageName"] = json!("other");
    write(
        "c-bundles.json",
        lines(&[
            bundle("p.v1", "1.0.0"),
            broken,
            bundle("p.v1", "x"),
            bundle("p.v9", "9.0.0"),
        ]),
    );
    write("d-broken.yaml", "schema: custom\na: [1\n".to_owned());
    write(
        "e-deprecations.json",
        lines(&[
            json!({"schema": "olm.deprecations", "package": "p", "entries": [
                {"reference": {"schema": "olm.bundle", "name": "p.v7"}, "message": "m"},
                {"reference": {"schema": "olm.channel", "name": "c"}, "message": ""},
                {"reference": {"schema": "olm.package"}, "message": ""},
            ]}),
            json!({"schema": "olm.deprecations", "package": "z", "entries": []}),
        ]),
    );
    let faults = validate(dir.path()).expect_err("faults");
    insta::assert_snapshot!(faults.to_string(), @r#"
    object '{"name":"no schema"}' is missing root schema field (a-package.json, document 3)
    expected value for key "name" to be a string, got array (b-channels.yaml, document 2)
    invalid YAML: line 2: unclosed bracket '[' (d-broken.yaml, document 1)
    invalid package name "q.r": [must not contain dots] (a-package.json, document 2)
    unknown package "s" for channel "d" (b-channels.yaml, document 3)
    package "p" does not match "olm.package" property "other" (c-bundles.json, document 2)
    package "p" bundle "p.v2" image: invalid image pull spec "No Image": invalid reference format (c-bundles.json, document 2)
    package "p" has duplicate bundle "p.v1" (c-bundles.json, document 3)
    error parsing bundle "p.v1" version "x": No Major.Minor.Patch elements found (c-bundles.json, document 3)
    package "p", bundle "p.v9" not found in any channel entries (c-bundles.json, document 4)
    no olm.bundle blobs found in package "p" for olm.channel entries [p.v3] of channel "c" (b-channels.yaml, document 1): by "p.v3", did you mean "p.v9"?
    cannot deprecate bundle "p.v7" for package "p": bundle not found (e-deprecations.json, document 1): did you mean "p.v1"?
    cannot apply deprecations to an unknown package "z" (e-deprecations.json, document 2)
    invalid index:
    ├── invalid package "p":
    │   ├── duplicate versions found in bundles: [{1.0.0: [p.v1, p.v2]}] (a-package.json, document 1)
    │   ├── invalid deprecation: message must be set (e-deprecations.json, document 1)
    │   ├── invalid channel "c":
    │   │   ├── channel contains one or more stranded bundles: p.v1, p.v2 (b-channels.yaml, document 1)
    │   │   └── invalid deprecation: message must be set (e-deprecations.json, document 1)
    │   └── invalid channel "nowhere":
    │       └── channel must contain at least one bundle: it is the default channel but not defined (a-package.json, document 1): the package has channel "c"
    └── invalid package "q.r":
        ├── default channel must be set (a-package.json, document 2)
        └── package must contain at least one channel (a-package.json, document 2)
    "#);
    assert_eq!(validate(dir.path()).expect_err("faults"), faults);
    for fault in faults.iter() {
        assert!(fault.origin.is_some(), "{fault} has no place");
    }
}
