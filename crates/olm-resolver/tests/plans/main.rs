//! Plans: the steps of a namespace, and the way to one version.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop where it is")]

#[allow(dead_code, reason = "expectations are for the scenarios' own test")]
#[path = "../scenario/mod.rs"]
mod scenario;

mod failures;
mod json;

use std::collections::BTreeSet;

use olm_resolver::plan::{Plan, Question, Target, Unsatisfiable, plan, plan_to};
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
        ..Question::default()
    }
}

fn scenario(text: &str) -> Question {
    let scenario: Scenario =
        olm_fbc::yaml::from_str(&format!("about: a case\n{text}\nexpect: {{}}")).unwrap();
    Question {
        problem: scenario.problem(false),
        ..Question::default()
    }
}

/// Returns the only part that fails, and its printed text.
fn told(question: &Question) -> (Unsatisfiable, String) {
    let plan = plan(question).unwrap();
    let [part] = plan.unsatisfiable.as_slice() else {
        panic!("{plan}");
    };
    (part.clone(), part.lines("ns").join("\n"))
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
      upgrade  etcd.v1.0.0 to etcd.v1.1.0 (package etcd, channel stable, catalog ns/cat) for subscription s
      approve  the InstallPlan of subscription s, which requires approval

    step 2
      install  disk.v1.0.0 (package disk, channel stable, catalog ns/cat) for subscription disk-stable-cat-ns, required by etcd.v1.2.0
      upgrade  etcd.v1.1.0 to etcd.v1.2.0 (package etcd, channel stable, catalog ns/cat) for subscription s
      approve  the InstallPlan of subscription s, which requires approval
    ");
}

#[test]
fn what_a_hold_keeps_back_is_reported_with_the_annotation() {
    let mut question = question(&installed("1.0.0"), &[]);
    question.problem.subscriptions[0].hold = Some("<1.1.0".to_owned());
    insta::assert_snapshot!(plan(&question).unwrap(), @r"
    namespace ns

    nothing to install

    held back: subscription s stays at etcd.v1.0.0
      - subscription s asks for package etcd, channel stable of catalog ns/cat, with etcd.v1.0.0 installed
        - etcd.v1.1.0 (channel stable of catalog ns/cat)
          - is held by annotation operatorframework.io/upgrade-hold of Subscription ns/s: 1.1.0 is not in <1.1.0
    ");
    // It is upgraded as far as the hold allows.
    question.problem.subscriptions[0].hold = Some("<1.2.0".to_owned());
    let plan = plan(&question).unwrap();
    let names: Vec<&str> = plan.install().map(|install| install.name.as_str()).collect();
    assert_eq!(names, ["etcd.v1.1.0"]);
}

#[test]
fn one_step_is_what_the_next_resolution_does() {
    let mut question = question(&installed("1.0.0"), &[]);
    question.steps = Some(1);
    let names: Vec<String> = plan(&question)
        .unwrap()
        .install()
        .map(|i| i.name.clone())
        .collect();
    assert_eq!(names, ["etcd.v1.1.0"]);
}

#[test]
fn what_cannot_be_resolved_is_one_entry_a_part_and_the_rest_is_planned() {
    let objects = format!(
        "{FRESH}\n- {{name: t, package: nope, channel: stable}}\n- {{name: u, package: etc, channel: x}}"
    );
    let plan = plan(&question(&objects, &[])).unwrap();
    assert_eq!(plan.install().count(), 2);
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
fn what_holds_an_upgrade_back_is_reported() {
    let objects = installed("1.1.0").replace("subscriptions:", "- {csv: mine.v1.0.0, provides: [Disk.v2.example.com], requires: [{package: etcd, range: <1.2.0}], package: mine}\nsubscriptions:");
    let plan = plan(&question(&objects, &[])).unwrap();
    insta::assert_snapshot!(plan, @r"
    namespace ns

    nothing to install

    held back: subscription s stays at etcd.v1.1.0
      - mine.v1.0.0 is installed without a subscription, so OLM may not replace it
        - requires an operator with package: etcd and with version in range: <1.2.0
          - etcd.v1.1.0 (installed) and 4 more
            - is of package etcd, as is etcd.v1.2.0 (channel stable of catalog ns/cat); only one may be installed
              - required by subscription s: etcd.v1.2.0 (channel stable of catalog ns/cat)
      - subscription s asks for package etcd, channel stable of catalog ns/cat, with etcd.v1.1.0 installed
        - etcd.v1.2.0 (channel stable of catalog ns/cat)
          - is of package etcd, as is etcd.v1.1.0 (installed) and 4 more; only one may be installed
            - required by mine.v1.0.0: etcd.v1.1.0 (installed) and 4 more
    ");
}

#[test]
fn the_way_to_a_version_on_the_channel_ends_there() {
    insta::assert_snapshot!(way(&installed("1.0.0"), "1.1.0"), @r"
    namespace ns

    step 1
      upgrade  etcd.v1.0.0 to etcd.v1.1.0 (package etcd, channel stable, catalog ns/cat) for subscription s

    note: the channel continues after 1.1.0: to stay there, set spec.installPlanApproval of subscription s to Manual
    ");
}

#[test]
fn the_way_to_a_version_may_change_channels_where_they_meet() {
    insta::assert_snapshot!(way(&installed("1.0.0"), "v2.0.0"), @r"
    namespace ns

    step 1
      upgrade  etcd.v1.0.0 to etcd.v1.1.0 (package etcd, channel stable, catalog ns/cat) for subscription s

    step 2
      change   set spec.channel of subscription s to beta (now stable)
      upgrade  etcd.v1.1.0 to etcd.v2.0.0 (package etcd, channel beta, catalog ns/cat) for subscription s
    ");
}

#[test]
fn the_way_to_an_older_version_starts_there_if_nothing_is_installed() {
    insta::assert_snapshot!(way(FRESH, "1.1.0"), @r"
    namespace ns

    step 1
      change   create subscription s with spec.startingCSV etcd.v1.1.0
      install  etcd.v1.1.0 (package etcd, channel stable, catalog ns/cat) for subscription s

    note: the channel continues after 1.1.0: to stay there, set spec.installPlanApproval of subscription s to Manual
    ");
}

#[test]
fn steps_beyond_the_limit_are_reported() {
    let limited = |steps: usize| {
        let mut question = question(&installed("1.0.0"), &[]);
        question.steps = Some(steps);
        plan(&question).unwrap()
    };
    assert!(
        limited(1).to_string().contains("\nmore steps follow"),
        "{}",
        limited(1)
    );
    assert_eq!(serde_json::to_value(limited(1)).unwrap()["moreSteps"], true);
    assert!(!limited(2).to_string().contains("more steps"), "{}", limited(2));
    assert_eq!(serde_json::to_value(limited(2)).unwrap()["moreSteps"], false);
}

#[test]
fn there_is_no_way_back() {
    insta::assert_snapshot!(way(&installed("1.1.0"), "0.9.0"), @r"
    namespace ns

    cannot be resolved: s
      no path from etcd.v1.1.0 to 0.9.0 for subscription s
      - package etcd of subscription s has 2.0.0, 1.2.0, 1.1.0, 1.0.0, 0.9.0
      - without --target the plan shows where the channel leads
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

#[test]
fn a_version_without_a_way_to_the_head_is_held_back() {
    let plan = plan(&question(&installed("0.9.0"), &[])).unwrap();
    insta::assert_snapshot!(plan, @r"
    namespace ns

    nothing to install

    held back: subscription s stays at etcd.v0.9.0: no entry leads from etcd.v0.9.0 to etcd.v1.2.0
      - no entry of channel stable in catalog ns/cat names etcd.v0.9.0 in replaces or skips, or has its version in a
        skipRange
      - another channel may have an upgrade path: see --target of `kubectl operator plan` and `opm plan`; else the publisher
        of the catalog has to add one, or delete subscription s and clusterserviceversion etcd.v0.9.0, and subscribe again
        [destroys what runs: etcd.v0.9.0]
    ");
}

/// During an upgrade the old version is still present, in phase Replacing.
#[test]
fn what_is_being_replaced_does_not_stand_in_the_way_of_later_steps() {
    let plan = plan(&scenario(
        "catalogs:
- name: cat
  entries:
  - {csv: etcd.v1.0.0, provides: [Etcd.v1.example.com]}
  - {csv: etcd.v1.1.0, replaces: etcd.v1.0.0, provides: [Etcd.v1.example.com]}
  - {csv: etcd.v1.2.0, replaces: etcd.v1.1.0, provides: [Etcd.v1.example.com], requires: [{api: Disk.v1.example.com}]}
  - {csv: etcd.v1.3.0, replaces: etcd.v1.2.0, provides: [Etcd.v1.example.com], requires: [{api: Disk.v1.example.com}]}
  - {csv: disk.v1.0.0, provides: [Disk.v1.example.com]}
installed:
- {csv: etcd.v1.0.0, package: etcd, phase: Replacing, provides: [Etcd.v1.example.com]}
- {csv: etcd.v1.1.0, package: etcd, phase: Succeeded, replaces: etcd.v1.0.0, provides: [Etcd.v1.example.com]}
subscriptions:
- {name: s, package: etcd, channel: stable, installedCSV: etcd.v1.1.0, currentCSV: etcd.v1.1.0}",
    ))
    .unwrap();
    assert!(plan.unsatisfiable.is_empty(), "{plan}");
    let names: Vec<&str> = plan.install().map(|install| install.name.as_str()).collect();
    assert_eq!(names, ["disk.v1.0.0", "etcd.v1.2.0", "etcd.v1.3.0"]);
}

/// Two operators without Subscriptions exclude each other in all steps, but are reported once.
#[test]
fn an_operator_without_subscription_fails_once_and_not_in_each_step() {
    let objects = installed("1.0.0").replace(
        "subscriptions:",
        "- {csv: one.v1.0.0, package: one, provides: [Same.v1.example.com]}\n- {csv: two.v1.0.0, package: two, provides: \
         [Same.v1.example.com]}\nsubscriptions:",
    );
    let plan = plan(&question(&objects, &[])).unwrap();
    assert_eq!(plan.steps.len(), 2, "{plan}");
    let [part] = plan.unsatisfiable.as_slice() else {
        panic!("{plan}");
    };
    assert_eq!(part.concerned(), ["one.v1.0.0", "two.v1.0.0"]);
    assert!(
        plan.to_string()
            .contains("cannot be resolved: one.v1.0.0, two.v1.0.0"),
        "{plan}"
    );
}
