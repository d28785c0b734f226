//! Discovery: the available resources. The documents never change.

use olm_api::packages::{GROUP, ICON, KIND, RESOURCE, SINGULAR, VERSION};
use serde_json::{Value, json};

/// Verbs for PackageManifests. Clients do not try `watch` if it is not listed.
const VERBS: [&str; 2] = ["get", "list"];

/// Returns `/apis`.
pub fn groups() -> Value {
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": [described()]})
}

/// Returns `/apis/<group>`.
pub fn group() -> Value {
    let mut group = described();
    group["kind"] = json!("APIGroup");
    group["apiVersion"] = json!("v1");
    group
}

fn described() -> Value {
    let version = json!({"groupVersion": format!("{GROUP}/{VERSION}"), "version": VERSION});
    json!({"name": GROUP, "versions": [version], "preferredVersion": version})
}

/// Returns `/apis/<group>/<version>`.
pub fn resources() -> Value {
    json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": format!("{GROUP}/{VERSION}"),
        "resources": [
            {"name": RESOURCE, "singularName": SINGULAR, "namespaced": true, "kind": KIND, "verbs": VERBS},
            {"name": format!("{RESOURCE}/{ICON}"), "singularName": "", "namespaced": true, "kind": KIND,
                "verbs": ["get"]},
        ],
    })
}

#[cfg(test)]
mod tests {
    use olm_testing::shared::shared_path;

    use super::*;

    #[test]
    fn discovery_equals_that_of_upstream() {
        let Some(path) = shared_path("golden/packageserver-discovery.json") else {
            return;
        };
        let text = std::fs::read_to_string(path).unwrap();
        let documents: Vec<Value> = serde_json::Deserializer::from_str(&text)
            .into_iter()
            .map(Result::unwrap)
            .collect();
        assert_eq!(documents, [group(), resources()]);
        assert_eq!(groups()["groups"][0]["name"], GROUP);
    }
}
