//! Label, annotation, finalizer and field manager keys users and other components can see.
//!
//! Every key is copied exactly as clusters have it today. The labels are the only join between the components. In particular
//! [`MANAGED`] must be on an object from its creation: a cache filtered by it misses objects that get the label after their first
//! event.

use std::collections::BTreeMap;

// Ownership ---------------------------------------------------------------------------------------------------------

/// Label of everything the operators create, value [`TRUE`]; selector of the filtered caches.
pub const MANAGED: &str = "olm.managed";
/// Label of a generated object: name of the owning object.
pub const OWNER: &str = "olm.owner";
/// Label of a generated object: namespace of the owning object.
pub const OWNER_NAMESPACE: &str = "olm.owner.namespace";
/// Label of a generated object: kind of the owning object, mostly [`OWNER_KIND_CSV`].
pub const OWNER_KIND: &str = "olm.owner.kind";
/// Value of [`OWNER_KIND`] for objects of a ClusterServiceVersion.
pub const OWNER_KIND_CSV: &str = "ClusterServiceVersion";
/// Value of [`OWNER_KIND`] for the ClusterRoles of an OperatorGroup.
pub const OWNER_KIND_OPERATOR_GROUP: &str = "OperatorGroup";
/// Label of a copied ClusterServiceVersion, Role or RoleBinding: namespace of the original.
pub const COPIED_FROM: &str = "olm.copiedFrom";
/// Value of boolean labels and annotations that are set.
pub const TRUE: &str = "true";

/// Returns true if a label or annotation of this key has exactly the value [`TRUE`]. Any other value counts as unset.
pub fn is_true(values: &BTreeMap<String, String>, key: &str) -> bool {
    values.get(key).is_some_and(|value| value == TRUE)
}

/// Header of a write that OLM makes in a ServiceAccount's name: the admission policy of the guarded labels lets it write
/// [`OWNER`], [`OWNER_NAMESPACE`], [`OWNER_KIND`] and [`COPIED_FROM`] on RBAC objects. Lower case, as headers are compared.
pub const IMPERSONATE_EXTRA: &str = "impersonate-extra-olm.operatorframework.io";
/// Value of the header [`IMPERSONATE_EXTRA`].
pub const IMPERSONATE_EXTRA_VALUE: &str = "marks";
/// Name of the admission policy that guards these labels, and of its binding.
pub const GUARD_POLICY: &str = "olm-guarded-labels";

/// Returns true for a label that names the owner of an RBAC object and that only OLM may set.
pub fn is_guarded(label: &str) -> bool {
    label == OWNER
        || label == COPIED_FROM
        || label
            .strip_prefix(OWNER)
            .is_some_and(|rest| rest.starts_with('.'))
}

// OperatorGroup -----------------------------------------------------------------------------------------------------

/// Annotation of a ClusterServiceVersion and of its pods: name of the OperatorGroup.
pub const OPERATOR_GROUP: &str = "olm.operatorGroup";
/// Annotation of a ClusterServiceVersion and of its pods: namespace of the OperatorGroup.
pub const OPERATOR_NAMESPACE: &str = "olm.operatorNamespace";
/// Annotation of a ClusterServiceVersion (never of a copy) and of its pods: sorted, comma separated target namespaces,
/// empty for all. Operators read it by the downward API.
pub const TARGET_NAMESPACES: &str = "olm.targetNamespaces";
/// Annotation of an OperatorGroup: sorted, comma separated `Kind.version.group` of the APIs its operators own.
pub const PROVIDED_APIS: &str = "olm.providedAPIs";
/// Prefix of the namespace label that marks a target namespace; the OperatorGroup's uid follows. Value is empty.
pub const OPERATOR_GROUP_UID_PREFIX: &str = "olm.operatorgroup.uid/";
/// Annotation of an OperatorGroup, value [`TRUE`]: resolution in its namespace ignores the global catalogs.
pub const EXCLUDE_GLOBAL_NAMESPACE_RESOLUTION: &str =
    "olm.operatorframework.io/exclude-global-namespace-resolution";
/// Annotation of an OperatorGroup: deadline of an unpack Job, a Go duration.
pub const BUNDLE_UNPACK_TIMEOUT: &str = "operatorframework.io/bundle-unpack-timeout";
/// Annotation of an OperatorGroup: minimum time between two unpack attempts, a Go duration. Without it there are no retries.
pub const BUNDLE_UNPACK_MIN_RETRY_INTERVAL: &str = "operatorframework.io/bundle-unpack-min-retry-interval";

// Upgrades by policy, all ours: docs/guides/upgrade-policies.md -------------------------------------------------------

/// Annotation of a ClusterServiceVersion: the namespace its author suggests for the install.
pub const SUGGESTED_NAMESPACE: &str = "operatorframework.io/suggested-namespace";
/// Annotation of a Subscription with Manual approval: the upgrades that are approved without a user, `patch`, `minor` or `all`.
pub const UPGRADE_APPROVE: &str = "operatorframework.io/upgrade-approve";
/// Annotation of a Subscription: range of allowed versions. No version outside the range is installed.
pub const UPGRADE_HOLD: &str = "operatorframework.io/upgrade-hold";
/// Annotation of a Subscription with Manual approval: window in which its InstallPlans may start without a user, `<days> <start>
/// <duration> [<time zone>]`.
pub const UPGRADE_WINDOW: &str = "operatorframework.io/upgrade-window";
/// Annotation of a Subscription with Manual approval, value [`TRUE`]: after a failed upgrade a user has to approve the next one.
pub const UPGRADE_STOP_AFTER_FAILURE: &str = "operatorframework.io/upgrade-stop-after-failure";
/// Annotation of an OperatorGroup, value [`TRUE`]: Subscriptions with Manual approval and no upgrade policy block only their own InstallPlans.
pub const SEPARATE_APPROVAL: &str = "operatorframework.io/separate-approval";
/// Annotation of an InstallPlan: why upgrade policies do not approve it yet.
pub const UPGRADE_WAITS: &str = "operatorframework.io/upgrade-waits";
/// Annotation of an InstallPlan that waits because of [`UPGRADE_STOP_AFTER_FAILURE`]: the Subscriptions whose upgrade failed before
/// it, separated by commas.
pub const UPGRADE_STOPPED: &str = "operatorframework.io/upgrade-stopped";

// Components and hashes ---------------------------------------------------------------------------------------------

/// Prefix of the label that makes an object a component of an Operator; `<package>.<namespace>` follows. Value is empty.
pub const COMPONENT_PREFIX: &str = "operators.coreos.com/";
/// Label of an operator's Deployment: hash of the wanted Deployment spec.
pub const DEPLOYMENT_SPEC_HASH: &str = "olm.deployment-spec-hash";
/// Annotation (ours) of an operator's Deployment: fingerprint of the fields that were last restored after a change by others.
pub const UNDONE_CHANGE: &str = "operatorframework.io/undone-change";
/// Label of a catalog pod: hash of the wanted pod spec.
pub const POD_SPEC_HASH: &str = "olm.pod-spec-hash";
/// Label of a catalog Service: hash of the wanted Service spec.
pub const SERVICE_SPEC_HASH: &str = "olm.service-spec-hash";
/// Label of Roles, ClusterRoles and their bindings: hash of the rules, or of role reference and subjects.
pub const PERMISSIONS_HASH: &str = "olm.permissions.hash";

// Catalogs ----------------------------------------------------------------------------------------------------------

/// Label of catalog pods and NetworkPolicies and selector of the catalog Service: CatalogSource name. It is empty on a pod that
/// only checks for a newer image.
pub const CATALOG_SOURCE: &str = "olm.catalogSource";
/// Label of a pod that checks for a newer image: name of the CatalogSource.
pub const CATALOG_UPDATE: &str = "catalogsource.operators.coreos.com/update";
/// Annotation (ours) of a catalog pod: digest that the registry returned for its image, if a poll triggered the check.
pub const IMAGE_DIGEST: &str = "operatorframework.io/image-digest";
/// Label of a catalog pod: `resourceVersion` of the ConfigMap it was created for.
pub const CONFIG_MAP_RESOURCE_VERSION: &str = "olm.configMapResourceVersion";
/// Annotation of a ClusterServiceVersion: the one that its build replaces.
pub const SUBSTITUTES_FOR: &str = "olm.substitutesFor";
/// Annotation of a CatalogSource: its image, with variables for the version of the cluster.
pub const CATALOG_IMAGE_TEMPLATE: &str = "olm.catalogImageTemplate";
/// Annotation of a CatalogSource: PriorityClass of its pod, used when the pod configuration names none.
pub const PRIORITY_CLASS: &str = "operatorframework.io/priorityclass";
/// Annotation of a catalog pod, value [`TRUE`]: the cluster autoscaler may evict it.
pub const SAFE_TO_EVICT: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict";
/// Label of a Namespace: enforced pod security level, which decides a catalog pod's default security context.
pub const POD_SECURITY_ENFORCE: &str = "pod-security.kubernetes.io/enforce";

// Bundles and plans -------------------------------------------------------------------------------------------------

/// Label of an unpack Job and its pod: name of the ConfigMap that receives the bundle.
pub const BUNDLE_UNPACK_REF: &str = "operatorframework.io/bundle-unpack-ref";
/// Annotation of an unpacked bundle's ConfigMap: the bundle image.
pub const SOURCE_IMAGE: &str = "olm.sourceImage";
/// Annotation of an unpacked bundle's ConfigMap: encoding of its entries, see [`CONTENT_ENCODING_GZIP_BASE64`].
pub const CONTENT_ENCODING: &str = "olm.contentEncoding";
/// The only value of [`CONTENT_ENCODING`].
pub const CONTENT_ENCODING_GZIP_BASE64: &str = "gzip+base64";
/// Annotation of a Subscription created for a dependency: name of the InstallPlan that created it.
pub const GENERATED_BY: &str = "olm.generated-by";
/// Label of a ClusterServiceVersion: name of the ClusterOperator that reports on it.
pub const CLUSTER_OPERATOR: &str = "olm.clusteroperator.name";
/// Annotation of a ClusterServiceVersion: JSON `{"properties":[{"type":…,"value":…}]}` projected from the catalog.
pub const PROPERTIES: &str = "operatorframework.io/properties";
/// Prefix of the CustomResourceDefinition annotation, one for each ClusterServiceVersion it came with; the FNV-1a hash
/// of the value in hex follows. The value is `<namespace>/<name>`.
pub const INSTALLED_ALONGSIDE_PREFIX: &str = "operatorframework.io/installed-alongside-";

/// Annotation (ours) of an InstallPlan that waits for approval: its changes, see [`crate::plan_preview`].
pub const PLAN_PREVIEW: &str = "operatorframework.io/install-plan-preview";

/// Annotation (ours) of an InstallPlan: hash of the approved steps, see [`crate::approval`].
pub const APPROVED_HASH: &str = "operatorframework.io/install-plan-approved-hash";

/// Annotation that kubectl writes on applied objects; dropped from copies.
pub const LAST_APPLIED_CONFIGURATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Annotation of a serving certificate's Secret and of the pods that use it: SHA-256 of the CA's PEM, in hexadecimal digits.
pub const CA_HASH: &str = "olmcahash";
/// Label of a webhook configuration: hash of its description in the ClusterServiceVersion.
pub const WEBHOOK_DESCRIPTION_HASH: &str = "olm.webhook-description-hash";
/// Label of a webhook configuration: `generateName` of its description.
pub const WEBHOOK_DESCRIPTION_GENERATE_NAME: &str = "olm.webhook-description-generate-name";
/// Key of a serving certificate's Secret that contains the CA's certificate. Despite its name it is no key.
pub const SECRET_KEY_CA: &str = "olmCAKey";
// PackageManifests ---------------------------------------------------------------------------------------------------

/// Labels of PackageManifests, beside those of the CatalogSource and of the package's ClusterServiceVersion.
pub mod package_manifest {
    /// Name of the CatalogSource.
    pub const CATALOG: &str = "catalog";
    /// Namespace of the CatalogSource.
    pub const CATALOG_NAMESPACE: &str = "catalog-namespace";
    /// Publisher of the operator. Free text, which may be an invalid label value.
    pub const PROVIDER: &str = "provider";
    /// URL of the publisher.
    pub const PROVIDER_URL: &str = "provider-url";
    /// Prefix of the keys for the operating systems the operator supports.
    pub const OS_PREFIX: &str = "operatorframework.io/os";
    /// Default when there is no key of [`OS_PREFIX`].
    pub const DEFAULT_OS: &str = "operatorframework.io/os.linux";
    /// Prefix of the keys for the architectures the operator supports.
    pub const ARCHITECTURE_PREFIX: &str = "operatorframework.io/arch";
    /// Default when there is no key of [`ARCHITECTURE_PREFIX`].
    pub const DEFAULT_ARCHITECTURE: &str = "operatorframework.io/arch.amd64";
    /// Value of the labels for supported operating systems and architectures.
    pub const SUPPORTED: &str = "supported";
}

// Bundle and catalog images -----------------------------------------------------------------------------------------

/// Keys of `metadata/annotations.yaml`, which are also the labels of a bundle image.
pub mod bundle {
    /// Format of the bundle, `registry+v1`.
    pub const MEDIATYPE: &str = "operators.operatorframework.io.bundle.mediatype.v1";
    /// Folder of the manifests.
    pub const MANIFESTS: &str = "operators.operatorframework.io.bundle.manifests.v1";
    /// Folder of `annotations.yaml` and other metadata.
    pub const METADATA: &str = "operators.operatorframework.io.bundle.metadata.v1";
    /// Name of the package.
    pub const PACKAGE: &str = "operators.operatorframework.io.bundle.package.v1";
    /// Channels, separated by commas.
    pub const CHANNELS: &str = "operators.operatorframework.io.bundle.channels.v1";
    /// Default channel of the package.
    pub const DEFAULT_CHANNEL: &str = "operators.operatorframework.io.bundle.channel.default.v1";

    /// Returns true if the key is one of these.
    pub fn is_known(key: &str) -> bool {
        [MEDIATYPE, MANIFESTS, METADATA, PACKAGE, CHANNELS, DEFAULT_CHANNEL].contains(&key)
    }
}

/// Catalog image label: folder of the file-based catalog.
pub const INDEX_CONFIGS: &str = "operators.operatorframework.io.index.configs.v1";
/// Catalog image label of SQLite catalogs: file of the database.
pub const INDEX_DATABASE: &str = "operators.operatorframework.io.index.database.v1";

// Finalizers and field managers -------------------------------------------------------------------------------------

/// Finalizer of a ClusterServiceVersion whose custom resources are deleted before it.
pub const FINALIZER_CSV_CLEANUP: &str = "operators.coreos.com/csv-cleanup";
/// Field manager of objects that an install applies.
pub const FIELD_MANAGER_CSV: &str = "olm-operator/csv";
/// Field manager of patches, and of all writes of upstream's programs.
pub const FIELD_MANAGER_PATCH: &str = "olm";
/// Field manager of objects that plans once applied with server-side apply: no longer written, but found on clusters.
pub const FIELD_MANAGER_PLAN: &str = "catalog-operator/install-plan";
/// Field manager of objects that upstream's catalog-operator creates and updates: the name of its program.
pub const FIELD_MANAGER_UPSTREAM_CATALOG: &str = "catalog";
/// Field manager for the objects of a catalog, as on clusters today.
pub const FIELD_MANAGER_REGISTRY: &str = "olm.registry";

// Environment variables of operator containers ----------------------------------------------------------------------

/// Set in every container of an installed operator: name of its ClusterServiceVersion, hence of its OperatorCondition.
pub const ENV_OPERATOR_CONDITION_NAME: &str = "OPERATOR_CONDITION_NAME";

/// Returns the namespace label that marks a target of the OperatorGroup with this uid.
pub fn operator_group_uid_label(uid: &str) -> String {
    format!("{OPERATOR_GROUP_UID_PREFIX}{uid}")
}

/// Maximum length of a label key without its prefix, in bytes.
const MAX_NAME_BYTES: usize = 63;

/// Returns the label of the components of `package` installed in `namespace`, which may be empty. A name that is too long is cut,
/// as upstream does, so two names may give the same label. `None` if no valid label exists, as with a package called `a/b`.
pub fn component_label(package: &str, namespace: &str) -> Option<String> {
    if package.is_empty() {
        return None;
    }
    match namespace {
        "" => component_label_of(package),
        namespace => component_label_of(&format!("{package}.{namespace}")),
    }
}

/// Returns the label of the components of the Operator of this name; `None` if no valid label exists.
pub fn component_label_of(operator: &str) -> Option<String> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    let starts = operator
        .bytes()
        .next()
        .is_some_and(|byte| byte.is_ascii_alphanumeric());
    if !starts || !operator.bytes().all(is_part) {
        return None;
    }
    // The name is ASCII, so bytes are characters.
    let name = operator.get(..MAX_NAME_BYTES).unwrap_or(operator);
    let name = name.trim_end_matches(['.', '_', '-']);
    Some(format!("{COMPONENT_PREFIX}{name}"))
}

/// Returns the name of the Operator whose components have this label; `None` for other labels.
pub fn operator_of_component(label: &str) -> Option<&str> {
    label
        .strip_prefix(COMPONENT_PREFIX)
        .filter(|name| !name.is_empty())
}

// OLM v1 ------------------------------------------------------------------------------------------------------------

/// Label of what belongs to a ClusterExtension: kind of the owner, `ClusterExtension`.
pub const EXTENSION_OWNER_KIND: &str = "olm.operatorframework.io/owner-kind";
/// Label of what belongs to a ClusterExtension: name of the owner.
pub const EXTENSION_OWNER_NAME: &str = "olm.operatorframework.io/owner-name";
/// Annotation of a ClusterObjectSet and its objects: name of the package.
pub const EXTENSION_PACKAGE_NAME: &str = "olm.operatorframework.io/package-name";
/// Annotation of a ClusterObjectSet: name of the bundle.
pub const EXTENSION_BUNDLE_NAME: &str = "olm.operatorframework.io/bundle-name";
/// Annotation of a ClusterObjectSet and its objects: version of the bundle.
pub const EXTENSION_BUNDLE_VERSION: &str = "olm.operatorframework.io/bundle-version";
/// Annotation of a ClusterObjectSet: image of the bundle.
pub const EXTENSION_BUNDLE_REFERENCE: &str = "olm.operatorframework.io/bundle-reference";
/// Label of a Secret with objects: name of the ClusterObjectSet.
pub const REVISION_NAME: &str = "olm.operatorframework.io/revision-name";
/// Annotation of an object: number of the revision that applied it last.
pub const REVISION: &str = "olm.operatorframework.io/revision";
/// Annotation of a revision with a digest of what it was made from: extension, bundle, configuration, and the form of revisions.
pub const REVISION_MADE_FROM: &str = "olm.operatorframework.io/made-from";
/// Annotation of a revision with the time at which its certificates are renewed.
pub const REVISION_RENEWED_AT: &str = "olm.operatorframework.io/certificates-renewed-at";
/// Annotation of a ClusterExtension, value [`TRUE`]: upgrades follow semantic versions, not the edges of the catalog.
pub const SEMVER_UPGRADES: &str = "olm.operatorframework.io/semver-upgrades";
/// Annotation of a ClusterExtension and its revisions, value [`TRUE`]: definitions are deleted although they have custom resources.
pub const DELETE_CUSTOM_RESOURCES: &str = "olm.operatorframework.io/delete-custom-resources";
/// Annotation of a revision: name of the ServiceAccount that its objects are written as.
pub const SERVICE_ACCOUNT_NAME: &str = "olm.operatorframework.io/service-account-name";
/// Annotation of a revision: namespace of the ServiceAccount that its objects are written as.
pub const SERVICE_ACCOUNT_NAMESPACE: &str = "olm.operatorframework.io/service-account-namespace";
/// Label of an object that a ClusterObjectSet applied, value [`EXTENSION_MANAGER`].
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Value of [`MANAGED_BY`], and field manager of the objects of a ClusterObjectSet.
pub const EXTENSION_MANAGER: &str = "olm.operatorframework.io";
/// Annotation of a ClusterExtension: its first revision takes over objects that exist and that nothing controls. The value is the
/// ClusterServiceVersion that they are of, as `namespace/name`.
pub const EXTENSION_ADOPTS: &str = "operatorframework.io/adopts";
/// Type of a Secret with objects of a ClusterObjectSet.
pub const OBJECT_DATA: &str = "olm.operatorframework.io/object-data";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_label_names_package_and_namespace_and_fits() {
        let rows = [
            ("demo", "golden", Some("demo.golden".to_owned())),
            ("demo", "", Some("demo".to_owned())),
            ("", "golden", None),
            ("a/b", "golden", None),
            ("é", "golden", None),
            ("-a", "golden", None),
            ("p", &"n".repeat(61), Some(format!("p.{}", "n".repeat(61)))),
            ("p", &"n".repeat(63), Some(format!("p.{}", "n".repeat(61)))),
            (&"p".repeat(62), "n", Some("p".repeat(62))),
            (&format!("{}_-", "p".repeat(60)), "n", Some("p".repeat(60))),
        ];
        for (package, namespace, name) in rows {
            let expected = name.map(|name| format!("operators.coreos.com/{name}"));
            assert_eq!(
                component_label(package, namespace),
                expected,
                "{package} {namespace}"
            );
        }
    }

    #[test]
    fn only_the_exact_value_is_true() {
        for (value, expected) in [("true", true), ("True", false), ("1", false), ("", false)] {
            let values = BTreeMap::from([(MANAGED.to_owned(), value.to_owned())]);
            assert_eq!(is_true(&values, MANAGED), expected, "{value}");
            assert!(!is_true(&values, OWNER));
        }
    }

    #[test]
    fn a_label_of_another_prefix_names_no_operator() {
        let rows = [
            ("operators.coreos.com/demo.golden", Some("demo.golden")),
            ("operators.coreos.com/", None),
            ("operators.example.com/demo", None),
            ("olm.managed", None),
        ];
        for (label, name) in rows {
            assert_eq!(operator_of_component(label), name, "{label}");
        }
    }
}
