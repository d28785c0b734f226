//! Texts of a cluster on pages: none is markup.

use super::*;

#[tokio::test]
async fn texts_of_a_cluster_are_texts() {
    let cluster = cluster();
    let hostile = "<script>alert(1)</script>\u{202e}\"'&\u{1b}[2J";
    let status = json!({"conditions": [{"type": hostile, "status": "True", "message": hostile},
        {"type": "ResolutionFailed", "status": "True", "message": hostile}]});
    let mut other = subscription("evil", &status);
    other["spec"]["channel"] = json!(hostile);
    other["spec"]["name"] = json!(hostile);
    cluster.put(other);
    let mut told = waiting("{}");
    told["metadata"]["annotations"] = json!({olm_api::labels::PLAN_PREVIEW: json!({"version": 1, "objects": [
        {"verb": "create", "kind": hostile, "name": hostile}], "unknown": [hostile]}).to_string()});
    told["spec"]["clusterServiceVersionNames"] = json!([hostile]);
    cluster.put(told);
    logged_in(&cluster, async |browser| {
        for page in [
            "operators",
            "operators?q=%3Cscript%3Ealert(1)%3C/script%3E%22",
            "operator?namespace=shop&name=evil",
            "plan?namespace=shop&name=install-1",
        ] {
            let seen = browser.page(page).await;
            assert_eq!(seen.status, 200, "{page}: {}", seen.body);
            assert!(
                seen.body.contains("&lt;script&gt;alert(1)"),
                "{page}: {}",
                seen.body
            );
            for letter in ["<script>", "\u{202e}", "\u{1b}", "\"\"'"] {
                assert!(!seen.body.contains(letter), "{page}: {letter:?}");
            }
        }
    })
    .await;
}
