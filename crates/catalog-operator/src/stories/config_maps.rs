//! Catalogs that are made of a ConfigMap, on a cluster in memory.

use serde_json::{Value, json};

use crate::test_env::TestEnv;

fn source(source_type: &str) -> Value {
    json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource", "metadata": {"namespace": "ns", "name": "cat"},
        "spec": {"sourceType": source_type, "configMap": "content"}})
}

fn config_map(packages: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "ns", "name": "content"},
        "data": {"packages": packages, "clusterServiceVersions": "", "customResourceDefinitions": ""}})
}

fn status(env: &TestEnv) -> Value {
    env.only("CatalogSource")["status"].clone()
}

fn pod(env: &TestEnv) -> String {
    env.only("Pod")["metadata"]["name"].as_str().unwrap().to_owned()
}

#[test]
fn cat_009_a_catalog_follows_its_config_map() {
    let mut env = TestEnv::new();
    env.put(source("configmap"));
    env.settle_for(30);
    let text = "failed to get catalog config map content: configmaps \"content\" not found";
    assert_eq!(status(&env)["reason"], "ConfigMapError");
    assert_eq!(status(&env)["message"], text);
    assert!(env.all("Pod").is_empty());
    let at_rest = env.writes.len();
    env.settle_for(600);
    assert_eq!(
        env.writes.len(),
        at_rest,
        "nothing is written at rest: {:?}",
        env.writes
    );

    // It comes later.
    env.put(config_map("first"));
    env.settle_for(30);
    assert_eq!(status(&env)["connectionState"]["lastObservedState"], "READY");
    assert_eq!(status(&env)["message"], Value::Null);
    let version =
        |env: &TestEnv| env.get("ConfigMap", "content").unwrap()["metadata"]["resourceVersion"].clone();
    assert_eq!(
        status(&env)["configMapReference"]["resourceVersion"],
        version(&env)
    );
    let labels = env.only("Pod")["metadata"]["labels"].clone();
    assert_eq!(labels["olm.configMapResourceVersion"], version(&env));
    let before = (pod(&env), env.outside.dialled());

    // It changes beside the catalog, then in it.
    env.edit(
        "ConfigMap",
        "content",
        &json!({"metadata": {"labels": {"a": "b"}}}),
    );
    env.settle_for(30);
    assert_eq!(pod(&env), before.0);
    assert_eq!(
        status(&env)["configMapReference"]["resourceVersion"],
        version(&env)
    );
    env.edit("ConfigMap", "content", &json!({"data": {"packages": "second"}}));
    env.settle_for(60);
    assert_ne!(pod(&env), before.0, "the pod is another");
    assert!(env.outside.dialled() > before.1, "and its content is read");
    assert_eq!(status(&env)["connectionState"]["lastObservedState"], "READY");
    let labels = env.only("Pod")["metadata"]["labels"].clone();
    assert_eq!(labels["olm.configMapResourceVersion"], version(&env));

    // It is deleted, and the served content stays.
    let served = pod(&env);
    env.delete("ConfigMap", "content");
    env.settle_for(30);
    assert_eq!(status(&env)["message"], text);
    assert_eq!(pod(&env), served);
    env.put(config_map("second"));
    env.settle_for(30);
    assert_eq!(status(&env)["message"], Value::Null);
    assert_eq!(pod(&env), served, "the content is the same");
}

/// As upstream has it, so that a pair of the same names can follow.
#[test]
fn a_config_map_goes_with_its_catalog_and_a_new_pair_serves() {
    let mut env = TestEnv::new();
    for content in ["first", "second"] {
        env.put(config_map(content));
        env.put(source("internal"));
        env.settle_for(30);
        assert_eq!(status(&env)["connectionState"]["lastObservedState"], "READY");
        let meta = env.get("ConfigMap", "content").unwrap()["metadata"].clone();
        let owner = &meta["ownerReferences"][0];
        let uid = env.only("CatalogSource")["metadata"]["uid"].clone();
        assert_eq!((&owner["kind"], &owner["uid"]), (&json!("CatalogSource"), &uid));
        assert_eq!(
            (&owner["controller"], &owner["blockOwnerDeletion"]),
            (&json!(false), &json!(false))
        );
        let version = &meta["resourceVersion"];
        assert_eq!(&status(&env)["configMapReference"]["resourceVersion"], version);
        let labels = env.only("Pod")["metadata"]["labels"].clone();
        assert_eq!(&labels["olm.configMapResourceVersion"], version);
        for kind in ["Role", "RoleBinding"] {
            assert!(env.all(kind).is_empty(), "{kind}");
        }
        env.delete("CatalogSource", "cat");
        env.settle_for(600);
        assert_eq!(env.get("ConfigMap", "content"), None);
        assert!(env.all("Pod").is_empty());
    }
}

/// A user who may write CatalogSources must not be able to have any ConfigMap deleted.
#[test]
fn a_config_map_that_is_no_catalog_stays() {
    let mut env = TestEnv::new();
    let mut other = config_map("first");
    other["data"] = json!({"settings": "x"});
    env.put(other);
    let before = env.get("ConfigMap", "content");
    env.put(source("internal"));
    env.settle_for(30);
    env.delete("CatalogSource", "cat");
    env.settle_for(600);
    assert_eq!(env.get("ConfigMap", "content"), before);
}

/// As upstream has it. Otherwise such a catalog would get pod after pod, or none.
#[test]
fn a_catalog_whose_owner_references_a_webhook_removes_is_served() {
    let mut env = TestEnv::new();
    env.cluster.set_webhook(|object| {
        let metadata = object["metadata"].as_object_mut();
        metadata.map(|metadata| metadata.remove("ownerReferences"));
    });
    env.put(config_map("first"));
    env.put(source("configmap"));
    env.settle_for(60);
    assert_eq!(env.only("Pod")["metadata"]["ownerReferences"], Value::Null);
    assert_eq!(status(&env)["connectionState"]["lastObservedState"], "READY");
    assert_eq!(status(&env)["message"], Value::Null);
    let at_rest = env.writes.len();
    env.settle_for(600);
    assert_eq!(env.writes.len(), at_rest, "{:?}", env.writes);

    let before = pod(&env);
    env.edit("ConfigMap", "content", &json!({"data": {"packages": "second"}}));
    env.settle_for(60);
    assert_ne!(pod(&env), before, "new content is served");
    assert_eq!(status(&env)["connectionState"]["lastObservedState"], "READY");
}
