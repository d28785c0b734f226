//! Commands that work on a cluster: `demo`, `deploy`, `images`.

use std::process::Command;

use anyhow::Context as _;

use crate::args::{DemoOptions, ImageOptions, TargetOptions};
use crate::catalog::Opm;
use crate::cluster::{self, Cluster, UpOptions};
use crate::images as built;
use crate::kubectl::Destination;
use crate::progress::Progress;
use crate::{demo as main_job, deploy as installation, interrupt, process};

/// Runs `cargo xtask demo`.
///
/// # Errors
/// A stage fails; running programs are kept for inspection. With `no_deploy` and without OLM it fails before any image is built.
pub(crate) fn demo(options: &DemoOptions) -> anyhow::Result<()> {
    interrupt::watch()?;
    let progress = Progress::start();
    let target = &options.target;
    if options.no_deploy && target.existing_cluster.is_none() {
        Cluster::open(&target.name).context(
            "--no-deploy takes an OLM that is there; without it, the demo starts the cluster and deploys OLM",
        )?;
    }
    let destination = open(target, &progress)?;
    let images = if options.no_deploy {
        installation::wait_for_deployed(&destination, &progress)?;
        built::build_for_demo(&progress)?
    } else {
        built::build(built::Profile::Quick, &progress)?
    };
    images.push(&destination, &progress)?;
    if !options.no_deploy {
        installation::deploy(&destination, &images, &progress)?;
    }
    if let Destination::Embedded(cluster) = &destination {
        if options.v1 {
            installation::v1::deploy(cluster, &images, &progress)?;
        }
        for (name, program) in [
            ("opm", images.opm_program()),
            ("kubectl-operator", images.plugin_program()),
            // kubectl completes a plugin by the program of this name.
            ("kubectl_complete-operator", images.plugin_program()),
        ] {
            cluster.add_program(name, &program)?;
        }
    }
    let opm = Opm::new(images.opm_program());
    progress.stage("demo bundles and catalog made by opm and pushed", || {
        main_job::publish(&opm, &images.opm_image(), &destination)
    })?;
    main_job::run(&destination, &progress)?;
    progress.note("the main job is done");
    let name = target.existing_cluster.is_none().then_some(target.name.as_str());
    main_job::show(&destination, &images.plugin_program(), name, !options.no_deploy)?;
    Ok(())
}

/// Runs `cargo xtask deploy`.
///
/// # Errors
/// A stage fails.
pub(crate) fn deploy(options: &TargetOptions) -> anyhow::Result<()> {
    interrupt::watch()?;
    let progress = Progress::start();
    let destination = open(options, &progress)?;
    let images = built::build(built::Profile::Release, &progress)?;
    images.push(&destination, &progress)?;
    installation::deploy(&destination, &images, &progress)
}

/// Runs `cargo xtask images`.
///
/// # Errors
/// The build or a push fails.
pub(crate) fn images(options: &ImageOptions) -> anyhow::Result<()> {
    let progress = Progress::start();
    let images = built::build(built::Profile::Release, &progress)?;
    if let Some(name) = &options.name {
        images.push(&Destination::Embedded(Cluster::open(name)?), &progress)?;
    }
    for image in &images.images {
        if let Some(registry) = &options.registry {
            built::copy(&image.tar, &image.reference, registry)?;
        }
        let size = std::fs::metadata(&image.tar)?.len();
        println!(
            "{}\t{}\t{:.1} MB\t{}",
            image.reference,
            image.digest,
            size as f64 / 1e6,
            image.tar.display()
        );
    }
    Ok(())
}

/// Returns the selected cluster. Requirements of the cluster and the images are checked and installed first, because a failure
/// after minutes of compilation would waste them.
fn open(options: &TargetOptions, progress: &Progress) -> anyhow::Result<Destination> {
    built::require_authorities()?;
    if let (Some(context), Some(registry)) = (&options.existing_cluster, &options.registry) {
        let destination = Destination::Existing {
            context: context.clone(),
            registry: registry.clone(),
        };
        process::run(Command::new("skopeo").arg("--version"))
            .context("images are pushed to registries by skopeo; install the package skopeo")?;
        destination.run(&["version"]).with_context(|| {
            format!(
                "the cluster of context {context} does not answer kubectl; `kubectl config get-contexts` lists those you have"
            )
        })?;
        return Ok(destination);
    }
    cluster::ensure_packages(true, progress)?;
    Cluster::up(&options.name, UpOptions::default(), progress).map(Destination::Embedded)
}
