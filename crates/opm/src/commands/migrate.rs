//! `opm migrate`: writes a catalog as a new directory, one file per package.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::Path;

use anyhow::{Context as _, bail};
use olm_fbc::schema::Blob;

use super::render::{format_of, migration_level};
use crate::args::{Format, MigrateArgs};
use crate::printer;
use crate::settings::Settings;
use crate::source::load_catalog_reference;

pub(crate) async fn run(args: &MigrateArgs, settings: &Settings) -> anyhow::Result<()> {
    let level = migration_level(args.migrate_level.as_deref())?;
    let output = &args.output_dir;
    match fs::read_dir(output) {
        Ok(mut entries) => {
            if entries.next().is_some() {
                bail!("output dir {:?} must be empty", output.display().to_string());
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", output.display())),
    }
    let mut blobs = load_catalog_reference(&args.catalog, settings)
        .await
        .context("render catalog image")?;
    level.apply(&mut blobs);
    write_directory(&mut blobs, args.output, output)?;
    printer::note(&format!(
        "wrote rendered file-based catalog to {:?}",
        output.display().to_string()
    ));
    Ok(())
}

/// Writes `<package>/catalog.<format>` for each package, and `catalog.<format>` for blobs without a package.
fn write_directory(blobs: &mut [Blob], format: Format, root: &Path) -> anyhow::Result<()> {
    olm_fbc::render::sort(blobs);
    for blob in blobs.iter() {
        if !is_local(blob.package()) {
            bail!(
                "invalid package name {:?}: must be a single local path element",
                blob.package()
            );
        }
    }
    fs::create_dir_all(root).with_context(|| format!("cannot create {}", root.display()))?;
    for group in blobs.chunk_by_mut(|a, b| a.package() == b.package()) {
        let package = group.first().map_or("", Blob::package).to_owned();
        // Upstream skips channels and bundles without a package; a catalog with them is invalid anyway.
        if package.is_empty() && !group.iter().any(|blob| matches!(blob, Blob::Other(_))) {
            continue;
        }
        let folder = root.join(&package);
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let path = folder.join(match format {
            Format::Json => "catalog.json",
            Format::Yaml => "catalog.yaml",
        });
        let write = || format!("cannot write {}", path.display());
        let mut out = BufWriter::new(File::create(&path).with_context(write)?);
        olm_fbc::render::write(group, format_of(format), &mut out).with_context(write)?;
        out.flush().with_context(write)?;
    }
    Ok(())
}

fn is_local(package: &str) -> bool {
    package.is_empty() || !package.contains(['/', '\\', '\0']) && package != "." && package != ".."
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn package_names_stay_below_the_output() {
        for (name, expected) in [
            ("p", true),
            ("", true),
            ("p.q", true),
            ("..", false),
            (".", false),
            ("a/b", false),
            ("/etc", false),
        ] {
            assert_eq!(is_local(name), expected, "{name}");
        }
    }
}
