//! Objects of a cluster, from files or from an API server, converted for the resolver.

mod cluster_view;
mod document;
mod remarks;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube_core::ResourceExt;
use olm_api::manifest::decode_manifest;
use olm_api::v1::OperatorGroup;
use olm_api::v1alpha1::{
    ApiServiceDescription, CatalogSource, ClusterServiceVersion, CrdDescription, Subscription,
    SubscriptionStatus,
};
use olm_api::{GROUP, labels};
use olm_fbc::did_you_mean::did_you_mean;
use olm_fbc::property::Gvk;
use serde::de::DeserializeOwned;
use serde_json::Value;

use self::cluster_view::ClusterView;
pub use self::cluster_view::targets;
pub use self::document::{Document, read_file};
use crate::catalog::{Catalog, CatalogKey, Snapshot};
use crate::enumeration::list;
use crate::plan::Question;
use crate::problem::{InstalledCsv, Problem};

/// Namespace of objects that name none, as with kubectl.
const DEFAULT_NAMESPACE: &str = "default";

/// Default namespace of global catalogs.
const GLOBAL_NAMESPACE: &str = "olm";

/// Kinds that resolution reads.
const KINDS: [&str; 4] = [
    "Subscription",
    "ClusterServiceVersion",
    "OperatorGroup",
    "CatalogSource",
];

/// Objects cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ObjectsError(String);

impl ObjectsError {
    /// Returns the error of an object with a wrong field, `.` for the whole object.
    fn of_field(object: &str, field: &str, cause: &str) -> Self {
        Self(format!("{object}: field `{field}`: {cause}"))
    }
}

/// Subscriptions, ClusterServiceVersions, OperatorGroups and CatalogSources of any namespaces, each once and in the order in which
/// they were first given.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    subscriptions: Vec<Subscription>,
    csvs: Vec<ClusterServiceVersion>,
    groups: Vec<OperatorGroup>,
    sources: Vec<CatalogSource>,
    /// Given kinds that resolution does not read.
    ignored: BTreeSet<String>,
    /// Oddities of objects that can be used all the same.
    remarks: Vec<String>,
}

impl Objects {
    /// Parses a stream of YAML or JSON documents. Lists of objects are split up.
    ///
    /// # Errors
    /// The fault, by object and field.
    pub fn read(text: &str) -> Result<Self, ObjectsError> {
        Self::of(document::parse(text, "text")?)
    }

    /// Decodes documents as objects.
    ///
    /// # Errors
    /// The fault, by object and field.
    pub fn of(documents: impl IntoIterator<Item = Document>) -> Result<Self, ObjectsError> {
        let mut objects = Objects::default();
        for document in documents {
            objects.add(document)?;
        }
        Ok(objects)
    }

    /// Adds an object, and replaces one of the same kind, namespace and name.
    ///
    /// # Errors
    /// The fault, by object and field.
    pub fn add(&mut self, document: Document) -> Result<(), ObjectsError> {
        self.put(document, true, false)
    }

    /// Adds all objects of `others`, as if they were applied to these: annotations and labels that the user's file does not name stay,
    /// and so do statuses. Replaced objects get no remark, unless `others` itself has the object twice.
    ///
    /// # Errors
    /// The fault, by object and field.
    pub fn apply(&mut self, others: impl IntoIterator<Item = Document>) -> Result<(), ObjectsError> {
        let mut applied = BTreeSet::new();
        for document in others {
            let is_repeated = !applied.insert(describe(&document.object));
            self.put(document, is_repeated, true)?;
        }
        Ok(())
    }

    /// Adds an object. A replaced one gets a remark if `remarks_replaced`, and what an apply leaves of it stays if `is_applied`.
    fn put(
        &mut self,
        document: Document,
        remarks_replaced: bool,
        is_applied: bool,
    ) -> Result<(), ObjectsError> {
        let Document { object, origin } = document;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let kind = text(&object["kind"]);
        if kind.is_empty() {
            let fault = if object["schema"].is_string() {
                "is part of a catalog, not a Kubernetes object: pass the catalog's directory instead of a file of it"
            } else {
                "is not a Kubernetes object: it has no kind"
            };
            return Err(ObjectsError(format!("{origin} {fault}")));
        }
        let version = text(&object["apiVersion"]);
        let group = version.split_once('/').map_or("", |(group, _)| group);
        let described = describe(&object);
        let is_read = KINDS.contains(&kind.as_str()) && (version.is_empty() || group == GROUP);
        if !is_read && let Some(remark) = remarks::of_misspelt(&described, &kind, &version) {
            self.remarks.push(remark);
            return Ok(());
        }
        if !version.is_empty() && group != GROUP {
            self.ignored.insert(if KINDS.contains(&kind.as_str()) {
                format!("{kind} of {version}")
            } else {
                kind
            });
            return Ok(());
        }
        if KINDS.contains(&kind.as_str()) && text(&object["metadata"]["name"]).is_empty() {
            return Err(ObjectsError(format!(
                "{kind} in {origin} has no name: set metadata.name"
            )));
        }
        self.remarks
            .extend(remarks::of_version(&described, &kind, &version));
        if KINDS.contains(&kind.as_str()) {
            self.remarks.extend(remarks::of_fields(&described, &object));
        }
        let replaced = match kind.as_str() {
            "Subscription" => {
                check_subscription(&object)?;
                let subscription: Subscription = decode(object)?;
                self.remarks.extend(remarks::of_subscription(&subscription));
                replace(&mut self.subscriptions, subscription, |present, new| {
                    if is_applied {
                        as_applied(present, new);
                        new.status = new.status.take().or_else(|| present.status.clone());
                    }
                })
            }
            "ClusterServiceVersion" => replace(&mut self.csvs, decode(object)?, |present, new| {
                if is_applied {
                    as_applied(present, new);
                    new.status = new.status.take().or_else(|| present.status.clone());
                }
            }),
            // The status of the present group has its old targets.
            "OperatorGroup" => replace(&mut self.groups, decode(object)?, |present, new| {
                if is_applied {
                    as_applied(present, new);
                }
            }),
            "CatalogSource" => replace(&mut self.sources, decode(object)?, |_, _| {}),
            _ => {
                self.ignored.insert(kind);
                false
            }
        };
        if replaced && remarks_replaced {
            self.remarks.push(format!(
                "{described} is given more than once; {origin} takes precedence"
            ));
        }
        Ok(())
    }

    /// Returns probable mistakes in the objects: kinds that resolution does not read, and unknown fields.
    pub fn remarks(&self) -> impl Iterator<Item = String> {
        let ignored = self.ignored.iter().cloned().collect::<Vec<_>>().join(", ");
        let ignored = (!ignored.is_empty())
            .then(|| format!("ignored, because resolution does not use them: {ignored}"));
        ignored.into_iter().chain(self.remarks.iter().cloned())
    }

    /// Returns the namespace to plan for: the given one, else the only one with Subscriptions.
    ///
    /// # Errors
    /// There is none, or there are several.
    pub fn namespace(&self, given: Option<&str>) -> Result<String, ObjectsError> {
        let found: BTreeSet<String> = self.subscriptions.iter().map(namespace_of).collect();
        let known = || found.iter().cloned().collect::<Vec<_>>().join(", ");
        let fault = match (given, found.first(), found.len()) {
            (None, None, _) => {
                "the objects contain no Subscription; a plan needs the Subscriptions of a namespace"
                    .to_owned()
            }
            (Some(namespace), None, _) => format!(
                "no Subscription in namespace {namespace}, and none in another namespace of these objects: choose another \
                 namespace with --namespace"
            ),
            (Some(namespace), ..) if found.contains(namespace) => return Ok(namespace.to_owned()),
            (Some(namespace), ..) => {
                format!(
                    "no Subscription in namespace {namespace}: there are some in {}",
                    known()
                )
            }
            (None, Some(only), 1) => return Ok(only.clone()),
            (None, ..) => format!(
                "the objects have subscriptions in namespaces {}: choose one with --namespace",
                known()
            ),
        };
        Err(ObjectsError(fault))
    }

    /// Returns the existing catalogs: the given CatalogSources. Files often leave them out; then the catalogs
    /// that the namespace's Subscriptions name.
    pub fn catalog_keys(&self, namespace: &str) -> BTreeSet<CatalogKey> {
        if self.sources.is_empty() {
            return self.named_catalogs(namespace).map(|(_, key)| key).collect();
        }
        self.sources.iter().map(source_key).collect()
    }

    /// Returns the Subscriptions of the namespace with the catalog each names.
    fn named_catalogs(&self, namespace: &str) -> impl Iterator<Item = (String, CatalogKey)> {
        let subscriptions = self.in_namespace(&self.subscriptions, namespace);
        let named = subscriptions.map(|s| {
            let key = CatalogKey {
                name: s.spec.source.clone(),
                namespace: s.spec.source_namespace.clone(),
            };
            (s.name_any(), key)
        });
        named.filter(|(_, key)| !key.name.is_empty())
    }

    /// Describes Subscriptions whose catalog is not among `known`.
    fn unknown_catalogs(&self, namespace: &str, known: &BTreeSet<CatalogKey>) -> Vec<String> {
        let mut by_key: BTreeMap<CatalogKey, Vec<String>> = BTreeMap::new();
        for (subscription, key) in self
            .named_catalogs(namespace)
            .filter(|(_, key)| !known.contains(key))
        {
            by_key.entry(key).or_default().push(subscription);
        }
        let texts = by_key.into_iter().map(|(key, names)| {
            let names = list(names.iter().map(String::as_str));
            if self.sources.is_empty() {
                return format!(
                    "no directory for catalog {key}, which subscription {names} names, so the plan ignores that \
                     catalog; add {key}=DIRECTORY"
                );
            }
            let texts: Vec<String> = known.iter().map(ToString::to_string).collect();
            let meant = known.iter().find(|other| other.name == key.name).map(ToString::to_string);
            let wanted = key.to_string();
            let meant = meant.or_else(|| {
                did_you_mean(&wanted, texts.iter().map(String::as_str)).map(str::to_owned)
            });
            let meant = meant.map_or_else(
                || format!("there are {}", list(texts.iter().map(String::as_str))),
                |meant| format!("did you mean {meant}?"),
            );
            format!("catalog {key}, which subscription {names} names, is not among the CatalogSources given: {meant}")
        });
        texts.collect()
    }

    /// Returns the question for a namespace. `global` is the namespace whose catalogs all namespaces may use.
    /// `catalogs` has the content of each catalog, or the reason why there is none.
    pub fn question(
        &self,
        namespace: &str,
        global: &str,
        catalogs: BTreeMap<CatalogKey, Result<Arc<Snapshot>, String>>,
    ) -> Question {
        let groups: Vec<&OperatorGroup> = self.in_namespace(&self.groups, namespace).collect();
        let group = groups.first();
        let csvs: Vec<&ClusterServiceVersion> = self.in_namespace(&self.csvs, namespace).collect();
        let subscriptions: Vec<&Subscription> = self.in_namespace(&self.subscriptions, namespace).collect();
        let view = ClusterView::of(&subscriptions, &csvs);
        let manual = view
            .subscriptions
            .iter()
            .filter(|(object, _)| object.spec.is_manual());
        let priority = |key: &CatalogKey| {
            let source = self.sources.iter().find(|source| source_key(source) == *key);
            source.and_then(|source| source.spec.priority).map_or(0, clamp)
        };
        Question {
            manual: manual.map(|(object, _)| object.name_any()).collect(),
            steps: None,
            targets: group.and_then(|group| targets(group)),
            waiting: view.waiting(),
            not_succeeded: view.not_succeeded(),
            left_out: view.left_out.clone(),
            problem: Problem {
                namespace: namespace.to_owned(),
                global_namespace: global.to_owned(),
                installed: view.installed(),
                subscriptions: view.resolver_subscriptions(),
                catalogs: catalogs
                    .into_iter()
                    .filter(|(key, content)| {
                        // One that a Subscription names and no object has does not exist.
                        content.is_ok() || self.sources.iter().any(|source| source_key(source) == *key)
                    })
                    .map(|(key, content)| Catalog {
                        priority: priority(&key),
                        key,
                        content,
                    })
                    .collect(),
                operator_group: crate::problem::OperatorGroup {
                    count: groups.len(),
                    names: groups.iter().map(|group| group.name_any()).collect(),
                    fail_forward: group.is_some_and(|group| group.spec.allows_fail_forward()),
                    exclude_global_namespace: group.is_some_and(|group| excludes_global(group)),
                },
                runtime_constraints: Vec::new(),
            },
        }
    }

    /// Returns the question for a namespace without a cluster, and remarks on what it assumes. Unless `global` is given, it is one of
    /// the namespaces that the objects take catalogs from.
    pub fn question_without_cluster(
        &self,
        namespace: &str,
        global: Option<&str>,
        catalogs: BTreeMap<CatalogKey, Result<Arc<Snapshot>, String>>,
    ) -> (Question, Vec<String>) {
        let known: BTreeSet<CatalogKey> = catalogs.keys().cloned().collect();
        let mut remarks = self.unknown_catalogs(namespace, &known);
        let homes = known.iter().map(|key| key.namespace.as_str());
        let homes: Vec<&str> = homes.filter(|home| *home != namespace).collect();
        let is_default = namespace == GLOBAL_NAMESPACE || homes.contains(&GLOBAL_NAMESPACE);
        let elsewhere = homes.first().copied().filter(|_| !is_default);
        let global = global.or(elsewhere).unwrap_or(GLOBAL_NAMESPACE);
        let mut question = self.question(namespace, global, catalogs);
        remarks.extend(question.out_of_reach());
        remarks.extend(question.assume_group());
        (question, remarks)
    }

    fn in_namespace<'o, K: ResourceExt>(
        &self,
        objects: &'o [K],
        namespace: &str,
    ) -> impl Iterator<Item = &'o K> {
        objects
            .iter()
            .filter(move |object| namespace_of(*object) == namespace)
    }
}

/// Adds an object, or puts it in the place of the one of its name after `keep` has copied what stays of that one. Returns whether
/// there was one.
fn replace<K: ResourceExt>(known: &mut Vec<K>, mut object: K, keep: impl FnOnce(&K, &mut K)) -> bool {
    let namespace = namespace_of(&object);
    let is_it = |other: &K| {
        let other = other.meta();
        other.name == object.meta().name
            && other.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE) == namespace
    };
    let place = known.iter().position(is_it);
    match place {
        Some(place) => {
            keep(&known[place], &mut object);
            known[place] = object;
        }
        None => known.push(object),
    }
    place.is_some()
}

/// Copies the annotations and labels of the present object that `kubectl apply` leaves as they are: those that neither the new
/// object names nor the last apply had named.
fn as_applied<K: ResourceExt>(present: &K, new: &mut K) {
    let record = present.annotations().get(labels::LAST_APPLIED_CONFIGURATION);
    let record: Value = record
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default();
    let is_removed = |field: &str, key: &str| record["metadata"][field].get(key).is_some();
    for (key, value) in present.annotations() {
        if !is_removed("annotations", key) {
            let annotations = new.annotations_mut();
            annotations.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
    for (key, value) in present.labels() {
        if !is_removed("labels", key) {
            let labels = new.labels_mut();
            labels.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
}

fn decode<T: DeserializeOwned>(object: Value) -> Result<T, ObjectsError> {
    let described = describe(&object);
    decode_manifest(object).map_err(|error| ObjectsError::of_field(&described, &error.path, &error.reason))
}

fn describe(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    let (kind, name) = (
        text("/kind").unwrap_or_default(),
        text("/metadata/name").unwrap_or_default(),
    );
    match text("/metadata/namespace") {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    }
}

/// Checks the fields that the API server requires, and without which nothing can be planned.
fn check_subscription(object: &Value) -> Result<(), ObjectsError> {
    let required = [
        ("name", "name the package"),
        ("source", "name the CatalogSource"),
        ("sourceNamespace", "name the namespace of the CatalogSource"),
    ];
    let missing = required.iter().find(|(field, _)| object["spec"][field].is_null());
    missing.map_or(Ok(()), |(field, way_out)| {
        let (field, cause) = (format!("spec.{field}"), format!("is missing: {way_out}"));
        Err(ObjectsError::of_field(&describe(object), &field, &cause))
    })
}

/// Clamps priorities to the range that the resolver compares.
fn clamp(priority: i64) -> i32 {
    i32::try_from(priority).unwrap_or(if priority < 0 { i32::MIN } else { i32::MAX })
}

fn namespace_of<K: ResourceExt>(object: &K) -> String {
    object.namespace().unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned())
}

fn source_key(source: &CatalogSource) -> CatalogKey {
    CatalogKey {
        name: source.name_any(),
        namespace: namespace_of(source),
    }
}

fn excludes_global(group: &OperatorGroup) -> bool {
    labels::is_true(group.annotations(), labels::EXCLUDE_GLOBAL_NAMESPACE_RESOLUTION)
}

/// Converts a Subscription with its settled status for the resolver.
pub fn resolver_subscription(
    object: &Subscription,
    status: &SubscriptionStatus,
) -> crate::problem::Subscription {
    let spec = &object.spec;
    crate::problem::Subscription {
        name: object.name_any(),
        package: spec.name.clone(),
        channel: spec.channel().unwrap_or_default().to_owned(),
        starting_csv: spec.starting_csv().unwrap_or_default().to_owned(),
        catalog: CatalogKey {
            name: spec.source.clone(),
            namespace: spec.source_namespace.clone(),
        },
        current_csv: status.current_csv.clone().unwrap_or_default(),
        installed_csv: status.installed_csv.clone().unwrap_or_default(),
        hold: object.annotations().get(labels::UPGRADE_HOLD).cloned(),
        must_move: false,
    }
}

/// Converts a ClusterServiceVersion for the resolver.
pub fn installed_csv(csv: &ClusterServiceVersion) -> InstalledCsv {
    let spec = &csv.spec;
    let crd = |crd: &CrdDescription| {
        // The group follows the plural in the CRD's name.
        let group = crd.name.split_once('.').map_or("", |(_, group)| group);
        Gvk::new(group, &crd.version, &crd.kind)
    };
    let api = |api: &ApiServiceDescription| Gvk::new(&api.group, &api.version, &api.kind);
    let owned = spec.owned_crds().iter().map(crd);
    let required = spec.required_crds().iter().map(crd);
    InstalledCsv {
        name: csv.name_any(),
        version: spec.version.clone().unwrap_or_default(),
        replaces: spec.replaces().unwrap_or_default().to_owned(),
        phase: csv
            .status
            .as_ref()
            .map(|status| status.phase.to_string())
            .unwrap_or_default(),
        copied: csv.is_copied(),
        properties: csv
            .annotations()
            .get(labels::PROPERTIES)
            .map(|text| text.as_str().into()),
        owned: owned.chain(spec.owned_api_services().iter().map(api)).collect(),
        required: required
            .chain(spec.required_api_services().iter().map(api))
            .collect(),
    }
}
