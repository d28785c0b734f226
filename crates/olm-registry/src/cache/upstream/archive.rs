//! A folder as the archive under upstream's digest: a tar without owners and times, in the order of names.
//!
//! Headers are those of Go's archive writer: ustar if a name fits, split into prefix and name if need be.
//! Otherwise an extended header precedes it with the path. Modes are included, so a catalog whose modes
//! change has another digest.

use std::fs::{self, File, Metadata};
use std::io::{self, Read as _, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::UpstreamError;

const BLOCK: usize = 512;
/// Longest name and prefix of a ustar header, in bytes.
const NAME: usize = 100;
const PREFIX: usize = 155;
/// Smallest size that needs more than the eleven octal digits of a header.
const LARGE: u64 = 1 << 33;

/// Writes everything below `root` to `out`. Symbolic links are skipped.
pub(super) fn write(root: &Path, out: &mut impl Write) -> Result<(), UpstreamError> {
    // The root itself may be a link.
    let metadata = fs::metadata(root).map_err(UpstreamError::file(root))?;
    entry(root, ".", &metadata, out)?;
    folder(root, "", out)?;
    out.write_all(&[0; 2 * BLOCK]).map_err(UpstreamError::file(root))
}

fn folder(path: &Path, inside: &str, out: &mut impl Write) -> Result<(), UpstreamError> {
    let mut entries = fs::read_dir(path)
        .and_then(Iterator::collect::<io::Result<Vec<_>>>)
        .map_err(UpstreamError::file(path))?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for child in entries {
        let file = child.path();
        let metadata = child.metadata().map_err(UpstreamError::file(&file))?;
        if metadata.is_symlink() {
            continue;
        }
        let name = child.file_name();
        let name = name.to_str().ok_or_else(|| UpstreamError::Name {
            name: name.to_string_lossy().into_owned(),
        })?;
        let inside = if inside.is_empty() {
            name.to_owned()
        } else {
            format!("{inside}/{name}")
        };
        entry(&file, &inside, &metadata, out)?;
        if metadata.is_dir() {
            folder(&file, &inside, out)?;
        }
    }
    Ok(())
}

fn entry(file: &Path, name: &str, metadata: &Metadata, out: &mut impl Write) -> Result<(), UpstreamError> {
    let written = if metadata.is_dir() {
        header(out, name, b'5', metadata, 0)
    } else if metadata.is_file() {
        header(out, name, b'0', metadata, metadata.len()).and_then(|()| content(file, metadata.len(), out))
    } else {
        Err(io::Error::other("neither file nor folder"))
    };
    written.map_err(UpstreamError::file(file))
}

fn content(file: &Path, size: u64, out: &mut impl Write) -> io::Result<()> {
    let copied = io::copy(&mut File::open(file)?.take(size), out)?;
    if copied != size {
        return Err(io::Error::other("the file changed while it was read"));
    }
    out.write_all(padding(size))
}

/// Returns the zeros that fill the last block.
fn padding(size: u64) -> &'static [u8] {
    let rest = (size % BLOCK as u64) as usize;
    if rest == 0 { &[] } else { &[0; BLOCK][rest..] }
}

fn header(out: &mut impl Write, path: &str, kind: u8, metadata: &Metadata, size: u64) -> io::Result<()> {
    let mode = u64::from(metadata.permissions().mode() & 0o7777);
    if size < LARGE {
        if path.is_ascii() && path.len() <= NAME {
            return out.write_all(&block(path, "", kind, mode, size));
        }
        if let Some((prefix, name)) = split(path) {
            return out.write_all(&block(name, prefix, kind, mode, size));
        }
    }
    let mut records = String::new();
    if !path.is_ascii() || (path.len() > NAME && split(path).is_none()) {
        records += &record("path", path);
    }
    if size >= LARGE {
        records += &record("size", &size.to_string());
    }
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let separator = if folder.is_empty() { "" } else { "/" };
    let mut extended = ascii(&format!("{folder}{separator}PaxHeaders.0/{name}"));
    extended.truncate(NAME);
    let length = records.len() as u64;
    out.write_all(&block(extended.trim_end_matches('/'), "", b'x', 0, length))?;
    out.write_all(records.as_bytes())?;
    out.write_all(padding(length))?;
    let size = if size < LARGE { size } else { 0 };
    out.write_all(&block(&ascii(path), "", kind, mode, size))
}

fn ascii(text: &str) -> String {
    text.chars().filter(char::is_ascii).collect()
}

/// Splits a path that is too long for a name alone into prefix and name.
fn split(path: &str) -> Option<(&str, &str)> {
    if !path.is_ascii() || path.len() <= NAME {
        return None;
    }
    let (prefix, _) = path[..path.len().min(PREFIX + 1)].rsplit_once('/')?;
    let name = &path[prefix.len() + 1..];
    (!prefix.is_empty() && !name.is_empty() && name.len() <= NAME).then_some((prefix, name))
}

/// Returns a record of an extended header: its length, which counts itself, key and value.
fn record(key: &str, value: &str) -> String {
    let rest = key.len() + value.len() + 3;
    let mut length = rest + rest.to_string().len();
    if rest + length.to_string().len() != length {
        length = rest + length.to_string().len();
    }
    format!("{length} {key}={value}\n")
}

fn block(name: &str, prefix: &str, kind: u8, mode: u64, size: u64) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    let mut text = |at: usize, length: usize, text: &str| {
        let taken = text.len().min(length);
        block[at..at + taken].copy_from_slice(&text.as_bytes()[..taken]);
        // A name that is cut off after a slash would look like a folder's.
        if text.len() > length && block[at + length - 1] == b'/' {
            let kept = text[..length - 1].trim_end_matches('/').len();
            block[at + kept] = 0;
        }
    };
    text(0, NAME, name);
    text(100, 8, &format!("{mode:07o}"));
    text(108, 8, "0000000");
    text(116, 8, "0000000");
    text(124, 12, &format!("{size:011o}"));
    text(136, 12, "00000000000");
    text(148, 8, "        ");
    text(257, 8, "ustar\x0000");
    text(345, PREFIX, prefix);
    // An extended header has no device numbers.
    if kind != b'x' {
        text(329, 8, "0000000");
        text(337, 8, "0000000");
    }
    block[156] = kind;
    let sum: u64 = block.iter().map(|byte| u64::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}
