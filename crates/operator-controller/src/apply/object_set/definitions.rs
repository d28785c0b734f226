//! Keeps the definitions that have custom resources when their revision is deleted, so that no data is lost.
//!
//! # The second owner
//! The garbage collector deletes what has lost its last owner. If a client deletes a ClusterExtension with `--cascade=foreground`, as
//! Argo CD does, it deletes the objects of its revisions before this controller sees the deletion. So each definition has a second owner
//! that never goes, the Namespace `kube-system`, and only this controller deletes definitions.
//!
//! # Without the first owner
//! The garbage collector removes a revision from the owners of its definitions for `--cascade=foreground` and for `--cascade=orphan`, and
//! its finalizer says which one it is. Afterwards the finalizer is gone, so that only a foreground deletion still in progress deletes such
//! definitions. Definitions that were kept earlier have no second owner any more, so no later revision deletes them.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::ListParams;
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Resource as _, ResourceExt as _};
use olm_api::extension_v1::{ClusterObjectSet, LifecycleState};
use olm_api::labels;
use olm_runtime::discovery::deadline;
use olm_runtime::error::ObserveError;
use olm_runtime::plan::{Action, EventDraft, Plan, Target};
use serde_json::{Value, json};

use super::{ClusterObjectSets, teardown};
use crate::apply::collision::controller;
use crate::apply::object::{ObjectId, is_definition, is_deleting, metadata_text, owners, revision_of};

/// Namespace that every cluster has as long as it exists.
const ANCHOR: &str = "kube-system";
/// Reason of the event about definitions that stay.
const KEPT: &str = "DefinitionsKept";
/// Finalizer of the garbage collector on an object whose dependents are to stay.
const ORPHAN: &str = "orphan";
/// Finalizer of the garbage collector on an object whose dependents are deleted first.
const FOREGROUND: &str = "foregroundDeletion";

/// A definition of a revision that is being deleted.
#[derive(Debug, Clone)]
pub(super) struct Definition {
    /// As it is in the cluster.
    live: Value,
    /// True if it is not deleted: its revision goes without its objects, or it has custom resources whose deletion nobody asked for.
    is_kept: bool,
}

impl ClusterObjectSets {
    /// Returns the definitions that a revision controls, or controlled until the garbage collector removed it from their owners.
    pub(super) async fn definitions(&self, set: &ClusterObjectSet) -> Result<Vec<Definition>, ObserveError> {
        let api = ApiResource::erase::<CustomResourceDefinition>(&());
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &api);
        let extension = set.labels().get(labels::EXTENSION_OWNER_NAME);
        let extension = extension.map(String::as_str).unwrap_or_default();
        let selector = format!("{}={extension}", labels::EXTENSION_OWNER_NAME);
        let params = ListParams::default().labels(&selector);
        let found = deadline("CustomResourceDefinitions", api.list(&params)).await?;
        let anchor = Box::pin(self.anchor()).await?;
        let has = |wanted: &str| set.finalizers().iter().any(|finalizer| finalizer == wanted);
        let (is_orphaning, is_foreground) = (has(ORPHAN), has(FOREGROUND));
        let mut definitions = Vec::new();
        for object in found {
            // An object that was decoded can be encoded.
            let live = serde_json::to_value(object).unwrap_or_default();
            let owner = controller(&live);
            let is_own = match &owner {
                Some(owner) => Some(&owner.uid) == set.metadata.uid.as_ref(),
                None => {
                    let has_anchor = anchor.as_deref().is_some_and(|anchor| has_anchor(&live, anchor));
                    !extension.is_empty() && revision_of(&live) == set.spec.revision && has_anchor
                }
            };
            if is_own && !is_deleting(&live) {
                let may_go = !is_orphaning && (owner.is_some() || is_foreground);
                let is_kept = !may_go || Box::pin(self.is_kept(set, &live)).await?;
                definitions.push(Definition { live, is_kept });
            }
        }
        Ok(definitions)
    }

    /// True if the revision is archived, and this object is a definition of it that stays.
    pub(super) async fn is_kept_by_archive(
        &self,
        set: &ClusterObjectSet,
        id: &ObjectId,
        live: Option<&Value>,
    ) -> Result<bool, ObserveError> {
        let Some(live) = live else {
            return Ok(false);
        };
        let is_own = || controller(live).is_some_and(|owner| Some(owner.uid) == set.metadata.uid);
        let is_archived = set.spec.lifecycle_state == LifecycleState::Archived;
        if !is_archived || !is_definition(id) || is_deleting(live) || !is_own() {
            return Ok(false);
        }
        Box::pin(self.is_kept(set, live)).await
    }

    async fn is_kept(&self, set: &ClusterObjectSet, definition: &Value) -> Result<bool, ObserveError> {
        let is_deleted = labels::is_true(set.annotations(), labels::DELETE_CUSTOM_RESOURCES);
        if is_deleted || !is_established(definition) {
            return Ok(false);
        }
        let Some(api) = resource(definition) else {
            return Ok(true);
        };
        let objects: Api<DynamicObject> = Api::all_with(self.client.clone(), &api);
        let params = ListParams::default().limit(1);
        let read = async {
            match objects.list_metadata(&params).await {
                Ok(found) => Ok(!found.items.is_empty()),
                // The answer may never be another, for example without the webhook that converts the objects.
                Err(kube::Error::Api(status)) => {
                    tracing::warn!(kind = %api.kind, message = %status.message, "cannot list custom resources; keeping their definition");
                    Ok(true)
                }
                Err(error) => Err(error),
            }
        };
        deadline(&api.kind, read).await
    }

    /// Returns the uid of the second owner of definitions; `None` if it does not exist.
    pub(super) async fn anchor(&self) -> Result<Option<Arc<str>>, ObserveError> {
        let read = async {
            let namespaces: Api<Namespace> = Api::all(self.client.clone());
            let found = deadline("Namespace kube-system", namespaces.get_opt(ANCHOR)).await?;
            let uid = found.and_then(|found| found.metadata.uid);
            Ok::<_, ObserveError>(uid.map(Arc::<str>::from))
        };
        self.anchor.get_or_try_init(|| read).await.cloned()
    }
}

/// True if the API server has served the kind of a definition, so that there may be custom resources.
fn is_established(definition: &Value) -> bool {
    let conditions = definition["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition["type"] == "Established" && condition["status"] == "True")
}

/// Returns the resource of a definition in the version that is stored, or in another one that is served; `None` if none is.
fn resource(definition: &Value) -> Option<ApiResource> {
    let spec = &definition["spec"];
    let versions = || spec["versions"].as_array().into_iter().flatten();
    let mut served = versions().filter(|version| version["served"] == true);
    let stored = versions().find(|version| version["served"] == true && version["storage"] == true);
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let (group, version) = (text(&spec["group"])?, text(&stored.or(served.next())?["name"])?);
    Some(ApiResource {
        api_version: format!("{group}/{version}"),
        group,
        version,
        kind: text(&spec["names"]["kind"])?,
        plural: text(&spec["names"]["plural"])?,
    })
}

/// Returns the second owner of a definition.
pub(super) fn anchor_reference(uid: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "name": ANCHOR, "uid": uid})
}

/// True if a definition has the second owner, which has the uid `anchor`.
pub(super) fn has_anchor(definition: &Value, anchor: &str) -> bool {
    owners(definition).iter().any(|owner| owner.uid == anchor)
}

/// Adds the writes for definitions of a revision that is being deleted: those that are kept lose the owners that OLM gave them, the
/// others are deleted.
pub(super) fn remove(set: &ClusterObjectSet, found: &[Definition], anchor: Option<&str>, plan: &mut Plan) {
    let uid = set.metadata.uid.as_deref();
    let name = |definition: &Definition| metadata_text(&definition.live, "name").unwrap_or_default();
    for definition in found {
        let live = &definition.live;
        let target = Target::cluster::<CustomResourceDefinition>(&name(definition));
        if definition.is_kept {
            plan.actions
                .extend(teardown::release(target, live, &[uid, anchor]));
        } else {
            let delete = Action::delete(target, metadata_text(live, "uid"));
            plan.actions
                .push(delete.only_at(metadata_text(live, "resourceVersion")));
        }
    }
    let kept: Vec<String> = found
        .iter()
        .filter(|definition| definition.is_kept)
        .map(name)
        .collect();
    plan.events.extend(event(set, kept.iter().map(String::as_str)));
}

/// Returns the event about definitions that stay; `None` if there are none.
pub(super) fn event<'a>(set: &ClusterObjectSet, kept: impl Iterator<Item = &'a str>) -> Option<EventDraft> {
    let names: Vec<&str> = kept.collect();
    if names.is_empty() {
        return None;
    }
    let message = format!(
        "kept CustomResourceDefinitions: {}; to delete them with all their data: kubectl delete crd {}",
        names.join(", "),
        names.join(" ")
    );
    Some(EventDraft::warning(set.object_ref(&()), KEPT, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One row per list of versions, each with its name and whether it is served and stored.
    #[test]
    fn custom_resources_are_counted_in_a_version_that_is_served() {
        type Versions = &'static [(&'static str, bool, bool)];
        let rows: [(Versions, Option<&str>); 4] = [
            (&[("v1", true, true)], Some("v1")),
            (&[("v1", true, false), ("v2", true, true)], Some("v2")),
            (&[("v1", true, false), ("v2", false, true)], Some("v1")),
            (&[("v1", false, true)], None),
        ];
        for (versions, expected) in rows {
            let versions = versions.iter();
            let versions: Vec<Value> = versions
                .map(|(name, served, storage)| json!({"name": name, "served": served, "storage": storage}))
                .collect();
            let definition = json!({"spec": {
                "group": "example.com", "names": {"kind": "Demo", "plural": "demos"}, "versions": versions,
            }});
            let found = resource(&definition);
            assert_eq!(found.map(|api| api.version).as_deref(), expected, "{versions:?}");
        }
    }
}
