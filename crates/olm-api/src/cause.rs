//! Causes in words: what a ClusterServiceVersion waits for, or why it failed. No I/O.
//!
//! The conditions of Subscriptions and all commands of `kubectl operator` take the text from here, so that they agree.

use crate::condition::requirement;
use crate::v1alpha1::{ClusterServiceVersion, ClusterServiceVersionPhase as Phase, RequirementStatus};

/// Maximum number of requirements named per ClusterServiceVersion.
const MAX_REQUIREMENTS: usize = 5;

/// Returns what a ClusterServiceVersion waits for, or why it failed. `None` if it has succeeded, or if its status names no cause.
pub fn csv_cause(csv: &ClusterServiceVersion) -> Option<String> {
    let status = csv.status.as_ref()?;
    let message = status.message.as_deref().filter(|text| !text.is_empty());
    match status.phase {
        Phase::Succeeded => None,
        Phase::Failed => {
            let reason = status.reason.as_deref().filter(|text| !text.is_empty());
            let parts: Vec<&str> = reason.into_iter().chain(message).collect();
            (!parts.is_empty()).then(|| parts.join(": "))
        }
        _ => unmet_requirements(csv)
            .map(|unmet| format!("waiting for {unmet}"))
            .or_else(|| message.map(str::to_owned)),
    }
}

/// Returns a ClusterServiceVersion by its name, with its cause.
pub fn csv_text(csv: &ClusterServiceVersion) -> String {
    let name = csv.metadata.name.as_deref().unwrap_or_default();
    format!("ClusterServiceVersion {name}: {}", csv_cause_or_default(csv))
}

/// Returns the cause of a ClusterServiceVersion that has not succeeded, also if its status names none.
pub fn csv_cause_or_default(csv: &ClusterServiceVersion) -> String {
    csv_cause(csv).unwrap_or_else(|| match csv.phase() {
        Phase::Failed => "its status names no cause".to_owned(),
        _ => "waiting for OLM to process it".to_owned(),
    })
}

/// Returns the requirements that are not met, five at most and the number of the others; `None` if OLM does not wait for any.
pub fn unmet_requirements(csv: &ClusterServiceVersion) -> Option<String> {
    if *csv.phase() != Phase::Pending {
        return None;
    }
    let all = csv.status.iter();
    let all = all.flat_map(|status| status.requirement_status.iter());
    let unmet: Vec<String> = all.filter(|row| !is_met(row)).map(text).collect();
    let more = unmet.len().saturating_sub(MAX_REQUIREMENTS);
    let named = unmet.get(..MAX_REQUIREMENTS).unwrap_or(&unmet).join("; ");
    match (unmet.is_empty(), more) {
        (true, _) => None,
        (false, 0) => Some(named),
        (false, more) => Some(format!("{named}; and {more} more")),
    }
}

/// Returns true if a requirement does not keep the ClusterServiceVersion from being installed.
pub fn is_met(row: &RequirementStatus) -> bool {
    let met = [
        requirement::PRESENT,
        requirement::SATISFIED,
        requirement::DEPLOYMENT_FOUND,
    ];
    met.contains(&row.status.as_str()) || row.message.starts_with(requirement::MISSING_RIGHTS)
}

fn text(row: &RequirementStatus) -> String {
    match row.message.as_str() {
        "" => format!("{} {}", row.kind, row.name),
        message => format!("{} {} ({message})", row.kind, row.name),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn csv(status: &Value) -> ClusterServiceVersion {
        let object = json!({"metadata": {"name": "demo.v1"}, "spec": {}, "status": status});
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn the_cause_follows_phase_message_and_requirements() {
        let requirement = |name: &str, status: &str, message: &str| {
            json!({"group": "", "version": "v1", "kind": "CustomResourceDefinition", "name": name,
                "status": status, "message": message})
        };
        let missing = requirement("b", "NotPresent", "CRD is not present");
        let lacks = requirement(
            "c",
            "PresentNotSatisfied",
            "rights are missing in namespace x: no",
        );
        let rows = json!([requirement("a", "Present", ""), missing, lacks]);
        let text = "waiting for CustomResourceDefinition b (CRD is not present)";
        for (status, cause) in [
            (json!({}), None),
            (
                json!({"phase": "Succeeded", "message": "install strategy completed"}),
                None,
            ),
            (
                json!({"phase": "Succeeded", "message": "x", "requirementStatus": rows}),
                None,
            ),
            (json!({"phase": "Pending"}), None),
            (json!({"phase": "Pending", "message": ""}), None),
            (
                json!({"phase": "Pending", "message": "not upgradeable"}),
                Some("not upgradeable"),
            ),
            (
                json!({"phase": "Pending", "message": "m", "requirementStatus": rows}),
                Some(text),
            ),
            (
                json!({"phase": "Pending", "message": "m", "requirementStatus": [lacks]}),
                Some("m"),
            ),
            (
                json!({"phase": "Installing", "message": "m", "requirementStatus": rows}),
                Some("m"),
            ),
            (
                json!({"phase": "Installing", "reason": "InstallWaiting", "message": "m"}),
                Some("m"),
            ),
            (
                json!({"phase": "Failed", "reason": "NoOperatorGroup", "message": "m"}),
                Some("NoOperatorGroup: m"),
            ),
            (json!({"phase": "Failed", "message": "m"}), Some("m")),
            (json!({"phase": "Failed", "reason": "", "message": ""}), None),
        ] {
            assert_eq!(csv_cause(&csv(&status)).as_deref(), cause, "{status}");
        }
    }

    /// A long list of requirements is cut, and a status without a cause has a text, too.
    #[test]
    fn the_text_has_a_name_and_a_cause_of_bounded_length() {
        let row =
            |number: usize| json!({"kind": "Role", "name": format!("r{number}"), "status": "NotPresent"});
        let rows: Vec<Value> = (1..=7).map(row).collect();
        for (status, text) in [
            (
                json!({"phase": "Pending", "requirementStatus": rows}),
                "waiting for Role r1; Role r2; Role r3; Role r4; Role r5; and 2 more",
            ),
            (json!({"phase": "Failed"}), "its status names no cause"),
            (json!({}), "waiting for OLM to process it"),
        ] {
            let expected = format!("ClusterServiceVersion demo.v1: {text}");
            assert_eq!(csv_text(&csv(&status)), expected, "{status}");
        }
    }

    /// catalog-operator keeps the cause in place of the message, without the rest of the status.
    #[test]
    fn the_cause_of_a_cause_is_the_same() {
        for status in [
            json!({"phase": "Failed", "reason": "NoOperatorGroup", "message": "m"}),
            json!({"phase": "Pending", "message": "m", "requirementStatus": [{"kind": "Role", "name": "r", "status": "NotPresent"}]}),
            json!({"phase": "Installing", "message": "m"}),
        ] {
            let cause = csv_cause(&csv(&status));
            let kept = json!({"phase": status["phase"], "message": cause});
            assert_eq!(csv_cause(&csv(&kept)), cause, "{status}");
        }
    }
}
