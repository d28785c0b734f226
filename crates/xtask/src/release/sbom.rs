//! The bill of materials of a program, as CycloneDX 1.6 in JSON (<https://cyclonedx.org/docs/1.6/json/>).

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::graph::{Component, Scope};

/// The program that a bill is of, and how it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Subject<'a> {
    /// Its name, which is also that of its package.
    pub(super) program: &'a str,
    /// The release's version.
    pub(super) version: &'a str,
    /// Rust's name of what it runs on.
    pub(super) target: &'a str,
    /// SHA-256 of the program as it is shipped.
    pub(super) sha256: &'a str,
    pub(super) commit: &'a str,
    /// The release's time as RFC 3339.
    pub(super) date: &'a str,
    /// What is linked in from outside the registry: names, versions and licences, such as the standard library's.
    pub(super) toolchain: &'a [(String, String, String)],
}

/// The bill of a program made of `components`, its own package among them. The same content gives the same text.
pub(super) fn bill(subject: &Subject<'_>, components: &[Component]) -> Value {
    let Subject { program, version, .. } = subject;
    let itself = reference(program, version, true);
    let of_program = |component: &&Component| component.is_ours() && component.name == *program;
    let mut listed: Vec<Value> = components
        .iter()
        .filter(|component| !of_program(component))
        .map(described)
        .collect();
    let mut graph: Vec<Value> = components
        .iter()
        .map(|component| {
            let is_itself = of_program(&component);
            let mut needs: Vec<String> = component
                .needs
                .iter()
                .filter_map(|(name, version)| {
                    components
                        .iter()
                        .find(|it| it.name == *name && it.version == *version)
                })
                .map(|need| reference(&need.name, &need.version, need.is_ours()))
                .collect();
            if is_itself {
                needs.extend(
                    subject
                        .toolchain
                        .iter()
                        .map(|(name, version, _)| reference(name, version, true)),
                );
            }
            needs.sort();
            let it = if is_itself {
                itself.clone()
            } else {
                reference(&component.name, &component.version, component.is_ours())
            };
            json!({"ref": it, "dependsOn": needs})
        })
        .collect();
    for (name, version, licence) in subject.toolchain {
        let it = reference(name, version, true);
        listed.push(json!({
            "type": "library", "bom-ref": it, "name": name, "version": version, "scope": "required", "purl": it,
            "licenses": [{"expression": licence}],
        }));
        graph.push(json!({"ref": it, "dependsOn": []}));
    }
    let licence = components
        .iter()
        .find(of_program)
        .and_then(licences)
        .unwrap_or_else(|| json!([]));
    let mut document = json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": subject.date,
            "lifecycles": [{"phase": "build"}],
            "tools": {"components": [{"type": "application", "name": "cargo xtask release", "version": version}]},
            "component": {
                "type": "application", "bom-ref": itself, "name": program, "version": version, "purl": itself,
                "licenses": licence, "hashes": [{"alg": "SHA-256", "content": subject.sha256}],
                "properties": [
                    {"name": "olm:commit", "value": subject.commit},
                    {"name": "olm:target", "value": subject.target},
                ],
            },
        },
        "components": listed,
        "dependencies": graph,
    });
    document["serialNumber"] = json!(serial_number(&document));
    document
}

fn described(component: &Component) -> Value {
    let Component { name, version, .. } = component;
    let it = reference(name, version, component.is_ours());
    let mut described = json!({
        "type": "library", "bom-ref": it, "name": name, "version": version, "purl": it,
        "scope": match component.scope {
            Scope::Linked => "required",
            Scope::BuildOnly => "excluded",
        },
    });
    if let Some(licences) = licences(component) {
        described["licenses"] = licences;
    }
    if let Some(checksum) = &component.checksum {
        described["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
    }
    if let Some(repository) = component
        .repository
        .as_deref()
        .filter(|url| url.starts_with("https://"))
    {
        described["externalReferences"] = json!([{"type": "vcs", "url": repository}]);
    }
    described
}

/// The licence as SPDX has it today: authors write `MIT/Apache-2.0`, too. None where it is none.
fn licences(component: &Component) -> Option<Value> {
    let written = component.licence.as_deref()?;
    let canonical = spdx::Expression::canonicalize(written).ok()?;
    let expression = canonical.unwrap_or_else(|| written.to_owned());
    spdx::Expression::parse(&expression).ok()?;
    Some(json!([{"expression": expression}]))
}

/// The package URL, which also refers to it within the bill. Packages of this workspace are in no registry, where somebody else may have one of
/// the name: they are no `cargo` packages to scanners.
fn reference(name: &str, version: &str, is_ours: bool) -> String {
    let kind = if is_ours { "generic" } else { "cargo" };
    // Of what versions have only `+` has to be escaped.
    format!("pkg:{kind}/{name}@{}", version.replace('+', "%2B"))
}

/// A UUID of the content (RFC 9562, version 8).
fn serial_number(document: &Value) -> String {
    let digest = Sha256::digest(document.to_string().as_bytes());
    let mut bytes: [u8; 16] = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    bytes[6] = bytes[6] & 0x0f | 0x80;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let text = hex::encode(bytes);
    format!(
        "urn:uuid:{}-{}-{}-{}-{}",
        &text[..8],
        &text[8..12],
        &text[12..16],
        &text[16..20],
        &text[20..]
    )
}

/// What makes a bill useless to those who read it: a field that has to be there, a package twice, or a dependency that is not listed.
/// Empty where there is none.
pub(super) fn faults(bill: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    for path in [
        "/bomFormat",
        "/specVersion",
        "/serialNumber",
        "/metadata/timestamp",
        "/metadata/component/bom-ref",
        "/metadata/component/hashes/0/content",
        "/metadata/component/licenses/0/expression",
    ] {
        if bill
            .pointer(path)
            .and_then(Value::as_str)
            .is_none_or(str::is_empty)
        {
            faults.push(format!("{path} is missing"));
        }
    }
    let items = |path: &str| {
        bill.pointer(path)
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default()
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut known = std::collections::BTreeSet::from([text(&bill["metadata"]["component"]["bom-ref"])]);
    for component in items("/components") {
        let it = text(&component["bom-ref"]);
        for field in ["name", "version", "purl", "type", "scope"] {
            if text(&component[field]).is_empty() {
                faults.push(format!("{it} has no {field}"));
            }
        }
        if component["licenses"][0]["expression"].as_str().is_none() {
            faults.push(format!("{it} has no licence that SPDX knows"));
        }
        if it.starts_with("pkg:cargo/") && text(&component["hashes"][0]["content"]).len() != 64 {
            faults.push(format!("{it} has no SHA-256"));
        }
        if !known.insert(it.clone()) {
            faults.push(format!("{it} is listed twice"));
        }
    }
    let mut told = std::collections::BTreeSet::new();
    for dependency in items("/dependencies") {
        let it = text(&dependency["ref"]);
        for need in dependency["dependsOn"].as_array().into_iter().flatten().map(text) {
            if !known.contains(&need) {
                faults.push(format!("{it} depends on {need}, which is not listed"));
            }
        }
        if !told.insert(it.clone()) {
            faults.push(format!("dependencies of {it} are told twice"));
        }
    }
    faults.extend(
        known
            .difference(&told)
            .map(|it| format!("nothing is told of dependencies of {it}")),
    );
    faults
}

#[cfg(test)]
mod tests {
    use super::super::graph::tests::{graph, units};
    use super::*;

    fn toolchain() -> Vec<(String, String, String)> {
        vec![("glibc".into(), "2.36".into(), "LGPL-2.1-or-later".into())]
    }

    fn subject(toolchain: &[(String, String, String)]) -> Subject<'_> {
        Subject {
            program: "a",
            version: "1.0.0-rc.1",
            target: "x86-gnu",
            sha256: "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03",
            commit: "abc",
            date: "2023-11-14T22:13:20Z",
            toolchain,
        }
    }

    fn example() -> Value {
        bill(
            &subject(&toolchain()),
            &graph().of_program("a", Some(&units())).unwrap(),
        )
    }

    #[test]
    fn a_bill_lists_what_is_in_a_program() {
        let bill = example();
        assert_eq!(faults(&bill), [""; 0]);
        let listed: Vec<String> = bill["components"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| {
                format!(
                    "{} {} {}",
                    it["purl"].as_str().unwrap(),
                    it["scope"].as_str().unwrap(),
                    it["licenses"][0]["expression"].as_str().unwrap()
                )
            })
            .collect();
        assert_eq!(
            listed,
            [
                "pkg:cargo/b@1.0.0 excluded MIT",
                "pkg:cargo/b@2.0.0 required MIT",
                "pkg:cargo/d@4.0.0 required MIT OR Apache-2.0",
                "pkg:cargo/m@5.0.0 excluded MIT",
                "pkg:cargo/s@6.0.0 excluded MIT",
                "pkg:generic/glibc@2.36 required LGPL-2.1-or-later",
            ]
        );
        let own = &bill["dependencies"][0];
        assert_eq!(
            own["ref"], "pkg:generic/a@1.0.0-rc.1",
            "a package of ours, as somebody else's of crates.io may have the name"
        );
        assert_eq!(
            own["dependsOn"],
            json!([
                "pkg:cargo/b@2.0.0",
                "pkg:cargo/d@4.0.0",
                "pkg:cargo/m@5.0.0",
                "pkg:cargo/s@6.0.0",
                "pkg:generic/glibc@2.36"
            ])
        );
        let checksum = &bill["components"][2]["hashes"][0];
        assert_eq!(*checksum, json!({"alg": "SHA-256", "content": "d".repeat(64)}));
    }

    #[test]
    fn the_number_of_a_bill_is_its_contents() {
        let (one, other) = (example(), example());
        assert_eq!(one, other);
        let number = one["serialNumber"].as_str().unwrap();
        assert_eq!(number.len(), "urn:uuid:".len() + 36);
        assert_eq!(&number[23..24], "8", "{number}");
        assert!("89ab".contains(&number[28..29]), "{number}");
        let toolchain = toolchain();
        let later = Subject {
            date: "2024-01-01T00:00:00Z",
            ..subject(&toolchain)
        };
        let later = bill(&later, &graph().of_program("a", Some(&units())).unwrap());
        assert_ne!(later["serialNumber"], one["serialNumber"]);
    }

    #[test]
    fn a_bill_that_misleads_is_found_out() {
        let broken = |change: fn(&mut Value)| {
            let mut bill = example();
            change(&mut bill);
            faults(&bill).join("; ")
        };
        let twice: fn(&mut Value) = |bill| {
            let first = bill["components"][0].clone();
            bill["components"].as_array_mut().unwrap().push(first);
        };
        assert_eq!(broken(twice), "pkg:cargo/b@1.0.0 is listed twice");
        let gone: fn(&mut Value) = |bill| drop(bill["components"].as_array_mut().unwrap().remove(2));
        assert_eq!(
            broken(gone),
            "pkg:generic/a@1.0.0-rc.1 depends on pkg:cargo/d@4.0.0, which is not listed"
        );
        assert_eq!(
            broken(|bill| bill["components"][0]["hashes"] = Value::Null),
            "pkg:cargo/b@1.0.0 has no SHA-256"
        );
        assert_eq!(
            broken(|bill| bill["components"][0]["licenses"] = Value::Null),
            "pkg:cargo/b@1.0.0 has no licence that SPDX knows"
        );
        assert_eq!(
            broken(|bill| bill["components"][0]["version"] = Value::Null),
            "pkg:cargo/b@1.0.0 has no version"
        );
        assert_eq!(
            broken(|bill| bill["serialNumber"] = Value::Null),
            "/serialNumber is missing"
        );
        let untold: fn(&mut Value) = |bill| drop(bill["dependencies"].as_array_mut().unwrap().remove(1));
        assert_eq!(
            broken(untold),
            "nothing is told of dependencies of pkg:cargo/b@1.0.0"
        );
        let told_twice: fn(&mut Value) = |bill| {
            let first = bill["dependencies"][1].clone();
            bill["dependencies"].as_array_mut().unwrap().push(first);
        };
        assert_eq!(
            broken(told_twice),
            "dependencies of pkg:cargo/b@1.0.0 are told twice"
        );
    }

    #[test]
    fn a_version_with_a_plus_is_escaped() {
        assert_eq!(
            reference("zstd-sys", "2.0.1+zstd.1.5.2", false),
            "pkg:cargo/zstd-sys@2.0.1%2Bzstd.1.5.2"
        );
    }
}
