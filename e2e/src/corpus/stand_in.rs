//! Images that replace operators' images: their required behaviour, and their creation.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use serde_json::Value;
use stand_in::{CONFIG_PATH, Config, PROGRAM_PATH};
use xtask::oci_layout::{self, ImageConfig, LayerFile};

use super::bundle::{Bundle, containers, list, words};

/// Folders that are searched for commands without a path; links to such commands are in the first one.
const SEARCH_PATH: [&str; 3] = ["/usr/local/bin", "/usr/bin", "/bin"];
/// User of the images.
const USER: &str = "1001";

/// The stand-in of one image.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StandIn {
    /// Behaviour of the stand-in.
    pub config: Config,
    /// Paths of the commands that run it, besides its own.
    pub commands: BTreeSet<String>,
    /// Command lines that run until they are stopped.
    running: BTreeSet<Vec<String>>,
}

/// Returns the stand-ins of all images that the bundles name by tag. An image of several containers has the behaviour that any of
/// them needs.
///
/// # Errors
/// If a command line must both exit at once and keep running.
pub fn plan<'a>(bundles: impl IntoIterator<Item = &'a Bundle>) -> anyhow::Result<BTreeMap<String, StandIn>> {
    let mut found: BTreeMap<String, StandIn> = BTreeMap::new();
    for bundle in bundles {
        for (is_first, container) in bundle.deployments().flat_map(|(_, spec)| containers(spec)) {
            let image = container["image"].as_str().unwrap_or_default();
            if image.contains('@') {
                continue;
            }
            found
                .entry(image.to_owned())
                .or_default()
                .add(container, is_first);
        }
    }
    for (image, stand_in) in &found {
        if let Some(both) = stand_in.running.intersection(&stand_in.config.one_shot).next() {
            bail!(
                "{image} runs `{}` both as a container and as a command that ends",
                both.join(" ")
            );
        }
    }
    Ok(found)
}

impl StandIn {
    fn add(&mut self, container: &Value, is_first: bool) {
        let folder = container["workingDir"].as_str().unwrap_or("/");
        let line = self.command_line(folder, &words(&container["command"]), &words(&container["args"]));
        if is_first {
            self.config.one_shot.insert(line);
        } else {
            self.running.insert(line);
        }
        for port in list(&container["ports"]) {
            if port["protocol"].as_str().is_none_or(|protocol| protocol == "TCP") {
                self.config.ports.extend(number(&port["containerPort"]));
            }
        }
        let probes = ["livenessProbe", "readinessProbe", "startupProbe"].map(|field| &container[field]);
        let hooks = ["postStart", "preStop"].map(|field| &container["lifecycle"][field]);
        for action in probes.into_iter().chain(hooks) {
            for field in ["httpGet", "tcpSocket"] {
                self.config
                    .ports
                    .extend(probed_port(&action[field]["port"], container));
            }
            let command = words(&action["exec"]["command"]);
            if !command.is_empty() {
                let line = self.command_line(folder, &command, &[]);
                self.config.one_shot.insert(line);
            }
        }
    }

    /// Returns the whole command line as the program will get it, and records its path.
    fn command_line(&mut self, folder: &str, command: &[String], arguments: &[String]) -> Vec<String> {
        let own = [PROGRAM_PATH.to_owned()];
        let command = match command {
            [] => own.as_slice(),
            [program, ..] => {
                self.commands.insert(path_of(program, folder));
                command
            }
        };
        command.iter().chain(arguments).cloned().collect()
    }

    /// Writes the image of `program` to `tar`.
    ///
    /// # Errors
    /// If a file cannot be read or written.
    pub fn write(&self, program: &Path, tar: &Path) -> anyhow::Result<()> {
        let config = tar.with_extension("json");
        fs::write(&config, serde_json::to_vec_pretty(&self.config)?)
            .with_context(|| format!("cannot write {}", config.display()))?;
        let file = |path: &str, source: PathBuf, mode| LayerFile {
            path: path.trim_start_matches('/').to_owned(),
            source,
            mode,
        };
        let files = [
            file(PROGRAM_PATH, program.to_owned(), 0o755),
            file(CONFIG_PATH, config, 0o644),
        ];
        let links: Vec<_> = self
            .commands
            .iter()
            .map(|path| (path.trim_start_matches('/').to_owned(), PROGRAM_PATH.to_owned()))
            .collect();
        let folders: BTreeSet<String> = links
            .iter()
            .flat_map(|(path, _)| path.match_indices('/').map(|(end, _)| path[..end].to_owned()))
            .collect();
        let config = ImageConfig {
            entrypoint: vec![PROGRAM_PATH.to_owned()],
            user: USER.to_owned(),
            env: vec![format!("PATH={}", SEARCH_PATH.join(":"))],
            folders: folders.into_iter().map(|folder| (folder, 0o755)).collect(),
            links,
            ..ImageConfig::default()
        };
        oci_layout::write(tar, &files, &config)?;
        Ok(())
    }
}

fn path_of(program: &str, folder: &str) -> String {
    match program {
        absolute if absolute.starts_with('/') => absolute.to_owned(),
        relative if relative.contains('/') => {
            format!(
                "{}/{}",
                folder.trim_end_matches('/'),
                relative.trim_start_matches("./")
            )
        }
        name => format!("{}/{name}", SEARCH_PATH[0]),
    }
}

fn number(value: &Value) -> Option<u16> {
    value.as_u64().and_then(|number| u16::try_from(number).ok())
}

/// Returns a port by number, or by the name of one of the container's ports.
fn probed_port(port: &Value, container: &Value) -> Option<u16> {
    number(port).or_else(|| {
        let named = list(&container["ports"])
            .iter()
            .find(|declared| port.is_string() && declared["name"] == *port)?;
        number(&named["containerPort"])
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[allow(clippy::needless_pass_by_value)] // Written out in place by every caller.
    fn bundle(pod: Value) -> Bundle {
        Bundle::new(vec![json!({
            "kind": "ClusterServiceVersion", "metadata": {"name": "a"},
            "spec": {"install": {"spec": {"deployments": [{"name": "d", "spec": {"template": {"spec": pod}}}]}}}
        })])
        .unwrap()
    }

    #[test]
    fn a_stand_in_has_the_commands_and_ports_of_its_containers() {
        let bundle = bundle(json!({
            "initContainers": [{"image": "a:1", "args": ["prepare"]}],
            "containers": [
                {"image": "a:1", "command": ["operator", "run"], "args": ["--x"], "workingDir": "/opt",
                 "ports": [{"name": "web", "containerPort": 80}, {"containerPort": 53, "protocol": "UDP"}],
                 "livenessProbe": {"exec": {"command": ["./check.sh"]}},
                 "readinessProbe": {"httpGet": {"port": "web"}}, "startupProbe": {"tcpSocket": {"port": 81}},
                 "lifecycle": {"preStop": {"exec": {"command": ["/bin/sh", "-c", "true"]}}}},
                {"image": "b@sha256:1", "command": ["/b"]}
            ]
        }));
        let found = plan([&bundle]).unwrap();
        assert_eq!(found.keys().collect::<Vec<_>>(), ["a:1"]);
        let stand_in = &found["a:1"];
        assert_eq!(stand_in.config.ports, BTreeSet::from([80, 81]));
        assert_eq!(
            stand_in.commands.iter().collect::<Vec<_>>(),
            ["/bin/sh", "/opt/check.sh", "/usr/local/bin/operator"]
        );
        let lines: Vec<String> = stand_in
            .config
            .one_shot
            .iter()
            .map(|line| line.join(" "))
            .collect();
        assert_eq!(lines, ["./check.sh", "/bin/sh -c true", "/stand-in prepare"]);
    }

    #[test]
    fn a_command_line_that_must_end_and_go_on_is_refused() {
        let bundle = bundle(json!({"initContainers": [{"image": "a:1"}], "containers": [{"image": "a:1"}]}));
        let error = plan([&bundle]).unwrap_err().to_string();
        assert_eq!(
            error,
            "a:1 runs `/stand-in` both as a container and as a command that ends"
        );
    }

    #[test]
    fn an_image_has_a_link_for_each_command() {
        let folder = tempfile::tempdir().unwrap();
        let (program, tar) = (folder.path().join("program"), folder.path().join("a.tar"));
        fs::write(&program, "a program").unwrap();
        let found = plan([&bundle(
            json!({"containers": [{"image": "a:1", "command": ["/opt/x/manager"]}]}),
        )])
        .unwrap();
        found["a:1"].write(&program, &tar).unwrap();
        let config: Config = serde_json::from_slice(&fs::read(tar.with_extension("json")).unwrap()).unwrap();
        assert_eq!(config, found["a:1"].config);
        assert!(tar.exists());
    }
}
