//! Plans: what happens to a namespace step by step, and the way to one version.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop where it is")]

#[allow(dead_code, reason = "expectations are for the scenarios' own test")]
mod scenario;

use std::collections::BTreeSet;

use olm_resolver::plan::{Plan, Question, Target, plan, plan_to};
use scenario::Scenario;

const CATALOG: &str = "
about: a package with two channels and a dependency
catalogs:
- name: cat
  entries:
  - {csv: etcd.v1.0.0}
  - {csv: etcd.v1.1.0, replaces: etcd.v1.0.0}
  - {csv: etcd.v1.2.0, replaces: etcd.v1.1.0, requires: [{api: Disk.v1.example.com}]}
  - {csv: etcd.v1.1.0, channel: beta, notDefaultChannel: true}
  - {csv: etcd.v2.0.0, channel: beta, notDefaultChannel: true, replaces: etcd.v1.1.0}
  - {csv: etcd.v0.9.0, channel: old, notDefaultChannel: true}
  - {csv: disk.v1.0.0, provides: [Disk.v1.example.com]}
";

fn question(objects: &str, manual: &[&str]) -> Question {
    let text = format!("{CATALOG}{objects}\nexpect: {{}}");
    let scenario: Scenario = olm_fbc::yaml::from_str(&text).unwrap();
    Question {
        problem: scenario.problem(false),
        manual: manual
            .iter()
            .map(|name| (*name).to_owned())
            .collect::<BTreeSet<_>>(),
        steps: None,
    }
}

fn installed(version: &str) -> String {
    format!(
        "installed:\n- {{csv: etcd.v{version}, package: etcd}}\nsubscriptions:\n- {{name: s, package: etcd, channel: stable, \
         installedCSV: etcd.v{version}, currentCSV: etcd.v{version}}}"
    )
}

const FRESH: &str = "subscriptions:\n- {name: s, package: etcd, channel: stable}";

fn way(objects: &str, version: &str) -> Plan {
    let target = Target {
        version: version.to_owned(),
        subscription: None,
    };
    plan_to(&question(objects, &[]), &target).unwrap()
}

#[test]
fn upgrades_go_step_by_step_to_the_head_with_what_they_bring_in() {
    let plan = plan(&question(&installed("1.0.0"), &["s"])).unwrap();
    insta::assert_snapshot!(plan, @r"
    namespace ns

    step 1
      upgrade  etcd.v1.0.0 to etcd.v1.1.0 (package etcd, channel stable, catalog cat/ns) for subscription s
      approve  the InstallPlan of subscription s, which asks for manual approval

    step 2
      install  disk.v1.0.0 (package disk, channel stable, catalog cat/ns) for subscription disk-stable-cat-ns, required by etcd.v1.2.0
      upgrade  etcd.v1.1.0 to etcd.v1.2.0 (package etcd, channel stable, catalog cat/ns) for subscription s
      approve  the InstallPlan of subscription s, which asks for manual approval
    ");
}

#[test]
fn as_json_a_plan_has_these_fields_and_no_others() {
    let plan = plan(&question(&installed("1.1.0"), &[])).unwrap();
    insta::assert_snapshot!(serde_json::to_string(&plan).unwrap(), @r#"{"namespace":"ns","install":[{"name":"disk.v1.0.0","package":"disk","channel":"stable","catalog":"cat/ns","version":"1.0.0","replaces":"","forSubscription":"disk-stable-cat-ns"},{"name":"etcd.v1.2.0","package":"etcd","channel":"stable","catalog":"cat/ns","version":"1.2.0","replaces":"etcd.v1.1.0","forSubscription":"s"}],"unsatisfiable":[]}"#);
}

#[test]
fn one_step_is_what_the_next_resolution_does() {
    let mut question = question(&installed("1.0.0"), &[]);
    question.steps = Some(1);
    let names: Vec<String> = plan(&question)
        .unwrap()
        .install
        .into_iter()
        .map(|i| i.name)
        .collect();
    assert_eq!(names, ["etcd.v1.1.0"]);
}

#[test]
fn what_cannot_be_resolved_is_one_entry_a_part_and_the_rest_is_planned() {
    let objects = format!(
        "{FRESH}\n- {{name: t, package: nope, channel: stable}}\n- {{name: u, package: etc, channel: x}}"
    );
    let plan = plan(&question(&objects, &[])).unwrap();
    assert_eq!(plan.install.len(), 2);
    let parts: Vec<&Vec<String>> = plan
        .unsatisfiable
        .iter()
        .map(|part| &part.subscriptions)
        .collect();
    assert_eq!(parts, [&["t".to_owned()], &["u".to_owned()]]);
    assert!(
        plan.unsatisfiable
            .iter()
            .all(|part| !part.message.is_empty() && !part.tree.is_empty())
    );
}

#[test]
fn what_holds_an_upgrade_back_is_told() {
    let objects = installed("1.1.0").replace("subscriptions:", "- {csv: mine.v1.0.0, provides: [Disk.v2.example.com], requires: [{package: etcd, range: <1.2.0}], package: mine}\nsubscriptions:");
    let plan = plan(&question(&objects, &[])).unwrap();
    insta::assert_snapshot!(plan, @r"
    namespace ns

    nothing to install

    held back: subscription s stays at etcd.v1.1.0
      - mine.v1.0.0 is installed and must stay, as no subscription answers for it
        - requires an operator with package: etcd and with version in range: <1.2.0
          - @existing/ns//etcd.v1.1.0 and 4 more
            - is of package etcd, as is cat/ns/stable/etcd.v1.2.0; only one may be there
              - wanted by subscription s: cat/ns/stable/etcd.v1.2.0
      - subscription s asks for package etcd, channel stable of catalog ns/cat, with etcd.v1.1.0 installed
        - cat/ns/stable/etcd.v1.2.0
          - is of package etcd, as is @existing/ns//etcd.v1.1.0 and 4 more; only one may be there
            - wanted by mine.v1.0.0: @existing/ns//etcd.v1.1.0 and 4 more
    ");
}

#[test]
fn the_way_to_a_version_on_the_channel_ends_there() {
    insta::assert_snapshot!(way(&installed("1.0.0"), "1.1.0"), @r"
    namespace ns

    step 1
      upgrade  etcd.v1.0.0 to etcd.v1.1.0 (package etcd, channel stable, catalog cat/ns) for subscription s

    note: the channel goes on after 1.1.0: to stay there, set spec.installPlanApproval of subscription s to Manual
    ");
}

#[test]
fn the_way_to_a_version_may_change_channels_where_they_meet() {
    insta::assert_snapshot!(way(&installed("1.0.0"), "v2.0.0"), @r"
    namespace ns

    step 1
      upgrade  etcd.v1.0.0 to etcd.v1.1.0 (package etcd, channel stable, catalog cat/ns) for subscription s

    step 2
      change   set spec.channel of subscription s to beta (now stable)
      upgrade  etcd.v1.1.0 to etcd.v2.0.0 (package etcd, channel beta, catalog cat/ns) for subscription s
    ");
}

#[test]
fn the_way_to_an_older_version_starts_there_if_nothing_is_installed() {
    insta::assert_snapshot!(way(FRESH, "1.1.0"), @r"
    namespace ns

    step 1
      change   create subscription s with spec.startingCSV etcd.v1.1.0
      install  etcd.v1.1.0 (package etcd, channel stable, catalog cat/ns) for subscription s

    note: the channel goes on after 1.1.0: to stay there, set spec.installPlanApproval of subscription s to Manual
    ");
}

#[test]
fn there_is_no_way_back() {
    insta::assert_snapshot!(way(&installed("1.1.0"), "0.9.0"), @r"
    namespace ns

    cannot be resolved: s
      no way from etcd.v1.1.0 to 0.9.0 for subscription s
      - package etcd of subscription s has 2.0.0, 1.2.0, 1.1.0, 1.0.0, 0.9.0
      - the channel leads to etcd.v1.2.0 instead
      - no entry of any channel leads from etcd.v1.1.0 to it by replaces, skips or skipRange; to get there, delete subscription s and its clusterserviceversion, and subscribe again with spec.startingCSV
    ");
}

#[test]
fn being_there_is_no_way() {
    assert_eq!(
        way(&installed("1.1.0"), "1.1.0").notes,
        ["subscription s has etcd.v1.1.0 already"]
    );
}

#[test]
fn a_target_nobody_has_is_an_error_that_lists_what_there_is() {
    let target = |version: &str, subscription: Option<&str>| Target {
        version: version.to_owned(),
        subscription: subscription.map(str::to_owned),
    };
    let asked = question(FRESH, &[]);
    assert_eq!(
        plan_to(&asked, &target("9.9.9", None)).unwrap_err().to_string(),
        "no package subscribed to in namespace ns has version 9.9.9: package etcd of subscription s has 2.0.0, 1.2.0, 1.1.0, \
         1.0.0, 0.9.0"
    );
    assert_eq!(
        plan_to(&asked, &target("1.0.0", Some("t")))
            .unwrap_err()
            .to_string(),
        "namespace ns has no subscription t: its subscriptions are s"
    );
}

/// However large a catalog, what is told fits a condition, with upstream's line first.
#[test]
fn explanations_stay_within_their_limit() {
    let entries: String = (1..1500)
        .map(|i| {
            format!(
                "  - {{csv: big.v1.{i}.0, replaces: big.v1.{}.0, requires: [{{api: Gone{i}.v1.example.com}}]}}\n",
                i - 1
            )
        })
        .collect();
    let text = format!(
        "about: large\ncatalogs:\n- name: cat\n  entries:\n{entries}subscriptions:\n- {{name: s, package: big, channel: \
         stable}}\nexpect: {{}}"
    );
    let scenario: Scenario = olm_fbc::yaml::from_str(&text).unwrap();
    let resolution = olm_resolver::resolve(&scenario.problem(false)).unwrap();
    let failure = &resolution.failures[0];
    for limit in [
        olm_resolver::explain::CONDITION_LIMIT,
        olm_resolver::explain::EVENT_LIMIT,
    ] {
        let told = failure.text(&["do something".to_owned()], limit);
        assert!(told.len() <= limit, "{} of {limit}", told.len());
        assert!(told.starts_with("constraints not satisfiable: bundle big.v1."));
        assert!(told.contains("\n- subscription s asks for package big"), "{told}");
        assert!(told.ends_with("to resolve: do something"));
    }
}
