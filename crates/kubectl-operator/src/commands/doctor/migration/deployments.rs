//! Deployments of operators that differ from their ClusterServiceVersions.

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

/// Field managers, other than users, that write operators' Deployments.
const WRITERS: [&str; 4] = [
    labels::FIELD_MANAGER_PATCH,
    labels::FIELD_MANAGER_CSV,
    "kube-controller-manager",
    "catalog",
];
/// Fields in `metadata.managedFields` that autoscalers and manual rollouts set. OLM keeps them.
const LEFT_ALONE: [&str; 2] = ["f:replicas", "f:paused"];

/// A difference between a Deployment and its ClusterServiceVersion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Edit {
    pub(super) deployment: Key,
    pub(super) how: How,
}

/// The kind of difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum How {
    /// A user set fields; the name of the field manager.
    Set(String),
    /// The number of replicas differs: the current number, and that of the ClusterServiceVersion.
    Scaled(i32, i32),
    /// The label is missing by which this OLM finds its objects. Upstream's releases before 0.26 set none.
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

    /// Returns the differences of a Deployment.
    pub(super) fn edits(&self, deployment: &Deployment) -> Vec<Edit> {
        let set = set_by(deployment).map(How::Set);
        let spec = deployment.spec.as_ref();
        let now = spec.and_then(|spec| spec.replicas).unwrap_or(1);
        let then = self.wanted_replicas(deployment);
        let scaled = then
            .filter(|then| now != *then)
            .map(|then| How::Scaled(now, then));
        let key = (deployment.namespace().unwrap_or_default(), deployment.name_any());
        let is_labelled = labels::is_true(deployment.labels(), labels::MANAGED);
        let unlabelled = (!is_labelled).then_some(How::Unlabelled);
        let all = [set, scaled, unlabelled].into_iter().flatten();
        all.map(|how| Edit {
            deployment: key.clone(),
            how,
        })
        .collect()
    }

    /// Returns the number of replicas in the ClusterServiceVersion; `None` if that is unknown.
    fn wanted_replicas(&self, deployment: &Deployment) -> Option<i32> {
        let owner = deployment.labels().get(labels::OWNER)?;
        let csv = self.0.get(&(deployment.namespace()?, owner.clone()))?;
        let mut entries = csv.spec.install.deployments().iter();
        let entry = entries.find(|entry| entry.name == deployment.name_any())?;
        Some(entry.spec.decode("").ok()?.replicas.unwrap_or(1))
    }
}

/// Returns the field manager of a user who set fields of the spec that OLM restores.
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

/// Returns true if OLM reverts changes of this field. The annotation that `kubectl rollout restart` sets is kept.
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

pub(super) fn findings(edits: &Read<Vec<Edit>>) -> Found<'_> {
    const BACK: &str = "this OLM restores it from its ClusterServiceVersion, which replaces its pods";
    let findings = edits.as_ref()?.iter().map(|Edit { deployment, how }| {
        let (cause, remedy) = match how {
            How::Set(manager) => (
                format!("it was changed by hand with {}: {BACK}", plain(manager)),
                "use spec.config of the Subscription instead, which applies to every version of the operator".to_owned(),
            ),
            How::Unlabelled => (
                format!("it lacks the label {}={}: this OLM reinstalls it", labels::MANAGED, labels::TRUE),
                format!("to let this OLM adopt it unchanged: kubectl label deployment {} -n {} {}={}",
                    word(&deployment.1), word(&deployment.0), labels::MANAGED, labels::TRUE),
            ),
            How::Scaled(live, wanted) => (
                format!("it was scaled to {live}, its ClusterServiceVersion has {wanted}: it stays scaled until the next version"),
                "nothing to do for the move; scale it again after an upgrade".to_owned(),
            ),
        };
        Finding::warning(object("Deployment", &deployment.0, &deployment.1), cause, remedy)
    });
    Ok(findings.collect())
}
