//! Catalog templates: short documents from which a catalog is rendered.
//!
//! A template names bundle images. Rendering has two halves, because this crate does not fetch images: [`Template::images`]
//! returns the needed bundles, [`Template::render`] takes them and renders the catalog. Rules: `docs/reference/catalog-files.md`.

use std::collections::BTreeMap;

use go_compat::json::Fields;
use olm_fbc::did_you_mean::suggestion;
use olm_fbc::property::{PackageProperty, Typed};
use olm_fbc::schema::{Blob, Bundle, schemas};
use olm_fbc::yaml;
use serde::Serialize;
use serde_json::Value;

use crate::Error;

mod basic;
mod hints;
mod semver;
mod substitutes;

/// Field of a template with the substitutions.
const SUBSTITUTIONS: &str = "substitutions";

/// A kind that upstream had, with documents of `olm.composite` and `olm.composite.catalogs`.
pub const COMPOSITE: &str = "composite";
const NO_COMPOSITE: &str = "composite templates are no longer supported: render the input of each component by itself, for example with \"opm alpha \
     render-template basic INPUT -o yaml > CATALOG/catalog.yaml\" (or semver, as its strategy says), and check the result with \"opm \
     validate CATALOG\"";

/// Bundles by the image they were rendered from; an image normally contains one.
pub type Rendered = BTreeMap<String, Vec<Bundle>>;

/// Kinds of templates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A catalog whose bundles are images only.
    Basic,
    /// Channels are derived from versions.
    Semver,
    /// Bundles replace others in the upgrade graph.
    Substitutes,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Basic, Self::Semver, Self::Substitutes];

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Basic => "basic",
            Self::Semver => "semver",
            Self::Substitutes => "substitutes",
        }
    }

    /// Returns the schema of its documents.
    pub fn schema(self) -> &'static str {
        match self {
            Self::Basic => "olm.template.basic",
            Self::Semver => "olm.semver",
            Self::Substitutes => "olm.template.substitutes",
        }
    }

    /// Returns the kind with this name.
    ///
    /// # Errors
    /// No kind has this name.
    pub fn parse(name: &str) -> Result<Self, Error> {
        if name == COMPOSITE {
            return Err(NO_COMPOSITE.to_owned().into());
        }
        let found = Self::ALL.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| {
            let meant = suggestion(name, Self::ALL.map(Self::name));
            format!("invalid template type {name:?}, must be one of: [basic semver substitutes]{meant}")
                .into()
        })
    }
}

/// A template that was read.
#[derive(Debug)]
pub struct Template {
    inner: Inner,
    /// Unknown names that resemble known ones, each as a sentence for the author.
    pub warnings: Vec<String>,
}

#[derive(Debug)]
enum Inner {
    Basic(Vec<Blob>),
    Semver(semver::Semver),
    Substitutes(substitutes::Substitutes),
}

impl Template {
    /// Reads a template, of the given kind or of the kind its schema names.
    ///
    /// # Errors
    /// Not YAML, an unknown or wrong schema, or fields of the wrong shape.
    pub fn parse(input: &[u8], kind: Option<Kind>) -> Result<Self, Error> {
        let (value, _) =
            yaml::parse_first(input).map_err(|error| format!("unable to parse template: {error}"))?;
        let fields = Fields::of(&value).map_err(shape)?;
        let schema = fields.text("schema").map_err(shape)?;
        if schema
            .strip_prefix("olm.")
            .is_some_and(|name| name.starts_with(COMPOSITE))
        {
            return Err(NO_COMPOSITE.to_owned().into());
        }
        let kind = match kind {
            Some(kind) if kind.schema() == schema => kind,
            Some(kind) => {
                let expected = kind.schema();
                return Err(
                    format!("template has unknown schema ({schema:?}), should be {expected:?}").into(),
                );
            }
            None if schema.is_empty() => {
                let hint = hints::no_schema(&value);
                return Err(format!("template input missing required 'schema' field{hint}").into());
            }
            None => Kind::ALL
                .into_iter()
                .find(|kind| kind.schema() == schema)
                .ok_or_else(|| format!("unknown template schema: {schema}{}", hints::schema(&schema)))?,
        };
        let inner = match kind {
            Kind::Basic => Inner::Basic(basic::read(&fields)?),
            Kind::Semver => Inner::Semver(semver::Semver::read(&value).map_err(shape)?),
            Kind::Substitutes => Inner::Substitutes(substitutes::Substitutes::read(&fields)?),
        };
        let entries: &[Blob] = match &inner {
            Inner::Basic(entries) => entries,
            Inner::Semver(_) => &[],
            Inner::Substitutes(template) => &template.entries,
        };
        let warnings = hints::of_document(kind, &value, entries);
        Ok(Self { inner, warnings })
    }

    /// Returns the images of the bundles that [`Template::render`] needs, each once.
    pub fn images(&self) -> Vec<String> {
        let mut images = match &self.inner {
            Inner::Basic(entries) => basic::images(entries),
            Inner::Semver(template) => template.images(),
            Inner::Substitutes(template) => template.images(),
        };
        images.sort_unstable();
        images.dedup();
        images
    }

    /// Renders the catalog.
    ///
    /// # Errors
    /// The template contradicts itself, or a bundle is missing in `rendered`.
    pub fn render(&self, rendered: &Rendered) -> Result<Vec<Blob>, Error> {
        let blobs = match &self.inner {
            Inner::Basic(entries) => basic::render(entries, rendered),
            Inner::Semver(template) => template.render(rendered),
            Inner::Substitutes(template) => template.render(rendered),
        };
        blobs.map_err(|reason| format!("render: {reason}").into())
    }
}

/// An entry of [`Document`].
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Entry {
    /// A bundle reduced to its image, with upstream's order of fields.
    Image {
        schema: &'static str,
        image: String,
    },
    Blob(Value),
}

/// A catalog as a template, ready to be written.
#[derive(Debug, Serialize)]
pub struct Document {
    schema: &'static str,
    entries: Vec<Entry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    substitutions: Option<Vec<Value>>,
}

/// Creates a template that renders to the given catalog. For [`Kind::Basic`] bundles are reduced to their images. For
/// [`Kind::Substitutes`] everything is kept and there are no substitutions yet.
///
/// # Errors
/// Templates of other kinds cannot be created from catalogs.
pub fn from_catalog(blobs: &[Blob], kind: Kind) -> Result<Document, Error> {
    let entries = |reduce: bool| {
        blobs
            .iter()
            .map(|blob| match blob {
                Blob::Bundle(bundle) if reduce => Entry::Image {
                    schema: schemas::BUNDLE,
                    image: bundle.image.clone(),
                },
                blob => Entry::Blob(blob.to_value()),
            })
            .collect()
    };
    match kind {
        Kind::Basic => Ok(Document {
            schema: kind.schema(),
            entries: entries(true),
            substitutions: None,
        }),
        Kind::Substitutes => Ok(Document {
            schema: kind.schema(),
            entries: entries(false),
            substitutions: Some(Vec::new()),
        }),
        Kind::Semver => Err("a catalog cannot be converted to a semver template"
            .to_owned()
            .into()),
    }
}

/// Returns the error about a field of the wrong shape.
fn shape(reason: impl std::fmt::Display) -> Error {
    format!("unmarshalling template: {reason}").into()
}

/// Reads the `entries` of a template.
fn read_entries(fields: &Fields<'_>) -> Result<Vec<Blob>, Error> {
    let entries = match fields.get("entries") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(entries)) => entries,
        Some(_) => return Err(shape("field entries: expected a list")),
    };
    entries
        .iter()
        .enumerate()
        .map(|(index, entry)| {
            Blob::from_value(entry.clone()).map_err(|error| {
                let hint = hints::of_entry(&error);
                Error::from(format!("entry {index} of the template{hint}: {error}"))
            })
        })
        .collect()
}

/// Returns the only `olm.package` property of a bundle; `None` if it has none or several.
fn only_package(bundle: &Bundle) -> Option<PackageProperty> {
    let mut packages = bundle
        .properties
        .iter()
        .filter_map(|property| match property.parse() {
            Ok(Typed::Package(package)) => Some(package),
            _ => None,
        });
    packages.next().filter(|_| packages.next().is_none())
}

#[cfg(test)]
mod tests;
