//! Bundles without an image, whose manifests the catalog carries itself.

use olm_testing::stage::story::tell;
use serde_json::json;

use super::Step::{Put, Serve};
use super::{catalog, subscription};
use crate::test_env::{TestEnv, bundle};

fn manifests(text: &str) -> Vec<String> {
    let csv = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": {"name": "demo.v1"},
        "spec": {"displayName": text, "install": {"strategy": "deployment", "spec": {"deployments": []}}},
    });
    vec![csv.to_string()]
}

fn begin(env: &mut TestEnv, objects: &[String]) {
    let served = Serve(vec![bundle("demo.v1").inline(objects)]);
    tell(env, &[served, Put(catalog()), Put(subscription("Automatic"))]);
}

#[test]
fn manifests_in_a_catalog_become_a_plan() {
    let mut env = TestEnv::new();
    let objects = manifests("as resolved");
    env.outside.carry("demo.v1", &objects);
    begin(&mut env, &objects);
    let csv = env.get("ClusterServiceVersion", "demo.v1").unwrap();
    assert_eq!(csv["spec"]["displayName"], "as resolved");
}

/// What catalogs carry themselves comes before the Subscriptions of dependencies: the API server may refuse those, for example for capitals
/// in the name of a package, and the operators are there all the same.
#[test]
fn manifests_in_a_catalog_come_before_the_subscriptions_of_their_plan() {
    let mut env = TestEnv::new();
    let csv = |name: &str| {
        json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": {"name": name},
            "spec": {"install": {"strategy": "deployment", "spec": {"deployments": []}}}})
        .to_string()
    };
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "extra"}}).to_string();
    let (demo, dep) = ([account, csv("demo.v1")], [csv("dep.v1")]);
    env.outside.carry("demo.v1", &demo);
    env.outside.carry("dep.v1", &dep);
    let rows = [
        bundle("demo.v1").requires("Dep").inline(&demo),
        bundle("dep.v1").provides("Dep").inline(&dep),
    ];
    tell(
        &mut env,
        &[Serve(rows.to_vec()), Put(catalog()), Put(subscription("Manual"))],
    );
    let subscription = env.get("Subscription", "demo").unwrap();
    let plan = subscription["status"]["installPlanRef"]["name"].as_str().unwrap();
    let plan = env.get("InstallPlan", plan).unwrap();
    let steps = plan["status"]["plan"].as_array().unwrap().iter();
    let kinds: Vec<_> = steps
        .map(|step| step["resource"]["kind"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds,
        [
            "ClusterServiceVersion",
            "ClusterServiceVersion",
            "ServiceAccount",
            "Subscription"
        ]
    );
}

/// `olm.maxOpenShiftVersion` counts for the ClusterServiceVersion that is installed, where the catalog has it from the bundle.
#[test]
fn ocp_001_the_last_version_of_openshift_goes_from_the_catalog_to_the_csv() {
    let objects = manifests("carried");
    let row = bundle("demo.v1").max_openshift_version("4.18");
    for (where_, row) in [("an image", row.clone()), ("the catalog", row.inline(&objects))] {
        let mut env = TestEnv::new();
        env.outside.carry("demo.v1", &objects);
        tell(
            &mut env,
            &[Serve(vec![row]), Put(catalog()), Put(subscription("Automatic"))],
        );
        let csv = env.get("ClusterServiceVersion", "demo.v1").unwrap();
        assert_eq!(
            csv["metadata"]["annotations"]["operatorframework.io/properties"],
            r#"{"properties":[{"type":"olm.package","value":{"packageName":"demo","version":"1.0.0"}},{"type":"olm.maxOpenShiftVersion","value":"4.18"}]}"#,
            "manifests in {where_}"
        );
    }
}

/// A label that is written later changes a plan that its users already saw complete.
#[test]
fn a_plan_and_its_csv_are_components_from_their_creation() {
    let objects = manifests("carried");
    for row in [bundle("demo.v1"), bundle("demo.v1").inline(&objects)] {
        let mut env = TestEnv::new();
        env.outside.carry("demo.v1", &objects);
        tell(
            &mut env,
            &[Serve(vec![row]), Put(catalog()), Put(subscription("Automatic"))],
        );
        let subscription = env.get("Subscription", "demo").unwrap();
        let plan = subscription["status"]["installPlanRef"]["name"].as_str().unwrap();
        for (kind, name) in [("InstallPlan", plan), ("ClusterServiceVersion", "demo.v1")] {
            let labels = env.get(kind, name).unwrap()["metadata"]["labels"].clone();
            assert_eq!(labels["operators.coreos.com/demo.ns"], "", "{kind} {labels}");
        }
    }
}

/// The catalog has changed since it was read: no plan is created from unresolved content. The catalog is read again, and then a
/// plan is created.
#[test]
fn other_manifests_than_those_that_were_resolved_are_not_installed() {
    let mut env = TestEnv::new();
    let (old, new) = (manifests("as resolved"), manifests("as it is now"));
    env.outside.carry("demo.v1", &new);
    begin(&mut env, &old);
    assert!(env.get("ClusterServiceVersion", "demo.v1").is_none());
    let told = env.get("Subscription", "demo").unwrap().to_string();
    assert!(told.contains("manifests of demo.v1 in catalog"), "{told}");
    env.outside.serve([bundle("demo.v1").inline(&new)]);
    env.settle_for(120);
    let csv = env.get("ClusterServiceVersion", "demo.v1").unwrap();
    assert_eq!(csv["spec"]["displayName"], "as it is now");
}
