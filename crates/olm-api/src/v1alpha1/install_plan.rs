//! InstallPlan: the objects to apply for a set of operators, and the progress of that.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use super::Approval;
use crate::api_type::{api_kind, api_type};
use crate::condition;
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

api_kind! {
    /// Which operators an InstallPlan installs, and whether it may.
    #[kube(
        group = "operators.coreos.com",
        version = "v1alpha1",
        kind = "InstallPlan",
        plural = "installplans",
        namespaced,
        status = "InstallPlanStatus",
        doc = "The objects to apply for a set of operators, whether that may begin, and their status."
    )]
    pub struct InstallPlanSpec {
        /// Names of the ClusterServiceVersions the plan installs.
        pub cluster_service_version_names: Vec<String>,
        /// Automatic when the plan starts by itself, Manual when a user has to approve it.
        pub approval: Approval,
        /// Whether the plan may start. Set this to true to approve a plan.
        pub approved: bool,
        /// Number of the plan in its namespace; a higher one supersedes a lower one.
        pub generation: Option<i64>,
        /// Not used.
        pub source: Option<String>,
        /// Not used.
        pub source_namespace: Option<String>,
    }
}

api_type! {
    /// How far an InstallPlan is.
    pub struct InstallPlanStatus {
        /// Where the plan stands: RequiresApproval, Installing, Complete or Failed.
        pub phase: InstallPlanPhase,
        /// Names of the CatalogSources the operators come from.
        pub catalog_sources: Vec<String>,
        /// Whether the plan has been carried out.
        pub conditions: List<InstallPlanCondition>,
        /// Objects to apply, in this order.
        pub plan: List<Step>,
        /// Bundles whose content has to be fetched.
        pub bundle_lookups: List<BundleLookup>,
        /// ServiceAccount whose permissions the plan is carried out with, if the OperatorGroup names one.
        pub attenuated_service_account_ref: Option<ObjectReference>,
        /// When the plan was first tried.
        pub start_time: Option<Time>,
        /// Why the plan failed or is being retried.
        pub message: Option<String>,
    }
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

api_type! {
    /// One statement about an InstallPlan.
    pub struct InstallPlanCondition {
        /// What it is about: Installed.
        #[serde(rename = "type")]
        pub type_: Option<String>,
        /// True, False or Unknown.
        pub status: Option<String>,
        /// When the condition was last written.
        pub last_update_time: Option<Time>,
        /// When its status last changed.
        pub last_transition_time: Option<Time>,
        /// Why, in one word.
        pub reason: Option<String>,
        /// Why, for people.
        pub message: Option<String>,
    }
}

api_type! {
    /// One object to apply.
    pub struct Step {
        /// Name of the ClusterServiceVersion that brings the object.
        pub resolving: String,
        /// The object.
        pub resource: StepResource,
        /// Whether the plan may go on without the object.
        pub optional: Option<bool>,
        /// What became of the object: Unknown, NotPresent, Present, Created, WaitingForApi or UnsupportedResource.
        pub status: StepStatus,
    }
}

api_type! {
    /// An object of an InstallPlan and where it comes from.
    pub struct StepResource {
        /// Name of the CatalogSource the object comes from.
        pub source_name: String,
        /// Namespace of that CatalogSource.
        pub source_namespace: String,
        /// Group of the object, empty for the core group.
        pub group: String,
        /// Version of the object's API.
        pub version: String,
        /// Kind of the object.
        pub kind: String,
        /// Name of the object.
        pub name: String,
        /// The object as JSON, or a JSON reference to where the content of its bundle is kept.
        pub manifest: Option<String>,
    }
}

api_type! {
    /// A bundle whose content has to be fetched.
    pub struct BundleLookup {
        /// Image of the bundle.
        pub path: String,
        /// Name of the ClusterServiceVersion in the bundle.
        pub identifier: String,
        /// Name of the ClusterServiceVersion it replaces, may be empty.
        pub replaces: String,
        /// The CatalogSource the bundle comes from.
        pub catalog_source_ref: ObjectReference,
        /// Properties of the bundle in the catalog, as JSON.
        pub properties: Option<String>,
        /// Whether the content is on its way or cannot be had.
        pub conditions: List<BundleLookupCondition>,
    }
}

api_type! {
    /// One statement about a bundle's content.
    pub struct BundleLookupCondition {
        /// What it is about: BundleLookupPending or BundleLookupFailed.
        #[serde(rename = "type")]
        pub type_: String,
        /// True, False or Unknown.
        pub status: String,
        /// Why, in one word.
        pub reason: Option<String>,
        /// Why, for people.
        pub message: Option<String>,
        /// When the condition was last written.
        pub last_update_time: Option<Time>,
        /// When its status last changed.
        pub last_transition_time: Option<Time>,
    }
}
