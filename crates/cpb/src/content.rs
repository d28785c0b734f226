//! Copies a catalog's content out of its image: `copy-content --catalog.from=DIR --catalog.to=DIR [--cache.from=DIR
//! --cache.to=DIR]`. It runs as an init container of a catalog with `extractContent`, in the catalog's own image.

use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use olm_fbc::load::permission_hint;

/// Copies the folders that the flags name, the cache only if it can be copied. Old content of the target is removed first,
/// because the container may have been restarted.
pub(crate) fn copy(words: &[OsString]) -> Result<(), String> {
    let [catalog, cache] = pairs(words)?;
    let (from, to) = catalog
        .ok_or("usage: copy-content --catalog.from=DIR --catalog.to=DIR [--cache.from=DIR --cache.to=DIR]")?;
    copy_folder(&from, &to)?;
    if let Some((from, to)) = cache
        && let Err(text) = copy_folder(&from, &to)
    {
        // The server can run without a cache, but not with an incomplete one.
        let _ = fs::remove_dir_all(&to);
        let from = from.display();
        let _ = writeln!(io::stdout(), "warning: the cache {from} is not used: {text}");
    }
    Ok(())
}

type Pair = Option<(PathBuf, PathBuf)>;

/// Parses the flags of catalog and cache, each `--NAME=DIR`, as catalog-operator writes them; each has both flags or none.
fn pairs(words: &[OsString]) -> Result<[Pair; 2], String> {
    const NAMES: [&str; 4] = ["catalog.from", "catalog.to", "cache.from", "cache.to"];
    let mut values: [Option<PathBuf>; 4] = Default::default();
    for word in words {
        let given = word
            .to_str()
            .and_then(|text| text.strip_prefix("--")?.split_once('='));
        let place = given.and_then(|(name, _)| NAMES.iter().position(|known| *known == name));
        let (Some((_, folder)), Some(place)) = (given, place) else {
            return Err(format!("unknown argument {}", word.display()));
        };
        values[place] = Some(PathBuf::from(folder));
    }
    let [catalog_from, catalog_to, cache_from, cache_to] = values;
    let pair = |name: &str, from: Option<PathBuf>, to: Option<PathBuf>| match (from, to) {
        (Some(from), Some(to)) => Ok(Some((from, to))),
        (None, None) => Ok(None),
        _ => Err(format!("--{name}.from and --{name}.to belong together")),
    };
    Ok([
        pair("catalog", catalog_from, catalog_to)?,
        pair("cache", cache_from, cache_to)?,
    ])
}

fn copy_folder(from: &Path, to: &Path) -> Result<(), String> {
    match fs::remove_dir_all(to) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(format!("cannot remove {}: {error}", to.display()));
        }
        _ => {}
    }
    // A list instead of recursion, because an image may be arbitrarily deep.
    let mut left = vec![(from.to_owned(), to.to_owned())];
    while let Some((from, to)) = left.pop() {
        let failed = |error: io::Error| {
            let (shown, to) = (from.display(), to.display());
            match error.kind() {
                ErrorKind::PermissionDenied if fs::File::open(&from).is_err() => {
                    let hint = permission_hint(&shown.to_string());
                    format!("cannot copy {shown} to {to}: {error}: {hint}")
                }
                _ => format!("cannot copy {shown} to {to}: {error}"),
            }
        };
        let found = fs::symlink_metadata(&from).map_err(failed)?.file_type();
        if found.is_symlink() {
            // The link is copied unchanged: its target belongs to the image, or is copied beside it.
            symlink(fs::read_link(&from).map_err(failed)?, &to).map_err(failed)?;
        } else if found.is_dir() {
            fs::create_dir_all(&to).map_err(failed)?;
            for entry in fs::read_dir(&from).map_err(failed)? {
                let name = entry.map_err(failed)?.file_name();
                left.push((from.join(&name), to.join(&name)));
            }
        } else if found.is_file() {
            fs::copy(&from, &to).map_err(failed)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[String]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[test]
    fn folders_are_copied_whole_and_in_place_of_what_was_there() {
        let home = tempfile::tempdir().unwrap();
        let path = |name: &str| home.path().join(name);
        for (name, text) in [
            ("configs/a/catalog.yaml", "a"),
            ("configs/.hidden", "h"),
            ("cache/digest", "d"),
            ("to/catalog/old", "o"),
        ] {
            fs::create_dir_all(path(name).parent().unwrap()).unwrap();
            fs::write(path(name), text).unwrap();
        }
        symlink("a/catalog.yaml", path("configs/link")).unwrap();
        let flag = |name: &str, folder: &str| format!("--{name}={}", path(folder).display());
        let all = [
            flag("catalog.from", "configs"),
            flag("catalog.to", "to/catalog"),
            flag("cache.from", "cache"),
            flag("cache.to", "to/cache"),
        ];
        copy(&words(&all)).unwrap();
        let read = |name: &str| fs::read_to_string(path(name)).unwrap();
        assert_eq!(read("to/catalog/a/catalog.yaml"), "a");
        assert_eq!(read("to/catalog/.hidden"), "h");
        assert_eq!(read("to/catalog/link"), "a");
        assert!(
            fs::symlink_metadata(path("to/catalog/link"))
                .unwrap()
                .is_symlink()
        );
        assert_eq!(read("to/cache/digest"), "d");
        assert!(!path("to/catalog/old").exists());
        // A second run, as in a restarted container.
        copy(&words(&all[..2])).unwrap();
        assert_eq!(read("to/catalog/a/catalog.yaml"), "a");
    }

    /// Mirrors omit the cache.
    #[test]
    fn a_cache_that_is_not_there_is_none() {
        let home = tempfile::tempdir().unwrap();
        let path = |name: &str| home.path().join(name);
        fs::create_dir_all(path("configs")).unwrap();
        fs::write(path("configs/catalog.yaml"), "a").unwrap();
        fs::create_dir_all(path("to/cache")).unwrap();
        fs::write(path("to/cache/old"), "o").unwrap();
        let flags = [
            "catalog.from=configs",
            "catalog.to=to/catalog",
            "cache.from=gone",
            "cache.to=to/cache",
        ];
        let flag = |flag: &str| {
            let (name, folder) = flag.split_once('=').unwrap();
            format!("--{name}={}", path(folder).display())
        };
        copy(&words(&flags.map(flag))).unwrap();
        assert!(path("to/catalog/catalog.yaml").exists());
        assert!(!path("to/cache").exists());
    }

    #[test]
    fn what_is_missing_is_named() {
        let home = tempfile::tempdir().unwrap();
        let to = format!("--catalog.to={}", home.path().join("to").display());
        for (given, expected) in [
            (vec![], "usage: copy-content"),
            (
                vec!["--catalog.from=/x".to_owned()],
                "--catalog.from and --catalog.to belong together",
            ),
            (
                vec!["--cache.to=/x".to_owned()],
                "--cache.from and --cache.to belong together",
            ),
            (
                vec!["--catalog.from".to_owned()],
                "unknown argument --catalog.from",
            ),
            (vec!["--other=1".to_owned()], "unknown argument --other=1"),
            (vec!["x".to_owned()], "unknown argument x"),
            (
                vec!["--catalog.from=/does/not/exist".to_owned(), to],
                "cannot copy /does/not/exist to ",
            ),
        ] {
            let error = copy(&words(&given)).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
