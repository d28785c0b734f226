//! Parsing of specs, and the report of invalid ones.

use super::*;

#[test]
fn a_wrong_spec_is_reported_and_nothing_is_made() {
    for (spec, text) in [
        (json!({"sourceType": "nope"}), "unknown sourcetype: nope"),
        (
            json!({"sourceType": "grpc"}),
            "image and address unset: at least one must be set for sourcetype: grpc",
        ),
        (
            json!({"sourceType": "configmap"}),
            "configmap name unset: must be set for sourcetype: configmap",
        ),
        (
            json!({"sourceType": "internal"}),
            "configmap name unset: must be set for sourcetype: internal",
        ),
        (
            json!({"sourceType": "configmap", "configMap": ""}),
            "configmap name unset: must be set for sourcetype: configmap",
        ),
        (
            json!({"sourceType": "configmap", "configMap": "a,b"}),
            "configmap name invalid: \"a,b\"",
        ),
        (
            json!({"sourceType": "internal", "configMap": "a\\x"}),
            "configmap name invalid: \"a\\\\x\"",
        ),
    ] {
        let observed = fresh(source(spec));
        assert_eq!(plan_text(&observed), "", "{text}");
        let status = status_of(&observed);
        assert_eq!(status.reason.as_deref(), Some("SpecInvalidError"));
        assert_eq!(status.message.as_deref(), Some(text));
        assert_eq!(status.connection_state, None);
    }
}

/// Columns of `kubectl get catsrc`, and the accepted security contexts.
#[test]
fn cat_004_cat_005_cat_011_names_are_kept_and_shown_and_two_contexts_are_accepted() {
    let spec = json!({"sourceType": "grpc", "image": IMAGE, "displayName": "Example Catalog", "publisher": "Example Org"});
    assert_eq!(serde_json::to_value(&source(spec.clone()).spec).unwrap(), spec);
    let crd = include_str!("../../../../../manifests/crds/catalogsources.yaml");
    let crd: Value = serde_json::to_value(olm_fbc::yaml::parse(crd.as_bytes()).unwrap()).unwrap();
    let version = &crd["spec"]["versions"][0];
    let columns = version["additionalPrinterColumns"].as_array().unwrap().iter();
    let columns: Vec<&str> = columns
        .map(|column| column["jsonPath"].as_str().unwrap())
        .collect();
    for shown in [".spec.displayName", ".spec.publisher"] {
        assert!(columns.contains(&shown), "{columns:?}");
    }
    let config = version
        .pointer("/schema/openAPIV3Schema/properties/spec/properties/grpcPodConfig/properties")
        .unwrap();
    assert_eq!(
        config["securityContextConfig"]["enum"],
        json!(["legacy", "restricted"])
    );
}

#[test]
fn a_typo_does_not_take_a_running_catalog_away() {
    let mut observed = converged(image_source());
    observed.parsed = source::Source::Invalid("typo".to_owned());
    assert_eq!(plan_text(&observed), "");
}

#[test]
fn cat_008_a_source_turned_to_an_address_runs_nothing() {
    let mut observed = converged(image_source());
    observed.parsed = source::Source::Address("a:1".to_owned());
    assert_eq!(
        plan_text(&observed),
        "delete Pod ns/cat-1\ndelete Service ns/cat-a\n"
    );
}

#[test]
fn names_that_no_config_map_can_have_are_refused() {
    let is_named = |name: &str| {
        let source = source(json!({"sourceType": "configmap", "configMap": name}));
        matches!(source::parse_source(&source), source::Source::ConfigMap { .. })
    };
    let longest = ["a"; 127].join(".");
    for name in ["a", "a-b.c1", "0", longest.as_str()] {
        assert!(is_named(name), "{name}");
    }
    let longer = format!("a{longest}");
    for name in [
        "a=b", "a b", "A", "a_b", "-a", "a-", "a..b", ".a", "a.", "a/b", "\u{e4}", &longer,
    ] {
        assert!(!is_named(name), "{name}");
    }
}
