//! Holds: ranges of versions that Subscriptions keep their packages within (`docs/guides/upgrade-policies.md`).

use std::fmt::Display;

use go_compat::semver::Range;
use olm_api::labels::UPGRADE_HOLD;

use crate::entry::Entry;
use crate::problem::Subscription;

/// Longest range that is read, in bytes: whoever may write annotations must not make everybody wait for its comparison.
pub const MAX_RANGE: usize = 256;

/// Characters of a range or version that messages show.
const SHOWN: usize = 80;

/// Reads a range.
///
/// # Errors
/// Why it is none, for people.
pub fn parse_range(text: &str) -> Result<Range, String> {
    if text.len() > MAX_RANGE {
        return Err(format!("it is longer than {MAX_RANGE} bytes"));
    }
    if text.trim().is_empty() {
        return Err("it is empty".to_owned());
    }
    Range::parse(text).map_err(|error| error.to_string())
}

/// A package that a Subscription holds. What cannot be read holds every version.
pub(crate) struct Hold<'a> {
    pub(crate) package: &'a str,
    subscription: &'a str,
    range: Result<Range, String>,
    /// Who holds it, for messages.
    holder: String,
}

/// Why a version is ruled out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Objection {
    /// The Subscription whose hold it is.
    pub(crate) subscription: String,
    /// By what, and what does not fit.
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

    /// Why an entry of the package may not be taken, if so.
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
