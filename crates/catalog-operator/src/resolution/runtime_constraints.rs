//! Demands of the administrator on everything that is installed: a file named by an environment variable, as upstream.

use std::path::Path;

use olm_resolver::RuntimeConstraint;

/// Names the file.
pub(crate) const VARIABLE: &str = "RUNTIME_CONSTRAINTS";

/// The demands of the file that the environment names; none without one.
///
/// # Errors
/// The file cannot be read or used. Nothing may be resolved then: what it forbids would be installed.
pub(crate) fn from_environment() -> Result<Vec<RuntimeConstraint>, String> {
    match std::env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
        Some(path) => read(Path::new(&path)),
        None => Ok(Vec::new()),
    }
}

fn read(path: &Path) -> Result<Vec<RuntimeConstraint>, String> {
    let file = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("cannot read {file}, named by {VARIABLE}: {error}"))?;
    RuntimeConstraint::read(&text).map_err(|error| format!("{file}, named by {VARIABLE}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_used_is_named_with_the_variable() {
        let error = read(Path::new("/nowhere/constraints.json")).unwrap_err();
        assert!(
            error.starts_with("cannot read /nowhere/constraints.json, named by RUNTIME_CONSTRAINTS: "),
            "{error}"
        );
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("constraints.json");
        std::fs::write(&file, "{}").unwrap();
        assert!(read(&file).unwrap_err().contains("runtime constraints: "));
        std::fs::write(
            &file,
            r#"{"properties":[{"type":"olm.label","value":{"label":"l"}}]}"#,
        )
        .unwrap();
        assert_eq!(read(&file).unwrap()[0].message, "with label: l");
    }
}
