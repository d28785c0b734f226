//! Writes blobs as text, in an order that depends only on their content.
//!
//! Packages are sorted by name. Within a package the order is: package blob, channels by name, bundles by name, other schemas,
//! deprecations. Blobs of other schemas without a package are last. Rules: `docs/reference/catalog-files.md`.

use std::io::{self, Write};

use go_compat::json::{self, Html};
use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter};

use crate::schema::Blob;
use crate::yaml;

mod spool;

pub use spool::Spool;

/// Text formats of a catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// JSON documents, indented by four spaces.
    Json,
    /// YAML documents, each after `---`.
    Yaml,
}

/// Position of a blob in the output.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SortKey {
    without_package: bool,
    package: String,
    rank: u8,
    name: String,
}

impl SortKey {
    /// Returns the key of a blob. Blobs with equal keys keep their order.
    pub fn of(blob: &Blob) -> Self {
        let (rank, name) = match blob {
            Blob::Package(package) => (0, package.name.as_str()),
            Blob::Channel(channel) => (1, channel.name.as_str()),
            Blob::Bundle(bundle) => (2, bundle.name.as_str()),
            // Other schemas keep their order: within one schema of a package, and all together without a package.
            Blob::Other(other) if other.package.is_empty() => (3, ""),
            Blob::Other(other) => (3, other.schema.as_str()),
            Blob::Deprecations(_) => (4, ""),
        };
        Self {
            without_package: blob.package().is_empty(),
            package: blob.package().to_owned(),
            rank,
            name: name.to_owned(),
        }
    }
}

/// Sorts blobs into the order of output.
pub fn sort(blobs: &mut [Blob]) {
    blobs.sort_by_cached_key(SortKey::of);
}

/// Writes sorted blobs.
///
/// # Errors
/// The writer's errors.
pub fn write(blobs: &mut [Blob], format: Format, mut out: impl Write) -> io::Result<()> {
    sort(blobs);
    blobs
        .iter()
        .try_for_each(|blob| write_blob(blob, format, &mut out))
}

/// Writes one blob.
///
/// # Errors
/// The writer's errors.
pub fn write_blob(blob: &Blob, format: Format, mut out: impl Write) -> io::Result<()> {
    match format {
        Format::Json => write_json(blob, out),
        Format::Yaml => {
            let text = yaml::to_string(blob).map_err(io::Error::other)?;
            write!(out, "---\n{text}")
        }
    }
}

/// Writes any value in the format of catalogs: JSON indented by four spaces, and a line break.
///
/// # Errors
/// The writer's errors.
pub fn write_json(value: &impl Serialize, mut out: impl Write) -> io::Result<()> {
    let formatter = GoFormatter(PrettyFormatter::with_indent(b"    "));
    value.serialize(&mut serde_json::Serializer::with_formatter(&mut out, formatter))?;
    out.write_all(b"\n")
}

/// Writes any value as JSON on one line, without blanks, and a line break.
///
/// # Errors
/// The writer's errors.
pub fn write_line(value: &impl Serialize, mut out: impl Write) -> io::Result<()> {
    let formatter = json::Compact(Html::Plain);
    value.serialize(&mut serde_json::Serializer::with_formatter(&mut out, formatter))?;
    out.write_all(b"\n")
}

/// Writes floats and the two Unicode line separators as Go does.
struct GoFormatter(PrettyFormatter<'static>);

impl Formatter for GoFormatter {
    fn write_f64<W: ?Sized + Write>(&mut self, out: &mut W, value: f64) -> io::Result<()> {
        out.write_all(json::float(value).as_bytes())
    }

    fn write_string_fragment<W: ?Sized + Write>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
        out.write_all(json::escaped(fragment, Html::Plain).as_bytes())
    }

    fn begin_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_array(out)
    }

    fn end_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_array(out)
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_array_value(out, first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_array_value(out)
    }

    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_object(out)
    }

    fn end_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_object(out)
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_object_key(out, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_object_value(out)
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_object_value(out)
    }
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
    fn blobs_of_no_package_keep_their_order() {
        let mut blobs: Vec<Blob> = ["x", "custom", "a"]
            .map(|schema| Blob::from_value(json!({"schema": schema})).expect("blob"))
            .into();
        sort(&mut blobs);
        assert_eq!(
            blobs.iter().map(Blob::schema).collect::<Vec<_>>(),
            ["x", "custom", "a"]
        );
    }

    #[test]
    fn json_is_written_as_go_writes_it() {
        let value = json!({
            "floats": [1.0, 1e3, -0.0, 1e20, 1e21, 1e-6, 1e-7, 0.1], "large": 9_007_199_254_740_993_u64,
            "text": "<&>\u{2028}a\u{2029}\u{1}\u{8}\u{c}\u{7f}é",
        });
        let mut out = Vec::new();
        write_json(&value, &mut out).expect("text");
        let compact: Vec<&str> = std::str::from_utf8(&out)
            .expect("text")
            .lines()
            .map(str::trim)
            .collect();
        assert_eq!(
            compact.concat(),
            r#"{"floats": [1,1000,-0,100000000000000000000,1e+21,0.000001,1e-7,0.1],"large": 9007199254740993,"text": "<&>\u2028a\u2029\u0001\b\f"#
                .to_owned()
                + "\u{7f}é\"}"
        );
    }

    #[test]
    fn a_line_is_written_as_go_writes_it() {
        let value = json!({"z": [1.0, {"<&>": "a\nb\u{2028}"}], "a": {}, "b": 1e21});
        let mut out = Vec::new();
        write_line(&value, &mut out).expect("text");
        assert_eq!(
            String::from_utf8(out).expect("text"),
            "{\"a\":{},\"b\":1e+21,\"z\":[1,{\"<&>\":\"a\\nb\\u2028\"}]}\n"
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
        /// Rendering and parsing returns the same blob, for any content of an unknown schema.
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
