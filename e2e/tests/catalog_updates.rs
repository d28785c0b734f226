//! A catalog image that is pushed again under its tag.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use e2e::demo::{FIRST, SECOND, greet};
use e2e::lab::{Lab, Namespace, PATIENCE, catalog_source, operator_group, subscription};
use serde_json::{Value, json};
use xtask::demo::{self, PACKAGE};
use xtask::kubectl::text;

const NAME: &str = "catalog-updates";
/// Maximum time for which a catalog may be disconnected without failing the test.
const AWAY: Duration = Duration::from_secs(30);
const IMAGE: &str = "olm.local/catalog-updates:latest";

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// Returns the pods of the catalog that its Service selects, by uid.
fn serving(namespace: &Namespace<'_>) -> anyhow::Result<Vec<String>> {
    let mut pods = namespace.list("pod")?;
    pods.retain(|pod| text(pod, "/metadata/labels/olm.catalogSource") == "catalog" && is_ready(pod));
    Ok(pods
        .iter()
        .map(|pod| text(pod, "/metadata/uid").to_owned())
        .collect())
}

#[test]
fn cat_017_opm_007_upg_026_a_catalog_that_is_pushed_again_upgrades_its_operators() -> anyhow::Result<()> {
    let lab = Lab::shared()?;
    // The operator's image is published with the demo.
    lab.demo_catalog()?;
    let newer = demo::package();
    let mut older = newer.clone();
    older.bundles.truncate(1);
    for (_, entries) in &mut older.channels {
        entries.truncate(1);
    }
    lab.publish(NAME, &[older], IMAGE)?;
    let namespace = lab.namespace(NAME)?;
    let mut source = catalog_source("catalog", IMAGE);
    source["spec"]["updateStrategy"] = json!({"registryPoll": {"interval": "30s"}});
    namespace.apply(&[
        source,
        operator_group("group", &[namespace.name()]),
        subscription("demo", PACKAGE, "stable", "catalog", namespace.name()),
    ])?;
    namespace.wait_for_phase(FIRST, "Succeeded")?;
    greet(&namespace, "1.0.0")?;

    // A poll without a change keeps the pod and creates no other.
    let before = serving(&namespace)?;
    assert_eq!(before.len(), 1);
    namespace.wait_for("catsrc", "catalog", "a poll", |source| {
        !source["status"]["latestImageRegistryPoll"].is_null()
    })?;
    assert_eq!(serving(&namespace)?, before);

    lab.publish(NAME, &[newer], IMAGE)?;
    let what = format!("{SECOND} from the catalog that is never away");
    let mut answered = Instant::now();
    lab.kubectl().wait(&what, PATIENCE, |_| {
        ensure!(!serving(&namespace)?.is_empty(), "no pod serves the catalog");
        let source = namespace.get("catsrc", "catalog")?.context("no CatalogSource")?;
        let state = text(&source, "/status/connectionState/lastObservedState");
        if state == "READY" {
            answered = Instant::now();
        }
        // A connection may break on a busy machine, and is then re-established.
        ensure!(
            answered.elapsed() < AWAY,
            "the catalog is {state}: {}",
            source["status"]
        );
        let csv = namespace.get("csv", SECOND)?.unwrap_or_default();
        Ok(match text(&csv, "/status/phase") {
            "Succeeded" => Ok(()),
            phase => Err(format!(
                "phase {phase:?}, the catalog's status is {}",
                source["status"]
            )),
        })
    })?;
    greet(&namespace, "1.1.0")?;
    lab.kubectl()
        .wait("one pod, another than before", PATIENCE, |_| {
            let mut pods = namespace.list("pod")?;
            pods.retain(|pod| pod["metadata"]["labels"].get("olm.catalogSource").is_some());
            let uids: Vec<&str> = pods.iter().map(|pod| text(pod, "/metadata/uid")).collect();
            Ok(if uids.len() == 1 && before != uids {
                Ok(())
            } else {
                Err(format!("{uids:?}, before {before:?}"))
            })
        })?;
    Ok(())
}
