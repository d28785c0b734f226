//! `opm init`: the first blob of a new package.

use std::path::Path;

use anyhow::{Context as _, bail};
use olm_authoring::icon;
use olm_fbc::schema::{Blob, Icon, Package};

use super::render::print;
use crate::args::InitArgs;

pub(crate) fn run(args: &InitArgs) -> anyhow::Result<()> {
    let description = match &args.description {
        Some(path) => {
            let bytes = std::fs::read(path);
            let bytes = bytes.with_context(|| format!("cannot read description {}", path.display()))?;
            String::from_utf8_lossy(&bytes).into_owned()
        }
        None => String::new(),
    };
    let package = Package {
        name: args.package.clone(),
        default_channel: args.default_channel.clone(),
        description,
        icon: args.icon.as_deref().map(read_icon).transpose()?,
        ..Package::default()
    };
    print(&mut [Blob::Package(package)], args.output)
}

fn read_icon(path: &Path) -> anyhow::Result<Icon> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read icon {}", path.display()))?;
    if bytes.is_empty() {
        bail!(
            "detect icon mediatype: Empty buffer: icon {} is empty",
            path.display()
        );
    }
    let mediatype = icon::media_type(&bytes).with_context(|| {
        format!(
            "detected invalid type \"\": not an image: icon {} (known are PNG, JPEG, GIF, WebP, BMP, ICO, TIFF, JPEG 2000, \
             JPEG XR, HEIF, AVIF, CR2, PSD, DWG and SVG)",
            path.display()
        )
    })?;
    Ok(Icon {
        base64data: olm_fbc::base64::encode(bytes),
        mediatype: mediatype.to_owned(),
        ..Icon::default()
    })
}
