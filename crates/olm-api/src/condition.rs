//! Condition types, reasons and status words of every kind, copied exactly as clusters have them today.
//!
//! There is one module per kind. Phases are the open enums beside the kinds' types, because they drive state machines. Their
//! meaning is described in `docs/reference`.

/// Condition status: the condition is true.
pub const TRUE: &str = "True";
/// Condition status: the condition is false.
pub const FALSE: &str = "False";
/// Condition status: unknown.
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
    /// A component could not be installed; the install is retried.
    pub const INSTALL_COMPONENT_FAILED: &str = "InstallComponentFailed";
    /// A component could not be installed, and a retry would not help.
    pub const INSTALL_COMPONENT_FAILED_NO_RETRY: &str = "InstallComponentFailedNoRetry";
    /// The install strategy is unknown or invalid.
    pub const INVALID_INSTALL_STRATEGY: &str = "InvalidInstallStrategy";
    /// Components are installed but not all are healthy yet.
    pub const INSTALL_WAITING: &str = "InstallWaiting";
    /// Components are installed (phase Installing) or healthy (phase Succeeded).
    pub const INSTALL_SUCCEEDED: &str = "InstallSucceeded";
    /// The check of the installed components failed or timed out.
    pub const INSTALL_CHECK_FAILED: &str = "InstallCheckFailed";
    /// A component of a succeeded install is no longer healthy.
    pub const COMPONENT_UNHEALTHY: &str = "ComponentUnhealthy";
    /// A successor exists.
    pub const BEING_REPLACED: &str = "BeingReplaced";
    /// The successor has succeeded.
    pub const REPLACED: &str = "Replaced";
    /// The installed components differ from the wanted ones.
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
    /// The operator does not support the target namespaces of the OperatorGroup.
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
    /// The operator being replaced has reported that it must not be upgraded now.
    pub const OPERATOR_CONDITION_NOT_UPGRADEABLE: &str = "OperatorConditionNotUpgradeable";
    /// Reason of the warning event: the operator lacks rights in namespaces that its OperatorGroup targets.
    pub const RIGHTS_MISSING: &str = "RightsMissing";
    /// Reason of the warning event: rights beyond the namespace were revoked, because no OperatorGroup grants them.
    pub const RIGHTS_WITHDRAWN: &str = "RightsWithdrawn";
    /// Reason of the warning event: a namespace rejects its copy.
    pub const COPY_REFUSED: &str = "CopyRefused";
}

/// Condition of OLMConfig, its reasons and messages.
pub mod olm_config {
    /// Type, and reason of the warning event on each operator that is not copied: copies of operators for all namespaces are
    /// disabled.
    pub const DISABLED_COPIED_CSVS: &str = "DisabledCopiedCSVs";
    /// Reason: copies are enabled.
    pub const ENABLED: &str = "CopiedCSVsEnabled";
    /// Reason: copies are disabled.
    pub const DISABLED: &str = "CopiedCSVsDisabled";
    /// Message: copies are enabled and all exist.
    pub const ENABLED_MESSAGE: &str = "Copied CSVs are enabled and present across the cluster";
    /// Message: copies are enabled and at least one is missing.
    pub const MISSING_MESSAGE: &str = "Copied CSVs are enabled and at least one copied CSVs is missing";
    /// Message: copies are disabled and none exists.
    pub const DISABLED_MESSAGE: &str = "Copied CSVs are disabled and no unexpected copied CSVs were found for operators installed in \
         AllNamespace mode";
    /// Message: copies are disabled and at least one still exists.
    pub const UNEXPECTED_MESSAGE: &str = "Copied CSVs are disabled and at least one unexpected copied CSV was found for an operator \
         installed in AllNamespace mode";
}

/// Values of `requirementStatus[].status` and of its dependents.
pub mod requirement {
    /// The requirement is met.
    pub const PRESENT: &str = "Present";
    /// The required object does not exist.
    pub const NOT_PRESENT: &str = "NotPresent";
    /// The required object exists, but one of its own dependents does not.
    pub const PRESENT_NOT_SATISFIED: &str = "PresentNotSatisfied";
    /// The required object exists but does not respond.
    pub const PRESENT_NOT_AVAILABLE: &str = "PresentNotAvailable";
    /// The Deployment behind an owned APIService is in the install strategy.
    pub const DEPLOYMENT_FOUND: &str = "DeploymentFound";
    /// The Deployment behind an owned APIService is not in the install strategy.
    pub const DEPLOYMENT_NOT_FOUND: &str = "DeploymentNotFound";
    /// Dependent: met.
    pub const SATISFIED: &str = "Satisfied";
    /// Dependent: not met.
    pub const NOT_SATISFIED: &str = "NotSatisfied";
    /// Prefix of the message of a row that reports rights missing beyond the namespace; such a row does not make a requirement
    /// unmet.
    pub const MISSING_RIGHTS: &str = "rights are missing ";
}

/// Condition types and reasons of a Subscription. All types but [`READY`](subscription::READY) are abnormal when true.
pub mod subscription {
    /// Type (ours): the version that the Subscription asks for is installed and has succeeded.
    pub const READY: &str = "Ready";
    /// Reason of [`READY`] (ours): no version is installed yet, and no obstacle is known.
    pub const NOT_INSTALLED: &str = "NotInstalled";
    /// Type: the catalog that the Subscription names is missing or not healthy.
    pub const CATALOG_SOURCES_UNHEALTHY: &str = "CatalogSourcesUnhealthy";
    /// Type: the InstallPlan the status refers to does not exist.
    pub const INSTALL_PLAN_MISSING: &str = "InstallPlanMissing";
    /// Type: the InstallPlan is waiting or being executed.
    pub const INSTALL_PLAN_PENDING: &str = "InstallPlanPending";
    /// Type: the InstallPlan has failed.
    pub const INSTALL_PLAN_FAILED: &str = "InstallPlanFailed";
    /// Type: no set of operators satisfies the constraints.
    pub const RESOLUTION_FAILED: &str = "ResolutionFailed";
    /// Type: bundles are being fetched.
    pub const BUNDLE_UNPACKING: &str = "BundleUnpacking";
    /// Type: a bundle could not be fetched.
    pub const BUNDLE_UNPACK_FAILED: &str = "BundleUnpackFailed";
    /// Types of the conditions that keep a Subscription from being ready while they are true, most severe first. Everything that
    /// names one cause names the first of these.
    pub const OBSTACLES: [&str; 6] = [
        INSTALL_PLAN_FAILED,
        RESOLUTION_FAILED,
        BUNDLE_UNPACK_FAILED,
        CATALOG_SOURCES_UNHEALTHY,
        INSTALL_PLAN_PENDING,
        BUNDLE_UNPACKING,
    ];
    /// Type: package, channel or bundle is deprecated; summary of the three types below.
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
    /// Reason: the InstallPlan does not exist.
    pub const REFERENCED_INSTALL_PLAN_NOT_FOUND: &str = "ReferencedInstallPlanNotFound";
    /// Reason: the InstallPlan has no phase yet.
    pub const INSTALL_PLAN_NOT_YET_RECONCILED: &str = "InstallPlanNotYetReconciled";
    /// Reason of [`INSTALL_PLAN_FAILED`] when the InstallPlan reports none; the same word as the type.
    pub const REASON_INSTALL_PLAN_FAILED: &str = "InstallPlanFailed";
    /// Event (ours): the cluster will reject part of a bundle that is about to be installed.
    pub const CLUSTER_UNSUITABLE: &str = "ClusterUnsuitable";
    /// Event (ours): files or documents of a bundle that is about to be installed are left out.
    pub const BUNDLE_FILES_SKIPPED: &str = "BundleFilesSkipped";
    /// Event (ours): an annotation about upgrades is invalid and counts as the strictest one, or has no effect.
    pub const UPGRADE_POLICY_INVALID: &str = "UpgradePolicyInvalid";
    /// Reason of [`RESOLUTION_FAILED`]: the requests contradict each other or the catalogs.
    pub const CONSTRAINTS_NOT_SATISFIABLE: &str = "ConstraintsNotSatisfiable";
    /// Reason of [`RESOLUTION_FAILED`]: another error, described in the message.
    pub const ERROR_PREVENTED_RESOLUTION: &str = "ErrorPreventedResolution";
    /// Reason of [`BUNDLE_UNPACKING`].
    pub const UNPACKING_IN_PROGRESS: &str = "UnpackingInProgress";
    /// Reason of [`BUNDLE_UNPACK_FAILED`]: a bundle could not be fetched; the same word as the type.
    pub const REASON_BUNDLE_UNPACK_FAILED: &str = "BundleUnpackFailed";
    /// Reason of [`BUNDLE_UNPACK_FAILED`]: another error, described in the message.
    pub const ERROR_PREVENTED_UNPACKING: &str = "ErrorPreventedUnpacking";
    /// Reason of [`BUNDLE_UNPACK_FAILED`]: the InstallPlan could not be created.
    pub const ENSURE_INSTALL_PLAN_FAILED: &str = "EnsureInstallPlanFailed";
}

/// Condition types and reasons of an InstallPlan.
pub mod install_plan {
    /// Type: the plan has completed or failed.
    pub const INSTALLED: &str = "Installed";
    /// Reason: no usable OperatorGroup or ServiceAccount.
    pub const INSTALL_CHECK_FAILED: &str = "InstallCheckFailed";
    /// Reason (ours): the approved steps are not the steps of the plan.
    pub const OTHER_STEPS_APPROVED: &str = "OtherStepsApproved";
    /// Reason: a step failed permanently.
    pub const INSTALL_COMPONENT_FAILED: &str = "InstallComponentFailed";
    /// Type (ours): a non-transient error is being retried. The transition time is that of the first such error, and the retry
    /// window counts from it. The condition is removed with the error.
    pub const FAILING: &str = "Failing";
    /// Start of a plan's message after an error for which its steps are carried out again. The text is upstream's.
    pub const RETRYING: &str = "retrying execution due to error: ";
    /// Reason of [`FAILING`].
    pub const LASTING_ERROR: &str = "LastingError";
    /// Reason written, with an empty message, once [`INSTALL_CHECK_FAILED`] no longer applies.
    pub const UNKNOWN: &str = "Unknown";
    /// Reason of the warning event about accounts or RBAC of a completed plan that are missing and cannot be recreated.
    pub const RESTORATION_FAILED: &str = "RestorationFailed";
    /// Reason of the warning event about a step whose object the API server accepted with warnings.
    pub const APPLIED_WITH_WARNINGS: &str = "AppliedWithWarnings";
    /// Reason of the warning event about a custom resource that does not match the new schema of its definition.
    pub const CRD_VALIDATION: &str = "CRDValidation";
}

/// Condition types and reasons of a bundle lookup in an InstallPlan's status.
pub mod bundle_lookup {
    /// Type: the bundle's content is not available yet.
    pub const PENDING: &str = "BundleLookupPending";
    /// Type: the bundle's content cannot be fetched.
    pub const FAILED: &str = "BundleLookupFailed";
}

/// Reasons and connection states of a CatalogSource.
pub mod catalog_source {
    /// `status.reason`: the spec is not valid.
    pub const SPEC_INVALID_ERROR: &str = "SpecInvalidError";
    /// `status.reason`: the ConfigMap of the catalog cannot be read.
    pub const CONFIG_MAP_ERROR: &str = "ConfigMapError";
    /// `status.reason`: the registry server could not be set up.
    pub const REGISTRY_SERVER_ERROR: &str = "RegistryServerError";
    /// `status.reason`: the poll interval cannot be parsed.
    pub const INVALID_INTERVAL_ERROR: &str = "InvalidIntervalError";
    /// Type: the template of the catalog's image has been resolved to an image.
    pub const TEMPLATES_HAVE_RESOLVED: &str = "TemplatesHaveResolved";
    /// Type: the resolved image, in the message.
    pub const RESOLVED_IMAGE: &str = "ResolvedImage";
    /// Reason of both types: the template resolved to an image.
    pub const ALL_TEMPLATES_RESOLVED: &str = "AllTemplatesResolved";
    /// Reason of both types: the template did not resolve to an image.
    pub const UNABLE_TO_RESOLVE: &str = "UnableToResolve";
    /// Connection state: no connection is wanted at the moment.
    pub const IDLE: &str = "IDLE";
    /// Connection state: connecting.
    pub const CONNECTING: &str = "CONNECTING";
    /// Connection state: connected.
    pub const READY: &str = "READY";
    /// Connection state: failed, will be retried.
    pub const TRANSIENT_FAILURE: &str = "TRANSIENT_FAILURE";
    /// Connection state: closed permanently.
    pub const SHUTDOWN: &str = "SHUTDOWN";
}

/// Condition types and reasons of an OperatorGroup.
pub mod operator_group {
    /// Type: there is a problem with the ServiceAccount the group names.
    pub const SERVICE_ACCOUNT: &str = "OperatorGroupServiceAccount";
    /// Reason of [`SERVICE_ACCOUNT`]: it does not exist.
    pub const SERVICE_ACCOUNT_NOT_FOUND: &str = "ServiceAccountNotFound";
    /// Type: the namespace has several groups.
    pub const MULTIPLE_OPERATOR_GROUP: &str = "MultipleOperatorGroup";
    /// Reason of [`MULTIPLE_OPERATOR_GROUP`].
    pub const MULTIPLE_OPERATOR_GROUPS_FOUND: &str = "MultipleOperatorGroupsFound";
    /// Message of [`MULTIPLE_OPERATOR_GROUP`].
    pub const MULTIPLE_OPERATOR_GROUPS_MESSAGE: &str = "Multiple OperatorGroup found in the same namespace";
    /// Reason of the warning event: `spec.selector` is invalid, so the targets are kept.
    pub const INVALID_SELECTOR: &str = "InvalidSelector";
    /// Reason of the warning event: its ClusterRoles cannot be created, because its name does not fit a label.
    pub const NAME_TOO_LONG: &str = "NameTooLong";
}

/// Reasons of events about the ClusterRoles for users.
pub mod user_role {
    /// Reason of the warning event: a ClusterRole that OLM does not own has the name of one that OLM needs.
    pub const NAME_TAKEN: &str = "NameTaken";
}

/// Condition types of an OperatorCondition.
pub mod operator_condition {
    /// The only type that OLM interprets: whether the operator may be upgraded now.
    pub const UPGRADEABLE: &str = "Upgradeable";
}

/// Condition types, reasons and messages of a ClusterCatalog.
pub mod cluster_catalog {
    /// Type: whether the content in the cluster follows the source.
    pub const PROGRESSING: &str = "Progressing";
    /// Type: whether content is served.
    pub const SERVING: &str = "Serving";
    /// Reason of [`PROGRESSING`]: nothing is left to do.
    pub const SUCCEEDED: &str = "Succeeded";
    /// Reason of [`PROGRESSING`]: an attempt failed, and is repeated.
    pub const RETRYING: &str = "Retrying";
    /// Reason of [`PROGRESSING`]: an attempt failed, and a repetition cannot help.
    pub const BLOCKED: &str = "Blocked";
    /// Reason of [`SERVING`]: content is served.
    pub const AVAILABLE: &str = "Available";
    /// Reason of [`SERVING`]: there is no content.
    pub const UNAVAILABLE: &str = "Unavailable";
    /// Reason of [`SERVING`]: the catalog is switched off.
    pub const USER_SPECIFIED_UNAVAILABLE: &str = "UserSpecifiedUnavailable";
    /// Message of [`SUCCEEDED`].
    pub const SUCCEEDED_MESSAGE: &str = "Successfully unpacked and stored content from resolved source";
    /// Message of [`AVAILABLE`].
    pub const AVAILABLE_MESSAGE: &str = "Serving desired content from resolved source";
    /// Message of both types while the catalog is switched off.
    pub const SWITCHED_OFF_MESSAGE: &str = "Catalog availability mode is set to Unavailable";
}

/// Conditions of a ClusterExtension, their reasons and messages.
pub mod cluster_extension {
    /// Type: whether a bundle is installed.
    pub const INSTALLED: &str = "Installed";
    /// Type: whether the cluster follows the spec.
    pub const PROGRESSING: &str = "Progressing";
    /// Type: whether the package, a wanted channel or the installed bundle is deprecated.
    pub const DEPRECATED: &str = "Deprecated";
    /// Type: whether the package is deprecated.
    pub const PACKAGE_DEPRECATED: &str = "PackageDeprecated";
    /// Type: whether a wanted channel is deprecated.
    pub const CHANNEL_DEPRECATED: &str = "ChannelDeprecated";
    /// Type: whether the installed bundle is deprecated.
    pub const BUNDLE_DEPRECATED: &str = "BundleDeprecated";

    /// Reason of [`INSTALLED`] and [`PROGRESSING`]: as wanted.
    pub const SUCCEEDED: &str = "Succeeded";
    /// Reason of [`INSTALLED`]: no bundle is installed, or the installed one is unknown.
    pub const FAILED: &str = "Failed";
    /// Reason of [`INSTALLED`] and [`BUNDLE_DEPRECATED`]: no bundle is installed yet.
    pub const ABSENT: &str = "Absent";
    /// Reason of [`PROGRESSING`]: a revision is being rolled out.
    pub const ROLLING_OUT: &str = "RollingOut";
    /// Reason of [`PROGRESSING`]: an attempt failed, and is repeated.
    pub const RETRYING: &str = "Retrying";
    /// Reason of [`PROGRESSING`]: an attempt failed, and a repetition cannot help.
    pub const BLOCKED: &str = "Blocked";
    /// Reason of [`PROGRESSING`]: the configuration does not fit the bundle.
    pub const INVALID_CONFIGURATION: &str = "InvalidConfiguration";
    /// Reason of [`PROGRESSING`]: the rollout takes longer than it may.
    pub const PROGRESS_DEADLINE_EXCEEDED: &str = "ProgressDeadlineExceeded";
    /// Reason of the conditions about deprecations that are true.
    pub const REASON_DEPRECATED: &str = "Deprecated";
    /// Reason of the conditions about deprecations that are false.
    pub const NOT_DEPRECATED: &str = "NotDeprecated";
    /// Reason of the conditions about deprecations while no catalog can be read.
    pub const DEPRECATION_STATUS_UNKNOWN: &str = "DeprecationStatusUnknown";

    /// Message of [`PROGRESSING`] with [`SUCCEEDED`].
    pub const SUCCEEDED_MESSAGE: &str = "Desired state reached";
    /// Message of [`INSTALLED`] without a bundle.
    pub const NOT_INSTALLED_MESSAGE: &str = "No bundle installed";
    /// Message of [`DEPRECATED`] with [`NOT_DEPRECATED`].
    pub const NOT_DEPRECATED_MESSAGE: &str = "not deprecated";
    /// Message of [`PACKAGE_DEPRECATED`] with [`NOT_DEPRECATED`].
    pub const PACKAGE_NOT_DEPRECATED_MESSAGE: &str = "package not deprecated";
    /// Message of [`CHANNEL_DEPRECATED`] with [`NOT_DEPRECATED`].
    pub const CHANNEL_NOT_DEPRECATED_MESSAGE: &str = "channel not deprecated";
    /// Message of [`BUNDLE_DEPRECATED`] with [`NOT_DEPRECATED`].
    pub const BUNDLE_NOT_DEPRECATED_MESSAGE: &str = "bundle not deprecated";
    /// Message of [`DEPRECATION_STATUS_UNKNOWN`].
    pub const DEPRECATION_STATUS_UNKNOWN_MESSAGE: &str =
        "deprecation status unknown: catalog data unavailable";
    /// Message of [`BUNDLE_DEPRECATED`] with [`ABSENT`].
    pub const NO_BUNDLE_YET_MESSAGE: &str = "no bundle installed yet";

    /// Returns the message of [`INSTALLED`] with a bundle, of which `image` is the reference.
    pub fn installed_message(image: &str) -> String {
        format!("Installed bundle {image} successfully")
    }
}

/// Conditions of a ClusterObjectSet, their reasons and messages.
pub mod cluster_object_set {
    /// Type: whether the revision is being rolled out.
    pub const PROGRESSING: &str = "Progressing";
    /// Type: whether the objects pass their probes.
    pub const AVAILABLE: &str = "Available";
    /// Type: whether the rollout was complete once. It stays true.
    pub const SUCCEEDED: &str = "Succeeded";

    /// Reason of [`PROGRESSING`] and [`AVAILABLE`]: the rollout is not complete.
    pub const ROLLING_OUT: &str = "RollingOut";
    /// Reason of [`PROGRESSING`] and [`SUCCEEDED`]: the rollout is complete.
    pub const REASON_SUCCEEDED: &str = "Succeeded";
    /// Reason of [`PROGRESSING`]: an attempt failed, and is repeated.
    pub const RETRYING: &str = "Retrying";
    /// Reason of [`PROGRESSING`]: only a user can help.
    pub const BLOCKED: &str = "Blocked";
    /// Reason of [`PROGRESSING`]: the rollout takes longer than it may.
    pub const PROGRESS_DEADLINE_EXCEEDED: &str = "ProgressDeadlineExceeded";
    /// Reason of [`PROGRESSING`] and [`AVAILABLE`]: the revision is archived.
    pub const ARCHIVED: &str = "Archived";
    /// Reason of [`AVAILABLE`]: all probes pass.
    pub const PROBES_SUCCEEDED: &str = "ProbesSucceeded";
    /// Reason of [`AVAILABLE`]: a probe fails.
    pub const PROBE_FAILURE: &str = "ProbeFailure";
    /// Reason of [`AVAILABLE`]: an error kept the probes from being evaluated.
    pub const RECONCILING: &str = "Reconciling";

    /// Message of [`AVAILABLE`] with [`PROBES_SUCCEEDED`].
    pub const PROBES_SUCCEEDED_MESSAGE: &str = "Objects are available and pass all probes.";
    /// Message of [`SUCCEEDED`].
    pub const SUCCEEDED_MESSAGE: &str = "Revision succeeded rolling out.";
    /// Message of [`ARCHIVED`].
    pub const ARCHIVED_MESSAGE: &str = "revision is archived";
    /// Message of [`RETRYING`] while an archived revision still has objects.
    pub const TEARDOWN_MESSAGE: &str = "removing revision resources that are not owned by another revision";

    /// Returns the message of [`ROLLING_OUT`].
    pub fn rolling_out_message(version: &str) -> String {
        format!("Revision {version} is rolling out.")
    }

    /// Returns the message of [`PROGRESSING`] with [`REASON_SUCCEEDED`].
    pub fn rolled_out_message(version: &str) -> String {
        format!("Revision {version} has rolled out.")
    }
}
