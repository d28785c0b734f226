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
    let mut group = json!({"kind": "APIGroup", "apiVersion": "v1"});
    if let (Some(group), Value::Object(described)) = (group.as_object_mut(), described()) {
        group.extend(described);
    }
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

/// Returns `/apis` with everything in one document, of this version of aggregated discovery.
pub fn aggregated(version: &str) -> Value {
    let kind = json!({"group": GROUP, "version": VERSION, "kind": KIND});
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": format!("apidiscovery.k8s.io/{version}"),
        "metadata": {},
        "items": [{
            "metadata": {"name": GROUP, "creationTimestamp": null},
            "versions": [{
                "version": VERSION,
                "resources": [{
                    "resource": RESOURCE,
                    "responseKind": kind,
                    "scope": "Namespaced",
                    "singularResource": SINGULAR,
                    "verbs": VERBS,
                    "subresources": [{"subresource": ICON, "responseKind": kind, "verbs": ["get"]}],
                }],
                "freshness": "Current",
            }],
        }],
    })
}

#[cfg(test)]
mod tests {
    use olm_testing::shared::shared_path;

    use super::*;

    #[test]
    fn discovery_is_what_upstream_tells() {
        let Some(path) = shared_path("golden/packageserver-discovery.json") else {
            return;
        };
        let text = std::fs::read_to_string(path).unwrap();
        let documents: Vec<Value> = serde_json::Deserializer::from_str(&text)
            .into_iter()
            .map(Result::unwrap)
            .collect();
        assert_eq!(documents, [group(), resources()]);
    }

    #[test]
    fn aggregated_discovery_tells_the_same() {
        let legacy = resources();
        for version in ["v2", "v2beta1"] {
            let all = aggregated(version);
            assert_eq!(all["apiVersion"], format!("apidiscovery.k8s.io/{version}"));
            let told = &all["items"][0]["versions"][0]["resources"][0];
            assert_eq!(told["verbs"], legacy["resources"][0]["verbs"]);
            assert_eq!(told["resource"], legacy["resources"][0]["name"]);
            assert_eq!(told["subresources"][0]["verbs"], legacy["resources"][1]["verbs"]);
        }
        assert_eq!(groups()["groups"][0]["name"], GROUP);
    }
}
