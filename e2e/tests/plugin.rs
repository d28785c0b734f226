//! `kubectl operator` on a live cluster: its predictions come true. The tests run the commands of `docs/guides/operators.md`.

use std::process::{Output, Stdio};

use anyhow::Context as _;
use e2e::demo::{FIRST, SECOND, greeting, install};
use e2e::lab::{Lab, Namespace, subscription};
use e2e::plugin;
use serde_json::{Value, json};
use xtask::demo::PACKAGE;

fn operator(namespace: &Namespace<'_>, arguments: &[&str]) -> anyhow::Result<Output> {
    Lab::shared()?
        .cluster()
        .command(plugin::program()?)
        .args(arguments)
        .args(["-n", namespace.name()])
        .stdin(Stdio::null())
        .output()
        .context("cannot run the plugin")
}

/// Returns its standard output and asserts that the exit code is `code`.
fn stdout_of(output: &Output, code: i32) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{text}{errors}");
    text
}

/// Returns the names of the ClusterServiceVersions that will be installed, in order.
fn foretold(namespace: &Namespace<'_>) -> anyhow::Result<Vec<String>> {
    let plan: Value = serde_json::from_str(&stdout_of(&operator(namespace, &["plan", "-o", "json"])?, 0))?;
    let install = plan["install"].as_array().context("no list of installs")?;
    Ok(install
        .iter()
        .map(|entry| entry["name"].as_str().unwrap_or_default().to_owned())
        .collect())
}

#[test]
fn what_is_foretold_happens_and_what_holds_it_up_is_explained() -> anyhow::Result<()> {
    let namespace = Lab::shared()?.namespace("plugin")?;
    install(&namespace, &[namespace.name()], |wanted| {
        wanted["spec"]["installPlanApproval"] = json!("Manual");
        wanted["spec"]["startingCSV"] = json!(FIRST);
    })?;
    let first_plan = namespace.wait_for_plan(FIRST, "RequiresApproval")?;
    assert_eq!(foretold(&namespace)?, [FIRST, SECOND]);
    let text = stdout_of(&operator(&namespace, &["plan"])?, 0);
    assert!(text.contains("approve"), "{text}");

    namespace.approve(&first_plan)?;
    namespace.wait_for_phase(FIRST, "Succeeded")?;
    let second_plan = namespace.wait_for_plan(SECOND, "RequiresApproval")?;
    assert_eq!(foretold(&namespace)?, [SECOND]);
    namespace.approve(&second_plan)?;
    namespace.wait_for_phase(SECOND, "Succeeded")?;
    namespace.wait_for("subscription", "demo", "AtLatestKnown", |object| {
        object["status"]["state"] == "AtLatestKnown"
    })?;
    assert_eq!(foretold(&namespace)?, [""; 0]);
    let text = stdout_of(&operator(&namespace, &["explain"])?, 0);
    assert!(text.contains(SECOND), "{text}");

    let missing = subscription("other", "nothing-like-it", "stable", "catalog", namespace.name());
    namespace.apply(&[missing])?;
    let condition = namespace.wait_for_condition("other", "ResolutionFailed")?;
    let text = stdout_of(&operator(&namespace, &["explain"])?, 2);
    let message = condition["message"].as_str().unwrap_or_default();
    let cause = "no catalog offers package nothing-like-it";
    assert!(message.contains(cause), "{message}");
    assert!(text.contains(cause), "{text}");
    Ok(())
}

/// A catalog is added, an operator installed, approved, upgraded and uninstalled, by commands alone.
#[test]
fn an_operator_is_installed_upgraded_and_uninstalled_by_commands() -> anyhow::Result<()> {
    let namespace = Lab::shared()?.namespace("plugin-life")?;
    let image = Lab::shared()?.demo_catalog()?;
    let run = |words: &[&str], code| -> anyhow::Result<String> {
        Ok(stdout_of(&operator(&namespace, words)?, code))
    };
    run(&["catalog", "add", "catalog", image, "--timeout", "5m"], 0)?;
    let catalogs = run(&["catalog", "list"], 0)?;
    assert!(catalogs.contains("READY"), "{catalogs}");
    run(&["catalog", "add", "catalog", image], 1)?;

    let wanted = [
        "install",
        PACKAGE,
        "--name",
        "demo",
        "--catalog",
        "catalog",
        "--version",
        "1.0.0",
    ];
    run(&wanted, 1)?;
    // Same as upstream's plugin: with Manual, the command approves the first plan and waits for it.
    let with_group = [&wanted[..], &["-C", "-w", namespace.name(), "--timeout", "5m"]].concat();
    let text = run(&with_group, 0)?;
    assert!(
        text.contains(&format!("installed; installed csv is {FIRST:?}")),
        "{text}"
    );
    namespace.wait_for_plan(SECOND, "RequiresApproval")?;
    namespace.wait_for("subscription", "demo", "the upgrade that waits", |object| {
        object["status"]["state"] == "UpgradePending" && object["status"]["currentCSV"] == SECOND
    })?;
    let listed = run(&["list"], 0)?;
    assert!(listed.contains("Pinned"), "{listed}");
    // By its package; without a terminal there is no prompt.
    run(&["upgrade", PACKAGE, "--dry-run"], 0)?;
    let text = run(&["upgrade", PACKAGE, "--timeout", "5m"], 0)?;
    assert!(
        text.contains(&format!("upgraded; installed csv is {SECOND:?}")),
        "{text}"
    );
    run(&["status", "demo", "--watch", "--timeout", "5m"], 0)?;
    run(&["upgrade", PACKAGE], 1)?;
    sick_and_well(&namespace)?;
    let listed: Value = serde_json::from_str(&run(&["list", "-o", "json"], 0)?)?;
    let row = &listed["operators"][0];
    assert_eq!(
        (&row["state"], &row["installedCSV"]),
        (&json!("Ready"), &json!(SECOND)),
        "{listed}"
    );
    let tree = run(&["status", "demo"], 0)?;
    for part in ["InstallPlan", "ClusterServiceVersion", "Deployment", "Pod"] {
        assert!(tree.contains(part), "{tree}");
    }

    namespace.apply(&[greeting()])?;
    let operands = run(&["list-operands", PACKAGE], 0)?;
    assert!(
        operands.contains("Greeting") && operands.contains("ada"),
        "{operands}"
    );
    let shown = run(&["uninstall", PACKAGE], 1)?;
    assert!(
        shown.contains("leaves   CustomResourceDefinition greetings.demo.example.com"),
        "{shown}"
    );
    assert!(namespace.get("csv", SECOND)?.is_some());
    run(&["uninstall", PACKAGE, "-s", "ignore", "--timeout", "5m"], 0)?;
    assert!(namespace.own_csvs()?.is_empty());
    assert!(namespace.get("subscription", "demo")?.is_none());
    assert!(
        namespace.get("greetings.demo.example.com", "ada")?.is_some(),
        "custom resources stay"
    );
    run(&["catalog", "remove", "catalog"], 0)?;
    assert!(namespace.get("catalogsource", "catalog")?.is_none());
    Ok(())
}

/// The installed operator is drawn and reported as healthy, a fault is reported, and a support bundle contains no secret.
fn sick_and_well(namespace: &Namespace<'_>) -> anyhow::Result<()> {
    let name = namespace.name();
    let graph: Value = serde_json::from_str(&stdout_of(
        &operator(namespace, &["graph", PACKAGE, "-o", "json"])?,
        0,
    ))?;
    let stops = graph["channels"]
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(|lane| lane["entries"].as_array().into_iter().flatten());
    let installed: Vec<&str> = stops
        .filter(|stop| stop["installedBy"].is_array())
        .filter_map(|stop| stop["name"].as_str())
        .collect();
    assert!(installed.contains(&SECOND), "{graph}");
    let picture = stdout_of(&operator(namespace, &["graph", PACKAGE, "-o", "svg"])?, 0);
    assert!(
        picture.starts_with("<svg") && picture.contains(SECOND),
        "{picture}"
    );

    let said = |namespace: &Namespace<'_>| -> anyhow::Result<Vec<String>> {
        let output = operator(namespace, &["doctor", "-o", "json"])?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        let diagnosis: Value = serde_json::from_str(&text).with_context(|| format!("{text}{errors}"))?;
        let findings = diagnosis["findings"].as_array().context("no findings")?;
        // Copies and OperatorGroups of other tests affect this namespace.
        let kinds = ["Subscription", "CatalogSource", "InstallPlan"];
        let is_ours = |object: &str| {
            kinds
                .iter()
                .any(|kind| object.starts_with(&format!("{kind} {name}/")))
        };
        let here = findings
            .iter()
            .filter(|finding| finding["object"].as_str().is_some_and(is_ours));
        Ok(here.map(ToString::to_string).collect())
    };
    assert_eq!(said(namespace)?, [""; 0]);
    namespace.apply(&[subscription("twin", PACKAGE, "stable", "no-such-catalog", name)])?;
    let sick = said(namespace)?.join("\n");
    assert!(sick.contains("no-such-catalog does not exist"), "{sick}");

    let hidden = "h1dden-in-a-secret";
    namespace.apply(&[
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": name, "name": "hidden"},
        "stringData": {"password": hidden}}),
    ])?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("bundle.tar.gz");
    let path = file.to_str().context("a path that is no text")?;
    // Exit code 2 if some objects may not be read.
    let output = operator(namespace, &["support-bundle", "--output", path])?;
    assert!(
        matches!(output.status.code(), Some(0 | 2)),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    stdout_of(&operator(namespace, &["support-bundle", "--output", path])?, 1);
    let unpacked = std::process::Command::new("tar").args(["-xzOf", path]).output()?;
    let text = String::from_utf8_lossy(&unpacked.stdout);
    for part in [SECOND, "catalog-operator", "\"notRead\""] {
        assert!(
            text.contains(part),
            "the bundle has no {part}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    assert!(!text.contains(hidden));
    let kubectl = Lab::shared()?.kubectl();
    kubectl.run(&["delete", "subscription/twin", "secret/hidden", "-n", name])?;
    Ok(())
}
