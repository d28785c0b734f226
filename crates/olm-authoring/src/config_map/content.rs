//! The three lists of a ConfigMap, read and matched to each other.

use std::collections::{BTreeMap, BTreeSet};

use go_compat::json::{Fields, kind_of};
use olm_api::config_map_catalog as keys;
use olm_api::labels::SUBSTITUTES_FOR;
use olm_api::{GROUP, crd};
use olm_fbc::manifest::{CRD_KIND, CSV_KIND};
use olm_fbc::yaml::{Documents, Limits};
use serde_json::Value;

use super::ConfigMapError;

/// Annotation of a CSV: the range of versions that it may replace.
const SKIP_RANGE: &str = "olm.skipRange";

/// What one text may cost. A ConfigMap is small, so aliases that make it large are somebody's joke.
const LIMITS: Limits = Limits {
    document_bytes: keys::MAX_BYTES,
    depth: 128,
    nodes: 500_000,
    alias_nodes: 50_000,
    alias_bytes: keys::MAX_BYTES,
};

/// What a ConfigMap holds.
#[derive(Debug)]
pub(super) struct Content {
    pub(super) packages: Vec<PackageList>,
    /// By name.
    pub(super) csvs: BTreeMap<String, Csv>,
    pub(super) crds: Vec<Crd>,
}

/// A package and where its channels begin.
#[derive(Debug)]
pub(super) struct PackageList {
    pub(super) name: String,
    pub(super) channels: Vec<ChannelHead>,
    /// May be empty.
    pub(super) default_channel: String,
}

#[derive(Debug)]
pub(super) struct ChannelHead {
    pub(super) name: String,
    pub(super) current_csv: String,
}

/// A ClusterServiceVersion.
#[derive(Debug)]
pub(super) struct Csv {
    pub(super) name: String,
    /// Where it stands, for messages.
    pub(super) place: String,
    /// Position in its list.
    pub(super) index: usize,
    pub(super) object: Value,
    /// Of its JSON.
    pub(super) bytes: usize,
    pub(super) replaces: String,
    pub(super) skips: Vec<String>,
    pub(super) skip_range: String,
    /// Positions of the definitions that it owns.
    pub(super) owned: BTreeSet<usize>,
}

/// A CustomResourceDefinition.
#[derive(Debug)]
pub(super) struct Crd {
    pub(super) place: String,
    pub(super) object: Value,
    /// Of its JSON.
    pub(super) bytes: usize,
}

/// Name, version and kind: what a ClusterServiceVersion says of a definition that it owns.
type CrdKey = (String, String, String);

impl Content {
    pub(super) fn read<'a>(text: impl Fn(&str) -> Option<&'a [u8]>) -> Result<Self, ConfigMapError> {
        let mut bytes = 0;
        let mut found = BTreeMap::new();
        for key in keys::KEYS {
            let text = text(key).ok_or(ConfigMapError::MissingKey(key))?;
            bytes += text.len();
            found.insert(key, text);
        }
        if bytes > keys::MAX_BYTES {
            return Err(ConfigMapError::TooLarge {
                limit: keys::MAX_BYTES,
            });
        }
        let mut crds = Vec::new();
        let mut defined = BTreeMap::new();
        for (index, object) in list(keys::CRDS, found[keys::CRDS])?.into_iter().enumerate() {
            let place = format!("{}[{index}]", keys::CRDS);
            check_kind(&place, &object, CRD_KIND, crd::API_VERSION)?;
            for key in crd_keys(&object) {
                let shown = format!("{}/{}", key.0, key.1);
                if defined.insert(key, index).is_some() {
                    return Err(ConfigMapError::SameCrd(shown));
                }
            }
            let bytes = json_bytes(&object);
            crds.push(Crd { place, object, bytes });
        }
        let mut csvs = BTreeMap::new();
        for (index, object) in list(keys::CSVS, found[keys::CSVS])?.into_iter().enumerate() {
            let csv = Csv::read(index, object, &defined)?;
            if let Some(same) = csvs.insert(csv.name.clone(), csv) {
                return Err(ConfigMapError::SameCsv(same.name));
            }
        }
        let packages = list(keys::PACKAGES, found[keys::PACKAGES])?;
        let packages = packages.iter().enumerate().map(|(index, package)| {
            let place = format!("{}[{index}]", keys::PACKAGES);
            PackageList::read(package).map_err(|reason| ConfigMapError::Item { place, reason })
        });
        Ok(Self {
            packages: packages.collect::<Result<_, _>>()?,
            csvs,
            crds,
        })
    }
}

impl PackageList {
    fn read(package: &Value) -> Result<Self, String> {
        let fields = Fields::of(package)?;
        let name = fields.text("packageName")?;
        if name.is_empty() {
            return Err("packageName must be set".to_owned());
        }
        let channels = items(fields.get("channels"), "channels")?;
        let channels = channels.iter().map(|channel| {
            let fields = Fields::of(channel)?;
            Ok(ChannelHead {
                name: fields.text("name")?,
                current_csv: fields.text("currentCSV")?,
            })
        });
        Ok(Self {
            name,
            channels: channels.collect::<Result<_, String>>()?,
            default_channel: fields.text("defaultChannel")?,
        })
    }
}

impl Csv {
    fn read(index: usize, object: Value, defined: &BTreeMap<CrdKey, usize>) -> Result<Self, ConfigMapError> {
        let place = format!("{}[{index}]", keys::CSVS);
        check_kind(&place, &object, CSV_KIND, GROUP)?;
        let metadata = &object["metadata"];
        let name = metadata["name"].as_str().unwrap_or_default().to_owned();
        let wrong = |reason: String| ConfigMapError::Item {
            place: place.clone(),
            reason,
        };
        if name.is_empty() {
            return Err(wrong("metadata.name must be set".to_owned()));
        }
        let annotation = |key: &str| metadata["annotations"][key].as_str().unwrap_or_default();
        if !annotation(SUBSTITUTES_FOR).is_empty() {
            return Err(wrong(format!(
                "annotation {SUBSTITUTES_FOR} is not supported in a configmap"
            )));
        }
        let spec = Fields::of(&object["spec"]).map_err(&wrong)?;
        let replaces = spec.text("replaces").map_err(&wrong)?;
        let skips = items(spec.get("skips"), "spec.skips").map_err(&wrong)?;
        let skips = skips.iter().map(|name| {
            let text = name.as_str().map(str::to_owned);
            text.ok_or_else(|| wrong(format!("spec.skips: expected a string, found {}", kind_of(name))))
        });
        let skips = skips.collect::<Result<Vec<_>, _>>()?;
        let skip_range = annotation(SKIP_RANGE).to_owned();
        let owned = &object["spec"]["customresourcedefinitions"]["owned"];
        let mut positions = BTreeSet::new();
        for key in owned.as_array().into_iter().flatten().map(owned_key) {
            let Some(position) = defined.get(&key) else {
                let (crd, version, kind) = key;
                return Err(ConfigMapError::OwnedCrd {
                    csv: name,
                    crd: format!("{crd}/{version} ({kind})"),
                });
            };
            positions.insert(*position);
        }
        Ok(Self {
            bytes: json_bytes(&object),
            place: format!("{place} ({name})"),
            name,
            index,
            object,
            replaces,
            skips,
            skip_range,
            owned: positions,
        })
    }
}

fn owned_key(owned: &Value) -> CrdKey {
    (
        text(&owned["name"]),
        text(&owned["version"]),
        text(&owned["kind"]),
    )
}

/// One key for each version of a definition.
fn crd_keys(object: &Value) -> BTreeSet<CrdKey> {
    let spec = &object["spec"];
    let versions = spec["versions"].as_array().into_iter().flatten();
    let versions = versions.map(|version| text(&version["name"]));
    // `v1beta1` may have a single version.
    let versions = versions.chain([text(&spec["version"])]);
    let (name, kind) = (text(&object["metadata"]["name"]), text(&spec["names"]["kind"]));
    versions
        .filter(|version| !version.is_empty())
        .map(|version| (name.clone(), version, kind.clone()))
        .collect()
}

/// The items of a text; nothing is an empty list.
fn list(key: &'static str, text: &[u8]) -> Result<Vec<Value>, ConfigMapError> {
    let mut documents = Documents::with_limits(text, LIMITS).as_yaml();
    let mut next = || {
        let document = documents.next().transpose();
        document.map_err(|source| ConfigMapError::Yaml { key, source })
    };
    let wrong = |reason: String| ConfigMapError::Item {
        place: key.to_owned(),
        reason,
    };
    let first = next()?.unwrap_or_default();
    if next()?.is_some() {
        return Err(wrong("expected one list, found several documents".to_owned()));
    }
    match first {
        Value::Array(items) => Ok(items),
        Value::Null => Ok(Vec::new()),
        other => Err(wrong(format!("expected a list, found {}", kind_of(&other)))),
    }
}

fn items<'a>(value: Option<&'a Value>, field: &str) -> Result<&'a [Value], String> {
    match value {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(items)) => Ok(items),
        Some(other) => Err(format!("{field}: expected a list, found {}", kind_of(other))),
    }
}

/// An object of another kind would be installed with the operator, though its list says nothing of it.
fn check_kind(place: &str, object: &Value, kind: &str, group: &str) -> Result<(), ConfigMapError> {
    let group = group.split('/').next().unwrap_or_default();
    let found = text(&object["kind"]);
    let api_version = text(&object["apiVersion"]);
    if found == kind && api_version.split('/').next() == Some(group) {
        return Ok(());
    }
    let found = match object {
        Value::Object(_) => format!("kind {found:?} of {api_version:?}"),
        other => kind_of(other).to_owned(),
    };
    Err(ConfigMapError::Item {
        place: place.to_owned(),
        reason: format!("expected a {kind} of {group}, found {found}"),
    })
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn json_bytes(object: &Value) -> usize {
    serde_json::to_vec(object).map_or(0, |text| text.len())
}
