//! The archive: its parts, the list of them, and the file.

use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, bail};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use super::redact::{NOTE, redact};
use crate::terminal::{escape, escape_json};

/// Maximum bytes of all parts together, uncompressed.
pub(super) const MAX_BYTES: usize = 256 * 1024 * 1024;
/// Folder that contains all parts.
const FOLDER: &str = "olm-support-bundle";
/// Name of the list of parts.
const MANIFEST: &str = "manifest.json";

/// The content of the file.
#[derive(Default)]
pub(super) struct Archive {
    parts: Vec<(String, Vec<u8>)>,
    bytes: usize,
    unread: Vec<(String, String)>,
    /// True if any read succeeded.
    has_read: bool,
}

impl Archive {
    /// Records that a read succeeded, even if it returned nothing.
    pub(super) fn answered(&mut self) {
        self.has_read = true;
    }

    /// Adds objects, with the values removed that [`redact`] removes.
    pub(super) fn objects(&mut self, path: &str, mut objects: Vec<Value>) {
        if objects.is_empty() {
            return;
        }
        objects.iter_mut().for_each(redact);
        let text = format!("{:#}\n", json!({"items": objects}));
        self.part(path, escape_json(&text));
    }

    /// Adds a log or a report with control characters escaped, because it may be printed on a terminal.
    pub(super) fn lines(&mut self, path: &str, text: &str) {
        self.part(path, escape(text));
    }

    /// Adds a text unchanged.
    pub(super) fn part(&mut self, path: &str, text: String) {
        if self.bytes.saturating_add(text.len()) > MAX_BYTES {
            return self.unread(path, &format!("the bundle would exceed {MAX_BYTES} bytes"));
        }
        self.bytes += text.len();
        self.parts.push((path.to_owned(), text.into_bytes()));
    }

    /// Records a missing part.
    pub(super) fn unread(&mut self, what: &str, cause: &str) {
        self.unread.push((what.to_owned(), cause.to_owned()));
    }

    /// Returns the first reason for a missing part if no read succeeded.
    pub(super) fn no_answer(&self) -> Option<&str> {
        let (_, cause) = self.unread.first()?;
        (!self.has_read).then_some(cause)
    }

    /// Returns true if no part is missing.
    pub(super) fn is_whole(&self) -> bool {
        self.unread.is_empty()
    }

    /// Adds the list of parts and returns a summary.
    ///
    /// # Errors
    /// The list cannot be written as JSON.
    pub(super) fn finish(&mut self) -> anyhow::Result<String> {
        let files: Vec<Value> = self
            .parts
            .iter()
            .map(|(path, bytes)| json!({"path": path, "bytes": bytes.len()}))
            .collect();
        let unread: Vec<Value> = self
            .unread
            .iter()
            .map(|(what, cause)| json!({"what": what, "cause": cause}))
            .collect();
        let manifest =
            json!({"files": files, "notRead": unread, "note": NOTE, "version": env!("CARGO_PKG_VERSION")});
        let mut summary = format!("{} files, {} bytes\n", self.parts.len(), self.bytes);
        for (what, cause) in &self.unread {
            summary.push_str(&format!("not read: {what}: {cause}\n"));
        }
        self.parts
            .push((MANIFEST.to_owned(), serde_json::to_vec_pretty(&manifest)?));
        Ok(summary)
    }

    /// Returns the compressed archive.
    ///
    /// # Errors
    /// A part cannot be packed.
    pub(super) fn packed(&self) -> anyhow::Result<Vec<u8>> {
        let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
        for (path, bytes) in &self.parts {
            let mut header = tar::Header::new_gnu();
            header.set_size(u64::try_from(bytes.len())?);
            header.set_mode(0o600);
            tar.append_data(&mut header, format!("{FOLDER}/{path}"), bytes.as_slice())
                .with_context(|| format!("cannot pack {path}"))?;
        }
        Ok(tar.into_inner()?.finish()?)
    }

    /// Writes a temporary file that only its owner may read, and renames it when it is complete.
    ///
    /// # Errors
    /// The file cannot be written, or exists already.
    pub(super) fn write(&self, path: &Path, force: bool) -> anyhow::Result<()> {
        let folder = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        let cannot = || format!("cannot write {}", path.display());
        let mut file = tempfile::Builder::new()
            .prefix(".olm-support-bundle-")
            .suffix(".partial")
            .tempfile_in(folder)
            .with_context(cannot)?;
        file.write_all(&self.packed()?).with_context(cannot)?;
        file.as_file().sync_all().with_context(cannot)?;
        // A file created in the meantime is not overwritten, either.
        let named = match force {
            true => file.persist(path),
            false => file.persist_noclobber(path),
        };
        named.map_err(|error| error.error).with_context(cannot)?;
        Ok(())
    }
}

/// Checks that a file may be written at this path.
///
/// # Errors
/// The file exists.
pub(super) fn is_free(path: &Path, force: bool) -> anyhow::Result<()> {
    if !force && path.symlink_metadata().is_ok() {
        bail!(
            "{} already exists; choose another name with --output, or use --force",
            path.display()
        );
    }
    Ok(())
}
