use olm_testing::cluster::FakeCluster;
use serde_json::Value;

use super::*;

fn preview() -> Value {
    json!({"version": 1, "operators": [{"name": "etcd.v2", "replaces": "etcd.v1"}],
        "objects": [{"verb": "create", "kind": "ServiceAccount", "name": "etcd", "namespace": "shop"},
            {"verb": "change", "kind": "ConfigMap", "name": "settings", "namespace": "shop", "fields": ["data.a"], "keysRemoved": 2, "notCompared": true, "foreign": true}],
        "definitions": [{"name": "etcds.example.com", "versionsAdded": ["v2"], "fieldsRemoved": ["v1: spec.size"]}],
        "permissions": [{"subject": "ServiceAccount etcd", "namespace": "shop",
                "gained": [{"resource": "pods", "verbs": ["get", "list"]}], "lost": [{"group": "apps", "resource": "deployments", "resourceName": "x", "verbs": ["get"]}]},
            {"subject": "ServiceAccount etcd", "gained": [{"role": "ClusterRole view"}, {"url": "/metrics", "verbs": ["get"]}]}],
        "omitted": {"fields": 2}})
}

fn plan() -> Value {
    let step = json!({"resolving": "etcd.v2", "status": "Unknown", "resource": {"sourceName": "", "sourceNamespace": "",
        "group": "", "version": "v1", "kind": "ServiceAccount", "name": "etcd", "manifest": "{}"}});
    json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan",
        "metadata": {"namespace": "shop", "name": "install-1", "annotations": {labels::PLAN_PREVIEW: preview().to_string()},
            "ownerReferences": [{"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription", "name": "db", "uid": "u"}]},
        "spec": {"clusterServiceVersionNames": ["etcd.v2"], "approval": "Manual", "approved": false},
        "status": {"phase": "RequiresApproval", "catalogSources": [], "plan": [step]}})
}

fn object(kind: &str, name: &str, rest: &Value) -> Value {
    let mut object = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": kind, "metadata": {"namespace": "shop", "name": name}});
    object
        .as_object_mut()
        .unwrap()
        .extend(rest.as_object().unwrap().clone());
    object
}

fn cluster(plan: Value) -> FakeCluster {
    let cluster = FakeCluster::new();
    cluster.put(plan);
    let spec = json!({"name": "etcd", "source": "cat", "sourceNamespace": "olm"});
    let status = json!({"lastUpdated": null, "installPlanRef": {"name": "install-1"}});
    cluster.put(object(
        "Subscription",
        "db",
        &json!({"spec": spec, "status": status}),
    ));
    cluster
}

/// The plan as it is then, what was shown, and what came of it.
async fn approved(
    cluster: &FakeCluster,
    name: &str,
    mut answer: impl FnMut() -> bool + Send,
) -> (Value, String, Result<Shown, String>) {
    let mut text = String::new();
    let mut asked = |shown: &Shown| {
        text = shown.to_string();
        Ok(answer())
    };
    let (client, _link) = cluster.connect();
    let result = approve(&Cluster::of(client, "shop"), name, &mut asked).await;
    let plan = cluster.get("InstallPlan", "shop", "install-1").unwrap();
    (plan, text, result.map_err(|error| format!("{error:#}")))
}

#[tokio::test]
async fn what_a_plan_changes_is_shown_and_what_was_shown_is_approved() {
    for name in ["db", "install-1", "installplan/install-1"] {
        let cluster = cluster(plan());
        let (plan, text, result) = approved(&cluster, name, || true).await;
        let shown = result.unwrap();
        assert!(shown.approved && shown.is_new, "{name}");
        assert_eq!(plan["spec"]["approved"], true);
        let found: InstallPlan = serde_json::from_value(plan.clone()).unwrap();
        assert_eq!(
            plan["metadata"]["annotations"][labels::APPROVED_HASH],
            approval::plan_hash(&found)
        );
        let text = text.split_once('\n').unwrap().1;
        insta::allow_duplicates! {
            insta::assert_snapshot!(text, @r"
            for        db
            installs   etcd.v2, replaces etcd.v1
            creates    ServiceAccount shop/etcd
            changes    ConfigMap shop/settings: data.a; 2 other keys are removed (not compared with the cluster) (existed before OLM)
            definition etcds.example.com: serves v2; loses v1: spec.size
            gains      ServiceAccount etcd in namespace shop: get, list pods
            loses      ServiceAccount etcd in namespace shop: get deployments.apps x
            gains      ServiceAccount etcd in the whole cluster: everything that ClusterRole view allows
            gains      ServiceAccount etcd in the whole cluster: get /metrics
            note: omitted from its preview: 2 fields
            ");
        }
    }
}

/// The complete plan is that of the installed version, which the user did not mean.
#[tokio::test]
async fn a_plan_is_complete_whatever_the_next_version_waits_for() {
    for (phase, message, name) in [
        ("Complete", "bundle etcd.v3: no such image", "db"),
        ("Complete", "bundle etcd.v3: no such image", "install-1"),
        // Upstream's OLM leaves the condition behind without a message.
        ("Complete", "", "db"),
        ("RequiresApproval", "bundle etcd.v3: no such image", "db"),
    ] {
        let mut old = plan();
        old["status"]["phase"] = json!(phase);
        old["spec"]["approved"] = json!(phase == "Complete");
        let cluster = cluster(old);
        let conditions = json!([{"type": "BundleUnpacking", "status": "True", "message": message}]);
        assert!(cluster.edit(
            "Subscription",
            "shop",
            "db",
            &json!({"status": {"conditions": conditions}})
        ));
        let (_, _, result) = approved(&cluster, name, || true).await;
        assert!(result.unwrap().approved, "{phase} {message} {name}");
    }
}

/// A hold that was set while the plan waited is not lifted by an approval.
#[tokio::test]
async fn a_plan_outside_a_hold_is_not_approved() {
    let invalid = "held by the invalid annotation operatorframework.io/upgrade-hold: \"no range\": Could not";
    for (range, csvs, refused) in [
        (
            "=1.0.0",
            ["etcd.v2.0.0"],
            Some("held within =1.0.0 by annotation operatorframework.io/upgrade-hold;"),
        ),
        ("no range", ["etcd.v2.0.0"], Some(invalid)),
        ("<3.0.0", ["etcd.v2.0.0"], None),
        // It is the plan of another Subscription.
        ("=1.0.0", ["other.v2.0.0"], None),
    ] {
        for name in ["db", "install-1"] {
            let mut held = plan();
            held["spec"]["clusterServiceVersionNames"] = json!(csvs);
            let cluster = cluster(held);
            let hold = json!({"metadata": {"annotations": {labels::UPGRADE_HOLD: range}},
                "status": {"currentCSV": "etcd.v2.0.0"}});
            assert!(cluster.edit("Subscription", "shop", "db", &hold));
            let (plan, text, result) = approved(&cluster, name, || true).await;
            assert_eq!(plan["spec"]["approved"], refused.is_none(), "{range} {csvs:?}");
            let way_out = "; to allow newer versions use `kubectl operator unhold db -n shop`, or delete the plan with `kubectl \
                           delete installplan install-1 -n shop`";
            match (result, refused) {
                (Ok(_), None) => {}
                (Err(error), Some(refused)) => {
                    let start = format!("cannot approve InstallPlan install-1: Subscription db is {refused}");
                    assert!(error.starts_with(&start) && error.ends_with(way_out), "{error}");
                }
                (result, _) => panic!("{range} {csvs:?}: {result:?}"),
            }
            // It is printed once, as the error.
            assert!(!text.contains("cannot approve"), "{text}");
        }
    }
}

/// The user decides between the hold and the plan by what the plan changes.
#[test]
fn a_plan_that_cannot_be_approved_is_shown_first() {
    let found: InstallPlan = serde_json::from_value(plan()).unwrap();
    let mut shown = Shown::of(&found, Vec::new(), Vec::new());
    shown.refusal = Some("held".to_owned());
    let printed = std::cell::RefCell::new(String::new());
    let print = |text: &str| {
        printed.borrow_mut().push_str(text);
        anyhow::Ok(())
    };
    let ask = |_: &str| -> anyhow::Result<bool> { panic!("nothing is asked") };
    let result = answered(Output::Text, &shown, &print, &ask);
    assert_eq!(result.unwrap_err().to_string(), "held");
    let printed = printed.borrow();
    assert!(printed.contains("installs   etcd.v2"), "{printed}");
}

/// A name cannot contain the `+` of a version, so some have a `-` there, which makes it a pre-release.
#[tokio::test]
async fn a_hold_is_compared_with_the_version_in_the_catalog() {
    let csv = "etcd.v1.9.0-0.1708477317.p";
    let package = json!({"packageName": "etcd", "version": "1.9.0+0.1708477317.p"});
    let properties = json!({"properties": [{"type": "olm.package", "value": package}]});
    let lookup = json!({"path": "x", "identifier": csv, "replaces": "", "catalogSourceRef": {}, "conditions": [],
        "properties": properties.to_string()});
    for (range, is_refused) in [
        ("=1.9.0+0.1708477317.p", false),
        ("=1.9.0", false),
        ("<1.9.0", true),
    ] {
        let mut held = plan();
        held["spec"]["clusterServiceVersionNames"] = json!([csv]);
        held["status"]["bundleLookups"] = json!([lookup]);
        let cluster = cluster(held);
        let hold = json!({"metadata": {"annotations": {labels::UPGRADE_HOLD: range}}, "status": {"currentCSV": csv}});
        assert!(cluster.edit("Subscription", "shop", "db", &hold));
        let (plan, _, result) = approved(&cluster, "db", || true).await;
        assert_eq!(result.is_err(), is_refused, "{range}");
        assert_eq!(plan["spec"]["approved"], !is_refused, "{range}");
    }
}

#[tokio::test]
async fn a_no_leaves_the_plan_as_it_is() {
    let cluster = cluster(plan());
    let before = cluster.get("InstallPlan", "shop", "install-1");
    let (plan, _, result) = approved(&cluster, "db", || false).await;
    assert!(!result.unwrap().approved);
    assert_eq!(Some(plan), before);
}

/// One user changes the steps while another reads the summary.
#[tokio::test]
async fn a_plan_that_changes_meanwhile_is_not_approved() {
    let before = cluster(plan());
    let other = before.clone();
    let change = move || {
        let mut changed = plan();
        changed["status"]["plan"][0]["resource"]["manifest"] = json!("{\"kind\": \"ClusterRole\"}");
        other.put(changed);
        true
    };
    let (plan_after, _, result) = approved(&before, "db", change).await;
    let error = result.unwrap_err();
    assert!(error.contains("changed since it was shown"), "{error}");
    assert_eq!(plan_after["spec"]["approved"], false);

    // A change to a label does not affect what was shown.
    let touched = cluster(plan());
    let other = touched.clone();
    let touch = move || {
        let labelled = json!({"metadata": {"labels": {"a": "b"}}});
        assert!(other.edit("InstallPlan", "shop", "install-1", &labelled));
        true
    };
    let (plan_after, _, result) = approved(&touched, "db", touch).await;
    assert!(result.unwrap().approved);
    assert_eq!(plan_after["spec"]["approved"], true);
}

/// The second user sees that it is approved, and not that nothing was.
#[tokio::test]
async fn a_plan_approved_by_another_user_is_approved() {
    let approval = json!({"spec": {"approved": true}});
    for phase in ["RequiresApproval", "Complete"] {
        let cluster = cluster(plan());
        let (other, approval) = (cluster.clone(), approval.clone());
        let quicker = move || {
            let status = json!({"status": {"phase": phase}});
            assert!(other.edit("InstallPlan", "shop", "install-1", &approval));
            assert!(other.edit("InstallPlan", "shop", "install-1", &status));
            true
        };
        let (_, _, result) = approved(&cluster, "db", quicker).await;
        let shown = result.unwrap();
        assert!(shown.approved && !shown.is_new, "{phase}");
    }
    // An approval of other steps does not count.
    let cluster = cluster(plan());
    let other = cluster.clone();
    let quicker = move || {
        let mut changed = plan();
        changed["spec"]["approved"] = json!(true);
        changed["status"]["plan"][0]["resource"]["manifest"] = json!("{\"kind\": \"ClusterRole\"}");
        other.put(changed);
        true
    };
    let error = approved(&cluster, "db", quicker).await.2.unwrap_err();
    assert!(error.contains("changed since it was shown"), "{error}");
}

/// The user approves what was shown. If the preview changes meanwhile, it is shown and the question is asked again.
#[tokio::test]
async fn changes_during_the_prompt_are_shown_before_the_approval() {
    let preview_with = |unknown: &str| {
        let mut preview = preview();
        preview["unknown"] = json!([unknown]);
        json!({"metadata": {"annotations": {labels::PLAN_PREVIEW: preview.to_string()}}})
    };
    for second in [false, true] {
        let cluster = cluster(plan());
        let other = cluster.clone();
        let mut asked = 0;
        let go = || {
            asked += 1;
            if asked == 1 {
                let change = preview_with("bundle a");
                assert!(other.edit("InstallPlan", "shop", "install-1", &change));
                return true;
            }
            second
        };
        let (plan, text, result) = approved(&cluster, "db", go).await;
        assert_eq!(asked, 2);
        assert!(text.contains("unknown: bundle a"), "{text}");
        assert_eq!(result.unwrap().approved, second);
        assert_eq!(plan["spec"]["approved"], second);
    }
    // A plan whose preview changes at each attempt is not approved.
    let cluster = cluster(plan());
    let (other, mut asked) = (cluster.clone(), 0);
    let changes = move || {
        asked += 1;
        let change = preview_with(&format!("bundle {asked}"));
        assert!(other.edit("InstallPlan", "shop", "install-1", &change));
        true
    };
    let (plan, _, result) = approved(&cluster, "db", changes).await;
    let error = result.unwrap_err();
    assert!(error.contains("changed since it was shown"), "{error}");
    assert_eq!(plan["spec"]["approved"], false);
}

/// OLM writes the preview right after the plan; a user in between must not approve without it.
#[tokio::test(start_paused = true)]
async fn the_preview_of_a_plan_that_was_just_made_is_waited_for() {
    let without = |made: &str| {
        let mut plan = plan();
        plan["metadata"]["creationTimestamp"] = json!(made);
        plan["metadata"]["annotations"] = json!({});
        cluster(plan)
    };
    let (new, old) = ("2999-01-01T00:00:00Z", "2026-01-01T00:00:00Z");
    let of_olm = without(new);
    let preview = json!({"metadata": {"annotations": plan()["metadata"]["annotations"]}});
    let late = of_olm.clone();
    tokio::spawn(async move {
        sleep(Duration::from_secs(2)).await;
        assert!(late.edit("InstallPlan", "shop", "install-1", &preview));
    });
    let (_, text, _) = approved(&of_olm, "db", || false).await;
    assert!(text.contains("creates    ServiceAccount shop/etcd"), "{text}");
    // Plans of upstream's OLM have no preview, and old plans get none later.
    for (made, waits) in [(new, true), (old, false)] {
        let begun = Instant::now();
        let (_, text, _) = approved(&without(made), "db", || false).await;
        assert!(text.contains("note: it has no preview"), "{text}");
        assert_eq!(begun.elapsed() >= PREVIEW_TIME, waits, "{made}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_incomplete_preview_is_reported() {
    let told = |change: fn(&mut Value)| async move {
        let mut changed = plan();
        change(&mut changed);
        approved(&cluster(changed), "db", || false).await.1
    };
    let none = told(|plan| {
        plan["metadata"]["annotations"] = json!({});
    })
    .await;
    assert!(
        none.contains("note: it has no preview") && none.contains("step       ServiceAccount etcd"),
        "{none}"
    );
    let newer = told(|plan| {
        plan["metadata"]["annotations"][labels::PLAN_PREVIEW] = json!("{\"version\": 2}");
    })
    .await;
    assert!(newer.contains("which another version of OLM wrote"), "{newer}");
    let unknown = told(|plan| {
        let mut preview = preview();
        preview["unknown"] = json!(["bundle a: \u{1b}[2J"]);
        plan["metadata"]["annotations"][labels::PLAN_PREVIEW] = json!(preview.to_string());
    });
    let unknown = unknown.await;
    assert!(
        unknown.contains(r"unknown: bundle a: \u{1b}[2J"),
        "no terminal obeys a plan: {unknown}"
    );
}

#[tokio::test]
async fn only_what_waits_can_be_approved() {
    let result = |change: fn(&mut Value), name: &'static str| async move {
        let mut changed = plan();
        change(&mut changed);
        let cluster = cluster(changed);
        approved(&cluster, name, || panic!("nothing is asked")).await.2
    };
    let complete = result(
        |plan| {
            plan["status"]["phase"] = json!("Complete");
        },
        "db",
    )
    .await
    .unwrap();
    assert!(complete.approved && !complete.is_new);
    let failed = result(
        |plan| {
            plan["status"]["phase"] = json!("Failed");
        },
        "db",
    )
    .await;
    let failed = failed.unwrap_err();
    let way_out = "; to resolve: correct the cause, then delete the plan, and OLM creates another: kubectl delete installplan \
                   install-1 -n shop";
    assert!(
        failed.contains("has failed") && failed.ends_with(way_out),
        "{failed}"
    );
    let empty = result(
        |plan| {
            plan["status"] = Value::Null;
        },
        "db",
    )
    .await;
    assert!(empty.unwrap_err().contains("has no steps yet"));
    let unknown = result(|_| {}, "other").await;
    assert_eq!(
        unknown.unwrap_err(),
        "namespace shop has neither a Subscription nor an InstallPlan other"
    );
}

/// A plan approved with another hash does not run in any phase, and is approved again.
#[tokio::test]
async fn an_approval_of_other_steps_is_made_good() {
    for phase in ["RequiresApproval", "Installing"] {
        let mut changed = plan();
        changed["spec"]["approved"] = json!(true);
        changed["status"]["phase"] = json!(phase);
        changed["metadata"]["annotations"][labels::APPROVED_HASH] = json!("other");
        let (plan, _, result) = approved(&cluster(changed), "db", || true).await;
        let shown = result.unwrap();
        assert!(shown.approved && shown.is_new, "{phase}");
        assert_eq!(
            plan["metadata"]["annotations"][labels::APPROVED_HASH],
            json!(shown.hash)
        );
        // A plan that is approved with the right hash is not approved again.
        let (_, _, result) = approved(&cluster(plan), "db", || panic!("nothing is asked")).await;
        assert!(
            result.is_ok_and(|shown| shown.approved && !shown.is_new),
            "{phase}"
        );
    }
}

/// All Subscriptions of a namespace own each of its plans.
#[tokio::test]
async fn a_plan_is_for_those_who_refer_to_it() {
    let owner = |name: &str| json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription", "name": name, "uid": "u"});
    let shown = |owners: Vec<Value>, change: fn(&FakeCluster)| async move {
        let mut owned = plan();
        owned["metadata"]["ownerReferences"] = json!(owners);
        let cluster = cluster(owned);
        let spec = json!({"name": "etcd", "source": "cat", "sourceNamespace": "olm"});
        let status = json!({"lastUpdated": null, "installPlanRef": {"name": "install-2"}});
        cluster.put(object(
            "Subscription",
            "idle",
            &json!({"spec": spec, "status": status}),
        ));
        change(&cluster);
        approved(&cluster, "install-1", || false).await.2.unwrap()
    };
    let of_one = shown(vec![owner("idle"), owner("db"), owner("deleted")], |_| {}).await;
    assert_eq!(
        (of_one.subscriptions, of_one.doubts.len()),
        (vec!["db".to_owned()], 1)
    );
    // The reference is to an earlier plan of the same name.
    let of_nobody = shown(vec![owner("idle"), owner("db")], |cluster| {
        let status = json!({"status": {"installPlanRef": {"name": "install-1", "uid": "another"}}});
        assert!(cluster.edit("Subscription", "shop", "db", &status));
    });
    let of_nobody = of_nobody.await.to_string();
    assert!(
        !of_nobody.contains("for        ") && of_nobody.contains("note: no Subscription refers to it"),
        "{of_nobody}"
    );
    // Users who may write plans can add any number of owners.
    let mut many: Vec<Value> = (0..1000).map(|number| owner(&number.to_string())).collect();
    many.push(owner("db"));
    assert_eq!(shown(many, |_| {}).await.subscriptions, ["db"]);
    // A Subscription that cannot be read may refer to the plan.
    let unread = shown(vec![owner("db"), owner("odd")], |cluster| {
        cluster.put(object("Subscription", "odd", &json!({"spec": {"name": 1}})));
        cluster.put(object("Subscription", "other", &json!({"spec": {"name": 1}})));
    });
    let unread = unread.await;
    assert_eq!(unread.doubts.len(), 2, "{:?}", unread.doubts);
    assert!(
        unread.doubts[0]
            .starts_with("it may belong to more Subscriptions: cannot read Subscription shop/odd: "),
        "{:?}",
        unread.doubts
    );
    // A plan created by hand may have no owner.
    let of_none = shown(Vec::new(), |_| {}).await.to_string();
    assert!(!of_none.contains("refers to it"), "{of_none}");
}

/// JSON and YAML print the document only after the question.
#[test]
fn what_is_asked_about_has_been_shown() {
    let found: InstallPlan = serde_json::from_value(plan()).unwrap();
    let shown = Shown::of(&found, Vec::new(), Vec::new());
    let asked = "Approve InstallPlan install-1?";
    for output in [Output::Json, Output::Yaml] {
        assert_eq!(question(output, &shown), format!("{shown}{asked}"));
    }
    // The text is already on stdout.
    assert_eq!(question(Output::Text, &shown), asked);
}

#[tokio::test]
async fn no_name_says_more_than_a_name() {
    let mut changed = plan();
    let mut told = preview();
    told["permissions"] = json!([{"subject": "User demo in namespace shop: get pods", "gained": [
        {"resource": "secrets", "resourceName": "\u{202e}x", "verbs": ["get", "a, list b"]}]}]);
    told["definitions"] =
        json!([{"name": "etcds.example.com", "versionsAdded": ["v2"], "notCompared": true}]);
    changed["metadata"]["annotations"][labels::PLAN_PREVIEW] = json!(told.to_string());
    let (_, text, _) = approved(&cluster(changed), "db", || false).await;
    let expected = "gains      User \"demo in namespace shop: get pods\" in the whole cluster: get, \"a, list b\" secrets \"\\u{202e}x\"\n";
    assert!(text.contains(expected), "{text}");
    assert!(
        text.contains("definition etcds.example.com: serves v2 (not compared with the cluster)\n"),
        "{text}"
    );
}

/// The first bundle is not unpacked, so there is no plan.
#[tokio::test]
async fn a_subscription_without_a_plan_has_the_cause_and_the_way_out() {
    for (message, expected) in [
        (
            "bundle etcd.v1: cannot pull x:v1",
            "Subscription new has no InstallPlan: bundle etcd.v1: cannot pull x:v1; to resolve: push the bundle image, ",
        ),
        (
            "bundle etcd.v1: the pod starts",
            "Subscription new has no InstallPlan: bundle etcd.v1: the pod starts; see `kubectl operator explain new -n shop`",
        ),
        (
            "",
            "Subscription new has no InstallPlan; see `kubectl operator explain new -n shop`",
        ),
    ] {
        let cluster = FakeCluster::new();
        let spec = json!({"name": "etcd", "source": "cat", "sourceNamespace": "olm"});
        let conditions = json!([{"type": "BundleUnpacking", "status": "True", "message": message}]);
        let status = json!({"lastUpdated": null, "conditions": conditions});
        cluster.put(object(
            "Subscription",
            "new",
            &json!({"spec": spec, "status": status}),
        ));
        let (client, _link) = cluster.connect();
        let mut asked = |_: &Shown| -> anyhow::Result<bool> { panic!("nothing is asked") };
        let result = approve(&Cluster::of(client, "shop"), "new", &mut asked).await;
        let error = result.unwrap_err();
        assert!(error.to_string().starts_with(expected), "{error}");
        assert_eq!(error.is::<Unsettled>(), !message.is_empty(), "{error}");
    }
}
