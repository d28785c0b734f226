//! Subscription: the request for a package from a catalog, kept up to date along a channel.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Affinity, EnvFromSource, EnvVar, ObjectReference, ResourceRequirements, Toleration, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};

use crate::api_type::{api_kind, api_type};
use crate::embedded::Embedded;
use crate::open_enum::open_enum;
use crate::sparse::List;

open_enum! {
    /// Approval of InstallPlans. Every word but Manual behaves as Automatic.
    pub enum Approval {
        /// InstallPlans start by themselves.
        Automatic = "Automatic",
        /// A user has to approve InstallPlans.
        Manual = "Manual",
    }
}

open_enum! {
    /// State of a Subscription.
    pub enum SubscriptionState {
        /// Nothing has been installed for the Subscription.
        None = "",
        /// The upgrade failed. Only where failing forward is allowed.
        UpgradeFailed = "UpgradeFailed",
        /// A newer version is known that cannot be installed yet. Upstream never writes this state.
        UpgradeAvailable = "UpgradeAvailable",
        /// An InstallPlan is waiting or being executed.
        UpgradePending = "UpgradePending",
        /// The current version exists, in any phase.
        AtLatestKnown = "AtLatestKnown",
    }
}

api_kind! {
    /// Which package is wanted, from which catalog and channel, and how its operator is set up.
    #[kube(
        group = "operators.coreos.com",
        version = "v1alpha1",
        kind = "Subscription",
        plural = "subscriptions",
        namespaced,
        status = "SubscriptionStatus",
        doc = "Installs a package of a catalog and keeps its operator up to date along a channel."
    )]
    pub struct SubscriptionSpec {
        /// Name of the CatalogSource the package comes from.
        pub source: String,
        /// Namespace of the CatalogSource.
        pub source_namespace: String,
        /// Name of the package.
        pub name: String,
        /// Channel of the package; all channels of the package count when not set.
        pub channel: Option<String>,
        /// Name of the ClusterServiceVersion to install first; the head of the channel when not set.
        #[serde(rename = "startingCSV")]
        pub starting_csv: Option<String>,
        /// Whether InstallPlans start by themselves (Automatic, also when not set) or are approved by a user (Manual).
        pub install_plan_approval: Option<Approval>,
        /// Changes to the operator's Deployments.
        pub config: Option<SubscriptionConfig>,
    }
}

impl SubscriptionSpec {
    /// Returns the channel; an empty one means none.
    pub fn channel(&self) -> Option<&str> {
        self.channel.as_deref().filter(|channel| !channel.is_empty())
    }

    /// Returns the first ClusterServiceVersion to install; an empty name means none.
    pub fn starting_csv(&self) -> Option<&str> {
        self.starting_csv.as_deref().filter(|name| !name.is_empty())
    }

    /// Returns true if a user has to approve InstallPlans.
    pub fn is_manual(&self) -> bool {
        self.install_plan_approval == Some(Approval::Manual)
    }
}

api_type! {
    /// Changes to every Deployment of an operator.
    pub struct SubscriptionConfig {
        /// Without effect; kept for old objects.
        pub selector: Option<Embedded<LabelSelector>>,
        /// Replaces the node selector of the pods. An empty map clears it.
        pub node_selector: Option<BTreeMap<String, String>>,
        /// Tolerations added to the pods.
        pub tolerations: List<Embedded<Toleration>>,
        /// Replaces the resources of every container. An empty object clears them.
        pub resources: Option<Embedded<ResourceRequirements>>,
        /// Sources of environment variables added to every container.
        pub env_from: List<Embedded<EnvFromSource>>,
        /// Environment variables of every container; one with a name that is there already replaces it.
        pub env: List<Embedded<EnvVar>>,
        /// Volumes of the pods; one with a name that is there already replaces it.
        pub volumes: List<Embedded<Volume>>,
        /// Volume mounts of every container; one with a volume name that is there already replaces it.
        pub volume_mounts: List<Embedded<VolumeMount>>,
        /// Replaces the affinity of the pods part by part; an empty part clears it.
        pub affinity: Option<Embedded<Affinity>>,
        /// Annotations added to Deployments and pods where the key is not there yet.
        pub annotations: Option<BTreeMap<String, String>>,
    }
}

api_type! {
    /// What is installed for a Subscription and what comes next.
    pub struct SubscriptionStatus {
        /// Name of the ClusterServiceVersion being installed, or installed.
        #[serde(rename = "currentCSV")]
        pub current_csv: Option<String>,
        /// Name of the ClusterServiceVersion that is installed.
        #[serde(rename = "installedCSV")]
        pub installed_csv: Option<String>,
        /// UpgradePending, AtLatestKnown or UpgradeFailed.
        #[serde(skip_serializing_if = "SubscriptionState::is_unset")]
        pub state: SubscriptionState,
        /// Why the Subscription is in this state.
        pub reason: Option<String>,
        /// Generation of the newest InstallPlan for this Subscription.
        pub install_plan_generation: Option<i64>,
        /// The newest InstallPlan for this Subscription.
        pub install_plan_ref: Option<ObjectReference>,
        /// The same InstallPlan, in an older form.
        #[serde(rename = "installplan")]
        pub install_plan: Option<InstallPlanReference>,
        /// Health of every catalog the Subscription can use.
        pub catalog_health: List<SubscriptionCatalogHealth>,
        /// What is unusual about the Subscription; all types mean trouble when true.
        pub conditions: List<SubscriptionCondition>,
        #[null_when_absent]
        /// When this status was last written.
        pub last_updated: Option<Time>,
    }
}

api_type! {
    /// An InstallPlan, in the older form of reference.
    pub struct InstallPlanReference {
        /// Group and version of the InstallPlan.
        pub api_version: String,
        /// Always InstallPlan.
        pub kind: String,
        /// Name of the InstallPlan.
        pub name: String,
        /// Uid of the InstallPlan.
        pub uuid: String,
    }
}

api_type! {
    /// Health of one catalog.
    pub struct SubscriptionCatalogHealth {
        /// The CatalogSource.
        pub catalog_source_ref: ObjectReference,
        #[null_when_absent]
        /// When the health was last looked at.
        pub last_updated: Option<Time>,
        /// Whether the catalog can be used.
        pub healthy: bool,
    }
}

api_type! {
    /// One unusual thing about a Subscription.
    pub struct SubscriptionCondition {
        /// What it is about, for example ResolutionFailed.
        #[serde(rename = "type")]
        pub type_: String,
        /// True, False or Unknown.
        pub status: String,
        /// Why, in one word.
        pub reason: Option<String>,
        /// Why, for people.
        pub message: Option<String>,
        /// When the condition was last looked at.
        pub last_heartbeat_time: Option<Time>,
        /// When the condition last changed.
        pub last_transition_time: Option<Time>,
    }
}

impl SubscriptionCondition {
    /// Returns true if type, status, reason and message agree; times are ignored.
    pub fn says_same(&self, other: &Self) -> bool {
        self.type_ == other.type_
            && self.status == other.status
            && self.reason.as_deref().unwrap_or_default() == other.reason.as_deref().unwrap_or_default()
            && self.message.as_deref().unwrap_or_default() == other.message.as_deref().unwrap_or_default()
    }
}
