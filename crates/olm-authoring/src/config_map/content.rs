//! The three lists of a ConfigMap, read and matched to each other.

use std::collections::{BTreeMap, BTreeSet};

use go_compat::json::{Fields, kind_of};
use olm_api::config_map_catalog as keys;
use olm_api::labels::SUBSTITUTES_FOR;
use olm_api::{crd, v1alpha1};
use olm_fbc::manifest::{CRD_KIND, CSV_KIND};
use olm_fbc::yaml::{Documents, Limits};
use serde_json::Value;

use crate::Error;
use crate::bundle::{SKIP_RANGE, text};

/// Limits of one text. A ConfigMap is small, so only a hostile one expands by aliases.
const LIMITS: Limits = Limits {
    document_bytes: keys::MAX_BYTES,
    depth: 128,
    nodes: 500_000,
    alias_nodes: 50_000,
    alias_bytes: keys::MAX_BYTES,
};

/// Content of a ConfigMap.
#[derive(Debug)]
pub(super) struct Content {
    pub(super) packages: Vec<PackageList>,
    /// ClusterServiceVersions by name.
    pub(super) csvs: BTreeMap<String, Csv>,
    pub(super) crds: Vec<Crd>,
    /// Skipped items, with the reason.
    pub(super) warnings: Vec<String>,
}

/// A package and the heads of its channels.
#[derive(Debug)]
pub(super) struct PackageList {
    pub(super) name: String,
    /// Index in its list.
    pub(super) index: usize,
    /// Channels with unique names.
    pub(super) channels: Vec<ChannelHead>,
    /// Default channel; may be empty.
    pub(super) default_channel: String,
}

#[derive(Debug)]
pub(super) struct ChannelHead {
    pub(super) name: String,
    pub(super) current_csv: String,
}

/// A ClusterServiceVersion of the ConfigMap.
#[derive(Debug)]
pub(super) struct Csv {
    pub(super) name: String,
    /// Position, for messages.
    pub(super) place: String,
    /// Index in its list.
    pub(super) index: usize,
    pub(super) object: Value,
    /// Size of its JSON, in bytes.
    pub(super) bytes: usize,
    pub(super) replaces: String,
    pub(super) skips: Vec<String>,
    pub(super) skip_range: String,
    /// Indices of the definitions that it owns.
    pub(super) owned: BTreeSet<usize>,
}

/// A CustomResourceDefinition of the ConfigMap.
#[derive(Debug)]
pub(super) struct Crd {
    pub(super) place: String,
    pub(super) object: Value,
    /// Size of its JSON, in bytes.
    pub(super) bytes: usize,
}

/// Name, version and kind, by which a ClusterServiceVersion refers to an owned definition.
type CrdKey = (String, String, String);

impl Content {
    pub(super) fn read<'a>(text: impl Fn(&str) -> Option<&'a [u8]>) -> Result<Self, Error> {
        let mut bytes = 0;
        let mut found = BTreeMap::new();
        for key in keys::KEYS {
            let text = text(key).ok_or_else(|| format!("couldn't find expected key {key} in configmap"))?;
            bytes += text.len();
            found.insert(key, text);
        }
        if bytes > keys::MAX_BYTES {
            let limit = keys::MAX_BYTES;
            return Err(format!("the catalog in the configmap is larger than {limit} bytes").into());
        }
        let mut warnings = Vec::new();
        let mut crds = Vec::new();
        let mut defined = BTreeMap::new();
        for (place, _, object) in typed(keys::CRDS, found[keys::CRDS], CRD_KIND, crd_type, &mut warnings)? {
            for key in crd_keys(&object) {
                let shown = format!("{}/{}", key.0, key.1);
                if defined.insert(key, crds.len()).is_some() {
                    return Err(format!("can't add the same CRD twice in one configmap: {shown}").into());
                }
            }
            let bytes = json_bytes(&object);
            crds.push(Crd { place, object, bytes });
        }
        let mut csvs = BTreeMap::new();
        let csv_type = |_: &Value| v1alpha1::API_VERSION;
        for (place, index, object) in typed(keys::CSVS, found[keys::CSVS], CSV_KIND, csv_type, &mut warnings)?
        {
            let csv = Csv::read(&place, index, object, &defined)?;
            if let Some(same) = csvs.insert(csv.name.clone(), csv) {
                return Err(format!("can't add the same CSV twice in one configmap: {}", same.name).into());
            }
        }
        Ok(Self {
            packages: packages(found[keys::PACKAGES], &mut warnings)?,
            csvs,
            crds,
            warnings,
        })
    }
}

/// Returns the packages in the order of their list. If two have the same name, the last is used, as upstream loads them in order.
fn packages(text: &[u8], warnings: &mut Vec<String>) -> Result<Vec<PackageList>, Error> {
    let place = |index: usize| format!("{}[{index}]", keys::PACKAGES);
    let mut packages = Vec::new();
    for (index, package) in list(keys::PACKAGES, text, warnings)?.iter().enumerate() {
        let package = PackageList::read(index, package, warnings)
            .map_err(|reason| format!("{}: {reason}", place(index)))?;
        match package.name.is_empty() {
            true => warnings.push(format!(
                "{}: skipped, because it has no packageName",
                place(index)
            )),
            false => packages.push(package),
        }
    }
    let name = |package: &PackageList| package.name.clone();
    Ok(last_of_each(packages, name, |before, last| {
        let (before, place) = (place(before.index), place(last.index));
        warnings.push(format!(
            "{before}: skipped, because {place} has the same packageName {:?}",
            last.name
        ));
    }))
}

/// Keeps the last item of each name; the others are passed to `left_out` with it.
fn last_of_each<T>(items: Vec<T>, name: impl Fn(&T) -> String, mut left_out: impl FnMut(&T, &T)) -> Vec<T> {
    let named = items.iter().enumerate();
    let last: BTreeMap<String, usize> = named.map(|(index, item)| (name(item), index)).collect();
    let is_last: Vec<bool> = items
        .iter()
        .enumerate()
        .map(|(index, item)| {
            let last = last[&name(item)];
            if index != last {
                left_out(item, &items[last]);
            }
            index == last
        })
        .collect();
    let kept = items.into_iter().zip(is_last);
    kept.filter_map(|(item, is_last)| is_last.then_some(item))
        .collect()
}

impl PackageList {
    fn read(index: usize, package: &Value, warnings: &mut Vec<String>) -> Result<Self, String> {
        let fields = Fields::of(package)?;
        let name = fields.text("packageName")?;
        let channels = items(fields.get("channels"), "channels")?;
        let channels = channels.iter().map(|channel| {
            let fields = Fields::of(channel)?;
            Ok(ChannelHead {
                name: fields.text("name")?,
                current_csv: fields.text("currentCSV")?,
            })
        });
        let channels = channels.collect::<Result<Vec<_>, String>>()?;
        let channel_name = |channel: &ChannelHead| channel.name.clone();
        Ok(Self {
            channels: last_of_each(channels, channel_name, |before, last| {
                warnings.push(format!(
                    "package {name}, channel {}: it is listed again, so its currentCSV is {} and not {}",
                    last.name, last.current_csv, before.current_csv
                ));
            }),
            name,
            index,
            default_channel: fields.text("defaultChannel")?,
        })
    }
}

impl Csv {
    fn read(
        place: &str,
        index: usize,
        object: Value,
        defined: &BTreeMap<CrdKey, usize>,
    ) -> Result<Self, Error> {
        let metadata = &object["metadata"];
        let name = metadata["name"].as_str().unwrap_or_default().to_owned();
        let wrong = |reason: String| Error::from(format!("{place}: {reason}"));
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
                return Err(format!(
                    "couldn't find owned CRD in crd list: {name} owns {crd}/{version} ({kind})"
                )
                .into());
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

/// Returns one key per version of a definition. Group and plural identify the definition; its own name is ignored.
fn crd_keys(object: &Value) -> BTreeSet<CrdKey> {
    let spec = &object["spec"];
    let versions = spec["versions"].as_array().into_iter().flatten();
    let versions = versions.map(|version| text(&version["name"]));
    // `v1beta1` may have a single version.
    let versions = versions.chain([text(&spec["version"])]);
    let (plural, kind) = (text(&spec["names"]["plural"]), text(&spec["names"]["kind"]));
    let name = format!("{plural}.{}", text(&spec["group"]));
    versions
        .filter(|version| !version.is_empty())
        .map(|version| (name.clone(), version, kind.clone()))
        .collect()
}

/// Returns the objects of a list with place and index. The key of the list defines their kind, so their type is completed.
/// Objects of another declared kind are skipped: they would be installed although a reader does not expect them here.
fn typed(
    key: &'static str,
    text: &[u8],
    kind: &'static str,
    api_version: fn(&Value) -> &'static str,
    warnings: &mut Vec<String>,
) -> Result<Vec<(String, usize, Value)>, Error> {
    let mut objects = Vec::new();
    for (index, mut object) in list(key, text, warnings)?.into_iter().enumerate() {
        let place = format!("{key}[{index}]");
        let found = match &object {
            Value::Object(map) => map.get("kind").map(self::text).unwrap_or_default(),
            other => kind_of(other).to_owned(),
        };
        if !object.is_object() || !(found.is_empty() || found == kind) {
            warnings.push(format!(
                "{place}: skipped, because it is not a {kind} but {found}"
            ));
            continue;
        }
        object["apiVersion"] = api_version(&object).into();
        object["kind"] = kind.into();
        objects.push((place, index, object));
    }
    Ok(objects)
}

/// Returns the `apiVersion` of a definition. Only the version is used, because the group may be missing. `spec.version` exists
/// only in the old API.
fn crd_type(object: &Value) -> &'static str {
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    match api_version.rsplit('/').next() {
        Some(crd::OLD_VERSION) => crd::OLD_API_VERSION,
        Some("") if !object["spec"]["version"].is_null() => crd::OLD_API_VERSION,
        _ => crd::API_VERSION,
    }
}

/// Returns the items of a text; an empty text is an empty list.
fn list(key: &'static str, text: &[u8], warnings: &mut Vec<String>) -> Result<Vec<Value>, Error> {
    let mut documents = Documents::with_limits(text, LIMITS).as_yaml();
    let first = documents.next().transpose();
    let first = first.map_err(|error| format!("{key}: {error}"))?;
    if documents.next().is_some() {
        warnings.push(format!("{key}: only the first document of the text is used"));
    }
    match first.unwrap_or_default() {
        Value::Array(items) => Ok(items),
        Value::Null => Ok(Vec::new()),
        other => Err(format!("{key}: expected a list, found {}", kind_of(&other)).into()),
    }
}

fn items<'a>(value: Option<&'a Value>, field: &str) -> Result<&'a [Value], String> {
    match value {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(items)) => Ok(items),
        Some(other) => Err(format!("{field}: expected a list, found {}", kind_of(other))),
    }
}

fn json_bytes(object: &Value) -> usize {
    serde_json::to_vec(object).map_or(0, |text| text.len())
}
