//! Tests of plans whose preview is outdated.

use super::*;

/// A request that fails is reported and does not count as a change to what was shown.
#[tokio::test]
async fn a_look_that_fails_stops_no_approval() {
    let cluster = cluster();
    logged_in(&cluster, async |browser| {
        let page = browser.page("plan?namespace=shop&name=install-1").await;
        cluster.on_request(|request| {
            let is_look = request.subject().starts_with("ServiceAccount ");
            is_look.then(|| Fault::Refuse(Refusal::forbidden("no")))
        });
        let seen = browser.submit("approve", &form(&page)).await;
        assert_eq!(seen.status, 303, "{}", seen.body);
        assert!(is_approved(&cluster));
    })
    .await;
    let cluster = super::cluster();
    cluster.on_request(|request| {
        let is_look = request.subject().starts_with("ServiceAccount ");
        is_look.then(|| Fault::Refuse(Refusal::forbidden("no")))
    });
    logged_in(&cluster, async |browser| {
        let text = text_of(&browser.page("plan?namespace=shop&name=install-1").await);
        assert!(text.contains("not looked at, whether 1 of the objects"), "{text}");
    })
    .await;
}

/// Both OLM's mark and differences found now are shown. A change between display and click prevents the approval.
#[tokio::test]
async fn a_plan_whose_preview_is_outdated_is_shown_as_such() {
    let cluster = cluster();
    logged_in(&cluster, async |browser| {
        let page = browser.page("plan?namespace=shop&name=install-1").await;
        assert!(!page.body.contains("outdated"), "{}", page.body);
        cluster.put(json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": "shop", "name": "etcd"}}));
        let seen = browser.submit("approve", &form(&page)).await;
        assert_ne!(seen.status, 303, "{}", seen.body);
        assert!(!is_approved(&cluster));
        let outdated = json!({"version": 1, "since": "2026-01-03T00:00:00Z",
            "objects": [{"change": "gone", "kind": "Role", "name": "etcd", "namespace": "shop"}]});
        let mark = json!({"metadata": {"annotations": {olm_api::labels::PLAN_PREVIEW_OUTDATED: outdated.to_string()}}});
        assert!(cluster.edit("InstallPlan", "shop", "install-1", &mark));
        let text = text_of(&browser.page("plan?namespace=shop&name=install-1").await);
        for part in [
            "its preview is outdated since 2026-01-03T00:00:00Z: Role shop/etcd, which it changes, is gone",
            "its preview is outdated: ServiceAccount shop/etcd, which it creates, is there by now",
        ] {
            assert!(text.contains(part), "{text}");
        }
    })
    .await;
}
