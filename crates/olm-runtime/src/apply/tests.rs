use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::client::Body;
use kube::core::Status;

use super::*;
use crate::store::{Store, StoreSet, Watch};

fn refusal(code: u16, reason: &str) -> kube::Error {
    kube::Error::Api(Box::new(Status {
        code,
        reason: reason.to_owned(),
        message: "because".to_owned(),
        ..Status::default()
    }))
}

fn target() -> Target {
    Target::of::<ConfigMap>("ns", "name")
}

/// Covers every code that Kubernetes and HTTP know, with the API server's reason. Unlisted codes are retried: an unknown code is never a
/// permanent refusal.
#[test]
fn every_refusal_has_its_class() {
    let told = [
        (400, "BadRequest", FailureClass::Invalid),
        (401, "Unauthorized", FailureClass::Retry),
        (403, "Forbidden", FailureClass::Forbidden),
        (404, "NotFound", FailureClass::NotFound),
        (405, "MethodNotAllowed", FailureClass::Invalid),
        (406, "NotAcceptable", FailureClass::Invalid),
        (409, "AlreadyExists", FailureClass::AlreadyExists),
        (409, "Conflict", FailureClass::Conflict),
        (409, "", FailureClass::Conflict),
        (413, "RequestEntityTooLarge", FailureClass::Invalid),
        (415, "UnsupportedMediaType", FailureClass::Invalid),
        (422, "Invalid", FailureClass::Invalid),
    ];
    let again = [
        (410, "Gone"),
        (410, "Expired"),
        (429, "TooManyRequests"),
        (500, "InternalError"),
        (500, "ServerTimeout"),
        (503, "ServiceUnavailable"),
        (504, "Timeout"),
    ];
    let class_of = |code: u16, reason: &str| {
        classify(&Status {
            code,
            reason: reason.to_owned(),
            message: "because".to_owned(),
            ..Status::default()
        })
    };
    for (code, reason, class) in told {
        assert_eq!(class_of(code, reason), class, "{code} {reason}");
    }
    for (code, reason) in again {
        assert_eq!(class_of(code, reason), FailureClass::Retry, "{code} {reason}");
    }
    for code in (0..1000).filter(|code| told.iter().all(|(known, ..)| known != code)) {
        assert_eq!(class_of(code, ""), FailureClass::Retry, "{code}");
    }
}

#[test]
fn a_namespace_on_its_way_out_is_not_forbidden() {
    let status: Status = serde_json::from_value(json!({
        "code": 403,
        "reason": "Forbidden",
        "details": {"causes": [{"reason": "NamespaceTerminating", "message": "", "field": "metadata.namespace"}]},
    }))
    .unwrap();
    assert_eq!(classify(&status), FailureClass::Terminating);
}

#[test]
fn a_quota_that_is_used_up_is_tried_again() {
    let status = Status {
        code: 403,
        reason: "Forbidden".into(),
        message: "pods \"a\" is forbidden: exceeded quota: q".into(),
        ..Status::default()
    };
    assert_eq!(classify(&status), FailureClass::Retry);
}

/// The API server reports it as an internal error.
#[test]
fn a_field_that_a_kind_does_not_have_is_the_same_each_time() {
    let status = Status {
        code: 500,
        message: "failed to create typed patch object (ns/s; /v1, Kind=Service): .spec.x: field not declared in schema".into(),
        ..Status::default()
    };
    assert_eq!(classify(&status), FailureClass::Invalid);
}

#[test]
fn an_existing_object_is_kept_and_a_missing_one_is_gone() {
    let create = Action::create_or_keep(target(), json!({}));
    assert!(matches!(
        outcome_of_error(&create, &refusal(409, "AlreadyExists")),
        Outcome::Kept
    ));
    let delete = Action::delete(target(), Some("uid".into()));
    assert!(matches!(
        outcome_of_error(&delete, &refusal(404, "NotFound")),
        Outcome::Gone
    ));
    assert!(matches!(
        outcome_of_error(&delete, &refusal(409, "Conflict")),
        Outcome::Gone
    ));
    // The object may exist, changed by another client, so the caller has to look again.
    let delete = delete.only_at(Some("7".into()));
    assert!(matches!(
        outcome_of_error(&delete, &refusal(404, "NotFound")),
        Outcome::Gone
    ));
    let outcome = outcome_of_error(&delete, &refusal(409, "Conflict"));
    let Outcome::Failed(failure) = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(failure.class, FailureClass::Conflict);
}

/// A write may have been executed although its answer says that the server gave up. Otherwise the next reconcile would create an existing
/// object, or compute a patch against an older status.
#[tokio::test]
async fn after_an_answer_that_says_nothing_the_object_is_looked_at() {
    for (code, is_looked_at) in [
        (500, true),
        (502, true),
        (503, true),
        (504, true),
        (429, false),
        (409, false),
    ] {
        let service = tower::service_fn(move |request: http::Request<Body>| async move {
            let (code, answer) = if request.method() == http::Method::GET {
                let metadata = json!({"namespace": "ns", "name": "name", "uid": "u", "resourceVersion": "7"});
                (
                    200,
                    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}),
                )
            } else {
                (
                    code,
                    json!({"kind": "Status", "status": "Failure", "code": code, "reason": "Because"}),
                )
            };
            let body = Body::from(answer.to_string().into_bytes());
            Ok::<_, kube::Error>(http::Response::builder().status(code).body(body).unwrap())
        });
        let client = Client::new(service, "default");
        let mut set = StoreSet::new();
        let store: Store<ConfigMap> = set.add(Watch::new(&client));
        // The watch ends here, so only the executor fills the store.
        let stores = set.start(&mut tokio::task::JoinSet::new());
        let executor = Executor::new(client, stores, WriteGate::default());
        let action = Action::create_or_keep(target(), json!({}));
        let outcome = executor.perform(&action).await;
        assert!(matches!(outcome, Outcome::Failed(_)), "{code}: {outcome:?}");
        assert_eq!(store.get("ns", "name").is_some(), is_looked_at, "{code}");
    }
}

/// Returns an executor with a store of ConfigMaps, and the number of writes so far. The server answers every request with `code` and
/// `answer`.
fn executor_on(code: u16, answer: Value) -> (Executor, Store<ConfigMap>, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let service = tower::service_fn(move |request: http::Request<Body>| {
        if request.method() != http::Method::GET {
            count.fetch_add(1, Ordering::Relaxed);
        }
        let body = Body::from(answer.to_string().into_bytes());
        async move { Ok::<_, kube::Error>(http::Response::builder().status(code).body(body).unwrap()) }
    });
    let client = Client::new(service, "default");
    let mut set = StoreSet::new();
    let store: Store<ConfigMap> = set.add(Watch::new(&client));
    // The watch ends here, so only the executor or the test fills the store.
    let stores = set.start(&mut tokio::task::JoinSet::new());
    (Executor::new(client, stores, WriteGate::default()), store, asked)
}

#[tokio::test]
async fn a_plan_ends_at_the_first_failure() {
    let status = json!({"kind": "Status", "status": "Failure", "code": 422, "reason": "Invalid"});
    let (executor, _, asked) = executor_on(422, status);
    let plan = Plan::of(vec![
        Action::create_or_keep(target(), json!({})),
        Action::delete(target(), None),
    ]);
    let outcomes: Vec<Outcome> = executor.act(&plan).await.iter().cloned().collect();
    assert!(
        matches!(outcomes[..], [Outcome::Failed(_), Outcome::NotAttempted]),
        "{outcomes:?}"
    );
    assert_eq!(asked.load(Ordering::Relaxed), 1);
}

/// Returns an executor on a server that answers no writes, and reads only if `reads` is true.
fn executor_on_silent(reads: bool) -> Executor {
    let service = tower::service_fn(move |request: http::Request<Body>| async move {
        if !reads || request.method() != http::Method::GET {
            std::future::pending::<()>().await;
        }
        let body = json!({"kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound"});
        let body = Body::from(body.to_string().into_bytes());
        Ok::<_, kube::Error>(http::Response::builder().status(404).body(body).unwrap())
    });
    let client = Client::new(service, "default");
    Executor::new(client, StoreSetHandle::default(), WriteGate::default())
}

/// After a silent server each write would wait as long as the first. A single slow write, as of a slow webhook, does not block the
/// others.
#[tokio::test(start_paused = true)]
async fn a_server_that_is_silent_ends_the_round_and_a_write_that_is_does_not() {
    for (reads, attempted) in [(false, 1), (true, 10)] {
        let plan = Plan {
            actions: vec![Action::delete(target(), None); 10],
            independent: 10,
            ..Plan::default()
        };
        let begin = tokio::time::Instant::now();
        let outcomes = executor_on_silent(reads).act(&plan).await;
        let failed = outcomes.failures().filter(|(_, failure)| failure.is_unanswered());
        assert_eq!(failed.count(), attempted, "reads are answered: {reads}");
        let left = outcomes
            .iter()
            .filter(|outcome| matches!(outcome, Outcome::NotAttempted));
        assert_eq!(left.count(), 10 - attempted);
        if !reads {
            assert!(
                begin.elapsed() <= REQUEST_DEADLINE + 2 * SECOND_LOOK,
                "{:?}",
                begin.elapsed()
            );
        }
    }
}

#[tokio::test]
async fn what_is_deleted_leaves_the_stores_at_once() {
    let (executor, store, _) = executor_on(200, json!({"kind": "Status", "status": "Success", "code": 200}));
    let object = json!({"metadata": {"namespace": "ns", "name": "name", "uid": "u", "resourceVersion": "7"}});
    store.put(serde_json::from_value(object).unwrap());
    let outcome = executor
        .perform(&Action::delete(target(), Some("u".into())))
        .await;
    assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
    assert_eq!(store.get("ns", "name"), None);
}

/// An object of the same name that was created since is not deleted.
#[test]
fn a_deletion_is_of_what_was_seen() {
    let preconditions = |uid: Option<&str>, version: Option<&str>| {
        let delete = Action::delete(target(), uid.map(str::to_owned)).only_at(version.map(str::to_owned));
        let request = request_of(&delete).unwrap();
        let body: Value = serde_json::from_slice(request.body()).unwrap();
        body["preconditions"].clone()
    };
    assert_eq!(preconditions(Some("u"), None), json!({"uid": "u"}));
    let both = json!({"uid": "u", "resourceVersion": "7"});
    assert_eq!(preconditions(Some("u"), Some("7")), both);
    assert_eq!(preconditions(None, None), Value::Null);
}

/// Names come from bundles and statuses. A name with a slash would be another path, and so another object.
#[test]
fn an_impossible_name_is_not_requested() {
    for name in ["a/b", "..", ".", "a?dryRun=All", "a%2fb"] {
        let target = Target::of::<ConfigMap>("ns", name);
        let refusal = request_of(&Action::delete(target, None)).err();
        assert!(
            refusal.is_some_and(|text| text.contains("is not a valid object name")),
            "{name}"
        );
    }
}

#[test]
fn a_guarded_patch_carries_its_preconditions() {
    let action = Action::Patch {
        target: target(),
        patch: json!({"status": {"phase": "Pending"}}),
        subresource: Some("status"),
        guard: Guard::of_uid(Some("u".into())),
        identity: Identity::Operator,
    };
    let request = request_of(&action).unwrap();
    assert_eq!(
        request.uri().path(),
        "/api/v1/namespaces/ns/configmaps/name/status"
    );
    let body: Value = serde_json::from_slice(request.body()).unwrap();
    assert_eq!(
        body,
        json!({"status": {"phase": "Pending"}, "metadata": {"uid": "u"}})
    );
}

#[test]
fn a_replacement_goes_whole_to_the_object_or_to_its_status() {
    let object = json!({"metadata": {"uid": "u", "resourceVersion": "7"}, "data": {}});
    for (subresource, path) in [(None, "name"), (Some("status"), "name/status")] {
        let action = Action::Replace {
            target: target(),
            object: object.clone(),
            subresource,
            identity: Identity::Operator,
        };
        let request = request_of(&action).unwrap();
        assert_eq!(request.method(), http::Method::PUT);
        assert_eq!(
            request.uri().path(),
            format!("/api/v1/namespaces/ns/configmaps/{path}")
        );
        let body: Value = serde_json::from_slice(request.body()).unwrap();
        assert_eq!(body, object);
    }
}

/// Without a field manager the API server calls the owner of these fields `unknown`.
#[test]
fn whatever_is_written_says_who_writes_it() {
    let (target, object) = (target(), json!({"metadata": {"name": "name"}}));
    let identity = Identity::Operator;
    let create = Action::Create {
        target: target.clone(),
        object: object.clone(),
        exists: Exists::Fail,
        identity: identity.clone(),
    };
    let replace = |subresource| Action::Replace {
        target: target.clone(),
        object: object.clone(),
        subresource,
        identity: identity.clone(),
    };
    let patch = Action::patch(target.clone(), object.clone(), Guard::default());
    for action in [create, replace(None), replace(Some("status")), patch] {
        let request = request_of(&action).unwrap();
        let query = request.uri().query().unwrap_or_default();
        assert!(
            query.split('&').any(|part| part == "fieldManager=olm"),
            "{action:?}: {query}"
        );
    }
}

#[test]
fn a_tenants_write_is_made_in_the_tenants_name() {
    let action = Action::Create {
        target: target(),
        object: json!({}),
        exists: Exists::Fail,
        identity: Identity::ServiceAccount {
            namespace: "ns".into(),
            name: "scoped".into(),
        },
    };
    let request = request_of(&action).unwrap();
    assert_eq!(
        request.headers()["impersonate-user"],
        "system:serviceaccount:ns:scoped"
    );
    // Impersonating named groups needs a right to do so; the groups of an account are implied.
    assert!(!request.headers().contains_key("impersonate-group"));
    assert_eq!(
        request.headers()["impersonate-extra-olm.operatorframework.io"],
        "marks"
    );
    let unmarked = Identity::Unmarked {
        namespace: "ns".into(),
        name: "installer".into(),
    };
    let request = request_of(&action.by(unmarked)).unwrap();
    assert_eq!(
        request.headers()["impersonate-user"],
        "system:serviceaccount:ns:installer"
    );
    assert!(
        !request
            .headers()
            .contains_key("impersonate-extra-olm.operatorframework.io"),
        "the account could set labels that OLM trusts"
    );
}

/// The olm-operator compares the returned Deployment with the one it applied; no code compares definitions.
#[test]
fn most_of_a_writes_response_is_dropped() {
    let object = |kind: &str| json!({"kind": kind, "metadata": {"name": "a", "uid": "1", "managedFields": [{}]}, "spec": {"x": 1}});
    assert_eq!(
        without_bulk(object("Deployment")),
        json!({"kind": "Deployment", "metadata": {"name": "a", "uid": "1"}, "spec": {"x": 1}})
    );
    assert_eq!(
        without_bulk(object("CustomResourceDefinition")),
        json!({"kind": "CustomResourceDefinition", "metadata": {"name": "a", "uid": "1"}})
    );
    let secret = json!({"kind": "Secret", "metadata": {"name": "a"}, "data": {"tls.key": "a2V5"}});
    assert_eq!(
        without_bulk(secret),
        json!({"kind": "Secret", "metadata": {"name": "a"}})
    );
    let config = json!({"kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": "b"}, "binaryData": {"c": "ZA=="}});
    assert_eq!(
        without_bulk(config),
        json!({"kind": "ConfigMap", "metadata": {"name": "a"}})
    );
    assert_eq!(without_bulk(Value::Null), Value::Null);
}
