//! Reads a directory into blobs.
//!
//! Every regular file below the root is read as a stream of JSON or YAML documents, regardless of its name. Files that
//! `.indexignore` files exclude are skipped. Files are read in lexical order, documents in file order. Callers of [`read`] have
//! one document in memory at a time. Rules: `docs/reference/catalog-files.md`.

use std::fs::{self, File};
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use crate::schema::{Blob, BlobError};
use crate::yaml;

mod ignore;

use ignore::Ignore;

/// Name of the files that exclude others.
pub const IGNORE_FILE: &str = ".indexignore";

/// Source of a blob.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin {
    /// File, relative to the catalog's root.
    pub file: Arc<str>,
    /// Position of the document in its file, from 1.
    pub document: usize,
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, document {}", self.file, self.document)
    }
}

/// Error: a catalog could not be read.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The root is not a directory.
    #[error("{path:?} is not a directory")]
    NotADirectory {
        /// Path of the root.
        path: PathBuf,
    },
    /// A directory or file cannot be read.
    #[error("read {path}")]
    Read {
        /// The file, below the path given for the root.
        path: String,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// A symbolic link to a directory: following it could loop.
    #[error("{path} is a symbolic link to a directory")]
    LinkedDirectory {
        /// Path of the link.
        path: String,
    },
    /// A pipe or device: reading it might never end.
    #[error("{path} is not a regular file")]
    NotAFile {
        /// Path of the file.
        path: String,
    },
    /// A document is not JSON or YAML.
    #[error("{origin}")]
    Document {
        /// Position of the document.
        origin: Origin,
        /// Cause.
        #[source]
        source: yaml::Error,
    },
    /// A document is not a blob.
    #[error("{origin}")]
    Blob {
        /// Position of the document.
        origin: Origin,
        /// Cause.
        #[source]
        source: BlobError,
    },
}

impl LoadError {
    /// Returns a hint for the end of a message; `None` if there is nothing to add to the error.
    pub fn hint(&self) -> Option<String> {
        let own = match self {
            Self::Read { path, source } if source.kind() == io::ErrorKind::PermissionDenied => {
                Some(permission_hint(path))
            }
            Self::Blob { source, .. } => source.hint(),
            _ => None,
        };
        if own.is_some() {
            return own;
        }
        let (Self::Document { origin, .. } | Self::Blob { origin, .. }) = self else {
            return None;
        };
        let is_catalog = [".json", ".yaml", ".yml"]
            .iter()
            .any(|ending| origin.file.ends_with(ending));
        (!is_catalog).then(|| {
            format!("all files of the directory are read; exclude others by a line in {IGNORE_FILE}")
        })
    }
}

/// Returns the files of a catalog, relative to `root`, in lexical order.
///
/// Names that start with two dots are skipped: Kubernetes keeps the content of ConfigMap volumes behind such links.
///
/// # Errors
/// `root` is not a directory, or an entry below it cannot be read or is a link to a directory.
pub fn files(root: &Path) -> Result<Vec<PathBuf>, LoadError> {
    match fs::metadata(root) {
        Ok(found) if found.is_dir() => {}
        Err(source) if source.kind() == io::ErrorKind::PermissionDenied => {
            return Err(read_error(root, Path::new(""), source));
        }
        _ => {
            return Err(LoadError::NotADirectory {
                path: root.to_owned(),
            });
        }
    }
    let mut found = Vec::new();
    walk(root, Path::new(""), &mut found)?;
    let mut ignore = Ignore::default();
    for path in found
        .iter()
        .filter(|path| path.file_name().is_some_and(|name| name == IGNORE_FILE))
    {
        let text = fs::read_to_string(root.join(path)).map_err(|source| read_error(root, path, source))?;
        ignore.add(path.parent().unwrap_or(Path::new("")), &text);
    }
    found.retain(|path| path.file_name().is_some_and(|name| name != IGNORE_FILE) && !ignore.matches(path));
    Ok(found)
}

fn walk(root: &Path, folder: &Path, found: &mut Vec<PathBuf>) -> Result<(), LoadError> {
    let error = |source| read_error(root, folder, source);
    let mut entries = fs::read_dir(root.join(folder))
        .and_then(Iterator::collect::<io::Result<Vec<_>>>)
        .map_err(error)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name();
        let path = folder.join(&name);
        if name.as_encoded_bytes().starts_with(b"..") {
            continue;
        }
        let kind = entry
            .file_type()
            .map_err(|source| read_error(root, &path, source))?;
        if kind.is_dir() {
            walk(root, &path, found)?;
        } else if kind.is_symlink() {
            let shown = || path.display().to_string();
            match fs::metadata(root.join(&path)) {
                Ok(target) if target.is_dir() => return Err(LoadError::LinkedDirectory { path: shown() }),
                Ok(target) if !target.is_file() => return Err(LoadError::NotAFile { path: shown() }),
                // A dangling link is reported when it is read.
                _ => found.push(path),
            }
        } else if kind.is_file() {
            found.push(path);
        } else {
            return Err(LoadError::NotAFile {
                path: path.display().to_string(),
            });
        }
    }
    Ok(())
}

/// Returns the error of a file that cannot be read, given relative to `root`.
pub fn read_error(root: &Path, path: &Path, source: io::Error) -> LoadError {
    let path = match path.as_os_str().is_empty() {
        true => root.to_owned(),
        false => root.join(path),
    };
    LoadError::Read {
        path: path.display().to_string(),
        source,
    }
}

/// Returns a hint for a file or folder that this process may not read: the user of the process, and the fix in an image.
pub fn permission_hint(path: &str) -> String {
    use std::os::unix::fs::MetadataExt as _;
    let user = fs::metadata("/proc/self").map_or_else(
        |_| "the user of this process".to_owned(),
        |process| format!("user {}", process.uid()),
    );
    format!(
        "{user} cannot read it; make it readable for all users at its source, in an image with \"chmod -R a+rX {path}\""
    )
}

/// Reads every document below `root` and passes it to `visit` with its origin.
///
/// A broken document is passed as an error. The rest of its file is skipped, and reading continues with the next file. An error
/// from `visit` ends the reading.
///
/// # Errors
/// The errors of [`files`] and of `visit`.
pub fn read<E: From<LoadError>>(
    root: &Path,
    mut visit: impl FnMut(Result<Blob, LoadError>, &Origin) -> Result<(), E>,
) -> Result<(), E> {
    for path in files(root)? {
        read_file(root, &path, &mut visit)?;
    }
    Ok(())
}

/// Reads the documents of one file, given relative to `root`; see [`read`].
///
/// # Errors
/// The errors of `visit`.
pub fn read_file<E: From<LoadError>>(
    root: &Path,
    path: &Path,
    visit: &mut impl FnMut(Result<Blob, LoadError>, &Origin) -> Result<(), E>,
) -> Result<(), E> {
    read_file_values(root, path, &mut |value, origin| {
        let blob = value.and_then(|value| {
            Blob::from_value(value).map_err(|source| LoadError::Blob {
                origin: origin.clone(),
                source: source.look_up(|| fs::read_to_string(root.join(path)).ok()),
            })
        });
        visit(blob, origin)
    })
}

/// Reads every document below `root` as it is written, whatever its schema; otherwise as [`read`].
///
/// # Errors
/// The errors of [`files`] and of `visit`.
pub fn read_values<E: From<LoadError>>(
    root: &Path,
    mut visit: impl FnMut(Result<Value, LoadError>, &Origin) -> Result<(), E>,
) -> Result<(), E> {
    for path in files(root)? {
        read_file_values(root, &path, &mut visit)?;
    }
    Ok(())
}

fn read_file_values<E: From<LoadError>>(
    root: &Path,
    path: &Path,
    visit: &mut impl FnMut(Result<Value, LoadError>, &Origin) -> Result<(), E>,
) -> Result<(), E> {
    let mut origin = Origin {
        file: path.display().to_string().into(),
        document: 0,
    };
    let file = match File::open(root.join(path)) {
        Ok(file) => file,
        Err(source) => return visit(Err(read_error(root, path, source)), &origin),
    };
    // An error is the last document.
    for document in yaml::Documents::new(BufReader::with_capacity(1 << 16, file)).with_empty_documents() {
        origin.document += 1;
        let document = document.map_err(|source| LoadError::Document {
            origin: origin.clone(),
            source,
        });
        visit(document, &origin)?;
    }
    Ok(())
}

/// Reads a whole catalog into memory.
///
/// # Errors
/// The first error of [`read`].
pub fn load(root: &Path) -> Result<Vec<Blob>, LoadError> {
    let mut blobs = Vec::new();
    read(root, |blob, _| -> Result<(), LoadError> {
        blobs.push(blob?);
        Ok(())
    })?;
    Ok(blobs)
}

#[cfg(test)]
mod tests;
