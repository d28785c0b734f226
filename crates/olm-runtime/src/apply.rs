//! The executor: **the only writer of the workspace**.

#![expect(clippy::disallowed_methods, reason = "the one writer")]

use std::{collections::BTreeMap, fmt::Debug, sync::Arc, time::Duration};

use http::{HeaderName, HeaderValue};
use kube::{
    Client,
    api::{DeleteParams, GetParams, Patch, PatchParams, PostParams, Preconditions},
    core::Request,
};
use olm_api::{labels, names::service_account_user};
use serde_json::{Value, json};

use crate::{
    client::{REQUEST_DEADLINE, with_warnings},
    gate::WriteGate,
    key::is_path_segment,
    metrics::Metrics,
    outcome::{Failure, FailureClass, Outcome, Outcomes},
    plan::{Action, Exists, Guard, Identity, Plan, Target},
    store::StoreSetHandle,
};

/// Deadline for reading an object back after a write without an answer.
const SECOND_LOOK: Duration = Duration::from_secs(5);
const IMPERSONATE_USER: HeaderName = HeaderName::from_static("impersonate-user");
/// Header that marks a write as OLM's. Impersonating with this extra needs a right that only OLM has, so the account itself cannot set
/// it.
const IMPERSONATE_MARKS: HeaderName = HeaderName::from_static(labels::IMPERSONATE_EXTRA);

/// Executes plans against the API server.
///
/// # Guarantees
/// - Actions run in order. All independent actions of a plan are attempted, as long as the server answers. The others stop at their first
///   failure.
/// - Every request has a deadline ([`REQUEST_DEADLINE`]). A request without an answer is a [`FailureClass::Retry`], because it may have
///   been applied. After that, and after a 5xx, the object is read once, so that the next reconcile sees the result. If that read is not
///   answered either, no other action of the plan is attempted, because each would wait as long.
/// - Returned objects go into the stores before the outcome is reported.
/// - While the [`WriteGate`] is shut, nothing is sent: each attempted action is a [`FailureClass::Retry`].
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
    /// Creates an executor that writes with `client` while `gate` is open, and feeds `stores` and their metrics.
    pub fn new(client: Client, stores: StoreSetHandle, gate: WriteGate) -> Self {
        Self { client, stores, gate }
    }

    /// Returns the metrics in which writes are counted.
    pub fn metrics(&self) -> &Metrics {
        self.stores.metrics()
    }

    /// Executes the actions of `plan`.
    pub async fn act(&self, plan: &Plan) -> Outcomes {
        let mut results = Vec::with_capacity(plan.actions.len());
        let mut warnings = BTreeMap::new();
        let mut is_silent = false;
        for (index, action) in plan.actions.iter().enumerate() {
            let outcome = if !is_silent && plan.goes_on_after(&results) {
                let ((outcome, silent), warned) = with_warnings(self.attempt(action)).await;
                is_silent = silent;
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
            .of_silent_server(is_silent)
    }

    /// Executes one action.
    pub async fn perform(&self, action: &Action) -> Outcome {
        self.attempt(action).await.0
    }

    /// Executes one action. Also returns true if neither the write nor the read after it was answered.
    async fn attempt(&self, action: &Action) -> (Outcome, bool) {
        if !self.gate.is_open() {
            self.metrics().held_back(action.verb());
            // Nothing was sent, so there is nothing to read back.
            let message = "writes are suspended".to_owned();
            return (failed(action, FailureClass::Retry, 0, message), false);
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
        let mut is_silent = false;
        if let Outcome::Failed(failure) = &outcome {
            tracing::info!(action = %failure.action, class = ?failure.class, message = %failure.message, "refused");
            // The write may have been executed despite the failure: there was no answer, or a server gave up on it. A timeout of etcd is a
            // 500, one of the API server a 504, and a proxy in between may answer with any 5xx.
            if failure.class == FailureClass::Retry && (failure.code == 0 || failure.code >= 500) {
                let has_answer = self.look_again(action).await;
                // An answered write, even a failed one, may have a cause of its own: a webhook, a slow store.
                is_silent = !has_answer && failure.is_unanswered();
            }
        }
        (outcome, is_silent)
    }

    /// Passes the result of a write to the stores.
    fn absorb(&self, action: &Action, object: &Value) {
        match action {
            Action::Delete { target, guard, .. } => {
                self.stores.absorb_deletion(target, guard.uid.as_deref(), object);
            }
            _ => self.stores.absorb(object),
        }
    }

    /// Reads the object back after a write that may have been executed although its answer does not say so. Without that, the next
    /// reconcile would decide on a state older than its own last write and compute its patch against it. False if there is no answer. Any
    /// answer counts, also "not found", and so does a target that cannot be read.
    async fn look_again(&self, action: &Action) -> bool {
        let target = action.target();
        if target.name.is_empty() {
            return true;
        }
        let Ok(request) = collection(target).get(&target.name, &GetParams::default()) else {
            return true;
        };
        let answer = Box::pin(self.client.request::<Value>(request));
        match tokio::time::timeout(SECOND_LOOK, answer).await {
            Ok(Ok(object)) => {
                self.stores.absorb(&object);
                true
            }
            Ok(Err(error)) => matches!(error, kube::Error::Api(_)),
            Err(_) => false,
        }
    }
}

/// Returns the part of a written object that is kept. Of a patch of metadata nothing else is needed, and a reconcile may label many
/// objects of any size.
fn kept(action: &Action, object: Value) -> Value {
    let mut object = without_bulk(object);
    if let Action::Patch { patch, .. } = action
        && patch
            .as_object()
            .is_some_and(|patch| patch.keys().eq(["metadata"]))
        && let Some(map) = object.as_object_mut()
    {
        map.retain(|field, _| matches!(field.as_str(), "apiVersion" | "kind" | "metadata"));
    }
    object
}

/// Removes the parts that no status needs and that may be a MiB, since outcomes are kept until the end of a reconcile. The data of
/// Secrets is removed as well.
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

fn failed(action: &Action, class: FailureClass, code: u16, message: String) -> Outcome {
    Outcome::Failed(Failure {
        class,
        code,
        message,
        action: action.brief(),
    })
}

/// True if only another uid can cause a conflict.
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
        // Conflict of the uid: the object to delete is gone and a new one has its name. If the resource version is guarded too, it may be
        // the same object, changed since it was read.
        (Action::Delete { guard, .. }, FailureClass::Conflict) if is_of_uid_alone(guard) => Outcome::Gone,
        _ => failed(action, class, status.code, status.message.clone()),
    }
}

/// Class of an API server's refusal.
///
/// 401 means that the server did not recognize our token: it was just renewed, or its key is not known there yet. A missing permission is
/// a 403, also under impersonation.
pub fn classify(status: &kube::core::Status) -> FailureClass {
    let terminating = status.details.as_ref().is_some_and(|details| {
        details
            .causes
            .iter()
            .any(|cause| cause.reason == "NamespaceTerminating")
    });
    match (status.code, status.reason.as_str()) {
        (403, _) if terminating => FailureClass::Terminating,
        // Quota can become free at any time; admission answers with 403.
        (403, _) if status.message.contains("exceeded quota") => FailureClass::Retry,
        (403, _) => FailureClass::Forbidden,
        (404, _) => FailureClass::NotFound,
        (409, "AlreadyExists") => FailureClass::AlreadyExists,
        (409, _) => FailureClass::Conflict,
        (400 | 405 | 406 | 413 | 415 | 422, _) => FailureClass::Invalid,
        // Server-side apply answers so for a field that the kind does not have; a retry does not help.
        (500, _) if status.message.contains("field not declared in schema") => FailureClass::Invalid,
        _ => FailureClass::Retry,
    }
}

fn request_of(action: &Action) -> Result<http::Request<Vec<u8>>, String> {
    let mut request = match action {
        Action::Apply {
            target,
            object,
            data,
            manager,
            ..
        } => match data {
            None => apply_request(target, object, manager)?,
            Some(data) => apply_request(target, &data.within(object), manager)?,
        },
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
                propagation_policy: Some(propagation.clone()),
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

/// Returns the name, unless it would change the path of the request.
fn name_of(target: &Target) -> Result<&str, String> {
    if is_path_segment(&target.name) {
        Ok(&target.name)
    } else {
        Err(format!("{:?} is not a valid object name", target.name))
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

/// Sets the field manager of complete writes; without it the API server calls the manager `unknown`.
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

/// Adds the headers with which the API server authorizes the request as the tenant's ServiceAccount. The account's groups are implied.
/// Naming them would need the right to impersonate any group.
fn impersonate(request: &mut http::Request<Vec<u8>>, identity: &Identity) -> Result<(), String> {
    let (namespace, name, is_marked) = match identity {
        Identity::Operator => return Ok(()),
        Identity::ServiceAccount { namespace, name } => (namespace, name, true),
        Identity::Unmarked { namespace, name } => (namespace, name, false),
    };
    let user = HeaderValue::from_str(&service_account_user(namespace, name));
    let user = user.map_err(|error| error.to_string())?;
    request.headers_mut().insert(IMPERSONATE_USER, user);
    if is_marked {
        let marks = HeaderValue::from_static(labels::IMPERSONATE_EXTRA_VALUE);
        request.headers_mut().insert(IMPERSONATE_MARKS, marks);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
