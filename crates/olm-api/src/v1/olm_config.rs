//! OLMConfig: settings of the lifecycle manager itself.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::api_type::{api_kind, api_type};
use crate::decode::absent_means_default;
use crate::sparse::List;

/// Name of the only OLMConfig that is used.
pub const OLM_CONFIG_NAME: &str = "cluster";

api_kind! {
    /// Settings of the lifecycle manager.
    #[kube(
        group = "operators.coreos.com",
        version = "v1",
        kind = "OLMConfig",
        plural = "olmconfigs",
        status = "OLMConfigStatus",
        doc = "Settings of the lifecycle manager. Only the object called cluster counts."
    )]
    #[serde(remote = "Self")]
    pub struct OLMConfigSpec {
        /// Features that can be switched.
        pub features: Option<Features>,
    }
}

absent_means_default!(OLMConfigSpec);

impl OLMConfigSpec {
    /// Returns true if copies of ClusterServiceVersions are disabled; they are enabled by default.
    pub fn copied_csvs_are_disabled(&self) -> bool {
        self.features
            .as_ref()
            .and_then(|features| features.disable_copied_csvs)
            .unwrap_or(false)
    }
}

api_type! {
    /// Features of the lifecycle manager.
    pub struct Features {
        /// Stops copying ClusterServiceVersions of operators that watch all namespaces into every namespace.
        #[serde(rename = "disableCopiedCSVs")]
        pub disable_copied_csvs: Option<bool>,
        /// How often the package-server looks at all catalogs anew, for example 30m or 12h.
        pub package_server_sync_interval: Option<String>,
    }
}

api_type! {
    /// Which settings are in force.
    pub struct OLMConfigStatus {
        /// Whether the wanted settings are in force.
        pub conditions: List<Condition>,
    }
}
