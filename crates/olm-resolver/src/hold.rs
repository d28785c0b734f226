//! Holds: ranges of versions that Subscriptions keep their packages within (`docs/guides/upgrade-policies.md`).

use std::fmt::Display;

use go_compat::semver::Range;
use olm_api::labels::UPGRADE_HOLD;

use crate::entry::Entry;
use crate::problem::Subscription;

/// Maximum length of a range, in bytes: a user who may write annotations must not delay everyone by its
/// comparison.
pub const MAX_RANGE: usize = 256;

/// Maximum characters of a range or version that messages show.
const SHOWN: usize = 80;

/// Parses a range.
///
/// # Errors
/// Describes the fault to users.
pub fn parse_range(text: &str) -> Result<Range, String> {
    if text.len() > MAX_RANGE {
        return Err(format!("longer than {MAX_RANGE} bytes"));
    }
    if text.trim().is_empty() {
        return Err("it is empty".to_owned());
    }
    Range::parse(text).map_err(|error| error.to_string())
}

/// A package that a Subscription holds. An unreadable hold excludes every version.
pub(crate) struct Hold<'a> {
    pub(crate) package: &'a str,
    subscription: &'a str,
    range: Result<Range, String>,
    /// Description of the holder, for messages.
    holder: String,
}

/// A version is ruled out by a hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Objection {
    /// The Subscription with the hold.
    pub(crate) subscription: String,
    /// The hold, and why the version does not match it.
    pub(crate) message: String,
}

impl<'a> Hold<'a> {
    pub(crate) fn of(namespace: &str, subscription: &'a Subscription) -> Option<Self> {
        let text = subscription.hold.as_deref()?;
        Some(Self {
            package: &subscription.package,
            subscription: &subscription.name,
            range: parse_range(text),
            holder: format!(
                "held by annotation {UPGRADE_HOLD} of Subscription {namespace}/{}",
                subscription.name
            ),
        })
    }

    /// Returns the objection to an entry of the package, if there is one.
    pub(crate) fn objection(&self, entry: &Entry) -> Option<Objection> {
        let (holder, version) = (&self.holder, entry.version.as_ref());
        let message = match &self.range {
            Ok(range) if version.is_some_and(|version| range.contains(version)) => return None,
            Ok(range) => {
                let version = version.map_or_else(|| "its version".to_owned(), shown);
                format!("{holder}: {version} is not in {}", shown(range))
            }
            Err(error) => format!("{holder}, which cannot be read: {error}"),
        };
        Some(Objection {
            subscription: self.subscription.to_owned(),
            message,
        })
    }
}

fn shown(value: &impl Display) -> String {
    value.to_string().chars().take(SHOWN).collect()
}
