//! Writes configuration files of the cluster's programs.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::Context as _;
use serde_json::Value;

/// Writes `text` to `path` and creates missing folders, unless the content is unchanged. kube-proxy exits if its configuration is
/// modified.
///
/// # Errors
/// The file cannot be written.
pub(super) fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    write_with_mode(path, text, 0o644)
}

/// Does the same as [`write()`] with JSON, which is also YAML.
///
/// # Errors
/// The file cannot be written.
pub(super) fn write_json(path: &Path, content: &Value) -> anyhow::Result<()> {
    write(path, &format!("{content:#}"))
}

/// Does the same as [`write()`], with the given permission bits.
///
/// # Errors
/// The file cannot be written.
pub(super) fn write_with_mode(path: &Path, text: &str, mode: u32) -> anyhow::Result<()> {
    if fs::read_to_string(path).is_ok_and(|found| found == text) {
        return Ok(());
    }
    let cannot = || format!("cannot write {}", path.display());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(cannot)?;
    }
    // Renamed into place, so that no program reads a partial file.
    let partial = path.with_added_extension("partial");
    fs::write(&partial, text).with_context(cannot)?;
    fs::set_permissions(&partial, fs::Permissions::from_mode(mode)).with_context(cannot)?;
    fs::rename(&partial, path).with_context(cannot)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn a_file_with_the_right_content_is_not_touched() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b");
        let write = |text| {
            write_with_mode(&path, text, 0o600).unwrap();
            fs::metadata(&path).unwrap()
        };
        let first = write("text");
        assert_eq!(first.mode() & 0o777, 0o600);
        assert_eq!(first.ino(), write("text").ino());
        assert_ne!(first.ino(), write("other").ino());
        assert_eq!(fs::read_to_string(&path).unwrap(), "other");
    }
}
