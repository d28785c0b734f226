//! `cargo xtask bench fairness`: what one namespace can cost another. The end-to-end test of that name does it and tells the
//! times; here they are a row, with operators as they are shipped.

use std::process::{ExitCode, Output};

use anyhow::{Context as _, bail};

use super::deployed::Deployed;
use crate::args::ClusterName;
use crate::cluster::CLUSTER_VARIABLE;
use crate::progress::Progress;
use crate::{images, workspace};

/// The test, and how the line begins that it prints.
const TEST: &str = "fairness";
const LINE: &str = "idle ";
/// How many times the idle time an install beside a busy namespace may take.
const GOAL: f64 = 2.0;

/// Runs the test and prints the row. A miss is printed and fails nothing.
///
/// # Errors
/// When the test fails or does not tell its times.
pub(super) fn run(cluster: &ClusterName) -> anyhow::Result<ExitCode> {
    crate::interrupt::watch()?;
    let progress = Progress::start();
    let deployed = Deployed::on(&cluster.name, images::given_or_built, &progress)?;
    let images = deployed.built.note()?;
    let output = progress.stage("an install, and another beside a busy namespace", || {
        workspace::cargo()
            .args([
                "test",
                "--quiet",
                "--workspace",
                "--test",
                TEST,
                "--",
                "--nocapture",
            ])
            .env(CLUSTER_VARIABLE, deployed.cluster.name())
            .env(images::VARIABLE, images)
            .output()
            .context("cannot run cargo")
    })?;
    let (idle, beside) = measured(&output)?;
    let ratio = beside / idle;
    println!("demo operator installed on an idle cluster, s         {idle:>8.2}");
    println!("the same beside a namespace that misbehaves, s        {beside:>8.2}");
    let mark = if ratio > GOAL { "  MISS" } else { "" };
    println!("times idle (goal: at most {GOAL})                         {ratio:>8.2}{mark}");
    Ok(ExitCode::SUCCESS)
}

/// Both times in seconds. Those of a test that failed are no measurement.
fn measured(output: &Output) -> anyhow::Result<(f64, f64)> {
    let printed = String::from_utf8_lossy(&output.stdout);
    let said = || format!("{printed}{}", String::from_utf8_lossy(&output.stderr));
    if !output.status.success() {
        bail!("the test failed ({}): {}", output.status, said());
    }
    printed
        .lines()
        .find_map(times)
        .with_context(|| format!("the test did not print its times: {}", said()))
}

/// Both times in seconds, from `idle 1.5s, beside a busy namespace 2.1s`.
fn times(line: &str) -> Option<(f64, f64)> {
    let (idle, beside) = line.trim().strip_prefix(LINE)?.split_once(", ")?;
    Some((seconds(idle)?, seconds(beside.rsplit(' ').next()?)?))
}

/// A duration as Rust prints it.
fn seconds(text: &str) -> Option<f64> {
    match text.strip_suffix("ms") {
        Some(number) => number.parse().ok().map(|number: f64| number / 1000.0),
        None => text.strip_suffix('s')?.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::ExitStatus;

    use super::*;

    #[test]
    fn times_of_a_test_that_failed_do_not_count() {
        let ended = |code: i32, printed: &str| {
            measured(&Output {
                status: ExitStatus::from_raw(code << 8),
                stdout: printed.into(),
                stderr: "panicked".into(),
            })
        };
        let line = "idle 1.5s, beside a busy namespace 3s\n";
        assert_eq!(ended(0, line).unwrap(), (1.5, 3.0));
        let error = ended(101, line).unwrap_err().to_string();
        assert!(error.contains("failed") && error.contains("panicked"), "{error}");
        let error = ended(0, "running 1 test\n").unwrap_err().to_string();
        assert!(error.contains("did not print its times"), "{error}");
    }

    #[test]
    fn the_tests_line_is_understood() {
        assert_eq!(
            times("idle 1.5s, beside a busy namespace 812.5ms"),
            Some((1.5, 0.8125))
        );
        assert_eq!(times("idle hands"), None);
        assert_eq!(times("running 2 tests"), None);
    }
}
