//! Files of a release, made from the programs and the sources.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};

use super::archive::{self, Entries, sha256};
use super::packages::{self, Package};
use super::source::Source;
use super::{PROGRAMS, installation, krew, notices, sbom};
use crate::manifest::IMAGE_PREFIX;
use crate::oci_layout::{self, LayerFile};
use crate::{images, process};

const LICENCE: &str = "LICENSE";
const NOTICES: &str = "THIRD-PARTY-NOTICES.txt";
/// Besides [`LICENCE`], the only file that is the same for all architectures. The names of all others include the architecture.
const DEFINITIONS: &str = "crds.yaml";
/// Folder of licences in an image.
const LICENCES: &str = "licenses";
/// Maximum size of the image of all controllers, in uncompressed bytes (target P15).
const MAX_IMAGE: u64 = 45_000_000;

/// Input of a release, besides the programs.
#[derive(Debug)]
pub(super) struct Setting {
    pub(super) source: Source,
    /// Program that renders the chart.
    pub(super) helm: PathBuf,
    /// Registry of the images, if it differs from the default of the chart.
    pub(super) registry: Option<String>,
    /// Folder on a server with the files of the release, for krew.
    pub(super) download_url: Option<String>,
    /// True if the programs were not compiled for the release. Then images may have any size, and compression is fast.
    pub(super) is_trial: bool,
}

/// Returns the system and architecture in file names.
pub(super) fn system() -> String {
    format!("linux-{}", go_compat::platform::architecture())
}

/// Returns the name of a release's summary, by which a folder is recognized as a release.
pub(super) fn summary_file() -> String {
    format!("release-{}.json", system())
}

pub(super) fn sums_file() -> String {
    format!("SHA256SUMS-{}", system())
}

fn notices_file() -> String {
    format!("THIRD-PARTY-NOTICES-{}.txt", system())
}

/// Writes the release with the programs in `programs`, compiled from `sources`, to the empty folder `out`.
///
/// # Errors
/// A file cannot be read or written, the chart cannot be rendered, or the image of the controllers is too large.
pub(super) fn write(sources: &Path, setting: &Setting, programs: &Path, out: &Path) -> anyhow::Result<()> {
    let Setting { source, is_trial, .. } = setting;
    let put = |name: &str, content: &[u8]| {
        fs::write(out.join(name), content)
            .with_context(|| format!("cannot write {}", out.join(name).display()))
    };
    let stem = |name: &str| format!("{name}-{}-{}", source.version, system());
    let libraries = libraries(sources)?;
    let mut all: BTreeSet<Package> = BTreeSet::new();
    let mut archives = Vec::new();
    for name in PROGRAMS {
        let mut packages = packages::of_program(sources, name)?;
        packages.extend(libraries.iter().map(|(library, _)| library.clone()));
        let content = fs::read(programs.join(name)).with_context(|| format!("cannot read {name}"))?;
        let bill = sbom::bill(name, source, &sha256(&content), &packages)?;
        let bill = format!("{bill:#}\n").into_bytes();
        put(&format!("{}.cdx.json", stem(name)), &bill)?;
        archives.push((name, content, bill));
        all.extend(packages);
    }
    let licence = fs::read(sources.join(LICENCE)).context("cannot read LICENSE")?;
    let notices = notices::notices(&all, &packages::folders()?, &libraries)?.into_bytes();
    put(LICENCE, &licence)?;
    put(&notices_file(), &notices)?;
    for (name, content, bill) in archives {
        let files = Entries::from([
            (name.to_owned(), (content, 0o755)),
            (format!("{name}.cdx.json"), (bill, 0o644)),
            (LICENCE.to_owned(), (licence.clone(), 0o644)),
            (NOTICES.to_owned(), (notices.clone(), 0o644)),
        ]);
        let archive = format!("{}.tar.gz", stem(name));
        let packed = archive::tar_gz(&files, source.time, !is_trial)?;
        put(&archive, &packed)?;
        if name == krew::PLUGIN {
            let sum = sha256(&packed);
            let manifest = krew::manifest(source, setting.download_url.as_deref(), &archive, &sum);
            put(&format!("{}.krew.yaml", stem(name)), manifest.as_bytes())?;
        }
    }
    let (pinned, images) = write_images(setting, programs, out, &stem)?;
    let chart = installation::chart(sources, &source.version, setting.registry.as_deref(), &pinned)?;
    let packed = archive::tar_gz(&chart, source.time, !is_trial)?;
    put(&format!("{}.tgz", stem("olm-chart")), &packed)?;
    let chart_archive = format!("{}.tar", stem("olm-chart-oci"));
    let about = installation::about(&chart)?;
    let chart_digest = oci_layout::write_chart(&out.join(&chart_archive), &about, packed, &source.version)?;
    put(DEFINITIONS, installation::definitions(&chart).as_bytes())?;
    let scratch = tempfile::tempdir().context("cannot make a folder for the chart")?;
    let manifest = installation::manifest(&setting.helm, &chart, scratch.path())?;
    put(&format!("{}.yaml", stem("olm")), manifest.as_bytes())?;
    let summary = json!({
        "version": source.version,
        "commit": source.commit,
        "date": source.date()?,
        "platform": format!("linux/{}", go_compat::platform::architecture()),
        "builtWith": built_with(sources)?,
        "images": images,
        "chart": { "digest": chart_digest, "archive": chart_archive },
    });
    put(&summary_file(), format!("{summary:#}\n").as_bytes())?;
    put(&sums_file(), archive::sums(out)?.as_bytes())
}

/// Returns the first line that a tool of this machine prints.
fn ask(sources: &Path, program: &str, argument: &str) -> anyhow::Result<String> {
    let mut command = Command::new(program);
    let output = process::run(command.arg(argument).current_dir(sources).env("LC_ALL", "C"))?;
    Ok(output.lines().next().unwrap_or_default().to_owned())
}

/// Returns linked libraries besides packages, with the paths of their copyright: Debian's files and the toolchain's.
fn libraries(sources: &Path) -> anyhow::Result<Vec<(Package, PathBuf)>> {
    let sysroot = PathBuf::from(ask(sources, "rustc", "--print=sysroot")?);
    let documents = Path::new("/usr/share/doc");
    let glibc = ask(sources, "getconf", "GNU_LIBC_VERSION")?;
    let gcc = ask(sources, "cc", "-dumpfullversion")?;
    let rust = ask(sources, "rustc", "--version")?;
    let library = |name: &str, version: &str, licence: &str| Package {
        name: name.to_owned(),
        version: version.to_owned(),
        licence: licence.to_owned(),
        is_without_registry: true,
    };
    Ok(vec![
        (
            library("glibc", second(&glibc), "LGPL-2.1-or-later"),
            documents.join("libc6-dev/copyright"),
        ),
        (
            library("libgcc", &gcc, "GPL-3.0-or-later WITH GCC-exception-3.1"),
            documents.join("libgcc-s1/copyright"),
        ),
        (
            library("rust-std", second(&rust), "MIT OR Apache-2.0"),
            sysroot.join("share/doc/rust/COPYRIGHT-library.html"),
        ),
    ])
}

/// Returns the version in `NAME VERSION …`.
fn second(text: &str) -> &str {
    text.split(' ').nth(1).unwrap_or(text)
}

/// Returns the versions that another machine needs to build the same bytes.
fn built_with(sources: &Path) -> anyhow::Result<Value> {
    let sum = |file: &str| {
        anyhow::Ok(sha256(
            &fs::read(file).with_context(|| format!("cannot read {file}"))?,
        ))
    };
    Ok(json!({
        "rustc": ask(sources, "rustc", "--version")?,
        "cCompiler": ask(sources, "cc", "--version")?,
        "linker": ask(sources, "ld", "--version")?,
        "cLibrary": {
            "version": ask(sources, "getconf", "GNU_LIBC_VERSION")?,
            "sha256": sum(&ask(sources, "cc", "-print-file-name=libc.a")?)?,
        },
        "certificateAuthorities": sum(images::AUTHORITIES)?,
    }))
}

/// References with digests, by the names of images.
type Pinned = Vec<(&'static str, String)>;

/// Writes the images. Returns their digests and their entries in the summary.
fn write_images(
    setting: &Setting,
    programs: &Path,
    out: &Path,
    stem: &impl Fn(&str) -> String,
) -> anyhow::Result<(Pinned, Vec<Value>)> {
    let source = &setting.source;
    let created = source.date()?;
    let registry = setting.registry.as_deref().unwrap_or(IMAGE_PREFIX);
    let (mut pinned, mut summaries) = (Vec::new(), Vec::new());
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
        let reference = format!(
            "{}/{}:{}",
            registry.trim_end_matches('/'),
            recipe.name,
            source.version
        );
        config.created = Some(created.clone());
        config.reference = Some(reference.clone());
        config.small = !setting.is_trial;
        let archive = format!("{}.tar", stem(&format!("{}-image", recipe.name)));
        let digest = oci_layout::write(&out.join(&archive), &files, &config)?;
        let mut sizes = Vec::new();
        for file in &files {
            sizes.push((fs::metadata(&file.source)?.len(), file.path.as_str()));
        }
        let size: u64 = sizes.iter().map(|(size, _)| size).sum();
        if recipe.name == "olm" && size > MAX_IMAGE && !setting.is_trial {
            let largest = sizes.iter().max();
            bail!(
                "the image olm has {size} bytes before packing, more than {MAX_IMAGE}; the largest is {largest:?}"
            );
        }
        summaries.push(json!({
            "name": recipe.name, "reference": format!("{reference}@{digest}"), "digest": digest, "archive": archive,
        }));
        pinned.push((recipe.name, digest));
    }
    Ok((pinned, summaries))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::Read as _;

    use super::*;
    use crate::images::VERSION;
    use crate::workspace;

    /// Returns Helm; `None`, with a note, without Go, which only a developer's machine may lack.
    fn helm() -> Option<PathBuf> {
        let go = Command::new("go")
            .arg("version")
            .stdout(std::process::Stdio::null())
            .status();
        if go.is_err() && std::env::var_os("CI").is_none() {
            eprintln!("NOT RUN: helm is built with Go, which is not on this machine");
            return None;
        }
        Some(crate::cluster::helm(&crate::progress::Progress::start()).unwrap())
    }

    /// Returns the files in an OCI layout tar by their digests.
    fn blobs_of(layout: &Path) -> BTreeMap<String, Vec<u8>> {
        let mut archive = tar::Archive::new(fs::File::open(layout).unwrap());
        let mut found = BTreeMap::new();
        for entry in archive.entries().unwrap() {
            let mut content = Vec::new();
            entry.unwrap().read_to_end(&mut content).unwrap();
            found.insert(oci_layout::digest(&content), content);
        }
        found
    }

    /// Builds a whole release from small programs. `cargo xtask test` runs the command to test that real programs result in the
    /// same release twice.
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
        let version = format!("{VERSION}-rc.1");
        let setting = Setting {
            source: Source {
                commit: "0123abc".into(),
                files: "0123abc".into(),
                time: 1_700_000_000,
                version: version.clone(),
            },
            helm,
            registry: Some("registry.example.com/olm/".into()),
            download_url: Some("https://example.com/releases/".into()),
            is_trial: true,
        };
        let root = workspace::root();
        write(&root, &setting, &programs, &out).unwrap_or_else(|error| panic!("{error:#}"));
        let read = |name: &str| fs::read_to_string(out.join(name)).unwrap();

        let sums = read(&sums_file());
        assert_eq!(sums.lines().count(), fs::read_dir(&out).unwrap().count() - 1);
        // The files of two architectures may be in one folder.
        let names = sums.lines().filter_map(|line| line.split("  ").nth(1));
        assert_eq!(
            names.filter(|name| !name.contains(&system())).collect::<Vec<_>>(),
            [LICENCE, DEFINITIONS]
        );

        let summary: Value = serde_json::from_str(&read(&summary_file())).unwrap();
        assert_eq!(summary["date"], "2023-11-14T22:13:20Z");
        assert_eq!(
            summary["builtWith"]["cLibrary"]["sha256"].as_str().unwrap().len(),
            64
        );
        let manifest = read(&format!("olm-{version}-{}.yaml", system()));
        for (image, name) in summary["images"].as_array().unwrap().iter().zip(["olm", "opm"]) {
            let reference = image["reference"].as_str().unwrap();
            assert!(
                reference.starts_with(&format!("registry.example.com/olm/{name}:{version}@sha256:")),
                "{reference}"
            );
            assert!(manifest.contains(reference), "{reference}");
        }
        assert!(
            !manifest.contains(IMAGE_PREFIX),
            "an image without a digest is left"
        );
        assert!(manifest.starts_with(&read(DEFINITIONS)));
        let objects = serde_saphyr::from_multiple::<Value>(&manifest).unwrap();
        assert!(objects.iter().filter(|object| !object.is_null()).count() > 30);

        let stem = format!("kubectl-operator-{version}-{}", system());
        let plugin: Value = serde_saphyr::from_str(&read(&format!("{stem}.krew.yaml"))).unwrap();
        let platforms = plugin["spec"]["platforms"].as_array().unwrap();
        assert_eq!(platforms.len(), 1, "a release is of one platform");
        let archive = fs::read(out.join(format!("{stem}.tar.gz"))).unwrap();
        assert_eq!(platforms[0]["sha256"], sha256(&archive));
        let url = format!("https://example.com/releases/{stem}.tar.gz");
        assert_eq!(platforms[0]["uri"], url);
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(archive.as_slice()));
        let mut names = archive.entries().unwrap().map(|entry| {
            let entry = entry.unwrap();
            entry.path().unwrap().to_string_lossy().into_owned()
        });
        assert!(
            names.any(|name| platforms[0]["bin"] == name),
            "krew finds the program"
        );

        let chart = fs::read(out.join(format!("olm-chart-{version}-{}.tgz", system()))).unwrap();
        let blobs = blobs_of(&out.join(summary["chart"]["archive"].as_str().unwrap()));
        let json_of = |descriptor: &Value| -> Value {
            serde_json::from_slice(&blobs[descriptor["digest"].as_str().unwrap()]).unwrap()
        };
        let artefact = json_of(&summary["chart"]);
        let (config, layer) = (&artefact["config"], &artefact["layers"][0]);
        assert_eq!(
            layer["mediaType"],
            "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
        );
        assert_eq!(blobs[layer["digest"].as_str().unwrap()], chart);
        assert_eq!(config["mediaType"], "application/vnd.cncf.helm.config.v1+json");
        let about = json_of(config);
        assert_eq!(
            (&about["name"], &about["version"]),
            (&json!("olm"), &json!(version))
        );

        let bill: Value =
            serde_json::from_str(&read(&format!("opm-{version}-{}.cdx.json", system()))).unwrap();
        let program = &bill["metadata"]["component"];
        assert_eq!(
            (&program["name"], &program["version"]),
            (&json!("opm"), &json!(version))
        );
        assert_eq!(program["hashes"][0]["content"], sha256(b"\x7fELF opm"));
        let purls: Vec<&str> = bill["components"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|it| it["purl"].as_str())
            .collect();
        let has = |start: &str| purls.iter().any(|purl| purl.starts_with(start));
        assert!(
            has("pkg:cargo/tonic@") && has("pkg:generic/olm-fbc@") && has("pkg:generic/glibc@"),
            "{purls:?}"
        );
        assert!(!has("pkg:cargo/insta@"), "what tests need is not in the program");
        let notices = read(&notices_file());
        for text in [
            "\ntikv-jemalloc-sys ",
            "\nglibc ",
            "\nlibgcc ",
            "\nrust-std ",
            "GNU LESSER GENERAL PUBLIC LICENSE",
            "GCC RUNTIME LIBRARY EXCEPTION",
        ] {
            assert!(notices.contains(text), "{text}");
        }

        let mut archive = tar::Archive::new(
            fs::File::open(out.join(format!("olm-image-{version}-{}.tar", system()))).unwrap(),
        );
        let parsed: Vec<Value> = archive
            .entries()
            .unwrap()
            .filter_map(|entry| serde_json::from_reader(entry.unwrap()).ok())
            .collect();
        let config = parsed.iter().find(|value| value["rootfs"].is_object()).unwrap();
        assert_eq!(config["config"]["User"], "1001", "it runs without rights");
        assert_eq!(config["created"], "2023-11-14T22:13:20Z");
        let labels = &config["config"]["Labels"];
        for (name, value) in [("revision", "0123abc"), ("version", &version)] {
            assert_eq!(labels[format!("org.opencontainers.image.{name}")], value);
        }
        let index = parsed.iter().find(|value| value["manifests"].is_array()).unwrap();
        assert_eq!(
            index["manifests"][0]["annotations"]["io.containerd.image.name"],
            format!("registry.example.com/olm/olm:{version}")
        );
    }
}
