//! Suggestions for missing paths, for the end of an error.

use std::path::{Path, PathBuf};

use olm_fbc::did_you_mean::did_you_mean;

/// Maximum number of files that are compared with a missing one.
const MAX_COMPARED: usize = 10_000;

/// Returns `: did you mean "./catalog"?` for a missing path, or an empty text if no similar name is beside it.
pub(crate) fn path(path: &Path) -> String {
    path_beside(path).map_or_else(String::new, |meant| format!(": did you mean {meant:?}?"))
}

fn path_beside(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let folder = path.parent()?;
    let here = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    let beside: Vec<String> = std::fs::read_dir(here)
        .ok()?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .take(MAX_COMPARED)
        .collect();
    let meant = did_you_mean(name, beside.iter().map(String::as_str))?;
    Some(folder.join(meant))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_names_are_offered() {
        let dir = tempfile::tempdir().expect("folder");
        std::fs::create_dir(dir.path().join("catalog")).expect("folder");
        let meant = dir.path().join("catalog");
        assert_eq!(
            path(&dir.path().join("catlog")),
            format!(": did you mean {meant:?}?")
        );
        assert_eq!(path(&dir.path().join("bundles")), "");
        assert_eq!(path(Path::new("/")), "");
    }
}
