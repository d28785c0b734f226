//! CA bundles of webhooks and APIServices: two CAs while pods change their certificate, else one.

use k8s_openapi::ByteString;
use serde_json::Value;

/// Maximum number of earlier CAs in a bundle. A rotation needs one; more only result from interrupted
/// rotations.
const MAX_PREVIOUS: usize = 3;

/// Returns the CAs in a stored `caBundle`, as PEM.
pub(crate) fn read(stored: &Value) -> Option<String> {
    let bytes: ByteString = serde_json::from_value(stored.clone()).ok()?;
    String::from_utf8(bytes.0).ok()
}

const END: &str = "-----END CERTIFICATE-----";

/// Returns `current`, followed by the different certificates of `previous`, as PEM. If there are too many,
/// the last ones are kept. New certificates are put in front, so pods served with the last one when it was
/// alone. One in front of it may never have been written to its Secret.
pub(crate) fn overlapping<'a>(current: &str, previous: impl IntoIterator<Item = &'a str>) -> String {
    let mut kept = vec![current.trim()];
    let all = previous.into_iter().flat_map(certificates);
    for other in all {
        if !kept.contains(&other) {
            kept.push(other);
        }
    }
    let surplus = kept.len().saturating_sub(1 + MAX_PREVIOUS);
    kept.drain(1..=surplus);
    match kept.as_slice() {
        [_] => current.to_owned(),
        _ => kept.join("\n") + "\n",
    }
}

/// True when `bundle` trusts `ca`.
pub(crate) fn trusts(bundle: &str, ca: &str) -> bool {
    certificates(bundle).any(|found| found == ca.trim())
}

/// Splits a bundle into its certificates, trimmed.
fn certificates(bundle: &str) -> impl Iterator<Item = &str> {
    bundle
        .split_inclusive(END)
        .map(str::trim)
        .filter(|text| text.ends_with(END))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pem(text: &str) -> String {
        format!("-----BEGIN CERTIFICATE-----\n{text}\n{END}\n")
    }

    #[test]
    fn the_new_ca_comes_first_and_each_once() {
        let (old, new) = (pem("old"), pem("new"));
        assert_eq!(overlapping(&new, []), new);
        assert_eq!(overlapping(&new, [new.as_str(), "nonsense"]), new);
        let both = overlapping(&new, [old.as_str(), old.as_str()]);
        assert_eq!(both, new.clone() + &old);
        assert!(trusts(&both, &old) && trusts(&both, &new) && !trusts(&new, &old));
        assert_eq!(overlapping(&new, [both.as_str()]), both);
    }

    #[test]
    fn a_bundle_does_not_grow_without_end() {
        let mut bundle = pem("0");
        for index in 1..20 {
            bundle = overlapping(&pem(&index.to_string()), [bundle.as_str()]);
        }
        assert_eq!(bundle.matches(END).count(), 1 + MAX_PREVIOUS);
        assert!(bundle.starts_with(&pem("19")), "{bundle}");
        assert!(
            bundle.ends_with(&pem("0")),
            "what pods serve with stays: {bundle}"
        );
    }
}
