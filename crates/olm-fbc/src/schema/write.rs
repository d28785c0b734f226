//! Writes blobs as JSON objects: known fields in upstream's order, empty ones omitted, then unknown fields.

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value};

use super::{
    Bundle, Channel, ChannelEntry, DeprecationEntry, Deprecations, Icon, Other, Package, Reference,
    RelatedImage, schemas,
};

/// Collects the fields that are set.
struct Fields<S: Serializer> {
    map: S::SerializeMap,
}

impl<S: Serializer> Fields<S> {
    fn new(serializer: S) -> Result<Self, S::Error> {
        Ok(Self {
            map: serializer.serialize_map(None)?,
        })
    }

    fn always<T: Serialize + ?Sized>(mut self, name: &str, value: &T) -> Result<Self, S::Error> {
        self.map.serialize_entry(name, value)?;
        Ok(self)
    }

    fn text(self, name: &str, value: &str) -> Result<Self, S::Error> {
        if value.is_empty() {
            return Ok(self);
        }
        self.always(name, value)
    }

    fn list<T: Serialize>(self, name: &str, items: &[T]) -> Result<Self, S::Error> {
        if items.is_empty() {
            return Ok(self);
        }
        self.always(name, items)
    }

    fn end(mut self, extra: &Map<String, Value>) -> Result<S::Ok, S::Error> {
        for (name, value) in extra {
            self.map.serialize_entry(name, value)?;
        }
        self.map.end()
    }
}

impl Serialize for Package {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let fields = Fields::new(serializer)?
            .always("schema", schemas::PACKAGE)?
            .always("name", &self.name)?
            .always("defaultChannel", &self.default_channel)?;
        let fields = match &self.icon {
            Some(icon) => fields.always("icon", icon)?,
            None => fields,
        };
        fields
            .text("description", &self.description)?
            .list("properties", &self.properties)?
            .end(&self.extra)
    }
}

impl Serialize for Icon {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Fields::new(serializer)?
            .always("base64data", &self.base64data)?
            .always("mediatype", &self.mediatype)?
            .end(&self.extra)
    }
}

impl Serialize for Channel {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Fields::new(serializer)?
            .always("schema", schemas::CHANNEL)?
            .always("name", &self.name)?
            .always("package", &self.package)?
            .always("entries", &self.entries)?
            .list("properties", &self.properties)?
            .end(&self.extra)
    }
}

impl Serialize for ChannelEntry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Fields::new(serializer)?
            .always("name", &self.name)?
            .text("replaces", &self.replaces)?
            .list("skips", &self.skips)?
            .text("skipRange", &self.skip_range)?
            .end(&self.extra)
    }
}

impl Serialize for Bundle {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Fields::new(serializer)?
            .always("schema", schemas::BUNDLE)?
            .text("name", &self.name)?
            .text("package", &self.package)?
            .always("image", &self.image)?
            .list("properties", &self.properties)?
            .list("relatedImages", &self.related_images)?
            .end(&self.extra)
    }
}

impl Serialize for RelatedImage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Fields::new(serializer)?
            .always("name", &self.name)?
            .always("image", &self.image)?
            .end(&self.extra)
    }
}

impl Serialize for Deprecations {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Fields::new(serializer)?
            .always("schema", schemas::DEPRECATIONS)?
            .always("package", &self.package)?
            .always("entries", &self.entries)?
            .end(&self.extra)
    }
}

impl Serialize for DeprecationEntry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Fields::new(serializer)?
            .always("reference", &self.reference)?
            .always("message", &self.message)?
            .end(&self.extra)
    }
}

impl Serialize for Reference {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Fields::new(serializer)?
            .always("schema", &self.schema)?
            .text("name", &self.name)?
            .end(&Map::new())
    }
}

impl Serialize for Other {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.blob.serialize(serializer)
    }
}
