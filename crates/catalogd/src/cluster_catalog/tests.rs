//! Catalogs on the cluster in memory, and the decisions about one.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use olm_testing::stage::story::{Interruption, Story, assert_rests, every_interruption, tell};

use super::*;
use crate::test_env::{BASE_URL, IMAGE, Step, TestEnv, catalog, catalog_of};
use crate::unpacking::Unpacked;

const SUCCEEDED: &str = "True Succeeded: Successfully unpacked and stored content from resolved source";
const SERVING: &str = "True Available: Serving desired content from resolved source";
const OFF: &str = "Catalog availability mode is set to Unavailable";

/// A catalog that polls each five minutes.
fn polling() -> Value {
    let mut polling = catalog();
    polling["spec"]["source"]["image"]["pollIntervalMinutes"] = json!(5);
    polling
}

/// An environment in which the catalog `a` has the content `schema: one`.
fn served(catalog: Value) -> TestEnv {
    let mut env = TestEnv::new();
    env.registry.push(IMAGE, "schema: one\n");
    env.put(catalog);
    env.settle();
    assert_eq!(env.served("a").as_deref(), Some("{\"schema\":\"one\"}\n"));
    env
}

#[test]
fn a_new_catalog_is_served_and_reported_as_recorded() {
    let mut env = TestEnv::new();
    let digest = env.registry.push(IMAGE, "schema: one\n");
    env.put(catalog());
    env.settle();
    let catalog = env.get("a");
    assert_eq!(
        catalog["metadata"]["finalizers"],
        json!(["olm.operatorframework.io/delete-server-cache"])
    );
    assert_eq!(
        catalog["metadata"]["labels"],
        json!({"olm.operatorframework.io/metadata.name": "a"})
    );
    let status = &catalog["status"];
    assert_eq!(
        status["resolvedSource"],
        json!({"type": "Image", "image": {"ref": format!("reg.example/cat@{digest}")}})
    );
    assert_eq!(status["urls"], json!({"base": format!("{BASE_URL}/a")}));
    assert_eq!(status["lastUnpacked"], "2026-01-01T00:00:00Z");
    assert_eq!(env.condition("a", "Progressing"), SUCCEEDED);
    assert_eq!(env.condition("a", "Serving"), SERVING);
    let conditions = status["conditions"].as_array().unwrap();
    let types: Vec<&Value> = conditions.iter().map(|condition| &condition["type"]).collect();
    assert_eq!(types, ["Progressing", "Serving"]);
    assert!(
        conditions
            .iter()
            .all(|condition| condition["observedGeneration"] == 1)
    );
    assert_eq!(env.writes.len(), 2, "{:#?}", env.writes);
}

#[test]
fn an_image_that_does_not_exist_is_tried_again() {
    let mut env = TestEnv::new();
    env.put(catalog());
    env.settle();
    let retrying = "True Retrying: source catalog content: manifest unknown";
    assert_eq!(env.condition("a", "Progressing"), retrying);
    assert_eq!(env.condition("a", "Serving"), "none");
    assert_eq!(env.get("a")["status"]["urls"], Value::Null);
    let (writes, (resolved, _)) = (env.writes.len(), env.registry.counts());
    env.settle_for(3600);
    let (tried, fetched) = env.registry.counts();
    // Twelve in an hour at the longest delay, and a few sooner.
    assert!((12..25).contains(&(tried - resolved)), "{tried} {resolved}");
    assert_eq!((fetched, env.writes.len()), (0, writes), "{:#?}", env.writes);
    env.registry.push(IMAGE, "schema: one\n");
    env.settle_for(301);
    assert_eq!(env.condition("a", "Progressing"), SUCCEEDED);
    assert_eq!(env.condition("a", "Serving"), SERVING);
}

#[test]
fn an_error_that_stays_is_not_tried_again_until_the_spec_changes() {
    let mut env = TestEnv::new();
    let digest = env.registry.push("reg.example/other:v1", "schema: one\n");
    env.registry
        .fail_fetch(&digest, UnpackError::terminal("no label"));
    env.put(catalog_of("a", &format!("reg.example/cat@{digest}")));
    env.settle();
    assert_eq!(
        env.condition("a", "Progressing"),
        "False Blocked: source catalog content: no label"
    );
    let counts = env.registry.counts();
    env.settle_for(7200);
    assert_eq!(env.registry.counts(), counts);
    env.registry.push(IMAGE, "schema: two\n");
    env.edit("a", &json!({"spec": {"source": {"image": {"ref": IMAGE}}}}));
    env.settle();
    assert_eq!(env.condition("a", "Progressing"), SUCCEEDED);
    let conditions = env.get("a")["status"]["conditions"].clone();
    assert_eq!(conditions[0]["observedGeneration"], 2);
}

#[test]
fn references_that_are_none_are_final() {
    let mut env = TestEnv::new();
    env.put(catalog_of("a", "reg.example/Cat:v1"));
    env.settle();
    let condition = env.condition("a", "Progressing");
    let text = "False Blocked: source catalog content: terminal error: error parsing image reference \"reg.example/Cat:v1\": ";
    assert!(condition.starts_with(text), "{condition}");
}

#[test]
fn what_is_no_catalog_is_reported_and_the_old_content_stays() {
    let mut env = served(polling());
    env.registry.push(IMAGE, "name: x\n");
    env.settle_for(310);
    assert_eq!(
        env.condition("a", "Progressing"),
        "True Retrying: error storing fbc: error walking FBC root: catalog.yaml, document 1: object '{\"name\":\"x\"}' is missing root \
         schema field"
    );
    assert_eq!(env.condition("a", "Serving"), SERVING);
    assert_eq!(env.served("a").as_deref(), Some("{\"schema\":\"one\"}\n"));
    assert_eq!(env.on_disk(), ["a"]);
}

#[test]
fn a_moved_tag_is_found_in_the_interval_and_an_equal_digest_writes_nothing() {
    let mut env = served(polling());
    env.writes.clear();
    let (resolved, _) = env.registry.counts();
    env.settle_for(3000);
    let (again, fetched) = env.registry.counts();
    assert!((9..=10).contains(&(again - resolved)), "{again} {resolved}");
    assert_eq!((fetched, env.writes.len()), (1, 0), "{:#?}", env.writes);
    let digest = env.registry.push(IMAGE, "schema: two\n");
    env.settle_for(310);
    assert_eq!(env.served("a").as_deref(), Some("{\"schema\":\"two\"}\n"));
    let status = env.get("a")["status"].clone();
    let resolved = format!("reg.example/cat@{digest}");
    assert_eq!(status["resolvedSource"]["image"]["ref"], resolved);
    assert_ne!(status["lastUnpacked"], "2026-01-01T00:00:00Z");
    assert_eq!(env.condition("a", "Serving"), SERVING);
}

#[test]
fn without_an_interval_a_tag_is_looked_at_once() {
    let mut env = served(catalog());
    env.registry.push(IMAGE, "schema: two\n");
    let counts = env.registry.counts();
    env.settle_for(86_400);
    assert_eq!(env.registry.counts(), counts);
    // Another priority is no other content.
    env.edit("a", &json!({"spec": {"priority": 7}}));
    env.settle();
    assert_eq!(env.registry.counts(), counts);
    assert_eq!(env.get("a")["status"]["conditions"][1]["observedGeneration"], 2);
}

#[test]
fn a_pull_that_fails_later_leaves_the_content_served() {
    let mut env = served(polling());
    env.registry.fail(IMAGE, UnpackError::retried("no answer"));
    env.settle_for(310);
    assert_eq!(
        env.condition("a", "Progressing"),
        "True Retrying: source catalog content: no answer"
    );
    assert_eq!(env.condition("a", "Serving"), SERVING);
    assert_ne!(env.get("a")["status"]["urls"], Value::Null);
    assert_eq!(env.served("a").as_deref(), Some("{\"schema\":\"one\"}\n"));
}

#[test]
fn a_catalog_that_is_switched_off_leaves_nothing_and_comes_back() {
    let mut env = served(catalog());
    env.edit("a", &json!({"spec": {"availabilityMode": "Unavailable"}}));
    env.settle();
    let catalog = env.get("a");
    assert!(
        catalog["metadata"]["finalizers"]
            .as_array()
            .is_none_or(Vec::is_empty)
    );
    let status = &catalog["status"];
    for field in ["resolvedSource", "urls", "lastUnpacked"] {
        assert_eq!(status[field], Value::Null, "{field}");
    }
    assert_eq!(
        env.condition("a", "Progressing"),
        format!("True Succeeded: {OFF}")
    );
    let serving = format!("False UserSpecifiedUnavailable: {OFF}");
    assert_eq!(env.condition("a", "Serving"), serving);
    assert_eq!(env.served("a"), None);
    assert_eq!(env.on_disk(), [""; 0]);
    env.edit("a", &json!({"spec": {"availabilityMode": "Available"}}));
    env.settle();
    assert_eq!(env.condition("a", "Serving"), SERVING);
    assert_eq!(env.served("a").as_deref(), Some("{\"schema\":\"one\"}\n"));
    assert_eq!(env.get("a")["metadata"]["finalizers"], json!([FINALIZER]));
}

#[test]
fn a_deleted_catalog_leaves_nothing() {
    let mut env = served(catalog());
    env.writes.clear();
    env.delete("a");
    env.settle();
    assert_eq!(env.get("a"), Value::Null);
    assert_eq!(env.served("a"), None);
    assert_eq!(env.on_disk(), [""; 0]);
    assert_eq!(env.writes.len(), 1, "{:#?}", env.writes);
}

#[test]
fn while_others_hold_a_deleted_catalog_it_serves_nothing() {
    let mut held = catalog();
    held["metadata"]["finalizers"] = json!(["example.com/held"]);
    let mut env = served(held);
    env.delete("a");
    env.settle();
    let catalog = env.get("a");
    assert_eq!(catalog["metadata"]["finalizers"], json!(["example.com/held"]));
    assert_eq!(catalog["status"]["urls"], Value::Null);
    assert_eq!(env.condition("a", "Serving"), "False Unavailable: ");
    assert_eq!(env.condition("a", "Progressing"), SUCCEEDED);
    assert_eq!(env.served("a"), None);
}

#[test]
fn contents_are_served_after_a_restart_without_being_pulled_again() {
    let mut env = served(catalog());
    env.writes.clear();
    env.stage.kill();
    env.settle_for(60);
    assert_eq!(env.served("a").as_deref(), Some("{\"schema\":\"one\"}\n"));
    assert_eq!(env.registry.counts().1, 1, "fetched");
    assert_eq!(env.writes, [""; 0]);
}

#[test]
fn contents_of_catalogs_that_were_deleted_meanwhile_are_removed() {
    let mut env = served(catalog());
    env.put(catalog_of("b", IMAGE));
    env.settle();
    assert_eq!(env.on_disk(), ["a", "b"]);
    env.stage.kill();
    // Somebody took the finalizer away.
    env.edit("a", &json!({"metadata": {"finalizers": null}}));
    env.delete("a");
    env.delete("b");
    env.settle_for(5);
    assert_eq!((env.get("a"), env.get("b")), (Value::Null, Value::Null));
    assert_eq!(env.on_disk(), [""; 0]);
}

#[test]
fn the_label_is_set_again_and_finalizers_of_others_stay() {
    let mut env = served(catalog());
    env.edit(
        "a",
        &json!({"metadata": {
            "labels": {METADATA_NAME_LABEL: "other", "mine": "x"}, "finalizers": ["example.com/held"],
        }}),
    );
    env.settle();
    let metadata = env.get("a")["metadata"].clone();
    assert_eq!(metadata["labels"], json!({METADATA_NAME_LABEL: "a", "mine": "x"}));
    assert_eq!(metadata["finalizers"], json!(["example.com/held", FINALIZER]));
}

/// A process that does not lead serves what the leader has reported, and writes nothing.
#[test]
fn every_process_serves_every_catalog() {
    let mut env = TestEnv::with_standby();
    env.registry.push(IMAGE, "schema: one\n");
    env.put(polling());
    env.settle_for(2);
    let one = Some("{\"schema\":\"one\"}\n");
    assert_eq!(env.served("a").as_deref(), one);
    assert_eq!(env.served_by_standby("a").as_deref(), one);
    assert_eq!(env.writes.len(), 2, "{:#?}", env.writes);
    env.registry.push(IMAGE, "schema: two\n");
    env.settle_for(310);
    let two = Some("{\"schema\":\"two\"}\n");
    assert_eq!(env.served("a").as_deref(), two);
    assert_eq!(env.served_by_standby("a").as_deref(), two);
    env.edit("a", &json!({"spec": {"availabilityMode": "Unavailable"}}));
    env.settle();
    assert_eq!(env.served_by_standby("a"), None);
    env.edit("a", &json!({"spec": {"availabilityMode": "Available"}}));
    env.settle();
    assert_eq!(env.served_by_standby("a").as_deref(), two);
    env.delete("a");
    env.settle();
    assert_eq!((env.served("a"), env.served_by_standby("a")), (None, None));
}

fn stories() -> Vec<Story<Step>> {
    let switched = |mode: &str| Step::Edit(json!({"spec": {"availabilityMode": mode}}));
    vec![
        (
            "served, moved, deleted",
            vec![
                Step::Push("schema: one\n"),
                Step::Put(polling()),
                Step::Push("schema: two\n"),
                Step::Wait,
                Step::Delete,
            ],
        ),
        (
            "fails, comes, fails",
            vec![
                Step::Put(polling()),
                Step::Push("schema: one\n"),
                Step::Wait,
                Step::Fail,
                Step::Wait,
            ],
        ),
        (
            "switched off and on",
            vec![
                Step::Push("schema: one\n"),
                Step::Put(catalog()),
                switched("Unavailable"),
                switched("Available"),
            ],
        ),
    ]
}

#[test]
fn at_rest_nothing_is_written() {
    for (name, story) in stories() {
        let mut env = TestEnv::new();
        tell(&mut env, &story);
        assert_rests(&mut env, name, 1200, None);
    }
}

#[test]
fn a_process_killed_at_any_write_leaves_the_same_end() {
    every_interruption::<TestEnv>("kills of catalogd", stories(), Interruption::Kill);
}

#[test]
fn an_answer_lost_at_any_write_leaves_the_same_end() {
    every_interruption::<TestEnv>("lost answers of catalogd", stories(), Interruption::LoseAnswer);
}

fn observed(content: ContentState) -> Observed {
    let mut catalog: ClusterCatalog = serde_json::from_value(catalog()).unwrap();
    catalog.metadata = ObjectMeta {
        name: Some("a".into()),
        uid: Some("u".into()),
        resource_version: Some("7".into()),
        generation: Some(3),
        ..ObjectMeta::default()
    };
    Observed {
        catalog: Arc::new(catalog),
        content,
        is_stored: true,
        base_url: BASE_URL.into(),
    }
}

#[test]
fn finalizer_and_label_are_written_at_the_version_that_was_read() {
    let wanted = || ContentState::Wanted(None);
    let both = json!({"metadata": {"finalizers": [FINALIZER], "labels": {METADATA_NAME_LABEL: "a"}}});
    for (content, finalizers, label, expected) in [
        (wanted(), vec![], None, Some(both)),
        (wanted(), vec![FINALIZER], Some("a"), None),
        (
            wanted(),
            vec!["x"],
            Some("a"),
            Some(json!({"metadata": {"finalizers": ["x", FINALIZER]}})),
        ),
        (
            ContentState::SwitchedOff,
            vec![FINALIZER, "x"],
            Some("a"),
            Some(json!({"metadata": {"finalizers": ["x"]}})),
        ),
        (
            ContentState::Deleted,
            vec![FINALIZER],
            None,
            Some(json!({"metadata": {"finalizers": []}})),
        ),
        (ContentState::Deleted, vec!["x"], None, None),
    ] {
        let mut observed = observed(content);
        let catalog = Arc::make_mut(&mut observed.catalog);
        catalog.metadata.finalizers = Some(finalizers.iter().map(|it| (*it).to_owned()).collect());
        catalog.metadata.labels = label.map(|label| [(METADATA_NAME_LABEL.into(), label.into())].into());
        let plan = decide(&observed);
        let found = plan.actions.iter().map(|action| match action {
            Action::Patch {
                patch,
                guard,
                subresource: None,
                ..
            } => {
                assert_eq!(guard.resource_version.as_deref(), Some("7"));
                assert_eq!(guard.uid.as_deref(), Some("u"));
                patch.clone()
            }
            other => panic!("{other}"),
        });
        assert_eq!(
            found.collect::<Vec<_>>(),
            Vec::from_iter(expected),
            "{finalizers:?}"
        );
    }
}

#[test]
fn a_status_that_is_right_is_not_written() {
    let unpacked = Unpacked {
        image: "reg.example/cat@sha256:00".into(),
        stored: "2026-01-01T00:00:00Z".parse().unwrap(),
    };
    let contents = [
        ContentState::SwitchedOff,
        ContentState::Wanted(Some(Ok(unpacked))),
        ContentState::Wanted(Some(Err(UnpackError::retried("x")))),
        ContentState::Wanted(Some(Err(UnpackError::terminal("x")))),
    ];
    let now = "2026-01-02T00:00:00Z".parse().unwrap();
    let later = "2026-01-03T00:00:00Z".parse().unwrap();
    for content in contents {
        let mut observed = observed(content);
        let Some(Action::Patch { patch, .. }) = status(&observed, now) else {
            panic!("{observed:?}");
        };
        let catalog = Arc::make_mut(&mut observed.catalog);
        catalog.status = Some(serde_json::from_value(patch["status"].clone()).unwrap());
        assert_eq!(status(&observed, later), None, "{:?}", observed.content);
    }
    assert_eq!(status(&observed(ContentState::Wanted(None)), now), None);
}

/// In a new pod whose registry does not answer.
#[test]
fn a_content_that_is_not_there_is_not_reported_as_served() {
    let failed = || ContentState::Wanted(Some(Err(UnpackError::retried("x"))));
    let served = json!({"urls": {"base": BASE_URL}, "conditions": [{"type": "Serving", "status": "True", "reason": "Available",
        "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
    for (is_stored, expected) in [(true, "True"), (false, "False")] {
        let mut observed = observed(failed());
        observed.is_stored = is_stored;
        Arc::make_mut(&mut observed.catalog).status = serde_json::from_value(served.clone()).unwrap();
        let now = "2026-01-02T00:00:00Z".parse().unwrap();
        let Some(Action::Patch { patch, .. }) = status(&observed, now) else {
            panic!("{observed:?}");
        };
        let text = patch["status"]["conditions"].to_string();
        assert!(
            text.contains(&format!("\"status\":\"{expected}\",\"type\":\"Serving\"")),
            "{text}"
        );
    }
}

/// A label's value is shorter than a name may be.
#[test]
fn a_long_name_gets_no_label() {
    let mut observed = observed(ContentState::Wanted(None));
    let metadata = &mut Arc::make_mut(&mut observed.catalog).metadata;
    metadata.name = Some("a".repeat(64));
    metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
    assert_eq!(decide(&observed), Plan::default());
}

#[test]
fn sources_that_the_api_server_would_refuse_are_reported() {
    let source = |value: Value| serde_json::from_value::<ClusterCatalogSource>(value).unwrap();
    for (value, text) in [
        (
            json!({"type": "Git"}),
            "terminal error: unknown source type \"Git\"",
        ),
        (
            json!({"type": "Image"}),
            "terminal error: error parsing ClusterCatalog \"a\", image source is nil",
        ),
    ] {
        assert_eq!(request("a", &source(value)), Err(UnpackError::terminal(text)));
    }
    for (minutes, poll) in [
        (Value::Null, None),
        (json!(0), None),
        (json!(-5), None),
        (json!(5), Some(300)),
    ] {
        let image = json!({"ref": "a", "pollIntervalMinutes": minutes});
        let found = request("a", &source(json!({"type": "Image", "image": image}))).unwrap();
        assert_eq!(found.poll, poll.map(Duration::from_secs), "{minutes}");
    }
}

#[test]
fn long_messages_are_cut_between_characters() {
    const LONGEST: usize = 32_768;
    let long = "\u{e4}".repeat(LONGEST);
    let error = UnpackError::retried(format!("ab{long}"));
    let observed = observed(ContentState::Wanted(Some(Err(error))));
    let Some(Action::Patch { patch, .. }) = status(&observed, Timestamp::UNIX_EPOCH) else {
        panic!("no patch");
    };
    let message = patch["status"]["conditions"][0]["message"].as_str().unwrap();
    assert_eq!(message.len(), LONGEST - 1);
    assert!(
        message.ends_with("\u{e4}\n\n... [message truncated]"),
        "{message}"
    );
}
