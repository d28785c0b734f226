//! ClusterServiceVersion: one version of one operator, its install strategy and its progress.

use go_compat::semver::{Version, VersionError};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube_core::ResourceExt;

use super::{
    ApiServiceDefinitions, ApiServiceDescription, ClusterServiceVersionPhase, ClusterServiceVersionStatus,
    CrdDescription, CustomResourceDefinitions, InstallStrategy, WebhookDescription,
};
use crate::api_type::{api_kind, api_type};
use crate::embedded::Embedded;
use crate::open_enum::open_enum;
use crate::sparse::{List, Map};
use crate::{condition, labels};

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

api_kind! {
    /// What the author of an operator says about one version of it: what it is, what it needs, which APIs it brings and
    /// how it is installed.
    #[kube(
        group = "operators.coreos.com",
        version = "v1alpha1",
        kind = "ClusterServiceVersion",
        plural = "clusterserviceversions",
        namespaced,
        status = "ClusterServiceVersionStatus",
        doc = "One version of an operator: what it needs, what it provides, how it is installed, and its status."
    )]
    pub struct ClusterServiceVersionSpec {
        /// How the operator is installed.
        pub install: InstallStrategy,
        /// Semantic version of the operator.
        pub version: Option<String>,
        /// Packaging release of this version: dot-separated identifiers of letters, digits and hyphens, compared after the
        /// version, identifier by identifier, as semantic versioning compares pre-releases.
        pub release: Option<String>,
        /// How mature the operator is, for example alpha, beta or stable; free text.
        pub maturity: Option<String>,
        /// Name of the operator for people.
        pub display_name: String,
        /// What the operator does, in Markdown.
        pub description: Option<String>,
        /// Words by which people search for the operator.
        pub keywords: List<String>,
        /// Who maintains the operator.
        pub maintainers: List<Maintainer>,
        /// Who publishes the operator.
        pub provider: Option<AppLink>,
        /// Documentation, source code and other pages about the operator.
        pub links: List<AppLink>,
        /// Pictures of the operator.
        pub icon: List<Icon>,
        /// Oldest Kubernetes version the operator works on, as a semantic version of three parts.
        pub min_kube_version: Option<String>,
        /// APIs of Kubernetes itself, or of aggregated servers, that have to be there.
        #[serde(rename = "nativeAPIs")]
        pub native_apis: List<GroupVersionKind>,
        /// Custom resources the operator brings or needs.
        #[serde(rename = "customresourcedefinitions")]
        pub custom_resource_definitions: Option<CustomResourceDefinitions>,
        /// Aggregated APIs the operator brings or needs.
        #[serde(rename = "apiservicedefinitions")]
        pub api_service_definitions: Option<ApiServiceDefinitions>,
        /// Webhooks the operator serves.
        #[serde(rename = "webhookdefinitions")]
        pub webhook_definitions: List<WebhookDescription>,
        /// Which shapes of OperatorGroup the operator can be installed with. A mode that is not listed is not supported.
        pub install_modes: List<InstallMode>,
        /// Name of the ClusterServiceVersion this one succeeds.
        pub replaces: Option<String>,
        /// Names of further ClusterServiceVersions that may be upgraded to this one directly.
        pub skips: List<String>,
        /// Labels for the operator's objects, as information.
        pub labels: Map,
        /// Annotations for the operator's objects, as information.
        pub annotations: Map,
        /// Labels by which objects that belong to the operator are found, as information.
        pub selector: Option<Embedded<LabelSelector>>,
        /// What happens to the operator's custom resources when this object is deleted.
        pub cleanup: Option<CleanupSpec>,
        /// Images the operator uses, for mirroring.
        pub related_images: List<RelatedImage>,
    }
}

impl ClusterServiceVersionSpec {
    /// Returns the parsed version, 0.0.0 if there is none.
    ///
    /// # Errors
    /// If the text is not a version even if [read tolerantly](Version::parse_tolerant).
    pub fn version(&self) -> Result<Version, VersionError> {
        self.version
            .as_deref()
            .map_or(Ok(Version::new(0, 0, 0)), Version::parse_tolerant)
    }

    /// Returns the name of the predecessor; an empty name means none.
    pub fn replaces(&self) -> Option<&str> {
        self.replaces.as_deref().filter(|name| !name.is_empty())
    }

    /// Leaves of the provided and required APIs only what identifies and serves them, not what consoles display.
    pub fn drop_descriptions(&mut self) {
        if let Some(crds) = &mut self.custom_resource_definitions {
            for crd in crds.owned.iter_mut().chain(crds.required.iter_mut()) {
                let whole = std::mem::take(crd);
                (crd.name, crd.version, crd.kind) = (whole.name, whole.version, whole.kind);
            }
        }
        if let Some(services) = &mut self.api_service_definitions {
            for api in services.owned.iter_mut().chain(services.required.iter_mut()) {
                let whole = std::mem::take(api);
                (api.name, api.group, api.version, api.kind) =
                    (whole.name, whole.group, whole.version, whole.kind);
                (api.deployment_name, api.container_port) = (whole.deployment_name, whole.container_port);
            }
        }
    }

    /// Returns the custom resources the operator provides.
    pub fn owned_crds(&self) -> &[CrdDescription] {
        self.custom_resource_definitions
            .as_ref()
            .map_or(&[], |definitions| &definitions.owned)
    }

    /// Returns true if the operator provides the custom resources of this CustomResourceDefinition.
    pub fn owns_crd(&self, name: &str) -> bool {
        self.owned_crds().iter().any(|crd| crd.name == name)
    }

    /// Returns the custom resources the operator requires.
    pub fn required_crds(&self) -> &[CrdDescription] {
        self.custom_resource_definitions
            .as_ref()
            .map_or(&[], |definitions| &definitions.required)
    }

    /// Returns the aggregated APIs the operator provides.
    pub fn owned_api_services(&self) -> &[ApiServiceDescription] {
        self.api_service_definitions
            .as_ref()
            .map_or(&[], |definitions| &definitions.owned)
    }

    /// Returns the aggregated APIs the operator requires.
    pub fn required_api_services(&self) -> &[ApiServiceDescription] {
        self.api_service_definitions
            .as_ref()
            .map_or(&[], |definitions| &definitions.required)
    }
}

api_type! {
    /// A person or team.
    pub struct Maintainer {
        /// Name of the person or team.
        pub name: Option<String>,
        /// Mail address.
        pub email: Option<String>,
    }
}

api_type! {
    /// A named page on the web.
    pub struct AppLink {
        /// What is found there.
        pub name: Option<String>,
        /// Address of the page.
        pub url: Option<String>,
    }
}

api_type! {
    /// A picture.
    pub struct Icon {
        /// The picture, in base64.
        pub base64data: String,
        /// Media type of the picture, for example image/svg+xml.
        pub mediatype: String,
    }
}

api_type! {
    /// One API.
    pub struct GroupVersionKind {
        /// Group of the API, empty for the core group.
        pub group: String,
        /// Version of the API.
        pub version: String,
        /// Kind of the API.
        pub kind: String,
    }
}

api_type! {
    /// Whether one shape of OperatorGroup is supported.
    pub struct InstallMode {
        /// The shape: OwnNamespace, SingleNamespace, MultiNamespace or AllNamespaces.
        #[serde(rename = "type")]
        pub type_: InstallModeType,
        /// Whether it is supported.
        pub supported: bool,
    }
}

api_type! {
    /// What happens to custom resources on deletion.
    pub struct CleanupSpec {
        /// Whether objects of the owned APIs are removed before the operator is.
        pub enabled: bool,
    }
}

api_type! {
    /// An image the operator uses.
    pub struct RelatedImage {
        /// What the image is for.
        pub name: String,
        /// Reference of the image.
        pub image: String,
    }
}

/// Reasons that prevent copies of a ClusterServiceVersion in target namespaces, besides being a copy.
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
    /// Returns the phase; [`ClusterServiceVersionPhase::None`] without status.
    pub fn phase(&self) -> &ClusterServiceVersionPhase {
        self.status
            .as_ref()
            .map_or(&ClusterServiceVersionPhase::None, |status| &status.phase)
    }

    /// Returns the reason of the status; empty if there is none.
    pub fn reason(&self) -> &str {
        self.status
            .as_ref()
            .and_then(|status| status.reason.as_deref())
            .unwrap_or_default()
    }

    /// Returns true for a copy of an operator of another namespace.
    ///
    /// Copies never get the finalizer, and an object that has it waits for its removal. So labels and annotations, which users
    /// can write, must not hide such an object from the controller that removes the finalizer.
    pub fn is_copied(&self) -> bool {
        if self.has_cleanup_finalizer() {
            return false;
        }
        let annotation = self.annotations().get(labels::OPERATOR_NAMESPACE);
        let own = self.metadata.namespace.as_deref().unwrap_or_default();
        self.reason() == condition::csv::COPIED
            || annotation.is_some_and(|namespace| namespace != own)
            || self.labels().contains_key(labels::COPIED_FROM)
    }

    /// Returns true if OLM deletes objects outside of the namespace before this object is deleted.
    pub fn has_cleanup_finalizer(&self) -> bool {
        let mut finalizers = self.finalizers().iter();
        finalizers.any(|finalizer| finalizer == labels::FINALIZER_CSV_CLEANUP)
    }

    /// Returns true if this object must not be copied: it has no phase yet, is a copy, or does not fit its OperatorGroup.
    pub fn is_uncopiable(&self) -> bool {
        let reason = self.reason();
        *self.phase() == ClusterServiceVersionPhase::None
            || reason == condition::csv::COPIED
            || BAD_OPERATOR_GROUP_REASONS.contains(&reason)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::condition::csv::*;
    use crate::decode_csv_manifest;

    fn csv(phase: &str, reason: &str) -> ClusterServiceVersion {
        decode_csv_manifest(json!({
            "metadata": {"name": "a.v1", "namespace": "own"},
            "spec": {},
            "status": {"phase": phase, "reason": reason, "conditions": [{"phase": phase, "reason": reason}]},
        }))
        .unwrap()
    }

    #[test]
    fn copies_are_known_by_reason_annotation_or_label() {
        assert!(csv("Succeeded", COPIED).is_copied());
        assert!(!csv("Succeeded", INSTALL_SUCCEEDED).is_copied());
        let annotated = |namespace: &str| {
            let mut csv = csv("Succeeded", INSTALL_SUCCEEDED);
            csv.metadata.annotations = Some([(labels::OPERATOR_NAMESPACE.into(), namespace.into())].into());
            csv
        };
        assert!(annotated("other").is_copied());
        assert!(!annotated("own").is_copied());
        let mut labelled = csv("Succeeded", INSTALL_SUCCEEDED);
        labelled.metadata.labels = Some([(labels::COPIED_FROM.into(), "other".into())].into());
        assert!(labelled.is_copied());
        labelled.metadata.finalizers = Some(vec![labels::FINALIZER_CSV_CLEANUP.to_owned()]);
        assert!(!labelled.is_copied(), "copies never have the finalizer");
    }

    #[test]
    fn what_may_be_copied() {
        let rows = [
            ("", "", true),
            ("Succeeded", INSTALL_SUCCEEDED, false),
            ("Succeeded", COPIED, true),
            ("Failed", OWNER_CONFLICT, false),
            ("Failed", NO_OPERATOR_GROUP, true),
            ("Failed", UNSUPPORTED_OPERATOR_GROUP, true),
            ("Failed", INSTALL_CHECK_FAILED, false),
        ];
        for (phase, reason, uncopiable) in rows {
            assert_eq!(csv(phase, reason).is_uncopiable(), uncopiable, "{phase} {reason}");
        }
    }

    #[test]
    fn absent_version_is_zero_and_a_broken_one_an_error() {
        let mut csv = csv("", "");
        assert_eq!(csv.spec.version().unwrap(), Version::new(0, 0, 0));
        csv.spec.version = Some("v1.2".into());
        assert_eq!(csv.spec.version().unwrap(), Version::new(1, 2, 0));
        csv.spec.version = Some(String::new());
        assert!(csv.spec.version().is_err());
        assert_eq!(serde_json::to_value(&csv).unwrap()["spec"]["version"], "");
    }
}
