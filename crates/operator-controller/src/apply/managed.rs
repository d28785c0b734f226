//! Objects of the ClusterObjectSets as they are in the cluster: watched by kind, as long as a set has objects of the kind.
//!
//! Only objects with the label of the extension are watched. An object that bears no such label yet is read live.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client};
use olm_api::labels;
use olm_runtime::NamespacedName;
use olm_runtime::discovery::deadline;
use olm_runtime::error::ObserveError;
use olm_runtime::key::is_path_segment;
use olm_runtime::store::{OnDemand, Projected, Projection, Scope, StoreSet, WatchUser};
use olm_runtime::sync::Mutex;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::object::owners;

/// Fields that a revision does not set as a whole.
pub(super) const OTHERS: [&str; 4] = ["apiVersion", "kind", "metadata", "status"];
/// Kind of the owners that are woken.
const OWNER: &str = "ClusterObjectSet";

/// An object of any kind.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ManagedObject {
    /// The object without `managedFields`, and the data of Secrets with the content of revisions, which are large. Lists of the API
    /// server leave the kind out.
    pub(super) object: Value,
    /// Digests of its content.
    pub(super) fingerprint: Fingerprint,
}

/// Digests of an object, which differ after a change by any client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fingerprint {
    /// Digest of the fields besides metadata and status.
    pub(super) fields: [u8; 32],
    /// Digest of the metadata besides versions.
    pub(super) metadata: [u8; 32],
}

impl ManagedObject {
    /// Returns the part that is kept of an object.
    pub(super) fn of_value(mut object: Value) -> Self {
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
        let fingerprint = Fingerprint {
            fields: digest(&object, &OTHERS),
            metadata: digest(&object["metadata"], &["resourceVersion", "generation"]),
        };
        if object["type"] == labels::OBJECT_DATA
            && let Some(fields) = object.as_object_mut()
        {
            fields.remove("data");
        }
        Self { object, fingerprint }
    }
}

/// Returns a digest of the fields of an object except some.
fn digest(object: &Value, except: &[&str]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for (field, value) in object.as_object().into_iter().flatten() {
        if !except.contains(&field.as_str()) {
            hasher.update(field);
            hasher.update(value.to_string());
        }
    }
    hasher.finalize().into()
}

impl Projection for ManagedObject {
    type Object = DynamicObject;

    fn of(object: DynamicObject) -> Self {
        // An object that was decoded can be encoded.
        Self::of_value(serde_json::to_value(object).unwrap_or_default())
    }
}

/// Watches of managed objects. Clones share the same watches.
#[derive(Clone)]
pub struct ManagedObjects {
    client: Client,
    watches: OnDemand<ManagedObject>,
    users: Arc<Mutex<BTreeMap<NamespacedName, Used>>>,
}

/// Secrets that a revision refers to; `None` for those that do not exist.
pub(super) type Secrets = BTreeMap<NamespacedName, Option<Arc<Secret>>>;

/// What a set uses.
#[derive(Default)]
struct Used {
    watched: HashMap<Scope, WatchUser<ManagedObject>>,
    /// Secrets that are kept with their data.
    secrets: Secrets,
}

impl Used {
    fn find(&self, api: &ApiResource, key: &NamespacedName) -> Option<Arc<Projected<ManagedObject>>> {
        self.watched.get(&scope_of_kind(api))?.store().get_key(key)
    }
}

impl ManagedObjects {
    /// Creates it without any watch.
    pub fn new(set: &StoreSet, client: &Client) -> Self {
        Self {
            client: client.clone(),
            watches: set.on_demand(client),
            users: Arc::default(),
        }
    }

    /// Calls `listener` with the name of each ClusterObjectSet that owns an object that changed, or that waits for it.
    pub fn on_change(&self, listener: impl Fn(&NamespacedName) + Send + Sync + 'static) {
        let users = Arc::clone(&self.users);
        self.watches.on_change(move |scope, change| {
            let mut woken = BTreeSet::new();
            for object in change.versions() {
                let owners = owners(&object.object).into_iter();
                let sets = owners.filter(|owner| owner.kind == OWNER);
                woken.extend(sets.map(|owner| NamespacedName::cluster(owner.name)));
            }
            // A Secret that is waited for has no owner yet.
            if scope.name.is_some() {
                let users = users.lock();
                let waiting = users.iter().filter(|(_, used)| used.watched.contains_key(scope));
                woken.extend(waiting.map(|(set, _)| set.clone()));
            }
            woken.iter().for_each(&listener);
        });
    }

    /// Watches exactly these kinds and Secrets for a set.
    pub(super) fn watch(&self, set: &NamespacedName, kinds: &[ApiResource], secrets: &[NamespacedName]) {
        let of_kind = kinds.iter().map(scope_of_kind);
        let of_secret = secrets.iter().map(|secret| Scope {
            api: ApiResource::erase::<Secret>(&()),
            namespace: Some(secret.namespace.clone()),
            name: Some(secret.name.clone()),
            label: None,
        });
        let scopes: Vec<Scope> = of_kind.chain(of_secret).collect();
        let mut users = self.users.lock();
        let watched = &mut users.entry(set.clone()).or_default().watched;
        watched.retain(|scope, _| scopes.contains(scope));
        for scope in scopes {
            let user = || self.watches.user(&scope);
            watched.entry(scope.clone()).or_insert_with(user);
        }
    }

    /// Keeps these Secrets for a set, and no others, so that [`Self::secret`] does not read them again.
    pub(super) fn keep(&self, set: &NamespacedName, secrets: Secrets) {
        self.users.lock().entry(set.clone()).or_default().secrets = secrets;
    }

    /// Ends the watches of a set, unless other sets use them, and drops its Secrets.
    pub(super) fn forget(&self, set: &NamespacedName) {
        self.users.lock().remove(set);
    }

    /// Returns an object; `None` if it does not exist. An object that the watch of `set` does not have is read live, because it may exist
    /// without the label.
    pub(super) async fn find(
        &self,
        set: &NamespacedName,
        api: &ApiResource,
        key: &NamespacedName,
    ) -> Result<Option<Arc<Projected<ManagedObject>>>, ObserveError> {
        let watched = self.users.lock().get(set).and_then(|used| used.find(api, key));
        if watched.is_some() {
            return Ok(watched);
        }
        if !may_exist(key) {
            return Ok(None);
        }
        let objects: Api<DynamicObject> = if key.namespace.is_empty() {
            Api::all_with(self.client.clone(), api)
        } else {
            Api::namespaced_with(self.client.clone(), &key.namespace, api)
        };
        let what = format!("{} {key}", api.kind);
        let found = deadline(&what, objects.get_opt(&key.name)).await?;
        Ok(found.map(|object| Arc::new(Projected::from_object(object))))
    }

    /// Returns a Secret with its data; `None` if it does not exist. It is read live unless it is kept.
    pub(super) async fn secret(
        &self,
        set: &NamespacedName,
        key: &NamespacedName,
    ) -> Result<Option<Arc<Secret>>, ObserveError> {
        let kept = self.kept(set, key);
        if kept.is_some() || !may_exist(key) {
            return Ok(kept);
        }
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &key.namespace);
        let found = deadline(&format!("Secret {key}"), secrets.get_opt(&key.name)).await?;
        Ok(found.map(Arc::new))
    }

    /// Returns a Secret that is kept for a set, if the watch has the same one. Being immutable, it has the same data.
    fn kept(&self, set: &NamespacedName, key: &NamespacedName) -> Option<Arc<Secret>> {
        let users = self.users.lock();
        let used = users.get(set)?;
        let kept = used.secrets.get(key)?.as_ref()?;
        let watched = used.find(&ApiResource::erase::<Secret>(&()), key)?;
        let is_same = kept.immutable == Some(true) && kept.metadata.uid == watched.uid();
        is_same.then(|| Arc::clone(kept))
    }
}

/// False for a name that no object can have. The API server says so when it is applied.
fn may_exist(key: &NamespacedName) -> bool {
    is_path_segment(&key.name) && (key.namespace.is_empty() || is_path_segment(&key.namespace))
}

fn scope_of_kind(api: &ApiResource) -> Scope {
    Scope {
        api: api.clone(),
        namespace: None,
        name: None,
        label: Some(labels::EXTENSION_OWNER_NAME.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_fingerprint_differs_after_each_change_but_of_status_and_version() {
        let object = json!({
            "kind": "ConfigMap", "data": {"a": "1"}, "status": {"a": 1},
            "metadata": {"name": "a", "resourceVersion": "1", "managedFields": []},
        });
        let first = ManagedObject::of_value(object.clone());
        assert_eq!(
            first.object["metadata"],
            json!({"name": "a", "resourceVersion": "1"})
        );
        for (pointer, value, has_fields, has_metadata) in [
            ("/metadata/name", json!("b"), true, false),
            ("/metadata/resourceVersion", json!("2"), true, true),
            ("/metadata/managedFields", json!([{}]), true, true),
            ("/status/a", json!(2), true, true),
            ("/kind", json!(null), true, true),
            ("/data/a", json!("2"), false, true),
            ("/data", json!({"a": "1", "b": "1"}), false, true),
        ] {
            let mut other = object.clone();
            *other.pointer_mut(pointer).unwrap() = value;
            let other = ManagedObject::of_value(other).fingerprint;
            let same = (
                other.fields == first.fingerprint.fields,
                other.metadata == first.fingerprint.metadata,
            );
            assert_eq!(same, (has_fields, has_metadata), "{pointer}");
        }
    }
    /// The data of a revision with large definitions has megabytes.
    #[test]
    fn the_data_of_revisions_is_not_kept_and_its_changes_are_noticed() {
        let secret = |type_: &str, text: &str| {
            ManagedObject::of_value(json!({"immutable": true, "type": type_, "data": {"k": text}}))
        };
        let [first, second] = ["MQ==", "Mg=="].map(|text| secret(labels::OBJECT_DATA, text));
        assert_eq!(
            first.object,
            json!({"immutable": true, "type": labels::OBJECT_DATA})
        );
        assert_ne!(first.fingerprint, second.fingerprint);
        assert_eq!(secret("Opaque", "MQ==").object["data"]["k"], "MQ==");
    }
}
