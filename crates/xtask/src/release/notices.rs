//! The licences of what is in the programs: the notices that most of them ask to be handed on.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};

use super::graph::Component;

/// How the names of such files begin, in capitals.
const NAMES: [&str; 7] = [
    "LICENSE",
    "LICENCE",
    "COPYING",
    "COPYRIGHT",
    "NOTICE",
    "UNLICENSE",
    "PATENTS",
];
/// Endings of files that are code, whatever their name.
const CODE: [&str; 6] = [".rs", ".c", ".h", ".py", ".sh", ".pl"];
/// Folders below a package's that are looked into: C libraries bring theirs one or two levels down.
const MAX_DEPTH: usize = 2;
/// Bytes of one such file, of all, and how many entries of a package's folders are looked at.
const MAX_FILE: u64 = 256 << 10;
const MAX_ALL: usize = 16 << 20;
const MAX_ENTRIES: usize = 20_000;

/// One text for all packages of others among `components`; a text that many share stands there once.
///
/// # Errors
/// When a package's folder cannot be read or holds more than is looked at.
pub(super) fn notices(components: &[Component]) -> anyhow::Result<String> {
    let mut texts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut list = String::new();
    let mut known = BTreeSet::new();
    for component in components.iter().filter(|component| !component.is_ours()) {
        let package = format!("{} {}", component.name, component.version);
        if !known.insert(package.clone()) {
            continue;
        }
        let mut found = Vec::new();
        let mut entries = 0;
        look(&component.folder, "", MAX_DEPTH, &mut entries, &mut found)
            .with_context(|| format!("licences of {package}"))?;
        let licence = component.licence.as_deref().unwrap_or("not stated");
        let without = if found.is_empty() {
            "; no text in its package"
        } else {
            ""
        };
        list.push_str(&format!("{package}: {licence}{without}\n"));
        for (name, text) in found {
            texts
                .entry(text)
                .or_default()
                .insert(format!("{package}, {name}"));
        }
    }
    let mut all: Vec<(BTreeSet<String>, String)> =
        texts.into_iter().map(|(text, whose)| (whose, text)).collect();
    all.sort();
    let mut notices = format!(
        "The programs of this release contain code of these packages. Their licences follow, each once.\n\n{list}"
    );
    for (whose, text) in all {
        let whose: Vec<String> = whose.into_iter().collect();
        notices.push_str(&format!(
            "\n{}\n{}\n\n{}\n",
            "=".repeat(79),
            whose.join("\n"),
            text.trim_end()
        ));
        if notices.len() > MAX_ALL {
            bail!("licences have more than {MAX_ALL} bytes in all");
        }
    }
    Ok(notices)
}

/// Adds the licence files of a folder, by their path below the package's.
fn look(
    folder: &Path,
    below: &str,
    depth: usize,
    entries: &mut usize,
    found: &mut Vec<(String, String)>,
) -> anyhow::Result<()> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .with_context(|| format!("cannot list {}", folder.display()))?
        .collect::<Result<_, _>>()?;
    names.sort_by_key(fs::DirEntry::file_name);
    for entry in names {
        *entries += 1;
        if *entries > MAX_ENTRIES {
            bail!("there are more than {MAX_ENTRIES} files");
        }
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{below}{name}");
        let kind = entry.file_type()?;
        if kind.is_dir() && depth > 0 {
            look(&entry.path(), &format!("{path}/"), depth - 1, entries, found)?;
        } else if kind.is_file() && is_licence(&name) {
            let size = entry.metadata()?.len();
            if size > MAX_FILE {
                bail!("{path} has {size} bytes, more than {MAX_FILE}");
            }
            let bytes = fs::read(entry.path()).with_context(|| format!("cannot read {path}"))?;
            found.push((path, String::from_utf8_lossy(&bytes).replace("\r\n", "\n")));
        }
    }
    Ok(())
}

fn is_licence(name: &str) -> bool {
    let capitals = name.to_uppercase();
    NAMES.iter().any(|start| capitals.starts_with(start)) && !CODE.iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::super::graph::Scope;
    use super::*;

    fn component(folder: &Path, name: &str, checksum: Option<&str>) -> Component {
        Component {
            name: name.into(),
            version: "1.0.0".into(),
            licence: Some("MIT".into()),
            repository: None,
            checksum: checksum.map(Into::into),
            scope: Scope::Linked,
            folder: folder.join(name),
            needs: BTreeSet::new(),
        }
    }

    #[test]
    fn each_text_stands_once_with_all_who_have_it() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let file = folder.path().join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        write("a/LICENSE-MIT", "shared text\r\n");
        write("b/license.md", "shared text\n");
        write("b/third_party/lib/COPYING", "a library's\n");
        write("b/deep/er/and/LICENSE", "too deep\n");
        write("b/src/license.rs", "code\n");
        write("c/src/lib.rs", "code\n");
        write("ours/LICENSE", "ours\n");
        let sum = Some("0");
        let components = [
            component(folder.path(), "a", sum),
            component(folder.path(), "b", sum),
            component(folder.path(), "c", sum),
            component(folder.path(), "a", sum),
            component(folder.path(), "ours", None),
        ];
        let text = notices(&components).unwrap();
        assert_eq!(text.matches("shared text").count(), 1, "{text}");
        assert!(
            text.contains("a 1.0.0, LICENSE-MIT\nb 1.0.0, license.md\n\nshared text\n"),
            "{text}"
        );
        assert!(
            text.contains("b 1.0.0, third_party/lib/COPYING\n\na library's\n"),
            "{text}"
        );
        assert!(
            text.contains("\na 1.0.0: MIT\nb 1.0.0: MIT\nc 1.0.0: MIT; no text in its package\n\n="),
            "{text}"
        );
        assert!(
            !text.contains("ours\n") && !text.contains("code\n") && !text.contains("too deep"),
            "{text}"
        );
    }

    #[test]
    fn a_text_without_an_end_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("a")).unwrap();
        let file = fs::File::create(folder.path().join("a/LICENSE")).unwrap();
        file.set_len(MAX_FILE + 1).unwrap();
        let error = format!(
            "{:#}",
            notices(&[component(folder.path(), "a", Some("0"))]).unwrap_err()
        );
        assert!(
            error.contains("licences of a 1.0.0: LICENSE has 262145 bytes"),
            "{error}"
        );
    }
}
