//! Objects of a cluster, from files or from an API server, as the resolver takes them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;

use kube_core::ResourceExt;
use olm_api::labels;
use olm_api::v1::OperatorGroup;
use olm_api::v1alpha1::{
    ApiServiceDescription, Approval, CatalogSource, ClusterServiceVersion, CrdDescription, Subscription,
    SubscriptionStatus,
};
use olm_fbc::property::Gvk;
use olm_fbc::yaml;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::catalog::{Catalog, CatalogKey, Snapshot};
use crate::plan::Question;
use crate::problem::{InstalledCsv, Problem};

/// Namespace of objects that name none, as with kubectl.
const DEFAULT_NAMESPACE: &str = "default";

/// Why objects cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ObjectsError {
    /// A file cannot be read.
    #[error("cannot read {file}")]
    File {
        /// Its path, or `stdin`.
        file: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The text is not YAML or JSON.
    #[error("read objects")]
    Syntax(#[source] yaml::Error),
    /// An object is not what its kind demands.
    #[error("{kind} {name}: {cause}")]
    Object {
        /// Its kind.
        kind: String,
        /// Its namespace and name.
        name: String,
        /// What is wrong, and with which field.
        cause: String,
    },
    /// A document is no object.
    #[error("document {0} is no Kubernetes object: it has no kind")]
    NoKind(usize),
    /// There is nothing to plan for.
    #[error("no Subscription among the objects: a plan is made for the Subscriptions of a namespace")]
    NoSubscription,
    /// It is not clear which namespace is meant.
    #[error("the objects have subscriptions in namespaces {0}: choose one with --namespace")]
    SeveralNamespaces(String),
    /// The namespace has no Subscription.
    #[error("no Subscription in namespace {namespace}: there are some in {known}")]
    NotInNamespace {
        /// The namespace asked for.
        namespace: String,
        /// Where there are any.
        known: String,
    },
}

/// Subscriptions, ClusterServiceVersions, OperatorGroups and CatalogSources of any namespaces.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    subscriptions: Vec<Subscription>,
    csvs: Vec<ClusterServiceVersion>,
    groups: Vec<OperatorGroup>,
    sources: Vec<CatalogSource>,
    /// Kinds that were given but have no part in resolution.
    ignored: BTreeSet<String>,
}

impl Objects {
    /// Reads a stream of YAML or JSON documents; lists of objects are taken apart.
    ///
    /// # Errors
    /// What cannot be read, by object and field.
    pub fn read(text: &str) -> Result<Self, ObjectsError> {
        let mut objects = Objects::default();
        for (index, document) in documents(text)?.into_iter().enumerate() {
            objects.add(document, index + 1)?;
        }
        Ok(objects)
    }

    /// Adds an object, the `number`-th of its source.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn add(&mut self, object: Value, number: usize) -> Result<(), ObjectsError> {
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        match kind.as_str() {
            "Subscription" => self.subscriptions.push(parse(kind, object)?),
            "ClusterServiceVersion" => self.csvs.push(parse(kind, object)?),
            "OperatorGroup" => self.groups.push(parse(kind, object)?),
            "CatalogSource" => self.sources.push(parse(kind, object)?),
            "" => return Err(ObjectsError::NoKind(number)),
            list if list.ends_with("List") => {
                if let Value::Object(mut fields) = object
                    && let Some(Value::Array(items)) = fields.remove("items")
                {
                    for item in items {
                        self.add(item, number)?;
                    }
                }
            }
            _ => {
                self.ignored.insert(kind);
            }
        }
        Ok(())
    }

    /// Kinds that were given but have no part in resolution.
    pub fn ignored(&self) -> impl Iterator<Item = &str> {
        self.ignored.iter().map(String::as_str)
    }

    /// The namespace to plan for: the given one, else the only one with Subscriptions.
    ///
    /// # Errors
    /// When there is none, or several.
    pub fn namespace(&self, given: Option<&str>) -> Result<String, ObjectsError> {
        let found: BTreeSet<String> = self.subscriptions.iter().map(namespace_of).collect();
        let known = || found.iter().cloned().collect::<Vec<_>>().join(", ");
        match (given, found.first(), found.len()) {
            (_, None, _) => Err(ObjectsError::NoSubscription),
            (Some(namespace), ..) if found.contains(namespace) => Ok(namespace.to_owned()),
            (Some(namespace), ..) => Err(ObjectsError::NotInNamespace {
                namespace: namespace.to_owned(),
                known: known(),
            }),
            (None, Some(only), 1) => Ok(only.clone()),
            (None, ..) => Err(ObjectsError::SeveralNamespaces(known())),
        }
    }

    /// Catalogs that the namespace's Subscriptions name, and all CatalogSources given.
    pub fn catalog_keys(&self, namespace: &str) -> BTreeSet<CatalogKey> {
        let named = self
            .in_namespace(&self.subscriptions, namespace)
            .map(|s| CatalogKey {
                name: s.spec.source.clone(),
                namespace: s.spec.source_namespace.clone(),
            });
        let given = self.sources.iter().map(source_key);
        named.chain(given).filter(|key| !key.name.is_empty()).collect()
    }

    /// How many OperatorGroups the namespace has among the objects.
    pub fn operator_groups(&self, namespace: &str) -> usize {
        self.in_namespace(&self.groups, namespace).count()
    }

    /// The question for a namespace. `global` is the namespace whose catalogs everyone may use; `catalogs` has the
    /// content of each catalog, or why there is none.
    pub fn question(
        &self,
        namespace: &str,
        global: &str,
        catalogs: BTreeMap<CatalogKey, Result<Arc<Snapshot>, String>>,
    ) -> Question {
        let group = self.in_namespace(&self.groups, namespace).next();
        let subscriptions: Vec<&Subscription> = self.in_namespace(&self.subscriptions, namespace).collect();
        let none = SubscriptionStatus::default();
        let manual = subscriptions
            .iter()
            .filter(|s| s.spec.install_plan_approval == Some(Approval::Manual))
            .map(|s| s.name_any());
        let priority = |key: &CatalogKey| {
            let source = self.sources.iter().find(|source| source_key(source) == *key);
            source.and_then(|source| source.spec.priority).map_or(0, clamp)
        };
        Question {
            manual: manual.collect(),
            steps: None,
            problem: Problem {
                namespace: namespace.to_owned(),
                global_namespace: global.to_owned(),
                subscriptions: subscriptions
                    .iter()
                    .map(|s| resolver_subscription(s, s.status.as_ref().unwrap_or(&none)))
                    .collect(),
                installed: self
                    .in_namespace(&self.csvs, namespace)
                    .map(installed_csv)
                    .collect(),
                catalogs: catalogs
                    .into_iter()
                    .map(|(key, content)| Catalog {
                        priority: priority(&key),
                        key,
                        content,
                    })
                    .collect(),
                operator_group: crate::problem::OperatorGroup {
                    count: self.operator_groups(namespace),
                    fail_forward: group.is_some_and(|group| group.spec.allows_fail_forward()),
                    exclude_global_namespace: group.is_some_and(excludes_global),
                },
                runtime_constraints: Vec::new(),
            },
        }
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

/// The text of a file; `-` is stdin.
///
/// # Errors
/// It cannot be read, or is no UTF-8.
pub fn read_text(file: &Path) -> Result<String, ObjectsError> {
    let is_stdin = file == Path::new("-");
    let text = if is_stdin {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(file)
    };
    text.map_err(|source| ObjectsError::File {
        file: if is_stdin {
            "stdin".to_owned()
        } else {
            file.display().to_string()
        },
        source,
    })
}

/// The objects of a stream of YAML or JSON documents, undecoded; empty documents are left out.
///
/// # Errors
/// The text is neither.
pub fn documents(text: &str) -> Result<Vec<Value>, ObjectsError> {
    let documents = yaml::parse_all(text.as_bytes()).map_err(ObjectsError::Syntax)?;
    Ok(documents
        .into_iter()
        .filter(|document| !document.is_null())
        .collect())
}

/// Priorities outside of what the resolver compares count as the furthest it does.
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
    let value = group
        .annotations()
        .get(labels::EXCLUDE_GLOBAL_NAMESPACE_RESOLUTION);
    value.is_some_and(|value| value == labels::TRUE)
}

fn parse<T: DeserializeOwned>(kind: String, object: Value) -> Result<T, ObjectsError> {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    let (namespace, name) = (text("namespace"), text("name"));
    serde_json::from_value(object).map_err(|error| ObjectsError::Object {
        kind,
        name: if namespace.is_empty() {
            name
        } else {
            format!("{namespace}/{name}")
        },
        cause: error.to_string(),
    })
}

/// Whether this is a copy of a ClusterServiceVersion of another namespace.
pub fn is_copied(csv: &ClusterServiceVersion) -> bool {
    let home = csv.annotations().get(labels::OPERATOR_NAMESPACE);
    csv.labels().contains_key(labels::COPIED_FROM)
        || home.is_some_and(|home| csv.namespace().as_ref() != Some(home))
}

/// A Subscription with its settled status, as the resolver takes it.
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
        must_move: false,
    }
}

/// A ClusterServiceVersion as the resolver takes it.
pub fn installed_csv(csv: &ClusterServiceVersion) -> InstalledCsv {
    let spec = &csv.spec;
    let crd = |crd: &CrdDescription| {
        // The group is what follows the plural in the CRD's name.
        let group = crd.name.split_once('.').map_or("", |(_, group)| group);
        Gvk {
            group: group.to_owned(),
            version: crd.version.clone(),
            kind: crd.kind.clone(),
        }
    };
    let api = |api: &ApiServiceDescription| Gvk {
        group: api.group.clone(),
        version: api.version.clone(),
        kind: api.kind.clone(),
    };
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
        copied: is_copied(csv),
        properties: csv.annotations().get(labels::PROPERTIES).cloned(),
        owned: owned.chain(spec.owned_api_services().iter().map(api)).collect(),
        required: required
            .chain(spec.required_api_services().iter().map(api))
            .collect(),
    }
}
