//! Archives in one form: whatever the machine, the user and the order in which files were found, the same content gives the same bytes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};
use sha2::{Digest as _, Sha256};

use crate::oci_layout::gzip;

/// One file of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// Its content.
    pub(super) content: Vec<u8>,
    /// Unix permission bits.
    pub(super) mode: u32,
}

/// Files by their path in the archive, which is relative.
pub(super) type Entries = BTreeMap<String, Entry>;

/// A gzipped tar of regular files: sorted by path, owned by root without names, all of the time `time` (seconds since 1970). The
/// gzip header has neither name nor time. `small` packs as small as can be, which takes longer.
///
/// # Errors
/// When a path is absolute or leads upwards.
pub(super) fn tar_gz(entries: &Entries, time: u64, small: bool) -> anyhow::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    for (path, entry) in entries {
        if path.starts_with('/') || path.split('/').any(|part| part == ".." || part.is_empty()) {
            bail!("{path:?} is no path for an archive");
        }
        let mut header = tar::Header::new_ustar();
        header.set_size(entry.content.len() as u64);
        header.set_mode(entry.mode);
        header.set_mtime(time);
        header.set_uid(0);
        header.set_gid(0);
        archive.append_data(&mut header, path, entry.content.as_slice())?;
    }
    Ok(gzip(&archive.into_inner()?, small)?)
}

/// SHA-256 in hexadecimal digits.
pub(super) fn sha256(content: &[u8]) -> String {
    hex::encode(Sha256::digest(content))
}

/// A file with its size in bytes and its SHA-256.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub(super) struct Sum {
    pub(super) name: String,
    pub(super) size: u64,
    pub(super) sha256: String,
}

/// The files of a folder, by name.
///
/// # Errors
/// When one cannot be read, or there is a folder in it.
pub(super) fn sums(folder: &Path) -> anyhow::Result<Vec<Sum>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let path = entry?.path();
        let content = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        found.push(Sum {
            name: path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
            size: content.len() as u64,
            sha256: sha256(&content),
        });
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(found)
}

/// The lines that `sha256sum --check` reads.
pub(super) fn sums_text(sums: &[Sum]) -> String {
    sums.iter()
        .map(|sum| format!("{}  {}\n", sum.sha256, sum.name))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn entries(files: &[(&str, &str, u32)]) -> Entries {
        let entry = |content: &str, mode| Entry {
            content: content.as_bytes().to_vec(),
            mode,
        };
        files
            .iter()
            .map(|(path, content, mode)| ((*path).to_owned(), entry(content, *mode)))
            .collect()
    }

    #[test]
    fn an_archive_has_one_form_whatever_the_order() {
        let one = tar_gz(
            &entries(&[("b", "two", 0o644), ("a/x", "one", 0o755)]),
            1_700_000_000,
            true,
        )
        .unwrap();
        let other = tar_gz(
            &entries(&[("a/x", "one", 0o755), ("b", "two", 0o644)]),
            1_700_000_000,
            true,
        )
        .unwrap();
        assert_eq!(one, other);
        assert_eq!(&one[..4], [0x1f, 0x8b, 8, 0], "no name, no comment");
        assert_eq!(&one[4..8], [0; 4], "no time of packing");
        assert_eq!(one[9], crate::oci_layout::UNKNOWN_SYSTEM);
        let mut text = Vec::new();
        flate2::read::GzDecoder::new(one.as_slice())
            .read_to_end(&mut text)
            .unwrap();
        let mut archive = tar::Archive::new(text.as_slice());
        let found: Vec<_> = archive
            .entries()
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                let header = entry.header();
                (
                    entry.path().unwrap().to_string_lossy().into_owned(),
                    header.mode().unwrap(),
                    (
                        header.uid().unwrap(),
                        header.gid().unwrap(),
                        header.mtime().unwrap(),
                    ),
                    header.username().unwrap().unwrap_or_default().to_owned(),
                )
            })
            .collect();
        let owner = (0, 0, 1_700_000_000);
        assert_eq!(
            found,
            [
                ("a/x".to_owned(), 0o755, owner, String::new()),
                ("b".to_owned(), 0o644, owner, String::new())
            ]
        );
    }

    #[test]
    fn no_path_leads_out_of_the_archive() {
        for path in ["/etc/passwd", "../x", "a/../../x", "a//x", ""] {
            let error = tar_gz(&entries(&[(path, "x", 0o644)]), 0, true)
                .unwrap_err()
                .to_string();
            assert!(error.contains(&format!("{path:?}")), "{error}");
        }
    }

    #[test]
    fn sums_are_what_sha256sum_reads() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("b"), "abc").unwrap();
        fs::write(folder.path().join("a"), "").unwrap();
        let sums = sums(folder.path()).unwrap();
        assert_eq!(
            sums_text(&sums),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  a\n\
             ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  b\n"
        );
        assert_eq!((sums[0].size, sums[1].size), (0, 3));
    }
}
