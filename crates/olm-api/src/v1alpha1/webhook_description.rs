//! Webhooks that a ClusterServiceVersion declares for its operator.

use k8s_openapi::api::admissionregistration::v1::RuleWithOperations;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Extra;
use crate::decode::or_default;
use crate::embedded::Embedded;
use crate::open_enum::open_enum;
use crate::sparse::List;

open_enum! {
    /// Kind of a webhook.
    pub enum WebhookType {
        /// Validating admission webhook.
        Validating = "ValidatingAdmissionWebhook",
        /// Mutating admission webhook.
        Mutating = "MutatingAdmissionWebhook",
        /// Conversion webhook of a CustomResourceDefinition.
        Conversion = "ConversionWebhook",
    }
}

/// A webhook the operator serves.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WebhookDescription {
    /// Base of the webhook configuration's name, and name of its one webhook.
    #[serde(deserialize_with = "or_default")]
    pub generate_name: String,
    /// Kind of webhook.
    #[serde(rename = "type", deserialize_with = "or_default")]
    #[schemars(extend("enum" = ["ValidatingAdmissionWebhook", "MutatingAdmissionWebhook", "ConversionWebhook"]))]
    pub type_: WebhookType,
    /// Deployment of the install strategy that serves the webhook.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deployment_name: Option<String>,
    /// Port of the Service in front of the webhook.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535), extend("x-default" = 443))]
    pub container_port: Option<i32>,
    /// Port, or name of the port, of the container that serves the webhook.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_port: Option<IntOrString>,
    /// Operations and resources the webhook is called for.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub rules: List<Embedded<RuleWithOperations>>,
    /// What happens when the webhook cannot be called: Fail or Ignore.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_policy: Option<String>,
    /// How rules are matched: Exact or Equivalent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub match_policy: Option<String>,
    /// Objects the webhook is called for, by their labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object_selector: Option<Embedded<LabelSelector>>,
    /// Whether calling the webhook has side effects: None, NoneOnDryRun, Some or Unknown.
    pub side_effects: Option<String>,
    /// How long a call may take, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<i32>,
    /// Versions of AdmissionReview, or ConversionReview, the webhook understands, best first.
    pub admission_review_versions: Option<Vec<String>>,
    /// Whether a mutating webhook is called again after others changed the object: Never or IfNeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reinvocation_policy: Option<String>,
    /// Path of the webhook's address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook_path: Option<String>,
    /// Names of the CustomResourceDefinitions a conversion webhook converts.
    #[serde(rename = "conversionCRDs", skip_serializing_if = "List::is_absent")]
    pub conversion_crds: List<String>,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}
