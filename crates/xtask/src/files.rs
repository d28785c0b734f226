//! Folders: their files, and their removal.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// Returns the entries of a folder, ordered by name.
///
/// # Errors
/// The folder cannot be read.
pub(crate) fn entries(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)
        .with_context(|| format!("cannot read {}", folder.display()))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    paths.sort();
    Ok(paths)
}

/// Returns all files in a folder and its subfolders, each with its path below the folder.
///
/// # Errors
/// A folder cannot be read, or a name is not UTF-8.
pub(crate) fn below(folder: &Path) -> anyhow::Result<Vec<(String, PathBuf)>> {
    let mut files = Vec::new();
    for path in entries(folder)? {
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .with_context(|| format!("the name of {} is not UTF-8", path.display()))?
            .to_owned();
        if path.is_dir() {
            let inner = below(&path)?.into_iter();
            files.extend(inner.map(|(below, path)| (format!("{name}/{below}"), path)));
        } else {
            files.push((name, path));
        }
    }
    Ok(files)
}

/// Returns the YAML files in a folder, without subfolders: content by file name.
///
/// # Errors
/// The folder or a file cannot be read.
pub(crate) fn yaml(folder: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let mut files = BTreeMap::new();
    for path in entries(folder)? {
        if path.extension().is_some_and(|extension| extension == "yaml") {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            files.insert(name.into_owned(), read(&path)?);
        }
    }
    Ok(files)
}

/// Returns the text of a file.
///
/// # Errors
/// The file cannot be read, or is not UTF-8.
pub(crate) fn read(file: &Path) -> anyhow::Result<String> {
    fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}

/// Removes a folder with everything in it, if it exists.
///
/// # Errors
/// It cannot be removed.
pub(crate) fn remove(folder: &Path) -> anyhow::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}

/// Makes an empty folder in place of one that may exist.
///
/// # Errors
/// The old one cannot be removed, or the new one not be made.
pub(crate) fn renew(folder: &Path) -> anyhow::Result<()> {
    remove(folder)?;
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_in_subfolders_and_yaml_only_in_the_folder_itself() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("a");
        renew(&folder.join("inner")).unwrap();
        for (name, text) in [("z.yaml", "z"), ("inner/y.yaml", "y"), ("b.txt", "b")] {
            fs::write(folder.join(name), text).unwrap();
        }
        let found = below(&folder).unwrap();
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["b.txt", "inner/y.yaml", "z.yaml"]);
        assert_eq!(read(&found[1].1).unwrap(), "y");
        assert_eq!(
            yaml(&folder).unwrap(),
            BTreeMap::from([("z.yaml".to_owned(), "z".to_owned())])
        );
        renew(&folder).unwrap();
        assert!(below(&folder).unwrap().is_empty());
        remove(&folder).unwrap();
        remove(&folder).unwrap();
        assert!(entries(&folder).is_err());
    }
}
