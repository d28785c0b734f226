//! Finds secrets in texts: keys, tokens, user info, and what is assigned to a name that sounds like a secret. Pure.
//!
//! Texts are cut, nested in one another and written by whoever. Where an end is not to be found all up to the end is taken.

use anyhow::Context as _;
use regex::{Captures, Match, Regex};
use serde::de::IgnoredAny;

use super::REDACTED;
use super::names::{is_header, is_secretive};

/// Bytes that a private key may have in a text, prefixes of lines included. Who has OLM log half of one hides no more of the log.
const MAX_KEY: usize = 64 * 1024;

/// Letters before a name that is the first of its line.
const MAX_INDENT: usize = 200;

/// What finds them.
pub(super) struct Forms {
    begin: Regex,
    end: Regex,
    url: Regex,
    others: Vec<(Regex, &'static str)>,
    name: Regex,
    assignment: Regex,
    next_word: Regex,
    item: Regex,
    colour: Regex,
}

/// What follows a name.
enum Separator {
    /// `name: `, `name=`.
    Assignment,
    /// `"name": `
    OfQuoted,
    /// `--name `
    Blank,
}

impl Forms {
    /// All of them.
    ///
    /// # Errors
    /// A pattern is wrong, which a test would have found.
    pub(super) fn new() -> anyhow::Result<Self> {
        let new = |form: &str| Regex::new(form).context("a pattern is wrong");
        let others = [
            // A private key, or a bundle with one, as bytes are written in JSON.
            (
                r"LS0tLS1CRUdJTi[A-Za-z0-9+/=_-]*(?:(?:\\+[nr]|\s)+[A-Za-z0-9+/_-]{40,}=*)*(?:(?:\\+[nr]|\s)+[A-Za-z0-9+/_-]*={1,2})?",
                REDACTED,
            ),
            (r"[^\s:/@]+:\S*@(\w+\()", "REDACTED@${1}"),
            (r#"(?i)\b(bearer|basic)\s+[^\s"',;]{6,}"#, "${1} REDACTED"),
            (r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_.-]+", REDACTED),
        ];
        let others = others
            .into_iter()
            .map(|(form, with)| Ok((new(form)?, with)))
            .collect::<anyhow::Result<_>>()?;
        Ok(Self {
            begin: new(r"-{4,5} ?BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)? ?-{4,5}")?,
            end: new(r"-{4,5} ?END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)? ?-{4,5}")?,
            url: new(r"(?i)\b([a-z][a-z0-9+.-]*://)(\S*)")?,
            others,
            name: new(r"-{0,2}\w[\w.-]*")?,
            assignment: new(r#"^(\\*["'`])?\s*(?::=|=>|[:=])[ \t]*"#)?,
            next_word: new(r"^[ \t]+")?,
            item: new(r#"^\\*["'](?:[ \t]*,\s*|[ \t]+)"#)?,
            colour: new(r"\x1b\[[0-9;]*[A-Za-z]")?,
        })
    }

    /// A text without them, and how many there were.
    pub(super) fn text(&self, text: &str) -> (String, usize) {
        let (text, keys) = self.without_keys(text);
        let (text, found) = self.without_words(&text);
        (text, keys + found)
    }

    /// The same of a log. What is said in one line ends with it.
    pub(super) fn log(&self, log: &str) -> (String, usize) {
        // Colours stand between names and what they are given.
        let log = self.colour.replace_all(log, "");
        let (log, mut count) = self.without_keys(&log);
        let mut text = String::with_capacity(log.len());
        for line in log.split_inclusive('\n') {
            let (said, found) = self.without_words(line.trim_end_matches('\n'));
            count += found;
            text.push_str(&said);
            if line.ends_with('\n') {
                text.push('\n');
            }
        }
        (text, count)
    }

    /// Private keys go from their first line to their last. One of the two may be cut off.
    fn without_keys(&self, text: &str) -> (String, usize) {
        let mut begins = self.begin.find_iter(text).peekable();
        let mut ends = self.end.find_iter(text).peekable();
        let (mut kept, mut at, mut count) = (String::with_capacity(text.len()), 0, 0);
        loop {
            while begins.next_if(|begin| begin.start() < at).is_some() {}
            while ends.next_if(|end| end.start() < at).is_some() {}
            let end = ends.peek();
            let is_first = |begin: &&Match<'_>| end.is_none_or(|end| begin.start() < end.start());
            let (from, to) = match (begins.peek().filter(is_first), end) {
                (Some(begin), end) => {
                    let most = text.floor_char_boundary(begin.end().saturating_add(MAX_KEY));
                    let end = end.map(Match::end).filter(|end| *end <= most);
                    (begin.start(), end.unwrap_or(most))
                }
                (None, Some(end)) => {
                    let from = text.floor_char_boundary(end.start().saturating_sub(MAX_KEY));
                    (from, end.end())
                }
                (None, None) => {
                    kept.push_str(text.get(at..).unwrap_or_default());
                    return (kept, count);
                }
            };
            kept.push_str(text.get(at..from).unwrap_or_default());
            kept.push_str(REDACTED);
            count += 1;
            at = to;
        }
    }

    fn without_words(&self, text: &str) -> (String, usize) {
        let mut count = 0;
        let replaced = self.url.replace_all(text, |captures: &Captures<'_>| {
            let (scheme, rest) = (&captures[1], &captures[2]);
            match user_info(rest) {
                Some(end) => {
                    count += 1;
                    format!("{scheme}{REDACTED}{}", rest.get(end..).unwrap_or_default())
                }
                None => captures[0].to_owned(),
            }
        });
        let mut text = replaced.into_owned();
        for (form, with) in &self.others {
            let replaced = form.replace_all(&text, |captures: &Captures<'_>| {
                count += 1;
                let mut to = String::new();
                captures.expand(with, &mut to);
                to
            });
            if let std::borrow::Cow::Owned(replaced) = replaced {
                text = replaced;
            }
        }
        let (text, assigned) = self.without_assigned(&text);
        (text, count + assigned)
    }

    /// What is assigned to names, and what follows flags.
    fn without_assigned(&self, text: &str) -> (String, usize) {
        let (mut kept, mut from, mut at, mut count) = (String::with_capacity(text.len()), 0, 0, 0);
        while let Some(found) = self.name.find_at(text, at) {
            at = found.end();
            if !is_secretive(found.as_str()) {
                continue;
            }
            let Some((separator, start)) = self.separator(text, &found) else {
                continue;
            };
            let end = self.value_end(text, &found, &separator, start);
            if end <= start {
                continue;
            }
            kept.push_str(text.get(from..start).unwrap_or_default());
            kept.push_str(REDACTED);
            count += 1;
            from = self.next_end(text, &separator, start, end);
            at = from;
        }
        kept.push_str(text.get(from..).unwrap_or_default());
        (kept, count)
    }

    /// A flag that takes no value is followed by another one, which may take one: both are taken.
    fn next_end(&self, text: &str, separator: &Separator, start: usize, end: usize) -> usize {
        let value = text.get(start..end).unwrap_or_default();
        let is_flag = matches!(separator, Separator::Blank) && value.starts_with('-') && !value.contains('=');
        let next = self.next_word.find(text.get(end..).unwrap_or_default());
        match next {
            Some(next) if is_flag && is_secretive(value) => word_end(text, end + next.end()),
            _ => end,
        }
    }

    /// What follows a name, and where the value begins.
    fn separator(&self, text: &str, name: &Match<'_>) -> Option<(Separator, usize)> {
        let rest = text.get(name.end()..)?;
        if let Some(captures) = self.assignment.captures(rest) {
            let end = name.end() + captures.get(0)?.end();
            return Some(match captures.get(1) {
                Some(_) => (Separator::OfQuoted, end),
                None => (Separator::Assignment, end),
            });
        }
        if !name.as_str().starts_with('-') {
            return None;
        }
        let next = self.next_word.find(rest).or_else(|| self.item.find(rest))?;
        Some((Separator::Blank, name.end() + next.end()))
    }

    /// Where the value ends that begins at `start`.
    fn value_end(&self, text: &str, name: &Match<'_>, separator: &Separator, start: usize) -> usize {
        let rest = text.get(start..).unwrap_or_default();
        let escapes = rest.len() - rest.trim_start_matches('\\').len();
        let quote = rest.trim_start_matches('\\').chars().next();
        if let Some(quote @ ('"' | '\'' | '`')) = quote {
            let inner = start + escapes + 1;
            let end = match quote {
                '"' => closing(text, inner, escapes),
                quote => text
                    .get(inner..)
                    .and_then(|rest| rest.find(quote))
                    .map(|at| inner + at + 1),
            };
            return end.map_or(text.len(), |end| glued_end(text, separator, end));
        }
        match separator {
            Separator::OfQuoted => json_end(text, start),
            Separator::Assignment if is_header(name.as_str()) => line_end(text, start),
            Separator::Assignment if is_yaml(text, name.end()) => match indentation(text, name.start()) {
                Some(indent) => block_end(text, indent, start),
                None => word_end(text, start),
            },
            Separator::Assignment | Separator::Blank => word_end(text, start),
        }
    }
}

/// Where user info ends in what follows the scheme of an address; none if there is none.
fn user_info(rest: &str) -> Option<usize> {
    let delimiter = rest
        .find(['/', '?', '#', '"', '\'', '<', '>'])
        .unwrap_or(rest.len());
    let (authority, _) = rest.split_at(delimiter);
    let last = rest.rfind('@');
    let is_port = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let password = authority.rsplit_once(':').map(|(_, after)| after);
    match (last, password) {
        (Some(last), _) if authority.contains('@') => Some(last),
        (Some(last), Some(after)) if !is_port(after) => Some(last),
        // A port, or the first digits of a password. Names of images have a digest, and other texts begin behind a quote.
        (Some(last), Some(_)) => {
            let is_image = rest.get(last..).is_some_and(|host| host.starts_with("@sha"));
            let is_other = rest.find(['"', '<', '>']).is_some_and(|quote| quote < last);
            (!is_image && !is_other).then_some(last)
        }
        // It was cut before its host.
        (None, Some(_)) if rest.ends_with('…') || rest.ends_with("...") => Some(rest.len()),
        _ => None,
    }
}

/// Behind the quote that closes one opened behind so many backslashes: texts of JSON in texts of JSON have more before each quote.
fn closing(text: &str, inner: usize, escapes: usize) -> Option<usize> {
    // One before each quote of the text itself, three before those of a text in it, and so on.
    if !(escapes + 1).is_power_of_two() {
        return None;
    }
    let (period, deeper) = (2 * (escapes + 1), 2 * escapes + 1);
    let mut run = 0;
    for (at, byte) in text.bytes().enumerate().skip(inner) {
        match byte {
            b'\\' => run += 1,
            b'"' if run % period != deeper => return Some(at + 1),
            _ => run = 0,
        }
    }
    None
}

/// Up to a blank.
fn word_end(text: &str, start: usize) -> usize {
    let rest = text.get(start..).unwrap_or_default();
    start + rest.find(char::is_whitespace).unwrap_or(rest.len())
}

/// What is glued to a quoted value is of it: a shell takes `'a'b` for one word, and a quote may be of the value.
fn glued_end(text: &str, separator: &Separator, start: usize) -> usize {
    let rest = text.get(start..).unwrap_or_default();
    let more = match separator {
        // The text that it is in may end here.
        Separator::OfQuoted => "",
        _ => "\"'`$\\_",
    };
    match rest.starts_with(|letter: char| letter.is_alphanumeric() || more.contains(letter)) {
        true => word_end(text, start),
        false => start,
    }
}

fn line_end(text: &str, start: usize) -> usize {
    let rest = text.get(start..).unwrap_or_default();
    start + rest.find('\n').unwrap_or(rest.len())
}

/// A value of JSON that is no text.
fn json_end(text: &str, start: usize) -> usize {
    let rest = text.get(start..).unwrap_or_default();
    let mut values = serde_json::Deserializer::from_str(rest).into_iter::<IgnoredAny>();
    let parsed = matches!(values.next(), Some(Ok(_)));
    match (rest.starts_with(['{', '[']), parsed) {
        (true, true) => start + values.byte_offset(),
        (true, false) => text.len(),
        (false, true) => {
            let is_end = |letter: char| letter.is_whitespace() || ",}]".contains(letter);
            start + rest.find(is_end).unwrap_or(rest.len())
        }
        (false, false) => word_end(text, start),
    }
}

/// Letters before a name that is the first of its line.
fn indentation(text: &str, at: usize) -> Option<usize> {
    let from = text.floor_char_boundary(at.saturating_sub(MAX_INDENT));
    let line = text.get(from..at)?;
    let line = match line.rsplit_once('\n') {
        Some((_, line)) => line,
        None if from == 0 => line,
        None => return None,
    };
    line.trim_start_matches([' ', '-', '\t', '"', '\''])
        .is_empty()
        .then_some(line.len())
}

fn is_yaml(text: &str, name_end: usize) -> bool {
    let rest = text.get(name_end..).unwrap_or_default();
    rest.starts_with(": ") || rest.starts_with(":\n") || rest.starts_with(":\r")
}

/// A value of YAML: the rest of the line, and the lines that are indented below it.
fn block_end(text: &str, indent: usize, start: usize) -> usize {
    let mut end = line_end(text, start);
    while let Some(line) = text.get(end..).and_then(|rest| rest.strip_prefix('\n')) {
        let line = line.split('\n').next().unwrap_or_default();
        let depth = line.len() - line.trim_start_matches([' ', '\t']).len();
        if !line.trim().is_empty() && depth <= indent {
            break;
        }
        end += 1 + line.len();
    }
    end
}
