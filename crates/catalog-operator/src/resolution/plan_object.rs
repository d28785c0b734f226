//! The InstallPlan that resolution creates (`docs/reference/install-plans.md`). Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use go_compat::json::{self, Html};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{Resource, ResourceExt};
use olm_api::hash;
use olm_api::v1alpha1::{
    API_VERSION, Approval, BundleLookup, InstallPlan, InstallPlanPhase, InstallPlanSpec, InstallPlanStatus,
    Step, StepResource, StepStatus, Subscription, VERSION,
};
use olm_fbc::entry::EntryProperty;
use olm_resolver::Operator;
use olm_resolver::explain::{EVENT_LIMIT, cut};
use olm_runtime::plan::{Action, Target};
use serde_json::json;
use serde_json::value::RawValue;

use crate::component;
use crate::install_plan::steps::{Properties, Property};
use crate::object;

/// Start of the name of every plan made here.
const GENERATE_NAME: &str = "install-";

/// Name of the plan of this generation in a namespace whose oldest Subscription has the uid `oldest`.
///
/// It is not random, so a plan whose creation got no response, and that no watch has reported yet, is not created a second
/// time: the API server has a plan of that name already, whatever is wanted by then. With the uid, an operator that is
/// installed again does not get the name of a plan that installed something else.
pub(crate) fn plan_name(namespace: &str, generation: i64, oldest: &str) -> String {
    let identity = format!("{namespace}/{generation}/{oldest}");
    format!("{GENERATE_NAME}{:016x}", hash::fnv1a64(identity.as_bytes()))
}

/// Returns the uid of the oldest of these Subscriptions; empty if there is none.
pub(crate) fn oldest_uid(subscriptions: &[Arc<Subscription>]) -> &str {
    let oldest = subscriptions
        .iter()
        .min_by_key(|subscription| (subscription.creation_timestamp(), subscription.name_any()));
    oldest
        .and_then(|subscription| subscription.metadata.uid.as_deref())
        .unwrap_or_default()
}

/// The highest generation of the plans that were made for one of these Subscriptions.
pub(crate) fn last_generation(plans: &[Arc<InstallPlan>], subscriptions: &[Arc<Subscription>]) -> i64 {
    let is_ours = |plan: &&Arc<InstallPlan>| subscriptions.iter().any(|owner| is_owned_by(plan, owner));
    let generations = plans.iter().filter(is_ours);
    generations
        .filter_map(|plan| plan.spec.generation)
        .max()
        .unwrap_or(0)
}

/// Whether a plan was made for this Subscription, and not for an earlier one of its name.
pub(crate) fn is_owned_by(plan: &InstallPlan, subscription: &Subscription) -> bool {
    object::is_owned_by(&plan.metadata, subscription.metadata.uid.as_deref())
}

/// Returns true if the plan was made here, by its name: a webhook may remove the other marks on creation.
pub(crate) fn is_made_here(plan: &InstallPlan) -> bool {
    plan.metadata.generate_name.as_deref() == Some(GENERATE_NAME) || has_our_name(plan)
}

/// Returns true if the plan has the name of its generation and of one of its owners.
fn has_our_name(plan: &InstallPlan) -> bool {
    let (name, namespace) = (&plan.metadata.name, plan.metadata.namespace.as_deref());
    let Some((generation, namespace)) = plan.spec.generation.zip(namespace) else {
        return false;
    };
    let mut owners = plan.owner_references().iter();
    owners.any(|owner| *name == Some(plan_name(namespace, generation, &owner.uid)))
}

/// Returns its deletion, bound to the observed version: a plan that was approved or changed since is not deleted.
pub(crate) fn deletion(plan: &InstallPlan) -> Action {
    let target = Target::of::<InstallPlan>(&plan.namespace().unwrap_or_default(), &plan.name_any());
    Action::delete(target, plan.uid()).only_at(plan.resource_version())
}

/// A plan to be made.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct WantedPlan {
    /// ClusterServiceVersions it installs, in the order of its steps.
    pub csv_names: Vec<String>,
    /// True if a user has to approve it.
    pub manual: bool,
    /// Steps, all to do.
    pub steps: Vec<Step>,
    /// Bundles the steps are from.
    pub lookups: Vec<BundleLookup>,
    /// Problems that its bundles will have in this cluster, one line each.
    pub obstacles: Vec<String>,
}

impl WantedPlan {
    /// The object to create, without its status: the API server drops that on creation.
    pub(crate) fn object(
        &self,
        namespace: &str,
        generation: i64,
        owners: &[Arc<Subscription>],
    ) -> InstallPlan {
        let components = component::labels_of(&self.steps, &self.lookups, namespace);
        let components: BTreeMap<String, String> = components
            .into_values()
            .map(|label| (label, String::new()))
            .collect();
        InstallPlan {
            metadata: ObjectMeta {
                name: Some(plan_name(namespace, generation, oldest_uid(owners))),
                // Without effect beside a name; it distinguishes the plans made here from those of users, as in earlier versions.
                generate_name: Some(GENERATE_NAME.to_owned()),
                namespace: Some(namespace.to_owned()),
                labels: (!components.is_empty()).then_some(components),
                owner_references: Some(owners.iter().map(|owner| owner_reference(owner)).collect()),
                ..ObjectMeta::default()
            },
            spec: InstallPlanSpec {
                cluster_service_version_names: self.csv_names.clone(),
                approval: if self.manual {
                    Approval::Manual
                } else {
                    Approval::Automatic
                },
                approved: !self.manual,
                generation: Some(generation),
                ..InstallPlanSpec::default()
            },
            status: None,
        }
    }

    /// Text about [`WantedPlan::obstacles`], which Subscriptions repeat while the plan waits. It is not written again when the cluster
    /// changes, so it says when it was true.
    fn message(&self) -> Option<String> {
        let text = format!("when this plan was created: {}", self.obstacles.join("; "));
        (!self.obstacles.is_empty()).then(|| cut(&text, EVENT_LIMIT))
    }

    /// Returns the first status of the created plan. `approved` is the plan's own value, because a user may already have changed
    /// it.
    pub(crate) fn status(&self, approved: bool) -> InstallPlanStatus {
        let catalogs: BTreeSet<&str> = self
            .steps
            .iter()
            .map(|step| step.resource.source_name.as_str())
            .collect();
        InstallPlanStatus {
            phase: if approved {
                InstallPlanPhase::Installing
            } else {
                InstallPlanPhase::RequiresApproval
            },
            catalog_sources: catalogs.into_iter().map(str::to_owned).collect(),
            plan: self.steps.clone().into(),
            bundle_lookups: self.lookups.clone().into(),
            message: self.message(),
            ..InstallPlanStatus::default()
        }
    }
}

fn owner_reference(subscription: &Subscription) -> OwnerReference {
    OwnerReference {
        controller: Some(false),
        block_owner_deletion: Some(false),
        ..subscription.owner_ref(&()).unwrap_or_default()
    }
}

/// The lookup of a bundle image, as a plan keeps it when the bundle has been unpacked. For an inline bundle its path is empty.
pub(crate) fn lookup(operator: &Operator) -> BundleLookup {
    let image = operator.entry.bundle_path.as_deref();
    let image = image.filter(|_| operator.entry.inline.is_none());
    BundleLookup {
        path: image.unwrap_or_default().to_owned(),
        identifier: operator.entry.name.to_string(),
        replaces: operator.replaces.clone(),
        catalog_source_ref: ObjectReference {
            name: Some(operator.catalog.name.clone()),
            namespace: Some(operator.catalog.namespace.clone()),
            ..ObjectReference::default()
        },
        properties: Some(properties_text(&operator.entry.properties)),
        ..BundleLookup::default()
    }
}

/// Properties as annotations and lookups carry them: compact JSON, values as the catalog has them, `{}` for none.
/// A value that is no JSON is left out; the resolver does not choose bundles with one it has to understand.
pub(crate) fn properties_text(properties: &[EntryProperty]) -> String {
    let value = |property: &EntryProperty| RawValue::from_string(without_spaces(&property.value)).ok();
    let values = properties
        .iter()
        .filter_map(|property| Some((&property.kind, value(property)?)));
    let values: Vec<_> = values.collect();
    if values.is_empty() {
        return "{}".to_owned();
    }
    let list = values.iter().map(|(kind, value)| Property {
        type_: kind.to_string(),
        value: Some(&**value),
    });
    let list = Properties {
        properties: Some(list.collect()),
    };
    // Serializing plain structs cannot fail.
    json::encode(&list, Html::Escaped).unwrap_or_default()
}

/// JSON text without the blanks between its tokens; key order and numbers stay as written.
fn without_spaces(json: &str) -> String {
    let mut compact = String::with_capacity(json.len());
    let (mut in_text, mut escaped) = (false, false);
    for c in json.chars() {
        if in_text {
            in_text = escaped || c != '"';
            escaped = !escaped && c == '\\';
        } else if c.is_ascii_whitespace() {
            continue;
        } else {
            in_text = c == '"';
        }
        compact.push(c);
    }
    compact
}

/// The step that creates a Subscription for a bundle that came in as a dependency.
pub(crate) fn subscription_step(namespace: &str, generated: &olm_resolver::Subscription) -> Step {
    let manifest = json!({
        "apiVersion": API_VERSION,
        "kind": "Subscription",
        "metadata": { "name": generated.name, "namespace": namespace },
        "spec": {
            "source": generated.catalog.name,
            "sourceNamespace": generated.catalog.namespace,
            "name": generated.package,
            "channel": generated.channel,
            "startingCSV": generated.starting_csv,
            "installPlanApproval": Approval::Automatic.as_str(),
        },
    });
    Step {
        resolving: generated.starting_csv.clone(),
        resource: StepResource {
            source_name: generated.catalog.name.clone(),
            source_namespace: generated.catalog.namespace.clone(),
            group: olm_api::GROUP.to_owned(),
            version: VERSION.to_owned(),
            kind: "Subscription".to_owned(),
            name: generated.name.clone(),
            manifest: Some(format!("{manifest}\n")),
            ..StepResource::default()
        },
        status: StepStatus::Unknown,
        ..Step::default()
    }
}
