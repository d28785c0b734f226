//! Names in a plan, which are whoever's who may write plans or publish bundles: who reads is not to take one for more than a name. Pure.

/// How the preview names all roles of some labels.
const SELECTED: &str = "ClusterRoles with ";
/// What it says of a selector that asks for nothing.
const ALL_SELECTED: &str = "any labels";

/// One name, quoted where it could be read as more than one word of the text around it: there are letters enough that look like blanks.
pub(in crate::commands) fn name(name: &str) -> String {
    let is_word = |letter: char| letter.is_ascii_graphic() && letter != '"' && letter != ',';
    match !name.is_empty() && name.chars().all(is_word) {
        true => name.to_owned(),
        false => format!("{name:?}"),
    }
}

/// Names, one after the other.
pub(super) fn names<'a>(names: impl IntoIterator<Item = &'a String>) -> String {
    let names: Vec<String> = names.into_iter().map(|one| name(one)).collect();
    names.join(", ")
}

/// A kind and the name of one of it, as the preview has subjects and roles.
pub(in crate::commands) fn kind_and_name(text: &str) -> String {
    if let Some(labels) = text.strip_prefix(SELECTED) {
        return match labels {
            ALL_SELECTED => text.to_owned(),
            _ => format!("{SELECTED}{}", name(labels)),
        };
    }
    match text.split_once(' ') {
        Some((kind, rest)) => format!("{} {}", name(kind), name(rest)),
        None => name(text),
    }
}

/// A field after the version it is in, as the preview has those that a definition loses.
pub(super) fn version_and_field(text: &str) -> String {
    match text.split_once(": ") {
        Some((version, field)) => format!("{}: {}", name(version), name(field)),
        None => name(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_not_read_as_more_than_a_name() {
        assert_eq!(name("system:serviceaccount:a:b"), "system:serviceaccount:a:b");
        assert_eq!(name(""), "\"\"");
        for blank in ["\u{3164}", "\u{115f}", "\u{2800}", "\u{a0}"] {
            let told = name(&format!("get{blank}pods"));
            assert!(told.starts_with('"') && told.ends_with('"'), "{told}");
        }
        assert_eq!(name("get, list"), "\"get, list\"");
        assert_eq!(names(&["get".to_owned(), "a,b".to_owned()]), "get, \"a,b\"");
        for (text, expected) in [
            ("ServiceAccount demo", "ServiceAccount demo"),
            ("ServiceAccount other/demo", "ServiceAccount other/demo"),
            (
                "User demo in namespace shop: get pods",
                "User \"demo in namespace shop: get pods\"",
            ),
            ("ClusterRoles with any labels", "ClusterRoles with any labels"),
            ("ClusterRoles with a=b", "ClusterRoles with a=b"),
            (
                "ClusterRoles with a=b, c Exists",
                "ClusterRoles with \"a=b, c Exists\"",
            ),
            ("User", "User"),
        ] {
            assert_eq!(kind_and_name(text), expected);
        }
        assert_eq!(version_and_field("v1: spec.size"), "v1: spec.size");
        assert_eq!(
            version_and_field("v1: spec.a; serves v2"),
            "v1: \"spec.a; serves v2\""
        );
    }
}
