//! Suggestions for unknown names.

/// Longest compared word, in bytes. No name of a Kubernetes object, field or package is longer.
const MAX_WORD: usize = 256;

/// Returns the known name nearest to `word`, if it is near enough to be a typing error.
///
/// The limit is one edit per three characters of `word`, and at least one. Case differences are free, and two swapped letters
/// count as one edit. If several names are equally near, the first in alphabetical order is returned, so the order of `known`
/// does not matter. `word` itself is never returned.
pub fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > MAX_WORD {
        return None;
    }
    let length = word.chars().count();
    // A suggestion must share at least one letter with the word.
    let allowed = (length / 3).max(1).min(length.saturating_sub(1));
    let lower = word.to_lowercase();
    known
        .into_iter()
        .filter(|name| *name != word && name.len() <= MAX_WORD)
        .filter(|name| name.chars().count().abs_diff(length) <= allowed)
        .map(|name| (strsim::osa_distance(&lower, &name.to_lowercase()), name))
        .filter(|&(distance, _)| distance <= allowed)
        .min()
        .map(|(_, name)| name)
}

/// Returns `: did you mean "stable"?` for the end of an error, or an empty text if no known name is near; see [`did_you_mean`].
pub fn suggestion<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    did_you_mean(word, known).map_or_else(String::new, |meant| format!(": did you mean {meant:?}?"))
}

#[cfg(test)]
mod tests {
    use super::{did_you_mean, suggestion};

    #[test]
    fn slips_are_recognised_and_other_words_are_not() {
        for (word, known, expected) in [
            ("etdc", &["quay", "etcd"][..], Some("etcd")),
            ("catt", &["dog", "cat"], Some("cat")),
            ("olm.chanel", &["olm.bundle", "olm.channel"], Some("olm.channel")),
            ("replace", &["name", "skips", "replaces"], Some("replaces")),
            ("STABLE", &["stable"], Some("stable")),
            ("alpha", &["beta", "stable"], None),
            ("a", &["b"], None),
            ("ab", &["ac"], Some("ac")),
            ("", &["b", ""], None),
            ("stable", &["stable"], None),
        ] {
            assert_eq!(did_you_mean(word, known.iter().copied()), expected, "{word}");
        }
        assert_eq!(suggestion("etdc", ["etcd"]), ": did you mean \"etcd\"?");
        assert_eq!(suggestion("other", ["etcd"]), "");
    }

    #[test]
    fn the_nearest_is_taken_whatever_the_order() {
        assert_eq!(
            did_you_mean("stable-v1", ["stable", "stable-v3", "stable-v2"]),
            Some("stable-v2")
        );
        assert_eq!(
            did_you_mean("stable-v1", ["stable-v2", "stable-v3", "stable"]),
            Some("stable-v2")
        );
    }

    #[test]
    fn endless_words_cost_nothing() {
        let long = "x".repeat(10_000_000);
        assert_eq!(did_you_mean(&long, [long.as_str(), "x"]), None);
        assert_eq!(did_you_mean("x", [long.as_str()]), None);
    }
}
