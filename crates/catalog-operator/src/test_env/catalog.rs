//! Bundles as catalogs have them.

use std::sync::Arc;

use go_compat::semver::{Range, Version};
use olm_api::cluster_operator::MAX_OPENSHIFT_VERSION;
use olm_fbc::entry::{BundleEntry, Deprecation, EntryProperty};
use olm_registry::snapshot::manifest_digest;

/// A bundle in a catalog; into a `BundleEntry` when it says what it is to say.
#[derive(Clone)]
pub struct BundleRow(BundleEntry);

/// `package.vN` in channel `stable`, with image `reg/package:vN`.
pub fn bundle(name: &str) -> BundleRow {
    let (package, version) = name.split_once(".v").unwrap();
    let text = format!("{version}.0.0");
    BundleRow(BundleEntry {
        name: name.into(),
        package: package.into(),
        channel: "stable".into(),
        default_channel: true,
        version: Version::parse(&text).ok(),
        properties: Arc::new([EntryProperty::new(
            "olm.package",
            format!(r#"{{"packageName": "{package}", "version": "{text}"}}"#),
        )]),
        bundle_path: Some(format!("reg/{package}:v{version}").into()),
        ..BundleEntry::default()
    })
}

impl From<BundleRow> for BundleEntry {
    fn from(row: BundleRow) -> Self {
        row.0
    }
}

impl BundleRow {
    pub fn replaces(mut self, name: &str) -> Self {
        self.0.replaces = Some(name.into());
        self
    }

    pub fn skip_range(mut self, range: &str) -> Self {
        self.0.skip_range = Some(Arc::new(Range::parse(range).unwrap()));
        self
    }

    pub fn channel(mut self, channel: &str, default: bool) -> Self {
        (self.0.channel, self.0.default_channel) = (channel.into(), default);
        self
    }

    pub fn provides(self, kind: &str) -> Self {
        self.api("olm.gvk", kind)
    }

    pub fn requires(self, kind: &str) -> Self {
        self.api("olm.gvk.required", kind)
    }

    /// Without an image: the catalog carries these manifests.
    pub fn inline(mut self, objects: &[String]) -> Self {
        self.0.bundle_path = None;
        self.0.inline = Some(Arc::new(manifest_digest(objects)));
        self
    }

    pub fn image(mut self, image: &str) -> Self {
        self.0.bundle_path = Some(image.into());
        self
    }

    pub fn deprecated(mut self, text: &str) -> Self {
        self.0.deprecation = Some(Arc::new(Deprecation {
            bundle: Some(text.into()),
            ..Deprecation::default()
        }));
        self
    }

    /// Works up to this version of OpenShift.
    pub fn max_openshift_version(self, version: &str) -> Self {
        self.property(MAX_OPENSHIFT_VERSION, format!("{version:?}"))
    }

    fn api(self, type_: &str, kind: &str) -> Self {
        let value = format!(r#"{{"group":"example.com","version":"v1","kind":"{kind}"}}"#);
        self.property(type_, value)
    }

    fn property(mut self, type_: &str, value: String) -> Self {
        self.0.properties = self
            .0
            .properties
            .iter()
            .cloned()
            .chain([EntryProperty::new(type_, value)])
            .collect();
        self
    }
}
