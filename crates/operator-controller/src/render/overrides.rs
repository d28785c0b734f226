//! Applies a `deploymentConfig` to a Deployment, by the rules of a Subscription's `spec.config`.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Affinity, Container, EnvFromSource, EnvVar, NodeAffinity, PodAffinity, PodAntiAffinity, PodSpec,
    ResourceRequirements, Toleration, Volume, VolumeMount,
};
use olm_api::DecodeError;
use olm_api::embedded::{Embedded, decode_all};
use olm_api::v1alpha1::SubscriptionConfig;

/// The parts of a `deploymentConfig`, decoded.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Overrides {
    env: Vec<EnvVar>,
    env_from: Vec<EnvFromSource>,
    volumes: Vec<Volume>,
    volume_mounts: Vec<VolumeMount>,
    tolerations: Vec<Toleration>,
    resources: Option<ResourceRequirements>,
    node_selector: Option<BTreeMap<String, String>>,
    affinity: Option<Affinity>,
    /// Annotations of Deployment and pods.
    pub(super) annotations: BTreeMap<String, String>,
}

impl Overrides {
    /// Decodes a `deploymentConfig`.
    ///
    /// # Errors
    /// The field that does not decode.
    pub(super) fn decode(config: &SubscriptionConfig) -> Result<Self, DecodeError> {
        let resources = config.resources.as_ref();
        let affinity = config.affinity.as_ref();
        Ok(Self {
            env: decode_all(&config.env, "deploymentConfig.env")?,
            env_from: decode_all(&config.env_from, "deploymentConfig.envFrom")?,
            volumes: decode_all(&config.volumes, "deploymentConfig.volumes")?,
            volume_mounts: decode_all(&config.volume_mounts, "deploymentConfig.volumeMounts")?,
            tolerations: decode_all(&config.tolerations, "deploymentConfig.tolerations")?,
            resources: resources
                .map(|part: &Embedded<ResourceRequirements>| part.decode("deploymentConfig.resources"))
                .transpose()?,
            node_selector: config.node_selector.clone(),
            affinity: affinity
                .map(|part: &Embedded<Affinity>| part.decode("deploymentConfig.affinity"))
                .transpose()?,
            annotations: config.annotations.clone().unwrap_or_default(),
        })
    }
}

/// Adds annotations whose keys are not there yet.
pub(super) fn annotate(wanted: &BTreeMap<String, String>, annotations: &mut BTreeMap<String, String>) {
    for (key, value) in wanted {
        annotations.entry(key.clone()).or_insert_with(|| value.clone());
    }
}

/// Applies everything but the annotations to a pod. Init containers are left alone.
pub(super) fn apply(overrides: &Overrides, pod: &mut PodSpec) {
    for container in &mut pod.containers {
        apply_to_container(overrides, container);
    }
    replace_by_name(&mut pod.volumes, &overrides.volumes, |volume| &volume.name);
    append_new(&mut pod.tolerations, &overrides.tolerations);
    if let Some(selector) = &overrides.node_selector {
        pod.node_selector = Some(selector.clone());
    }
    if let Some(affinity) = &overrides.affinity {
        pod.affinity = merge_affinity(pod.affinity.take(), affinity);
    }
}

fn apply_to_container(overrides: &Overrides, container: &mut Container) {
    replace_by_name(&mut container.env, &overrides.env, |variable| &variable.name);
    append_new(&mut container.env_from, &overrides.env_from);
    replace_by_name(&mut container.volume_mounts, &overrides.volume_mounts, |mount| {
        &mount.name
    });
    if let Some(resources) = &overrides.resources {
        container.resources = Some(resources.clone());
    }
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

/// Merges affinities: each part that is wanted replaces the pod's part, and an empty part removes it, as an affinity without
/// parts removes all. Returns `None` if no part is left.
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
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(pod: Value, config: Value, expected: Value) {
        let config: SubscriptionConfig = serde_json::from_value(config).unwrap();
        let mut pod: PodSpec = serde_json::from_value(pod).unwrap();
        apply(&Overrides::decode(&config).unwrap(), &mut pod);
        assert_eq!(serde_json::to_value(pod).ok(), Some(expected));
    }

    #[test]
    fn an_empty_config_changes_nothing() {
        let pod = json!({"containers": [{"name": "c", "env": [{"name": "A", "value": "1"}]}]});
        check(pod.clone(), json!({}), pod);
    }

    #[test]
    fn variables_replace_by_name_in_every_container_but_not_in_init_containers() {
        check(
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
        check(
            json!({"containers": [{"name": "a", "envFrom": [source]}], "tolerations": [toleration]}),
            json!({"envFrom": [source, {"secretRef": {"name": "s"}}], "tolerations": [other, toleration]}),
            json!({"containers": [{"name": "a", "envFrom": [source, {"secretRef": {"name": "s"}}]}],
                "tolerations": [toleration, other]}),
        );
    }

    #[test]
    fn volumes_and_mounts_replace_by_name() {
        check(
            json!({"containers": [{"name": "a", "volumeMounts": [{"name": "v", "mountPath": "/old"}]}],
                "volumes": [{"name": "v", "emptyDir": {}}]}),
            json!({"volumes": [{"name": "v", "configMap": {"name": "c"}}, {"name": "w", "emptyDir": {}}],
                "volumeMounts": [{"name": "v", "mountPath": "/new"}, {"name": "w", "mountPath": "/w"}]}),
            json!({"containers": [{"name": "a", "volumeMounts": [{"name": "v", "mountPath": "/new"}, {"name": "w", "mountPath": "/w"}]}],
                "volumes": [{"name": "v", "configMap": {"name": "c"}}, {"name": "w", "emptyDir": {}}]}),
        );
    }

    #[test]
    fn resources_and_node_selector_are_replaced_as_a_whole() {
        check(
            json!({"containers": [{"name": "a", "resources": {"limits": {"cpu": "1"}}}], "nodeSelector": {"a": "b"}}),
            json!({"resources": {"requests": {"memory": "1Gi"}}, "nodeSelector": {}}),
            json!({"containers": [{"name": "a", "resources": {"requests": {"memory": "1Gi"}}}], "nodeSelector": {}}),
        );
    }

    #[test]
    fn affinity_is_replaced_part_by_part() {
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
            check(pod(&full), json!({"affinity": config}), pod(&expected));
        }
        check(
            pod(&Value::Null),
            json!({"affinity": {"nodeAffinity": node}}),
            pod(&json!({"nodeAffinity": node})),
        );
    }

    #[test]
    fn annotations_that_are_there_stay() {
        let map = |text: &str| BTreeMap::from([("a".to_owned(), text.to_owned())]);
        let mut annotations = map("1");
        annotate(&map("2"), &mut annotations);
        assert_eq!(annotations, map("1"));
    }
}
