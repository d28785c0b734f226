//! What bundle images hold.

use std::collections::BTreeMap;

use async_trait::async_trait;

use super::*;
use crate::bundle_unpack::UnpackedBundle;
use crate::bundle_unpack::unpacker::BundleSource;

/// Bundle images: what is not in the map is unpacked into a ClusterServiceVersion of its name.
#[derive(Default)]
pub(super) struct Images {
    pub(super) broken: Mutex<BTreeMap<String, UnpackError>>,
    pub(super) slow: Mutex<Option<Duration>>,
    /// Files that were left out of every bundle.
    pub(super) left_out: Mutex<Vec<String>>,
    /// Added to the spec of every ClusterServiceVersion.
    pub(super) spec: Mutex<serde_json::Map<String, Value>>,
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
        let mut spec = json!({"install": {"strategy": "deployment", "spec": {"deployments": []}}});
        spec.as_object_mut()
            .unwrap()
            .extend(self.spec.lock().unwrap().clone());
        Ok(UnpackedBundle {
            image: format!("{image}@sha256:00"),
            csv: json!({
                "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": {"name": name},
                "spec": spec,
            }),
            left_out: self.left_out.lock().unwrap().clone(),
            ..UnpackedBundle::default()
        })
    }
}
