//! Whether two releases are the same to the byte, and whether programs tell where they were built.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::Context as _;

/// Shorter paths stand in any program by chance.
const SHORTEST: usize = 4;

/// Where two folders of files differ: for each name the first byte, or on which side it is missing.
///
/// # Errors
/// When a file cannot be read.
pub(super) fn differences(one: &Path, other: &Path) -> anyhow::Result<Vec<String>> {
    let names = |folder: &Path| -> anyhow::Result<BTreeSet<String>> {
        fs::read_dir(folder)
            .with_context(|| format!("cannot list {}", folder.display()))?
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect()
    };
    let (ours, theirs) = (names(one)?, names(other)?);
    let mut found = Vec::new();
    for name in ours.union(&theirs) {
        let content = |folder: &Path, names: &BTreeSet<String>| -> anyhow::Result<Option<Vec<u8>>> {
            if !names.contains(name) {
                return Ok(None);
            }
            let file = folder.join(name);
            fs::read(&file)
                .with_context(|| format!("cannot read {}", file.display()))
                .map(Some)
        };
        match (content(one, &ours)?, content(other, &theirs)?) {
            (Some(ours), Some(theirs)) => found.extend(
                first_difference(&ours, &theirs).map(|at| format!("{name} differs from byte {at} on")),
            ),
            (Some(_), None) => found.push(format!("{name} is in the first only")),
            (None, _) => found.push(format!("{name} is in the second only")),
        }
    }
    Ok(found)
}

/// Index of the first byte that differs; the end of the shorter one where that is all.
fn first_difference(one: &[u8], other: &[u8]) -> Option<usize> {
    one.iter()
        .zip(other)
        .position(|(a, b)| a != b)
        .or_else(|| (one.len() != other.len()).then(|| one.len().min(other.len())))
}

/// The first of `paths` that stands in `program`, as text and with its place.
pub(super) fn path_within<'a>(program: &[u8], paths: &[&'a str]) -> Option<(&'a str, usize)> {
    paths
        .iter()
        .filter(|path| path.len() >= SHORTEST)
        .find_map(|path| place(program, path.as_bytes()).map(|at| (*path, at)))
}

fn place(text: &[u8], wanted: &[u8]) -> Option<usize> {
    let (&first, rest) = wanted.split_first()?;
    let mut from = 0;
    while let Some(offset) = text[from..].iter().position(|&byte| byte == first) {
        let at = from + offset;
        if text[at + 1..].starts_with(rest) {
            return Some(at);
        }
        from = at + 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_byte_that_differs_is_named() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let write = |folder: &tempfile::TempDir, name: &str, text: &str| {
            fs::write(folder.path().join(name), text).unwrap();
        };
        for folder in [&one, &other] {
            write(folder, "same", "abc");
        }
        assert_eq!(differences(one.path(), other.path()).unwrap(), [""; 0]);
        write(&one, "changed", "abc");
        write(&other, "changed", "abd");
        write(&one, "longer", "abcd");
        write(&other, "longer", "abc");
        write(&one, "ours", "");
        write(&other, "theirs", "");
        assert_eq!(
            differences(one.path(), other.path()).unwrap(),
            [
                "changed differs from byte 2 on",
                "longer differs from byte 3 on",
                "ours is in the first only",
                "theirs is in the second only"
            ]
        );
    }

    #[test]
    fn a_path_in_a_program_is_found_and_a_word_is_not() {
        let program = b"\0\x01/home//home/me/olm/src/a.rs\0/cargo/registry";
        assert_eq!(
            path_within(program, &["/srv/x", "/home/me/olm"]),
            Some(("/home/me/olm", 8))
        );
        assert_eq!(path_within(program, &["/home/you"]), None);
        assert_eq!(
            path_within(program, &["", "/", "/ho"]),
            None,
            "too short to mean anything"
        );
        assert_eq!(path_within(b"/home/m", &["/home/me"]), None);
        assert_eq!(path_within(b"", &["/home/me"]), None);
    }
}
