//! Validation of objects, limited to errors that an apply can cause because fields of other managers stay.

use std::collections::BTreeSet;

use serde_json::Value;

use super::status::Refusal;

/// Refuses ports that share a name, and client configurations with both a Service and a URL.
pub(super) fn check(object: &Value) -> Result<(), Refusal> {
    let kind = object["kind"].as_str().unwrap_or_default();
    let name = &object["metadata"]["name"];
    let refused = |what: &str| Err(Refusal::invalid(&format!("{kind} {name} is invalid: {what}")));
    match kind {
        "Service" => {
            let ports = object["spec"]["ports"].as_array().into_iter().flatten();
            let mut names = BTreeSet::new();
            for name in ports.filter_map(|port| port["name"].as_str()) {
                if !names.insert(name) {
                    return refused(&format!("spec.ports: Duplicate value: {name:?}"));
                }
            }
        }
        "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => {
            let mut webhooks = object["webhooks"].as_array().into_iter().flatten();
            if webhooks.any(|webhook| is_twofold(&webhook["clientConfig"])) {
                return refused("webhooks: exactly one of url or service is required");
            }
        }
        "CustomResourceDefinition"
            if is_twofold(&object["spec"]["conversion"]["webhook"]["clientConfig"]) =>
        {
            return refused("spec.conversion: exactly one of url or service is required");
        }
        _ => {}
    }
    Ok(())
}

fn is_twofold(config: &Value) -> bool {
    config["url"].is_string() && config["service"].is_object()
}
