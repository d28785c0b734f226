//! Migrations of catalogs to newer forms of the same content.
//!
//! A level names the last migration to run; all earlier ones run, too. Rules: `docs/reference/catalog-files.md`.

use olm_fbc::did_you_mean::suggestion;
use olm_fbc::property::{CsvMetadata, Property, kinds};
use olm_fbc::schema::{Blob, Bundle};

use crate::Error;
use crate::bundle::object;

/// The last migration to run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// No migration.
    #[default]
    None,
    /// One `olm.csv.metadata` replaces the `olm.bundle.object` properties.
    CsvMetadata,
}

impl Level {
    /// All migrations.
    pub const ALL: Self = Self::CsvMetadata;

    /// Names of the levels, with the effect of the migration.
    pub const NAMES: [(&'static str, Self, &'static str); 3] = [
        ("none", Self::None, "do nothing"),
        (
            "bundle-object-to-csv-metadata",
            Self::CsvMetadata,
            "migrates bundles' \"olm.bundle.object\" to \"olm.csv.metadata\"",
        ),
        ("all", Self::ALL, "all of these"),
    ];

    /// Returns the level with this name.
    ///
    /// # Errors
    /// No level has this name.
    pub fn parse(name: &str) -> Result<Self, Error> {
        Self::NAMES
            .into_iter()
            .find(|(known, ..)| *known == name)
            .map(|(_, level, _)| level)
            .ok_or_else(|| {
                let known = Self::NAMES.map(|(known, ..)| known);
                let (list, meant) = (known.join(", "), suggestion(name, known));
                format!("unknown migration level {name:?} (known: {list}){meant}").into()
            })
    }

    /// Migrates blobs. The operation is idempotent.
    pub fn apply(self, blobs: &mut [Blob]) {
        if self < Self::CsvMetadata {
            return;
        }
        for blob in blobs {
            if let Blob::Bundle(bundle) = blob {
                replace_objects(bundle);
            }
        }
    }
}

/// Replaces bundle objects by metadata. Without an image the objects are the only content, and without a CSV there is no
/// metadata. Such bundles are not changed, nor are bundles that have metadata already.
fn replace_objects(bundle: &mut Bundle) {
    let has_metadata = bundle
        .properties
        .iter()
        .any(|property| property.kind == kinds::CSV_METADATA);
    if bundle.image.is_empty() || has_metadata {
        return;
    }
    let Some(csv) = object::csv(bundle) else { return };
    bundle
        .properties
        .retain(|property| property.kind != kinds::BUNDLE_OBJECT);
    bundle.properties.push(Property::new(
        kinds::CSV_METADATA,
        CsvMetadata::from_csv(&csv).into_value(),
    ));
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn data(object: &Value) -> Value {
        let text = olm_fbc::base64::encode(object.to_string());
        json!({"type": "olm.bundle.object", "value": {"data": text}})
    }

    fn bundle(image: &str, objects: &[Value]) -> Blob {
        let mut properties =
            vec![json!({"type": "olm.package", "value": {"packageName": "p", "version": "1.0.0"}})];
        properties.extend(objects.iter().map(data));
        Blob::from_value(json!({
            "schema": "olm.bundle", "name": "p.v1", "package": "p", "image": image, "properties": properties,
        }))
        .expect("blob")
    }

    fn csv() -> Value {
        json!({
            "kind": "ClusterServiceVersion",
            "metadata": {"name": "p.v1", "annotations": {"a": "b"}},
            "spec": {"displayName": "P", "keywords": ["k"], "install": {"strategy": "deployment"}},
        })
    }

    #[test]
    fn objects_give_way_to_metadata() {
        let mut blobs = vec![bundle("i", &[json!({"kind": "Service"}), csv()])];
        Level::CsvMetadata.apply(&mut blobs);
        let once = blobs.clone();
        assert_eq!(
            blobs[0].to_value()["properties"],
            json!([
                {"type": "olm.package", "value": {"packageName": "p", "version": "1.0.0"}},
                {"type": "olm.csv.metadata", "value": {
                    "annotations": {"a": "b"}, "apiServiceDefinitions": {}, "crdDescriptions": {},
                    "displayName": "P", "keywords": ["k"], "provider": {},
                }},
            ])
        );
        Level::ALL.apply(&mut blobs);
        assert_eq!(blobs, once, "a second time changes nothing");
    }

    #[test]
    fn what_cannot_or_need_not_be_migrated_stays() {
        for (level, blob) in [
            (Level::None, bundle("i", &[csv()])),
            (Level::ALL, bundle("", &[csv()])),
            (Level::ALL, bundle("i", &[json!({"kind": "Service"})])),
            (Level::ALL, bundle("i", &[])),
        ] {
            let mut blobs = vec![blob.clone()];
            level.apply(&mut blobs);
            assert_eq!(blobs, [blob]);
        }
    }

    #[test]
    fn levels_have_names() {
        assert_eq!(Level::parse("all"), Ok(Level::CsvMetadata));
        assert_eq!(Level::parse("none"), Ok(Level::None));
        assert!(
            Level::parse("csv")
                .expect_err("unknown")
                .to_string()
                .starts_with("unknown migration level \"csv\"")
        );
    }
}
