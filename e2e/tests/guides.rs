//! The guides of `docs/guides` work from top to bottom on a cluster with OLM: each of their commands is run and prints the shown
//! output.
//!
//! The requirements of a guide exist at its start: `kubectl`, `kubectl operator` and `opm`, a kubeconfig, the catalog with the
//! demo operator as `CATALOG_IMAGE`, and a writable registry as `REGISTRY`. The module `e2e::guide` describes the marks in a
//! guide.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context as _, anyhow, ensure};
use e2e::guide;
use e2e::lab::Lab;
use e2e::plugin;
use e2e::terminal::Terminal;
use e2e::trial::Trial;
use xtask::workspace;

/// Guides that this program runs, with the namespaces they create.
const TRIED: [(&str, &[&str]); 10] = [
    ("install-an-operator.md", &["greetings"]),
    ("approve.md", &["approval"]),
    ("multi-tenancy.md", &["team-red", "team-blue"]),
    ("who-may-install.md", &["team-front", "team-back"]),
    ("debug-a-subscription.md", &["stuck"]),
    ("upgrade-graphs.md", &["shop"]),
    ("dependencies.md", &[]),
    ("global-operators.md", &["clock"]),
    ("catalogs-in-ci.md", &["ci-bell"]),
    ("upgrade-policies.md", &["policies"]),
];
/// Other guides, and the test that runs them, or a text of the guide if its commands need the reader's own cluster.
const ELSEWHERE: [(&str, &str); 10] = [
    ("catalogs.md", "crates/opm/tests/guides/main.rs"),
    ("install-olm.md", "e2e/tests/chart/main.rs"),
    ("move-from-upstream.md", "e2e/tests/takeover.rs"),
    ("olm-v1.md", "e2e/tests/chart/extensions.rs"),
    ("operators.md", "e2e/tests/plugin.rs"),
    ("plan-and-explain.md", "crates/opm/tests/guides/main.rs"),
    ("troubleshooting.md", "e2e/tests/bad_input.rs"),
    ("ui.md", "e2e/tests/ui.rs"),
    ("upgrade-olm.md", "e2e/tests/chart/main.rs"),
    ("when-an-upgrade-fails.md", "e2e/tests/upgrades.rs"),
];

/// Registry of a reader. The cluster's registry answers for every name.
const REGISTRY: &str = "registry.example.com/guides";
/// Timeout of one command. The deletion of a namespace is slow while others with hundreds of kinds are deleted, too.
const PATIENCE: Duration = Duration::from_secs(600);

/// Returns a folder for `PATH` with the programs of the guides, created once for all of them.
fn tools() -> anyhow::Result<&'static Path> {
    static TOOLS: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let made = TOOLS.get_or_init(|| make_tools().map_err(|error| format!("{error:#}")));
    made.as_deref().map_err(|error| anyhow!("{error}"))
}

fn make_tools() -> anyhow::Result<PathBuf> {
    let lab = Lab::shared()?;
    let folder = lab.folder("guides-tools")?;
    symlink(plugin::program()?, folder.join("kubectl-operator")).context("cannot link the plugin")?;
    // An image of this program needs a static build, which a debug build is not.
    let script = format!(
        "#!/bin/sh\ncase \"$1 $2 $3\" in\n\"alpha image catalog\") shift 3; exec {opm} alpha image catalog --opm-image {image} \"$@\" ;;\n\
         esac\nexec {opm} \"$@\"\n",
        opm = lab.opm().program().display(),
        image = lab.opm_image().display(),
    );
    let opm = folder.join("opm");
    fs::write(&opm, script)?;
    fs::set_permissions(&opm, fs::Permissions::from_mode(0o755))?;
    lab.demo_catalog()?;
    Ok(folder)
}

fn guides() -> PathBuf {
    workspace::root().join("docs/guides")
}

/// Namespaces of a guide, deleted before and after it.
struct Namespaces(&'static [&'static str]);

impl Namespaces {
    fn cleared(names: &'static [&'static str]) -> anyhow::Result<Self> {
        delete(names, "--wait=true")?;
        Ok(Self(names))
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        // Also after a failure: a remaining operator would conflict with others.
        let _ = delete(self.0, "--wait=false");
    }
}

fn delete(names: &[&str], wait: &str) -> anyhow::Result<()> {
    if names.is_empty() {
        return Ok(());
    }
    let words = ["delete", "namespace", "--ignore-not-found", wait];
    Lab::shared()?.kubectl().run(&[&words[..], names].concat())?;
    Ok(())
}

/// Runs all commands of a guide. The output is kept under `target/e2e`, also for authors of guides.
fn try_guide(name: &str) -> anyhow::Result<()> {
    let (_, namespaces) = TRIED
        .iter()
        .find(|(tried, _)| *tried == name)
        .with_context(|| format!("{name} is not among the guides that are tried"))?;
    let text = fs::read_to_string(guides().join(name)).with_context(|| format!("cannot read {name}"))?;
    let guide = guide::read(&text).map_err(|error| anyhow!("docs/guides/{name}: {error}"))?;
    ensure!(!guide.commands.is_empty(), "docs/guides/{name} has no command");
    for (line, reason) in &guide.not_run {
        println!("not run: docs/guides/{name}, line {line}: {reason}");
    }

    let lab = Lab::shared()?;
    let tools = tools()?;
    let _namespaces = Namespaces::cleared(namespaces)?;
    let folder = lab.folder(&format!("guide-{}", name.trim_end_matches(".md")))?;
    let mut terminal = Terminal::start(lab.cluster().command("bash"), &folder)?;
    let environment = format!(
        "export PATH=\"{}:$PATH\" CATALOG_IMAGE={} REGISTRY={REGISTRY} OPM_REGISTRY_CONFIG={}\n",
        tools.display(),
        lab.demo_catalog()?,
        lab.cluster().registry_config().display()
    );
    terminal.run(&environment, PATIENCE)?;

    let trial = Trial::of(&format!("docs/guides/{name}"), &guide, &mut terminal, PATIENCE);
    fs::write(folder.with_extension("txt"), &trial.transcript)?;
    ensure!(
        trial.failures.is_empty(),
        "{} of {} commands are not as shown\n\n{}",
        trial.failures.len(),
        guide.commands.len(),
        trial.failures.join("\n")
    );
    // A guide deletes the namespaces it creates.
    let mut made: Vec<&str> = trial.namespaces().collect();
    made.sort_unstable();
    let mut known = namespaces.to_vec();
    known.sort_unstable();
    ensure!(made == known, "docs/guides/{name} makes the namespaces {made:?}");
    for namespace in made {
        let left = lab.kubectl().get(&["namespace", namespace])?;
        ensure!(left.is_none(), "docs/guides/{name} leaves namespace {namespace}");
    }
    Ok(())
}

#[test]
fn pkg_004_the_guide_to_installing_works() -> anyhow::Result<()> {
    try_guide("install-an-operator.md")
}

#[test]
fn pkg_004_the_guide_to_approval_works() -> anyhow::Result<()> {
    try_guide("approve.md")
}

#[test]
fn the_guide_to_several_teams_works() -> anyhow::Result<()> {
    try_guide("multi-tenancy.md")
}

#[test]
fn sub_010_arch_016_mt_001_the_guide_to_who_may_install_works() -> anyhow::Result<()> {
    try_guide("who-may-install.md")
}

#[test]
fn pkg_006_the_guide_to_debugging_works() -> anyhow::Result<()> {
    try_guide("debug-a-subscription.md")
}

#[test]
fn the_guide_to_upgrade_graphs_works() -> anyhow::Result<()> {
    try_guide("upgrade-graphs.md")
}

#[test]
fn pkg_005_the_guide_to_dependencies_works() -> anyhow::Result<()> {
    try_guide("dependencies.md")
}

#[test]
fn pkg_006_the_guide_to_global_operators_works() -> anyhow::Result<()> {
    try_guide("global-operators.md")
}

/// `opm` renders, validates, packs and pushes its catalog, which runs in the cluster, and its operator is installed from it. The
/// test `opm_002` shows that an image of the generated Dockerfile serves the same.
#[test]
fn pkg_007_opm_006_the_guide_to_catalogs_in_ci_works() -> anyhow::Result<()> {
    try_guide("catalogs-in-ci.md")
}

#[test]
fn the_guide_to_upgrade_policies_works() -> anyhow::Result<()> {
    try_guide("upgrade-policies.md")
}

#[test]
fn no_guide_is_left_out() -> anyhow::Result<()> {
    let mut found = Vec::new();
    for entry in fs::read_dir(guides())? {
        found.push(entry?.file_name().to_string_lossy().into_owned());
    }
    found.sort();
    let here = TRIED.iter().map(|(name, _)| *name);
    for (name, place) in ELSEWHERE {
        let text = fs::read_to_string(workspace::root().join(place))
            .with_context(|| format!("cannot read {place}"))?;
        ensure!(
            text.contains(name),
            "{place} does not speak of docs/guides/{name}"
        );
    }
    let elsewhere = ELSEWHERE.iter().map(|(name, _)| *name);
    let mut known: Vec<&str> = here.chain(elsewhere).collect();
    known.sort_unstable();
    assert_eq!(found, known);
    Ok(())
}
