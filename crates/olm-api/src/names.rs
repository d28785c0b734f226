//! Names that Kubernetes takes, and those that are derived from others.

/// Longest name of a Service.
pub const MAX_SERVICE_NAME: usize = 63;

/// Returns the name of the Service in front of a Deployment that serves webhooks or APIs. A Service's name has no dots.
pub fn service_name(deployment: &str) -> String {
    format!("{}-service", deployment.replace('.', "-"))
}

/// Returns true for a DNS subdomain, the name most objects may have, as RFC 1123 defines it and Kubernetes checks it. Names in
/// statuses, labels and descriptions are arbitrary text; a name that passes this check is safe as part of a path.
pub fn is_dns1123_subdomain(name: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_label = |label: &str| {
        !label.is_empty() && !label.starts_with('-') && !label.ends_with('-') && label.bytes().all(is_inner)
    };
    name.len() <= 253 && name.split('.').all(is_label)
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
}
