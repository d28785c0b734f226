//! Blobs to text, in an order that depends on nothing but their content.
//!
//! Packages by name; of each its package blob, channels by name, bundles by name, other schemas, deprecations; blobs of other
//! schemas without a package last. Source: section 2 ("Writing") of the catalog specification.

use std::io::{self, Write};

use serde::Serialize;

use crate::schema::Blob;
use crate::yaml;

mod spool;

pub use spool::Spool;

/// Text formats of a catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// JSON documents, indented by four blanks.
    Json,
    /// YAML documents, each after `---`.
    Yaml,
}

/// Place of a blob in the output.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SortKey {
    without_package: bool,
    package: String,
    rank: u8,
    name: String,
}

impl SortKey {
    /// The key of a blob. Blobs with equal keys stay in the order they came in.
    pub fn of(blob: &Blob) -> Self {
        let (without_package, package, rank, name) = key(blob);
        Self {
            without_package,
            package: package.to_owned(),
            rank,
            name: name.to_owned(),
        }
    }
}

/// Sorts blobs into the order of output.
pub fn sort(blobs: &mut [Blob]) {
    blobs.sort_by(|a, b| key(a).cmp(&key(b)));
}

fn key(blob: &Blob) -> (bool, &str, u8, &str) {
    let (rank, name) = match blob {
        Blob::Package(package) => (0, package.name.as_str()),
        Blob::Channel(channel) => (1, channel.name.as_str()),
        Blob::Bundle(bundle) => (2, bundle.name.as_str()),
        // Others keep the order they came in within one schema.
        Blob::Other(other) => (3, other.schema.as_str()),
        Blob::Deprecations(_) => (4, ""),
    };
    (blob.package().is_empty(), blob.package(), rank, name)
}

/// Writes sorted blobs.
///
/// # Errors
/// Those of the writer.
pub fn write(blobs: &mut [Blob], format: Format, mut out: impl Write) -> io::Result<()> {
    sort(blobs);
    blobs
        .iter()
        .try_for_each(|blob| write_blob(blob, format, &mut out))
}

/// Writes one blob.
///
/// # Errors
/// Those of the writer.
pub fn write_blob(blob: &Blob, format: Format, mut out: impl Write) -> io::Result<()> {
    match format {
        Format::Json => write_json(blob, out),
        Format::Yaml => {
            let text = yaml::to_string(blob).map_err(io::Error::other)?;
            write!(out, "---\n{text}")
        }
    }
}

/// Writes any value as catalogs are: JSON indented by four blanks, and a line break.
///
/// # Errors
/// Those of the writer.
pub fn write_json(value: &impl Serialize, mut out: impl Write) -> io::Result<()> {
    let formatter = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    value.serialize(&mut serde_json::Serializer::with_formatter(&mut out, formatter))?;
    out.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn catalog() -> Vec<Blob> {
        [
            json!({"schema": "custom.b", "name": "n"}),
            json!({"schema": "olm.deprecations", "package": "p", "entries": []}),
            json!({"schema": "olm.bundle", "name": "p.v2", "package": "p", "image": "i"}),
            json!({"schema": "olm.bundle", "name": "p.v1", "package": "p", "image": "<i>"}),
            json!({"schema": "custom.a", "package": "p", "z": 1, "a": [true]}),
            json!({"schema": "olm.channel", "name": "c", "package": "p", "entries": [{"name": "p.v1"}]}),
            json!({"schema": "olm.package", "name": "q", "defaultChannel": "c"}),
            json!({"schema": "olm.package", "name": "p", "defaultChannel": "c"}),
        ]
        .into_iter()
        .map(|value| Blob::from_value(value).expect("blob"))
        .collect()
    }

    fn text(format: Format) -> String {
        let mut out = Vec::new();
        write(&mut catalog(), format, &mut out).expect("text");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn output_is_sorted() {
        insta::assert_snapshot!(text(Format::Yaml), @r#"
        ---
        defaultChannel: c
        name: p
        schema: olm.package
        ---
        entries:
        - name: p.v1
        name: c
        package: p
        schema: olm.channel
        ---
        image: <i>
        name: p.v1
        package: p
        schema: olm.bundle
        ---
        image: i
        name: p.v2
        package: p
        schema: olm.bundle
        ---
        a:
        - true
        package: p
        schema: custom.a
        z: 1
        ---
        entries: []
        package: p
        schema: olm.deprecations
        ---
        defaultChannel: c
        name: q
        schema: olm.package
        ---
        name: "n"
        schema: custom.b
        "#);
        assert!(
            text(Format::Json).starts_with("{\n    \"schema\": \"olm.package\",\n    \"name\": \"p\",\n")
        );
    }

    #[test]
    fn both_formats_read_back_the_same() {
        for format in [Format::Json, Format::Yaml] {
            let mut expected = catalog();
            sort(&mut expected);
            let read: Vec<Blob> = yaml::parse_all(text(format).as_bytes())
                .expect("documents")
                .into_iter()
                .map(|value| Blob::from_value(value).expect("blob"))
                .collect();
            assert_eq!(read, expected);
        }
    }

    proptest::proptest! {
        /// Rendering and parsing is identity, whatever a blob of unknown schema holds.
        #[test]
        fn render_and_parse_is_identity(
            text in "\\PC{0,12}",
            key in "[a-zA-Z0-9 _.-]{1,8}",
            number in -1_000_000_i64..1_000_000,
            flag: bool,
        ) {
            let value = json!({
                "schema": "custom", "package": text,
                "body": {key: [text, number, flag, null, {"deep": text}], "nested": [[], {}]},
            });
            let Ok(blob) = Blob::from_value(value) else { return Ok(()) };
            for format in [Format::Json, Format::Yaml] {
                let mut out = Vec::new();
                write_blob(&blob, format, &mut out).expect("text");
                let read = yaml::parse(&out).map_err(|error| proptest::test_runner::TestCaseError::fail(error.to_string()))?;
                proptest::prop_assert_eq!(Blob::from_value(read).expect("blob"), blob.clone());
            }
        }
    }
}
