//! Builds an index file from a catalog folder, with one document in memory at a time.

use std::collections::BTreeMap;
use std::fs::{File, Permissions};
use std::io::{self, BufReader, BufWriter, IntoInnerError, Seek as _, SeekFrom, Write};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::Path;

use olm_fbc::channel::Graph;
use olm_fbc::load::{self, LoadError, Origin};
use olm_fbc::schema::{Blob, Bundle, ChannelEntry, Other};
use olm_fbc::schema_name;
use olm_fbc::validate::{Checker, Faults, Model};
use prost::Message as _;
use serde_json::{Deserializer, Value};

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
    build_in(root, file.as_file_mut(), temp_file::create(Some(folder))?)?;
    // A temporary file is private, but another user reads an index in an image.
    file.as_file().set_permissions(Permissions::from_mode(0o644))?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// Builds the index of the catalog below `root` in an empty file. `drafts` is another empty file, for text
/// that is only needed until the end of the build.
///
/// # Errors
/// See [`build`]; the index is then unusable.
pub fn build_in(root: &Path, file: &mut File, drafts: File) -> Result<(), BuildError> {
    let digest = catalog_digest(root).map_err(BuildError::Digest)?;
    let mut builder = Builder::new(file, drafts)?;
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

/// Builds the index of a catalog in memory, each blob with its origin for messages. The files are as for
/// [`build_in`]. The digest is all zeros. Broken rules of file-based catalogs do not prevent serving: they
/// are returned.
///
/// # Errors
/// A file cannot be written; the index is then unusable.
pub fn build_of_blobs(
    blobs: impl IntoIterator<Item = (Blob, Origin)>,
    file: &mut File,
    drafts: File,
) -> Result<Faults, BuildError> {
    let mut builder = Builder::new(file, drafts)?;
    let mut checker = Checker::default();
    for (blob, origin) in blobs {
        add(&mut builder, &mut checker, &blob, &origin)?;
    }
    let report = checker.report();
    builder.finish(&report.model, CatalogDigest::from_bytes([0; 32]))?;
    Ok(report.faults)
}

struct Builder<'a> {
    out: BufWriter<&'a mut File>,
    position: u64,
    checksum: crc32fast::Hasher,
    directory: Directory,
    /// Positions of bundles by package and name.
    bundles: BTreeMap<(String, String), u32>,
    /// A line of JSON for each bundle whose content needs the package, which may follow later: number of the
    /// bundle, name of the package, draft of the CSV, other manifests.
    drafts: BufWriter<File>,
    schemas: BTreeMap<(String, String), Vec<Span>>,
}

impl<'a> Builder<'a> {
    fn new(file: &'a mut File, drafts: File) -> Result<Self, BuildError> {
        file.seek(SeekFrom::Start(HEADER_BYTES))?;
        Ok(Self {
            out: BufWriter::with_capacity(1 << 16, file),
            position: HEADER_BYTES,
            checksum: crc32fast::Hasher::new(),
            directory: Directory::default(),
            bundles: BTreeMap::new(),
            drafts: BufWriter::new(drafts),
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
        let content = if let Some(draft) = &converted.draft {
            let line = (number, &bundle.package, draft, &converted.content.object);
            serde_json::to_writer(&mut self.drafts, &line).map_err(io::Error::from)?;
            self.drafts.write_all(b"\n")?;
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
        self.finish_drafts(model)?;
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

    /// Writes the content of the bundles that waited for their package. A bundle without one gets no content.
    fn finish_drafts(&mut self, model: &Model) -> Result<(), BuildError> {
        self.drafts.flush()?;
        let mut file = self.drafts.get_ref().try_clone()?;
        file.rewind()?;
        let lines = Deserializer::from_reader(BufReader::new(file));
        for line in lines.into_iter::<(u32, String, Value, Vec<String>)>() {
            let (number, package, draft, objects) = line.map_err(io::Error::from)?;
            let Some(package) = model.packages.get(&package) else {
                continue;
            };
            let content = self.write(&convert::content_of_draft(draft, objects, &package.package))?;
            self.directory.bundles[number as usize].content = content;
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
