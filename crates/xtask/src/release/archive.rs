//! Reproducible archives: equal content results in equal bytes, regardless of machine, user and the order of files.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Context as _;
use sha2::{Digest as _, Sha256};

use crate::files;
use crate::oci_layout::gzip;

/// Content and permission bits of files by their relative path in the archive.
pub(super) type Entries = BTreeMap<String, (Vec<u8>, u32)>;

/// Returns a gzipped tar, sorted by path, owned by root without names, with all times `time` (seconds since 1970). The gzip
/// header has neither name nor time. `small` selects the best compression, which takes longer.
///
/// # Errors
/// A path is too long for a tar.
pub(super) fn tar_gz(entries: &Entries, time: u64, small: bool) -> anyhow::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    for (path, (content, mode)) in entries {
        let mut header = tar::Header::new_ustar();
        header.set_size(content.len() as u64);
        header.set_mode(*mode);
        header.set_mtime(time);
        header.set_uid(0);
        header.set_gid(0);
        archive.append_data(&mut header, path, content.as_slice())?;
    }
    Ok(gzip(&archive.into_inner()?, small)?)
}

/// Returns the SHA-256 in hexadecimal digits.
pub(super) fn sha256(content: &[u8]) -> String {
    hex::encode(Sha256::digest(content))
}

/// Returns the checksums of the files in a folder, in the format of `sha256sum --check`, sorted by name.
///
/// # Errors
/// A file cannot be read.
pub(super) fn sums(folder: &Path) -> anyhow::Result<String> {
    let mut sums = String::new();
    for (name, path) in files::below(folder)? {
        let content = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        sums.push_str(&format!("{}  {name}\n", sha256(&content)));
    }
    Ok(sums)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_has_one_form() {
        let entries = Entries::from([
            ("b".into(), (b"two".to_vec(), 0o644)),
            ("a/x".into(), (b"one".to_vec(), 0o755)),
        ]);
        let packed = tar_gz(&entries, 1_700_000_000, true).unwrap();
        assert_eq!(
            &packed[..8],
            [0x1f, 0x8b, 8, 0, 0, 0, 0, 0],
            "no name, no time of packing"
        );
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(packed.as_slice()));
        let found: Vec<_> = archive
            .entries()
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                let header = entry.header();
                let path = entry.path().unwrap().to_string_lossy().into_owned();
                (
                    path,
                    header.mode().unwrap(),
                    header.uid().unwrap(),
                    header.mtime().unwrap(),
                )
            })
            .collect();
        assert_eq!(
            found,
            [
                ("a/x".into(), 0o755, 0, 1_700_000_000),
                ("b".into(), 0o644, 0, 1_700_000_000)
            ]
        );
    }

    #[test]
    fn sums_are_what_sha256sum_reads() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("b"), "abc").unwrap();
        fs::write(folder.path().join("a"), "").unwrap();
        assert_eq!(
            sums(folder.path()).unwrap(),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  a\n\
             ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  b\n"
        );
    }
}
