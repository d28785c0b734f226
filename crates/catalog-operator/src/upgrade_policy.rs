//! Upgrade policies: annotations of a `Manual` Subscription by which OLM approves some of its InstallPlans
//! (`docs/guides/upgrade-policies.md`). Pure, except for the controller that applies them ([`reconciler`]).
//!
//! An invalid value counts as the strictest one: nothing is approved without a user.

pub(crate) mod reconciler;

use std::collections::BTreeSet;

use go_compat::semver::Version;
use jiff::Timestamp;
use kube::ResourceExt;
use olm_api::labels;
use olm_api::v1alpha1::{InstallPlan, Subscription};
use olm_resolver::explain::cut;
use olm_resolver::policy::{Demand, POLICIES, WAITS_FOR_CORRECTION, invalid};

/// Bytes of an annotation's value that messages show.
const SHOWN: usize = 80;

/// Maximum bytes of an annotation that are kept: enough to detect that it is too long.
pub(crate) const MAX_KEPT: usize = 512;

/// Returns true for annotations about upgrades.
pub(crate) fn is_about_upgrades(key: &str) -> bool {
    key == labels::UPGRADE_HOLD || POLICIES.contains(&key)
}

/// Returns true if the Subscription is `Manual` and has a policy.
pub(crate) fn has_policy(subscription: &Subscription) -> bool {
    let annotations = subscription.annotations();
    subscription.spec.is_manual() && POLICIES.iter().any(|key| annotations.contains_key(*key))
}

/// Returns true if the Subscription is `Manual` and has no policy.
pub(crate) fn needs_user(subscription: &Subscription) -> bool {
    subscription.spec.is_manual() && !has_policy(subscription)
}

/// Returns true if the plan waits because of a policy, as the controller has found.
pub(crate) fn waits_by_policy(plan: &InstallPlan) -> bool {
    plan.waits_for_approval() && plan.annotations().contains_key(labels::UPGRADE_WAITS)
}

/// Returns the Subscriptions for which the plan waits because of a failure before it.
pub(crate) fn stopped(plan: &InstallPlan) -> BTreeSet<String> {
    let names = plan.annotations().get(labels::UPGRADE_STOPPED);
    let names = names.into_iter().flat_map(|names| names.split(','));
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// Returns what is wrong with the annotations of a Subscription, for its events.
pub(crate) fn problems(subscription: &Subscription) -> Vec<String> {
    let is_manual = subscription.spec.is_manual();
    let without_effect = POLICIES.iter().filter(|key| {
        let annotations = subscription.annotations();
        !is_manual && annotations.contains_key(**key)
    });
    let without_effect = without_effect.map(|key| {
        format!("annotation {key} has no effect: upgrade policies need installPlanApproval: Manual")
    });
    let invalid = invalid(subscription).into_iter();
    let invalid = invalid.filter(|found| is_manual || found.key == labels::UPGRADE_HOLD);
    let invalid = invalid.map(|found| found.to_string());
    without_effect.chain(invalid).collect()
}

/// One annotation.
#[derive(Debug, Clone)]
struct Rule {
    key: &'static str,
    /// Its value, no longer than messages show.
    value: String,
    /// Its requirement, or why it is invalid.
    demand: Result<Demand, String>,
}

/// The policy of one Subscription.
#[derive(Debug, Clone)]
pub(crate) struct UpgradePolicy {
    subscription: String,
    rules: Vec<Rule>,
}

/// An upgrade, or a first installation.
#[derive(Debug, Clone)]
pub(crate) struct Upgrade {
    /// Its ClusterServiceVersion.
    pub csv: String,
    /// Its version, if known.
    pub to: Option<Version>,
    /// The installed version.
    pub from: Option<InstalledVersion>,
    /// The upgrade before it failed.
    pub after_failure: bool,
    /// The installed version has neither succeeded so far nor failed.
    pub is_unsettled: bool,
}

/// The installed version of a Subscription.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct InstalledVersion {
    /// The ClusterServiceVersion.
    pub csv: String,
    /// Its version, if known.
    pub version: Option<Version>,
}

/// A reason to wait.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Wait {
    /// Reason and annotation, for people.
    pub text: String,
    /// When it ends by itself.
    pub until: Option<Timestamp>,
}

impl UpgradePolicy {
    /// Returns the policy of a Subscription; `None` if it has none.
    pub(crate) fn read(subscription: &Subscription) -> Option<Self> {
        if !has_policy(subscription) {
            return None;
        }
        let keys = POLICIES.into_iter().chain([labels::UPGRADE_HOLD]);
        let rules = keys.filter_map(|key| {
            let text = subscription.annotations().get(key)?;
            Some(Rule {
                key,
                value: cut(text, SHOWN),
                demand: Demand::read(key, text),
            })
        });
        Some(Self {
            subscription: subscription.name_any(),
            rules: rules.collect(),
        })
    }

    /// Returns the Subscription that has the policy.
    pub(crate) fn subscription(&self) -> &str {
        &self.subscription
    }

    /// Returns true if the policy waits for a user after a failure.
    pub(crate) fn stops_after_failure(&self) -> bool {
        let mut rules = self.rules.iter();
        rules.any(|rule| matches!(rule.demand, Ok(Demand::NoFailure)))
    }

    /// Returns the reasons not to approve an upgrade.
    pub(crate) fn waits(&self, upgrade: &Upgrade, now: Timestamp) -> Vec<Wait> {
        let waits = self.rules.iter().filter_map(|rule| self.wait(rule, upgrade, now));
        waits.collect()
    }

    fn wait(&self, rule: &Rule, upgrade: &Upgrade, now: Timestamp) -> Option<Wait> {
        let Upgrade { csv, to, from, .. } = upgrade;
        let mut until = None;
        let what = match &rule.demand {
            Ok(Demand::Nothing) => return None,
            Ok(Demand::AtMost { minor }) => {
                let from = from.as_ref()?;
                if is_within(from.version.as_ref(), to.as_ref(), *minor) {
                    return None;
                }
                let size = if *minor { "minor or patch" } else { "patch" };
                format!("{csv} is not a {size} release after {}", from.csv)
            }
            Ok(Demand::Window(window)) => {
                let opens = window.opens(now)?;
                until = Some(opens.timestamp());
                let opens = opens.timestamp().display_with_offset(opens.offset());
                format!("the maintenance window opens at {opens}")
            }
            Ok(Demand::NoFailure) if upgrade.after_failure => "the last upgrade failed".to_owned(),
            Ok(Demand::NoFailure) => {
                let from = from.as_ref().filter(|_| upgrade.is_unsettled)?;
                format!("{} has not succeeded yet", from.csv)
            }
            Ok(Demand::Within(range)) => {
                if to.as_ref().is_some_and(|to| range.contains(to)) {
                    return None;
                }
                format!("{csv} is outside the held range")
            }
            Err(error) => format!("{WAITS_FOR_CORRECTION} ({error})"),
        };
        let Rule { key, value, .. } = rule;
        let subscription = &self.subscription;
        Some(Wait {
            text: format!("{what}: annotation {key}: {value:?} of Subscription {subscription}"),
            until,
        })
    }
}

/// True if an upgrade does not exceed the limit; one with an unknown version may be of any size.
fn is_within(from: Option<&Version>, to: Option<&Version>, minor: bool) -> bool {
    let Some((from, to)) = from.zip(to) else {
        return false;
    };
    to >= from && to.major == from.major && (minor || to.minor == from.minor)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    const NOW: &str = "2026-11-22T12:00:00Z";

    fn subscription(approval: &str, annotations: &[(&str, &str)]) -> Subscription {
        let annotations: BTreeMap<&str, &str> = annotations.iter().copied().collect();
        let object = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
            "metadata": {"name": "demo-sub", "namespace": "ns", "annotations": annotations},
            "spec": {"name": "demo", "source": "cat", "sourceNamespace": "ns", "installPlanApproval": approval}});
        serde_json::from_value(object).unwrap()
    }

    fn policy(annotations: &[(&str, &str)]) -> UpgradePolicy {
        UpgradePolicy::read(&subscription("Manual", annotations)).unwrap()
    }

    fn version(text: &str) -> Option<Version> {
        Version::parse(text).ok()
    }

    fn waits(annotations: &[(&str, &str)], from: &str, to: &str, after_failure: bool) -> Vec<Wait> {
        let installed = InstalledVersion {
            csv: "demo.old".to_owned(),
            version: version(from),
        };
        let upgrade = Upgrade {
            csv: "demo.new".to_owned(),
            to: version(to),
            from: (!from.is_empty()).then_some(installed),
            after_failure,
            is_unsettled: false,
        };
        policy(annotations).waits(&upgrade, NOW.parse().unwrap())
    }

    #[test]
    fn small_upgrades_approve_themselves_and_larger_ones_wait() {
        // Which of them wait at patch, and at minor.
        let rows = [
            ("1.0.0", "1.0.1", false, false),
            ("1.0.0", "1.1.0", true, false),
            ("1.9.9", "2.0.0", true, true),
            ("0.1.0", "1.1.0", true, true),
            // The graph may lead to a lower version.
            ("1.1.1", "1.1.0", true, true),
            // One of the versions is unknown.
            ("about one", "1.0.1", true, true),
            ("1.0.0", "about one", true, true),
            // The first install.
            ("", "1.0.0", false, false),
        ];
        for (from, to, patch, minor) in rows {
            let waits = |value| !waits(&[(labels::UPGRADE_APPROVE, value)], from, to, false).is_empty();
            assert_eq!((waits("patch"), waits("minor")), (patch, minor), "{from} {to}");
            assert!(!waits("all") && waits("Patch"), "{from} {to}");
        }
    }

    #[test]
    fn what_is_waited_for_is_reported_with_the_annotation() {
        let told = |annotations: &[(&str, &str)]| {
            let waits = waits(annotations, "1.0.0", "2.0.0", true);
            let lines: Vec<String> = waits.into_iter().map(|wait| wait.text).collect();
            lines.join("\n")
        };
        insta::assert_snapshot!(told(&[
            (labels::UPGRADE_APPROVE, "patch"),
            (labels::UPGRADE_STOP_AFTER_FAILURE, "true"),
            (labels::UPGRADE_WINDOW, "Sat 02:00 4h Europe/Berlin"),
        ]), @r#"
        demo.new is not a patch release after demo.old: annotation operatorframework.io/upgrade-approve: "patch" of Subscription demo-sub
        the last upgrade failed: annotation operatorframework.io/upgrade-stop-after-failure: "true" of Subscription demo-sub
        the maintenance window opens at 2026-11-28T02:00:00+01:00: annotation operatorframework.io/upgrade-window: "Sat 02:00 4h Europe/Berlin" of Subscription demo-sub
        "#);
        insta::assert_snapshot!(told(&[
            (labels::UPGRADE_APPROVE, "little"),
            (labels::UPGRADE_STOP_AFTER_FAILURE, "yes"),
            (labels::UPGRADE_WINDOW, "at night"),
        ]), @r#"
        the annotation is invalid (expected patch, minor or all): annotation operatorframework.io/upgrade-approve: "little" of Subscription demo-sub
        the annotation is invalid (expected true or false): annotation operatorframework.io/upgrade-stop-after-failure: "yes" of Subscription demo-sub
        the annotation is invalid (expected <days> <start> <duration> [<time zone>]): annotation operatorframework.io/upgrade-window: "at night" of Subscription demo-sub
        "#);
    }

    #[test]
    fn what_allows_the_upgrade_does_not_wait() {
        let rows = [
            (labels::UPGRADE_APPROVE, "minor"),
            (labels::UPGRADE_STOP_AFTER_FAILURE, "true"),
            (labels::UPGRADE_STOP_AFTER_FAILURE, "false"),
            (labels::UPGRADE_WINDOW, "daily 11:00 2h"),
        ];
        for row in rows {
            assert_eq!(waits(&[row], "1.0.0", "1.1.0", false), Vec::new(), "{row:?}");
        }
        let failed = waits(
            &[(labels::UPGRADE_STOP_AFTER_FAILURE, "false")],
            "1.0.0",
            "1.1.0",
            true,
        );
        assert_eq!(failed, Vec::new());
    }

    #[test]
    fn a_window_says_when_it_ends_the_wait() {
        let waits = waits(
            &[(labels::UPGRADE_WINDOW, "Mon 02:00 4h")],
            "1.0.0",
            "1.0.1",
            false,
        );
        assert_eq!(waits[0].until, "2026-11-23T02:00:00Z".parse().ok());
    }

    #[test]
    fn problems_name_the_annotation() {
        let long = "x".repeat(100_000);
        let found = problems(&subscription(
            "Manual",
            &[(labels::UPGRADE_HOLD, &long), (labels::UPGRADE_APPROVE, "patch")],
        ));
        assert_eq!(found.len(), 1);
        assert!(
            found[0].len() < 400 && found[0].contains(labels::UPGRADE_HOLD),
            "{found:?}"
        );
        let found = problems(&subscription(
            "Automatic",
            &[
                (labels::UPGRADE_HOLD, "<2.0.0"),
                (labels::UPGRADE_APPROVE, "patch"),
            ],
        ));
        let expected = "annotation operatorframework.io/upgrade-approve has no effect: upgrade policies need installPlanApproval: Manual";
        assert_eq!(found, [expected]);
    }

    #[test]
    fn only_manual_subscriptions_have_policies() {
        let approve = &[(labels::UPGRADE_APPROVE, "patch")][..];
        let hold = &[(labels::UPGRADE_HOLD, "<2.0.0")][..];
        // Subscription, has a policy, needs a user.
        let rows = [
            ("Manual", approve, true, false),
            ("Manual", hold, false, true),
            ("Manual", &[], false, true),
            ("Automatic", approve, false, false),
            ("", approve, false, false),
        ];
        for (approval, annotations, policy, user) in rows {
            let found = subscription(approval, annotations);
            assert_eq!(
                (has_policy(&found), needs_user(&found)),
                (policy, user),
                "{found:?}"
            );
            assert_eq!(UpgradePolicy::read(&found).is_some(), policy);
        }
    }
}
