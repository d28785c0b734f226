//! Templates that derive channels from versions.
//!
//! Bundles are listed under `candidate`, `fast` and `stable`. Each list gives channels by major version, by minor version, or
//! both. Replacements stay within one list, kind of channel and major version. There the highest patch of each minor version
//! replaces the highest of the previous minor version and skips all other versions below.

use std::collections::BTreeMap;

use go_compat::semver::Version;
use olm_fbc::schema::{Blob, Bundle, Channel, ChannelEntry, Icon, Package};
use serde_json::{Map, Value};

use super::{Rendered, only_package};
use crate::bundle::{object, text};
use olm_fbc::did_you_mean::suggestion;

/// Lists of bundles, from the least to the most stable.
const ARCHETYPES: [&str; 3] = ["candidate", "fast", "stable"];

/// Fields of a template.
const FIELDS: [&str; 7] = [
    "schema",
    "generateMajorChannels",
    "generateMinorChannels",
    "defaultChannelTypePreference",
    "candidate",
    "fast",
    "stable",
];

/// Version part in channel names, from the less to the more preferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stream {
    Major,
    Minor,
}

#[derive(Debug)]
pub(super) struct Semver {
    streams: Vec<Stream>,
    preference: Stream,
    /// Images by archetype, in the order of [`ARCHETYPES`].
    images: [Vec<String>; 3],
}

/// A bundle of one archetype.
struct Versioned<'a> {
    bundle: &'a Bundle,
    version: Version,
    package: String,
}

impl Semver {
    /// Reads a template. Unknown keys are errors: a misspelt one would silently remove channels.
    pub(super) fn read(document: &Value) -> Result<Self, String> {
        let mut major = false;
        let mut minor = false;
        let mut preference = String::new();
        let mut images = [Vec::new(), Vec::new(), Vec::new()];
        for (key, value) in object_of("template", document)? {
            let flag = || match value {
                Value::Null => Ok(false),
                Value::Bool(flag) => Ok(*flag),
                _ => Err(format!("field {key}: expected a boolean")),
            };
            match key.to_ascii_lowercase().as_str() {
                "schema" => {}
                "generatemajorchannels" => major = flag()?,
                "generateminorchannels" => minor = flag()?,
                "defaultchanneltypepreference" => {
                    value
                        .as_str()
                        .ok_or_else(|| format!("field {key}: expected a string"))?
                        .clone_into(&mut preference);
                }
                other => match ARCHETYPES.iter().position(|archetype| *archetype == other) {
                    Some(index) => images[index] = read_images(key, value)?,
                    None => return Err(unknown_field(key, "", &FIELDS)),
                },
            }
        }
        if !major && !minor {
            minor = true;
        }
        let preference = match preference.as_str() {
            "" if minor => Stream::Minor,
            "" => Stream::Major,
            "minor" if minor => Stream::Minor,
            "major" if major => Stream::Major,
            "minor" | "major" => {
                return Err(format!(
                    "schema attribute mismatch: defaultChannelTypePreference is {preference:?}, but no {preference}-version \
                     channels are generated"
                ));
            }
            _ => {
                return Err(format!(
                    "unknown defaultChannelTypePreference: {preference:?}, valid values are 'major' and 'minor'{}",
                    suggestion(&preference, ["major", "minor"])
                ));
            }
        };
        let streams = [(Stream::Major, major), (Stream::Minor, minor)]
            .into_iter()
            .filter_map(|(stream, wanted)| wanted.then_some(stream))
            .collect();
        Ok(Self {
            streams,
            preference,
            images,
        })
    }

    pub(super) fn images(&self) -> Vec<String> {
        self.images.iter().flatten().cloned().collect()
    }

    pub(super) fn render(&self, rendered: &Rendered) -> Result<Vec<Blob>, String> {
        let images = images_once(&self.images);
        if images.is_empty() {
            return Err("no bundles specified or no bundles could be rendered".to_owned());
        }
        let wrap = |reason: String| format!("unable to post-process bundle info: {reason}");
        let mut package: Option<String> = None;
        let mut archetypes = Vec::new();
        for (archetype, images) in ARCHETYPES.into_iter().zip(&self.images) {
            let mut bundles = read_versions(images, rendered)?;
            for bundle in &bundles {
                let known = package.get_or_insert_with(|| bundle.package.clone());
                if *known != bundle.package {
                    return Err(wrap(format!(
                        "bundle {:?} does not belong to this package: {known:?} (it belongs to {:?})",
                        bundle.bundle.name, bundle.package
                    )));
                }
            }
            check_versions(&bundles).map_err(wrap)?;
            bundles.sort_by(|a, b| (&a.version, &a.bundle.name).cmp(&(&b.version, &b.bundle.name)));
            archetypes.push((archetype, bundles));
        }
        let package = package.unwrap_or_default();
        let (channels, default_channel) = self.channels(&package, &archetypes);
        let mut package = Package {
            name: package,
            default_channel,
            ..Package::default()
        };
        let bundles: Vec<Bundle> = images
            .iter()
            .filter_map(|image| rendered.get(*image)?.first().cloned())
            .collect();
        describe(&mut package, &channels, &bundles);
        Ok(std::iter::once(Blob::Package(package))
            .chain(channels.into_iter().map(Blob::Channel))
            .chain(bundles.into_iter().map(Blob::Bundle))
            .collect())
    }

    /// Returns channels by name, and the name of the default channel.
    fn channels(&self, package: &str, archetypes: &[(&str, Vec<Versioned<'_>>)]) -> (Vec<Channel>, String) {
        let mut channels: BTreeMap<String, Channel> = BTreeMap::new();
        let mut default = None;
        for (rank, (archetype, bundles)) in archetypes.iter().enumerate() {
            for stream in &self.streams {
                let edges = edges(bundles);
                for (bundle, (replaces, skips)) in bundles.iter().zip(edges) {
                    let name = match stream {
                        Stream::Major => format!("{archetype}-v{}", bundle.version.major),
                        Stream::Minor => {
                            format!("{archetype}-v{}.{}", bundle.version.major, bundle.version.minor)
                        }
                    };
                    let channel = channels.entry(name.clone()).or_insert_with(|| {
                        // A channel is compared by its lowest version, which is the first.
                        let candidate = (rank, bundle.version.clone(), *stream == self.preference, *stream);
                        if default.as_ref().is_none_or(|(best, _)| candidate > *best) {
                            default = Some((candidate, name.clone()));
                        }
                        Channel {
                            name,
                            package: package.to_owned(),
                            ..Channel::default()
                        }
                    });
                    channel.entries.push(ChannelEntry {
                        name: bundle.bundle.name.clone(),
                        replaces,
                        skips,
                        ..ChannelEntry::default()
                    });
                }
            }
        }
        let default = default.map(|(_, name)| name).unwrap_or_default();
        (channels.into_values().collect(), default)
    }
}

/// Returns each image once, in the order of first mention.
fn images_once(lists: &[Vec<String>]) -> Vec<&String> {
    let mut images: Vec<&String> = Vec::new();
    for image in lists.iter().flatten() {
        if !images.contains(&image) {
            images.push(image);
        }
    }
    images
}

fn object_of<'a>(what: &str, value: &'a Value) -> Result<&'a Map<String, Value>, String> {
    value
        .as_object()
        .ok_or_else(|| format!("{what}: expected an object"))
}

/// Describes an unknown field, followed by `place` and a suggestion.
fn unknown_field(key: &str, place: &str, known: &[&str]) -> String {
    format!(
        "unknown field {key:?}{place}{}",
        suggestion(key, known.iter().copied())
    )
}

fn read_images(archetype: &str, value: &Value) -> Result<Vec<String>, String> {
    let mut images = Vec::new();
    if value.is_null() {
        return Ok(images);
    }
    for (key, list) in object_of(archetype, value)? {
        if !key.eq_ignore_ascii_case("bundles") {
            return Err(unknown_field(key, &format!(" in {archetype}"), &["bundles"]));
        }
        let list = match list {
            Value::Null => continue,
            Value::Array(list) => list,
            _ => return Err(format!("field {archetype}.{key}: expected a list")),
        };
        for item in list {
            for (key, image) in object_of(&format!("{archetype}.bundles"), item)? {
                match image.as_str() {
                    Some(image) if key.eq_ignore_ascii_case("image") => images.push(image.to_owned()),
                    _ => {
                        let meant = suggestion(key, ["image"]);
                        return Err(format!(
                            "unknown or wrong field {key:?} in {archetype}.bundles{meant}"
                        ));
                    }
                }
            }
        }
    }
    Ok(images)
}

fn read_versions<'a>(images: &[String], rendered: &'a Rendered) -> Result<Vec<Versioned<'a>>, String> {
    let mut found: Vec<Versioned<'_>> = Vec::new();
    for image in images {
        let bundles = rendered.get(image).map_or(&[][..], Vec::as_slice);
        let [bundle] = bundles else {
            return Err(format!(
                "bundle reference {image:?} resulted in {} bundles, expected 1",
                bundles.len()
            ));
        };
        let Some(package) = only_package(bundle) else {
            return Err(format!(
                "bundle {:?} must have exactly 1 \"olm.package\" property",
                bundle.name
            ));
        };
        let version = Version::parse(&package.version).map_err(|error| {
            format!(
                "bundle {:?} has invalid version {:?}: {error}",
                bundle.name, package.version
            )
        })?;
        if found.iter().any(|other| other.bundle.name == bundle.name) {
            return Err(format!("duplicate bundle name {:?}", bundle.name));
        }
        found.push(Versioned {
            bundle,
            version,
            package: package.package_name,
        });
    }
    Ok(found)
}

/// Rejects versions that differ only in build metadata, because they have no order.
fn check_versions(bundles: &[Versioned<'_>]) -> Result<(), String> {
    let mut clashes = Vec::new();
    for (index, bundle) in bundles.iter().enumerate() {
        if bundles[..index]
            .iter()
            .any(|other| other.version == bundle.version)
        {
            let mut bare = bundle.version.clone();
            bare.build = Box::default();
            clashes.push(format!(
                "bundle version {:?} cannot be compared to {:?}",
                bundle.version.to_string(),
                bare.to_string()
            ));
        }
    }
    if clashes.is_empty() {
        return Ok(());
    }
    Err(format!(
        "encountered bundle versions which differ only by build metadata, which cannot be ordered: {}",
        clashes.join(", ")
    ))
}

/// Returns `replaces` and `skips` of bundles sorted by version.
fn edges(bundles: &[Versioned<'_>]) -> Vec<(String, Vec<String>)> {
    let minor = |version: &Version| (version.major, version.minor);
    let mut edges = Vec::with_capacity(bundles.len());
    for (index, bundle) in bundles.iter().enumerate() {
        let is_highest = bundles
            .get(index + 1)
            .is_none_or(|next| minor(&next.version) != minor(&bundle.version));
        if !is_highest {
            edges.push((String::new(), Vec::new()));
            continue;
        }
        let below = bundles[..index]
            .iter()
            .filter(|other| other.version.major == bundle.version.major);
        let replaces = below
            .clone()
            .rfind(|other| other.version.minor != bundle.version.minor)
            .map(|other| other.bundle.name.clone())
            .unwrap_or_default();
        let mut skips: Vec<String> = below
            .map(|other| other.bundle.name.clone())
            .filter(|name| *name != replaces)
            .collect();
        skips.sort_unstable();
        edges.push((replaces, skips));
    }
    edges
}

/// Sets description and icon to those of the newest bundle in the default channel.
fn describe(package: &mut Package, channels: &[Channel], bundles: &[Bundle]) {
    let head = channels
        .iter()
        .find(|channel| channel.name == package.default_channel)
        .and_then(|channel| channel.entries.last())
        .and_then(|entry| bundles.iter().find(|bundle| bundle.name == entry.name));
    let Some(csv) = head.and_then(object::csv) else {
        return;
    };
    package.description = text(&csv["spec"]["description"]);
    package.icon = csv["spec"]["icon"].get(0).map(|icon| Icon {
        base64data: text(&icon["base64data"]),
        mediatype: text(&icon["mediatype"]),
        ..Icon::default()
    });
}
