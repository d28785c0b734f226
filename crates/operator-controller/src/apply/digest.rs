//! Digests of phases, by which a changed source of an object is noticed. No I/O.

use go_compat::json::{Html, to_string};
use go_compat::quote;
use olm_api::extension_v1::ObservedPhase;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// Returns the digest of a phase as upstream computes it: SHA-256 of its name and objects as Go's JSON.
pub(super) fn phase_digest(name: &str, objects: &[Value]) -> String {
    let text = to_string(&json!({"name": name, "objects": objects}), Html::Escaped);
    format!("sha256:{}", hex::encode(Sha256::digest(text)))
}

/// Compares the phases with those that were first applied.
///
/// # Errors
/// The text names each phase that changed. The revision is blocked until its content is back.
pub(super) fn check_digests(stored: &[ObservedPhase], current: &[ObservedPhase]) -> Result<(), String> {
    if stored.len() != current.len() {
        return Err(format!(
            "number of phases has changed (expected {} phases, got {})",
            stored.len(),
            current.len()
        ));
    }
    let changed = current.iter().filter_map(|phase| {
        let before = stored.iter().find(|stored| stored.name == phase.name)?;
        (before.digest != phase.digest).then(|| {
            format!(
                "phase {} (expected digest {}, got {})",
                quote(&phase.name),
                before.digest,
                phase.digest
            )
        })
    });
    let changed: Vec<String> = changed.collect();
    if changed.is_empty() {
        return Ok(());
    }
    Err(format!(
        "resolved content of {} phase(s) has changed: {}; a referenced object source may have been deleted and recreated with different content",
        changed.len(),
        changed.join("; ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(name: &str, digest: &str) -> ObservedPhase {
        ObservedPhase {
            name: name.to_owned(),
            digest: digest.to_owned(),
            ..ObservedPhase::default()
        }
    }

    /// The text is the form that upstream's code leads to: sorted keys, and HTML escaped. No digest of a running upstream was compared.
    #[test]
    fn the_digest_is_that_of_gos_json() {
        let text = r#"{"name":"deploy","objects":[{"data":{"a":"\u003cb\u003e"},"kind":"ConfigMap"}]}"#;
        let expected = format!("sha256:{}", hex::encode(Sha256::digest(text)));
        let object = json!({"kind": "ConfigMap", "data": {"a": "<b>"}});
        assert_eq!(phase_digest("deploy", &[object]), expected);
    }

    #[test]
    fn every_changed_phase_is_named() {
        let stored = [phase("a", "sha256:1"), phase("b", "sha256:2")];
        assert_eq!(check_digests(&stored, &stored), Ok(()));
        let renamed = [phase("a", "sha256:1"), phase("c", "sha256:3")];
        assert_eq!(check_digests(&stored, &renamed), Ok(()));
        assert_eq!(
            check_digests(&stored, &stored[..1]).unwrap_err(),
            "number of phases has changed (expected 2 phases, got 1)"
        );
        let changed = [phase("a", "sha256:3"), phase("b", "sha256:4")];
        assert_eq!(
            check_digests(&stored, &changed).unwrap_err(),
            "resolved content of 2 phase(s) has changed: phase \"a\" (expected digest sha256:1, got sha256:3); phase \"b\" \
             (expected digest sha256:2, got sha256:4); a referenced object source may have been deleted and recreated with \
             different content"
        );
    }
}
