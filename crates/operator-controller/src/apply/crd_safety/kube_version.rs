//! Order of API versions, as in Kubernetes: v1alpha1, v1beta1, v1, v2. Other names come first.

use std::cmp::Ordering;

/// Compares two API versions; the more stable and then the newer one is greater.
pub(super) fn compare(one: &str, other: &str) -> Ordering {
    match (parse(one), parse(other)) {
        (Some(one), Some(other)) => one.cmp(&other),
        (None, Some(_)) => Ordering::Less,
        (Some(_), None) => Ordering::Greater,
        (None, None) => other.cmp(one),
    }
}

/// Returns stability (0 for alpha), major and minor version.
fn parse(version: &str) -> Option<(u8, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    for (stability, word) in ["alpha", "beta"].into_iter().enumerate() {
        if let Some((major, minor)) = rest.split_once(word) {
            return Some((u8::try_from(stability).ok()?, number(major)?, number(minor)?));
        }
    }
    Some((2, number(rest)?, 0))
}

fn number(digits: &str) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_in_the_order_of_kubernetes() {
        let sorted = [
            "foo", "bar", "v1alpha1", "v1alpha2", "v2alpha1", "v1beta1", "v1", "v2", "v10",
        ];
        for (index, early) in sorted.iter().enumerate() {
            assert_eq!(compare(early, early), Ordering::Equal);
            for late in &sorted[index + 1..] {
                assert_eq!(compare(early, late), Ordering::Less, "{early} {late}");
                assert_eq!(compare(late, early), Ordering::Greater, "{late} {early}");
            }
        }
    }
}
