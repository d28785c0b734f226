//! Plans that admission refuses because of their content, beside plans that it accepts or changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kube::ResourceExt as _;

use super::*;

const REFUSED: &str = "EnsureInstallPlanFailed";

/// Packages that wait by policy, and their messages when plans with `refused` are refused for ten minutes.
fn after_refusals(packages: &[String], refused: &[&str]) -> TestEnv {
    let window = json!({labels::UPGRADE_WINDOW: SATURDAY});
    let policies: Vec<_> = packages
        .iter()
        .map(|name| (name.as_str(), window.clone()))
        .collect();
    let mut env = with_policies(&policies);
    env.refuse_plans_with = refused.iter().map(|name| format!("{name}.v2")).collect();
    env.settle();
    let names: Vec<&str> = packages.iter().map(String::as_str).collect();
    release(&mut env, &names);
    env.advance(Duration::from_secs(600));
    env
}

/// Those that are refused come first by name.
#[test]
fn plans_that_are_refused_keep_no_others_behind_them() {
    let packages: Vec<String> = (10..29).map(|number| format!("p{number}")).collect();
    let refused: Vec<&str> = packages[..18].iter().map(String::as_str).collect();
    let mut env = after_refusals(&packages, &refused);
    assert_open_plans(&env, &[("p28.v2", false)]);
    let told = env.describe();
    assert_eq!(told.matches(REFUSED).count(), 18, "{told}");
    for name in &refused {
        assert!(told.contains(&format!("no plan with {name}.v2")), "{told}");
    }
    let written = env.writes.len();
    env.advance(Duration::from_secs(600));
    assert_eq!(env.writes.len(), written, "{:#?}", env.writes);
    // The last ones are made as well when nothing is in the way any more.
    env.refuse_plans_with.retain(|name| name.as_str() < "p18");
    env.advance(HOUR);
    assert_eq!(open_plans(&env).len(), 19 - 8, "{}", env.describe());
}

/// Neither does the one that may begin at once.
#[test]
fn a_plan_that_could_begin_and_is_refused_keeps_no_others_behind_it() {
    let mut env = with_policies(&[
        ("alone", json!({})),
        ("demo", json!({labels::UPGRADE_WINDOW: SATURDAY})),
    ]);
    env.refuse_plans_with = ["alone.v2".to_owned()].into();
    env.settle();
    release(&mut env, &["alone", "demo"]);
    env.advance(Duration::from_secs(60));
    assert_open_plans(&env, &[("demo.v2", false)]);
    // It was created before its turn, and its preview shows its changes all the same.
    let plan = env.plans().pop().unwrap();
    assert!(
        plan.annotations().contains_key(labels::PLAN_PREVIEW),
        "{:?}",
        plan.metadata
    );
    let told = env.describe();
    assert_eq!(told.matches(REFUSED).count(), 1, "{told}");
    env.refuse_plans_with.clear();
    env.advance(Duration::from_secs(600));
    assert_open_plans(&env, &[("demo.v2", false), ("alone.v2", true)]);
}

/// The stored plan differs from the one that OLM wrote: OLM accepts it, and does not create plans again and again.
#[test]
fn a_plan_that_a_webhook_changes_is_made_once() {
    let change = |plan: &mut Value, path: &str, value: Value| {
        if plan["kind"] == "InstallPlan"
            && let Some(field) = plan.pointer_mut(path)
        {
            *field = value;
        }
    };
    type Change = (&'static str, Value);
    let approved: &[Change] = &[("/spec/approved", json!(true))];
    let automatic: &[Change] = &[
        ("/spec/approved", json!(true)),
        ("/spec/approval", json!("Automatic")),
    ];
    for (changes, crashes) in [(approved, false), (approved, true), (automatic, false)] {
        let mut env = with_policies(&[("demo", json!({labels::UPGRADE_WINDOW: SATURDAY}))]);
        let of_webhook = changes.to_vec();
        env.set_webhook(move |plan| {
            for (path, value) in &of_webhook {
                change(plan, path, value.clone());
            }
        });
        // When the plan is made.
        env.crash_after = crashes.then_some(env.writes.len() + 1);
        release(&mut env, &["demo"]);
        if crashes {
            env.restart();
        }
        env.advance(HOUR);
        assert_open_plans(&env, &[("demo.v2", true)]);
        let created = env
            .writes
            .iter()
            .filter(|write| write.starts_with("create InstallPlan"));
        assert_eq!(created.count(), 2, "{:#?}", env.writes);
    }
}

/// Admission may remove the marks that distinguish our plans from those of users, and the owners.
#[test]
fn a_plan_that_loses_its_marks_on_its_way_in_is_made_once() {
    for (field, is_used) in [("generateName", true), ("ownerReferences", false)] {
        let mut env = with_policies(&[("demo", json!({}))]);
        let is_in_the_way = Arc::new(AtomicBool::new(true));
        let webhook = Arc::clone(&is_in_the_way);
        env.set_webhook(move |plan| {
            if plan["kind"] == "InstallPlan" && webhook.load(Ordering::Relaxed) {
                plan["metadata"].as_object_mut().unwrap().remove(field);
            }
        });
        let before = env.plans().len();
        release(&mut env, &["demo"]);
        env.advance(HOUR);
        // The next process does not know about the event, and creates no other plan.
        env.restart();
        env.advance(HOUR);
        assert_eq!(env.plans().len(), before + 1, "{field}: {:#?}", env.writes);
        let refusal =
            "cannot be executed without owner references, which a webhook or a restored backup has removed";
        assert_eq!(
            env.describe().contains(refusal),
            !is_used,
            "{field}: {}",
            env.describe()
        );
        let written = env.writes.len();
        env.advance(HOUR);
        assert_eq!(env.writes.len(), written, "{field}: {:#?}", env.writes);
        if is_used {
            continue;
        }
        // As the message suggests.
        is_in_the_way.store(false, Ordering::Relaxed);
        let ownerless = env
            .plans()
            .into_iter()
            .find(|plan| plan.owner_references().is_empty());
        env.delete("InstallPlan", &ownerless.unwrap().name_any());
        env.advance(Duration::from_secs(60));
        assert!(!env.describe().contains(refusal), "{}", env.describe());
        assert_open_plans(&env, &[("demo.v2", true)]);
    }
}

/// Every plan is stored as one that is not approved.
#[test]
fn an_approval_that_a_webhook_takes_back_is_repeated_after_ten_minutes() {
    let mut env = with_policies(&[("demo", json!({labels::UPGRADE_WINDOW: SATURDAY}))]);
    let is_in_the_way = Arc::new(AtomicBool::new(true));
    let webhook = Arc::clone(&is_in_the_way);
    env.set_webhook(move |plan| {
        if plan["kind"] == "InstallPlan" && webhook.load(Ordering::Relaxed) {
            plan["spec"]["approved"] = json!(false);
        }
    });
    release(&mut env, &["demo"]);
    env.advance(HOUR * 51);
    assert_open_plans(&env, &[("demo.v2", false)]);
    let written = env.writes.len();
    env.advance(Duration::from_secs(1800));
    assert!(env.writes.len() - written <= 4, "{:#?}", env.writes);
    is_in_the_way.store(false, Ordering::Relaxed);
    env.advance(Duration::from_secs(600));
    assert_open_plans(&env, &[("demo.v2", true)]);
}

/// As a webhook that saves a team the approvals. A plan created again would be changed again, and again.
#[test]
fn a_manual_plan_that_a_webhook_makes_automatic_is_made_once() {
    let mut env = TestEnv::with_catalog([bundle("demo.v1")]);
    env.set_webhook(|plan| {
        if plan["kind"] == "InstallPlan" {
            plan["spec"]["approval"] = json!("Automatic");
            plan["spec"]["approved"] = json!(true);
        }
    });
    env.subscribe("demo", &json!({"installPlanApproval": "Manual"}));
    env.settle();
    env.advance(HOUR);
    assert_open_plans(&env, &[("demo.v1", true)]);
    let created = env
        .writes
        .iter()
        .filter(|write| write.starts_with("create InstallPlan"));
    assert_eq!(created.count(), 1, "{:#?}", env.writes);
    env.carry_out_plans();
    env.settle();
    assert!(env.describe().contains("installed=demo.v1"), "{}", env.describe());
}
