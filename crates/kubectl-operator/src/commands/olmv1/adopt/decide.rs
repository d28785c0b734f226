//! Decides whether and how an operator becomes a ClusterExtension. Pure.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use kube::ResourceExt as _;
use olm_api::extension_v1::{
    ClusterExtension, ClusterExtensionConfig, ClusterExtensionSpec, ExtensionConfigType,
    ServiceAccountReference,
};
use olm_api::labels;
use olm_api::v1alpha1::{ClusterServiceVersion, ClusterServiceVersionPhase as Phase, Subscription};
use olm_api::v2::OperatorCondition;
use olm_resolver::requirement::is_requirement;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::args::shared::quoted;
use crate::commands::olmv1::extensions::source;
use crate::groups::{ALL, Group};
use crate::terminal::{full_name, line, plain};

/// Maximum length of a line.
const MAX_TEXT: usize = 2000;

/// An operator that is to become a ClusterExtension.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Adoption {
    /// Namespace of the Subscription.
    pub namespace: String,
    /// Name of the Subscription.
    pub subscription: String,
    /// Name of its ClusterServiceVersion.
    pub csv: String,
    /// The ClusterExtension to create.
    pub extension: ClusterExtension,
    /// Objects of the ClusterExtension.
    pub objects: Vec<AdoptedObject>,
    /// Changes of pods, which restart them.
    pub restarts: Vec<String>,
    /// Everything that is in the way.
    pub blockers: Vec<String>,
    /// Further remarks.
    pub notes: Vec<String>,
}

/// An object of the ClusterExtension.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AdoptedObject {
    /// Kind of the object.
    pub kind: String,
    /// Namespace; empty for a cluster-scoped object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// What happens to it.
    pub fate: Fate,
}

/// What happens to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Fate {
    /// It does not exist and is created.
    Create,
    /// It exists and is taken over.
    Adopt,
}

/// The operator, and what else is in the cluster.
#[derive(Debug)]
pub(super) struct Situation<'a> {
    pub subscription: &'a Subscription,
    /// The installed version.
    pub csv: &'a ClusterServiceVersion,
    /// All versions of the operator.
    pub chain: &'a [&'a ClusterServiceVersion],
    /// ClusterServiceVersions of all other operators, without copies.
    pub others: &'a [&'a ClusterServiceVersion],
    /// OperatorGroups of the namespace.
    pub groups: &'a [Group],
    pub extensions: &'a [ClusterExtension],
    /// OperatorCondition of the ClusterServiceVersion.
    pub condition: Option<&'a OperatorCondition>,
}

impl Situation<'_> {
    /// Returns the namespace that the operator watches; `None` for all.
    ///
    /// # Errors
    /// A ClusterExtension cannot watch these namespaces.
    pub(super) fn watched(&self) -> Result<Option<String>, String> {
        let [group] = self.groups else {
            return Err(format!(
                "its namespace has {} OperatorGroups instead of one",
                self.groups.len()
            ));
        };
        match group.targets.as_deref() {
            Some([all]) if all == ALL => Ok(None),
            Some([one]) => Ok(Some(one.clone())),
            _ => Err(format!(
                "OperatorGroup {} is {}, and a ClusterExtension watches one namespace or all",
                group.name,
                group.scope()
            )),
        }
    }

    /// Returns the account that limits the permissions of the operator.
    fn account(&self) -> Option<&str> {
        self.groups.iter().find_map(|group| group.account.as_deref())
    }

    /// Returns a remark if an account limits the permissions of the operator.
    pub(super) fn account_note(&self) -> Option<String> {
        self.account().map(|account| {
            format!(
                "the ClusterExtension gets ServiceAccount {account} of the OperatorGroup in spec.serviceAccount; OLM v1 creates, changes and deletes all objects as this account, so it needs the permissions for that"
            )
        })
    }

    /// Returns the ClusterExtension to create. It watches all namespaces if [`Self::watched`] fails.
    ///
    /// # Errors
    /// The configuration of the Subscription has no JSON form.
    pub(super) fn extension(&self, name: &str) -> anyhow::Result<ClusterExtension> {
        let namespace = self.subscription.namespace().unwrap_or_default();
        let mut inline = Map::new();
        if let Ok(Some(watched)) = self.watched() {
            inline.insert("watchNamespace".to_owned(), json!(watched));
        }
        let spec = serde_json::to_value(&self.subscription.spec)?;
        let mut config = spec["config"].as_object().cloned().unwrap_or_default();
        // Neither OLM uses it.
        config.remove("selector");
        if !config.is_empty() {
            inline.insert("deploymentConfig".to_owned(), Value::Object(config));
        }
        let config = (!inline.is_empty()).then(|| ClusterExtensionConfig {
            config_type: ExtensionConfigType::Inline,
            inline: Some(Value::Object(inline)),
            ..ClusterExtensionConfig::default()
        });
        let spec = ClusterExtensionSpec {
            namespace: namespace.clone(),
            service_account: self.account().map(|account| ServiceAccountReference {
                name: Some(account.to_owned()),
                ..ServiceAccountReference::default()
            }),
            source: source(&self.subscription.spec.name, self.csv.spec.version.clone()),
            config,
            ..ClusterExtensionSpec::default()
        };
        let mut extension = ClusterExtension::new(name, spec);
        let adopts = format!("{namespace}/{}", self.csv.name_any());
        extension.metadata.annotations = Some([(labels::EXTENSION_ADOPTS.to_owned(), adopts)].into());
        Ok(extension)
    }

    /// Returns everything that is in the way of the ClusterExtension of this name, besides its objects.
    pub(super) fn blockers(&self, name: &str) -> Vec<String> {
        let mut blockers = self.of_operator();
        blockers.extend(self.watched().err());
        for other in self.others {
            let (namespace, csv) = (other.namespace().unwrap_or_default(), other.name_any());
            let owned = other.spec.owned_crds().iter();
            if let Some(shared) = owned.map(|crd| &crd.name).find(|crd| self.csv.spec.owns_crd(crd)) {
                blockers.push(format!(
                    "ClusterServiceVersion {csv} in namespace {namespace} also owns {shared}"
                ));
            } else if self.is_needed_by(other) {
                blockers.push(format!(
                    "ClusterServiceVersion {csv} in namespace {namespace} depends on it, and OLM does not see ClusterExtensions as providers"
                ));
            }
        }
        let package = self.subscription.spec.name.as_str();
        for extension in self.extensions {
            let found = extension.name_any();
            let catalog = extension.spec.source.catalog.as_ref();
            if found == name {
                blockers.push(format!(
                    "ClusterExtension {found} exists; choose another name with --name"
                ));
            } else if catalog.is_some_and(|catalog| catalog.package_name == package) {
                blockers.push(format!(
                    "ClusterExtension {found} already is for package {package}"
                ));
            }
        }
        blockers
    }

    /// Returns what the operator itself has that OLM v1 cannot take over.
    fn of_operator(&self) -> Vec<String> {
        let (csv, spec) = (self.csv.name_any(), &self.csv.spec);
        let status = self.subscription.status.as_ref();
        let current = status.and_then(|status| status.current_csv.as_ref());
        let is_upgrading = self.chain.len() > 1 || current.is_some_and(|current| *current != csv);
        let names: Vec<String> = self.chain.iter().map(|csv| csv.name_any()).collect();
        let reports = self.condition.is_some_and(|condition| {
            !condition.spec.conditions.is_empty() || !condition.spec.overrides.is_empty()
        });
        let rows = [
            (
                is_upgrading,
                format!(
                    "an upgrade is in progress or waits for approval ({}); complete it, or go back to {csv}",
                    current.filter(|_| names.len() < 2).unwrap_or(&names.join(", "))
                ),
            ),
            (
                *self.csv.phase() != Phase::Succeeded,
                format!(
                    "{csv} is in phase {:?} instead of Succeeded",
                    self.csv.phase().as_str()
                ),
            ),
            (
                self.csv.metadata.deletion_timestamp.is_some()
                    || self.subscription.metadata.deletion_timestamp.is_some(),
                "it is being deleted".to_owned(),
            ),
            (
                !spec.owned_api_services().is_empty(),
                format!("{csv} owns APIServices, which OLM v1 does not support"),
            ),
            (
                !spec.webhook_definitions.is_empty(),
                format!(
                    "{csv} has webhooks: OLM v1 issues new certificates for them, and calls would fail in between"
                ),
            ),
            (
                spec.version.is_none(),
                format!("{csv} has no version, by which a ClusterExtension could choose it"),
            ),
            (
                reports,
                format!("OperatorCondition {csv} is in use, and OLM v1 has no OperatorConditions"),
            ),
        ];
        let found = rows.into_iter().filter(|(is_found, _)| *is_found);
        found.map(|(_, text)| text).collect()
    }

    /// Returns true if another operator requires one of its kinds, or its package.
    fn is_needed_by(&self, other: &ClusterServiceVersion) -> bool {
        let mut required = other.spec.required_crds().iter();
        if required.any(|crd| self.csv.spec.owns_crd(&crd.name)) {
            return true;
        }
        let properties = other.annotations().get(labels::PROPERTIES);
        let properties = properties.and_then(|text| serde_json::from_str::<Value>(text).ok());
        let properties = properties.unwrap_or_default();
        let mut properties = properties["properties"].as_array().into_iter().flatten();
        properties.any(|property| {
            let type_ = property["type"].as_str().unwrap_or_default();
            is_requirement(type_) && self.is_named_in(&property["value"])
        })
    }

    /// Returns true if a requirement names its package or one of its kinds, at any depth.
    fn is_named_in(&self, value: &Value) -> bool {
        let is_kind = || {
            let mut owned = self.csv.spec.owned_crds().iter();
            owned.any(|crd| {
                let group = crd.name.split_once('.').map(|(_, group)| group);
                value["group"].as_str() == group && value["kind"] == crd.kind.as_str()
            })
        };
        match value {
            Value::Object(fields) => {
                value["packageName"] == self.subscription.spec.name.as_str()
                    || is_kind()
                    || fields.values().any(|value| self.is_named_in(value))
            }
            Value::Array(items) => items.iter().any(|value| self.is_named_in(value)),
            _ => false,
        }
    }
}

impl Adoption {
    /// Returns the summary. Names and texts are of catalogs and other users, so each stays in its line.
    pub(super) fn text(&self) -> String {
        let catalog = self.extension.spec.source.catalog.as_ref();
        let version = catalog.and_then(|catalog| catalog.version.as_deref());
        let mut text = format!(
            "Subscription {} in namespace {} becomes ClusterExtension {} of version {}\n",
            plain(&self.subscription),
            plain(&self.namespace),
            plain(&self.extension.name_any()),
            plain(version.unwrap_or("unknown")),
        );
        for object in &self.objects {
            let place = full_name(&plain(&object.namespace), &plain(&object.name));
            let fate = match object.fate {
                Fate::Create => "creates ",
                Fate::Adopt => "adopts  ",
            };
            let _ = writeln!(text, "  {fate} {} {place}", plain(&object.kind));
        }
        let _ = writeln!(
            text,
            "  deletes  Subscription {} and ClusterServiceVersion {}, when this is done",
            plain(&self.subscription),
            plain(&self.csv)
        );
        let parts = [
            ("restarts pods", &self.restarts),
            ("cannot be done", &self.blockers),
            ("note", &self.notes),
        ];
        for (heading, lines) in parts {
            for one in lines {
                let _ = writeln!(text, "{heading}: {}", line(one, MAX_TEXT));
            }
        }
        text
    }
}

/// Returns the file that leads back: the Subscription, and as comments the commands before and after it is applied.
///
/// # Errors
/// The Subscription has no YAML form.
pub(super) fn way_back(
    subscription: &Subscription,
    adoption: &Adoption,
    file: &str,
) -> anyhow::Result<String> {
    let mut spec = subscription.spec.clone();
    spec.starting_csv = Some(adoption.csv.clone());
    let mut kept = Subscription::new(&adoption.subscription, spec);
    kept.metadata.namespace = Some(adoption.namespace.clone());
    kept.metadata.labels.clone_from(&subscription.metadata.labels);
    let mut annotations: BTreeMap<String, String> = subscription.annotations().clone();
    for obsolete in [labels::GENERATED_BY, labels::LAST_APPLIED_CONFIGURATION] {
        annotations.remove(obsolete);
    }
    kept.metadata.annotations = Some(annotations).filter(|found| !found.is_empty());
    let (name, owner) = (adoption.extension.name_any(), labels::EXTENSION_OWNER_NAME);
    let (extension, file) = (quoted(&name), quoted(file));
    let inline = adoption.extension.spec.inline_config();
    let watched = inline.and_then(|inline| inline["watchNamespace"].as_str());
    let watched = quoted(watched.unwrap_or(&adoption.namespace));
    Ok(format!(
        "# The way back from ClusterExtension {name} to this Subscription. WITHOUT --cascade=orphan THE FIRST TWO COMMANDS DELETE THE\n\
         # OPERATOR'S OBJECTS. Only CustomResourceDefinitions that have custom resources stay then.\n\
         # 1. Release the objects:\n\
         #   kubectl delete clusterextension {extension} --cascade=orphan\n\
         #   kubectl delete clusterobjectsets -l {owner}={extension} --cascade=orphan\n\
         # 2. Install the operator again, over its objects. If the Subscription still exists, this restores its approval:\n\
         #   kubectl apply -f {file}\n\
         # 3. When its ClusterServiceVersion is Succeeded, delete what only the ClusterExtension had:\n\
         #   kubectl delete clusterroles,clusterrolebindings -l '{owner}={name},!olm.owner'\n\
         #   kubectl delete roles,rolebindings -n {watched} -l '{owner}={name},!olm.owner'\n\
         #   kubectl delete secrets -A -l {owner}={extension} --field-selector type={}\n{}",
        labels::OBJECT_DATA,
        olm_fbc::yaml::to_string(&kept)?
    ))
}
