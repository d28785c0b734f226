//! Who is told what, and who waits for whom.

use http::{Request, Response};
use kube::client::Body;
use serde_json::json;

use super::*;

/// A page comes after this time, and another one after it for as long as pages are slow. At once comes one resource without spec.
fn checks(page: Duration) -> (CustomResources, Arc<Mutex<Vec<String>>>) {
    let service = tower::service_fn(move |_: Request<Body>| async move {
        tokio::time::sleep(page).await;
        let next = if page.is_zero() { "" } else { "more" };
        let items = if page.is_zero() {
            json!([{"metadata": {"name": "x"}}])
        } else {
            json!([])
        };
        let text = json!({"metadata": {"continue": next}, "items": items}).to_string();
        Ok::<_, std::convert::Infallible>(Response::new(Body::from(text.into_bytes())))
    });
    let woken = Arc::<Mutex<Vec<String>>>::default();
    let of_wake = Arc::clone(&woken);
    let wake = move |plan: &NamespacedName| of_wake.lock().push(plan.to_string());
    (CustomResources::new(Client::new(service, "default"), wake), woken)
}

fn request(namespace: &str, plan: &str) -> CheckRequest {
    CheckRequest {
        plan: NamespacedName::new(namespace, plan),
        crd: "demos.example.com".to_owned(),
        group: "example.com".to_owned(),
        plural: "demos".to_owned(),
        versions: vec![("v1".to_owned(), json!({"type": "object"}))],
        of: "1".to_owned(),
    }
}

fn is_checking(state: &CheckState) -> bool {
    matches!(state, CheckState::Checking { .. })
}

/// A plan that was told to wait asks nobody meanwhile.
#[tokio::test(start_paused = true)]
async fn a_check_that_waits_long_for_its_turn_is_not_forgotten() {
    let (checks, woken) = checks(Duration::from_secs(29));
    for plan in ["first", "second", "third"] {
        assert!(is_checking(&checks.check(request("a", plan))));
    }
    tokio::time::sleep(KEPT_FOR + Duration::from_secs(50)).await;
    assert!(is_checking(&checks.check(request("b", "other"))));
    tokio::time::sleep(CHECK_TIME - Duration::from_secs(40)).await;
    assert!(woken.lock().contains(&"a/third".to_owned()));
    let answer = checks.check(request("a", "third"));
    assert_eq!(answer, CheckState::Unread("timed out after 600 s".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_check_that_is_given_up_wakes_who_waits() {
    let (checks, woken) = checks(Duration::from_secs(29));
    checks.check(request("a", "plan"));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let changed = CheckRequest {
        of: "2".to_owned(),
        ..request("a", "plan")
    };
    checks.check(changed);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(*woken.lock(), ["a/plan"]);
}

/// Two steps may have a definition each of one name.
#[tokio::test(start_paused = true)]
async fn two_schemas_for_one_definition_are_two_checks() {
    let (checks, _) = checks(Duration::ZERO);
    let other = || CheckRequest {
        versions: vec![("v1".to_owned(), json!({"type": "object", "required": ["spec"]}))],
        ..request("a", "plan")
    };
    assert!(is_checking(&checks.check(request("a", "plan"))));
    assert!(is_checking(&checks.check(other())));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(checks.check(request("a", "plan")), CheckState::Fits);
    let answer = checks.check(other());
    assert!(
        matches!(&answer, CheckState::Misfit(misfit) if misfit.fields == "spec: is required"),
        "{answer:?}"
    );
}
