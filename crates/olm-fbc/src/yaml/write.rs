//! Block-style YAML as Go's tools print it, so that files written by either side do not differ.

use std::cmp::Ordering;
use std::fmt::Write as _;

use serde_json::{Number, Value};

use super::scalar;

/// Lines of plain and quoted texts are broken at the first blank beyond this column.
const WIDTH: usize = 80;
/// Longer keys are written in the `? key` form.
const SIMPLE_KEY_BYTES: usize = 128;

/// Floats from here on (2^63) are not integers in Go's YAML.
const MAX_INTEGER: f64 = 9_223_372_036_854_775_808.0;

/// Returns one document, without a leading `---`.
pub(super) fn document(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::Object(map) if !map.is_empty() => mapping(&mut out, map, 0),
        Value::Array(items) if !items.is_empty() => sequence(&mut out, items, 0),
        other => {
            leaf(&mut out, other, 0);
            out.push('\n');
        }
    }
    out
}

/// Writes the entries of a mapping; the cursor is at column `indent`.
fn mapping(out: &mut String, map: &serde_json::Map<String, Value>, indent: usize) {
    let mut keys: Vec<&String> = map.keys().collect();
    keys.sort_by(|a, b| natural_order(a, b));
    for (position, key) in keys.into_iter().enumerate() {
        if position > 0 {
            pad(out, indent);
        }
        let Some(value) = map.get(key) else { continue };
        if key.len() > SIMPLE_KEY_BYTES || key.contains(is_break) {
            out.push_str("? ");
            text(out, key, Place::Value, indent);
            out.push('\n');
            pad(out, indent);
            out.push_str(": ");
            after_marker(out, value, indent + 2);
        } else {
            text(out, key, Place::Key, indent);
            out.push(':');
            after_key(out, value, indent);
        }
    }
}

fn after_key(out: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            out.push('\n');
            pad(out, indent + 2);
            mapping(out, map, indent + 2);
        }
        // A sequence is not indented below its key.
        Value::Array(items) if !items.is_empty() => {
            out.push('\n');
            pad(out, indent);
            sequence(out, items, indent);
        }
        other => {
            out.push(' ');
            leaf(out, other, indent);
            out.push('\n');
        }
    }
}

fn sequence(out: &mut String, items: &[Value], indent: usize) {
    for (position, item) in items.iter().enumerate() {
        if position > 0 {
            pad(out, indent);
        }
        out.push_str("- ");
        after_marker(out, item, indent + 2);
    }
}

/// Writes a node after `- ` or `: `; a collection starts on the same line.
fn after_marker(out: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Object(map) if !map.is_empty() => mapping(out, map, indent),
        Value::Array(items) if !items.is_empty() => sequence(out, items, indent),
        other => {
            leaf(out, other, indent.saturating_sub(2));
            out.push('\n');
        }
    }
}

fn leaf(out: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Value::Number(value) => number(out, value),
        Value::String(value) => text(out, value, Place::Value, indent),
        Value::Array(_) => out.push_str("[]"),
        Value::Object(_) => out.push_str("{}"),
    }
}

/// Writes whole floats as integers, as after JSON. Others have Go's shortest `%g` form: an exponent below 1e-4 and from 1e+06.
fn number(out: &mut String, value: &Number) {
    let float = match value.as_f64() {
        Some(float) if value.is_f64() => float,
        _ => {
            let _ = write!(out, "{value}");
            return;
        }
    };
    let magnitude = float.abs();
    if float.fract() == 0.0 && magnitude < MAX_INTEGER {
        // Minus zero is written as 0.
        let sign = if float < 0.0 { "-" } else { "" };
        let _ = write!(out, "{sign}{magnitude:.0}");
        return;
    }
    out.push_str(&scalar::shortest(float));
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Key,
    Value,
}

fn text(out: &mut String, value: &str, place: Place, indent: usize) {
    let shape = Shape::of(value);
    let plain_reads_back = scalar::is_plain_text(value) && !is_base_60(value);
    let mut line = Line::new(out, place, indent + 2);
    if value.contains('\n') && place == Place::Value && shape.block_allowed {
        literal(out, value, indent);
    } else if !value.contains('\n') && plain_reads_back && shape.plain_allowed {
        plain(out, &mut line, value);
    } else if !value.contains('\n') && plain_reads_back && shape.single_quoted_allowed {
        single_quoted(out, &mut line, value);
    } else {
        double_quoted(out, &mut line, value);
    }
}

/// Position of the next character, and the rules for breaking the current text.
struct Line {
    column: usize,
    /// True if the text may be broken: keys may not.
    breaks: bool,
    /// Column of further lines.
    indent: usize,
    /// True if the last character was a blank.
    after_blank: bool,
}

impl Line {
    fn new(out: &str, place: Place, indent: usize) -> Self {
        let start = out.rfind('\n').map_or(0, |at| at + 1);
        Self {
            column: out[start..].chars().count(),
            breaks: place == Place::Value,
            indent,
            after_blank: false,
        }
    }

    fn push(&mut self, out: &mut String, char: char) {
        out.push(char);
        self.column += 1;
        self.after_blank = char == ' ';
    }

    /// Returns true if a blank at this position becomes a line break.
    fn is_full(&self) -> bool {
        self.breaks && !self.after_blank && self.column > WIDTH
    }

    fn wrap(&mut self, out: &mut String) {
        out.push('\n');
        pad(out, self.indent);
        self.column = self.indent;
        self.after_blank = true;
    }
}

fn plain(out: &mut String, line: &mut Line, value: &str) {
    let mut chars = value.chars().peekable();
    while let Some(char) = chars.next() {
        if char == ' ' && line.is_full() && chars.peek() != Some(&' ') {
            line.wrap(out);
        } else {
            line.push(out, char);
        }
    }
}

fn single_quoted(out: &mut String, line: &mut Line, value: &str) {
    line.push(out, '\'');
    let mut chars = value.chars().enumerate().peekable();
    while let Some((position, char)) = chars.next() {
        let next = chars.peek().map(|(_, next)| *next);
        if char == ' ' && line.is_full() && position > 0 && next.is_some_and(|next| next != ' ') {
            line.wrap(out);
            continue;
        }
        if char == '\'' {
            line.push(out, char);
        }
        line.push(out, char);
    }
    line.push(out, '\'');
}

fn literal(out: &mut String, value: &str, indent: usize) {
    out.push('|');
    if value.starts_with(' ') || value.starts_with(is_break) {
        out.push('2');
    }
    if !value.ends_with(is_break) {
        out.push('-');
    } else if value.len() == 1 || value[..value.len() - 1].ends_with(is_break) {
        out.push('+');
    }
    out.push('\n');
    let mut lines = value.split('\n').peekable();
    while let Some(line) = lines.next() {
        if !line.is_empty() {
            pad(out, indent + 2);
            out.push_str(line);
        }
        if lines.peek().is_some() {
            out.push('\n');
        }
    }
    // The caller ends the line.
    if out.ends_with('\n') {
        out.pop();
    }
}

fn double_quoted(out: &mut String, line: &mut Line, value: &str) {
    line.push(out, '"');
    let mut chars = value.chars().enumerate().peekable();
    while let Some((position, char)) = chars.next() {
        let next = chars.peek().map(|(_, next)| *next);
        if char == ' ' && line.is_full() && position > 0 && next.is_some() {
            line.wrap(out);
            // A blank at the start of a line would be lost.
            if next == Some(' ') {
                out.push('\\');
                line.column += 1;
            }
            continue;
        }
        let mut buffer = String::new();
        escape(&mut buffer, char);
        for char in buffer.chars() {
            line.push(out, char);
        }
    }
    line.push(out, '"');
}

/// Writes a character of a double-quoted text.
fn escape(out: &mut String, char: char) {
    match char {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\0' => out.push_str("\\0"),
        '\u{7}' => out.push_str("\\a"),
        '\u{8}' => out.push_str("\\b"),
        '\t' => out.push_str("\\t"),
        '\n' => out.push_str("\\n"),
        '\u{b}' => out.push_str("\\v"),
        '\u{c}' => out.push_str("\\f"),
        '\r' => out.push_str("\\r"),
        '\u{1b}' => out.push_str("\\e"),
        '\u{85}' => out.push_str("\\N"),
        '\u{2028}' => out.push_str("\\L"),
        '\u{2029}' => out.push_str("\\P"),
        char if is_printable(char) => out.push(char),
        char => {
            let code = u32::from(char);
            let _ = match code {
                0..=0xff => write!(out, "\\x{code:02X}"),
                0x100..=0xffff => write!(out, "\\u{code:04X}"),
                _ => write!(out, "\\U{code:08X}"),
            };
        }
    }
}

/// Styles that can represent a text.
struct Shape {
    plain_allowed: bool,
    single_quoted_allowed: bool,
    block_allowed: bool,
}

impl Shape {
    fn of(value: &str) -> Self {
        let special = value.chars().any(|char| !is_printable(char) && !is_break(char));
        let odd_break = value.chars().any(|char| is_break(char) && char != '\n');
        let pairs = || value.chars().zip(value.chars().skip(1));
        let space_then_break = pairs().any(|(a, b)| a == ' ' && is_break(b));
        let break_then_space = pairs().any(|(a, b)| is_break(a) && b == ' ');
        let edge = |char: char| char == ' ' || is_break(char);
        let unsafe_text = special || odd_break || space_then_break;
        Self {
            plain_allowed: !unsafe_text
                && !break_then_space
                && !value.contains(is_break)
                && !value.starts_with(edge)
                && !value.ends_with(edge)
                && !has_indicator(value),
            single_quoted_allowed: !unsafe_text && !break_then_space,
            block_allowed: !unsafe_text && !value.ends_with(' '),
        }
    }
}

/// Returns true if a reader in block context would see structure in the plain text.
fn has_indicator(value: &str) -> bool {
    let Some(first) = value.chars().next() else {
        return true;
    };
    let is_blank = |char: char| matches!(char, ' ' | '\t') || is_break(char);
    let blank_after = |rest: &str| rest.chars().next().is_none_or(is_blank);
    value.starts_with("---")
        || value.starts_with("...")
        || "#,[]{}&*!|>'\"%@`".contains(first)
        || ("?:-".contains(first) && blank_after(&value[1..]))
        || value
            .match_indices(':')
            .any(|(at, _)| at > 0 && blank_after(&value[at + 1..]))
        || value
            .match_indices('#')
            .any(|(at, _)| value[..at].ends_with(is_blank))
}

fn is_break(char: char) -> bool {
    matches!(char, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Returns true for characters the Go emitter writes unescaped: nothing beyond the basic plane, no tab.
fn is_printable(char: char) -> bool {
    matches!(char, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}')
}

/// Returns true for base-60 numbers: YAML 1.1 readers take `12:30` for 750.
fn is_base_60(value: &str) -> bool {
    let rest = value.strip_prefix(['-', '+']).unwrap_or(value);
    let mut parts = rest.split(':');
    let head = parts.next().unwrap_or_default();
    let tail: Vec<&str> = parts.collect();
    let Some((last, middle)) = tail.split_last() else {
        return false;
    };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_');
    let (last, fraction) = last.split_once('.').unwrap_or((last, ""));
    let sixty = |text: &str| matches!(text.as_bytes(), [b'0'..=b'9'] | [b'0'..=b'5', b'0'..=b'9']);
    head.starts_with(|char: char| char.is_ascii_digit())
        && digits(head)
        && digits(fraction)
        && middle.iter().all(|part| sixty(part))
        && sixty(last)
}

/// Compares keys as Go's YAML writer does: letters after all other characters, digit runs by value.
fn natural_order(a: &str, b: &str) -> Ordering {
    let (left, right): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let Some(at) = left.iter().zip(&right).position(|(x, y)| x != y) else {
        return left.len().cmp(&right.len());
    };
    let (x, y) = (left[at], right[at]);
    match (x.is_alphabetic(), y.is_alphabetic()) {
        (true, true) => return x.cmp(&y),
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    // After a non-zero digit a zero is a digit of the same number, not a leading zero.
    let continues = (x == '0' || y == '0')
        && left[..at]
            .iter()
            .rev()
            .take_while(|char| char.is_numeric())
            .any(|char| *char != '0');
    let run = |chars: &[char]| {
        let digits = chars[at..].iter().take_while(|char| char.is_ascii_digit());
        let mut length = 0;
        let mut number = i64::from(continues);
        for digit in digits {
            length += 1;
            number = number
                .wrapping_mul(10)
                .wrapping_add(i64::from(digit.to_digit(10).unwrap_or_default()));
        }
        (number, length)
    };
    run(&left).cmp(&run(&right)).then(x.cmp(&y))
}

fn pad(out: &mut String, indent: usize) {
    out.extend(std::iter::repeat_n(' ', indent));
}
