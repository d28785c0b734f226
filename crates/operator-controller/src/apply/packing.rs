//! Objects of a revision in Secrets. A ClusterObjectSet refers to them, because all together may exceed the size of an object. No I/O.
//!
//! Names, keys and sizes are upstream's. The compressed form of an object depends on the program, so a large object may get another key
//! when the Go program is replaced.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use go_compat::json::{Html, to_string};
use go_compat::quote;
use olm_api::extension_v1::{ObjectSetObject, ObjectSetPhase, ObjectSourceReference};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::phase::Phase;

/// Maximum bytes of the data of a Secret, and of an object that is not compressed.
const MAX_BYTES: usize = 900 * 1024;
/// Maximum bytes of an object.
const MAX_OBJECT_BYTES: u64 = 10 * 1024 * 1024;
/// First bytes of gzip.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// A Secret with objects by key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackedSecret {
    /// Name, which depends on the content.
    pub name: String,
    /// Objects as JSON, or as compressed JSON.
    pub data: BTreeMap<String, Vec<u8>>,
}

/// The objects of a revision.
#[derive(Debug, Clone, PartialEq)]
pub struct Packed {
    /// Secrets to create before the ClusterObjectSet.
    pub secrets: Vec<PackedSecret>,
    /// Phases of the ClusterObjectSet, which refer to the Secrets.
    pub phases: Vec<ObjectSetPhase>,
}

/// Packs the objects of the revision called `revision` into Secrets of `namespace`.
///
/// # Errors
/// An object that does not fit into a Secret even if it is compressed.
pub fn pack(revision: &str, namespace: &str, phases: &[Phase]) -> Result<Packed, String> {
    let mut secrets: Vec<BTreeMap<String, Vec<u8>>> = Vec::new();
    let mut size = 0_usize;
    // Index of the Secret and key of each object.
    let mut places: Vec<Vec<(usize, String)>> = Vec::new();
    for (phase_index, phase) in phases.iter().enumerate() {
        let mut of_phase = Vec::new();
        for (index, object) in phase.objects.iter().enumerate() {
            let data = encoded(object).map_err(|error| {
                format!("compressing object in phase {phase_index} index {index}: {error}")
            })?;
            if data.len() > MAX_BYTES {
                return Err(format!(
                    "object in phase {phase_index} index {index} exceeds maximum Secret data size ({} bytes > {MAX_BYTES} bytes) even after compression",
                    data.len()
                ));
            }
            let key = URL_SAFE_NO_PAD.encode(Sha256::digest(&data));
            let is_known = secrets.last().is_some_and(|last| last.contains_key(&key));
            if !is_known {
                if secrets.is_empty() || size.saturating_add(data.len()) > MAX_BYTES {
                    secrets.push(BTreeMap::new());
                    size = 0;
                }
                size = size.saturating_add(data.len());
                if let Some(last) = secrets.last_mut() {
                    last.insert(key.clone(), data);
                }
            }
            of_phase.push((secrets.len().saturating_sub(1), key));
        }
        places.push(of_phase);
    }
    let secrets: Vec<PackedSecret> = secrets
        .into_iter()
        .map(|data| PackedSecret {
            name: secret_name(revision, &data),
            data,
        })
        .collect();
    let reference = |(secret, key): (usize, String)| ObjectSetObject {
        reference: Some(ObjectSourceReference {
            name: secrets
                .get(secret)
                .map(|secret| secret.name.clone())
                .unwrap_or_default(),
            namespace: Some(namespace.to_owned()),
            key,
            ..ObjectSourceReference::default()
        }),
        ..ObjectSetObject::default()
    };
    let phases = phases
        .iter()
        .zip(places)
        .map(|(phase, places)| ObjectSetPhase {
            name: phase.name.clone(),
            objects: places.into_iter().map(reference).collect(),
            ..ObjectSetPhase::default()
        })
        .collect();
    Ok(Packed { secrets, phases })
}

/// Returns an object as JSON, compressed if it is large.
fn encoded(object: &Value) -> std::io::Result<Vec<u8>> {
    let data = to_string(object, Html::Escaped).into_bytes();
    if data.len() <= MAX_BYTES {
        return Ok(data);
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&data)?;
    encoder.finish()
}

/// Returns the name of a Secret: the revision and the first eight bytes of the digest of its content.
fn secret_name(revision: &str, data: &BTreeMap<String, Vec<u8>>) -> String {
    let mut hasher = Sha256::new();
    for (key, value) in data {
        hasher.update(key);
        hasher.update(value);
    }
    let digest = hex::encode(hasher.finalize());
    let start = digest.get(..16).unwrap_or(&digest);
    format!("{revision}-{start}")
}

/// Reads the object at `key` of the Secret `namespace/name`.
///
/// # Errors
/// The data is not an object as JSON, or is too large. The texts are upstream's.
pub fn unpack(data: &[u8], key: &str, secret: &str) -> Result<Value, String> {
    let place = format!("key {} in Secret {secret}", quote(key));
    let mut inflated = Vec::new();
    let data = if data.starts_with(&GZIP) {
        GzDecoder::new(data)
            .take(MAX_OBJECT_BYTES + 1)
            .read_to_end(&mut inflated)
            .map_err(|error| format!("decompressing {place}: {error}"))?;
        if u64::try_from(inflated.len()).is_ok_and(|size| size > MAX_OBJECT_BYTES) {
            return Err(format!(
                "decompressed data for {place} exceeds maximum size ({MAX_OBJECT_BYTES} bytes)"
            ));
        }
        inflated.as_slice()
    } else {
        data
    };
    let object: serde_json::Map<String, Value> =
        serde_json::from_slice(data).map_err(|error| format!("unmarshaling object from {place}: {error}"))?;
    Ok(Value::Object(object))
}
