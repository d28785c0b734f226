//! Commands that work on a cluster: `demo`, `deploy`, `images`.

use std::path::Path;
use std::process::Command;

use anyhow::Context as _;

use crate::args::{ClusterName, DemoOptions, ImageOptions};
use crate::catalog::Opm;
use crate::cluster::{self, Cluster, UpOptions};
use crate::images::{self as built, Built};
use crate::kubectl::Destination;
use crate::manifest::rename_images_in_text;
use crate::progress::Progress;
use crate::{demo as main_job, deploy as installation, interrupt, process};

/// Runs `cargo xtask demo`.
///
/// # Errors
/// A stage fails; running programs are kept for inspection. With `no_deploy` and without OLM it fails before any image is built.
pub(crate) fn demo(options: &DemoOptions) -> anyhow::Result<()> {
    interrupt::watch()?;
    let progress = Progress::start();
    let name = options.cluster.name.as_str();
    if options.no_deploy {
        Cluster::open(name).context(
            "--no-deploy takes an OLM that is there; without it, the demo starts the cluster and deploys OLM",
        )?;
    }
    let cluster = start(name, &progress)?;
    let destination = Destination(cluster.clone());
    let images = if options.no_deploy {
        installation::wait_for_deployed(&destination, &progress)?;
        built::build_for_demo(&progress)?
    } else {
        built::build(built::Profile::Quick, &progress)?
    };
    images.load(&cluster, &progress)?;
    if !options.no_deploy {
        installation::deploy(&destination, &images, &progress)?;
    }
    if options.v1 {
        installation::v1::deploy(&cluster, &images, &progress)?;
    }
    for (name, program) in [
        ("opm", images.opm_program()),
        ("kubectl-operator", images.plugin_program()),
        // kubectl completes a plugin by the program of this name.
        ("kubectl_complete-operator", images.plugin_program()),
    ] {
        cluster.add_program(name, &program)?;
    }
    progress.stage("demo bundles and catalog made by opm and pushed", || {
        publish_demo(&images, None, |tar, reference| {
            cluster.load(tar, &[reference.to_owned()])
        })
    })?;
    main_job::run(&destination, &progress)?;
    progress.note("the main job is done");
    main_job::show(&destination, &images.plugin_program(), !options.no_deploy)
}

fn publish_demo(
    images: &Built,
    registry: Option<&str>,
    push: impl FnMut(&Path, &str) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    main_job::publish(
        &Opm::new(images.opm_program()),
        &images.opm_image(),
        registry,
        push,
    )
}

/// Runs `cargo xtask deploy`.
///
/// # Errors
/// A stage fails.
pub(crate) fn deploy(options: &ClusterName) -> anyhow::Result<()> {
    interrupt::watch()?;
    let progress = Progress::start();
    let cluster = start(&options.name, &progress)?;
    let images = built::build(built::Profile::Release, &progress)?;
    images.load(&cluster, &progress)?;
    installation::deploy(&Destination(cluster), &images, &progress)
}

/// Runs `cargo xtask images`.
///
/// # Errors
/// The build or a push fails.
pub(crate) fn images(options: &ImageOptions) -> anyhow::Result<()> {
    let progress = Progress::start();
    let images = built::build(built::Profile::Release, &progress)?;
    if let Some(name) = &options.name {
        images.load(&Cluster::open(name)?, &progress)?;
    }
    for image in &images.images {
        if let Some(registry) = &options.registry {
            copy(&image.tar, &rename_images_in_text(&image.reference, registry))?;
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
    if let Some(registry) = &options.registry {
        publish_demo(&images, Some(registry.as_str()), |tar, reference| {
            copy(tar, &rename_images_in_text(reference, registry))
        })?;
    }
    Ok(())
}

/// Starts the cluster of that name. Requirements of the cluster and the images are checked and installed first, because a failure after
/// minutes of compilation would waste them.
fn start(name: &str, progress: &Progress) -> anyhow::Result<Cluster> {
    built::require_authorities()?;
    cluster::ensure_packages(true, progress)?;
    Cluster::up(name, UpOptions::default(), progress)
}

/// Copies an OCI layout tar to a registry, with the user's credentials.
fn copy(tar: &Path, reference: &str) -> anyhow::Result<()> {
    let mut skopeo = Command::new("skopeo");
    skopeo
        .arg("copy")
        .arg(format!("oci-archive:{}", tar.display()))
        .arg(format!("docker://{reference}"));
    process::run(&mut skopeo).map(drop)
}
