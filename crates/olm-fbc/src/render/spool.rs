//! Writes blobs in output order without keeping them in memory: they are rendered into an unnamed file, then copied out in order.
//! Memory grows with the number of blobs, not with their size.

use std::fs::File;
use std::io::{self, BufWriter, Read as _, Seek as _, SeekFrom, Write};

use crate::render::{Format, SortKey, write_blob};
use crate::schema::Blob;

/// Rendered blobs.
pub struct Spool {
    out: BufWriter<File>,
    format: Format,
    position: u64,
    blobs: Vec<(SortKey, u64, u64)>,
}

impl Spool {
    /// Creates an empty spool in the folder for temporary files.
    ///
    /// # Errors
    /// No file can be created there.
    pub fn new(format: Format) -> io::Result<Self> {
        Ok(Self {
            out: BufWriter::with_capacity(1 << 16, tempfile::tempfile()?),
            format,
            position: 0,
            blobs: Vec::new(),
        })
    }

    /// Adds a blob.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn add(&mut self, blob: &Blob) -> io::Result<()> {
        let mut text = Vec::new();
        write_blob(blob, self.format, &mut text)?;
        self.out.write_all(&text)?;
        let length = text.len() as u64;
        self.blobs.push((SortKey::of(blob), self.position, length));
        self.position += length;
        Ok(())
    }

    /// Writes all blobs in the order of [`crate::render::sort`].
    ///
    /// # Errors
    /// The file cannot be read, or those of the writer.
    pub fn finish(mut self, mut out: impl Write) -> io::Result<()> {
        self.blobs.sort_by(|a, b| a.0.cmp(&b.0));
        let mut file = self.out.into_inner().map_err(io::IntoInnerError::into_error)?;
        let mut at = None;
        for (_, offset, length) in self.blobs {
            if at != Some(offset) {
                file.seek(SeekFrom::Start(offset))?;
            }
            if io::copy(&mut (&mut file).take(length), &mut out)? < length {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            at = Some(offset + length);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_spool_writes_what_sorting_and_writing_does() {
        let mut blobs: Vec<Blob> = [
            json!({"schema": "z", "n": 1}),
            json!({"schema": "olm.bundle", "name": "b", "package": "q", "image": "i"}),
            json!({"schema": "olm.deprecations", "package": "p", "entries": []}),
            json!({"schema": "z", "n": 0}),
            json!({"schema": "olm.package", "name": "q"}),
            json!({"schema": "olm.bundle", "name": "a", "package": "q", "image": "i"}),
            json!({"schema": "a", "package": "q"}),
            json!({"schema": "olm.channel", "name": "c", "package": "q"}),
            json!({"schema": "olm.package", "name": "p"}),
        ]
        .into_iter()
        .map(|value| Blob::from_value(value).expect("blob"))
        .collect();
        for format in [Format::Json, Format::Yaml] {
            let mut spool = Spool::new(format).expect("file");
            blobs.iter().for_each(|blob| spool.add(blob).expect("added"));
            let mut spooled = Vec::new();
            spool.finish(&mut spooled).expect("written");
            let mut expected = Vec::new();
            crate::render::write(&mut blobs, format, &mut expected).expect("written");
            assert_eq!(spooled, expected);
        }
    }
}
