//! Checks of manifests that need types and engines this crate does not have.

use serde_json::Value;

/// Checks that this crate cannot do itself, implemented by crates with the types and engines for them.
pub trait ManifestValidator {
    /// Returns why an object is not a ClusterServiceVersion, by the types of its fields; `None` if it is one.
    fn csv_problem(&self, csv: &Value) -> Option<String>;
    /// Returns why a text is not a CEL rule; `None` if it is one.
    fn rule_problem(&self, rule: &str) -> Option<String>;
}

/// Validates only what needs no types and engines.
#[derive(Clone, Copy, Debug, Default)]
pub struct ShapeValidator;

impl ManifestValidator for ShapeValidator {
    fn csv_problem(&self, _: &Value) -> Option<String> {
        None
    }

    fn rule_problem(&self, rule: &str) -> Option<String> {
        expression_problem(rule)
    }
}

/// Returns an error of a CEL expression that is visible without evaluating it: empty text, unbalanced brackets and quotes, an
/// operator without its operand.
fn expression_problem(rule: &str) -> Option<String> {
    let mut open = Vec::new();
    let mut quote = None;
    let mut escaped = false;
    for char in rule.chars() {
        match (quote, char) {
            (Some(_), _) if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(mark), char) if mark == char => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(char),
            (None, '(' | '[' | '{') => open.push(char),
            (None, ')' | ']' | '}') => {
                let fits = matches!(
                    (open.pop(), char),
                    (Some('('), ')') | (Some('['), ']') | (Some('{'), '}')
                );
                if !fits {
                    return Some(format!("unexpected {char:?}"));
                }
            }
            (None, _) => {}
        }
    }
    let text = rule.trim();
    let problem = if text.is_empty() {
        "is empty"
    } else if quote.is_some() {
        "has a text that does not end"
    } else if !open.is_empty() {
        "has brackets that are not closed"
    } else if text.ends_with([
        '+', '-', '*', '/', '%', '&', '|', '<', '>', '=', '!', '.', ',', '?', ':',
    ]) {
        "ends in an operator"
    } else {
        return None;
    };
    Some(problem.to_owned())
}
