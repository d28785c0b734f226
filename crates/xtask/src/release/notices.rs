//! Licence notices of the packages in programs. Most licences require their distribution.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use spdx::{Expression, ParseMode};

use super::packages::Package;

/// Prefixes of the names of such files, in capitals.
const NAMES: [&str; 6] = [
    "LICENSE",
    "LICENCE",
    "COPYING",
    "COPYRIGHT",
    "NOTICE",
    "UNLICENSE",
];
/// Depth of subfolders that are searched. C libraries have their licences one or two levels down.
const MAX_DEPTH: usize = 2;

/// Returns one text for all packages of other authors, which are in one of `folders`, and for `libraries`, which are in no
/// registry. A licence text that several share is included once.
///
/// # Errors
/// A file cannot be read, or a package has neither a licence text nor a licence known to SPDX.
pub(super) fn notices(
    packages: &BTreeSet<Package>,
    folders: &[PathBuf],
    libraries: &[(Package, PathBuf)],
) -> anyhow::Result<String> {
    let mut texts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut list = String::new();
    let others = packages.iter().filter(|package| !package.is_without_registry);
    let others = others.map(|package| (package, None));
    for (package, file) in libraries.iter().map(|(it, file)| (it, Some(file))).chain(others) {
        let Package {
            name,
            version,
            licence,
            ..
        } = package;
        let mut found = Vec::new();
        if let Some(file) = file {
            found.push(read(file)?);
        }
        for folder in folders {
            look(&folder.join(format!("{name}-{version}")), MAX_DEPTH, &mut found)?;
        }
        if found.is_empty() || file.is_some() {
            found.extend(standard(licence).with_context(|| format!("{name} {version} has no licence"))?);
        }
        list.push_str(&format!("{name} {version}: {licence}\n"));
        for text in found {
            texts.entry(text).or_default().insert(format!("{name} {version}"));
        }
    }
    let mut all: Vec<(BTreeSet<String>, String)> =
        texts.into_iter().map(|(text, whose)| (whose, text)).collect();
    all.sort();
    let mut notices = format!(
        "The programs of this release contain code of these packages. Their licences follow, each once.\n\n{list}"
    );
    for (whose, text) in all {
        let whose = whose.into_iter().collect::<Vec<_>>().join("\n");
        notices.push_str(&format!("\n{}\n{whose}\n\n{}\n", "=".repeat(79), text.trim_end()));
    }
    Ok(notices)
}

/// Adds the licence files in a folder and its subfolders, if it exists.
fn look(folder: &Path, depth: usize, found: &mut Vec<String>) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_licence = NAMES.iter().any(|start| name.to_uppercase().starts_with(start));
        if path.is_dir() && depth > 0 {
            look(&path, depth - 1, found)?;
        } else if path.is_file() && (is_licence && !name.ends_with(".rs") || folder.ends_with("LICENSES")) {
            found.push(read(&path)?);
        }
    }
    Ok(())
}

fn read(file: &Path) -> anyhow::Result<String> {
    let bytes = fs::read(file).with_context(|| {
        format!(
            "cannot read {}, which has to be handed on with programs",
            file.display()
        )
    })?;
    Ok(String::from_utf8_lossy(&bytes).replace("\r\n", "\n"))
}

/// Returns SPDX's texts of the licences and exceptions in an expression.
fn standard(licence: &str) -> anyhow::Result<Vec<String>> {
    let expression =
        Expression::parse_mode(licence, ParseMode::LAX).with_context(|| format!("{licence:?}"))?;
    let mut texts = Vec::new();
    for required in expression.requirements() {
        for name in required.req.to_string().split(" WITH ") {
            let text = spdx::license_id(name).map(|known| known.text());
            let text = text.or_else(|| spdx::exception_id(name).map(|known| known.text()));
            texts.push(
                text.with_context(|| format!("SPDX has no text of {name}"))?
                    .to_owned(),
            );
        }
    }
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_stands_once_with_all_who_have_it() {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("a-1.0.0/LICENSE-MIT", "shared text\r\n"),
            ("b-1.0.0/license.md", "shared text\n"),
            ("b-1.0.0/third_party/lib/COPYING", "a library's\n"),
            ("b-1.0.0/src/license.rs", "code\n"),
            ("copyright", "of the library\n"),
        ] {
            let file = folder.path().join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        let package = |name: &str, licence: &str| Package {
            name: name.into(),
            version: "1.0.0".into(),
            licence: licence.into(),
            is_without_registry: name == "ours",
        };
        let packages = ["a", "b", "c", "ours"].map(|name| package(name, "MIT")).into();
        let library = (package("lib", "0BSD"), folder.path().join("copyright"));
        let text = notices(&packages, &[folder.path().to_owned()], &[library]).unwrap();
        for part in [
            "lib 1.0.0: 0BSD\na 1.0.0: MIT\nb 1.0.0: MIT\nc 1.0.0: MIT\n\n=",
            "\na 1.0.0\nb 1.0.0\n\nshared text\n\n",
            "\nb 1.0.0\n\na library's\n",
            "\nlib 1.0.0\n\nof the library\n",
            "\nc 1.0.0\n\nMIT License\n",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("ours") && !text.contains("code\n"), "{text}");
        let unknown = standard("LicenseRef-mine").unwrap_err().to_string();
        assert!(unknown.contains("no text of LicenseRef-mine"), "{unknown}");
    }
}
