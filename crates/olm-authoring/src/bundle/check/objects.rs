//! Objects that can harm the cluster they are installed in: the optional check `bundle-objects`.

use serde_json::Value;

use super::text;

/// Security context constraints that are part of OpenShift.
const DEFAULT_SCCS: [&str; 8] = [
    "anyuid",
    "hostaccess",
    "hostmount-anyuid",
    "hostnetwork",
    "node-exporter",
    "nonroot",
    "privileged",
    "restricted",
];

/// Returns the problems of an object, by the rules of its kind.
pub(super) fn problems(object: &Value) -> Vec<String> {
    let name = text(&object["metadata"], "name");
    let describe = |problem: &str| format!("Error: Value {name}: {problem}");
    let kind = text(object, "kind");
    let mut problems = Vec::new();
    match kind {
        "PodDisruptionBudget" => {
            let spec = &object["spec"];
            let most = &spec["maxUnavailable"];
            if *most == 0 || most == "0" || most == "0%" {
                problems.push(describe("maxUnavailable field cannot be set to 0 or 0%"));
            }
            if spec["minAvailable"] == "100%" {
                problems.push(describe("minAvailable field cannot be set to 100%"));
            }
        }
        "PriorityClass" if object["globalDefault"] == true => {
            problems.push(describe("globalDefault field cannot be set to true"));
        }
        "Role" | "ClusterRole" if object["rules"].as_array().into_iter().flatten().any(changes_sccs) => {
            problems.push(describe(
                "RBAC includes permission to modify default securitycontextconstraints, which could impact cluster stability",
            ));
        }
        _ => {}
    }
    problems
}

fn changes_sccs(rule: &Value) -> bool {
    let has = |field: &str, wanted: &[&str]| {
        rule[field]
            .as_array()
            .into_iter()
            .flatten()
            .any(|item| wanted.iter().any(|wanted| item == wanted))
    };
    has("apiGroups", &["security.openshift.io"])
        && has("resources", &["securitycontextconstraints"])
        && has("verbs", &["*", "delete", "update", "patch"])
        && has("resourceNames", &DEFAULT_SCCS)
}
