//! Requirements of the public hub beyond a working CSV: the optional check `operatorhub`.

use go_compat::semver::Version;
use serde_json::Value;

use super::text;

const CAPABILITIES: [&str; 5] = [
    "Auto Pilot",
    "Basic Install",
    "Deep Insights",
    "Full Lifecycle",
    "Seamless Upgrades",
];
const CATEGORIES: [&str; 16] = [
    "AI/Machine Learning",
    "Application Runtime",
    "Big Data",
    "Cloud Provider",
    "Database",
    "Developer Tools",
    "Integration & Delivery",
    "Logging & Tracing",
    "Modernization & Migration",
    "Monitoring",
    "Networking",
    "Observability",
    "OpenShift Optional",
    "Security",
    "Storage",
    "Streaming & Messaging",
];
const MEDIA_TYPES: [&str; 4] = ["image/gif", "image/jpeg", "image/png", "image/svg+xml"];

/// Returns the problems that keep a CSV from the hub. `categories` replace the hub's own.
pub(super) fn problems(csv: &Value, categories: Option<&[String]>) -> Vec<String> {
    let name = text(&csv["metadata"], "name");
    let spec = &csv["spec"];
    let mut found = Vec::new();
    if text(&spec["provider"], "name").trim().is_empty() {
        found.push("csv.Spec.Provider.Name not specified".to_owned());
    }
    for maintainer in spec["maintainers"].as_array().into_iter().flatten() {
        let (name, email) = (text(maintainer, "name"), text(maintainer, "email"));
        if name.is_empty() || email.is_empty() {
            found.push("csv.Spec.Maintainers elements should contain both name and email".to_owned());
        }
        if !email.is_empty() && !is_address(email) {
            found.push(format!(
                "csv.Spec.Maintainers email {email} is invalid: no mail address"
            ));
        }
    }
    for link in spec["links"].as_array().into_iter().flatten() {
        let (name, url) = (text(link, "name"), text(link, "url"));
        if name.is_empty() || url.is_empty() {
            found.push("csv.Spec.Links elements should contain both name and url".to_owned());
        }
        if !url.is_empty() && !is_url(url) {
            found.push(format!("csv.Spec.Links url {url} is invalid: no URL"));
        }
    }
    annotation_problems(&csv["metadata"]["annotations"], categories, &mut found);
    if Version::parse_tolerant(text(spec, "version")).is_ok_and(|version| version == Version::new(0, 0, 0)) {
        found.push("csv.Spec.Version must be set".to_owned());
    }
    icon_problems(&spec["icon"], &mut found);
    let describe = |problem| format!("Error: Value : ({name}) {problem}");
    found.into_iter().map(describe).collect()
}

fn annotation_problems(annotations: &Value, categories: Option<&[String]>, found: &mut Vec<String>) {
    if let Some(level) = annotations["capabilities"].as_str()
        && !CAPABILITIES.contains(&level)
    {
        found.push(format!(
            "csv.Metadata.Annotations.Capabilities {level:?} is not a valid capabilities level"
        ));
    }
    let Some(given) = annotations["categories"].as_str() else {
        return;
    };
    for category in given.split(',') {
        let (is_known, set) = match categories {
            Some(custom) => (custom.iter().any(|known| known == category.trim()), "custom"),
            None => (CATEGORIES.contains(&category.trim()), "standard"),
        };
        if !is_known {
            found.push(format!(
                "csv.Metadata.Annotations[\"categories\"] value {category:?} is not in the set of {set} categories"
            ));
        }
    }
}

/// Reports problems of the icon; a missing icon is not an error.
fn icon_problems(icon: &Value, found: &mut Vec<String>) {
    let Some(icons) = icon.as_array() else { return };
    if icons.len() != 1 {
        found.push("csv.Spec.Icon should only have one element".to_owned());
    }
    let Some(icon) = icons.first() else { return };
    let media_type = text(icon, "mediatype");
    if media_type.is_empty() || text(icon, "base64data").is_empty() {
        found.push("csv.Spec.Icon elements should contain both data and mediatype".to_owned());
    }
    if !media_type.is_empty() && !MEDIA_TYPES.contains(&media_type) {
        found.push(format!(
            "csv.Spec.Icon {media_type} does not have a valid mediatype"
        ));
    }
}

/// Returns true for an address `a@b`, or `Name <a@b>`.
fn is_address(text: &str) -> bool {
    let address = match text.trim().strip_suffix('>') {
        Some(text) => text.rsplit_once('<').map_or("", |(_, address)| address),
        None => text.trim(),
    };
    let has_space = address.contains(char::is_whitespace);
    address
        .rsplit_once('@')
        .is_some_and(|(user, host)| !user.is_empty() && !host.is_empty() && !has_space)
}

/// Returns true for an absolute path, or a text with a scheme.
fn is_url(text: &str) -> bool {
    if text.starts_with('/') {
        return true;
    }
    let Some((scheme, rest)) = text.split_once(':') else {
        return false;
    };
    let is_scheme = scheme.starts_with(|char: char| char.is_ascii_alphabetic())
        && scheme
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    let host = rest
        .strip_prefix("//")
        .map_or("", |rest| rest.split('/').next().unwrap_or_default());
    is_scheme && rest.starts_with('/') && !host.contains([' ', '<', '>', '"'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_urls() {
        for (text, expected) in [
            ("a@b.c", true),
            ("A B <a@b.c>", true),
            ("zzz", false),
            ("@b", false),
            ("a@", false),
            ("a b@c", false),
        ] {
            assert_eq!(is_address(text), expected, "{text}");
        }
        for (text, expected) in [
            ("https://b.c/d e", true),
            ("/x", true),
            ("zz", false),
            ("http://a b", false),
            ("mailto:x", false),
            ("1http://a", false),
        ] {
            assert_eq!(is_url(text), expected, "{text}");
        }
    }
}
