//! Mutations as switches: a program in which each clause is there or not there as the environment says.
//!
//! Compiling takes most of the time of trying a mutation, so all that can be are compiled into one program. A clause that is an
//! expression becomes `(if ON { without } else { with })`, one that is a statement the same without parentheses, and the
//! condition of an `if` is taken out of it. What is none of these is compiled for itself.

use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};

use super::list::Mutation;

/// Names the mutation that is on.
pub(super) const VARIABLE: &str = "OLM_MUTATION";

/// A source with switches.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Switched {
    pub text: String,
    /// Which lines the switches of the mutations take, by the number of the mutation.
    pub lines: Vec<(usize, RangeInclusive<usize>)>,
    /// The numbers of those that got none.
    pub left_out: Vec<usize>,
}

/// Puts switches into a source: each is the number of the mutation, where its clause stands, and the mutation. `package` stands
/// before the number in what turns it on.
pub(super) fn switch(text: &str, package: &str, mutations: &[(usize, Range<usize>, &Mutation)]) -> Switched {
    // Of several at one place each is a switch around those before it.
    let mut places: BTreeMap<(usize, usize), Vec<(usize, &Mutation)>> = BTreeMap::new();
    for (number, place, mutation) in mutations {
        places
            .entry((place.start, place.end))
            .or_default()
            .push((*number, mutation));
    }
    let mut switched = Switched::default();
    let mut done = 0;
    for ((start, end), here) in places {
        let mut code = text[start..end].to_owned();
        let mut on = Vec::new();
        for (number, mutation) in here {
            let with = (start >= done).then(|| with_switch(&code, mutation, &id(package, number)));
            match with.flatten() {
                Some(with) => {
                    code = with;
                    on.push(number);
                }
                None => switched.left_out.push(number),
            }
        }
        if on.is_empty() {
            continue;
        }
        switched.text.push_str(&text[done..start]);
        let first = line_count(&switched.text);
        switched.text.push_str(&code);
        let lines = first..=line_count(&switched.text);
        switched
            .lines
            .extend(on.into_iter().map(|number| (number, lines.clone())));
        done = end;
    }
    switched.text.push_str(&text[done..]);
    switched
}

/// What the variable says to turn a mutation on.
pub(super) fn id(package: &str, number: usize) -> String {
    format!("{package}:{number}")
}

fn line_count(text: &str) -> usize {
    text.matches('\n').count() + 1
}

/// A clause with a switch; none where that would be no Rust.
fn with_switch(from: &str, mutation: &Mutation, id: &str) -> Option<String> {
    let to = mutation.to.as_str();
    if mutation.alone || !is_balanced(from) || !is_balanced(to) {
        return condition(from, mutation, id);
    }
    let on = on(id);
    let (start, body, end) = parts(from);
    let without = to.trim();
    let is_statement = body.ends_with(';') || (without.is_empty() && body.ends_with('}'));
    if is_statement {
        // Items, and what is part of something.
        let other = [
            "let ", "use ", "fn ", "const ", "static ", "type ", "pub", "#", ".", "&&", "||", "?",
        ];
        let is_other = other.iter().any(|start| body.starts_with(start));
        return (!is_other).then(|| format!("{start}if {on} {{ {without} }} else {{ {body} }}{end}"));
    }
    let (body, without) = match (body.strip_suffix(','), without.strip_suffix(',')) {
        (Some(body), Some(without)) => {
            return expression(body, without, &on).map(|code| format!("{start}{code},{end}"));
        }
        (None, None) => (body, without),
        _ => return None,
    };
    expression(body, without, &on).map(|code| format!("{start}{code}{end}"))
}

fn on(id: &str) -> String {
    format!(
        "**{{ static ON: ::std::sync::LazyLock<bool> = ::std::sync::LazyLock::new(|| \
         ::std::env::var_os(\"{VARIABLE}\").is_some_and(|on| on == \"{id}\")); &ON }}"
    )
}

/// The text and the space around it.
fn parts(text: &str) -> (&str, &str, &str) {
    let body = text.trim();
    let start = text.find(body).unwrap_or_default();
    (&text[..start], body, &text[start + body.len()..])
}

fn expression(body: &str, without: &str, on: &str) -> Option<String> {
    let is_part = |text: &str| {
        text.is_empty()
            || ["&&", "||", ".", "?", "=>", "let ", "if let "]
                .iter()
                .any(|start| text.starts_with(start))
            || ["&&", "||", ".", "=>"].iter().any(|end| text.ends_with(end))
            || top_level(text)
                .any(|rest| rest.starts_with("=>") || rest.starts_with(';') || rest.starts_with(','))
    };
    (!is_part(body) && !is_part(without)).then(|| format!("(if {on} {{ {without} }} else {{ {body} }})"))
}

/// `if x {` and what it becomes, with the switch in the condition.
fn condition(from: &str, mutation: &Mutation, id: &str) -> Option<String> {
    if mutation.alone {
        return None;
    }
    let (start, body, end) = parts(from);
    let inner = |text: &'_ str| -> Option<String> {
        let inner = text.trim().strip_prefix("if ")?.strip_suffix('{')?.trim();
        (is_balanced(inner) && !inner.contains("let ")).then(|| inner.to_owned())
    };
    let (with, without) = (inner(body)?, inner(&mutation.to)?);
    Some(format!(
        "{start}if {} {{{end}",
        expression(&with, &without, &on(id))?
    ))
}

/// True when each bracket has its other half, as far as can be seen without a parser.
fn is_balanced(text: &str) -> bool {
    let mut open = Vec::new();
    for c in code_of(text).map(|(_, c)| c) {
        match c {
            '(' => open.push(')'),
            '[' => open.push(']'),
            '{' => open.push('}'),
            ')' | ']' | '}' if open.pop() != Some(c) => return false,
            _ => {}
        }
    }
    open.is_empty()
}

/// What begins outside of all brackets.
fn top_level(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    code_of(text).filter_map(move |(at, c)| {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        (depth == 0).then(|| &text[at..])
    })
}

/// The characters that are not in a text.
fn code_of(text: &str) -> impl Iterator<Item = (usize, char)> {
    let (mut quoted, mut escaped) = (false, false);
    let characters: Vec<(usize, char)> = text.char_indices().collect();
    let at = |index: usize| characters.get(index).map(|(_, c)| *c);
    let mut kept = Vec::new();
    for (index, (position, c)) in characters.iter().enumerate() {
        if quoted {
            (quoted, escaped) = (escaped || *c != '"', !escaped && *c == '\\');
        } else if *c == '"' {
            quoted = true;
        } else if index > 0 && at(index - 1) == Some('\'') && at(index + 1) == Some('\'') {
            // A bracket as a character.
        } else {
            kept.push((*position, *c));
        }
    }
    kept.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn switched(from: &str, to: &str) -> Option<String> {
        let mutation = Mutation {
            from: from.to_owned(),
            to: to.to_owned(),
            ..Mutation::default()
        };
        with_switch(from, &mutation, "p:1").map(|code| code.replace(&on("p:1"), "ON"))
    }

    #[test]
    fn expressions_statements_and_conditions_get_a_switch() {
        for (from, to, expected) in [
            ("a == b", "false", "(if ON { false } else { a == b })"),
            ("  f(x);\n", "", "  if ON {  } else { f(x); }\n"),
            ("f(x);", "let _ = x;", "if ON { let _ = x; } else { f(x); }"),
            (
                "if a(')') {",
                "if false {",
                "if (if ON { false } else { a(')') }) {",
            ),
            ("f(x),", "0,", "(if ON { 0 } else { f(x) }),"),
            ("if a {\n  b();\n}", "", "if ON {  } else { if a {\n  b();\n} }"),
        ] {
            assert_eq!(switched(from, to).as_deref(), Some(expected), "{from}");
        }
    }

    #[test]
    fn several_at_one_place_stand_around_each_other() {
        let mutation = |to: &str| Mutation {
            from: "a()".to_owned(),
            to: to.to_owned(),
            ..Mutation::default()
        };
        let (one, two) = (mutation("1"), mutation("2"));
        let found = switch("x = a();", "p", &[(0, 4..7, &one), (1, 4..7, &two)]);
        let text = found.text.replace(&on("p:0"), "ON0").replace(&on("p:1"), "ON1");
        assert_eq!(text, "x = (if ON1 { 2 } else { (if ON0 { 1 } else { a() }) });");
    }

    #[test]
    fn what_is_part_of_something_gets_none() {
        for (from, to) in [
            (".rev()\n", ""),
            (".rev();", ";"),
            ("a || ", ""),
            ("Some(x) => 1,", ""),
            ("Some(x) => 1,", "Some(x) => 2,"),
            ("let x = 1;", "let x = 2;"),
            ("const X: usize = 1;", "const X: usize = 2;"),
            ("if let Some(x) = y {", "if let Some(x) = z {"),
            ("f(\"(\", x", "f("),
            ("a, b", "b"),
        ] {
            assert_eq!(switched(from, to), None, "{from}");
        }
    }

    #[test]
    fn several_in_one_file_know_their_lines_and_do_not_overlap() {
        let text = "one\ntwo(\n1)\nthree\n";
        let mutation = |from: &str| Mutation {
            from: from.to_owned(),
            to: "x".to_owned(),
            ..Mutation::default()
        };
        let (first, second, third) = (mutation("two(\n1)"), mutation("1"), mutation("three"));
        let place = |mutation: &Mutation| mutation.place(text).unwrap();
        let found = switch(
            text,
            "p",
            &[
                (7, place(&third), &third),
                (4, place(&first), &first),
                (5, place(&second), &second),
            ],
        );
        assert_eq!(found.left_out, [5]);
        assert_eq!(found.lines, [(4, 2..=3), (7, 4..=4)]);
        assert!(found.text.starts_with("one\n(if **{ static ON"), "{}", found.text);
        assert!(found.text.contains("\"p:7\""), "{}", found.text);
    }
}
