//! Checks of manifests that need types and engines this crate does not have.

use serde_json::Value;

/// What this crate cannot check by itself and leaves to whoever has the types and engines for it.
pub trait ManifestValidator {
    /// What keeps an object from being a ClusterServiceVersion, by the types of its fields.
    fn csv_problem(&self, csv: &Value) -> Option<String>;
    /// What keeps a text from being a CEL rule.
    fn rule_problem(&self, rule: &str) -> Option<String>;
}

/// Validates by what can be seen without types and engines.
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

/// Mistakes in a CEL expression that can be seen without evaluating it: nothing there, brackets and quotes that do not match,
/// an operator without its operand.
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
