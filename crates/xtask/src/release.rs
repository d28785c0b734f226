//! `cargo xtask release`: what users take, made so that anybody can make the same bytes again.
//!
//! # Expected flow
//! The checkout is asked which commit it has ([`source`]), and what comes from others is checked ([`supply`]). The files of the commit ([`export`]) and
//! the packages that it names ([`packages`]) go to a folder of their own, where the programs are compiled ([`compile`]); everything else is made of the
//! programs and of these files ([`contents`]): archives, images, the chart, manifests, bills of materials, licences. All of it is written beside the
//! folder it is meant for. With `--verify` the same is done once more at another place, and both are compared byte by byte ([`compare`]). What is left
//! then takes the place of the release before.

mod archive;
mod compare;
mod compile;
mod contents;
mod export;
mod graph;
mod installation;
mod machine;
mod notices;
mod packages;
mod sbom;
mod source;
pub(crate) mod supply;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread::available_parallelism;

use anyhow::{Context as _, bail};

use self::archive::Sum;
use self::compile::{PROGRAMS, Place};
use self::contents::{Release, Setting};
use self::machine::Machine;
use self::source::Source;
use crate::args::ReleaseOptions;
use crate::images::VERSION;
use crate::progress::Progress;
use crate::{cluster, images, interrupt, process, workspace};

/// Largest image of all controllers, in bytes before packing (target P15). Upstream's has 275 MB.
const MAX_IMAGE: u64 = 45_000_000;
/// The image that this is about.
const CONTROLLERS: &str = "olm";
/// How the folders are called in which the first and the second release are made. The names stand in no program unless it tells where it was built,
/// and are not of one length.
const PLACES: [&str; 2] = ["olm-release-made-here-", "olm-release-made-once-more-at-"];
/// How many differences between two releases are named.
const NAMED: usize = 10;

/// Makes a release and prints its files; first it is asked whether what comes from others may be released.
///
/// # Errors
/// When the checkout is not what may be released, something does not compile, or the release is not what it has to be: a program tells where it
/// was built, an image is too large, a second release differs.
pub(crate) fn run(
    options: &ReleaseOptions,
    is_supply_fine: impl FnOnce(&Progress) -> anyhow::Result<bool>,
) -> anyhow::Result<ExitCode> {
    interrupt::watch()?;
    let progress = Progress::start();
    let root = workspace::root();
    let source = source::read(
        &root,
        VERSION,
        options.version.as_deref(),
        options.allow_dirty,
        options.programs.is_some(),
    )?;
    let out = match &options.out {
        Some(out) => std::path::absolute(out).context("--out")?,
        None => root.join("target/releases").join(format!(
            "{}-linux-{}",
            source.version,
            go_compat::platform::architecture()
        )),
    };
    may_be_replaced(&out)?;
    progress.note(&format!(
        "OLM {} of commit {} for {}, into {}",
        source.version,
        source.commit,
        images::target(),
        out.display()
    ));
    if !is_supply_fine(&progress)? {
        bail!("what comes from others may not be released; see above");
    }
    let helm = cluster::helm(&progress).context("helm renders the chart")?;
    let at = Elsewhere::prepare(PLACES[0], &root, &source, &progress)?;
    let setting = Setting {
        helm,
        machine: Machine::ask(&at.place.root)?,
        registry: options.registry.clone(),
        source_url: options.source_url.clone(),
        small: options.programs.is_none(),
        source,
    };
    let programs = options.programs.as_deref();
    let made = beside(&out, "partial");
    let release = make(&at.place, &setting, programs, None, &made, &progress)?;
    // The second release needs as much room.
    drop(at);
    if options.verify {
        progress.note("the same once more, at another place");
        let at = Elsewhere::prepare(PLACES[1], &root, &setting.source, &progress)?;
        // How many work at a time must not matter.
        let jobs = available_parallelism().map_or(1, usize::from) + 1;
        let second = beside(&out, "second");
        make(&at.place, &setting, programs, Some(jobs), &second, &progress)?;
        same(&made, &second)?;
        remove(&second)?;
        progress.note("verified: a second release, made at another place, is the same to the byte");
    }
    put_in_place(&made, &out)?;
    println!("{}", table(&release));
    Ok(ExitCode::SUCCESS)
}

/// A place for a build, which goes when this is dropped.
struct Elsewhere {
    place: Place,
    _folder: tempfile::TempDir,
}

impl Elsewhere {
    fn prepare(name: &str, root: &Path, source: &Source, progress: &Progress) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix(name)
            .tempdir()
            .context("cannot make a folder for the build")?;
        let place = progress.stage("sources of the commit and of packages unpacked", || {
            let export = |to: &Path| {
                if source.dirty {
                    export::of_checkout(root, to)
                } else {
                    export::of_commit(root, &source.commit, to)
                }
            };
            Place::prepare(folder.path(), export, progress)
        })?;
        Ok(Self {
            place,
            _folder: folder,
        })
    }
}

/// Makes a release in `place`, of programs that are compiled there or of those in a folder, and writes it to `out`. Nothing is left of one that
/// fails.
fn make(
    place: &Place,
    setting: &Setting,
    programs: Option<&Path>,
    jobs: Option<usize>,
    out: &Path,
    progress: &Progress,
) -> anyhow::Result<Release> {
    let stripped = beside(out, "programs");
    for folder in [out, &stripped] {
        remove(folder)?;
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let made = make_within(place, setting, programs, jobs, [out, &stripped], progress);
    remove(&stripped)?;
    if made.is_err() {
        remove(out)?;
    }
    made
}

fn make_within(
    place: &Place,
    setting: &Setting,
    programs: Option<&Path>,
    jobs: Option<usize>,
    [out, stripped]: [&Path; 2],
    progress: &Progress,
) -> anyhow::Result<Release> {
    let (folder, units) = match programs {
        Some(given) => {
            progress.stage("programs stripped", || strip(given, stripped))?;
            (stripped.to_owned(), None)
        }
        None => {
            let compiled = progress.stage("programs compiled", || {
                compile::compile(place, &setting.source, jobs, progress)
            })?;
            progress.stage("programs tell nothing of this machine", || {
                tell_no_paths(place, &compiled.programs)
            })?;
            (compiled.programs, Some(compiled.units))
        }
    };
    let release = progress.stage("files of the release written", || {
        contents::write(place, setting, &folder, units.as_ref(), out)
    })?;
    // What stands in for a release may be of any size.
    if units.is_some() {
        small_enough(&release, MAX_IMAGE)?;
    }
    Ok(release)
}

/// # Errors
/// When two releases differ: the text names the first files and places. Both are left for a look.
fn same(first: &Path, second: &Path) -> anyhow::Result<()> {
    let differences = compare::differences(first, second)?;
    if !differences.is_empty() {
        let named: Vec<&str> = differences.iter().take(NAMED).map(String::as_str).collect();
        bail!(
            "the release cannot be made again: {} of its files in {} are others in {}:\n  {}",
            differences.len(),
            first.display(),
            second.display(),
            named.join("\n  ")
        );
    }
    Ok(())
}

/// Has a release take the place of the one before.
fn put_in_place(made: &Path, out: &Path) -> anyhow::Result<()> {
    may_be_replaced(out)?;
    remove(out)?;
    fs::rename(made, out).with_context(|| format!("cannot write {}", out.display()))
}

/// A folder beside another one.
fn beside(folder: &Path, what: &str) -> PathBuf {
    let mut name = folder.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{what}"));
    folder.with_file_name(name)
}

fn remove(folder: &Path) -> anyhow::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}

/// A folder that holds anything but a release is left alone.
fn may_be_replaced(out: &Path) -> anyhow::Result<()> {
    let is_empty = match fs::read_dir(out) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => true,
        Err(error) => return Err(error).with_context(|| format!("cannot list {}", out.display())),
    };
    if !is_empty && !out.join(contents::summary_file()).is_file() {
        bail!(
            "{} holds files and no release; name another folder with --out, or empty it",
            out.display()
        );
    }
    Ok(())
}

/// Copies programs without their symbols, which are most of those that are built beside tests.
fn strip(from: &Path, to: &Path) -> anyhow::Result<()> {
    for program in PROGRAMS {
        let mut command = std::process::Command::new("strip");
        command.arg("-o").arg(to.join(program)).arg(from.join(program));
        process::output(command, None, &format!("strip {program}"))?;
    }
    Ok(())
}

/// # Errors
/// When a program has a path of this machine in it: it could not be built the same elsewhere, and tells what is nobody's business.
fn tell_no_paths(place: &Place, programs: &Path) -> anyhow::Result<()> {
    let paths = place.paths()?;
    let mut wanted: Vec<&str> = paths.iter().map(|(path, _)| *path).collect();
    // Of the machine the toolchain alone is read, besides the place. Not the whole home directory: programs may speak of `/src/` or `/root/` for
    // reasons of their own.
    let toolchains = workspace::rustup_home()?.join("toolchains").display().to_string();
    wanted.push(&toolchains);
    for program in PROGRAMS {
        let file = programs.join(program);
        let bytes = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
        if let Some((path, at)) = compare::path_within(&bytes, &wanted) {
            bail!(
                "{program} has {path} in it, at byte {at}: a compiler or build script wrote down where it ran"
            );
        }
    }
    Ok(())
}

fn small_enough(release: &Release, most: u64) -> anyhow::Result<()> {
    for image in release.images.iter().filter(|image| image.name == CONTROLLERS) {
        if image.uncompressed > most {
            bail!(
                "the image {} has {} before packing, more than {}",
                image.name,
                megabytes(image.uncompressed),
                megabytes(most)
            );
        }
    }
    Ok(())
}

/// What people see at the end: each file with its size and SHA-256, and the images.
fn table(release: &Release) -> String {
    let width = release
        .files
        .iter()
        .map(|file| file.name.len())
        .max()
        .unwrap_or(0);
    let mut text = String::new();
    for Sum { name, size, sha256 } in &release.files {
        text.push_str(&format!("{name:<width$}  {:>9}  {sha256}\n", megabytes(*size)));
    }
    for image in &release.images {
        text.push_str(&format!(
            "image {} {} before packing{}\n",
            image.reference,
            megabytes(image.uncompressed),
            if image.name == CONTROLLERS {
                format!(", {} at most", megabytes(MAX_IMAGE))
            } else {
                String::new()
            }
        ));
    }
    text.trim_end().to_owned()
}

/// Millions of bytes, as targets count them.
fn megabytes(bytes: u64) -> String {
    format!("{:.2} MB", bytes as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::contents::Image;
    use super::*;

    fn release(bytes: u64) -> Release {
        Release {
            files: vec![Sum {
                name: "opm.tar.gz".into(),
                size: 1_500_000,
                sha256: "ab".into(),
            }],
            images: ["olm", "opm"]
                .map(|name| Image {
                    name: name.into(),
                    reference: format!("r/{name}:1@sha256:0"),
                    digest: "sha256:0".into(),
                    archive: format!("{name}.tar"),
                    uncompressed: bytes,
                })
                .into(),
        }
    }

    #[test]
    fn the_image_of_all_controllers_is_small() {
        assert!(small_enough(&release(MAX_IMAGE), MAX_IMAGE).is_ok());
        let error = small_enough(&release(MAX_IMAGE + 10_000), MAX_IMAGE)
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            "the image olm has 45.01 MB before packing, more than 45.00 MB"
        );
    }

    #[test]
    fn the_table_has_sizes_and_sums() {
        assert_eq!(
            table(&release(30_000_000)),
            "opm.tar.gz    1.50 MB  ab\n\
             image r/olm:1@sha256:0 30.00 MB before packing, 45.00 MB at most\n\
             image r/opm:1@sha256:0 30.00 MB before packing"
        );
    }

    #[test]
    fn only_a_release_or_nothing_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        assert!(may_be_replaced(&folder.path().join("new")).is_ok());
        assert!(may_be_replaced(folder.path()).is_ok(), "an empty folder");
        fs::write(folder.path().join("thesis.txt"), "mine").unwrap();
        let error = may_be_replaced(folder.path()).unwrap_err().to_string();
        assert!(error.contains("--out"), "{error}");
        fs::write(folder.path().join(contents::summary_file()), "{}").unwrap();
        assert!(may_be_replaced(folder.path()).is_ok());
    }

    #[test]
    fn a_program_that_tells_where_it_was_built_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place {
            root: "/tmp/x/sources".into(),
            cargo_home: "/tmp/x/cargo".into(),
            target: "/tmp/x/built".into(),
            home: "/tmp/x/home".into(),
        };
        for program in PROGRAMS {
            let natural = format!(
                "\x7fELF /olm/src/main.rs /src/ {}/",
                std::env::var("HOME").unwrap()
            );
            fs::write(folder.path().join(program), natural).unwrap();
        }
        tell_no_paths(&place, folder.path()).unwrap();
        let toolchains = workspace::rustup_home().unwrap().join("toolchains");
        for path in [place.cargo_home.as_path(), &place.home, &toolchains] {
            let path = path.display();
            fs::write(folder.path().join("opm"), format!("\x7fELF {path}/x")).unwrap();
            let error = tell_no_paths(&place, folder.path()).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("opm has {path} in it, at byte 5")),
                "{error}"
            );
        }
    }
    #[test]
    fn a_release_that_is_not_verified_replaces_none() {
        let folder = tempfile::tempdir().unwrap();
        let [out, made, second] = ["out", "out.partial", "out.second"].map(|name| folder.path().join(name));
        for (folder, text) in [(&out, "before"), (&made, "now"), (&second, "later")] {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join(contents::summary_file()), text).unwrap();
        }
        let error = same(&made, &second).unwrap_err().to_string();
        assert!(
            error.contains("1 of its files in") && error.contains("differs from byte 0 on"),
            "{error}"
        );
        let of = || fs::read_to_string(out.join(contents::summary_file())).unwrap();
        assert_eq!(of(), "before");
        fs::write(second.join(contents::summary_file()), "now").unwrap();
        same(&made, &second).unwrap();
        put_in_place(&made, &out).unwrap();
        assert_eq!(of(), "now");
        assert!(!made.exists());
        fs::create_dir(&made).unwrap();
        fs::remove_file(out.join(contents::summary_file())).unwrap();
        fs::write(out.join("thesis.txt"), "mine").unwrap();
        assert!(put_in_place(&made, &out).is_err(), "what came there meanwhile");
    }

    #[test]
    fn a_release_that_fails_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place {
            root: folder.path().join("sources"),
            cargo_home: folder.path().join("cargo"),
            target: folder.path().join("built"),
            home: folder.path().join("home"),
        };
        let setting = Setting {
            source: Source {
                commit: "0123abc".into(),
                dirty: false,
                time: 17,
                version: "1.0.0".into(),
            },
            machine: Machine::ask(&workspace::root()).unwrap(),
            helm: "helm".into(),
            registry: None,
            source_url: None,
            small: false,
        };
        let out = folder.path().join("out");
        let none = folder.path().join("none");
        assert!(make(&place, &setting, Some(&none), None, &out, &Progress::start()).is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
