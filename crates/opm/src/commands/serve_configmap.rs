//! `opm serve-configmap`: serves the catalog of a mounted ConfigMap over gRPC until SIGTERM or SIGINT.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use olm_api::config_map_catalog::{self as keys, content_hash};
use olm_authoring::config_map;
use olm_registry::cache;
use olm_registry::index::Index;

use super::serve::{listen_and_serve, with_log};
use crate::args::ServeConfigMapArgs;

/// Timeout for the expected content: a node takes a minute or two to update a mounted ConfigMap. It is shorter than the pod's
/// startup probe.
const PATIENCE: Duration = Duration::from_secs(140);
/// Time between two reads.
const PAUSE: Duration = Duration::from_millis(500);

/// Serves the catalog. A fatal error is also written to the termination log, which Kubernetes shows in the pod's status.
pub(crate) fn run(args: &ServeConfigMapArgs, debug: bool) -> anyhow::Result<()> {
    with_log(&args.termination_log, debug, || {
        let index = prepare(args)?;
        listen_and_serve(index, args.port, &args.source_path)
    })
}

/// Texts by key, without missing keys.
type Texts = BTreeMap<&'static str, Vec<u8>>;

fn prepare(args: &ServeConfigMapArgs) -> anyhow::Result<Index> {
    let folder = &args.source_path;
    if !folder.is_dir() {
        bail!("{} is not a directory", folder.display());
    }
    let texts = match &args.content_hash {
        None => read(folder)?,
        Some(hash) => read_awaited(folder, hash, PATIENCE)?,
    };
    let text = |key: &str| texts.get(key).map(Vec::as_slice);
    let converted = config_map::convert(text).context("read catalog")?;
    for warning in &converted.warnings {
        tracing::warn!("{warning}");
    }
    // The index is small, so it stays in memory and the pod needs no writable volume.
    let (index, faults) = cache::open_in_memory(converted.blobs).context("load catalog")?;
    for fault in faults.iter() {
        let place: String = fault.path.iter().map(|part| format!("{part}: ")).collect();
        tracing::warn!("serving content that a file-based catalog must not have: {place}{fault}");
    }
    Ok(index)
}

/// Reads the files until they have the expected content: versions arrive one after the other, and files one at a time.
fn read_awaited(folder: &Path, hash: &str, patience: Duration) -> anyhow::Result<Texts> {
    let deadline = Instant::now() + patience;
    let mut told = false;
    loop {
        let texts = read(folder)?;
        let found = content_hash(|key| texts.get(key).map(|text| Cow::Borrowed(text.as_slice())));
        if found == hash {
            return Ok(texts);
        }
        if Instant::now() >= deadline {
            bail!(
                "the mounted configmap is not the version that this pod was made for: its content has hash {found}, not {hash}"
            );
        }
        if !told {
            tracing::info!("waiting for the node to mount the present version of the configmap");
            told = true;
        }
        std::thread::sleep(PAUSE);
    }
}

fn read(folder: &Path) -> anyhow::Result<Texts> {
    let mut texts = Texts::new();
    let mut room = keys::MAX_BYTES + 1;
    for key in keys::KEYS {
        let path = folder.join(key);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(error).with_context(|| format!("open {}", path.display())),
        };
        let mut text = Vec::new();
        let read = file.take(room as u64).read_to_end(&mut text);
        room -= read.with_context(|| format!("read {}", path.display()))?;
        if room == 0 {
            bail!(
                "the catalog in the configmap is larger than {} bytes",
                keys::MAX_BYTES
            );
        }
        texts.insert(key, text);
    }
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(texts: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("folder");
        for (key, text) in texts {
            std::fs::write(folder.path().join(key), text).expect("written");
        }
        folder
    }

    #[test]
    fn cat_009_content_is_served_only_when_it_is_the_one_that_is_meant() {
        let old = folder(&[("packages", "old")]);
        let wanted = content_hash(|key| (key == "packages").then_some(Cow::Borrowed(b"new".as_slice())));
        let error = read_awaited(old.path(), &wanted, Duration::ZERO).expect_err("another version");
        assert!(
            error
                .to_string()
                .starts_with("the mounted configmap is not the version"),
            "{error}"
        );
        let path = old.path().join("packages");
        let writer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            std::fs::write(path, "new").expect("written");
        });
        let texts = read_awaited(old.path(), &wanted, Duration::from_secs(30)).expect("came");
        assert_eq!(texts["packages"], b"new");
        writer.join().expect("wrote");
    }

    #[test]
    fn more_than_a_catalog_may_have_is_not_read() {
        let large = "x".repeat(keys::MAX_BYTES / 2 + 1);
        let fits = folder(&[("packages", &large), ("other", &large)]);
        assert_eq!(
            read(fits.path()).expect("read").len(),
            1,
            "other keys are not read"
        );
        let large = folder(&[("packages", &large), ("clusterServiceVersions", &large)]);
        let error = read(large.path()).expect_err("too large");
        assert_eq!(
            error.to_string(),
            "the catalog in the configmap is larger than 8388608 bytes"
        );
    }
}
