//! An upgrade that changes the Deployment's selector: the old pods run until the new ones are ready, and are then deleted.

use std::path::Path;

use e2e::lab::{Lab, Namespace, catalog_source, operator_group, subscription};
use e2e::variant::{CSV_FILE, Variant};
use serde_json::Value;
use xtask::catalog::{Bundle, Entry, Package};
use xtask::kubectl::text;

/// Returns the variant in version 1.1.0, which replaces 1.0.0, with another pod label.
fn next_version(variant: &Variant, folder: &Path, strategy: &str) -> anyhow::Result<Variant> {
    let next = variant.copy_to(folder)?;
    let name = variant.package_name();
    next.edit(CSV_FILE, |text| {
        text.replace(&variant.csv(), &format!("{name}.v1.1.0"))
            .replace(
                "  version: 1.0.0\n",
                &format!("  version: 1.1.0\n  replaces: {name}.v1.0.0\n"),
            )
            .replace(&format!("app: {name}"), &format!("app: {name}-next"))
            .replace(
                "            replicas: 1\n",
                &format!("            replicas: 1\n{strategy}"),
            )
    })?;
    Ok(next)
}

fn package(variant: &Variant, home: &Path, next: &str) -> Package {
    let name = variant.package_name();
    let first = Entry {
        name: variant.csv(),
        ..Entry::default()
    };
    let second = Entry {
        name: format!("{name}.v1.1.0"),
        replaces: Some(variant.csv()),
        ..Entry::default()
    };
    Package {
        name: name.to_owned(),
        default_channel: "stable".to_owned(),
        channels: vec![("stable".to_owned(), vec![first, second])],
        bundles: [("first", "v1"), (next, "v2")]
            .map(|(folder, tag)| Bundle {
                folder: home.join(folder),
                image: variant.image(tag),
            })
            .to_vec(),
    }
}

/// Returns the names of the pods with a label that are not terminating.
fn pods(namespace: &Namespace<'_>, label: &str) -> anyhow::Result<Vec<String>> {
    Ok(with_label(&namespace.list("pod")?, label))
}

fn with_label(pods: &[Value], label: &str) -> Vec<String> {
    let with_label = pods.iter().filter(|pod| {
        text(pod, "/metadata/labels/app") == label && pod["metadata"]["deletionTimestamp"].is_null()
    });
    with_label
        .map(|pod| text(pod, "/metadata/name").to_owned())
        .collect()
}

/// Installs the first version and approves the upgrade; calls `look` repeatedly during the upgrade.
fn upgrade(
    name: &str,
    strategy: &str,
    look: impl Fn(&Namespace<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<(Namespace<'static>, Vec<Value>)> {
    let lab = Lab::shared()?;
    let home = lab.folder(name)?;
    let variant = Variant::new(name, &home.join("first"))?;
    next_version(&variant, &home.join("next"), strategy)?;
    let catalog = format!("olm.local/{name}-catalog:v1");
    lab.publish(
        &format!("{name}-images"),
        &[package(&variant, &home, "next")],
        &catalog,
    )?;
    let namespace = lab.namespace(name)?;
    let mut wanted = subscription("sub", name, "stable", "catalog", namespace.name());
    wanted["spec"]["installPlanApproval"] = "Manual".into();
    wanted["spec"]["startingCSV"] = variant.csv().into();
    namespace.apply(&[
        catalog_source("catalog", &catalog),
        operator_group("group", &[namespace.name()]),
        wanted,
    ])?;
    let plan = namespace.wait_for_plan(&variant.csv(), "RequiresApproval")?;
    namespace.approve(&plan)?;
    namespace.wait_for_phase(&variant.csv(), "Succeeded")?;
    let next = format!("{name}.v1.1.0");
    let plan = namespace.wait_for_plan(&next, "RequiresApproval")?;
    namespace.approve(&plan)?;
    let mut seen = Vec::new();
    lab.kubectl()
        .wait(&format!("{next} succeeds"), e2e::lab::PATIENCE, |_| {
            look(&namespace)?;
            let csv = namespace.get("csv", &next)?.unwrap_or_default();
            let phase = text(&csv, "/status/phase").to_owned();
            seen.push(csv);
            Ok(if phase == "Succeeded" { Ok(()) } else { Err(phase) })
        })?;
    Ok((namespace, seen))
}

/// Waits until no pod or ReplicaSet of the old version remains.
fn nothing_is_left(namespace: &Namespace<'_>, name: &str) -> anyhow::Result<()> {
    let lab = Lab::shared()?;
    lab.kubectl().wait("the old pods go", e2e::lab::PATIENCE, |_| {
        let sets = namespace.list("replicaset")?;
        let old = sets
            .iter()
            .filter(|set| text(set, "/metadata/labels/app") == name)
            .count();
        let pods = pods(namespace, name)?.len();
        Ok(if (old, pods) == (0, 0) {
            Ok(())
        } else {
            Err(format!("{old} ReplicaSets, {pods} pods"))
        })
    })?;
    assert_eq!(pods(namespace, &format!("{name}-next"))?.len(), 1);
    Ok(())
}

#[test]
fn the_old_pods_run_until_the_new_ones_are_available() -> anyhow::Result<()> {
    let name = "selector-change";
    let (namespace, seen) = upgrade(name, "", |namespace| {
        // A single list: between two, the old pod could disappear and the new one appear.
        let all = namespace.list("pod")?;
        let all = with_label(&all, name).len() + with_label(&all, &format!("{name}-next")).len();
        anyhow::ensure!(all > 0, "neither an old nor a new pod");
        Ok(())
    })?;
    nothing_is_left(&namespace, name)?;
    let messages = seen.iter().flat_map(|csv| {
        csv["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default()
    });
    let told = messages
        .into_iter()
        .any(|entry| text(&entry, "/message").contains("its selector changes from"));
    assert!(told, "the history tells of the replacement");
    Ok(())
}

#[test]
fn a_strategy_of_recreate_has_no_two_pods_side_by_side() -> anyhow::Result<()> {
    let name = "selector-recreate";
    let strategy = "            strategy:\n              type: Recreate\n";
    let (namespace, _) = upgrade(name, strategy, |namespace| {
        // A single list, as above.
        let all = namespace.list("pod")?;
        let (old, new) = (with_label(&all, name), with_label(&all, &format!("{name}-next")));
        anyhow::ensure!(old.is_empty() || new.is_empty(), "{old:?} beside {new:?}");
        Ok(())
    })?;
    nothing_is_left(&namespace, name)
}
