//! `cargo xtask bench catalogs`: prints what `opm` needs for the corpus catalog next to upstream's figures (targets P9 to P13).
//!
//! Upstream's figures were recorded on a machine with two cores. Memory comes from `/proc`, polled while the program runs. A missed
//! target is printed and is no error.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use super::memory::field;
use super::table;
use crate::progress::Progress;
use crate::test::shared_folder;
use crate::{files, process, workspace};

/// Error without the corpus.
pub(super) const NO_CORPUS: &str = "the corpus is not there; set OLM_SHARED to the folder that has it";
/// Duration of each load, in seconds.
const LOAD: u64 = 4;
const PORT: &str = "50971";

/// The figures in the order of [`measure`], for [`table::print`].
const ROWS: &str = "\
P9  | serve without a cache: first answer, ms                  | 7000            | 400
    |   peak, MiB                                              | 194             | 20
P10 | serve with a cache: first answer, ms                     | 2000            | 30
    |   RssAnon after ListBundles, MiB                         |                 | 4
    |   VmRSS after ListBundles, MiB                           | 183 to 211      |
P11 | ListBundles, 2 clients, per s                            | 10.4            | > 400
P12 | GetPackage, 8 clients, per s                             | 13900           | > 41700
    |   GetBundleForChannel, 8 clients, per s                  | 950             | > 2850
    |   ListPackages, 2 clients, per s                         | 930             | > 2790
P13 | validate, ms                                             | 4100            | 440
    |   peak, MiB                                              | 483             | 14.5
    | render, ms                                               | 3000            | 600
    |   peak, MiB                                              | 356             | 15.5";

/// One run of a program: its milliseconds, and the peak of its resident memory in MiB.
type Run = [f64; 2];

/// Builds the programs, measures them and prints the table.
///
/// # Errors
/// The corpus is missing, a program cannot be built, or a measured operation fails.
pub(super) fn run() -> anyhow::Result<()> {
    let progress = Progress::start();
    let catalog = corpus()?.context(NO_CORPUS)?;
    let (opm, load) = progress.stage("build opm and its load, optimised", build)?;
    // Reads the files into the page cache, so that disk reads are not measured.
    for (_, file) in files::below(&catalog)? {
        fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
    }
    let figures = progress.stage("measure opm", || measure(&opm, &load, &catalog))?;
    table::print(ROWS, &figures);
    Ok(())
}

/// Returns the folder of the corpus catalog, which the first call unpacks; `None` if it is not on this machine.
///
/// # Errors
/// It cannot be unpacked.
pub(super) fn corpus() -> anyhow::Result<Option<PathBuf>> {
    let catalog = workspace::root().join("target/corpus/fbc");
    let archive = shared_folder().join("corpus/community-fbc.tar.xz");
    if catalog.is_dir() || !archive.is_file() {
        return Ok(Some(catalog).filter(|catalog| catalog.is_dir()));
    }
    fs::create_dir_all(&catalog).with_context(|| format!("cannot make {}", catalog.display()))?;
    let mut tar = Command::new("tar");
    tar.arg("-xf").arg(&archive).arg("-C").arg(&catalog);
    process::run(&mut tar).with_context(|| format!("remove {} and try again", catalog.display()))?;
    Ok(Some(catalog))
}

/// Builds opm and the program that sends requests to it, and returns their paths. In one command the features that only the second
/// needs would become part of opm.
fn build() -> anyhow::Result<(PathBuf, PathBuf)> {
    let release = workspace::target().join("release");
    super::cargo("build --release -p opm --example registry_load")?;
    super::cargo("build --release -p opm")?;
    Ok((release.join("opm"), release.join("examples/registry_load")))
}

fn measure(opm: &Path, load: &Path, catalog: &Path) -> anyhow::Result<Vec<f64>> {
    let cache = workspace::root().join("target/bench-cache");
    files::remove(&cache)?;
    let catalog = catalog.to_string_lossy().into_owned();
    let cache = format!("--cache-dir={}", cache.display());
    // Returns the run whose time is the median.
    let typical = |run: &dyn Fn() -> anyhow::Result<Run>| -> anyhow::Result<Run> {
        let mut found = (0..super::RUNS)
            .map(|_| run())
            .collect::<anyhow::Result<Vec<_>>>()?;
        found.sort_by(|one, other| one[0].total_cmp(&other[0]));
        Ok(found[found.len() / 2])
    };
    let without_cache = ["serve", &catalog, "--port", PORT, "--pprof-addr="];
    let cold = typical(&|| first_answer(opm, load, &without_cache))?;
    complete(opm, &["serve", &catalog, &cache, "--cache-only", "--pprof-addr="])?;
    let with_cache = ["serve", &catalog, &cache, "--port", PORT, "--pprof-addr="];
    let [warm, _] = typical(&|| first_answer(opm, load, &with_cache))?;
    let validate = typical(&|| complete(opm, &["validate", &catalog]))?;
    let render = typical(&|| complete(opm, &["render", &catalog]))?;

    let server = Server::start(opm, &with_cache)?;
    wait_for_answer(load)?;
    let list_bundles = rate(load, "list-bundles", 2)?;
    let serving = [
        warm,
        memory(&server.0, "RssAnon"),
        memory(&server.0, "VmRSS"),
        list_bundles,
    ];
    let rates = [
        rate(load, "get-package", 8)?,
        rate(load, "head", 8)?,
        rate(load, "list-packages", 2)?,
    ];
    Ok([&cold[..], &serving, &rates, &validate, &render].concat())
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
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns a field of a process's status in MiB; 0 if the process has exited.
fn memory(process: &Child, name: &str) -> f64 {
    field(Path::new(&format!("/proc/{}", process.id())), name).unwrap_or_default()
}

fn wait_for_answer(load: &Path) -> anyhow::Result<()> {
    let mut first = Command::new(load);
    first.args(["first", &format!("127.0.0.1:{PORT}")]);
    process::run(&mut first).context("opm does not answer")?;
    Ok(())
}

fn first_answer(opm: &Path, load: &Path, arguments: &[&str]) -> anyhow::Result<Run> {
    let started = Instant::now();
    let server = Server::start(opm, arguments)?;
    wait_for_answer(load)?;
    Ok([
        started.elapsed().as_secs_f64() * 1000.0,
        memory(&server.0, "VmHWM"),
    ])
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
        peak = peak.max(memory(&child, "VmHWM"));
        if let Some(status) = child.try_wait()? {
            if !status.success() {
                bail!("{} {} failed", opm.display(), arguments.join(" "));
            }
            return Ok([started.elapsed().as_secs_f64() * 1000.0, peak]);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Returns the number of responses each second.
fn rate(load: &Path, method: &str, clients: usize) -> anyhow::Result<f64> {
    let address = format!("127.0.0.1:{PORT}");
    let mut command = Command::new(load);
    command.args([method, &address, &clients.to_string(), &LOAD.to_string()]);
    let printed = process::run(&mut command)?;
    printed
        .trim()
        .parse()
        .with_context(|| format!("load {method} printed {printed:?}"))
}
