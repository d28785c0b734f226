//! Reading layers: decompression, bounds, whiteouts and links, until one flat file system is left.
//!
//! Nothing is written below the names that an image chooses, so there is no path to escape from. Names with
//! `..` are refused all the same, because callers may use them as paths.

mod file_store;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::ops::Bound;
use std::path::Path;
use std::rc::Rc;

use bytes::Bytes;
use tar::EntryType;

pub(crate) use self::file_store::FileStore;
use self::file_store::{CopyError, Stored};
use crate::content::relative;
use crate::error::PullErrorClass;
use crate::limits::{ENTRY_HEADER_BYTES, LINKS, Limits, ZSTD_WINDOW_LOG};

/// Prefix of a marker file: the rest of its name is removed from the layers below.
const WHITEOUT: &str = ".wh.";
/// Marker file that removes everything the layers below have in its folder.
const OPAQUE: &str = ".wh..wh..opq";
/// Error text of zstd for a frame with a larger window than [`ZSTD_WINDOW_LOG`].
const WINDOW_TOO_LARGE: &str = "requires too much memory";

/// A layer, or all of them together, cannot be read. The text names the path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LayerError {
    #[error("{0}")]
    TooLarge(String),
    #[error("{0}")]
    Malformed(String),
    #[error("{0}")]
    Storage(String),
}

impl LayerError {
    pub(crate) fn class(&self) -> PullErrorClass {
        match self {
            Self::TooLarge(_) => PullErrorClass::TooLarge,
            Self::Malformed(_) => PullErrorClass::Malformed,
            Self::Storage(_) => PullErrorClass::Storage,
        }
    }
}

/// A file system under construction, lowest layer first, of which only some folders are kept.
#[derive(Debug)]
pub(crate) struct Flattened {
    wanted: Vec<String>,
    limits: Limits,
    nodes: BTreeMap<String, Node>,
    store: FileStore,
    entries: usize,
    unpacked: u64,
    content: u64,
}

#[derive(Debug, Clone)]
enum Node {
    File(Stored),
    /// Target as a path from the root.
    Link(String),
}

/// Changes of one layer, applied to the layers below when it has been read whole.
#[derive(Debug, Default)]
struct Changes {
    added: BTreeMap<String, Node>,
    folders: Vec<String>,
    removed: Vec<String>,
    emptied: Vec<String>,
}

impl Flattened {
    /// Returns an empty file system. `wanted` are folders or files from the root; slashes around them do not
    /// matter. An empty entry means everything.
    pub(crate) fn new(wanted: &[String], limits: Limits) -> Self {
        let wanted = wanted
            .iter()
            .map(|path| path.trim_matches('/').trim_start_matches("./").to_owned())
            .collect();
        Self {
            wanted,
            limits,
            nodes: BTreeMap::new(),
            store: FileStore::default(),
            entries: 0,
            unpacked: 0,
            content: 0,
        }
    }

    /// Keeps the bytes of files in `store`.
    pub(crate) fn kept_in(self, store: FileStore) -> Self {
        Self { store, ..self }
    }

    /// Reads the next layer: a tar archive, plain or compressed with gzip or zstd.
    pub(crate) fn add_layer(&mut self, layer: impl Read + Seek) -> Result<(), LayerError> {
        let allowance = Rc::new(Cell::new(ENTRY_HEADER_BYTES));
        let reader = Bounded {
            inner: decompress(layer).map_err(|error| broken(&error))?,
            total_left: self.limits.unpacked.saturating_sub(self.unpacked),
            allowance: Rc::clone(&allowance),
            read: Rc::new(Cell::new(0)),
        };
        let read = Rc::clone(&reader.read);
        let result = self.read_entries(tar::Archive::new(reader), &allowance);
        self.unpacked = self.unpacked.saturating_add(read.get());
        self.apply(result?);
        Ok(())
    }

    fn read_entries<R: Read>(
        &mut self,
        mut archive: tar::Archive<R>,
        allowance: &Cell<u64>,
    ) -> Result<Changes, LayerError> {
        let mut changes = Changes::default();
        for entry in archive.entries().map_err(|error| broken(&error))? {
            let mut entry = entry.map_err(|error| broken(&error))?;
            self.entries = self.entries.saturating_add(1);
            if self.entries > self.limits.entries {
                return Err(LayerError::TooLarge(format!(
                    "more than {} entries",
                    self.limits.entries
                )));
            }
            let size = entry.size();
            // Skipping to the next entry reads the rest of this one. Headers have their own bound.
            allowance.set(size.saturating_add(1024));
            self.read_entry(&mut entry, size, &mut changes)?;
            allowance.set(size.saturating_add(ENTRY_HEADER_BYTES));
        }
        Ok(changes)
    }

    fn read_entry<R: Read>(
        &mut self,
        entry: &mut tar::Entry<'_, R>,
        size: u64,
        changes: &mut Changes,
    ) -> Result<(), LayerError> {
        let raw = entry.path_bytes().into_owned();
        let path = clean_path(&raw)?;
        let name = path.rsplit('/').next().unwrap_or_default();
        if name == OPAQUE {
            changes.emptied.push(parent(&path).to_owned());
            return Ok(());
        }
        if let Some(removed) = name.strip_prefix(WHITEOUT) {
            changes.removed.push(join(parent(&path), removed));
            return Ok(());
        }
        let kind = entry.header().entry_type();
        if kind == EntryType::Directory {
            changes.folders.push(path);
            return Ok(());
        }
        if kind.is_symlink() || kind.is_hard_link() {
            if self.is_wanted(&path) || self.leads_to_wanted(&path) {
                let target = link_target(entry, &path, kind)?;
                changes.added.insert(path, Node::Link(target));
            }
            return Ok(());
        }
        if !self.is_wanted(&path) {
            return Ok(());
        }
        if !matches!(kind, EntryType::Regular | EntryType::Continuous) {
            return Err(LayerError::Malformed(format!(
                "`{path}` is not a regular file, folder or link"
            )));
        }
        let file = self.read_file(entry, &path, size)?;
        changes.added.insert(path, Node::File(file));
        Ok(())
    }

    fn read_file(&mut self, entry: &mut impl Read, path: &str, size: u64) -> Result<Stored, LayerError> {
        if size > self.limits.file {
            let text = format!(
                "file `{path}` has {size} bytes, the limit is {}",
                self.limits.file
            );
            return Err(LayerError::TooLarge(text));
        }
        self.content = self.content.saturating_add(size);
        if self.content > self.limits.content {
            let text = format!("the required files exceed {} bytes", self.limits.content);
            return Err(LayerError::TooLarge(text));
        }
        let file = self.store.add(entry).map_err(|error| match error {
            CopyError::Read(error) => broken(&error),
            CopyError::Write(error) => LayerError::Storage(format!("file `{path}` cannot be kept: {error}")),
        })?;
        if file.length() != size {
            return Err(LayerError::Malformed(format!(
                "file `{path}` is truncated: {} of {size} bytes",
                file.length()
            )));
        }
        Ok(file)
    }

    fn is_wanted(&self, path: &str) -> bool {
        self.wanted.iter().any(|wanted| is_below(path, wanted))
    }

    /// Returns whether `path` is a parent of something wanted. A link there would make wanted files silently
    /// absent.
    fn leads_to_wanted(&self, path: &str) -> bool {
        self.wanted.iter().any(|wanted| is_below(wanted, path))
    }

    /// Applies a layer. Removals concern the layers below only, so they precede this layer's own entries.
    fn apply(&mut self, changes: Changes) {
        for path in &changes.removed {
            self.remove(path, true);
        }
        for path in &changes.emptied {
            self.remove(path, false);
        }
        for path in &changes.folders {
            self.nodes.remove(path);
        }
        for path in changes.added.keys() {
            self.remove(path, true);
        }
        self.nodes.extend(changes.added);
    }

    /// Removes everything below a path, and with `itself` the path too. Names below a folder are adjacent, so
    /// nothing else is visited: each entry of a layer may remove something.
    fn remove(&mut self, path: &str, itself: bool) {
        if itself {
            self.nodes.remove(path);
        }
        if path.is_empty() {
            self.nodes.retain(|node, _| node.is_empty());
            return;
        }
        let folder = format!("{path}/");
        let next = |nodes: &BTreeMap<String, Node>| {
            let (node, _) = nodes
                .range::<str, _>((Bound::Excluded(&*folder), Bound::Unbounded))
                .next()?;
            node.starts_with(&folder).then(|| node.clone())
        };
        while let Some(node) = next(&self.nodes) {
            self.nodes.remove(&node);
        }
    }

    /// Returns the files, links followed, by path from the root without leading slash.
    pub(crate) fn into_files(self) -> Result<BTreeMap<String, Bytes>, LayerError> {
        let unread = |path: &str, error: &io::Error| {
            LayerError::Storage(format!("file `{path}` cannot be read again: {error}"))
        };
        let files = self
            .files()?
            .into_iter()
            .map(|(path, file)| -> Result<_, LayerError> {
                let bytes = self.store.bytes(file).map_err(|error| unread(path, &error))?;
                Ok((path.to_owned(), bytes))
            });
        files.collect()
    }

    /// Writes the files below a folder into `destination`, which is created. Returns their number. Once
    /// `is_wanted` returns false it stops, and removes `destination`.
    pub(crate) fn write_below(
        self,
        folder: &str,
        destination: &Path,
        is_wanted: impl Fn() -> bool,
    ) -> Result<usize, LayerError> {
        let written = self.write_while(folder, destination, &is_wanted);
        // Its owner may have removed it while a file was written.
        if !is_wanted() && destination.exists() {
            fs::remove_dir_all(destination).map_err(|error| {
                LayerError::Storage(format!("cannot remove {}: {error}", destination.display()))
            })?;
        }
        written
    }

    fn write_while(
        &self,
        folder: &str,
        destination: &Path,
        is_wanted: impl Fn() -> bool,
    ) -> Result<usize, LayerError> {
        let unwritten = |path: &Path, error: &io::Error| {
            LayerError::Storage(format!("cannot write {}: {error}", path.display()))
        };
        let folder = folder.trim_matches('/').trim_start_matches("./");
        let mut count = 0_usize;
        for (path, file) in self.files()? {
            let Some(relative) = relative(path, folder) else {
                continue;
            };
            if !is_wanted() {
                break;
            }
            // Names have no `..`: they were checked when they were read.
            let target = destination.join(relative);
            let write = || {
                if let Some(parent) = target.parent() {
                    fs::create_dir_all(parent)?;
                }
                self.store.copy(file, &mut File::create(&target)?)
            };
            write().map_err(|error| unwritten(&target, &error))?;
            count = count.saturating_add(1);
        }
        Ok(count)
    }

    /// Returns the files, links followed, by path.
    fn files(&self) -> Result<Vec<(&str, &Stored)>, LayerError> {
        let mut files = Vec::new();
        // Links are counted as the copies they become when the files are written.
        let mut copies = 0_u64;
        for (path, node) in &self.nodes {
            if self.is_wanted(path) {
                let file = self.follow(path)?;
                if matches!(node, Node::Link(_)) {
                    copies = copies.saturating_add(file.length());
                    if copies > self.limits.content {
                        return Err(LayerError::TooLarge(format!(
                            "links refer to more than {} bytes of files",
                            self.limits.content
                        )));
                    }
                }
                files.push((path.as_str(), file));
            } else {
                return Err(LayerError::Malformed(format!(
                    "folder `{path}` is a link; links to folders are not supported"
                )));
            }
        }
        Ok(files)
    }

    fn follow(&self, path: &str) -> Result<&Stored, LayerError> {
        let mut at = path;
        // One step more than links: the last one reaches the file.
        for _ in 0..=LINKS {
            match self.nodes.get(at) {
                Some(Node::File(file)) => return Ok(file),
                Some(Node::Link(target)) => at = target,
                None => {
                    let text =
                        format!("link `{path}` points to `{at}`, which is not one of the extracted files");
                    return Err(LayerError::Malformed(text));
                }
            }
        }
        Err(LayerError::Malformed(format!("link `{path}` is part of a loop")))
    }
}

/// Returns whether `path` is `folder` or inside it; the root is the empty path.
fn is_below(path: &str, folder: &str) -> bool {
    match path.strip_prefix(folder) {
        Some(rest) => folder.is_empty() || rest.is_empty() || rest.starts_with('/'),
        None => false,
    }
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() {
        name.to_owned()
    } else {
        format!("{folder}/{name}")
    }
}

fn clean_path(raw: &[u8]) -> Result<String, LayerError> {
    let text = std::str::from_utf8(raw).map_err(|_| {
        LayerError::Malformed(format!("path `{}` is not UTF-8", String::from_utf8_lossy(raw)))
    })?;
    resolve("", text)
        .filter(|_| !text.split('/').any(|part| part == ".."))
        .ok_or_else(|| LayerError::Malformed(format!("path `{text}` points outside the image")))
}

fn link_target<R: Read>(
    entry: &tar::Entry<'_, R>,
    path: &str,
    kind: EntryType,
) -> Result<String, LayerError> {
    let raw = entry.link_name_bytes().unwrap_or_default();
    let text = std::str::from_utf8(&raw)
        .map_err(|_| LayerError::Malformed(format!("the target of link `{path}` is not UTF-8")))?;
    // A hard link's target counts from the root, a symbolic link's from its own folder.
    let base = if kind.is_hard_link() || text.starts_with('/') {
        ""
    } else {
        parent(path)
    };
    resolve(base, text)
        .filter(|target| !target.is_empty())
        .ok_or_else(|| LayerError::Malformed(format!("link `{path}` points to `{text}`, outside the image")))
}

/// Returns a path from the root without `.` and `..`; `None` if it would leave the root.
fn resolve(base: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = base.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Returns the archive in a layer. The first bytes decide, because media types are often wrong.
fn decompress<'a>(mut layer: impl Read + Seek + 'a) -> io::Result<Box<dyn Read + 'a>> {
    let mut magic = [0u8; 4];
    let mut length = 0;
    while let Some(free) = magic.get_mut(length..).filter(|free| !free.is_empty()) {
        match layer.read(free)? {
            0 => break,
            read => length = length.saturating_add(read),
        }
    }
    layer.seek(SeekFrom::Start(0))?;
    Ok(match magic {
        [0x1f, 0x8b, ..] => Box::new(flate2::read::MultiGzDecoder::new(BufReader::new(layer))),
        [0x28, 0xb5, 0x2f, 0xfd] => {
            let mut decoder = zstd::Decoder::new(layer)?;
            decoder.window_log_max(ZSTD_WINDOW_LOG)?;
            Box::new(decoder)
        }
        _ => Box::new(BufReader::new(layer)),
    })
}

/// A reader that stops a decompression bomb: it bounds the total and each entry.
struct Bounded<R> {
    inner: R,
    total_left: u64,
    allowance: Rc<Cell<u64>>,
    read: Rc<Cell<u64>>,
}

/// Passes through `io::Error` to distinguish an exceeded bound from a broken archive.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct BoundExceeded(String);

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let allowed = self.total_left.min(self.allowance.get());
        if allowed == 0 && !buffer.is_empty() {
            // The end of the archive may come exactly here.
            let mut one = [0u8; 1];
            if self.inner.read(&mut one)? == 0 {
                return Ok(0);
            }
            let what = if self.total_left == 0 {
                "unpacked layers are"
            } else {
                "an entry's headers are"
            };
            return Err(io::Error::other(BoundExceeded(format!(
                "{what} larger than the limit"
            ))));
        }
        let length = usize::try_from(allowed).unwrap_or(usize::MAX).min(buffer.len());
        let read = self.inner.read(buffer.get_mut(..length).unwrap_or_default())?;
        let counted = read as u64;
        self.total_left = self.total_left.saturating_sub(counted);
        self.allowance.set(self.allowance.get().saturating_sub(counted));
        self.read.set(self.read.get().saturating_add(counted));
        Ok(read)
    }
}

fn broken(error: &io::Error) -> LayerError {
    if let Some(bound) = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<BoundExceeded>())
    {
        return LayerError::TooLarge(bound.to_string());
    }
    if error.to_string().contains(WINDOW_TOO_LARGE) {
        return LayerError::TooLarge(format!(
            "zstd window exceeds {} MiB; compress it without --long and below level 21",
            1_u64 << (ZSTD_WINDOW_LOG - 20)
        ));
    }
    LayerError::Malformed(format!("layer is not a readable tar archive: {error}"))
}

#[cfg(test)]
mod tests;
