//! Reading layers: decompression, bounds, whiteouts and links, until one flat file system is left.
//!
//! Nothing is written below the names that an image chooses, so there is no path to escape from; names with `..` are
//! refused all the same, because whoever reads the result may use them as paths.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::ops::Bound;
use std::rc::Rc;

use bytes::Bytes;
use tar::EntryType;

use crate::error::PullErrorClass;
use crate::limits::{ENTRY_HEADER_BYTES, LINKS, Limits, ZSTD_WINDOW_LOG};

/// Marks that what follows in the name is removed from the layers below.
const WHITEOUT: &str = ".wh.";
/// Marks that everything the layers below have in this folder is removed.
const OPAQUE: &str = ".wh..wh..opq";
/// What zstd says of a frame with a larger window than [`ZSTD_WINDOW_LOG`].
const WINDOW_TOO_LARGE: &str = "requires too much memory";

/// Why a layer, or all of them together, cannot be read. The text names the path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LayerError {
    #[error("{0}")]
    TooLarge(String),
    #[error("{0}")]
    Malformed(String),
}

impl LayerError {
    pub(crate) fn class(&self) -> PullErrorClass {
        match self {
            Self::TooLarge(_) => PullErrorClass::TooLarge,
            Self::Malformed(_) => PullErrorClass::Malformed,
        }
    }
}

/// A file system being put together, lowest layer first, of which only some folders are kept.
#[derive(Debug)]
pub(crate) struct Flattened {
    wanted: Vec<String>,
    limits: Limits,
    nodes: BTreeMap<String, Node>,
    entries: usize,
    unpacked: u64,
    content: u64,
}

#[derive(Debug, Clone)]
enum Node {
    File(Bytes),
    /// Target as a path from the root.
    Link(String),
}

/// What one layer says, to be applied to the layers below when it has been read whole.
#[derive(Debug, Default)]
struct Changes {
    added: BTreeMap<String, Node>,
    folders: Vec<String>,
    removed: Vec<String>,
    emptied: Vec<String>,
}

impl Flattened {
    /// `wanted` are folders or files from the root, with or without slashes around them; an empty one means everything.
    pub(crate) fn new(wanted: &[String], limits: Limits) -> Self {
        let wanted = wanted
            .iter()
            .map(|path| path.trim_matches('/').trim_start_matches("./").to_owned())
            .collect();
        Self {
            wanted,
            limits,
            nodes: BTreeMap::new(),
            entries: 0,
            unpacked: 0,
            content: 0,
        }
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
            // Skipping to the next entry reads what is left of this one; headers on top have their own bound.
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
        let bytes = self.read_file(entry, &path, size)?;
        changes.added.insert(path, Node::File(bytes));
        Ok(())
    }

    fn read_file(&mut self, entry: &mut impl Read, path: &str, size: u64) -> Result<Bytes, LayerError> {
        if size > self.limits.file {
            let text = format!("file `{path}` has {size} bytes, {} are allowed", self.limits.file);
            return Err(LayerError::TooLarge(text));
        }
        self.content = self.content.saturating_add(size);
        if self.content > self.limits.content {
            let text = format!(
                "the files that are needed have more than {} bytes",
                self.limits.content
            );
            return Err(LayerError::TooLarge(text));
        }
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).map_err(|error| broken(&error))?;
        if bytes.len() as u64 != size {
            return Err(LayerError::Malformed(format!(
                "file `{path}` ends after {} of {size} bytes",
                bytes.len()
            )));
        }
        Ok(bytes.into())
    }

    fn is_wanted(&self, path: &str) -> bool {
        self.wanted.iter().any(|wanted| is_below(path, wanted))
    }

    /// A link in place of a parent folder of something wanted would make it silently absent.
    fn leads_to_wanted(&self, path: &str) -> bool {
        self.wanted.iter().any(|wanted| is_below(wanted, path))
    }

    /// Removals concern the layers below only, so they come before this layer's own entries.
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

    /// Removes what is below a path, and the path if `itself`. Names below a folder stand together, so that nothing else is
    /// looked at: each entry of a layer may remove something.
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

    /// The files, links followed, by path from the root without leading slash.
    pub(crate) fn into_files(self) -> Result<BTreeMap<String, Bytes>, LayerError> {
        let mut files = BTreeMap::new();
        // Links are counted as the copies they become when the files are written.
        let mut copies = 0_u64;
        for (path, node) in &self.nodes {
            if self.is_wanted(path) {
                let bytes = self.follow(path)?;
                if matches!(node, Node::Link(_)) {
                    copies = copies.saturating_add(bytes.len() as u64);
                    if copies > self.limits.content {
                        return Err(LayerError::TooLarge(format!(
                            "links stand for more than {} bytes of files",
                            self.limits.content
                        )));
                    }
                }
                files.insert(path.clone(), bytes);
            } else {
                return Err(LayerError::Malformed(format!(
                    "folder `{path}` is a link, which is not supported"
                )));
            }
        }
        Ok(files)
    }

    fn follow(&self, path: &str) -> Result<Bytes, LayerError> {
        let mut at = path;
        for _ in 0..LINKS {
            match self.nodes.get(at) {
                Some(Node::File(bytes)) => return Ok(bytes.clone()),
                Some(Node::Link(target)) => at = target,
                None => {
                    let text =
                        format!("link `{path}` leads to `{at}`, which is not among the files that are read");
                    return Err(LayerError::Malformed(text));
                }
            }
        }
        Err(LayerError::Malformed(format!("link `{path}` leads in a circle")))
    }
}

/// Whether `path` is `folder` or inside of it; the root is the empty path.
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
        .ok_or_else(|| LayerError::Malformed(format!("path `{text}` leaves the image's file system")))
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
        .ok_or_else(|| {
            LayerError::Malformed(format!("link `{path}` leads to `{text}`, outside of the image"))
        })
}

/// A path from the root without `.` and `..`; `None` when it would go above the root.
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

/// The archive in a layer. The first bytes decide, because media types are often wrong.
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

/// A reader that stops a bomb: bounds everything together, and what one entry may take.
struct Bounded<R> {
    inner: R,
    total_left: u64,
    allowance: Rc<Cell<u64>>,
    read: Rc<Cell<u64>>,
}

/// Travels through `io::Error` to tell a bound from a broken archive.
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
                "{what} larger than allowed"
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
            "compressed by zstd with a window above {} MiB; compress it without --long and below level 21",
            1_u64 << (ZSTD_WINDOW_LOG - 20)
        ));
    }
    LayerError::Malformed(format!("layer is not a readable tar archive: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Cursor, Write};

    enum E<'a> {
        File(&'a str, &'a [u8]),
        Folder(&'a str),
        Symlink(&'a str, &'a str),
        Hardlink(&'a str, &'a str),
    }
    use E::{File, Folder, Hardlink, Symlink};

    /// Writes names unchecked, as an attacker would.
    fn archive(entries: &[E]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for entry in entries {
            let mut header = tar::Header::new_ustar();
            header.set_mode(0o644);
            let (path, kind, link, body): (&str, _, &str, &[u8]) = match entry {
                File(path, body) => (path, EntryType::Regular, "", body),
                Folder(path) => (path, EntryType::Directory, "", b""),
                Symlink(path, link) => (path, EntryType::Symlink, link, b""),
                Hardlink(path, link) => (path, EntryType::Link, link, b""),
            };
            let raw = header.as_old_mut();
            raw.name[..path.len()].copy_from_slice(path.as_bytes());
            raw.linkname[..link.len()].copy_from_slice(link.as_bytes());
            header.set_entry_type(kind);
            header.set_size(body.len() as u64);
            header.set_cksum();
            builder.append(&header, body).expect("entry");
        }
        builder.into_inner().expect("archive")
    }

    fn flatten_with(limits: Limits, wanted: &[&str], layers: &[Vec<u8>]) -> Result<Vec<String>, LayerError> {
        let wanted: Vec<String> = wanted.iter().map(|path| (*path).to_owned()).collect();
        let mut flattened = Flattened::new(&wanted, limits);
        for layer in layers {
            flattened.add_layer(Cursor::new(layer))?;
        }
        let files = flattened.into_files()?;
        Ok(files
            .iter()
            .map(|(path, body)| format!("{path}={}", String::from_utf8_lossy(body)))
            .collect())
    }

    fn flatten(wanted: &[&str], layers: &[&[E]]) -> Result<Vec<String>, LayerError> {
        let layers: Vec<_> = layers.iter().map(|layer| archive(layer)).collect();
        flatten_with(Limits::BUNDLE, wanted, &layers)
    }

    #[test]
    fn only_wanted_files_are_kept_and_names_are_normalised() {
        let layer: &[E] = &[
            Folder("manifests/"),
            File("./manifests/a.yaml", b"1"),
            File("/manifests/sub/b.yaml", b"2"),
            File("manifests2/c.yaml", b"3"),
            File("bin/sh", b"4"),
        ];
        assert_eq!(
            flatten(&["/manifests/"], &[layer]).expect("files"),
            ["manifests/a.yaml=1", "manifests/sub/b.yaml=2"]
        );
        assert_eq!(flatten(&[""], &[layer]).expect("files").len(), 4);
        assert_eq!(flatten(&["bin/sh"], &[layer]).expect("files"), ["bin/sh=4"]);
    }

    #[test]
    fn higher_layers_replace_and_remove() {
        let low: &[E] = &[
            File("m/a", b"1"),
            File("m/b", b"1"),
            File("m/d/x", b"1"),
            File("n/y", b"1"),
            File("m/f", b"1"),
        ];
        let high: &[E] = &[
            File("m/a", b"2"),
            File("m/.wh.b", b""),
            File("m/d", b"file now"),
            File("n/.wh..wh..opq", b""),
            File("n/z", b"2"),
            Folder("m/f"),
        ];
        assert_eq!(
            flatten(&["m", "n"], &[low, high]).expect("files"),
            ["m/a=2", "m/d=file now", "n/z=2"]
        );
        let gone: &[E] = &[File(".wh.m", b"")];
        assert_eq!(flatten(&["m", "n"], &[low, gone]).expect("files"), ["n/y=1"]);
    }

    #[test]
    fn whiteouts_concern_only_the_layers_below() {
        let layer: &[E] = &[
            File("m/a", b"1"),
            File("m/.wh.a", b""),
            File("m/.wh..wh..opq", b""),
        ];
        assert_eq!(flatten(&["m"], &[layer]).expect("files"), ["m/a=1"]);
    }

    #[test]
    fn links_among_the_files_are_followed() {
        let layer: &[E] = &[
            File("m/real", b"1"),
            Symlink("m/near", "real"),
            Symlink("m/up", "../m/near"),
            Symlink("m/absolute", "/m/real"),
            Hardlink("m/hard", "m/real"),
        ];
        assert_eq!(
            flatten(&["m"], &[layer]).expect("files"),
            ["m/absolute=1", "m/hard=1", "m/near=1", "m/real=1", "m/up=1"]
        );
    }

    #[test]
    fn links_and_paths_that_lead_away_are_refused() {
        let cases: &[(&[E], &str)] = &[
            (
                &[File("../etc/passwd", b"x")],
                "path `../etc/passwd` leaves the image's file system",
            ),
            (
                &[File("m/../../x", b"x")],
                "path `m/../../x` leaves the image's file system",
            ),
            (
                &[Symlink("m/a", "../../../etc/passwd")],
                "link `m/a` leads to `../../../etc/passwd`, outside of the image",
            ),
            (
                &[Symlink("m/a", "/etc/passwd")],
                "link `m/a` leads to `etc/passwd`, which is not among the files that are read",
            ),
            (
                &[Hardlink("m/a", "bin/sh")],
                "link `m/a` leads to `bin/sh`, which is not among the files that are read",
            ),
            (
                &[Symlink("m/a", "b"), Symlink("m/b", "a")],
                "link `m/a` leads in a circle",
            ),
            (
                &[Symlink("m", "other"), File("other/x", b"1")],
                "link `m` leads to `other`, which is not among the files that are read",
            ),
        ];
        for (layer, expected) in cases {
            let error = flatten(&["m"], &[layer]).expect_err(expected);
            assert_eq!(error, LayerError::Malformed((*expected).to_owned()));
        }
        let error = flatten(&["m/n"], &[&[Symlink("m", "o")]]).expect_err("parent is a link");
        assert_eq!(error.to_string(), "folder `m` is a link, which is not supported");
    }

    #[test]
    fn sockets_and_devices_are_ignored_unless_wanted() {
        let mut builder = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(EntryType::Fifo);
        header.set_size(0);
        builder
            .append_data(&mut header, "m/pipe", &b""[..])
            .expect("entry");
        let layer = builder.into_inner().expect("archive");
        assert!(
            flatten_with(Limits::BUNDLE, &["n"], std::slice::from_ref(&layer))
                .expect("files")
                .is_empty()
        );
        let error = flatten_with(Limits::BUNDLE, &["m"], &[layer]).expect_err("fifo");
        assert_eq!(
            error.to_string(),
            "`m/pipe` is not a regular file, folder or link"
        );
    }

    /// A decoder takes as much memory as the window that a layer asks for: 128 MiB with `--long=27`.
    #[test]
    fn windows_of_zstd_are_bounded() {
        let with_window = |log| {
            let mut encoder = zstd::Encoder::new(Vec::new(), 1).expect("encoder");
            encoder.window_log(log).expect("window");
            // Without the size in the header, as when an archive is piped through.
            encoder
                .write_all(&archive(&[File("m/a", b"content")]))
                .expect("compressed");
            encoder.finish().expect("compressed")
        };
        let read =
            |layer: Vec<u8>| Flattened::new(&["m".to_owned()], Limits::BUNDLE).add_layer(Cursor::new(layer));
        assert_eq!(read(with_window(ZSTD_WINDOW_LOG)), Ok(()));
        for log in [ZSTD_WINDOW_LOG + 1, 27] {
            let error = read(with_window(log)).expect_err("refused");
            assert_eq!(error.class(), PullErrorClass::TooLarge, "{error}");
            assert!(error.to_string().contains("window above 32 MiB"), "{error}");
        }
    }

    #[test]
    fn compression_is_recognised_by_content() {
        let plain = archive(&[File("m/a", b"1")]);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&plain).expect("gzip");
        let zstd = zstd::encode_all(&plain[..], 1).expect("zstd");
        for layer in [plain, gzip.finish().expect("gzip"), zstd] {
            assert_eq!(
                flatten_with(Limits::BUNDLE, &["m"], &[layer]).expect("files"),
                ["m/a=1"]
            );
        }
        let error = flatten_with(Limits::BUNDLE, &["m"], &[b"no archive".repeat(100)]).expect_err("text");
        assert_eq!(error.class(), PullErrorClass::Malformed);
    }

    #[test]
    fn bombs_hit_the_bounds() {
        let mut bomb = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        let zeros = vec![0u8; 4 << 20];
        bomb.write_all(&archive(&[File("other/zeros", &zeros)]))
            .expect("gzip");
        let bomb = bomb.finish().expect("gzip");
        assert!(bomb.len() < 16 << 10, "a bomb of {} bytes is none", bomb.len());
        let limits = Limits {
            unpacked: 1 << 20,
            ..Limits::BUNDLE
        };
        let error = flatten_with(limits, &["m"], std::slice::from_ref(&bomb)).expect_err("bomb");
        assert_eq!(
            error,
            LayerError::TooLarge("unpacked layers are larger than allowed".into())
        );
        let limits = Limits {
            file: 1 << 20,
            ..Limits::BUNDLE
        };
        let error = flatten_with(limits, &["other"], std::slice::from_ref(&bomb)).expect_err("file");
        assert_eq!(
            error,
            LayerError::TooLarge("file `other/zeros` has 4194304 bytes, 1048576 are allowed".into())
        );
        let limits = Limits {
            content: 1 << 20,
            ..Limits::BUNDLE
        };
        let error = flatten_with(limits, &["other"], &[bomb]).expect_err("content");
        assert_eq!(error.class(), PullErrorClass::TooLarge);
    }

    #[test]
    fn links_count_as_the_copies_they_become() {
        let names: Vec<String> = (0..40).map(|number| format!("m/{number}")).collect();
        let body = vec![0_u8; 100];
        let mut entries = vec![File("m/a", &body)];
        entries.extend(names.iter().map(|name| Symlink(name, "a")));
        let layer = archive(&entries);
        let limits = |content| Limits {
            content,
            ..Limits::BUNDLE
        };
        assert!(flatten_with(limits(4000), &["m"], std::slice::from_ref(&layer)).is_ok());
        let error = flatten_with(limits(3999), &["m"], &[layer]).expect_err("too many");
        assert_eq!(
            error,
            LayerError::TooLarge("links stand for more than 3999 bytes of files".into())
        );
    }

    #[test]
    fn bounds_count_over_all_layers() {
        let layer = archive(&[File("m/a", b"1"), File("m/b", b"1")]);
        let limits = Limits {
            entries: 3,
            ..Limits::BUNDLE
        };
        assert!(flatten_with(limits, &["m"], std::slice::from_ref(&layer)).is_ok());
        let error = flatten_with(limits, &["m"], &[layer.clone(), layer.clone()]).expect_err("entries");
        assert_eq!(error, LayerError::TooLarge("more than 3 entries".into()));
        let limits = Limits {
            unpacked: layer.len() as u64 + 10,
            ..Limits::BUNDLE
        };
        assert!(flatten_with(limits, &["m"], std::slice::from_ref(&layer)).is_ok());
        assert!(flatten_with(limits, &["m"], &[layer.clone(), layer]).is_err());
    }

    #[test]
    fn an_endless_name_is_no_way_around_the_bounds() {
        let mut builder = tar::Builder::new(Vec::new());
        let name = vec![b'a'; 3 << 20];
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(EntryType::GNULongName);
        header.set_size(name.len() as u64);
        builder
            .append_data(&mut header, "././@LongLink", &name[..])
            .expect("entry");
        let error = flatten_with(Limits::BUNDLE, &["m"], &[builder.into_inner().expect("archive")]);
        assert_eq!(
            error.expect_err("name"),
            LayerError::TooLarge("an entry's headers are larger than allowed".into())
        );
    }

    /// Each entry of a layer may name what is removed. Going over all files for each of them took most of a minute here.
    #[test]
    fn as_many_removals_as_files_take_no_longer_than_the_files() {
        let started = std::time::Instant::now();
        let layer = |part: &str| {
            let mut builder = tar::Builder::new(Vec::new());
            for number in 0..9_900 {
                let mut header = tar::Header::new_gnu();
                header.set_size(0);
                let path = format!("m/{}{part}{number}", format!("{}/", "d".repeat(199)).repeat(20));
                builder.append_data(&mut header, path, &b""[..]).expect("entry");
            }
            builder.into_inner().expect("archive")
        };
        let files = flatten_with(Limits::BUNDLE, &["m"], &[layer(""), layer(".wh.")]);
        assert_eq!(files.expect("files"), [""; 0]);
        assert!(started.elapsed().as_secs() < 10, "{:?}", started.elapsed());
    }

    /// What comes between a folder and its files when names are sorted is not below it.
    #[test]
    fn names_that_begin_alike_are_not_removed_with_a_folder() {
        let low: &[E] = &[
            File("m/a", b"1"),
            File("m/a!/x", b"1"),
            File("m/a.d/x", b"1"),
            File("m/a/x", b"1"),
            File("m/a/y/z", b"1"),
            File("m/a0", b"1"),
        ];
        let kept = ["m/a!/x=1", "m/a.d/x=1", "m/a0=1"];
        assert_eq!(
            flatten(&["m"], &[low, &[File("m/.wh.a", b"")]]).expect("files"),
            kept
        );
        let opaque: &[E] = &[File("m/a/.wh..wh..opq", b"")];
        assert_eq!(
            flatten(&["m"], &[low, opaque]).expect("files"),
            ["m/a=1", "m/a!/x=1", "m/a.d/x=1", "m/a0=1"]
        );
        let all: &[E] = &[File(".wh..wh..opq", b"")];
        assert_eq!(flatten(&[""], &[low, all]).expect("files"), [""; 0]);
    }

    #[test]
    fn truncated_archives_are_malformed() {
        let layer = archive(&[File("m/a", &[7u8; 4096])]);
        let error = flatten_with(Limits::BUNDLE, &["m"], &[layer[..2000].to_vec()]).expect_err("truncated");
        assert_eq!(error.class(), PullErrorClass::Malformed);
    }
}
