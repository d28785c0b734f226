//! Objects of an operator, as they are in the cluster and as the ClusterExtension wants them.

use std::collections::BTreeSet;

use anyhow::bail;
use kube::core::DynamicObject;
use kube::{Api, ResourceExt as _};
use olm_api::labels;
use olm_api::v1alpha1::ClusterServiceVersion;
use operator_controller::apply::object::ObjectId;
use operator_controller::{Discovery, is_path_segment};
use serde_json::{Value, json};

use super::decide::Fate;
use super::fields::passed_on;
use crate::cluster::Cluster;
use crate::commands::olmv1::plan::changes::add_fields;
use crate::reader::{answer, dynamic_api};
use crate::terminal::full_name;
use crate::writer;

/// Kind of the controller of adopted objects.
const OBJECT_SET: &str = "ClusterObjectSet";
/// Maximum number of changed fields that are named.
const MAX_FIELDS: usize = 5;
/// Maximum number of attempts to change an object that others change meanwhile.
const MAX_ATTEMPTS: usize = 3;

/// Kinds of the cluster.
pub(super) struct Kinds<'a> {
    cluster: &'a Cluster,
    discovery: Discovery,
}

impl<'a> Kinds<'a> {
    /// Reads kinds when they are asked for.
    pub(super) fn of(cluster: &'a Cluster) -> Self {
        Self {
            cluster,
            discovery: Discovery::new(cluster.client.clone()),
        }
    }

    /// Returns the API of an object; `None` if the cluster does not serve its kind, or if it cannot have this name.
    ///
    /// # Errors
    /// The kinds of the API version cannot be read.
    pub(super) async fn api(&self, object: &Value) -> anyhow::Result<Option<Api<DynamicObject>>> {
        let id = ObjectId::of(object);
        let found = self.discovery.find_kind(&id.group, &id.version, &id.kind).await?;
        let Some(kind) = found else {
            return Ok(None);
        };
        if !is_path_segment(&id.name) || (kind.namespaced && !is_path_segment(&id.namespace)) {
            return Ok(None);
        }
        let namespace = kind.namespaced.then_some(id.namespace.as_str());
        Ok(Some(dynamic_api(&self.cluster.client, namespace, &kind.api)))
    }

    /// Returns an object of the cluster if it exists.
    ///
    /// # Errors
    /// A request fails.
    pub(super) async fn find(&self, object: &Value) -> anyhow::Result<Option<Value>> {
        let Some(api) = self.api(object).await? else {
            return Ok(None);
        };
        let id = ObjectId::of(object);
        let what = || format!("read {}", title(&id));
        let found = answer(what, api.get_opt(&id.name)).await?;
        Ok(found.map(serde_json::to_value).transpose()?)
    }

    /// Returns an object as the ClusterExtension would change it, by a dry run.
    ///
    /// # Errors
    /// The API server would refuse the change.
    pub(super) async fn applied(&self, wanted: &Value, live: &Value) -> anyhow::Result<Value> {
        let Some(api) = self.api(wanted).await? else {
            return Ok(live.clone());
        };
        let applied = writer::apply_dry(&api, wanted, labels::EXTENSION_MANAGER).await?;
        Ok(serde_json::to_value(applied)?)
    }

    /// Passes the fields that OLM v0 set in an object to the ClusterExtension, which has applied it, so that an upgrade removes those that
    /// it does not set. Values do not change.
    ///
    /// # Errors
    /// A request fails, or others change the object during each attempt.
    pub(super) async fn pass_fields(&self, wanted: &Value) -> anyhow::Result<()> {
        for _ in 0..MAX_ATTEMPTS {
            let live = self.find(wanted).await?.unwrap_or_default();
            let (Some(fields), Some(api)) = (passed_on(&live), self.api(wanted).await?) else {
                return Ok(());
            };
            let metadata = &live["metadata"];
            let change = json!({"metadata": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"],
                "managedFields": fields}});
            let id = ObjectId::of(wanted);
            let what = format!("change {}", title(&id));
            if writer::merge_if_same(&api, &id.name, &what, &change).await? {
                return Ok(());
            }
        }
        bail!(
            "{} was changed during every attempt to transfer its fields; run the command again",
            title(&ObjectId::of(wanted))
        )
    }
}

/// Returns kind, namespace and name as text.
pub(super) fn title(id: &ObjectId) -> String {
    format!("{} {}", id.kind, full_name(&id.namespace, &id.name))
}

/// Returns the fields of the pod template that differ. Pure.
pub(super) fn template_changes(live: &Value, applied: &Value) -> Vec<String> {
    let template = |object: &Value| object["spec"]["template"].clone();
    let mut fields = BTreeSet::new();
    let (live, applied) = (template(live), template(applied));
    add_fields(&live, &applied, "template", usize::MAX, &mut fields);
    fields.into_iter().take(MAX_FIELDS).collect()
}

/// Returns what happens to an object of the ClusterExtension, given the one in the cluster. Pure.
///
/// # Errors
/// The object in the cluster must not be taken over; the text says why.
pub(super) fn fate(
    wanted: &Value,
    live: Option<&Value>,
    csv: &ClusterServiceVersion,
) -> Result<Fate, String> {
    let id = ObjectId::of(wanted);
    let title = title(&id);
    let Some(live) = live else {
        return Ok(Fate::Create);
    };
    let metadata = &live["metadata"];
    if let Some(owner) = controller(live) {
        let [kind, name] = ["kind", "name"].map(|field| owner[field].as_str().unwrap_or_default());
        return Err(format!("{title} is controlled by {kind} {name}"));
    }
    if metadata["annotations"][labels::REVISION].is_string() {
        return Err(format!(
            "{title} has the annotation {0} of an earlier ClusterExtension; remove it with `kubectl annotate {1} {2}{3} {0}-`",
            labels::REVISION,
            id.kind.to_lowercase(),
            id.name,
            match id.namespace.as_str() {
                "" => String::new(),
                namespace => format!(" -n {namespace}"),
            }
        ));
    }
    if metadata["deletionTimestamp"].is_string() {
        return Err(format!("{title} is being deleted"));
    }
    let owners = metadata["ownerReferences"].as_array();
    let mut owners = owners.into_iter().flatten();
    let uid = csv.uid().unwrap_or_default();
    let is_owned = owners.any(|owner| owner["uid"] == uid.as_str());
    let label = |label: &str| metadata["labels"][label].as_str();
    let is_labelled = label(labels::OWNER) == Some(csv.name_any().as_str())
        && label(labels::OWNER_NAMESPACE) == csv.namespace().as_deref();
    let is_definition = id.kind == "CustomResourceDefinition" && csv.spec.owns_crd(&id.name);
    if !is_owned && !is_labelled && !is_definition {
        return Err(format!(
            "{title} exists and does not belong to ClusterServiceVersion {}",
            csv.name_any()
        ));
    }
    let is_deployment = id.group == "apps" && id.kind == "Deployment";
    if is_deployment && !has_manager(live, labels::FIELD_MANAGER_CSV) {
        return Err(format!(
            "{title} was not applied by this OLM; another OLM would undo the changes of a ClusterExtension"
        ));
    }
    Ok(Fate::Adopt)
}

fn controller(object: &Value) -> Option<&Value> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    owners.iter().find(|owner| owner["controller"] == true)
}

fn has_manager(object: &Value, manager: &str) -> bool {
    let entries = object["metadata"]["managedFields"].as_array();
    let mut entries = entries.into_iter().flatten();
    entries.any(|entry| entry["manager"] == manager)
}

/// Returns true if a revision of the extension controls the object. Pure.
pub(super) fn is_adopted(object: &Value, extension: &str) -> bool {
    controller(object).is_some_and(|owner| {
        owner["kind"] == OBJECT_SET && object["metadata"]["labels"][labels::EXTENSION_OWNER_NAME] == extension
    })
}
