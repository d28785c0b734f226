//! Warning about bundles without an image, and the fix.

use olm_fbc::schema::Blob;

use crate::printer;

/// Returns the name of a written blob that is a bundle without an image.
pub(crate) fn name(blob: &Blob) -> Option<String> {
    match blob {
        Blob::Bundle(bundle) if bundle.image.is_empty() => Some(bundle.name.clone()),
        _ => None,
    }
}

/// Prints one warning for all bundles without an image, given by name; `flag` is the flag that derives images from names.
pub(crate) fn warn(names: &[String], flag: &str) {
    if let Some(text) = warning(names, flag) {
        printer::warning(&text);
    }
}

fn warning(names: &[String], flag: &str) -> Option<String> {
    let bundles = match names {
        [] => return None,
        [only] => format!("bundle {only:?} has"),
        [first, more @ ..] => format!("bundle {first:?} and {} more have", more.len()),
    };
    Some(format!(
        "{bundles} no image, so only manifests in the catalog can be installed; {flag} \
         'registry.example.com/{{{{.Package}}}}-bundle:v{{{{.Version}}}}' names the images"
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn bundles_without_image_are_reported_together() {
        let bundle = |name: &str, image: &str| {
            let blob = json!({"schema": "olm.bundle", "name": name, "package": "p", "image": image});
            Blob::from_value(blob).expect("blob")
        };
        let blobs =
            [("p.v1", "quay.io/p/p:1"), ("p.v2", ""), ("p.v3", "")].map(|(name, image)| bundle(name, image));
        let names: Vec<String> = blobs.iter().filter_map(name).collect();
        assert_eq!(names, ["p.v2", "p.v3"]);
        let text = "no image, so only manifests in the catalog can be installed; --flag \
                    'registry.example.com/{{.Package}}-bundle:v{{.Version}}' names the images";
        for (count, expected) in [
            (0, None),
            (1, Some(format!("bundle \"p.v2\" has {text}"))),
            (2, Some(format!("bundle \"p.v2\" and 1 more have {text}"))),
        ] {
            assert_eq!(warning(&names[..count], "--flag"), expected);
        }
    }
}
