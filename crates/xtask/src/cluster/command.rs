//! The commands `cargo xtask cluster …`.

use std::os::unix::process::CommandExt as _;
use std::process::ExitCode;

use anyhow::Context as _;

use super::{Cluster, UpOptions, build_programs, flag, require_root, status};
use crate::args::{ClusterCommand, ClusterName, Output};
use crate::interrupt;
use crate::progress::{Progress, seconds};

/// Runs a cluster command.
///
/// # Errors
/// The errors of the command.
pub(crate) fn run(command: ClusterCommand) -> anyhow::Result<ExitCode> {
    match command {
        ClusterCommand::Up { cluster, no_node } => up(&cluster, no_node)?,
        ClusterCommand::Down { cluster, keep_state } => down(&cluster, keep_state)?,
        ClusterCommand::Status { cluster, output } => return show_status(&cluster, output),
        ClusterCommand::Kubeconfig { cluster } => {
            println!("{}", Cluster::open(&cluster.name)?.kubeconfig().display());
        }
        ClusterCommand::Registry { cluster } => println!("{}", Cluster::open(&cluster.name)?.registry()),
        ClusterCommand::Load {
            cluster,
            image,
            references,
        } => {
            require_root(
                "loading an image",
                &format!("load{} {}", flag(&cluster.name), image.display()),
            )?;
            for reference in Cluster::open(&cluster.name)?.load(&image, &references)? {
                println!("{reference}");
            }
        }
        ClusterCommand::Exec { cluster, command } => {
            let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
            require_root(
                "entering the cluster",
                &format!("exec{} -- {}", flag(&cluster.name), words.join(" ")),
            )?;
            let (program, arguments) = command.split_first().context("no command given")?;
            // `exec` only returns if it fails.
            return Err(Cluster::open(&cluster.name)?
                .command(program)
                .args(arguments)
                .exec())
            .context("cannot run `nsenter`");
        }
        ClusterCommand::Build => {
            interrupt::watch()?;
            build_programs(&Progress::start())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn up(cluster: &ClusterName, no_node: bool) -> anyhow::Result<()> {
    interrupt::watch()?;
    let progress = Progress::start();
    Cluster::up(&cluster.name, UpOptions { no_node }, &progress)?;
    let flag = flag(&cluster.name);
    progress.note(&format!(
        "cluster `{}` is up ({})",
        cluster.name,
        seconds(progress.elapsed())
    ));
    progress.note(&format!(
        "look around: cargo xtask cluster exec{flag} -- kubectl get pods -A"
    ));
    progress.note(&format!("remove it:   cargo xtask cluster down{flag}"));
    Ok(())
}

fn down(cluster: &ClusterName, keep_state: bool) -> anyhow::Result<()> {
    require_root("taking the cluster down", &format!("down{}", flag(&cluster.name)))?;
    let progress = Progress::start();
    let what = if keep_state {
        "stopped, state kept"
    } else {
        "removed"
    };
    progress.stage(&format!("cluster `{}` {what}", cluster.name), || {
        Cluster::down(&cluster.name, keep_state)
    })
}

fn show_status(cluster: &ClusterName, output: Output) -> anyhow::Result<ExitCode> {
    let status = Cluster::status(&cluster.name)?;
    match output {
        Output::Text => print!("{status}"),
        Output::Json => println!("{}", serde_json::to_string_pretty(&status)?),
    }
    Ok(if status.state == status::State::Running {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
