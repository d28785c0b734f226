//! ClusterExtension: a package of a catalog, installed in the cluster.
//!
//! The fields are those of upstream's standard definition, and `config`, `progressDeadlineMinutes` and `activeRevisions` of its
//! experimental one. Other fields are kept in `extra`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use super::rule;
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
        singular = "clusterextension",
        status = "ClusterExtensionStatus",
        doc = "A package of a catalog, installed in the cluster and kept up to date.",
        printcolumn = r#"{"name":"Installed Bundle","type":"string","jsonPath":".status.install.bundle.name"}"#,
        printcolumn = r#"{"name":"Version","type":"string","jsonPath":".status.install.bundle.version"}"#,
        printcolumn = r#"{"name":"Installed","type":"string","jsonPath":".status.conditions[?(@.type=='Installed')].status"}"#,
        printcolumn = r#"{"name":"Progressing","type":"string","jsonPath":".status.conditions[?(@.type=='Progressing')].status"}"#,
        printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
    )]
    pub struct ClusterExtensionSpec {
        /// Namespace that the bundle's namespaced objects are installed in. It must exist.
        #[schemars(extend("maxLength" = 63, "x-kubernetes-validations" = namespace_rules()))]
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
        #[schemars(extend("minimum" = 10, "maximum" = 720))]
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
    #[schemars(extend("x-kubernetes-validations" = [rule(
        "has(self.configType) && self.configType == 'Inline' ?has(self.inline) : !has(self.inline)",
        "inline is required when configType is Inline, and forbidden otherwise",
    )]))]
    pub struct ClusterExtensionConfig {
        /// Form of the configuration.
        #[schemars(extend("enum" = ["Inline"]))]
        pub config_type: ExtensionConfigType,
        /// The configuration, for the type Inline: `watchNamespace` and `deploymentConfig`, as far as the bundle takes them.
        #[schemars(schema_with = "inline_config")]
        pub inline: Option<Value>,
    }
}

api_type! {
    /// A ServiceAccount in the namespace of the extension.
    #[schemars(extend("minProperties" = 1))]
    pub struct ServiceAccountReference {
        /// Name of the ServiceAccount.
        #[schemars(extend(
            "minLength" = 1,
            "maxLength" = 253,
            "x-kubernetes-validations" = account_name_rules()
        ))]
        pub name: Option<String>,
    }
}

api_type! {
    /// Source of an extension's bundle.
    #[schemars(extend("x-kubernetes-validations" = [rule(
        "has(self.sourceType) && self.sourceType == 'Catalog' ? has(self.catalog) : !has(self.catalog)",
        "catalog is required when sourceType is Catalog, and forbidden otherwise",
    )]))]
    pub struct ClusterExtensionSource {
        /// Type of the source.
        #[schemars(extend("enum" = ["Catalog"]))]
        pub source_type: ExtensionSourceType,
        /// Package and the wanted versions of it, for the type Catalog.
        pub catalog: Option<CatalogFilter>,
    }
}

api_type! {
    /// A package of the ClusterCatalogs, and the wanted versions of it.
    pub struct CatalogFilter {
        /// Name of the package.
        #[schemars(extend("maxLength" = 253, "x-kubernetes-validations" = package_name_rules()))]
        pub package_name: String,
        /// Wanted version, or a range of versions such as `>=1.11, <1.13`. Without it every version is wanted.
        #[schemars(extend("maxLength" = 64, "x-kubernetes-validations" = [rule(
            IS_VERSION_RANGE,
            "invalid version expression",
        )]))]
        pub version: Option<String>,
        /// Channels whose versions are wanted. Without it versions of every channel are.
        #[schemars(schema_with = "channels")]
        pub channels: List<String>,
        /// Selects the ClusterCatalogs by their labels. Without it all are used.
        pub selector: Option<LabelSelector>,
        /// CatalogProvided allows only the successors that the catalog names. SelfCertified allows every version, also older ones.
        #[schemars(extend("enum" = ["CatalogProvided", "SelfCertified"], "x-default" = "CatalogProvided"))]
        pub upgrade_constraint_policy: Option<UpgradeConstraintPolicy>,
    }
}

api_type! {
    /// How a bundle is installed.
    #[schemars(extend("x-kubernetes-validations" = [rule(
        "has(self.preflight)",
        "at least one of [preflight] are required when install is specified",
    )]))]
    pub struct ClusterExtensionInstall {
        /// Checks before anything is applied.
        pub preflight: Option<Preflight>,
    }
}

api_type! {
    /// Checks before anything is applied.
    #[schemars(extend("x-kubernetes-validations" = [rule(
        "has(self.crdUpgradeSafety)",
        "at least one of [crdUpgradeSafety] are required when preflight is specified",
    )]))]
    pub struct Preflight {
        /// Check that a changed CustomResourceDefinition still fits stored objects and clients.
        pub crd_upgrade_safety: CrdUpgradeSafety,
    }
}

api_type! {
    /// Check of changed CustomResourceDefinitions.
    pub struct CrdUpgradeSafety {
        /// Strict stops an upgrade that is not safe. None leaves out the check.
        #[schemars(extend("enum" = ["None", "Strict"]))]
        pub enforcement: CrdUpgradeSafetyEnforcement,
    }
}

api_type! {
    /// State of the extension.
    pub struct ClusterExtensionStatus {
        /// Conditions Installed, Progressing and Available, and four about deprecations.
        #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
        pub conditions: List<Condition>,
        /// The installed bundle.
        pub install: Option<ClusterExtensionInstallStatus>,
        /// The installed revision, and those that are being rolled out.
        #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
        pub active_revisions: List<RevisionStatus>,
    }
}

api_type! {
    /// A revision that is not archived.
    pub struct RevisionStatus {
        /// Name of the ClusterObjectSet.
        pub name: String,
        /// Its conditions Available and Progressing while it is being rolled out.
        #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
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
        // The message names another field, as upstream's does.
        #[schemars(extend("x-kubernetes-validations" = [rule(
            IS_SUBDOMAIN,
            &subdomain_message("packageName"),
        )]))]
        pub name: String,
        /// Version of the bundle as its catalog writes it. Build metadata may be the bundle's release.
        #[schemars(extend("x-kubernetes-validations" = [rule(
            IS_VERSION,
            "version must be well-formed semver",
        )]))]
        pub version: String,
    }
}

const IS_SUBDOMAIN: &str =
    r#"self.matches("^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")"#;
const IS_LABEL: &str = r#"self.matches("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")"#;
/// Stricter than the parser of ranges, and in other places looser; see `go_compat::masterminds`.
const IS_VERSION_RANGE: &str = r#"self.matches("^(\\s*(=||!=|>|<|>=|=>|<=|=<|~|~>|\\^)\\s*(v?(0|[1-9]\\d*|[x|X|\\*])(\\.(0|[1-9]\\d*|x|X|\\*]))?(\\.(0|[1-9]\\d*|x|X|\\*))?(-([0-9A-Za-z\\-]+(\\.[0-9A-Za-z\\-]+)*))?(\\+([0-9A-Za-z\\-]+(\\.[0-9A-Za-z\\-]+)*))?)\\s*)((?:\\s+|,\\s*|\\s*\\|\\|\\s*)(=||!=|>|<|>=|=>|<=|=<|~|~>|\\^)\\s*(v?(0|[1-9]\\d*|x|X|\\*])(\\.(0|[1-9]\\d*|x|X|\\*))?(\\.(0|[1-9]\\d*|x|X|\\*]))?(-([0-9A-Za-z\\-]+(\\.[0-9A-Za-z\\-]+)*))?(\\+([0-9A-Za-z\\-]+(\\.[0-9A-Za-z\\-]+)*))?)\\s*)*$")"#;
const IS_VERSION: &str = r#"self.matches("^([0-9]+)(\\.[0-9]+)?(\\.[0-9]+)?(-([-0-9A-Za-z]+(\\.[-0-9A-Za-z]+)*))?(\\+([-0-9A-Za-z]+(-\\.[-0-9A-Za-z]+)*))?")"#;

/// Returns the message for a name that is no DNS subdomain.
fn subdomain_message(field: &str) -> String {
    format!(
        "{field} must be a valid DNS1123 subdomain. It must contain only lowercase alphanumeric characters, hyphens (-) or periods \
         (.), start and end with an alphanumeric character, and be no longer than 253 characters"
    )
}

fn namespace_rules() -> Value {
    json!([
        rule("self == oldSelf", "namespace is immutable"),
        rule(IS_LABEL, "namespace must be a valid DNS1123 label"),
    ])
}

fn account_name_rules() -> Value {
    json!([
        rule("self == oldSelf", "name is immutable once set but may be cleared"),
        rule(IS_SUBDOMAIN, &subdomain_message("name")),
    ])
}

fn package_name_rules() -> Value {
    json!([
        rule("self == oldSelf", "packageName is immutable"),
        rule(IS_SUBDOMAIN, &subdomain_message("packageName")),
    ])
}

fn channels(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 256,
        "items": {
            "type": "string",
            "maxLength": 253,
            "x-kubernetes-validations": [rule(IS_SUBDOMAIN, "channels entries must be valid DNS1123 subdomains")],
        },
    })
}

fn inline_config(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "minProperties": 1, "x-kubernetes-preserve-unknown-fields": true})
}

#[cfg(test)]
mod tests {
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

    /// An extension is cluster-scoped, whatever its namespace; the policy has a default.
    #[test]
    fn api_009_v1_001_v1_006_the_definition_has_group_scope_and_default() {
        let definitions = crate::crd::v1_definitions().unwrap();
        let mut of_extensions = definitions
            .iter()
            .filter(|definition| definition.name == "clusterextensions");
        let spec = &of_extensions.next().unwrap().manifest["spec"];
        assert_eq!(spec["group"], "olm.operatorframework.io");
        assert_eq!(spec["names"]["kind"], "ClusterExtension");
        assert_eq!(spec["versions"][0]["name"], "v1");
        assert_eq!(spec["scope"], "Cluster");
        let fields = &spec["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
        let catalog = &fields["source"]["properties"]["catalog"];
        assert_eq!(catalog["required"], json!(["packageName"]));
        let policy = &catalog["properties"]["upgradeConstraintPolicy"];
        assert_eq!(policy["default"], "CatalogProvided");
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
