//! Webhooks that a ClusterServiceVersion declares for its operator.

use k8s_openapi::api::admissionregistration::v1::RuleWithOperations;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::api_type::api_type;
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

api_type! {
    /// A webhook the operator serves.
    pub struct WebhookDescription {
        /// Base of the webhook configuration's name, and name of its one webhook.
        pub generate_name: String,
        /// Kind of webhook.
        #[serde(rename = "type")]
        pub type_: WebhookType,
        /// Deployment of the install strategy that serves the webhook.
        pub deployment_name: Option<String>,
        /// Port of the Service in front of the webhook.
        pub container_port: Option<i32>,
        /// Port, or name of the port, of the container that serves the webhook.
        pub target_port: Option<IntOrString>,
        /// Operations and resources the webhook is called for.
        pub rules: List<Embedded<RuleWithOperations>>,
        /// What happens when the webhook cannot be called: Fail or Ignore.
        pub failure_policy: Option<String>,
        /// How rules are matched: Exact or Equivalent.
        pub match_policy: Option<String>,
        /// Objects the webhook is called for, by their labels.
        pub object_selector: Option<Embedded<LabelSelector>>,
        #[null_when_absent]
        /// Whether calling the webhook has side effects: None, NoneOnDryRun, Some or Unknown.
        pub side_effects: Option<String>,
        /// How long a call may take, in seconds.
        pub timeout_seconds: Option<i32>,
        #[null_when_absent]
        /// Versions of AdmissionReview, or ConversionReview, the webhook understands, best first.
        pub admission_review_versions: Option<Vec<String>>,
        /// Whether a mutating webhook is called again after others changed the object: Never or IfNeeded.
        pub reinvocation_policy: Option<String>,
        /// Path of the webhook's address.
        pub webhook_path: Option<String>,
        /// Names of the CustomResourceDefinitions a conversion webhook converts.
        #[serde(rename = "conversionCRDs")]
        pub conversion_crds: List<String>,
    }
}
