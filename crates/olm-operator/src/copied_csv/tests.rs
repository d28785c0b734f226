//! Copies: decisions row by row, and stories on the cluster in memory.

mod decisions;
mod disabled;
mod stories;
mod triggers;

use serde_json::{Value, json};

use crate::test_env::{TestEnv, crd, csv, group, namespace_object};

/// The demo `a` of `ns`, installed for these namespaces, or for all; `one` and `two` exist.
fn installed_for(targets: &[&str]) -> TestEnv {
    let mut env = prepared_for(targets);
    env.put(csv("a", ""));
    env.settle_for(10);
    assert!(env.status("a").starts_with("Succeeded"), "{}", env.status("a"));
    env
}

/// Prepares the same without the demo.
fn prepared_for(targets: &[&str]) -> TestEnv {
    let mut env = TestEnv::new();
    for name in ["one", "two"] {
        env.put(namespace_object(name));
    }
    env.put(group("ns", "og", targets));
    env.put(crd("demos.example.com"));
    env
}

/// Namespaces with a copy of `a`.
fn copies(env: &TestEnv) -> Vec<String> {
    let names = env.names("ClusterServiceVersion").into_iter();
    names
        .filter_map(|name| Some(name.strip_suffix("/a")?.to_owned()))
        .filter(|namespace| namespace != "ns")
        .collect()
}

#[track_caller]
fn copy<'a>(env: &'a TestEnv, namespace: &str) -> &'a Value {
    env.get("ClusterServiceVersion", namespace, "a")
        .unwrap_or_else(|| panic!("no copy in {namespace}"))
}

/// Returns everything of a copy that depends on its original.
fn shown(object: &Value) -> Value {
    let metadata = &object["metadata"];
    json!([
        metadata["labels"],
        metadata["annotations"],
        object["spec"],
        object["status"]
    ])
}
