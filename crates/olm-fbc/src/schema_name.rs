//! Names of custom schemas. A registry can be queried only for plain names, because upstream uses them as file names.

use go_compat::quote;

/// Pattern of allowed names, in upstream's notation.
const PATTERN: &str = "^[a-zA-Z0-9][a-zA-Z0-9._-]*$";

/// Checks the names of a custom schema and of its package; an empty package name means none.
///
/// # Errors
/// The schema has no name, or a name is not plain.
pub fn check(schema: &str, package: &str) -> Result<(), String> {
    if schema.is_empty() {
        return Err("invalid schema: must not be empty".to_owned());
    }
    for (what, name) in [("schema", schema), ("packageName", package)] {
        if !name.is_empty() && !is_plain(name) {
            return Err(format!("invalid {what} {}: must match {PATTERN}", quote(name)));
        }
    }
    Ok(())
}

/// Returns true if a name matches [`PATTERN`].
fn is_plain(name: &str) -> bool {
    name.starts_with(|char: char| char.is_ascii_alphanumeric())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_custom_schemas_are_plain() {
        assert_eq!(check("custom.Schema_1-x", "a.b"), Ok(()));
        assert_eq!(check("a", ""), Ok(()), "a package is not needed");
        assert_eq!(
            check("", "a"),
            Err("invalid schema: must not be empty".to_owned())
        );
        for bad in ["a/b", ".a", "-a", "_a", "a b", "\u{e9}", "a\n"] {
            let text = format!("invalid schema {bad:?}: must match ^[a-zA-Z0-9][a-zA-Z0-9._-]*$");
            assert_eq!(check(bad, ""), Err(text));
            let text = format!("invalid packageName {bad:?}: must match ^[a-zA-Z0-9][a-zA-Z0-9._-]*$");
            assert_eq!(check("a", bad), Err(text));
        }
    }
}
