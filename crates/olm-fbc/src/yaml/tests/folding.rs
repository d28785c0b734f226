//! Lines of quoted texts: weakly indented, with tabs, with the line endings of other systems.

use olm_testing::properties;
use proptest::prelude::*;
use serde_json::json;

use super::super::parse;

/// Results of Go's `sigs.k8s.io/yaml` for quoted texts whose lines begin with tabs, or are indented no more than their key.
/// Published bundles contain the first form.
#[test]
fn continuation_lines_may_begin_with_tabs_and_end_with_carriage_returns() {
    for (text, expected) in [
        (
            "a:\r\n  k: \"a\\\r\n\t\\  b\"\r\nc: 1\r\n",
            json!({"a": {"k": "a  b"}, "c": 1}),
        ),
        ("k: \"a\\\n\t\\  b\"\n", json!({"k": "a  b"})),
        ("k: \"a\\\n\t \t\\tb\"\n", json!({"k": "a\tb"})),
        ("k: \"a\n\tb\"\n", json!({"k": "a b"})),
        ("k: \"a\r\n\tb\"\r\n", json!({"k": "a b"})),
        ("k: \"a  \t\n\t\n \t\n\tb \t c\"\n", json!({"k": "a\n\nb \t c"})),
        (
            "k: 'a\n\tb it''s\n\tc'\nd: 2\n",
            json!({"d": 2, "k": "a b it's c"}),
        ),
        ("l:\n- 'a\n\tb \"q\n\tc'\n- x\n", json!({"l": ["a b \"q c", "x"]})),
        (
            "k: \"a\n\tb 'q\n\tc \\\"d\n\te\"\nz: \"u\n\tv\"\n",
            json!({"k": "a b 'q c \"d e", "z": "u v"}),
        ),
        ("k: \"a\n\t\"\n", json!({"k": "a "})),
        ("k: \"\n\ta\"\n", json!({"k": " a"})),
        ("k: \"\\\n\ta\"\n", json!({"k": "a"})),
        ("k: \"a\\\n\n\tb\"\n", json!({"k": "a\nb"})),
        ("k: \"a \\\n\tb\"\n", json!({"k": "a b"})),
        ("k: [\"a\n\tb\", c]\n", json!({"k": ["a b", "c"]})),
        ("k: {x: \"a\n\tb\"}\n", json!({"k": {"x": "a b"}})),
        ("# say \"no\nk: \"a\n\tb\"\n", json!({"k": "a b"})),
        ("m:\n  k: \"a\n  b\n b\nb\"\n", json!({"m": {"k": "a b b b"}})),
        ("\"a\n\tb\"\n", json!("a b")),
        ("k: \"a\n\t\\\n\tb\"\n", json!({"k": "a b"})),
        ("k: \"\\x41\\\r\n\t\\u0042\\\r\n\tC\"\r\n", json!({"k": "ABC"})),
        ("k: \"a\n\t#b\"\n", json!({"k": "a #b"})),
        ("k: \"a\n\t- b: c\"\n", json!({"k": "a - b: c"})),
    ] {
        assert_eq!(parse(text.as_bytes()).expect(text), expected, "{text:?}");
    }
}

/// A quoted JSON text has a quote on every line, and may have more lines than the limit of repairs for a document.
#[test]
fn a_quoted_text_of_many_weak_lines_is_read() {
    let line = "\t\\\"key\\\": \\\"it's\\\",\\\r\n";
    let text = format!("k: \"[\\\r\n{}\t]\"\r\nz: 1\r\n", line.repeat(1_000));
    let value = parse(text.as_bytes()).expect("read");
    assert_eq!(value["z"], 1);
    assert_eq!(
        value["k"],
        format!("[{}]", "\"key\": \"it's\",".repeat(1_000)),
        "{value}"
    );
}

#[test]
fn a_quoted_text_that_never_ends_is_refused_with_its_line() {
    let error = parse(b"a: 1\nk: \"a\n\tb\nz: 1\n").expect_err("no end");
    assert!(error.to_string().starts_with("invalid YAML: line "), "{error}");
}

/// End of a line of a quoted text.
#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    Break,
    EscapedBreak,
}

#[derive(Debug, Clone)]
struct Line {
    /// Pieces as written, with their meaning; `None` for a blank that may be folded away.
    pieces: Vec<(&'static str, Option<&'static str>)>,
    end: End,
    has_carriage_return: bool,
}

fn line() -> impl Strategy<Value = Line> {
    let piece = prop::sample::select(vec![
        ("a", Some("a")),
        ("b#", Some("b#")),
        ("-", Some("-")),
        (" ", None),
        ("\t", None),
        ("\\t", Some("\t")),
        ("\\ ", Some(" ")),
        ("\\\"", Some("\"")),
        ("\\\\", Some("\\")),
        ("'", Some("'")),
    ]);
    let end = prop::sample::select(vec![End::Break, End::Break, End::EscapedBreak]);
    (prop::collection::vec(piece, 0..5), end, any::<bool>()).prop_map(|(pieces, end, has_carriage_return)| {
        // Three dashes at the start of a line divide documents.
        let pieces = match pieces.first() {
            Some(("-", _)) => Vec::new(),
            _ => pieces,
        };
        Line {
            pieces,
            end,
            has_carriage_return,
        }
    })
}

fn written(lines: &[Line]) -> String {
    let mut out = String::new();
    for (number, line) in lines.iter().enumerate() {
        out.extend(line.pieces.iter().map(|(text, _)| *text));
        if number + 1 < lines.len() {
            out.push_str(if line.end == End::EscapedBreak { "\\" } else { "" });
            out.push_str(if line.has_carriage_return { "\r\n" } else { "\n" });
        }
    }
    out
}

/// Folds lines by this rule: blanks around a line break are dropped. A break becomes a blank, or as many breaks as empty lines
/// follow. An escaped break becomes nothing, and keeps the blanks before it.
fn folded(lines: &[Line]) -> String {
    let mut out = String::new();
    let mut joint: Option<(End, usize)> = None;
    for (number, line) in lines.iter().enumerate() {
        let is_last = number + 1 == lines.len();
        let mut pieces = line.pieces.as_slice();
        while let ([(_, None), rest @ ..], true) = (pieces, number > 0) {
            pieces = rest;
        }
        while let ([rest @ .., (_, None)], true) = (pieces, !is_last && line.end == End::Break) {
            pieces = rest;
        }
        if let Some((_, empty)) = &mut joint
            && pieces.is_empty()
            && !is_last
            && line.end == End::Break
        {
            *empty += 1;
            continue;
        }
        match joint.take() {
            Some((End::Break, 0)) => out.push(' '),
            Some((_, empty)) => out.push_str(&"\n".repeat(empty)),
            None => {}
        }
        out.extend(pieces.iter().map(|(text, meaning)| meaning.unwrap_or(text)));
        joint = (!is_last).then_some((line.end, 0));
    }
    out
}

proptest! {
    #![proptest_config(properties::config(256))]
    #[test]
    fn quoted_lines_are_folded_by_the_rule(lines in prop::collection::vec(line(), 1..7)) {
        let text = format!("m:\n  k: \"{}\"\nz: 1\n", written(&lines));
        let expected = json!({"m": {"k": folded(&lines)}, "z": 1});
        prop_assert_eq!(parse(text.as_bytes()).expect(&text), expected, "{:?}", text);
    }
}
