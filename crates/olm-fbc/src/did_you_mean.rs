//! The name that was probably meant where one is not known.

/// Longest word that is compared, in bytes. No name of a Kubernetes object, field or package is longer.
const MAX_WORD: usize = 256;

/// The known name nearest to `word`, if one is near enough to be a slip of the keyboard: one edit per three characters
/// of `word`, and at least one, where letters in the wrong case count for nothing and two that changed places for one. Of
/// several equally near the first by the alphabet, so that the order of `known` does not matter. Never `word` itself.
pub fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > MAX_WORD {
        return None;
    }
    let length = word.chars().count();
    // A word of which nothing is left was not meant.
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

/// `: did you mean "stable"?` for the end of an error, or nothing if no known name is near; see [`did_you_mean`].
pub fn suggestion<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    did_you_mean(word, known).map_or_else(String::new, |meant| format!(": did you mean {meant:?}?"))
}

#[cfg(test)]
mod tests {
    use super::did_you_mean;

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
