//! The executor: **the only writer of the workspace**.

#![expect(clippy::disallowed_methods, reason = "the one writer")]

use std::{collections::BTreeMap, fmt::Debug, sync::Arc, time::Duration};

use http::{HeaderName, HeaderValue};
use kube::{
    Client,
    api::{DeleteParams, GetParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy},
    core::Request,
};
use olm_api::labels;
use serde_json::{Value, json};

use crate::{
    client::{REQUEST_DEADLINE, gated, with_warnings},
    gate::WriteGate,
    key::is_path_segment,
    metrics::Metrics,
    outcome::{Failure, FailureClass, Outcome, Outcomes},
    plan::{Action, Exists, Guard, Identity, Plan, Propagation, Target},
    store::StoreSetHandle,
};

/// How long may be looked for what became of a write without an answer.
const SECOND_LOOK: Duration = Duration::from_secs(5);
const IMPERSONATE_USER: HeaderName = HeaderName::from_static("impersonate-user");
/// What tells a write of ours from one of the account itself: only who may impersonate with it, which is OLM, can have it.
const IMPERSONATE_MARKS: HeaderName = HeaderName::from_static(labels::IMPERSONATE_EXTRA);

/// Whether the API server is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Server {
    /// It answers, or nothing else is known.
    Answers,
    /// Neither a write nor the look after it had an answer.
    Silent,
}

/// Carries out plans against the API server.
///
/// # Guarantees
/// - Actions run in their order. The plan's independent ones are all attempted, as long as the server answers; the others stop at their
///   first failure.
/// - Every request has a deadline ([`REQUEST_DEADLINE`]); one without an answer is a
///   [`FailureClass::Retry`], because it may or may not have been applied. After that, and after a 5xx, the object is read
///   once, so that the next round sees what became of it. Where that look has no answer either, nobody is there: no other action of
///   the plan is attempted, as each would wait as long.
/// - What the server returns goes into the stores before the outcome is reported.
/// - While the [`WriteGate`] is shut nothing is sent: each action attempted is a [`FailureClass::Retry`]. Where the gate is open for a
///   term, a write without an answer is given up at its end.
#[derive(Clone)]
pub struct Executor {
    client: Client,
    stores: StoreSetHandle,
    gate: WriteGate,
}

impl Debug for Executor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Executor")
    }
}

impl Executor {
    /// An executor that writes with `client` as long as `gate` is open, feeds `stores`, and counts where they do. Call it inside
    /// a runtime.
    pub fn new(client: Client, stores: StoreSetHandle, gate: WriteGate) -> Self {
        Self {
            client: gated(client, &gate),
            stores,
            gate,
        }
    }

    /// Where writes are counted.
    pub fn metrics(&self) -> &Metrics {
        self.stores.metrics()
    }

    /// Carries out the actions of `plan`.
    pub async fn act(&self, plan: &Plan) -> Outcomes {
        let mut results = Vec::with_capacity(plan.actions.len());
        let mut warnings = BTreeMap::new();
        let mut server = Server::Answers;
        for (index, action) in plan.actions.iter().enumerate() {
            let outcome = if server == Server::Answers && plan.goes_on_after(&results) {
                let ((outcome, seen), warned) = with_warnings(self.attempt(action)).await;
                server = seen;
                if !warned.is_empty() {
                    warnings.insert(index, warned);
                }
                outcome
            } else {
                Outcome::NotAttempted
            };
            results.push(outcome);
        }
        Outcomes::new(results)
            .with_warnings(warnings)
            .of_silent_server(server == Server::Silent)
    }

    /// Carries out one action.
    pub async fn perform(&self, action: &Action) -> Outcome {
        self.attempt(action).await.0
    }

    /// The same, with whether the API server is there.
    async fn attempt(&self, action: &Action) -> (Outcome, Server) {
        if !self.gate.admits() {
            self.metrics().held_back(action.verb());
            // Nothing was sent, so there is nothing to look for either.
            let message = "writes are held back at present".to_owned();
            return (failed(action, FailureClass::Retry, 0, message), Server::Answers);
        }
        let outcome = match request_of(action) {
            Ok(request) => {
                let answer = self.client.request::<Value>(request);
                match tokio::time::timeout(REQUEST_DEADLINE, Box::pin(answer)).await {
                    Ok(Ok(object)) => {
                        tracing::debug!(action = %action.brief(), "done");
                        self.absorb(action, &object);
                        Outcome::Done(Arc::new(kept(action, object)))
                    }
                    Ok(Err(error)) => outcome_of_error(action, &error),
                    Err(_) => failed(
                        action,
                        FailureClass::Retry,
                        0,
                        format!("no answer within {} s", REQUEST_DEADLINE.as_secs()),
                    ),
                }
            }
            Err(message) => failed(action, FailureClass::Invalid, 0, message),
        };
        self.metrics().wrote(action, &outcome);
        let mut server = Server::Answers;
        if let Outcome::Failed(failure) = &outcome {
            tracing::info!(action = %failure.action, class = ?failure.class, message = %failure.message, "refused");
            if may_be_carried_out(failure) {
                let seen = self.look_again(action).await;
                // A write that was answered, if with an error, may fail for a reason of its own: a webhook, a slow store.
                if failure.is_unanswered() {
                    server = seen;
                }
            }
        }
        (outcome, server)
    }

    /// Gives the stores what a write returned.
    fn absorb(&self, action: &Action, object: &Value) {
        match action {
            Action::Delete { target, guard, .. } => {
                self.stores.absorb_deletion(target, guard.uid.as_deref(), object);
            }
            _ => self.stores.absorb(object),
        }
    }

    /// After a write that may have been carried out although its answer does not say so: the stores take in what has become of the object,
    /// or the next round would decide on a state older than its own last write and compute its patch against that. Says whether anybody
    /// answered, be it that there is no such object; where nothing could be asked, that is not known, and is taken for a yes.
    async fn look_again(&self, action: &Action) -> Server {
        let target = action.target();
        if target.name.is_empty() {
            return Server::Answers;
        }
        let Ok(request) = collection(target).get(&target.name, &GetParams::default()) else {
            return Server::Answers;
        };
        let answer = Box::pin(self.client.request::<Value>(request));
        match tokio::time::timeout(SECOND_LOOK, answer).await {
            Ok(Ok(object)) => {
                self.stores.absorb(&object);
                Server::Answers
            }
            Ok(Err(kube::Error::Api(_))) => Server::Answers,
            Ok(Err(_)) | Err(_) => Server::Silent,
        }
    }
}

/// What is kept of what a write returned. Of an object that was only labelled nobody asks for more than its metadata, and a round may
/// label many of them, of any size.
fn kept(action: &Action, object: Value) -> Value {
    let mut object = without_bulk(object);
    if is_about_labels(action)
        && let Some(map) = object.as_object_mut()
    {
        map.retain(|field, _| matches!(field.as_str(), "apiVersion" | "kind" | "metadata"));
    }
    object
}

/// True for a patch of nothing but labels.
fn is_about_labels(action: &Action) -> bool {
    let Action::Patch { patch, .. } = action else {
        return false;
    };
    let is_all = |value: &Value, field: &str| {
        let map = value.as_object();
        map.is_some_and(|map| map.len() == 1 && map.contains_key(field))
    };
    is_all(patch, "metadata") && is_all(&patch["metadata"], "labels")
}

/// What a write returned, without what no status is made of and may be a MiB, as the outcomes of a round are kept to its end; and
/// without what a Secret holds.
fn without_bulk(mut object: Value) -> Value {
    let left_out: &[&str] = match object.get("kind").and_then(Value::as_str) {
        Some("CustomResourceDefinition") => &["spec"],
        Some("Secret") => &["data"],
        Some("ConfigMap") => &["data", "binaryData"],
        _ => &[],
    };
    if let Some(map) = object.as_object_mut() {
        map.retain(|field, _| !left_out.contains(&field.as_str()));
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    object
}

/// True when the write may have been carried out all the same: there was no answer, or one of a server that gave up on it
/// (a timeout of etcd is a 500, one of the API server a 504, and a proxy in between answers with any of them).
fn may_be_carried_out(failure: &Failure) -> bool {
    failure.class == FailureClass::Retry && (failure.code == 0 || failure.code >= 500)
}

fn failed(action: &Action, class: FailureClass, code: u16, message: String) -> Outcome {
    Outcome::Failed(Failure {
        class,
        code,
        message,
        action: action.brief(),
    })
}

/// Whether nothing but another uid can be in the way.
fn is_of_uid_alone(guard: &Guard) -> bool {
    guard.uid.is_some() && guard.resource_version.is_none()
}

fn outcome_of_error(action: &Action, error: &kube::Error) -> Outcome {
    let kube::Error::Api(status) = error else {
        return failed(action, FailureClass::Retry, 0, error.to_string());
    };
    let class = classify(status);
    match (action, class) {
        (
            Action::Create {
                exists: Exists::Keep, ..
            },
            FailureClass::AlreadyExists,
        ) => Outcome::Kept,
        (Action::Delete { .. }, FailureClass::NotFound) => Outcome::Gone,
        // Another uid: what was to be deleted is gone, a namesake stands in its place. Where the version counts as well, it may be
        // the same object, changed since it was looked at.
        (Action::Delete { guard, .. }, FailureClass::Conflict) if is_of_uid_alone(guard) => Outcome::Gone,
        _ => failed(action, class, status.code, status.message.clone()),
    }
}

/// The class of an API server's refusal.
///
/// 401 says that the server did not recognize our token (it was just renewed, or its key is not known there yet), not
/// that something is forbidden; a right that is missing is a 403, under impersonation too.
pub fn classify(status: &kube::core::Status) -> FailureClass {
    let terminating = status.details.as_ref().is_some_and(|details| {
        details
            .causes
            .iter()
            .any(|cause| cause.reason == "NamespaceTerminating")
    });
    match (status.code, status.reason.as_str()) {
        (403, _) if terminating => FailureClass::Terminating,
        // A quota can free up at any time; admission answers it with 403.
        (403, _) if status.message.contains("exceeded quota") => FailureClass::Retry,
        (403, _) => FailureClass::Forbidden,
        (404, _) => FailureClass::NotFound,
        (409, "AlreadyExists") => FailureClass::AlreadyExists,
        (409, _) => FailureClass::Conflict,
        (400 | 405 | 406 | 413 | 415 | 422, _) => FailureClass::Invalid,
        // What server-side apply says of a field that the kind does not have: the same each time.
        (500, _) if status.message.contains("field not declared in schema") => FailureClass::Invalid,
        _ => FailureClass::Retry,
    }
}

fn request_of(action: &Action) -> Result<http::Request<Vec<u8>>, String> {
    let mut request = match action {
        Action::Apply {
            target,
            object,
            manager,
            ..
        } => apply_request(target, object, manager)?,
        Action::ApplySecret {
            target,
            object,
            data,
            manager,
            ..
        } => apply_request(target, &data.within(object), manager)?,
        Action::Create { target, object, .. } => {
            let body = serde_json::to_vec(object).map_err(|error| error.to_string())?;
            let request = collection(target).create(&written(), body);
            request.map_err(|error| error.to_string())?
        }
        Action::Patch {
            target,
            patch,
            subresource,
            guard,
            ..
        } => patch_request(target, patch, *subresource, guard)?,
        Action::Replace {
            target,
            object,
            subresource,
            ..
        } => replace_request(target, object, *subresource)?,
        Action::Delete {
            target,
            guard,
            grace_seconds,
            propagation,
            ..
        } => {
            let params = DeleteParams {
                grace_period_seconds: *grace_seconds,
                propagation_policy: Some(match propagation {
                    Propagation::Background => PropagationPolicy::Background,
                    Propagation::Foreground => PropagationPolicy::Foreground,
                    Propagation::Orphan => PropagationPolicy::Orphan,
                }),
                preconditions: (*guard != Guard::default()).then(|| Preconditions {
                    uid: guard.uid.clone(),
                    resource_version: guard.resource_version.clone(),
                }),
                ..DeleteParams::default()
            };
            let request = collection(target).delete(name_of(target)?, &params);
            request.map_err(|error| error.to_string())?
        }
    };
    impersonate(&mut request, action.identity())?;
    Ok(request)
}

fn collection(target: &Target) -> Request {
    Request::new(target.collection_path())
}

/// The name, unless it would lead the request to some other path.
fn name_of(target: &Target) -> Result<&str, String> {
    if is_path_segment(&target.name) {
        Ok(&target.name)
    } else {
        Err(format!("{:?} cannot be the name of an object", target.name))
    }
}

fn apply_request(target: &Target, object: &Value, manager: &str) -> Result<http::Request<Vec<u8>>, String> {
    let params = PatchParams::apply(manager).force();
    collection(target)
        .patch(name_of(target)?, &params, &Patch::Apply(object))
        .map_err(|error| error.to_string())
}

fn patch_request(
    target: &Target,
    patch: &Value,
    subresource: Option<&str>,
    guard: &Guard,
) -> Result<http::Request<Vec<u8>>, String> {
    let mut patch = patch.clone();
    for (field, value) in [("uid", &guard.uid), ("resourceVersion", &guard.resource_version)] {
        if let Some(value) = value {
            patch["metadata"][field] = json!(value);
        }
    }
    let params = PatchParams {
        field_manager: Some(labels::FIELD_MANAGER_PATCH.to_owned()),
        ..PatchParams::default()
    };
    let patch = Patch::Merge(&patch);
    let name = name_of(target)?;
    match subresource {
        Some(sub) => collection(target).patch_subresource(sub, name, &params, &patch),
        None => collection(target).patch(name, &params, &patch),
    }
    .map_err(|error| error.to_string())
}

/// Who owns the fields of what is written whole: without a name it would be nobody that is known.
fn written() -> PostParams {
    PostParams {
        field_manager: Some(labels::FIELD_MANAGER_PATCH.to_owned()),
        ..PostParams::default()
    }
}

fn replace_request(
    target: &Target,
    object: &Value,
    subresource: Option<&str>,
) -> Result<http::Request<Vec<u8>>, String> {
    let (name, params) = (name_of(target)?, written());
    let body = serde_json::to_vec(object).map_err(|error| error.to_string())?;
    match subresource {
        Some(sub) => collection(target).replace_subresource(sub, name, &params, body),
        None => collection(target).replace(name, &params, body),
    }
    .map_err(|error| error.to_string())
}

/// Adds the header with which the API server authorizes the request as the tenant's account. The account's groups come with it; to name them
/// would need the right to act as any group.
fn impersonate(request: &mut http::Request<Vec<u8>>, identity: &Identity) -> Result<(), String> {
    let Identity::ServiceAccount { namespace, name } = identity else {
        return Ok(());
    };
    let user = HeaderValue::from_str(&format!("system:serviceaccount:{namespace}:{name}"));
    let user = user.map_err(|error| error.to_string())?;
    request.headers_mut().insert(IMPERSONATE_USER, user);
    let marks = HeaderValue::from_static(labels::IMPERSONATE_EXTRA_VALUE);
    request.headers_mut().insert(IMPERSONATE_MARKS, marks);
    Ok(())
}

#[cfg(test)]
mod tests;
