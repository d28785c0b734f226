//! Builds an index file from a catalog folder, with one document in memory at a time.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, IntoInnerError, Read as _, Seek as _, SeekFrom, Write};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use olm_fbc::channel::Graph;
use olm_fbc::load::{self, LoadError, Origin};
use olm_fbc::property::{Property, kinds};
use olm_fbc::schema::{Blob, Bundle, ChannelEntry, Other};
use olm_fbc::schema_name;
use olm_fbc::validate::{Checker, Faults, Model};
use prost::Message as _;

use super::{
    BundleRecord, CatalogDigest, ChannelRecord, DigestError, Directory, EntryRecord, HEADER_BYTES, Header,
    PackageRecord, SchemaRecord, catalog_digest,
};
use crate::convert;
use crate::frame::Span;
use crate::proto;
use crate::temp_file;

/// No index was built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The catalog has faults.
    #[error("{0}")]
    Invalid(Faults),
    /// The catalog's files cannot be read.
    #[error("compute digest")]
    Digest(#[source] DigestError),
    /// The file cannot be written.
    #[error("write index")]
    Write(#[from] io::Error),
    /// The catalog's folder cannot be read.
    #[error("read catalog")]
    Load(#[from] LoadError),
}

/// Builds the index of the catalog below `root` in `path`. An existing file is replaced once the index is
/// complete.
///
/// # Errors
/// The catalog has faults (all are reported), cannot be read, or the file cannot be written.
pub fn build(root: &Path, path: &Path) -> Result<(), BuildError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new().prefix(".index-").tempfile_in(folder)?;
    build_in(root, file.as_file_mut())?;
    make_readable(file.as_file())?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// Builds the index of the catalog below `root` in an empty file.
///
/// # Errors
/// See [`build`]; the file is then unusable.
pub fn build_in(root: &Path, file: &mut File) -> Result<(), BuildError> {
    let digest = catalog_digest(root).map_err(BuildError::Digest)?;
    let mut builder = Builder::new(file)?;
    let mut checker = Checker::default();
    load::read(root, |blob, origin| -> Result<(), BuildError> {
        match blob {
            Ok(blob) => add(&mut builder, &mut checker, &blob, origin),
            Err(error) => {
                checker.add_error(&error);
                Ok(())
            }
        }
    })?;
    let mut report = checker.report();
    for (warning, origin) in std::mem::take(&mut report.warnings) {
        tracing::warn!("{warning} ({origin})");
    }
    let model = report.into_result().map_err(BuildError::Invalid)?;
    builder.finish(&model, digest)
}

fn add(
    builder: &mut Builder<'_>,
    checker: &mut Checker,
    blob: &Blob,
    origin: &Origin,
) -> Result<(), BuildError> {
    match blob {
        Blob::Bundle(bundle) => builder.add_bundle(bundle)?,
        Blob::Other(other) => builder.add_other(other)?,
        _ => {}
    }
    checker.add(blob, origin);
    Ok(())
}

/// Builds the index of a catalog in memory, each blob with its origin for messages, in an empty file. Its
/// digest is all zeros. Broken rules of file-based catalogs do not prevent serving: they are returned.
///
/// # Errors
/// The file cannot be written; it is then unusable.
pub fn build_of_blobs(
    blobs: impl IntoIterator<Item = (Blob, Origin)>,
    file: &mut File,
) -> Result<Faults, BuildError> {
    let mut builder = Builder::new(file)?;
    let mut checker = Checker::default();
    for (blob, origin) in blobs {
        add(&mut builder, &mut checker, &blob, &origin)?;
    }
    let report = checker.report();
    builder.finish(&report.model, CatalogDigest::from_bytes([0; 32]))?;
    Ok(report.faults)
}

/// Makes the file readable for all: a temporary file is private, but another user reads an index in an image.
fn make_readable(file: &File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    file.set_permissions(std::fs::Permissions::from_mode(0o644))
}

struct Builder<'a> {
    out: BufWriter<&'a mut File>,
    position: u64,
    checksum: crc32fast::Hasher,
    directory: Directory,
    /// Positions of bundles by package and name.
    bundles: BTreeMap<(String, String), u32>,
    /// Bundles whose content needs the package, which may follow later. They are kept in a temporary file.
    pending: Vec<(u32, Span)>,
    pending_file: Option<File>,
    pending_end: u64,
    schemas: BTreeMap<(String, String), Vec<Span>>,
}

impl<'a> Builder<'a> {
    fn new(file: &'a mut File) -> Result<Self, BuildError> {
        file.seek(SeekFrom::Start(HEADER_BYTES))?;
        Ok(Self {
            out: BufWriter::with_capacity(1 << 16, file),
            position: HEADER_BYTES,
            checksum: crc32fast::Hasher::new(),
            directory: Directory::default(),
            bundles: BTreeMap::new(),
            pending: Vec::new(),
            pending_file: None,
            pending_end: 0,
            schemas: BTreeMap::new(),
        })
    }

    fn write(&mut self, message: &impl prost::Message) -> Result<Span, BuildError> {
        let encoded = message.encode_to_vec();
        self.out.write_all(&encoded)?;
        self.checksum.update(&encoded);
        let span = Span {
            offset: self.position,
            length: encoded.len() as u64,
        };
        self.position += span.length;
        Ok(span)
    }

    fn add_bundle(&mut self, bundle: &Bundle) -> Result<(), BuildError> {
        let converted = convert::bundle(bundle);
        let number = u32::try_from(self.directory.bundles.len()).map_err(io::Error::other)?;
        let common = self.write(&converted.common)?;
        let content = if converted.metadata.is_some() {
            self.put_aside(number, bundle)?;
            Span::default()
        } else {
            self.write(&converted.content)?
        };
        self.directory.bundles.push(BundleRecord {
            common,
            content,
            has_image: !bundle.image.is_empty(),
            provides: converted.common.provided_apis.iter().map(api_key).collect(),
        });
        self.bundles
            .insert((bundle.package.clone(), bundle.name.clone()), number);
        Ok(())
    }

    fn put_aside(&mut self, number: u32, bundle: &Bundle) -> Result<(), BuildError> {
        let slim = Bundle {
            properties: bundle
                .properties
                .iter()
                .filter(|property| {
                    matches!(
                        property.kind.as_str(),
                        kinds::PACKAGE | kinds::CSV_METADATA | kinds::BUNDLE_OBJECT
                    )
                })
                .map(|property| Property::new(property.kind.clone(), property.value.clone()))
                .collect(),
            ..bundle.clone()
        };
        let text = serde_json::to_vec(&slim).map_err(io::Error::from)?;
        let file = match &mut self.pending_file {
            Some(file) => file,
            none => none.insert(temp_file::create(None)?),
        };
        file.write_all(&text)?;
        let span = Span {
            offset: self.pending_end,
            length: text.len() as u64,
        };
        self.pending_end += span.length;
        self.pending.push((number, span));
        Ok(())
    }

    /// Adds a blob of another schema. Blobs with an invalid name cannot be requested and are skipped;
    /// validation warns of them.
    fn add_other(&mut self, other: &Other) -> Result<(), BuildError> {
        if schema_name::check(&other.schema, &other.package).is_err() {
            return Ok(());
        }
        let span = self.write(&convert::to_struct(&other.blob))?;
        self.schemas
            .entry((other.schema.clone(), other.package.clone()))
            .or_default()
            .push(span);
        Ok(())
    }

    fn finish(mut self, model: &Model, digest: CatalogDigest) -> Result<(), BuildError> {
        self.write_pending(model)?;
        self.write_entries(model)?;
        for (name, package) in &model.packages {
            self.directory
                .packages
                .insert(name.clone(), package_record(package));
        }
        self.directory.schemas = std::mem::take(&mut self.schemas)
            .into_iter()
            .map(|((schema, package), blobs)| SchemaRecord {
                schema,
                package,
                blobs,
            })
            .collect();
        self.directory.body = self.checksum.clone().finalize();
        let encoded = self.directory.encode_to_vec();
        self.out.write_all(&encoded)?;
        let header = Header {
            digest,
            directory: Span {
                offset: self.position,
                length: encoded.len() as u64,
            },
            checksum: blake3::hash(&encoded).into(),
        };
        let file = self.out.into_inner().map_err(IntoInnerError::into_error)?;
        Ok(file.write_all_at(&header.encode(), 0)?)
    }

    fn write_pending(&mut self, model: &Model) -> Result<(), BuildError> {
        let Some(mut file) = self.pending_file.take() else {
            return Ok(());
        };
        file.seek(SeekFrom::Start(0))?;
        for (number, span) in std::mem::take(&mut self.pending) {
            let mut text = Vec::new();
            (&mut file).take(span.length).read_to_end(&mut text)?;
            let value = serde_json::from_slice(&text).map_err(io::Error::from)?;
            let Ok(Blob::Bundle(bundle)) = Blob::from_value(value) else {
                continue;
            };
            let converted = convert::bundle(&bundle);
            let (Some(metadata), Some(package)) = (converted.metadata, model.packages.get(&bundle.package))
            else {
                continue;
            };
            let content = convert::content_from_metadata(
                &bundle.name,
                &converted.common.version,
                &metadata,
                &bundle.related_images,
                &package.package,
                converted.content,
            );
            let span = self.write(&content)?;
            self.directory.bundles[number as usize].content = span;
        }
        Ok(())
    }

    fn write_entries(&mut self, model: &Model) -> Result<(), BuildError> {
        for (package_name, package) in &model.packages {
            for (channel_name, channel) in &package.channels {
                for entry in &channel.entries {
                    let key = (package_name.clone(), entry.name.clone());
                    let Some(&bundle) = self.bundles.get(&key) else {
                        continue;
                    };
                    let deprecation = package.deprecations.bundles.get(&entry.name);
                    let head = self.write(&convert::entry_head(channel_name, entry, deprecation))?;
                    let edges = self.write(&convert::entry_edges(entry))?;
                    self.directory.entries.push(EntryRecord {
                        package: package_name.clone(),
                        channel: channel_name.clone(),
                        name: entry.name.clone(),
                        replaces: entry.replaces.clone(),
                        skips: entry.skips.clone(),
                        bundle,
                        head,
                        edges: edges.length,
                    });
                }
            }
        }
        self.directory
            .entries
            .sort_by(|a, b| (&a.channel, &a.package, &a.name).cmp(&(&b.channel, &b.package, &b.name)));
        Ok(())
    }
}

fn package_record(package: &olm_fbc::validate::PackageModel) -> PackageRecord {
    let channels = package
        .channels
        .iter()
        .map(|(name, channel)| {
            let record = ChannelRecord {
                head: head(&channel.entries).to_owned(),
                deprecation: package.deprecations.channels.get(name).cloned(),
            };
            (name.clone(), record)
        })
        .collect();
    PackageRecord {
        default_channel: package.package.default_channel.clone(),
        channels,
        deprecation: package.deprecations.package.clone(),
    }
}

/// Returns the head of a channel. Only channels from a ConfigMap may lack one; then it is the first entry,
/// which the ConfigMap names.
fn head(entries: &[ChannelEntry]) -> &str {
    let first = || entries.first().map(|entry| entry.name.as_str());
    let head = Graph::new(entries).head().ok().or_else(first);
    head.unwrap_or_default()
}

/// Returns an API's key in the directory.
pub(crate) fn api_key(api: &proto::GroupVersionKind) -> String {
    format!("{}/{}/{}", api.group, api.version, api.kind)
}
