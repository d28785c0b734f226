//! Handlers of writes.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::apply::{Managers, applied, updated};
use super::managed_fields;
use super::request::{PatchType, Request};
use super::state::{Key, State, is_held, now};
use super::status::{Refusal, bad_request, not_found};
use super::valid;

type Answer = Result<(u16, Value), Refusal>;

impl State {
    pub fn create(&mut self, request: &Request) -> Answer {
        let mut object = request.body.clone();
        let Some(metadata) = object["metadata"].as_object_mut() else {
            return Err(bad_request("the object has no metadata"));
        };
        if metadata
            .get("resourceVersion")
            .is_some_and(|version| version != "")
        {
            return Err(bad_request(
                "resourceVersion should not be set on objects to be created",
            ));
        }
        if metadata.get("name").is_none_or(|name| name == "") {
            let prefix = metadata
                .get("generateName")
                .and_then(Value::as_str)
                .unwrap_or_default();
            if prefix.is_empty() {
                return Err(Refusal::invalid("name or generateName is required"));
            }
            let name = format!("{prefix}{:05x}", self.version);
            metadata.insert("name".into(), json!(name));
        }
        let name = metadata["name"].as_str().unwrap_or_default().to_owned();
        if metadata
            .get("namespace")
            .is_some_and(|namespace| *namespace != *request.namespace && !request.namespace.is_empty())
        {
            return Err(bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        let key = request.key(&name);
        self.admit(request, &key)?;
        if self.objects.contains_key(&key) {
            let resource = request.resource();
            return Err(Refusal::new(
                409,
                "AlreadyExists",
                &format!("{resource} \"{name}\" already exists"),
            ));
        }
        for field in [
            "uid",
            "creationTimestamp",
            "deletionTimestamp",
            "managedFields",
            "generation",
        ] {
            if let Some(metadata) = object["metadata"].as_object_mut() {
                metadata.remove(field);
            }
        }
        self.complete(request, &key, &mut object);
        valid::check(&object)?;
        let (manager, mut managers) = (request.param("fieldManager"), Managers::new());
        updated(&Value::Null, &object, manager, &mut managers, is_by_item(&key));
        self.managers.insert(key.clone(), managers);
        self.wrote(&key, format!("update:{manager}"));
        self.mutate(&mut object);
        Ok((201, Value::clone(&self.store(key, object))))
    }

    /// Refuses objects in a namespace that does not exist or is being deleted.
    fn admit(&self, request: &Request, key: &Key) -> Result<(), Refusal> {
        if !request.kind.namespaced {
            return Ok(());
        }
        let namespace = Key {
            group: String::new(),
            kind: "Namespace".into(),
            namespace: String::new(),
            name: key.namespace.clone(),
        };
        let Some(found) = self.objects.get(&namespace) else {
            return Err(not_found(&format!("namespaces \"{}\" not found", key.namespace)));
        };
        if found["metadata"]["deletionTimestamp"].is_string() {
            return Err(Refusal::terminating(&format!(
                "{} \"{}\" is forbidden: unable to create new content in namespace {} because it is being terminated",
                request.resource(),
                key.name,
                key.namespace
            )));
        }
        Ok(())
    }

    /// Sets the fields that the server controls, and keeps the old status if it is a subresource.
    fn complete(&self, request: &Request, key: &Key, object: &mut Value) {
        object["apiVersion"] = json!(request.api_version());
        object["kind"] = json!(request.kind.kind);
        object["metadata"]["name"] = json!(key.name);
        if request.kind.namespaced {
            object["metadata"]["namespace"] = json!(key.namespace);
        }
        if request.kind.status
            && let Some(fields) = object.as_object_mut()
        {
            let kept = self
                .objects
                .get(key)
                .map(|old| old["status"].clone())
                .filter(|status| !status.is_null());
            match kept {
                Some(status) => fields.insert("status".into(), status),
                None => fields.remove("status"),
            };
        }
        if request.kind.kind == "Namespace" {
            object["metadata"]["labels"]["kubernetes.io/metadata.name"] = json!(key.name);
        }
        if request.kind.kind == "Secret" {
            keep_secret_data(object);
        }
        drop_nulls(&mut object["metadata"]);
    }

    fn mutate(&self, object: &mut Value) {
        if let Some(webhook) = &self.webhook {
            webhook(object);
        }
    }

    pub fn update(&mut self, request: &Request) -> Answer {
        let (key, old) = self.existing(request)?;
        self.check_preconditions(request, &old, &request.body["metadata"])?;
        let mut new = request.body.clone();
        for field in [
            "uid",
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "generation",
        ] {
            new["metadata"][field] = old["metadata"][field].clone();
        }
        self.replace(request, &key, &old, new, None)
    }

    pub fn patch(&mut self, request: &Request, how: PatchType) -> Answer {
        if how == PatchType::Apply {
            return self.apply(request);
        }
        let (key, old) = self.existing(request)?;
        let mut new = Value::clone(&old);
        if how == PatchType::Json {
            let patch = serde_json::from_value::<json_patch::Patch>(request.body.clone())
                .map_err(|error| bad_request(&error.to_string()))?;
            json_patch::patch(&mut new, &patch).map_err(|error| Refusal::invalid(&error.to_string()))?;
        } else {
            self.check_preconditions(request, &old, &request.body["metadata"])?;
            crate::patch::merge(&mut new, &request.body);
        }
        self.replace(request, &key, &old, new, None)
    }

    fn apply(&mut self, request: &Request) -> Answer {
        let key = request.key(&request.name);
        let manager = request.param("fieldManager").to_owned();
        if manager.is_empty() {
            return Err(bad_request(
                "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch",
            ));
        }
        let wanted = &request.body;
        if wanted["kind"] != *request.kind.kind || wanted["apiVersion"] != *request.api_version() {
            return Err(bad_request(
                "the object does not say its apiVersion and kind, or others than those of the request",
            ));
        }
        if wanted["metadata"]["managedFields"].is_array() {
            return Err(bad_request("metadata.managedFields must be nil"));
        }
        let old = self.objects.get(&key).cloned();
        let mut managers = self.managers.get(&key).cloned().unwrap_or_default();
        let Some(old) = old else {
            if request.body["metadata"]["uid"].is_string() {
                return Err(Refusal::conflict(
                    "Precondition failed: UID in precondition, but the object does not exist",
                ));
            }
            self.admit(request, &key)?;
            let mut object = applied(&json!({}), wanted, &manager, &mut managers, !request.kind.custom);
            self.complete(request, &key, &mut object);
            self.managers.insert(key.clone(), managers);
            self.wrote(&key, format!("apply:{manager}"));
            self.mutate(&mut object);
            return Ok((201, Value::clone(&self.store(key, object))));
        };
        self.check_preconditions(request, &old, &wanted["metadata"])?;
        let new = applied(&old, wanted, &manager, &mut managers, !request.kind.custom);
        self.replace(request, &key, &old, new, Some(managers))
    }

    fn existing(&self, request: &Request) -> Result<(Key, Arc<Value>), Refusal> {
        let key = request.key(&request.name);
        let found = self.objects.get(&key).cloned();
        let missing = || not_found(&format!("{} \"{}\" not found", request.resource(), request.name));
        found.map(|found| (key, found)).ok_or_else(missing)
    }

    fn check_preconditions(&self, request: &Request, old: &Value, metadata: &Value) -> Result<(), Refusal> {
        let differs = |field: &str| {
            metadata[field]
                .as_str()
                .is_some_and(|wanted| old["metadata"][field] != wanted)
        };
        if differs("uid") {
            return Err(Refusal::conflict(&format!(
                "Precondition failed: UID in precondition: {}, UID in object meta: {}",
                metadata["uid"], old["metadata"]["uid"]
            )));
        }
        if differs("resourceVersion") {
            return Err(Refusal::conflict(&format!(
                "Operation cannot be fulfilled on {} \"{}\": the object has been modified; please apply your changes to the latest version and try again",
                request.resource(),
                request.name
            )));
        }
        Ok(())
    }

    /// Replaces `old` with `new`, limited to the subresource. `applied` are the field owners after an apply.
    fn replace(
        &mut self,
        request: &Request,
        key: &Key,
        old: &Arc<Value>,
        mut new: Value,
        applied: Option<Managers>,
    ) -> Answer {
        if request.subresource == "status" {
            let status = new["status"].clone();
            new = Value::clone(old);
            new["status"] = status;
            if new["status"].is_null() {
                new.as_object_mut().map(|fields| fields.remove("status"));
            }
        } else {
            self.complete(request, key, &mut new);
        }
        for field in [
            "uid",
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "resourceVersion",
            "generation",
            "managedFields",
        ] {
            match old["metadata"].get(field) {
                Some(value) => new["metadata"][field] = value.clone(),
                None => drop(
                    new["metadata"]
                        .as_object_mut()
                        .map(|metadata| metadata.remove(field)),
                ),
            }
        }
        // The stored form has one version, whatever the version of the request.
        new["apiVersion"] = old["apiVersion"].clone();
        immutable(request, old, &new)?;
        valid::check(&new)?;
        // An empty list also replaces the entries. On the status subresource entries are ignored.
        let entries = request.body["metadata"]["managedFields"]
            .as_array()
            .filter(|_| request.subresource.is_empty());
        if let (Some(entries), Some(part)) = (entries, managed_fields::part_of(&key.kind)) {
            let managers = self.managers.entry(key.clone()).or_default();
            *managers = managed_fields::given(entries, managers, old, part);
        }
        let asked = new.clone();
        self.mutate(&mut new);
        let manager = request.param("fieldManager");
        if new == **old && entries.is_none() {
            // Field owners can change even so.
            if let Some(applied) = applied {
                self.managers.insert(key.clone(), applied);
            }
            return Ok((200, Value::clone(old)));
        }
        if let Some(applied) = applied {
            self.managers.insert(key.clone(), applied);
            self.wrote(key, format!("apply:{manager}"));
        } else {
            let managers = self.managers.entry(key.clone()).or_default();
            updated(old, &asked, manager, managers, is_by_item(key));
            self.wrote(key, format!("update:{manager}"));
        }
        let goes = new["metadata"]["deletionTimestamp"].is_string() && !is_held(&new);
        let stored = self.store(key.clone(), new);
        if goes {
            self.remove(key);
        }
        Ok((200, Value::clone(&stored)))
    }

    pub fn delete_one(&mut self, request: &Request) -> Answer {
        let (key, old) = self.existing(request)?;
        self.check_preconditions(request, &old, &request.body["preconditions"])?;
        let finalizer = match request.body["propagationPolicy"].as_str() {
            Some("Foreground") => Some("foregroundDeletion"),
            Some("Orphan") => Some("orphan"),
            _ => None,
        };
        if let Some(finalizer) = finalizer.filter(|_| !old["metadata"]["deletionTimestamp"].is_string()) {
            let mut marked = Value::clone(&old);
            let mut finalizers = old["metadata"]["finalizers"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            finalizers.push(json!(finalizer));
            marked["metadata"]["finalizers"] = json!(finalizers);
            marked["metadata"]["deletionTimestamp"] = json!(now().to_string());
            let stored = self.store(key, marked);
            return Ok((200, Value::clone(&stored)));
        }
        let uid = old["metadata"]["uid"].clone();
        self.delete(&key);
        match self.objects.get(&key) {
            Some(held) => Ok((200, Value::clone(held))),
            None => Ok((
                200,
                json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
                "details": {"name": request.name, "group": request.kind.group, "kind": request.kind.plural, "uid": uid}}),
            )),
        }
    }

    pub fn delete_many(&mut self, request: &Request) -> Answer {
        let keys: Vec<Key> = self
            .selected(request)
            .into_iter()
            .map(|object| Key::of(&object))
            .collect();
        for key in keys {
            self.delete(&key);
        }
        Ok((
            200,
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}),
        ))
    }
}

impl Request {
    /// Returns the key of the object called `name` in the request's namespace.
    pub(super) fn key(&self, name: &str) -> Key {
        Key {
            group: self.kind.group.clone(),
            kind: self.kind.kind.clone(),
            namespace: self.namespace.clone(),
            name: name.to_owned(),
        }
    }

    /// Returns `plural.group`.
    pub(super) fn resource(&self) -> String {
        if self.kind.group.is_empty() {
            self.kind.plural.clone()
        } else {
            format!("{}.{}", self.kind.plural, self.kind.group)
        }
    }
}

/// True for kinds whose field owners are recorded per list item.
pub(super) fn is_by_item(key: &Key) -> bool {
    key.kind == "Deployment"
}

/// Refuses changes of immutable fields.
fn immutable(request: &Request, old: &Value, new: &Value) -> Result<(), Refusal> {
    let fields: &[&str] = match request.kind.kind.as_str() {
        "Deployment" => &["/spec/selector"],
        "RoleBinding" | "ClusterRoleBinding" => &["/roleRef"],
        "PriorityClass" => &["/value"],
        _ => &[],
    };
    for pointer in fields {
        if old.pointer(pointer).is_some() && old.pointer(pointer) != new.pointer(pointer) {
            let path = pointer.trim_start_matches('/').replace('/', ".");
            return Err(Refusal::invalid(&format!(
                "{}.{} \"{}\" is invalid: {path}: Invalid value: {}: field is immutable",
                request.kind.kind,
                request.kind.group,
                request.name,
                new.pointer(pointer).unwrap_or(&Value::Null)
            )));
        }
    }
    Ok(())
}

/// Moves `stringData`, which is write-only, into `data`.
fn keep_secret_data(object: &mut Value) {
    let Some(fields) = object.as_object_mut() else {
        return;
    };
    let Some(Value::Object(plain)) = fields.remove("stringData") else {
        return;
    };
    let data = fields.entry("data").or_insert_with(|| Value::Object(Map::new()));
    for (key, value) in plain {
        data[key] = json!(base64(value.as_str().unwrap_or_default().as_bytes()));
    }
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

fn drop_nulls(value: &mut Value) {
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
}
