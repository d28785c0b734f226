//! What the author of an object may not have meant.

use kube_core::{Resource as _, ResourceExt};
use olm_api::v1alpha1::Subscription;
use olm_api::{v1, v1alpha1, v1alpha2};

use super::namespace_of;

/// That the API server serves no such version of the kind. No version at all is taken for the right one.
pub(super) fn of_version(described: &str, kind: &str, version: &str) -> Option<String> {
    let is_group = kind == "OperatorGroup";
    let right = if is_group {
        v1::API_VERSION
    } else {
        v1alpha1::API_VERSION
    };
    let is_served = version == right || (is_group && version == v1alpha2::OperatorGroup::api_version(&()));
    let is_known = super::KINDS.contains(&kind);
    (is_known && !version.is_empty() && !is_served).then(|| {
        format!("{described}: field apiVersion: there is no {kind} in {version}, a cluster refuses it: write {right}")
    })
}

/// Fields nobody reads, and words that do not mean what they seem to.
pub(super) fn of_subscription(subscription: &Subscription) -> Vec<String> {
    let name = format!(
        "Subscription {}/{}",
        namespace_of(subscription),
        subscription.name_any()
    );
    let spec = &subscription.spec;
    let unknown = spec
        .extra
        .keys()
        .map(|field| format!("{name}: there is no field spec.{field}, it has no effect"));
    let approval = spec.install_plan_approval.as_ref().map(ToString::to_string);
    let odd_approval = approval
        .filter(|word| !["Automatic", "Manual", ""].contains(&word.as_str()))
        .map(|word| {
            format!("{name}: field spec.installPlanApproval: `{word}` counts as Automatic, only Manual asks for approval")
        });
    unknown.chain(odd_approval).collect()
}
