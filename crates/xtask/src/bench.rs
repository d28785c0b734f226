//! `cargo xtask bench`: measures the main job, catalogs, resolution, memory of catalog contents, PackageManifests, OLM at rest, and
//! OLM v1.

mod catalogs;
mod main_job;
mod memory;
pub mod rest;
mod table;
pub mod v1;

use anyhow::{Context as _, bail};

use crate::args::{BenchCommand, BenchOptions};
use crate::cluster::{Cluster, UpOptions};
use crate::images::Built;
use crate::kubectl::Destination;
use crate::progress::Progress;
use crate::{deploy, images, interrupt, workspace};

pub use memory::find_process;

/// Number of runs of which the medians are taken.
const RUNS: usize = 5;

/// Runs the measurement that the options name, by default the main job. A missed target is printed and is no error.
///
/// # Errors
/// The measured operation fails.
pub(crate) fn run(options: &BenchOptions) -> anyhow::Result<()> {
    let BenchOptions { name, what } = options;
    match what {
        Some(BenchCommand::Catalogs) => catalogs::run(),
        Some(BenchCommand::Packages) => cargo(
            "test --quiet --release --package package-server --test process real_operators -- --nocapture",
        ),
        Some(BenchCommand::Resolver) => cargo("bench --quiet --package olm-resolver --bench resolver"),
        Some(BenchCommand::Snapshots) => {
            cargo("run --quiet --release --package catalog-operator --example catalog_memory")
        }
        Some(BenchCommand::Rest) => rest::run(name),
        Some(BenchCommand::V1) => v1::run(name),
        None => main_job::run(name),
    }
}

/// Runs cargo and passes its output on.
///
/// # Errors
/// cargo cannot be run, or fails.
fn cargo(arguments: &str) -> anyhow::Result<()> {
    let status = workspace::cargo()
        .args(arguments.split(' '))
        .status()
        .context("cannot run cargo")?;
    if !status.success() {
        bail!("cargo {arguments} failed");
    }
    Ok(())
}

/// A running cluster with OLM as released.
struct Measured {
    cluster: Cluster,
    destination: Destination,
    built: Built,
    progress: Progress,
}

impl Measured {
    /// Starts the cluster of that name if need be, builds OLM and deploys it.
    ///
    /// # Errors
    /// The cluster does not start, or the build or the deployment fails.
    fn set_up(name: &str) -> anyhow::Result<Self> {
        interrupt::watch()?;
        let progress = Progress::start();
        let cluster = Cluster::up(name, UpOptions::default(), &progress)?;
        let built = images::build(images::Profile::Release, &progress)?;
        let destination = Destination::Embedded(cluster.clone());
        built.push(&destination, &progress)?;
        deploy::deploy(&destination, &built, &progress)?;
        Ok(Self {
            cluster,
            destination,
            built,
            progress,
        })
    }

    /// Measures several times, prints the progress, and returns the medians. A first run, which pulls images, is not counted.
    ///
    /// # Errors
    /// The errors of `measure`, which gets the number of the run.
    fn repeat(&self, measure: impl Fn(usize) -> anyhow::Result<Vec<f64>>) -> anyhow::Result<Vec<f64>> {
        let mut figures = Vec::new();
        for number in 0..=RUNS {
            let stage = format!("run {number} of {RUNS}");
            figures.push(self.progress.stage(&stage, || measure(number))?);
        }
        Ok(table::medians(&figures[1..]))
    }
}
