//! Compiles the programs of a release so that the place where that is done leaves no trace in them.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context as _;

use super::graph::Units;
use super::source::Source;
use crate::images;
use crate::progress::Progress;

/// The programs of a release, each the only one of the package of its name.
pub(super) const PROGRAMS: [&str; 4] = ["cpb", "kubectl-operator", "olm-controllers", "opm"];

/// Of the caller's environment: how to find tools and the registry of packages. Nothing else may change what is compiled.
const KEPT: [&str; 14] = [
    "PATH",
    "HOME",
    "TMPDIR",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "RUSTUP_AUTO_INSTALL",
    "CARGO_NET_OFFLINE",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
];

/// What stands in programs for the places of the workspace and of cargo's registry.
const WORKSPACE: &str = "/olm";
const CARGO_HOME: &str = "/cargo";

/// Where a build happens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// The workspace.
    pub(super) root: PathBuf,
    /// Cargo's home, with the sources of packages.
    pub(super) cargo_home: PathBuf,
    /// Where cargo builds.
    pub(super) target: PathBuf,
}

impl Place {
    /// The workspace where it is, and cargo's home as cargo finds it.
    ///
    /// # Errors
    /// When there is neither CARGO_HOME nor HOME.
    pub(super) fn here(root: PathBuf) -> anyhow::Result<Self> {
        let cargo_home = match std::env::var_os("CARGO_HOME") {
            Some(home) => PathBuf::from(home),
            None => PathBuf::from(std::env::var_os("HOME").context("neither CARGO_HOME nor HOME is set")?)
                .join(".cargo"),
        };
        Ok(Self {
            target: root.join("target/dist"),
            root,
            cargo_home,
        })
    }

    /// Paths that no program may tell. Later ones lie within earlier ones, where one lies in another.
    ///
    /// # Errors
    /// When one has what flags of compilers cannot have.
    pub(super) fn paths(&self) -> anyhow::Result<Vec<(&str, String)>> {
        [
            (&self.root, WORKSPACE.to_owned()),
            (&self.target, format!("{WORKSPACE}/target")),
            (&self.cargo_home, CARGO_HOME.to_owned()),
        ]
        .into_iter()
        .map(|(path, name)| {
            // Flags of C compilers are separated by blanks.
            let text = path.to_str().filter(|text| !text.contains(char::is_whitespace) && !text.contains('='));
            let text = text.with_context(|| {
                format!(
                    "compilers cannot be told to leave {:?} out of programs, as it has blanks, `=` or bytes that are no text; build at another place",
                    path.display()
                )
            })?;
            Ok((text, name))
        })
        .collect()
    }

    /// Cargo in this place, with no environment but what [`environment`] says.
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
    // Separated so that a path may have blanks.
    set("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}").into());
    set("CFLAGS", c_flags.join(" ").into());
    set("SOURCE_DATE_EPOCH", source.time.to_string().into());
    set("OLM_GIT_COMMIT", source.commit.clone().into());
    set("CARGO_INCREMENTAL", "0".into());
    // A cache of compilers' results would be trusted, and could not be told from compiling.
    set("RUSTC_WRAPPER", "".into());
    set("LC_ALL", "C".into());
    if let Some((name, value)) = images::allocator_settings() {
        set(name, value.into());
    }
    Ok(variables)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> Place {
        Place {
            root: "/home/me/olm".into(),
            cargo_home: "/home/me/.cargo".into(),
            target: "/home/me/olm/target/dist".into(),
        }
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
        assert_eq!(
            (of("SOURCE_DATE_EPOCH"), of("OLM_GIT_COMMIT")),
            ("17".to_owned(), "abc".to_owned())
        );
    }

    #[test]
    fn a_place_that_flags_cannot_name_is_refused() {
        for root in ["/home/me/my olm", "/home/me/a=b"] {
            let place = Place {
                root: root.into(),
                ..place()
            };
            let error = environment(&place, &source(), std::iter::empty())
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
        // Of several that fit the last is taken.
        assert_eq!(
            flags[4..],
            [
                "--remap-path-prefix=/home/me/olm=/olm",
                "--remap-path-prefix=/home/me/olm/target/dist=/olm/target",
                "--remap-path-prefix=/home/me/.cargo=/cargo"
            ]
        );
        assert_eq!(
            of("CFLAGS"),
            "-ffile-prefix-map=/home/me/olm=/olm -ffile-prefix-map=/home/me/olm/target/dist=/olm/target -ffile-prefix-map=/home/me/.cargo=/cargo"
        );
    }
}
