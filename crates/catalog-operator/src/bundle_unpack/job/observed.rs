//! What a round of an unpack Job decides on.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::core::PartialObjectMeta;
use olm_api::v1alpha1::CatalogSource;
use olm_runtime::NamespacedName;

use super::JobWish;
use super::objects::JobSettings;
use crate::stores::unpacks::JobSketch;

/// Everything one decision reads.
pub(crate) struct Observed {
    /// Namespace and name of the ConfigMap.
    pub key: NamespacedName,
    /// What somebody waits for.
    pub wish: Option<Arc<JobWish>>,
    /// The catalog of the wish.
    pub source: Option<Arc<CatalogSource>>,
    /// The ConfigMap.
    pub config_map: Option<PartialObjectMeta<ConfigMap>>,
    /// Those of its name that OLM made.
    pub account: Option<Arc<ServiceAccount>>,
    /// With a hash for its rules.
    pub role: Option<Arc<Role>>,
    /// With a hash for its subjects.
    pub role_binding: Option<Arc<RoleBinding>>,
    /// Jobs that bear its name as a label, whoever made them.
    pub jobs: Vec<Arc<JobSketch>>,
    /// What Jobs depend on.
    pub settings: JobSettings,
}
