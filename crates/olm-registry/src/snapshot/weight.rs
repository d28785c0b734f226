//! The limit of one property, and the memory of properties once resolution has parsed them.
//!
//! A catalog's author decides how many properties its bundles have. Resolution parses, sorts and keeps them.

use olm_fbc::entry::EntryProperty;
use olm_fbc::property::kinds;

use crate::limits::DEPENDENCY_BYTES;
use crate::proto;

/// Types that resolution parses. Constraints have a limit of their own there.
const PARSED: [&str; 6] = [
    kinds::PACKAGE,
    kinds::PACKAGE_REQUIRED,
    kinds::GVK,
    kinds::GVK_REQUIRED,
    kinds::LABEL,
    kinds::LABEL_REQUIRED,
];

/// Checks that no property of a bundle which resolution parses exceeds its limit.
///
/// # Errors
/// One exceeds it.
pub(super) fn check(bundle: &proto::Bundle) -> Result<(), String> {
    let large = bundle
        .properties
        .iter()
        .find(|property| PARSED.contains(&&*property.r#type) && property.value.len() > DEPENDENCY_BYTES);
    match large {
        Some(property) => Err(format!(
            "a property {} exceeds {DEPENDENCY_BYTES} bytes",
            property.r#type
        )),
        None => Ok(()),
    }
}

/// Returns the approximate bytes of a parsed property, beside its text. Rules become trees of their words.
pub(super) fn parsed(property: &EntryProperty) -> usize {
    /// Bytes per character: a node of a rule's tree has some hundred bytes, and represents some characters.
    const TREE: usize = 32;
    match &*property.kind {
        kinds::CONSTRAINT => property.value.len().saturating_mul(TREE),
        kind if PARSED.contains(&kind) => property.value.len(),
        _ => 0,
    }
}
