//! Rows of measured figures beside upstream's and the target's, and what is counted in several benches.

use serde_json::Value;

use crate::cluster::audit::AuditEvent;

/// Returns the value in the middle, of an even number the upper one; 0 without values.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// Returns the median of each figure of several runs. All runs have the same figures, in the same order.
pub(super) fn medians(runs: &[Vec<f64>]) -> Vec<f64> {
    let count = runs.first().map_or(0, Vec::len);
    (0..count)
        .map(|at| median(runs.iter().map(|run| run[at]).collect()))
        .collect()
}

/// Prints figures beside upstream's and the targets. Each line of `rows` describes the figure at the same place, in cells separated by
/// `|`: number of the target, what is measured, upstream's figure, and our target. A figure above its target gets a mark; below it, if
/// the target begins with `>`. Figures that do not depend on OLM alone have no target.
pub(super) fn print(rows: &str, figures: &[f64]) {
    println!(
        "{:<4} {:<60} {:>16} {:>12} {:>9}",
        "", "medians", "upstream", "target", "ours"
    );
    for (row, ours) in rows.lines().zip(figures) {
        let mut cells = row.split('|');
        let mut cell = || cells.next().unwrap_or_default().trim_end();
        let (id, what, upstream, target) = (cell(), cell(), cell().trim(), cell().trim());
        let what = what.strip_prefix(' ').unwrap_or(what);
        let mark = if is_met(target, *ours) { "" } else { "  MISS" };
        println!("{id:<4} {what:<60} {upstream:>16} {target:>12} {ours:>9.2}{mark}");
    }
}

/// Returns true if a figure meets a target, as [`print()`] reads it.
fn is_met(target: &str, ours: f64) -> bool {
    match target.strip_prefix('>') {
        Some(least) => least.trim().parse::<f64>().is_ok_and(|least| ours >= least),
        None => target.parse::<f64>().map_or(true, |most| ours <= most),
    }
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
        assert_eq!(
            medians(&[vec![1.0, 9.0], vec![3.0, 8.0], vec![2.0, 7.0]]),
            [2.0, 8.0]
        );
        assert_eq!(medians(&[]), [0.0; 0]);
    }

    #[test]
    fn a_target_is_the_most_or_the_least() {
        assert!(is_met("0.1", 0.1) && !is_met("0.1", 0.2));
        assert!(is_met("> 400", 400.0) && !is_met("> 400", 399.0));
        assert!(is_met("", 1e9));
    }

    #[test]
    fn a_pod_is_ready_by_its_condition() {
        let pod = |status: &str| json!({"kind": "Pod", "status": {"conditions": [{"type": "Ready", "status": status}]}});
        assert!(is_ready_pod(&pod("True")));
        assert!(!is_ready_pod(&pod("False")));
    }
}
