//! `opm alpha image`: images of bundles and catalogs, made without a container engine.

use std::path::Path;

use anyhow::{Context as _, bail};
use olm_api::labels::{INDEX_CONFIGS, bundle as annotations};
use olm_oci::{ImageArchive, ImageSpec, LayerSpec, Limits, Reference, RunConfig};

use crate::args::{CatalogImageArgs, ImageArgs, ImageCommand};
use crate::printer;
use crate::settings::Settings;
use crate::source::{entries, read, read_bundle_directory};

/// Folder of a catalog in its image.
const CONFIGS: &str = "/configs";
/// Folder of a catalog's cache in its image.
const CACHE: &str = "/tmp/cache";
/// User of catalog pods.
const USER: u64 = 1001;
/// Certificate authorities of this machine, and their path in the image.
const AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";
/// Program of a catalog image.
const PROGRAM: &str = "bin/opm";
const PORT: &str = "50051/tcp";

pub(crate) async fn run(command: ImageCommand, settings: &Settings) -> anyhow::Result<()> {
    match command {
        ImageCommand::Bundle(args) => finish(&bundle(&args.directory)?, &args, settings).await,
        ImageCommand::Catalog(args) => finish(&catalog(&args)?, &args.image, settings).await,
        ImageCommand::Push { file, reference } => {
            let archive = ImageArchive::read(&file)?;
            push(&archive, &reference.parse()?, settings).await
        }
    }
}

async fn finish(archive: &ImageArchive, args: &ImageArgs, settings: &Settings) -> anyhow::Result<()> {
    let name: Reference = args.tag.parse()?;
    if let Some(path) = &args.output {
        archive.write(path, Some(&name))?;
    }
    if args.push {
        return push(archive, &name, settings).await;
    }
    printer::data(&format!("{}\n", name.pinned(archive.digest().clone())))
}

async fn push(archive: &ImageArchive, name: &Reference, settings: &Settings) -> anyhow::Result<()> {
    let pinned = settings
        .pusher()
        .push(archive, name, &settings.push_credentials(name)?)
        .await?;
    printer::data(&format!("{pinned}\n"))
}

fn bundle(directory: &Path) -> anyhow::Result<ImageArchive> {
    let content = read_bundle_directory(directory)?;
    for warning in &content.warnings {
        printer::warning(warning);
    }
    let mut labels = content.annotations.clone();
    let mut layer = LayerSpec::new();
    for (label, default) in [
        (annotations::MANIFESTS, "manifests/"),
        (annotations::METADATA, "metadata/"),
    ] {
        let folder = labels
            .entry(label.to_owned())
            .or_insert_with(|| default.to_owned());
        layer.tree(folder.trim_matches('/'), &directory.join(default))?;
    }
    let config = RunConfig {
        labels,
        ..RunConfig::default()
    };
    Ok(ImageSpec {
        base: None,
        layers: vec![layer],
        config,
    }
    .build()?)
}

fn catalog(args: &CatalogImageArgs) -> anyhow::Result<ImageArchive> {
    let directory = &args.image.directory;
    let base = match &args.opm_image {
        Some(path) => opm_image(path)?,
        None => own_image()?,
    };
    // The cache's digest covers files and their modes, so both are created from the files as they are in the image.
    let staging = tempfile::tempdir().context("cannot create a temporary directory")?;
    let staged = staging.path().join("configs");
    // Staging follows links to files. A catalog with links to folders is rejected, as by all commands.
    let files =
        olm_fbc::load::files(directory).with_context(|| format!("catalog {}", directory.display()))?;
    stage(directory, &staged)?;
    let cache = staging.path().join("cache");
    // Building the index validates the catalog.
    let index = olm_registry::cache::open_or_build(&staged, &cache)
        .with_context(|| format!("catalog {}", directory.display()))?;
    if files.is_empty() {
        printer::warning(&format!(
            "{} has no catalog files, so the image will serve nothing",
            directory.display()
        ));
    }
    if args.cache_upstream {
        super::serve::write_for_upstream(&index, &staged, &cache)?;
    }
    let mut configs = LayerSpec::new();
    configs.tree(CONFIGS, &staged)?;
    let config = RunConfig {
        entrypoint: vec![format!("/{PROGRAM}")],
        cmd: vec![
            "serve".to_owned(),
            CONFIGS.to_owned(),
            format!("--cache-dir={CACHE}"),
        ],
        user: USER.to_string(),
        exposed_ports: [(PORT.to_owned(), olm_oci::Empty {})].into(),
        labels: [(INDEX_CONFIGS.to_owned(), CONFIGS.to_owned())].into(),
        ..RunConfig::default()
    };
    let layers = vec![configs, cache_layer(&cache)?];
    Ok(ImageSpec {
        base: Some(base),
        layers,
        config,
    }
    .build()?)
}

/// Reads the base image for a catalog, which must contain the program that serves it.
fn opm_image(path: &Path) -> anyhow::Result<ImageArchive> {
    let archive = ImageArchive::read(path)?;
    // The file is local, so the limits of pulls do not apply.
    let limits = Limits {
        layers: usize::MAX,
        unpacked: u64::MAX,
        entries: usize::MAX,
        file: u64::MAX,
        content: u64::MAX,
        ..Limits::default()
    };
    // The answer is an error if `bin` or `opm` is a link; such an image may well contain the program.
    let lacks_program = archive
        .files(&[PROGRAM.to_owned()], limits)
        .is_ok_and(|content| !content.files.contains_key(PROGRAM));
    if lacks_program {
        bail!(
            "{} has no /{PROGRAM}, which serves the catalog; use an image that contains opm, or omit --opm-image",
            path.display()
        );
    }
    Ok(archive)
}

/// Copies the files below `from` with the modes that [`LayerSpec::tree`] gives them; folders without files are skipped.
fn stage(from: &Path, to: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let cannot = |path: &Path| format!("cannot copy {}", path.display());
    let set_mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).with_context(|| cannot(path))
    };
    std::fs::create_dir(to).with_context(|| cannot(to))?;
    set_mode(to, 0o755)?;
    for path in entries(from)? {
        let target = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            stage(&path, &target)?;
            // This fails, as intended, for folders with files.
            let _ = std::fs::remove_dir(&target);
        } else {
            std::fs::copy(&path, &target).with_context(|| cannot(&path))?;
            set_mode(&target, 0o644)?;
        }
    }
    Ok(())
}

/// Returns a layer with the cache that `opm serve` uses, built in the same way.
fn cache_layer(cache: &Path) -> anyhow::Result<LayerSpec> {
    let mut layer = LayerSpec::new();
    // The base has the folder with this mode; a layer that contains the folder must not change the mode.
    layer.folder("tmp", 0o1777, 0)?;
    // Readable by all: some platforms run pods with an arbitrary user.
    layer.folder(CACHE, 0o755, USER)?;
    add_cache(&mut layer, cache, CACHE)?;
    Ok(layer)
}

/// Adds the files below `from` with their modes, owned by root: pods run in root's group, whatever their user.
fn add_cache(layer: &mut LayerSpec, from: &Path, to: &str) -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    for path in entries(from)? {
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .context("a file name in the cache is not valid UTF-8")?;
        let found = std::fs::metadata(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let mode = found.permissions().mode() & 0o777;
        let inside = format!("{to}/{name}");
        if path.is_dir() {
            layer.folder(&inside, mode, 0)?;
            add_cache(layer, &path, &inside)?;
        } else {
            layer.file(&inside, read(&path)?, mode, 0)?;
        }
    }
    Ok(())
}

/// Returns an image that contains only this program, for users without an opm image.
fn own_image() -> anyhow::Result<ImageArchive> {
    let path = std::env::current_exe().context("cannot find this program's own file")?;
    let program = read(&path)?;
    if !is_static(&program) {
        bail!(
            "{} is linked dynamically, so it cannot run in an image without libraries; use --opm-image",
            path.display()
        );
    }
    let mut layer = LayerSpec::new();
    layer.folder("tmp", 0o1777, 0)?;
    layer.file(PROGRAM, program, 0o755, 0)?;
    layer.link("bin/grpc_health_probe", "opm")?;
    match std::fs::read(AUTHORITIES) {
        Ok(bytes) => layer.file(AUTHORITIES, bytes, 0o644, 0)?,
        Err(error) => printer::warning(&format!(
            "{AUTHORITIES}: {error}: the image has no certificate authorities"
        )),
    }
    Ok(ImageSpec {
        layers: vec![layer],
        ..ImageSpec::default()
    }
    .build()?)
}

/// Returns true if an ELF file needs no loader: none of its program headers is `PT_INTERP`.
fn is_static(program: &[u8]) -> bool {
    const PT_INTERP: u32 = 3;
    let number = |at: usize, length: usize| {
        let bytes = program.get(at..at + length)?;
        Some(
            bytes
                .iter()
                .rev()
                .fold(0usize, |value, byte| value << 8 | usize::from(*byte)),
        )
    };
    let is_elf64_little_endian = program.starts_with(b"\x7fELF\x02\x01");
    let headers = (|| Some((number(32, 8)?, number(54, 2)?, number(56, 2)?)))();
    match headers {
        Some((table, size, count)) if is_elf64_little_endian => (0..count)
            .all(|index| number(table + index * size, 4).is_some_and(|kind| kind != PT_INTERP as usize)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_test_is_linked_dynamically_and_text_is_no_program() {
        let own = std::fs::read(std::env::current_exe().expect("path")).expect("file");
        assert!(!is_static(&own) || cfg!(target_feature = "crt-static"));
        assert!(!is_static(b"#!/bin/sh\n"));
        let mut header = vec![0u8; 64];
        header[..6].copy_from_slice(b"\x7fELF\x02\x01");
        assert!(is_static(&header), "no program headers, no loader");
        (header[32], header[56]) = (200, 1);
        assert!(!is_static(&header), "a header beyond the end");
    }
}
