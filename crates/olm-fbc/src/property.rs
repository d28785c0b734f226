//! Bundle properties: `{type, value}` pairs and the meaning of the known types.
//!
//! Values are read as Go reads them into its structs: keys match case-insensitively, unknown keys are ignored, `null` and absent
//! are empty. The constraint language behind `olm.constraint` belongs to the resolver; here its value remains JSON.

use std::fmt;

use go_compat::json::Fields;
use go_compat::semver::Version;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::release::{Release, VersionRelease};

pub mod csv_metadata;

pub use csv_metadata::CsvMetadata;

/// Names of the property types.
pub mod kinds {
    /// Package and version of the bundle; exactly one per bundle.
    pub const PACKAGE: &str = "olm.package";
    /// A package the bundle requires.
    pub const PACKAGE_REQUIRED: &str = "olm.package.required";
    /// An API the bundle provides.
    pub const GVK: &str = "olm.gvk";
    /// An API the bundle requires.
    pub const GVK_REQUIRED: &str = "olm.gvk.required";
    /// A label that other bundles may require.
    pub const LABEL: &str = "olm.label";
    /// A label the bundle requires another bundle to have.
    pub const LABEL_REQUIRED: &str = "olm.label.required";
    /// A constraint expression over other bundles.
    pub const CONSTRAINT: &str = "olm.constraint";
    /// A manifest of the bundle, base64.
    pub const BUNDLE_OBJECT: &str = "olm.bundle.object";
    /// Metadata of the CSV that a catalog displays, instead of whole manifests.
    pub const CSV_METADATA: &str = "olm.csv.metadata";
    /// Marks a bundle that must not be selected.
    pub const DEPRECATED: &str = "olm.deprecated";
    /// The channel a bundle was in; internal to upstream.
    pub const CHANNEL: &str = "olm.channel";
}

/// A property as written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Property {
    /// Type of the property, for example `olm.gvk`.
    #[serde(rename = "type", default)]
    pub kind: String,
    /// Any JSON.
    #[serde(default)]
    pub value: Value,
    /// Fields besides `type` and `value`.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// Value of a property, by its type.
#[derive(Clone, Debug, PartialEq)]
pub enum Typed {
    /// `olm.package`
    Package(PackageProperty),
    /// `olm.package.required`
    PackageRequired(PackageRequired),
    /// `olm.gvk`
    Gvk(Gvk),
    /// `olm.gvk.required`
    GvkRequired(Gvk),
    /// `olm.label`
    Label(String),
    /// `olm.label.required`
    LabelRequired(String),
    /// `olm.constraint`, uninterpreted.
    Constraint(Value),
    /// `olm.bundle.object`: the manifest as base64 text.
    BundleObject(String),
    /// `olm.csv.metadata`
    CsvMetadata(Box<CsvMetadata>),
    /// `olm.deprecated`.
    Deprecated,
    /// `olm.channel`: the channel's name.
    Channel(String),
    /// An unknown type; kept as it is.
    Other,
}

/// Group, version and kind of an API.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Gvk {
    /// API group, empty for the core group.
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Version within the group.
    pub version: String,
}

impl Gvk {
    /// Creates it from its parts.
    pub fn new(group: &str, version: &str, kind: &str) -> Self {
        Self {
            group: group.to_owned(),
            kind: kind.to_owned(),
            version: version.to_owned(),
        }
    }
}

impl fmt::Display for Gvk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.kind, self.version, self.group)
    }
}

/// Value of `olm.package`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PackageProperty {
    /// Package the bundle belongs to.
    pub package_name: String,
    /// Version as text; see [`PackageProperty::version_release`].
    pub version: String,
    /// Release as text; empty for none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub release: String,
}

/// Value of `olm.package.required`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PackageRequired {
    /// Name of the required package.
    pub package_name: String,
    /// Range of allowed versions, as text.
    pub version_range: String,
}

/// Error: a property's value does not fit its type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("value of property type {kind:?}: {reason}")]
pub struct PropertyError {
    /// The property's type.
    pub kind: String,
    /// Expected and found shape.
    pub reason: String,
}

impl Property {
    /// Creates a property without further fields.
    pub fn new(kind: impl Into<String>, value: Value) -> Self {
        Self {
            kind: kind.into(),
            value,
            extra: Map::new(),
        }
    }

    /// Creates an `olm.gvk` or `olm.gvk.required` property.
    pub fn gvk(kind: &str, gvk: &Gvk) -> Self {
        Self::new(
            kind,
            serde_json::json!({"group": gvk.group, "kind": gvk.kind, "version": gvk.version}),
        )
    }

    /// Reads the value by the property's type.
    ///
    /// # Errors
    /// The value does not have the shape its type needs.
    pub fn parse(&self) -> Result<Typed, PropertyError> {
        parse(&self.kind, &self.value)
    }
}

/// Reads a property value by its type.
///
/// # Errors
/// The value does not have the shape its type needs.
pub fn parse(kind: &str, value: &Value) -> Result<Typed, PropertyError> {
    let wrap = |reason: String| PropertyError {
        kind: kind.to_owned(),
        reason,
    };
    let fields = || Fields::of(value).map_err(wrap);
    Ok(match kind {
        kinds::PACKAGE => {
            let fields = fields()?;
            Typed::Package(PackageProperty {
                package_name: fields.text("packageName").map_err(wrap)?,
                version: fields.text("version").map_err(wrap)?,
                release: fields.text("release").map_err(wrap)?,
            })
        }
        kinds::PACKAGE_REQUIRED => {
            let fields = fields()?;
            Typed::PackageRequired(PackageRequired {
                package_name: fields.text("packageName").map_err(wrap)?,
                version_range: fields.text("versionRange").map_err(wrap)?,
            })
        }
        kinds::GVK => Typed::Gvk(parse_gvk(&fields()?).map_err(wrap)?),
        kinds::GVK_REQUIRED => Typed::GvkRequired(parse_gvk(&fields()?).map_err(wrap)?),
        kinds::LABEL => Typed::Label(fields()?.text("label").map_err(wrap)?),
        kinds::LABEL_REQUIRED => Typed::LabelRequired(fields()?.text("label").map_err(wrap)?),
        kinds::CONSTRAINT => Typed::Constraint(value.clone()),
        kinds::BUNDLE_OBJECT => Typed::BundleObject(fields()?.text("data").map_err(wrap)?),
        kinds::CSV_METADATA => Typed::CsvMetadata(Box::new(CsvMetadata::from_value(value).map_err(wrap)?)),
        kinds::DEPRECATED => Typed::Deprecated,
        kinds::CHANNEL => Typed::Channel(fields()?.text("channelName").map_err(wrap)?),
        _ => Typed::Other,
    })
}

fn parse_gvk(fields: &Fields<'_>) -> Result<Gvk, String> {
    Ok(Gvk {
        group: fields.text("group")?,
        kind: fields.text("kind")?,
        version: fields.text("version")?,
    })
}

impl PackageProperty {
    /// Returns version and release, parsed strictly.
    ///
    /// # Errors
    /// The cause as text: version or release is invalid.
    pub fn version_release(&self) -> Result<VersionRelease, String> {
        Ok(VersionRelease {
            version: Version::parse(&self.version).map_err(|error| error.to_string())?,
            release: Release::parse(&self.release)?,
        })
    }
}

#[cfg(test)]
mod tests;
