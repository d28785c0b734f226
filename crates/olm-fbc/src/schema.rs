//! The documents ("blobs") of a file-based catalog.
//!
//! Reading keeps unknown data: unknown schemas as a whole, unknown fields in `extra`, so rendering a catalog loses nothing. Keys
//! match case-insensitively, as in upstream's decoder. Known fields are written in upstream's order, empty ones omitted, then
//! unknown ones. Rules: `docs/reference/catalog-files.md`.

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::property::Property;
use crate::yaml;

mod field_reader;
mod meta;

use field_reader::{FieldError, FieldReader};
pub use meta::Meta;

/// Schema names.
pub mod schemas {
    /// A package.
    pub const PACKAGE: &str = "olm.package";
    /// A channel of a package.
    pub const CHANNEL: &str = "olm.channel";
    /// A bundle.
    pub const BUNDLE: &str = "olm.bundle";
    /// Deprecations of a package and what is in it.
    pub const DEPRECATIONS: &str = "olm.deprecations";
}

/// One document.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Blob {
    /// `olm.package`
    Package(Package),
    /// `olm.channel`
    Channel(Channel),
    /// `olm.bundle`
    Bundle(Bundle),
    /// `olm.deprecations`
    Deprecations(Deprecations),
    /// Any other schema.
    Other(Other),
}

/// `olm.package`
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(tag = "schema", rename = "olm.package", rename_all = "camelCase")]
pub struct Package {
    /// Name, unique in the catalog.
    pub name: String,
    /// Channel for Subscriptions that name none.
    pub default_channel: String,
    /// Icon.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub icon: Option<Icon>,
    /// Description, Markdown.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Properties of the package.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub properties: Vec<Property>,
    /// Fields that this type does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// Icon of a package. Neither field is checked: production catalogs break every possible rule.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Icon {
    /// The image, base64.
    pub base64data: String,
    /// Media type of the image.
    pub mediatype: String,
    /// Fields that this type does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// `olm.channel`
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(tag = "schema", rename = "olm.channel")]
pub struct Channel {
    /// Name, unique in the package.
    pub name: String,
    /// Package that the channel belongs to.
    pub package: String,
    /// Bundles and upgrade edges.
    pub entries: Vec<ChannelEntry>,
    /// Properties of the channel.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub properties: Vec<Property>,
    /// Fields that this type does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// A bundle in a channel.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChannelEntry {
    /// Bundle name.
    pub name: String,
    /// Bundle it replaces; empty for none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub replaces: String,
    /// Bundles it skips.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skips: Vec<String>,
    /// Versions it may replace; empty for none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub skip_range: String,
    /// Fields that this type does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// `olm.bundle`
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(tag = "schema", rename = "olm.bundle", rename_all = "camelCase")]
pub struct Bundle {
    /// Name of its CSV, unique in the package.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Package that the bundle belongs to.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub package: String,
    /// Image with its content; may be empty if `olm.bundle.object` properties contain it.
    pub image: String,
    /// Properties of the bundle.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub properties: Vec<Property>,
    /// Images that a mirror of the bundle needs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub related_images: Vec<RelatedImage>,
    /// Fields that this type does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// An image a bundle refers to.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RelatedImage {
    /// Name; may be empty.
    pub name: String,
    /// Image reference.
    pub image: String,
    /// Fields that this type does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// `olm.deprecations`
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(tag = "schema", rename = "olm.deprecations")]
pub struct Deprecations {
    /// Package of the entries.
    pub package: String,
    /// Deprecated package, channels and bundles.
    pub entries: Vec<DeprecationEntry>,
    /// Fields that this type does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// Deprecation of a package, channel or bundle.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DeprecationEntry {
    /// The deprecated package, channel or bundle.
    pub reference: Reference,
    /// Message for users.
    pub message: String,
    /// Fields that this type does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// Reference to a package, or to a channel or bundle of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Reference {
    /// `olm.package`, `olm.channel` or `olm.bundle`.
    pub schema: String,
    /// Name; empty for the package itself.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
}

/// A document of an unknown schema.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Other {
    /// Name of the schema.
    pub schema: String,
    /// Package it belongs to; may be empty.
    pub package: String,
    /// Name; may be empty.
    pub name: String,
    /// The whole document.
    pub blob: Map<String, Value>,
}

impl Serialize for Other {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.blob.serialize(serializer)
    }
}

/// Error for a document that is not a blob.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlobError {
    /// The document is not an object.
    #[error("expected an object with a schema, found {0}")]
    NotAnObject(&'static str),
    /// The document has no schema.
    #[error("object '{object}' is missing root schema field")]
    NoSchema {
        /// First characters of the document.
        object: String,
        /// A key of the document that was probably meant as `schema`.
        misspelt: Option<String>,
        /// True if the document is a Kubernetes object.
        is_manifest: bool,
    },
    /// Keys that differ in case only.
    #[error("duplicate keys for key {key:?}: [{}]", keys.join(" "))]
    DuplicateKeys {
        /// The key in lower case.
        key: String,
        /// The spellings of the key.
        keys: Vec<String>,
    },
    /// `schema`, `package` or `name` is not a string.
    #[error("expected value for key {key:?} to be a string, got {found}")]
    NotText {
        /// The key.
        key: &'static str,
        /// Type of the value.
        found: &'static str,
        /// The text, if it was written without quotes.
        unquoted: Option<Unquoted>,
    },
    /// A field has the wrong shape.
    #[error("parse {what}: {reason}")]
    Field {
        /// `package`, `channel`, `bundle` or `deprecation`.
        what: &'static str,
        /// Path of the field, expected and found shape.
        reason: String,
        /// The text, if it was written without quotes.
        unquoted: Option<Unquoted>,
    },
}

/// A text that was written without quotes, so YAML reads it as a number or a boolean: `4.20` is `4.2`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unquoted {
    /// Path of the field.
    pub field: String,
    /// The value as JSON; after a look-up in the file, as it is written there.
    pub value: String,
}

impl Unquoted {
    fn of(field: &str, found: &Value) -> Option<Self> {
        (found.is_number() || found.is_boolean()).then(|| Self {
            field: field.to_owned(),
            value: found.to_string(),
        })
    }
}

impl BlobError {
    /// Returns a hint with the probable fix.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::NotText { unquoted, .. } | Self::Field { unquoted, .. } => {
                let Unquoted { field, value } = unquoted.as_ref()?;
                Some(format!("put quotes around {value}: {field}: {value:?}"))
            }
            Self::NoSchema {
                is_manifest: true, ..
            } => {
                let text = "this looks like the manifest of a bundle: make a catalog of bundles with \"opm render\" or \
                            \"opm generate catalog\"";
                Some(text.to_owned())
            }
            Self::NoSchema { misspelt, .. } => {
                let key = misspelt.as_ref()?;
                Some(format!("did you mean \"schema\" instead of {key:?}?"))
            }
            _ => None,
        }
    }

    /// Replaces an unquoted value by its spelling in the file's text.
    pub(crate) fn look_up(mut self, text: impl FnOnce() -> Option<String>) -> Self {
        if let Self::NotText { unquoted, .. } | Self::Field { unquoted, .. } = &mut self
            && let Some(unquoted) = unquoted
            && let Some(text) = text()
            && let Some(written) = yaml::written(&text, &unquoted.field, &unquoted.value)
        {
            unquoted.value = written.to_owned();
        }
        self
    }
}

impl Blob {
    /// Reads a document.
    ///
    /// # Errors
    /// Not an object, no schema, keys that clash, or a field of the wrong shape.
    pub fn from_value(value: Value) -> Result<Self, BlobError> {
        let Meta {
            schema,
            package,
            name,
        } = Meta::of(&value)?;
        let Value::Object(mut map) = value else {
            return Err(BlobError::NotAnObject(go_compat::json::kind_of(&value)));
        };
        let what = match schema.as_str() {
            schemas::PACKAGE => "package",
            schemas::CHANNEL => "channel",
            schemas::BUNDLE => "bundle",
            schemas::DEPRECATIONS => "deprecation",
            _ => {
                return Ok(Self::Other(Other {
                    schema,
                    package,
                    name,
                    blob: map,
                }));
            }
        };
        map.retain(|key, _| !key.eq_ignore_ascii_case("schema"));
        let mut fields = FieldReader::new(map);
        let blob = match what {
            "package" => Package::read(&mut fields).map(Self::Package),
            "channel" => Channel::read(&mut fields).map(Self::Channel),
            "bundle" => Bundle::read(&mut fields).map(Self::Bundle),
            _ => Deprecations::read(&mut fields).map(Self::Deprecations),
        };
        blob.map_err(|FieldError { reason, unquoted }| BlobError::Field {
            what,
            reason,
            unquoted,
        })
    }

    /// Returns the document as JSON.
    pub fn to_value(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// Returns the schema's name.
    pub fn schema(&self) -> &str {
        match self {
            Self::Package(_) => schemas::PACKAGE,
            Self::Channel(_) => schemas::CHANNEL,
            Self::Bundle(_) => schemas::BUNDLE,
            Self::Deprecations(_) => schemas::DEPRECATIONS,
            Self::Other(other) => &other.schema,
        }
    }

    /// Returns the package of the blob; for a package its own name.
    pub fn package(&self) -> &str {
        match self {
            Self::Package(package) => &package.name,
            Self::Channel(channel) => &channel.package,
            Self::Bundle(bundle) => &bundle.package,
            Self::Deprecations(deprecations) => &deprecations.package,
            Self::Other(other) => &other.package,
        }
    }

    /// Returns the name; empty if the schema has none.
    pub fn name(&self) -> &str {
        match self {
            Self::Package(package) => &package.name,
            Self::Channel(channel) => &channel.name,
            Self::Bundle(bundle) => &bundle.name,
            Self::Deprecations(_) => "",
            Self::Other(other) => &other.name,
        }
    }
}

impl Package {
    fn read(fields: &mut FieldReader) -> Result<Self, FieldError> {
        Ok(Self {
            name: fields.text("name")?,
            default_channel: fields.text("defaultChannel")?,
            icon: fields.object("icon", Icon::read)?,
            description: fields.text("description")?,
            properties: fields.list("properties", read_property)?,
            extra: fields.rest(),
        })
    }
}

impl Icon {
    fn read(fields: &mut FieldReader) -> Result<Self, FieldError> {
        Ok(Self {
            base64data: fields.base64("base64data")?,
            mediatype: fields.text("mediatype")?,
            extra: fields.rest(),
        })
    }
}

impl Channel {
    fn read(fields: &mut FieldReader) -> Result<Self, FieldError> {
        Ok(Self {
            name: fields.text("name")?,
            package: fields.text("package")?,
            entries: fields.list("entries", ChannelEntry::read)?,
            properties: fields.list("properties", read_property)?,
            extra: fields.rest(),
        })
    }
}

impl ChannelEntry {
    fn read(fields: &mut FieldReader) -> Result<Self, FieldError> {
        Ok(Self {
            name: fields.text("name")?,
            replaces: fields.text("replaces")?,
            skips: fields.texts("skips")?,
            skip_range: fields.text("skipRange")?,
            extra: fields.rest(),
        })
    }
}

impl Bundle {
    fn read(fields: &mut FieldReader) -> Result<Self, FieldError> {
        Ok(Self {
            name: fields.text("name")?,
            package: fields.text("package")?,
            image: fields.text("image")?,
            properties: fields.list("properties", read_bundle_property)?,
            related_images: fields.list("relatedImages", RelatedImage::read)?,
            extra: fields.rest(),
        })
    }
}

impl RelatedImage {
    fn read(fields: &mut FieldReader) -> Result<Self, FieldError> {
        Ok(Self {
            name: fields.text("name")?,
            image: fields.text("image")?,
            extra: fields.rest(),
        })
    }
}

impl Deprecations {
    fn read(fields: &mut FieldReader) -> Result<Self, FieldError> {
        Ok(Self {
            package: fields.text("package")?,
            entries: fields.list("entries", |fields| {
                Ok(DeprecationEntry {
                    reference: fields
                        .object("reference", |fields| {
                            Ok(Reference {
                                schema: fields.text("schema")?,
                                name: fields.text("name")?,
                            })
                        })?
                        .unwrap_or_default(),
                    message: fields.text("message")?,
                    extra: fields.rest(),
                })
            })?,
            extra: fields.rest(),
        })
    }
}

/// Requires a value, which may be null, because properties of bundles are interpreted.
fn read_bundle_property(fields: &mut FieldReader) -> Result<Property, FieldError> {
    if !fields.has("value") {
        return Err("value: unexpected end of JSON input: value must be set"
            .to_owned()
            .into());
    }
    read_property(fields)
}

fn read_property(fields: &mut FieldReader) -> Result<Property, FieldError> {
    Ok(Property {
        kind: fields.text("type")?,
        value: fields.any("value"),
        extra: fields.rest(),
    })
}

#[cfg(test)]
mod tests;
