//! Compact form of bundles in memory.
//!
//! A tree of JSON values needs seven to ten times the memory of its text: a map of two short entries has a
//! node of more than 600 bytes. Callers that need the objects get their own tree, for as long as they need
//! it.

use std::sync::Arc;

use olm_runtime::isolation;
use serde_json::Value;

use super::content::{BundleFile, UnpackedBundle};
use super::error::{UnpackClass, UnpackError};

/// Maximum nesting of maps and lists that can be parsed again; no API server accepts more.
const LEVELS: usize = 127;
/// Limit of one bundle, in bytes. The largest real ones have five MiB.
pub(crate) const BUNDLE_BYTES: usize = 64 << 20;

/// The objects of a bundle as compact JSON texts.
#[derive(Debug)]
pub struct PackedBundle {
    image: String,
    csv: Box<str>,
    /// File names and their objects.
    objects: Vec<(Box<str>, Box<str>)>,
    left_out: Vec<String>,
}

impl PackedBundle {
    /// Packs a bundle; [`PackedBundle::unpack`] returns it unchanged.
    ///
    /// # Errors
    /// The bundle is too large, or nested too deeply to be parsed again.
    pub fn new(bundle: &UnpackedBundle) -> Result<Self, UnpackError> {
        let refused =
            |class, cause: String| UnpackError::new(class, format!("image `{}`: {cause}", bundle.image));
        let named = bundle
            .objects
            .iter()
            .map(|file| (file.name.as_str(), &file.object));
        let whole = std::iter::once(("ClusterServiceVersion", &bundle.csv)).chain(named);
        let mut texts = Vec::with_capacity(bundle.objects.len() + 1);
        let mut bytes = 0_usize;
        for (name, object) in whole {
            if !fits(object, LEVELS) {
                let cause = format!("`{name}` is nested deeper than {LEVELS} levels");
                return Err(refused(UnpackClass::InvalidManifest, cause));
            }
            let text = object.to_string().into_boxed_str();
            bytes = bytes.saturating_add(text.len());
            if bytes > BUNDLE_BYTES {
                let limit = BUNDLE_BYTES >> 20;
                let cause = format!("its objects exceed {limit} MiB as JSON (limit BUNDLE_BYTES)");
                return Err(refused(UnpackClass::TooLarge, cause));
            }
            texts.push((Box::from(name), text));
        }
        let objects = texts.split_off(1);
        let (_, csv) = texts.pop().unwrap_or_default();
        Ok(Self {
            image: bundle.image.clone(),
            csv,
            objects,
            left_out: bundle.left_out.clone(),
        })
    }

    /// Returns the packed bundle. A large one takes a second, so this must not run on the thread of
    /// reconciles and watches, see [`PackedBundle::unpack_beside`].
    ///
    /// # Errors
    /// Never for a result of [`PackedBundle::new`], but a bug there must not end the process.
    pub fn unpack(&self) -> Result<UnpackedBundle, UnpackError> {
        let read = |text: &str| {
            serde_json::from_str::<Value>(text).map_err(|error| {
                let cause = format!("image `{}`: cannot decode the stored bundle: {error}", self.image);
                UnpackError::new(UnpackClass::InvalidManifest, cause)
            })
        };
        let objects = self.objects.iter().map(|(name, text)| {
            Ok(BundleFile {
                name: name.to_string(),
                object: read(text)?,
            })
        });
        Ok(UnpackedBundle {
            image: self.image.clone(),
            csv: read(&self.csv)?,
            objects: objects.collect::<Result<_, UnpackError>>()?,
            left_out: self.left_out.clone(),
        })
    }

    /// Runs [`PackedBundle::unpack`] on a thread for blocking work.
    ///
    /// # Errors
    /// The same as [`PackedBundle::unpack`], or a panic.
    pub async fn unpack_beside(self: Arc<Self>) -> Result<UnpackedBundle, UnpackError> {
        let image = self.image.clone();
        let unpacked = isolation::blocking(move || self.unpack()).await;
        unpacked.unwrap_or_else(|panicked| {
            let cause = format!("image `{image}`: {panicked}");
            Err(UnpackError::new(UnpackClass::InvalidManifest, cause))
        })
    }

    /// The image, by digest.
    pub fn image(&self) -> &str {
        &self.image
    }

    /// Approximate size in memory, in bytes.
    pub fn bytes(&self) -> usize {
        let of_object = |(name, text): &(Box<str>, Box<str>)| {
            name.len()
                .saturating_add(text.len())
                .saturating_add(size_of::<(Box<str>, Box<str>)>())
        };
        let objects = self.objects.iter().map(of_object);
        objects.fold(
            self.csv.len().saturating_add(size_of::<Self>()),
            usize::saturating_add,
        )
    }
}

/// True when a value has at most this many levels.
fn fits(value: &Value, levels: usize) -> bool {
    let Some(left) = levels.checked_sub(1) else {
        return !value.is_array() && !value.is_object();
    };
    match value {
        Value::Array(items) => items.iter().all(|item| fits(item, left)),
        Value::Object(map) => map.values().all(|item| fits(item, left)),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn bundle(csv: Value) -> UnpackedBundle {
        UnpackedBundle {
            image: "r/b@sha256:00".to_owned(),
            csv,
            objects: vec![
                BundleFile {
                    name: "a.yaml".to_owned(),
                    object: json!({"kind": "A", "text": "ü \u{0} \"", "list": [1, -2, 0.1, 1e300, null, true]}),
                },
                BundleFile {
                    name: "b.yaml".to_owned(),
                    object: json!({"kind": "B", "large": u64::MAX, "small": i64::MIN}),
                },
            ],
            left_out: vec!["file `c` is skipped".to_owned()],
        }
    }

    fn nested(levels: usize) -> Value {
        (0..levels).fold(json!("x"), |inner, level| {
            if level % 2 == 0 {
                json!([inner])
            } else {
                json!({ "a": inner })
            }
        })
    }

    #[test]
    fn what_is_packed_comes_back_as_it_was() {
        let bundle = bundle(json!({"metadata": {"name": "a.v1"}}));
        let packed = PackedBundle::new(&bundle).unwrap();
        assert_eq!(packed.unpack().unwrap(), bundle);
        let texts: usize = [&bundle.csv, &bundle.objects[0].object, &bundle.objects[1].object]
            .map(|value| value.to_string().len())
            .iter()
            .sum();
        assert!(
            (texts..texts + 300).contains(&packed.bytes()),
            "{}",
            packed.bytes()
        );
    }

    /// A bundle that could be packed but not parsed again would be fetched forever.
    #[test]
    fn a_bundle_is_refused_exactly_when_it_could_not_be_read_again() {
        for levels in LEVELS - 2..LEVELS + 3 {
            let value = nested(levels);
            let readable = serde_json::from_str::<Value>(&value.to_string()).is_ok();
            let packed = PackedBundle::new(&bundle(value));
            assert_eq!(packed.is_ok(), readable, "{levels} levels");
            if let Ok(packed) = packed {
                packed.unpack().unwrap();
            }
        }
        let error = PackedBundle::new(&bundle(nested(128))).unwrap_err();
        insta::assert_snapshot!(error.cause, @"image `r/b@sha256:00`: `ClusterServiceVersion` is nested deeper than 127 levels");
    }

    #[test]
    fn a_bundle_too_large_to_be_kept_is_refused() {
        let error = PackedBundle::new(&bundle(json!("\u{1}".repeat(BUNDLE_BYTES / 6 + 1)))).unwrap_err();
        assert_eq!(error.class, UnpackClass::TooLarge);
    }
}
