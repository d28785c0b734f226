//! What catalogs and bundle images hold.

use std::collections::BTreeMap;

use async_trait::async_trait;
use go_compat::semver::{Range, Version};
use olm_fbc::entry::{BundleEntry, Deprecation, EntryProperty};

use super::*;
use crate::bundle_unpack::UnpackedBundle;
use crate::bundle_unpack::unpacker::BundleSource;

/// A bundle as a catalog has it: `package.vN` in channel `stable`, image `reg/package:vN`.
pub struct BundleRow(pub(super) BundleEntry);

pub fn bundle(name: &str) -> BundleRow {
    let (package, version) = name.split_once(".v").unwrap();
    let text = format!("{version}.0.0");
    BundleRow(BundleEntry {
        name: name.into(),
        package: package.into(),
        channel: "stable".into(),
        default_channel: true,
        version: Version::parse(&text).ok(),
        replaces: None,
        skips: Arc::new([]),
        skip_range: None,
        properties: Arc::new([EntryProperty::new(
            "olm.package",
            format!(r#"{{"packageName": "{package}", "version": "{text}"}}"#),
        )]),
        provided_apis: Arc::new([]),
        required_apis: Arc::new([]),
        bundle_path: Some(format!("reg/{package}:v{version}").into()),
        inline: None,
        deprecation: None,
    })
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
        self.property("olm.gvk", kind)
    }

    pub fn requires(self, kind: &str) -> Self {
        self.property("olm.gvk.required", kind)
    }

    pub fn deprecated(mut self, text: &str) -> Self {
        self.0.deprecation = Some(Arc::new(Deprecation {
            bundle: Some(text.into()),
            ..Deprecation::default()
        }));
        self
    }

    fn property(mut self, type_: &str, kind: &str) -> Self {
        let value = format!(r#"{{"group":"example.com","version":"v1","kind":"{kind}"}}"#);
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

/// Bundle images: what is not in the map is unpacked into a ClusterServiceVersion of its name.
#[derive(Default)]
pub(super) struct Images {
    pub(super) broken: Mutex<BTreeMap<String, UnpackError>>,
    pub(super) slow: Mutex<Option<Duration>>,
}

#[async_trait]
impl BundleSource for Images {
    async fn fetch(&self, image: &str, _catalog: &NamespacedName) -> Result<UnpackedBundle, UnpackError> {
        let slow = *self.slow.lock().unwrap();
        if let Some(slow) = slow {
            sleep(slow).await;
        }
        if let Some(error) = self.broken.lock().unwrap().get(image) {
            return Err(error.clone());
        }
        let name = image.rsplit('/').next().unwrap_or_default().replace(':', ".");
        Ok(UnpackedBundle {
            image: format!("{image}@sha256:00"),
            csv: json!({
                "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": {"name": name},
                "spec": {"install": {"strategy": "deployment", "spec": {"deployments": []}}},
            }),
            objects: Vec::new(),
        })
    }
}
