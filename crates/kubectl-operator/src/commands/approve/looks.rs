//! Checks with the user's own permissions whether the preview of a plan is still true. This covers plans that OLM did not mark as
//! outdated, and changes after the mark.

use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Service, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client, ResourceExt as _};
use olm_api::labels;
use olm_api::plan_preview::{FOLLOWED_KINDS, MAX_FOLLOWED, PlanPreview, Verb};
use olm_api::preview_outdated::{ObjectFate, OutdatedObject, PreviewOutdated};
use olm_api::v1alpha1::{InstallPlan, InstallPlanPhase, Subscription};

use crate::preview::{name, outdated_text, outdated_then_text};
use crate::reader::answer;

/// Maximum number of concurrent requests.
const PARALLEL: usize = 8;
/// Timeout for all requests together.
const TIME: Duration = Duration::from_secs(10);

/// Outdated parts of a preview, and parts that could not be checked, as texts.
#[derive(Debug, Clone, Default)]
pub(super) struct Doubts {
    /// Differences that OLM's mark lists, and those found now.
    pub outdated: Vec<String>,
    /// Number of objects that could not be checked, as text. It may differ each time.
    pub unseen: Vec<String>,
}

/// Returns the differences between a plan's preview and the cluster. Empty for a plan that does not wait for approval, because
/// its objects may exist due to the plan.
pub(super) async fn doubts(client: &Client, plan: &InstallPlan) -> Doubts {
    if plan.phase() != InstallPlanPhase::RequiresApproval || plan.spec.approved {
        return Doubts::default();
    }
    let annotation = |key| plan.annotations().get(key).map(String::as_str);
    let preview = annotation(labels::PLAN_PREVIEW).and_then(PlanPreview::from_annotation);
    let mark = annotation(labels::PLAN_PREVIEW_OUTDATED).map(PreviewOutdated::from_annotation);
    let found = match &preview {
        Some(preview) => look_at(client, preview).await,
        None => Found::default(),
    };
    let mut outdated = match &mark {
        None => Vec::new(),
        Some(None) => vec!["its preview is outdated: how is not known".to_owned()],
        Some(Some(mark)) => marked_texts(mark, &found),
    };
    let marked = mark.flatten().map(|mark| mark.objects).unwrap_or_default();
    let is_marked = |object: &OutdatedObject| marked.iter().any(|mark| is_same(mark, object));
    let news = found.others.iter().filter(|object| !is_marked(object));
    outdated.extend(news.map(|object| format!("its preview is outdated: {}", outdated_text(object))));
    Doubts {
        outdated,
        unseen: found.unseen,
    }
}

/// Describes the differences of a mark, and those that no longer exist.
fn marked_texts(mark: &PreviewOutdated, found: &Found) -> Vec<String> {
    let since = name(&mark.since);
    let text = |object: &OutdatedObject| match found.as_told.iter().any(|told| is_same(told, object)) {
        true => format!(
            "its preview was outdated at {since}: {}; now it is as the preview says",
            outdated_then_text(object)
        ),
        false => format!("its preview is outdated since {since}: {}", outdated_text(object)),
    };
    let mut texts: Vec<String> = mark.objects.iter().map(text).collect();
    if mark.omitted > 0 {
        texts.push(format!(
            "its preview is outdated since {since}: {} more objects",
            mark.omitted
        ));
    }
    texts.push(format!(
        "that its preview is outdated was noted at {since}: changes after that are not noted"
    ));
    texts
}

fn is_same(one: &OutdatedObject, other: &OutdatedObject) -> bool {
    (&one.kind, &one.name, one.change) == (&other.kind, &other.name, other.change)
}

/// Results for the objects of a preview.
#[derive(Default)]
struct Found {
    /// Objects that match the preview, with the change that they would otherwise be reported as.
    as_told: Vec<OutdatedObject>,
    others: Vec<OutdatedObject>,
    unseen: Vec<String>,
}

async fn look_at(client: &Client, preview: &PlanPreview) -> Found {
    let mut expected = expected(preview);
    let all = expected.len();
    expected.retain(|object| FOLLOWED_KINDS.contains(&object.kind.as_str()));
    let count = expected.len().min(MAX_FOLLOWED);
    let beyond = all - count;
    let looks = expected.into_iter().take(MAX_FOLLOWED).enumerate();
    let looks = looks.map(|(at, object)| async move { (at, look(client, object).await) });
    // A request without a response must not block the others.
    let looks = futures::stream::iter(looks).buffer_unordered(PARALLEL);
    let mut seen = Vec::new();
    let looking = looks.for_each(|look| {
        seen.push(look);
        std::future::ready(())
    });
    // After the timeout, the results so far are used.
    let _ = tokio::time::timeout(TIME, looking).await;
    seen.sort_by_key(|(at, _)| *at);
    let unanswered = count - seen.len();
    let mut found = Found::default();
    let mut not_looked_at = beyond;
    for (_, look) in seen {
        match look {
            Look::AsTold(object) => found.as_told.push(object),
            Look::Other(object) => found.others.push(object),
            Look::NotLookedAt => not_looked_at += 1,
        }
    }
    if not_looked_at > 0 {
        found.unseen.push(format!(
            "not looked at, whether {not_looked_at} of the objects in its preview are as it says: more than {MAX_FOLLOWED}, of another kind, or not to be read with your rights"
        ));
    }
    if unanswered > 0 {
        found.unseen.push(format!(
            "not known, whether {unanswered} of the objects in its preview are as it says: the cluster did not answer within {} s",
            TIME.as_secs()
        ));
    }
    found
}

/// An object of a preview, and whether the preview expects it to exist.
struct Expected {
    kind: String,
    name: String,
    namespace: String,
    is_there: bool,
}

enum Look {
    AsTold(OutdatedObject),
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
    // Denied or failed: the number is reported, and the rest of the plan is still shown.
    let Ok(found) = answer(what, api.get_metadata_opt(&object.name)).await else {
        return Look::NotLookedAt;
    };
    let (change, as_told) = match (object.is_there, found.is_some()) {
        (false, is_there) => (ObjectFate::Came, !is_there),
        (true, is_there) => (ObjectFate::Gone, is_there),
    };
    let object = OutdatedObject {
        change,
        kind: object.kind,
        name: object.name,
        namespace: object.namespace,
        fields: Vec::new(),
    };
    match as_told {
        true => Look::AsTold(object),
        false => Look::Other(object),
    }
}

/// Returns the API of a kind that can be checked with one request. Secrets are excluded: approving requires no permission to read
/// them.
pub(super) fn api(kind: &str) -> Option<ApiResource> {
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

/// Returns true if the name is safe as a path segment. Names of RBAC objects may have colons.
fn is_segment(name: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-._:".contains(letter);
    !name.is_empty() && name != "." && name != ".." && name.len() <= 253 && name.chars().all(is_plain)
}
