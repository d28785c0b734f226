//! Handlers of get, list and discovery.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::kinds::Kind;
use super::request::Request;
use super::state::State;
use super::status::{Refusal, expired, not_found};

impl State {
    pub fn get(&self, request: &Request) -> Result<Value, Refusal> {
        let found = self.objects.get(&request.key(&request.name));
        let missing = || not_found(&format!("{} \"{}\" not found", request.resource(), request.name));
        found.map(|object| shown(request, object)).ok_or_else(missing)
    }

    /// Returns the objects that a request selects, ordered by key.
    pub fn selected(&self, request: &Request) -> Vec<Arc<Value>> {
        let of_kind = self
            .objects
            .iter()
            .filter(|(key, _)| key.kind == request.kind.kind && key.group == request.kind.group);
        of_kind
            .filter(|(_, object)| request.selects(object))
            .map(|(_, object)| Arc::clone(object))
            .collect()
    }

    pub fn list(&mut self, request: &Request) -> Result<Value, Refusal> {
        let limit = request.param("limit").parse().unwrap_or(usize::MAX);
        let (version, mut items) = match request.param("continue") {
            "" => (self.version, self.selected(request)),
            token => self.pages.remove(token).ok_or_else(|| {
                expired("The provided continue parameter is too old to display a consistent list result.")
            })?,
        };
        let mut metadata = json!({"resourceVersion": version.to_string()});
        if limit > 0 && items.len() > limit {
            let rest = items.split_off(limit);
            self.next_page += 1;
            let token = format!("page-{}", self.next_page);
            metadata["continue"] = json!(token);
            metadata["remainingItemCount"] = json!(rest.len());
            self.pages.insert(token, (version, rest));
        }
        let items: Vec<Value> = items.iter().map(|object| self.listed(request, object)).collect();
        let (api_version, kind) = match request.metadata_only {
            true => (
                "meta.k8s.io/v1".to_owned(),
                "PartialObjectMetadataList".to_owned(),
            ),
            false => (request.api_version(), format!("{}List", request.kind.kind)),
        };
        Ok(json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "items": items}))
    }

    /// Returns an item of a list. Kubernetes' own types do not repeat their type in each item.
    fn listed(&self, request: &Request, object: &Value) -> Value {
        let mut item = shown(request, object);
        if !request.kind.custom
            && !request.metadata_only
            && let Some(fields) = item.as_object_mut()
        {
            fields.remove("apiVersion");
            fields.remove("kind");
        }
        item
    }

    pub fn discover(&self, path: &[String]) -> Result<Value, Refusal> {
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        let kinds = self.kinds();
        match path.as_slice() {
            ["api"] => Ok(json!({"kind": "APIVersions", "versions": ["v1"]})),
            ["apis"] => Ok(json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups(&kinds)})),
            ["api", version] => self.resources(&kinds, "", version),
            ["apis", group] => {
                let all = groups(&kinds);
                all.into_iter()
                    .find(|found| found["name"] == *group)
                    .ok_or_else(unknown)
            }
            ["apis", group, version] => self.resources(&kinds, group, version),
            _ => Err(unknown()),
        }
    }

    fn resources(&self, kinds: &[Kind], group: &str, version: &str) -> Result<Value, Refusal> {
        if self.dead_groups.contains(group) {
            return Err(Refusal::unavailable("service unavailable"));
        }
        let served =
            |kind: &&Kind| kind.group == group && kind.versions.iter().any(|served| served == version);
        let mut resources = Vec::new();
        for kind in kinds.iter().filter(served) {
            let singular = kind.kind.to_lowercase();
            let entry = |name: &str| {
                json!({"name": name, "singularName": singular, "namespaced": kind.namespaced,
                "kind": kind.kind, "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]})
            };
            resources.push(entry(&kind.plural));
            if kind.status {
                resources.push(entry(&format!("{}/status", kind.plural)));
            }
        }
        if resources.is_empty() {
            return Err(unknown());
        }
        let group_version = if group.is_empty() {
            version.to_owned()
        } else {
            format!("{group}/{version}")
        };
        Ok(
            json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources}),
        )
    }
}

fn unknown() -> Refusal {
    not_found("the server could not find the requested resource")
}

fn groups(kinds: &[Kind]) -> Vec<Value> {
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for kind in kinds.iter().filter(|kind| !kind.group.is_empty()) {
        let known = versions.entry(&kind.group).or_default();
        for version in &kind.versions {
            if !known.contains(&version.as_str()) {
                known.push(version);
            }
        }
    }
    let group = |(name, versions): (&str, Vec<&str>)| {
        let versions: Vec<Value> = versions
            .iter()
            .map(|version| json!({"groupVersion": format!("{name}/{version}"), "version": version}))
            .collect();
        json!({"name": name, "versions": versions, "preferredVersion": versions[0]})
    };
    versions.into_iter().map(group).collect()
}

/// Returns an object in the form that a request asks for.
pub(super) fn shown(request: &Request, object: &Value) -> Value {
    if request.metadata_only {
        return json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": object["metadata"]});
    }
    let mut shown = object.clone();
    shown["apiVersion"] = json!(request.api_version());
    shown
}
