//! Applies a Subscription's `spec.config` to the pods of an operator.
//!
//! The rules per field are described in `docs/reference/lifecycle.md`. Two differences from upstream are
//! deliberate: an empty `podAntiAffinity` clears only that part, and a duplicate variable is kept once, with
//! its last value.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Affinity, Container, EnvFromSource, EnvVar, PodSpec, ResourceRequirements, Toleration, Volume,
    VolumeMount,
};

/// The part of a Subscription's configuration that affects pods, as the user wrote it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Overrides {
    /// Variables for every container; replace existing ones by name, else appended.
    pub(crate) env: Vec<EnvVar>,
    /// Sources of variables; appended unless an equal one exists.
    pub(crate) env_from: Vec<EnvFromSource>,
    /// Volumes; replace existing ones by name, else appended.
    pub(crate) volumes: Vec<Volume>,
    /// Mounts for every container; replace existing ones by volume name, else appended.
    pub(crate) volume_mounts: Vec<VolumeMount>,
    /// Tolerations; appended unless an equal one exists.
    pub(crate) tolerations: Vec<Toleration>,
    /// Resources of every container, replaced as a whole.
    pub(crate) resources: Option<ResourceRequirements>,
    /// Node selector, replaced as a whole; an empty one clears it.
    pub(crate) node_selector: Option<BTreeMap<String, String>>,
    /// Affinity, replaced part by part.
    pub(crate) affinity: Option<Affinity>,
    /// Annotations of Deployment and pods; existing keys are kept.
    pub(crate) annotations: BTreeMap<String, String>,
}

/// Applies the overrides to a pod; the caller sets annotations.
pub(crate) fn apply(overrides: &Overrides, pod: &mut PodSpec) {
    for container in &mut pod.containers {
        merge_env(container, &overrides.env);
        merge_env_from(container, &overrides.env_from);
        merge_mounts(container, &overrides.volume_mounts);
        if let Some(resources) = &overrides.resources {
            container.resources = Some(resources.clone());
        }
    }
    merge_volumes(pod, &overrides.volumes);
    merge_tolerations(pod, &overrides.tolerations);
    if let Some(selector) = &overrides.node_selector {
        pod.node_selector = Some(selector.clone());
    }
    if let Some(affinity) = &overrides.affinity {
        pod.affinity = merge_affinity(pod.affinity.take(), affinity);
    }
}

/// Sets variables by name: replaces existing ones, and appends the rest. A duplicate name keeps its first
/// position and its last value, because server-side apply refuses duplicate keys in a list.
pub(crate) fn merge_env(container: &mut Container, wanted: &[EnvVar]) {
    let mut merged: Vec<EnvVar> = Vec::new();
    let present = container.env.take().unwrap_or_default();
    for variable in present.into_iter().chain(wanted.iter().cloned()) {
        match merged.iter_mut().find(|existing| existing.name == variable.name) {
            Some(existing) => *existing = variable,
            None => merged.push(variable),
        }
    }
    container.env = (!merged.is_empty()).then_some(merged);
}

fn merge_env_from(container: &mut Container, wanted: &[EnvFromSource]) {
    for source in wanted {
        let sources = container.env_from.get_or_insert_default();
        if !sources.contains(source) {
            sources.push(source.clone());
        }
    }
}

fn merge_mounts(container: &mut Container, wanted: &[VolumeMount]) {
    for mount in wanted {
        let mounts = container.volume_mounts.get_or_insert_default();
        match mounts.iter_mut().find(|existing| existing.name == mount.name) {
            Some(existing) => *existing = mount.clone(),
            None => mounts.push(mount.clone()),
        }
    }
}

fn merge_volumes(pod: &mut PodSpec, wanted: &[Volume]) {
    for volume in wanted {
        let volumes = pod.volumes.get_or_insert_default();
        match volumes.iter_mut().find(|existing| existing.name == volume.name) {
            Some(existing) => *existing = volume.clone(),
            None => volumes.push(volume.clone()),
        }
    }
}

fn merge_tolerations(pod: &mut PodSpec, wanted: &[Toleration]) {
    for toleration in wanted {
        let tolerations = pod.tolerations.get_or_insert_default();
        if !tolerations.contains(toleration) {
            tolerations.push(toleration.clone());
        }
    }
}

/// Merges affinities. Each part in the override replaces the pod's part, and an empty part removes it.
/// Returns `None` if no part is left.
fn merge_affinity(pod: Option<Affinity>, wanted: &Affinity) -> Option<Affinity> {
    if *wanted == Affinity::default() {
        return None;
    }
    let mut merged = pod.unwrap_or_default();
    replace_part(&mut merged.node_affinity, wanted.node_affinity.as_ref());
    replace_part(&mut merged.pod_affinity, wanted.pod_affinity.as_ref());
    replace_part(&mut merged.pod_anti_affinity, wanted.pod_anti_affinity.as_ref());
    (merged != Affinity::default()).then_some(merged)
}

fn replace_part<T: Clone + Default + PartialEq>(part: &mut Option<T>, wanted: Option<&T>) {
    if let Some(wanted) = wanted {
        *part = (*wanted != T::default()).then(|| wanted.clone());
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{
        NodeAffinity, NodeSelector, PodAffinity, PodAntiAffinity, WeightedPodAffinityTerm,
    };
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;

    fn from<T: DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    #[track_caller]
    fn check(pod: Value, overrides: &Overrides, expected: Value) {
        let mut pod: PodSpec = from(pod);
        apply(overrides, &mut pod);
        assert_eq!(serde_json::to_value(pod).unwrap(), expected);
    }

    #[test]
    fn no_overrides_change_nothing() {
        let pod = json!({"containers": [{"name": "c", "env": [{"name": "A", "value": "1"}]}]});
        check(pod.clone(), &Overrides::default(), pod);
    }

    #[test]
    fn variables_replace_in_place_in_every_container_and_an_empty_value_counts() {
        let overrides = Overrides {
            env: from(json!([{"name": "B", "value": ""}, {"name": "N", "value": "n"}])),
            ..Overrides::default()
        };
        check(
            json!({"containers": [
                {"name": "one", "env": [{"name": "A", "value": "a"}, {"name": "B", "value": "b"}, {"name": "C", "value": "c"}]},
                {"name": "two"}
            ], "initContainers": [{"name": "init"}]}),
            &overrides,
            json!({"containers": [
                {"name": "one", "env": [{"name": "A", "value": "a"}, {"name": "B", "value": ""}, {"name": "C", "value": "c"}, {"name": "N", "value": "n"}]},
                {"name": "two", "env": [{"name": "B", "value": ""}, {"name": "N", "value": "n"}]}
            ], "initContainers": [{"name": "init"}]}),
        );
    }

    #[test]
    fn a_variable_named_twice_keeps_its_last_value_once() {
        let mut container: Container = from(
            json!({"name": "c", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}, {"name": "A", "value": "3"}]}),
        );
        merge_env(&mut container, &[]);
        assert_eq!(
            serde_json::to_value(container.env).unwrap(),
            json!([{"name": "A", "value": "3"}, {"name": "B", "value": "2"}])
        );
    }

    #[test]
    fn lists_are_extended_by_what_is_new_and_replaced_by_name() {
        let overrides = Overrides {
            env_from: from(json!([{"configMapRef": {"name": "old"}}, {"configMapRef": {"name": "new"}}])),
            volumes: from(json!([{"name": "v", "emptyDir": {}}, {"name": "w", "emptyDir": {}}])),
            volume_mounts: from(
                json!([{"name": "v", "mountPath": "/new"}, {"name": "w", "mountPath": "/w"}]),
            ),
            tolerations: from(
                json!([{"key": "old", "operator": "Exists"}, {"key": "new", "operator": "Exists"}]),
            ),
            ..Overrides::default()
        };
        check(
            json!({
                "containers": [{"name": "c", "envFrom": [{"configMapRef": {"name": "old"}}], "volumeMounts": [{"name": "v", "mountPath": "/old"}]}],
                "volumes": [{"name": "v", "secret": {"secretName": "s"}}],
                "tolerations": [{"key": "old", "operator": "Exists"}]
            }),
            &overrides,
            json!({
                "containers": [{"name": "c",
                    "envFrom": [{"configMapRef": {"name": "old"}}, {"configMapRef": {"name": "new"}}],
                    "volumeMounts": [{"name": "v", "mountPath": "/new"}, {"name": "w", "mountPath": "/w"}]}],
                "volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "emptyDir": {}}],
                "tolerations": [{"key": "old", "operator": "Exists"}, {"key": "new", "operator": "Exists"}]
            }),
        );
    }

    #[test]
    fn resources_and_node_selector_are_replaced_whole() {
        let overrides = Overrides {
            resources: Some(from(json!({"limits": {"cpu": "1"}}))),
            node_selector: Some(BTreeMap::new()),
            ..Overrides::default()
        };
        check(
            json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}], "nodeSelector": {"a": "b"}}),
            &overrides,
            json!({"containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}], "nodeSelector": {}}),
        );
    }

    fn affinity(node: bool, pod: bool, anti: bool) -> Affinity {
        Affinity {
            node_affinity: node.then(|| NodeAffinity {
                required_during_scheduling_ignored_during_execution: Some(NodeSelector::default()),
                ..NodeAffinity::default()
            }),
            pod_affinity: pod.then(|| PodAffinity {
                preferred_during_scheduling_ignored_during_execution: Some(vec![
                    WeightedPodAffinityTerm::default(),
                ]),
                ..PodAffinity::default()
            }),
            pod_anti_affinity: anti.then(|| PodAntiAffinity {
                preferred_during_scheduling_ignored_during_execution: Some(vec![
                    WeightedPodAffinityTerm::default(),
                ]),
                ..PodAntiAffinity::default()
            }),
        }
    }

    #[test]
    fn affinity_is_replaced_part_by_part() {
        let empty = Affinity::default();
        let cleared = Affinity {
            node_affinity: Some(NodeAffinity::default()),
            pod_affinity: Some(PodAffinity::default()),
            pod_anti_affinity: None,
        };
        let no_anti = Affinity {
            pod_anti_affinity: Some(PodAntiAffinity::default()),
            ..Affinity::default()
        };
        for (pod, wanted, expected) in [
            (Some(affinity(true, true, true)), empty, None),
            (
                None,
                affinity(true, false, false),
                Some(affinity(true, false, false)),
            ),
            (
                Some(affinity(false, true, true)),
                affinity(true, false, false),
                Some(affinity(true, true, true)),
            ),
            (Some(affinity(true, true, false)), cleared.clone(), None),
            (
                Some(affinity(true, true, true)),
                cleared,
                Some(affinity(false, false, true)),
            ),
            (
                Some(affinity(true, true, true)),
                no_anti,
                Some(affinity(true, true, false)),
            ),
        ] {
            assert_eq!(
                merge_affinity(pod.clone(), &wanted),
                expected,
                "{wanted:?} over {pod:?}"
            );
        }
    }
}
