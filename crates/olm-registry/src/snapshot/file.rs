//! Entries as bytes that a later process can read.
//!
//! A line with the format, a line with the hash of the rest, a line with the label of the entries, then one
//! JSON value per line. The values are lists of properties, and entries that refer to them by number. Bytes
//! of another format, of another catalog or from a damaged disk are rejected.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use go_compat::semver::Version;
use olm_fbc::entry::{BundleEntry, Deprecation, EntryProperty};
use olm_fbc::property::Gvk;
use serde::{Deserialize, Serialize};

use super::pool::Pool;
use crate::limits::ReadLimits;

/// First line of the file, replaced with every change of the format.
const FORMAT: &str = "olm-catalog-content 1";

/// Bytes are rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// Another version or another program wrote them.
    #[error("it has another format")]
    Format,
    /// They differ from the written bytes.
    #[error("it is damaged")]
    Damaged,
    /// They belong to another catalog, or to another content of it.
    #[error("it is of another catalog")]
    Foreign,
    /// They would take more memory than a catalog may.
    #[error("it is too large")]
    TooLarge,
}

type Text<'a> = Cow<'a, str>;

#[derive(Serialize, Deserialize)]
enum Line<'a> {
    /// Types and values.
    Properties(Vec<(Text<'a>, Text<'a>)>),
    Entry(Box<Row<'a>>),
}

#[derive(Serialize, Deserialize)]
struct Row<'a> {
    name: Text<'a>,
    package: Text<'a>,
    channel: Text<'a>,
    default_channel: bool,
    version: Option<String>,
    replaces: Option<Text<'a>>,
    skips: Vec<Text<'a>>,
    skip_range: Option<Text<'a>>,
    /// Number of the property list, from 0.
    properties: usize,
    /// Group, version and kind.
    provided: Vec<[Text<'a>; 3]>,
    required: Vec<[Text<'a>; 3]>,
    image: Option<Text<'a>>,
    /// Manifest digest in hex.
    manifests: Option<String>,
    /// Messages for package, channel and bundle.
    deprecation: Option<[Option<Text<'a>>; 3]>,
}

/// Returns the entries of `label` as bytes, with a limit of about `limit`. Texts that entries share in memory
/// are written for each of them, so that little memory can become many bytes.
///
/// # Errors
/// [`FileError::TooLarge`], as soon as the limit is exceeded.
pub fn to_bytes<'a>(
    label: &str,
    entries: impl IntoIterator<Item = &'a BundleEntry>,
    limit: usize,
) -> Result<Vec<u8>, FileError> {
    let head = |hash: &str| format!("{FORMAT}\n{hash}\n").into_bytes();
    // The placeholder is replaced with the hash at the end.
    let mut bytes = head(&blake3::hash(&[]).to_hex());
    let start = bytes.len();
    write_line(&mut bytes, &label);
    let mut lists: HashMap<*const [EntryProperty], usize> = HashMap::new();
    for entry in entries {
        let next = lists.len();
        let properties = *lists.entry(Arc::as_ptr(&entry.properties)).or_insert_with(|| {
            let list = entry.properties.iter();
            let list = list.map(|property| (text(&property.kind), text(&property.value)));
            write_line(&mut bytes, &Line::Properties(list.collect()));
            next
        });
        write_line(&mut bytes, &Line::Entry(Box::new(row(entry, properties))));
        if bytes.len() > limit {
            return Err(FileError::TooLarge);
        }
    }
    let (place, body) = bytes.split_at_mut(start);
    place.copy_from_slice(&head(&blake3::hash(body).to_hex()));
    Ok(bytes)
}

fn write_line(out: &mut Vec<u8>, value: &impl Serialize) {
    // Texts and numbers always have a JSON form, and writing to memory does not fail. The reader would notice
    // a missing line.
    if serde_json::to_writer(&mut *out, value).is_ok() {
        out.push(b'\n');
    }
}

fn text(text: &Arc<str>) -> Text<'_> {
    Cow::Borrowed(text)
}

fn row(entry: &BundleEntry, properties: usize) -> Row<'_> {
    let apis = |apis: &'_ [Gvk]| -> Vec<[Text<'_>; 3]> {
        let texts = apis.iter().map(|api| [&api.group, &api.version, &api.kind]);
        texts
            .map(|texts| texts.map(|text| Cow::Owned(text.clone())))
            .collect()
    };
    Row {
        name: text(&entry.name),
        package: text(&entry.package),
        channel: text(&entry.channel),
        default_channel: entry.default_channel,
        version: entry.version.as_ref().map(ToString::to_string),
        replaces: entry.replaces.as_ref().map(text),
        skips: entry.skips.iter().map(text).collect(),
        skip_range: entry.skip_range.as_ref().map(|range| range.as_str().into()),
        properties,
        provided: apis(&entry.provided_apis),
        required: apis(&entry.required_apis),
        image: entry.bundle_path.as_ref().map(text),
        manifests: entry.inline.as_ref().map(|digest| hex::encode(**digest)),
        deprecation: entry.deprecation.as_ref().map(|deprecation| {
            let texts = [&deprecation.package, &deprecation.channel, &deprecation.bundle];
            texts.map(|message| message.as_ref().map(text))
        }),
    }
}

/// Returns the entries that [`to_bytes`] was given for the same label. Common parts are shared.
///
/// # Errors
/// The bytes belong to another label, or cannot be read.
pub fn from_bytes(label: &str, bytes: &[u8]) -> Result<Vec<BundleEntry>, FileError> {
    let (format, rest) = split_line(bytes).ok_or(FileError::Format)?;
    if format != FORMAT.as_bytes() {
        return Err(FileError::Format);
    }
    let (hash, body) = split_line(rest).ok_or(FileError::Damaged)?;
    if blake3::hash(body).to_hex().as_bytes() != hash {
        return Err(FileError::Damaged);
    }
    let (found, body) = split_line(body).ok_or(FileError::Damaged)?;
    if serde_json::from_slice::<String>(found).map_err(|_| FileError::Damaged)? != label {
        return Err(FileError::Foreign);
    }
    let mut pool = Pool::default();
    let (mut lists, mut entries) = (Vec::new(), Vec::new());
    for line in body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        match serde_json::from_slice(line).map_err(|_| FileError::Damaged)? {
            Line::Properties(list) => {
                let list = list.iter().map(|(kind, value)| EntryProperty {
                    kind: pool.text(kind),
                    value: pool.text(value),
                });
                let list: Vec<_> = list.collect();
                lists.push(pool.properties(list.into()));
            }
            Line::Entry(row) => entries.push(entry(&row, &lists, &mut pool).ok_or(FileError::Damaged)?),
        }
        if pool.kept() > ReadLimits::CATALOG.kept {
            return Err(FileError::TooLarge);
        }
    }
    Ok(entries)
}

fn split_line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let (line, rest) = bytes.split_at(end);
    Some((line, rest.get(1..)?))
}

fn entry(row: &Row<'_>, lists: &[Arc<[EntryProperty]>], pool: &mut Pool) -> Option<BundleEntry> {
    pool.keep_entry(lists.get(row.properties)?.len());
    let skips: Vec<String> = row.skips.iter().map(|skip| skip.to_string()).collect();
    let digest = match &row.manifests {
        None => None,
        Some(text) => Some(pool.digest(hex::decode(text).ok()?.try_into().ok()?)),
    };
    let version = match &row.version {
        None => None,
        Some(text) => Some(Version::parse(text).ok()?),
    };
    Some(BundleEntry {
        name: pool.text(&row.name),
        package: pool.text(&row.package),
        channel: pool.text(&row.channel),
        default_channel: row.default_channel,
        version,
        replaces: row.replaces.as_ref().map(|replaces| pool.text(replaces)),
        skips: pool.texts(&skips),
        skip_range: row.skip_range.as_ref().and_then(|range| pool.range(range)),
        properties: Arc::clone(lists.get(row.properties)?),
        provided_apis: pool.api_list(&apis(&row.provided)),
        required_apis: pool.api_list(&apis(&row.required)),
        bundle_path: row.image.as_ref().map(|image| pool.text(image)),
        inline: digest,
        deprecation: row.deprecation.as_ref().map(|texts| {
            let [package, channel, bundle] =
                [0, 1, 2].map(|place| texts[place].as_ref().map(|text| pool.text(text)));
            pool.deprecation(Deprecation {
                package,
                channel,
                bundle,
            })
        }),
    })
}

fn apis(rows: &[[Text<'_>; 3]]) -> Vec<Gvk> {
    rows.iter()
        .map(|[group, version, kind]| Gvk {
            group: group.to_string(),
            kind: kind.to_string(),
            version: version.to_string(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use go_compat::semver::Range;

    use super::*;

    const LIMIT: usize = 1 << 20;

    fn entries() -> Vec<BundleEntry> {
        let properties: Arc<[EntryProperty]> = Arc::new([
            EntryProperty::new("olm.package", r#"{"packageName":"p","version":"1.0.0-a.1+b"}"#),
            EntryProperty::new("x", "\"line\\nbreak \u{fc}\""),
        ]);
        let full = BundleEntry {
            name: "p.v1".into(),
            package: "p".into(),
            channel: "stable".into(),
            default_channel: true,
            version: Version::parse("1.0.0-a.1+b").ok(),
            replaces: Some("p.v0".into()),
            skips: Arc::new(["p.v0".into(), "p\nv".into()]),
            skip_range: Range::parse(">=0.1.0 <1.0.0").ok().map(Arc::new),
            properties: Arc::clone(&properties),
            provided_apis: Arc::new([Gvk {
                group: "g".to_owned(),
                kind: "K".to_owned(),
                version: "v1".to_owned(),
            }]),
            required_apis: Arc::default(),
            bundle_path: Some("registry.example/p@sha256:00".into()),
            inline: None,
            deprecation: Some(Arc::new(Deprecation {
                channel: Some("old".into()),
                ..Deprecation::default()
            })),
        };
        let other = BundleEntry {
            channel: "fast".into(),
            properties,
            bundle_path: None,
            inline: Some(Arc::new([7; 32])),
            ..full.clone()
        };
        vec![full, other, BundleEntry::default()]
    }

    #[test]
    fn entries_come_back_as_they_were_and_share_what_they_shared() {
        let (before, label) = (entries(), "ns/cat\n\"uid\"");
        let after = from_bytes(label, &to_bytes(label, &before, LIMIT).unwrap()).unwrap();
        assert_eq!(after, before);
        assert!(Arc::ptr_eq(&after[0].properties, &after[1].properties));
        assert!(Arc::ptr_eq(&after[0].provided_apis, &after[1].provided_apis));
    }

    /// A change of any byte is noticed: nothing is read that was not written.
    #[test]
    fn what_is_damaged_cut_or_of_another_catalog_or_format_is_refused() {
        let bytes = to_bytes("one", &entries(), LIMIT).unwrap();
        for place in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[place] ^= 1;
            assert!(from_bytes("one", &damaged).is_err(), "byte {place}");
            assert!(from_bytes("one", &bytes[..place]).is_err(), "cut at {place}");
        }
        assert_eq!(from_bytes("other", &bytes), Err(FileError::Foreign));
        let mut newer = b"olm-catalog-content 2\n".to_vec();
        newer.extend_from_slice(&bytes[newer.len()..]);
        assert_eq!(from_bytes("one", &newer), Err(FileError::Format));
    }

    /// A package's long message is one text in memory but one per entry in the file, which could become
    /// gigabytes.
    #[test]
    fn what_entries_share_is_not_written_without_end() {
        let [entry, ..] = <[BundleEntry; 3]>::try_from(entries()).unwrap();
        let shared = BundleEntry {
            deprecation: Some(Arc::new(Deprecation {
                package: Some("x".repeat(LIMIT / 4).into()),
                ..Deprecation::default()
            })),
            ..entry
        };
        let mut written = 0;
        let endless = std::iter::repeat_with(|| {
            written += 1;
            &shared
        });
        assert_eq!(to_bytes("one", endless, LIMIT), Err(FileError::TooLarge));
        assert_eq!(written, 4);
        assert!(to_bytes("one", std::iter::repeat_n(&shared, 3), LIMIT).is_ok());
    }
}
