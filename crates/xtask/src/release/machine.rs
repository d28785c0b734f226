//! What of the machine goes into a release: the compilers and libraries that another machine needs in the same versions to build the same bytes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use serde::Serialize;

use super::archive::sha256;
use super::notices::{self, Notice};
use crate::{images, process};

/// What of the C compiler's libraries is linked into static programs: the name it goes by, the file, and the licence.
const LIBRARIES: [(&str, &str, &str); 2] = [
    ("glibc", "libc.a", "LGPL-2.1-or-later"),
    // What unwinds the stack.
    ("libgcc", "libgcc_eh.a", "GPL-3.0-or-later WITH GCC-exception-3.1"),
];
/// Texts that Debian's only name.
const TEXTS: [(&str, &str); 2] = [("glibc", "LGPL-2.1-or-later"), ("libgcc", "GCC-exception-3.1")];
/// Where Debian has what its packages say of copyright.
const DOCUMENTATION: &str = "/usr/share/doc";
/// Where a toolchain has the same of the standard library, below its folder.
const OF_RUST: &str = "share/doc/rust";
/// Largest such file in bytes.
const MAX_FILE: u64 = 4 << 20;

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
    /// The C libraries that are linked in.
    pub(super) c_libraries: Vec<Library>,
    /// SHA-256 of the certificate authorities in the images.
    pub(super) certificate_authorities: String,
    /// The toolchain's folder.
    #[serde(skip)]
    sysroot: PathBuf,
}

/// A C library that is linked in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Library {
    /// What it is, for example `glibc`.
    pub(super) name: String,
    /// The package of the distribution that has it, for example `libc6-dev`.
    pub(super) package: String,
    /// The package's version, with the distribution's patches: `2.36-9+deb12u14`.
    pub(super) version: String,
    /// SHA-256 of the file that is linked.
    pub(super) sha256: String,
    #[serde(skip)]
    licence: &'static str,
}

impl Machine {
    /// Asks the tools, which are those of the checkout at `root`.
    ///
    /// # Errors
    /// When one is missing, or the compiler is another one than `rust-toolchain.toml` says.
    pub(super) fn ask(root: &Path) -> anyhow::Result<Self> {
        let ask = |program: &str, argument: &[&str]| {
            let mut command = Command::new(program);
            command
                .args(argument)
                .current_dir(root)
                .env("LC_ALL", "C")
                // The file of the checkout says which.
                .env_remove("RUSTUP_TOOLCHAIN")
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
        let rustc: Vec<String> = ask("rustc", &["--verbose", "--version"])?
            .lines()
            .map(str::to_owned)
            .collect();
        let wanted = fs::read_to_string(root.join("rust-toolchain.toml")).context("rust-toolchain.toml")?;
        is_pinned(&rustc, &wanted)?;
        let c_libraries = LIBRARIES
            .iter()
            .map(|library| of_distribution(library, ask))
            .collect::<anyhow::Result<_>>()?;
        Ok(Self {
            rustc,
            c_compiler: first(ask("cc", &["--version"])?),
            linker: first(ask("ld", &["--version"])?),
            c_libraries,
            certificate_authorities: sha256(&authorities),
            sysroot: first(ask("rustc", &["--print", "sysroot"])?).into(),
        })
    }

    fn rust(&self) -> &str {
        release(&self.rustc).unwrap_or("unknown")
    }

    /// What of it is linked into programs, for their bill of materials: name, version, licence.
    pub(super) fn linked(&self) -> Vec<(String, String, String)> {
        let rust = (
            "rust-std".to_owned(),
            self.rust().to_owned(),
            "MIT OR Apache-2.0".to_owned(),
        );
        self.c_libraries
            .iter()
            .map(|library| {
                (
                    library.name.clone(),
                    library.version.clone(),
                    library.licence.to_owned(),
                )
            })
            .chain([rust])
            .collect()
    }

    /// What has to be said of it where programs are handed on.
    ///
    /// # Errors
    /// When the distribution or the toolchain came without it.
    pub(super) fn notices(&self) -> anyhow::Result<Vec<Notice>> {
        let mut all = Vec::new();
        for library in &self.c_libraries {
            let file = Path::new(DOCUMENTATION).join(&library.package).join("copyright");
            let mut texts = vec![("copyright".to_owned(), text(&file)?)];
            for (_, licence) in TEXTS.iter().filter(|(name, _)| *name == library.name) {
                texts.push((format!("{licence} by SPDX"), notices::text_of(licence)?));
            }
            all.push(Notice {
                package: format!("{} {}", library.name, library.version),
                licence: library.licence.to_owned(),
                texts,
            });
        }
        let folder = self.sysroot.join(OF_RUST);
        let about = plain(&text(&folder.join("COPYRIGHT-library.html"))?);
        let mut texts = Vec::new();
        let licences = folder.join("licenses");
        for entry in fs::read_dir(&licences).with_context(|| format!("cannot list {}", licences.display()))? {
            let path = entry?.path();
            let licence = path
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            // Others are of the compiler and of documentation.
            if names(&about, &licence) {
                texts.push((format!("{licence}.txt"), text(&path)?));
            }
        }
        texts.push(("COPYRIGHT-library.html as text".to_owned(), about));
        texts.sort();
        all.push(Notice {
            package: format!("rust-std {}", self.rust()),
            licence: "MIT OR Apache-2.0".to_owned(),
            texts,
        });
        Ok(all)
    }
}

fn release(rustc: &[String]) -> Option<&str> {
    rustc.iter().find_map(|line| line.strip_prefix("release: "))
}

/// # Errors
/// When the compiler is not the one that the text of `rust-toolchain.toml` names.
fn is_pinned(rustc: &[String], wanted: &str) -> anyhow::Result<()> {
    let wanted: toml::Table = toml::from_str(wanted).context("rust-toolchain.toml")?;
    let channel = wanted["toolchain"]["channel"].as_str().unwrap_or_default();
    let found = release(rustc).unwrap_or_default();
    if found != channel {
        bail!(
            "the compiler is rustc {found}, and rust-toolchain.toml says {channel}; `rustup toolchain install {channel}`"
        );
    }
    Ok(())
}

/// The package of the distribution that a library of the C compiler is from.
fn of_distribution(
    (name, file, licence): &(&str, &str, &'static str),
    ask: impl Fn(&str, &[&str]) -> anyhow::Result<String>,
) -> anyhow::Result<Library> {
    let path = ask("cc", &[&format!("-print-file-name={file}")])?;
    let path = fs::canonicalize(path.trim())
        .with_context(|| format!("the C compiler has no {file}, which static programs are linked with"))?;
    let shown = path.display().to_string();
    let owner = ask("dpkg", &["--search", &shown]).with_context(|| {
        format!("a release names the package of {shown}, and has its copyright; it is made on Debian or what derives from it")
    })?;
    let package = package_of(&owner).with_context(|| format!("dpkg says of {shown}: {owner:?}"))?;
    let version = ask("dpkg-query", &["--show", "--showformat=${Version}", package])?;
    let content = fs::read(&path).with_context(|| format!("cannot read {shown}"))?;
    Ok(Library {
        name: (*name).to_owned(),
        // Without the architecture, which the target says.
        package: package.split(':').next().unwrap_or_default().to_owned(),
        version: version.trim().to_owned(),
        sha256: sha256(&content),
        licence,
    })
}

/// The package of `PACKAGE: FILE`.
fn package_of(owner: &str) -> Option<&str> {
    let (package, _) = owner.lines().next()?.split_once(": ")?;
    (!package.is_empty() && !package.contains([',', ' '])).then_some(package)
}

fn text(file: &Path) -> anyhow::Result<String> {
    let size = fs::metadata(file)
        .with_context(|| {
            format!(
                "{} is missing, which has to be handed on with programs",
                file.display()
            )
        })?
        .len();
    if size > MAX_FILE {
        bail!("{} has {size} bytes, more than {MAX_FILE}", file.display());
    }
    let bytes = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    Ok(String::from_utf8_lossy(&bytes).replace("\r\n", "\n"))
}

/// Whether a text names a licence by its SPDX identifier, alone or in an expression.
fn names(text: &str, licence: &str) -> bool {
    text.split(|c: char| c.is_whitespace() || matches!(c, '(' | ')'))
        .any(|word| word == licence)
}

/// A page without its marks, and no more than one empty line at a time.
fn plain(page: &str) -> String {
    let mut text = String::new();
    let mut rest = page;
    while let Some((before, mark)) = rest.split_once('<') {
        text.push_str(before);
        rest = mark.split_once('>').map_or("", |(_, after)| after);
    }
    text.push_str(rest);
    for (escaped, plain) in [
        ("&lt;", "<"),
        ("&#60;", "<"),
        ("&gt;", ">"),
        ("&#62;", ">"),
        ("&quot;", "\""),
        ("&#34;", "\""),
        ("&#39;", "'"),
        ("&amp;", "&"),
    ] {
        text = text.replace(escaped, plain);
    }
    let mut lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.dedup_by(|one, before| one.is_empty() && before.is_empty());
    format!("{}\n", lines.join("\n").trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_decides_about_bytes_is_told() {
        let machine = Machine::ask(&crate::workspace::root()).unwrap_or_else(|error| panic!("{error:#}"));
        let linked = machine.linked();
        let names: Vec<&str> = linked.iter().map(|(name, ..)| name.as_str()).collect();
        assert_eq!(names, ["glibc", "libgcc", "rust-std"]);
        assert!(
            linked[0].1.starts_with(|c: char| c.is_ascii_digit()) && linked[0].1.contains('-'),
            "the distribution's patches are told: {linked:?}"
        );
        assert!(
            machine
                .c_libraries
                .iter()
                .all(|library| library.sha256.len() == 64)
        );
        assert_eq!(machine.certificate_authorities.len(), 64);
        assert!(!machine.c_compiler.is_empty() && !machine.linker.is_empty());
        let shown = serde_json::to_value(&machine).unwrap();
        assert_eq!(shown["cLibraries"][0]["version"], linked[0].1);
        assert!(!shown.to_string().contains("sysroot"), "a place of this machine");
    }

    #[test]
    fn what_is_linked_in_comes_with_its_licences() {
        let machine = Machine::ask(&crate::workspace::root()).unwrap_or_else(|error| panic!("{error:#}"));
        let notices = machine.notices().unwrap_or_else(|error| panic!("{error:#}"));
        let of = |name: &str| {
            let notice = notices
                .iter()
                .find(|notice| notice.package.starts_with(name))
                .unwrap();
            notice
                .texts
                .iter()
                .map(|(_, text)| text.as_str())
                .collect::<String>()
        };
        assert!(
            of("glibc ").contains("GNU LESSER GENERAL PUBLIC LICENSE")
                && of("libgcc ").contains("GCC RUNTIME LIBRARY EXCEPTION")
        );
        let rust = of("rust-std ");
        assert!(rust.contains("Copyright notices for The Rust Standard Library") && !rust.contains("<p>"));
        assert!(rust.contains("Permission is hereby granted"), "the text of MIT");
        let mut bare = machine;
        bare.sysroot = "/nowhere".into();
        let error = format!("{:#}", bare.notices().unwrap_err());
        assert!(
            error.contains("/nowhere/share/doc/rust/COPYRIGHT-library.html is missing"),
            "{error}"
        );
    }

    #[test]
    fn another_compiler_than_the_pinned_one_is_refused() {
        let rustc = [
            "rustc 1.96.0-nightly".to_owned(),
            "release: 1.96.0-nightly".to_owned(),
        ];
        let error = is_pinned(&rustc, "[toolchain]\nchannel = \"1.95.0\"\n")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("1.96.0-nightly") && error.contains("says 1.95.0"),
            "{error}"
        );
        is_pinned(
            &["release: 1.95.0".to_owned()],
            "[toolchain]\nchannel = \"1.95.0\"\n",
        )
        .unwrap();
    }

    #[test]
    fn packages_and_pages_are_read() {
        assert_eq!(
            package_of("libc6-dev:amd64: /usr/lib/libc.a\n"),
            Some("libc6-dev:amd64")
        );
        assert_eq!(package_of("a, b: /usr/lib/libc.a\n"), None);
        assert_eq!(package_of(""), None);
        assert_eq!(
            plain("<html><p>a <b>b</b>\n\n\n<!-- no\n -->&#60;c&#62; &amp;lt;</p>\n<"),
            "a b\n\n<c> &lt;\n"
        );
        assert!(names("License: MIT OR (Apache-2.0)", "Apache-2.0") && !names("MIT-0", "MIT"));
    }
}
