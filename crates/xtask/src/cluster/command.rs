//! The commands `cargo xtask cluster …`.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;

use anyhow::Context as _;

use super::{Cluster, UpOptions, build_programs, flag, helm, require_root, status};
use crate::args::{ClusterCommand, ClusterOptions};
use crate::progress::{Progress, seconds};
use crate::{demo, interrupt};

/// Runs a cluster command. Returns false if the status is asked for and not all of the cluster runs.
///
/// # Errors
/// The errors of the command.
pub(crate) fn run(options: ClusterOptions) -> anyhow::Result<bool> {
    let name = options.name.as_str();
    match options.command {
        ClusterCommand::Up { no_node } => up(name, no_node)?,
        ClusterCommand::Down { keep_state } => down(name, keep_state)?,
        ClusterCommand::Status => {
            let status = Cluster::status(name)?;
            print!("{}", status.text);
            return Ok(status.state == status::State::Running);
        }
        ClusterCommand::Load { image, references } => {
            require_root("loading an image")?;
            Cluster::open(name)?.load(&image, &references)?;
            for reference in references {
                println!("{reference}");
            }
        }
        ClusterCommand::Exec { command } => {
            require_root("entering the cluster")?;
            let (program, arguments) = command.split_first().context("no command given")?;
            let cluster = Cluster::open(name)?;
            let mut command = cluster.command(program);
            command.args(arguments).envs(environment_of_guides(&cluster));
            // `exec` only returns if it fails.
            return Err(command.exec()).context("cannot run `nsenter`");
        }
        ClusterCommand::Build => {
            interrupt::watch()?;
            let progress = Progress::start();
            build_programs(&progress)?;
            helm(&progress)?;
        }
    }
    Ok(true)
}

/// Returns the variables that the guides in `docs/guides` use: a registry to push to, the settings by which `opm` and the
/// plugin reach it, and the catalog of the demo.
fn environment_of_guides(cluster: &Cluster) -> [(&'static str, OsString); 3] {
    [
        ("REGISTRY", format!("{}/guides", cluster.registry()).into()),
        ("OPM_REGISTRY_CONFIG", cluster.registry_config().into_os_string()),
        ("CATALOG_IMAGE", demo::CATALOG_IMAGE.into()),
    ]
}

fn up(name: &str, no_node: bool) -> anyhow::Result<()> {
    interrupt::watch()?;
    let progress = Progress::start();
    Cluster::up(name, UpOptions { no_node }, &progress)?;
    let flag = flag(name);
    progress.note(&format!(
        "cluster `{name}` is up ({})",
        seconds(progress.elapsed())
    ));
    progress.note(&format!(
        "look around: cargo xtask cluster exec{flag} -- kubectl get pods -A"
    ));
    progress.note(&format!("remove it:   cargo xtask cluster down{flag}"));
    Ok(())
}

fn down(name: &str, keep_state: bool) -> anyhow::Result<()> {
    require_root("taking the cluster down")?;
    let progress = Progress::start();
    let what = if keep_state {
        "stopped, state kept"
    } else {
        "removed"
    };
    progress.stage(&format!("cluster `{name}` {what}"), || {
        Cluster::down(name, keep_state)
    })
}

#[cfg(test)]
mod tests {
    use super::super::layout::Layout;
    use super::super::{CLUSTER_VARIABLE, Record};
    use super::*;

    #[test]
    fn a_command_in_the_cluster_has_what_the_guides_use() {
        let cluster = Cluster {
            layout: Layout::new("guides").unwrap(),
            record: Record { node: true },
        };
        let mut command = cluster.command("bash");
        command.envs(environment_of_guides(&cluster));
        let value = |wanted: &str| {
            let found = command.get_envs().find(|(name, _)| *name == wanted);
            let value = found.and_then(|(_, value)| value);
            value.unwrap_or_else(|| panic!("{wanted}")).to_str().unwrap()
        };
        assert_eq!(value("REGISTRY"), "192.168.77.1:5000/guides");
        assert_eq!(value("CATALOG_IMAGE"), "olm.local/demo-catalog:latest");
        assert_eq!(value(CLUSTER_VARIABLE), "guides");
        assert!(value("OPM_REGISTRY_CONFIG").ends_with("cluster/guides/registry-config"));
        assert!(value("KUBECONFIG").ends_with("cluster/guides/kubeconfig"));
        let path: Vec<&str> = value("PATH").split(':').collect();
        assert!(path[0].ends_with("cluster/guides/bin"), "{path:?}");
        assert!(path[path.len() - 1].ends_with("cluster/bin"), "{path:?}");
    }
}
