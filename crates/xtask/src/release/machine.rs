//! What of the machine goes into a release: the compilers and libraries that another machine needs in the same versions to build the same bytes.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context as _;
use serde::Serialize;

use super::archive::sha256;
use crate::{images, process};

/// Facts that decide about bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Machine {
    /// `rustc --verbose --version`, a line each. `rust-toolchain.toml` pins it.
    pub(super) rustc: Vec<String>,
    /// `cc --version`, the first line: it compiles SQLite, zstd, jemalloc and parts of ring, and calls the linker.
    pub(super) c_compiler: String,
    /// `ld --version`, the first line; where Rust brings its own linker, that is used.
    pub(super) linker: String,
    /// The C library that is linked in, for example `glibc 2.36`.
    pub(super) c_library: String,
    /// SHA-256 of the certificate authorities in the images.
    pub(super) certificate_authorities: String,
}

impl Machine {
    /// Asks the tools.
    ///
    /// # Errors
    /// When one is missing.
    pub(super) fn ask(root: &Path) -> anyhow::Result<Self> {
        let ask = |program: &str, argument: &[&str]| {
            let mut command = Command::new(program);
            command
                .args(argument)
                .current_dir(root)
                .env("LC_ALL", "C")
                .stdin(Stdio::null());
            process::output(command, None, &format!("{program} {}", argument.join(" ")))
        };
        let first = |text: String| text.lines().next().unwrap_or_default().trim().to_owned();
        let authorities = fs::read(images::AUTHORITIES).with_context(|| {
            format!(
                "cannot read {}; install the package ca-certificates",
                images::AUTHORITIES
            )
        })?;
        Ok(Self {
            rustc: ask("rustc", &["--verbose", "--version"])?
                .lines()
                .map(str::to_owned)
                .collect(),
            c_compiler: first(ask("cc", &["--version"])?),
            linker: first(ask("ld", &["--version"])?),
            c_library: first(ask("getconf", &["GNU_LIBC_VERSION"])?),
            certificate_authorities: sha256(&authorities),
        })
    }

    /// What of it is linked into programs, for their bill of materials: name, version, licence.
    pub(super) fn linked(&self) -> Vec<(String, String, String)> {
        let (library, version) = self
            .c_library
            .split_once(' ')
            .unwrap_or((&self.c_library, "unknown"));
        let rust = self
            .rustc
            .iter()
            .find_map(|line| line.strip_prefix("release: "))
            .unwrap_or("unknown");
        vec![
            (
                library.to_owned(),
                version.to_owned(),
                "LGPL-2.1-or-later".to_owned(),
            ),
            (
                "rust-std".to_owned(),
                rust.to_owned(),
                "MIT OR Apache-2.0".to_owned(),
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_decides_about_bytes_is_told() {
        let machine = Machine::ask(&crate::workspace::root()).unwrap();
        let linked = machine.linked();
        assert!(linked[0].1.chars().next().unwrap().is_ascii_digit(), "{linked:?}");
        let pinned = fs::read_to_string(crate::workspace::root().join("rust-toolchain.toml")).unwrap();
        assert!(
            pinned.contains(&format!("channel = \"{}\"", linked[1].1)),
            "{linked:?}"
        );
        assert_eq!(machine.certificate_authorities.len(), 64);
        assert!(!machine.c_compiler.is_empty() && !machine.linker.is_empty());
    }
}
