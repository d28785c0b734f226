//! Rows of measured figures beside upstream's and the target's, and what is counted in several benches.

use serde_json::Value;

use crate::cluster::audit::AuditEvent;

/// Returns the value in the middle, of an even number the upper one; 0 without values.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// Prints the heading of rows.
pub(super) fn heading() {
    println!(
        "{:<4} {:<52} {:>16} {:>12} {:>9}",
        "", "medians", "upstream", "target", "ours"
    );
}

/// Prints a row, with a mark if `ours` is above `target`. Rows about what does not depend on OLM have no target.
pub(super) fn row(id: &str, what: &str, upstream: &str, target: Option<f64>, ours: f64) {
    let mark = if target.is_some_and(|target| ours > target) {
        "  MISS"
    } else {
        ""
    };
    let target = target.map(|target| format!("{target:.2}")).unwrap_or_default();
    println!("{id:<4} {what:<52} {upstream:>16} {target:>12} {ours:>9.2}{mark}");
}

/// Returns true for requests of `accounts` that count. Events, lease renewals and watches are excluded.
pub(super) fn counts(event: &AuditEvent, accounts: &[&str]) -> bool {
    let resource = event
        .object_ref
        .as_ref()
        .map_or("", |object| object.resource.as_str());
    accounts.contains(&event.user.username.as_str())
        && event.stage == "ResponseComplete"
        && event.verb != "watch"
        && !["events", "leases"].contains(&resource)
}

/// Returns true if a condition of this type has status True.
pub(super) fn is_true(object: &Value, type_: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == type_ && condition["status"] == "True")
}

/// Returns true for a pod that is ready.
pub(super) fn is_ready_pod(object: &Value) -> bool {
    object["kind"] == "Pod" && is_true(object, "Ready")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_median_is_the_one_in_the_middle() {
        assert!((median(vec![3.0, 1.0, 2.0]) - 2.0).abs() < f64::EPSILON);
        assert!(median(vec![]).abs() < f64::EPSILON);
    }

    #[test]
    fn a_pod_is_ready_by_its_condition() {
        let pod = |status: &str| json!({"kind": "Pod", "status": {"conditions": [{"type": "Ready", "status": status}]}});
        assert!(is_ready_pod(&pod("True")));
        assert!(!is_ready_pod(&pod("False")));
    }
}
