//! Label, annotation, finalizer and field manager keys users and other components can see.
//!
//! Every key is copied exactly as clusters have it today.
//! The labels are the only join between the components: in particular [`MANAGED`] must be on an object from its creation,
//! because a cache filtered by it never learns of an object that gets the label later than its first event.

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
/// Label of a copied ClusterServiceVersion, Role or RoleBinding: namespace of the original.
pub const COPIED_FROM: &str = "olm.copiedFrom";
/// Value of boolean labels and annotations that are set.
pub const TRUE: &str = "true";

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
/// Prefix of the ClusterServiceVersion label for an API; its hash follows. Values `provided`, `required`.
pub const API_PREFIX: &str = "olm.api.";
/// Annotation of an OperatorGroup, value [`TRUE`]: resolution in its namespace ignores the global catalogs.
pub const EXCLUDE_GLOBAL_NAMESPACE_RESOLUTION: &str =
    "olm.operatorframework.io/exclude-global-namespace-resolution";
/// Annotation of an OperatorGroup: deadline of an unpack Job, a Go duration.
pub const BUNDLE_UNPACK_TIMEOUT: &str = "operatorframework.io/bundle-unpack-timeout";
/// Annotation of an OperatorGroup: least time between two unpack attempts, a Go duration. Without it nothing is retried.
pub const BUNDLE_UNPACK_MIN_RETRY_INTERVAL: &str = "operatorframework.io/bundle-unpack-min-retry-interval";

// Components and hashes ---------------------------------------------------------------------------------------------

/// Label of an operator's Deployment: hash of the wanted Deployment spec.
pub const DEPLOYMENT_SPEC_HASH: &str = "olm.deployment-spec-hash";
/// Label of a catalog pod: hash of the wanted pod spec.
pub const POD_SPEC_HASH: &str = "olm.pod-spec-hash";
/// Annotation (ours) of a catalog's pod: how many pods of the same kind died young one after the other before it.
pub const POD_FAILURES: &str = "operatorframework.io/registry-pod-failures";
/// Label of a catalog Service: hash of the wanted Service spec.
pub const SERVICE_SPEC_HASH: &str = "olm.service-spec-hash";
/// Label of Roles, ClusterRoles and their bindings: hash of the rules, or of role reference and subjects.
pub const PERMISSIONS_HASH: &str = "olm.permissions.hash";

// Catalogs ----------------------------------------------------------------------------------------------------------

/// Label of catalog pods and NetworkPolicies and selector of the catalog Service: CatalogSource name.
/// It is empty on a pod that only looks for a newer image.
pub const CATALOG_SOURCE: &str = "olm.catalogSource";
/// Annotation of a CatalogSource: PriorityClass of its pod, used when the pod configuration names none.
pub const PRIORITY_CLASS: &str = "operatorframework.io/priorityclass";
/// Annotation of a catalog pod, value [`TRUE`]: the cluster autoscaler may evict it.
pub const SAFE_TO_EVICT: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict";
/// Label of a Namespace: enforced pod security level, which decides a catalog pod's default security context.
pub const POD_SECURITY_ENFORCE: &str = "pod-security.kubernetes.io/enforce";

// Bundles and plans -------------------------------------------------------------------------------------------------

/// Label of an unpack Job and its pod: name of the ConfigMap that takes the bundle.
pub const BUNDLE_UNPACK_REF: &str = "operatorframework.io/bundle-unpack-ref";
/// Annotation of an unpacked bundle's ConfigMap: the bundle image.
pub const SOURCE_IMAGE: &str = "olm.sourceImage";
/// Annotation of an unpacked bundle's ConfigMap: how its entries are encoded, see [`CONTENT_ENCODING_GZIP_BASE64`].
pub const CONTENT_ENCODING: &str = "olm.contentEncoding";
/// The one value of [`CONTENT_ENCODING`].
pub const CONTENT_ENCODING_GZIP_BASE64: &str = "gzip+base64";
/// Annotation of a Subscription made for a dependency: name of the InstallPlan that made it.
pub const GENERATED_BY: &str = "olm.generated-by";
/// Annotation of a ClusterServiceVersion: JSON `{"properties":[{"type":…,"value":…}]}` projected from the catalog.
pub const PROPERTIES: &str = "operatorframework.io/properties";
/// Prefix of the CustomResourceDefinition annotation, one for each ClusterServiceVersion it came with; the FNV-1a hash
/// of the value in hex follows. The value is `<namespace>/<name>`.
pub const INSTALLED_ALONGSIDE_PREFIX: &str = "operatorframework.io/installed-alongside-";

/// Annotation kubectl leaves on what it applied; dropped from copies.
pub const LAST_APPLIED_CONFIGURATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

// Bundle and catalog images -----------------------------------------------------------------------------------------

/// Keys of `metadata/annotations.yaml`, which are also the labels of a bundle image.
pub mod bundle {
    /// Format of the bundle, `registry+v1`.
    pub const MEDIATYPE: &str = "operators.operatorframework.io.bundle.mediatype.v1";
    /// Folder of the manifests.
    pub const MANIFESTS: &str = "operators.operatorframework.io.bundle.manifests.v1";
    /// Folder of `annotations.yaml` and friends.
    pub const METADATA: &str = "operators.operatorframework.io.bundle.metadata.v1";
    /// Package.
    pub const PACKAGE: &str = "operators.operatorframework.io.bundle.package.v1";
    /// Channels, separated by commas.
    pub const CHANNELS: &str = "operators.operatorframework.io.bundle.channels.v1";
    /// Default channel of the package.
    pub const DEFAULT_CHANNEL: &str = "operators.operatorframework.io.bundle.channel.default.v1";

    /// Whether the key is one of these.
    pub fn is_known(key: &str) -> bool {
        [MEDIATYPE, MANIFESTS, METADATA, PACKAGE, CHANNELS, DEFAULT_CHANNEL].contains(&key)
    }
}

/// Catalog image label: folder of the file-based catalog.
pub const INDEX_CONFIGS: &str = "operators.operatorframework.io.index.configs.v1";
/// Catalog image label of the times of SQLite: the database's file.
pub const INDEX_DATABASE: &str = "operators.operatorframework.io.index.database.v1";

// Finalizers and field managers -------------------------------------------------------------------------------------

/// Finalizer of a ClusterServiceVersion whose custom resources are removed before it goes.
pub const FINALIZER_CSV_CLEANUP: &str = "operators.coreos.com/csv-cleanup";
/// Field manager for the objects of a catalog, as on clusters today.
pub const FIELD_MANAGER_REGISTRY: &str = "olm.registry";

// Environment variables of operator containers ----------------------------------------------------------------------

/// Set in every container of an installed operator: name of its ClusterServiceVersion, hence of its OperatorCondition.
pub const ENV_OPERATOR_CONDITION_NAME: &str = "OPERATOR_CONDITION_NAME";

/// Namespace label that marks a target of the OperatorGroup with this uid.
pub fn operator_group_uid_label(uid: &str) -> String {
    format!("{OPERATOR_GROUP_UID_PREFIX}{uid}")
}
