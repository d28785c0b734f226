//! An operator for all namespaces. It is alone in its file, hence in its process: a group that targets every namespace
//! conflicts with every other group that provides the same API, as upstream has it.

use anyhow::Context as _;
use e2e::demo::{SECOND, greet, install};
use e2e::lab::Lab;
use serde_json::json;

#[test]
fn og_008_an_operator_for_all_namespaces_works_in_every_one() -> anyhow::Result<()> {
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
