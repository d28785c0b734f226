//! Checks of names with Kubernetes' rules and texts.

const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const NAME_PART: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

fn is_lower(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

/// Returns true if the text is not empty, begins and ends with `end`, and contains only `end` and `inner`.
fn has_form(text: &str, end: fn(u8) -> bool, inner: &[u8]) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|byte| end(*byte))
        && bytes.last().is_some_and(|byte| end(*byte))
        && bytes.iter().all(|byte| end(*byte) || inner.contains(byte))
}

fn too_long(text: &str, most: usize) -> Option<String> {
    (text.len() > most).then(|| format!("must be no more than {most} bytes"))
}

/// Returns why a text is not a DNS label that begins with a letter; empty if it is one.
pub(super) fn label_1035(text: &str) -> Vec<String> {
    let is_label = has_form(text, is_lower, b"-") && text.as_bytes()[0].is_ascii_lowercase();
    let form = (!is_label).then(|| LABEL_1035.to_owned());
    too_long(text, 63).into_iter().chain(form).collect()
}

/// Returns why a text is not a DNS subdomain; empty if it is one.
pub(super) fn subdomain(text: &str) -> Vec<String> {
    let is_subdomain = text.split('.').all(|part| has_form(part, is_lower, b"-"));
    let form = (!is_subdomain).then(|| SUBDOMAIN.to_owned());
    too_long(text, 253).into_iter().chain(form).collect()
}

/// Returns why a text is not a label value; empty if it is one.
pub(super) fn label_value(text: &str) -> Vec<String> {
    let is_value = text.is_empty() || has_form(text, |byte| byte.is_ascii_alphanumeric(), b"-_.");
    let form = (!is_value).then(|| LABEL_VALUE.to_owned());
    too_long(text, 63).into_iter().chain(form).collect()
}

/// Returns why a text is not a label or annotation key, that is, a name with an optional subdomain and slash; empty if it is one.
pub(super) fn qualified_name(text: &str) -> Vec<String> {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    let mut problems: Vec<String> = match prefix {
        Some("") => vec!["prefix part must be non-empty".to_owned()],
        Some(prefix) => subdomain(prefix)
            .into_iter()
            .map(|problem| format!("prefix part {problem}"))
            .collect(),
        None => Vec::new(),
    };
    if name.is_empty() {
        problems.push("name part must be non-empty".to_owned());
    }
    problems.extend(too_long(name, 63).map(|problem| format!("name part {problem}")));
    if !has_form(name, |byte| byte.is_ascii_alphanumeric(), b"-_.") {
        problems.push(NAME_PART.to_owned());
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_judged_as_kubernetes_does() {
        for (text, label, domain, value, key) in [
            ("abc-1", true, true, true, true),
            ("1abc", false, true, true, true),
            ("a.b", false, true, true, true),
            ("a..b", false, false, true, true),
            ("A_b", false, false, true, true),
            ("", false, false, true, false),
            ("-a", false, false, false, false),
            ("a b", false, false, false, false),
            ("a.b/c", false, false, false, true),
            ("/c", false, false, false, false),
            ("A/c", false, false, false, false),
            ("a/b/c", false, false, false, false),
        ] {
            let found = (
                label_1035(text).is_empty(),
                subdomain(text).is_empty(),
                label_value(text).is_empty(),
                qualified_name(text).is_empty(),
            );
            assert_eq!(found, (label, domain, value, key), "{text:?}");
        }
        assert_eq!(label_value(&"a".repeat(64)), ["must be no more than 63 bytes"]);
        assert!(subdomain(&"a".repeat(64)).is_empty());
    }
}
