//! Compiles the programs of a release so that the place where that is done leaves no trace in them.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use super::graph::Units;
use super::packages;
use super::source::Source;
use crate::progress::Progress;
use crate::{images, workspace};

/// The programs of a release, each the only one of the package of its name.
pub(super) const PROGRAMS: [&str; 4] = ["cpb", "kubectl-operator", "olm-controllers", "opm"];

/// Of the caller's environment: how to find tools. Nothing else may change what is compiled, and no network is needed.
const KEPT: [&str; 3] = ["PATH", "TMPDIR", "RUSTUP_AUTO_INSTALL"];

/// What jemalloc's configure would ask the processor, the kernel and the page size of the machine that builds: 48 bits of addresses, which is all
/// that kernels give programs that ask for no more; huge pages of 2 MiB, pages of 4 KiB (but see [`images::allocator_settings`]).
const ALLOCATOR: [(&str, &str); 3] = [
    ("JEMALLOC_SYS_WITH_LG_VADDR", "48"),
    ("JEMALLOC_SYS_WITH_LG_HUGEPAGE", "21"),
    ("JEMALLOC_SYS_WITH_LG_PAGE", "12"),
];

/// What stands in programs for the places of the workspace and of packages.
const WORKSPACE: &str = "/olm";
const CARGO_HOME: &str = "/cargo";
/// Settings of cargo, which count in each folder below that of `.cargo`.
const CARGO_SETTINGS: [&str; 2] = [".cargo/config.toml", ".cargo/config"];

/// Where a build happens: a folder of its own, whose name stands nowhere else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// The workspace.
    pub(super) root: PathBuf,
    /// Cargo's home, with the sources of packages.
    pub(super) cargo_home: PathBuf,
    /// Where cargo builds.
    pub(super) target: PathBuf,
    /// The home directory that programs are told, with nothing in it.
    pub(super) home: PathBuf,
}

impl Place {
    /// Makes ready the empty folder `folder`: the files that `export` writes, the packages that they name, and homes with nothing else.
    ///
    /// # Errors
    /// Those of `export` and of [`packages::unpack`]; and when settings of cargo above the folder would count.
    pub(super) fn prepare(
        folder: &Path,
        export: impl FnOnce(&Path) -> anyhow::Result<()>,
        progress: &Progress,
    ) -> anyhow::Result<Self> {
        // As compilers see it, which resolve links.
        let folder = folder
            .canonicalize()
            .with_context(|| format!("cannot find {}", folder.display()))?;
        let place = Self::within(&folder);
        alone(&folder)?;
        for folder in [&place.root, &place.cargo_home, &place.home] {
            fs::create_dir(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        }
        export(&place.root)?;
        let lock = fs::read_to_string(place.root.join("Cargo.lock")).context("cannot read Cargo.lock")?;
        packages::fetch(&lock, progress)?;
        let unpacked = place.cargo_home.join("packages");
        packages::unpack(&lock, &packages::caches()?, &unpacked)?;
        fs::write(
            place.cargo_home.join("config.toml"),
            packages::settings(&unpacked)?,
        )?;
        Ok(place)
    }

    fn within(folder: &Path) -> Self {
        Self {
            root: folder.join("sources"),
            cargo_home: folder.join("cargo"),
            target: folder.join("built"),
            home: folder.join("home"),
        }
    }

    /// Paths that no program may tell, and what stands there for them.
    ///
    /// # Errors
    /// When one has what flags of compilers cannot have.
    pub(super) fn paths(&self) -> anyhow::Result<Vec<(&str, String)>> {
        [
            (&self.root, WORKSPACE.to_owned()),
            (&self.target, format!("{WORKSPACE}/target")),
            (&self.cargo_home, CARGO_HOME.to_owned()),
            (&self.home, "/home".to_owned()),
        ]
        .into_iter()
        .map(|(path, name)| {
            // Flags of C compilers are separated by blanks.
            let text = path.to_str().filter(|text| !text.contains(char::is_whitespace) && !text.contains('='));
            let text = text.with_context(|| {
                format!(
                    "compilers cannot be told to leave {:?} out of programs, as it has blanks, `=` or bytes that are no text; set TMPDIR to another place",
                    path.display()
                )
            })?;
            Ok((text, name))
        })
        .collect()
    }

    /// Cargo in this place, with no environment but what [`environment`] says, and no settings but those of the sources.
    ///
    /// # Errors
    /// Those of [`Place::paths`].
    pub(super) fn cargo(&self, source: &Source) -> anyhow::Result<Command> {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command
            .current_dir(&self.root)
            .env_clear()
            .envs(environment(self, source, std::env::vars_os())?);
        Ok(command)
    }
}

/// # Errors
/// When settings of cargo in a folder above would count in `folder`.
fn alone(folder: &Path) -> anyhow::Result<()> {
    for above in folder.ancestors() {
        for name in CARGO_SETTINGS {
            let file = above.join(name);
            if file.exists() {
                bail!(
                    "{} would change how the release in {} is compiled; set TMPDIR to a folder that is not below {}",
                    file.display(),
                    folder.display(),
                    above.display()
                );
            }
        }
    }
    Ok(())
}

/// What [`compile`] made.
#[derive(Debug)]
pub(super) struct Compiled {
    /// The folder of the programs.
    pub(super) programs: PathBuf,
    /// What went into them.
    pub(super) units: Units,
}

/// Compiles [`PROGRAMS`]; `jobs` at a time, else as many as there are processors.
///
/// # Errors
/// When something does not compile.
pub(super) fn compile(
    place: &Place,
    source: &Source,
    jobs: Option<usize>,
    progress: &Progress,
) -> anyhow::Result<Compiled> {
    let target = images::target();
    let mut command = place.cargo(source)?;
    command
        .args([
            "build",
            "--release",
            "--locked",
            "--offline",
            "--quiet",
            "--message-format=json-render-diagnostics",
            "--target",
            &target,
        ])
        .arg("--target-dir")
        .arg(&place.target);
    if let Some(jobs) = jobs {
        command.args(["--jobs", &jobs.to_string()]);
    }
    for program in PROGRAMS {
        command.args(["--package", program]);
    }
    let mut units = Units::default();
    images::run_cargo(command, progress, |line| units.note(line, &target))?;
    Ok(Compiled {
        programs: place.target.join(target).join("release"),
        units,
    })
}

/// All that the compilers see of the environment.
fn environment(
    place: &Place,
    source: &Source,
    callers: impl Iterator<Item = (OsString, OsString)>,
) -> anyhow::Result<Vec<(OsString, OsString)>> {
    let mut variables: Vec<(OsString, OsString)> = callers
        .filter(|(name, _)| KEPT.iter().any(|kept| OsStr::new(kept) == name))
        .collect();
    let paths = place.paths()?;
    let mut flags: Vec<String> = images::STATIC_FLAGS.map(str::to_owned).to_vec();
    flags.extend(
        paths
            .iter()
            .map(|(path, name)| format!("--remap-path-prefix={path}={name}")),
    );
    // The same for C.
    let c_flags: Vec<String> = paths
        .iter()
        .map(|(path, name)| format!("-ffile-prefix-map={path}={name}"))
        .collect();
    let mut set = |name: &str, value: OsString| variables.push((name.into(), value));
    set("CARGO_HOME", place.cargo_home.clone().into());
    set("HOME", place.home.clone().into());
    set("RUSTUP_HOME", workspace::rustup_home()?.into());
    // Separated so that a path may have blanks.
    set("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}").into());
    set("CFLAGS", c_flags.join(" ").into());
    set("SOURCE_DATE_EPOCH", source.time.to_string().into());
    set("OLM_GIT_COMMIT", source.commit.clone().into());
    set("CARGO_INCREMENTAL", "0".into());
    // A cache of compilers' results would be trusted, and could not be told from compiling.
    set("RUSTC_WRAPPER", "".into());
    set("LC_ALL", "C".into());
    for (name, value) in ALLOCATOR.into_iter().chain(images::allocator_settings()) {
        variables.retain(|(known, _)| known != name);
        variables.push((name.into(), value.into()));
    }
    Ok(variables)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> Place {
        Place::within(Path::new("/tmp/release-x"))
    }

    fn source() -> Source {
        Source {
            commit: "abc".into(),
            dirty: false,
            time: 17,
            version: "1.0.0".into(),
        }
    }

    #[test]
    fn nothing_of_the_callers_environment_changes_what_is_compiled() {
        let callers = [
            "PATH",
            "HOME",
            "CARGO_HOME",
            "RUSTUP_TOOLCHAIN",
            "HTTPS_PROXY",
            "RUSTFLAGS",
            "CC",
            "CARGO_PROFILE_RELEASE_LTO",
            "RUSTC_WRAPPER",
            "TZ",
            "MALLOC_CONF",
        ]
        .map(|name| (OsString::from(name), OsString::from("theirs")));
        let set = environment(&place(), &source(), callers.into_iter()).unwrap();
        let theirs: Vec<_> = set
            .iter()
            .filter(|(_, value)| value == "theirs")
            .map(|(name, _)| name)
            .collect();
        assert_eq!(theirs, ["PATH"]);
        let of = |name: &str| {
            let found: Vec<_> = set.iter().filter(|(known, _)| known == name).collect();
            assert_eq!(found.len(), 1, "{name}");
            found[0].1.to_str().unwrap().to_owned()
        };
        assert_eq!(of("RUSTC_WRAPPER"), "");
        assert_eq!(of("HOME"), "/tmp/release-x/home");
        assert_eq!(of("CARGO_HOME"), "/tmp/release-x/cargo");
        assert_eq!(
            (of("SOURCE_DATE_EPOCH"), of("OLM_GIT_COMMIT")),
            ("17".to_owned(), "abc".to_owned())
        );
    }

    #[test]
    fn a_place_that_flags_cannot_name_is_refused() {
        for root in ["/home/me/my olm", "/home/me/a=b"] {
            let error = environment(&Place::within(Path::new(root)), &source(), std::iter::empty())
                .unwrap_err()
                .to_string();
            assert!(error.contains(root), "{error}");
        }
    }

    #[test]
    fn every_place_is_taken_out_of_rust_and_of_c() {
        let set = environment(&place(), &source(), std::iter::empty()).unwrap();
        let of = |name: &str| {
            set.iter()
                .find(|(known, _)| known == name)
                .unwrap()
                .1
                .to_str()
                .unwrap()
        };
        let flags: Vec<&str> = of("CARGO_ENCODED_RUSTFLAGS").split('\u{1f}').collect();
        assert_eq!(flags[..2], ["-C", "target-feature=+crt-static"]);
        assert_eq!(
            flags[4..],
            [
                "--remap-path-prefix=/tmp/release-x/sources=/olm",
                "--remap-path-prefix=/tmp/release-x/built=/olm/target",
                "--remap-path-prefix=/tmp/release-x/cargo=/cargo",
                "--remap-path-prefix=/tmp/release-x/home=/home"
            ]
        );
        assert_eq!(
            of("CFLAGS"),
            "-ffile-prefix-map=/tmp/release-x/sources=/olm -ffile-prefix-map=/tmp/release-x/built=/olm/target -ffile-prefix-map=/tmp/release-x/cargo=/cargo -ffile-prefix-map=/tmp/release-x/home=/home"
        );
    }

    #[test]
    fn jemalloc_does_not_ask_the_processor() {
        let set = environment(&place(), &source(), std::iter::empty()).unwrap();
        let of = |name: &str| {
            let found: Vec<_> = set.iter().filter(|(known, _)| known == name).collect();
            assert_eq!(found.len(), 1, "{name}");
            found[0].1.to_str().unwrap().to_owned()
        };
        assert_eq!(of("JEMALLOC_SYS_WITH_LG_VADDR"), "48");
        assert_eq!(of("JEMALLOC_SYS_WITH_LG_HUGEPAGE"), "21");
        let page = images::allocator_settings().map_or("12", |(_, value)| value);
        assert_eq!(of("JEMALLOC_SYS_WITH_LG_PAGE"), page);
    }

    #[test]
    fn settings_of_cargo_above_the_place_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let below = folder.path().join("a/b");
        fs::create_dir_all(&below).unwrap();
        alone(&below).unwrap();
        fs::create_dir(folder.path().join(".cargo")).unwrap();
        for name in CARGO_SETTINGS {
            let file = folder.path().join(name);
            fs::write(&file, "[build]\nrustflags = []\n").unwrap();
            let error = alone(&below).unwrap_err().to_string();
            assert!(
                error.starts_with(&file.display().to_string()) && error.contains("set TMPDIR"),
                "{error}"
            );
            fs::remove_file(file).unwrap();
        }
    }
}
