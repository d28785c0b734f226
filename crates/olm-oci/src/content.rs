//! The requested files of an image, in memory.

use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;

use crate::digest::Digest;

/// Labels of an image and the requested parts of its file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageContent {
    /// Digest of the reference: of the index if there is one, else of the manifest.
    pub digest: Digest,
    /// Labels of the image configuration.
    pub labels: BTreeMap<String, String>,
    /// Files by path from the root, without leading slash.
    pub files: BTreeMap<String, Bytes>,
}

/// Returns the wanted folders of an image, as paths from the root, from its labels.
pub type View = fn(&BTreeMap<String, String>) -> Vec<String>;

/// Returns a path relative to a folder above it; `None` if the folder is not above it.
pub(crate) fn relative<'a>(path: &'a str, folder: &str) -> Option<&'a str> {
    match folder {
        "" => Some(path),
        folder => path.strip_prefix(folder)?.strip_prefix('/'),
    }
}

impl ImageContent {
    /// Returns the files below a folder, by path relative to it, in order.
    pub fn below<'a>(&'a self, folder: &str) -> impl Iterator<Item = (&'a str, &'a Bytes)> + use<'a> {
        let folder = folder.trim_matches('/').to_owned();
        let files = self.files.iter();
        files.filter_map(move |(path, bytes)| Some((relative(path, &folder)?, bytes)))
    }

    /// Writes the files below a folder into `destination`, which is created.
    ///
    /// # Errors
    /// IO errors, with the path that failed in the text. Names were checked when the image was read; a name
    /// that is not a plain relative path is an error too.
    pub fn write_below(&self, folder: &str, destination: &Path) -> std::io::Result<()> {
        let named = |path: &Path| {
            let path = path.display().to_string();
            move |error: std::io::Error| std::io::Error::new(error.kind(), format!("{path}: {error}"))
        };
        std::fs::create_dir_all(destination).map_err(named(destination))?;
        for (relative, bytes) in self.below(folder) {
            let path = destination.join(relative);
            if !Path::new(relative)
                .components()
                .all(|part| matches!(part, std::path::Component::Normal(_)))
            {
                return Err(named(&path)(std::io::ErrorKind::InvalidInput.into()));
            }
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent).map_err(named(parent))?;
            }
            std::fs::write(&path, bytes).map_err(named(&path))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content() -> ImageContent {
        let files = ["manifests/a", "manifests/sub/b", "manifests2/c"];
        ImageContent {
            digest: Digest::sha256(b""),
            labels: BTreeMap::new(),
            files: files
                .iter()
                .map(|path| ((*path).to_owned(), Bytes::from_static(b"x")))
                .collect(),
        }
    }

    #[test]
    fn files_below_a_folder_are_relative_to_it() {
        let names = |folder| {
            content()
                .below(folder)
                .map(|(name, _)| name.to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(names("/manifests/"), ["a", "sub/b"]);
        assert_eq!(names(""), ["manifests/a", "manifests/sub/b", "manifests2/c"]);
        assert!(names("other").is_empty());
    }

    #[test]
    fn files_are_written_with_their_folders() {
        let dir = tempfile::tempdir().expect("folder");
        content()
            .write_below("manifests", &dir.path().join("out"))
            .expect("written");
        assert_eq!(std::fs::read(dir.path().join("out/sub/b")).expect("file"), b"x");
    }
}
