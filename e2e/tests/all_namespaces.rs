//! An operator for all namespaces. It is alone in its file, hence in its process: a group that targets every namespace
//! conflicts with every other group that provides the same API, as upstream has it.

use anyhow::Context as _;
use e2e::lab::{Lab, Namespace, catalog_source, operator_group, subscription};
use serde_json::{Value, json};
use xtask::kubectl::text;

const SECOND: &str = "demo-operator.v1.1.0";

/// Catalog, group and subscription of the demo operator in `namespace`.
fn install(namespace: &Namespace<'_>, targets: &[&str], change: impl Fn(&mut Value)) -> anyhow::Result<()> {
    let image = Lab::shared()?.demo_catalog()?;
    let mut wanted = subscription("demo", "demo-operator", "stable", "catalog", namespace.name());
    change(&mut wanted);
    namespace.apply(&[
        catalog_source("catalog", image),
        operator_group("group", targets),
        wanted,
    ])
}

fn greet(namespace: &Namespace<'_>, release: &str) -> anyhow::Result<()> {
    namespace.apply(&[json!({
        "apiVersion": "demo.example.com/v1", "kind": "Greeting", "metadata": {"name": "ada"}, "spec": {"name": "Ada"}
    })])?;
    namespace.wait_for("greeting", "ada", "an answer of the operator", |greeting| {
        text(greeting, "/status/operatorRelease") == release
            && text(greeting, "/status/message") == "Hello, Ada!"
    })?;
    Ok(())
}

#[test]
fn an_operator_for_all_namespaces_works_in_every_one() -> anyhow::Result<()> {
    let lab = Lab::shared()?;
    let elsewhere = lab.namespace("main-all-elsewhere")?;
    let namespace = lab.namespace("main-all")?;
    install(&namespace, &[], |_| {})?;
    let csv = namespace.wait_for_phase(SECOND, "Succeeded")?;
    assert_eq!(csv["metadata"]["annotations"]["olm.targetNamespaces"], "");
    let group = namespace
        .get("operatorgroup", "group")?
        .context("no OperatorGroup")?;
    assert_eq!(group["status"]["namespaces"], json!([""]));
    greet(&elsewhere, "1.1.0")
}
