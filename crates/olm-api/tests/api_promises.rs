//! Promises of the user documents about the APIs (checklist items API-001 to API-008 and API-010), as far as types and
//! definitions can show them. End-to-end tests check that a real API server accepts the objects.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test program")]

mod support;

use std::path::Path;

use olm_api::v1::{OLM_CONFIG_NAME, OLMConfig};
use olm_api::v2;
use serde_json::{Value, json};
use support::{changes, definitions, read_yaml, round_trip, schemas, unknown_fields};

fn definition(plural: &str) -> Value {
    let name = format!("{plural}.operators.coreos.com");
    let found = definitions("crds")
        .into_iter()
        .find(|definition| definition.manifest["metadata"]["name"] == *name);
    found
        .unwrap_or_else(|| panic!("no definition called {name}"))
        .manifest
}

fn assert_kind(plural: &str, kind: &str, versions: &[&str], short: &[&str], scope: &str) {
    let spec = &definition(plural)["spec"];
    assert_eq!(spec["group"], "operators.coreos.com");
    assert_eq!(spec["names"]["kind"], kind);
    assert_eq!(spec["names"]["plural"], plural);
    assert_eq!(spec["names"]["categories"], json!(["olm"]));
    let names = spec["names"]
        .get("shortNames")
        .cloned()
        .unwrap_or_else(|| json!([]));
    assert_eq!(names, json!(short));
    assert_eq!(spec["scope"], scope);
    let served: Vec<_> = spec["versions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|version| version["name"].clone())
        .collect();
    assert_eq!(json!(served), json!(versions));
    for version in spec["versions"].as_array().unwrap() {
        assert_eq!(version["served"], true);
        assert_eq!(version["subresources"], json!({"status": {}}));
    }
}

#[test]
fn api_001_cluster_service_version_has_its_version_and_short_name() {
    assert_kind(
        "clusterserviceversions",
        "ClusterServiceVersion",
        &["v1alpha1"],
        &["csv", "csvs"],
        "Namespaced",
    );
}

#[test]
fn api_002_catalog_source_has_its_version_and_short_name() {
    assert_kind(
        "catalogsources",
        "CatalogSource",
        &["v1alpha1"],
        &["catsrc"],
        "Namespaced",
    );
}

#[test]
fn api_003_subscription_has_its_version_and_short_name() {
    assert_kind(
        "subscriptions",
        "Subscription",
        &["v1alpha1"],
        &["sub", "subs"],
        "Namespaced",
    );
}

#[test]
fn api_004_install_plan_has_its_version_and_short_name() {
    assert_kind(
        "installplans",
        "InstallPlan",
        &["v1alpha1"],
        &["ip"],
        "Namespaced",
    );
}

#[test]
fn api_005_operator_group_has_its_versions_and_short_name() {
    assert_kind(
        "operatorgroups",
        "OperatorGroup",
        &["v1", "v1alpha2"],
        &["og"],
        "Namespaced",
    );
    let versions = &definition("operatorgroups")["spec"]["versions"];
    assert_eq!(
        (&versions[0]["storage"], &versions[1]["storage"]),
        (&json!(true), &json!(false))
    );
}

#[test]
fn api_006_operator_condition_serves_v1_beside_the_stored_v2() {
    assert_kind(
        "operatorconditions",
        "OperatorCondition",
        &["v1", "v2"],
        &["condition"],
        "Namespaced",
    );
    let versions = &definition("operatorconditions")["spec"]["versions"];
    assert_eq!(
        (&versions[0]["storage"], &versions[1]["storage"]),
        (&json!(false), &json!(true))
    );
}

#[test]
fn api_007_operator_condition_has_conditions_in_its_spec() {
    let versions = &definition("operatorconditions")["spec"]["versions"];
    let of = |version: usize, field: &str| {
        versions[version]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
            .get(field)
            .cloned()
    };
    assert_eq!(of(1, "conditions").unwrap()["type"], "array");
    // The older version has overrides only; conditions written by v2 clients are kept in the stored object.
    assert!(of(0, "conditions").is_none());
    assert!(of(0, "overrides").is_some());

    let object = read_fixture("operator-condition.yaml");
    let typed: v2::OperatorCondition = serde_json::from_value(object.clone()).unwrap();
    let condition = &typed.spec.conditions[0];
    assert_eq!(
        (condition.type_.as_str(), condition.status.as_str()),
        ("Upgradeable", "False")
    );
    assert_eq!(serde_json::to_value(&typed).unwrap(), object);
}

#[test]
fn api_008_olm_config_is_cluster_wide_and_one_object_counts() {
    assert_kind("olmconfigs", "OLMConfig", &["v1"], &[], "Cluster");
    for (file, disabled) in [
        ("olm-config-copies-off.yaml", true),
        ("olm-config-copies-on.yaml", false),
    ] {
        let config: OLMConfig = serde_json::from_value(read_fixture(file)).unwrap();
        assert_eq!(config.metadata.name.as_deref(), Some(OLM_CONFIG_NAME));
        assert_eq!(config.spec.copied_csvs_are_disabled(), disabled, "{file}");
    }
}

/// Known differences between an example and its encoded form: path, before, after. `*` matches any file.
const KNOWN: [(&str, &str, Option<&str>, Option<&str>); 3] = [
    // A port is text in the API; the document writes a number.
    (
        "catalog-source-image-template-status.yaml",
        ".status.registryService.port",
        Some("50051"),
        Some("\"50051\""),
    ),
    // The document leaves the annotations open.
    ("csv-skips.yaml", ".metadata.annotations", Some("null"), None),
    // The group for all namespaces has no spec.
    ("operator-group-global.yaml", ".spec", None, Some("{}")),
];

/// An extension is cluster-scoped, whatever its namespace; the policy has a default.
#[test]
fn api_009_v1_001_v1_006_the_definition_has_group_scope_and_default() {
    let definitions = definitions("crds-v1");
    let mut of_extensions = definitions
        .iter()
        .filter(|definition| definition.name == "clusterextensions");
    let spec = &of_extensions.next().unwrap().manifest["spec"];
    assert_eq!(spec["group"], "olm.operatorframework.io");
    assert_eq!(spec["names"]["kind"], "ClusterExtension");
    assert_eq!(spec["versions"][0]["name"], "v1");
    assert_eq!(spec["scope"], "Cluster");
    let fields = &spec["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
    let catalog = &fields["source"]["properties"]["catalog"];
    assert_eq!(catalog["required"], json!(["packageName"]));
    let policy = &catalog["properties"]["upgradeConstraintPolicy"];
    assert_eq!(policy["default"], "CatalogProvided");
}

#[test]
fn api_010_example_objects_decode_and_encode_without_loss() {
    let schemas = schemas();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let files = support::sorted(&folder);
    assert_eq!(files.len(), 15);
    for file in files {
        let name = file.file_name().unwrap().to_str().unwrap();
        let object = read_fixture(name);
        let encoded = round_trip(&object).unwrap_or_else(|error| panic!("{name}: {error}"));
        for change in changes(&object, &encoded) {
            let known = KNOWN.iter().any(|(file, path, before, after)| {
                *file == name
                    && *path == change.path
                    && *before == change.before.as_deref()
                    && *after == change.after.as_deref()
            });
            // A ClusterServiceVersion example without `install` is completed with the fields the API requires.
            let completed = change.before.is_none() && change.path.starts_with(".spec.install");
            assert!(known || completed, "{name}: {change:?}");
        }
        let unknown = unknown_fields(&encoded, &schemas);
        let expected: &[&str] = match name {
            // The document shows a field without a name; the API's field is `serviceAccountName`.
            "operator-group-provided-apis.yaml" => &[".spec.serviceAccount"],
            _ => &[],
        };
        assert_eq!(unknown, expected, "{name}");
    }
}

fn read_fixture(name: &str) -> Value {
    read_yaml(
        &Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/fixtures")
            .join(name),
    )
    .remove(0)
}
