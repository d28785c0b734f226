//! What annotations of a Subscription say about its upgrades (`docs/guides/upgrade-policies.md`). Pure.
//!
//! A value that cannot be read counts as the most careful one: nothing is approved without a user.

mod window;

use std::collections::BTreeMap;

use go_compat::semver::{Range, Version};
use jiff::Timestamp;
use olm_api::labels;
use olm_resolver::hold::parse_range;

use self::window::Window;

/// Characters of an annotation's value that messages show.
const SHOWN: usize = 80;

/// Bytes of an annotation that are kept, so that what is too long to be read is known to be.
pub(crate) const MAX_KEPT: usize = 512;

/// Annotations of a Subscription that are a policy.
pub(crate) const KEYS: [&str; 4] = [
    labels::UPGRADE_APPROVE,
    labels::UPGRADE_HOLD,
    labels::UPGRADE_STOP_AFTER_FAILURE,
    labels::UPGRADE_WINDOW,
];

/// What one annotation demands.
#[derive(Debug, Clone)]
enum Demand {
    /// Only upgrades that leave the major version, and the minor one if `minor` is false, as they are.
    AtMost {
        minor: bool,
    },
    Within(Range),
    Window(Window),
    NoFailure,
    /// It asks for nothing.
    Nothing,
}

/// One annotation.
#[derive(Debug, Clone)]
struct Rule {
    key: &'static str,
    /// What it says, no longer than messages show.
    value: String,
    /// What it demands, or why it cannot be read.
    demand: Result<Demand, String>,
}

/// The policy of one Subscription.
#[derive(Debug, Clone)]
pub(crate) struct UpgradePolicy {
    subscription: String,
    rules: Vec<Rule>,
}

/// An upgrade, or a first install, as far as a policy looks at it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Upgrade<'a> {
    /// Its ClusterServiceVersion.
    pub csv: &'a str,
    /// Its version, if known.
    pub to: Option<&'a Version>,
    /// What is installed.
    pub from: Option<&'a InstalledVersion>,
    /// The upgrade before it failed.
    pub after_failure: bool,
    /// What is installed has neither succeeded so far nor failed.
    pub is_unsettled: bool,
}

/// What a Subscription has.
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
    /// The annotation.
    pub annotation: &'static str,
    /// The Subscription that has it.
    pub subscription: String,
    /// What is waited for, for people.
    pub text: String,
    /// When it ends by itself.
    pub until: Option<Timestamp>,
}

impl UpgradePolicy {
    /// The policy that these annotations of a Subscription are; none if none of them is one.
    pub(crate) fn read(subscription: &str, annotations: &BTreeMap<String, String>) -> Option<Self> {
        let rules = KEYS.iter().filter_map(|&key| {
            let text = annotations.get(key)?;
            Some(Rule {
                key,
                value: shown(text),
                demand: read(key, text),
            })
        });
        let rules: Vec<Rule> = rules.collect();
        (!rules.is_empty()).then(|| Self {
            subscription: subscription.to_owned(),
            rules,
        })
    }

    /// What cannot be read, for people.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let unreadable = self.rules.iter().filter_map(|rule| {
            let error = rule.demand.as_ref().err()?;
            let Rule { key, value, .. } = rule;
            Some(format!(
                "invalid annotation {key}: {value:?}: {error}; upgrades wait for approval"
            ))
        });
        unreadable.collect()
    }

    /// What keeps an upgrade from being approved by itself.
    pub(crate) fn waits(&self, upgrade: &Upgrade<'_>, now: Timestamp) -> Vec<Wait> {
        let waits = self.rules.iter().filter_map(|rule| self.wait(rule, upgrade, now));
        waits.collect()
    }

    fn wait(&self, rule: &Rule, upgrade: &Upgrade<'_>, now: Timestamp) -> Option<Wait> {
        let Upgrade {
            csv,
            to,
            from,
            after_failure,
            is_unsettled,
        } = *upgrade;
        let mut until = None;
        let what = match &rule.demand {
            Ok(Demand::Nothing) => return None,
            Ok(Demand::AtMost { minor }) => {
                let from = from.filter(|from| !is_within(from.version.as_ref(), to, *minor))?;
                let size = if *minor { "minor or patch" } else { "patch" };
                format!("{csv} is not a {size} release after {}", from.csv)
            }
            Ok(Demand::Within(range)) => {
                if to.is_some_and(|to| range.contains(to)) {
                    return None;
                }
                format!("{csv} is outside the range (delete the InstallPlan and OLM creates a new one)")
            }
            Ok(Demand::Window(window)) => {
                let opens = window.opens(now)?;
                until = Some(opens.timestamp());
                let opens = opens.timestamp().display_with_offset(opens.offset());
                format!("the maintenance window opens at {opens}")
            }
            Ok(Demand::NoFailure) if after_failure => "the last upgrade failed".to_owned(),
            Ok(Demand::NoFailure) => {
                let from = from.filter(|_| is_unsettled)?;
                format!("{} has not succeeded yet", from.csv)
            }
            Err(error) => format!("the annotation is invalid ({error})"),
        };
        let (annotation, value) = (rule.key, &rule.value);
        let subscription = &self.subscription;
        Some(Wait {
            annotation,
            subscription: subscription.clone(),
            text: format!("{what}: annotation {annotation}: {value:?} of Subscription {subscription}"),
            until,
        })
    }
}

fn read(key: &str, text: &str) -> Result<Demand, String> {
    match key {
        labels::UPGRADE_APPROVE => match text {
            "patch" => Ok(Demand::AtMost { minor: false }),
            "minor" => Ok(Demand::AtMost { minor: true }),
            "all" => Ok(Demand::Nothing),
            _ => Err("expected patch, minor or all".to_owned()),
        },
        labels::UPGRADE_HOLD => parse_range(text).map(Demand::Within),
        labels::UPGRADE_WINDOW => Window::parse(text).map(Demand::Window),
        _ => match text {
            labels::TRUE => Ok(Demand::NoFailure),
            "false" => Ok(Demand::Nothing),
            _ => Err("expected true or false".to_owned()),
        },
    }
}

/// Whether an upgrade is no larger than the limit; one whose versions are not known may be of any size.
fn is_within(from: Option<&Version>, to: Option<&Version>, minor: bool) -> bool {
    let Some((from, to)) = from.zip(to) else {
        return false;
    };
    to >= from && to.major == from.major && (minor || to.minor == from.minor)
}

fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-11-22T12:00:00Z";

    fn policy(annotations: &[(&str, &str)]) -> UpgradePolicy {
        let annotations = annotations.iter();
        let annotations = annotations
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        UpgradePolicy::read("demo-sub", &annotations).unwrap()
    }

    fn version(text: &str) -> Option<Version> {
        Version::parse(text).ok()
    }

    fn waits(annotations: &[(&str, &str)], from: &str, to: &str, after_failure: bool) -> Vec<Wait> {
        let (to, installed) = (
            version(to),
            InstalledVersion {
                csv: "demo.old".to_owned(),
                version: version(from),
            },
        );
        let upgrade = Upgrade {
            csv: "demo.new",
            to: to.as_ref(),
            from: (!from.is_empty()).then_some(&installed),
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
            // Nothing is known of the one or the other.
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
    fn what_is_waited_for_is_told_with_the_annotation() {
        let told = |annotations: &[(&str, &str)]| {
            let waits = waits(annotations, "1.0.0", "2.0.0", true);
            let lines: Vec<String> = waits.into_iter().map(|wait| wait.text).collect();
            lines.join("\n")
        };
        insta::assert_snapshot!(told(&[
            (labels::UPGRADE_APPROVE, "patch"),
            (labels::UPGRADE_HOLD, "<2.0.0"),
            (labels::UPGRADE_STOP_AFTER_FAILURE, "true"),
            (labels::UPGRADE_WINDOW, "Sat 02:00 4h Europe/Berlin"),
        ]), @r#"
        demo.new is not a patch release after demo.old: annotation operatorframework.io/upgrade-approve: "patch" of Subscription demo-sub
        demo.new is outside the range (delete the InstallPlan and OLM creates a new one): annotation operatorframework.io/upgrade-hold: "<2.0.0" of Subscription demo-sub
        the last upgrade failed: annotation operatorframework.io/upgrade-stop-after-failure: "true" of Subscription demo-sub
        the maintenance window opens at 2026-11-28T02:00:00+01:00: annotation operatorframework.io/upgrade-window: "Sat 02:00 4h Europe/Berlin" of Subscription demo-sub
        "#);
        insta::assert_snapshot!(told(&[
            (labels::UPGRADE_APPROVE, "little"),
            (labels::UPGRADE_HOLD, ""),
            (labels::UPGRADE_STOP_AFTER_FAILURE, "yes"),
            (labels::UPGRADE_WINDOW, "at night"),
        ]), @r#"
        the annotation is invalid (expected patch, minor or all): annotation operatorframework.io/upgrade-approve: "little" of Subscription demo-sub
        the annotation is invalid (it is empty): annotation operatorframework.io/upgrade-hold: "" of Subscription demo-sub
        the annotation is invalid (expected true or false): annotation operatorframework.io/upgrade-stop-after-failure: "yes" of Subscription demo-sub
        the annotation is invalid (expected <days> <start> <duration> [<time zone>]): annotation operatorframework.io/upgrade-window: "at night" of Subscription demo-sub
        "#);
    }

    #[test]
    fn what_allows_the_upgrade_does_not_wait() {
        let rows = [
            (labels::UPGRADE_APPROVE, "minor"),
            (labels::UPGRADE_HOLD, "<2.0.0"),
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
    fn what_cannot_be_read_is_complained_of_and_other_annotations_are_no_policy() {
        let none = [("olm.generated-by".to_owned(), "p".to_owned())].into();
        assert!(UpgradePolicy::read("demo-sub", &none).is_none());
        let long = "x".repeat(100_000);
        let complaints =
            policy(&[(labels::UPGRADE_HOLD, &long), (labels::UPGRADE_APPROVE, "patch")]).complaints();
        assert_eq!(complaints.len(), 1);
        assert!(
            complaints[0].len() < 400 && complaints[0].contains(labels::UPGRADE_HOLD),
            "{complaints:?}"
        );
    }
}
