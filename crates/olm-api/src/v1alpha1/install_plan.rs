//! InstallPlan: the objects to apply for a set of operators, and the progress of that.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Approval;
use crate::Extra;
use crate::condition;
use crate::decode::or_default;
use crate::open_enum::open_enum;
use crate::sparse::List;

open_enum! {
    /// Phase of an InstallPlan.
    pub enum InstallPlanPhase {
        /// Not processed yet.
        None = "",
        /// Defined by the API, never written.
        Planning = "Planning",
        /// A user has to set `spec.approved`.
        RequiresApproval = "RequiresApproval",
        /// Steps are being applied.
        Installing = "Installing",
        /// All steps have been applied.
        Complete = "Complete",
        /// A step could not be applied.
        Failed = "Failed",
    }
}

open_enum! {
    /// Status of a step.
    pub enum StepStatus {
        /// Not tried yet.
        Unknown = "Unknown",
        /// The object does not exist.
        NotPresent = "NotPresent",
        /// The object existed before.
        Present = "Present",
        /// The object was created.
        Created = "Created",
        /// Defined by the API, never written.
        NotCreated = "NotCreated",
        /// The API of the object is not served yet.
        WaitingForApi = "WaitingForApi",
        /// The object is of a kind this cluster does not know.
        UnsupportedResource = "UnsupportedResource",
    }
}

/// Which operators an InstallPlan installs, and whether it may.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "operators.coreos.com",
    version = "v1alpha1",
    kind = "InstallPlan",
    plural = "installplans",
    singular = "installplan",
    shortname = "ip",
    category = "olm",
    namespaced,
    status = "InstallPlanStatus",
    derive = "Default",
    derive = "PartialEq",
    schema = "disabled",
    doc = "The objects to apply for a set of operators, whether that may begin, and their status.",
    crates(kube_core = "kube_core"),
    printcolumn = r#"{"name":"CSV","type":"string","description":"The first of the ClusterServiceVersions in the plan","jsonPath":".spec.clusterServiceVersionNames[0]"}"#,
    printcolumn = r#"{"name":"Approval","type":"string","description":"Who approves the plan","jsonPath":".spec.approval"}"#,
    printcolumn = r#"{"name":"Approved","type":"boolean","jsonPath":".spec.approved"}"#
)]
#[serde(rename_all = "camelCase", default)]
pub struct InstallPlanSpec {
    /// Names of the ClusterServiceVersions the plan installs.
    #[serde(deserialize_with = "or_default")]
    pub cluster_service_version_names: Vec<String>,
    /// Automatic when the plan starts by itself, Manual when a user has to approve it.
    #[serde(deserialize_with = "or_default")]
    pub approval: Approval,
    /// Whether the plan may start. Set this to true to approve a plan.
    #[serde(deserialize_with = "or_default")]
    pub approved: bool,
    /// Number of the plan in its namespace; a higher one supersedes a lower one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::integer")]
    pub generation: Option<i64>,
    /// Not used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Not used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_namespace: Option<String>,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// How far an InstallPlan is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct InstallPlanStatus {
    /// Where the plan stands: RequiresApproval, Installing, Complete or Failed.
    #[serde(deserialize_with = "or_default")]
    pub phase: InstallPlanPhase,
    /// Names of the CatalogSources the operators come from.
    #[serde(deserialize_with = "or_default")]
    pub catalog_sources: Vec<String>,
    /// Whether the plan has been carried out.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub conditions: List<InstallPlanCondition>,
    /// Objects to apply, in this order.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub plan: List<Step>,
    /// Bundles whose content has to be fetched.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub bundle_lookups: List<BundleLookup>,
    /// ServiceAccount whose permissions the plan is carried out with, if the OperatorGroup names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attenuated_service_account_ref: Option<ObjectReference>,
    /// When the plan was first tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// Why the plan failed or is being retried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// Tolerance for the creation time of a ClusterServiceVersion that seems to be later than the end of its plan: clocks differ.
const CLOCK_SKEW: k8s_openapi::jiff::SignedDuration = k8s_openapi::jiff::SignedDuration::from_secs(60);

impl InstallPlan {
    /// Returns the phase; [`InstallPlanPhase::None`] without status.
    pub fn phase(&self) -> InstallPlanPhase {
        let status = self.status.as_ref();
        status.map(|status| status.phase.clone()).unwrap_or_default()
    }

    /// Returns true if the plan has its steps and waits for approval.
    pub fn waits_for_approval(&self) -> bool {
        self.phase() == InstallPlanPhase::RequiresApproval
            && !self.spec.approved
            && self.metadata.deletion_timestamp.is_none()
    }

    /// Returns true if the plan has completed or failed, both final.
    pub fn is_over(&self) -> bool {
        matches!(
            self.phase(),
            InstallPlanPhase::Complete | InstallPlanPhase::Failed
        )
    }

    /// Returns true if the ClusterServiceVersion with this metadata existed when the plan ended, so it can be the one that the
    /// plan created or found. False for a plan that is not installed. The name alone proves nothing: a user who may create
    /// ClusterServiceVersions can reuse the name of one that an old plan installed, long after it was deleted.
    pub fn found_or_made(&self, csv: &ObjectMeta) -> bool {
        let conditions = self.status.iter().flat_map(|status| status.conditions.iter());
        let ended = conditions
            .filter(|condition| {
                condition.type_.as_deref() == Some(condition::install_plan::INSTALLED)
                    && condition.status.as_deref() == Some("True")
            })
            .find_map(|condition| condition.last_transition_time.as_ref());
        match (ended, &csv.creation_timestamp) {
            (Some(ended), Some(created)) => created.0.duration_since(ended.0) <= CLOCK_SKEW,
            _ => false,
        }
    }
}

/// One statement about an InstallPlan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct InstallPlanCondition {
    /// What it is about: Installed.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// True, False or Unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// When the condition was last written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
    /// When its status last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// Why, in one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// One object to apply.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Step {
    /// Name of the ClusterServiceVersion that brings the object.
    #[serde(deserialize_with = "or_default")]
    pub resolving: String,
    /// The object.
    #[serde(deserialize_with = "or_default")]
    pub resource: StepResource,
    /// Whether the plan may go on without the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optional: Option<bool>,
    /// What became of the object: Unknown, NotPresent, Present, Created, WaitingForApi or UnsupportedResource.
    #[serde(deserialize_with = "or_default")]
    pub status: StepStatus,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// An object of an InstallPlan and where it comes from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StepResource {
    /// Name of the CatalogSource the object comes from.
    #[serde(deserialize_with = "or_default")]
    pub source_name: String,
    /// Namespace of that CatalogSource.
    #[serde(deserialize_with = "or_default")]
    pub source_namespace: String,
    /// Group of the object, empty for the core group.
    #[serde(deserialize_with = "or_default")]
    pub group: String,
    /// Version of the object's API.
    #[serde(deserialize_with = "or_default")]
    pub version: String,
    /// Kind of the object.
    #[serde(deserialize_with = "or_default")]
    pub kind: String,
    /// Name of the object.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// The object as JSON, or a JSON reference to where the content of its bundle is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manifest: Option<String>,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// A bundle whose content has to be fetched.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BundleLookup {
    /// Image of the bundle.
    #[serde(deserialize_with = "or_default")]
    pub path: String,
    /// Name of the ClusterServiceVersion in the bundle.
    #[serde(deserialize_with = "or_default")]
    pub identifier: String,
    /// Name of the ClusterServiceVersion it replaces, may be empty.
    #[serde(deserialize_with = "or_default")]
    pub replaces: String,
    /// The CatalogSource the bundle comes from.
    #[serde(deserialize_with = "or_default")]
    pub catalog_source_ref: ObjectReference,
    /// Properties of the bundle in the catalog, as JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub properties: Option<String>,
    /// Whether the content is on its way or cannot be had.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub conditions: List<BundleLookupCondition>,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// One statement about a bundle's content.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BundleLookupCondition {
    /// What it is about: BundleLookupPending or BundleLookupFailed.
    #[serde(rename = "type", deserialize_with = "or_default")]
    pub type_: String,
    /// True, False or Unknown.
    #[serde(deserialize_with = "or_default")]
    pub status: String,
    /// Why, in one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When the condition was last written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
    /// When its status last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}
