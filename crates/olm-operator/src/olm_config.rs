//! The OLMConfig controller: reports whether the setting `disableCopiedCSVs` is in force
//! (`docs/reference/operator-groups.md`).
//!
//! # Expected flow
//! `observe` compares the copies of operators for all namespaces with the setting. [`status`] writes a
//! condition, and an event on each operator that is not copied. The controller of copies reads the setting
//! itself, and creates and deletes the copies.

pub(crate) mod triggers;

#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, sync::Arc};

use async_trait::async_trait;
use k8s_openapi::{api::core::v1::ObjectReference, apimachinery::pkg::apis::meta::v1::Condition};
use kube::ResourceExt;
use olm_api::{
    condition::{FALSE, TRUE, olm_config as words},
    v1::{OLM_CONFIG_NAME, OLMConfig},
    v1alpha1::ClusterServiceVersion,
};
use olm_runtime::{
    NamespacedName, Timestamp,
    condition::{condition_of, set_condition},
    driver::{Reconciler, StatusUpdate},
    error::ObserveError,
    event::regarding,
    key::reference,
    outcome::Outcomes,
    plan::{EventDraft, Plan, status_of},
};

use crate::{
    copied_csv::decide::{Reach, reach},
    csv_sketch::{Sketch, Stage},
    stores::Stores,
};

/// The only key of this controller.
pub(crate) fn key() -> NamespacedName {
    NamespacedName::cluster(OLM_CONFIG_NAME)
}

pub(crate) struct OlmConfigs {
    pub(crate) stores: Stores,
    /// Namespaces that keep copies although copying is disabled.
    pub(crate) protected: Arc<BTreeSet<String>>,
}

/// The setting and the input for its status.
#[derive(Debug, Clone)]
pub(crate) struct Observed {
    pub(crate) config: Arc<OLMConfig>,
    /// Operators for all namespaces that may be copied.
    pub(crate) operators: Vec<Arc<Sketch>>,
    /// True when copies exist exactly where the setting requires them.
    pub(crate) is_in_force: bool,
}

/// Operators with an event that they are not copied.
type Sent = BTreeSet<NamespacedName>;

#[async_trait]
impl Reconciler for OlmConfigs {
    type Key = NamespacedName;
    type Observed = Observed;
    type Verdict = Option<Sent>;
    type Memory = Sent;

    const NAME: &'static str = "olm-config";

    fn regarding(&self, key: &NamespacedName) -> Option<ObjectReference> {
        regarding(&self.stores.olm_configs, key)
    }

    async fn observe(&self, key: &NamespacedName) -> Result<Option<Observed>, ObserveError> {
        let Some(config) = self.stores.olm_configs.get_key(key) else {
            return Ok(None);
        };
        let operators = operators(&self.stores);
        let is_off = config.spec.copied_csvs_are_disabled();
        Ok(Some(Observed {
            is_in_force: self.is_in_force(&operators, is_off),
            operators,
            config,
        }))
    }

    fn decide(_: &Observed, sent: Option<&Sent>, _now: Timestamp) -> (Plan, Option<Sent>) {
        (Plan::default(), sent.cloned())
    }

    fn status(observed: &Observed, sent: Option<Sent>, _: &Outcomes, now: Timestamp) -> StatusUpdate<Sent> {
        status(observed, sent, now)
    }
}

fn can_be_copied(sketch: &Sketch) -> bool {
    let stage = sketch.original().map(|original| original.stage);
    matches!(stage, Some(Stage::Moving | Stage::Resting)) && !sketch.is_deleting()
}

/// Returns the operators for all namespaces that may be copied.
fn operators(stores: &Stores) -> Vec<Arc<Sketch>> {
    let namespaces: BTreeSet<String> = stores
        .groups
        .list()
        .iter()
        .filter_map(|group| group.namespace())
        .collect();
    let is_global = |namespace: &&String| reach(&stores.groups.list_in(namespace), "") == Reach::Everywhere;
    let members = namespaces.iter().filter(is_global).flat_map(|namespace| {
        let all = stores.csv_sketches.list_in(namespace);
        all.into_iter().filter(|sketch| can_be_copied(sketch))
    });
    members.collect()
}

impl OlmConfigs {
    /// Names that are taken by other objects do not count, nor do namespaces that are being deleted. If
    /// copies are disabled, only copies that OLM deletes count. Objects with nothing but the label would
    /// remain forever, and any user can write that label.
    fn is_in_force(&self, operators: &[Arc<Sketch>], is_off: bool) -> bool {
        let namespaces = self.stores.namespaces.list();
        let namespaces = namespaces
            .iter()
            .filter(|namespace| namespace.metadata.deletion_timestamp.is_none());
        let names: Vec<String> = namespaces.map(|namespace| namespace.name_any()).collect();
        operators.iter().all(|operator| {
            let own = operator.namespace();
            names.iter().filter(|name| *name != own).all(|name| {
                let there = self.stores.csv_sketches.get(name, operator.name());
                let is_copy = |sketch: &Arc<Sketch>| {
                    let copied = sketch.copied();
                    copied.is_some_and(|copied| copied.is_proven && *copied.from == *own)
                };
                if is_off && !self.protected.contains(name) {
                    !there.as_ref().is_some_and(is_copy)
                } else {
                    there.is_some()
                }
            })
        })
    }
}

/// Returns the condition, if it changes, and a warning on each operator that is no longer copied. After a
/// restart, existing operators count as reported if the condition says that copies are disabled.
pub(crate) fn status(observed: &Observed, sent: Option<Sent>, now: Timestamp) -> StatusUpdate<Sent> {
    let config = &observed.config;
    let old = config.status.clone().unwrap_or_default();
    let mut new = old.clone();
    set_condition(&mut new.conditions, condition(observed, now));
    let patch = status_of(&**config, &old, &new);
    let is_off = config.spec.copied_csvs_are_disabled();
    let was_off = old.conditions.iter().any(|known| known.reason == words::DISABLED);
    let present = || observed.operators.iter().filter(|_| is_off);
    let sent = sent.unwrap_or_else(|| {
        let counted = present().filter(|_| was_off);
        counted.map(|operator| operator.key()).collect()
    });
    let events = present().filter(|operator| !sent.contains(&operator.key()));
    StatusUpdate {
        patches: Vec::from_iter(patch),
        events: events.map(|operator| not_copied(operator)).collect(),
        memory: Some(present().map(|operator| operator.key()).collect()),
        ..StatusUpdate::default()
    }
}

fn condition(observed: &Observed, now: Timestamp) -> Condition {
    let config = &observed.config;
    let (status, reason, message) = match (config.spec.copied_csvs_are_disabled(), observed.is_in_force) {
        (false, true) => (FALSE, words::ENABLED, words::ENABLED_MESSAGE),
        (false, false) => (FALSE, words::ENABLED, words::MISSING_MESSAGE),
        (true, true) => (TRUE, words::DISABLED, words::DISABLED_MESSAGE),
        (true, false) => (FALSE, words::DISABLED, words::UNEXPECTED_MESSAGE),
    };
    let texts = [words::DISABLED_COPIED_CSVS, status, reason, message];
    condition_of(&config.metadata, texts, now)
}

fn not_copied(operator: &Sketch) -> EventDraft {
    let regarding = reference::<ClusterServiceVersion>(&operator.key(), operator.uid());
    let message = format!("CSV copying disabled for {}", operator.key());
    EventDraft::warning(regarding, words::DISABLED_COPIED_CSVS, message)
}
