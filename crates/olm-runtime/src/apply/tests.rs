use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::Status;

use super::*;

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

#[test]
fn refusals_are_classed() {
    for (code, reason, class) in [
        (401, "Unauthorized", FailureClass::Forbidden),
        (403, "Forbidden", FailureClass::Forbidden),
        (404, "NotFound", FailureClass::NotFound),
        (409, "AlreadyExists", FailureClass::AlreadyExists),
        (409, "Conflict", FailureClass::Conflict),
        (422, "Invalid", FailureClass::Invalid),
        (429, "TooManyRequests", FailureClass::Retry),
        (500, "InternalError", FailureClass::Retry),
        (504, "Timeout", FailureClass::Retry),
    ] {
        let kube::Error::Api(status) = refusal(code, reason) else {
            unreachable!()
        };
        assert_eq!(classify(&status), class, "{code} {reason}");
    }
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
}

#[test]
fn a_guarded_patch_carries_its_preconditions() {
    let action = Action::Patch {
        target: target(),
        patch: json!({"status": {"phase": "Pending"}}),
        subresource: Some("status"),
        guard: Guard {
            uid: Some("u".into()),
            resource_version: None,
        },
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
    let groups: Vec<_> = request.headers().get_all("impersonate-group").iter().collect();
    assert_eq!(
        groups,
        [
            "system:serviceaccounts",
            "system:serviceaccounts:ns",
            "system:authenticated"
        ]
    );
}
