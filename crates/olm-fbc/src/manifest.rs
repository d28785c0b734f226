//! Kinds of bundle objects with special treatment.

/// Kind of the object that every bundle contains exactly once.
pub const CSV_KIND: &str = "ClusterServiceVersion";
/// Kind of the object that defines an API.
pub const CRD_KIND: &str = "CustomResourceDefinition";
/// Kinds that not every cluster has. An InstallPlan applies them as they are, found by discovery. Their group is ignored
/// (upstream's rule).
pub const OPTIONAL_KINDS: [&str; 11] = [
    "ConsoleCLIDownload",
    "ConsoleLink",
    "ConsolePlugin",
    "ConsoleQuickStart",
    "ConsoleYAMLSample",
    "NetworkPolicy",
    "PodDisruptionBudget",
    "PriorityClass",
    "PrometheusRule",
    "ServiceMonitor",
    "VerticalPodAutoscaler",
];
