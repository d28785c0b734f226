//! Bundles in ConfigMaps of unpack Jobs: ours, or upstream's for plans made before a migration.

use std::collections::BTreeMap;
use std::io::Read as _;

use flate2::read::GzDecoder;
use olm_api::labels;
use serde_json::Value;

use super::bundle_store::BUNDLE_BYTES;
use super::content::{UnpackedBundle, read_files};
use super::error::{UnpackClass, UnpackError};
use crate::object;

/// Decodes the bundle in a ConfigMap. Entries that cannot be decoded are skipped, as upstream does. A large
/// one takes a second, so this must not run on the thread of reconciles and watches.
///
/// # Errors
/// The rest is no bundle, or exceeds the limit of a bundle: 1 MiB may decompress to a thousand times as much.
pub fn decode(config_map: &Value) -> Result<UnpackedBundle, UnpackError> {
    let annotation =
        |wanted: &str| object::metadata_entries(config_map, "annotations").find(|(key, _)| *key == wanted);
    let image = annotation(labels::SOURCE_IMAGE).map_or("", |(_, image)| image);
    let compressed = annotation(labels::CONTENT_ENCODING)
        .is_some_and(|(_, encoding)| encoding == labels::CONTENT_ENCODING_GZIP_BASE64);
    let mut files: BTreeMap<&str, Vec<u8>> = BTreeMap::new();
    if compressed {
        let mut left = BUNDLE_BYTES;
        for (name, text) in entries(config_map, "binaryData") {
            let Some(content) = unzip(text, left) else {
                continue;
            };
            left = left.checked_sub(content.len()).ok_or_else(too_large)?;
            files.insert(name, content);
        }
    } else {
        files.extend(entries(config_map, "data").map(|(name, text)| (name, text.as_bytes().to_vec())));
    }
    read_files(image, files.iter().map(|(name, bytes)| (*name, bytes.as_slice())))
}

fn entries<'a>(config_map: &'a Value, field: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let map = config_map.get(field).and_then(Value::as_object);
    map.into_iter()
        .flatten()
        .filter_map(|(name, text)| Some((name.as_str(), text.as_str()?)))
}

fn too_large() -> UnpackError {
    let limit = BUNDLE_BYTES >> 20;
    let cause = format!("its entries exceed {limit} MiB (limit BUNDLE_BYTES)");
    UnpackError::new(UnpackClass::TooLarge, cause)
}

/// Decodes base64 of the API, base64 of the Job, and gzip. Stops after `left` bytes and one more.
fn unzip(text: &str, left: usize) -> Option<Vec<u8>> {
    let inner = olm_fbc::base64::decode(text).ok()?;
    let zipped = olm_fbc::base64::decode(std::str::from_utf8(inner.trim_ascii()).ok()?).ok()?;
    let mut content = Vec::new();
    GzDecoder::new(zipped.as_slice())
        .take(left as u64 + 1)
        .read_to_end(&mut content)
        .ok()?;
    Some(content)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::{Compression, write::GzEncoder};
    use serde_json::json;

    use super::*;

    const CSV: &str =
        "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata: {name: a.v1}\n";

    fn zip(text: &str) -> String {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text.as_bytes()).unwrap();
        olm_fbc::base64::encode(olm_fbc::base64::encode(encoder.finish().unwrap()))
    }

    /// The format of a real ConfigMap.
    #[test]
    fn gzip_and_plain_entries_are_read() {
        let zipped = json!({
            "metadata": {"annotations": {"olm.contentEncoding": "gzip+base64", "olm.sourceImage": "r/b@sha256:00"}},
            "binaryData": {"csv.yaml": zip(CSV), "broken.yaml": "!"},
        });
        let plain = json!({"metadata": {"annotations": {"olm.sourceImage": "r/b@sha256:00"}}, "data": {"csv.yaml": CSV}});
        for config_map in [zipped, plain] {
            let bundle = decode(&config_map).unwrap();
            assert_eq!(
                (
                    bundle.image.as_str(),
                    object::name(&bundle.csv),
                    bundle.objects.len()
                ),
                ("r/b@sha256:00", "a.v1", 0)
            );
        }
        assert!(decode(&json!({})).is_err());
    }

    /// 24 entries of 32 MiB fit into a ConfigMap of 1 MiB.
    #[test]
    fn entries_are_bounded_together() {
        let entry = zip(&"\n".repeat(32 << 20));
        let entries: serde_json::Map<String, Value> = (0..24)
            .map(|index| (format!("{index}.yaml"), entry.clone().into()))
            .collect();
        let config_map = json!({"metadata": {"annotations": {"olm.contentEncoding": "gzip+base64"}}, "binaryData": entries});
        let error = decode(&config_map).unwrap_err();
        assert_eq!(error.class, UnpackClass::TooLarge, "{error}");
    }
}
