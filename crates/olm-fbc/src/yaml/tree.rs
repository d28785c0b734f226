//! Conversion of parser events to JSON values.

use std::collections::{HashMap, VecDeque};

use serde_json::{Map, Value};
use serde_saphyr::granit_parser::{
    self, ErrorKind, Event, Parser, ScalarStyle, ScanError, Span, StrInput, Tag,
};

use super::{Error, Limits, scalar};

/// Maximum number of times a document is parsed again with the lines of a quoted text indented; see [`indent_quoted_text`].
const MAX_REPAIRS: usize = 64;
/// Maximum number of bytes for all these parses together.
const REPAIR_BYTES: usize = 128 << 20;
/// Maximum number of blanks put before a continuation line.
const MAX_INDENT: usize = 256;

/// Parses every document of `text` into `out`. A document without any node is skipped.
pub(super) fn documents(text: &str, limits: &Limits, out: &mut VecDeque<Value>) -> Result<(), Error> {
    let mut repaired: Option<String> = None;
    let mut last_line = 0;
    let repairs = (REPAIR_BYTES / text.len().max(1)).clamp(1, MAX_REPAIRS);
    for _ in 0..repairs {
        let current = repaired.as_deref().unwrap_or(text);
        let mut values = Vec::new();
        let error = match read(current, limits, &mut values) {
            Ok(()) => {
                out.extend(values);
                return Ok(());
            }
            Err(Failure::Refused(error)) => return Err(error),
            Err(Failure::Scan(error)) => error,
        };
        let line = error.marker().line();
        let next = is_weak_indent(error.kind())
            .then(|| repair(current, &error, limits))
            .flatten();
        match next {
            Some(next) if line > last_line => repaired = Some(next),
            _ => return Err(syntax(&error)),
        }
        last_line = line;
    }
    Err(Error::Syntax {
        line: last_line,
        message: "too many quoted texts with lines that are not indented".to_owned(),
    })
}

/// Returns true if a line inside a quoted text was rejected for its indentation, which Go's parser skips.
fn is_weak_indent(kind: &ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::InvalidQuotedScalarIndent | ErrorKind::TabInIndentation
    )
}

/// Returns the text with the quoted text around `error` indented; `None` if `error` is not in a terminated quoted text.
fn repair(text: &str, error: &ScanError, limits: &Limits) -> Option<String> {
    let at = error.marker().byte_offset()?;
    let line_start = at.checked_sub(error.marker().col())?;
    // The text is cut at that line, which is then indented well enough. So it ends within the quoted text, and the parser reports
    // where that begins.
    let mut cut = text.get(..line_start)?.to_owned();
    cut.push_str(&" ".repeat(MAX_INDENT));
    let mut parser = Parser::new_from_str_with_options(&cut, options(limits));
    let unclosed = std::iter::from_fn(|| parser.next_event()).find_map(Result::err)?;
    if *unclosed.kind() != ErrorKind::UnclosedQuotedScalar {
        return None;
    }
    let start = unclosed.marker();
    indent_quoted_text(text, start.byte_offset()?, start.col().min(MAX_INDENT))
}

/// Indents every line of the quoted text that begins at byte `start` by `indent` blanks, replacing the blanks and tabs there.
///
/// Go's parser accepts continuation lines that are indented no more than the key, and with tabs; the parser used here does not.
/// Blanks at the start of such a line have no meaning, so nothing else changes.
fn indent_quoted_text(text: &str, start: usize, indent: usize) -> Option<String> {
    let blanks = " ".repeat(indent);
    let most = text.len().saturating_mul(4).saturating_add(1 << 20);
    let (before, quoted) = text.split_at_checked(start)?;
    let mut out = before.to_owned();
    let mut rest = quoted.chars().peekable();
    let quote = rest.next().filter(|quote| matches!(quote, '"' | '\''))?;
    out.push(quote);
    while let Some(character) = rest.next() {
        out.push(character);
        match character {
            '\\' if quote == '"' => {
                // An escaped line break still ends the line, so it is handled below.
                out.extend(rest.next_if(|next| !matches!(next, '\r' | '\n')));
            }
            '\'' if quote == '\'' && rest.peek() == Some(&'\'') => out.extend(rest.next()),
            _ if character == quote => {
                out.extend(rest);
                return Some(out);
            }
            '\r' | '\n' => {
                if character == '\r' {
                    out.extend(rest.next_if_eq(&'\n'));
                }
                while rest.next_if(|next| matches!(next, ' ' | '\t')).is_some() {}
                if !matches!(rest.peek(), Some('\r' | '\n')) {
                    out.push_str(&blanks);
                }
                if out.len() > most {
                    return None;
                }
            }
            _ => {}
        }
    }
    None
}

enum Failure {
    Scan(ScanError),
    Refused(Error),
}

fn options(limits: &Limits) -> granit_parser::Options {
    let mut options = granit_parser::options! {
        flow_nesting_limit: limits.depth,
        block_nesting_limit: limits.depth,
    };
    options.set_emit_comments(false);
    options
}

fn read<'a>(text: &'a str, limits: &'a Limits, out: &mut Vec<Value>) -> Result<(), Failure> {
    let mut builder = Builder {
        parser: Parser::new_from_str_with_options(text, options(limits)),
        anchors: HashMap::new(),
        limits,
        nodes_left: limits.nodes,
        text,
        alias_budget: limits.alias_nodes,
        bytes_left: limits.alias_bytes,
        depth_left: limits.depth,
        length: text.len(),
        unterminated: text
            .rsplit(['\n', '\r'])
            .next()
            .is_some_and(|line| !line.trim().is_empty()),
    };
    loop {
        let (event, span) = builder.next_event()?;
        match event {
            Event::StreamEnd => return Ok(()),
            Event::DocumentStart(..) => {
                builder.anchors.clear();
                let value = builder.document()?;
                out.extend(value);
            }
            Event::StreamStart => {}
            other => return Err(unexpected(&other, &span)),
        }
    }
}

/// A value with its number of nodes, so that aliases can be charged for it.
#[derive(Clone)]
struct Anchored {
    value: Value,
    nodes: usize,
    bytes: usize,
}

/// Size of the built values: an upper bound of the cost of a copy.
#[derive(Clone, Copy, Default)]
struct Size {
    nodes: usize,
    /// Bytes of text.
    bytes: usize,
}

struct Builder<'a> {
    parser: Parser<'a, StrInput<'a>>,
    anchors: HashMap<usize, Anchored>,
    limits: &'a Limits,
    nodes_left: usize,
    text: &'a str,
    alias_budget: usize,
    bytes_left: usize,
    depth_left: usize,
    /// Bytes of the input.
    length: usize,
    /// True if the last line has content and no line break.
    unterminated: bool,
}

impl<'a> Builder<'a> {
    fn next_event(&mut self) -> Result<(Event<'a>, Span), Failure> {
        match self.parser.next_event() {
            Some(Ok(item)) => Ok(item),
            Some(Err(error)) => Err(Failure::Scan(error)),
            None => Err(Failure::Refused(Error::Syntax {
                line: 1,
                message: "unexpected end of input".to_owned(),
            })),
        }
    }

    /// Returns the root node of a document; `None` if the document is empty (only comments, or a lone marker).
    fn document(&mut self) -> Result<Option<Value>, Failure> {
        let (event, span) = self.next_event()?;
        let value = match event {
            Event::DocumentEnd => return Ok(None),
            // The parser emits a null scalar without any text for a missing node.
            Event::Scalar(_, ScalarStyle::Plain, 0, None) if span.is_empty() => None,
            other => Some(self.node(other, &span, &mut Size::default())?),
        };
        match self.next_event()? {
            (Event::DocumentEnd, _) => Ok(value),
            (other, span) => Err(unexpected(&other, &span)),
        }
    }

    /// Builds the node that `event` starts and adds its size to `size`.
    fn node(&mut self, event: Event<'a>, span: &Span, size: &mut Size) -> Result<Value, Failure> {
        let before = *size;
        size.nodes += 1;
        self.nodes_left = self
            .nodes_left
            .checked_sub(1)
            .ok_or_else(|| Failure::Refused(self.limits.too_many_values(1, self.text.as_bytes())))?;
        let (value, anchor) = match event {
            Event::Scalar(mut text, style, anchor, tag) => {
                let is_block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
                if is_block && text.ends_with('\n') && self.ends_input(span) {
                    text.to_mut().pop();
                }
                size.bytes += text.len();
                (scalar_value(text, style, tag.as_deref(), span)?, anchor)
            }
            Event::SequenceStart(_, anchor, _) => (self.nested(span, |this| this.sequence(size))?, anchor),
            Event::MappingStart(_, anchor, _) => (self.nested(span, |this| this.mapping(size))?, anchor),
            Event::Alias(id) => {
                let anchored = self.alias(id, span)?;
                size.nodes += anchored.nodes;
                size.bytes += anchored.bytes;
                (anchored.value, 0)
            }
            other => return Err(unexpected(&other, span)),
        };
        if anchor != 0 {
            // Anchors within anchors are copies of copies.
            let bytes = size.bytes - before.bytes;
            let nodes = size.nodes - before.nodes;
            self.charge(nodes, bytes, span)?;
            let anchored = Anchored {
                value: value.clone(),
                nodes,
                bytes,
            };
            self.anchors.insert(anchor, anchored);
        }
        Ok(value)
    }

    /// Returns true if the block text at `span` ends with the input, without a line break: the parser adds one, Go's does not.
    fn ends_input(&self, span: &Span) -> bool {
        self.unterminated && span.end.byte_offset() == Some(self.length)
    }

    fn nested(
        &mut self,
        span: &Span,
        build: impl FnOnce(&mut Self) -> Result<Value, Failure>,
    ) -> Result<Value, Failure> {
        let Some(left) = self.depth_left.checked_sub(1) else {
            return Err(unsupported(span, "nested too deeply"));
        };
        self.depth_left = left;
        let value = build(self);
        self.depth_left += 1;
        value
    }

    fn sequence(&mut self, size: &mut Size) -> Result<Value, Failure> {
        let mut items = Vec::new();
        loop {
            let (event, span) = self.next_event()?;
            if event == Event::SequenceEnd {
                return Ok(Value::Array(items));
            }
            items.push(self.node(event, &span, size)?);
        }
    }

    fn mapping(&mut self, size: &mut Size) -> Result<Value, Failure> {
        let mut map = Map::new();
        loop {
            let (event, span) = self.next_event()?;
            if event == Event::MappingEnd {
                return Ok(Value::Object(map));
            }
            let is_merge = is_merge_key(&event);
            let key = self.node(event, &span, size)?;
            let (event, value_span) = self.next_event()?;
            let value = self.node(event, &value_span, size)?;
            if is_merge {
                merge(&mut map, value, &value_span)?;
                continue;
            }
            let Some(key) = scalar::key_text(key) else {
                return Err(unsupported(
                    &span,
                    "a mapping key must be text, a number or a boolean",
                ));
            };
            map.insert(key, value);
        }
    }

    /// Returns a copy of the anchored value. An anchor is known only once its node is complete, so a node cannot contain itself.
    fn alias(&mut self, id: usize, span: &Span) -> Result<Anchored, Failure> {
        let itself = || unsupported(span, "an anchor's value contains itself");
        let anchored = self.anchors.get(&id).cloned().ok_or_else(itself)?;
        self.charge(anchored.nodes, anchored.bytes, span)?;
        Ok(anchored)
    }

    /// Subtracts the size of a copy from the limits.
    fn charge(&mut self, nodes: usize, bytes: usize, span: &Span) -> Result<(), Failure> {
        let left = (
            self.alias_budget.checked_sub(nodes),
            self.bytes_left.checked_sub(bytes),
        );
        let (Some(nodes), Some(bytes)) = left else {
            return Err(unsupported(span, "aliases expand to too many nodes"));
        };
        (self.alias_budget, self.bytes_left) = (nodes, bytes);
        Ok(())
    }
}

fn is_merge_key(event: &Event<'_>) -> bool {
    match event {
        Event::Scalar(text, style, _, tag) if text == "<<" => match tag {
            None => *style == ScalarStyle::Plain,
            Some(tag) => core_name(tag).as_deref() == Some("merge"),
        },
        _ => false,
    }
}

/// Merges keys as yaml.v2 does: they overwrite keys written before them, and later keys overwrite them. The first of several
/// merged mappings takes precedence.
fn merge(map: &mut Map<String, Value>, value: Value, span: &Span) -> Result<(), Failure> {
    match value {
        Value::Object(other) => map.extend(other),
        Value::Array(items) if items.iter().all(Value::is_object) => {
            for item in items.into_iter().rev() {
                merge(map, item, span)?;
            }
        }
        _ => {
            return Err(unsupported(
                span,
                "a merge key needs a mapping or a sequence of mappings",
            ));
        }
    }
    Ok(())
}

fn scalar_value(
    text: std::borrow::Cow<'_, str>,
    style: ScalarStyle,
    tag: Option<&Tag>,
    span: &Span,
) -> Result<Value, Failure> {
    let resolved =
        || scalar::resolve(&text).ok_or_else(|| unsupported(span, "JSON has no infinity and no NaN"));
    let Some(tag) = tag else {
        return match style {
            ScalarStyle::Plain => resolved(),
            _ => Ok(Value::String(text.into_owned())),
        };
    };
    let name = core_name(tag).unwrap_or_default();
    let is_wanted: fn(&Value) -> bool = match &*name {
        "bool" => Value::is_boolean,
        "int" => |value| value.is_i64() || value.is_u64(),
        "float" => Value::is_number,
        "null" => Value::is_null,
        "binary" => {
            return binary(&text).ok_or_else(|| unsupported(span, "!!binary value is not base64 text"));
        }
        // Unknown and local tags do not change the text.
        _ => return Ok(Value::String(text.into_owned())),
    };
    Some(resolved()?)
        .filter(is_wanted)
        .ok_or_else(|| unsupported(span, &format!("cannot decode `{text}` as !!{name}")))
}

fn binary(text: &str) -> Option<Value> {
    let compact: String = text.split_ascii_whitespace().collect();
    let bytes = crate::base64::decode(&compact).ok()?;
    Some(Value::String(String::from_utf8_lossy(&bytes).into_owned()))
}

fn core_name(tag: &Tag) -> Option<std::borrow::Cow<'_, str>> {
    tag.suffix_in_namespace("tag:yaml.org,2002:")
}

fn syntax(error: &ScanError) -> Error {
    Error::Syntax {
        line: error.marker().line(),
        message: error.info(),
    }
}

fn unexpected(event: &Event<'_>, span: &Span) -> Failure {
    unsupported(span, &format!("unexpected {event:?}"))
}

fn unsupported(span: &Span, message: &str) -> Failure {
    Failure::Refused(Error::Unsupported {
        line: span.start.line(),
        message: message.to_owned(),
    })
}
