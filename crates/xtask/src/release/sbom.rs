//! Bills of materials of programs, as CycloneDX 1.6 in JSON (<https://cyclonedx.org/docs/1.6/json/>).

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::packages::Package;
use super::source::Source;

/// Returns the bill of `program` with the SHA-256 `sha256`, built from `packages`.
///
/// # Errors
/// The time of the release is too large.
pub(super) fn bill(
    program: &str,
    source: &Source,
    sha256: &str,
    packages: &BTreeSet<Package>,
) -> anyhow::Result<Value> {
    let components: Vec<Value> = packages
        .iter()
        .filter(|package| package.name != program)
        .map(described)
        .collect();
    Ok(json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": source.date()?,
            "component": {
                "type": "application", "bom-ref": program, "name": program, "version": source.version,
                "licenses": [{"expression": "Apache-2.0"}], "hashes": [{"alg": "SHA-256", "content": sha256}],
                "properties": [{"name": "olm:commit", "value": source.commit}],
            },
        },
        "components": components,
    }))
}

fn described(package: &Package) -> Value {
    let Package { name, version, .. } = package;
    // Packages of this workspace are in no registry, where another package may have the same name.
    let kind = if package.is_without_registry {
        "generic"
    } else {
        "cargo"
    };
    // The only letter in versions that has to be escaped is `+`.
    let purl = format!("pkg:{kind}/{name}@{}", version.replace('+', "%2B"));
    let mut described =
        json!({"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl});
    if !package.licence.is_empty() {
        // The current SPDX syntax; some authors write `MIT/Apache-2.0`.
        described["licenses"] = json!([{"expression": package.licence.replace('/', " OR ")}]);
    }
    described
}
