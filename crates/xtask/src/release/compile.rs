//! Compiles the programs of a release without any trace of the place of the build.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use super::source::Source;
use super::{PROGRAMS, packages};
use crate::progress::Progress;
use crate::{images, workspace};

/// Variables of the caller's environment that locate tools. No others may affect the compilation.
const KEPT: [&str; 6] = [
    "PATH",
    "HOME",
    "TMPDIR",
    "CARGO_HOME",
    "RUSTUP_HOME",
    "RUSTUP_AUTO_INSTALL",
];

/// Settings that jemalloc would otherwise detect on the building machine: address space of 48 bits, huge pages of 2 MiB, pages of
/// 4 KiB (but see [`images::allocator_settings`]). Kernels give programs 48 bits unless they request more.
const ALLOCATOR: [(&str, &str); 3] = [
    ("JEMALLOC_SYS_WITH_LG_VADDR", "48"),
    ("JEMALLOC_SYS_WITH_LG_HUGEPAGE", "21"),
    ("JEMALLOC_SYS_WITH_LG_PAGE", "12"),
];

/// Compiles [`PROGRAMS`] from `sources`, below `folder`, and returns the folder of the programs.
///
/// # Errors
/// The compilation fails, or a program contains a path of this machine.
pub(super) fn compile(
    folder: &Path,
    sources: &Path,
    source: &Source,
    progress: &Progress,
) -> anyhow::Result<PathBuf> {
    let built = folder.join("built");
    let mut places = vec![(sources.to_owned(), "/olm"), (built.clone(), "/olm/target")];
    places.extend(packages::folders()?.into_iter().map(|folder| (folder, "/cargo")));
    let target = images::target();
    let mut command = workspace::cargo();
    command
        .args(["build", "--release", "--locked", "--offline", "--quiet"])
        .args(["--message-format=json-render-diagnostics", "--target", &target])
        .args(PROGRAMS.map(|program| format!("--package={program}")))
        .arg("--target-dir")
        .arg(&built)
        .current_dir(sources)
        .env_clear()
        .envs(environment(&places, source, std::env::vars_os()));
    images::run_cargo(command, progress)?;
    let programs = built.join(target).join("release");
    let wanted = [
        folder.to_owned(),
        workspace::cargo_home()?,
        workspace::home_of("RUSTUP_HOME", ".rustup")?,
    ];
    for program in PROGRAMS {
        let file = programs.join(program);
        let bytes = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let text = String::from_utf8_lossy(&bytes);
        if let Some(path) = wanted.iter().find(|path| text.contains(&*path.to_string_lossy())) {
            bail!(
                "{program} has {} in it: a compiler or build script wrote down where it ran",
                path.display()
            );
        }
    }
    Ok(programs)
}

/// Returns the complete environment of the compilers.
fn environment(
    places: &[(PathBuf, &str)],
    source: &Source,
    callers: impl Iterator<Item = (OsString, OsString)>,
) -> Vec<(OsString, OsString)> {
    let mut flags: Vec<String> = images::static_flags().into_iter().map(str::to_owned).collect();
    let mut c_flags = Vec::new();
    for (path, name) in places {
        flags.push(format!("--remap-path-prefix={}={name}", path.display()));
        c_flags.push(format!("-ffile-prefix-map={}={name}", path.display()));
    }
    let mut variables: Vec<(OsString, OsString)> = callers
        .filter(|(name, _)| KEPT.iter().any(|kept| name == kept))
        .collect();
    let flags = flags.join("\u{1f}");
    let set = [
        ("CARGO_ENCODED_RUSTFLAGS", flags.as_str()),
        ("CFLAGS", &c_flags.join(" ")),
        ("SOURCE_DATE_EPOCH", &source.time.to_string()),
        ("OLM_GIT_COMMIT", &source.commit),
        ("CARGO_INCREMENTAL", "0"),
        // A compiler cache would make the result of a compilation uncertain.
        ("RUSTC_WRAPPER", ""),
        ("LC_ALL", "C"),
    ];
    // The last value of a variable counts.
    let set = set
        .into_iter()
        .chain(ALLOCATOR)
        .chain(images::allocator_settings());
    variables.extend(set.map(|(name, value)| (name.into(), value.into())));
    variables
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cargo leaves the symbols in a program whose own package has a table of the profile.
    #[test]
    fn every_program_is_stripped() {
        let manifest = std::fs::read_to_string(workspace::root().join("Cargo.toml")).unwrap();
        assert!(manifest.contains("\nstrip = true\n"));
        for program in PROGRAMS {
            let table = format!("[profile.release.package.{program}]");
            assert!(!manifest.contains(&table), "{program}");
        }
    }

    #[test]
    fn nothing_of_the_callers_environment_changes_what_is_compiled() {
        let callers = [
            "PATH",
            "HOME",
            "RUSTFLAGS",
            "CC",
            "CARGO_PROFILE_RELEASE_LTO",
            "RUSTC_WRAPPER",
            "TZ",
        ]
        .map(|name| (OsString::from(name), OsString::from("theirs")));
        let source = Source {
            commit: "abc".into(),
            files: "abc".into(),
            time: 17,
            version: "1.0.0".into(),
        };
        let places = [(PathBuf::from("/tmp/x/sources"), "/olm")];
        let set = environment(&places, &source, callers.into_iter());
        let theirs: Vec<_> = set
            .iter()
            .filter(|(_, value)| value == "theirs")
            .map(|(name, _)| name)
            .collect();
        assert_eq!(theirs, ["PATH", "HOME"]);
        let of = |name: &str| {
            let found = set.iter().rfind(|(known, _)| known == name);
            found.unwrap().1.to_str().unwrap()
        };
        assert_eq!(of("RUSTC_WRAPPER"), "");
        assert_eq!((of("SOURCE_DATE_EPOCH"), of("OLM_GIT_COMMIT")), ("17", "abc"));
        assert!(of("CARGO_ENCODED_RUSTFLAGS").ends_with("--remap-path-prefix=/tmp/x/sources=/olm"));
        assert_eq!(of("CFLAGS"), "-ffile-prefix-map=/tmp/x/sources=/olm");
        let page = images::allocator_settings().map_or("12", |(_, value)| value);
        assert_eq!(
            of("JEMALLOC_SYS_WITH_LG_PAGE"),
            page,
            "jemalloc asks no processor"
        );
    }
}
