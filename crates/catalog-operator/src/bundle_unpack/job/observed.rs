//! Input of a reconcile of an unpack Job.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::core::PartialObjectMeta;
use olm_api::v1alpha1::CatalogSource;
use olm_runtime::NamespacedName;

use super::JobRequest;
use crate::catalog_source::pod::PodSettings;
use crate::stores::unpacks::UnpackJob;

/// Input of one decision.
pub(crate) struct Observed {
    /// Namespace and name of the ConfigMap.
    pub key: NamespacedName,
    /// The current request, if any.
    pub request: Option<Arc<JobRequest>>,
    /// The catalog of the request.
    pub source: Option<Arc<CatalogSource>>,
    pub config_map: Option<PartialObjectMeta<ConfigMap>>,
    /// The account of its name that OLM created.
    pub account: Option<Arc<ServiceAccount>>,
    /// The Role, with a hash of its rules.
    pub role: Option<Arc<Role>>,
    /// The RoleBinding, with a hash of its subjects.
    pub role_binding: Option<Arc<RoleBinding>>,
    /// Jobs with its name as a label, by any creator.
    pub jobs: Vec<Arc<UnpackJob>>,
    pub settings: PodSettings,
}
