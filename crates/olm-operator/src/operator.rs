//! The Operator controller: all objects with the label of an operator, listed in one place (`docs/reference/operators.md`).
//!
//! # Expected flow
//! `observe` gathers the objects that bear the label from the stores. Where there are some and no Operator, one is made; the next
//! round writes its status. Changes are gathered for a while ([`triggers::GATHER`]), and nothing is written that says the same.

mod components;
pub(crate) mod status;
pub(crate) mod triggers;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Resource;
use olm_api::{
    labels,
    v1::{Operator, RichReference},
};
use olm_runtime::{
    NamespacedName, Timestamp,
    driver::{Reconciler, StatusUpdate},
    error::ObserveError,
    key::reference,
    outcome::Outcomes,
    plan::{Action, Plan, Target},
};
use serde_json::json;

use crate::{operator_sketch::OperatorSketch, stores::Stores};

pub(crate) struct Operators {
    pub(crate) stores: Stores,
}

/// An Operator and what belongs to it.
#[derive(Debug, Clone)]
pub(crate) struct Observed {
    pub(crate) name: String,
    pub(crate) operator: Option<Arc<OperatorSketch>>,
    /// Label of its components.
    pub(crate) label: String,
    /// The components, in the order of the status.
    pub(crate) components: Vec<RichReference>,
}

/// It was told already that the status does not list all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Told;

#[async_trait]
impl Reconciler for Operators {
    type Key = NamespacedName;
    type Observed = Observed;
    type Verdict = Option<Told>;
    type Memory = Told;

    const NAME: &'static str = "operator";

    fn regarding(&self, key: &NamespacedName) -> Option<ObjectReference> {
        let found = self.stores.operators.get_key(key)?;
        Some(reference::<Operator>(key, found.uid().map(str::to_owned)))
    }

    async fn observe(&self, key: &NamespacedName) -> Result<Option<Observed>, ObserveError> {
        let Some(label) = labels::component_label_of(&key.name) else {
            return Ok(None);
        };
        let operator = self.stores.operators.get_key(key);
        let components = components::list(&self.stores, &label);
        let nothing = operator.is_none() && components.is_empty();
        Ok((!nothing).then(|| Observed {
            name: key.name.clone(),
            operator,
            label,
            components,
        }))
    }

    fn decide(observed: &Observed, told: Option<&Told>, _now: Timestamp) -> (Plan, Option<Told>) {
        (decide(observed), told.copied())
    }

    fn status(observed: &Observed, told: Option<Told>, _: &Outcomes, _: Timestamp) -> StatusUpdate<Told> {
        status::status(observed, told)
    }
}

/// The Operator, where components have none. One on its way out is waited for.
pub(crate) fn decide(observed: &Observed) -> Plan {
    let is_missing = observed.operator.is_none() && !observed.components.is_empty();
    if !is_missing || !is_name(&observed.name) {
        return Plan::default();
    }
    let object = json!({
        "apiVersion": Operator::api_version(&()), "kind": Operator::kind(&()),
        "metadata": {"name": observed.name}, "spec": {},
    });
    Plan {
        actions: vec![Action::create_or_keep(
            Target::cluster::<Operator>(&observed.name),
            object,
        )],
        ..Plan::default()
    }
}

/// Whether an object may be called so: labels allow more (RFC 1123 as Kubernetes has it).
fn is_name(name: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    name.split('.').all(|part| {
        !part.is_empty() && part.bytes().all(is_inner) && !part.starts_with('-') && !part.ends_with('-')
    })
}
