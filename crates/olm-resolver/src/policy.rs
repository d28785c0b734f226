//! Upgrade policies: annotations of a Subscription about its upgrades, and the values that they can have
//! (`docs/guides/upgrade-policies.md`).

pub mod window;

use std::fmt;

use go_compat::semver::Range;
use kube_core::ResourceExt;
use olm_api::labels;
use olm_api::v1alpha1::Subscription;

use self::window::Window;
use crate::explain::cut;
use crate::hold::parse_range;

/// Beginning of the reason why an InstallPlan waits for an invalid annotation, which does not end by itself.
pub const WAITS_FOR_CORRECTION: &str = "the annotation is invalid";
/// Maximum bytes of an annotation's value in a message.
const SHOWN: usize = 80;

/// Annotations of a Subscription that are a policy. `upgrade-hold` is none: the resolver applies it, for every approver.
pub const POLICIES: [&str; 3] = [
    labels::UPGRADE_APPROVE,
    labels::UPGRADE_STOP_AFTER_FAILURE,
    labels::UPGRADE_WINDOW,
];

/// Requirement of one annotation.
#[derive(Debug, Clone)]
pub enum Demand {
    /// Only upgrades that leave the major version as it is.
    AtMost {
        /// True if the minor version may change.
        minor: bool,
    },
    /// Only within these times.
    Window(Window),
    /// Not after a failed upgrade.
    NoFailure,
    /// Only versions that the resolver may choose, too: a plan may be older than the hold.
    Within(Range),
    /// It asks for nothing.
    Nothing,
}

impl Demand {
    /// Reads the value of an annotation: one of [`POLICIES`], or the hold.
    ///
    /// # Errors
    /// The value is invalid; the error describes the fault to users.
    pub fn read(key: &str, text: &str) -> Result<Self, String> {
        match key {
            labels::UPGRADE_APPROVE => match text {
                "patch" => Ok(Self::AtMost { minor: false }),
                "minor" => Ok(Self::AtMost { minor: true }),
                "all" => Ok(Self::Nothing),
                _ => Err("expected patch, minor or all".to_owned()),
            },
            labels::UPGRADE_WINDOW => Window::parse(text).map(Self::Window),
            labels::UPGRADE_HOLD => parse_range(text).map(Self::Within),
            _ => match text {
                labels::TRUE => Ok(Self::NoFailure),
                "false" => Ok(Self::Nothing),
                _ => Err("expected true or false".to_owned()),
            },
        }
    }
}

/// An annotation about upgrades with an invalid value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid {
    /// The annotation.
    pub key: &'static str,
    /// Its value, no longer than messages show.
    pub value: String,
    /// The fault of the value.
    pub error: String,
    /// Its effect until it is corrected.
    pub effect: &'static str,
}

impl Invalid {
    /// Returns a valid value.
    pub fn example(&self) -> &'static str {
        match self.key {
            labels::UPGRADE_APPROVE => "minor",
            labels::UPGRADE_WINDOW => "Sat,Sun 02:00 4h",
            labels::UPGRADE_HOLD => "<2.0.0",
            _ => labels::TRUE,
        }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            key,
            value,
            error,
            effect,
        } = self;
        write!(f, "invalid annotation {key}: {value:?}: {error}; {effect}")
    }
}

/// Returns the annotations about upgrades of a Subscription whose values are invalid.
pub fn invalid(subscription: &Subscription) -> Vec<Invalid> {
    let annotations = subscription.annotations();
    let is_manual = subscription.spec.is_manual();
    let keys = POLICIES.into_iter().chain([labels::UPGRADE_HOLD]);
    let invalid = keys.filter_map(|key| {
        let text = annotations.get(key)?;
        let effect = match key {
            labels::UPGRADE_HOLD => "no other version is installed until it is corrected",
            _ if is_manual => "upgrades wait for approval",
            _ => "upgrade policies need installPlanApproval: Manual, too",
        };
        Some(Invalid {
            key,
            value: cut(text, SHOWN),
            error: Demand::read(key, text).err()?,
            effect,
        })
    });
    invalid.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(approval: &str, key: &str, value: &str) -> Vec<Invalid> {
        let object = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
            "metadata": {"name": "db", "annotations": {key: value}},
            "spec": {"name": "etcd", "source": "cat", "sourceNamespace": "ns", "installPlanApproval": approval}});
        invalid(&serde_json::from_value(object).unwrap())
    }

    #[test]
    fn invalid_values_are_reported_with_an_example_that_is_valid() {
        let rows = [
            (
                "Automatic",
                labels::UPGRADE_HOLD,
                "~1.0",
                "no other version is installed",
            ),
            (
                "Manual",
                labels::UPGRADE_WINDOW,
                "Mon 99:00",
                "upgrades wait for approval",
            ),
            (
                "Automatic",
                labels::UPGRADE_WINDOW,
                "Mon 99:00",
                "need installPlanApproval: Manual",
            ),
            (
                "Manual",
                labels::UPGRADE_APPROVE,
                "little",
                "upgrades wait for approval",
            ),
            (
                "Manual",
                labels::UPGRADE_STOP_AFTER_FAILURE,
                "yes",
                "upgrades wait for approval",
            ),
        ];
        for (approval, key, value, effect) in rows {
            let found = of(approval, key, value);
            let [found] = &found[..] else {
                panic!("{key}: {found:?}");
            };
            let text = found.to_string();
            assert!(
                text.starts_with(&format!("invalid annotation {key}: {value:?}: ")),
                "{text}"
            );
            assert!(text.contains(effect), "{text}");
            assert!(of(approval, key, found.example()).is_empty(), "{key}");
        }
        assert!(of("Manual", "operatorframework.io/other", "~1.0").is_empty());
    }
}
