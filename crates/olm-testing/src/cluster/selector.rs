//! Label and field selectors of requests.

use serde_json::Value;

/// True if the labels of `object` match a selector such as `a=b,!c,d in (e,f)`.
pub(super) fn labels_fit(selector: &str, object: &Value) -> bool {
    let label = |key: &str| object["metadata"]["labels"].get(key).and_then(Value::as_str);
    terms(selector).iter().all(|term| {
        if let Some((key, value)) = term.split_once("!=") {
            return label(key.trim()) != Some(value.trim());
        }
        if let Some((key, value)) = term.split_once("==").or_else(|| term.split_once('=')) {
            return label(key.trim()) == Some(value.trim());
        }
        if let Some((key, values)) = term.split_once(" notin ") {
            return !label(key.trim()).is_some_and(|value| set(values).any(|one| one == value));
        }
        if let Some((key, values)) = term.split_once(" in ") {
            return label(key.trim()).is_some_and(|value| set(values).any(|one| one == value));
        }
        match term.strip_prefix('!') {
            Some(key) => label(key.trim()).is_none(),
            None => label(term.trim()).is_some(),
        }
    })
}

/// True if fields of `object` match a selector such as `metadata.name=a`.
pub(super) fn fields_fit(selector: &str, object: &Value) -> bool {
    terms(selector).iter().all(|term| {
        let (path, value, wanted) = match term.split_once("!=") {
            Some((path, value)) => (path, value, false),
            None => {
                let Some((path, value)) = term.split_once("==").or_else(|| term.split_once('=')) else {
                    return false;
                };
                (path, value, true)
            }
        };
        let pointer = format!("/{}", path.trim().replace('.', "/"));
        let found = object
            .pointer(&pointer)
            .and_then(Value::as_str)
            .unwrap_or_default();
        (found == value.trim()) == wanted
    })
}

fn set(text: &str) -> impl Iterator<Item = &str> {
    let inner = text.trim().trim_start_matches('(').trim_end_matches(')');
    inner.split(',').map(str::trim)
}

/// Splits at commas outside of parentheses.
fn terms(selector: &str) -> Vec<&str> {
    let (mut depth, mut start, mut found) = (0_usize, 0, Vec::new());
    for (at, character) in selector.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                found.push(&selector[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push(&selector[start..]);
    found.into_iter().filter(|term| !term.trim().is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors_pick_as_an_api_server_does() {
        let object = json!({"metadata": {"name": "n", "labels": {"a": "1", "b": "2"}}});
        for (selector, expected) in [
            ("", true),
            ("a=1", true),
            ("a==1,b=2", true),
            ("a!=1", false),
            ("c!=1", true),
            ("a", true),
            ("!a", false),
            ("!c", true),
            ("a in (0,1),b notin (3)", true),
            ("a in (0)", false),
        ] {
            assert_eq!(labels_fit(selector, &object), expected, "{selector}");
        }
        assert!(fields_fit("metadata.name=n", &object));
        assert!(!fields_fit("metadata.name!=n", &object));
        assert!(fields_fit("metadata.namespace=", &object));
    }
}
