//! Builds the cluster's programs from the Go modules under `e2e/cluster`, and the images that the cluster itself needs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, bail};
use sha2::{Digest as _, Sha256};

use super::layout;
use super::start::locked;
use crate::oci_layout::{self, ImageConfig, LayerFile};
use crate::progress::Progress;
use crate::{files, interrupt, workspace};

/// Reference of the pause image in the registry and in containerd's configuration.
pub(super) const PAUSE_IMAGE: &str = "registry.k8s.io/pause:embedded";
/// Another reference of it: the operators in guides run it, because it does nothing and every cluster has it.
pub(super) const GUIDES_PAUSE_IMAGE: &str = "registry.k8s.io/pause:3.10";
/// Reference of the CoreDNS image in the registry and in its Deployment.
pub(super) const DNS_IMAGE: &str = "registry.k8s.io/coredns:embedded";

/// A program to build.
struct Target {
    /// File name in the folder of binaries.
    binary: &'static str,
    /// Module folder, below `e2e/cluster`.
    module: &'static str,
    package: &'static str,
    /// True if it runs in a container and is packed into an image.
    is_image: bool,
    /// Build time with an empty Go cache, for progress messages.
    cold: &'static str,
}

impl Target {
    /// A program of the machine.
    const fn program(
        binary: &'static str,
        module: &'static str,
        package: &'static str,
        cold: &'static str,
    ) -> Self {
        Self {
            binary,
            module,
            package,
            is_image: false,
            cold,
        }
    }

    /// The same program, which runs in a container.
    const fn in_image(self) -> Self {
        Self {
            is_image: true,
            ..self
        }
    }
}

const TARGETS: [Target; 4] = [
    Target::program("kube-all", "", ".", "about 4 minutes"),
    Target::program("kubectl", "", "./kubectl", "some seconds"),
    Target::program("coredns", "coredns", ".", "about half a minute").in_image(),
    Target::program("pause", "", "./pause", "a second").in_image(),
];

/// Renders the chart. It is no part of a cluster.
const HELM: Target = Target::program("helm", "helm", "helm.sh/helm/v3/cmd/helm", "about 2 minutes");

/// Evaluates alerts. It is no part of a cluster, either.
const ALERTS: Target = Target::program("alerts", "alerts", ".", "about 2 minutes");

/// Returns the path of the image tar with the program, for `cluster load`.
pub(super) fn image(program: &str) -> PathBuf {
    layout::binaries().join(format!("{program}.tar"))
}

/// Builds programs that are missing or older than their sources. Does not need root.
///
/// # Errors
/// Go is missing, or a build fails; the compiler's messages were printed before.
pub fn build(progress: &Progress) -> anyhow::Result<()> {
    build_all(&TARGETS, progress)
}

/// Returns the program `helm`, built if it is missing or older than its module. Does not need root.
///
/// # Errors
/// The errors of [`build`].
pub fn helm(progress: &Progress) -> anyhow::Result<PathBuf> {
    build_all(&[HELM], progress)?;
    Ok(HELM.path())
}

/// Returns the program that evaluates alerts (`e2e/cluster/alerts`), built if it is missing or older than its module. Does not
/// need root.
///
/// # Errors
/// The errors of [`build`].
pub fn alerts(progress: &Progress) -> anyhow::Result<PathBuf> {
    build_all(&[ALERTS], progress)?;
    Ok(ALERTS.path())
}

fn build_all(targets: &[Target], progress: &Progress) -> anyhow::Result<()> {
    let sources = workspace::root().join("e2e/cluster");
    let flags = linker_flags(&files::read(&sources.join("go.mod"))?)?;
    let outdated = || -> anyhow::Result<Vec<&Target>> {
        let mut found = Vec::new();
        for target in targets {
            if !target.is_current(&sources, &flags)? {
                found.push(target);
            }
        }
        Ok(found)
    };
    // Checked first without the lock, because taking it requires write permission here.
    if outdated()?.is_empty() {
        return Ok(());
    }
    let _guard = locked(".build.lock")?;
    for target in outdated()? {
        progress.note(&format!(
            "building {} ({} when nothing is cached)",
            target.binary, target.cold
        ));
        let began = Instant::now();
        go_build(target, &sources, &flags)?;
        if target.is_image {
            pack(target.binary, &target.path())?;
        }
        let built_from = fingerprint(&sources.join(target.module), &flags)?;
        fs::write(target.stamp(), built_from)?;
        progress.done(&format!("built {}", target.binary), began.elapsed());
    }
    Ok(())
}

impl Target {
    fn path(&self) -> PathBuf {
        layout::binaries().join(self.binary)
    }

    /// Returns the file with the fingerprint of the sources from which the binary was built.
    fn stamp(&self) -> PathBuf {
        layout::binaries().join(format!(".{}.stamp", self.binary))
    }

    fn is_current(&self, sources: &Path, flags: &str) -> anyhow::Result<bool> {
        let wanted = fingerprint(&sources.join(self.module), flags)?;
        Ok(self.path().exists()
            && (!self.is_image || image(self.binary).exists())
            && fs::read_to_string(self.stamp()).is_ok_and(|found| found == wanted))
    }
}

fn go_build(target: &Target, sources: &Path, flags: &str) -> anyhow::Result<()> {
    let mut go = Command::new("go");
    go.current_dir(sources.join(target.module))
        .env("CGO_ENABLED", "0")
        // Omitting debug information saves a tenth of the compile time.
        .args([
            "build",
            "-trimpath",
            "-buildvcs=false",
            "-gcflags=all=-dwarf=false",
            "-ldflags",
        ])
        .arg(flags)
        .arg("-o")
        .arg(target.path())
        .arg(target.package)
        .stdin(Stdio::null())
        // Stdout is reserved for our own data.
        .stdout(Stdio::null());
    let status = go.status().context(
        "cannot run `go`: the cluster's programs are built with Go 1.25 or later (https://go.dev/dl)",
    )?;
    interrupt::check()?;
    if !status.success() {
        bail!(
            "`go build` of {} failed ({status}); its messages are above",
            target.binary
        );
    }
    Ok(())
}

fn pack(program: &str, binary: &Path) -> anyhow::Result<()> {
    let files = [LayerFile {
        path: program.to_owned(),
        source: binary.to_owned(),
        mode: 0o755,
    }];
    let config = ImageConfig {
        entrypoint: vec![format!("/{program}")],
        ..ImageConfig::default()
    };
    oci_layout::write(&image(program), &files, &config)?;
    Ok(())
}

/// Returns the flags that give the programs the version of Kubernetes in `go.mod`. Without them the API server reports version 0.0.0,
/// and every check of a minimum version fails.
fn linker_flags(go_mod: &str) -> anyhow::Result<String> {
    let version = go_mod
        .lines()
        .find_map(|line| line.trim().strip_prefix("k8s.io/kubernetes "))
        .context("e2e/cluster/go.mod does not require k8s.io/kubernetes")?
        .trim();
    let mut parts = version.trim_start_matches('v').split('.');
    let (Some(major), Some(minor)) = (parts.next(), parts.next()) else {
        bail!("e2e/cluster/go.mod requires k8s.io/kubernetes at `{version}`, which is no version")
    };
    let mut flags = "-s -w".to_owned();
    for package in ["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"] {
        for (variable, value) in [
            ("gitVersion", version),
            ("gitMajor", major),
            ("gitMinor", minor),
            ("gitTreeState", "clean"),
        ] {
            flags.push_str(&format!(" -X {package}.{variable}={value}"));
        }
    }
    Ok(flags)
}

/// Returns a hash of a module's sources and of the linker flags.
fn fingerprint(module: &Path, flags: &str) -> anyhow::Result<String> {
    let mut files = Vec::new();
    collect(module, &mut files)?;
    files.sort();
    let mut hash = Sha256::new();
    hash.update(flags);
    for file in files {
        let content = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
        hash.update(file.strip_prefix(module)?.as_os_str().as_encoded_bytes());
        hash.update((content.len() as u64).to_le_bytes());
        hash.update(content);
    }
    Ok(hex::encode(hash.finalize()))
}

/// Collects the files of the Go module in `folder`, without nested modules.
fn collect(folder: &Path, found: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    for path in files::entries(folder)? {
        if path.is_dir() {
            if !path.join("go.mod").exists() {
                collect(&path, found)?;
            }
        } else if path
            .extension()
            .is_some_and(|ending| ["go", "mod", "sum"].iter().any(|known| ending == *known))
        {
            found.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_comes_from_go_mod() {
        let go_mod = "require (\n\tk8s.io/kubectl v0.34.4\n\tk8s.io/kubernetes v1.34.4\n)\n";
        let flags = linker_flags(go_mod).unwrap();
        for part in ["gitVersion=v1.34.4", "gitMajor=1", "gitMinor=34"] {
            let flag = format!("-X k8s.io/component-base/version.{part} ");
            assert!(flags.contains(&flag), "{flags}");
        }
        assert!(linker_flags("module x\n").is_err());
    }

    #[test]
    fn a_changed_source_changes_the_fingerprint_and_a_nested_module_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
            fingerprint(folder.path(), "-s -w").unwrap()
        };
        write("go.mod", "module x");
        let first = write("main.go", "package main");
        let nested = write("inner/go.mod", "module y");
        assert_eq!(first, nested);
        assert_eq!(first, write("README.md", "words"));
        assert_ne!(first, write("main.go", "package main // changed"));
    }
}
