use std::io::Read as _;

use serde_json::json;

use super::*;

mod folding;

fn value(text: &str) -> Value {
    parse(text.as_bytes()).unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

/// Scalars with the JSON that Go's sigs.k8s.io/yaml v1.4.0 gives for them.
#[test]
fn plain_scalars_resolve_as_yaml_1_1() {
    for (text, expected) in [
        ("yes", json!(true)),
        ("No", json!(false)),
        ("on", json!(true)),
        ("OFF", json!(false)),
        ("y", json!(true)),
        ("N", json!(false)),
        ("TRUE", json!(true)),
        ("tRUE", json!("tRUE")),
        ("~", json!(null)),
        ("Null", json!(null)),
        ("", json!(null)),
        ("<<", json!("<<")),
        ("0777", json!(511)),
        ("0o17", json!(15)),
        ("0x1F", json!(31)),
        ("0b101", json!(5)),
        ("-0b11", json!(-3)),
        ("08", json!(8)),
        ("1_000", json!(1000)),
        ("+12", json!(12)),
        ("-7", json!(-7)),
        ("18446744073709551615", json!(18_446_744_073_709_551_615_u64)),
        ("-9223372036854775808", json!(i64::MIN)),
        ("1.0", json!(1)),
        ("1.", json!(1)),
        (".5", json!(0.5)),
        ("1e3", json!(1000)),
        ("1e", json!("1e")),
        ("1.2.3", json!("1.2.3")),
        ("2021-01-02", json!("2021-01-02")),
        ("2021-01-02T03:04:05Z", json!("2021-01-02T03:04:05Z")),
        ("12:30", json!("12:30")),
        ("=", json!("=")),
        ("'yes'", json!("yes")),
        ("\"1\"", json!("1")),
        ("!!str 1", json!("1")),
        ("!!int 1", json!(1)),
        ("!!float 1", json!(1)),
        ("!!binary aGk=", json!("hi")),
        ("!local text", json!("text")),
    ] {
        assert_eq!(value(&format!("k: {text}"))["k"], expected, "{text}");
    }
}

#[test]
fn keys_become_text() {
    assert_eq!(
        value("y: 1\n2: 2\n1.5: 3\nnull_: 4\n0x10: 5\ntrue: 6"),
        json!({"true": 6, "2": 2, "1.5": 3, "null_": 4, "16": 5})
    );
    let error = parse(b"a: 1\n~: 2").expect_err("null key");
    assert_eq!(
        error.to_string(),
        "line 2: a mapping key must be text, a number or a boolean"
    );
}

#[test]
fn the_last_of_equal_keys_wins() {
    assert_eq!(value("a: 1\na: 2"), json!({"a": 2}));
}

#[test]
fn anchors_and_merge_keys_are_expanded() {
    assert_eq!(
        value("base: &b {x: 1, y1: 2}\nuse:\n  <<: *b\n  x: 3\nlist: [*b]"),
        json!({"base": {"x": 1, "y1": 2}, "use": {"x": 3, "y1": 2}, "list": [{"x": 1, "y1": 2}]})
    );
    assert_eq!(
        value("a: &a {x: 1}\nb: &b {x: 2, z: 3}\nc:\n  <<: [*a, *b]"),
        json!({"a": {"x": 1}, "b": {"x": 2, "z": 3}, "c": {"x": 1, "z": 3}})
    );
    assert_eq!(value("'<<': 1"), json!({"<<": 1}));
    assert!(parse(b"<<: 1").is_err());
}

#[test]
fn an_anchor_inside_itself_is_refused() {
    let error = parse(b"a: &a [*a]").expect_err("self reference");
    assert_eq!(error.to_string(), "line 1: an anchor's value contains itself");
}

#[test]
fn quoted_texts_may_continue_without_indentation() {
    assert_eq!(
        value("k:\n  a: 'one\n  two''s\n  three'\n  b: \"x\ny\\\n z\"\nc: \"p\n\nq\""),
        json!({"k": {"a": "one two's three", "b": "x yz"}, "c": "p\nq"})
    );
    assert!(parse(b"k: \"a\nb").is_err());
}

#[test]
fn a_block_text_at_the_end_of_input_gets_no_line_break() {
    assert_eq!(value("a: |\n  x"), json!({"a": "x"}));
    assert_eq!(value("a: |\n  x\n"), json!({"a": "x\n"}));
    assert_eq!(value("a: |\n  x\n  "), json!({"a": "x\n"}));
    assert_eq!(value("a: >-\n  x"), json!({"a": "x"}));
    assert_eq!(value("a:\n- |\n  x\n  y"), json!({"a": ["x\ny"]}));
    assert_eq!(value("b: |\n  x\na: 1"), json!({"a": 1, "b": "x\n"}));
}

#[test]
fn alias_bombs_are_refused() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let previous = format!("*a{}", level - 1);
        text.push_str(&format!(
            "a{level}: &a{level} [{}]\n",
            vec![previous; 10].join(", ")
        ));
    }
    let error = parse(text.as_bytes()).expect_err("bomb");
    assert!(
        error.to_string().ends_with("aliases expand to too many nodes"),
        "{error}"
    );
}

#[test]
fn deep_nesting_is_refused() {
    for text in [
        "[".repeat(100_000),
        "- ".repeat(100_000),
        "{\"a\":".repeat(100_000),
    ] {
        assert!(parse(text.as_bytes()).is_err());
    }
    let shallow = format!("{}1{}", "[".repeat(100), "]".repeat(100));
    assert!(parse(shallow.as_bytes()).is_ok());
}

#[test]
fn a_document_above_the_limit_is_refused() {
    let limits = Limits {
        document_bytes: 100,
        ..Limits::default()
    };
    let text = format!("a: 1\n---\nb: {}\n", "x".repeat(200));
    let results: Vec<_> = Documents::with_limits(text.as_bytes(), limits).collect();
    assert_eq!(results.len(), 2);
    let error = results[1].as_ref().expect_err("too large");
    assert_eq!(
        error.to_string(),
        "line 2: the document starting here is larger than 100 bytes"
    );
}

#[test]
fn documents_are_split_and_empty_ones_left_out() {
    let text =
        "# head\n---\na: 1\n---\n# only a comment\n---\n---\nb: |\n  x\n  --- not a marker\n...\n---\nc: 3\n";
    assert_eq!(
        parse_all(text.as_bytes()).expect("documents"),
        vec![
            json!({"a": 1}),
            json!({"b": "x\n--- not a marker\n"}),
            json!({"c": 3})
        ]
    );
    assert_eq!(parse(b"").expect("empty"), Value::Null);
    assert_eq!(parse(b"\n\n").expect("blank"), Value::Null);
}

#[test]
fn lines_in_errors_count_from_the_start_of_the_input() {
    let error = parse_all(b"a: 1\n---\nb: 2\n---\nc: [1\n").expect_err("broken");
    assert!(error.to_string().starts_with("invalid YAML: line "), "{error}");
    let Error::Syntax { line, .. } = error else {
        unreachable!("{error}")
    };
    assert!((5..=6).contains(&line), "{line}");
}

#[test]
fn json_is_recognised_and_streamed() {
    assert_eq!(
        parse_all(b" {\"a\": \"}\\\"\"}\n{\"b\": [1]}").expect("json"),
        vec![json!({"a": "}\""}), json!({"b": [1]})]
    );
    assert!(matches!(
        parse_all(b"{\"schema\": \"olm.package\", \"name\": "),
        Err(Error::UnexpectedEnd)
    ));
    assert_eq!(
        parse(b"{a: 1, b: yes}").expect("flow"),
        json!({"a": 1, "b": true})
    );
    let error = parse_all(b"{\"a\": 1}\n{\"b\": 2}\n{\"c\": x}").expect_err("third is broken");
    assert_eq!(
        error.to_string(),
        "invalid JSON: line 3, column 7: expected value"
    );
}

/// After one JSON document the rest may still be YAML, after two it may not; recorded from Go's stream decoder.
#[test]
fn json_may_turn_out_to_be_yaml_early() {
    for (input, expected) in [
        (
            "{\"a\": 1}\n---\n{\"b\": 2}\n---\nc: 3\n",
            Some(json!([{"a": 1}, {"b": 2}, {"c": 3}])),
        ),
        ("{\"a\": 1}\n{b: x}\n", Some(json!([{"a": 1}, {"b": "x"}]))),
        (
            "{\"a\": 1}\n\n---\n{\"b\": 2}\n",
            Some(json!([{"a": 1}, {"b": 2}])),
        ),
        ("{\"a\": 1}{\"b\": 2}\n---\n{\"c\": 3}\n", None),
        ("{\"a\": 1},{\"b\": 2}", None),
        ("{\"a\": 1} x", Some(json!([{"a": 1}, "x"]))),
    ] {
        let read = parse_all(input.as_bytes()).ok().map(Value::Array);
        assert_eq!(read, expected, "{input:?}");
    }
}

#[test]
fn catalogs_have_empty_documents() {
    for (input, expected) in [
        ("", Ok(json!([]))),
        ("\n", Ok(json!([null]))),
        ("---\n", Ok(json!([null]))),
        ("# only a comment\n", Ok(json!([null]))),
        ("a: 1\n---\n", Ok(json!([{"a": 1}]))),
        ("---\na: 1\n---\nb: 2", Ok(json!([{"a": 1}, {"b": 2}]))),
        ("--- # one\na: 1\n---   \nb: 2\n", Ok(json!([{"a": 1}, {"b": 2}]))),
        ("---\n---\na: 1\n", Ok(json!([null, {"a": 1}]))),
        ("a: 1\n---\n---\nb: 2\n", Ok(json!([{"a": 1}, {"b": 2}]))),
        ("a: 1\n---\n---\n", Ok(json!([{"a": 1}, null]))),
        ("a: 1\n---\n# tail\n", Ok(json!([{"a": 1}, null]))),
        ("# head\n---\na: 1\n", Ok(json!([null, {"a": 1}]))),
        ("a: 1\n---\n\n---\nb: 2\n", Ok(json!([{"a": 1}, null, {"b": 2}]))),
        (
            "--- {a: 1}\n",
            Err("line 1: invalid Yaml document separator: {a: 1}"),
        ),
        ("a: 1\n---x\n", Err("line 2: invalid Yaml document separator: x")),
        (
            "{\"a\": 1}\n---\n---\n{\"b\": 2}",
            Ok(json!([{"a": 1}, null, {"b": 2}])),
        ),
    ] {
        let read: Result<Vec<Value>, Error> =
            Documents::new(input.as_bytes()).with_empty_documents().collect();
        let read = read.map(Value::Array).map_err(|error| error.to_string());
        assert_eq!(read, expected.map_err(str::to_owned), "{input:?}");
    }
}

#[test]
fn whole_floats_are_written_as_integers() {
    for (float, expected) in [
        (1.0, "1\n"),
        (-1_234_567.0, "-1234567\n"),
        (-0.0, "0\n"),
        (1e20, "1e+20\n"),
        (1.5, "1.5\n"),
        (0.00001, "1e-05\n"),
        (1_234_567.5, "1.2345675e+06\n"),
    ] {
        assert_eq!(to_string(&json!(float)).expect("YAML"), expected, "{float}");
    }
}

#[test]
fn only_one_document_where_one_is_wanted() {
    assert!(matches!(parse(b"a: 1\n---\nb: 2"), Err(Error::MoreThanOne)));
    assert_eq!(
        parse_first(b"a: 1\n---\nb: 2").expect("first"),
        (json!({"a": 1}), true)
    );
    assert_eq!(parse_first(b"a: 1\n").expect("first"), (json!({"a": 1}), false));
}

#[test]
fn infinity_has_no_json() {
    assert_eq!(
        parse(b"a: .inf").expect_err("inf").to_string(),
        "line 1: JSON has no infinity and no NaN"
    );
}

/// Texts as Go's yaml.Marshal prints them.
#[test]
fn writes_what_go_writes() {
    let value = json!({
        "b": [1, {"x": [], "y": {}}, [["n"]]],
        "a": {"multi": "one\ntwo\n", "keep": "one\n\n", "strip": "one\ntwo", "lead": "  x\ny\n"},
        "texts": ["yes", "1", "", "plain text", "a: b", "a #b", "#c", "- x", "it's", "2021-01-02", "tab\there", " lead", "1:30"],
        "v2": 1.5, "v10": null, "v1": true,
    });
    insta::assert_snapshot!(to_string(&value).expect("text"), @r#"
    a:
      keep: |+
        one

      lead: |2
          x
        y
      multi: |
        one
        two
      strip: |-
        one
        two
    b:
    - 1
    - x: []
      "y": {}
    - - - "n"
    texts:
    - "yes"
    - "1"
    - ""
    - plain text
    - 'a: b'
    - 'a #b'
    - '#c'
    - '- x'
    - it's
    - "2021-01-02"
    - "tab\there"
    - ' lead'
    - "1:30"
    v1: true
    v2: 1.5
    v10: null
    "#);
}

proptest::proptest! {
    #[test]
    fn any_text_survives_writing_and_reading(text in "[ -~\n\t\u{e9}\u{85}\u{1f600}:#'\"\\-]{0,12}", key in "[ -~]{0,8}") {
        let value = json!({key: text, "list": [text]});
        let written = to_string(&value).expect("text");
        proptest::prop_assert_eq!(parse(written.as_bytes()).expect("own output"), value, "{}", written);
    }

    #[test]
    fn no_input_panics(text in "\\PC{0,60}") {
        let _ = parse_all(text.as_bytes());
    }
}

/// Small inputs that would expand to gigabytes, and large inputs, fail at once.
#[test]
fn hostile_documents_are_refused_within_limits() {
    let started = std::time::Instant::now();
    let big = "x".repeat(1 << 20);
    let copies = "*a,".repeat(100_000);
    let text_bomb = format!("name: bomb\na: &a {big}\nb: [{copies}]\n");
    let chain = (0..100).fold(big.clone(), |text, level| format!("&n{level} [{text}]"));
    let cases: [(String, &str); 7] = [
        (text_bomb, "aliases expand to too many nodes"),
        (chain, "aliases expand to too many nodes"),
        ("a: &a [*a]\n".to_owned(), "contains itself"),
        (format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000)), ""),
        (
            format!("{{\"a\":{}1{}}}", "[".repeat(100_000), "]".repeat(100_000)),
            "",
        ),
        (
            format!(
                "{{\"name\":\"huge.v1\",\"entries\":[{}1]}}",
                "1,".repeat(2_500_000)
            ),
            "the document starting here, named \"huge.v1\", holds more than 2000000 values",
        ),
        (
            format!("name: huge.v1\nentries: [{}1]\n", "1,".repeat(2_500_000)),
            "the document starting here, named \"huge.v1\", holds more than 2000000 values",
        ),
    ];
    for (text, expected) in cases {
        let error = parse(text.as_bytes()).expect_err(expected).to_string();
        assert!(error.contains(expected), "{error}");
    }
    assert!(started.elapsed().as_secs() < 120, "took {:?}", started.elapsed());
}

/// Ten gigabytes that are never in memory: reading stops at the limit and the error names the bundle.
#[test]
fn an_endless_text_is_refused_by_name() {
    for head in [
        "{\"schema\": \"olm.bundle\", \"name\": \"huge.v1\", \"image\": \"",
        "name: huge.v1\nimage: ",
    ] {
        let endless = std::io::BufReader::new(head.as_bytes().chain(std::io::repeat(b'x').take(10 << 30)));
        let limits = Limits {
            document_bytes: 1 << 20,
            ..Limits::default()
        };
        let error = Documents::with_limits(endless, limits)
            .next()
            .expect("an item")
            .expect_err("too large");
        assert_eq!(
            error.to_string(),
            "line 1: the document starting here, named \"huge.v1\", is larger than 1048576 bytes"
        );
    }
}

/// Upstream's tools break lines this way; recorded from `opm render -o yaml`.
#[test]
fn long_texts_are_broken_at_blanks() {
    let value: Value = serde_json::from_str(
        r##"{"schema": "x", "a": "lorem ipsum dolor sit amet consetetur lorem ipsum dolor sit amet consetetur lorem ipsum dolor sit amet consetetur lorem ipsum dolor sit amet consetetur", "b": {"c": ["lorem ipsum dolor sit amet consetetur lorem ipsum dolor sit amet consetetur lorem ipsum dolor sit amet consetetur", "it's: lorem ipsum dolor sit amet consetetur lorem ipsum dolor sit amet consetetur lorem ipsum dolor sit amet consetetur end", {"d": "tab\tlorem ipsum dolor sit amet consetetur lorem ipsum dolor sit amet consetetur lorem ipsum dolor sit amet consetetur  two  blanks"}]}, "e": "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx y", "k lorem ipsum dolor sit amet consetetur lorem ipsum dolor sit amet consetetur k": 1, "z": "lorem ipsum dolor sit amet consetetur lorem ipsum dolor sit amet consetetur \nlorem ipsum dolor sit amet consetetur lorem ipsum dolor sit amet consetetur lorem ipsum dolor sit amet consetetur lorem ipsum dolor sit amet consetetur end", "q": "# lorem ipsum dolor sit amet consetetur lorem ipsum dolor sit amet consetetur double  blanks at  the  edge  of  eighty  columns  here", "dq": "\u0007lorem ipsum dolor sit amet consetetur lorem ipsum dolor sit amet consetetur a  b  c  d  e  f  g h  i"}"##,
    )
    .expect("JSON");
    let expected = r##"a: lorem ipsum dolor sit amet consetetur lorem ipsum dolor sit amet consetetur lorem
  ipsum dolor sit amet consetetur lorem ipsum dolor sit amet consetetur
b:
  c:
  - lorem ipsum dolor sit amet consetetur lorem ipsum dolor sit amet consetetur lorem
    ipsum dolor sit amet consetetur
  - 'it''s: lorem ipsum dolor sit amet consetetur lorem ipsum dolor sit amet consetetur
    lorem ipsum dolor sit amet consetetur end'
  - d: "tab\tlorem ipsum dolor sit amet consetetur lorem ipsum dolor sit amet consetetur
      lorem ipsum dolor sit amet consetetur  two  blanks"
dq: "\alorem ipsum dolor sit amet consetetur lorem ipsum dolor sit amet consetetur
  a  b  c  d  e  f  g h  i"
e: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
  y
k lorem ipsum dolor sit amet consetetur lorem ipsum dolor sit amet consetetur k: 1
q: '# lorem ipsum dolor sit amet consetetur lorem ipsum dolor sit amet consetetur
  double  blanks at  the  edge  of  eighty  columns  here'
schema: x
z: "lorem ipsum dolor sit amet consetetur lorem ipsum dolor sit amet consetetur \nlorem
  ipsum dolor sit amet consetetur lorem ipsum dolor sit amet consetetur lorem ipsum
  dolor sit amet consetetur lorem ipsum dolor sit amet consetetur end"
"##;
    let written = to_string(&value).expect("YAML");
    assert_eq!(written, expected);
    assert_eq!(parse(written.as_bytes()).expect("YAML"), value);
}

/// Upstream's tools quote texts that could be dates; recorded from `opm render -o yaml`.
#[test]
fn dates_are_quoted() {
    for (text, is_quoted) in [
        ("2001-01-01", true),
        ("2001-1-1", true),
        ("2019-08-23T16:47:10Z", true),
        ("2019-08-23t16:47:10.123+02:00", true),
        ("2001-12-14 21:59:43.10", true),
        ("2019-08-23T16:47:10PDT", false),
        ("2019-08-23T16:47Z", false),
        ("2001-12-14 21:59:43.10 -5", false),
        ("2001-13-01", false),
        ("2001-00-01", false),
        ("2001-01-011", false),
        ("01-01-2001", false),
    ] {
        let expected = if is_quoted {
            format!("\"{text}\"\n")
        } else {
            format!("{text}\n")
        };
        assert_eq!(to_string(text).expect("YAML"), expected);
    }
}

#[test]
fn the_reference_page_lists_every_limit() {
    let page = include_str!("../../../../docs/reference/limits.md");
    // A new field fails to compile here.
    let Limits {
        document_bytes,
        depth,
        nodes,
        alias_nodes,
        alias_bytes,
    } = Limits::default();
    for (name, value) in [
        ("Size of a document", format!("{} MiB", document_bytes >> 20)),
        ("Depth", depth.to_string()),
        ("Values and keys", nodes.to_string()),
        ("Values that aliases add", alias_nodes.to_string()),
        ("Text that aliases add", format!("{} MiB", alias_bytes >> 20)),
    ] {
        let row = format!("| {name} | {value} |");
        assert!(page.contains(&row), "no row {row}");
    }
}
