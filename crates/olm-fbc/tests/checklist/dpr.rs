//! Deprecations.

use olm_fbc::validate::validate;
use olm_fbc::yaml;
use serde_json::{Value, json};

use super::catalogs::{accepted, base, refused, write};

fn deprecations(entries: Value) -> Value {
    json!({"schema": "olm.deprecations", "package": "p", "entries": entries})
}

fn deprecating(entries: Value) -> impl FnOnce(&mut Vec<Value>) {
    move |blobs| blobs.push(deprecations(entries))
}

#[test]
fn dpr_001_deprecations_belong_to_one_package_and_are_once_in_a_catalog() {
    accepted(deprecating(json!([])));
    refused(
        |blobs| blobs.push(json!({"schema": "olm.deprecations", "entries": []})),
        "package name must be set for deprecation item 0",
    );
    refused(
        |blobs| blobs.push(json!({"schema": "olm.deprecations", "package": "q", "entries": []})),
        "cannot apply deprecations to an unknown package \"q\"",
    );
    refused(
        |blobs| blobs.extend([deprecations(json!([])), deprecations(json!([]))]),
        "expected a maximum of one deprecation per package: \"p\"",
    );
}

#[test]
fn dpr_002_entries_pair_references_of_three_kinds_with_messages() {
    let model = accepted(deprecating(json!([
        {"reference": {"schema": "olm.package"}, "message": "of the package"},
        {"reference": {"schema": "olm.channel", "name": "fast"}, "message": "of the channel"},
        {"reference": {"schema": "olm.bundle", "name": "p.v1"}, "message": "of the bundle"},
    ])));
    let found = &model.packages["p"].deprecations;
    assert_eq!(found.package.as_deref(), Some("of the package"));
    assert_eq!(found.channels["fast"], "of the channel");
    assert_eq!(found.bundles["p.v1"], "of the bundle");
    let twice = json!({"reference": {"schema": "olm.channel", "name": "fast"}, "message": "m"});
    refused(deprecating(json!([twice, twice])), "duplicate deprecation entry");
    refused(
        deprecating(json!([{"reference": {"schema": "custom", "name": "x"}, "message": "m"}])),
        "object schema unknown",
    );
    refused(
        deprecating(json!([{"message": "m"}])),
        "schema must be set for deprecation entry [0]",
    );
}

#[test]
fn dpr_003_a_package_reference_has_no_name() {
    refused(
        deprecating(json!([{"reference": {"schema": "olm.package", "name": "p"}, "message": "m"}])),
        "package name must be empty for deprecated package \"p\" (specified \"p\")",
    );
}

#[test]
fn dpr_004_channel_and_bundle_references_need_a_name_that_is_there() {
    for (schema, kind) in [("olm.channel", "channel"), ("olm.bundle", "bundle")] {
        for name in ["", "gone"] {
            refused(
                deprecating(json!([{"reference": {"schema": schema, "name": name}, "message": "m"}])),
                &format!("cannot deprecate {kind} {name:?} for package \"p\": {kind} not found"),
            );
        }
    }
}

#[test]
fn dpr_005_a_message_is_needed_and_kept_as_it_is() {
    for reference in [
        json!({"schema": "olm.package"}),
        json!({"schema": "olm.channel", "name": "fast"}),
        json!({"schema": "olm.bundle", "name": "p.v1"}),
    ] {
        for entry in [
            json!({"reference": reference}),
            json!({"reference": reference, "message": ""}),
        ] {
            refused(
                deprecating(json!([entry])),
                "invalid deprecation: message must be set",
            );
        }
    }
    let message = "  <b>Über</b>\n\n* go & see\t\"x\"\n";
    let model = accepted(deprecating(
        json!([{"reference": {"schema": "olm.package"}, "message": message}]),
    ));
    assert_eq!(model.packages["p"].deprecations.package.as_deref(), Some(message));
}

#[test]
fn dpr_006_the_example_validates() {
    let text = "---
schema: olm.deprecations
package: my-operator
entries:
  - reference:
      schema: olm.package
    message: |
      The 'my-operator' package is end of life. Please use the
      'my-operator-new' package for support.
  - reference:
      schema: olm.channel
      name: alpha
    message: |
      The 'alpha' channel is no longer supported. Please switch to the
      'stable' channel.
  - reference:
      schema: olm.bundle
      name: my-operator.v1.68.0
    message: |
      my-operator.v1.68.0 is deprecated. Uninstall and install
      my-operator.v1.72.0 for support.
";
    let dir = tempfile::tempdir().expect("folder");
    write(dir.path(), "deprecations.yaml", text);
    write(
        dir.path(),
        "index.yaml",
        "schema: olm.package\nname: my-operator\ndefaultChannel: alpha\n---\nschema: olm.channel\npackage: my-operator\nname: alpha\n\
         entries: [{name: my-operator.v1.68.0}]\n---\nschema: olm.bundle\npackage: my-operator\nname: my-operator.v1.68.0\n\
         image: quay.io/x/y:1\nproperties: [{type: olm.package, value: {packageName: my-operator, version: 1.68.0}}]\n",
    );
    let model = validate(dir.path()).unwrap_or_else(|faults| panic!("{faults}"));
    let found = &model.packages["my-operator"].deprecations;
    assert!(
        found
            .package
            .as_ref()
            .expect("message")
            .starts_with("The 'my-operator' package is end of life.")
    );
    assert!(found.channels["alpha"].ends_with("'stable' channel.\n"));
    assert!(found.bundles.contains_key("my-operator.v1.68.0"));
}

#[test]
fn dpr_007_deprecations_beside_the_index_belong_to_the_package() {
    let dir = tempfile::tempdir().expect("folder");
    write(
        dir.path(),
        "p/index.yaml",
        &yaml::to_string_all(&base()).expect("YAML"),
    );
    let entry = json!([{"reference": {"schema": "olm.package"}, "message": "m"}]);
    write(
        dir.path(),
        "p/deprecations.yaml",
        &yaml::to_string(&deprecations(entry)).expect("YAML"),
    );
    let model = validate(dir.path()).expect("valid");
    assert_eq!(model.packages["p"].deprecations.package.as_deref(), Some("m"));
}
