//! `cargo xtask test`: sets up what tests need and runs all of them.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, bail};

use crate::args::TestOptions;
use crate::cluster::{CLUSTER_VARIABLE, Cluster, UpOptions};
use crate::kubectl::Destination;
use crate::progress::Progress;
use crate::results::Results;
use crate::{deploy, images, workspace};

/// Where the corpus and recorded answers are.
const SHARED_VARIABLE: &str = "OLM_SHARED";

/// How long each fuzz target runs, unless the environment says otherwise.
const FUZZ_VARIABLE: &str = "OLM_FUZZ_SECONDS";
const FUZZ_SECONDS: &str = "60";
/// The test targets that fuzz, in whichever crate they are.
const FUZZ_TARGET: &str = "fuzz";
/// More than a crate has fuzz targets, so that none waits for another.
const FUZZ_THREADS: &str = "16";
/// How the lines begin that tell what was fuzzed.
const FUZZ_LINE: &str = "fuzz ";

/// Runs the tests and returns their verdict. Cargo's summary lines are printed once more at the end.
///
/// # Errors
/// When tests cannot be run at all; failing tests are the exit code.
pub fn run(options: &TestOptions) -> anyhow::Result<ExitCode> {
    let progress = Progress::start();
    require_shared(&progress)?;
    let mut results = Results::default();
    let mut passed = true;
    if !options.e2e_only {
        progress.note("tests that need no cluster");
        let mut command = cargo_test();
        command
            .args(["--workspace", "--exclude", "e2e"])
            .args(&options.arguments);
        // Who asks for some tests by name has no minutes for all fuzz targets; they run among the others, shortly.
        let is_fuzzed = options.arguments.is_empty();
        if is_fuzzed {
            command.env(FUZZ_VARIABLE, "0");
        }
        passed &= watch(command, &mut results)?;
        if is_fuzzed {
            passed &= fuzz(&progress, &mut results)?;
        }
    }
    if !options.unit_only {
        passed &= run_e2e(options, &progress, &mut results)?;
    }
    results.save()?;
    for summary in &results.summaries {
        println!("{summary}");
    }
    if results.summaries.is_empty() {
        bail!("no test ran: the filter matches none");
    }
    Ok(if passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Runs all fuzz targets of a crate at once, a minute each, after their seeds and former findings were tried.
fn fuzz(progress: &Progress, results: &mut Results) -> anyhow::Result<bool> {
    let seconds = std::env::var(FUZZ_VARIABLE).unwrap_or_else(|_| FUZZ_SECONDS.to_owned());
    progress.note(&format!(
        "fuzzing, {seconds} s a target ({FUZZ_VARIABLE} sets it)"
    ));
    let mut command = cargo_test();
    command
        .args(["--workspace", "--exclude", "e2e", "--test", FUZZ_TARGET, "--"])
        .args(["--nocapture", "--test-threads", FUZZ_THREADS])
        .env(FUZZ_VARIABLE, seconds);
    watch(command, results)
}

fn run_e2e(options: &TestOptions, progress: &Progress, results: &mut Results) -> anyhow::Result<bool> {
    let name = &options.name;
    let cluster = Cluster::up(name, UpOptions::default(), progress).context(
        "the tests against the embedded cluster did not run; `cargo xtask test --unit` runs the others",
    )?;
    let outcome = images::build(progress)
        .and_then(|built| {
            built.load(&cluster, progress)?;
            deploy::deploy(&Destination::Embedded(cluster), &built, None, progress)
        })
        .and_then(|()| {
            progress.note("tests against the embedded cluster");
            let mut command = cargo_test();
            command
                .args(["--package", "e2e"])
                .args(&options.arguments)
                .env(CLUSTER_VARIABLE, name);
            watch(command, results)
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

fn cargo_test() -> Command {
    let mut command = workspace::cargo();
    command.args(["test", "--no-fail-fast"]);
    command
}

/// Runs `command`, shows its output and takes it in. False when it failed.
fn watch(mut command: Command, results: &mut Results) -> anyhow::Result<bool> {
    let mut child = command
        .stdout(Stdio::piped())
        .stdin(Stdio::null())
        .spawn()
        .context("cannot run cargo")?;
    let output = child.stdout.take().context("cargo's output was not captured")?;
    let mut shown = std::io::stdout();
    for line in BufReader::new(output).lines() {
        let line = line.context("cargo's output broke off")?;
        // A closed stdout is no reason to stop testing.
        let _ = writeln!(shown, "{line}");
        if line.starts_with(FUZZ_LINE) {
            results.summaries.push(line.clone());
        }
        results.read_line(&line);
    }
    Ok(child.wait().context("lost cargo")?.success())
}

/// The folder with corpus and recorded answers.
pub fn shared_folder() -> PathBuf {
    std::env::var_os(SHARED_VARIABLE).map_or_else(|| workspace::root().join("../shared"), PathBuf::from)
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
