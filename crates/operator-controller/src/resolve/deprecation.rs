//! Conditions about deprecations.

use olm_api::condition::cluster_extension as texts;
use olm_api::condition::{FALSE, TRUE, UNKNOWN};
use olm_fbc::schema::{DeprecationEntry, schemas};

/// Returns type, status, reason and message of the four conditions about deprecations: of anything, of the package, of a wanted channel,
/// of the installed bundle.
///
/// `channels` are the wanted ones, none for all. `installed` is the name of the installed bundle, and may differ from the one that
/// resolution chose. Without `deprecations` no catalog could be read. Entries without a message do not count.
pub fn deprecation_conditions(
    channels: &[String],
    installed: Option<&str>,
    deprecations: Option<&[DeprecationEntry]>,
) -> [(&'static str, &'static str, &'static str, String); 4] {
    let messages = |matches: &dyn Fn(&DeprecationEntry) -> bool| {
        let entries = deprecations.unwrap_or_default().iter();
        entries
            .filter(|entry| !entry.message.is_empty() && matches(entry))
            .map(|entry| entry.message.as_str())
            .collect::<Vec<_>>()
    };
    let package = messages(&|entry| entry.reference.schema == schemas::PACKAGE);
    let channel = messages(&|entry| {
        entry.reference.schema == schemas::CHANNEL
            && (channels.is_empty() || channels.contains(&entry.reference.name))
    });
    let bundle = messages(&|entry| {
        entry.reference.schema == schemas::BUNDLE && installed == Some(entry.reference.name.as_str())
    });
    let all = [&package[..], &channel[..], &bundle[..]].concat();
    let condition = |type_: &'static str, messages: &[&str], otherwise: &str| {
        let (status, reason, message) = if deprecations.is_none() {
            let message = texts::DEPRECATION_STATUS_UNKNOWN_MESSAGE.to_owned();
            (UNKNOWN, texts::DEPRECATION_STATUS_UNKNOWN, message)
        } else if messages.is_empty() {
            (FALSE, texts::NOT_DEPRECATED, otherwise.to_owned())
        } else {
            (TRUE, texts::REASON_DEPRECATED, messages.join("\n"))
        };
        (type_, status, reason, message)
    };
    let of_bundle = match installed {
        Some(_) => condition(
            texts::BUNDLE_DEPRECATED,
            &bundle,
            texts::BUNDLE_NOT_DEPRECATED_MESSAGE,
        ),
        None => {
            let message = texts::NO_BUNDLE_YET_MESSAGE.to_owned();
            (texts::BUNDLE_DEPRECATED, UNKNOWN, texts::ABSENT, message)
        }
    };
    [
        condition(texts::DEPRECATED, &all, texts::NOT_DEPRECATED_MESSAGE),
        condition(
            texts::PACKAGE_DEPRECATED,
            &package,
            texts::PACKAGE_NOT_DEPRECATED_MESSAGE,
        ),
        condition(
            texts::CHANNEL_DEPRECATED,
            &channel,
            texts::CHANNEL_NOT_DEPRECATED_MESSAGE,
        ),
        of_bundle,
    ]
}

#[cfg(test)]
mod tests {
    use olm_fbc::schema::Reference;

    use super::*;

    fn entry(schema: &str, name: &str, message: &str) -> DeprecationEntry {
        DeprecationEntry {
            reference: Reference {
                schema: schema.to_owned(),
                name: name.to_owned(),
            },
            message: message.to_owned(),
            ..DeprecationEntry::default()
        }
    }

    fn printed(
        channels: &[&str],
        installed: Option<&str>,
        known: Option<&[DeprecationEntry]>,
    ) -> Vec<String> {
        let channels: Vec<String> = channels.iter().map(|&channel| channel.to_owned()).collect();
        deprecation_conditions(&channels, installed, known)
            .into_iter()
            .map(|(type_, status, reason, message)| format!("{type_} {status} {reason} {message:?}"))
            .collect()
    }

    #[test]
    fn deprecations_are_reported_with_the_messages_of_the_catalog() {
        let entries = [
            entry(schemas::PACKAGE, "", "use b"),
            entry(schemas::CHANNEL, "alpha", "use stable"),
            entry(schemas::CHANNEL, "beta", "use beta2"),
            entry(schemas::CHANNEL, "gamma", ""),
            entry(schemas::BUNDLE, "a.v1", "too old"),
        ];
        assert_eq!(
            printed(&[], Some("a.v1"), Some(&entries)),
            [
                r#"Deprecated True Deprecated "use b\nuse stable\nuse beta2\ntoo old""#,
                r#"PackageDeprecated True Deprecated "use b""#,
                r#"ChannelDeprecated True Deprecated "use stable\nuse beta2""#,
                r#"BundleDeprecated True Deprecated "too old""#,
            ]
        );
        assert_eq!(
            printed(&["beta", "gamma"], Some("a.v2"), Some(&entries[1..])),
            [
                r#"Deprecated True Deprecated "use beta2""#,
                r#"PackageDeprecated False NotDeprecated "package not deprecated""#,
                r#"ChannelDeprecated True Deprecated "use beta2""#,
                r#"BundleDeprecated False NotDeprecated "bundle not deprecated""#,
            ]
        );
    }

    #[test]
    fn nothing_is_claimed_without_catalog_or_bundle() {
        assert_eq!(
            printed(&["gamma"], None, Some(&[])),
            [
                r#"Deprecated False NotDeprecated "not deprecated""#,
                r#"PackageDeprecated False NotDeprecated "package not deprecated""#,
                r#"ChannelDeprecated False NotDeprecated "channel not deprecated""#,
                r#"BundleDeprecated Unknown Absent "no bundle installed yet""#,
            ]
        );
        let unknown =
            r#"Unknown DeprecationStatusUnknown "deprecation status unknown: catalog data unavailable""#;
        assert_eq!(
            printed(&[], Some("a.v1"), None),
            [
                "Deprecated",
                "PackageDeprecated",
                "ChannelDeprecated",
                "BundleDeprecated"
            ]
            .map(|type_| format!("{type_} {unknown}"))
        );
    }
}
