//! Restricts the rules of webhooks: they may match neither everything nor the objects that control webhooks
//! and OLM itself.

use std::collections::BTreeSet;

use k8s_openapi::{
    api::admissionregistration::v1::RuleWithOperations, apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use olm_api::{
    permission,
    v1alpha1::{ClusterServiceVersion, WebhookDescription, WebhookType},
};

/// The group of webhook configurations.
const ADMISSION: &str = "admissionregistration.k8s.io";
/// Resources of that group that may not be intercepted: plural names, and the kinds that upstream checks.
const CONFIGURATIONS: [&str; 4] = [
    "mutatingwebhookconfigurations",
    "validatingwebhookconfigurations",
    "mutatingwebhookconfiguration",
    "validatingwebhookconfiguration",
];

/// Reason why a webhook description is rejected.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Refused {
    /// Message for users. If upstream rejects it, too, it is upstream's text, which does not name the
    /// webhook.
    pub(crate) text: String,
    /// The webhook, if the text does not name it.
    pub(crate) webhook: Option<Box<WebhookDescription>>,
}

impl From<String> for Refused {
    fn from(text: String) -> Self {
        Self { text, webhook: None }
    }
}

/// Checks that the webhooks of a ClusterServiceVersion may be installed.
///
/// # Errors
/// The first one that may not, with the reason.
pub(crate) fn check(csv: &ClusterServiceVersion) -> Result<(), Refused> {
    let mut names = BTreeSet::new();
    for description in &csv.spec.webhook_definitions {
        let refused = |text: &str| Refused {
            text: text.to_owned(),
            webhook: Some(Box::new(description.clone())),
        };
        let name = description.generate_name.as_str();
        if name.is_empty() {
            return Err("CSV contains a WebhookDescription without a generateName"
                .to_owned()
                .into());
        }
        if !names.insert(name) {
            return Err(refused("CSV contains repeated WebhookDescription name"));
        }
        if let WebhookType::Other(kind) = &description.type_ {
            return Err(format!("webhook {name}: invalid type {kind}").into());
        }
        object_selector(description)?;
        let is_mutating = description.type_ == WebhookType::Mutating;
        let forbidden = rules(description)?
            .iter()
            .find_map(|rule| forbidden(rule, is_mutating));
        if let Some(text) = forbidden {
            return Err(refused(text));
        }
    }
    Ok(())
}

/// Returns the rules of a description.
///
/// # Errors
/// The invalid field, for users.
pub(crate) fn rules(description: &WebhookDescription) -> Result<Vec<RuleWithOperations>, String> {
    let what = format!("webhook {}: rules", description.generate_name);
    olm_api::embedded::decode_all(&description.rules, &what).map_err(|error| error.to_string())
}

/// Returns the selector of the objects that a description is for; `None` for all.
///
/// # Errors
/// The invalid field, for users.
pub(crate) fn object_selector(description: &WebhookDescription) -> Result<Option<LabelSelector>, String> {
    let what = format!("webhook {}: objectSelector", description.generate_name);
    let selector = description.object_selector.as_ref();
    selector
        .map(|selector| selector.decode(&what).map_err(|error| error.to_string()))
        .transpose()
}

fn forbidden(rule: &RuleWithOperations, is_mutating: bool) -> Option<&'static str> {
    let groups = rule.api_groups.as_deref().unwrap_or_default();
    let has = |wanted: &str| groups.iter().any(|group| group == wanted);
    if has("*") {
        return Some("webhook rules cannot include all groups");
    }
    if has(olm_api::GROUP) {
        return Some("webhook rules cannot include the OLM group");
    }
    // OLM writes Roles with more rights than the author of the ClusterServiceVersion has. The API server
    // checks the writer's rights only after mutating webhooks have changed the object.
    if is_mutating && has(permission::API_GROUP) {
        return Some(
            "rules of a mutating webhook cannot include the RBAC group because OLM writes such objects with its own rights",
        );
    }
    let intercepts = rule.resources.iter().flatten().any(|resource| {
        let resource = resource.to_ascii_lowercase();
        let whole = resource.split('/').next().unwrap_or_default();
        whole == "*" || CONFIGURATIONS.contains(&whole)
    });
    (has(ADMISSION) && intercepts).then_some(
        "webhook rules cannot include MutatingWebhookConfiguration or ValidatingWebhookConfiguration resources",
    )
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn csv(webhooks: Value) -> ClusterServiceVersion {
        serde_json::from_value(
            json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
            "metadata": {"name": "a", "namespace": "ns"}, "spec": {"webhookdefinitions": webhooks}}),
        )
        .unwrap()
    }

    fn with_rule(groups: Value, resources: Value) -> Result<(), String> {
        with_rule_of("ValidatingAdmissionWebhook", groups, resources)
    }

    fn with_rule_of(kind: &str, groups: Value, resources: Value) -> Result<(), String> {
        check(&csv(json!([{"generateName": "v.example.com", "type": kind,
            "rules": [{"apiGroups": groups, "apiVersions": ["v1"], "operations": ["CREATE"], "resources": resources}]}])))
        .map_err(|refused| refused.text)
    }

    #[test]
    fn forbidden_intercepts_are_refused_however_they_are_written() {
        const ALL: &str = "webhook rules cannot include all groups";
        const OLM: &str = "webhook rules cannot include the OLM group";
        const OWN: &str = "webhook rules cannot include MutatingWebhookConfiguration or \
            ValidatingWebhookConfiguration resources";
        let cases = [
            ("*", "pods", Some(ALL)),
            ("operators.coreos.com", "subscriptions", Some(OLM)),
            (ADMISSION, "*", Some(OWN)),
            (ADMISSION, "*/*", Some(OWN)),
            (ADMISSION, "MutatingWebhookConfiguration", Some(OWN)),
            (ADMISSION, "mutatingwebhookconfigurations", Some(OWN)),
            (ADMISSION, "validatingwebhookconfigurations/status", Some(OWN)),
            (ADMISSION, "ValidatingWebhookConfigurations", Some(OWN)),
            (ADMISSION, "validatingadmissionpolicies", None),
            ("", "*", None),
            ("example.com", "mutatingwebhookconfigurations", None),
        ];
        for (group, resource, expected) in cases {
            let found = with_rule(json!(["apps", group]), json!(["x", resource]));
            assert_eq!(found.err().as_deref(), expected, "{group} {resource}");
        }
    }

    /// Otherwise any user who can create a ClusterServiceVersion could add any right to the Roles that OLM
    /// writes for it.
    #[test]
    fn no_webhook_changes_what_olm_writes_of_rbac() {
        let groups = json!(["apps", "rbac.authorization.k8s.io"]);
        let changing = with_rule_of("MutatingAdmissionWebhook", groups.clone(), json!(["roles"]));
        let error = changing.unwrap_err();
        assert!(error.contains("cannot include the RBAC group"), "{error}");
        assert_eq!(with_rule(groups, json!(["roles"])), Ok(()));
    }

    #[test]
    fn names_are_given_once_whatever_the_type() {
        let named = |name: &str, kind: &str| json!({"generateName": name, "type": kind});
        let twice = json!([
            named("a", "ValidatingAdmissionWebhook"),
            named("a", "MutatingAdmissionWebhook")
        ]);
        let refused = check(&csv(twice)).unwrap_err();
        assert_eq!(refused.text, "CSV contains repeated WebhookDescription name");
        assert_eq!(refused.webhook.unwrap().generate_name, "a");
        let fine = json!([
            named("a", "ValidatingAdmissionWebhook"),
            named("b", "ValidatingAdmissionWebhook")
        ]);
        assert_eq!(check(&csv(fine)), Ok(()));
        let unnamed = json!([{"type": "ValidatingAdmissionWebhook"}]);
        assert!(check(&csv(unnamed)).is_err());
        assert_eq!(
            check(&csv(json!([named("a", "Webhook")]))).unwrap_err().text,
            "webhook a: invalid type Webhook"
        );
    }

    #[test]
    fn rules_that_do_not_decode_are_named() {
        let error = with_rule(json!("apps"), json!(["pods"])).unwrap_err();
        assert!(
            error.contains("webhook v.example.com: rules[0]") && error.contains("apiGroups"),
            "{error}"
        );
    }
}
