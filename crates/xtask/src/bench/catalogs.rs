//! `cargo xtask bench catalogs`: compares the resources that `opm` and upstream's program need for the corpus catalog (targets P9
//! to P13).
//!
//! Upstream's figures were recorded on a machine with two cores; with `--upstream` its `opm` is measured in the same run. Memory
//! comes from `/proc`, polled while the program runs. A missed target is printed and is no error.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use super::memory::field;
use crate::args::CatalogBenchOptions;
use crate::progress::Progress;
use crate::test::shared_folder;
use crate::workspace;

/// Duration of each load, in seconds.
const LOAD: u64 = 4;
const PORT: &str = "50971";

/// Figures of one program.
#[derive(Debug, Clone, Default)]
struct Figures {
    cold: Run,
    warm: Run,
    /// Anonymous and resident memory after ListBundles, in MiB.
    serving: (f64, f64),
    list_bundles: f64,
    get_package: f64,
    head: f64,
    list_packages: f64,
    validate: Run,
    render: Run,
}

/// One run of a program.
#[derive(Debug, Clone, Copy, Default)]
struct Run {
    took: Duration,
    /// Peak of resident memory, in MiB.
    peak: f64,
}

/// Builds the programs, measures them and prints the table.
///
/// # Errors
/// A program cannot be built, or a measured operation fails.
pub(super) fn run(options: &CatalogBenchOptions) -> anyhow::Result<ExitCode> {
    let progress = Progress::start();
    // The folder is missing if cargo builds into another one.
    fs::create_dir_all(workspace::root().join("target")).context("cannot make target/")?;
    let catalog = match &options.catalog {
        Some(catalog) => catalog.clone(),
        None => corpus()?,
    };
    let (opm, load) = progress.stage("build opm and its load, optimised", || build(options))?;
    // Reads the files into the page cache, so that disk reads are not measured.
    read_all(&catalog)?;
    let ours = progress.stage("measure opm", || measure(&opm, &load, &catalog, options.runs))?;
    let theirs = match &options.upstream {
        Some(upstream) => Some(progress.stage("measure upstream's opm", || {
            measure(upstream, &load, &catalog, options.runs)
        })?),
        None => None,
    };
    print_table(&ours, theirs.as_ref());
    Ok(ExitCode::SUCCESS)
}

/// Returns the archive of the corpus catalog, which may not exist.
fn archive() -> PathBuf {
    shared_folder().join("corpus/community-fbc.tar.xz")
}

/// Returns the folder that the corpus catalog is unpacked to.
fn unpacked() -> PathBuf {
    workspace::root().join("target/corpus/fbc")
}

/// Returns true if the corpus catalog is on this machine.
pub(super) fn has_corpus() -> bool {
    unpacked().is_dir() || archive().is_file()
}

/// Returns the folder of the corpus catalog, which the first call unpacks.
///
/// # Errors
/// It is not on this machine, or cannot be unpacked.
pub(super) fn corpus() -> anyhow::Result<PathBuf> {
    let catalog = unpacked();
    if catalog.is_dir() {
        return Ok(catalog);
    }
    let archive = archive();
    if !archive.is_file() {
        bail!(
            "{} does not exist: name a catalog with --catalog, or set OLM_SHARED",
            archive.display()
        );
    }
    fs::create_dir_all(&catalog).with_context(|| format!("cannot make {}", catalog.display()))?;
    let status = Command::new("tar")
        .arg("-xf")
        .arg(&archive)
        .arg("-C")
        .arg(&catalog)
        .status()
        .context("cannot run tar")?;
    if !status.success() {
        bail!(
            "tar failed on {}; remove {} and try again",
            archive.display(),
            catalog.display()
        );
    }
    Ok(catalog)
}

fn build(options: &CatalogBenchOptions) -> anyhow::Result<(PathBuf, PathBuf)> {
    let release = workspace::target().join("release");
    let cargo = |arguments: &[&str]| -> anyhow::Result<()> {
        let status = workspace::cargo()
            .args(arguments)
            .status()
            .context("cannot run cargo")?;
        if !status.success() {
            bail!("cargo {} failed", arguments.join(" "));
        }
        Ok(())
    };
    cargo(&["build", "--release", "-p", "opm", "--example", "registry_load"])?;
    let load = release.join("examples/registry_load");
    if let Some(opm) = &options.opm {
        return Ok((opm.clone(), load));
    }
    cargo(&["build", "--release", "-p", "opm"])?;
    Ok((release.join("opm"), load))
}

fn read_all(folder: &Path) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            read_all(&path)?;
        } else {
            fs::read(&path)?;
        }
    }
    Ok(())
}

fn measure(opm: &Path, load: &Path, catalog: &Path, runs: usize) -> anyhow::Result<Figures> {
    let cache = workspace::root().join("target/bench-cache");
    if cache.exists() {
        fs::remove_dir_all(&cache)?;
    }
    let catalog = catalog.to_string_lossy().into_owned();
    let cache_flag = format!("--cache-dir={}", cache.display());
    let best = |run: &dyn Fn() -> anyhow::Result<Run>| -> anyhow::Result<Run> {
        let mut found = Vec::new();
        for _ in 0..runs.max(1) {
            found.push(run()?);
        }
        found.sort_by_key(|run| run.took);
        Ok(found[found.len() / 2])
    };
    let cold = best(&|| first_answer(opm, load, &["serve", &catalog, "--port", PORT, "--pprof-addr="]))?;
    complete(
        opm,
        &["serve", &catalog, &cache_flag, "--cache-only", "--pprof-addr="],
    )?;
    let serve = ["serve", &catalog, &cache_flag, "--port", PORT, "--pprof-addr="];
    let warm = best(&|| first_answer(opm, load, &serve))?;
    let mut figures = Figures {
        cold,
        warm,
        validate: best(&|| complete(opm, &["validate", &catalog]))?,
        render: best(&|| complete(opm, &["render", &catalog]))?,
        ..Figures::default()
    };
    let server = Server::start(opm, &serve)?;
    wait_for_answer(load)?;
    figures.list_bundles = rate(load, "list-bundles", 2)?;
    figures.serving = (server.memory("RssAnon"), server.memory("VmRSS"));
    figures.get_package = rate(load, "get-package", 8)?;
    figures.head = rate(load, "head", 8)?;
    figures.list_packages = rate(load, "list-packages", 2)?;
    Ok(figures)
}

/// A server process that is killed when dropped.
struct Server(Child);

impl Server {
    fn start(opm: &Path, arguments: &[&str]) -> anyhow::Result<Self> {
        let child = Command::new(opm)
            .args(arguments)
            .args(["--termination-log", "/dev/null"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot run {}", opm.display()))?;
        Ok(Self(child))
    }

    fn memory(&self, field: &str) -> f64 {
        memory(self.0.id(), field)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns a field of a process's status in MiB; 0 if the process has exited.
fn memory(process: u32, name: &str) -> f64 {
    field(Path::new(&format!("/proc/{process}")), name).unwrap_or_default()
}

fn wait_for_answer(load: &Path) -> anyhow::Result<()> {
    let address = format!("127.0.0.1:{PORT}");
    let status = Command::new(load)
        .args(["first", &address])
        .status()
        .context("cannot run the load")?;
    if !status.success() {
        bail!("opm does not answer");
    }
    Ok(())
}

fn first_answer(opm: &Path, load: &Path, arguments: &[&str]) -> anyhow::Result<Run> {
    let started = Instant::now();
    let server = Server::start(opm, arguments)?;
    wait_for_answer(load)?;
    Ok(Run {
        took: started.elapsed(),
        peak: server.memory("VmHWM"),
    })
}

/// Runs a program to its end. Memory is polled, because the kernel drops the figures when a process exits.
fn complete(opm: &Path, arguments: &[&str]) -> anyhow::Result<Run> {
    let out = File::create(workspace::root().join("target/bench-output"))?;
    let started = Instant::now();
    let mut child = Command::new(opm)
        .args(arguments)
        .stdout(out)
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot run {}", opm.display()))?;
    let mut peak: f64 = 0.0;
    loop {
        peak = peak.max(memory(child.id(), "VmHWM"));
        if let Some(status) = child.try_wait()? {
            if !status.success() {
                bail!("{} {} failed", opm.display(), arguments.join(" "));
            }
            return Ok(Run {
                took: started.elapsed(),
                peak,
            });
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn rate(load: &Path, method: &str, clients: usize) -> anyhow::Result<f64> {
    let output = Command::new(load)
        .args([
            method,
            &format!("127.0.0.1:{PORT}"),
            &clients.to_string(),
            &LOAD.to_string(),
        ])
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run the load")?;
    if !output.status.success() {
        bail!("load {method} failed");
    }
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim()
        .parse()
        .with_context(|| format!("load {method} printed {text:?}"))
}

/// Formats milliseconds: starts take tens of them, so seconds would hide a missed target.
fn milliseconds(took: Duration) -> String {
    format!("{} ms", took.as_millis())
}

/// Returns true if our rates are at least three times upstream's, measured in this run or recorded.
fn is_three_times(ours: &Figures, theirs: Option<&Figures>) -> bool {
    let recorded = [13_900.0, 950.0, 930.0];
    let theirs = theirs.map_or(recorded, |theirs| {
        [theirs.get_package, theirs.head, theirs.list_packages]
    });
    let ours = [ours.get_package, ours.head, ours.list_packages];
    ours.iter()
        .zip(theirs)
        .all(|(ours, theirs)| *ours >= 3.0 * theirs)
}

fn print_table(ours: &Figures, theirs: Option<&Figures>) {
    let run = |run: &Run| format!("{}, {:.0} MiB", milliseconds(run.took), run.peak);
    let rates = |figures: &Figures| {
        format!(
            "{:.0} / {:.0} / {:.0}",
            figures.get_package, figures.head, figures.list_packages
        )
    };
    let serving = |figures: &Figures| {
        format!(
            "{}; {:.1} / {:.0} MiB",
            milliseconds(figures.warm.took),
            figures.serving.0,
            figures.serving.1
        )
    };
    let millis = |run: &Run| run.took.as_secs_f64() * 1000.0;
    let show = |pick: &dyn Fn(&Figures) -> String| theirs.map_or_else(String::new, pick);
    let rows = [
        (
            "P9  serve, no cache: first answer, peak",
            "7 s, 203 MB",
            "0.4 s, 20 MiB",
            run(&ours.cold),
            show(&|figures| run(&figures.cold)),
            millis(&ours.cold) <= 400.0 && ours.cold.peak <= 20.0,
        ),
        (
            "P10 serve, cache: first answer; RssAnon / VmRSS after ListBundles",
            "2 s; VmRSS 192-221 MB",
            "30 ms; RssAnon 4 MiB",
            serving(ours),
            show(&serving),
            millis(&ours.warm) <= 30.0 && ours.serving.0 <= 4.0,
        ),
        (
            "P11 ListBundles, 2 clients, per s",
            "10.4",
            "400",
            format!("{:.1}", ours.list_bundles),
            show(&|figures| format!("{:.1}", figures.list_bundles)),
            ours.list_bundles >= 400.0,
        ),
        (
            "P12 GetPackage / GetBundleForChannel / ListPackages, per s",
            "13900 / 950 / 930",
            "3 x upstream",
            rates(ours),
            show(&rates),
            is_three_times(ours, theirs),
        ),
        (
            "P13 validate",
            "4.1 s, 506 MB",
            "0.44 s, 14 MiB",
            run(&ours.validate),
            show(&|figures| run(&figures.validate)),
            millis(&ours.validate) <= 440.0 && ours.validate.peak <= 14.5,
        ),
        (
            "P13 render",
            "3.0 s, 373 MB",
            "0.6 s, 15 MiB",
            run(&ours.render),
            show(&|figures| run(&figures.render)),
            millis(&ours.render) <= 600.0 && ours.render.peak <= 15.5,
        ),
    ];
    println!("| What | Upstream, recorded | Upstream, now | Target | Ours | |\n|---|---|---|---|---|---|");
    for (what, recorded, target, ours, now, is_met) in rows {
        let verdict = if is_met { "" } else { "miss" };
        println!("| {what} | {recorded} | {now} | {target} | {ours} | {verdict} |");
    }
}
