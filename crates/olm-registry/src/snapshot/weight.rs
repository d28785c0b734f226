//! Limits on one bundle's properties, and their memory once resolution has parsed them.
//!
//! A catalog's author decides how many properties its bundles have. Resolution parses, sorts and keeps them.

use olm_fbc::entry::EntryProperty;
use olm_fbc::property::kinds;

use crate::limits::{BUNDLE_PROPERTIES, DEPENDENCY_BYTES, PROPERTIES_BYTES};
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

/// Checks that a bundle's properties are within the limits.
///
/// # Errors
/// The exceeded limit.
pub(super) fn check(bundle: &proto::Bundle) -> Result<(), String> {
    let values = [
        bundle.properties.len(),
        bundle.dependencies.len(),
        bundle.provided_apis.len(),
        bundle.required_apis.len(),
    ];
    if values.into_iter().fold(0, usize::saturating_add) > BUNDLE_PROPERTIES {
        return Err(format!(
            "more than {BUNDLE_PROPERTIES} properties, dependencies and APIs"
        ));
    }
    let large = bundle
        .properties
        .iter()
        .find(|property| PARSED.contains(&&*property.r#type) && property.value.len() > DEPENDENCY_BYTES);
    if let Some(property) = large {
        let kind = &property.r#type;
        return Err(format!("a property {kind} exceeds {DEPENDENCY_BYTES} bytes"));
    }
    let bytes = bundle.properties.iter().map(|property| property.value.len());
    if bytes.fold(0, usize::saturating_add) > PROPERTIES_BYTES {
        return Err(format!("properties exceed {PROPERTIES_BYTES} bytes"));
    }
    Ok(())
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
