//! Versions that the documentation's ClusterExtensions ask for, applied as it shows them.

use anyhow::ensure;
use e2e::olm_v1::{is, message, object};
use serde_json::Value;
use xtask::catalog::Entry;
use xtask::kubectl::{Destination, text};

use crate::{Versions, installed, installer, setup};

/// Returns the ClusterExtension of the documentation with these lines below the name of the package.
fn of_the_documentation(name: &str, lines: &[&str]) -> String {
    let mut text = format!(
        "apiVersion: olm.operatorframework.io/v1
kind: ClusterExtension
metadata:
  name: {name}
spec:
  namespace: {name}
  serviceAccount:
    name: installer
  source:
    sourceType: Catalog
    catalog:
      packageName: {name}
"
    );
    for line in lines {
        text += &format!("      {line}\n");
    }
    text
}

/// Applies it with the command of the documentation.
fn apply(kubectl: &Destination, name: &str, lines: &[&str]) -> anyhow::Result<()> {
    let text = of_the_documentation(name, lines);
    kubectl.run_with_input(&["apply", "-f", "-"], &text).map(drop)
}

/// Returns the versions of the revisions, in order.
fn revisions(kubectl: &Destination, name: &str) -> anyhow::Result<Vec<String>> {
    let label = format!("olm.operatorframework.io/owner-name={name}");
    let list = kubectl
        .get(&["clusterobjectset", "-l", &label])?
        .unwrap_or_default();
    let mut sets: Vec<&Value> = list["items"].as_array().into_iter().flatten().collect();
    sets.sort_by_key(|set| set["spec"]["revision"].as_i64());
    let version = |set: &&Value| {
        text(
            set,
            "/metadata/annotations/olm.operatorframework.io~1bundle-version",
        )
        .to_owned()
    };
    Ok(sets.iter().map(version).collect())
}

#[test]
fn v1_004_v1_005_v1_007_to_v1_011_a_channel_is_followed_a_version_stays_and_a_range_is_not_left()
-> anyhow::Result<()> {
    let setup = setup()?;
    let (lab, name) = (&setup.lab, "ibis");
    let kubectl = lab.kubectl();
    let namespace = lab.namespace(name)?;
    installer(kubectl, name)?;
    let versions = Versions::new(lab, name)?;
    versions.publish_in_order(1, &["1.11.0"], "latest")?;

    apply(kubectl, name, &["channels:", "  - latest"])?;
    installed(kubectl, name, "1.11.0")?;
    let deployment = namespace.wait_for("deployment", name, "to be available", |it| {
        it["status"]["availableReplicas"] == 1
    })?;
    versions.publish_in_order(2, &["1.11.0", "1.11.1"], "latest")?;
    installed(kubectl, name, "1.11.1")?;

    apply(kubectl, name, &["version: \"1.11.1\""])?;
    versions.publish_in_order(3, &["1.11.0", "1.11.1", "1.12.0", "1.13.0"], "latest")?;
    let pinned = installed(kubectl, name, "1.11.1")?;
    ensure!(
        pinned["spec"]["source"]["catalog"]["channels"].is_null(),
        "{pinned}"
    );
    apply(kubectl, name, &["version: \">=1.11, <1.13\""])?;
    installed(kubectl, name, "1.12.0")?;
    apply(kubectl, name, &["version: \">1.11.1\""])?;
    installed(kubectl, name, "1.13.0")?;
    // Neither was 1.12.0 installed while the version was fixed, nor 1.13.0 while the range had an end.
    let all = revisions(kubectl, name)?;
    ensure!(all == ["1.11.0", "1.11.1", "1.12.0", "1.13.0"], "{all:?}");

    // All versions have the same content, so nothing was restarted.
    let found = namespace.get("deployment", name)?.unwrap_or_default();
    let rollout = "/metadata/annotations/deployment.kubernetes.io~1revision";
    for field in ["/metadata/uid", "/spec/template", rollout] {
        ensure!(found.pointer(field) == deployment.pointer(field), "{found}");
    }
    Ok(())
}

#[test]
fn v1u_001_v1u_004_v1u_006_v1u_009_the_example_is_upgraded_and_rolled_back_by_force() -> anyhow::Result<()> {
    let setup = setup()?;
    let (lab, name) = (&setup.lab, "egret");
    let kubectl = lab.kubectl();
    let _namespace = lab.namespace(name)?;
    installer(kubectl, name)?;
    let versions = Versions::new(lab, name)?;
    versions.publish_in_order(1, &["1.0.0"], "stable")?;
    apply(kubectl, name, &[])?;
    installed(kubectl, name, "1.0.0")?;

    let skips = Entry {
        name: versions.bundle_name("3.0.0"),
        skips: vec![versions.bundle_name("2.0.0")],
        ..Entry::default()
    };
    let skips_a_range = Entry {
        name: versions.bundle_name("2.0.0"),
        skip_range: Some(">=1.0.0 <2.0.0".to_owned()),
        ..Entry::default()
    };
    versions.publish(2, &["2.0.0", "3.0.0"], "stable", vec![skips, skips_a_range])?;
    installed(kubectl, name, "3.0.0")?;
    let all = revisions(kubectl, name)?;
    ensure!(all == ["1.0.0", "2.0.0", "3.0.0"], "{all:?}");

    apply(kubectl, name, &["version: \"2.0.0\""])?;
    let expected = format!(
        "error upgrading from currently installed version \"3.0.0\": no bundles found for package \"{name}\" matching version \"2.0.0\""
    );
    let what = format!("ClusterExtension {name}: the rollback to be refused");
    let refused = object(kubectl, &["clusterextension", name], &what, |it| {
        is(it, "Progressing", "True", "Retrying") && message(it, "Progressing") == expected
    })?;
    ensure!(
        text(&refused, "/status/install/bundle/version") == "3.0.0",
        "{refused}"
    );
    apply(
        kubectl,
        name,
        &["version: \"2.0.0\"", "upgradeConstraintPolicy: SelfCertified"],
    )?;
    installed(kubectl, name, "2.0.0")?;
    Ok(())
}
