//! A Subscription's `spec.config`, and the `deploymentConfig` of a ClusterExtension with the same fields, applied to the pods of an
//! operator.
//!
//! `docs/reference/lifecycle.md` describes the rules per field. Two differences from upstream are deliberate: an empty `podAntiAffinity`
//! clears only that part, and a duplicate variable is kept once, with its last value.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Affinity, Container, EnvFromSource, EnvVar, NodeAffinity, PodAffinity, PodAntiAffinity, PodSpec,
    ResourceRequirements, Toleration, Volume, VolumeMount,
};

use crate::DecodeError;
use crate::embedded::decode_all;
use crate::v1alpha1::SubscriptionConfig;

/// The part of a configuration that affects Deployments and pods, as the user wrote it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Overrides {
    /// Variables for every container; replace existing ones by name, else appended.
    pub env: Vec<EnvVar>,
    /// Sources of variables; appended unless an equal one exists.
    pub env_from: Vec<EnvFromSource>,
    /// Volumes; replace existing ones by name, else appended.
    pub volumes: Vec<Volume>,
    /// Mounts for every container; replace existing ones by volume name, else appended.
    pub volume_mounts: Vec<VolumeMount>,
    /// Tolerations; appended unless an equal one exists.
    pub tolerations: Vec<Toleration>,
    /// Resources of every container, replaced as a whole.
    pub resources: Option<ResourceRequirements>,
    /// Node selector, replaced as a whole; an empty one clears it.
    pub node_selector: Option<BTreeMap<String, String>>,
    /// Affinity, replaced part by part.
    pub affinity: Option<Affinity>,
    /// Annotations of Deployment and pods; existing keys are kept.
    pub annotations: BTreeMap<String, String>,
}

impl Overrides {
    /// Decodes a configuration; `field` is its name in errors, for example `spec.config`.
    ///
    /// # Errors
    /// The field that does not decode.
    pub fn decode(config: &SubscriptionConfig, field: &str) -> Result<Self, DecodeError> {
        Ok(Self {
            env: decode_all(&config.env, &format!("{field}.env"))?,
            env_from: decode_all(&config.env_from, &format!("{field}.envFrom"))?,
            volumes: decode_all(&config.volumes, &format!("{field}.volumes"))?,
            volume_mounts: decode_all(&config.volume_mounts, &format!("{field}.volumeMounts"))?,
            tolerations: decode_all(&config.tolerations, &format!("{field}.tolerations"))?,
            resources: config
                .resources
                .as_ref()
                .map(|it| it.decode(&format!("{field}.resources")))
                .transpose()?,
            node_selector: config.node_selector.clone(),
            affinity: config
                .affinity
                .as_ref()
                .map(|it| it.decode(&format!("{field}.affinity")))
                .transpose()?,
            annotations: config.annotations.clone().unwrap_or_default(),
        })
    }

    /// Adds the annotations whose keys are not there yet.
    pub fn annotate(&self, annotations: &mut BTreeMap<String, String>) {
        for (key, value) in &self.annotations {
            annotations.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }

    /// Applies everything but the annotations to a pod. Init containers are left alone.
    pub fn apply(&self, pod: &mut PodSpec) {
        for container in &mut pod.containers {
            merge_env(container, &self.env);
            append_new(&mut container.env_from, &self.env_from);
            replace_by_name(&mut container.volume_mounts, &self.volume_mounts, |mount| {
                &mount.name
            });
            if let Some(resources) = &self.resources {
                container.resources = Some(resources.clone());
            }
        }
        replace_by_name(&mut pod.volumes, &self.volumes, |volume| &volume.name);
        append_new(&mut pod.tolerations, &self.tolerations);
        if let Some(selector) = &self.node_selector {
            pod.node_selector = Some(selector.clone());
        }
        if let Some(affinity) = &self.affinity {
            pod.affinity = merge_affinity(pod.affinity.take(), affinity);
        }
    }
}

/// Sets variables by name: replaces existing ones, and appends the rest. A duplicate name keeps its first position and its last value,
/// because server-side apply refuses duplicate keys in a list.
pub fn merge_env(container: &mut Container, wanted: &[EnvVar]) {
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

/// Replaces the items with the name of a wanted one, and appends the other wanted ones.
fn replace_by_name<T: Clone>(list: &mut Option<Vec<T>>, wanted: &[T], name: fn(&T) -> &String) {
    for item in wanted {
        let items = list.get_or_insert_default();
        match items.iter_mut().find(|present| name(present) == name(item)) {
            Some(present) => *present = item.clone(),
            None => items.push(item.clone()),
        }
    }
}

/// Appends the items that the list does not have.
fn append_new<T: Clone + PartialEq>(list: &mut Option<Vec<T>>, wanted: &[T]) {
    for item in wanted {
        let items = list.get_or_insert_default();
        if !items.contains(item) {
            items.push(item.clone());
        }
    }
}

/// Merges affinities. Each part that is wanted replaces the pod's part, and an empty part removes it, as an affinity without parts
/// removes all. Returns `None` if no part is left.
fn merge_affinity(pod: Option<Affinity>, wanted: &Affinity) -> Option<Affinity> {
    if *wanted == Affinity::default() {
        return None;
    }
    let mut merged = pod.unwrap_or_default();
    if let Some(node) = &wanted.node_affinity {
        merged.node_affinity = (!is_node_affinity_empty(node)).then(|| node.clone());
    }
    if let Some(pod) = &wanted.pod_affinity {
        merged.pod_affinity = (!is_pod_affinity_empty(pod)).then(|| pod.clone());
    }
    if let Some(pod) = &wanted.pod_anti_affinity {
        merged.pod_anti_affinity = (!is_pod_anti_affinity_empty(pod)).then(|| pod.clone());
    }
    (merged != Affinity::default()).then_some(merged)
}

fn is_node_affinity_empty(affinity: &NodeAffinity) -> bool {
    let required = affinity
        .required_during_scheduling_ignored_during_execution
        .as_ref();
    required.is_none_or(|selector| selector.node_selector_terms.is_empty())
        && is_absent(&affinity.preferred_during_scheduling_ignored_during_execution)
}

fn is_pod_affinity_empty(affinity: &PodAffinity) -> bool {
    is_absent(&affinity.required_during_scheduling_ignored_during_execution)
        && is_absent(&affinity.preferred_during_scheduling_ignored_during_execution)
}

fn is_pod_anti_affinity_empty(affinity: &PodAntiAffinity) -> bool {
    is_absent(&affinity.required_during_scheduling_ignored_during_execution)
        && is_absent(&affinity.preferred_during_scheduling_ignored_during_execution)
}

fn is_absent<T>(list: &Option<Vec<T>>) -> bool {
    list.as_ref().is_none_or(Vec::is_empty)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{NodeSelector, NodeSelectorTerm, WeightedPodAffinityTerm};
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;

    fn from<T: DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    #[track_caller]
    fn check(pod: Value, overrides: &Overrides, expected: Value) {
        let (mut pod, expected): (PodSpec, PodSpec) = (from(pod), from(expected));
        overrides.apply(&mut pod);
        assert_eq!(pod, expected);
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
                required_during_scheduling_ignored_during_execution: Some(NodeSelector {
                    node_selector_terms: vec![NodeSelectorTerm::default()],
                }),
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

    #[track_caller]
    fn check_config(pod: Value, config: Value, expected: Value) {
        let config: SubscriptionConfig = serde_json::from_value(config).unwrap();
        let mut pod: PodSpec = serde_json::from_value(pod).unwrap();
        Overrides::decode(&config, "deploymentConfig")
            .unwrap()
            .apply(&mut pod);
        assert_eq!(serde_json::to_value(pod).ok(), Some(expected));
    }

    #[test]
    fn an_empty_config_changes_nothing() {
        let pod = json!({"containers": [{"name": "c", "env": [{"name": "A", "value": "1"}]}]});
        check_config(pod.clone(), json!({}), pod);
    }

    #[test]
    fn variables_replace_by_name_in_every_container_but_not_in_init_containers() {
        check_config(
            json!({"containers": [{"name": "a", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]}, {"name": "b"}],
                "initContainers": [{"name": "i"}]}),
            json!({"env": [{"name": "A", "value": "x"}, {"name": "C", "value": "y"}, {"name": "C", "value": "z"}]}),
            json!({"containers": [
                {"name": "a", "env": [{"name": "A", "value": "x"}, {"name": "B", "value": "2"}, {"name": "C", "value": "z"}]},
                {"name": "b", "env": [{"name": "A", "value": "x"}, {"name": "C", "value": "z"}]}],
                "initContainers": [{"name": "i"}]}),
        );
    }

    #[test]
    fn sources_and_tolerations_are_appended_once() {
        let source = json!({"configMapRef": {"name": "c"}});
        let toleration = json!({"key": "a", "operator": "Exists"});
        let other = json!({"key": "b", "operator": "Exists"});
        check_config(
            json!({"containers": [{"name": "a", "envFrom": [source]}], "tolerations": [toleration]}),
            json!({"envFrom": [source, {"secretRef": {"name": "s"}}], "tolerations": [other, toleration]}),
            json!({"containers": [{"name": "a", "envFrom": [source, {"secretRef": {"name": "s"}}]}],
                "tolerations": [toleration, other]}),
        );
    }

    #[test]
    fn volumes_and_mounts_replace_by_name() {
        check_config(
            json!({"containers": [{"name": "a", "volumeMounts": [{"name": "v", "mountPath": "/old"}]}],
                "volumes": [{"name": "v", "emptyDir": {}}]}),
            json!({"volumes": [{"name": "v", "configMap": {"name": "c"}}, {"name": "w", "emptyDir": {}}],
                "volumeMounts": [{"name": "v", "mountPath": "/new"}, {"name": "w", "mountPath": "/w"}]}),
            json!({"containers": [{"name": "a", "volumeMounts": [{"name": "v", "mountPath": "/new"}, {"name": "w", "mountPath": "/w"}]}],
                "volumes": [{"name": "v", "configMap": {"name": "c"}}, {"name": "w", "emptyDir": {}}]}),
        );
    }

    #[test]
    fn resources_and_node_selector_of_a_configuration_are_replaced_as_a_whole() {
        check_config(
            json!({"containers": [{"name": "a", "resources": {"limits": {"cpu": "1"}}}], "nodeSelector": {"a": "b"}}),
            json!({"resources": {"requests": {"memory": "1Gi"}}, "nodeSelector": {}}),
            json!({"containers": [{"name": "a", "resources": {"requests": {"memory": "1Gi"}}}], "nodeSelector": {}}),
        );
    }

    #[test]
    fn affinity_of_a_configuration_is_replaced_part_by_part() {
        let term = json!([{"weight": 1, "podAffinityTerm": {"topologyKey": "zone"}}]);
        let node = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [{"key": "a", "operator": "Exists"}]}]}});
        let part = json!({"preferredDuringSchedulingIgnoredDuringExecution": term});
        let full = json!({"nodeAffinity": node, "podAffinity": part, "podAntiAffinity": part});
        let pod = |affinity: &Value| match affinity {
            Value::Null => json!({"containers": []}),
            affinity => json!({"containers": [], "affinity": affinity}),
        };
        let no_terms = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}});
        for (config, expected) in [
            (json!({}), Value::Null),
            (
                json!({"nodeAffinity": {}}),
                json!({"podAffinity": part, "podAntiAffinity": part}),
            ),
            (
                json!({"nodeAffinity": no_terms, "podAffinity": {}}),
                json!({"podAntiAffinity": part}),
            ),
            (
                json!({"nodeAffinity": {}, "podAffinity": {}, "podAntiAffinity": {}}),
                Value::Null,
            ),
            (json!({"podAffinity": part}), full.clone()),
        ] {
            check_config(pod(&full), json!({"affinity": config}), pod(&expected));
        }
        check_config(
            pod(&Value::Null),
            json!({"affinity": {"nodeAffinity": node}}),
            pod(&json!({"nodeAffinity": node})),
        );
    }

    #[test]
    fn annotations_that_are_there_stay() {
        let map = |text: &str| BTreeMap::from([("a".to_owned(), text.to_owned())]);
        let mut annotations = map("1");
        let overrides = Overrides {
            annotations: map("2"),
            ..Overrides::default()
        };
        overrides.annotate(&mut annotations);
        assert_eq!(annotations, map("1"));
    }
}
