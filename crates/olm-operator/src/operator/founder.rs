//! Determines which objects require an Operator. No I/O.
//!
//! Any user who can write an object of a listed kind can write labels, thousands on one object. So only a
//! Subscription and a ClusterServiceVersion count, each for one Operator of its own namespace.

use olm_api::{
    labels,
    v1alpha1::{ClusterServiceVersion, Subscription},
};

use crate::component;

/// Returns the Operator of a Subscription's package, once the Subscription has its label.
pub(crate) fn of_subscription(subscription: &Subscription) -> Option<String> {
    let namespace = subscription.metadata.namespace.as_deref()?;
    let label = labels::component_label(&subscription.spec.name, namespace)?;
    let (label, _) = subscription.metadata.labels.as_ref()?.get_key_value(&label)?;
    labels::operator_of_component(label).map(str::to_owned)
}

/// Returns the first Operator of its namespace whose label a ClusterServiceVersion has. No Subscription is
/// needed.
pub(crate) fn of_csv(csv: &ClusterServiceVersion) -> Option<String> {
    let namespace = csv.metadata.namespace.as_deref().filter(|_| !csv.is_copied())?;
    let mut names = component::operators_of(&csv.metadata);
    names
        .find(|name| component::is_own(name, namespace))
        .map(str::to_owned)
}
