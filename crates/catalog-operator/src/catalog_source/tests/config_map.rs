//! Catalogs from a ConfigMap.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::*;
use crate::stores::config_maps::Version;

fn version(number: u32, content: &str) -> ConfigMapState {
    ConfigMapState::Found(Version {
        uid: "cm-uid".to_owned(),
        resource_version: number.to_string(),
        content_hash: content.to_owned(),
        owners: Some(vec![owner("u1")]),
        is_watched: true,
    })
}

fn owner(uid: &str) -> OwnerReference {
    let mut owner = objects::owner_reference(&image_source(), objects::Ownership::Plain);
    owner.uid = uid.to_owned();
    owner
}

fn owned_by(owners: Option<Vec<OwnerReference>>) -> Observed {
    let ConfigMapState::Found(found) = version(7, "hash") else {
        unreachable!()
    };
    with(ConfigMapState::Found(Version { owners, ..found }))
}

/// A ConfigMap is deleted with its CatalogSource, as in upstream. Its existing owners are kept.
#[test]
fn the_catalog_becomes_an_owner_of_its_config_map_and_then_serves() {
    for others in [vec![], vec![owner("former"), owner("somebody")]] {
        let observed = owned_by(Some(others.clone()));
        let actions = decide::decide(&observed, now()).0.actions;
        let [
            Action::Patch {
                target, patch, guard, ..
            },
        ] = &actions[..]
        else {
            unreachable!("{actions:?}")
        };
        assert_eq!(target.to_string(), "ConfigMap ns/content");
        let owners: Vec<OwnerReference> =
            serde_json::from_value(patch["metadata"]["ownerReferences"].clone()).unwrap();
        assert_eq!(owners, [others, vec![owner("u1")]].concat());
        assert_eq!(
            (guard.uid.as_deref(), guard.resource_version.as_deref()),
            (Some("cm-uid"), Some("7"))
        );
        // Nothing is reported before it exists.
        assert_eq!(status_of(&observed), CatalogSourceStatus::default());
    }
    // A user with write access to CatalogSources must not be able to have any ConfigMap deleted.
    assert!(plan_text(&owned_by(None)).contains("create Pod"));
}

/// The answer to the write shows that a webhook removed the owner: this version is served without one.
#[test]
fn a_config_map_that_gets_no_owner_is_served_without() {
    let mut observed = owned_by(Some(vec![]));
    let (_, verdict) = decide::decide(&observed, now());
    let recorded = |version: &str| {
        let written = Outcome::Done(Arc::new(json!({"metadata": {"resourceVersion": version}})));
        let outcomes = outcomes_for_tests(vec![written]);
        status::compose(&observed, &verdict, &outcomes, now())
    };
    assert_eq!(recorded("8"), CatalogSourceStatus::default(), "it has the owner");
    let status = recorded("7");
    let reference = status.config_map_reference.as_ref().unwrap();
    assert_eq!(reference.resource_version.as_deref(), Some("7"));
    Arc::make_mut(&mut observed.source).status = Some(status);
    assert!(plan_text(&observed).contains("create Pod"));
    // The next version is tried again.
    observed.config_map = version(8, "hash");
    if let ConfigMapState::Found(version) = &mut observed.config_map {
        version.owners = Some(vec![]);
    }
    assert!(plan_text(&observed).starts_with("patch ConfigMap ns/content"));
}

#[test]
fn a_config_map_that_cannot_be_owned_is_reported_in_upstreams_words() {
    let observed = owned_by(Some(vec![]));
    let told = |class: FailureClass| {
        let (_, verdict) = decide::decide(&observed, now());
        let failed = Outcome::Failed(Failure {
            class,
            code: 0,
            message: "no".to_owned(),
            action: String::new(),
        });
        let status = status::compose(&observed, &verdict, &outcomes_for_tests(vec![failed]), now());
        (
            status.reason.unwrap_or_default(),
            status.message.unwrap_or_default(),
        )
    };
    let text = "unable to write owner onto catalog source configmap - no".to_owned();
    assert_eq!(told(FailureClass::Forbidden), ("ConfigMapError".to_owned(), text));
    assert_eq!(told(FailureClass::Conflict), (String::new(), String::new()));
}

fn with(config_map: ConfigMapState) -> Observed {
    let spec = json!({"sourceType": "configmap", "configMap": "content", "secrets": ["pull"]});
    Observed {
        config_map,
        ..fresh(source(spec))
    }
}

#[test]
fn cat_009_a_new_config_map_source_gets_upstreams_objects_without_rights() {
    for source_type in ["configmap", "internal"] {
        let spec = json!({"sourceType": source_type, "configMap": "content"});
        let observed = Observed {
            config_map: version(7, "hash"),
            ..fresh(source(spec))
        };
        insta::allow_duplicates! {
            insta::assert_snapshot!(plan_text(&observed), @r"
            create NetworkPolicy ns/cat.a-grpc-server
            create NetworkPolicy ns/cat.a-unpack-bundles
            create ServiceAccount ns/cat.a-configmap-server (keep)
            create Service ns/cat-a
            create Pod ns/cat.a-
            ");
            insta::assert_json_snapshot!(status_of(&observed), @r#"
            {
              "configMapReference": {
                "name": "content",
                "namespace": "ns",
                "uid": "cm-uid",
                "resourceVersion": "7",
                "lastUpdateTime": "2026-11-20T21:28:52Z"
              },
              "registryService": {
                "protocol": "grpc",
                "serviceName": "cat-a",
                "serviceNamespace": "ns",
                "port": "50051",
                "createdAt": "2026-11-20T21:28:52Z"
              },
              "connectionState": {
                "address": "cat-a.ns.svc:50051",
                "lastObservedState": "CONNECTING",
                "lastConnect": "2026-11-20T21:28:52Z"
              }
            }
            "#);
        }
    }
}

#[test]
fn cat_009_the_pod_has_the_content_and_no_token() {
    let observed = with(version(7, "hash"));
    let pod = wanted_pod(&observed);
    let labels = pod.metadata.labels.as_ref().unwrap();
    assert_eq!(labels["olm.configMapResourceVersion"], "7");
    assert_eq!(labels["olm.catalogSource"], "cat.a");
    let spec = pod.spec.unwrap();
    assert_eq!(spec.automount_service_account_token, Some(false));
    assert_eq!(
        spec.service_account_name.as_deref(),
        Some("cat.a-configmap-server")
    );
    assert_eq!(
        serde_json::to_value(&spec.volumes).unwrap(),
        json!([{"name": "configmap", "configMap": {"name": "content", "optional": true, "items": [
            {"key": "customResourceDefinitions", "path": "customResourceDefinitions"},
            {"key": "clusterServiceVersions", "path": "clusterServiceVersions"},
            {"key": "packages", "path": "packages"},
        ]}}])
    );
    let server = &spec.containers[0];
    assert_eq!(server.name, "configmap-registry-server");
    assert_eq!(server.image.as_deref(), Some("opm"));
    assert_eq!(server.command.as_deref().unwrap(), ["/bin/opm"]);
    assert_eq!(
        server.args.as_deref().unwrap(),
        ["serve-configmap", "/configmap", "--content-hash=hash"]
    );
    let mounts = serde_json::to_value(&server.volume_mounts).unwrap();
    assert_eq!(
        mounts,
        json!([{"name": "configmap", "mountPath": "/configmap", "readOnly": true}])
    );
    let root = server
        .security_context
        .as_ref()
        .unwrap()
        .read_only_root_filesystem;
    assert_eq!(root, Some(true));

    let account = objects::build_service_account(&observed.source);
    assert_eq!(account.automount_service_account_token, Some(false));
    assert_eq!(account.image_pull_secrets, None);
    let owner = &account.metadata.owner_references.unwrap()[0];
    assert_eq!(
        (owner.controller, owner.block_owner_deletion),
        (Some(false), Some(false))
    );
    // Same as for every catalog: open ingress, no egress.
    let policy = objects::build_server_policy(&observed.source).spec.unwrap();
    assert_eq!(policy.egress, Some(Vec::new()));
}

/// Also for an account that upstream created.
#[test]
fn an_account_that_gives_tokens_is_put_right() {
    let mut observed = converge(with(version(7, "hash")));
    let mut account = objects::build_service_account(&observed.source);
    account.automount_service_account_token = None;
    observed.service_account = Some(Arc::new(account));
    assert_eq!(
        plan_text(&observed).lines().next().unwrap(),
        "patch ServiceAccount ns/cat.a-configmap-server {\"automountServiceAccountToken\":false}"
    );
}

#[test]
fn the_pod_follows_pod_config_and_namespace() {
    let spec = json!({"sourceType": "configmap", "configMap": "content", "grpcPodConfig": {
        "nodeSelector": {"a": "b"}, "priorityClassName": "high", "memoryTarget": "5Mi"}});
    let mut observed = Observed {
        config_map: version(7, "hash"),
        ..fresh(source(spec))
    };
    observed.settings.namespace_restricted = true;
    let spec = wanted_pod(&observed).spec.unwrap();
    assert_eq!(spec.node_selector.unwrap()["a"], "b");
    assert_eq!(spec.priority_class_name.as_deref(), Some("high"));
    assert!(spec.security_context.unwrap().seccomp_profile.is_some());
    let server = &spec.containers[0];
    let context = server.security_context.as_ref().unwrap();
    assert_eq!(context.allow_privilege_escalation, Some(false));
    assert_eq!(server.env.as_ref().unwrap()[0].value.as_deref(), Some("5MiB"));
}

#[test]
fn cat_009_new_content_is_served_before_the_old_pod_goes() {
    let mut observed = converge(with(version(7, "old")));
    assert_eq!(plan_text(&observed), "");
    observed.config_map = version(8, "new");
    assert_eq!(plan_text(&observed), "create Pod ns/cat.a-\n");
    let new = named(wanted_pod(&observed), "cat-2");
    observed.pods.push(Arc::new(starting(new.clone())));
    // The old one serves until the new one is ready.
    assert_eq!(
        plan_text(&observed),
        "again in 25s: registry pod becoming ready\n"
    );
    observed.pods[1] = Arc::new(ready(new));
    assert_eq!(plan_text(&observed), "delete Pod ns/cat-1\n");
}

/// A user who writes annotations to the ConfigMap every second causes no new pods.
#[test]
fn another_version_of_the_same_content_needs_no_other_pod() {
    let mut observed = converge(with(version(7, "same")));
    observed.config_map = version(8, "same");
    assert_eq!(plan_text(&observed), "");
    let reference = status_of(&observed).config_map_reference.unwrap();
    assert_eq!(reference.resource_version.as_deref(), Some("8"));
}

#[test]
fn the_status_of_a_version_is_reported_once() {
    let mut observed = converge(with(version(7, "same")));
    let mut status = status_of(&observed);
    let reference = status.config_map_reference.as_mut().unwrap();
    let since = Time(earlier(600));
    reference.last_update_time = Some(since.clone());
    Arc::make_mut(&mut observed.source).status = Some(status);
    let told = status_of(&observed).config_map_reference.unwrap();
    assert_eq!(told.last_update_time, Some(since));
    // It is not a ConfigMap source any more.
    observed.parsed = source::Source::Address("a:1".to_owned());
    assert_eq!(status_of(&observed).config_map_reference, None);
}

#[tokio::test]
async fn cat_009_a_missing_config_map_is_reported_and_what_runs_stays() {
    for (state, cause) in [
        (ConfigMapState::Missing, "configmaps \"content\" not found"),
        (
            ConfigMapState::Unread("the API server answers 403 Forbidden".to_owned()),
            "the API server answers 403 Forbidden",
        ),
    ] {
        let mut observed = with(state.clone());
        assert!(decide::decide(&observed, now()).0.actions.is_empty());
        let status = status_of(&observed);
        assert_eq!(status.reason.as_deref(), Some("ConfigMapError"));
        let text = format!("failed to get catalog config map content: {cause}");
        assert_eq!(status.message, Some(text.clone()));
        assert_eq!(
            (
                status.registry_service,
                status.connection_state,
                status.config_map_reference
            ),
            (None, None, None)
        );

        observed = converge(with(version(7, "hash")));
        observed.connection = link();
        let served = status_of(&observed);
        Arc::make_mut(&mut observed.source).status = Some(served.clone());
        observed.config_map = state;
        assert!(decide::decide(&observed, now()).0.actions.is_empty());
        let status = status_of(&observed);
        assert_eq!(status.message, Some(text));
        assert_eq!(status.config_map_reference, served.config_map_reference);
        assert_eq!(status.registry_service, served.registry_service);
        assert_eq!(status.connection_state.unwrap().last_observed_state, "READY");
    }
}

/// Only one with the label is watched, and only a catalog gets the label.
#[test]
fn a_config_map_that_is_not_watched_is_read_again() {
    let requeue = |observed: &Observed| decide::decide(observed, now()).0.requeue;
    let ConfigMapState::Found(found) = version(7, "hash") else {
        unreachable!()
    };
    let no_catalog = ConfigMapState::Found(Version {
        owners: None,
        is_watched: false,
        ..found
    });
    for (state, seconds) in [
        (ConfigMapState::Missing, 15),
        (ConfigMapState::Unread("no".to_owned()), 15),
        (no_catalog, 300),
    ] {
        let found = requeue(&with(state.clone()));
        assert!(
            matches!(found, Requeue::After { delay, .. } if delay == Duration::from_secs(seconds)),
            "{state:?}"
        );
    }
    // Both are often of one file.
    let mut observed = with(ConfigMapState::Missing);
    let mut source = CatalogSource::clone(&observed.source);
    source.metadata.creation_timestamp = Some(Time(earlier(5)));
    observed.source = source.into();
    assert!(matches!(requeue(&observed), Requeue::After { delay, .. } if delay == Duration::from_secs(2)));
    let served = converge(with(version(7, "hash")));
    assert_eq!(requeue(&served), Requeue::AwaitChange);
}

/// Of one that was owned before, too, as upstream's are.
#[test]
fn a_config_map_without_the_label_gets_it() {
    let ConfigMapState::Found(found) = version(7, "hash") else {
        unreachable!()
    };
    let observed = with(ConfigMapState::Found(Version {
        is_watched: false,
        ..found
    }));
    let actions = decide::decide(&observed, now()).0.actions;
    let [Action::Patch { patch, .. }] = &actions[..] else {
        unreachable!("{actions:?}")
    };
    assert_eq!(patch["metadata"]["labels"], json!({"olm.catalogSource": "cat.a"}));
    let owners = patch["metadata"]["ownerReferences"].as_array().unwrap();
    assert_eq!(owners.len(), 1, "{patch}");
    // One whose label a webhook takes off is served all the same.
    let mut observed = observed;
    let reference = json!({"name": "content", "namespace": "ns", "uid": found_uid(&observed), "resourceVersion": "7",
        "lastUpdateTime": "2026-01-01T00:00:00Z"});
    let mut source = CatalogSource::clone(&observed.source);
    source.status.get_or_insert_default().config_map_reference =
        Some(serde_json::from_value(reference).unwrap());
    observed.source = source.into();
    let (plan, _) = decide::decide(&observed, now());
    assert!(!plan.to_string().contains("patch ConfigMap"), "{plan}");
    assert!(matches!(plan.requeue, Requeue::After { .. }));
}

fn found_uid(observed: &Observed) -> String {
    let ConfigMapState::Found(found) = &observed.config_map else {
        unreachable!()
    };
    found.uid.clone()
}

#[test]
fn a_catalog_turned_to_a_config_map_serves_on() {
    let mut observed = converged(image_source());
    let spec = json!({"sourceType": "configmap", "configMap": "content"});
    observed.source = Arc::new(source(spec));
    observed.parsed = source::parse_source(&observed.source);
    observed.config_map = version(7, "hash");
    observed.service_account = None;
    assert_eq!(
        plan_text(&observed),
        "create ServiceAccount ns/cat.a-configmap-server (keep)\ncreate Pod ns/cat.a-\n"
    );
}

#[test]
fn a_config_map_wakes_the_catalogs_that_are_made_of_it() {
    let named = |name: &str, spec: Value| {
        let mut source = source(spec);
        source.metadata.name = Some(name.to_owned());
        source
    };
    let sources = [
        named("one", json!({"sourceType": "configmap", "configMap": "content"})),
        named("two", json!({"sourceType": "internal", "configMap": "content"})),
        named("other", json!({"sourceType": "configmap", "configMap": "other"})),
        named(
            "image",
            json!({"sourceType": "grpc", "image": IMAGE, "configMap": "content"}),
        ),
    ];
    let woken = triggers::made_of_config_map(&NamespacedName::new("ns", "content"), &sources);
    let names: Vec<_> = woken.iter().map(|key| key.name.as_str()).collect();
    assert_eq!(names, ["one", "two"]);
}
