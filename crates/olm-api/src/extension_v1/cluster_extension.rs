//! ClusterExtension: a package of a catalog, installed in the cluster.
//!
//! The fields are those of upstream's standard definition, and `config`, `progressDeadlineMinutes` and `activeRevisions` of its
//! experimental one. Other fields are kept in `extra`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use serde_json::Value;

use crate::api_type::{api_kind, api_type};
use crate::open_enum::open_enum;
use crate::sparse::List;

open_enum! {
    /// Type of an extension's source.
    pub enum ExtensionSourceType {
        /// A package of the ClusterCatalogs.
        Catalog = "Catalog",
    }
}

open_enum! {
    /// Versions that may follow the installed one.
    pub enum UpgradeConstraintPolicy {
        /// Only the successors that the catalog names.
        CatalogProvided = "CatalogProvided",
        /// Any version: the user answers for the upgrade, downgrade or sidegrade.
        SelfCertified = "SelfCertified",
    }
}

open_enum! {
    /// Form of the configuration of a bundle.
    pub enum ExtensionConfigType {
        /// It is written in the extension.
        Inline = "Inline",
    }
}

open_enum! {
    /// Whether a CustomResourceDefinition is checked before it is changed.
    pub enum CrdUpgradeSafetyEnforcement {
        /// Every change is applied.
        None = "None",
        /// A change that could break stored objects or clients stops the upgrade.
        Strict = "Strict",
    }
}

api_kind! {
    /// Package to install, where to install it, and how it is checked first.
    #[kube(
        group = "olm.operatorframework.io",
        version = "v1",
        kind = "ClusterExtension",
        plural = "clusterextensions",
        status = "ClusterExtensionStatus",
        doc = "A package of a catalog, installed in the cluster and kept up to date."
    )]
    pub struct ClusterExtensionSpec {
        /// Namespace that the bundle's namespaced objects are installed in. It must exist.
        pub namespace: String,
        /// The bundle is applied with the rights of this account, and without it with those of the controller.
        pub service_account: Option<ServiceAccountReference>,
        /// Source of the bundle.
        pub source: ClusterExtensionSource,
        /// How the bundle is installed.
        pub install: Option<ClusterExtensionInstall>,
        /// Configuration of the bundle.
        pub config: Option<ClusterExtensionConfig>,
        /// Minutes after which a rollout counts as failed. Without it there is no limit.
        pub progress_deadline_minutes: Option<i32>,
    }
}

impl ClusterExtensionSpec {
    /// Returns the configuration of the bundle; `None` without it, or if it has a form that is not known.
    pub fn inline_config(&self) -> Option<&Value> {
        let config = self.config.as_ref()?;
        let inline = config.inline.as_ref();
        inline.filter(|_| config.config_type == ExtensionConfigType::Inline)
    }

    /// Returns true if CustomResourceDefinitions are checked before they are changed: unless the user has switched that off.
    pub fn checks_crd_upgrades(&self) -> bool {
        let preflight = self
            .install
            .as_ref()
            .and_then(|install| install.preflight.as_ref());
        preflight.is_none_or(|preflight| {
            preflight.crd_upgrade_safety.enforcement != CrdUpgradeSafetyEnforcement::None
        })
    }
}

api_type! {
    /// Configuration of a bundle.
    pub struct ClusterExtensionConfig {
        /// Form of the configuration.
        pub config_type: ExtensionConfigType,
        /// The configuration, for the type Inline: `watchNamespace` and `deploymentConfig`, as far as the bundle takes them.
        pub inline: Option<Value>,
    }
}

api_type! {
    /// A ServiceAccount in the namespace of the extension.
    pub struct ServiceAccountReference {
        /// Name of the ServiceAccount.
        pub name: Option<String>,
    }
}

api_type! {
    /// Source of an extension's bundle.
    pub struct ClusterExtensionSource {
        /// Type of the source.
        pub source_type: ExtensionSourceType,
        /// Package and the wanted versions of it, for the type Catalog.
        pub catalog: Option<CatalogFilter>,
    }
}

api_type! {
    /// A package of the ClusterCatalogs, and the wanted versions of it.
    pub struct CatalogFilter {
        /// Name of the package.
        pub package_name: String,
        /// Wanted version, or a range of versions such as `>=1.11, <1.13`. Without it every version is wanted.
        pub version: Option<String>,
        /// Channels whose versions are wanted. Without it versions of every channel are.
        pub channels: List<String>,
        /// Selects the ClusterCatalogs by their labels. Without it all are used.
        pub selector: Option<LabelSelector>,
        /// CatalogProvided allows only the successors that the catalog names. SelfCertified allows every version, also older ones.
        pub upgrade_constraint_policy: Option<UpgradeConstraintPolicy>,
    }
}

api_type! {
    /// How a bundle is installed.
    pub struct ClusterExtensionInstall {
        /// Checks before anything is applied.
        pub preflight: Option<Preflight>,
    }
}

api_type! {
    /// Checks before anything is applied.
    pub struct Preflight {
        /// Check that a changed CustomResourceDefinition still fits stored objects and clients.
        pub crd_upgrade_safety: CrdUpgradeSafety,
    }
}

api_type! {
    /// Check of changed CustomResourceDefinitions.
    pub struct CrdUpgradeSafety {
        /// Strict stops an upgrade that is not safe. None leaves out the check.
        pub enforcement: CrdUpgradeSafetyEnforcement,
    }
}

api_type! {
    /// State of the extension.
    pub struct ClusterExtensionStatus {
        /// Conditions Installed, Progressing and Available, and four about deprecations.
        pub conditions: List<Condition>,
        /// The installed bundle.
        pub install: Option<ClusterExtensionInstallStatus>,
        /// The installed revision, and those that are being rolled out.
        pub active_revisions: List<RevisionStatus>,
    }
}

api_type! {
    /// A revision that is not archived.
    pub struct RevisionStatus {
        /// Name of the ClusterObjectSet.
        pub name: String,
        /// Its conditions Available and Progressing while it is being rolled out.
        pub conditions: List<Condition>,
    }
}

api_type! {
    /// State of the installation.
    pub struct ClusterExtensionInstallStatus {
        /// The installed bundle.
        pub bundle: BundleMetadata,
    }
}

api_type! {
    /// Name and version of a bundle.
    pub struct BundleMetadata {
        /// Name of the bundle, for example `shop.v1.2.0`.
        pub name: String,
        /// Version of the bundle as its catalog writes it. Build metadata may be the bundle's release.
        pub version: String,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn extension(spec: &Value) -> ClusterExtension {
        let object = json!({
            "apiVersion": crate::extension_v1::API_VERSION, "kind": "ClusterExtension", "metadata": {"name": "a"}, "spec": spec,
        });
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn v1_001_to_v1_006_the_fields_of_the_documentation_are_read() {
        let spec = json!({
            "namespace": "shop",
            "serviceAccount": {"name": "installer"},
            "source": {"sourceType": "Catalog", "catalog": {
                "packageName": "shop", "channels": ["stable"], "version": ">=1.11, <1.13",
                "upgradeConstraintPolicy": "SelfCertified", "selector": {"matchLabels": {"a": "b"}},
            }},
        });
        let read = extension(&spec).spec;
        assert_eq!(read.namespace, "shop");
        assert_eq!(read.source.source_type, ExtensionSourceType::Catalog);
        let catalog = read.source.catalog.unwrap();
        assert_eq!(catalog.package_name, "shop");
        assert_eq!(*catalog.channels, ["stable".to_owned()]);
        assert_eq!(catalog.version.as_deref(), Some(">=1.11, <1.13"));
        assert_eq!(
            catalog.upgrade_constraint_policy,
            Some(UpgradeConstraintPolicy::SelfCertified)
        );
        assert_eq!(read.service_account.unwrap().name.as_deref(), Some("installer"));
    }

    #[test]
    fn crd_upgrades_are_checked_unless_that_is_switched_off() {
        for (install, is_checked) in [
            (Value::Null, true),
            (json!({}), true),
            (
                json!({"preflight": {"crdUpgradeSafety": {"enforcement": "Strict"}}}),
                true,
            ),
            (
                json!({"preflight": {"crdUpgradeSafety": {"enforcement": "None"}}}),
                false,
            ),
        ] {
            let spec = json!({"namespace": "a", "source": {"sourceType": "Catalog"}, "install": install});
            assert_eq!(
                extension(&spec).spec.checks_crd_upgrades(),
                is_checked,
                "{install}"
            );
        }
    }

    #[test]
    fn unknown_fields_survive() {
        let object = json!({
            "apiVersion": crate::extension_v1::API_VERSION, "kind": "ClusterExtension", "metadata": {"name": "a"},
            "spec": {
                "namespace": "shop", "serviceAccount": {"a": 1}, "progressDeadlineMinutes": 10,
                "config": {"configType": "Inline", "inline": {"watchNamespace": "a"}, "h": 1},
                "source": {"sourceType": "Other", "b": 1, "catalog": {
                    "packageName": "shop", "channels": [], "upgradeConstraintPolicy": "Sometimes", "c": 1,
                }},
                "install": {"d": 1, "preflight": {"e": 1, "crdUpgradeSafety": {"enforcement": "Some", "f": 1}}},
            },
            "status": {
                "activeRevisions": [{"name": "a-1", "conditions": [], "i": 1}],
                "conditions": [],
                "install": {"g": 1, "bundle": {"name": "shop.v1", "version": "1.0.0", "release": "2"}},
            },
        });
        let extension: ClusterExtension = serde_json::from_value(object.clone()).unwrap();
        assert_eq!(serde_json::to_value(&extension).unwrap(), object);
    }
}
