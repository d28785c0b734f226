use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;

mod packages;
mod selection;
mod upgrades;

/// Returns the documents of package `p`. Entries of a channel are separated by `;`: a bundle name, then `>replaced`, `!skipped`,
/// `~skipRange` with `_` for spaces. The version is what follows `.v` in the name.
fn documents(channels: &[(&str, &str)]) -> Vec<Value> {
    let mut documents = vec![json!({"schema": "olm.package", "name": "p", "defaultChannel": "stable"})];
    let mut names = BTreeSet::new();
    for (channel, text) in channels {
        let entries: Vec<Value> = text.split(';').map(entry).collect();
        for entry in &entries {
            names.insert(entry["name"].as_str().unwrap().to_owned());
        }
        documents.push(json!({"schema": "olm.channel", "package": "p", "name": channel, "entries": entries}));
    }
    for name in names {
        documents.push(bundle(&name, &version(&name)));
    }
    documents
}

fn entry(text: &str) -> Value {
    let mut words = text.split_whitespace();
    let mut entry = json!({"name": words.next().unwrap(), "skips": []});
    for word in words {
        let (mark, rest) = word.split_at(1);
        match mark {
            ">" => entry["replaces"] = rest.into(),
            "!" => entry["skips"].as_array_mut().unwrap().push(rest.into()),
            "~" => entry["skipRange"] = rest.replace('_', " ").into(),
            other => panic!("{other}"),
        }
    }
    entry
}

fn bundle(name: &str, version: &str) -> Value {
    json!({
        "schema": "olm.bundle", "package": "p", "name": name, "image": format!("registry/{name}"),
        "properties": [{"type": "olm.package", "value": {"packageName": "p", "version": version}}],
    })
}

/// Returns the deprecations of bundles, or of the package for the name "".
fn deprecations(names: &[&str]) -> Value {
    let entries: Vec<Value> = names
        .iter()
        .map(|name| match *name {
            "" => json!({"reference": {"schema": "olm.package"}, "message": "package is old"}),
            name => {
                json!({"reference": {"schema": "olm.bundle", "name": name}, "message": format!("{name} is old")})
            }
        })
        .collect();
    json!({"schema": "olm.deprecations", "package": "p", "entries": entries})
}

fn version(name: &str) -> String {
    name.split_once(".v").unwrap().1.to_owned()
}

fn lines(documents: &[Value]) -> Vec<u8> {
    let lines: Vec<String> = documents.iter().map(|document| format!("{document}\n")).collect();
    lines.concat().into_bytes()
}

fn catalog(name: &str, priority: i32, documents: &[Value]) -> Catalog {
    let package = PackageContent::read(&lines(documents), "p").unwrap();
    Catalog {
        name: name.to_owned(),
        priority,
        labels: BTreeMap::from([(
            olm_api::extension_v1::METADATA_NAME_LABEL.to_owned(),
            name.to_owned(),
        )]),
        is_switched_off: false,
        package: package.map_or(PackageResult::Absent, |package| {
            PackageResult::Found(Arc::new(package))
        }),
    }
}

/// Returns the only catalog, `c`.
fn one(channels: &[(&str, &str)]) -> [Catalog; 1] {
    [catalog("c", 0, &documents(channels))]
}

/// Resolves package `p` with further fields of the filter.
fn run(fields: &Value, installed: Option<&str>, catalogs: &[Catalog]) -> Resolution {
    resolved(fields, installed, false, catalogs)
}

/// As `run`, by the edges of the catalogs or by semantic versions.
fn resolved(fields: &Value, installed: Option<&str>, is_by_semver: bool, catalogs: &[Catalog]) -> Resolution {
    let mut filter = json!({"packageName": "p"});
    for (name, value) in fields.as_object().unwrap() {
        filter[name] = value.clone();
    }
    let filter: CatalogFilter = serde_json::from_value(filter).unwrap();
    let installed = installed.map(installed_bundle);
    let request = Request {
        filter: &filter,
        installed: installed.as_ref(),
        openshift: None,
        is_by_semver,
    };
    resolve(&request, catalogs)
}

fn installed_bundle(name: &str) -> Chosen {
    Chosen {
        name: name.to_owned(),
        version: version(name),
        ..Chosen::default()
    }
}

/// Returns the name of the chosen bundle, or the error.
fn chosen(fields: &Value, installed: Option<&str>, catalogs: &[Catalog]) -> String {
    match run(fields, installed, catalogs).outcome {
        Ok(chosen) => chosen.name,
        Err(error) => error,
    }
}

/// Returns every candidate with what rules it out.
fn explained(resolution: &Resolution) -> Vec<String> {
    let candidates = resolution.candidates.iter();
    candidates
        .map(|candidate| {
            format!(
                "{}/{}: {}",
                candidate.catalog,
                candidate.bundle,
                candidate.ruled_out.join("; ")
            )
        })
        .collect()
}
