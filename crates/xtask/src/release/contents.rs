//! The files of a release, made of the programs and the checkout.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};
use serde::Serialize;
use serde_json::{Value, json};

use super::archive::{self, Entries, Entry, Sum, sha256};
use super::compile::{PROGRAMS, Place};
use super::graph::{Component, Graph, Scope, Units};
use super::installation::{self, Pinned};
use super::machine::Machine;
use super::notices;
use super::sbom::{self, Subject};
use super::source::Source;
use crate::images::{self, VERSION};
use crate::manifest::IMAGE_PREFIX;
use crate::oci_layout::{self, LayerFile};
use crate::process;

/// Names in archives and images.
const LICENCE: &str = "LICENSE";
const NOTICES: &str = "THIRD-PARTY-NOTICES.txt";
/// With [`LICENCE`] the only file of a release that is the same for all architectures; names of all others say which they are for.
const DEFINITIONS: &str = "crds.yaml";
/// Where licences are in an image.
const LICENCES: &str = "licenses";

/// What a release is made with, wherever that is done.
#[derive(Debug)]
pub(super) struct Setting {
    pub(super) source: Source,
    pub(super) machine: Machine,
    /// Renders the chart.
    pub(super) helm: std::path::PathBuf,
    /// Where the images will be, if not at the prefix of the checkout's chart.
    pub(super) registry: Option<String>,
    /// Where the sources are, for the images' labels.
    pub(super) source_url: Option<String>,
    /// Whether archives are packed as small as can be; what is only tried need not.
    pub(super) small: bool,
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Release {
    /// All files by name.
    pub(super) files: Vec<Sum>,
    pub(super) images: Vec<Image>,
}

/// An image of a release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Image {
    pub(super) name: String,
    /// What manifests call it, with its digest.
    pub(super) reference: String,
    /// Digest of its manifest.
    pub(super) digest: String,
    /// The file that holds it, an OCI layout in a tar.
    pub(super) archive: String,
    /// Bytes before packing.
    pub(super) uncompressed: u64,
}

/// What the files of a release are for, as they say it in their names.
fn system() -> String {
    format!("linux-{}", go_compat::platform::architecture())
}

/// The file that tells all of a release, by which a folder is known to hold one.
pub(super) fn summary_file() -> String {
    format!("release-{}.json", system())
}

fn sums_file() -> String {
    format!("SHA256SUMS-{}", system())
}

fn notices_file() -> String {
    format!("THIRD-PARTY-NOTICES-{}.txt", system())
}

/// A program and what is in it.
struct Program {
    name: &'static str,
    content: Vec<u8>,
    components: Vec<Component>,
    /// Its bill of materials.
    bill: String,
}

/// Writes the release of the programs in `programs` to the empty folder `out`. `units` says what was compiled for them.
///
/// # Errors
/// When a file cannot be read or written, or the release would mislead: a bill of materials with faults, an image without its digest in the
/// chart.
pub(super) fn write(
    place: &Place,
    setting: &Setting,
    programs: &Path,
    units: Option<&Units>,
    out: &Path,
) -> anyhow::Result<Release> {
    let source = &setting.source;
    let made = read_programs(place, setting, programs, units)?;
    let put = |name: &str, content: &[u8]| {
        fs::write(out.join(name), content)
            .with_context(|| format!("cannot write {}", out.join(name).display()))
    };
    let licence = fs::read(place.root.join(LICENCE)).context("cannot read LICENSE")?;
    let notices = notices::notices(&linked(&made), &setting.machine.notices()?)?;
    put(LICENCE, &licence)?;
    put(&notices_file(), notices.as_bytes())?;
    let stem = |name: &str| format!("{name}-{}-{}", source.version, system());
    for program in &made {
        put(
            &format!("{}.cdx.json", stem(program.name)),
            program.bill.as_bytes(),
        )?;
        let files = Entries::from([
            (program.name.to_owned(), entry(&program.content, 0o755)),
            (
                format!("{}.cdx.json", program.name),
                entry(program.bill.as_bytes(), 0o644),
            ),
            (LICENCE.to_owned(), entry(&licence, 0o644)),
            (NOTICES.to_owned(), entry(notices.as_bytes(), 0o644)),
        ]);
        put(
            &format!("{}.tar.gz", stem(program.name)),
            &archive::tar_gz(&files, source.time, setting.small)?,
        )?;
    }
    let images = write_images(setting, programs, out, &stem)?;
    let pinned: Vec<Pinned> = images
        .iter()
        .map(|image| Pinned {
            name: image.name.clone(),
            digest: image.digest.clone(),
        })
        .collect();
    let chart = installation::chart(
        &place.root,
        VERSION,
        &source.version,
        setting.registry.as_deref(),
        &pinned,
    )?;
    put(
        &format!("{}.tgz", stem("olm-chart")),
        &archive::tar_gz(&chart, source.time, setting.small)?,
    )?;
    put(DEFINITIONS, installation::definitions(&chart).as_bytes())?;
    let scratch = tempfile::tempdir().context("cannot make a folder for the chart")?;
    let manifest = installation::manifest(&setting.helm, &chart, &pinned, scratch.path())?;
    put(&format!("{}.yaml", stem("olm")), manifest.as_bytes())?;
    let files = archive::sums(out)?;
    let summary = summary(setting, &made, &images, &files)?;
    put(&summary_file(), format!("{summary:#}\n").as_bytes())?;
    let files = archive::sums(out)?;
    put(&sums_file(), archive::sums_text(&files).as_bytes())?;
    Ok(Release {
        files: archive::sums(out)?,
        images,
    })
}

fn entry(content: &[u8], mode: u32) -> Entry {
    Entry {
        content: content.to_vec(),
        mode,
    }
}

/// Reads the programs, and has cargo say what they are made of.
fn read_programs(
    place: &Place,
    setting: &Setting,
    programs: &Path,
    units: Option<&Units>,
) -> anyhow::Result<Vec<Program>> {
    let target = images::target();
    let mut command = place.cargo(&setting.source)?;
    command.args([
        "metadata",
        "--format-version",
        "1",
        "--locked",
        "--filter-platform",
        &target,
    ]);
    let metadata = process::output(command, None, "cargo metadata")?;
    let lock = fs::read_to_string(place.root.join("Cargo.lock")).context("cannot read Cargo.lock")?;
    let graph = Graph::read(&metadata, &lock)?;
    let date = setting.source.date()?;
    let toolchain = setting.machine.linked();
    let mut made = Vec::new();
    for name in PROGRAMS {
        let file = programs.join(name);
        let content = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let components = graph.of_program(name, units)?;
        let bill = sbom::bill(
            &Subject {
                program: name,
                version: &setting.source.version,
                target: &target,
                sha256: &sha256(&content),
                commit: &setting.source.commit,
                date: &date,
                toolchain: &toolchain,
            },
            &components,
        );
        let faults = sbom::faults(&bill);
        if !faults.is_empty() {
            bail!(
                "the bill of materials of {name} would mislead: {}",
                faults.join("; ")
            );
        }
        made.push(Program {
            name,
            content,
            components,
            bill: format!("{bill:#}\n"),
        });
    }
    Ok(made)
}

/// What is linked into any of the programs, by name and version.
fn linked(programs: &[Program]) -> Vec<Component> {
    let all: BTreeMap<(&str, &str), &Component> = programs
        .iter()
        .flat_map(|program| &program.components)
        .filter(|component| component.scope == Scope::Linked)
        .map(|component| ((component.name.as_str(), component.version.as_str()), component))
        .collect();
    all.into_values().cloned().collect()
}

fn write_images(
    setting: &Setting,
    programs: &Path,
    out: &Path,
    stem: &impl Fn(&str) -> String,
) -> anyhow::Result<Vec<Image>> {
    let source = &setting.source;
    let created = source.date()?;
    let prefix = setting
        .registry
        .as_deref()
        .map_or(IMAGE_PREFIX.to_owned(), |registry| {
            format!("{}/", registry.trim_end_matches('/'))
        });
    let mut written = Vec::new();
    for recipe in images::shipped() {
        let (mut files, mut config) = images::contents(&recipe, programs);
        for (name, file) in [(LICENCE, LICENCE.to_owned()), (NOTICES, notices_file())] {
            files.push(LayerFile {
                path: format!("{LICENCES}/{name}"),
                source: out.join(file),
                mode: 0o644,
            });
        }
        config.folders.push((LICENCES.to_owned(), 0o755));
        let label = |name: &str, value: &str| (format!("org.opencontainers.image.{name}"), value.to_owned());
        config.labels.extend([
            label("title", recipe.name),
            label("version", &source.version),
            label("revision", &source.commit),
            label("created", &created),
            label("licenses", "Apache-2.0"),
        ]);
        config
            .labels
            .extend(setting.source_url.as_deref().map(|url| label("source", url)));
        let reference = format!("{prefix}{}:{}", recipe.name, source.version);
        config.created = Some(created.clone());
        config.reference = Some(reference.clone());
        config.small = setting.small;
        let archive = format!("{}.tar", stem(&format!("{}-image", recipe.name)));
        let image = oci_layout::write_measured(&out.join(&archive), &files, &config)?;
        written.push(Image {
            name: recipe.name.to_owned(),
            reference: format!("{reference}@{}", image.digest),
            digest: image.digest,
            archive,
            uncompressed: image.uncompressed,
        });
    }
    Ok(written)
}

/// What programs read of a release.
fn summary(
    setting: &Setting,
    programs: &[Program],
    images: &[Image],
    files: &[Sum],
) -> anyhow::Result<Value> {
    let source = &setting.source;
    let programs: Vec<Value> = programs
        .iter()
        .map(|program| {
            json!({
                "name": program.name, "size": program.content.len(), "sha256": sha256(&program.content),
                "components": program.components.iter().filter(|it| it.scope == Scope::Linked).count(),
            })
        })
        .collect();
    Ok(json!({
        "version": source.version,
        "commit": source.commit,
        "dirty": source.dirty,
        "date": source.date()?,
        "sourceDateEpoch": source.time,
        "target": images::target(),
        "platform": format!("linux/{}", go_compat::platform::architecture()),
        "builtWith": setting.machine,
        "programs": programs,
        "images": images,
        "files": files,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace;

    fn setting(helm: std::path::PathBuf) -> Setting {
        Setting {
            source: Source {
                commit: "0123abc".into(),
                dirty: false,
                time: 1_700_000_000,
                version: format!("{VERSION}-rc.1"),
            },
            machine: Machine::ask(&workspace::root()).unwrap_or_else(|error| panic!("{error:#}")),
            helm,
            registry: Some("registry.example.com/olm".into()),
            source_url: Some("https://example.com/olm".into()),
            small: false,
        }
    }

    /// Helm, or `None` after saying so where there is no Go, which only a developer's machine may lack.
    fn helm() -> Option<std::path::PathBuf> {
        let go = std::process::Command::new("go")
            .arg("version")
            .stdout(std::process::Stdio::null())
            .status();
        if go.is_err() && std::env::var_os("CI").is_none() {
            eprintln!("NOT RUN: helm is built with Go, which is not on this machine");
            return None;
        }
        Some(crate::cluster::helm(&crate::progress::Progress::start()).unwrap())
    }

    /// The whole release of small programs: what is in an archive, an image and a summary is there whatever the programs are. That real
    /// ones make the same release twice is tried by `cargo xtask test`, which calls the command.
    #[test]
    fn arch_002_a_release_is_whole_and_its_parts_agree() {
        let Some(helm) = helm() else { return };
        let folder = tempfile::tempdir().unwrap();
        let (programs, out) = (folder.path().join("programs"), folder.path().join("out"));
        for folder in [&programs, &out] {
            fs::create_dir(folder).unwrap();
        }
        for name in PROGRAMS {
            fs::write(programs.join(name), format!("\x7fELF {name}")).unwrap();
        }
        // As developers compile: what is tried here does not depend on where packages are.
        let place = Place {
            root: workspace::root(),
            cargo_home: workspace::cargo_home().unwrap(),
            target: workspace::target(),
            home: folder.path().to_owned(),
        };
        let release =
            write(&place, &setting(helm), &programs, None, &out).unwrap_or_else(|error| panic!("{error:#}"));
        let read = |name: &str| fs::read_to_string(out.join(name)).unwrap();

        let sums = read(&sums_file());
        for file in release.files.iter().filter(|file| file.name != sums_file()) {
            assert!(
                sums.contains(&format!("{}  {}\n", file.sha256, file.name)),
                "{}",
                file.name
            );
        }
        assert_eq!(sums.lines().count(), release.files.len() - 1);

        // The files of two architectures may lie in one folder.
        let same: Vec<&str> = release
            .files
            .iter()
            .map(|file| file.name.as_str())
            .filter(|name| !name.contains(&system()))
            .collect();
        assert_eq!(same, [LICENCE, DEFINITIONS]);

        let summary: Value = serde_json::from_str(&read(&summary_file())).unwrap();
        assert_eq!(
            summary["platform"],
            format!("linux/{}", go_compat::platform::architecture())
        );
        assert_eq!(summary["date"], "2023-11-14T22:13:20Z");
        assert_eq!(summary["programs"].as_array().unwrap().len(), PROGRAMS.len());
        for file in summary["files"].as_array().unwrap() {
            let found = release
                .files
                .iter()
                .find(|known| file["name"] == known.name)
                .unwrap();
            assert_eq!(file["sha256"], found.sha256);
        }

        let manifest = read(&format!("olm-{VERSION}-rc.1-{}.yaml", system()));
        for image in &release.images {
            assert_eq!(
                image.reference,
                format!(
                    "registry.example.com/olm/{}:{VERSION}-rc.1@{}",
                    image.name, image.digest
                )
            );
            assert!(manifest.contains(&image.reference), "{}", image.reference);
        }
        assert!(
            !manifest.contains(IMAGE_PREFIX),
            "an image without a digest is left"
        );
        assert!(manifest.starts_with(&read(DEFINITIONS)));
        let objects = serde_saphyr::from_multiple::<Value>(&manifest).unwrap();
        let count = objects.iter().filter(|object| !object.is_null()).count();
        assert!(count > 30, "{count} objects");

        let bill: Value =
            serde_json::from_str(&read(&format!("opm-{VERSION}-rc.1-{}.cdx.json", system()))).unwrap();
        assert_eq!(sbom::faults(&bill), [""; 0]);
        let hash = &bill["metadata"]["component"]["hashes"][0]["content"];
        assert_eq!(*hash, sha256(b"\x7fELF opm"));
        let purls: Vec<&str> = bill["components"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|it| it["purl"].as_str())
            .collect();
        assert!(
            purls.iter().any(|purl| purl.starts_with("pkg:cargo/tonic@")),
            "{purls:?}"
        );
        assert!(
            purls.iter().all(|purl| !purl.starts_with("pkg:cargo/insta@")),
            "what tests need is not in the program"
        );
        let notices = read(&notices_file());
        for name in ["tikv-jemalloc-sys ", "glibc ", "libgcc ", "rust-std "] {
            assert!(notices.contains(&format!("\n{name}")), "{name}");
        }
    }

    #[test]
    fn an_image_says_what_it_is_and_runs_without_rights() {
        let folder = tempfile::tempdir().unwrap();
        let notices = notices_file();
        for name in PROGRAMS.iter().copied().chain([LICENCE, notices.as_str()]) {
            fs::write(folder.path().join(name), name).unwrap();
        }
        let setting = setting("helm".into());
        let stem = |name: &str| name.to_owned();
        let images = write_images(&setting, folder.path(), folder.path(), &stem).unwrap();
        assert_eq!(
            images.iter().map(|image| image.name.as_str()).collect::<Vec<_>>(),
            ["olm", "opm"]
        );
        let mut configs = Vec::new();
        let mut archive = tar::Archive::new(fs::File::open(folder.path().join("olm-image.tar")).unwrap());
        for entry in archive.entries().unwrap() {
            if let Ok(value) = serde_json::from_reader::<_, Value>(entry.unwrap()) {
                configs.push(value);
            }
        }
        let config = configs.iter().find(|value| value["rootfs"].is_object()).unwrap();
        assert_eq!(config["config"]["User"], "1001");
        assert_eq!(config["created"], "2023-11-14T22:13:20Z");
        let label = |name: &str| {
            config["config"]["Labels"][format!("org.opencontainers.image.{name}")]
                .as_str()
                .unwrap()
        };
        assert_eq!(
            (label("revision"), label("licenses"), label("source")),
            ("0123abc", "Apache-2.0", "https://example.com/olm")
        );
        assert_eq!(label("version"), format!("{VERSION}-rc.1"));
        let index = configs
            .iter()
            .find(|value| value["manifests"].is_array())
            .unwrap();
        assert_eq!(
            index["manifests"][0]["annotations"]["io.containerd.image.name"],
            format!("registry.example.com/olm/olm:{VERSION}-rc.1")
        );
    }
}
