//! Condition types, reasons and status words of every kind, copied exactly as clusters have them today.
//!
//! A module for each kind; phases are the open enums beside the kinds' types, because they drive state machines.
//! What they mean is told in `docs/reference`.

/// Condition status: the condition holds.
pub const TRUE: &str = "True";
/// Condition status: the condition does not hold.
pub const FALSE: &str = "False";
/// Condition status: nothing is known.
pub const UNKNOWN: &str = "Unknown";

/// Reasons of a ClusterServiceVersion's status and of its condition history.
pub mod csv {
    /// Requirements have not been checked yet.
    pub const REQUIREMENTS_UNKNOWN: &str = "RequirementsUnknown";
    /// At least one requirement is not met.
    pub const REQUIREMENTS_NOT_MET: &str = "RequirementsNotMet";
    /// All requirements are met, the install may begin.
    pub const ALL_REQUIREMENTS_MET: &str = "AllRequirementsMet";
    /// Another ClusterServiceVersion owns the same API.
    pub const OWNER_CONFLICT: &str = "OwnerConflict";
    /// A component could not be installed; it is tried again.
    pub const INSTALL_COMPONENT_FAILED: &str = "InstallComponentFailed";
    /// A component could not be installed and trying again would not help.
    pub const INSTALL_COMPONENT_FAILED_NO_RETRY: &str = "InstallComponentFailedNoRetry";
    /// The install strategy is not understood or broken.
    pub const INVALID_INSTALL_STRATEGY: &str = "InvalidInstallStrategy";
    /// Components are installed and not all healthy yet.
    pub const INSTALL_WAITING: &str = "InstallWaiting";
    /// Components are installed (phase Installing) or healthy (phase Succeeded).
    pub const INSTALL_SUCCEEDED: &str = "InstallSucceeded";
    /// The check of the installed components failed, or took too long.
    pub const INSTALL_CHECK_FAILED: &str = "InstallCheckFailed";
    /// A component of a succeeded install is not healthy any more.
    pub const COMPONENT_UNHEALTHY: &str = "ComponentUnhealthy";
    /// A successor exists.
    pub const BEING_REPLACED: &str = "BeingReplaced";
    /// The successor has succeeded.
    pub const REPLACED: &str = "Replaced";
    /// What is installed differs from what is wanted.
    pub const NEEDS_REINSTALL: &str = "NeedsReinstall";
    /// A serving certificate is due for renewal.
    pub const NEEDS_CERT_ROTATION: &str = "NeedsCertRotation";
    /// A webhook is described in a way that is not installed.
    pub const INVALID_WEBHOOK_DESCRIPTION: &str = "InvalidWebhookDescription";
    /// This object is a copy in a target namespace.
    pub const COPIED: &str = "Copied";
    /// `installModes` is not a valid set, e.g. names a mode twice.
    pub const INVALID_INSTALL_MODES: &str = "InvalidInstallModes";
    /// The OperatorGroup selects no namespace.
    pub const NO_TARGET_NAMESPACES: &str = "NoTargetNamespaces";
    /// The operator does not support the shape of the OperatorGroup.
    pub const UNSUPPORTED_OPERATOR_GROUP: &str = "UnsupportedOperatorGroup";
    /// The namespace has no OperatorGroup.
    pub const NO_OPERATOR_GROUP: &str = "NoOperatorGroup";
    /// The namespace has several OperatorGroups.
    pub const TOO_MANY_OPERATOR_GROUPS: &str = "TooManyOperatorGroups";
    /// An OperatorGroup with common target namespaces provides one of the owned APIs already.
    pub const INTER_OPERATOR_GROUP_OWNER_CONFLICT: &str = "InterOperatorGroupOwnerConflict";
    /// The OperatorGroup's provided APIs are fixed and lack an owned API.
    pub const CANNOT_MODIFY_STATIC_OPERATOR_GROUP_PROVIDED_APIS: &str =
        "CannotModifyStaticOperatorGroupProvidedAPIs";
    /// The operator being replaced has said that it must not be upgraded now.
    pub const OPERATOR_CONDITION_NOT_UPGRADEABLE: &str = "OperatorConditionNotUpgradeable";
    /// Reason of the warning event: the operator lacks rights in namespaces that its OperatorGroup targets.
    pub const RIGHTS_MISSING: &str = "RightsMissing";
    /// Reason of the warning event: rights beyond the namespace were taken back, since no OperatorGroup asks for them.
    pub const RIGHTS_WITHDRAWN: &str = "RightsWithdrawn";
    /// Reason of the warning event: the label of copies was taken off what is none.
    pub const LABEL_REMOVED: &str = "LabelRemoved";
    /// Reason of the warning event: a namespace refuses its copy.
    pub const COPY_REFUSED: &str = "CopyRefused";
}

/// The condition of OLMConfig, its reasons and what it says.
pub mod olm_config {
    /// Type, and reason of the warning event on each operator that is not copied: copies of operators for all namespaces are off.
    pub const DISABLED_COPIED_CSVS: &str = "DisabledCopiedCSVs";
    /// Copies are made.
    pub const ENABLED: &str = "CopiedCSVsEnabled";
    /// Copies are switched off.
    pub const DISABLED: &str = "CopiedCSVsDisabled";
    /// Message: copies are made, and all are there.
    pub const ENABLED_MESSAGE: &str = "Copied CSVs are enabled and present across the cluster";
    /// Message: copies are made, and not all are there yet.
    pub const MISSING_MESSAGE: &str = "Copied CSVs are enabled and at least one copied CSVs is missing";
    /// Message: copies are off, and none is there.
    pub const DISABLED_MESSAGE: &str = "Copied CSVs are disabled and no unexpected copied CSVs were found for operators installed in \
         AllNamespace mode";
    /// Message: copies are off, and one is still there.
    pub const UNEXPECTED_MESSAGE: &str = "Copied CSVs are disabled and at least one unexpected copied CSV was found for an operator \
         installed in AllNamespace mode";
}

/// Reasons of events about an Operator.
pub mod operator {
    /// The status does not list all components.
    pub const TOO_MANY_COMPONENTS: &str = "TooManyComponents";
}

/// Values of `requirementStatus[].status` and of its dependents.
pub mod requirement {
    /// The requirement is met.
    pub const PRESENT: &str = "Present";
    /// The required object does not exist.
    pub const NOT_PRESENT: &str = "NotPresent";
    /// The required object exists and something it needs in turn does not.
    pub const PRESENT_NOT_SATISFIED: &str = "PresentNotSatisfied";
    /// The required object exists and does not answer.
    pub const PRESENT_NOT_AVAILABLE: &str = "PresentNotAvailable";
    /// The Deployment behind an owned APIService is in the install strategy.
    pub const DEPLOYMENT_FOUND: &str = "DeploymentFound";
    /// The Deployment behind an owned APIService is not in the install strategy.
    pub const DEPLOYMENT_NOT_FOUND: &str = "DeploymentNotFound";
    /// Dependent: met.
    pub const SATISFIED: &str = "Satisfied";
    /// Dependent: not met.
    pub const NOT_SATISFIED: &str = "NotSatisfied";
    /// How the message of a row begins that reports rights missing beyond the namespace; it keeps nothing from being met.
    pub const MISSING_RIGHTS: &str = "rights are missing ";
}

/// Condition types and reasons of a Subscription. All types but [`READY`](subscription::READY) are abnormal when true.
pub mod subscription {
    /// Type (ours): the version that the Subscription asks for is installed and has succeeded.
    pub const READY: &str = "Ready";
    /// Reason of [`READY`] (ours): no version is installed yet, and nothing else is known to be in the way.
    pub const NOT_INSTALLED: &str = "NotInstalled";
    /// Type: the catalog that the Subscription names is missing or not healthy.
    pub const CATALOG_SOURCES_UNHEALTHY: &str = "CatalogSourcesUnhealthy";
    /// Type: the InstallPlan the status refers to does not exist.
    pub const INSTALL_PLAN_MISSING: &str = "InstallPlanMissing";
    /// Type: the InstallPlan is waiting or being carried out.
    pub const INSTALL_PLAN_PENDING: &str = "InstallPlanPending";
    /// Type: the InstallPlan has failed.
    pub const INSTALL_PLAN_FAILED: &str = "InstallPlanFailed";
    /// Type: no set of operators fits.
    pub const RESOLUTION_FAILED: &str = "ResolutionFailed";
    /// Type: bundles are being fetched.
    pub const BUNDLE_UNPACKING: &str = "BundleUnpacking";
    /// Type: a bundle could not be fetched.
    pub const BUNDLE_UNPACK_FAILED: &str = "BundleUnpackFailed";
    /// Type: package, channel or bundle is deprecated; sums up the three below.
    pub const DEPRECATED: &str = "Deprecated";
    /// Type: the package is deprecated.
    pub const PACKAGE_DEPRECATED: &str = "PackageDeprecated";
    /// Type: the channel is deprecated.
    pub const CHANNEL_DEPRECATED: &str = "ChannelDeprecated";
    /// Type: the installed bundle is deprecated.
    pub const BUNDLE_DEPRECATED: &str = "BundleDeprecated";

    /// Reason: there is no catalog at all.
    pub const NO_CATALOG_SOURCES_FOUND: &str = "NoCatalogSourcesFound";
    /// Reason: every catalog is healthy.
    pub const ALL_CATALOG_SOURCES_HEALTHY: &str = "AllCatalogSourcesHealthy";
    /// Reason: the catalog that the Subscription names is missing or not healthy.
    pub const UNHEALTHY_CATALOG_SOURCE_FOUND: &str = "UnhealthyCatalogSourceFound";
    /// Reason: the InstallPlan is not there.
    pub const REFERENCED_INSTALL_PLAN_NOT_FOUND: &str = "ReferencedInstallPlanNotFound";
    /// Reason: the InstallPlan has no phase yet.
    pub const INSTALL_PLAN_NOT_YET_RECONCILED: &str = "InstallPlanNotYetReconciled";
    /// Reason of [`INSTALL_PLAN_FAILED`] when the InstallPlan tells none; the same word as the type.
    pub const REASON_INSTALL_PLAN_FAILED: &str = "InstallPlanFailed";
    /// Event (ours): the cluster will not take something of a bundle that is about to be installed.
    pub const CLUSTER_UNSUITABLE: &str = "ClusterUnsuitable";
    /// Event (ours): files or documents of a bundle that is about to be installed are left out.
    pub const BUNDLE_FILES_SKIPPED: &str = "BundleFilesSkipped";
    /// Event (ours): an annotation about upgrades cannot be read, and counts as the most careful one.
    pub const UPGRADE_POLICY_INVALID: &str = "UpgradePolicyInvalid";
    /// Event (ours): a plan was changed on its way in, so that it waits for something else than it was to, or for nothing.
    pub const INSTALL_PLAN_REWRITTEN: &str = "InstallPlanRewritten";
    /// Event (ours): an annotation asks for more or less than is allowed.
    pub const ANNOTATION_OUT_OF_BOUNDS: &str = "AnnotationOutOfBounds";
    /// Reason of [`RESOLUTION_FAILED`]: the wishes contradict each other or the catalogs.
    pub const CONSTRAINTS_NOT_SATISFIABLE: &str = "ConstraintsNotSatisfiable";
    /// Reason of [`RESOLUTION_FAILED`]: something else went wrong, the message tells what.
    pub const ERROR_PREVENTED_RESOLUTION: &str = "ErrorPreventedResolution";
    /// Reason of [`BUNDLE_UNPACKING`].
    pub const UNPACKING_IN_PROGRESS: &str = "UnpackingInProgress";
    /// Reason of [`BUNDLE_UNPACK_FAILED`]: a bundle could not be had; the same word as the type.
    pub const REASON_BUNDLE_UNPACK_FAILED: &str = "BundleUnpackFailed";
    /// Reason of [`BUNDLE_UNPACK_FAILED`]: something else went wrong, the message tells what.
    pub const ERROR_PREVENTED_UNPACKING: &str = "ErrorPreventedUnpacking";
    /// Reason of [`BUNDLE_UNPACK_FAILED`]: the InstallPlan could not be made.
    pub const ENSURE_INSTALL_PLAN_FAILED: &str = "EnsureInstallPlanFailed";
}

/// Condition types and reasons of an InstallPlan.
pub mod install_plan {
    /// Type: the plan has been carried out, or has failed.
    pub const INSTALLED: &str = "Installed";
    /// Reason: no usable OperatorGroup or ServiceAccount.
    pub const INSTALL_CHECK_FAILED: &str = "InstallCheckFailed";
    /// Reason (ours): other steps were approved than the plan has.
    pub const OTHER_STEPS_APPROVED: &str = "OtherStepsApproved";
    /// Reason: a step failed for good.
    pub const INSTALL_COMPONENT_FAILED: &str = "InstallComponentFailed";
    /// Type (ours): an error that does not pass by itself is being tried again. Its transition time is when the first such
    /// error came, from which the retry window counts; it goes with the error.
    pub const FAILING: &str = "Failing";
    /// Reason of [`FAILING`].
    pub const LASTING_ERROR: &str = "LastingError";
    /// Reason written, with an empty message, once [`INSTALL_CHECK_FAILED`] is over.
    pub const UNKNOWN: &str = "Unknown";
    /// Reason of the warning event about accounts or RBAC of a completed plan that are missing and cannot be made again.
    pub const RESTORATION_FAILED: &str = "RestorationFailed";
    /// Reason of the warning event about a step whose object the API server took with warnings.
    pub const APPLIED_WITH_WARNINGS: &str = "AppliedWithWarnings";
    /// Reason of the warning event about a custom resource that does not fit the schema its definition got.
    pub const CRD_VALIDATION: &str = "CRDValidation";
    /// Reason (ours) of the warning event about a plan that waits for approval and whose preview is not so any more.
    pub const PREVIEW_OUTDATED: &str = "PreviewOutdated";
}

/// Condition types and reasons of a bundle lookup in an InstallPlan's status.
pub mod bundle_lookup {
    /// Type: the bundle's content is not there yet.
    pub const PENDING: &str = "BundleLookupPending";
    /// Type: the bundle's content cannot be had.
    pub const FAILED: &str = "BundleLookupFailed";
}

/// Reasons and connection states of a CatalogSource.
pub mod catalog_source {
    /// `status.reason`: the spec is not valid.
    pub const SPEC_INVALID_ERROR: &str = "SpecInvalidError";
    /// `status.reason`: the ConfigMap of the catalog cannot be had.
    pub const CONFIG_MAP_ERROR: &str = "ConfigMapError";
    /// `status.reason`: the registry server could not be set up.
    pub const REGISTRY_SERVER_ERROR: &str = "RegistryServerError";
    /// `status.reason`: the interval of polls cannot be understood.
    pub const INVALID_INTERVAL_ERROR: &str = "InvalidIntervalError";
    /// Type: the template of the catalog's image came to an image.
    pub const TEMPLATES_HAVE_RESOLVED: &str = "TemplatesHaveResolved";
    /// Type: what the template came to, in the message.
    pub const RESOLVED_IMAGE: &str = "ResolvedImage";
    /// Reason of both types: it is an image.
    pub const ALL_TEMPLATES_RESOLVED: &str = "AllTemplatesResolved";
    /// Reason of both types: it is none.
    pub const UNABLE_TO_RESOLVE: &str = "UnableToResolve";
    /// Connection state: no connection wanted at the moment.
    pub const IDLE: &str = "IDLE";
    /// Connection state: being connected.
    pub const CONNECTING: &str = "CONNECTING";
    /// Connection state: connected.
    pub const READY: &str = "READY";
    /// Connection state: failed, will be tried again.
    pub const TRANSIENT_FAILURE: &str = "TRANSIENT_FAILURE";
    /// Connection state: closed for good.
    pub const SHUTDOWN: &str = "SHUTDOWN";
}

/// Condition types and reasons of an OperatorGroup.
pub mod operator_group {
    /// Type: something is wrong with the ServiceAccount the group names.
    pub const SERVICE_ACCOUNT: &str = "OperatorGroupServiceAccount";
    /// Reason of [`SERVICE_ACCOUNT`]: it does not exist.
    pub const SERVICE_ACCOUNT_NOT_FOUND: &str = "ServiceAccountNotFound";
    /// Type: the namespace has several groups.
    pub const MULTIPLE_OPERATOR_GROUP: &str = "MultipleOperatorGroup";
    /// Reason of [`MULTIPLE_OPERATOR_GROUP`].
    pub const MULTIPLE_OPERATOR_GROUPS_FOUND: &str = "MultipleOperatorGroupsFound";
    /// Message of [`MULTIPLE_OPERATOR_GROUP`].
    pub const MULTIPLE_OPERATOR_GROUPS_MESSAGE: &str = "Multiple OperatorGroup found in the same namespace";
    /// Reason of the warning event: `spec.selector` makes no sense, so the targets stay as they were.
    pub const INVALID_SELECTOR: &str = "InvalidSelector";
    /// Reason of the warning event: its ClusterRoles cannot be made, as its name does not fit a label.
    pub const NAME_TOO_LONG: &str = "NameTooLong";
    /// Reason of the warning event: its ClusterRoles take up a part of its APIs.
    pub const TOO_MANY_APIS: &str = "TooManyAPIs";
}

/// Reasons of events about the ClusterRoles for users.
pub mod user_role {
    /// Reason of the warning event: a ClusterRole of somebody else has the name that one of OLM's needs.
    pub const NAME_TAKEN: &str = super::operator_condition::NAME_TAKEN;
}

/// Condition types of an OperatorCondition, and reasons of its events.
pub mod operator_condition {
    /// Reason of the warning event: an object of somebody else has the name that its Role or RoleBinding needs.
    pub const NAME_TAKEN: &str = "NameTaken";
    /// The one interpreted type: whether the operator may be upgraded now.
    pub const UPGRADEABLE: &str = "Upgradeable";
}
