//! Subscriptions that cannot be resolved: reasons, hints and advice.

use super::*;

/// However large a catalog, the text fits a condition, with upstream's line first.
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
    let hints = olm_resolver::Hints::new(&scenario.problem(false));
    for limit in [
        olm_resolver::explain::CONDITION_LIMIT,
        olm_resolver::explain::EVENT_LIMIT,
    ] {
        let told = failure.text(&hints, &["to resolve: do something".to_owned()], limit);
        assert!(told.len() <= limit, "{} of {limit}", told.len());
        assert!(told.starts_with("constraints not satisfiable: bundle big.v1."));
        assert!(told.contains("\n- subscription s asks for package big"), "{told}");
        assert!(told.ends_with("to resolve: do something"));
    }
}

pub(super) const CONFLICT: &str = "
catalogs:
- name: cat
  entries:
  - {csv: disk.v1.0.0, provides: [Disk.v1.example.com]}
  - {csv: store.v1.0.0, provides: [Disk.v1.example.com]}
installed:
- {csv: disk.v1.0.0, package: disk, provides: [Disk.v1.example.com]}
subscriptions:
- {name: prod-disk, package: disk, channel: stable, installedCSV: disk.v1.0.0, currentCSV: disk.v1.0.0}
- {name: NEW, package: store, channel: stable}
";

/// Whatever the names are, running operators are removed last, with a mark.
#[test]
fn what_does_not_run_yet_is_given_up_before_what_runs() {
    for name in ["z-new", "a-new"] {
        let (part, text) = told(&scenario(&CONFLICT.replace("NEW", name)));
        let advice: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("to resolve"))
            .collect();
        assert_eq!(
            advice,
            [
                format!("to resolve: delete subscription {name} in namespace ns, if it is not needed")
                    .as_str(),
                "to resolve: delete subscription prod-disk and clusterserviceversion disk.v1.0.0 in namespace ns, if it is \
                 not needed [destroys what runs: disk.v1.0.0]",
            ]
        );
        assert_eq!(part.advice.fixes.len(), 2);
    }
}

/// The catalog is the cause and the way out, whether it was deleted or cannot be read.
#[test]
fn nothing_that_runs_is_given_up_for_a_catalog() {
    let objects = "
catalogs: []
installed:
- {csv: disk.v1.0.0, package: disk, provides: [Disk.v1.example.com]}
subscriptions:
- {name: disk, package: disk, channel: stable, installedCSV: disk.v1.0.0, currentCSV: disk.v1.0.0}
";
    let (part, text) = told(&scenario(objects));
    assert!(part.advice.fixes.is_empty() && !part.advice.is_stuck, "{text}");
    let flat = text.lines().map(str::trim_start).collect::<Vec<_>>().join(" ");
    assert!(
        flat.ends_with(
            "- catalog ns/cat does not exist: add it again (kubectl operator catalog add cat IMAGE -n ns), or set spec.source of \
             subscription disk to one that exists"
        ),
        "{text}"
    );
    // Only a catalog that a Subscription names may be all that is missing.
    let down = CONFLICT.replace(
        "installed:",
        "- {name: down, unavailable: connection refused}\ninstalled:",
    );
    let named = format!("{down}- {{name: other, package: other, channel: stable, source: down}}\n");
    for (objects, is_destructive) in [(&down, true), (&named, false)] {
        let text = plan(&scenario(objects)).unwrap().to_string();
        assert!(
            text.contains("to resolve: delete subscription NEW in namespace ns, if it is not needed"),
            "{text}"
        );
        let destroys = text.contains("prod-disk and clusterserviceversion");
        assert_eq!(destroys, is_destructive, "{text}");
    }
}

/// A Subscription that was deleted and is applied again finds its operator running.
#[test]
fn a_running_operator_is_adopted_before_anything_is_deleted() {
    let objects = "
catalogs:
- name: cat
  entries:
  - {csv: shop.v1.0.0, provides: [Shop.v1.example.com]}
  - {csv: shop.v1.1.0, replaces: shop.v1.0.0, provides: [Shop.v1.example.com]}
installed:
- {csv: shop.v1.1.0, package: shop, phase: PHASE, provides: [Shop.v1.example.com]}
subscriptions:
- {name: shop, package: shop, channel: stable, startingCSV: 'START'}";
    let advice = |phase: &str, start: &str| -> Vec<String> {
        let (_, text) = told(&scenario(
            &objects.replace("PHASE", phase).replace("START", start),
        ));
        let lines = text.lines().filter(|line| line.starts_with("to resolve"));
        lines.map(str::to_owned).collect()
    };
    let adoption = "to resolve: set spec.startingCSV of subscription shop to shop.v1.1.0";
    let deletions = [
        "to resolve: delete subscription shop in namespace ns, if it is not needed",
        "to resolve: delete clusterserviceversion shop.v1.1.0 in namespace ns, if it is not needed [destroys what runs: \
         shop.v1.1.0]",
    ];
    assert_eq!(advice("Succeeded", ""), [adoption, deletions[0], deletions[1]]);
    let other = advice("Succeeded", "shop.v1.0.0");
    assert_eq!(other[0], format!("{adoption} (now shop.v1.0.0)"));
    // One that is on its way out is not adopted.
    assert_eq!(advice("Deleting", ""), deletions);
}

/// The Subscription was deleted and is applied again while both versions of a failed upgrade exist.
#[test]
fn the_newest_version_of_a_failed_upgrade_is_adopted() {
    let objects = "
catalogs:
- name: cat
  entries:
  - {csv: shop.v1.0.0, provides: [Shop.v1.example.com]}
  - {csv: shop.v1.1.0, replaces: shop.v1.0.0, provides: [Shop.v1.example.com]}
installed:
- {csv: shop.v1.0.0, package: shop, phase: Replacing, provides: [Shop.v1.example.com]}
- {csv: shop.v1.1.0, package: shop, phase: Failed, replaces: shop.v1.0.0, provides: [Shop.v1.example.com]}
subscriptions:
- {name: shop, package: shop, channel: stable}";
    let (part, text) = told(&scenario(objects));
    assert!(!part.advice.is_stuck, "{text}");
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("to resolve"))
        .collect();
    let adoption = "to resolve: set spec.startingCSV of subscription shop to shop.v1.1.0; it failed: correct the cause then, or go \
                    back to shop.v1.0.0";
    assert_eq!(lines, [adoption]);
}

/// Nothing newer than the version that failed: failing forward leads nowhere.
#[test]
fn a_failed_upgrade_leads_back_or_forward_and_destroys_nothing() {
    let objects = "
catalogs:
- name: cat
  entries:
  - {csv: etcd.v1.0.0, provides: [K.v1.g]}
  - {csv: etcd.v2.0.0, replaces: etcd.v1.0.0, provides: [K.v1.g]}
NEWER
installed:
- {csv: etcd.v1.0.0, package: etcd, phase: Replacing, provides: [K.v1.g]}
- {csv: etcd.v2.0.0, package: etcd, phase: Failed, replaces: etcd.v1.0.0, provides: [K.v1.g]}
subscriptions:
- {name: s, package: etcd, channel: stable, installedCSV: etcd.v2.0.0, currentCSV: CURRENT}";
    let back = "to resolve: correct the cause, or go back to etcd.v1.0.0: kubectl operator rollback s -n ns";
    let forward = "to resolve: set spec.upgradeStrategy of the OperatorGroup in namespace ns to TechPreviewUnsafeFailForward";
    let newer = "  - {csv: etcd.v3.0.0, replaces: etcd.v2.0.0, provides: [K.v1.g]}";
    for (newer, current, expected) in [
        ("", "etcd.v2.0.0", vec![back]),
        (newer, "etcd.v2.0.0", vec![back, forward]),
        // The plan of the newer version waits for approval.
        (newer, "etcd.v3.0.0", vec![back]),
    ] {
        let objects = objects.replace("NEWER", newer).replace("CURRENT", current);
        let (part, text) = told(&scenario(&objects));
        let advice = text.lines().filter(|line| line.starts_with("to resolve"));
        assert_eq!(advice.collect::<Vec<_>>(), expected);
        assert!(!part.advice.is_stuck);
    }
}

/// Returns a chain of requirements, the last of which is not met.
pub(super) fn chain(length: usize) -> String {
    let entries: String = (0..length)
        .map(|index| {
            format!(
                "  - {{csv: c{index}.v1.0.0, provides: [K{index}.v1.example.com], requires: [{{api: K{}.v1.example.com}}]}}\n",
                index + 1
            )
        })
        .collect();
    format!(
        "catalogs:\n- name: cat\n  entries:\n{entries}subscriptions:\n- {{name: s, package: c0, channel: stable}}"
    )
}

#[test]
fn the_root_cause_of_a_long_chain_is_kept_and_the_cut_is_marked() {
    for length in [20, 40, 300] {
        let (part, text) = told(&scenario(&chain(length)));
        assert!(part.message.chars().count() > 300);
        let first = text.lines().next().unwrap();
        assert!(first.chars().count() < 300, "{first}");
        assert!(
            first.contains(&format!("c{}.v1.0.0 requires an operator", length - 1)),
            "{first}"
        );
        let tree: Vec<&str> = text
            .lines()
            .skip(1)
            .filter(|line| !line.starts_with("to resolve"))
            .collect();
        assert!(tree.len() < 40, "{}", tree.len());
        assert!(tree.iter().all(|line| line.chars().count() <= 118), "{text}");
        assert!(text.contains("statements in between are omitted"), "{text}");
        assert!(text.contains(&format!("kind: K{length}")), "{text}");
        assert!(
            text.contains("not installed, and no usable catalog offers it"),
            "{text}"
        );
        let json = serde_json::to_string(&part.tree).unwrap();
        serde_json::from_str::<serde_json::Value>(&json).expect("readers of JSON follow so deep");
        assert!(
            json.contains(&format!("kind: K{length}")),
            "the whole tree has it, too"
        );
    }
}

#[test]
fn existing_versions_are_listed_if_a_range_fits_none() {
    let (_, text) = told(&scenario(
        "catalogs:
- name: cat
  entries:
  - {csv: disk.v1.0.0}
  - {csv: disk.v2.0.0, replaces: disk.v1.0.0}
  - {csv: etcd.v1.0.0, requires: [{package: disk, range: '>=9.0.0'}, {api: Store.v2.example.com}]}
  - {csv: store.v1.0.0, provides: [Store.v1.example.com]}
subscriptions:
- {name: s, package: etcd, channel: stable}",
    ));
    assert!(
        text.contains("package disk has 2.0.0, 1.0.0 in catalog ns/cat")
            || text.contains("Store of example.com is offered in version v1, by store.v1.0.0 for example"),
        "{text}"
    );
}

#[test]
fn a_subscription_without_a_package_reports_the_missing_field() {
    let (_, text) = told(&question(
        "subscriptions:\n- {name: s, package: '', channel: stable}",
        &[],
    ));
    assert!(
        text.contains("the subscription names no package: set spec.name"),
        "{text}"
    );
}

#[test]
fn a_misspelt_name_is_recognised_and_its_correction_tried() {
    let objects = |spec: &str| format!("subscriptions:\n- {{name: s, {spec}}}");
    for (spec, hint, fix) in [
        (
            "package: etdc, channel: stable",
            "no catalog offers package etdc; the namespace can use ns/cat; did you mean etcd, which catalog ns/cat has?",
            "to resolve: set spec.name of subscription s to etcd (now etdc)",
        ),
        (
            "package: etcd, channel: stabel",
            "channels of package etcd: beta, old, stable; did you mean stable?",
            "to resolve: set spec.channel of subscription s to stable (now stabel)",
        ),
        (
            "package: etcd, channel: stable, source: catt",
            "catalog ns/catt does not exist: add it again (kubectl operator catalog add catt IMAGE -n ns), or set spec.source of \
             subscription s to one that exists; did you mean ns/cat?",
            "to resolve: set spec.source of subscription s to cat and spec.sourceNamespace to ns (now catalog ns/catt)",
        ),
        (
            "package: etcd, channel: stable, startingCSV: etcd.v1.1.1",
            "the channel has etcd.v1.2.0, etcd.v1.1.0, etcd.v1.0.0; did you mean etcd.v1.1.0?",
            "to resolve: recreate subscription s without spec.startingCSV (now etcd.v1.1.1)",
        ),
    ] {
        let (_, text) = told(&question(&objects(spec), &[]));
        let flat = text.lines().map(str::trim_start).collect::<Vec<_>>().join(" ");
        assert!(flat.contains(hint), "{text}");
        let advice = text.lines().find(|line| line.starts_with("to resolve"));
        assert_eq!(advice, Some(fix), "{text}");
    }
    let target = Target {
        version: "1.0.0".to_owned(),
        subscription: Some("ss".to_owned()),
    };
    let error = plan_to(&question(FRESH, &[]), &target).unwrap_err().to_string();
    assert!(
        error.ends_with("; did you mean s?") || error.ends_with("its subscriptions are s"),
        "{error}"
    );
}

#[test]
fn every_subscription_of_a_failing_part_has_its_reason() {
    let (part, text) = told(&scenario(
        "catalogs:
- name: cat
  entries:
  - {csv: disk.v1.0.0, provides: [Disk.v1.example.com]}
  - {csv: etcd.v1.0.0, requires: [{api: Gone.v1.example.com}, {api: Disk.v1.example.com}]}
installed:
- {csv: mine.v1.0.0, package: mine, requires: [{package: disk, range: '>=1.0.0'}]}
subscriptions:
- {name: d, package: disk, channel: stable}
- {name: s, package: etcd, channel: stable}",
    ));
    assert_eq!(part.subscriptions, ["d", "s"]);
    assert!(text.contains("- subscription s asks for package etcd"), "{text}");
    assert!(
        text.contains("- subscription d waits with them: etcd.v1.0.0 (channel stable of catalog ns/cat) must be resolved first"),
        "{text}"
    );
    assert!(text.contains("to resolve: delete subscription s"), "{text}");
}

/// Neither can be served by itself, and their connection hides neither reason.
#[test]
fn a_subscription_that_fails_by_itself_has_its_own_reason_beside_the_others() {
    let (part, text) = told(&scenario(
        "catalogs:
- name: cat
  entries:
  - {csv: other.v1.0.0}
installed:
- {csv: lower.v1.0.0, package: lower, provides: [Demo.v1.example.com]}
- {csv: upper.v1.0.0, package: upper, requires: [{api: Demo.v1.example.com}]}
subscriptions:
- {name: lower, package: lower, channel: stable, installedCSV: lower.v1.0.0, currentCSV: lower.v1.0.0}
- {name: upper, package: upper, channel: stable, installedCSV: upper.v1.0.0, currentCSV: upper.v1.0.0}",
    ));
    assert_eq!(part.subscriptions, ["lower", "upper"]);
    for name in ["lower", "upper"] {
        let own = format!(
            "- subscription {name}: no operators found in package {name} in the catalog referenced by"
        );
        assert!(text.contains(&own), "{text}");
    }
    assert!(!text.contains("waits with them"), "{text}");
}

/// Returns packages of these names, each with a Subscription, that all provide one API.
fn rivals(names: &[&str]) -> Question {
    let entries = names
        .iter()
        .map(|name| format!("\n  - {{csv: {name}.v1.0.0, provides: [Disk.v1.example.com]}}"));
    let subscriptions = names
        .iter()
        .map(|name| format!("\n- {{name: {name}, package: {name}, channel: stable}}"));
    let (entries, subscriptions) = (entries.collect::<String>(), subscriptions.collect::<String>());
    scenario(&format!(
        "catalogs:\n- name: cat\n  entries:{entries}\nsubscriptions:{subscriptions}"
    ))
}

#[test]
fn it_is_reported_if_no_single_change_helps() {
    let (part, text) = told(&rivals(&["a", "b", "c"]));
    assert!(part.advice.is_stuck && part.advice.fixes.is_empty());
    assert!(text.ends_with("no single change helps"), "{text}");
}

/// A thousand versions need missing packages. Each name could be compared with a thousand others; only the
/// displayed ones are, so that the budget suffices.
#[test]
fn hints_are_looked_for_only_for_what_is_shown() {
    let needed: String = (1..=1_000)
        .map(|i| {
            format!(
                "  - {{csv: big.v1.{i}.0, replaces: big.v1.{}.0, requires: [{{package: provider-{i}x, range: '>=1.0.0'}}]}}\n",
                i - 1
            )
        })
        .collect();
    let there: String = (1..=1_000)
        .map(|i| format!("  - {{csv: provider-{i}.v1.0.0}}\n"))
        .collect();
    let question = scenario(&format!(
        "catalogs:\n- name: cat\n  entries:\n{needed}{there}subscriptions:\n- {{name: s, package: big, channel: stable}}"
    ));
    let (part, _) = told(&question);
    let text = part.tree[0].lines().join("\n");
    assert_eq!(text.matches("did its author mean provider-").count(), 4, "{text}");
}
