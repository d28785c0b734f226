//! `cargo xtask release`: what users take, made so that anybody can make the same bytes again.
//!
//! # Expected flow
//! The checkout is looked at ([`source`]), the programs are compiled ([`compile`]), and everything else is made of them and of the
//! checkout ([`contents`]): archives, images, the chart, manifests, bills of materials, licences. All of it is written beside the folder it is
//! meant for, which it replaces when it is whole. With `--verify` the same is done once more in a copy of the checkout at another place ([`again`]), and
//! both are compared byte by byte ([`compare`]).

mod again;
mod archive;
mod compare;
mod compile;
mod contents;
mod graph;
mod installation;
mod machine;
mod notices;
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
use crate::args::ReleaseOptions;
use crate::images::VERSION;
use crate::progress::Progress;
use crate::{cluster, images, interrupt, process, workspace};

/// What tells that a folder holds a release, which may be replaced.
const MARK: &str = contents::SUMMARY;
/// Largest image of all controllers, in bytes before packing (target P15). Upstream's has 275 MB.
const MAX_IMAGE: u64 = 45_000_000;
/// The image that this is about.
const CONTROLLERS: &str = "olm";
/// How many differences between two releases are named.
const NAMED: usize = 10;

/// Makes a release and prints its files.
///
/// # Errors
/// When the checkout is not what may be released, something does not compile, or the release is not what it has to be: a program tells where it
/// was built, an image is too large, a second release differs.
pub(crate) fn run(options: &ReleaseOptions) -> anyhow::Result<ExitCode> {
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
        None => root.join("target/releases").join(&source.version),
    };
    may_be_replaced(&out)?;
    progress.note(&format!(
        "OLM {} of commit {} for {}, into {}",
        source.version,
        source.commit,
        images::target(),
        out.display()
    ));
    let setting = Setting {
        helm: cluster::helm(&progress).context("helm renders the chart")?,
        machine: Machine::ask(&root)?,
        registry: options.registry.clone(),
        source_url: options.source_url.clone(),
        small: options.programs.is_none(),
        source,
    };
    let place = Place::here(root)?;
    let release = make(
        &place,
        &setting,
        options.programs.as_deref(),
        None,
        &out,
        &progress,
    )?;
    if options.verify {
        verify(&place, &setting, options.programs.as_deref(), &out, &progress)?;
        progress.note("verified: a second release, made at another place, is the same to the byte");
    }
    println!("{}", table(&release));
    Ok(ExitCode::SUCCESS)
}

/// Makes a release in `place`, of programs that are compiled there or of those in a folder, and puts it to `out`.
fn make(
    place: &Place,
    setting: &Setting,
    programs: Option<&Path>,
    jobs: Option<usize>,
    out: &Path,
    progress: &Progress,
) -> anyhow::Result<Release> {
    let partial = beside(out, "partial");
    let stripped = beside(out, "programs");
    for folder in [&partial, &stripped] {
        remove(folder)?;
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let (folder, units) = match programs {
        Some(given) => {
            progress.stage("programs stripped", || strip(given, &stripped))?;
            (stripped.clone(), None)
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
        contents::write(place, setting, &folder, units.as_ref(), &partial)
    })?;
    // What stands in for a release may be of any size.
    if units.is_some() {
        small_enough(&release, MAX_IMAGE)?;
    }
    remove(out)?;
    fs::rename(&partial, out).with_context(|| format!("cannot write {}", out.display()))?;
    remove(&stripped)?;
    Ok(release)
}

/// Makes the release again in a copy of the checkout that lies elsewhere, with cargo's home elsewhere and another number of compilers at a
/// time, and compares it with the one at `out`.
///
/// # Errors
/// When it cannot be made, or differs: the text names the first files and places. The second release is then left beside the first.
fn verify(
    first: &Place,
    setting: &Setting,
    programs: Option<&Path>,
    out: &Path,
    progress: &Progress,
) -> anyhow::Result<()> {
    progress.note("the same once more, in a copy of the checkout at another place");
    let elsewhere = tempfile::Builder::new()
        .prefix("another-place-")
        .tempdir()
        .context("cannot make a folder for the second release")?;
    let place = again::move_to(first, elsewhere.path())?;
    // How many work at a time must not matter.
    let jobs = available_parallelism().map_or(1, usize::from) + 1;
    let second = beside(out, "second");
    make(&place, setting, programs, Some(jobs), &second, progress)?;
    let differences = compare::differences(out, &second)?;
    if !differences.is_empty() {
        let named: Vec<&str> = differences.iter().take(NAMED).map(String::as_str).collect();
        bail!(
            "the release cannot be made again: {} of its files are others in {}:\n  {}",
            differences.len(),
            second.display(),
            named.join("\n  ")
        );
    }
    remove(&second)
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
    if !is_empty && !out.join(MARK).is_file() {
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
    let home = std::env::var("HOME").map(|home| format!("{}/", home.trim_end_matches('/')));
    wanted.extend(home.as_deref());
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
        fs::write(folder.path().join(MARK), "{}").unwrap();
        assert!(may_be_replaced(folder.path()).is_ok());
    }

    #[test]
    fn a_program_that_tells_where_it_was_built_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place {
            root: "/srv/somewhere".into(),
            cargo_home: "/srv/cargo".into(),
            target: "/srv/somewhere/target".into(),
        };
        for program in PROGRAMS {
            fs::write(folder.path().join(program), "\x7fELF /olm/src/main.rs").unwrap();
        }
        tell_no_paths(&place, folder.path()).unwrap();
        fs::write(folder.path().join("opm"), "\x7fELF /srv/cargo/registry").unwrap();
        let error = tell_no_paths(&place, folder.path()).unwrap_err().to_string();
        assert!(
            error.starts_with("opm has /srv/cargo in it, at byte 5"),
            "{error}"
        );
    }
}
