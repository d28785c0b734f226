//! Templates in which bundles replace others.

use std::collections::{BTreeMap, BTreeSet};

use go_compat::json::Fields;
use olm_api::labels::SUBSTITUTES_FOR;
use olm_fbc::property::Typed;
use olm_fbc::release::{Release, VersionRelease};
use olm_fbc::schema::{Blob, Bundle, Channel, ChannelEntry};
use olm_fbc::validate::check;
use serde_json::Value;

use super::{Rendered, SUBSTITUTIONS, only_package, read_entries, shape};
use crate::Error;
use olm_fbc::did_you_mean::suggestion;

/// Maximum number of bundles that are compared with an unknown name.
const MAX_COMPARED: usize = 10_000;

/// Origin of the blobs, in faults.
const ORIGIN: &str = "template";

#[derive(Debug)]
pub(super) struct Substitutes {
    pub(super) entries: Vec<Blob>,
    substitutions: Vec<Substitution>,
}

#[derive(Debug)]
struct Substitution {
    /// Image of the substitute.
    name: String,
    /// Name of the bundle it replaces.
    base: String,
}

impl Substitution {
    fn check(&self) -> Result<(), String> {
        if self.name.is_empty() {
            return Err("substitution name cannot be empty".to_owned());
        }
        if self.base.is_empty() {
            return Err("substitution base cannot be empty".to_owned());
        }
        if self.name == self.base {
            return Err("substitution name and base cannot be the same".to_owned());
        }
        Ok(())
    }
}

impl Substitutes {
    pub(super) fn read(fields: &Fields<'_>) -> Result<Self, Error> {
        let list = match fields.get(SUBSTITUTIONS) {
            None | Some(Value::Null) => &[][..],
            Some(Value::Array(list)) => list.as_slice(),
            Some(_) => {
                return Err(shape("field substitutions: expected a list"));
            }
        };
        let substitutions = list
            .iter()
            .map(|item| {
                let item = Fields::of(item)?;
                Ok(Substitution {
                    name: item.text("name")?,
                    base: item.text("base")?,
                })
            })
            .collect::<Result<_, String>>()
            .map_err(shape)?;
        Ok(Self {
            entries: read_entries(fields)?,
            substitutions,
        })
    }

    pub(super) fn images(&self) -> Vec<String> {
        self.substitutions
            .iter()
            .filter(|substitution| substitution.check().is_ok())
            .map(|substitution| substitution.name.clone())
            .collect()
    }

    pub(super) fn render(&self, rendered: &Rendered) -> Result<Vec<Blob>, String> {
        let mut blobs = self.entries.clone();
        check(&blobs, ORIGIN).map_err(|faults| format!("entries are not valid FBC: {faults}"))?;
        let mut bases = BTreeSet::new();
        let mut names: BTreeMap<&str, &str> = BTreeMap::new();
        for substitution in &self.substitutions {
            let Substitution { name, base } = substitution;
            if !bases.insert(base) {
                return Err(format!("cannot reuse the same substitution base {base:?}"));
            }
            if let Some(other) = names.insert(name, base) {
                return Err(format!(
                    "cannot reuse the same substitution {name:?} for different bases ({other:?} and {base:?})"
                ));
            }
            substitute(&mut blobs, substitution, rendered)
                .map_err(|reason| format!("error processing substitution {base:?} -> {name:?}: {reason}"))?;
        }
        Ok(blobs)
    }
}

fn substitute(blobs: &mut Vec<Blob>, substitution: &Substitution, rendered: &Rendered) -> Result<(), String> {
    substitution.check()?;
    let Substitution { name, base } = substitution;
    let bundle = rendered
        .get(name)
        .and_then(|bundles| bundles.first())
        .ok_or_else(|| format!("rendered bundle image reference {name:?} contains no bundles"))?;
    let version = version_release(bundle)
        .map_err(|reason| format!("failed to get VersionRelease for substitute bundle {name:?}: {reason}"))?;
    let base_bundle = blobs
        .iter()
        .find_map(|blob| match blob {
            Blob::Bundle(bundle) if bundle.name == *base => Some(bundle),
            _ => None,
        })
        .ok_or_else(|| {
            let names = blobs.iter().filter_map(|blob| match blob {
                Blob::Bundle(bundle) => Some(bundle.name.as_str()),
                _ => None,
            });
            let meant = suggestion(base, names.take(MAX_COMPARED));
            format!("base bundle {base:?} does not exist in catalog{meant}")
        })?;
    let base_version = version_release(base_bundle)
        .map_err(|reason| format!("failed to get VersionRelease for base bundle {base:?}: {reason}"))?;
    if base_version >= version {
        return Err(format!(
            "base bundle {base:?} is not less than substitute bundle {name:?}"
        ));
    }
    for blob in blobs.iter_mut() {
        if let Blob::Channel(channel) = blob {
            relink(channel, &bundle.name, base);
        }
    }
    blobs.push(Blob::Bundle(bundle.clone()));
    check(blobs, ORIGIN).map_err(|faults| format!("resulting config is not valid FBC: {faults}"))?;
    Ok(())
}

/// Moves the edges of the base to the substitute, which skips the base. Edges that led to the base lead to the substitute.
fn relink(channel: &mut Channel, name: &str, base: &str) {
    let mut added = Vec::new();
    for entry in &mut channel.entries {
        if entry.name == base {
            let mut skips = std::mem::take(&mut entry.skips);
            skips.push(base.to_owned());
            added.push(ChannelEntry {
                name: name.to_owned(),
                replaces: std::mem::take(&mut entry.replaces),
                skips,
                skip_range: std::mem::take(&mut entry.skip_range),
                ..ChannelEntry::default()
            });
        }
    }
    for entry in &mut channel.entries {
        if entry.replaces == base {
            name.clone_into(&mut entry.replaces);
            entry.skips.push(base.to_owned());
        } else if entry.skips.iter().any(|skip| skip == base) {
            entry.skips.retain(|skip| skip != base);
            entry.skips.push(name.to_owned());
        }
    }
    channel.entries.extend(added);
}

/// Returns version and release for comparison. Without a release, the build metadata of a substitute counts as the release.
fn version_release(bundle: &Bundle) -> Result<VersionRelease, String> {
    let Some(package) = only_package(bundle) else {
        return Err("must have exactly 1 \"olm.package\" property".to_owned());
    };
    let mut found = package.version_release()?;
    if found.release.is_empty() && !found.version.build.is_empty() && is_substitute(bundle) {
        found.release = Release::parse(&found.version.build)?;
        found.version.build = Box::default();
    }
    Ok(found)
}

/// Returns true for a substitute. A readable CSV decides; without one the metadata does.
fn is_substitute(bundle: &Bundle) -> bool {
    let annotated = |annotations: &Value| {
        annotations[SUBSTITUTES_FOR]
            .as_str()
            .is_some_and(|text| !text.is_empty())
    };
    if let Some(csv) = crate::bundle::object::csv(bundle) {
        return annotated(&csv["metadata"]["annotations"]);
    }
    bundle.properties.iter().any(|property| match property.parse() {
        Ok(Typed::CsvMetadata(metadata)) => metadata.get("annotations").is_some_and(annotated),
        _ => false,
    })
}
