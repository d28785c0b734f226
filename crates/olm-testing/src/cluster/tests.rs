//! Tests of the fake cluster through a real client.

#![expect(clippy::disallowed_methods, reason = "what writes do is what is tested")]

use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::Role;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};

use super::{Doom, FakeCluster, Fault, Link, Refusal};

fn cluster() -> (FakeCluster, Client, Link) {
    let cluster = FakeCluster::new();
    cluster.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}}));
    let (client, link) = cluster.connect();
    (cluster, client, link)
}

fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name, "labels": {"a": "1"}}, "data": {"x": "1"}}))
        .unwrap()
}

fn code<T: std::fmt::Debug>(answer: kube::Result<T>) -> (u16, String) {
    match answer {
        Err(kube::Error::Api(status)) => (status.code, status.reason.clone()),
        other => unreachable!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn objects_are_made_read_changed_and_deleted() {
    let (_, client, _) = cluster();
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), "ns");
    let made = api
        .create(&PostParams::default(), &config_map("a"))
        .await
        .unwrap();
    assert!(made.uid().is_some() && made.creation_timestamp().is_some());
    assert_eq!(
        code(api.create(&PostParams::default(), &config_map("a")).await),
        (409, "AlreadyExists".into())
    );
    assert_eq!(code(api.get("b").await), (404, "NotFound".into()));
    let elsewhere: Api<ConfigMap> = Api::namespaced(client, "nowhere");
    assert_eq!(
        code(elsewhere.create(&PostParams::default(), &config_map("a")).await),
        (404, "NotFound".into())
    );
    let patch = Patch::Merge(json!({"data": {"x": null, "y": "2"}}));
    let changed = api.patch("a", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(
        changed.data.clone().unwrap().into_keys().collect::<Vec<_>>(),
        ["y"]
    );
    let again = api.patch("a", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(
        again.resource_version(),
        changed.resource_version(),
        "a change that changes nothing is none"
    );
    let stale = Patch::Merge(json!({"metadata": {"resourceVersion": made.resource_version()}, "data": {}}));
    assert_eq!(
        code(api.patch("a", &PatchParams::default(), &stale).await),
        (409, "Conflict".into())
    );
    let other = Preconditions {
        uid: Some("other".into()),
        resource_version: None,
    };
    let older = Preconditions {
        uid: made.uid(),
        resource_version: made.resource_version(),
    };
    for preconditions in [other, older] {
        let params = DeleteParams {
            preconditions: Some(preconditions),
            ..DeleteParams::default()
        };
        assert_eq!(code(api.delete("a", &params).await), (409, "Conflict".into()));
    }
    api.delete("a", &DeleteParams::default()).await.unwrap();
    assert!(api.get_opt("a").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn finalizers_hold_what_is_deleted_and_a_namespace_on_its_way_takes_nothing() {
    let (cluster, client, _) = cluster();
    let api: Api<ConfigMap> = Api::namespaced(client, "ns");
    let mut held = config_map("a");
    held.metadata.finalizers = Some(vec!["x/y".into()]);
    api.create(&PostParams::default(), &held).await.unwrap();
    let left = api
        .delete("a", &DeleteParams::default())
        .await
        .unwrap()
        .left()
        .unwrap();
    assert!(left.metadata.deletion_timestamp.is_some());
    let release = Patch::Merge(json!({"metadata": {"finalizers": []}}));
    api.patch("a", &PatchParams::default(), &release).await.unwrap();
    assert!(api.get_opt("a").await.unwrap().is_none());
    cluster.edit(
        "Namespace",
        "",
        "ns",
        &json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
    );
    let refused = api.create(&PostParams::default(), &config_map("b")).await;
    let Err(kube::Error::Api(status)) = refused else {
        unreachable!("{refused:?}")
    };
    assert_eq!(status.code, 403);
    assert_eq!(status.details.unwrap().causes[0].reason, "NamespaceTerminating");
}

#[tokio::test(start_paused = true)]
async fn a_status_is_written_by_its_subresource_alone_and_specs_count_generations() {
    let (cluster, client, _) = cluster();
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(
        "operators.coreos.com",
        "v1",
        "OperatorGroup",
    ));
    let api: Api<DynamicObject> = Api::namespaced_with(client, "ns", &kind);
    let object: DynamicObject = serde_json::from_value(
        json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
        "metadata": {"generateName": "og-"}, "spec": {"a": 1}, "status": {"made": "up"}}),
    )
    .unwrap();
    let made = api.create(&PostParams::default(), &object).await.unwrap();
    assert!(
        made.name_any().starts_with("og-") && made.data["status"].is_null(),
        "{made:?}"
    );
    let both = Patch::Merge(json!({"spec": {"a": 2}, "status": {"b": 1}}));
    let params = PatchParams::default();
    let status = api.patch_status(&made.name_any(), &params, &both).await.unwrap();
    assert_eq!(
        (&status.data["spec"]["a"], &status.data["status"]["b"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(status.metadata.generation, Some(1));
    let spec = api
        .patch(
            &made.name_any(),
            &params,
            &Patch::Merge(json!({"spec": {"a": 2}, "status": null})),
        )
        .await
        .unwrap();
    assert_eq!(
        (&spec.data["spec"]["a"], &spec.data["status"]["b"]),
        (&json!(2), &json!(1))
    );
    assert_eq!(spec.metadata.generation, Some(2));
    assert_eq!(cluster.log().writes.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn what_is_applied_belongs_to_its_manager() {
    let (_, client, _) = cluster();
    let api: Api<Role> = Api::namespaced(client, "ns");
    let role = |labels: Value| {
        Patch::Apply(
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": "r", "labels": labels}, "rules": []}),
        )
    };
    let params = PatchParams::apply("m").force();
    api.patch("r", &params, &role(json!({"a": "1", "b": "1"})))
        .await
        .unwrap();
    api.patch(
        "r",
        &PatchParams::default(),
        &Patch::Merge(json!({"metadata": {"labels": {"c": "1"}}})),
    )
    .await
    .unwrap();
    let applied = api.patch("r", &params, &role(json!({"b": "1"}))).await.unwrap();
    assert_eq!(applied.labels().keys().collect::<Vec<_>>(), ["b", "c"]);
    let again = api.patch("r", &params, &role(json!({"b": "1"}))).await.unwrap();
    assert_eq!(applied.resource_version(), again.resource_version());
}

/// As on a real API server, a write based on an outdated read is refused completely.
#[tokio::test(start_paused = true)]
async fn a_list_of_owners_is_taken_as_it_is_written_or_not_at_all() {
    let (cluster, client, _) = cluster();
    let deployment = |spec: Value| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": "ns", "name": "d", "labels": {"a": "1"}},
            "spec": spec})
    };
    let full = json!({"minReadySeconds": 5, "paused": true, "selector": {}, "template": {"metadata": {"labels": {"x": "1", "y": "2"}}}});
    cluster.put_as("olm", deployment(full));
    let live = || cluster.get("Deployment", "ns", "d").unwrap();
    let owners = || live()["metadata"]["managedFields"].clone();
    let before = live();
    let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
    assert_eq!(
        before["metadata"]["managedFields"][0]["fieldsV1"]["f:metadata"],
        json!({"f:labels": {"f:a": {}}})
    );

    let labels = json!({"f:metadata": {"f:labels": {"f:x": {}}}});
    let entry = json!({"manager": "m", "operation": "Apply", "apiVersion": "apps/v1", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {"f:minReadySeconds": {}, "f:template": labels}}});
    let api: Api<k8s_openapi::api::apps::v1::Deployment> = Api::namespaced(client, "ns");
    let hand_over = |version: Value| {
        let patch = Patch::Merge(json!({"metadata": {"managedFields": [entry], "resourceVersion": version}}));
        let api = api.clone();
        async move { api.patch("d", &PatchParams::default(), &patch).await }
    };
    cluster.edit_as(
        "other",
        "Deployment",
        "ns",
        "d",
        &json!({"spec": {"replicas": 2}}),
    );
    let known = owners();
    let refused = hand_over(version(&before)).await;
    assert_eq!(code(refused), (409, "Conflict".into()));
    assert_eq!(owners(), known, "a refused patch leaves all as it was");

    hand_over(version(&live())).await.unwrap();
    let named: Vec<Value> = owners()
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["manager"].clone())
        .collect();
    assert_eq!(named, ["m"], "who is not named owns nothing");
    let applied = Patch::Apply(
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"paused": true}}),
    );
    api.patch("d", &PatchParams::apply("m").force(), &applied)
        .await
        .unwrap();
    let spec = &live()["spec"];
    assert!(
        spec["minReadySeconds"].is_null() && spec["replicas"] == 2 && spec["paused"] == true,
        "{spec}"
    );
    assert_eq!(spec["template"]["metadata"]["labels"], json!({"y": "2"}));
}

#[tokio::test(start_paused = true)]
async fn lists_come_in_pages_and_by_labels() {
    let (_, client, _) = cluster();
    let api: Api<ConfigMap> = Api::all(client.clone());
    for name in ["a", "b", "c"] {
        let api: Api<ConfigMap> = Api::namespaced(client.clone(), "ns");
        api.create(&PostParams::default(), &config_map(name))
            .await
            .unwrap();
    }
    let first = api.list(&ListParams::default().limit(2)).await.unwrap();
    let token = first.metadata.continue_.clone().unwrap();
    let second = api
        .list(&ListParams::default().limit(2).continue_token(&token))
        .await
        .unwrap();
    assert_eq!((first.items.len(), second.items.len()), (2, 1));
    assert_eq!(second.metadata.continue_, None);
    assert!(
        api.list(&ListParams::default().labels("!a"))
            .await
            .unwrap()
            .items
            .is_empty()
    );
    let named = api
        .list_metadata(&ListParams::default().fields("metadata.name=b"))
        .await
        .unwrap();
    assert_eq!(named.items.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_watch_reports_changes_in_order_through_breaks_holds_and_lost_history() {
    let (cluster, client, _) = cluster();
    let api: Api<ServiceAccount> = Api::all(client);
    let config = watcher::Config::default().labels("on=1").page_size(1);
    let mut events = Box::pin(
        watcher(api, config)
            .default_backoff()
            .map_ok(|event| match event {
                watcher::Event::Init => "init".to_owned(),
                watcher::Event::InitApply(object) => format!("init {}", object.name_any()),
                watcher::Event::InitDone => "done".to_owned(),
                watcher::Event::Apply(object) => format!("apply {}", object.name_any()),
                watcher::Event::Delete(object) => format!("delete {}", object.name_any()),
            }),
    );
    let account = |name: &str, on: &str| json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": "ns", "name": name, "labels": {"on": on}}});
    cluster.put(account("a", "1"));
    cluster.put(account("b", "1"));
    let mut next = async |count: usize| {
        let mut seen = Vec::new();
        while seen.len() < count {
            seen.extend(events.next().await.unwrap().ok());
        }
        seen
    };
    assert_eq!(next(4).await, ["init", "init a", "init b", "done"]);
    cluster.put(account("c", "1"));
    cluster.put(account("b", "0"));
    assert_eq!(
        next(2).await,
        ["apply c", "delete b"],
        "what no longer fits the selector is gone"
    );
    cluster.end_watches("");
    cluster.put(account("d", "1"));
    assert_eq!(next(1).await, ["apply d"]);
    cluster.hold("ServiceAccount");
    cluster.put(account("e", "1"));
    assert!(
        tokio::time::timeout(Duration::from_secs(3600), next(1))
            .await
            .is_err(),
        "held back"
    );
    cluster.release("ServiceAccount");
    assert_eq!(next(1).await, ["apply e"]);
    cluster.hold("ServiceAccount");
    assert!(cluster.delete("ServiceAccount", "ns", "a"));
    cluster.forget_history();
    cluster.release("ServiceAccount");
    assert_eq!(next(5).await, ["init", "init c", "init d", "init e", "done"]);
}

#[tokio::test(start_paused = true)]
async fn kinds_come_with_their_definitions_and_go_with_them() {
    let (cluster, client, _) = cluster();
    assert_eq!(client.apiserver_version().await.unwrap().git_version, "v1.34.4");
    let demo = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "demos.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "demos", "kind": "Demo"},
            "versions": [{"name": "v1", "served": true, "storage": true}]}});
    cluster.put(demo);
    assert!(client.list_api_group_resources("example.com/v1").await.is_err());
    cluster.control();
    let served = client.list_api_group_resources("example.com/v1").await.unwrap();
    assert_eq!(served.resources[0].kind, "Demo");
    cluster.set_dead("example.com", true);
    assert_eq!(
        code(client.list_api_group_resources("example.com/v1").await).0,
        503
    );
    cluster.set_dead("example.com", false);
    cluster.delete("CustomResourceDefinition", "", "demos.example.com");
    assert_eq!(
        code(client.list_api_group_resources("example.com/v1").await).0,
        404
    );
}

#[tokio::test(start_paused = true)]
async fn what_has_lost_its_owners_is_collected() {
    let (cluster, client, _) = cluster();
    let api: Api<ConfigMap> = Api::namespaced(client, "ns");
    let owner = api
        .create(&PostParams::default(), &config_map("owner"))
        .await
        .unwrap();
    let mut owned = config_map("owned");
    owned.metadata.owner_references = Some(vec![
        serde_json::from_value(json!({"apiVersion": "v1", "kind": "ConfigMap",
        "name": "owner", "uid": owner.uid()}))
        .unwrap(),
    ]);
    for (policy, left) in [
        (DeleteParams::orphan(), 1),
        (DeleteParams::background(), 0),
        (DeleteParams::foreground(), 0),
    ] {
        cluster.delete("ConfigMap", "ns", "owner");
        cluster.delete("ConfigMap", "ns", "owned");
        let owner = api
            .create(&PostParams::default(), &config_map("owner"))
            .await
            .unwrap();
        owned.metadata.owner_references.as_mut().unwrap()[0].uid = owner.uid().unwrap();
        api.create(&PostParams::default(), &owned).await.unwrap();
        api.delete("owner", &policy).await.unwrap();
        cluster.control();
        assert_eq!(
            api.list(&ListParams::default()).await.unwrap().items.len(),
            left,
            "{policy:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn requests_are_refused_lost_or_never_answered() {
    let (cluster, ..) = cluster();
    let doom = Doom::default();
    let (client, link) = cluster.connect_doomed(&doom);
    let api: Api<Namespace> = Api::all(client);
    let object =
        |name: &str| serde_json::from_value::<Namespace>(json!({"metadata": {"name": name}})).unwrap();
    cluster.on_request(|request| {
        request
            .subject()
            .ends_with("refused")
            .then(|| Fault::Refuse(Refusal::forbidden("no")))
    });
    cluster.on_request(|request| request.subject().ends_with("lost").then_some(Fault::LoseAnswer));
    assert_eq!(
        code(api.create(&PostParams::default(), &object("refused")).await).0,
        403
    );
    assert!(api.create(&PostParams::default(), &object("lost")).await.is_err());
    assert!(
        cluster.get("Namespace", "", "lost").is_some() && cluster.get("Namespace", "", "refused").is_none()
    );
    doom.after(1);
    let answer = tokio::time::timeout(
        Duration::from_secs(3600),
        api.create(&PostParams::default(), &object("last")),
    )
    .await;
    assert!(!link.is_alive());
    assert!(
        answer.is_err() && cluster.get("Namespace", "", "last").is_some(),
        "done, but nobody is told"
    );
    let answer = tokio::time::timeout(Duration::from_secs(3600), api.get("last")).await;
    assert!(answer.is_err());
    assert_eq!(
        cluster.log().writes,
        [
            "create Namespace refused REFUSED Forbidden",
            "create Namespace lost",
            "create Namespace last"
        ]
    );
}
