//! Finds a bundle in its image and copies it.

use std::fs;
use std::path::{Component, Path, PathBuf};

/// File that names the folder of the manifests.
const ANNOTATIONS: &str = "annotations.yaml";
/// Its key for that folder.
const MANIFESTS: &str = "operators.operatorframework.io.bundle.manifests.v1";
/// Folders of a running container that do not belong to its image.
const NOT_OF_THE_IMAGE: [&str; 3] = ["dev", "proc", "sys"];
/// Maximum size of the copied files in bytes. They are written to a ConfigMap, which can hold one MiB of them compressed.
const MAX_BYTES: u64 = 64 << 20;
/// Maximum number of files and folders that are searched: a bundle image may be built on any other.
const MAX_ENTRIES: usize = 200_000;

/// Copies the manifests and the annotations of the image in `root` to `manifests/` and `metadata/` below `to`.
pub(crate) fn copy(root: &Path, to: &Path) -> Result<(), String> {
    let annotations = find_annotations(root, to)?;
    let metadata = made(&to.join("metadata"))?;
    let mut left = MAX_BYTES;
    let mut manifests = None;
    if let Some(file) = &annotations {
        copy_file(file, &metadata.join(ANNOTATIONS), &mut left)?;
        manifests = manifests_folder(file)?;
    }
    let manifests = manifests.unwrap_or_else(|| "manifests".to_owned());
    let from = below(root, &manifests)?;
    let into = made(&to.join("manifests"))?;
    for path in entries(&from)? {
        // Only the folder itself and no hidden files, as when an image is pulled in process.
        let is_hidden = path
            .file_name()
            .is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
        if let Some(name) = path.file_name().filter(|_| !is_hidden && is_file(&path)) {
            copy_file(&path, &into.join(name), &mut left)?;
        }
    }
    Ok(())
}

/// Finds the annotations in their usual place, else the first ones, searched from the top.
fn find_annotations(root: &Path, to: &Path) -> Result<Option<PathBuf>, String> {
    let usual = root.join("metadata").join(ANNOTATIONS);
    if is_file(&usual) {
        return Ok(Some(usual));
    }
    let skipped: Vec<PathBuf> = NOT_OF_THE_IMAGE.iter().map(|name| root.join(name)).collect();
    let (mut level, mut looked_at) = (vec![root.to_owned()], 0_usize);
    while !level.is_empty() {
        let mut next = Vec::new();
        for folder in level {
            // A folder that cannot be read does not belong to the bundle.
            for path in entries(&folder).unwrap_or_default() {
                looked_at += 1;
                if looked_at > MAX_ENTRIES {
                    return Err(format!(
                        "no {ANNOTATIONS} among the first {MAX_ENTRIES} files of the image: put it into /metadata"
                    ));
                }
                if path.file_name().is_some_and(|name| name == ANNOTATIONS) && is_file(&path) {
                    return Ok(Some(path));
                }
                if is_folder(&path) && path != to && !skipped.contains(&path) {
                    next.push(path);
                }
            }
        }
        level = next;
    }
    Ok(None)
}

fn manifests_folder(annotations: &Path) -> Result<Option<String>, String> {
    let unusable = |error: &dyn std::fmt::Display| format!("cannot read {}: {error}", annotations.display());
    let bytes = fs::read(annotations).map_err(|error| unusable(&error))?;
    let (document, _) = olm_fbc::yaml::parse_first(&bytes).map_err(|error| unusable(&error))?;
    let folder = document
        .get("annotations")
        .and_then(|map| map.get(MANIFESTS)?.as_str());
    Ok(folder.map(str::to_owned))
}

/// Returns the path of a folder that an image names; the path cannot leave the image.
fn below(root: &Path, folder: &str) -> Result<PathBuf, String> {
    let parts = Path::new(folder).components();
    let mut path = root.to_owned();
    for part in parts {
        match part {
            Component::Normal(name) => path.push(name),
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir | Component::Prefix(_) => {
                return Err(format!("the manifests cannot be in {folder:?}"));
            }
        }
        if fs::symlink_metadata(&path).is_ok_and(|found| found.is_symlink()) {
            return Err(format!("{} is a link", path.display()));
        }
    }
    Ok(path)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let unreadable = |error: std::io::Error| format!("cannot read {}: {error}", folder.display());
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        found.push(entry.map_err(unreadable)?.path());
        if found.len() > MAX_ENTRIES {
            return Err(format!("{} has more than {MAX_ENTRIES} files", folder.display()));
        }
    }
    found.sort();
    Ok(found)
}

fn copy_file(from: &Path, to: &Path, left: &mut u64) -> Result<(), String> {
    let size = fs::symlink_metadata(from).map_or(0, |found| found.len());
    *left = left
        .checked_sub(size)
        .ok_or_else(|| format!("the bundle has more than {} MiB", MAX_BYTES >> 20))?;
    // The mode is not copied: the next container reads the file as any user.
    let copied = fs::read(from).and_then(|bytes| fs::write(to, bytes));
    copied.map_err(|error| format!("cannot copy {} to {}: {error}", from.display(), to.display()))
}

fn made(folder: &Path) -> Result<PathBuf, String> {
    fs::create_dir_all(folder).map_err(|error| format!("cannot create {}: {error}", folder.display()))?;
    Ok(folder.to_owned())
}

fn is_file(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_file())
}

fn is_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Image(tempfile::TempDir);

    impl Image {
        fn with(files: &[(&str, &str)]) -> Self {
            let image = Self(tempfile::tempdir().unwrap());
            for (name, text) in files {
                let path = image.0.path().join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            image
        }

        /// Returns the copied files, by name.
        fn copied(&self) -> Result<Vec<String>, String> {
            let to = self.0.path().join("bundle");
            copy(self.0.path(), &to)?;
            let mut names = Vec::new();
            for folder in ["manifests", "metadata"] {
                for path in entries(&to.join(folder))? {
                    let name = path.file_name().unwrap().to_str().unwrap().to_owned();
                    names.push(format!("{folder}/{name}={}", fs::read_to_string(&path).unwrap()));
                }
            }
            Ok(names)
        }
    }

    #[test]
    fn the_manifests_that_the_annotations_name_are_copied() {
        let annotations = format!("annotations: {{{MANIFESTS}: deploy/}}");
        let image = Image::with(&[
            ("deploy/csv.yaml", "c"),
            ("deploy/.hidden", "h"),
            ("deploy/below/x", "x"),
            ("manifests/other.yaml", "o"),
            ("metadata/annotations.yaml", &annotations),
            ("aaa/annotations.yaml", "annotations: {}"),
        ]);
        let expected = vec![
            "manifests/csv.yaml=c".to_owned(),
            format!("metadata/annotations.yaml={annotations}"),
        ];
        assert_eq!(image.copied(), Ok(expected));
    }

    #[test]
    fn without_annotations_the_usual_folder_counts() {
        let image = Image::with(&[("manifests/csv.yaml", "c"), ("proc/annotations.yaml", "p")]);
        assert_eq!(image.copied(), Ok(vec!["manifests/csv.yaml=c".to_owned()]));
        let elsewhere = Image::with(&[("manifests/csv.yaml", "c"), ("opt/annotations.yaml", "a: b")]);
        assert_eq!(elsewhere.copied().unwrap().len(), 2);
        assert!(Image::with(&[]).copied().is_err(), "no manifests at all");
    }

    /// Any image can name the path of the pod's ServiceAccount token.
    #[test]
    fn links_lead_nowhere() {
        let secret = Image::with(&[("token", "secret")]);
        let link = |to: &str, name: &str, image: &Image| {
            std::os::unix::fs::symlink(secret.0.path().join(to), image.0.path().join(name)).unwrap();
        };
        let file = Image::with(&[("manifests/csv.yaml", "c")]);
        link("token", "manifests/token.yaml", &file);
        assert_eq!(file.copied(), Ok(vec!["manifests/csv.yaml=c".to_owned()]));
        let folder = Image::with(&[]);
        link("", "manifests", &folder);
        assert!(folder.copied().unwrap_err().contains("is a link"));
        for named in ["../..", "/var/../.."] {
            let annotations = format!("annotations: {{{MANIFESTS}: {named}}}");
            let image = Image::with(&[("metadata/annotations.yaml", annotations.as_str())]);
            assert!(image.copied().unwrap_err().contains("cannot be in"), "{named}");
        }
    }

    #[test]
    fn a_bundle_is_bounded() {
        let image = Image::with(&[("manifests/small.yaml", "c")]);
        let large = fs::File::create(image.0.path().join("manifests/large")).unwrap();
        large.set_len(MAX_BYTES + 1).unwrap();
        assert_eq!(image.copied(), Err("the bundle has more than 64 MiB".to_owned()));
    }
}
