//! Subscription: the request for a package from a catalog, kept up to date along a channel.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Affinity, EnvFromSource, EnvVar, ObjectReference, ResourceRequirements, Toleration, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Extra;
use crate::decode::or_default;
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

/// Which package is wanted, from which catalog and channel, and how its operator is set up.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "operators.coreos.com",
    version = "v1alpha1",
    kind = "Subscription",
    plural = "subscriptions",
    singular = "subscription",
    shortname = "sub",
    shortname = "subs",
    category = "olm",
    namespaced,
    status = "SubscriptionStatus",
    derive = "Default",
    derive = "PartialEq",
    schema = "disabled",
    doc = "Installs a package of a catalog and keeps its operator up to date along a channel.",
    crates(kube_core = "kube_core"),
    printcolumn = r#"{"name":"Package","type":"string","description":"The package subscribed to","jsonPath":".spec.name"}"#,
    printcolumn = r#"{"name":"Source","type":"string","description":"The catalog the package comes from","jsonPath":".spec.source"}"#,
    printcolumn = r#"{"name":"Channel","type":"string","description":"The channel updates come from","jsonPath":".spec.channel"}"#
)]
#[serde(rename_all = "camelCase", default)]
pub struct SubscriptionSpec {
    /// Name of the CatalogSource the package comes from.
    #[serde(deserialize_with = "or_default")]
    pub source: String,
    /// Namespace of the CatalogSource.
    #[serde(deserialize_with = "or_default")]
    pub source_namespace: String,
    /// Name of the package.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// Channel of the package; the package's default channel when not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// Name of the ClusterServiceVersion to install first; the head of the channel when not set.
    #[serde(rename = "startingCSV", skip_serializing_if = "Option::is_none")]
    pub starting_csv: Option<String>,
    /// Whether InstallPlans start by themselves (Automatic, also when not set) or are approved by a user (Manual).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub install_plan_approval: Option<Approval>,
    /// Changes to the operator's Deployments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<SubscriptionConfig>,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
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

/// Changes to every Deployment of an operator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SubscriptionConfig {
    /// Without effect; kept for old objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<Embedded<LabelSelector>>,
    /// Replaces the node selector of the pods. An empty map clears it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<BTreeMap<String, String>>,
    /// Tolerations added to the pods.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub tolerations: List<Embedded<Toleration>>,
    /// Replaces the resources of every container. An empty object clears them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<Embedded<ResourceRequirements>>,
    /// Sources of environment variables added to every container.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub env_from: List<Embedded<EnvFromSource>>,
    /// Environment variables of every container; one with a name that is there already replaces it.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub env: List<Embedded<EnvVar>>,
    /// Volumes of the pods; one with a name that is there already replaces it.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub volumes: List<Embedded<Volume>>,
    /// Volume mounts of every container; one with a volume name that is there already replaces it.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub volume_mounts: List<Embedded<VolumeMount>>,
    /// Replaces the affinity of the pods part by part; an empty part clears it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Embedded<Affinity>>,
    /// Annotations added to Deployments and pods where the key is not there yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// What is installed for a Subscription and what comes next.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SubscriptionStatus {
    /// Name of the ClusterServiceVersion being installed, or installed.
    #[serde(rename = "currentCSV", skip_serializing_if = "Option::is_none")]
    pub current_csv: Option<String>,
    /// Name of the ClusterServiceVersion that is installed.
    #[serde(rename = "installedCSV", skip_serializing_if = "Option::is_none")]
    pub installed_csv: Option<String>,
    /// UpgradePending, AtLatestKnown or UpgradeFailed.
    #[serde(
        skip_serializing_if = "SubscriptionState::is_unset",
        deserialize_with = "or_default"
    )]
    pub state: SubscriptionState,
    /// Why the Subscription is in this state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Generation of the newest InstallPlan for this Subscription.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::integer")]
    pub install_plan_generation: Option<i64>,
    /// The newest InstallPlan for this Subscription.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub install_plan_ref: Option<ObjectReference>,
    /// The same InstallPlan, in an older form.
    #[serde(rename = "installplan", skip_serializing_if = "Option::is_none")]
    pub install_plan: Option<InstallPlanReference>,
    /// Health of every catalog the Subscription can use.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub catalog_health: List<SubscriptionCatalogHealth>,
    /// What is unusual about the Subscription; all types mean trouble when true.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub conditions: List<SubscriptionCondition>,
    /// When this status was last written.
    pub last_updated: Option<Time>,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// An InstallPlan, in the older form of reference.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct InstallPlanReference {
    /// Group and version of the InstallPlan.
    #[serde(deserialize_with = "or_default")]
    pub api_version: String,
    /// Always InstallPlan.
    #[serde(deserialize_with = "or_default")]
    pub kind: String,
    /// Name of the InstallPlan.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// Uid of the InstallPlan.
    #[serde(deserialize_with = "or_default")]
    pub uuid: String,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// Health of one catalog.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SubscriptionCatalogHealth {
    /// The CatalogSource.
    #[serde(deserialize_with = "or_default")]
    pub catalog_source_ref: ObjectReference,
    /// When the health was last looked at.
    pub last_updated: Option<Time>,
    /// Whether the catalog can be used.
    #[serde(deserialize_with = "or_default")]
    pub healthy: bool,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// One unusual thing about a Subscription.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SubscriptionCondition {
    /// What it is about, for example ResolutionFailed.
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
    /// When the condition was last looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_heartbeat_time: Option<Time>,
    /// When the condition last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
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
