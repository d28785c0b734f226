//! Warning about bundles without an image, and the fix.

use olm_fbc::schema::Blob;

/// Bundles without an image among those seen so far.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Imageless {
    first: String,
    count: usize,
}

impl Imageless {
    /// Counts a written blob, if it is a bundle without an image.
    pub(crate) fn see(&mut self, blob: &Blob) {
        let Blob::Bundle(bundle) = blob else { return };
        if !bundle.image.is_empty() {
            return;
        }
        if self.count == 0 {
            self.first.clone_from(&bundle.name);
        }
        self.count += 1;
    }

    /// Returns one warning for all of them; `flag` is the flag that derives images from names.
    pub(crate) fn warning(&self, flag: &str) -> Option<String> {
        let bundles = match self.count {
            0 => return None,
            1 => format!("bundle {:?} has", self.first),
            count => format!("bundle {:?} and {} more have", self.first, count - 1),
        };
        Some(format!(
            "{bundles} no image, so only manifests in the catalog can be installed; {flag} \
             'registry.example.com/{{{{.Package}}}}-bundle:v{{{{.Version}}}}' names the images"
        ))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn bundles_without_image_are_told_together() {
        let mut seen = Imageless::default();
        let see = |seen: &mut Imageless, name: &str, image: &str| {
            let blob = json!({"schema": "olm.bundle", "name": name, "package": "p", "image": image});
            seen.see(&Blob::from_value(blob).expect("blob"));
        };
        see(&mut seen, "p.v1", "quay.io/p/p:1");
        assert_eq!(seen.warning("--flag"), None);
        see(&mut seen, "p.v2", "");
        let text = "no image, so only manifests in the catalog can be installed; --flag \
                    'registry.example.com/{{.Package}}-bundle:v{{.Version}}' names the images";
        assert_eq!(
            seen.warning("--flag"),
            Some(format!("bundle \"p.v2\" has {text}"))
        );
        see(&mut seen, "p.v3", "");
        assert_eq!(
            seen.warning("--flag"),
            Some(format!("bundle \"p.v2\" and 1 more have {text}"))
        );
    }
}
