//! Catalogs whose image follows the version of the cluster, on a cluster in memory.

use serde_json::{Value, json};

use crate::test_env::TestEnv;

fn image(env: &TestEnv) -> (Value, Value) {
    let of_pod = env.only("Pod")["spec"]["containers"][0]["image"].clone();
    (env.only("CatalogSource")["spec"]["image"].clone(), of_pod)
}

fn both(image: &str) -> (Value, Value) {
    (json!(image), json!(image))
}

#[test]
fn cat_025_tpl_001_tpl_008_a_catalog_follows_the_version_of_its_cluster() {
    let mut env = TestEnv::new();
    env.put(
        json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
        "metadata": {"namespace": "ns", "name": "cat", "annotations": {
            "olm.catalogImageTemplate": "reg/cat:v{kube_major_version}.{kube_minor_version}"}},
        "spec": {"sourceType": "grpc"}}),
    );
    env.settle_for(30);
    assert_eq!(image(&env), both("reg/cat:v1.34"));
    let status = env.only("CatalogSource")["status"].clone();
    assert_eq!(status["connectionState"]["lastObservedState"], "READY");
    assert_eq!(status["conditions"][1]["message"], "reg/cat:v1.34");

    // At rest it is reconciled, and nothing is written.
    let at_rest = env.writes.len();
    env.settle_for(1800);
    assert_eq!(env.writes[at_rest..], [""; 0]);

    env.cluster.set_server_version("v1.35.0");
    env.settle_for(601);
    assert_eq!(image(&env), both("reg/cat:v1.35"));

    // A manual change of the image is reverted.
    env.edit(
        "CatalogSource",
        "cat",
        &json!({"spec": {"image": "reg/cat:mine"}}),
    );
    env.settle_for(30);
    assert_eq!(image(&env), both("reg/cat:v1.35"));

    // Without the template it stays as it is.
    let gone = json!({"metadata": {"annotations": {"olm.catalogImageTemplate": null}}});
    env.edit("CatalogSource", "cat", &gone);
    env.settle_for(30);
    assert_eq!(image(&env), both("reg/cat:v1.35"));
    assert_eq!(env.only("CatalogSource")["status"]["conditions"], Value::Null);
}
