//! Bodies of responses: documents read from disk as the client takes them, compressed if it accepts that.

use std::collections::VecDeque;
use std::io::{self, Write as _};
use std::mem;
use std::ops::Range;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::stream;
use http::HeaderMap;
use http::header::ACCEPT_ENCODING;
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use olm_runtime::isolation::{self, Panicked};
use tokio::task::JoinHandle;

use super::Body;
use crate::store::Content;

/// Bytes of the documents that are read at a time.
const CHUNK: u64 = 256 << 10;

/// True if the client accepts compressed bodies.
pub(super) fn takes_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT_ENCODING).into_iter();
    let texts = values.filter_map(|value| value.to_str().ok());
    let mut of_any = false;
    for coding in texts.flat_map(|text| text.split(',')) {
        let (coding, weight) = coding.split_once(';').unwrap_or((coding, ""));
        let is_refused = weight
            .trim()
            .strip_prefix("q=")
            .is_some_and(|weight| weight.trim().parse::<f32>().is_ok_and(|weight| weight <= 0.0));
        match coding.trim() {
            coding if coding.eq_ignore_ascii_case("gzip") => return !is_refused,
            "*" => of_any = !is_refused,
            _ => {}
        }
    }
    of_any
}

/// Returns a body with these ranges of a content.
pub(super) fn of(content: Arc<Content>, ranges: Vec<Range<u64>>, is_compressed: bool) -> Body {
    let reader = Reader {
        content,
        ranges: ranges.into(),
        encoder: is_compressed.then(|| GzEncoder::new(Vec::new(), Compression::fast())),
        buffer: BytesMut::new(),
        is_over: false,
    };
    let frames = stream::try_unfold((start(reader), None), |(reading, sent)| async move {
        let read = reading.await.map_err(io::Error::other)?;
        let (chunk, mut reader) = read.map_err(io::Error::other)??;
        // What was sent is written over: fresh memory costs more than the disk and encryption together.
        let sent: Option<Bytes> = sent;
        reader.buffer = sent.and_then(|sent| sent.try_into_mut().ok()).unwrap_or_default();
        // The next bytes are read while these are sent.
        Ok::<_, io::Error>(chunk.map(|chunk| {
            let next = (start(reader), Some(chunk.clone()));
            (Frame::data(chunk), next)
        }))
    });
    StreamBody::new(frames).boxed_unsync()
}

/// Starts to read the next bytes, on another thread: the disk and compression would delay everything else on this one.
fn start(reader: Reader) -> JoinHandle<Result<Read, Panicked>> {
    tokio::spawn(isolation::blocking(move || reader.next()))
}

/// The next bytes of a body, `None` at its end, and the rest.
type Read = io::Result<(Option<Bytes>, Reader)>;

struct Reader {
    content: Arc<Content>,
    ranges: VecDeque<Range<u64>>,
    encoder: Option<GzEncoder<Vec<u8>>>,
    /// Memory for the next bytes; what it has is written over.
    buffer: BytesMut,
    is_over: bool,
}

impl Reader {
    /// Returns the next bytes of the body; `None` at its end.
    fn next(mut self) -> Read {
        loop {
            let chunk = self.read()?;
            let chunk = match &mut self.encoder {
                None if chunk.is_empty() => return Ok((None, self)),
                None => chunk.freeze(),
                Some(_) if self.is_over => return Ok((None, self)),
                Some(encoder) => {
                    self.is_over = chunk.is_empty();
                    if self.is_over {
                        encoder.try_finish()?;
                    } else {
                        encoder.write_all(&chunk)?;
                    }
                    self.buffer = chunk;
                    mem::take(encoder.get_mut()).into()
                }
            };
            if !chunk.is_empty() {
                return Ok((Some(chunk), self));
            }
        }
    }

    /// Reads the next documents into the buffer, small ones together, and returns it.
    fn read(&mut self) -> io::Result<BytesMut> {
        let mut chunk = mem::take(&mut self.buffer);
        let mut filled = 0_usize;
        while let Some(range) = self.ranges.front_mut() {
            let room = CHUNK.saturating_sub(filled as u64);
            if room == 0 {
                break;
            }
            let end = range.end.min(range.start.saturating_add(room));
            let count = usize::try_from(end.saturating_sub(range.start)).map_err(io::Error::other)?;
            let start = filled;
            filled = filled.saturating_add(count);
            if chunk.len() < filled {
                chunk.resize(filled, 0);
            }
            let buffer = chunk.get_mut(start..filled).unwrap_or_default();
            self.content.read(buffer, range.start)?;
            range.start = end;
            if range.start >= range.end {
                self.ranges.pop_front();
            }
        }
        chunk.truncate(filled);
        Ok(chunk)
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn gzip_is_for_clients_that_accept_it() {
        for (text, expected) in [
            ("gzip", true),
            ("GZIP;q=0.5", true),
            ("br, gzip;q=1.0, *;q=0", true),
            ("*", true),
            ("deflate, *;q=0.1", true),
            ("gzip;q=0", false),
            ("gzip;q=0.000, *", false),
            ("*;q=0", false),
            ("identity", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(text));
            assert_eq!(takes_gzip(&headers), expected, "{text}");
        }
        assert!(!takes_gzip(&HeaderMap::new()));
    }
}
