//! Names that Kubernetes takes, and those that are derived from others.

/// Longest name of a Service.
pub const MAX_SERVICE_NAME: usize = 63;
/// Longest DNS subdomain.
const MAX_DNS1123_SUBDOMAIN: usize = 253;
/// Longest name part of a label's key, and longest value.
const MAX_LABEL_NAME: usize = 63;
const LABEL_TOO_LONG: &str = "must be no more than 63 bytes";
const LABEL_NAME: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// Returns the name of the Service in front of a Deployment that serves webhooks or APIs. A Service's name has no dots.
pub fn service_name(deployment: &str) -> String {
    format!("{}-service", deployment.replace('.', "-"))
}

/// Returns the name that the API server knows a ServiceAccount by.
pub fn service_account_user(namespace: &str, name: &str) -> String {
    format!("system:serviceaccount:{namespace}:{name}")
}

/// Returns the groups that every ServiceAccount of a namespace is in.
pub fn service_account_groups(namespace: &str) -> [String; 3] {
    [
        "system:serviceaccounts".to_owned(),
        format!("system:serviceaccounts:{namespace}"),
        "system:authenticated".to_owned(),
    ]
}

/// Returns true for a DNS subdomain, the name most objects may have, as RFC 1123 defines it and Kubernetes checks it. Names in
/// statuses, labels and descriptions are arbitrary text; a name that passes this check is safe as part of a path.
pub fn is_dns1123_subdomain(name: &str) -> bool {
    name.len() <= MAX_DNS1123_SUBDOMAIN && has_dns1123_labels(name)
}

/// Returns the faults of a name that is no DNS subdomain, in the words of Kubernetes; empty for one that is.
pub fn dns1123_subdomain_faults(name: &str) -> Vec<&'static str> {
    const LENGTH: &str = "must be no more than 253 characters";
    const LABELS: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
        start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
        '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
    let faults = [
        (name.len() > MAX_DNS1123_SUBDOMAIN, LENGTH),
        (!has_dns1123_labels(name), LABELS),
    ];
    let found = faults.into_iter().filter(|(is_fault, _)| *is_fault);
    found.map(|(_, text)| text).collect()
}

fn has_dns1123_labels(name: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    name.split('.').all(|label| {
        !label.is_empty() && !label.starts_with('-') && !label.ends_with('-') && label.bytes().all(is_inner)
    })
}

/// Returns the faults of a label's key, in the words of Kubernetes; empty for a valid one.
pub fn label_key_faults(key: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let name = match key.split_once('/') {
        None => key,
        Some((_, name)) if name.contains('/') => {
            return vec![format!(
                "a qualified name {LABEL_NAME} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
        Some(("", name)) => {
            faults.push("prefix part must be non-empty".to_owned());
            name
        }
        Some((prefix, name)) => {
            let of_prefix = dns1123_subdomain_faults(prefix).into_iter();
            faults.extend(of_prefix.map(|fault| format!("prefix part {fault}")));
            name
        }
    };
    if name.is_empty() {
        faults.push("name part must be non-empty".to_owned());
    } else if name.len() > MAX_LABEL_NAME {
        faults.push(format!("name part {LABEL_TOO_LONG}"));
    }
    if !is_label_name(name) {
        faults.push(format!("name part {LABEL_NAME}"));
    }
    faults
}

/// Returns the faults of a label's value, in the words of Kubernetes; empty for a valid one.
pub fn label_value_faults(value: &str) -> Vec<&'static str> {
    let faults = [
        (value.len() > MAX_LABEL_NAME, LABEL_TOO_LONG),
        (!value.is_empty() && !is_label_name(value), LABEL_VALUE),
    ];
    let found = faults.into_iter().filter(|(is_fault, _)| *is_fault);
    found.map(|(_, text)| text).collect()
}

/// Returns true for letters, digits and `-_.` with a letter or digit at both ends.
fn is_label_name(text: &str) -> bool {
    let is_end = |char: char| char.is_ascii_alphanumeric();
    text.starts_with(is_end)
        && text.ends_with(is_end)
        && text
            .chars()
            .all(|char| is_end(char) || matches!(char, '-' | '_' | '.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_labels_with_points_between_them() {
        let longest = "a".repeat(253);
        for name in ["a", "0", "a-b.c9", "a.b.c", longest.as_str()] {
            assert!(is_dns1123_subdomain(name), "{name}");
        }
        let too_long = "a".repeat(254);
        let others = [
            "",
            ".",
            "..",
            "a..b",
            "a.",
            ".a",
            "-a",
            "a-",
            "a.-b",
            "A",
            "a_b",
            "a/b",
            "a:b",
            "ä",
            "a b",
            too_long.as_str(),
        ];
        for name in others {
            assert!(!is_dns1123_subdomain(name), "{name:?}");
        }
    }

    #[test]
    fn every_fault_of_a_name_is_reported() {
        let too_long = format!("{}-", "a".repeat(253));
        for (name, starts) in [
            ("a.b", vec![]),
            (".", vec!["a lowercase RFC 1123"]),
            (&"a".repeat(254), vec!["must be no more"]),
            (&too_long, vec!["must be no more", "a lowercase RFC 1123"]),
        ] {
            let faults = dns1123_subdomain_faults(name);
            let matches = |(fault, start): (&&str, &&str)| fault.starts_with(*start);
            assert_eq!(faults.len(), starts.len(), "{name}");
            assert!(faults.iter().zip(&starts).all(matches), "{name}: {faults:?}");
            assert_eq!(faults.is_empty(), is_dns1123_subdomain(name), "{name}");
        }
    }
}
