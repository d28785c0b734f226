//! YAML as Kubernetes reads it: YAML 1.1 scalars, turned into JSON values.
//!
//! Every YAML document the project reads or writes goes through this module. Reading yields the JSON of Go's `sigs.k8s.io/yaml`,
//! so a manifest means the same to us, to `kubectl` and to authors' tools. The comparison is in `docs/decisions/0001-yaml.md`.
//! The rules:
//!
//! - plain `yes`, `no`, `on`, `off`, `y`, `n` are booleans, also as mapping keys (`y:` becomes `"true"`);
//! - `0777` and `0b11` are integers, `1_000` is 1000, whole floats become integers, timestamps stay text;
//! - merge keys (`<<`) and aliases are expanded; the last of two equal keys wins.
//!
//! Input is limited in nesting depth, document size and the expansion of aliases ([`Limits`]).

use std::fmt::Write as _;
use std::io::{BufRead, Cursor, Read};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

mod scalar;
mod tree;
mod write;

pub use scalar::written;

/// Limits for one document; larger documents are rejected.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Size of one document, in bytes.
    pub document_bytes: usize,
    /// Nesting depth of mappings and sequences.
    pub depth: usize,
    /// Number of values in one document, keys included: it bounds the memory beyond the size of the text.
    pub nodes: usize,
    /// Nodes that aliases and merge keys may add to a document.
    pub alias_nodes: usize,
    /// Bytes of text that anchors and aliases may add to a document.
    pub alias_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            document_bytes: 64 << 20,
            depth: 128,
            nodes: 2_000_000,
            alias_nodes: 400_000,
            alias_bytes: 32 << 20,
        }
    }
}

impl Limits {
    fn too_many_bytes(&self, line: usize, text: &[u8]) -> Error {
        Error::TooLarge {
            line,
            name: named(text),
            excess: format!("is larger than {} bytes", self.document_bytes),
        }
    }

    fn too_many_values(&self, line: usize, text: &[u8]) -> Error {
        Error::TooLarge {
            line,
            name: named(text),
            excess: format!("holds more than {} values", self.nodes),
        }
    }
}

/// Error: a document could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The text is not YAML.
    #[error("invalid YAML: line {line}: {message}")]
    Syntax {
        /// Line within the input, from 1.
        line: usize,
        /// Message of the parser.
        message: String,
    },
    /// The text starts like JSON but is not JSON.
    #[error("invalid JSON: line {line}, column {column}: {message}")]
    Json {
        /// Line within the input, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// Message of the parser.
        message: String,
    },
    /// The document is YAML but has no JSON counterpart, or exceeds a limit.
    #[error("line {line}: {message}")]
    Unsupported {
        /// Line within the input, from 1.
        line: usize,
        /// Description of the unsupported value or exceeded limit.
        message: String,
    },
    /// The document exceeds [`Limits::document_bytes`] or [`Limits::nodes`].
    #[error("line {line}: the document starting here{name} {excess}")]
    TooLarge {
        /// First line of the document, from 1.
        line: usize,
        /// `, named "x",` where a name is found near its beginning.
        name: String,
        /// The limit, as the end of the sentence.
        excess: String,
    },
    /// The bytes are not UTF-8.
    #[error("line {line}: not valid UTF-8")]
    NotUtf8 {
        /// First line of the document, from 1.
        line: usize,
    },
    /// The input ended in the middle of a JSON document.
    #[error("unexpected end of JSON input")]
    UnexpectedEnd,
    /// More than one document where one was expected.
    #[error("expected one YAML document, found more")]
    MoreThanOne,
    /// The document does not have the shape of the wanted type.
    #[error("{0}")]
    Shape(String),
    /// The input could not be read.
    #[error("read input")]
    Read(#[source] std::io::Error),
}

impl Error {
    fn offset_lines(mut self, by: usize) -> Self {
        match &mut self {
            Self::Syntax { line, .. }
            | Self::Json { line, .. }
            | Self::Unsupported { line, .. }
            | Self::TooLarge { line, .. }
            | Self::NotUtf8 { line } => *line += by,
            Self::UnexpectedEnd | Self::MoreThanOne | Self::Shape(_) | Self::Read(_) => {}
        }
        self
    }
}

/// Parses the only document of `input`; empty input is `null`.
///
/// # Errors
/// Invalid YAML or JSON, a second document, or an exceeded limit.
pub fn parse(input: &[u8]) -> Result<Value, Error> {
    let mut documents = Documents::new(input);
    let first = documents.next().transpose()?.unwrap_or(Value::Null);
    match documents.next() {
        None => Ok(first),
        Some(Ok(_)) => Err(Error::MoreThanOne),
        Some(Err(error)) => Err(error),
    }
}

/// Parses the first document of `input` and returns true with it if more follow, as readers of bundle manifests do.
///
/// # Errors
/// Invalid YAML or JSON in the first document, or an exceeded limit. Documents after the first are not checked.
pub fn parse_first(input: &[u8]) -> Result<(Value, bool), Error> {
    let mut documents = Documents::new(input);
    documents.completes_lines = true;
    let first = documents.next().transpose()?.unwrap_or(Value::Null);
    Ok((first, documents.next().is_some()))
}

/// Parses every document of `input`. Documents without content are skipped.
///
/// # Errors
/// The first invalid document or exceeded limit.
pub fn parse_all(input: &[u8]) -> Result<Vec<Value>, Error> {
    Documents::new(input).collect()
}

/// Parses the only document of `input` into `T`.
///
/// # Errors
/// The errors of [`parse`], and [`Error::Shape`] if the document does not have the shape of `T`.
pub fn from_str<T: DeserializeOwned>(input: &str) -> Result<T, Error> {
    serde_json::from_value(parse(input.as_bytes())?).map_err(|error| Error::Shape(error.to_string()))
}

/// Writes `value` as one YAML document: keys sorted, sequences not indented below their key, long plain and quoted texts broken
/// at a blank.
///
/// # Errors
/// [`Error::Shape`] if `value` has no JSON form (a map with keys that are not text).
pub fn to_string<T: Serialize + ?Sized>(value: &T) -> Result<String, Error> {
    let value = serde_json::to_value(value).map_err(|error| Error::Shape(error.to_string()))?;
    Ok(write::document(&value))
}

/// Writes documents, each after a `---` line.
///
/// # Errors
/// The errors of [`to_string`].
pub fn to_string_all<'a, T: Serialize + 'a>(
    values: impl IntoIterator<Item = &'a T>,
) -> Result<String, Error> {
    let mut out = String::new();
    for value in values {
        let _ = write!(out, "---\n{}", to_string(value)?);
    }
    Ok(out)
}

/// The documents of an input, read one at a time: memory is bounded by the largest document, not by the input.
///
/// Input whose first non-blank byte is `{` is read as a stream of JSON documents. If its first or second document is not JSON,
/// the rest is read as YAML (a flow mapping, or JSON documents divided by `---`). After an error the iterator ends.
pub struct Documents<R> {
    reader: R,
    limits: Limits,
    /// Number of lines consumed so far.
    line: usize,
    /// Number of JSON documents returned so far: after two, the input is never read as YAML.
    json_documents: usize,
    pending: std::collections::VecDeque<Value>,
    state: State,
    /// Bytes that were read from the reader and must be read again before the rest.
    again: Cursor<Vec<u8>>,
    separators: Separators,
    /// True if an unterminated last line gets a line break, as in the Kubernetes stream decoder: a block scalar at the end then
    /// has it.
    completes_lines: bool,
}

/// Treatment of a line that begins with `---`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Separators {
    /// YAML's rule: the line begins a document, whose content may follow; documents without content are skipped.
    Yaml,
    /// The rule of the Kubernetes stream decoder: only a comment may follow, and text between two such lines is a document even
    /// without content.
    Stream,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Start,
    Json,
    Yaml,
    Done,
}

impl<R: BufRead> Documents<R> {
    /// Reads with the default [`Limits`].
    pub fn new(reader: R) -> Self {
        Self::with_limits(reader, Limits::default())
    }

    /// Reads with the caller's limits.
    pub fn with_limits(reader: R, limits: Limits) -> Self {
        Self {
            reader,
            limits,
            line: 0,
            json_documents: 0,
            pending: std::collections::VecDeque::new(),
            state: State::Start,
            again: Cursor::default(),
            separators: Separators::Yaml,
            completes_lines: false,
        }
    }

    /// Reads input that starts like JSON as YAML, too, so errors are reported in YAML's terms.
    #[must_use]
    pub fn as_yaml(mut self) -> Self {
        self.state = State::Yaml;
        self
    }

    /// Reads in the way of catalogs: content after `---` is an error, and a document without content is `null`, unless it is the
    /// only one.
    #[must_use]
    pub fn with_empty_documents(mut self) -> Self {
        self.separators = Separators::Stream;
        self.completes_lines = true;
        self
    }

    fn advance(&mut self) -> Result<Option<Value>, Error> {
        loop {
            if let Some(value) = self.pending.pop_front() {
                return Ok(Some(value));
            }
            match self.state {
                State::Done => return Ok(None),
                State::Start => {
                    self.state = if self.starts_like_json()? {
                        State::Json
                    } else {
                        State::Yaml
                    };
                }
                State::Json => {
                    if let Some(value) = self.next_json()? {
                        return Ok(Some(value));
                    }
                }
                State::Yaml => self.next_yaml()?,
            }
        }
    }

    fn starts_like_json(&mut self) -> Result<bool, Error> {
        loop {
            let buffer = self.reader.fill_buf().map_err(Error::Read)?;
            let Some(&first) = buffer.first() else {
                return Ok(false);
            };
            if first != b'\n' && first != b' ' && first != b'\t' && first != b'\r' {
                return Ok(first == b'{');
            }
            // Keeps blanks before a YAML document, because they could be its indentation.
            self.again.get_mut().push(first);
            self.reader.consume(1);
        }
    }

    /// Reads one JSON document.
    fn next_json(&mut self) -> Result<Option<Value>, Error> {
        let text = self.take_json_document()?;
        if text.iter().all(u8::is_ascii_whitespace) {
            self.state = State::Done;
            return Ok(None);
        }
        let lines = text.iter().filter(|byte| **byte == b'\n').count();
        match serde_json::from_slice(&text) {
            Ok(value) => {
                self.line += lines;
                self.json_documents += 1;
                Ok(Some(value))
            }
            Err(error) if error.is_eof() => Err(Error::UnexpectedEnd),
            Err(error) => self.yaml_instead(text, &error),
        }
    }

    fn yaml_instead(&mut self, text: Vec<u8>, error: &serde_json::Error) -> Result<Option<Value>, Error> {
        let json_error = Error::Json {
            line: error.line(),
            column: error.column(),
            message: trim_position(&error.to_string()),
        }
        .offset_lines(self.line);
        if self.json_documents > 1 {
            return Err(json_error);
        }
        // The rest of the line on which the previous document ended.
        let line_end = text.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let rest = if text[..line_end].iter().all(u8::is_ascii_whitespace) {
            self.line += usize::from(line_end > 0);
            text[line_end..].to_vec()
        } else {
            text
        };
        self.again = Cursor::new(rest);
        self.state = State::Yaml;
        self.next_yaml().map_err(|_| json_error)?;
        Ok(self.pending.pop_front())
    }

    /// Returns the bytes up to the brace that closes the first object.
    fn take_json_document(&mut self) -> Result<Vec<u8>, Error> {
        let mut text = std::mem::take(&mut self.again).into_inner();
        let mut scan = JsonScan::default();
        loop {
            let buffer = self.reader.fill_buf().map_err(Error::Read)?;
            if buffer.is_empty() {
                return Ok(text);
            }
            let (used, complete) = scan.feed(buffer);
            text.extend_from_slice(&buffer[..used]);
            self.reader.consume(used);
            if text.len() > self.limits.document_bytes {
                return Err(self.limits.too_many_bytes(self.line + 1, &text));
            }
            if scan.values > self.limits.nodes {
                return Err(self.limits.too_many_values(self.line + 1, &text));
            }
            if complete {
                return Ok(text);
            }
        }
    }

    /// Reads lines up to the next `---` and parses them.
    fn next_yaml(&mut self) -> Result<(), Error> {
        let first_line = self.line;
        let mut text = Vec::new();
        loop {
            let start = text.len();
            let read = self.read_line(&mut text)?;
            if text.len() > self.limits.document_bytes {
                return Err(self.limits.too_many_bytes(first_line + 1, &text));
            }
            if read == 0 {
                self.state = State::Done;
                break;
            }
            self.line += 1;
            match self.separators {
                Separators::Yaml if start > 0 && is_document_marker(&text[start..]) => {
                    self.line -= 1;
                    self.put_back(&text.split_off(start));
                    break;
                }
                Separators::Stream if is_separator(&text[start..], self.line)? && start > 0 => {
                    text.truncate(start);
                    break;
                }
                _ => {}
            }
        }
        if text.is_empty() {
            return Ok(());
        }
        if self.completes_lines && !text.ends_with(b"\n") {
            text.push(b'\n');
        }
        let text = std::str::from_utf8(&text).map_err(|_| Error::NotUtf8 { line: first_line + 1 })?;
        let before = self.pending.len();
        tree::documents(text, &self.limits, &mut self.pending)
            .map_err(|error| error.offset_lines(first_line))?;
        if self.separators == Separators::Stream && self.pending.len() == before {
            self.pending.push_back(Value::Null);
        }
        Ok(())
    }

    /// Appends one line with its terminator, and reads little more than the size limit of a document, so that an endless line is
    /// detected early.
    fn read_line(&mut self, text: &mut Vec<u8>) -> Result<usize, Error> {
        let start = text.len();
        let room = (self.limits.document_bytes + 1).saturating_sub(start) as u64;
        let again = Read::take(&mut self.again, room).read_until(b'\n', text);
        let read = again.map_err(Error::Read)?;
        if text[start..].ends_with(b"\n") {
            return Ok(read);
        }
        let rest = Read::take(&mut self.reader, room - read as u64).read_until(b'\n', text);
        Ok(read + rest.map_err(Error::Read)?)
    }

    fn put_back(&mut self, line: &[u8]) {
        let position = usize::try_from(self.again.position()).unwrap_or(usize::MAX);
        let rest = self.again.get_ref().get(position..).unwrap_or_default();
        self.again = Cursor::new([line, rest].concat());
    }
}

impl<R: BufRead> Iterator for Documents<R> {
    type Item = Result<Value, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let item = self.advance().transpose();
        if matches!(item, Some(Err(_))) {
            self.state = State::Done;
            self.pending.clear();
        }
        item
    }
}

/// Finds the end of a JSON object in a byte stream without parsing it.
#[derive(Default)]
pub(crate) struct JsonScan {
    /// Number of values found so far, keys included; an upper bound.
    values: usize,
    depth: usize,
    in_string: bool,
    escaped: bool,
}

impl JsonScan {
    /// Scans bytes; returns the number of bytes that belong to the object, and true if the object is complete.
    pub(crate) fn feed(&mut self, buffer: &[u8]) -> (usize, bool) {
        let mut at = 0;
        while let Some(&byte) = buffer.get(at) {
            at += 1;
            if self.escaped {
                self.escaped = false;
            } else if self.in_string {
                match byte {
                    b'\\' => self.escaped = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
            } else {
                match byte {
                    b'"' => self.in_string = true,
                    b'{' | b'[' => {
                        self.depth += 1;
                        self.values += 1;
                    }
                    b',' | b':' => self.values += 1,
                    b'}' | b']' => {
                        self.depth = self.depth.saturating_sub(1);
                        if self.depth == 0 {
                            return (at, true);
                        }
                    }
                    _ => {}
                }
            }
        }
        (at, false)
    }
}

/// Returns the name of a rejected document, found in its first bytes: a heuristic to help locate it.
fn named(text: &[u8]) -> String {
    const BYTES: usize = 4096;
    let head = String::from_utf8_lossy(text.get(..BYTES).unwrap_or(text));
    let name = head.match_indices("name").find_map(|(at, key)| {
        let before = head.get(..at)?.trim_end_matches(['"', '\'']);
        if !(before.is_empty() || before.ends_with(['\n', ' ', '{', ',', '\t'])) {
            return None;
        }
        let rest = head
            .get(at + key.len()..)?
            .trim_start_matches(['"', '\''])
            .trim_start();
        let value = rest
            .strip_prefix(':')?
            .trim_start()
            .trim_start_matches(['"', '\'']);
        let end = value.find(['"', '\'', ',', '}', '\n'])?;
        Some(value[..end].trim().to_owned())
    });
    match name {
        Some(name) if !name.is_empty() => format!(", named {name:?},"),
        _ => String::new(),
    }
}

fn is_document_marker(line: &[u8]) -> bool {
    line.strip_prefix(b"---")
        .is_some_and(|rest| rest.first().is_none_or(u8::is_ascii_whitespace))
}

/// Returns true if a line divides documents of a stream.
///
/// # Errors
/// Something other than a comment follows the dashes.
fn is_separator(line: &[u8], number: usize) -> Result<bool, Error> {
    let Some(rest) = line.strip_prefix(b"---") else {
        return Ok(false);
    };
    let rest = rest.trim_ascii();
    if rest.is_empty() || rest.starts_with(b"#") {
        return Ok(true);
    }
    Err(Error::Unsupported {
        line: number,
        message: format!(
            "invalid Yaml document separator: {}",
            String::from_utf8_lossy(rest)
        ),
    })
}

/// Removes the position that `serde_json` appends to its messages; ours have it in front.
fn trim_position(message: &str) -> String {
    message
        .split_once(" at line ")
        .map_or(message, |(text, _)| text)
        .to_owned()
}

#[cfg(test)]
mod tests;
