use serde_json::json;

use super::*;

fn config_map(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1"},
        "metadata": {
            "name": name, "namespace": "ns", "labels": {"mine": "1"},
            "annotations": {labels::LAST_APPLIED_CONFIGURATION: "{}"},
        },
    })
}

fn desired(version: &str, names: &[&str]) -> DesiredRevision<'static> {
    DesiredRevision {
        extension: "e",
        extension_uid: "u",
        annotations: [
            (labels::EXTENSION_BUNDLE_VERSION.to_owned(), version.to_owned()),
            (labels::EXTENSION_PACKAGE_NAME.to_owned(), "p".to_owned()),
        ]
        .into(),
        objects: names.iter().map(|name| config_map(name)).collect(),
        adopts: false,
        progress_deadline_minutes: None,
        system_namespace: "olm",
        has_secrets: true,
    }
}

/// Returns the ClusterObjectSet that a decision creates.
fn created(decision: &RevisionDecision) -> Arc<ClusterObjectSet> {
    assert!(!decision.phases.is_empty(), "{decision:?}");
    let Some(Action::Apply { object, .. }) = decision.actions.last() else {
        panic!("{decision:?}");
    };
    Arc::new(serde_json::from_value(object.clone()).unwrap())
}

fn texts(decision: &RevisionDecision) -> Vec<String> {
    decision.actions.iter().map(Action::to_string).collect()
}

fn numbered(number: i64, state: LifecycleState) -> Arc<ClusterObjectSet> {
    let decision = decide_revision(&[], &desired("1.0.0", &["a"])).unwrap();
    let mut set = ClusterObjectSet::clone(&created(&decision));
    set.metadata.name = Some(format!("e-{number}"));
    set.spec.revision = number;
    set.spec.lifecycle_state = state;
    Arc::new(set)
}

fn with_condition(
    set: &Arc<ClusterObjectSet>,
    type_: &str,
    status: &str,
    reason: &str,
) -> Arc<ClusterObjectSet> {
    let mut value = to_value(&**set);
    value["status"] = json!({"conditions": [{
        "type": type_, "status": status, "reason": reason, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]});
    Arc::new(serde_json::from_value(value).unwrap())
}

#[test]
fn the_first_revision_consists_of_secrets_and_a_set() {
    let decision = decide_revision(&[], &desired("1.0.0", &["a", "b"])).unwrap();
    let set = created(&decision);
    let texts = texts(&decision);
    assert_eq!(texts.len(), 2);
    assert!(texts[0].starts_with("apply Secret olm/e-1-"), "{texts:?}");
    assert_eq!(texts[1], "apply ClusterObjectSet e-1");
    assert_eq!(set.spec.revision, 1);
    assert_eq!(set.spec.phases[0].name, "configuration");
    assert_eq!(set.spec.phases[0].objects.len(), 2);
    assert_eq!(set.labels()[labels::EXTENSION_OWNER_NAME], "e");
    assert_eq!(set.annotations()[labels::EXTENSION_BUNDLE_VERSION], "1.0.0");
    assert_eq!(set.owner_references()[0].uid, "u");
    assert_eq!(set.finalizers(), [FINALIZER]);
}

#[test]
fn objects_are_marked() {
    let decision = decide_revision(&[], &desired("1.0.0", &["a"])).unwrap();
    assert_eq!(
        decision.phases[0].objects,
        [json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1"},
            "metadata": {
                "name": "a", "namespace": "ns",
                "labels": {"mine": "1", labels::EXTENSION_OWNER_KIND: "ClusterExtension", labels::EXTENSION_OWNER_NAME: "e"},
                "annotations": {labels::EXTENSION_BUNDLE_VERSION: "1.0.0", labels::EXTENSION_PACKAGE_NAME: "p"},
            },
        })]
    );
}

#[test]
fn the_same_objects_need_no_revision_and_others_need_the_next() {
    let first = created(&decide_revision(&[], &desired("1.0.0", &["a"])).unwrap());
    let revisions = [first];
    let same = decide_revision(&revisions, &desired("1.0.0", &["a"])).unwrap();
    assert_eq!(same, RevisionDecision::default());
    let mut lost = desired("1.0.0", &["a"]);
    lost.has_secrets = false;
    let restored = texts(&decide_revision(&revisions, &lost).unwrap());
    assert_eq!(restored.len(), 1, "{restored:?}");
    assert!(restored[0].starts_with("apply Secret olm/e-1-"), "{restored:?}");
    // The version is in an annotation of each object.
    for changed in [desired("1.1.0", &["a"]), desired("1.0.0", &["b"])] {
        let decision = decide_revision(&revisions, &changed).unwrap();
        assert_eq!(created(&decision).name_any(), "e-2");
    }
    let mut other = desired("1.0.0", &["a"]);
    other
        .annotations
        .insert(labels::EXTENSION_BUNDLE_NAME.to_owned(), "b".to_owned());
    let decision = decide_revision(&revisions, &other).unwrap();
    assert!(decision.phases.is_empty(), "{decision:?}");
    assert_eq!(
        texts(&decision),
        ["apply ClusterObjectSet e-1"],
        "annotations may change"
    );
    other.adopts = true;
    let decision = decide_revision(&revisions, &other).unwrap();
    assert_eq!(created(&decision).name_any(), "e-2", "the protection may not");
}

#[test]
fn only_the_first_revision_takes_over_objects() {
    let adopting = |version| DesiredRevision {
        adopts: true,
        ..desired(version, &["a"])
    };
    let first = created(&decide_revision(&[], &adopting("1.0.0")).unwrap());
    let protection = &first.spec.collision_protection;
    assert_eq!(*protection, CollisionProtection::IfNoController);
    let revisions = [first];
    let same = decide_revision(&revisions, &adopting("1.0.0")).unwrap();
    assert_eq!(same, RevisionDecision::default());
    let second = created(&decide_revision(&revisions, &adopting("1.1.0")).unwrap());
    assert_eq!(second.spec.revision, 2);
    assert_eq!(second.spec.collision_protection, CollisionProtection::Prevent);
}

#[test]
fn archived_revisions_beyond_the_fifth_are_deleted() {
    let (active, archived) = (LifecycleState::Active, LifecycleState::Archived);
    // In any order.
    let revisions = [
        numbered(8, active.clone()),
        numbered(7, archived.clone()),
        numbered(6, archived.clone()),
        numbered(5, archived.clone()),
        numbered(4, archived.clone()),
        numbered(3, archived.clone()),
        numbered(2, active),
        numbered(1, archived),
    ];
    let decision = decide_revision(&revisions, &desired("2.0.0", &["a"])).unwrap();
    let texts = texts(&decision);
    assert_eq!(
        texts[..2],
        ["delete ClusterObjectSet e-1", "delete ClusterObjectSet e-3"],
        "an active one is never deleted"
    );
    assert_eq!(texts.last().unwrap(), "apply ClusterObjectSet e-9");
    assert_eq!(texts.len(), 4);
}

#[test]
fn the_newest_succeeded_revision_is_the_installed_one() {
    let active = |number| numbered(number, LifecycleState::Active);
    let succeeded = |number| with_condition(&active(number), words::SUCCEEDED, TRUE, words::REASON_SUCCEEDED);
    let archived = with_condition(
        &numbered(1, LifecycleState::Archived),
        words::SUCCEEDED,
        TRUE,
        words::REASON_SUCCEEDED,
    );
    let revisions = [
        active(5),
        active(4),
        succeeded(3),
        active(2),
        succeeded(1),
        archived,
    ];
    let found = active_revisions(&revisions);
    assert_eq!(found.installed.map(|set| set.spec.revision), Some(3));
    let rolling_out: Vec<i64> = found.rolling_out.iter().map(|set| set.spec.revision).collect();
    assert_eq!(rolling_out, [4, 5]);
}

#[test]
fn a_revision_that_needs_help_is_stuck() {
    let set = numbered(1, LifecycleState::Active);
    assert!(!is_stuck(&set));
    for (status, reason, expected) in [
        (TRUE, words::ROLLING_OUT, false),
        (TRUE, words::REASON_SUCCEEDED, false),
        (TRUE, words::RETRYING, true),
        (FALSE, words::BLOCKED, true),
        (FALSE, words::PROGRESS_DEADLINE_EXCEEDED, true),
    ] {
        let set = with_condition(&set, words::PROGRESSING, status, reason);
        assert_eq!(is_stuck(&set), expected, "{reason}");
    }
}

#[test]
fn secrets_get_their_revision_as_the_owner_once() {
    let mut set = ClusterObjectSet::clone(&numbered(1, LifecycleState::Active));
    set.metadata.uid = Some("s".to_owned());
    let mut secret = ObjectMeta {
        namespace: Some("olm".to_owned()),
        name: Some("e-1-a".to_owned()),
        owner_references: Some(vec![OwnerReference {
            kind: EXTENSION.to_owned(),
            uid: "u".to_owned(),
            ..OwnerReference::default()
        }]),
        ..ObjectMeta::default()
    };
    let actions = own_secrets(&set, &[secret.clone()]);
    let Action::Patch { patch, target, .. } = &actions[0] else {
        panic!("{actions:?}");
    };
    assert_eq!(target.to_string(), "Secret olm/e-1-a");
    let owners = &patch["metadata"]["ownerReferences"];
    assert_eq!((&owners[0]["uid"], &owners[1]), (&json!("s"), &Value::Null));
    secret.owner_references = serde_json::from_value(owners.clone()).unwrap();
    assert!(own_secrets(&set, &[secret]).is_empty());
}
