//! Custom resources when their extension is deleted.

use anyhow::{Context as _, ensure};
use e2e::lab::PATIENCE;
use e2e::olm_v1::gone;
use serde_json::json;
use xtask::kubectl::text;

use crate::{Versions, extension, installed, setup};

#[test]
fn v1_data_outlives_its_extension_and_goes_with_it_if_the_user_says_so() -> anyhow::Result<()> {
    let setup = setup()?;
    let (lab, name) = (&setup.lab, "stork");
    let kubectl = lab.kubectl();
    let namespace = lab.namespace(name)?;
    let versions = Versions::new(lab, name)?;
    let definition = versions.first.definition();
    versions.publish_in_order(1, &["1.0.0"], "stable")?;
    kubectl.apply(&[extension(name, name, &json!({}))])?;
    installed(kubectl, name, "1.0.0")?;
    namespace.apply(&[
        json!({"apiVersion": format!("{name}.example.com/v1"), "kind": "Greeting",
        "metadata": {"name": "ada"}, "spec": {"name": "Ada"}}),
    ])?;
    let data = || -> anyhow::Result<String> {
        let found = namespace.get(&definition, "ada")?;
        let found = found.context("the custom resource is gone")?;
        Ok(text(&found, "/metadata/uid").to_owned())
    };
    let before = data()?;

    let delete = ["delete", "clusterextension", name, "--timeout=240s"];
    kubectl.run(&delete)?;
    for left in [
        &["clusterobjectset", "stork-1"][..],
        &["deployment", "-n", name, name],
        &["serviceaccount", "-n", name, name],
    ] {
        gone(kubectl, left)?;
    }
    ensure!(data()? == before, "it is another one");
    kubectl.wait("the event about what was kept", PATIENCE, |kubectl| {
        let notes = kubectl.run(&[
            "get",
            "events.events.k8s.io",
            "-A",
            "-o",
            "jsonpath={.items[*].note}",
        ])?;
        let is_told = notes.contains(&format!("kept CustomResourceDefinitions: {definition}"));
        Ok(if is_told { Ok(()) } else { Err(notes) })
    })?;

    kubectl.apply(&[extension(name, name, &json!({}))])?;
    installed(kubectl, name, "1.0.0")?;
    ensure!(data()? == before, "it is another one");
    kubectl.run(&[
        "annotate",
        "clusterextension",
        name,
        "olm.operatorframework.io/delete-custom-resources=true",
    ])?;
    kubectl.wait("the revision to have the annotation", PATIENCE, |kubectl| {
        let set = kubectl.get(&["clusterobjectset", "stork-1"])?.unwrap_or_default();
        let value = text(
            &set,
            "/metadata/annotations/olm.operatorframework.io~1delete-custom-resources",
        );
        Ok((value == "true")
            .then_some(())
            .ok_or_else(|| set["metadata"].to_string()))
    })?;
    kubectl.run(&delete)?;
    gone(kubectl, &["clusterobjectset", "stork-1"])?;
    gone(kubectl, &["crd", &definition])
}
