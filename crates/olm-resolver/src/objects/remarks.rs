//! Remarks on probable mistakes in objects.

use kube_core::ResourceExt;
use olm_api::labels::UPGRADE_HOLD;
use olm_api::manifest::unknown_fields;
use olm_api::v1alpha1::Subscription;
use olm_api::{GROUP, v1, v1alpha1};
use olm_fbc::did_you_mean::did_you_mean;
use serde_json::Value;

use super::namespace_of;
use crate::hold::parse_range;

/// Another version of OperatorGroups that the API server serves.
const OLD_GROUP_VERSION: &str = "operators.coreos.com/v1alpha2";

/// Reports a version of the kind that the API server does not serve. A missing version is accepted.
pub(super) fn of_version(described: &str, kind: &str, version: &str) -> Option<String> {
    let is_group = kind == "OperatorGroup";
    let right = if is_group {
        v1::API_VERSION
    } else {
        v1alpha1::API_VERSION
    };
    let is_served = version == right || (is_group && version == OLD_GROUP_VERSION);
    let is_known = super::KINDS.contains(&kind);
    (is_known && !version.is_empty() && !is_served).then(|| {
        format!(
            "{described}: field apiVersion: {version} has no kind {kind}, so clusters reject it; use {right}"
        )
    })
}

/// Reports an object that was probably meant for a known kind, by its misspelt kind or group.
pub(super) fn of_misspelt(described: &str, kind: &str, version: &str) -> Option<String> {
    let group = version.split_once('/').map_or(version, |(group, _)| group);
    if version.is_empty() || group == GROUP {
        let meant = did_you_mean(kind, super::KINDS)?;
        return Some(format!(
            "{described}: unknown kind {kind}, so it is ignored: did you mean {meant}?"
        ));
    }
    let meant = did_you_mean(group, [GROUP]).filter(|_| super::KINDS.contains(&kind))?;
    Some(format!(
        "{described}: field apiVersion: {kind} of {version} is ignored: did you mean group {meant}?"
    ))
}

/// Reports unknown fields.
pub(super) fn of_fields(described: &str, object: &Value) -> Vec<String> {
    let unknown = unknown_fields(object).into_iter().map(|field| {
        let inside = &field.inside;
        let meant = did_you_mean(&field.name, field.known.iter().map(String::as_str));
        let meant = meant.map_or_else(String::new, |meant| format!(": did you mean {inside}{meant}?"));
        format!(
            "{described}: unknown field {inside}{}, it has no effect{meant}",
            field.name
        )
    });
    unknown.collect()
}

/// Reports misleading values.
pub(super) fn of_subscription(subscription: &Subscription) -> Vec<String> {
    let name = format!(
        "Subscription {}/{}",
        namespace_of(subscription),
        subscription.name_any()
    );
    let spec = &subscription.spec;
    let approval = spec.install_plan_approval.as_ref().map(ToString::to_string);
    let odd_approval = approval
        .filter(|word| !["Automatic", "Manual", ""].contains(&word.as_str()))
        .map(|word| {
            format!("{name}: field spec.installPlanApproval: `{word}` counts as Automatic, only Manual requires approval")
        });
    let hold = subscription.annotations().get(UPGRADE_HOLD);
    let odd_hold = hold.and_then(|text| parse_range(text).err());
    let odd_hold = odd_hold.map(|error| {
        format!("{name}: annotation {UPGRADE_HOLD} is invalid, so OLM upgrades nothing: {error}")
    });
    odd_approval.into_iter().chain(odd_hold).collect()
}
