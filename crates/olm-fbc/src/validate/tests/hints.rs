//! Suggestions in faults, printed after upstream's text and the origin.

use super::*;

/// Returns the line that begins with `start`, without the tree in front.
fn line(faults: &str, start: &str) -> String {
    let lines = faults
        .lines()
        .map(|line| line.trim_start_matches(['│', '├', '└', '─', ' ']));
    let found: Vec<&str> = lines.filter(|line| line.starts_with(start)).collect();
    assert_eq!(found.len(), 1, "{start}: {faults}");
    found[0].to_owned()
}

/// Returns packages with similar names; only `prometheus` is complete.
fn long_names() -> Vec<Value> {
    let text = serde_json::to_string(&base()).expect("JSON");
    let text = text
        .replace("\"p\"", "\"prometheus\"")
        .replace("\"c\"", "\"stable\"");
    serde_json::from_str(&text).expect("JSON")
}

fn told(change: impl FnOnce(&mut Vec<Value>)) -> String {
    let mut blobs = long_names();
    change(&mut blobs);
    check(blobs).expect_err("faults").to_string()
}

#[test]
fn unknown_packages_and_channels_name_the_nearest() {
    let faults = told(|blobs| {
        blobs.push(json!({"schema": "olm.channel", "package": "promethues", "name": "beta", "entries": []}));
        let mut stray = bundle("p.v3", "3.0.0");
        stray["package"] = json!("prometeus");
        blobs.push(stray);
        blobs.push(json!({"schema": "olm.deprecations", "package": "Prometheus"}));
    });
    for (start, hint) in [
        (
            "unknown package \"promethues\" for channel \"beta\" (f, document 5)",
            "prometheus",
        ),
        (
            "unknown package \"prometeus\" for bundle \"p.v3\" (f, document 6)",
            "prometheus",
        ),
        (
            "cannot apply deprecations to an unknown package \"Prometheus\" (f, document 7)",
            "prometheus",
        ),
    ] {
        assert_eq!(line(&faults, start), format!("{start}: did you mean {hint:?}?"));
    }
    let faults = told(|blobs| blobs[0]["defaultChannel"] = json!("stabel"));
    let start =
        "channel must contain at least one bundle: it is the default channel but not defined (f, document 1)";
    assert_eq!(line(&faults, start), format!("{start}: did you mean \"stable\"?"));
    let faults = told(|blobs| blobs[0]["defaultChannel"] = json!("candidate"));
    let channels = format!("{start}: the package has channel \"stable\"");
    assert_eq!(line(&faults, start), channels, "nothing is like it");
    let faults = told(|blobs| blobs[0]["defaultChannel"] = json!(""));
    let start = "default channel must be set (f, document 1)";
    assert_eq!(
        line(&faults, start),
        format!("{start}: the package has channel \"stable\"")
    );
    let faults = told(|blobs| {
        blobs[0]["defaultChannel"] = json!("candidate");
        for name in ["v1", "v2", "v3"] {
            let mut channel = blobs[1].clone();
            channel["name"] = json!(name);
            blobs.push(channel);
        }
    });
    assert!(
        faults.contains("the package has channel \"stable\", \"v1\", \"v2\" and 1 more"),
        "{faults}"
    );
}

#[test]
fn deprecations_name_the_nearest() {
    let faults = told(|blobs| {
        blobs.push(
            json!({"schema": "olm.deprecations", "package": "prometheus", "entries": [
                {"reference": {"schema": "olm.channel", "name": "stabel"}, "message": "m"},
                {"reference": {"schema": "olm.bundle", "name": "p-v1"}, "message": "m"},
                {"reference": {"schema": "olm.chanel", "name": "stable"}, "message": "m"},
                {"reference": {"schema": "olm.bundle", "name": "p.v1"}, "message": "m"},
                {"reference": {"schema": "olm.bundle", "name": "p.v1"}, "message": "m"},
            ]}),
        );
    });
    insta::assert_snapshot!(faults, @r#"
    cannot deprecate channel "stabel" for package "prometheus": channel not found (f, document 5): did you mean "stable"?
    cannot deprecate bundle "p-v1" for package "prometheus": bundle not found (f, document 5): did you mean "p.v1"?
    cannot deprecate object declcfg.PackageScopedReference{Schema:"olm.chanel", Name:"stable"} referenced by entry 2 for package "prometheus": object schema unknown (f, document 5): reference.schema "olm.chanel" is not one of olm.package, olm.channel, olm.bundle, did you mean "olm.channel"?
    duplicate deprecation entry declcfg.PackageScopedReference{Schema:"olm.bundle", Name:"p.v1"} for package "prometheus" (f, document 5): olm.bundle "p.v1" is deprecated twice
    "#);
}

/// D15: `replace:` for `replaces:` ended in "multiple channel heads" alone.
#[test]
fn misspelt_keys_and_schemas_are_reported_with_the_faults_they_cause() {
    let faults =
        told(|blobs| blobs[1]["entries"] = json!([{"name": "p.v2", "replace": "p.v1"}, {"name": "p.v1"}]));
    insta::assert_snapshot!(faults, @r#"
    invalid index:
    └── invalid package "prometheus":
        └── invalid channel "stable":
            └── multiple channel heads found in graph: p.v1, p.v2 (f, document 2)
    package "prometheus", olm.channel "stable": entries[0]: unknown key "replace": did you mean "replaces"? (f, document 2)
    "#);
    let faults = told(|blobs| blobs[1]["schema"] = json!("olm.chanel"));
    insta::assert_snapshot!(faults, @r#"
    package "prometheus", bundle "p.v1" not found in any channel entries (f, document 3)
    package "prometheus", bundle "p.v2" not found in any channel entries (f, document 4)
    invalid index:
    └── invalid package "prometheus":
        ├── package must contain at least one channel (f, document 1)
        └── invalid channel "stable":
            └── channel must contain at least one bundle: it is the default channel but not defined (f, document 1)
    package "prometheus", olm.chanel "stable": unknown schema "olm.chanel": did you mean "olm.channel"? (f, document 2)
    "#);
}

/// D15: a dangling `replaces` ended in "multiple channel heads" alone.
#[test]
fn an_edge_that_leads_nowhere_names_the_bundle_that_lost_it() {
    let faults = told(|blobs| blobs[1]["entries"][0]["replaces"] = json!("p.v.1"));
    insta::assert_snapshot!(faults, @r#"
    invalid index:
    └── invalid package "prometheus":
        └── invalid channel "stable":
            └── multiple channel heads found in graph: p.v1, p.v2 (f, document 2): "p.v2" replaces "p.v.1", which is not in the channel, did you mean "p.v1"?
    "#);
    let faults = told(|blobs| blobs[1]["entries"][0]["replaces"] = json!("something.else"));
    let start = "multiple channel heads found in graph: p.v1, p.v2 (f, document 2)";
    assert_eq!(
        line(&faults, start),
        format!("{start}: \"p.v2\" replaces \"something.else\", which is not in the channel")
    );
}

#[test]
fn an_entry_without_bundle_names_a_bundle_without_entry() {
    let faults = told(|blobs| blobs[1]["entries"][0]["name"] = json!("p-v2"));
    let start = "no olm.bundle blobs found in package \"prometheus\" for olm.channel entries [p-v2] of channel \"stable\" (f, document 2)";
    assert_eq!(
        line(&faults, start),
        format!("{start}: by \"p-v2\", did you mean \"p.v2\"?")
    );
    // p.v1 is near, but it has an entry of its own.
    let faults = told(|blobs| drop(blobs.remove(3)));
    let start = start.replace("p-v2", "p.v2");
    assert_eq!(line(&faults, &start), start);
}

#[test]
fn a_document_without_schema_names_the_key_that_was_meant_as_one() {
    let dir = tempfile::tempdir().expect("folder");
    std::fs::write(dir.path().join("c.yaml"), "shcema: olm.package\nname: p\n").expect("file");
    assert_eq!(
        validate(dir.path()).expect_err("faults").to_string(),
        "object '{\"name\":\"p\",\"shcema\":\"olm.package\"}' is missing root schema field (c.yaml, document 1): did you mean \
         \"schema\" instead of \"shcema\"?"
    );
}

#[test]
fn a_manifest_and_a_file_that_is_no_catalog_are_reported_with_the_way_out() {
    let dir = tempfile::tempdir().expect("folder");
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).expect("file");
    let filler = "x".repeat(200);
    write(
        "a.yaml",
        &format!("apiVersion: v1\nkind: Service\nmetadata: {{name: {filler}}}\n"),
    );
    write("b.yaml", "just words\n");
    write("README.md", "just words\n");
    write("notes.txt", "a: [\n");
    let faults = validate(dir.path()).expect_err("faults");
    insta::assert_snapshot!(faults.to_string(), @r#"
    expected an object with a schema, found string (README.md, document 1): all files of the directory are read; exclude others by a line in .indexignore
    object '{"apiVersion":"v1","kind":"Service","metadata":{"name":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…' is missing root schema field (a.yaml, document 1): this looks like the manifest of a bundle: make a catalog of bundles with "opm render" or "opm generate catalog"
    expected an object with a schema, found string (b.yaml, document 1)
    invalid YAML: line 1: unclosed bracket '[' (notes.txt, document 1)
    "#);
}

#[test]
fn a_valid_catalog_is_valid_whatever_looks_misspelt_in_it() {
    let mut blobs = base();
    blobs[0]["icno"] = json!({});
    assert!(check(blobs.clone()).is_ok());
    let mut checker = Checker::default();
    let origin = Origin {
        file: "f".into(),
        document: 1,
    };
    for blob in blobs {
        checker.add(&Blob::from_value(blob).expect("blob"), &origin);
    }
    let report = checker.report();
    assert!(report.faults.is_empty());
    let told: Vec<String> = report
        .misspellings
        .iter()
        .map(|(found, _)| found.to_string())
        .collect();
    assert_eq!(
        told,
        ["package \"p\", olm.package \"p\": unknown key \"icno\": did you mean \"icon\"?"]
    );
}

/// A hostile catalog could look up each of a million names among a million others.
#[test]
fn comparing_names_has_an_end() {
    let package = |index: usize| json!({"schema": "olm.package", "name": format!("{index:0>60}"), "defaultChannel": "c"});
    let channel =
        |index: usize| json!({"schema": "olm.channel", "package": format!("x{index:0>59}"), "name": "c"});
    let blobs: Vec<Value> = (0..5_000).map(package).chain((0..900).map(channel)).collect();
    let faults = check(blobs).expect_err("faults");
    let hinted = faults.iter().filter(|fault| fault.hint.is_some()).count();
    assert_eq!(hinted, 3);
}
