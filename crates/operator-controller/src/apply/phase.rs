//! Split of a bundle's objects into phases, which are applied one after the other. No I/O.

use std::collections::BTreeMap;

use serde_json::Value;

use super::object::ObjectId;

/// Maximum number of objects of a phase, as in the definition of ClusterObjectSet.
const MAX_OBJECTS: usize = 50;
/// Phase of the kinds that no phase names.
const DEPLOY: &str = "deploy";

/// Phases in their order, each with its kinds as group and kind. Source: upstream's `applier/phase.go`.
const PHASES: [(&str, &[(&str, &str)]); 13] = [
    ("namespaces", &[("", "Namespace")]),
    (
        "policies",
        &[
            ("networking.k8s.io", "NetworkPolicy"),
            ("policy", "PodDisruptionBudget"),
            ("scheduling.k8s.io", "PriorityClass"),
        ],
    ),
    ("identity", &[("", "ServiceAccount")]),
    ("configuration", &[("", "Secret"), ("", "ConfigMap")]),
    (
        "storage",
        &[
            ("", "PersistentVolume"),
            ("", "PersistentVolumeClaim"),
            ("storage.k8s.io", "StorageClass"),
        ],
    ),
    ("crds", &[("apiextensions.k8s.io", "CustomResourceDefinition")]),
    (
        "roles",
        &[
            ("rbac.authorization.k8s.io", "ClusterRole"),
            ("rbac.authorization.k8s.io", "Role"),
        ],
    ),
    (
        "bindings",
        &[
            ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
            ("rbac.authorization.k8s.io", "RoleBinding"),
        ],
    ),
    (
        "infrastructure",
        &[
            ("", "Service"),
            ("cert-manager.io", "Issuer"),
            ("cert-manager.io", "Certificate"),
        ],
    ),
    (DEPLOY, &[("apps", "Deployment")]),
    ("scaling", &[("autoscaling.k8s.io", "VerticalPodAutoscaler")]),
    (
        "publish",
        &[
            ("monitoring.coreos.com", "PrometheusRule"),
            ("monitoring.coreos.com", "ServiceMonitor"),
            ("monitoring.coreos.com", "PodMonitor"),
            ("networking.k8s.io", "Ingress"),
            ("route.openshift.io", "Route"),
            ("console.openshift.io", "ConsoleYAMLSample"),
            ("console.openshift.io", "ConsoleQuickStart"),
            ("console.openshift.io", "ConsoleCLIDownload"),
            ("console.openshift.io", "ConsoleLink"),
            ("console.openshift.io", "ConsolePlugin"),
        ],
    ),
    (
        "admission",
        &[
            ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
            ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"),
        ],
    ),
];

/// Objects that are applied together.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Phase {
    /// Name of the phase.
    pub name: String,
    /// Objects as manifests.
    pub objects: Vec<Value>,
}

/// Splits objects into phases. Phases without objects are left out. Within a phase, objects are sorted by group, version, kind, namespace
/// and name. A phase with more than 50 objects is split into `deploy`, `deploy-2` and so on, because the API server refuses it; upstream
/// does not do that.
pub fn sort_into_phases(mut objects: Vec<Value>) -> Vec<Phase> {
    objects.sort_by_cached_key(ObjectId::of);
    let mut by_phase: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for object in objects {
        by_phase.entry(phase_of(&object)).or_default().push(object);
    }
    let mut phases = Vec::new();
    for (name, _) in PHASES {
        let mut objects = by_phase.remove(name).unwrap_or_default();
        let mut part = 1_usize;
        while !objects.is_empty() {
            let rest = objects.split_off(objects.len().min(MAX_OBJECTS));
            let name = match part {
                1 => name.to_owned(),
                part => format!("{name}-{part}"),
            };
            phases.push(Phase { name, objects });
            (objects, part) = (rest, part.saturating_add(1));
        }
    }
    phases
}

/// Returns the name of the phase of an object, before large phases are split.
fn phase_of(object: &Value) -> &'static str {
    let id = ObjectId::of(object);
    let kind = (id.group.as_str(), id.kind.as_str());
    let named = PHASES.iter().find(|(_, kinds)| kinds.contains(&kind));
    named.map_or(DEPLOY, |(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(api_version: &str, kind: &str, name: &str) -> Value {
        json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}})
    }

    fn texts(phases: &[Phase]) -> Vec<String> {
        let text = |phase: &Phase| {
            let ids = phase.objects.iter().map(ObjectId::of);
            let objects: Vec<String> = ids.map(|id| format!("{} {}", id.kind, id.name)).collect();
            format!("{}: {}", phase.name, objects.join(", "))
        };
        phases.iter().map(text).collect()
    }

    #[test]
    fn every_kind_has_its_phase_and_others_are_deployed() {
        let objects = vec![
            object(
                "admissionregistration.k8s.io/v1",
                "MutatingWebhookConfiguration",
                "a",
            ),
            object("example.com/v1", "Demo", "a"),
            object("apps/v1", "Deployment", "b"),
            object("apps/v1", "Deployment", "a"),
            object("v1", "Service", "a"),
            object("rbac.authorization.k8s.io/v1", "RoleBinding", "a"),
            object("rbac.authorization.k8s.io/v1", "Role", "a"),
            object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "a"),
            object("v1", "PersistentVolumeClaim", "a"),
            object("v1", "Secret", "a"),
            object("v1", "ConfigMap", "b"),
            object("v1", "ServiceAccount", "a"),
            object("policy/v1", "PodDisruptionBudget", "a"),
            object("v1", "Namespace", "a"),
            object("monitoring.coreos.com/v1", "ServiceMonitor", "a"),
            object("autoscaling.k8s.io/v1", "VerticalPodAutoscaler", "a"),
        ];
        assert_eq!(
            texts(&sort_into_phases(objects)),
            [
                "namespaces: Namespace a",
                "policies: PodDisruptionBudget a",
                "identity: ServiceAccount a",
                "configuration: ConfigMap b, Secret a",
                "storage: PersistentVolumeClaim a",
                "crds: CustomResourceDefinition a",
                "roles: Role a",
                "bindings: RoleBinding a",
                "infrastructure: Service a",
                "deploy: Deployment a, Deployment b, Demo a",
                "scaling: VerticalPodAutoscaler a",
                "publish: ServiceMonitor a",
                "admission: MutatingWebhookConfiguration a",
            ]
        );
        assert!(sort_into_phases(Vec::new()).is_empty());
    }

    #[test]
    fn a_large_phase_is_split() {
        let objects = (0..101).map(|index| object("v1", "ConfigMap", &format!("{index:03}")));
        let phases = sort_into_phases(objects.collect());
        let sizes: Vec<_> = phases
            .iter()
            .map(|phase| (phase.name.as_str(), phase.objects.len()))
            .collect();
        assert_eq!(
            sizes,
            [
                ("configuration", 50),
                ("configuration-2", 50),
                ("configuration-3", 1)
            ]
        );
    }
}
