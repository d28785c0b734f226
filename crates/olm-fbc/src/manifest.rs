//! Kinds of objects in bundles that are treated specially.

/// Kind of the object every bundle has exactly one of.
pub const CSV_KIND: &str = "ClusterServiceVersion";
/// Kind of the object that defines an API.
pub const CRD_KIND: &str = "CustomResourceDefinition";
/// Kinds not every cluster knows. An InstallPlan applies them as they come, found by discovery; their group is not looked
/// at (upstream's rule).
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
