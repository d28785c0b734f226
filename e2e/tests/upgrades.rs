//! Upgrades through real channels: their path, their obstacles, and data that they must not lose.

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context as _, ensure};
use e2e::lab::{Lab, Namespace, PATIENCE, catalog_source, condition, operator_group, subscription};
use e2e::plugin;
use e2e::variant::{CSV_FILE, DEFINITION_FILE, Variant};
use serde_json::{Value, json};
use xtask::catalog::{Bundle, Entry, Package};
use xtask::kubectl::text;

const FIRST: &str = "1.0.0";

/// Releases of one operator, each in its own folder, and the catalog image made of them.
struct Releases {
    name: &'static str,
    first: Variant,
    entries: Vec<Entry>,
    bundles: Vec<Bundle>,
}

impl Releases {
    /// Creates the first release, after `change`.
    fn begin(
        name: &'static str,
        change: impl FnOnce(&Variant) -> anyhow::Result<()>,
    ) -> anyhow::Result<Self> {
        let lab = Lab::shared()?;
        // The operator's image is published with the demo.
        lab.demo_catalog()?;
        let home = lab.folder(name)?;
        let first = Variant::new(name, &home.join(FIRST))?;
        change(&first)?;
        let mut releases = Self {
            name,
            first,
            entries: Vec::new(),
            bundles: Vec::new(),
        };
        releases.note(&home, FIRST, Entry::default());
        Ok(releases)
    }

    /// Adds a release, after `change`, with the channel entry `entry`. Its ClusterServiceVersion has the same edges.
    fn add(
        &mut self,
        version: &str,
        entry: Entry,
        change: impl FnOnce(&Variant) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let home = xtask::workspace::root().join("target/e2e").join(self.name);
        let release = self.first.copy_to(&home.join(version))?;
        release.edit(CSV_FILE, |csv| {
            let replaces = entry.replaces.iter().map(|name| format!("  replaces: {name}\n"));
            let range = entry
                .skip_range
                .iter()
                .map(|range| format!("    olm.skipRange: '{range}'\n"));
            csv.replace(&self.csv(FIRST), &self.csv(version))
                .replace(
                    "  version: 1.0.0\n",
                    &format!("  version: {version}\n{}", replaces.collect::<String>()),
                )
                .replace(
                    "  annotations:\n",
                    &format!("  annotations:\n{}", range.collect::<String>()),
                )
        })?;
        change(&release)?;
        self.note(&home, version, entry);
        Ok(())
    }

    fn note(&mut self, home: &Path, version: &str, entry: Entry) {
        self.entries.push(Entry {
            name: self.csv(version),
            ..entry
        });
        self.bundles.push(Bundle {
            folder: home.join(version),
            image: self.first.image(&format!("v{version}")),
        });
    }

    fn csv(&self, version: &str) -> String {
        format!("{}.v{version}", self.name)
    }

    /// Returns a package with one channel of all releases.
    fn package(&self) -> Package {
        Package {
            name: self.name.to_owned(),
            default_channel: "stable".to_owned(),
            channels: vec![("stable".to_owned(), self.entries.clone())],
            bundles: self.bundles.clone(),
        }
    }

    /// Publishes them and subscribes to the operator; `change` is applied to the Subscription.
    fn subscribe(&self, change: impl FnOnce(&mut Value)) -> anyhow::Result<Namespace<'static>> {
        let lab = Lab::shared()?;
        let image = format!("olm.local/{}-catalog:v1", self.name);
        lab.publish(&format!("{}-images", self.name), &[self.package()], &image)?;
        let namespace = lab.namespace(self.name)?;
        let mut wanted = subscription("wanted", self.name, "stable", "catalog", namespace.name());
        change(&mut wanted);
        namespace.apply(&[
            catalog_source("catalog", &image),
            operator_group("group", &[namespace.name()]),
            wanted,
        ])?;
        Ok(namespace)
    }

    /// Approves the upgrade to `version` once it waits for that; returns its plan.
    fn approve_upgrade(&self, namespace: &Namespace<'_>, version: &str) -> anyhow::Result<String> {
        let next = namespace.wait_for_plan(&self.csv(version), "RequiresApproval")?;
        namespace.approve(&next)?;
        Ok(next)
    }

    fn install_first(&self, namespace: &Namespace<'_>) -> anyhow::Result<()> {
        let plan = namespace.wait_for_plan(&self.csv(FIRST), "RequiresApproval")?;
        namespace.approve(&plan)?;
        namespace.wait_for_phase(&self.csv(FIRST), "Succeeded")?;
        Ok(())
    }

    fn greeting(&self, name: &str) -> Value {
        json!({
            "apiVersion": format!("{}.example.com/v1", self.name), "kind": "Greeting",
            "metadata": {"name": name.to_lowercase()}, "spec": {"name": name},
        })
    }

    fn definition(&self) -> anyhow::Result<Value> {
        let name = self.first.definition();
        Lab::shared()?
            .kubectl()
            .get(&["crd", &name])?
            .with_context(|| format!("no definition {name}"))
    }
}

fn by_hand(wanted: &mut Value, first: &str) {
    wanted["spec"]["installPlanApproval"] = json!("Manual");
    wanted["spec"]["startingCSV"] = json!(first);
}

fn replaces(csv: &str) -> Entry {
    Entry {
        replaces: Some(csv.to_owned()),
        ..Entry::default()
    }
}

#[test]
fn a_skip_range_leads_past_a_release_in_one_upgrade() -> anyhow::Result<()> {
    let mut releases = Releases::begin("upgrades-range", |_| Ok(()))?;
    let (first, second) = (releases.csv(FIRST), releases.csv("1.1.0"));
    releases.add("1.1.0", replaces(&first), |_| Ok(()))?;
    let range = ">=1.0.0 <1.2.0";
    releases.add(
        "1.2.0",
        Entry {
            skip_range: Some(range.to_owned()),
            ..replaces(&second)
        },
        |_| Ok(()),
    )?;
    let namespace = releases.subscribe(|wanted| by_hand(wanted, &first))?;
    releases.install_first(&namespace)?;
    releases.approve_upgrade(&namespace, "1.2.0")?;
    let head = namespace.wait_for_phase(&releases.csv("1.2.0"), "Succeeded")?;
    ensure!(
        text(&head, "/spec/replaces") == first,
        "it replaces {}",
        head["spec"]["replaces"]
    );
    let plans = namespace.list("installplan")?;
    ensure!(
        plans.len() == 2,
        "the release between got a plan of its own: {plans:?}"
    );
    namespace.wait_for("subscription", "wanted", "to be at the head", |wanted| {
        text(wanted, "/status/installedCSV") == releases.csv("1.2.0")
            && text(wanted, "/status/state") == "AtLatestKnown"
    })?;
    Lab::shared()?
        .kubectl()
        .wait("the first release to go", PATIENCE, |_| {
            Ok(match namespace.get("csv", &first)? {
                None => Ok(()),
                Some(csv) => Err(csv["status"].to_string()),
            })
        })
}

#[test]
fn custom_resources_that_a_new_schema_does_not_take_hold_the_upgrade_until_they_fit() -> anyhow::Result<()> {
    let mut releases = Releases::begin("upgrades-schema", |_| Ok(()))?;
    let first = releases.csv(FIRST);
    releases.add("1.1.0", replaces(&first), |variant| {
        variant.edit(DEFINITION_FILE, |definition| {
            definition.replace(
                "description: Name of the greeted.\n",
                "description: Name of the greeted.\n                  maxLength: 4\n",
            )
        })
    })?;
    let namespace = releases.subscribe(|wanted| by_hand(wanted, &first))?;
    releases.install_first(&namespace)?;
    namespace.apply(&[releases.greeting("Ada"), releases.greeting("Grace")])?;
    let before = releases.definition()?;

    let plan = releases.approve_upgrade(&namespace, "1.1.0")?;
    let words = [&releases.first.definition(), "upgrades-schema/grace", "spec.name"];
    let told = namespace.wait_for("installplan", &plan, "what holds it", |plan| {
        let message = text(plan, "/status/message");
        words.iter().all(|word| message.contains(word))
    })?;
    let message = text(&told, "/status/message");
    ensure!(!message.contains("Grace"), "a value is told: {message}");
    ensure!(
        releases.definition()?["spec"] == before["spec"],
        "the definition was changed"
    );
    let old = namespace.wait_for_phase(&first, "Succeeded")?;
    ensure!(old["metadata"]["deletionTimestamp"].is_null());

    let definition = releases.first.definition();
    let delete = ["delete", &definition, "grace", "-n", namespace.name()];
    Lab::shared()?.kubectl().run(&delete)?;
    namespace.wait_for_phase(&releases.csv("1.1.0"), "Succeeded")?;
    ensure!(
        namespace.get(&definition, "ada")?.is_some(),
        "what fits is still there"
    );
    ensure!(releases.definition()?["spec"] != before["spec"]);
    Ok(())
}

#[test]
fn a_definition_keeps_the_versions_in_which_objects_are_stored() -> anyhow::Result<()> {
    let mut releases = Releases::begin("upgrades-stored", |_| Ok(()))?;
    let first = releases.csv(FIRST);
    releases.add("1.1.0", replaces(&first), |variant| {
        variant.edit(CSV_FILE, |csv| {
            csv.replace("        version: v1\n", "        version: v2\n")
        })?;
        variant.edit(DEFINITION_FILE, |definition| {
            definition.replace("    - name: v1\n", "    - name: v2\n")
        })
    })?;
    let namespace = releases.subscribe(|wanted| by_hand(wanted, &first))?;
    releases.install_first(&namespace)?;
    namespace.apply(&[releases.greeting("Ada")])?;
    let plan = releases.approve_upgrade(&namespace, "1.1.0")?;
    // It waits until the stored objects have been migrated, and reports that.
    let waits = namespace.wait_for("installplan", &plan, "what it waits for", |plan| {
        text(plan, "/status/message").contains("risk of data loss")
    })?;
    let message = text(&waits, "/status/message");
    ensure!(
        message.contains(&releases.first.definition()) && message.contains("v1"),
        "{message}"
    );
    let stored = &releases.definition()?["spec"]["versions"];
    ensure!(
        stored[0]["name"] == "v1" && stored.as_array().map(Vec::len) == Some(1),
        "{stored}"
    );
    namespace.wait_for_phase(&first, "Succeeded")?;
    ensure!(
        namespace.get(&releases.first.definition(), "ada")?.is_some(),
        "the object is gone"
    );
    let told = namespace.wait_for_condition("wanted", "InstallPlanPending")?;
    ensure!(told["status"] == "True", "{told}");
    Ok(())
}

/// Runs the plugin in `folder`, asserts its exit code, and returns its standard output.
fn operator(namespace: &Namespace<'_>, folder: &Path, words: &[&str], code: i32) -> anyhow::Result<String> {
    let output = Lab::shared()?
        .cluster()
        .command(plugin::program()?)
        .args(words)
        .args(["-n", namespace.name()])
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .context("cannot run the plugin")?;
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.code() == Some(code),
        "{words:?}: {}\n{told}{errors}",
        output.status
    );
    Ok(told)
}

/// As the guide `when-an-upgrade-fails.md` shows it.
#[test]
fn an_upgrade_that_fails_is_rolled_back_and_held_until_it_is_released() -> anyhow::Result<()> {
    const MISSING: &str = "olm.local/upgrades-failed-missing:1.1.0";
    let mut releases = Releases::begin("upgrades-failed", |_| Ok(()))?;
    let (first, second) = (releases.csv(FIRST), releases.csv("1.1.0"));
    releases.add("1.1.0", replaces(&first), |variant| {
        variant.edit(CSV_FILE, |csv| {
            csv.replace(
                "                    image: olm.local/demo-operator:1.0.0\n",
                &format!("                    image: {MISSING}\n"),
            )
            .replace(
                "            replicas: 1\n",
                "            progressDeadlineSeconds: 20\n            replicas: 1\n",
            )
        })
    })?;
    let folder = Lab::shared()?.folder("upgrades-failed-here")?;
    let namespace = releases.subscribe(|wanted| by_hand(wanted, &first))?;
    let run = |words: &[&str], code| operator(&namespace, &folder, words, code);
    releases.install_first(&namespace)?;
    namespace.apply(&[releases.greeting("Ada")])?;
    namespace.wait_for_plan(&second, "RequiresApproval")?;
    let listed = run(&["list"], 0)?;
    ensure!(listed.contains("Pinned"), "{listed}");
    releases.approve_upgrade(&namespace, "1.1.0")?;
    namespace.wait_for("csv", &second, "phase Failed with its cause", |csv| {
        text(csv, "/status/phase") == "Failed" && text(csv, "/status/message").contains(MISSING)
    })?;

    // All commands name the cause and the way back.
    let back = format!(
        "or go back to {first}: kubectl operator rollback wanted -n {}",
        namespace.name()
    );
    for command in [&["status", "wanted"][..], &["explain", "wanted"], &["doctor"]] {
        let told = run(command, 2)?;
        ensure!(
            told.contains(MISSING) && told.contains(&back),
            "{command:?}: {told}"
        );
    }

    // The fields of the definition are unknown if the catalog has only the image of the bundle.
    let rollback = [
        "rollback",
        "wanted",
        "--yes",
        "--accept-data-loss",
        "--timeout",
        "5m",
    ];
    let told = run(&rollback, 0)?;
    ensure!(told.contains(&format!("is back at {first}")), "{told}");
    namespace.wait_for_phase(&first, "Succeeded")?;
    ensure!(
        namespace.get("csv", &second)?.is_none(),
        "the failed version is gone"
    );
    ensure!(
        namespace.get(&releases.first.definition(), "ada")?.is_some(),
        "the custom resource is gone"
    );
    let listed = run(&["list"], 0)?;
    ensure!(listed.contains("Held"), "{listed}");
    run(&["status", "wanted"], 0)?;

    run(&["unhold", "wanted"], 0)?;
    namespace.wait_for_plan(&second, "RequiresApproval")?;
    Ok(())
}

/// A package of another catalog is installed for the API it provides; that catalog is deleted, and restored with a newer release.
#[test]
fn what_another_catalog_offers_comes_along_and_outlives_it() -> anyhow::Result<()> {
    let lab = Lab::shared()?;
    let needed = Releases::begin("upgrades-needed", |_| Ok(()))?;
    let needs = Releases::begin("upgrades-needs", |variant| {
        variant.edit(CSV_FILE, |csv| {
            csv.replace(
                "  relatedImages:\n",
                "    required:\n      - name: greetings.upgrades-needed.example.com\n        version: v1\n        kind: Greeting\n  relatedImages:\n",
            )
        })
    })?;
    let other = |version: &str| format!("olm.local/upgrades-needed-catalog:{version}");
    lab.publish("upgrades-needed-images", &[needed.package()], &other("v1"))?;
    let home = lab.namespace("upgrades-needs")?;
    home.apply(&[catalog_source("other", &other("v1"))])?;
    let wanted = needs_subscription(&needs, &home)?;
    home.apply(&[operator_group("group", &[home.name()]), wanted])?;
    home.wait_for_phase(&needs.csv(FIRST), "Succeeded")?;
    home.wait_for_phase(&needed.csv(FIRST), "Succeeded")?;
    let generated = home.list("subscription")?;
    let generated = generated
        .iter()
        .find(|found| text(found, "/spec/name") == needed.name)
        .context("no Subscription was made for the dependency")?;
    ensure!(
        text(generated, "/spec/source") == "other",
        "{}",
        generated["spec"]
    );
    let generated = text(generated, "/metadata/name").to_owned();

    lab.kubectl()
        .run(&["delete", "catsrc", "other", "-n", home.name()])?;
    let told = home.wait_for_condition(&generated, "CatalogSourcesUnhealthy")?;
    ensure!(text(&told, "/message").contains("other"), "{told}");
    for csv in [needs.csv(FIRST), needed.csv(FIRST)] {
        home.wait_for_phase(&csv, "Succeeded")?;
    }

    let mut newer = needed;
    let first = newer.csv(FIRST);
    newer.add("1.1.0", replaces(&first), |_| Ok(()))?;
    lab.publish("upgrades-needed-images", &[newer.package()], &other("v2"))?;
    home.apply(&[catalog_source("other", &other("v2"))])?;
    home.wait_for_phase(&newer.csv("1.1.0"), "Succeeded")?;
    home.wait_for(
        "subscription",
        &generated,
        "its catalog to be well again",
        |found| condition(found, "CatalogSourcesUnhealthy").is_none_or(|told| told["status"] == "False"),
    )?;
    Ok(())
}

/// Publishes the dependent's own catalog and returns its Subscription.
fn needs_subscription(needs: &Releases, home: &Namespace<'_>) -> anyhow::Result<Value> {
    let image = "olm.local/upgrades-needs-catalog:v1";
    Lab::shared()?.publish("upgrades-needs-images", &[needs.package()], image)?;
    home.apply(&[catalog_source("catalog", image)])?;
    Ok(subscription(
        "wanted",
        needs.name,
        "stable",
        "catalog",
        home.name(),
    ))
}
