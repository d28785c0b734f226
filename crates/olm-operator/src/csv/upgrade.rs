//! Checks whether the operator that is being replaced allows its upgrade, according to its OperatorCondition.

use kube::ResourceExt;
use olm_api::{
    condition::{self, operator_condition::UPGRADEABLE},
    v2::OperatorCondition,
};

/// Checks the OperatorCondition of the predecessor; without one an upgrade is allowed.
///
/// # Errors
/// The reason why the upgrade has to wait, for users (`docs/reference/lifecycle.md`).
pub(crate) fn check(previous: Option<&OperatorCondition>) -> Result<(), String> {
    let Some(previous) = previous else { return Ok(()) };
    let name = previous.name_any();
    if let Some(found) = previous
        .spec
        .overrides
        .iter()
        .find(|found| found.type_ == UPGRADEABLE)
    {
        if found.status == condition::TRUE {
            return Ok(());
        }
        return Err(format!(
            "spec.overrides of OperatorCondition {name} has {UPGRADEABLE}={}: {}",
            found.status, found.message
        ));
    }
    let reported = previous.status.iter().flat_map(|status| &status.conditions);
    let Some(found) = reported.into_iter().find(|found| found.type_ == UPGRADEABLE) else {
        return Ok(());
    };
    if found.observed_generation.unwrap_or(0) != previous.metadata.generation.unwrap_or(0) {
        return Err(format!(
            "the operatorcondition status \"{UPGRADEABLE}\"=\"{}\" is outdated: OperatorCondition {name}",
            found.status
        ));
    }
    if found.status == condition::FALSE {
        return Err(format!(
            "OperatorCondition {name} reports {UPGRADEABLE}=False: {} (to upgrade anyway, set {UPGRADEABLE}=True in its spec.overrides)",
            found.message
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check_row(overrides: Value, conditions: Value, expected: Result<(), &str>) {
        let object = json!({
            "apiVersion": "operators.coreos.com/v2", "kind": "OperatorCondition",
            "metadata": {"name": "a", "namespace": "ns", "generation": 3},
            "spec": {"overrides": overrides}, "status": {"conditions": conditions},
        });
        let object: OperatorCondition = serde_json::from_value(object).unwrap();
        assert_eq!(check(Some(&object)), expected.map_err(str::to_owned));
    }

    fn reported(type_: &str, status: &str, generation: i64) -> Value {
        json!([{"type": type_, "status": status, "reason": "R", "message": "busy",
            "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": generation}])
    }

    fn overridden(status: &str) -> Value {
        json!([{"type": "Upgradeable", "status": status, "reason": "R", "message": "by me"}])
    }

    #[test]
    fn oc_004_without_a_condition_of_the_one_supported_type_upgrades_proceed() {
        assert_eq!(check(None), Ok(()));
        check_row(json!([]), json!([]), Ok(()));
        check_row(json!([]), reported("Other", "False", 3), Ok(()));
        let other = json!([{"type": "Other", "status": "False", "reason": "R", "message": "by me"}]);
        check_row(other, json!([]), Ok(()));
    }

    #[test]
    fn a_reported_false_or_an_outdated_report_blocks() {
        check_row(
            json!([]),
            reported("Upgradeable", "False", 3),
            Err(
                "OperatorCondition a reports Upgradeable=False: busy (to upgrade anyway, set Upgradeable=True in its spec.overrides)",
            ),
        );
        let outdated =
            "the operatorcondition status \"Upgradeable\"=\"True\" is outdated: OperatorCondition a";
        check_row(json!([]), reported("Upgradeable", "True", 2), Err(outdated));
        check_row(json!([]), reported("Upgradeable", "True", 3), Ok(()));
        check_row(json!([]), reported("Upgradeable", "Unknown", 3), Ok(()));
    }

    #[test]
    fn an_override_wins_over_the_report() {
        check_row(overridden("True"), reported("Upgradeable", "False", 2), Ok(()));
        check_row(
            overridden("False"),
            reported("Upgradeable", "True", 3),
            Err("spec.overrides of OperatorCondition a has Upgradeable=False: by me"),
        );
    }
}
