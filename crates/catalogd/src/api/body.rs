//! Bodies of responses: documents read from disk as the client takes them, compressed if it accepts that.

use std::collections::VecDeque;
use std::io::{self, Write as _};
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
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
const CHUNK: u64 = 128 << 10;

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
        is_over: false,
    };
    let frames = stream::try_unfold(start(reader), |reading| async move {
        let read = reading.await.map_err(io::Error::other)?;
        let (chunk, reader) = read.map_err(io::Error::other)??;
        // The next bytes are read while these are sent.
        Ok::<_, io::Error>(chunk.map(|chunk| (Frame::data(chunk), start(reader))))
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
    is_over: bool,
}

impl Reader {
    /// Returns the next bytes of the body; `None` at its end.
    fn next(mut self) -> Read {
        loop {
            let chunk = match self.read()? {
                Some(chunk) => self.encode(chunk)?,
                None if self.is_over => return Ok((None, self)),
                None => {
                    self.is_over = true;
                    match self.encoder.take() {
                        Some(encoder) => encoder.finish()?,
                        None => return Ok((None, self)),
                    }
                }
            };
            if !chunk.is_empty() {
                return Ok((Some(chunk.into()), self));
            }
        }
    }

    /// Reads the next documents, small ones together.
    fn read(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut chunk = Vec::new();
        while let Some(range) = self.ranges.front_mut() {
            let room = CHUNK.saturating_sub(chunk.len() as u64);
            if room == 0 {
                break;
            }
            let end = range.end.min(range.start.saturating_add(room));
            let count = usize::try_from(end.saturating_sub(range.start)).map_err(io::Error::other)?;
            let start = chunk.len();
            chunk.resize(start.saturating_add(count), 0);
            let buffer = chunk.get_mut(start..).unwrap_or_default();
            self.content.read(buffer, range.start)?;
            range.start = end;
            if range.start >= range.end {
                self.ranges.pop_front();
            }
        }
        Ok((!chunk.is_empty()).then_some(chunk))
    }

    fn encode(&mut self, chunk: Vec<u8>) -> io::Result<Vec<u8>> {
        let Some(encoder) = &mut self.encoder else {
            return Ok(chunk);
        };
        encoder.write_all(&chunk)?;
        Ok(std::mem::take(encoder.get_mut()))
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
