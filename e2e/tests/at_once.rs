//! Subscriptions in many namespaces created at once, to one package of one catalog: each namespace soon has its InstallPlan.
//!
//! Target P17. The plans wait for approval, because a node has no room for as many operators.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::ensure;
use e2e::lab::{Lab, PATIENCE, catalog_source, operator_group, subscription};
use e2e::operator::{Operator, assert_no_restart};
use e2e::variant::Variant;
use olm_testing::long;
use serde_json::{Value, json};
use xtask::cluster::audit::AuditTail;
use xtask::kubectl::{Destination, text};

/// Name of the package and of the catalog, prefix and label of the namespaces.
const NAME: &str = "at-once";
const LABEL: &str = "e2e=at-once";
/// Namespace of catalogs for all namespaces.
const GLOBAL: &str = "olm";
/// Maximum time for each Subscription, and for all of them together.
const EACH: Duration = Duration::from_millis(100);
const NOISE: Duration = Duration::from_secs(5);

/// Deletes the catalog and the namespaces when dropped.
struct Cleanup<'a>(&'a Destination);

impl Drop for Cleanup<'_> {
    fn drop(&mut self) {
        let catalog = [
            "delete",
            "catalogsource",
            NAME,
            "-n",
            GLOBAL,
            "--ignore-not-found",
        ];
        let _ = self.0.run(&catalog);
        let _ = self.0.run(&["delete", "namespace", "-l", LABEL, "--wait=false"]);
    }
}

fn of_namespace(mut object: Value, namespace: &str) -> Value {
    object["metadata"]["namespace"] = json!(namespace);
    object
}

/// Returns the namespaces of this test that have an InstallPlan.
fn planned(destination: &Destination) -> anyhow::Result<BTreeSet<String>> {
    let plans = destination.get(&["installplans.operators.coreos.com", "-A"])?;
    let plans = plans.unwrap_or_default();
    let namespaces = plans["items"].as_array().into_iter().flatten();
    Ok(namespaces
        .map(|plan| text(plan, "/metadata/namespace").to_owned())
        .filter(|namespace| namespace.starts_with(NAME))
        .collect())
}

#[test]
fn subscriptions_created_at_once_all_have_their_plans_soon() -> anyhow::Result<()> {
    let lab = Lab::shared()?;
    let destination = lab.kubectl();
    let operators = Operator::all(destination)?;
    let count = long::count_or("Subscriptions at once", 20, 200);
    let (variant, image) = Variant::publish(NAME, |_| Ok(()))?;
    let _cleanup = Cleanup(destination);
    destination.apply(&[of_namespace(catalog_source(NAME, &image), GLOBAL)])?;
    destination.wait("the catalog to be READY", PATIENCE, |destination| {
        let catalog = destination.get(&["catalogsource", "-n", GLOBAL, NAME])?;
        let catalog = catalog.unwrap_or_default();
        let is_ready = text(&catalog, "/status/connectionState/lastObservedState") == "READY";
        Ok(is_ready
            .then_some(())
            .ok_or_else(|| catalog["status"].to_string()))
    })?;

    let namespaces: Vec<String> = (0..count).map(|number| format!("{NAME}-{number}")).collect();
    let homes: Vec<Value> = namespaces
        .iter()
        .map(|name| {
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"e2e": NAME}}})
        })
        .collect();
    let groups: Vec<Value> = namespaces
        .iter()
        .map(|name| of_namespace(operator_group("group", &[name]), name))
        .collect();
    let subscriptions: Vec<Value> = namespaces
        .iter()
        .map(|name| {
            let mut wanted = subscription("wanted", variant.package_name(), "stable", NAME, GLOBAL);
            wanted["spec"]["installPlanApproval"] = json!("Manual");
            of_namespace(wanted, name)
        })
        .collect();
    destination.apply(&homes)?;
    destination.apply(&groups)?;
    // Requests for the groups are not counted.
    std::thread::sleep(Duration::from_secs(3));
    let mut log = AuditTail::of_olm(&lab.cluster().audit_log())?;
    destination.apply(&subscriptions)?;
    let created = Instant::now();
    destination.wait("an InstallPlan in each namespace", PATIENCE, |destination| {
        let found = planned(destination)?.len();
        Ok((found == namespaces.len())
            .then_some(())
            .ok_or_else(|| format!("{found} of {count} namespaces have one")))
    })?;
    let took = created.elapsed();
    let requests = log.read()?.into_iter();
    let requests = requests.filter(|event| event.verb != "watch").count();
    println!(
        "{count} Subscriptions at once: last plan {took:?} after the last of them, {} requests each (P17: 2 s for 200, 12)",
        requests / namespaces.len()
    );
    ensure!(took <= EACH * count + NOISE, "{count} plans took {took:?}");
    assert_no_restart(destination, &operators)
}
