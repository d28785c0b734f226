//! ClusterServiceVersion: one version of one operator, how it is installed and how that goes.

use k8s_openapi::api::admissionregistration::v1::RuleWithOperations;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use semver::Version;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::InstallStrategy;
use crate::decode::or_default;
use crate::embedded::Embedded;
use crate::open_enum::open_enum;
use crate::sparse::{List, Map};
use crate::version::{VersionError, parse_tolerant};
use crate::{Extra, condition, labels};

open_enum! {
    /// Phase of a ClusterServiceVersion.
    pub enum ClusterServiceVersionPhase {
        /// Not looked at yet.
        None = "",
        /// Requirements are being checked.
        Pending = "Pending",
        /// Requirements are met.
        InstallReady = "InstallReady",
        /// Components are installed and not all healthy yet.
        Installing = "Installing",
        /// All components are healthy.
        Succeeded = "Succeeded",
        /// The install failed, or a component is not healthy any more.
        Failed = "Failed",
        /// Nothing is known.
        Unknown = "Unknown",
        /// A successor is being installed.
        Replacing = "Replacing",
        /// The successor has succeeded; this object goes.
        Deleting = "Deleting",
    }
}

open_enum! {
    /// Shape of an OperatorGroup that an operator can be installed with.
    pub enum InstallModeType {
        /// The one target namespace is the operator's own.
        OwnNamespace = "OwnNamespace",
        /// The one target namespace is not the operator's own.
        SingleNamespace = "SingleNamespace",
        /// There are several target namespaces.
        MultiNamespace = "MultiNamespace",
        /// The target is the whole cluster.
        AllNamespaces = "AllNamespaces",
    }
}

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

/// What the author of an operator says about one version of it: what it is, what it needs, which APIs it brings and
/// how it is installed.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "operators.coreos.com",
    version = "v1alpha1",
    kind = "ClusterServiceVersion",
    plural = "clusterserviceversions",
    singular = "clusterserviceversion",
    shortname = "csv",
    shortname = "csvs",
    category = "olm",
    namespaced,
    status = "ClusterServiceVersionStatus",
    derive = "Default",
    derive = "PartialEq",
    schema = "disabled",
    doc = "One version of an operator: what it needs, what it provides, how it is installed, and how far that is.",
    crates(kube_core = "kube_core"),
    printcolumn = r#"{"name":"Display","type":"string","description":"The name of the operator for people","jsonPath":".spec.displayName"}"#,
    printcolumn = r#"{"name":"Version","type":"string","description":"The version of the operator","jsonPath":".spec.version"}"#,
    printcolumn = r#"{"name":"Release","type":"string","description":"The packaging release of that version","jsonPath":".spec.release"}"#,
    printcolumn = r#"{"name":"Replaces","type":"string","description":"The ClusterServiceVersion this one succeeds","jsonPath":".spec.replaces"}"#,
    printcolumn = r#"{"name":"Phase","type":"string","jsonPath":".status.phase"}"#
)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterServiceVersionSpec {
    /// How the operator is installed.
    #[serde(deserialize_with = "or_default")]
    pub install: InstallStrategy,
    /// Semantic version of the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Packaging release of this version: dot-separated identifiers of letters, digits and hyphens, compared after the
    /// version, identifier by identifier, as semantic versioning compares pre-releases.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxLength" = 20, "x-kubernetes-validations" = release_rules()))]
    pub release: Option<String>,
    /// How mature the operator is, for example alpha, beta or stable; free text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maturity: Option<String>,
    /// Name of the operator for people.
    #[serde(deserialize_with = "or_default")]
    pub display_name: String,
    /// What the operator does, in Markdown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Words by which people search for the operator.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub keywords: List<String>,
    /// Who maintains the operator.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub maintainers: List<Maintainer>,
    /// Who publishes the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<AppLink>,
    /// Documentation, source code and other pages about the operator.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub links: List<AppLink>,
    /// Pictures of the operator.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub icon: List<Icon>,
    /// Oldest Kubernetes version the operator works on, as a semantic version of three parts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_kube_version: Option<String>,
    /// APIs of Kubernetes itself, or of aggregated servers, that have to be there.
    #[serde(rename = "nativeAPIs", skip_serializing_if = "List::is_absent")]
    pub native_apis: List<GroupVersionKind>,
    /// Custom resources the operator brings or needs.
    #[serde(rename = "customresourcedefinitions", skip_serializing_if = "Option::is_none")]
    pub custom_resource_definitions: Option<CustomResourceDefinitions>,
    /// Aggregated APIs the operator brings or needs.
    #[serde(rename = "apiservicedefinitions", skip_serializing_if = "Option::is_none")]
    pub api_service_definitions: Option<ApiServiceDefinitions>,
    /// Webhooks the operator serves.
    #[serde(rename = "webhookdefinitions", skip_serializing_if = "List::is_absent")]
    pub webhook_definitions: List<WebhookDescription>,
    /// Which shapes of OperatorGroup the operator can be installed with. A mode that is not listed is not supported.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub install_modes: List<InstallMode>,
    /// Name of the ClusterServiceVersion this one succeeds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replaces: Option<String>,
    /// Names of further ClusterServiceVersions that may be upgraded to this one directly.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub skips: List<String>,
    /// Labels for the operator's objects, as information.
    #[serde(skip_serializing_if = "Map::is_absent")]
    pub labels: Map,
    /// Annotations for the operator's objects, as information.
    #[serde(skip_serializing_if = "Map::is_absent")]
    pub annotations: Map,
    /// Labels by which objects that belong to the operator are found, as information.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<Embedded<LabelSelector>>,
    /// What happens to the operator's custom resources when this object is deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cleanup: Option<CleanupSpec>,
    /// Images the operator uses, for mirroring.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub related_images: List<RelatedImage>,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

impl ClusterServiceVersionSpec {
    /// Parsed version, 0.0.0 when there is none.
    ///
    /// # Errors
    /// When the text is not a version even if [read tolerantly](parse_tolerant).
    pub fn version(&self) -> Result<Version, VersionError> {
        self.version
            .as_deref()
            .map_or(Ok(Version::new(0, 0, 0)), parse_tolerant)
    }

    /// Name of the predecessor; an empty one means none.
    pub fn replaces(&self) -> Option<&str> {
        self.replaces.as_deref().filter(|name| !name.is_empty())
    }

    /// Custom resources the operator brings.
    pub fn owned_crds(&self) -> &[CrdDescription] {
        self.custom_resource_definitions
            .as_ref()
            .map_or(&[], |definitions| &definitions.owned)
    }

    /// Custom resources the operator needs.
    pub fn required_crds(&self) -> &[CrdDescription] {
        self.custom_resource_definitions
            .as_ref()
            .map_or(&[], |definitions| &definitions.required)
    }

    /// Aggregated APIs the operator brings.
    pub fn owned_api_services(&self) -> &[ApiServiceDescription] {
        self.api_service_definitions
            .as_ref()
            .map_or(&[], |definitions| &definitions.owned)
    }

    /// Aggregated APIs the operator needs.
    pub fn required_api_services(&self) -> &[ApiServiceDescription] {
        self.api_service_definitions
            .as_ref()
            .map_or(&[], |definitions| &definitions.required)
    }
}

fn release_rules() -> Value {
    json!([
        {
            "rule": "self.matches('^[0-9A-Za-z-]+(\\\\.[0-9A-Za-z-]+)*$')",
            "message": "release version must be composed of dot-separated identifiers containing only alphanumerics and hyphens",
        },
        {
            "rule": "!self.split('.').exists(x, x.matches('^0[0-9]+$'))",
            "message": "numeric identifiers in release version must not have leading zeros",
        },
    ])
}

/// A person or team.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Maintainer {
    /// Name of the person or team.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Mail address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// A named page on the web.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AppLink {
    /// What is found there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Address of the page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// A picture.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Icon {
    /// The picture, in base64.
    #[serde(deserialize_with = "or_default")]
    pub base64data: String,
    /// Media type of the picture, for example image/svg+xml.
    #[serde(deserialize_with = "or_default")]
    pub mediatype: String,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// One API.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupVersionKind {
    /// Group of the API, empty for the core group.
    #[serde(deserialize_with = "or_default")]
    pub group: String,
    /// Version of the API.
    #[serde(deserialize_with = "or_default")]
    pub version: String,
    /// Kind of the API.
    #[serde(deserialize_with = "or_default")]
    pub kind: String,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// Custom resources an operator brings or needs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CustomResourceDefinitions {
    /// Custom resources the operator brings.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub owned: List<CrdDescription>,
    /// Custom resources the operator needs another operator to bring.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub required: List<CrdDescription>,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// One custom resource.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CrdDescription {
    /// Name of the CustomResourceDefinition: plural and group, joined by a dot.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// Version of the API.
    #[serde(deserialize_with = "or_default")]
    pub version: String,
    /// Kind of the API.
    #[serde(deserialize_with = "or_default")]
    pub kind: String,
    /// Name of the kind for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// What the kind is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Kinds of object the operator makes for one custom resource.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub resources: List<ApiResourceReference>,
    /// How consoles show and edit fields of the spec.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub spec_descriptors: List<Descriptor>,
    /// How consoles show fields of the status.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub status_descriptors: List<Descriptor>,
    /// Actions consoles offer.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub action_descriptors: List<Descriptor>,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// Aggregated APIs an operator brings or needs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ApiServiceDefinitions {
    /// Aggregated APIs the operator serves.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub owned: List<ApiServiceDescription>,
    /// Aggregated APIs the operator needs another operator to serve.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub required: List<ApiServiceDescription>,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// One aggregated API. Its APIService is called after version and group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ApiServiceDescription {
    /// Plural name of the resource.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// Group of the API.
    #[serde(deserialize_with = "or_default")]
    pub group: String,
    /// Version of the API.
    #[serde(deserialize_with = "or_default")]
    pub version: String,
    /// Kind of the API.
    #[serde(deserialize_with = "or_default")]
    pub kind: String,
    /// Deployment of the install strategy that serves the API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deployment_name: Option<String>,
    /// Port the API is served on, 443 when not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_port: Option<i32>,
    /// Name of the kind for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// What the kind is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Kinds of object the operator makes for one object of the API.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub resources: List<ApiResourceReference>,
    /// How consoles show and edit fields of the spec.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub spec_descriptors: List<Descriptor>,
    /// How consoles show fields of the status.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub status_descriptors: List<Descriptor>,
    /// Actions consoles offer.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub action_descriptors: List<Descriptor>,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

impl ApiServiceDescription {
    /// Name of the APIService object: `<version>.<group>`.
    pub fn api_service_name(&self) -> String {
        format!("{}.{}", self.version, self.group)
    }
}

/// A kind of object an operator makes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ApiResourceReference {
    /// Plural name of the resource, may be empty.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// Kind of the object.
    #[serde(deserialize_with = "or_default")]
    pub kind: String,
    /// Version of the API.
    #[serde(deserialize_with = "or_default")]
    pub version: String,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// How consoles treat one field or action.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Descriptor {
    /// Path of the field below spec or status, or name of the action.
    #[serde(deserialize_with = "or_default")]
    pub path: String,
    /// Name of the field for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// What the field is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// How consoles render the field.
    #[serde(rename = "x-descriptors", skip_serializing_if = "List::is_absent")]
    pub x_descriptors: List<String>,
    /// Value of the field, for descriptors that carry one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::bytes")]
    pub value: Option<Value>,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
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

/// Whether one shape of OperatorGroup is supported.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct InstallMode {
    /// The shape: OwnNamespace, SingleNamespace, MultiNamespace or AllNamespaces.
    #[serde(rename = "type", deserialize_with = "or_default")]
    pub type_: InstallModeType,
    /// Whether it is supported.
    #[serde(deserialize_with = "or_default")]
    pub supported: bool,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// What happens to custom resources on deletion.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CleanupSpec {
    /// Whether objects of the owned APIs are removed before the operator is.
    #[serde(deserialize_with = "or_default")]
    pub enabled: bool,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// An image the operator uses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RelatedImage {
    /// What the image is for.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// Reference of the image.
    #[serde(deserialize_with = "or_default")]
    pub image: String,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// How far the install of an operator is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterServiceVersionStatus {
    /// Where the install stands.
    #[serde(
        skip_serializing_if = "ClusterServiceVersionPhase::is_unset",
        deserialize_with = "or_default"
    )]
    pub phase: ClusterServiceVersionPhase,
    /// Why the object is in this phase, in one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why the object is in this phase, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When this status was last set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
    /// When the phase last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// The last twenty phases and reasons, oldest first.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub conditions: List<ClusterServiceVersionCondition>,
    /// What the operator requires, and whether it is there.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub requirement_status: List<RequirementStatus>,
    /// When serving certificates were last issued.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certs_last_updated: Option<Time>,
    /// When serving certificates will be replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certs_rotate_at: Option<Time>,
    /// What is left to remove before the operator goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cleanup: Option<CleanupStatus>,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// One step of the history of an install.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterServiceVersionCondition {
    /// Where the install stood.
    #[serde(
        skip_serializing_if = "ClusterServiceVersionPhase::is_unset",
        deserialize_with = "or_default"
    )]
    pub phase: ClusterServiceVersionPhase,
    /// Why, in one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When the status was set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
    /// When the phase had last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// One requirement and whether it is met.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RequirementStatus {
    /// Group of the required object, empty for the core group.
    #[serde(deserialize_with = "or_default")]
    pub group: String,
    /// Version of the required object's API.
    #[serde(deserialize_with = "or_default")]
    pub version: String,
    /// Kind of the required object.
    #[serde(deserialize_with = "or_default")]
    pub kind: String,
    /// Name of the required object.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// Present, NotPresent, PresentNotSatisfied or PresentNotAvailable; for an owned aggregated API also DeploymentFound
    /// or DeploymentNotFound.
    #[serde(deserialize_with = "or_default")]
    pub status: String,
    /// What was found.
    #[serde(deserialize_with = "or_default")]
    pub message: String,
    /// Uid of the object that was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// What the requirement consists of, for example the rules a ServiceAccount must have.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub dependents: List<DependentStatus>,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// Part of a requirement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DependentStatus {
    /// Group of the part.
    #[serde(deserialize_with = "or_default")]
    pub group: String,
    /// Version of the part.
    #[serde(deserialize_with = "or_default")]
    pub version: String,
    /// Kind of the part.
    #[serde(deserialize_with = "or_default")]
    pub kind: String,
    /// Satisfied or NotSatisfied.
    #[serde(deserialize_with = "or_default")]
    pub status: String,
    /// Uid of the object that was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// What was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// What is left to remove.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CleanupStatus {
    /// Custom resources that have been deleted and are not gone yet, by kind.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub pending_deletion: List<ResourceList>,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// Objects of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceList {
    /// Group of the kind.
    #[serde(deserialize_with = "or_default")]
    pub group: String,
    /// The kind.
    #[serde(deserialize_with = "or_default")]
    pub kind: String,
    /// The objects.
    #[serde(deserialize_with = "or_default")]
    pub instances: Vec<ResourceInstance>,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// One object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceInstance {
    /// Name of the object.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// Namespace of the object, absent for a cluster-wide one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// Reasons for which a ClusterServiceVersion is not copied to target namespaces, besides being a copy.
const BAD_OPERATOR_GROUP_REASONS: [&str; 7] = [
    condition::csv::INVALID_INSTALL_MODES,
    condition::csv::NO_TARGET_NAMESPACES,
    condition::csv::UNSUPPORTED_OPERATOR_GROUP,
    condition::csv::NO_OPERATOR_GROUP,
    condition::csv::TOO_MANY_OPERATOR_GROUPS,
    condition::csv::INTER_OPERATOR_GROUP_OWNER_CONFLICT,
    condition::csv::CANNOT_MODIFY_STATIC_OPERATOR_GROUP_PROVIDED_APIS,
];

impl ClusterServiceVersion {
    /// Phase, [`ClusterServiceVersionPhase::None`] without status.
    pub fn phase(&self) -> &ClusterServiceVersionPhase {
        self.status
            .as_ref()
            .map_or(&ClusterServiceVersionPhase::None, |status| &status.phase)
    }

    /// Reason of the status, empty when there is none.
    pub fn reason(&self) -> &str {
        self.status
            .as_ref()
            .and_then(|status| status.reason.as_deref())
            .unwrap_or_default()
    }

    /// Whether a successor has been seen: some entry of the history says Replaced or BeingReplaced.
    pub fn is_obsolete(&self) -> bool {
        self.status
            .iter()
            .flat_map(|status| &status.conditions)
            .any(|entry| {
                matches!(
                    entry.reason.as_deref(),
                    Some(condition::csv::REPLACED | condition::csv::BEING_REPLACED)
                )
            })
    }

    /// Whether this is the copy of an operator of another namespace.
    pub fn is_copied(&self) -> bool {
        let annotation = self
            .metadata
            .annotations
            .as_ref()
            .and_then(|all| all.get(labels::OPERATOR_NAMESPACE));
        let own = self.metadata.namespace.as_deref().unwrap_or_default();
        self.reason() == condition::csv::COPIED
            || annotation.is_some_and(|namespace| namespace != own)
            || self
                .metadata
                .labels
                .as_ref()
                .is_some_and(|all| all.contains_key(labels::COPIED_FROM))
    }

    /// Whether no copies of this object may be made: it has no phase yet, is a copy, or does not fit its OperatorGroup.
    pub fn is_uncopiable(&self) -> bool {
        let reason = self.reason();
        *self.phase() == ClusterServiceVersionPhase::None
            || reason == condition::csv::COPIED
            || BAD_OPERATOR_GROUP_REASONS.contains(&reason)
    }

    /// Whether OperatorGroup annotations may be written in its present state.
    pub fn is_safe_to_annotate(&self) -> bool {
        let reason = self.reason();
        [condition::csv::OWNER_CONFLICT, condition::csv::INSTALL_SUCCEEDED].contains(&reason)
            || *self.phase() == ClusterServiceVersionPhase::None
            || BAD_OPERATOR_GROUP_REASONS.contains(&reason)
    }
}
