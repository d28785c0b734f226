//! The licences of what is in the programs: the notices that most of them ask to be handed on.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};
use spdx::{Expression, ParseMode};

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
/// Those of them that hold a licence, and not only who has the copyright.
const LICENCES: [&str; 4] = ["LICENSE", "LICENCE", "COPYING", "UNLICENSE"];
/// A folder at the top of a package, in capitals, all files of which are licences (<https://reuse.software>).
const FOLDER: &str = "LICENSES/";
/// Licences whose text is the same wherever it stands, and what in SPDX's text stands for the holder of the copyright; by these a package may
/// go that has no text in its archive. Others are looked at before they are added here.
const STANDARD: [(&str, Option<&str>); 3] = [
    ("Apache-2.0", None),
    ("MIT", Some("<year> <copyright holders>")),
    ("0BSD", Some("YEAR by AUTHOR EMAIL")),
];
/// Endings of files that are code, whatever their name.
const CODE: [&str; 6] = [".rs", ".c", ".h", ".py", ".sh", ".pl"];
/// Folders below a package's that are looked into: C libraries bring theirs one or two levels down.
const MAX_DEPTH: usize = 2;
/// Bytes of one such file, of all, and how many entries of a package's folders are looked at.
const MAX_FILE: u64 = 256 << 10;
const MAX_ALL: usize = 16 << 20;
const MAX_ENTRIES: usize = 20_000;

/// What has to be said of something that is in programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Notice {
    /// Its name and version.
    pub(super) package: String,
    /// SPDX expression of its licence.
    pub(super) licence: String,
    /// Texts by what they are called.
    pub(super) texts: Vec<(String, String)>,
}

/// One text for all packages of others among `components`, and for `others`, which no registry has; a text that many share stands there once.
///
/// # Errors
/// When a package's folder cannot be read or holds more than is looked at, or has no text of its licence and none is known.
pub(super) fn notices(components: &[Component], others: &[Notice]) -> anyhow::Result<String> {
    let mut texts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut list = String::new();
    let mut known = BTreeSet::new();
    for Notice {
        package,
        licence,
        texts: theirs,
    } in others
    {
        list.push_str(&format!("{package}: {licence}\n"));
        for (name, text) in theirs {
            texts
                .entry(text.clone())
                .or_default()
                .insert(format!("{package}, {name}"));
        }
    }
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
        let is_there = found.iter().any(|(path, _)| is_of_the_package(path));
        let without = if is_there {
            ""
        } else {
            found.extend(
                standard(licence, &component.authors)
                    .with_context(|| format!("{package} has no text of its licence in its archive"))?,
            );
            "; no text in its archive, so that of SPDX"
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
        } else if kind.is_file() && (is_licence(&name) || below.to_uppercase() == FOLDER) {
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

/// Whether a licence file is the package's own, not that of something it brings.
fn is_of_the_package(path: &str) -> bool {
    let path = path.to_uppercase();
    path.strip_prefix(FOLDER).map_or_else(
        || !path.contains('/') && LICENCES.iter().any(|start| path.starts_with(start)),
        |file| !file.contains('/'),
    )
}

/// The texts by which a package goes whose licence is the expression `licence`, with its authors as holders of the copyright: one where one is
/// enough.
fn standard(licence: &str, authors: &[String]) -> anyhow::Result<Vec<(String, String)>> {
    let wanted = Expression::parse_mode(licence, ParseMode::LAX).with_context(|| format!("{licence:?}"))?;
    let fits = |with: &[&str]| wanted.evaluate(|required| with.contains(&required.to_string().as_str()));
    let all: Vec<&str> = STANDARD.iter().map(|(licence, _)| *licence).collect();
    let asked: Vec<String> = wanted.requirements().map(|it| it.req.to_string()).collect();
    let known: Vec<&str> = all
        .iter()
        .copied()
        .filter(|licence| asked.iter().any(|asked| asked == licence))
        .collect();
    let chosen = known.iter().map(std::slice::from_ref).find(|one| fits(one));
    let Some(chosen) = chosen.or_else(|| fits(&known).then_some(known.as_slice())) else {
        bail!(
            "and {licence} is none of {}, the texts of which are known (crates/xtask/src/release/notices.rs)",
            all.join(", ")
        );
    };
    let holders: Vec<&str> = authors
        .iter()
        .map(|author| author.split('<').next().unwrap_or_default().trim())
        .filter(|name| !name.is_empty())
        .collect();
    let mut texts = Vec::new();
    for (licence, holder) in STANDARD.iter().filter(|(licence, _)| chosen.contains(licence)) {
        let mut text = text_of(licence)?;
        if let Some(holder) = holder {
            if holders.is_empty() || !text.contains(holder) {
                bail!("and nobody is named in its Cargo.toml as author for the text of {licence}");
            }
            text = text.replace(holder, &holders.join(", "));
        }
        texts.push((format!("{licence} by SPDX"), text));
    }
    Ok(texts)
}

/// The text of a licence, by its SPDX identifier.
///
/// # Errors
/// When SPDX has none of the name.
pub(super) fn text_of(licence: &str) -> anyhow::Result<String> {
    let text = match spdx::license_id(licence) {
        Some(known) => known.text(),
        None => spdx::exception_id(licence)
            .with_context(|| format!("SPDX knows no licence {licence}"))?
            .text(),
    };
    Ok(text.to_owned())
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
            authors: vec!["Ada <ada@example.com>".into(), "The Others".into()],
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
        write("c/third_party/LICENSE", "not its own\n");
        write("d/LICENSES/ISC.txt", "its own\n");
        write("ours/LICENSE", "ours\n");
        let sum = Some("0");
        let components = [
            component(folder.path(), "a", sum),
            component(folder.path(), "b", sum),
            component(folder.path(), "c", sum),
            component(folder.path(), "d", sum),
            component(folder.path(), "a", sum),
            component(folder.path(), "ours", None),
        ];
        let library = Notice {
            package: "glibc 2".into(),
            licence: "LGPL-2.1-or-later".into(),
            texts: vec![("copyright".into(), "of the library\n".into())],
        };
        let text = notices(&components, &[library]).unwrap_or_else(|error| panic!("{error:#}"));
        assert!(
            text.contains("glibc 2, copyright\n\nof the library\n")
                && text.contains("\nglibc 2: LGPL-2.1-or-later\n"),
            "{text}"
        );
        assert!(
            text.contains("c 1.0.0, MIT by SPDX\n\nMIT License\n\nCopyright (c) Ada, The Others\n"),
            "{text}"
        );
        assert!(text.contains("d 1.0.0, LICENSES/ISC.txt\n\nits own\n"), "{text}");
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
            text.contains("\na 1.0.0: MIT\nb 1.0.0: MIT\nc 1.0.0: MIT; no text in its archive, so that of SPDX\nd 1.0.0: MIT\n\n="),
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
            notices(&[component(folder.path(), "a", Some("0"))], &[]).unwrap_err()
        );
        assert!(
            error.contains("licences of a 1.0.0: LICENSE has 262145 bytes"),
            "{error}"
        );
    }
    #[test]
    fn a_package_without_a_text_goes_by_a_standard_one_or_not_at_all() {
        let of = |licence: &str, authors: &[&str]| {
            let authors: Vec<String> = authors.iter().map(|author| (*author).to_owned()).collect();
            standard(licence, &authors)
                .map(|texts| texts.into_iter().map(|(name, _)| name).collect::<Vec<_>>())
                .map_err(|error| error.to_string())
        };
        let apache = ["Apache-2.0 by SPDX"].map(str::to_owned).to_vec();
        assert_eq!(of("MIT/Apache-2.0", &[]).unwrap(), apache, "needs no name");
        assert_eq!(of("Apache-2.0", &[]).unwrap(), apache);
        assert_eq!(
            of("MIT AND Apache-2.0", &["Ada"]).unwrap(),
            ["Apache-2.0 by SPDX", "MIT by SPDX"]
        );
        for authors in [&[][..], &["<a@example.com>"]] {
            let error = of("MIT", authors).unwrap_err();
            assert!(error.contains("nobody is named"), "{error}");
        }
        for licence in ["ISC", "MIT AND ISC", "Apache-2.0 WITH LLVM-exception"] {
            let error = of(licence, &["Ada"]).unwrap_err();
            assert!(
                error.contains(&format!("and {licence} is none of Apache-2.0, MIT")),
                "{error}"
            );
        }
        let (_, mit) = &standard("MIT", &["Ada".to_owned()]).unwrap()[0];
        assert!(
            !mit.contains('<') && mit.contains("Permission is hereby granted"),
            "{mit}"
        );
        for (licence, _) in STANDARD {
            assert!(text_of(licence).is_ok(), "{licence}");
        }
    }
}
