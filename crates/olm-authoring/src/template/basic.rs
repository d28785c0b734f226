//! Templates of catalogs whose bundles are images only.

use go_compat::json::Fields;
use olm_fbc::schema::{Blob, Bundle};

use super::{Rendered, read_entries};
use crate::Error;

/// Returns the entries of a template.
pub(super) fn read(fields: &Fields<'_>) -> Result<Vec<Blob>, Error> {
    let entries = read_entries(fields)?;
    for blob in &entries {
        if let Blob::Bundle(bundle) = blob
            && !is_image_only(bundle)
        {
            let name = if bundle.name.is_empty() {
                &bundle.image
            } else {
                &bundle.name
            };
            return Err(format!(
                "unexpected fields present in basic template bundle {name:?}: it may have a schema and an image only"
            )
            .into());
        }
    }
    Ok(entries)
}

pub(super) fn images(entries: &[Blob]) -> Vec<String> {
    entries
        .iter()
        .filter_map(|blob| match blob {
            Blob::Bundle(bundle) => Some(bundle.image.clone()),
            _ => None,
        })
        .collect()
}

pub(super) fn render(entries: &[Blob], rendered: &Rendered) -> Result<Vec<Blob>, String> {
    let mut blobs = Vec::new();
    for blob in entries {
        match blob {
            Blob::Bundle(bundle) => {
                let found = rendered
                    .get(&bundle.image)
                    .ok_or_else(|| format!("bundle image {:?} was not rendered", bundle.image))?;
                blobs.extend(found.iter().cloned().map(Blob::Bundle));
            }
            blob => blobs.push(blob.clone()),
        }
    }
    Ok(blobs)
}

/// Returns true if a bundle has only an image. Upstream checks only these fields, so a name is accepted.
fn is_image_only(bundle: &Bundle) -> bool {
    !bundle.image.is_empty()
        && bundle.package.is_empty()
        && bundle.properties.is_empty()
        && bundle.related_images.is_empty()
}
