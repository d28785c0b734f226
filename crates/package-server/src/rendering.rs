//! PackageManifests as JSON: whole objects, their metadata, or rows of a table; single or in lists.
//!
//! Responses are written while they are sent, and the packages' ready JSON is sent without a copy. A response
//! of megabytes takes some tens of KiB at a time, however many callers ask for it and however slowly they
//! read.

use std::collections::BTreeMap;
use std::iter;

use bytes::Bytes;
use jiff::Timestamp;
use olm_api::packages::{GROUP, KIND, LIST_KIND, VERSION};
use serde::Serialize;
use serde_json::{Value, json};

use crate::age;
use crate::index::Item;
use crate::json::{text, value};
use crate::media_type::Shape;

/// Approximate bytes of a response that are written at once.
const PIECE: usize = 32 << 10;
/// `apiVersion` of tables and of metadata alone.
const META_V1: &str = "meta.k8s.io/v1";

/// The part of its object that a table's row includes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Include {
    /// Nothing.
    None,
    /// Its metadata.
    Metadata,
    /// All of it.
    Object,
}

impl Include {
    /// Parses the parameter `includeObject`; `None` for an unknown value.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "" | "Metadata" => Some(Self::Metadata),
            "None" => Some(Self::None),
            "Object" => Some(Self::Object),
            _ => None,
        }
    }
}

/// The form of items in a response.
#[derive(Debug, Clone, Copy)]
pub struct Rendering {
    /// Form of the objects.
    pub shape: Shape,
    /// Part of the objects in the rows of a table.
    pub include: Include,
    /// Reference time of ages.
    pub now: Timestamp,
}

/// Metadata of a PackageManifest. It has no resource version and no uid: nothing is stored.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    name: &'a str,
    namespace: &'a str,
    creation_timestamp: Option<Timestamp>,
    labels: BTreeMap<&'a str, &'a str>,
}

/// The members of `status` from the CatalogSource.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CatalogStatus<'a> {
    catalog_source: &'a str,
    catalog_source_display_name: &'a str,
    catalog_source_publisher: &'a str,
    catalog_source_namespace: &'a str,
}

/// The pieces of a response, in order.
pub type BodyChunks = Box<dyn Iterator<Item = Bytes> + Send>;

impl Rendering {
    /// Renders one PackageManifest.
    pub fn single(self, item: Item) -> BodyChunks {
        match self.shape {
            Shape::Object | Shape::Metadata => joined(self.parts(&item)),
            Shape::Table => self.list(vec![item]),
        }
    }

    /// Renders a list.
    pub fn list(self, items: Vec<Item>) -> BodyChunks {
        let mut head = Vec::new();
        self.write_head(&mut head);
        let items = items.into_iter().enumerate().flat_map(move |(index, item)| {
            let comma = if index == 0 { "" } else { "," };
            iter::once(Bytes::from(comma)).chain(self.parts(&item))
        });
        let tail = iter::once(Bytes::from("]}"));
        joined(iter::once(Bytes::from(head)).chain(items).chain(tail))
    }

    fn write_head(&self, out: &mut Vec<u8>) {
        let own = format!("{GROUP}/{VERSION}");
        let (kind, version) = match self.shape {
            Shape::Object => (LIST_KIND, own.as_str()),
            Shape::Metadata => ("PartialObjectMetadataList", META_V1),
            Shape::Table => ("Table", META_V1),
        };
        text(out, "{\"kind\":");
        value(out, kind);
        text(out, ",\"apiVersion\":");
        value(out, version);
        text(out, ",\"metadata\":{}");
        match self.shape {
            Shape::Object | Shape::Metadata => text(out, ",\"items\":["),
            Shape::Table => {
                text(out, ",\"columnDefinitions\":");
                value(out, &columns());
                text(out, ",\"rows\":[");
            }
        }
    }

    /// Returns an item: its beginning, the package's ready JSON if it has that, and its end.
    fn parts(self, item: &Item) -> impl Iterator<Item = Bytes> + Send + use<> {
        let mut begin = Vec::new();
        let (has_content, end) = match self.shape {
            Shape::Object => {
                write_object(item, &mut begin);
                (true, "}}")
            }
            Shape::Metadata => {
                write_metadata(item, &mut begin);
                (false, "")
            }
            Shape::Table => {
                self.write_row(item, &mut begin);
                match self.include {
                    Include::Object => (true, "}}}"),
                    Include::None | Include::Metadata => (false, "}"),
                }
            }
        };
        let content = if has_content {
            item.package.content.clone()
        } else {
            Vec::new()
        };
        let begin = iter::once(Bytes::from(begin));
        begin.chain(content).chain(iter::once(Bytes::from(end)))
    }

    fn write_row(&self, item: &Item, out: &mut Vec<u8>) {
        let facts = &item.catalog.facts;
        let age = facts.created.map_or("<unknown>".to_owned(), |created| {
            let age = self.now.duration_since(created);
            age::text(age.try_into().unwrap_or_default())
        });
        text(out, "{\"cells\":");
        value(out, &[&*item.package.name, &facts.display_name, &age]);
        text(out, ",\"object\":");
        match self.include {
            Include::None => text(out, "null"),
            Include::Metadata => write_metadata(item, out),
            Include::Object => write_object(item, out),
        }
    }
}

/// Joins small parts until they have [`PIECE`] bytes. Larger ones are cut and not copied, which would take memory for
/// each request.
fn joined(mut parts: impl Iterator<Item = Bytes> + Send + 'static) -> BodyChunks {
    let (mut out, mut large) = (Vec::<u8>::new(), Bytes::new());
    Box::new(iter::from_fn(move || {
        while large.is_empty() && out.len() < PIECE {
            match parts.next() {
                Some(part) if part.len() >= PIECE => large = part,
                Some(part) => out.extend_from_slice(&part),
                None => break,
            }
        }
        if !out.is_empty() {
            return Some(std::mem::take(&mut out).into());
        }
        let length = large.len().min(PIECE);
        (length > 0).then(|| large.split_to(length))
    }))
}

fn columns() -> Value {
    let column = |name: &str, format: &str, about: &str| json!({"name": name, "type": "string", "format": format, "description": about, "priority": 0});
    json!([
        column("Name", "name", "Name of the package"),
        column("Catalog", "", "Name of the catalog for people"),
        column("Age", "", "Time since the CatalogSource was created"),
    ])
}

fn write_metadata(item: &Item, out: &mut Vec<u8>) {
    text(out, "{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":");
    value(out, META_V1);
    text(out, ",\"metadata\":");
    value(out, &metadata(item));
    text(out, "}");
}

fn write_object(item: &Item, out: &mut Vec<u8>) {
    let facts = &item.catalog.facts;
    text(out, "{\"kind\":");
    value(out, KIND);
    text(out, ",\"apiVersion\":");
    value(out, &format!("{GROUP}/{VERSION}"));
    text(out, ",\"metadata\":");
    value(out, &metadata(item));
    text(out, ",\"spec\":{},\"status\":");
    value(
        out,
        &CatalogStatus {
            catalog_source: &facts.key.name,
            catalog_source_display_name: &facts.display_name,
            catalog_source_publisher: &facts.publisher,
            catalog_source_namespace: &facts.key.namespace,
        },
    );
    // The package's content follows, then the braces.
    out.pop();
    text(out, ",");
}

fn metadata(item: &Item) -> Metadata<'_> {
    Metadata {
        name: &item.package.name,
        namespace: &item.namespace,
        creation_timestamp: item.catalog.facts.created,
        labels: item.labels(),
    }
}

#[cfg(test)]
mod tests;
