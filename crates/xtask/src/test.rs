//! `cargo xtask test`: prepares the requirements of the tests and runs all of them.
//!
//! # Expected flow
//! Two compilers run concurrently: cargo for the tests and the programs in images, Go for the cluster. Tests without a cluster
//! and fuzzing follow, then the tests against the cluster. Some of these share the cluster and run concurrently; those that need
//! it alone run one by one. Meanwhile `cargo xtask check` runs at low priority. Each program's duration is printed at its end, and the
//! summaries of all test programs at the end of the run.

mod programs;
mod runner;

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Context as _, anyhow, bail};

use self::programs::Manifest;
use self::runner::{Job, Runner};
use crate::args::TestOptions;
use crate::binaries::{self, Built, TestBinary};
use crate::cluster::{self, CLUSTER_VARIABLE, Cluster, UpOptions};
use crate::kubectl::Destination;
use crate::progress::Progress;
use crate::{deploy, images, rights, workspace};

/// Variable with the folder of the corpus and recorded responses.
const SHARED_VARIABLE: &str = "OLM_SHARED";

/// Free disk space, in MiB, below which tests fail for that reason: the first program that cannot write is often the cluster's etcd.
const DISK_FULL_MIB: u64 = 2048;

/// Variable that makes tests run in their long form; read by `olm_testing::long`.
const LONG_VARIABLE: &str = "OLM_LONG";
/// Without `--long`, one in this number is run.
const SHARE: usize = 5;
/// Variable with the duration of each fuzz target.
const FUZZ_VARIABLE: &str = "OLM_FUZZ_SECONDS";
const FUZZ_SECONDS: usize = 60;
/// Variable with the seed of fuzzing. By default it is constant, and the time in the long form.
const FUZZ_START_VARIABLE: &str = "OLM_FUZZ_START";
/// Name of the fuzzing test targets in all crates.
const FUZZ_TARGET: &str = "fuzz";
/// More threads than a crate has fuzz targets, so that all run concurrently.
const FUZZ_THREADS: &str = "16";

/// Package of the tests that need a cluster.
const E2E: &str = "e2e";
/// Variable with the path of the plugin, for its tests.
pub const PLUGIN_VARIABLE: &str = "OLM_KUBECTL_OPERATOR";
const PLUGIN: &str = "kubectl-operator";
/// Number of concurrent test programs against the cluster, and of tests in each: they mostly wait for pods.
const E2E_PROGRAMS: usize = 4;
const E2E_THREADS: &str = "4";

/// Runs the tests and returns true if they passed. The summary lines of all test programs are repeated at the end.
///
/// # Errors
/// The tests cannot be run. Failing tests only affect the result.
pub(crate) fn run(options: &TestOptions) -> anyhow::Result<bool> {
    crate::interrupt::watch()?;
    let progress = Progress::start();
    require_shared(&progress)?;
    if let Some(full) = full_disk() {
        progress.note(&full);
    }
    require_packages(options, &progress)?;
    let runner = Runner {
        progress,
        results: Mutex::default(),
    };
    let passed = run_tests(options, &runner)?;
    let results = runner
        .results
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    for name in &results.failed {
        println!("FAILED {name}");
    }
    for summary in &results.summaries {
        println!("{summary}");
    }
    if let Some(full) = full_disk() {
        println!("{full}");
    }
    if results.summaries.is_empty() {
        bail!("no test ran: the filter matches none");
    }
    Ok(passed)
}

/// Runs the tests of the workspace, or those of one kind. The checks of the code follow unless only some tests are chosen.
fn run_tests(options: &TestOptions, runner: &Runner) -> anyhow::Result<bool> {
    let progress = &runner.progress;
    let (built, images) = compile(options, progress)?;
    let (e2e, unit): (Vec<&TestBinary>, Vec<&TestBinary>) =
        built.tests.iter().partition(|binary| binary.package == E2E);
    let is_everything = options.arguments.is_empty();
    let mut passed = true;
    if !options.e2e_only {
        progress.note("tests that need no cluster");
        let (fuzz, unit): (Vec<&TestBinary>, Vec<&TestBinary>) = unit
            .into_iter()
            .partition(|binary| is_everything && binary.target == FUZZ_TARGET);
        let jobs = unit.into_iter().map(|binary| job(binary, options, &[], &[]));
        passed &= runner.in_turn(&jobs.collect::<Vec<_>>())?;
        if is_everything {
            passed &= fuzzing(&fuzz, options, runner)?;
        }
    }
    let Some(images) = images else {
        return Ok(passed & (!is_everything || of_the_code(&built, runner)?));
    };
    let cluster = || {
        against_cluster(options, runner, &images, |environment| {
            let alone = Manifest::read()?.alone;
            let (mut last, first): (Vec<&TestBinary>, Vec<&TestBinary>) =
                e2e.iter().partition(|binary| alone.contains(&binary.target));
            last.sort_by_key(|binary| alone.iter().position(|name| *name == binary.target));
            let mut environment = environment.to_vec();
            if let Some(plugin) = built.programs.get(PLUGIN) {
                environment.push((PLUGIN_VARIABLE, plugin.display().to_string()));
            }
            let run = |binary| job(binary, options, &environment, &["--test-threads", E2E_THREADS]);
            let mut passed = runner.side_by_side(E2E_PROGRAMS, first.into_iter().map(run).collect())?;
            passed &= runner.in_turn(&last.into_iter().map(run).collect::<Vec<_>>())?;
            Ok(passed)
        })
    };
    if options.e2e_only || !is_everything {
        return Ok(passed & cluster()?);
    }
    thread::scope(|scope| {
        let code = scope.spawn(|| of_the_code(&built, runner));
        let cluster = cluster();
        let code = code
            .join()
            .map_err(|_| anyhow!("a thread that runs checks panicked"))?;
        Ok(passed & cluster? & code?)
    })
}

/// Runs the checks of all code, and builds a release twice. Both compile, and tests against the cluster mostly wait for pods, so
/// this runs at low priority.
///
/// The `xtask` built with the tests runs them, because the build may have replaced the file of this process.
fn of_the_code(built: &Built, runner: &Runner) -> anyhow::Result<bool> {
    let xtask = built
        .programs
        .get(env!("CARGO_PKG_NAME"))
        .context("cargo did not build xtask")?;
    runner.progress.note("checks: what holds for all of the code");
    let name = "checks, compiling for lints included";
    let mut passed = runner.told_from_behind(name, xtask, &["check"])?;
    crate::interrupt::check()?;
    runner.progress.note("a release, made twice of the tests' programs and compared (`cargo xtask release --verify` compiles twice)");
    let programs = built
        .programs
        .get(PLUGIN)
        .and_then(|program| program.parent())
        .context("cargo did not build the plugin")?;
    let out = workspace::target().join("release-of-tests");
    let (programs, out) = (programs.display().to_string(), out.display().to_string());
    let name = "a release, twice";
    let arguments = [
        "release",
        "--allow-dirty",
        "--verify",
        "--programs",
        &programs,
        "--out",
        &out,
    ];
    passed &= runner.told_from_behind(name, xtask, &arguments)?;
    Ok(passed)
}

/// Compiles everything for the run concurrently, because each compiler has phases that use only one core.
fn compile(options: &TestOptions, progress: &Progress) -> anyhow::Result<(Built, Option<images::Built>)> {
    let go = || -> anyhow::Result<()> {
        cluster::build_programs(progress)?;
        // A run of selected test programs only compiles their requirements.
        if options.programs.is_empty() {
            cluster::helm(progress)?;
        }
        Ok(())
    };
    let tests = || {
        let e2e = if options.e2e_only {
            let tests = Manifest::read()?.tests;
            if let Some(name) = options.programs.iter().find(|name| !tests.contains(name)) {
                bail!("e2e has no test program {name}; it has {}", tests.join(", "));
            }
            Some(match &options.programs[..] {
                [] => tests,
                chosen => chosen.to_vec(),
            })
        } else {
            None
        };
        progress.stage("tests compiled", || binaries::build(e2e.as_deref()))
    };
    if options.unit_only {
        return Ok((tests()?, None));
    }
    let (tests, go) = thread::scope(|scope| {
        let go = scope.spawn(go);
        let tests = tests();
        (tests, go.join())
    });
    go.map_err(|_| anyhow!("building the cluster panicked"))??;
    let built = tests?;
    // In the long form the images have the released programs.
    let images = if options.long {
        images::build(images::Profile::Release, progress)?
    } else {
        images::build_for_tests(progress, &built.programs)?
    };
    Ok((built, Some(images)))
}

/// Returns the job of a test program. `harness` are arguments for its test harness, after those that the user gave.
fn job<'a>(
    binary: &'a TestBinary,
    options: &TestOptions,
    environment: &[(&'static str, String)],
    harness: &[&str],
) -> Job<'a> {
    let mut environment = environment.to_vec();
    if options.long {
        environment.push((LONG_VARIABLE, "1".to_owned()));
    }
    let mut arguments = options.arguments.clone();
    arguments.extend(harness.iter().map(|word| (*word).to_owned()));
    Job {
        binary,
        arguments,
        environment,
    }
}

/// Runs all fuzz targets of a crate concurrently, after their seeds and former findings.
fn fuzzing(binaries: &[&TestBinary], options: &TestOptions, runner: &Runner) -> anyhow::Result<bool> {
    let default = if options.long {
        FUZZ_SECONDS
    } else {
        FUZZ_SECONDS / SHARE
    };
    let seconds = std::env::var(FUZZ_VARIABLE).unwrap_or_else(|_| default.to_string());
    runner.progress.note(&format!(
        "fuzzing, {seconds} s a target of {FUZZ_SECONDS} in the long form ({FUZZ_VARIABLE} sets it)"
    ));
    let mut environment = vec![(FUZZ_VARIABLE, seconds)];
    if options.long && std::env::var_os(FUZZ_START_VARIABLE).is_none() {
        environment.push((FUZZ_START_VARIABLE, "now".to_owned()));
    }
    let harness = ["--nocapture", "--test-threads", FUZZ_THREADS];
    let run = |binary| job(binary, options, &environment, &harness);
    runner.in_turn(&binaries.iter().copied().map(run).collect::<Vec<_>>())
}

/// Starts the cluster with OLM, runs `tests` with the environment for it, and removes the cluster.
fn against_cluster(
    options: &TestOptions,
    runner: &Runner,
    built: &images::Built,
    tests: impl FnOnce(&[(&'static str, String)]) -> anyhow::Result<bool>,
) -> anyhow::Result<bool> {
    let (name, progress) = (&options.name, &runner.progress);
    let ready = progress.stage("cluster with OLM", || {
        let cluster = Cluster::up(name, UpOptions::default(), progress).context(
            "the tests against the embedded cluster did not run; `cargo xtask test --unit` runs the others",
        )?;
        let destination = Destination::Embedded(cluster);
        built.push(&destination, progress)?;
        deploy::deploy(&destination, built, progress)?;
        built.note()
    });
    let outcome = ready.and_then(|images| {
        progress.note("tests against the embedded cluster");
        let images = images.display().to_string();
        let passed = tests(&[(CLUSTER_VARIABLE, name.clone()), (images::VARIABLE, images)])?;
        Ok(passed & rights_used(options, runner)?)
    });
    if options.keep {
        progress.note(&format!(
            "cluster `{name}` is kept; remove it with: cargo xtask cluster down --name {name}"
        ));
    } else {
        Cluster::down(name, false)?;
    }
    outcome
}

/// Compares the requests of OLM's accounts in these tests with their permissions. Returns false if there are faults.
fn rights_used(options: &TestOptions, runner: &Runner) -> anyhow::Result<bool> {
    let log = Cluster::open(&options.name)?.audit_log();
    let whole = options.programs.is_empty() && options.arguments.is_empty();
    let report = rights::of_log(&log, whole)?;
    let mut results = runner.results.lock().unwrap_or_else(PoisonError::into_inner);
    // Without test results, the missing tests must remain the reported problem.
    if !results.summaries.is_empty() {
        results.summaries.push(report.summary());
    }
    let faults = report.faults.iter();
    results
        .failed
        .extend(faults.map(|fault| format!("rights: {fault}")));
    Ok(report.faults.is_empty())
}

/// Returns the folder with corpus and recorded responses.
pub(crate) fn shared_folder() -> PathBuf {
    std::env::var_os(SHARED_VARIABLE).map_or_else(|| workspace::root().join("../shared"), PathBuf::from)
}

/// Returns what is wrong and the way out if the workspace's disk is nearly full.
fn full_disk() -> Option<String> {
    let root = workspace::root();
    let disk = rustix::fs::statvfs(&root).ok()?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize) >> 20;
    (free < DISK_FULL_MIB).then(|| {
        format!(
            "the disk of {} has only {free} MiB free: `cargo clean` and `cargo xtask cluster down` free space",
            root.display()
        )
    })
}

/// Installs the required packages first. Tests without a cluster also start registries, and are skipped if the program is
/// missing.
fn require_packages(options: &TestOptions, progress: &Progress) -> anyhow::Result<()> {
    let ready = cluster::ensure_packages(!options.unit_only, progress);
    match ready {
        Err(error) if options.unit_only && std::env::var_os("CI").is_none() => {
            progress.note(&format!("some tests will be left out: {error:#}"));
            Ok(())
        }
        ready => ready,
    }
}

fn require_shared(progress: &Progress) -> anyhow::Result<()> {
    let folder = shared_folder();
    if folder.join("corpus").is_dir() && folder.join("golden").is_dir() {
        return Ok(());
    }
    let missing = format!(
        "no corpus and recorded answers at {} (set {SHARED_VARIABLE} to the folder that has them)",
        folder.display()
    );
    if std::env::var_os("CI").is_some() {
        bail!("{missing}; in CI no test may be left out");
    }
    progress.note(&format!(
        "{missing}: the tests that compare with them say so and do not run"
    ));
    Ok(())
}
