//! Label selectors as kubectl's `-l` writes them. Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

/// Parses a selector such as `team=shop,stage in (test, prod),!old`.
///
/// # Errors
/// A part of it is none of these forms.
pub(super) fn parse(text: &str) -> Result<LabelSelector, String> {
    let mut selector = LabelSelector::default();
    for part in parts(text) {
        let part = part.trim();
        let equal = part.split_once("==").or_else(|| part.split_once('='));
        if let Some((key, values)) = set_form(part) {
            let (key, operator) = key;
            require(&mut selector, key, operator, Some(values), part)?;
        } else if let Some((key, value)) = part.split_once("!=") {
            let values = vec![value.trim().to_owned()];
            require(&mut selector, key, "NotIn", Some(values), part)?;
        } else if let Some((key, value)) = equal {
            let labels = selector.match_labels.get_or_insert_default();
            labels.insert(checked(key, part)?, checked_value(value, part)?);
        } else if let Some(key) = part.strip_prefix('!') {
            require(&mut selector, key, "DoesNotExist", None, part)?;
        } else {
            require(&mut selector, part, "Exists", None, part)?;
        }
    }
    Ok(selector)
}

/// Splits a selector at commas that are not in parentheses.
fn parts(text: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    let splits = |letter: char| {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        letter == ',' && depth == 0
    };
    text.split(splits).collect()
}

/// Returns key, operator and values of `key in (a, b)` and `key notin (a, b)`.
fn set_form(part: &str) -> Option<((&str, &'static str), Vec<String>)> {
    let (before, values) = part.strip_suffix(')')?.split_once('(')?;
    let (key, operator) = before.trim().rsplit_once(char::is_whitespace)?;
    let operator = match operator {
        "in" => "In",
        "notin" => "NotIn",
        _ => return None,
    };
    let values = values.split(',').map(|value| value.trim().to_owned());
    Some(((key, operator), values.collect()))
}

fn require(
    selector: &mut LabelSelector,
    key: &str,
    operator: &str,
    values: Option<Vec<String>>,
    part: &str,
) -> Result<(), String> {
    let requirement = LabelSelectorRequirement {
        key: checked(key, part)?,
        operator: operator.to_owned(),
        values,
    };
    selector
        .match_expressions
        .get_or_insert_default()
        .push(requirement);
    Ok(())
}

/// Returns a key without surrounding blanks.
fn checked(key: &str, part: &str) -> Result<String, String> {
    let key = key.trim();
    match key.is_empty() || !is_word(key) {
        true => Err(format!(
            "{part:?} is no requirement; expected KEY=VALUE, KEY!=VALUE, KEY in (VALUE, ...), KEY notin (VALUE, ...), KEY or !KEY"
        )),
        false => Ok(key.to_owned()),
    }
}

/// Returns a value without surrounding blanks; it may be empty.
fn checked_value(value: &str, part: &str) -> Result<String, String> {
    let value = value.trim();
    match is_word(value) {
        true => Ok(value.to_owned()),
        false => Err(format!("{value:?} in {part:?} is no label value")),
    }
}

fn is_word(text: &str) -> bool {
    let is_odd = |letter: char| letter.is_whitespace() || "()=!<>,".contains(letter);
    !text.contains(is_odd)
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
            let parsed = parse(text).unwrap();
            assert_eq!(serde_json::to_value(&parsed).unwrap(), expected, "{text}");
        }
        for text in [
            "", "a,", "=b", "a b", "a of (b)", "a=b c", "a>1", "a in (b", "!", "a=b=c",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
