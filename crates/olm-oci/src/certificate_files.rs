//! Folders with certificates of authorities.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the files of a folder of certificates. Kubernetes keeps the content of mounted volumes in names with two dots.
///
/// # Errors
/// The folder cannot be read.
pub fn certificate_files(folder: Option<&Path>) -> Result<Vec<PathBuf>, String> {
    let Some(folder) = folder else {
        return Ok(Vec::new());
    };
    let unread = |error: std::io::Error| format!("cannot read {}: {error}", folder.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(unread)? {
        let entry = entry.map_err(unread)?;
        let path = entry.path();
        if path.is_file() && !entry.file_name().as_encoded_bytes().starts_with(b"..") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorities_are_the_files_of_their_folder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        fs::create_dir(path.join("..data")).unwrap();
        for name in ["b.pem", "a.crt", "..hidden"] {
            fs::write(path.join(name), "").unwrap();
        }
        let found = certificate_files(Some(path)).unwrap();
        assert_eq!(found, [path.join("a.crt"), path.join("b.pem")]);
        assert_eq!(certificate_files(None).unwrap(), [""; 0].map(PathBuf::from));
        assert!(certificate_files(Some(&path.join("gone"))).is_err());
    }
}
