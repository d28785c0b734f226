//! Whether what the preview of a plan tells is still so, looked at with the rights of whoever approves: plans of an OLM that marks none
//! are told of as well, and what changed after the mark.

use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Service, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client, ResourceExt as _};
use olm_api::labels;
use olm_api::plan_preview::{PlanPreview, Verb};
use olm_api::preview_outdated::{ObjectFate, OutdatedObject, PreviewOutdated};
use olm_api::v1alpha1::{InstallPlan, InstallPlanPhase, Subscription};

use crate::preview::{name, outdated_text};
use crate::reader::answer;

/// Objects of one plan that are looked at.
const MAX_LOOKS: usize = 20;
/// Looks under way at a time.
const PARALLEL: usize = 8;
/// Longest time for all of them.
const TIME: Duration = Duration::from_secs(10);

/// What the preview says and is not so any more, for people: what OLM has marked the plan with, and what is found now. Of a plan that
/// does not wait for approval nothing, as what it creates is there because of it.
pub(super) async fn doubts(client: &Client, plan: &InstallPlan) -> Vec<String> {
    if plan.phase() != InstallPlanPhase::RequiresApproval || plan.spec.approved {
        return Vec::new();
    }
    let annotation = |key| plan.annotations().get(key).map(String::as_str);
    let preview = annotation(labels::PLAN_PREVIEW).and_then(PlanPreview::from_annotation);
    let mark = annotation(labels::PLAN_PREVIEW_OUTDATED).map(PreviewOutdated::from_annotation);
    let mut doubts = Vec::new();
    let marked = match mark {
        None => Vec::new(),
        Some(None) => {
            doubts.push("its preview is outdated: how is not known".to_owned());
            Vec::new()
        }
        Some(Some(mark)) => {
            let since = format!("its preview is outdated since {}", name(&mark.since));
            let texts = mark
                .objects
                .iter()
                .map(|object| format!("{since}: {}", outdated_text(object)));
            doubts.extend(texts);
            if mark.omitted > 0 {
                doubts.push(format!("{since}: {} more objects", mark.omitted));
            }
            mark.objects
        }
    };
    let Some(preview) = preview else {
        return doubts;
    };
    let expected = expected(&preview);
    let count = expected.len();
    let looks = expected
        .into_iter()
        .take(MAX_LOOKS)
        .map(|object| look(client, object));
    let looks = futures::stream::iter(looks).buffered(PARALLEL);
    let mut unseen = count.saturating_sub(MAX_LOOKS);
    let mut found = Vec::new();
    let all = looks.for_each(|look| {
        match look {
            Look::AsTold => {}
            Look::Other(object) => found.push(object),
            Look::NotLookedAt => unseen += 1,
        }
        std::future::ready(())
    });
    if tokio::time::timeout(TIME, all).await.is_err() {
        doubts.push(format!(
            "whether its preview is outdated is not known: the cluster did not answer within {} s",
            TIME.as_secs()
        ));
        return doubts;
    }
    let is_marked = |object: &OutdatedObject| {
        marked
            .iter()
            .any(|mark| (&mark.kind, &mark.name, mark.change) == (&object.kind, &object.name, object.change))
    };
    let news = found.iter().filter(|object| !is_marked(object));
    doubts.extend(news.map(|object| format!("its preview is outdated: {}", outdated_text(object))));
    if unseen > 0 {
        doubts.push(format!(
            "not looked at, whether {unseen} of the objects in its preview are as it says: more than {MAX_LOOKS}, of another kind, or not to be read with your rights"
        ));
    }
    doubts
}

/// An object of a preview, and whether it is there as the preview has it.
struct Expected {
    kind: String,
    name: String,
    namespace: String,
    is_there: bool,
}

enum Look {
    AsTold,
    Other(OutdatedObject),
    NotLookedAt,
}

fn expected(preview: &PlanPreview) -> Vec<Expected> {
    let definitions = preview.definitions.iter().map(|definition| Expected {
        kind: "CustomResourceDefinition".to_owned(),
        name: definition.name.clone(),
        namespace: String::new(),
        is_there: true,
    });
    let objects = preview.objects.iter().map(|object| Expected {
        kind: object.kind.clone(),
        name: object.name.clone(),
        namespace: object.namespace.clone(),
        is_there: object.verb == Verb::Change,
    });
    definitions.chain(objects).collect()
}

async fn look(client: &Client, object: Expected) -> Look {
    let Some(api) = api(&object.kind).filter(|_| is_segment(&object.name)) else {
        return Look::NotLookedAt;
    };
    let api: Api<DynamicObject> = match object.namespace.as_str() {
        "" => Api::all_with(client.clone(), &api),
        namespace if is_segment(namespace) => Api::namespaced_with(client.clone(), namespace, &api),
        _ => return Look::NotLookedAt,
    };
    let what = || format!("read {} {}", object.kind, object.name);
    // Refused or not answered: what is approved without a look is said, and is no reason to show nothing.
    let Ok(found) = answer(what, api.get_metadata_opt(&object.name)).await else {
        return Look::NotLookedAt;
    };
    let change = match (object.is_there, found.is_some()) {
        (true, true) | (false, false) => return Look::AsTold,
        (false, true) => ObjectFate::Came,
        (true, false) => ObjectFate::Gone,
    };
    Look::Other(OutdatedObject {
        change,
        kind: object.kind,
        name: object.name,
        namespace: object.namespace,
        fields: Vec::new(),
    })
}

/// Kinds that a look asks nothing else for. Secrets are none of them: approving needs no right to read any.
fn api(kind: &str) -> Option<ApiResource> {
    Some(match kind {
        "Subscription" => ApiResource::erase::<Subscription>(&()),
        "CustomResourceDefinition" => ApiResource::erase::<CustomResourceDefinition>(&()),
        "ServiceAccount" => ApiResource::erase::<ServiceAccount>(&()),
        "Role" => ApiResource::erase::<Role>(&()),
        "RoleBinding" => ApiResource::erase::<RoleBinding>(&()),
        "ClusterRole" => ApiResource::erase::<ClusterRole>(&()),
        "ClusterRoleBinding" => ApiResource::erase::<ClusterRoleBinding>(&()),
        "Service" => ApiResource::erase::<Service>(&()),
        "ConfigMap" => ApiResource::erase::<ConfigMap>(&()),
        _ => return None,
    })
}

/// Whether a name stays what it is in a path. Those of RBAC may have colons.
fn is_segment(name: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-._:".contains(letter);
    !name.is_empty() && name != "." && name != ".." && name.len() <= 253 && name.chars().all(is_plain)
}
