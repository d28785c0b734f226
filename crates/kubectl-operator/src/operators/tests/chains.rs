//! Versions that replace one another.

use super::*;

/// Returns a version that replaces another.
fn successor(version: &str, phase: &str, replaces: &str) -> Value {
    let mut csv = csv(version, phase, "");
    csv["spec"]["replaces"] = json!(replaces);
    csv
}

/// The Subscription was deleted in the middle of an upgrade.
#[test]
fn a_chain_without_a_subscription_is_one_operator() {
    let gathered = gathered_of([
        csv("1.0.0", "Deleting", ""),
        successor("1.1.0", "Replacing", "etcd.v1.0.0"),
        successor("2.0.0", "Failed", "etcd.v1.1.0"),
        csv("9.0.0", "Succeeded", ""),
    ]);
    let operators = gathered.operators();
    let rows: Vec<Row> = operators.iter().map(Operator::row).collect();
    let told: Vec<(&str, &str, &str, State)> = rows
        .iter()
        .map(|row| {
            let (installed, current) = (row.installed_version.as_str(), row.current_version.as_str());
            (row.name.as_str(), installed, current, row.state)
        })
        .collect();
    assert_eq!(
        told,
        [
            ("etcd.v2.0.0", "1.1.0", "2.0.0", State::Failed),
            ("etcd.v9.0.0", "9.0.0", "9.0.0", State::Ready),
        ]
    );
    // `uninstall` takes all of it.
    assert_eq!(gathered.chain(&operators[0]).len(), 3);
}

/// With fail forward, OLM replaces versions that failed.
#[test]
fn a_replaced_version_that_failed_is_not_installed() {
    let status = json!({"installedCSV": "etcd.v3.0.0", "currentCSV": "etcd.v3.0.0"});
    for (phases, installed) in [
        (&["Installing", "Failed", "Replacing"][..], "1.1.0"),
        (&["Succeeded", "Failed", "Replacing"], "2.0.0"),
        (&[], "2.0.0"),
    ] {
        let mut replaced = successor("2.0.0", "Replacing", "etcd.v1.1.0");
        let entries = phases.iter().map(|phase| json!({"phase": phase}));
        replaced["status"]["conditions"] = entries.collect();
        let gathered = gathered_of([
            subscription("db", &status),
            csv("1.1.0", "Replacing", ""),
            replaced,
            successor("3.0.0", "Failed", "etcd.v2.0.0"),
        ]);
        let operators = gathered.operators();
        assert_eq!(operators[0].row().installed_version, installed, "{phases:?}");
        let way_out = operators[0].way_out(&operators[0].verdict(), &CommandLine::default());
        let expected = format!(
            "correct the cause, or go back to etcd.v{installed}: kubectl operator rollback db -n shop"
        );
        assert_eq!(way_out, Some(expected), "{phases:?}");
    }
}

/// A user may name any version in `spec.replaces`.
#[test]
fn versions_that_replace_one_another_in_a_cycle_are_listed() {
    let gathered = gathered_of([
        successor("1.0.0", "Succeeded", "etcd.v2.0.0"),
        successor("2.0.0", "Succeeded", "etcd.v1.0.0"),
        successor("3.0.0", "Succeeded", "etcd.v3.0.0"),
    ]);
    assert_eq!(gathered.operators().len(), 3);
}

/// OLM restarts the version before if a user deletes the new one during an upgrade, and a Subscription can adopt it.
#[test]
fn the_version_that_runs_after_the_newest_was_deleted_is_installed() {
    let packaged = |version: &str, phase: &str| {
        let package = json!({"type": "olm.package", "value": {"packageName": "etcd", "version": version}});
        let properties = json!({"properties": [package]}).to_string();
        let mut csv = csv(version, phase, "");
        csv["metadata"]["annotations"] = json!({olm_api::labels::PROPERTIES: properties});
        csv
    };
    let status = |csv: &str| json!({"installedCSV": csv, "currentCSV": csv});
    for (deleted, phase, of_other, installed) in [
        ("etcd.v2.0.0", "Succeeded", "", "etcd.v1.0.0"),
        ("etcd.v2.0.0", "Failed", "", "etcd.v2.0.0"),
        ("etcd.v2.0.0", "Succeeded", "etcd.v1.0.0", "etcd.v2.0.0"),
        ("etcd.v0.9.0", "Succeeded", "", "etcd.v0.9.0"),
    ] {
        let gathered = gathered_of([
            subscription("db", &status(deleted)),
            subscription("other", &status(of_other)),
            packaged("1.0.0", phase),
        ]);
        let operators = gathered.operators();
        let (row, verdict) = (operators[0].row(), operators[0].verdict());
        assert_eq!(
            (row.state, row.installed_csv.as_str()),
            (State::Failed, installed)
        );
        assert_eq!(
            row.message.ends_with("; etcd.v1.0.0 runs"),
            installed == "etcd.v1.0.0",
            "{row:?}"
        );
        let way_out = operators[0].way_out(&verdict, &CommandLine::default());
        let expected = format!("set its spec.startingCSV to {installed} there");
        assert!(way_out.unwrap().contains(&expected), "{row:?}");
        let mut alone = operators.iter().filter(|found| found.subscription.is_none());
        let is_alone = alone.any(|found| found.name() == "etcd.v1.0.0");
        assert_eq!(
            is_alone,
            installed != "etcd.v1.0.0" && of_other.is_empty(),
            "{row:?}"
        );
    }
}
