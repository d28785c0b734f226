//! Single reconciles over stores alone, for models of a cluster outside of this crate (`tests/fuzz`). Data
//! from live reads is missing.

use olm_runtime::{NamespacedName, Timestamp, driver::StatusUpdate, outcome::Outcomes, plan::Plan};

use crate::{csv, namespace, operator_condition, operator_group, stores::Stores};

/// Runs one reconcile of the ClusterServiceVersion controller; `act` executes its plan. `None` when the
/// object does not exist.
pub fn of_csv(
    stores: &Stores,
    key: &NamespacedName,
    now: Timestamp,
    act: impl FnOnce(&Plan) -> Outcomes,
) -> Option<StatusUpdate<Timestamp>> {
    let observed = csv::observe::from_stores(stores, key)?;
    csv::observe::needs_subscription(&observed);
    let (plan, verdict) = csv::decide::decide(&observed, now);
    let outcomes = act(&plan);
    Some(csv::status::status(&observed, verdict, &outcomes, now))
}

/// Runs one reconcile of the OperatorGroup controller; `act` executes its plan. `None` when the object does
/// not exist.
pub fn of_group(
    stores: &Stores,
    key: &NamespacedName,
    now: Timestamp,
    act: impl FnOnce(&Plan) -> Outcomes,
) -> Option<StatusUpdate<String>> {
    let observed = operator_group::observe::from_stores(stores, key)?;
    let (plan, verdict) = operator_group::decide::decide(&observed, None);
    act(&plan);
    Some(operator_group::status::status(&observed, verdict, now))
}

/// Runs one reconcile of the OperatorCondition controller; `act` executes its plan. `None` when the object
/// does not exist.
pub fn of_condition(
    stores: &Stores,
    key: &NamespacedName,
    act: impl FnOnce(&Plan) -> Outcomes,
) -> Option<StatusUpdate> {
    let observed = operator_condition::from_stores(stores, key)?;
    act(&operator_condition::decide::decide(&observed));
    Some(operator_condition::status::status(&observed))
}

/// Returns the plan of a reconcile of the Namespace controller. `None` when the object does not exist.
pub fn of_namespace(stores: &Stores, name: &str) -> Option<Plan> {
    let observed = namespace::observe(stores, &NamespacedName::cluster(name))?;
    Some(namespace::decide(&observed))
}
