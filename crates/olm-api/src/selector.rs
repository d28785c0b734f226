//! Label selectors as text, in the syntax of Kubernetes.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use crate::names::{label_key_faults, label_value_faults};

/// A requirement on one label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    /// Key of the label.
    pub key: String,
    /// What its value must be.
    pub test: Test,
}

/// Test of the value of a label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Test {
    /// It is one of these.
    In(BTreeSet<String>),
    /// It is none of these, or there is no label.
    NotIn(BTreeSet<String>),
    /// There is a label.
    Exists,
    /// There is no label.
    Absent,
    /// It is a greater number.
    GreaterThan(i64),
    /// It is a smaller number.
    LessThan(i64),
}

impl Test {
    /// Returns whether a value passes; `None` for an absent label.
    pub fn is_passed_by(&self, value: Option<&str>) -> bool {
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match self {
            Self::In(values) => value.is_some_and(|value| values.contains(value)),
            Self::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
            Self::Exists => value.is_some(),
            Self::Absent => value.is_none(),
            Self::GreaterThan(bound) => number().is_some_and(|number| number > *bound),
            Self::LessThan(bound) => number().is_some_and(|number| number < *bound),
        }
    }
}

/// Parses a selector; the empty one has no requirements. `None` for one with more than `most`.
///
/// # Errors
/// The requirement that cannot be parsed, for the author of the text.
pub fn parse(text: &str, most: usize) -> Result<Option<Vec<Requirement>>, String> {
    let mut tokens = Tokens::of(text);
    let mut requirements = Vec::new();
    if tokens.peek() == &Token::End {
        return Ok(Some(requirements));
    }
    loop {
        if requirements.len() == most {
            return Ok(None);
        }
        requirements.push(tokens.requirement()?);
        match tokens.next() {
            Token::End => return Ok(Some(requirements)),
            Token::Comma => {}
            other => {
                return Err(format!(
                    "found '{}', expected: ',' or 'end of string'",
                    other.text()
                ));
            }
        }
    }
}

/// Parses the selector of a field. It has neither comparisons of numbers nor no requirement at all.
///
/// # Errors
/// The fault, for the author of the text.
pub fn parse_field(text: &str) -> Result<LabelSelector, String> {
    let requirements = parse(text, usize::MAX)?.unwrap_or_default();
    if requirements.is_empty() {
        return Err("no requirement".to_owned());
    }
    let mut selector = LabelSelector::default();
    for Requirement { key, test } in requirements {
        let (operator, values) = match test {
            Test::In(values) if values.len() == 1 => {
                let labels = selector.match_labels.get_or_insert_default();
                labels.extend(values.into_iter().map(|value| (key.clone(), value)));
                continue;
            }
            Test::In(values) => ("In", Some(values)),
            Test::NotIn(values) => ("NotIn", Some(values)),
            Test::Exists => ("Exists", None),
            Test::Absent => ("DoesNotExist", None),
            Test::GreaterThan(_) | Test::LessThan(_) => {
                return Err(format!("{key}: values cannot be compared as numbers here"));
            }
        };
        let expressions = selector.match_expressions.get_or_insert_default();
        expressions.push(LabelSelectorRequirement {
            key,
            operator: operator.to_owned(),
            values: values.map(|values| values.into_iter().collect()),
        });
    }
    Ok(selector)
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    Comma,
    Open,
    Close,
    Not,
    Equals,
    NotEquals,
    Greater,
    Less,
    End,
}

impl Token {
    fn text(&self) -> &str {
        match self {
            Self::Word(word) => word,
            Self::Comma => ",",
            Self::Open => "(",
            Self::Close => ")",
            Self::Not => "!",
            Self::Equals => "=",
            Self::NotEquals => "!=",
            Self::Greater => ">",
            Self::Less => "<",
            Self::End => "",
        }
    }
}

struct Tokens {
    tokens: std::iter::Peekable<std::vec::IntoIter<Token>>,
}

impl Tokens {
    fn of(text: &str) -> Self {
        let mut tokens = Vec::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let (token, length) = match first {
                ' ' | '\t' | '\r' | '\n' => {
                    rest = rest.trim_start_matches([' ', '\t', '\r', '\n']);
                    continue;
                }
                ',' => (Token::Comma, 1),
                '(' => (Token::Open, 1),
                ')' => (Token::Close, 1),
                '>' => (Token::Greater, 1),
                '<' => (Token::Less, 1),
                '!' if rest.starts_with("!=") => (Token::NotEquals, 2),
                '!' => (Token::Not, 1),
                '=' if rest.starts_with("==") => (Token::Equals, 2),
                '=' => (Token::Equals, 1),
                _ => {
                    let end = rest.find([' ', '\t', '\r', '\n', ',', '(', ')', '>', '<', '!', '=']);
                    let end = end.unwrap_or(rest.len());
                    (Token::Word(rest.get(..end).unwrap_or_default().to_owned()), end)
                }
            };
            tokens.push(token);
            rest = rest.get(length..).unwrap_or_default();
        }
        Self {
            tokens: tokens.into_iter().peekable(),
        }
    }

    fn next(&mut self) -> Token {
        self.tokens.next().unwrap_or(Token::End)
    }

    fn peek(&mut self) -> &Token {
        self.tokens.peek().unwrap_or(&Token::End)
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let is_absent = self.peek() == &Token::Not;
        if is_absent {
            self.next();
        }
        let key = self.key()?;
        let test = if is_absent { Test::Absent } else { self.test()? };
        Ok(Requirement { key, test })
    }

    fn key(&mut self) -> Result<String, String> {
        match self.next() {
            Token::Word(word) if label_key_faults(&word).is_empty() => Ok(word),
            Token::Word(word) => Err(format!("invalid label key {word:?}")),
            other => Err(format!(
                "found '{}', expected: !, identifier, or 'end of string'",
                other.text()
            )),
        }
    }

    fn test(&mut self) -> Result<Test, String> {
        if matches!(self.peek(), Token::End | Token::Comma) {
            return Ok(Test::Exists);
        }
        match self.next() {
            Token::Equals => Ok(Test::In(BTreeSet::from([self.value()?]))),
            Token::NotEquals => Ok(Test::NotIn(BTreeSet::from([self.value()?]))),
            Token::Greater => Ok(Test::GreaterThan(self.number()?)),
            Token::Less => Ok(Test::LessThan(self.number()?)),
            Token::Word(word) if word == "in" => Ok(Test::In(self.values()?)),
            Token::Word(word) if word == "notin" => Ok(Test::NotIn(self.values()?)),
            other => Err(format!(
                "found '{}', expected: in, notin, =, ==, !=, gt, lt",
                other.text()
            )),
        }
    }

    /// Parses one value, which may be absent.
    fn value(&mut self) -> Result<String, String> {
        match self.peek() {
            Token::Word(_) => checked(self.next().text()),
            _ => Ok(String::new()),
        }
    }

    fn number(&mut self) -> Result<i64, String> {
        let value = self.value()?;
        value
            .parse()
            .map_err(|_| format!("for 'Gt', 'Lt' operators, the value must be an integer: {value:?}"))
    }

    fn values(&mut self) -> Result<BTreeSet<String>, String> {
        if self.next() != Token::Open {
            return Err("expected: '('".to_owned());
        }
        let mut values = BTreeSet::new();
        loop {
            values.insert(self.value()?);
            match self.next() {
                Token::Close => return Ok(values),
                Token::Comma => {}
                other => return Err(format!("found '{}', expected: ',', or ')'", other.text())),
            }
        }
    }
}

fn checked(value: &str) -> Result<String, String> {
    if label_value_faults(value).is_empty() {
        Ok(value.to_owned())
    } else {
        Err(format!("invalid label value {value:?}"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors_are_read_as_kubectl_reads_them() {
        let in_ = |operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": "a", "operator": operator, "values": values}]});
        let without = |operator: &str| json!({"matchExpressions": [{"key": "a", "operator": operator}]});
        for (text, expected) in [
            ("a=b", json!({"matchLabels": {"a": "b"}})),
            ("x/a == b , c=", json!({"matchLabels": {"x/a": "b", "c": ""}})),
            ("a!=b", in_("NotIn", &["b"])),
            ("a in (b, c)", in_("In", &["b", "c"])),
            ("a  notin(b,c)", in_("NotIn", &["b", "c"])),
            ("a", without("Exists")),
            ("!a", without("DoesNotExist")),
        ] {
            let parsed = parse_field(text).unwrap();
            assert_eq!(serde_json::to_value(&parsed).unwrap(), expected, "{text}");
        }
        for text in [
            "", "a,", "=b", "a b", "a of (b)", "a=b c", "a>1", "a in (b", "!", "a=b=c",
        ] {
            assert!(parse_field(text).is_err(), "{text}");
        }
    }
}
