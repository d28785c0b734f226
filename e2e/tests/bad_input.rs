//! Faults are reported by name, where users look for them. The texts are in `docs/guides/troubleshooting.md`.

use e2e::lab::{Lab, Namespace, catalog_source, condition, operator_group, subscription};
use serde_json::Value;
use xtask::kubectl::text;

fn ready(namespace: &Namespace<'_>, wanted: &Value) -> anyhow::Result<()> {
    let image = Lab::shared()?.demo_catalog()?;
    namespace.apply(&[
        catalog_source("catalog", image),
        operator_group("group", &[namespace.name()]),
        wanted.clone(),
    ])
}

fn resolution_message(namespace: &Namespace<'_>) -> anyhow::Result<String> {
    let condition = namespace.wait_for_condition("demo", "ResolutionFailed")?;
    Ok(condition["message"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn a_package_that_no_catalog_has_is_named() -> anyhow::Result<()> {
    let namespace = Lab::shared()?.namespace("bad-package")?;
    ready(
        &namespace,
        &subscription("demo", "no-such-package", "stable", "catalog", namespace.name()),
    )?;
    let message = resolution_message(&namespace)?;
    assert!(message.contains("no-such-package"), "{message}");
    assert!(message.contains("constraints not satisfiable"), "{message}");
    Ok(())
}

#[test]
fn a_channel_that_the_package_lacks_is_named() -> anyhow::Result<()> {
    let namespace = Lab::shared()?.namespace("bad-channel")?;
    ready(
        &namespace,
        &subscription(
            "demo",
            "demo-operator",
            "no-such-channel",
            "catalog",
            namespace.name(),
        ),
    )?;
    let message = resolution_message(&namespace)?;
    assert!(
        message.contains("no-such-channel") && message.contains("demo-operator"),
        "{message}"
    );
    Ok(())
}

#[test]
fn a_catalog_image_that_cannot_be_pulled_is_named_in_the_catalogs_status() -> anyhow::Result<()> {
    let namespace = Lab::shared()?.namespace("bad-catalog-image")?;
    namespace.apply(&[catalog_source("catalog", "quay.io/nobody/no-such-catalog:v1")])?;
    let catalog = namespace.wait_for(
        "catalogsource",
        "catalog",
        "a message about the image",
        |object| text(object, "/status/message").contains("no-such-catalog"),
    )?;
    assert_ne!(catalog["status"]["connectionState"]["lastObservedState"], "READY");
    Ok(())
}

#[test]
fn no_operator_group_is_reported() -> anyhow::Result<()> {
    let namespace = Lab::shared()?.namespace("bad-no-group")?;
    namespace.apply(&[
        catalog_source("catalog", Lab::shared()?.demo_catalog()?),
        subscription("demo", "demo-operator", "stable", "catalog", namespace.name()),
    ])?;
    let message = resolution_message(&namespace)?;
    assert!(message.contains("OperatorGroup"), "{message}");
    // The suggested fix works: the group is added, the operator installs.
    namespace.apply(&[operator_group("group", &[namespace.name()])])?;
    namespace.wait_for_phase("demo-operator.v1.1.0", "Succeeded")?;
    let object = namespace.wait_for("subscription", "demo", "no failure reported", |object| {
        condition(object, "ResolutionFailed").is_none()
    })?;
    assert_eq!(object["status"]["installedCSV"], "demo-operator.v1.1.0");
    Ok(())
}

#[test]
fn two_operator_groups_are_reported_on_both_sides() -> anyhow::Result<()> {
    let namespace = Lab::shared()?.namespace("bad-two-groups")?;
    ready(
        &namespace,
        &subscription("demo", "demo-operator", "stable", "catalog", namespace.name()),
    )?;
    namespace.wait_for_phase("demo-operator.v1.1.0", "Succeeded")?;
    namespace.apply(&[operator_group("second", &[])])?;
    let csv = namespace.wait_for_phase("demo-operator.v1.1.0", "Failed")?;
    assert_eq!(csv["status"]["reason"], "TooManyOperatorGroups");
    namespace.wait_for(
        "operatorgroup",
        "second",
        "condition MultipleOperatorGroup",
        |object| {
            condition(object, "MultipleOperatorGroup").is_some_and(|condition| condition["status"] == "True")
        },
    )?;
    Lab::shared()?
        .kubectl()
        .run(&["delete", "operatorgroup", "second", "-n", namespace.name()])?;
    namespace.wait_for_phase("demo-operator.v1.1.0", "Succeeded")?;
    Ok(())
}

#[test]
fn a_subscription_that_is_corrected_recovers_by_itself() -> anyhow::Result<()> {
    let namespace = Lab::shared()?.namespace("bad-then-good")?;
    ready(
        &namespace,
        &subscription(
            "demo",
            "demo-operator",
            "no-such-channel",
            "catalog",
            namespace.name(),
        ),
    )?;
    resolution_message(&namespace)?;
    namespace.apply(&[subscription(
        "demo",
        "demo-operator",
        "stable",
        "catalog",
        namespace.name(),
    )])?;
    namespace.wait_for_phase("demo-operator.v1.1.0", "Succeeded")?;
    Ok(())
}
