//! Reads the content of an original when copies of it must be written. Stores do not keep it.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use kube::{
    Api, Client,
    core::{ApiResource, DynamicObject},
};
use olm_api::{condition::csv as reason, v1alpha1::ClusterServiceVersion};
use olm_runtime::{
    NamespacedName,
    discovery::deadline,
    error::ObserveError,
    plan::{Action, Exists, Identity, Target},
    sync::Mutex,
};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::csv_sketch::{Sketch, copied_annotations, copied_labels, message};

/// Time for which the content of an original is cached, so that one read serves all copies.
const REMEMBERED: Duration = Duration::from_secs(30);

/// Content of the copies of one version of an original.
#[derive(Debug)]
pub(crate) struct Content {
    /// The original.
    pub(crate) sketch: Arc<Sketch>,
    labels: Value,
    annotations: Value,
    spec: Value,
    status: Value,
}

impl Content {
    /// # Errors
    /// When the object cannot be decoded.
    pub(crate) fn read(mut original: DynamicObject) -> Result<Self, serde_json::Error> {
        let metadata = &original.metadata;
        let labels = json!(copied_labels(metadata));
        let annotations = json!(copied_annotations(metadata));
        let namespace = metadata.namespace.clone().unwrap_or_default();
        let typed: ClusterServiceVersion = serde_json::from_value(serde_json::to_value(&original)?)?;
        let mut status = original.data["status"].take();
        if status.is_object() {
            status["reason"] = json!(reason::COPIED);
            status["message"] = json!(message(&namespace));
        }
        Ok(Self {
            sketch: Arc::new(Sketch::from_object(typed)),
            labels,
            annotations,
            spec: original.data["spec"].take(),
            status,
        })
    }

    /// Returns the write that creates the copy in namespace `to`, without its status. An existing object of
    /// the name is kept.
    pub(crate) fn create(&self, to: &str) -> Action {
        let target = self.target(to);
        let mut object = self.object(&target);
        object["spec"] = self.spec.clone();
        Action::Create {
            target,
            object,
            exists: Exists::Keep,
            identity: Identity::Operator,
        }
    }

    /// Returns the write that updates everything of `copy` except its status.
    pub(crate) fn replace(&self, copy: &Sketch) -> Action {
        let target = self.target(copy.namespace());
        let mut object = bound_to(copy, self.object(&target));
        object["spec"] = self.spec.clone();
        replace(target, object, None)
    }

    /// Returns the write that updates the status of `copy`.
    pub(crate) fn replace_status(&self, copy: &Sketch) -> Action {
        let target = self.target(copy.namespace());
        let mut object = bound_to(copy, self.object(&target));
        object["status"] = self.status.clone();
        replace(target, object, Some("status"))
    }

    fn target(&self, namespace: &str) -> Target {
        Target::of::<ClusterServiceVersion>(namespace, self.sketch.name())
    }

    fn object(&self, target: &Target) -> Value {
        json!({
            "apiVersion": target.api.api_version,
            "kind": target.api.kind,
            "metadata": {
                "namespace": target.namespace,
                "name": target.name,
                "labels": self.labels,
                "annotations": self.annotations,
            },
        })
    }
}

fn bound_to(copy: &Sketch, mut object: Value) -> Value {
    object["metadata"]["uid"] = json!(copy.uid());
    object["metadata"]["resourceVersion"] = json!(copy.resource_version());
    object
}

fn replace(target: Target, object: Value, subresource: Option<&'static str>) -> Action {
    Action::Replace {
        target,
        object,
        subresource,
        identity: Identity::Operator,
    }
}

/// Cache of the content of originals; each version is read once.
#[derive(Clone)]
pub(crate) struct Contents {
    client: Client,
    known: Arc<Mutex<BTreeMap<NamespacedName, Arc<Known>>>>,
}

/// One version of an original.
struct Known {
    version: Option<String>,
    /// `None` when the original is deleted. Empty during a read and after a failed read.
    content: OnceCell<Option<Arc<Content>>>,
}

impl Contents {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            known: Arc::default(),
        }
    }

    /// Returns the content of this version of an original, or of a newer one; `None` when the original is
    /// deleted. Concurrent calls share one read.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) async fn of(&self, original: &Sketch) -> Result<Option<Arc<Content>>, ObserveError> {
        let known = self.known(original);
        let key = original.key();
        let read = known.content.get_or_try_init(|| self.read(&key));
        Ok(read.await?.clone())
    }

    fn known(&self, original: &Sketch) -> Arc<Known> {
        let (key, version) = (original.key(), original.resource_version());
        let mut all = self.known.lock();
        if let Some(known) = all.get(&key).filter(|known| known.version == version) {
            return Arc::clone(known);
        }
        let known = Arc::new(Known {
            version: version.clone(),
            content: OnceCell::new(),
        });
        all.insert(key.clone(), Arc::clone(&known));
        tokio::spawn(self.clone().forget(key, version));
        known
    }

    async fn forget(self, key: NamespacedName, version: Option<String>) {
        tokio::time::sleep(REMEMBERED).await;
        let mut all = self.known.lock();
        if all.get(&key).is_some_and(|known| known.version == version) {
            all.remove(&key);
        }
    }

    async fn read(&self, key: &NamespacedName) -> Result<Option<Arc<Content>>, ObserveError> {
        let kind = ApiResource::erase::<ClusterServiceVersion>(&());
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &key.namespace, &kind);
        let what = format!("ClusterServiceVersion {key}");
        let Some(original) = deadline(&what, api.get_opt(&key.name)).await? else {
            return Ok(None);
        };
        let content = Content::read(original);
        content
            .map(|content| Some(Arc::new(content)))
            .map_err(|error| ObserveError::read(&what, error))
    }
}
