//! Deployments of operators that are not as their ClusterServiceVersions have them.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt as _;
use olm_api::labels;
use olm_api::v1alpha1::ClusterServiceVersion;
use serde_json::Value;

use super::super::finding::{Finding, object, word};
use super::super::observed::Read;
use super::Found;
use crate::operators::Key;
use crate::terminal::plain;

/// Who sets fields of operators' Deployments besides people.
const WRITERS: [&str; 4] = [
    labels::FIELD_MANAGER_PATCH,
    labels::FIELD_MANAGER_CSV,
    "kube-controller-manager",
    "catalog",
];
/// Field of `metadata.managedFields` that is an autoscaler's, or of a rollout by hand: it stays.
const LEFT_ALONE: [&str; 2] = ["f:replicas", "f:paused"];

/// What `spec.config` of a Subscription puts something else into the place of.
const OF_CONFIG: [&str; 4] = ["resources", "nodeSelector", "affinity", "tolerations"];
/// What the items of a list are called by, the first that they have.
const NAMES: [&str; 3] = ["name", "mountPath", "containerPort"];

/// The Deployment of an operator is not what it was installed as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Edit {
    pub(super) deployment: Key,
    pub(super) how: How,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum How {
    /// Somebody set fields, as the field manager calls itself.
    Set(String),
    /// A field is gone; its path.
    Lost(String),
    /// There are to be so many, in the place of so many.
    Scaled(i32, i32),
    /// It lacks the label by which this OLM finds what it manages: releases of upstream's before 0.26 set none.
    Unlabelled,
}

/// ClusterServiceVersions by name.
pub(super) struct Owners<'a>(BTreeMap<Key, &'a ClusterServiceVersion>);

impl<'a> Owners<'a> {
    pub(super) fn of(csvs: &'a [ClusterServiceVersion]) -> Self {
        let named = csvs
            .iter()
            .map(|csv| ((csv.namespace().unwrap_or_default(), csv.name_any()), csv));
        Self(named.collect())
    }

    /// What somebody made of a Deployment.
    pub(super) fn edits(&self, deployment: &Deployment) -> Vec<Edit> {
        let set = set_by(deployment).map(How::Set);
        let (live, wanted) = (to_value(&deployment.spec), self.wanted(deployment));
        let wanted = wanted.as_ref();
        // Who set something may have done so in the place of what is gone.
        let lost = wanted
            .filter(|_| set.is_none())
            .and_then(|wanted| lost(wanted, &live, ""));
        let number = |spec: &Value| {
            spec["replicas"]
                .as_i64()
                .and_then(|number| i32::try_from(number).ok())
        };
        let scaled = wanted.and_then(|wanted| {
            let (now, then) = (number(&live).unwrap_or(1), number(wanted).unwrap_or(1));
            (now != then).then_some(How::Scaled(now, then))
        });
        let key = (deployment.namespace().unwrap_or_default(), deployment.name_any());
        let is_labelled = deployment
            .labels()
            .get(labels::MANAGED)
            .is_some_and(|value| value == labels::TRUE);
        let unlabelled = (!is_labelled).then_some(How::Unlabelled);
        let all = [set, lost.map(How::Lost), scaled, unlabelled]
            .into_iter()
            .flatten();
        all.map(|how| Edit {
            deployment: key.clone(),
            how,
        })
        .collect()
    }

    /// Its spec as the author wrote it, where its ClusterServiceVersion is known.
    fn wanted(&self, deployment: &Deployment) -> Option<Value> {
        let owner = deployment.labels().get(labels::OWNER)?;
        let csv = self.0.get(&(deployment.namespace()?, owner.clone()))?;
        let mut entries = csv.spec.install.deployments().iter();
        let entry = entries.find(|entry| entry.name == deployment.name_any())?;
        // Of fields that Kubernetes does not know nothing is left.
        Some(to_value(&entry.spec.decode("").ok()?))
    }
}

fn to_value<T: serde::Serialize>(spec: &T) -> Value {
    serde_json::to_value(spec).unwrap_or_default()
}

/// Who set something of the spec that is not others' to set.
fn set_by(deployment: &Deployment) -> Option<String> {
    let entries = deployment.metadata.managed_fields.iter().flatten();
    let mut foreign = entries.filter(|entry| {
        let manager = entry.manager.as_deref().unwrap_or_default();
        let spec = entry
            .fields_v1
            .as_ref()
            .and_then(|fields| fields.0["f:spec"].as_object());
        let is_whole = entry.subresource.as_deref().unwrap_or_default().is_empty();
        let sets = spec.is_some_and(|spec| spec.keys().any(|field| is_put_back(field, &spec[field])));
        is_whole && sets && !WRITERS.contains(&manager)
    });
    Some(foreign.next()?.manager.clone().unwrap_or_default())
}

/// Whether a change of this field of the spec is undone. `kubectl rollout restart` sets an annotation of the pods, and that stays.
fn is_put_back(field: &str, set: &Value) -> bool {
    let annotations = &set["f:metadata"]["f:annotations"];
    let only_restarted = field == "f:template"
        && set.as_object().is_some_and(|set| set.len() == 1)
        && annotations.as_object().is_some_and(|set| {
            set.keys()
                .all(|key| key == "." || key == "f:kubectl.kubernetes.io/restartedAt")
        });
    !LEFT_ALONE.contains(&field) && !only_restarted
}

/// The first field of `wanted` that `live` lacks, as a path. What it is there is not asked: who sets a field is known.
fn lost(wanted: &Value, live: &Value, path: &str) -> Option<String> {
    match (wanted, live) {
        (Value::Object(wanted), Value::Object(live)) => wanted.iter().find_map(|(field, value)| {
            if OF_CONFIG.contains(&field.as_str()) {
                return None;
            }
            let path = match path {
                "" => field.clone(),
                path => format!("{path}.{field}"),
            };
            match live.get(field) {
                Some(live) => lost(value, live, &path),
                None => (!says_nothing(value)).then_some(path),
            }
        }),
        (Value::Array(wanted), Value::Array(live)) => wanted.iter().find_map(|item| {
            let named = NAMES.iter().find(|name| item.get(**name).is_some());
            let Some(name) = named else {
                return (live.len() < wanted.len()).then(|| path.to_owned());
            };
            let known = live.iter().find(|other| other[*name] == item[*name]);
            let path = format!(
                "{path}[{}]",
                item[*name]
                    .as_str()
                    .map_or(item[*name].to_string(), str::to_owned)
            );
            match known {
                Some(known) => lost(item, known, &path),
                None => Some(path),
            }
        }),
        _ => None,
    }
}

/// What the API server leaves out.
fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(says_nothing),
    }
}

pub(super) fn findings(edits: &Read<Vec<Edit>>) -> Found<'_> {
    const BACK: &str = "it is put back as its ClusterServiceVersion has it, and its pods are replaced";
    let findings = edits.as_ref()?.iter().map(|Edit { deployment, how }| {
        let (cause, remedy) = match how {
            How::Set(manager) => (
                format!("{} changed it by hand: {BACK}", plain(manager)),
                "say it in spec.config of the Subscription instead, which every version of the operator gets".to_owned(),
            ),
            How::Lost(field) => (
                format!("somebody took {} out of it: {BACK}", plain(field)),
                "see whether the operator still needs to be without it, and tell its author".to_owned(),
            ),
            How::Unlabelled => (
                format!("it lacks the label {}={}: it is installed anew", labels::MANAGED, labels::TRUE),
                format!("have this OLM find it as it is: kubectl label deployment {} -n {} {}={}",
                    word(&deployment.1), word(&deployment.0), labels::MANAGED, labels::TRUE),
            ),
            How::Scaled(live, wanted) => (
                format!("it was scaled to {live}, its ClusterServiceVersion has {wanted}: so it stays until the next version comes"),
                "nothing to do for the move; scale it again after an upgrade".to_owned(),
            ),
        };
        Finding::warning(object("Deployment", &deployment.0, &deployment.1), cause, remedy)
    });
    Ok(findings.collect())
}
