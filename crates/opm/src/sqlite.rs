//! SQLite databases, the older format of catalogs, read as if they were files.
//!
//! Databases of every age are read. Newer columns and tables are used if they exist; otherwise their data is taken from the
//! ClusterServiceVersion. Bundles marked `olm.deprecated` are skipped, as in upstream's conversion.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context as _, bail};
use olm_fbc::property::{Property, kinds};
use olm_fbc::schema::{Blob, Bundle, Channel, ChannelEntry, Icon, Package, RelatedImage};
use olm_fbc::yaml;
use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};

/// First bytes of a database.
pub(crate) const MAGIC: &[u8] = b"SQLite format 3\0";
/// Maximum size of a text in a database, in bytes.
const TEXT_BYTES: i32 = 64 << 20;

/// Returns the blobs of a database.
///
/// # Errors
/// It cannot be opened, is not a catalog, or contains invalid values.
pub(crate) fn read(path: &Path) -> anyhow::Result<Vec<Blob>> {
    let blobs = Database::open(path).and_then(|database| database.blobs());
    blobs.with_context(|| format!("database {}", path.display()))
}

struct Database {
    connection: Connection,
}

/// A row of `operatorbundle`.
#[derive(Default)]
struct Row {
    csv: Value,
    objects: Vec<Value>,
    image: String,
    version: String,
    replaces: String,
    skips: Vec<String>,
    skip_range: String,
}

/// Head and bundles of each channel, by package and channel.
type Channels = BTreeMap<(String, String), (String, BTreeSet<String>)>;

/// Rows of a table with a type and a value per bundle: `properties`, `dependencies`.
type Typed = BTreeMap<String, Vec<Property>>;

impl Database {
    fn open(path: &Path) -> anyhow::Result<Self> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags).context("cannot be opened")?;
        // The file is untrusted, so nothing in its schema is executed.
        connection.pragma_update(None, "trusted_schema", false)?;
        connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, TEXT_BYTES)?;
        let database = Self { connection };
        for table in ["package", "channel", "channel_entry", "operatorbundle"] {
            if database.columns(table)?.is_empty() {
                bail!("is not a catalog: it has no table {table}");
            }
        }
        Ok(database)
    }

    fn columns(&self, table: &str) -> anyhow::Result<BTreeSet<String>> {
        let rows = self.rows(&format!("SELECT name FROM pragma_table_info('{table}')"))?;
        Ok(rows
            .into_iter()
            .filter_map(|row| row.into_iter().next())
            .collect())
    }

    /// Returns all rows of a query as texts; nulls are empty.
    fn rows(&self, query: &str) -> anyhow::Result<Vec<Vec<String>>> {
        let mut statement = self.connection.prepare(query)?;
        let count = statement.column_count();
        let mut rows = statement.query([])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let text = |index| -> anyhow::Result<String> {
                Ok(match row.get_ref(index)? {
                    rusqlite::types::ValueRef::Null => String::new(),
                    rusqlite::types::ValueRef::Integer(number) => number.to_string(),
                    rusqlite::types::ValueRef::Real(number) => number.to_string(),
                    rusqlite::types::ValueRef::Text(text) | rusqlite::types::ValueRef::Blob(text) => {
                        String::from_utf8_lossy(text).into_owned()
                    }
                })
            };
            found.push((0..count).map(text).collect::<Result<_, _>>()?);
        }
        Ok(found)
    }

    /// Returns the wanted columns of a table; missing columns are empty.
    fn select<const N: usize>(&self, table: &str, wanted: [&str; N]) -> anyhow::Result<Vec<[String; N]>> {
        let known = self.columns(table)?;
        if known.is_empty() {
            return Ok(Vec::new());
        }
        let columns = wanted.map(|column| {
            if known.contains(column) {
                format!("\"{column}\"")
            } else {
                "''".to_owned()
            }
        });
        let rows = self.rows(&format!("SELECT {} FROM {table}", columns.join(", ")))?;
        rows.into_iter()
            .map(|row| {
                row.try_into()
                    .map_err(|_| anyhow::anyhow!("invalid row in {table}"))
            })
            .collect()
    }

    fn blobs(&self) -> anyhow::Result<Vec<Blob>> {
        let bundles = self.bundles()?;
        let mut properties = self.typed("properties")?;
        let dependencies = self.typed("dependencies")?;
        let apis = [
            (kinds::GVK, self.apis("api_provider")?),
            (kinds::GVK_REQUIRED, self.apis("api_requirer")?),
        ];
        let related = self.related_images()?;
        let mut excluded: BTreeSet<String> = self
            .select("deprecated", ["operatorbundle_name"])?
            .into_iter()
            .map(|[name]| name)
            .collect();
        excluded.extend(
            properties
                .iter()
                .filter(|(_, list)| list.iter().any(|property| property.kind == kinds::DEPRECATED))
                .map(|(name, _)| name.clone()),
        );
        let mut blobs = Vec::new();
        let mut made = BTreeSet::new();
        let channels = self.channels()?;
        for ((package, name), (_, names)) in &channels {
            let mut entries = Vec::new();
            for bundle in names.iter().filter(|name| !excluded.contains(*name)) {
                // A name without a row is only replaced or skipped by other bundles.
                let Some(row) = bundles.get(bundle) else { continue };
                entries.push(row.entry(bundle));
                if made.insert((package.clone(), bundle.clone())) {
                    let mut given = properties.remove(bundle).unwrap_or_default();
                    for (kind, apis) in &apis {
                        given.extend(
                            apis.get(bundle)
                                .into_iter()
                                .flatten()
                                .map(|api| Property::new(*kind, api.clone())),
                        );
                    }
                    let needed = dependencies.get(bundle).map_or(&[][..], Vec::as_slice);
                    let images = related.get(bundle).map_or(&[][..], Vec::as_slice);
                    blobs.push(Blob::Bundle(row.bundle(package, bundle, given, needed, images)?));
                }
            }
            blobs.push(Blob::Channel(Channel {
                name: name.clone(),
                package: package.clone(),
                entries,
                ..Channel::default()
            }));
        }
        for [name, default_channel] in self.select("package", ["name", "default_channel"])? {
            let channel = channels.get(&(name.clone(), default_channel.clone()));
            let head = channel.and_then(|(head, _)| bundles.get(head));
            blobs.push(Blob::Package(Package {
                icon: head.and_then(Row::icon),
                name,
                default_channel,
                ..Package::default()
            }));
        }
        Ok(blobs)
    }

    fn bundles(&self) -> anyhow::Result<BTreeMap<String, Row>> {
        let wanted = [
            "name",
            "csv",
            "bundle",
            "bundlepath",
            "version",
            "replaces",
            "skips",
            "skiprange",
        ];
        let mut bundles = BTreeMap::new();
        for [name, csv, objects, image, version, replaces, skips, skip_range] in
            self.select("operatorbundle", wanted)?
        {
            let parse =
                |text: &str| yaml::parse_all(text.as_bytes()).with_context(|| format!("bundle {name:?}"));
            let row = Row {
                csv: parse(&csv)?.into_iter().next().unwrap_or_default(),
                objects: parse(&objects)?,
                image,
                version,
                replaces,
                skips: split(&skips),
                skip_range,
            };
            bundles.insert(name, row);
        }
        Ok(bundles)
    }

    fn typed(&self, table: &str) -> anyhow::Result<Typed> {
        let mut found = Typed::new();
        for [bundle, kind, value] in self.select(table, ["operatorbundle_name", "type", "value"])? {
            let value = serde_json::from_str(&value)
                .with_context(|| format!("bundle {bundle:?}: {table} of type {kind:?}"))?;
            add(&mut found, bundle, Property::new(kind, value));
        }
        Ok(found)
    }

    /// Returns APIs by bundle, from whichever columns this version of the schema has.
    fn apis(&self, table: &str) -> anyhow::Result<BTreeMap<String, Vec<Value>>> {
        let columns = self.columns(table)?;
        if columns.is_empty() {
            return Ok(BTreeMap::new());
        }
        let rows = if columns.contains("operatorbundle_name") {
            self.rows(&format!(
                "SELECT operatorbundle_name, group_name, version, kind FROM {table}"
            ))?
        } else {
            self.rows(&format!(
                "SELECT e.operatorbundle_name, a.group_name, a.version, a.kind FROM {table} a \
                 JOIN channel_entry e ON e.entry_id = a.channel_entry_id"
            ))?
        };
        let mut found = BTreeMap::new();
        for row in rows {
            if let [bundle, group, version, kind] = row.as_slice() {
                let api = json!({"group": group, "kind": kind, "version": version});
                add(&mut found, bundle.clone(), api);
            }
        }
        Ok(found)
    }

    fn related_images(&self) -> anyhow::Result<BTreeMap<String, Vec<String>>> {
        let mut found = BTreeMap::new();
        for [bundle, image] in self.select("related_image", ["operatorbundle_name", "image"])? {
            add(&mut found, bundle, image);
        }
        Ok(found)
    }

    fn channels(&self) -> anyhow::Result<Channels> {
        let mut channels = Channels::new();
        for [package, name, head] in
            self.select("channel", ["package_name", "name", "head_operatorbundle_name"])?
        {
            channels.insert((package, name), (head, BTreeSet::new()));
        }
        for [package, name, bundle] in self.select(
            "channel_entry",
            ["package_name", "channel_name", "operatorbundle_name"],
        )? {
            channels.entry((package, name)).or_default().1.insert(bundle);
        }
        Ok(channels)
    }
}

impl Row {
    fn entry(&self, name: &str) -> ChannelEntry {
        let spec = &self.csv["spec"];
        let or = |known: &str, csv: &Value| {
            if known.is_empty() {
                csv.as_str().unwrap_or_default().to_owned()
            } else {
                known.to_owned()
            }
        };
        let mut skips = self.skips.clone();
        if skips.is_empty() {
            let named = spec["skips"].as_array().into_iter().flatten();
            skips.extend(named.filter_map(|skip| skip.as_str().map(str::to_owned)));
        }
        ChannelEntry {
            name: name.to_owned(),
            replaces: or(&self.replaces, &spec["replaces"]),
            skips,
            skip_range: or(
                &self.skip_range,
                &self.csv["metadata"]["annotations"]["olm.skipRange"],
            ),
            ..ChannelEntry::default()
        }
    }

    fn bundle(
        &self,
        package: &str,
        name: &str,
        mut properties: Vec<Property>,
        dependencies: &[Property],
        images: &[String],
    ) -> anyhow::Result<Bundle> {
        if !properties.iter().any(|property| property.kind == kinds::PACKAGE) {
            let version = match self.version.as_str() {
                "" => self.csv["spec"]["version"].as_str().unwrap_or_default(),
                version => version,
            };
            let value = json!({"packageName": package, "version": version});
            properties.push(Property::new(kinds::PACKAGE, value));
        }
        properties.extend(dependencies.iter().map(requirement));
        properties.sort_by_cached_key(|property| (property.kind.clone(), property.value.to_string()));
        properties.dedup();
        for object in &self.objects {
            let data = olm_fbc::base64::encode(serde_json::to_vec(object)?);
            properties.push(Property::new(kinds::BUNDLE_OBJECT, json!({ "data": data })));
        }
        Ok(Bundle {
            name: name.to_owned(),
            package: package.to_owned(),
            image: self.image.clone(),
            properties,
            related_images: self.related_images(images),
            ..Bundle::default()
        })
    }

    /// Returns the images of the CSV, with names, then the other images that the database lists.
    fn related_images(&self, images: &[String]) -> Vec<RelatedImage> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut related: Vec<RelatedImage> = self.csv["spec"]["relatedImages"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|image| RelatedImage {
                name: text(&image["name"]),
                image: text(&image["image"]),
                ..RelatedImage::default()
            })
            .collect();
        for image in images
            .iter()
            .chain([&self.image])
            .filter(|image| !image.is_empty())
        {
            if !related.iter().any(|known| known.image == *image) {
                related.push(RelatedImage {
                    image: image.clone(),
                    ..RelatedImage::default()
                });
            }
        }
        related
    }

    fn icon(&self) -> Option<Icon> {
        let icon = self.csv["spec"]["icon"].get(0)?;
        let text = |key: &str| icon[key].as_str().unwrap_or_default();
        // Some published icons contain line breaks.
        let base64data: String = text("base64data").split_whitespace().collect();
        (!base64data.is_empty()).then(|| Icon {
            base64data,
            mediatype: text("mediatype").to_owned(),
            ..Icon::default()
        })
    }
}

/// Adds an item of a bundle, unless the bundle has it.
fn add<T: PartialEq>(found: &mut BTreeMap<String, Vec<T>>, bundle: String, item: T) {
    let items = found.entry(bundle).or_default();
    if !items.contains(&item) {
        items.push(item);
    }
}

/// Converts a dependency to the property used in files.
fn requirement(dependency: &Property) -> Property {
    match dependency.kind.as_str() {
        kinds::GVK => Property::new(kinds::GVK_REQUIRED, dependency.value.clone()),
        kinds::PACKAGE => Property::new(
            kinds::PACKAGE_REQUIRED,
            json!({"packageName": dependency.value["packageName"], "versionRange": dependency.value["version"]}),
        ),
        _ => dependency.clone(),
    }
}

fn split(list: &str) -> Vec<String> {
    list.split(',')
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests;
